/* batch_get: exactly the bytes that were confirmed, or a miss; and a miss that says why. */
#include "support/store_fixture.h"
#include "support/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const uint64_t SECOND = 1000000000;

/* A page missing in the middle must not shift buffers against offsets (the original: the bytes of
 * one key in the buffer of another, or a closed client). */
static void test_holes_do_not_shift_buffers(void **state)
{
    (void)state;
    for (int pairs = 0; pairs < 2; pairs++) {
        struct store_fixture *f = fixture_new();
        f->options.pairs = pairs == 1;
        fixture_open(f);
        fixture_set(f, 0, 30);
        for (size_t hole = 0; hole < 30; hole += 3) {
            fixture_keys(f, hole, 1);
            assert_int_equal(kvs_store_delete(f->store, 0, 1, f->keys, NULL), KVS_OK);
        }
        uint64_t reads = f->engine.read_ios;
        assert_int_equal(fixture_get(f, 0, 30), 20);
        for (size_t i = 0; i < 30; i++)
            assert_int_equal(f->results[i], i % 3 != 0);
        assert_int_equal(f->engine.read_ios - reads, pairs ? 40 : 20); /* hits only */
        assert_int_equal(fixture_stats(f).missed_absent, 10);
        fixture_free(f);
    }
}

static void test_half_a_pair_is_a_miss_and_not_read(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->options.pairs = true;
    fixture_open(f);
    fixture_set(f, 0, 3);
    char half[80];
    memcpy(half, f->keys[1], 64);
    memcpy(half + 64, "-v", 3);
    const struct metadata_text key = {half, 66};
    const struct metadata_scope scope = {.ns = "kv", .bytes_per_page = FIXTURE_PAGE_BYTES};
    f->metadata.client.ops->delete_keys(&f->metadata.client, &scope, &key, 1, NULL);
    uint64_t reads = f->engine.read_ios;
    assert_int_equal(fixture_get(f, 0, 3), 2);
    assert_false(f->results[1]);
    assert_int_equal(f->engine.read_ios - reads, 4);
    assert_int_equal(fixture_exists(f, 0, 3), 1);
    fixture_free(f);
}

static void test_completions_out_of_order(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 20);
    f->engine.reversed = true;
    fake_engine_fault(&f->engine, FAKE_SHORT, 4, 1, true, false);
    assert_int_equal(fixture_get(f, 0, 20), 19);
    assert_false(f->results[16]);
    fixture_free(f);
}

static void test_failed_reads_are_misses(void **state)
{
    (void)state;
    static const struct {
        enum fake_fault fault;
        size_t counter;
    } cases[] = {
        {FAKE_ERROR, offsetof(struct kvs_store_stats, missed_read_error)},
        {FAKE_SHORT, offsetof(struct kvs_store_stats, missed_read_error)},
        {FAKE_ZERO, offsetof(struct kvs_store_stats, missed_read_error)},
        {FAKE_OVER, offsetof(struct kvs_store_stats, missed_read_error)},
        {FAKE_UNSTARTED, offsetof(struct kvs_store_stats, missed_overdue)},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct store_fixture *f = fixture_new();
        fixture_open(f);
        fixture_set(f, 0, 8);
        fake_engine_fault(&f->engine, cases[c].fault, 3, 2, true, false);
        assert_int_equal(fixture_get(f, 0, 8), 6);
        assert_false(f->results[2] || f->results[3]);
        struct kvs_store_stats s = fixture_stats(f);
        uint64_t counted;
        memcpy(&counted, (const char *)&s + cases[c].counter, sizeof(counted));
        assert_int_equal(counted, 2);
        assert_int_equal(s.checksum_mismatches, 0);
        assert_int_equal(fixture_counts(f).committed, 8); /* nothing is dropped for it */
        fixture_free(f);
    }
}

/* ---- Other bytes than expected -------------------------------------------------------------- */

static void test_one_bad_read_is_read_again_from_the_storage(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 8);
    fake_engine_fault(&f->engine, FAKE_CORRUPT, 3, 1, true, false);
    assert_int_equal(fixture_get(f, 0, 8), 8);
    assert_int_equal(f->engine.uncached_ios, 1);
    assert_int_equal(fixture_stats(f).checksum_mismatches, 0);
    assert_int_equal(f->metadata.calls[FAKE_REPORT], 0);
    fixture_free(f);
}

static void test_damage_is_a_miss_and_reported(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 8);
    uint8_t *bytes = fake_engine_bytes(&f->engine, "/fake/pages.0.bin", NULL);
    int64_t page = fake_metadata_page(&f->metadata, 0, "kv", f->keys[5]);
    bytes[page * FIXTURE_PAGE_BYTES + 17] ^= 0x40;
    assert_int_equal(fixture_get(f, 0, 8), 7);
    assert_false(f->results[5]);
    struct kvs_store_stats s = fixture_stats(f);
    assert_int_equal(s.missed_mismatch, 1);
    assert_int_equal(s.checksum_mismatches, 1);
    assert_int_equal(s.mismatches_reported, 1);
    assert_int_equal(s.read_breaker_trips, 0);
    assert_true(fixture_logged(f, "other bytes"));
    /* the page was dropped: the next set writes it again */
    assert_int_equal(fixture_get(f, 0, 8), 7);
    assert_int_equal(fixture_stats(f).missed_absent, 1);
    assert_int_equal(fixture_set(f, 0, 8), 8);
    assert_int_equal(fixture_get(f, 0, 8), 8);
    fixture_free(f);
}

/* A write that was lost (a drive that lies, a power cut) is a miss, not zeros. */
static void test_lost_write_is_a_miss(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fake_engine_fault(&f->engine, FAKE_DROP, 2, 1, false, true);
    assert_int_equal(fixture_set(f, 0, 4), 4);
    assert_int_equal(fixture_get(f, 0, 4), 3);
    assert_false(f->results[1]);
    fixture_free(f);
}

/* A reader with a stale mount sees wrong bytes everywhere: it must not empty a shared cache. */
static void test_reports_have_a_bounded_rate(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->engine.needs_deadline = true;
    f->options.file_size = 2000 * FIXTURE_PAGE_BYTES;
    fixture_open(f);
    for (uint64_t i = 0; i < 4; i++)
        fixture_set(f, i * 400, 400);
    uint64_t size;
    memset(fake_engine_bytes(&f->engine, "/fake/pages.0.bin", &size), 0, 2000 * FIXTURE_PAGE_BYTES);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(fixture_get(f, i * 400, 400), 0);
    assert_int_equal(fixture_stats(f).checksum_mismatches, 1600);
    assert_int_equal(f->metadata.keys[FAKE_REPORT], 64);
    assert_int_equal(fixture_counts(f).committed, 1600 - 64);
    assert_int_equal(fixture_stats(f).read_breaker_trips, 0);
    atomic_fetch_add(&f->now_ns, SECOND);
    fixture_get(f, 400, 400);
    assert_int_equal(f->metadata.keys[FAKE_REPORT], 74);
    fixture_free(f);
}

/* The page of a key is given to another one between the index's answer and the read. */
struct replacing {
    struct store_fixture *fixture;
    uint64_t next;
    int times;
};

static void replace_before_read(void *arg, enum page_direction direction)
{
    struct replacing *replacing = arg;
    struct store_fixture *f = replacing->fixture;
    if (direction != PAGE_READ || replacing->times == 0)
        return;
    replacing->times--;
    f->engine.before = NULL;
    char key[32];
    static uint8_t page[FIXTURE_PAGE_BYTES];
    const char *const keys[] = {key};
    const void *const buffers[] = {page};
    bool stored[1];
    for (int i = 0; i < FIXTURE_PAGES; i++) { /* every page changes hands */
        snprintf(key, sizeof(key), "other-%d-%d", (int)replacing->next, i);
        fixture_fill(page, sizeof(page), replacing->next + (uint64_t)i, 0);
        kvs_store_batch_set(f->store, 0, 1, keys, buffers, stored);
        assert_true(stored[0]);
    }
    replacing->next += 1000;
    f->engine.before = replace_before_read;
}

static void test_page_replaced_while_reading(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    struct replacing replacing = {f, 5000, 1};
    f->engine.before = replace_before_read;
    f->engine.before_arg = &replacing;
    assert_int_equal(fixture_get(f, 0, 4), 0);
    struct kvs_store_stats s = fixture_stats(f);
    assert_int_equal(s.missed_replaced, 4);
    assert_int_equal(s.checksum_mismatches, 0);
    assert_int_equal(f->metadata.calls[FAKE_REPORT], 0);
    fixture_free(f);
}

/* The key itself was evicted and stored again elsewhere: read from where it is now. */
static void restore_before_read(void *arg, enum page_direction direction)
{
    struct store_fixture *f = arg;
    if (direction != PAGE_READ)
        return;
    f->engine.before = NULL;
    assert_int_equal(kvs_store_clear(f->store, NULL), KVS_OK);
    static uint8_t page[FIXTURE_PAGE_BYTES];
    const void *const buffers[] = {page};
    bool stored[1];
    for (uint64_t i = 0; i < 4; i++) { /* the same keys in another order */
        fixture_fill(page, sizeof(page), 3 - i, 0);
        kvs_store_batch_set(f->store, 0, 1, &f->keys[3 - i], buffers, stored);
        assert_true(stored[0]);
    }
}

static void test_key_stored_again_while_reading(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->options.file_size = 4 * FIXTURE_PAGE_BYTES;
    fixture_open(f);
    fixture_set(f, 0, 4);
    f->engine.before = restore_before_read;
    f->engine.before_arg = f;
    assert_int_equal(fixture_get(f, 0, 4), 4);
    fixture_free(f);
}

/* A pair that was stored again, with other bytes, after the index was asked: of its first life K is
 * still in the file and V is overwritten. What the index says of V now goes with the K of now. */
struct second_life {
    struct store_fixture *fixture;
    unsigned overwritten; /* the half of the first life */
};

static void store_second_life(void *arg, enum page_direction direction)
{
    const struct second_life *second = arg;
    struct store_fixture *f = second->fixture;
    if (direction != PAGE_READ)
        return;
    f->engine.before = NULL;
    static uint8_t halves[2][FIXTURE_PAGE_BYTES];
    const void *const buffers[] = {halves[0], halves[1]};
    bool stored[1];
    char half[80];
    snprintf(half, sizeof(half), "%s-%c", f->keys[0], second->overwritten == 0 ? 'k' : 'v');
    int64_t page = fake_metadata_page(&f->metadata, 0, "kv", half);
    assert_int_equal(kvs_store_delete(f->store, 0, 1, f->keys, NULL), KVS_OK);
    fixture_fill(halves[0], FIXTURE_PAGE_BYTES, 1000, 0);
    fixture_fill(halves[1], FIXTURE_PAGE_BYTES, 1000, 1);
    kvs_store_batch_set(f->store, 0, 1, f->keys, buffers, stored);
    assert_true(stored[0]);
    uint8_t *bytes = fake_engine_bytes(&f->engine, "/fake/pages.0.bin", NULL);
    memset(bytes + page * FIXTURE_PAGE_BYTES, 0xee, FIXTURE_PAGE_BYTES);
}

static void test_halves_are_of_one_life(void **state)
{
    (void)state;
    for (unsigned overwritten = 0; overwritten < 2; overwritten++) {
        struct store_fixture *f = fixture_new();
        f->options.pairs = true;
        fixture_open(f);
        fixture_set(f, 0, 1);
        struct second_life second = {f, overwritten};
        f->engine.before = store_second_life;
        f->engine.before_arg = &second;
        kvs_store_batch_get(f->store, 0, 1, f->keys, f->buffers, f->results);
        assert_null(f->engine.before);
        assert_true(f->results[0]);
        assert_true(fixture_holds(f->buffers[0], FIXTURE_PAGE_BYTES, 1000, 0));
        assert_true(fixture_holds(f->buffers[1], FIXTURE_PAGE_BYTES, 1000, 1));
        assert_int_equal(fixture_stats(f).checksum_mismatches, 0);
        fixture_free(f);
    }
}

/* Damage is reported only when both reads were in one life of the page. Here each read is bad, and
 * between them, or after the second, the key moves on. */
struct moving {
    struct store_fixture *fixture;
    int at_read; /* 1: before the first read's bytes, 2: before the second's */
};

static void move_key(void *arg, enum page_direction direction)
{
    struct moving *moving = arg;
    struct store_fixture *f = moving->fixture;
    if (direction != PAGE_READ || --moving->at_read != 0)
        return;
    static uint8_t page[FIXTURE_PAGE_BYTES];
    const void *const buffers[] = {page};
    bool stored[1];
    assert_int_equal(kvs_store_delete(f->store, 0, 1, f->keys, NULL), KVS_OK);
    fixture_fill(page, sizeof(page), 0, 0);
    kvs_store_batch_set(f->store, 0, 1, f->keys, buffers, stored);
    assert_true(stored[0]);
}

static void test_damage_of_another_life_is_not_reported(void **state)
{
    (void)state;
    for (int at_read = 1; at_read <= 2; at_read++) {
        struct store_fixture *f = fixture_new();
        fixture_open(f);
        fixture_set(f, 0, 1);
        fake_engine_fault(&f->engine, FAKE_CORRUPT, 1, 2, true, false);
        struct moving moving = {f, at_read};
        f->engine.before = move_key;
        f->engine.before_arg = &moving;
        assert_int_equal(fixture_get(f, 0, 1), 0);
        assert_int_equal(fixture_stats(f).missed_replaced, 1);
        assert_int_equal(fixture_stats(f).checksum_mismatches, 0);
        assert_int_equal(f->metadata.calls[FAKE_REPORT], 0);
        assert_int_equal(fixture_get(f, 0, 1), 1);
        fixture_free(f);
    }
}

/* ---- Pages without a checksum --------------------------------------------------------------- */

static void test_verify(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    f->metadata.drop_checksums = true;
    assert_int_equal(fixture_get(f, 0, 4), 0);
    assert_int_equal(fixture_stats(f).missed_absent, 4);
    fixture_close(f);
    f->options.verify = KVS_VERIFY_IF_KNOWN;
    fixture_open(f);
    assert_int_equal(fixture_get(f, 0, 4), 4);
    fixture_free(f);
}

/* ---- Breakers ------------------------------------------------------------------------------- */

static void test_read_breaker(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 20);
    fake_engine_fault(&f->engine, FAKE_ERROR, 1, UINT64_MAX, true, false);
    assert_int_equal(fixture_get(f, 0, 7), 0);
    assert_int_equal(fixture_stats(f).read_breaker_trips, 0);
    assert_int_equal(fixture_get(f, 0, 1), 0);
    assert_int_equal(fixture_stats(f).read_breaker_trips, 1);
    uint64_t reads = f->engine.read_ios;
    assert_int_equal(fixture_get(f, 0, 20), 0);
    assert_int_equal(f->engine.read_ios, reads);
    assert_int_equal(fixture_stats(f).missed_refused, 20);
    assert_int_equal(fixture_set(f, 50, 4), 4); /* writing is another breaker */
    assert_int_equal(fixture_exists(f, 0, 20), 20);

    atomic_fetch_add(&f->now_ns, SECOND);
    assert_int_equal(fixture_get(f, 0, 20), 0);
    assert_int_equal(f->engine.read_ios, reads + 1); /* one probe */
    fake_engine_fault(&f->engine, FAKE_NONE, 0, 0, false, false);
    atomic_fetch_add(&f->now_ns, 2 * SECOND);
    assert_int_equal(fixture_get(f, 0, 20), 20); /* the probe and the rest */
    fixture_free(f);
}

static void test_misses_and_mismatches_never_trip(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(fixture_get(f, 1000 * i, 50), 0);
    for (uint64_t i = 0; i < 20; i++) {
        fixture_set(f, 0, 50);
        memset(fake_engine_bytes(&f->engine, "/fake/pages.0.bin", NULL), 0xff,
               FIXTURE_PAGES * FIXTURE_PAGE_BYTES);
        assert_int_equal(fixture_get(f, 0, 50), 0);
        atomic_fetch_add(&f->now_ns, SECOND);
    }
    for (uint64_t i = 0; i < 20; i++)
        fixture_set(f, 1000 * i, 200); /* a full catalog */
    struct kvs_store_stats s = fixture_stats(f);
    assert_int_equal(s.read_breaker_trips + s.write_breaker_trips + s.metadata_breaker_trips, 0);
    fixture_free(f);
}

static void test_dead_index(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    f->metadata.failing[FAKE_GET] = true;
    assert_int_equal(fixture_get(f, 0, 4), 0);
    assert_int_equal(fixture_stats(f).missed_metadata, 4);
    f->metadata.failing[FAKE_GET] = false;
    assert_int_equal(fixture_get(f, 0, 4), 4);
    fixture_free(f);
}

/* Log lines about the same trouble come at a bounded rate. */
static void test_log_is_bounded(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    uint32_t before = atomic_load(&f->line_count);
    for (int i = 0; i < 1000; i++) {
        fake_engine_fault(&f->engine, FAKE_ERROR, 1, 1, true, false);
        fixture_get(f, 0, 4);
    }
    assert_in_range(atomic_load(&f->line_count) - before, 1, 2);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holes_do_not_shift_buffers),
        cmocka_unit_test(test_half_a_pair_is_a_miss_and_not_read),
        cmocka_unit_test(test_completions_out_of_order),
        cmocka_unit_test(test_failed_reads_are_misses),
        cmocka_unit_test(test_one_bad_read_is_read_again_from_the_storage),
        cmocka_unit_test(test_damage_is_a_miss_and_reported),
        cmocka_unit_test(test_lost_write_is_a_miss),
        cmocka_unit_test(test_reports_have_a_bounded_rate),
        cmocka_unit_test(test_page_replaced_while_reading),
        cmocka_unit_test(test_key_stored_again_while_reading),
        cmocka_unit_test(test_halves_are_of_one_life),
        cmocka_unit_test(test_damage_of_another_life_is_not_reported),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_read_breaker),
        cmocka_unit_test(test_misses_and_mismatches_never_trip),
        cmocka_unit_test(test_dead_index),
        cmocka_unit_test(test_log_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
