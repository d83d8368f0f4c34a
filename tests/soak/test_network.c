/* A store (real) and `kvshelf serve` (real, a process) with a network between them that is slow,
 * loses packets, and is cut: two network namespaces, and the kernel's own netem where it has that.
 * Skipped where this user may not make namespaces.
 *
 * What it asserts: not one wrong byte, no call that hangs, hits that come back when the network
 * does. What it measures it prints: how long calls took in each state of the network. */
#include "base/clock.h"
#include "kvshelf/kvshelf.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    PAGE_BYTES = 4096,
    PAGES = 64,
    BATCH = 32,
    KEY_BYTES = 72,
    STATE_MS = 700, /* of work in each state of the network */
    CUT_MS = 2000,
    HANG_MS = 20000, /* a call that takes as long, or hits that take as long to come back */
};
static const char port[] = "18000";

static char ns[32], dir[TEMP_DIR_MAX], url[64];
static pid_t server;

/* Runs words separated by blanks; whether it succeeded. */
static bool run(const char *line)
{
    char text[256], *words[32], *rest = NULL;
    size_t n = 0;
    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        words[n++] = word;
    words[n] = NULL;
    pid_t pid;
    int status;
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", 1, 0);
    bool good = posix_spawnp(&pid, words[0], &quiet, NULL, words, environ) == 0 &&
                waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    posix_spawn_file_actions_destroy(&quiet);
    return good;
}

#define RUN(...) (snprintf(line, sizeof(line), __VA_ARGS__), run(line))

static bool make_network(void)
{
    char line[256];
    unsigned id = (unsigned)getpid() % 60000;
    snprintf(ns, sizeof(ns), "kvshelf-%u", id);
    snprintf(url, sizeof(url), "http://10.213.%u.1:%s", id % 250, port);
    return RUN("ip netns add %s", ns) &&
           RUN("ip link add kvs%u type veth peer name kvt%u netns %s", id, id, ns) &&
           RUN("ip addr add 10.213.%u.2/24 dev kvs%u", id % 250, id) &&
           RUN("ip link set kvs%u up", id) &&
           RUN("ip -n %s addr add 10.213.%u.1/24 dev kvt%u", ns, id % 250, id) &&
           RUN("ip -n %s link set kvt%u up", ns, id);
}

/* Packets to the server vanish, or no longer. */
static bool cut(bool away)
{
    char line[256];
    unsigned id = (unsigned)getpid() % 60000;
    return RUN("ip -n %s addr %s 10.213.%u.1/24 dev kvt%u", ns, away ? "del" : "add", id % 250, id);
}

static bool set_network(const char *what)
{
    char line[256];
    return RUN("tc qdisc replace dev kvs%u root netem %s", (unsigned)getpid() % 60000, what);
}

static void start_server(void)
{
    char host[32];
    snprintf(host, sizeof(host), "10.213.%u.1", (unsigned)getpid() % 60000 % 250);
    const char *const words[] = {"ip",         "netns",       "exec",  ns,       "./kvshelf",
                                 "serve",      "--host",      host,    "--port", port,
                                 "--insecure", "--log-level", "error", NULL};
    /* posix_spawnp() takes arguments that are not const and does not write to them. */
    assert_int_equal(posix_spawnp(&server, "ip", NULL, NULL, (char **)(uintptr_t)words, environ),
                     0);
}

/* ---- Pages ---------------------------------------------------------------------------------- */

static char texts[BATCH][KEY_BYTES];
static const char *keys[BATCH];
static uint8_t bytes[BATCH][PAGE_BYTES];
static void *buffers[BATCH];
static bool results[BATCH];

static void fill(uint8_t page[PAGE_BYTES], unsigned key)
{
    for (unsigned i = 0; i < PAGE_BYTES; i++)
        page[i] = (uint8_t)(key * 37 + i * 11 + i / 256);
}

struct figures {
    uint64_t calls, hits, exists_max_ns, call_max_ns;
};

static void took(uint64_t begin_ns, uint64_t *max_ns, struct figures *figures)
{
    uint64_t ns_taken = clock_mono_ns() - begin_ns;
    figures->calls++;
    if (ns_taken > *max_ns)
        *max_ns = ns_taken;
    assert_true(ns_taken / 1000000 < HANG_MS);
}

/* One request of an engine: what is there is loaded and compared, what is not is stored. */
static void request(struct kvs_store *store, struct figures *figures)
{
    uint64_t begin_ns = clock_mono_ns();
    size_t n = kvs_store_batch_exists(store, KVS_POOL_KV, BATCH, keys);
    took(begin_ns, &figures->exists_max_ns, figures);
    begin_ns = clock_mono_ns();
    memset(bytes, 0xee, sizeof(bytes));
    kvs_store_batch_get(store, KVS_POOL_KV, BATCH, keys, buffers, results);
    took(begin_ns, &figures->call_max_ns, figures);
    for (unsigned i = 0; i < BATCH; i++) {
        uint8_t expected[PAGE_BYTES];
        fill(expected, i);
        if (results[i])
            assert_memory_equal(bytes[i], expected, PAGE_BYTES);
        figures->hits += results[i];
        memcpy(bytes[i], expected, PAGE_BYTES);
    }
    if (n == BATCH)
        return;
    begin_ns = clock_mono_ns();
    kvs_store_batch_set(store, KVS_POOL_KV, BATCH, keys, (const void *const *)buffers, results);
    took(begin_ns, &figures->call_max_ns, figures);
}

static void work(struct kvs_store *store, const char *what, int ms)
{
    struct figures figures = {0};
    uint64_t begin_ns = clock_mono_ns();
    do {
        request(store, &figures);
        poll(NULL, 0, 1);
    } while ((clock_mono_ns() - begin_ns) / 1000000 < (uint64_t)ms);
    printf("%-34s %6" PRIu64 " calls, %7" PRIu64 " pages loaded, longest exists %5.1f ms, longest "
           "other call %7.1f ms\n",
           what, figures.calls, figures.hits, (double)figures.exists_max_ns / 1e6,
           (double)figures.call_max_ns / 1e6);
}

static void wait_for_hits(struct kvs_store *store)
{
    struct figures figures = {0};
    uint64_t begin_ns = clock_mono_ns();
    while (figures.hits == 0) {
        request(store, &figures);
        poll(NULL, 0, 1);
        assert_true((clock_mono_ns() - begin_ns) / 1000000 < HANG_MS);
    }
    printf("%-34s %.0f ms\n", "the first hit after it, within",
           (double)(clock_mono_ns() - begin_ns) / 1e6);
}

static struct kvs_store *open_store(void)
{
    char prefix[TEMP_DIR_MAX + 16];
    struct kvs_store_options options;
    struct kvs_store *store;
    struct kvs_error error;
    kvs_store_options_init(&options);
    snprintf(prefix, sizeof(prefix), "%s/pages", temp_dir_make(dir));
    options.file_path_prefix = prefix;
    options.file_size = PAGES * PAGE_BYTES;
    options.bytes_per_page = PAGE_BYTES;
    options.numjobs = 2;
    options.client_timeout = 1;
    options.metadata_server_url = url;
    if (kvs_store_open(&options, &store, &error) != KVS_OK)
        fail_msg("%s", error.message);
    return store;
}

static void test_delay_loss_and_partition(void **state)
{
    (void)state;
    if (!make_network())
        skip();
    start_server();
    for (unsigned i = 0; i < BATCH; i++) {
        snprintf(texts[i], KEY_BYTES, "%064x", i);
        keys[i] = texts[i];
        buffers[i] = bytes[i];
    }
    struct kvs_store *store = open_store();
    work(store, "nothing in the way", STATE_MS);
    if (set_network("delay 20ms 5ms")) {
        work(store, "20 ms later", STATE_MS);
        assert_true(set_network("delay 2ms loss 5%"));
        work(store, "2 ms later, 5 % of packets lost", STATE_MS);
        assert_true(set_network("delay 0ms"));
    } else {
        printf("this kernel has no netem: neither delay nor loss\n");
    }
    assert_true(cut(true));
    work(store, "cut", CUT_MS);
    assert_true(cut(false));
    wait_for_hits(store);
    work(store, "nothing in the way again", STATE_MS);
    kvs_store_close(store);
}

static int clean_up(void **state)
{
    (void)state;
    char line[256];
    if (server > 0) {
        kill(server, SIGTERM);
        waitpid(server, NULL, 0);
        temp_dir_remove(dir);
    }
    RUN("ip link del kvs%u", (unsigned)getpid() % 60000);
    RUN("ip netns del %s", ns);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_delay_loss_and_partition, clean_up),
    };
    setbuf(stdout, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
