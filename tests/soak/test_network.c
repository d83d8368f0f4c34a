/* A store and `kvshelf serve` with a network between them that is slow, loses packets, and is cut.
 * All of it is real: the library, its connections, the server (a process), and TCP on both sides;
 * only the wire is a stand-in (support/slow_link.h). Skipped, with the reason, where namespaces and
 * TUN devices cannot be made.
 *
 * What it asserts: not one wrong byte; no call that outlives its promise, which is client_timeout,
 * or 0.2 s for exists, by more than a busy machine explains; hits that come back when the network
 * does. What it measures it prints.
 *
 *     soak_test_network [--measure]     without arguments: a few seconds, for the suite
 */
#include "base/clock.h"
#include "kvshelf/kvshelf.h"
#include "support/slow_link.h"
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
    SUITE_TIMEOUT_MS = 1000,
    MEASURE_TIMEOUT_MS = 5000, /* the default */
    EXISTS_MS = 200,
    SLACK_MS = 5000, /* for a machine with other things to do */
    STATE_MS = 700,  /* of work in each state of the network */
    CUT_MS = 2000,
    RETURN_MS = 60000, /* when hits must be back; only a fault takes as long */
    CALLS_MAX = 1 << 16,
    MEASURE_MS = 5000,
    SEED = 1,
};
static const char url[] = "http://" SLOW_LINK_FAR ":18000";

static char dir[TEMP_DIR_MAX];
static pid_t server;
static struct slow_link *link_to_server;
static unsigned timeout_ms = SUITE_TIMEOUT_MS;

static void start_server(void)
{
    const char *const words[] = {"./kvshelf", "serve",      "--host",      SLOW_LINK_FAR, "--port",
                                 "18000",     "--insecure", "--log-level", "error",       NULL};
    slow_link_go(link_to_server, true);
    /* posix_spawn() takes arguments that are not const and does not write to them. */
    int failed = posix_spawn(&server, words[0], NULL, NULL, (char **)(uintptr_t)words, environ);
    slow_link_go(link_to_server, false);
    assert_int_equal(failed, 0);
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

static void make_keys(void)
{
    for (unsigned i = 0; i < BATCH; i++) {
        snprintf(texts[i], KEY_BYTES, "%064x", i);
        keys[i] = texts[i];
        buffers[i] = bytes[i];
    }
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
    options.client_timeout = timeout_ms / 1000.0;
    options.metadata_server_url = url;
    if (kvs_store_open(&options, &store, &error) != KVS_OK)
        fail_msg("%s", error.message);
    return store;
}

/* ---- Calls and how long they take ----------------------------------------------------------- */

struct times {
    uint64_t ns[CALLS_MAX];
    size_t n;
};
static struct times exists_times, other_times;
static uint64_t hits, asked;

static void took(struct times *times, uint64_t begin_ns, uint64_t promise_ms)
{
    uint64_t ns_taken = clock_mono_ns() - begin_ns;
    if (times->n < CALLS_MAX)
        times->ns[times->n++] = ns_taken;
    if (ns_taken / 1000000 > promise_ms + SLACK_MS)
        fail_msg("a call that promises %" PRIu64 " ms took %" PRIu64 " ms", promise_ms,
                 ns_taken / 1000000);
}

static void load(struct kvs_store *store)
{
    uint64_t begin_ns = clock_mono_ns();
    memset(bytes, 0xee, sizeof(bytes));
    kvs_store_batch_get(store, KVS_POOL_KV, BATCH, keys, buffers, results);
    took(&other_times, begin_ns, timeout_ms);
    for (unsigned i = 0; i < BATCH; i++) {
        uint8_t expected[PAGE_BYTES];
        fill(expected, i);
        if (results[i])
            assert_memory_equal(bytes[i], expected, PAGE_BYTES);
        hits += results[i];
        memcpy(bytes[i], expected, PAGE_BYTES);
    }
    asked += BATCH;
}

/* One request of an engine: what is there is loaded and compared, what is not is stored. Now and
 * then some of it is deleted. */
static void request(struct kvs_store *store, unsigned number)
{
    uint64_t begin_ns = clock_mono_ns();
    size_t n = kvs_store_batch_exists(store, KVS_POOL_KV, BATCH, keys);
    took(&exists_times, begin_ns, EXISTS_MS);
    load(store);
    if (n < BATCH) {
        begin_ns = clock_mono_ns();
        kvs_store_batch_set(store, KVS_POOL_KV, BATCH, keys, (const void *const *)buffers, results);
        took(&other_times, begin_ns, timeout_ms);
    }
    if (number % 8 == 7) {
        begin_ns = clock_mono_ns();
        kvs_store_delete(store, KVS_POOL_KV, 4, keys + 4, NULL);
        took(&other_times, begin_ns, timeout_ms);
    }
}

static void forget_times(void)
{
    exists_times.n = other_times.n = 0;
    hits = asked = 0;
}

static void work(struct kvs_store *store, uint64_t ms)
{
    uint64_t begin_ns = clock_mono_ns();
    forget_times();
    for (unsigned i = 0; (clock_mono_ns() - begin_ns) / 1000000 < ms; i++) {
        request(store, i);
        poll(NULL, 0, 1);
    }
}

static double recover(struct kvs_store *store)
{
    uint64_t begin_ns = clock_mono_ns(), before = hits;
    for (unsigned i = 0; hits == before; i += 8) {
        request(store, i);
        poll(NULL, 0, 1);
        assert_true((clock_mono_ns() - begin_ns) / 1000000 < RETURN_MS);
    }
    return (double)(clock_mono_ns() - begin_ns) / 1e6;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_times(const char *what)
{
    struct times *const all[] = {&exists_times, &other_times};
    printf("%-32s", what);
    for (size_t i = 0; i < 2; i++) {
        struct times *t = all[i];
        qsort(t->ns, t->n, sizeof(t->ns[0]), compare);
        printf("  %6zu %8.1f %8.1f", t->n, t->n > 0 ? (double)t->ns[t->n / 2] / 1e6 : 0,
               t->n > 0 ? (double)t->ns[t->n - 1] / 1e6 : 0);
    }
    printf("  %5.1f %%", asked > 0 ? 100.0 * (double)hits / (double)asked : 0);
}

static void print_head(void)
{
    printf("seed of the wire: %d; client_timeout %u ms, exists %d ms; times in ms\n"
           "%-32s  %6s %8s %8s  %6s %8s %8s  %7s\n",
           SEED, timeout_ms, EXISTS_MS, "network (delay each way)", "exists", "median", "worst",
           "others", "median", "worst", "hits");
}

/* ---- The tests ------------------------------------------------------------------------------ */

static void test_delay_loss_and_partition(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct slow_link_weather weather;
        unsigned ms;
    } states[] = {
        {"nothing in the way", {0}, STATE_MS},
        {"10 to 15 ms, overtaking", {.delay_us = 10000, .jitter_us = 5000}, STATE_MS},
        {"2 ms, 5 % lost, 1 % doubled",
         {.delay_us = 2000, .loss_per_mille = 50, .double_per_mille = 10},
         STATE_MS},
        {"cut", {.cut = true}, CUT_MS},
    };
    struct kvs_store *store = open_store();
    print_head();
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        slow_link_set(link_to_server, states[i].weather);
        work(store, states[i].ms);
        print_times(states[i].what);
        printf("\n");
    }
    /* Slow enough that the short time of exists is over before a new connection stands. */
    slow_link_set(link_to_server, (struct slow_link_weather){.delay_us = 50000});
    forget_times();
    printf("50 ms, the first hit within %.0f ms\n", recover(store));
    kvs_store_close(store);
}

static void measure_one(struct kvs_store *store, unsigned delay_ms, unsigned loss_percent)
{
    char what[64];
    const struct slow_link_weather weather = {.delay_us = delay_ms * 1000,
                                              .jitter_us = delay_ms * 200,
                                              .loss_per_mille = loss_percent * 10};
    slow_link_set(link_to_server, weather);
    forget_times();
    recover(store); /* from the row before */
    work(store, MEASURE_MS);
    snprintf(what, sizeof(what), "%u ms, %u %% lost", delay_ms, loss_percent);
    print_times(what);
    slow_link_set(link_to_server, (struct slow_link_weather){.cut = true});
    work(store, MEASURE_MS);
    uint64_t worst_ns = 0;
    for (size_t i = 0; i < other_times.n; i++)
        worst_ns = other_times.ns[i] > worst_ns ? other_times.ns[i] : worst_ns;
    slow_link_set(link_to_server, weather);
    printf("   cut for 5 s: worst %.1f, hits again after %.0f\n", (double)worst_ns / 1e6,
           recover(store));
}

static void test_measure(void **state)
{
    (void)state;
    timeout_ms = MEASURE_TIMEOUT_MS;
    static const unsigned delays_ms[] = {1, 10, 50}, losses_percent[] = {0, 1, 5};
    struct kvs_store *store = open_store();
    print_head();
    for (size_t d = 0; d < 3; d++)
        for (size_t l = 0; l < 3; l++)
            measure_one(store, delays_ms[d], losses_percent[l]);
    struct slow_link_counts counts = slow_link_counts(link_to_server);
    printf("packets: %" PRIu64 " carried, %" PRIu64 " lost, %" PRIu64 " overtaken\n",
           counts.carried, counts.lost, counts.overtaken);
    kvs_store_close(store);
}

static int begin(void **state)
{
    (void)state;
    make_keys();
    start_server();
    return 0;
}

static int finish(void **state)
{
    (void)state;
    if (server > 0) {
        kill(server, SIGTERM);
        waitpid(server, NULL, 0);
    }
    temp_dir_remove(dir);
    return 0;
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest suite[] = {
        cmocka_unit_test_setup_teardown(test_delay_loss_and_partition, begin, finish),
    };
    const struct CMUnitTest measurement[] = {
        cmocka_unit_test_setup_teardown(test_measure, begin, finish),
    };
    bool measuring = argc > 1 && strcmp(argv[1], "--measure") == 0;
    setbuf(stdout, NULL);
    const char *problem = slow_link_open(SEED, &link_to_server);
    if (problem != NULL) {
        printf("Skipped: there are no two networks with a wire between them here: %s.\n", problem);
        return 77;
    }
    int failed = measuring ? cmocka_run_group_tests(measurement, NULL, NULL)
                           : cmocka_run_group_tests(suite, NULL, NULL);
    slow_link_close(link_to_server);
    return failed;
}
