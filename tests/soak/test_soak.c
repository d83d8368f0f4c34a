/* Four processes over one server that dies and comes back: two ranks of an MLA model (rank 0 writes
 * for both) and two engines of another model with K and V halves that share one directory. All of
 * it is real: the library, plain files, `kvshelf serve` as a process of its own. What an engine
 * would do with pages is a stand-in: it asks for a prefix, loads what is there, compares every
 * byte, and stores the rest.
 *
 * The server is killed with SIGKILL, stopped with SIGTERM, or frozen for a while. Files hold a
 * fraction of the keys, so that pages change hands all the time. Wrong are: a byte that is not what
 * was stored under its key, a process that ends, and hits that do not come back after a restart.
 *
 *     soak_test_soak [--seconds N] [--seed S]     without arguments: a few restarts, for the suite
 */
#include "base/clock.h"
#include "kvshelf/kvshelf.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    WORKERS = 4,
    PAGE_BYTES = 8192,
    FILE_PAGES = 512,
    CHAINS = 40, /* prefixes; of each at most BATCH_MAX pages */
    BATCH_MAX = 48,
    KEY_BYTES = 72,
    SUITE_RESTARTS = 4,
    SUITE_HITS = 100, /* pages each process loads before the server is ended again */
    SOAK_INTERVAL_MS = 3000,
    PROGRESS_S = 10,
    RETURN_MS = 60000, /* when hits must be back; only a fault takes so long */
    STEP_MS = 5,
};

enum role { MLA_RANK_0, MLA_RANK_1, MHA_FIRST, MHA_SECOND };
static const char *const role_names[WORKERS] = {"MLA rank 0", "MLA rank 1", "MHA engine 1",
                                                "MHA engine 2"};

struct account {
    _Atomic uint64_t calls, asked, loaded, stored, skipped, not_stored, wrong, longest_ns;
    _Atomic uint64_t no_index, no_page, replaced, mismatch;
};

/* Memory of all processes. */
struct shared {
    struct account accounts[WORKERS];
    atomic_bool stop;
};

static struct shared *shared;
static char dir[TEMP_DIR_MAX], url[64], port_text[16], index_dir[TEMP_DIR_MAX + 16];
static uint64_t seed = 1;

static uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* ---- Pages ---------------------------------------------------------------------------------- */

static void fill(uint64_t *words, uint64_t id)
{
    uint64_t state = id * 0x100000001b3 + 7;
    for (size_t i = 0; i < PAGE_BYTES / sizeof(*words); i++)
        words[i] = random_next(&state);
}

static bool holds(const uint64_t *words, uint64_t id)
{
    uint64_t state = id * 0x100000001b3 + 7;
    for (size_t i = 0; i < PAGE_BYTES / sizeof(*words); i++)
        if (words[i] != random_next(&state))
            return false;
    return true;
}

/* ---- A worker: what an engine does ---------------------------------------------------------- */

struct worker {
    enum role role;
    struct account *account;
    struct kvs_store *store;
    bool pairs;
    uint64_t random;
    char texts[BATCH_MAX][KEY_BYTES];
    const char *keys[BATCH_MAX];
    uint64_t memory[2 * BATCH_MAX][PAGE_BYTES / 8];
    void *buffers[2 * BATCH_MAX];
    bool results[BATCH_MAX];
};

static uint64_t id_of(const struct worker *w, uint64_t chain, size_t page, size_t half)
{
    return ((uint64_t)w->pairs << 40) + chain * 1000 + page * 2 + half;
}

static struct kvs_store *open_store(struct worker *w)
{
    char prefix[TEMP_DIR_MAX + 16];
    struct kvs_store_options options;
    struct kvs_error error;
    kvs_store_options_init(&options);
    snprintf(prefix, sizeof(prefix), "%s/%s", dir, w->pairs ? "mha" : "mla");
    options.file_path_prefix = prefix;
    options.file_size = (uint64_t)FILE_PAGES * PAGE_BYTES;
    options.bytes_per_page = PAGE_BYTES;
    options.pairs = w->pairs;
    options.is_mla_model = !w->pairs;
    options.tp_size = 4;
    options.tp_rank = w->pairs ? 3 : (uint32_t)w->role;
    options.numjobs = 2;
    options.entries = 8;
    options.client_timeout = 2;
    options.metadata_server_url = url;
    options.model = w->pairs ? "mha" : "mla";
    if (kvs_store_open(&options, &w->store, &error) != KVS_OK) {
        fprintf(stderr, "%s: %s\n", role_names[w->role], error.message);
        _exit(2);
    }
    return w->store;
}

static void took(struct worker *w, uint64_t begin_ns)
{
    uint64_t ns = clock_mono_ns() - begin_ns;
    atomic_fetch_add(&w->account->calls, 1);
    if (ns > atomic_load(&w->account->longest_ns))
        atomic_store(&w->account->longest_ns, ns);
}

static void check_loaded(struct worker *w, uint64_t chain, size_t n)
{
    size_t halves = w->pairs ? 2 : 1;
    for (size_t i = 0; i < n; i++) {
        if (!w->results[i])
            continue;
        bool good = true;
        for (size_t half = 0; half < halves; half++)
            good = good && holds(w->memory[i * halves + half], id_of(w, chain, i, half));
        atomic_fetch_add(good ? &w->account->loaded : &w->account->wrong, 1);
    }
}

/* One request: its prefix is loaded as far as it is there, and the rest stored. */
static void serve_request(struct worker *w)
{
    uint64_t chain = random_next(&w->random) % CHAINS;
    size_t n = 1 + random_next(&w->random) % BATCH_MAX, halves = w->pairs ? 2 : 1;
    for (size_t i = 0; i < n; i++)
        snprintf(w->texts[i], KEY_BYTES, "%064" PRIx64, id_of(w, chain, i, 0));
    uint64_t begin_ns = clock_mono_ns();
    size_t run = kvs_store_batch_exists(w->store, KVS_POOL_KV, n, w->keys);
    took(w, begin_ns);
    if (run > 0) {
        memset(w->memory, 0xee, run * halves * PAGE_BYTES);
        begin_ns = clock_mono_ns();
        kvs_store_batch_get(w->store, KVS_POOL_KV, run, w->keys, w->buffers, w->results);
        took(w, begin_ns);
        check_loaded(w, chain, run);
    }
    atomic_fetch_add(&w->account->asked, n);
    if (run == n)
        return;
    for (size_t i = run; i < n; i++)
        for (size_t half = 0; half < halves; half++)
            fill(w->memory[i * halves + half], id_of(w, chain, i, half));
    begin_ns = clock_mono_ns();
    kvs_store_batch_set(w->store, KVS_POOL_KV, n - run, w->keys + run,
                        (const void *const *)(w->buffers + run * halves), w->results);
    took(w, begin_ns);
    size_t stored = 0;
    for (size_t i = 0; i < n - run; i++)
        stored += w->results[i];
    atomic_fetch_add(w->role == MLA_RANK_1 ? &w->account->skipped : &w->account->stored, stored);
    atomic_fetch_add(&w->account->not_stored, n - run - stored);
    if (stored == 0)
        poll(NULL, 0, 1); /* an engine would compute meanwhile */
}

static void work(enum role role)
{
    struct worker *w = calloc(1, sizeof(*w));
    if (w == NULL)
        _exit(3);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    w->role = role;
    w->account = &shared->accounts[role];
    w->pairs = role >= MHA_FIRST;
    w->random = seed * 1000 + role;
    for (size_t i = 0; i < BATCH_MAX; i++)
        w->keys[i] = w->texts[i];
    for (size_t i = 0; i < 2 * BATCH_MAX; i++)
        w->buffers[i] = w->memory[i];
    open_store(w);
    while (!atomic_load(&shared->stop)) {
        serve_request(w);
        struct kvs_store_stats stats;
        kvs_store_get_stats(w->store, &stats);
        atomic_store(&w->account->no_index, stats.missed_metadata + stats.unstored_metadata);
        atomic_store(&w->account->no_page, stats.unstored_no_page);
        atomic_store(&w->account->replaced, stats.missed_replaced);
        atomic_store(&w->account->mismatch, stats.missed_mismatch);
    }
    kvs_store_close(w->store);
    free(w);
    _exit(0);
}

/* ---- The server ----------------------------------------------------------------------------- */

static void find_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    close(fd);
    snprintf(port_text, sizeof(port_text), "%u", ntohs(address.sin_port));
    snprintf(url, sizeof(url), "http://127.0.0.1:%s", port_text);
}

static pid_t start_server(void)
{
    const char *const words[] = {
        "./kvshelf",    "serve", "--port",  port_text, "--data-dir",    index_dir,
        "--quarantine", "1",     "--lease", "0.2",     "--reserve-ttl", "3",
        "--log-level",  "error", NULL};
    pid_t pid;
    /* posix_spawn() takes arguments that are not const and does not write to them. */
    assert_int_equal(posix_spawn(&pid, words[0], NULL, NULL, (char **)(uintptr_t)words, environ),
                     0);
    return pid;
}

static void end_server(pid_t server, int number)
{
    int status;
    kill(server, number);
    assert_int_equal(waitpid(server, &status, 0), server);
}

enum trouble { KILLED, STOPPED, FROZEN, TROUBLES };
static const char *const trouble_names[TROUBLES] = {"killed", "stopped", "frozen"};

/* Longer than client_timeout is the time of one that is frozen in a soak. */
static pid_t make_trouble(pid_t server, enum trouble trouble, bool timed)
{
    switch (trouble) {
    case FROZEN:
        kill(server, SIGSTOP);
        poll(NULL, 0, timed ? 2500 : 300);
        kill(server, SIGCONT);
        return server;
    case STOPPED:
        end_server(server, SIGTERM);
        return start_server();
    default:
        end_server(server, SIGKILL);
        return start_server();
    }
}

/* ---- The whole ------------------------------------------------------------------------------ */

struct run {
    pid_t server, workers[WORKERS];
    uint64_t troubles[TROUBLES];
    uint64_t return_ms_max;
    bool failed;
};

static bool all_alive(struct run *run)
{
    for (size_t i = 0; i < WORKERS; i++) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)run->workers[i], &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid != 0) {
            fprintf(stderr, "%s ended (%d)\n", role_names[i], info.si_status);
            return false;
        }
    }
    return true;
}

/* Waits until each process has loaded so many pages more; false when one does not. */
static bool wait_for_hits(struct run *run, uint64_t hits)
{
    uint64_t before[WORKERS], begin_ns = clock_mono_ns(), ms = 0;
    for (size_t i = 0; i < WORKERS; i++)
        before[i] = atomic_load(&shared->accounts[i].loaded);
    for (size_t i = 0; i < WORKERS && all_alive(run);) {
        ms = (clock_mono_ns() - begin_ns) / 1000000;
        if (atomic_load(&shared->accounts[i].loaded) >= before[i] + hits) {
            i++;
        } else if (ms > RETURN_MS) {
            fprintf(stderr, "%s: no hits within %d s\n", role_names[i], RETURN_MS / 1000);
            return false;
        } else {
            poll(NULL, 0, STEP_MS);
        }
    }
    if (ms > run->return_ms_max)
        run->return_ms_max = ms;
    return all_alive(run);
}

static void start_workers(struct run *run)
{
    fflush(NULL);
    for (size_t i = 0; i < WORKERS; i++) {
        run->workers[i] = fork();
        assert_true(run->workers[i] >= 0);
        if (run->workers[i] == 0)
            work((enum role)i);
    }
}

static void end_workers(struct run *run)
{
    atomic_store(&shared->stop, true);
    for (size_t i = 0; i < WORKERS; i++) {
        int status = 0;
        waitpid(run->workers[i], &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "%s ended with status %d\n", role_names[i], status);
            run->failed = true;
        }
    }
}

/* Prints the accounts; returns the number of wrong pages. */
static uint64_t report(const struct run *run, double seconds)
{
    uint64_t wrong = 0;
    printf("seed %" PRIu64 ", %.1f s; the server was", seed, seconds);
    for (size_t i = 0; i < TROUBLES; i++)
        printf(" %s %" PRIu64 " times%s", trouble_names[i], run->troubles[i],
               i + 1 < TROUBLES ? "," : "");
    printf("; all four had hits again within %" PRIu64 " ms\n", run->return_ms_max);
    printf("(%s writes nothing: its sets are answered true and left to rank 0)\n",
           role_names[MLA_RANK_1]);
    printf("%-13s %10s %10s %10s %10s %10s %10s %8s %8s %8s %8s %8s %6s\n", "", "calls", "asked",
           "loaded", "stored", "skipped", "unstored", "no index", "no page", "replaced", "mismatch",
           "longest", "WRONG");
    for (size_t i = 0; i < WORKERS; i++) {
        struct account *a = &shared->accounts[i];
        printf(
            "%-13s %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64
            " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %5" PRIu64 " ms %6" PRIu64 "\n",
            role_names[i], a->calls, a->asked, a->loaded, a->stored, a->skipped, a->not_stored,
            a->no_index, a->no_page, a->replaced, a->mismatch, a->longest_ns / 1000000, a->wrong);
        wrong += a->wrong;
    }
    fflush(stdout);
    return wrong;
}

static void tell_progress(uint64_t begin_ns, uint64_t *next_s)
{
    uint64_t s = (clock_mono_ns() - begin_ns) / 1000000000, loaded = 0, wrong = 0;
    if (s < *next_s)
        return;
    for (size_t i = 0; i < WORKERS; i++) {
        loaded += atomic_load(&shared->accounts[i].loaded);
        wrong += atomic_load(&shared->accounts[i].wrong);
    }
    fprintf(stderr, "%" PRIu64 " s: %" PRIu64 " pages loaded, %" PRIu64 " wrong\n", s, loaded,
            wrong);
    *next_s = s + PROGRESS_S;
}

/* `seconds` 0: as many restarts as the suite has time for. */
static void soak(uint64_t seconds)
{
    struct run run = {0};
    uint64_t random = seed, begin_ns = clock_mono_ns(), next_s = PROGRESS_S;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    snprintf(index_dir, sizeof(index_dir), "%s/index", temp_dir_make(dir));
    find_port();
    run.server = start_server();
    start_workers(&run);
    run.failed = !wait_for_hits(&run, SUITE_HITS);
    for (uint64_t round = 0; !run.failed; round++) {
        if (seconds == 0 ? round == SUITE_RESTARTS
                         : clock_mono_ns() - begin_ns > seconds * 1000000000)
            break;
        if (seconds > 0)
            poll(NULL, 0, (int)(random_next(&random) % SOAK_INTERVAL_MS));
        enum trouble trouble = seconds == 0 ? (enum trouble)(round % TROUBLES)
                                            : (enum trouble)(random_next(&random) % TROUBLES);
        run.troubles[trouble]++;
        run.server = make_trouble(run.server, trouble, seconds > 0);
        run.failed = !wait_for_hits(&run, seconds == 0 ? SUITE_HITS : 1);
        if (seconds > 0)
            tell_progress(begin_ns, &next_s);
    }
    end_workers(&run);
    end_server(run.server, SIGTERM);
    uint64_t wrong = report(&run, (double)(clock_mono_ns() - begin_ns) / 1e9);
    temp_dir_remove(dir);
    munmap(shared, sizeof(*shared));
    assert_int_equal(wrong, 0);
    assert_false(run.failed);
}

static uint64_t soak_seconds;

static void test_restarts_under_load(void **state)
{
    (void)state;
    soak(soak_seconds);
}

static bool whole_number(const char *text, uint64_t *ret_number)
{
    size_t length = strlen(text);
    if (length == 0 || length > 12 || strspn(text, "0123456789") != length)
        return false;
    uint64_t number = strtoull(text, NULL, 10);
    if (number == 0)
        return false;
    *ret_number = number;
    return true;
}

int main(int argc, char *argv[])
{
    for (int i = 1; i < argc; i += 2) {
        bool is_seconds = strcmp(argv[i], "--seconds") == 0;
        if ((!is_seconds && strcmp(argv[i], "--seed") != 0) || i + 1 == argc ||
            !whole_number(argv[i + 1], is_seconds ? &soak_seconds : &seed)) {
            fprintf(stderr,
                    "usage: soak_test_soak [--seconds N] [--seed S], whole numbers from 1 on\n");
            return 2;
        }
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_restarts_under_load)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
