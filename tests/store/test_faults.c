/* The fault loop: one session of open, set, get, exists, clear, delete, add a pool, close; in run n
 * the nth call of the index, the nth I/O or the nth allocation fails, until a run passes without
 * meeting one. No crash, no leak, no lie: what is said to be stored is there with its bytes, and
 * the accounts add up. */
#include "support/fail_allocation.h"
#include "support/store_fixture.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

/* ---- The session ---------------------------------------------------------------------------- */

enum { KEYS = 24 };

struct session {
    struct store_fixture *f;
    bool said[KEYS]; /* stored, when asked */
    bool met_fault;
    void (*arm)(struct session *session, uint64_t nth);
    bool (*fired)(struct session *session);
};

/* The pages that are said to be stored are there, unless eviction or a failed read explains it. */
static void check_reads(struct session *s, uint64_t first, bool faults_on)
{
    size_t loaded = fixture_get(s->f, first, KEYS); /* checks every byte */
    for (size_t i = 0; i < KEYS; i++) {
        assert_true(!s->f->results[i] || s->said[i]); /* never stored: never there */
        if (!faults_on)
            assert_int_equal(s->f->results[i], s->said[i]);
    }
    assert_true(loaded <= KEYS);
    size_t run = fixture_exists(s->f, first, KEYS);
    for (size_t i = 0; i < run; i++)
        assert_true(s->said[i]);
}

static bool open_store(struct session *s)
{
    const struct store_parts parts = fixture_parts(s->f);
    struct kvs_error error = {0};
    enum kvs_status status = store_open(&s->f->options, &parts, &s->f->store, &error);
    if (status == KVS_OK)
        return true;
    assert_true(status == KVS_ERR_NO_MEMORY);
    assert_true(error.message[0] != '\0');
    s->f->store = NULL;
    return false;
}

static void use_store(struct session *s)
{
    struct kvs_error error = {0};
    uint64_t first = 1000;
    fixture_set(s->f, first, KEYS);
    memcpy(s->said, s->f->results, sizeof(s->said));
    check_reads(s, first, true);
    fixture_keys(s->f, first, KEYS);
    if (kvs_store_delete(s->f->store, 0, 2, s->f->keys, &error) == KVS_OK)
        s->said[0] = s->said[1] = false;
    const struct kvs_pool_options pool = {
        .size = sizeof(pool), .name = "mamba", .bytes_per_page = 64, .file_size = 640};
    uint32_t number = 0;
    enum kvs_status status = kvs_store_add_pool(s->f->store, &pool, &number, &error);
    assert_true(status == KVS_OK || status == KVS_ERR_NO_MEMORY);
    if (status == KVS_OK) {
        bool stored;
        uint8_t page[64] = {7};
        const void *buffer = page;
        kvs_store_batch_set(s->f->store, number, 1, s->f->keys, &buffer, &stored);
    }
    if (kvs_store_clear(s->f->store, &error) == KVS_OK)
        memset(s->said, 0, sizeof(s->said));
    else
        fixture_get(s->f, first, KEYS);
    first = 2000;
    fixture_set(s->f, first, KEYS);
    memcpy(s->said, s->f->results, sizeof(s->said));
    check_reads(s, first, true);
}

/* One session with the nth thing failing; true when nothing failed. */
static bool run(void (*arm)(struct session *, uint64_t), bool (*fired)(struct session *),
                uint64_t nth, bool network)
{
    struct session s = {.f = fixture_new(), .arm = arm, .fired = fired};
    s.f->options.pairs = nth % 2 == 0;
    s.f->engine.needs_deadline = network;
    s.f->memory = calloc(2 * FIXTURE_KEYS_MAX, FIXTURE_PAGE_BYTES);
    assert_non_null(s.f->memory);
    for (size_t i = 0; i < 2 * FIXTURE_KEYS_MAX; i++)
        s.f->buffers[i] = s.f->memory + i * FIXTURE_PAGE_BYTES;
    arm(&s, nth);
    bool opened = open_store(&s);
    if (opened)
        use_store(&s);
    bool clean = !fired(&s);
    arm(&s, 0);
    assert_true(opened || !clean);
    if (opened) {
        atomic_fetch_add(&s.f->now_ns, 3600ull * 1000 * 1000 * 1000); /* breakers let go */
        check_reads(&s, 2000, false);
        struct kvs_store_stats stats = fixture_stats(s.f);
        assert_int_equal(stats.inflight_bytes, 0);
        struct catalog_counts counts = fixture_counts(s.f);
        /* a confirm that got no answer leaves reservations, which expire */
        s.f->metadata.now_ms += 2 * s.f->metadata.reserve_ttl_ms;
        if (counts.reserved > 0)
            counts = fixture_counts(s.f);
        assert_int_equal(counts.reserved, 0);
        size_t stored = 0;
        for (size_t i = 0; i < KEYS; i++)
            stored += s.said[i];
        assert_true(counts.committed >= stored * (s.f->options.pairs ? 2 : 1));
    }
    fixture_free(s.f);
    return clean;
}

static void loop(void (*arm)(struct session *, uint64_t), bool (*fired)(struct session *),
                 uint64_t at_least)
{
    for (int network = 0; network < 2; network++) {
        uint64_t clean = 0, nth = 1;
        /* two clean runs in a row: one with pairs, one without */
        for (; clean < 2; nth++) {
            assert_true(nth < 100000);
            clean = run(arm, fired, nth, network == 1) ? clean + 1 : 0;
        }
        assert_true(nth > at_least);
    }
}

static void arm_index(struct session *s, uint64_t nth)
{
    s->f->metadata.fail_nth = nth;
}

static bool index_fired(struct session *s)
{
    return s->f->metadata.fail_nth == 0;
}

static void test_every_call_of_the_index_fails_once(void **state)
{
    (void)state;
    loop(arm_index, index_fired, 10);
}

static enum fake_fault io_fault;

static void arm_io(struct session *s, uint64_t nth)
{
    fake_engine_fault(&s->f->engine, nth == 0 ? FAKE_NONE : io_fault, nth, 1, true,
                      io_fault != FAKE_CORRUPT);
}

static bool io_fired(struct session *s)
{
    return s->f->engine.ios >= s->f->engine.from;
}

static void test_every_io_fails_once(void **state)
{
    (void)state;
    static const enum fake_fault faults[] = {FAKE_ERROR, FAKE_SHORT,   FAKE_ZERO,
                                             FAKE_OVER,  FAKE_CORRUPT, FAKE_UNSTARTED};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        io_fault = faults[i];
        loop(arm_io, io_fired, 60);
    }
}

#if CAN_FAIL_ALLOCATIONS
static void arm_allocation(struct session *s, uint64_t nth)
{
    (void)s;
    fail_allocation_arm(nth);
}

static bool allocation_fired(struct session *s)
{
    (void)s;
    return fail_allocation_fired();
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    int64_t before = fail_allocation_blocks();
    loop(arm_allocation, allocation_fired, 10);
    assert_int_equal(fail_allocation_blocks(), before);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_of_the_index_fails_once),
        cmocka_unit_test(test_every_io_fails_once),
#if CAN_FAIL_ALLOCATIONS
        cmocka_unit_test(test_every_allocation_fails_once),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
