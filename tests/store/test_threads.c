/* Many threads on one small store, so that pages change hands all the time: set, get, exists,
 * contains, delete, clear, statistics, adding pools. Every byte that is said to be a key's is
 * checked. */
#include "store/store.h"
#include "support/store_fixture.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, PAGES = 96, KEYS = 400, BATCH = 16, WORKERS = 5 };
/* How many pages threads find depends on how they interleave: they go on until there was enough
 * to judge, and a store that serves nothing fails by MOST_ROUNDS. */
enum { ROUNDS = 300, MOST_ROUNDS = 100 * ROUNDS, ENOUGH = 100 };

struct load {
    struct kvs_store *store;
    uint64_t seed;
    bool pairs;
    bool removing; /* deletes and clears too */
    _Atomic uint64_t loaded, stored, wrong;
    _Atomic unsigned next;
};

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

struct worker {
    struct load *load;
    uint64_t seed;
    unsigned halves;
    char texts[BATCH][80];
    const char *keys[BATCH];
    uint64_t numbers[BATCH];
    uint8_t *memory;
    void *buffers[2 * BATCH];
    bool results[BATCH];
};

static void choose_keys(struct worker *w)
{
    uint64_t first = next_random(&w->seed) % KEYS; /* runs, as prefixes are, that wrap around */
    for (size_t i = 0; i < BATCH; i++) {
        w->numbers[i] = (first + i) % KEYS;
        snprintf(w->texts[i], sizeof(w->texts[i]), "%064x", (unsigned)w->numbers[i]);
        w->keys[i] = w->texts[i];
    }
}

static void set_some(struct worker *w)
{
    for (size_t i = 0; i < BATCH; i++)
        for (unsigned half = 0; half < w->halves; half++)
            fixture_fill(w->buffers[i * w->halves + half], PAGE, w->numbers[i], half);
    kvs_store_batch_set(w->load->store, 0, BATCH, w->keys, (const void *const *)w->buffers,
                        w->results);
    for (size_t i = 0; i < BATCH; i++)
        atomic_fetch_add(&w->load->stored, w->results[i]);
}

static void get_some(struct worker *w)
{
    kvs_store_batch_get(w->load->store, 0, BATCH, w->keys, w->buffers, w->results);
    for (size_t i = 0; i < BATCH; i++) {
        if (!w->results[i])
            continue;
        atomic_fetch_add(&w->load->loaded, 1);
        for (unsigned half = 0; half < w->halves; half++)
            if (!fixture_holds(w->buffers[i * w->halves + half], PAGE, w->numbers[i], half))
                atomic_fetch_add(&w->load->wrong, 1);
    }
}

static bool enough(struct load *load)
{
    return load->loaded > ENOUGH && load->stored > PAGES + ENOUGH;
}

static void *work(void *arg)
{
    struct load *load = arg;
    struct worker *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->load = load;
    w->halves = load->pairs ? 2 : 1;
    w->seed = load->seed + 7919 * atomic_fetch_add(&load->next, 1);
    w->memory = aligned_alloc(4096, 2 * BATCH * PAGE);
    assert_non_null(w->memory);
    for (size_t i = 0; i < 2 * BATCH; i++)
        w->buffers[i] = w->memory + i * PAGE;
    for (int round = 0; round < ROUNDS || (!enough(load) && round < MOST_ROUNDS); round++) {
        choose_keys(w);
        uint64_t dice = next_random(&w->seed) % 100;
        if (dice < 45)
            get_some(w);
        else if (dice < 85)
            set_some(w);
        else if (dice < 92)
            assert_true(kvs_store_batch_exists(load->store, 0, BATCH, w->keys) <= BATCH);
        else if (dice < 95)
            kvs_store_batch_contains(load->store, 0, BATCH, w->keys, w->results);
        else if (dice < 98 && load->removing)
            assert_int_equal(kvs_store_delete(load->store, 0, 2, w->keys, NULL), KVS_OK);
        else if (dice == 99 && load->removing)
            assert_int_equal(kvs_store_clear(load->store, NULL), KVS_OK);
    }
    free(w->memory);
    free(w);
    return NULL;
}

static void *watch(void *arg)
{
    struct load *load = arg;
    struct kvs_store_stats before = {0}, now;
    for (int i = 0; i < 3000; i++) {
        kvs_store_get_stats(load->store, &now);
        assert_true(now.pages_loaded >= before.pages_loaded);
        assert_int_equal(now.pages_asked, now.pages_loaded + now.pages_missed);
        before = now;
        if (i % 300 == 0) {
            char name[16];
            snprintf(name, sizeof(name), "pool%d", i / 600);
            const struct kvs_pool_options options = {.size = sizeof(options),
                                                     .name = name,
                                                     .bytes_per_page = 512,
                                                     .file_size = 512 * 10};
            uint32_t pool;
            bool result;
            uint8_t page[512];
            void *buffer = page;
            const char *key = "key";
            assert_int_equal(kvs_store_add_pool(load->store, &options, &pool, NULL), KVS_OK);
            fixture_fill(page, sizeof(page), pool, 0);
            kvs_store_batch_set(load->store, pool, 1, &key, (const void *const *)&buffer, &result);
            kvs_store_batch_get(load->store, pool, 1, &key, &buffer, &result);
            assert_true(!result || fixture_holds(page, sizeof(page), pool, 0));
        }
    }
    return NULL;
}

static void run(bool pairs, bool removing, bool kept, enum kvs_eviction eviction, uint64_t inflight)
{
    char dir[TEMP_DIR_MAX], prefix[TEMP_DIR_MAX + 16];
    temp_dir_make(dir);
    snprintf(prefix, sizeof(prefix), "%s/pages", dir);
    struct kvs_store_options options;
    kvs_store_options_init(&options);
    options.bytes_per_page = PAGE;
    options.file_size = PAGE * PAGES;
    options.file_path_prefix = prefix;
    options.metadata_dir = kept ? dir : NULL;
    options.numjobs = 3;
    options.pairs = pairs;
    options.eviction = eviction;
    options.quarantine = 0;
    if (removing) /* a page deleted or cleared while it is written rests for so long */
        options.reserve_ttl = 0.02;
    options.max_inflight_bytes = inflight;
    struct load load = {.seed = 20261130, .pairs = pairs, .removing = removing};
    print_message("seed %llu\n", (unsigned long long)load.seed);
    struct kvs_error error = {0};
    if (kvs_store_open(&options, &load.store, &error) != KVS_OK)
        fail_msg("%s", error.message);
    pthread_t threads[WORKERS + 1];
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &load), 0);
    assert_int_equal(pthread_create(&threads[WORKERS], NULL, watch, &load), 0);
    for (int i = 0; i <= WORKERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(load.wrong, 0);
    assert_true(enough(&load));
    struct kvs_store_stats stats;
    kvs_store_get_stats(load.store, &stats);
    /* With so short a reservation and no quarantine a page may go to the next writer with the first
     * one still at work: damage, which a reader must find. Otherwise there is none. */
    assert_true(removing || stats.checksum_mismatches == 0);
    assert_int_equal(stats.io_errors + stats.short_reads + stats.metadata_errors, 0);
    assert_int_equal(stats.inflight_bytes, 0);
    assert_true(stats.pages_written > PAGES); /* pages did change hands */
    kvs_store_close(load.store);
    temp_dir_remove(dir);
}

static void test_memory_catalogs(void **state)
{
    (void)state;
    run(false, false, false, KVS_EVICTION_PREFIX, 1 << 30);
}

static void test_pairs(void **state)
{
    (void)state;
    run(true, false, false, KVS_EVICTION_LRU, 1 << 30);
}

static void test_deletes_and_clears(void **state)
{
    (void)state;
    run(false, true, false, KVS_EVICTION_PREFIX, 1 << 30);
}

static void test_kept_catalogs_and_back_pressure(void **state)
{
    (void)state;
    run(true, true, true, KVS_EVICTION_PREFIX, 10 * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_catalogs),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_deletes_and_clears),
        cmocka_unit_test(test_kept_catalogs_and_back_pressure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
