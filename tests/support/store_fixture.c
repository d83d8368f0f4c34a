/* The fixture. */
#include "support/store_fixture.h"

#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void log_to_fixture(void *arg, enum kvs_log_level level, const char *line)
{
    (void)level;
    struct store_fixture *fixture = arg;
    uint32_t n = atomic_fetch_add(&fixture->line_count, 1);
    if (n < FIXTURE_LINES)
        snprintf(fixture->lines[n], sizeof(fixture->lines[0]), "%s", line);
}

static uint64_t fixture_now(void *arg)
{
    return atomic_load(&((struct store_fixture *)arg)->now_ns);
}

struct store_fixture *fixture_new(void)
{
    struct store_fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fake_metadata_init(&fixture->metadata);
    fake_engine_init(&fixture->engine);
    atomic_init(&fixture->now_ns, 1000000000);
    kvs_store_options_init(&fixture->options);
    fixture->options.bytes_per_page = FIXTURE_PAGE_BYTES;
    fixture->options.file_size = FIXTURE_PAGES * FIXTURE_PAGE_BYTES;
    fixture->options.file_path_prefix = "/fake/pages";
    fixture->options.log = log_to_fixture;
    fixture->options.log_arg = fixture;
    return fixture;
}

struct store_parts fixture_parts(struct store_fixture *fixture)
{
    return (struct store_parts){
        .metadata = &fixture->metadata.client,
        .open_file = fake_engine_open,
        .open_file_arg = &fixture->engine,
        .now_ns = fixture_now,
        .now_arg = fixture,
    };
}

void fixture_open(struct store_fixture *fixture)
{
    const struct store_parts parts = fixture_parts(fixture);
    struct kvs_error error = {0};
    if (store_open(&fixture->options, &parts, &fixture->store, &error) != KVS_OK)
        fail_msg("the store does not open: %s", error.message);
    uint64_t bytes = fixture->options.bytes_per_page;
    free(fixture->memory);
    size_t pages = bytes > 65536 ? FIXTURE_LARGE_PAGES : 2 * FIXTURE_KEYS_MAX;
    fixture->memory = calloc(pages, bytes);
    assert_non_null(fixture->memory);
    for (size_t i = 0; i < pages; i++)
        fixture->buffers[i] = fixture->memory + i * bytes;
}

void fixture_close(struct store_fixture *fixture)
{
    fixture->store = kvs_store_close(fixture->store);
}

struct store_fixture *fixture_free(struct store_fixture *fixture)
{
    fixture_close(fixture);
    fake_engine_done(&fixture->engine);
    fake_metadata_done(&fixture->metadata);
    free(fixture->memory);
    free(fixture);
    return NULL;
}

void fixture_keys(struct store_fixture *fixture, uint64_t first, size_t n)
{
    assert_true(n <= FIXTURE_KEYS_MAX);
    for (size_t i = 0; i < n; i++) {
        snprintf(fixture->key_texts[i], sizeof(fixture->key_texts[i]), "%064" PRIx64,
                 (first + i) * 0x9e3779b97f4a7c15u);
        fixture->keys[i] = fixture->key_texts[i];
    }
}

void fixture_fill(uint8_t *page, size_t bytes, uint64_t key, unsigned half)
{
    uint64_t x = key * 2 + half + 1;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        page[i] = (uint8_t)(x >> 56);
    }
}

bool fixture_holds(const uint8_t *page, size_t bytes, uint64_t key, unsigned half)
{
    uint64_t x = key * 2 + half + 1;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        if (page[i] != (uint8_t)(x >> 56))
            return false;
    }
    return true;
}

static size_t count_results(const struct store_fixture *fixture, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += fixture->results[i];
    return count;
}

size_t fixture_set(struct store_fixture *fixture, uint64_t first, size_t n)
{
    unsigned halves = fixture->options.pairs ? 2 : 1;
    fixture_keys(fixture, first, n);
    for (size_t i = 0; i < n; i++)
        for (unsigned half = 0; half < halves; half++)
            fixture_fill(fixture->buffers[i * halves + half], fixture->options.bytes_per_page,
                         first + i, half);
    memset(fixture->results, 2, sizeof(fixture->results));
    kvs_store_batch_set(fixture->store, KVS_POOL_KV, n, fixture->keys,
                        (const void *const *)fixture->buffers, fixture->results);
    return count_results(fixture, n);
}

size_t fixture_get(struct store_fixture *fixture, uint64_t first, size_t n)
{
    unsigned halves = fixture->options.pairs ? 2 : 1;
    fixture_keys(fixture, first, n);
    memset(fixture->memory, 0xee, n * halves * fixture->options.bytes_per_page);
    memset(fixture->results, 2, sizeof(fixture->results));
    kvs_store_batch_get(fixture->store, KVS_POOL_KV, n, fixture->keys, fixture->buffers,
                        fixture->results);
    for (size_t i = 0; i < n; i++)
        for (unsigned half = 0; fixture->results[i] && half < halves; half++)
            if (!fixture_holds(fixture->buffers[i * halves + half], fixture->options.bytes_per_page,
                               first + i, half))
                fail_msg("key %" PRIu64 " half %u has other bytes", first + i, half);
    return count_results(fixture, n);
}

size_t fixture_exists(struct store_fixture *fixture, uint64_t first, size_t n)
{
    fixture_keys(fixture, first, n);
    return kvs_store_batch_exists(fixture->store, KVS_POOL_KV, n, fixture->keys);
}

struct kvs_store_stats fixture_stats(struct store_fixture *fixture)
{
    struct kvs_store_stats s;
    kvs_store_get_stats(fixture->store, &s);
    assert_int_equal(s.pages_asked, s.pages_loaded + s.pages_missed);
    assert_int_equal(s.pages_missed, s.missed_absent + s.missed_replaced + s.missed_mismatch +
                                         s.missed_read_error + s.missed_overdue +
                                         s.missed_metadata + s.missed_refused);
    assert_int_equal(s.pages_set,
                     s.pages_written + s.pages_present + s.pages_skipped + s.pages_not_stored);
    assert_int_equal(s.pages_not_stored, s.unstored_no_page + s.unstored_write_error +
                                             s.unstored_no_space + s.unstored_overdue +
                                             s.unstored_rejected + s.unstored_metadata +
                                             s.unstored_refused);
    return s;
}

struct catalog_counts fixture_counts(struct store_fixture *fixture)
{
    struct kvs_pool_info info;
    assert_true(kvs_store_pool_info(fixture->store, KVS_POOL_KV, &info));
    return fake_metadata_counts(&fixture->metadata, info.rank, info.ns);
}

bool fixture_logged(struct store_fixture *fixture, const char *part)
{
    uint32_t n = atomic_load(&fixture->line_count);
    for (uint32_t i = 0; i < n && i < FIXTURE_LINES; i++)
        if (strstr(fixture->lines[i], part) != NULL)
            return true;
    return false;
}
