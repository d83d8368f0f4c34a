/* batch_set: what is answered true is there, what failed is given back, nothing is lost or doubled.
 */
#include "support/store_fixture.h"
#include "support/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SECOND = 1000000000 };

static void test_written_pages_are_confirmed_and_come_back(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    assert_int_equal(fixture_set(f, 0, 10), 10);
    assert_int_equal(fixture_counts(f).committed, 10);
    assert_int_equal(fixture_get(f, 0, 10), 10);
    struct kvs_store_stats s = fixture_stats(f);
    assert_int_equal(s.pages_written, 10);
    assert_int_equal(s.bytes_written, 10 * FIXTURE_PAGE_BYTES);
    assert_int_equal(s.pages_loaded, 10);
    assert_int_equal(s.bytes_read, 10 * FIXTURE_PAGE_BYTES);
    fixture_free(f);
}

static void test_present_pages_are_true_and_not_written_again(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    assert_int_equal(fixture_set(f, 0, 6), 6);
    struct kvs_store_stats s = fixture_stats(f);
    assert_int_equal(s.pages_present, 4);
    assert_int_equal(s.pages_written, 6);
    fixture_free(f);
}

static void test_nothing_and_no_such_pool(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    kvs_store_batch_set(f->store, 0, 0, NULL, NULL, NULL);
    kvs_store_batch_get(f->store, 0, 0, NULL, NULL, NULL);
    assert_int_equal(kvs_store_batch_exists(f->store, 0, 0, NULL), 0);
    fixture_keys(f, 0, 2);
    memset(f->results, 2, 2);
    kvs_store_batch_set(f->store, 7, 2, f->keys, (const void *const *)f->buffers, f->results);
    assert_false(f->results[0] || f->results[1]);
    memset(f->results, 2, 2);
    kvs_store_batch_get(f->store, 7, 2, f->keys, f->buffers, f->results);
    assert_false(f->results[0] || f->results[1]);
    assert_int_equal(kvs_store_batch_exists(f->store, 7, 2, f->keys), 0);
    assert_int_equal(fixture_stats(f).unstored_refused, 2);
    assert_int_equal(fixture_stats(f).missed_refused, 2);
    fixture_free(f);
}

/* A key that is too long, or NULL, or without a buffer, is false by itself and harms no other. */
static void test_bad_keys_are_refused_one_by_one(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    static char longest[KEY_TEXT_MAX + 1], longer[KEY_TEXT_MAX + 2];
    memset(longest, 'x', KEY_TEXT_MAX);
    memset(longer, 'y', KEY_TEXT_MAX + 1);
    const char *keys[] = {"a", NULL, longer, longest, "b", "", "c"};
    const bool good[] = {true, false, false, true, false, true, true};
    void *buffers[7];
    for (size_t i = 0; i < 7; i++) {
        buffers[i] = f->buffers[i];
        fixture_fill(buffers[i], FIXTURE_PAGE_BYTES, i, 0);
    }
    buffers[4] = NULL;
    kvs_store_batch_set(f->store, 0, 7, keys, (const void *const *)buffers, f->results);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(f->results[i], good[i]);
    memset(f->memory, 0, 7 * FIXTURE_PAGE_BYTES);
    kvs_store_batch_get(f->store, 0, 7, keys, buffers, f->results);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(f->results[i], good[i]);
        if (good[i])
            assert_true(fixture_holds(buffers[i], FIXTURE_PAGE_BYTES, i, 0));
    }
    assert_int_equal(fixture_stats(f).unstored_refused, 3);
    fixture_free(f);
}

/* More keys than pages: some are false, none is lost, nothing leaks (the original: HTTP 500). */
static void test_batch_larger_than_the_catalog(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    for (int round = 0; round < 5; round++) {
        size_t stored = fixture_set(f, (uint64_t)round * 1000, 3 * FIXTURE_PAGES);
        assert_in_range(stored, FIXTURE_PAGES / 2, FIXTURE_PAGES);
        bool said[3 * FIXTURE_PAGES];
        memcpy(said, f->results, sizeof(said));
        fixture_get(f, (uint64_t)round * 1000, 3 * FIXTURE_PAGES);
        assert_memory_equal(said, f->results, sizeof(said));
        assert_int_equal(fixture_counts(f).reserved, 0);
    }
    assert_true(fixture_stats(f).unstored_no_page > 0);
    fixture_free(f);
}

/* Batches are split inside by max_inflight_bytes; the answers are those of one batch. */
static void test_batches_are_split_inside(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->options.max_inflight_bytes = 3 * FIXTURE_PAGE_BYTES + 1;
    fixture_open(f);
    assert_int_equal(fixture_set(f, 0, 40), 40);
    assert_int_equal(f->metadata.calls[FAKE_RESERVE], 14);
    assert_int_equal(fixture_get(f, 0, 40), 40);
    fixture_close(f);
    f->options.max_inflight_bytes = 1; /* a page larger than the bound still moves */
    fixture_open(f);
    assert_int_equal(fixture_set(f, 100, 5), 5);
    assert_int_equal(fixture_get(f, 100, 5), 5);
    assert_int_equal(fixture_stats(f).inflight_bytes, 0);
    fixture_free(f);
}

/* ---- Writes that fail ----------------------------------------------------------------------- */

static void test_failed_writes_are_released_never_confirmed(void **state)
{
    (void)state;
    static const struct {
        enum fake_fault fault;
        int error_number;
        size_t counter; /* in the statistics */
    } cases[] = {
        {FAKE_ERROR, EIO, offsetof(struct kvs_store_stats, unstored_write_error)},
        {FAKE_ERROR, EFAULT, offsetof(struct kvs_store_stats, unstored_write_error)},
        {FAKE_ERROR, ENOSPC, offsetof(struct kvs_store_stats, unstored_no_space)},
        {FAKE_ERROR, EDQUOT, offsetof(struct kvs_store_stats, unstored_no_space)},
        {FAKE_SHORT, 0, offsetof(struct kvs_store_stats, unstored_write_error)},
        {FAKE_ZERO, 0, offsetof(struct kvs_store_stats, unstored_write_error)},
        {FAKE_OVER, 0, offsetof(struct kvs_store_stats, unstored_write_error)},
        {FAKE_UNSTARTED, 0, offsetof(struct kvs_store_stats, unstored_overdue)},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct store_fixture *f = fixture_new();
        fixture_open(f);
        f->engine.error_number = cases[c].error_number;
        fake_engine_fault(&f->engine, cases[c].fault, 3, 2, false, true);
        assert_int_equal(fixture_set(f, 0, 8), 6);
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(f->results[i], i != 2 && i != 3);
        struct kvs_store_stats s = fixture_stats(f);
        uint64_t counted;
        memcpy(&counted, (const char *)&s + cases[c].counter, sizeof(counted));
        assert_int_equal(counted, 2);
        assert_int_equal(s.pages_not_stored, 2);
        assert_int_equal(f->metadata.released, 2);
        struct catalog_counts counts = fixture_counts(f);
        assert_int_equal(counts.committed, 6);
        assert_int_equal(counts.reserved, 0);
        fake_engine_fault(&f->engine, FAKE_NONE, 0, 0, false, false);
        assert_int_equal(fixture_get(f, 0, 8), 6);
        fixture_free(f);
    }
}

/* Completions belong to pages by tag: their order means nothing. */
static void test_completions_out_of_order(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    f->engine.reversed = true;
    fake_engine_fault(&f->engine, FAKE_ERROR, 1, 1, false, true);
    assert_int_equal(fixture_set(f, 0, 8), 7);
    assert_false(f->results[7]);
    assert_int_equal(fixture_get(f, 0, 8), 7);
    fixture_free(f);
}

static void test_failing_writes_do_not_drain_the_cache(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    assert_int_equal(fixture_set(f, 0, FIXTURE_PAGES), FIXTURE_PAGES);
    fake_engine_fault(&f->engine, FAKE_ERROR, 1, UINT64_MAX, false, true);
    for (uint64_t round = 1; round < 50; round++)
        assert_int_equal(fixture_set(f, round * 100, 8), 0);
    assert_int_equal(fixture_counts(f).committed, FIXTURE_PAGES - 8);
    assert_int_equal(fixture_stats(f).write_breaker_trips, 1);
    assert_int_equal(fixture_get(f, 0, FIXTURE_PAGES), FIXTURE_PAGES - 8);

    /* what is there is answered true also while the breaker is open */
    size_t there = fixture_set(f, 0, FIXTURE_PAGES);
    assert_int_equal(there, FIXTURE_PAGES - 8);

    /* a probe that fails costs one page, and doubles the pause */
    uint64_t tried = f->engine.write_ios;
    atomic_fetch_add(&f->now_ns, 1 * (uint64_t)SECOND);
    assert_int_equal(fixture_set(f, 9000, 8), 0);
    assert_int_equal(f->engine.write_ios, tried + 1);
    atomic_fetch_add(&f->now_ns, 1 * (uint64_t)SECOND);
    assert_int_equal(fixture_set(f, 9000, 8), 0);
    assert_int_equal(f->engine.write_ios, tried + 1);

    /* one that succeeds closes the breaker, and the rest of its batch is written too */
    fake_engine_fault(&f->engine, FAKE_NONE, 0, 0, false, false);
    atomic_fetch_add(&f->now_ns, 1 * (uint64_t)SECOND);
    assert_int_equal(fixture_set(f, 9000, 8), 8);
    assert_int_equal(fixture_get(f, 9000, 8), 8);
    assert_int_equal(fixture_counts(f).reserved, 0);
    fixture_free(f);
}

static void test_full_disk_trips_at_once_and_recovers(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    f->engine.error_number = ENOSPC;
    fake_engine_fault(&f->engine, FAKE_ERROR, 2, UINT64_MAX, false, true);
    assert_int_equal(fixture_set(f, 0, 8), 1); /* one success does not keep it closed */
    assert_int_equal(fixture_stats(f).write_breaker_trips, 1);
    assert_int_equal(fixture_stats(f).unstored_no_space, 7);
    assert_true(fixture_logged(f, "No space left on device"));
    assert_int_equal(fixture_set(f, 100, 8), 0);
    assert_int_equal(fixture_stats(f).unstored_refused, 8);
    fake_engine_fault(&f->engine, FAKE_NONE, 0, 0, false, false);
    atomic_fetch_add(&f->now_ns, SECOND);
    assert_int_equal(fixture_set(f, 0, 8), 8);
    assert_int_equal(fixture_get(f, 0, 8), 8);
    fixture_free(f);
}

/* A page that found no room is used after all others. */
static void test_pages_without_room_are_used_last(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    f->engine.error_number = ENOSPC;
    fake_engine_fault(&f->engine, FAKE_ERROR, 1, 3, false, true);
    assert_int_equal(fixture_set(f, 0, 3), 0); /* the first three pages of the file */
    fake_engine_fault(&f->engine, FAKE_NONE, 0, 0, false, false);
    atomic_fetch_add(&f->now_ns, SECOND);
    assert_int_equal(fixture_set(f, 100, FIXTURE_PAGES - 3), FIXTURE_PAGES - 3);
    for (size_t i = 0; i < FIXTURE_PAGES - 3; i++)
        assert_true(fake_metadata_page(&f->metadata, 0, "kv", f->keys[i]) >= 3);
    assert_int_equal(fixture_set(f, 0, 3), 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(fake_metadata_page(&f->metadata, 0, "kv", f->keys[i]) < 3);
    fixture_free(f);
}

/* Page sizes from the marker page of an index-only pool on, multiples of 4 KiB or not. */
static void test_page_sizes(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 7, 4095, 4096, 4097, 515328, 4497408};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct store_fixture *f = fixture_new();
        f->options.bytes_per_page = sizes[i];
        f->options.file_size = 8 * sizes[i] + sizes[i] / 2;
        fixture_open(f);
        assert_int_equal(fixture_set(f, 0, 8), 8);
        assert_int_equal(fixture_get(f, 0, 8), 8);
        fixture_free(f);
    }
}

/* A call that may probe and has nothing to write leaves the probe to the next one. */
static void test_probe_without_anything_to_write(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    fake_engine_fault(&f->engine, FAKE_ERROR, 1, UINT64_MAX, false, true);
    assert_int_equal(fixture_set(f, 100, 4), 0);
    fake_engine_fault(&f->engine, FAKE_NONE, 0, 0, false, false);
    atomic_fetch_add(&f->now_ns, SECOND);
    assert_int_equal(fixture_set(f, 0, 4), 4);
    assert_int_equal(fixture_set(f, 100, 4), 4);
    fixture_free(f);
}

/* One bad page among good ones is no reason to stop. */
static void test_single_failures_do_not_trip(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    for (uint64_t round = 0; round < 20; round++) {
        fake_engine_fault(&f->engine, FAKE_ERROR, 1, 1, false, true);
        assert_int_equal(fixture_set(f, round * 10, 3), 2);
    }
    assert_int_equal(fixture_stats(f).write_breaker_trips, 0);
    fixture_free(f);
}

/* A key twice in one batch has one page; when its write fails neither is true. */
static void test_repeated_keys_follow_their_write(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        struct store_fixture *f = fixture_new();
        fixture_open(f);
        fixture_keys(f, 0, 4);
        const char *keys[] = {f->keys[0], f->keys[1], f->keys[0], f->keys[2], f->keys[0]};
        for (size_t i = 0; i < 5; i++)
            fixture_fill(f->buffers[i], FIXTURE_PAGE_BYTES, 0, 0);
        if (fails) {
            fake_engine_fault(&f->engine, FAKE_ERROR, 1, 3, false, true);
            f->engine.count = 3;
        }
        kvs_store_batch_set(f->store, 0, 5, keys, (const void *const *)f->buffers, f->results);
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(f->results[i], !fails);
        struct catalog_counts counts = fixture_counts(f);
        assert_int_equal(counts.committed, fails ? 0 : 3);
        assert_int_equal(counts.reserved, 0);
        fixture_stats(f);
        fixture_free(f);
    }
}

/* ---- Pairs ---------------------------------------------------------------------------------- */

static void test_pairs_are_two_keys_and_one_result(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->options.pairs = true;
    fixture_open(f);
    assert_int_equal(fixture_set(f, 0, 10), 10);
    assert_int_equal(fixture_counts(f).committed, 20);
    assert_int_equal(fixture_stats(f).pages_written, 10);
    char half[80];
    for (size_t i = 0; i < 10; i++) {
        snprintf(half, sizeof(half), "%s-k", f->keys[i]);
        assert_true(fake_metadata_page(&f->metadata, 0, "kv", half) >= 0);
        snprintf(half, sizeof(half), "%s-v", f->keys[i]);
        assert_true(fake_metadata_page(&f->metadata, 0, "kv", half) >= 0);
    }
    assert_int_equal(fixture_get(f, 0, 10), 10);
    assert_int_equal(fixture_exists(f, 0, 20), 10);
    fixture_free(f);
}

static void test_pair_with_one_failed_half_is_not_stored(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth <= 6; nth++) {
        struct store_fixture *f = fixture_new();
        f->options.pairs = true;
        fixture_open(f);
        fake_engine_fault(&f->engine, FAKE_ERROR, nth, 1, false, true);
        assert_int_equal(fixture_set(f, 0, 3), 2);
        assert_false(f->results[(nth - 1) / 2]);
        assert_int_equal(f->metadata.released, 2); /* both halves */
        struct catalog_counts counts = fixture_counts(f);
        assert_int_equal(counts.committed, 4);
        assert_int_equal(counts.reserved, 0);
        assert_int_equal(fixture_get(f, 0, 3), 2);
        fixture_free(f);
    }
}

static void test_pairs_that_do_not_fit_leave_no_half(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->options.pairs = true;
    f->options.file_size = 7 * FIXTURE_PAGE_BYTES; /* an odd number of pages */
    fixture_open(f);
    for (uint64_t round = 0; round < 10; round++) {
        size_t stored = fixture_set(f, round * 100, 8);
        assert_in_range(stored, 1, 3);
        assert_int_equal(fixture_get(f, round * 100, 8), stored);
        struct catalog_counts counts = fixture_counts(f);
        assert_int_equal(counts.reserved, 0);
        assert_int_equal(counts.committed % 2, 0);
    }
    fixture_free(f);
}

/* An index that has a page for one half only: it is given back unwritten. */
static void test_one_page_for_a_pair(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->options.pairs = true;
    fixture_open(f);
    f->metadata.no_page_for_v = true;
    assert_int_equal(fixture_set(f, 0, 4), 0);
    assert_int_equal(f->engine.write_ios, 0);
    assert_int_equal(f->metadata.released, 4);
    assert_int_equal(fixture_counts(f).reserved, 0);
    assert_int_equal(fixture_stats(f).unstored_no_page, 4);
    f->metadata.no_page_for_v = false;
    assert_int_equal(fixture_set(f, 0, 4), 4);
    assert_int_equal(fixture_get(f, 0, 4), 4);
    fixture_free(f);
}

/* ---- An index that fails -------------------------------------------------------------------- */

static void test_dead_index(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    f->metadata.failing[FAKE_RESERVE] = true;
    assert_int_equal(fixture_set(f, 10, 4), 0);
    assert_int_equal(fixture_stats(f).unstored_metadata, 4);
    assert_int_equal(fixture_counts(f).committed, 4);
    f->metadata.failing[FAKE_RESERVE] = false;

    f->metadata.failing[FAKE_CONFIRM] = true;
    assert_int_equal(fixture_set(f, 10, 4), 0);
    assert_int_equal(fixture_stats(f).unstored_metadata, 8);
    assert_int_equal(fixture_counts(f).reserved, 4); /* they expire */
    f->metadata.failing[FAKE_CONFIRM] = false;
    f->metadata.now_ms += f->metadata.reserve_ttl_ms + 1;
    assert_int_equal(fixture_set(f, 10, 4), 4);
    assert_int_equal(fixture_get(f, 10, 4), 4);
    fixture_free(f);
}

static void test_index_breaker(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    f->metadata.failing[FAKE_RESERVE] = f->metadata.failing[FAKE_GET] = true;
    f->metadata.failing[FAKE_EXISTS] = true;
    for (int i = 0; i < 3; i++)
        assert_int_equal(fixture_get(f, 0, 4), 0);
    assert_int_equal(fixture_stats(f).metadata_breaker_trips, 1);
    uint64_t calls = f->metadata.calls[FAKE_GET];
    assert_int_equal(fixture_get(f, 0, 4), 0);
    assert_int_equal(fixture_set(f, 0, 4), 0);
    assert_int_equal(fixture_exists(f, 0, 4), 0);
    assert_int_equal(f->metadata.calls[FAKE_GET], calls); /* left alone */
    assert_int_equal(f->metadata.calls[FAKE_RESERVE], 1);
    memset(f->metadata.failing, 0, sizeof(f->metadata.failing));
    atomic_fetch_add(&f->now_ns, SECOND);
    assert_int_equal(fixture_get(f, 0, 4), 4);
    assert_int_equal(fixture_set(f, 10, 4), 4);
    fixture_free(f);
}

/* What was reserved is confirmed although another call has opened the breaker meanwhile. */
static void trip_index_breaker(void *arg, enum page_direction direction)
{
    struct store_fixture *f = arg;
    if (direction != PAGE_WRITE)
        return;
    bool loaded[1];
    f->metadata.failing[FAKE_GET] = true;
    for (int i = 0; i < 3; i++)
        kvs_store_batch_get(f->store, 0, 1, f->keys, f->buffers + FIXTURE_KEYS_MAX, loaded);
    f->metadata.failing[FAKE_GET] = false;
}

static void test_confirm_goes_through_an_open_breaker(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    f->engine.before = trip_index_breaker;
    f->engine.before_arg = f;
    assert_int_equal(fixture_set(f, 0, 4), 4);
    assert_int_equal(fixture_stats(f).metadata_breaker_trips, 1);
    assert_int_equal(fixture_counts(f).committed, 4);
    fixture_free(f);
}

/* A server restarted without its catalogs: initialized again by the call that finds out. */
static void test_forgotten_namespace_is_initialized_again(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    fake_metadata_forget(&f->metadata);
    assert_int_equal(fixture_get(f, 0, 4), 0);
    assert_int_equal(fixture_stats(f).missed_absent, 4);
    fake_metadata_forget(&f->metadata);
    assert_int_equal(fixture_set(f, 0, 4), 4);
    assert_int_equal(fixture_get(f, 0, 4), 4);
    fake_metadata_forget(&f->metadata);
    assert_int_equal(fixture_exists(f, 0, 4), 0);
    fake_metadata_forget(&f->metadata);
    struct kvs_error error;
    assert_int_equal(kvs_store_clear(f->store, &error), KVS_OK);
    assert_int_equal(fixture_stats(f).metadata_errors, 0);
    fixture_free(f);
}

/* Pages beyond the file are never believed, read or written. */
static void test_absurd_answers_of_the_index(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    uint64_t ios = f->engine.read_ios + f->engine.write_ios;
    f->metadata.page_offset = FIXTURE_PAGES;
    assert_int_equal(fixture_get(f, 0, 4), 0);
    assert_int_equal(fixture_set(f, 10, 4), 0);
    assert_int_equal(f->engine.read_ios + f->engine.write_ios, ios);
    assert_int_equal(fixture_stats(f).metadata_errors, 8);
    fixture_free(f);
}

/* The reservation ended while the page was written: not stored. */
static void expire_before_confirm(void *arg, enum fake_call call)
{
    struct store_fixture *f = arg;
    if (call == FAKE_CONFIRM)
        f->metadata.now_ms += 2 * f->metadata.reserve_ttl_ms;
}

static void test_late_confirm_is_not_stored(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    f->metadata.before = expire_before_confirm;
    f->metadata.before_arg = f;
    assert_int_equal(fixture_set(f, 0, 4), 0);
    assert_int_equal(fixture_stats(f).unstored_rejected, 4);
    f->metadata.before = NULL;
    assert_int_equal(fixture_set(f, 0, 4), 4);
    assert_int_equal(fixture_get(f, 0, 4), 4);
    fixture_free(f);
}

/* clear while pages are written: they do not come back. */
static void clear_before_confirm(void *arg, enum fake_call call)
{
    struct store_fixture *f = arg;
    if (call == FAKE_CONFIRM) {
        f->metadata.before = NULL;
        assert_int_equal(kvs_store_clear(f->store, NULL), KVS_OK);
    }
}

static void test_clear_while_writing(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    f->metadata.before = clear_before_confirm;
    f->metadata.before_arg = f;
    assert_int_equal(fixture_set(f, 0, 4), 0);
    assert_int_equal(fixture_stats(f).unstored_rejected, 4);
    assert_int_equal(fixture_exists(f, 0, 4), 0);
    assert_int_equal(fixture_set(f, 0, 4), 4);
    assert_int_equal(fixture_get(f, 0, 4), 4);
    fixture_free(f);
}

/* Between the failure of a probe and the next look at the clock more time may pass than the pause
 * lasts: the path is looked at, a line is logged, the machine sleeps. */
static uint64_t hasty_clock(void *arg)
{
    return atomic_fetch_add((_Atomic uint64_t *)arg, 40ull * 1000 * 1000 * 1000);
}

static void test_breakers_outlive_slow_probes(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    assert_int_equal(fixture_set(f, 0, 16), 16);
    f->store->parts.now_ns = hasty_clock;
    f->store->parts.now_arg = &f->now_ns;
    for (int writing = 0; writing < 2; writing++) {
        f->engine.error_number = EIO;
        fake_engine_fault(&f->engine, FAKE_ERROR, 1, UINT64_MAX, writing == 0, writing == 1);
        for (int i = 0; i < 4; i++)
            assert_int_equal(writing ? fixture_set(f, 100, 16) : fixture_get(f, 0, 16), 0);
        fake_engine_fault(&f->engine, FAKE_NONE, 0, 0, false, false);
        assert_int_equal(writing ? fixture_set(f, 100, 16) : fixture_get(f, 0, 16), 16);
    }
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_pages_are_confirmed_and_come_back),
        cmocka_unit_test(test_present_pages_are_true_and_not_written_again),
        cmocka_unit_test(test_nothing_and_no_such_pool),
        cmocka_unit_test(test_bad_keys_are_refused_one_by_one),
        cmocka_unit_test(test_batch_larger_than_the_catalog),
        cmocka_unit_test(test_batches_are_split_inside),
        cmocka_unit_test(test_failed_writes_are_released_never_confirmed),
        cmocka_unit_test(test_completions_out_of_order),
        cmocka_unit_test(test_failing_writes_do_not_drain_the_cache),
        cmocka_unit_test(test_full_disk_trips_at_once_and_recovers),
        cmocka_unit_test(test_pages_without_room_are_used_last),
        cmocka_unit_test(test_page_sizes),
        cmocka_unit_test(test_probe_without_anything_to_write),
        cmocka_unit_test(test_single_failures_do_not_trip),
        cmocka_unit_test(test_repeated_keys_follow_their_write),
        cmocka_unit_test(test_pairs_are_two_keys_and_one_result),
        cmocka_unit_test(test_pair_with_one_failed_half_is_not_stored),
        cmocka_unit_test(test_pairs_that_do_not_fit_leave_no_half),
        cmocka_unit_test(test_one_page_for_a_pair),
        cmocka_unit_test(test_confirm_goes_through_an_open_breaker),
        cmocka_unit_test(test_dead_index),
        cmocka_unit_test(test_index_breaker),
        cmocka_unit_test(test_forgotten_namespace_is_initialized_again),
        cmocka_unit_test(test_absurd_answers_of_the_index),
        cmocka_unit_test(test_late_confirm_is_not_stored),
        cmocka_unit_test(test_clear_while_writing),
        cmocka_unit_test(test_breakers_outlive_slow_probes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
