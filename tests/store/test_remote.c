/* Stores (real, on plain files) over kvshelf's server (real, in this process): ranks that share
 * pages, what becomes of a store when the server goes and comes, and answers that have become
 * stale. Only the clock of breakers and of the cache is set by the test. */
#include "store/store.h"
#include "support/bad_server.h"
#include "support/live_server.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, PAGES = 64, KEYS_MAX = 64, KEY_BYTES = 72, POOLS_MAX = 3 };
static const uint64_t SECOND_NS = 1000000000;

static struct live_server server;
static char dir[TEMP_DIR_MAX], prefix[TEMP_DIR_MAX + 16];
static _Atomic uint64_t clock_ns;
static char log_lines[16384], request[BAD_REQUEST_MAX];

static uint64_t set_clock(void *arg)
{
    (void)arg;
    return clock_ns;
}

static void take_line(void *arg, enum kvs_log_level level, const char *line)
{
    (void)arg;
    size_t length = strlen(log_lines);
    if (level >= KVS_LOG_WARNING)
        snprintf(log_lines + length, sizeof(log_lines) - length, "%s\n", line);
}

static int begin(void **state)
{
    (void)state;
    server = (struct live_server){0};
    live_server_start(&server);
    snprintf(prefix, sizeof(prefix), "%s/pages", temp_dir_make(dir));
    clock_ns = SECOND_NS;
    log_lines[0] = '\0';
    return 0;
}

static int end(void **state)
{
    (void)state;
    live_server_stop(&server);
    temp_dir_remove(dir);
    return 0;
}

static struct kvs_store_options options_of(const char *url)
{
    struct kvs_store_options options;
    kvs_store_options_init(&options);
    options.file_path_prefix = prefix;
    options.file_size = PAGES * PAGE_BYTES;
    options.bytes_per_page = PAGE_BYTES;
    options.numjobs = 2;
    options.entries = 4;
    options.direct = KVS_DIRECT_OFF;
    options.io_engine = KVS_IO_POSIX;
    options.metadata_server_url = url;
    options.client_timeout = 20;
    options.model = "m";
    options.log = take_line;
    return options;
}

static struct kvs_store *open_store(const struct kvs_store_options *options)
{
    const struct store_parts parts = {.now_ns = set_clock, .exists_timeout_ms = 20000};
    struct kvs_store *store;
    struct kvs_error error;
    if (store_open(options, &parts, &store, &error) != KVS_OK)
        fail_msg("%s", error.message);
    return store;
}

/* ---- Pages whose bytes follow from their key and who wrote them ------------------------------ */

struct batch {
    char texts[KEYS_MAX][KEY_BYTES];
    const char *keys[KEYS_MAX];
    uint8_t bytes[KEYS_MAX][PAGE_BYTES];
    void *buffers[KEYS_MAX];
    bool results[KEYS_MAX];
};
static struct batch batch;

static void fill(uint8_t bytes[PAGE_BYTES], unsigned key, unsigned writer)
{
    for (unsigned i = 0; i < PAGE_BYTES; i++)
        bytes[i] = (uint8_t)(key * 31 + writer * 7 + i);
}

static void load_keys(unsigned first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(batch.texts[i], KEY_BYTES, "%064x", first + (unsigned)i);
        batch.keys[i] = batch.texts[i];
        batch.buffers[i] = batch.bytes[i];
    }
}

static size_t trues(size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += batch.results[i];
    return count;
}

static size_t set(struct kvs_store *store, uint32_t pool, unsigned first, size_t n, unsigned writer)
{
    load_keys(first, n);
    for (size_t i = 0; i < n; i++)
        fill(batch.bytes[i], first + (unsigned)i, writer);
    kvs_store_batch_set(store, pool, n, batch.keys, (const void *const *)batch.buffers,
                        batch.results);
    return trues(n);
}

/* Fails the test on a page that is said to be loaded and is not what `writer` wrote. */
static size_t get(struct kvs_store *store, uint32_t pool, unsigned first, size_t n, unsigned writer)
{
    uint8_t expected[PAGE_BYTES];
    load_keys(first, n);
    memset(batch.bytes, 0xee, sizeof(batch.bytes));
    kvs_store_batch_get(store, pool, n, batch.keys, batch.buffers, batch.results);
    for (size_t i = 0; i < n; i++) {
        fill(expected, first + (unsigned)i, writer);
        if (batch.results[i] && memcmp(batch.bytes[i], expected, PAGE_BYTES) != 0)
            fail_msg("wrong bytes under key %u", first + (unsigned)i);
    }
    return trues(n);
}

static size_t exists(struct kvs_store *store, unsigned first, size_t n)
{
    load_keys(first, n);
    return kvs_store_batch_exists(store, KVS_POOL_KV, n, batch.keys);
}

static uint64_t requests(void)
{
    uint64_t sum = 0;
    for (int e = 0; e <= ENDPOINT_RANK_LAST; e++)
        sum += live_server_requests(&server, (enum endpoint)e);
    return sum;
}

/* ---- Ranks ---------------------------------------------------------------------------------- */

static uint32_t add_pool(struct kvs_store *store, const char *name, bool replicated)
{
    const struct kvs_pool_options options = {.size = sizeof(options),
                                             .name = name,
                                             .bytes_per_page = PAGE_BYTES,
                                             .replicated = replicated};
    uint32_t pool;
    struct kvs_error error;
    if (kvs_store_add_pool(store, &options, &pool, &error) != KVS_OK)
        fail_msg("%s", error.message);
    return pool;
}

static void test_mla_ranks(void **state)
{
    (void)state;
    struct kvs_store *ranks[2];
    uint32_t mamba[2], indexer[2];
    struct kvs_store_options options = options_of(server.url);
    options.is_mla_model = true;
    options.tp_size = 2;
    for (uint32_t r = 0; r < 2; r++) {
        options.tp_rank = r;
        ranks[r] = open_store(&options);
        mamba[r] = add_pool(ranks[r], "mamba", false);
        indexer[r] = add_pool(ranks[r], "indexer", true);
    }
    struct kvs_pool_info info;
    assert_true(kvs_store_pool_info(ranks[1], KVS_POOL_KV, &info));
    assert_int_equal(info.rank, 0);
    assert_false(info.writes);
    assert_non_null(strstr(info.file_path, "pages.0.bin"));
    assert_true(kvs_store_pool_info(ranks[1], mamba[1], &info));
    assert_int_equal(info.rank, 1);
    assert_true(info.writes);
    assert_non_null(strstr(info.file_path, "pages.1.bin.mamba"));

    /* KV: rank 0 writes for both, the other says yes for each key, and both find it. */
    assert_int_equal(set(ranks[1], KVS_POOL_KV, 0, 8, 99), 8);
    assert_int_equal(get(ranks[1], KVS_POOL_KV, 0, 8, 0), 0);
    assert_int_equal(set(ranks[0], KVS_POOL_KV, 0, 8, 0), 8);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(exists(ranks[r], 0, 9), 8);
        assert_int_equal(get(ranks[r], KVS_POOL_KV, 0, 8, 0), 8);
    }
    /* A replicated pool likewise; the state of each rank is its own, under the same keys. */
    assert_int_equal(set(ranks[1], indexer[1], 0, 4, 99), 4);
    assert_int_equal(set(ranks[0], indexer[0], 0, 4, 0), 4);
    assert_int_equal(get(ranks[1], indexer[1], 0, 4, 0), 4);
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(set(ranks[r], mamba[r], 0, 4, r), 4);
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(get(ranks[r], mamba[r], 0, 4, r), 4);
    for (uint32_t r = 0; r < 2; r++)
        kvs_store_close(ranks[r]);
    assert_string_equal(log_lines, "");
}

static void test_two_engines_share_pages(void **state)
{
    (void)state;
    struct kvs_store_options options = options_of(server.url);
    struct kvs_store *a = open_store(&options), *b = open_store(&options);
    assert_int_equal(set(a, KVS_POOL_KV, 0, 16, 1), 16);
    assert_int_equal(set(b, KVS_POOL_KV, 0, 20, 1), 20);
    struct kvs_store_stats stats;
    kvs_store_get_stats(b, &stats);
    assert_int_equal(stats.pages_present, 16);
    assert_int_equal(stats.pages_written, 4);
    assert_int_equal(get(a, KVS_POOL_KV, 0, 20, 1), 20);
    kvs_store_close(a);
    options.model = "another";
    const struct store_parts parts = {.now_ns = set_clock, .exists_timeout_ms = 20000};
    struct kvs_error error;
    assert_int_equal(store_open(&options, &parts, &a, &error), KVS_ERR_FINGERPRINT_DIFFERS);
    kvs_store_close(b);
}

static void test_one_question_for_exists_and_get(void **state)
{
    (void)state;
    struct kvs_store_options options = options_of(server.url);
    options.exists_cache_ms = 600000; /* of real time */
    struct kvs_store *store = open_store(&options);
    assert_int_equal(set(store, KVS_POOL_KV, 0, 16, 1), 16);
    uint64_t before = requests();
    assert_int_equal(exists(store, 0, 20), 16);
    assert_int_equal(get(store, KVS_POOL_KV, 0, 16, 1), 16);
    assert_int_equal(requests(), before + 1);
    kvs_store_close(store);
}

/* The page was given to another key after its owner's existence had been asked: a miss, and the
 * server's word afterwards. Never the other key's bytes. */
static void test_a_stale_answer_is_a_miss(void **state)
{
    (void)state;
    struct kvs_store_options options = options_of(server.url);
    options.exists_cache_ms = 600000; /* of real time */
    struct kvs_store *a = open_store(&options), *b = open_store(&options);
    assert_int_equal(set(a, KVS_POOL_KV, 0, PAGES / 2, 1), PAGES / 2);
    assert_int_equal(exists(a, 0, PAGES / 2), PAGES / 2);
    for (unsigned i = 1; i <= 4; i++) /* every page gets another key */
        assert_int_equal(set(b, KVS_POOL_KV, i * 1000, PAGES / 2, 2), PAGES / 2);
    assert_int_equal(get(a, KVS_POOL_KV, 0, PAGES / 2, 1), 0);
    struct kvs_store_stats stats;
    kvs_store_get_stats(a, &stats);
    assert_int_equal(stats.missed_replaced, PAGES / 2);
    assert_int_equal(stats.checksum_mismatches, 0);
    assert_int_equal(stats.mismatches_reported, 0);
    assert_int_equal(get(b, KVS_POOL_KV, 4000, PAGES / 2, 2), PAGES / 2);
    kvs_store_close(a);
    kvs_store_close(b);
}

/* ---- The server goes and comes -------------------------------------------------------------- */

static void test_a_server_that_has_forgotten(void **state)
{
    (void)state;
    struct kvs_store_options options = options_of(server.url);
    struct kvs_store *store = open_store(&options);
    assert_int_equal(set(store, KVS_POOL_KV, 0, 8, 1), 8);
    for (int i = 0; i < 3; i++) {
        live_server_stop(&server);
        live_server_start(&server);
        assert_int_equal(get(store, KVS_POOL_KV, 0, 8, 1), 0);
        assert_int_equal(set(store, KVS_POOL_KV, 0, 8, 1), 8);
        assert_int_equal(get(store, KVS_POOL_KV, 0, 8, 1), 8);
        live_server_stop(&server);
        live_server_start(&server);
        assert_int_equal(exists(store, 0, 8), 0);
        struct kvs_error error;
        live_server_stop(&server);
        live_server_start(&server);
        assert_int_equal(kvs_store_clear(store, &error), KVS_OK);
    }
    struct kvs_store_stats stats;
    kvs_store_get_stats(store, &stats);
    assert_int_equal(stats.metadata_errors, 0);
    kvs_store_close(store);
}

static void test_no_server_for_a_while(void **state)
{
    (void)state;
    char kept[TEMP_DIR_MAX + 16];
    snprintf(kept, sizeof(kept), "%s/index", dir);
    live_server_stop(&server);
    server.dir = kept;
    live_server_start(&server);
    struct kvs_store_options options = options_of(server.url);
    struct kvs_store *store = open_store(&options);
    struct kvs_store_stats stats;
    assert_int_equal(set(store, KVS_POOL_KV, 0, 8, 1), 8);

    live_server_stop(&server);
    assert_int_equal(get(store, KVS_POOL_KV, 0, 8, 1), 0);
    assert_int_equal(set(store, KVS_POOL_KV, 100, 8, 1), 0);
    assert_int_equal(exists(store, 0, 8), 0);
    kvs_store_get_stats(store, &stats);
    assert_int_equal(stats.metadata_errors, 1); /* the first one opened the breaker */
    assert_int_equal(stats.metadata_breaker_trips, 1);
    assert_non_null(strstr(log_lines, "cannot be reached"));

    live_server_start(&server);
    assert_int_equal(get(store, KVS_POOL_KV, 0, 8, 1), 0); /* left alone until its pause is over */
    assert_int_equal(requests(), 0);
    clock_ns += SECOND_NS;
    assert_int_equal(get(store, KVS_POOL_KV, 0, 8, 1), 8);
    assert_int_equal(live_server_requests(&server, ENDPOINT_EXISTS), 1); /* the probe */

    live_server_stop(&server);
    assert_int_equal(exists(store, 0, 8), 0); /* its short time may pass while others go on */
    kvs_store_get_stats(store, &stats);
    assert_int_equal(stats.metadata_breaker_trips, 1);
    assert_int_equal(get(store, KVS_POOL_KV, 0, 8, 1), 0);
    clock_ns += SECOND_NS;
    assert_int_equal(get(store, KVS_POOL_KV, 0, 8, 1), 0); /* the probe fails, the pause doubles */
    live_server_start(&server);
    clock_ns += SECOND_NS;
    assert_int_equal(get(store, KVS_POOL_KV, 0, 8, 1), 0);
    clock_ns += SECOND_NS;
    assert_int_equal(exists(store, 0, 8), 0); /* those with more time probe first, */
    assert_int_equal(requests(), 0);
    clock_ns += SECOND_NS / 5;
    assert_int_equal(exists(store, 0, 8), 8); /* but nobody did */
    kvs_store_get_stats(store, &stats);
    assert_int_equal(stats.metadata_breaker_trips, 3);
    kvs_store_close(store);
}

/* A server (a stand-in) that takes requests and never answers: one call waits for its time, the
 * others do not. */
static void test_a_server_that_hangs(void **state)
{
    (void)state;
    static struct bad_server bad;
    const struct bad_step steps[] = {
        {bad_answer(200, "{\"exists\":[]}"), BAD_KEEPS},
        {"HTTP/1.1 204 No Content\r\n\r\n", BAD_KEEPS},
        {bad_answer(200, "{\"indices\":[],\"checksums\":[],\"generations\":[]}"), BAD_KEEPS},
        {"", BAD_HANGS},
    };
    bad_server_start(&bad, steps, sizeof(steps) / sizeof(steps[0]));
    struct kvs_store_options options = options_of(bad.url);
    options.client_timeout = 1;
    struct kvs_store *store = open_store(&options);
    struct kvs_store_stats stats;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(get(store, KVS_POOL_KV, 0, 8, 1), 0);
        assert_int_equal(set(store, KVS_POOL_KV, 0, 8, 1), 0);
    }
    assert_int_equal(bad_server_requests(&bad, 4), 4);
    clock_ns += SECOND_NS;
    assert_int_equal(set(store, KVS_POOL_KV, 0, 8, 1), 0);
    assert_int_equal(bad_server_requests(&bad, 5), 5); /* the probe, and nothing after it */
    bad_server_last_request(&bad, request);
    assert_non_null(strstr(request, "POST /0/exists"));
    kvs_store_get_stats(store, &stats);
    assert_int_equal(stats.metadata_errors, 2);
    kvs_store_close(store);
    bad_server_stop(&bad);
}

/* Who only inspects finds out, and changes nothing: neither a namespace that is not there nor a
 * page file comes to be, the index hears of no damage, and a server that forgot stays empty. */
static void test_inspecting_changes_nothing(void **state)
{
    (void)state;
    struct kvs_store_options options = options_of(server.url), look = options;
    struct kvs_store *store = NULL, *looker = NULL;
    struct kvs_error error;
    struct kvs_store_stats stats;
    look.inspect = true;
    assert_int_equal(kvs_store_open(&look, &looker, &error), KVS_ERR_NOT_INITIALIZED_SERVER);
    assert_null(registry_lock(server.registry, 0, "kv", 2));

    assert_int_equal(kvs_store_open(&options, &store, &error), KVS_OK);
    assert_int_equal(set(store, KVS_POOL_KV, 0, 8, 1), 8);
    assert_int_equal(kvs_store_open(&look, &looker, &error), KVS_OK);
    assert_int_equal(get(looker, KVS_POOL_KV, 0, 8, 1), 8);
    assert_int_equal(set(looker, KVS_POOL_KV, 100, 1, 1), 0);
    kvs_store_get_stats(looker, &stats);
    assert_int_equal(stats.unstored_refused, 1);
    looker = kvs_store_close(looker);

    char file[TEMP_DIR_MAX + 32], elsewhere[TEMP_DIR_MAX + 32];
    snprintf(file, sizeof(file), "%s/other.0.bin", dir);
    snprintf(elsewhere, sizeof(elsewhere), "%s/other", dir);
    look.file_path_prefix = elsewhere; /* of another deployment */
    assert_int_equal(kvs_store_open(&look, &looker, &error), KVS_ERR_FILE_OPEN);
    assert_int_equal(access(file, F_OK), -1);
    FILE *zeros = fopen(file, "w");
    assert_non_null(zeros);
    assert_int_equal(ftruncate(fileno(zeros), 4 * PAGE_BYTES), 0);
    assert_int_equal(fclose(zeros), 0);
    assert_int_equal(kvs_store_open(&look, &looker, &error), KVS_OK);
    assert_int_equal(get(looker, KVS_POOL_KV, 0, 8, 1), 0);
    kvs_store_get_stats(looker, &stats);
    assert_int_equal(stats.missed_mismatch, 4); /* the others are beyond its end */
    assert_int_equal(stats.mismatches_reported, 0);
    assert_int_equal(live_server_requests(&server, ENDPOINT_REPORT_MISMATCH), 0);
    assert_non_null(strstr(log_lines, "They are misses and are left as they are."));
    struct stat about;
    assert_int_equal(stat(file, &about), 0);
    assert_int_equal(about.st_size, 4 * PAGE_BYTES);
    assert_int_equal(get(store, KVS_POOL_KV, 0, 8, 1), 8); /* nobody was told of damage */
    kvs_store_close(store);

    live_server_stop(&server);
    live_server_start(&server);
    assert_int_equal(get(looker, KVS_POOL_KV, 0, 8, 1), 0);
    assert_null(registry_lock(server.registry, 0, "kv", 2));
    kvs_store_close(looker);
}

static void test_no_server_at_the_start(void **state)
{
    (void)state;
    struct kvs_store *store = NULL;
    struct kvs_error error;
    live_server_stop(&server);
    struct kvs_store_options options = options_of(server.url);
    const struct store_parts parts = {.now_ns = set_clock, .exists_timeout_ms = 20000};
    options.client_timeout = 0.2;
    assert_int_equal(store_open(&options, &parts, &store, &error), KVS_ERR_REMOTE_UNREACHABLE);
    assert_non_null(strstr(error.message, server.url));
    assert_null(store);
    options.metadata_token_file = "/nonexistent/token";
    assert_int_equal(store_open(&options, &parts, &store, &error), KVS_ERR_TOKEN_FILE_MISSING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mla_ranks, begin, end),
        cmocka_unit_test_setup_teardown(test_two_engines_share_pages, begin, end),
        cmocka_unit_test_setup_teardown(test_one_question_for_exists_and_get, begin, end),
        cmocka_unit_test_setup_teardown(test_a_stale_answer_is_a_miss, begin, end),
        cmocka_unit_test_setup_teardown(test_a_server_that_has_forgotten, begin, end),
        cmocka_unit_test_setup_teardown(test_no_server_for_a_while, begin, end),
        cmocka_unit_test_setup_teardown(test_a_server_that_hangs, begin, end),
        cmocka_unit_test_setup_teardown(test_inspecting_changes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(test_no_server_at_the_start, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
