/* A store is killed at random moments under load and opened again: every page that was said to be
 * stored is there (where nothing is evicted), and no byte is wrong. `store_test_kill --kills N
 * --seed S` runs longer; ctest runs a few.
 *
 * A child opens the store, compares it with what the children before it were told, which is in
 * shared memory, and then works with several threads until it is killed. A key's bytes follow from
 * its number and from how often it was deleted, so that bytes of before a delete are wrong too. */
#include "support/store_fixture.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, KEYS = 600, THREADS = 3, BATCH = 12, ROOMY_PAGES = 4096, TIGHT_PAGES = 160 };

/* Of one key. It has one writing thread; all threads read. */
struct record {
    _Atomic uint32_t life; /* how often it was deleted: which bytes it has */
    _Atomic bool stored;   /* as last answered */
    _Atomic bool deleting; /* a delete is under way: there or not */
};

struct shared {
    struct record records[KEYS];
    _Atomic uint64_t operations, answered, checked, found, wrong_bytes, missing;
    _Atomic bool open; /* the child has checked and works */
    char fault[256];
};

static unsigned kills_asked = 6;
static uint64_t seed = 1;

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

struct variant {
    const char *name;
    uint64_t pages;
    bool evicts;
    const char *dir;
    struct shared *shared;
    struct kvs_store *store;
    uint64_t seed;
    _Atomic unsigned next_thread;
};

static void open_variant(struct variant *v)
{
    char prefix[TEMP_DIR_MAX + 16];
    struct kvs_store_options options;
    struct kvs_error error = {0};
    snprintf(prefix, sizeof(prefix), "%s/pages", v->dir);
    kvs_store_options_init(&options);
    options.bytes_per_page = PAGE;
    options.file_size = PAGE * v->pages;
    options.file_path_prefix = prefix;
    options.metadata_dir = v->dir;
    options.numjobs = 2;
    /* Few pages: what a kill leaves reserved must come back between two kills, at the risk that a
     * writer is held up for longer and writes into the next one's page: a miss. With many pages no
     * writer is held up for so long. */
    options.reserve_ttl = v->evicts ? 0.2 : 30;
    options.quarantine = v->evicts ? 0.2 : 2;
    if (kvs_store_open(&options, &v->store, &error) != KVS_OK) {
        snprintf(v->shared->fault, sizeof(v->shared->fault), "open: %.200s", error.message);
        _exit(1);
    }
}

/* ---- The load ------------------------------------------------------------------------------- */

struct worker {
    struct variant *variant;
    uint64_t seed;
    size_t first; /* of its own keys: first, first + THREADS, ... */
    char texts[BATCH][80];
    const char *keys[BATCH];
    size_t numbers[BATCH];
    uint32_t lives[BATCH];
    uint8_t *memory;
    void *buffers[BATCH];
    bool results[BATCH];
};

static void name_key(struct worker *w, size_t i, size_t number)
{
    w->numbers[i] = number;
    snprintf(w->texts[i], sizeof(w->texts[i]), "%064zx", number * 31 + 5);
    w->keys[i] = w->texts[i];
}

static uint64_t content(size_t number, uint32_t life)
{
    return number + (uint64_t)life * KEYS;
}

static void choose_own(struct worker *w)
{
    size_t mine = KEYS / THREADS, start = next_random(&w->seed) % mine;
    for (size_t i = 0; i < BATCH; i++)
        name_key(w, i, w->first + (start + i) % mine * THREADS);
}

static void set_some(struct worker *w)
{
    struct record *records = w->variant->shared->records;
    choose_own(w);
    for (size_t i = 0; i < BATCH; i++)
        fixture_fill(w->buffers[i], PAGE,
                     content(w->numbers[i], atomic_load(&records[w->numbers[i]].life)), 0);
    kvs_store_batch_set(w->variant->store, 0, BATCH, w->keys, (const void *const *)w->buffers,
                        w->results);
    for (size_t i = 0; i < BATCH; i++) {
        if (!w->results[i])
            continue;
        atomic_store(&records[w->numbers[i]].stored, true);
        atomic_fetch_add(&w->variant->shared->answered, 1);
    }
}

static void delete_some(struct worker *w)
{
    struct record *records = w->variant->shared->records;
    choose_own(w);
    for (size_t i = 0; i < 2; i++)
        atomic_store(&records[w->numbers[i]].deleting, true);
    if (kvs_store_delete(w->variant->store, 0, 2, w->keys, NULL) != KVS_OK)
        _exit(2);
    for (size_t i = 0; i < 2; i++) {
        struct record *record = &records[w->numbers[i]];
        atomic_store(&record->stored, false);
        atomic_fetch_add(&record->life, 1);
        atomic_store(&record->deleting, false);
    }
}

/* Any keys: those of other threads may change while they are read. */
static void get_some(struct worker *w)
{
    struct shared *shared = w->variant->shared;
    for (size_t i = 0; i < BATCH; i++) {
        name_key(w, i, next_random(&w->seed) % KEYS);
        w->lives[i] = atomic_load(&shared->records[w->numbers[i]].life);
    }
    kvs_store_batch_get(w->variant->store, 0, BATCH, w->keys, w->buffers, w->results);
    for (size_t i = 0; i < BATCH; i++) {
        if (!w->results[i])
            continue;
        uint32_t last = atomic_load(&shared->records[w->numbers[i]].life);
        bool right = false;
        /* a set of the next life may have been confirmed before its number was stored */
        for (uint32_t life = w->lives[i]; life <= last + 1 && !right; life++)
            right = fixture_holds(w->buffers[i], PAGE, content(w->numbers[i], life), 0);
        if (!right)
            atomic_fetch_add(&shared->wrong_bytes, 1);
    }
}

static void init_worker(struct worker *w, struct variant *v, size_t number)
{
    *w = (struct worker){.variant = v, .first = number, .seed = v->seed + number * 977};
    w->memory = aligned_alloc(4096, BATCH * PAGE);
    if (w->memory == NULL)
        _exit(2);
    for (size_t i = 0; i < BATCH; i++)
        w->buffers[i] = w->memory + i * PAGE;
}

static void *work(void *arg)
{
    struct variant *v = arg;
    struct worker w;
    init_worker(&w, v, atomic_fetch_add(&v->next_thread, 1));
    for (;;) {
        uint64_t dice = next_random(&w.seed) % 100;
        if (dice < 55)
            set_some(&w);
        else if (dice < 90)
            get_some(&w);
        else
            delete_some(&w);
        atomic_fetch_add(&v->shared->operations, 1);
    }
    return NULL;
}

/* ---- The check ------------------------------------------------------------------------------ */

/* An operation may have been carried out and not answered: a delete (marked), or a set. So a key
 * that is there must have its bytes of this life, or, if a delete was under way, either. */
static void check_key(struct worker *w, size_t i)
{
    struct shared *shared = w->variant->shared;
    struct record *record = &shared->records[w->numbers[i]];
    uint32_t life = atomic_load(&record->life);
    bool stored = atomic_load(&record->stored), deleting = atomic_load(&record->deleting);
    atomic_fetch_add(&shared->checked, 1);
    atomic_fetch_add(&shared->found, w->results[i]);
    if (w->results[i] && !fixture_holds(w->buffers[i], PAGE, content(w->numbers[i], life), 0)) {
        atomic_fetch_add(&shared->wrong_bytes, 1);
        snprintf(shared->fault, sizeof(shared->fault), "key %zu has bytes of another life or key",
                 w->numbers[i]);
    }
    if (!w->results[i] && stored && !deleting && !w->variant->evicts) {
        atomic_fetch_add(&shared->missing, 1);
        struct kvs_store_stats stats;
        kvs_store_get_stats(w->variant->store, &stats);
        snprintf(shared->fault, sizeof(shared->fault),
                 "key %zu was stored and is missing (%" PRIu64 " mismatches, %" PRIu64
                 " not read since the start)",
                 w->numbers[i], stats.checksum_mismatches,
                 stats.pages_missed - stats.missed_absent);
    }
    atomic_store(&record->stored, w->results[i]);
    atomic_store(&record->deleting, false);
}

static void check(struct variant *v)
{
    struct worker w;
    init_worker(&w, v, 0);
    for (size_t at = 0; at < KEYS; at += BATCH) {
        for (size_t i = 0; i < BATCH; i++)
            name_key(&w, i, at + i);
        kvs_store_batch_get(v->store, 0, BATCH, w.keys, w.buffers, w.results);
        for (size_t i = 0; i < BATCH; i++)
            check_key(&w, i);
    }
    free(w.memory);
}

static void run_child(struct variant *v)
{
    open_variant(v);
    check(v);
    if (v->shared->fault[0] != '\0')
        _exit(1);
    atomic_store(&v->shared->open, true);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, v) != 0)
            _exit(2);
    pthread_join(threads[0], NULL);
}

/* ---- Killing -------------------------------------------------------------------------------- */

/* Waits until the child has done some more, then kills it; now and then while it still opens or
 * checks. False when it ended by itself. */
static bool kill_after(struct variant *v, pid_t child, uint64_t operations)
{
    int status;
    while (!atomic_load(&v->shared->open) || atomic_load(&v->shared->operations) < operations) {
        if (waitpid(child, &status, WNOHANG) == child)
            return false;
        sched_yield();
    }
    /* not only where an operation has just ended */
    for (uint64_t spin = next_random(&v->seed) % 50000; spin > 0; spin--)
        atomic_load(&v->shared->open);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void run_variant(struct variant *v)
{
    char dir[TEMP_DIR_MAX];
    v->dir = temp_dir_make(dir);
    v->seed = seed;
    v->shared =
        mmap(NULL, sizeof(*v->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(v->shared != MAP_FAILED);
    for (unsigned kills = 0; kills < kills_asked; kills++) {
        atomic_store(&v->shared->open, false);
        uint64_t until = atomic_load(&v->shared->operations) + 1 + next_random(&v->seed) % 400;
        v->seed++;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            run_child(v);
            _exit(0);
        }
        if (!kill_after(v, child, until))
            fail_msg("%s, seed %" PRIu64 ", after %u kills: %s", v->name, seed, kills,
                     v->shared->fault[0] != '\0' ? v->shared->fault : "the child ended by itself");
    }
    open_variant(v);
    check(v);
    struct kvs_store_stats stats;
    kvs_store_get_stats(v->store, &stats);
    v->store = kvs_store_close(v->store);
    print_message("%s: seed %" PRIu64 ", %u kills, %" PRIu64 " operations, %" PRIu64
                  " pages answered stored, %" PRIu64 " pages looked for after a kill, %" PRIu64
                  " found, %" PRIu64 " missing, %" PRIu64 " with wrong bytes\n",
                  v->name, seed, kills_asked, atomic_load(&v->shared->operations),
                  atomic_load(&v->shared->answered), atomic_load(&v->shared->checked),
                  atomic_load(&v->shared->found), atomic_load(&v->shared->missing),
                  atomic_load(&v->shared->wrong_bytes));
    assert_int_equal(atomic_load(&v->shared->wrong_bytes), 0);
    assert_int_equal(atomic_load(&v->shared->missing), 0);
    assert_string_equal(v->shared->fault, "");
    assert_true(atomic_load(&v->shared->answered) > kills_asked);
    munmap(v->shared, sizeof(*v->shared));
    temp_dir_remove(dir);
}

static void test_nothing_stored_is_lost(void **state)
{
    (void)state;
    struct variant roomy = {.name = "without eviction", .pages = ROOMY_PAGES};
    run_variant(&roomy);
}

static void test_pages_change_hands(void **state)
{
    (void)state;
    struct variant tight = {.name = "with constant eviction", .pages = TIGHT_PAGES, .evicts = true};
    run_variant(&tight);
}

int main(int argc, char *argv[])
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--kills") == 0)
            kills_asked = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_stored_is_lost),
        cmocka_unit_test(test_pages_change_hands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
