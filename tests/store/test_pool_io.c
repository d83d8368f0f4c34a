/* Pages between file and memory where calls can hang: the bound of a call, what outlives it, and
 * that the caller's memory is left alone. And back-pressure. */
#include "support/store_fixture.h"
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

static const uint64_t SECOND = 1000000000;

static struct store_fixture *network_fixture(void)
{
    struct store_fixture *f = fixture_new();
    f->engine.needs_deadline = true;
    fixture_open(f);
    return f;
}

static void test_bounced_pages_are_right(void **state)
{
    (void)state;
    for (int pairs = 0; pairs < 2; pairs++) {
        struct store_fixture *f = fixture_new();
        f->engine.needs_deadline = true;
        f->options.pairs = pairs == 1;
        f->options.max_inflight_bytes = 5 * 4096;
        f->options.bytes_per_page = FIXTURE_PAGE_BYTES - 3;
        fixture_open(f);
        assert_int_equal(fixture_set(f, 0, 25), 25);
        assert_int_equal(fixture_get(f, 0, 30), 25);
        assert_int_equal(fixture_stats(f).inflight_bytes, 0);
        fixture_free(f);
    }
}

static void test_overdue_reads(void **state)
{
    (void)state;
    struct store_fixture *f = network_fixture();
    fixture_set(f, 0, 8);
    fake_engine_fault(&f->engine, FAKE_LATE, 3, 2, true, false);
    assert_int_equal(fixture_get(f, 0, 8), 6);
    assert_false(f->results[2] || f->results[3]);
    struct kvs_store_stats s = fixture_stats(f);
    assert_int_equal(s.missed_overdue, 2);
    assert_int_equal(s.overdue_ios, 2);
    assert_int_equal(s.read_breaker_trips, 1); /* each costs a whole deadline */
    assert_true(s.inflight_bytes > 0);

    /* the caller's memory is not touched by what ends later */
    memset(f->memory, 0x77, 8 * FIXTURE_PAGE_BYTES);
    fake_engine_release(&f->engine);
    for (size_t i = 0; i < 8 * FIXTURE_PAGE_BYTES; i++)
        assert_int_equal(f->memory[i], 0x77);
    assert_int_equal(fixture_stats(f).inflight_bytes, 0);

    fake_engine_fault(&f->engine, FAKE_NONE, 0, 0, false, false);
    atomic_fetch_add(&f->now_ns, SECOND);
    assert_int_equal(fixture_get(f, 0, 8), 8);
    fixture_free(f);
}

/* A write that outlives its call: the page stays reserved until its reservation expires, because it
 * may be written at any time; its key is not stored. */
static void test_overdue_writes_keep_their_page(void **state)
{
    (void)state;
    struct store_fixture *f = network_fixture();
    fake_engine_fault(&f->engine, FAKE_LATE, 2, 2, false, true);
    assert_int_equal(fixture_set(f, 0, 6), 4);
    assert_false(f->results[1] || f->results[2]);
    assert_int_equal(fixture_stats(f).unstored_overdue, 2);
    assert_int_equal(fixture_counts(f).reserved, 2);
    assert_int_equal(f->metadata.released, 0);
    assert_int_equal(fixture_stats(f).write_breaker_trips, 1);

    /* what was in the caller's buffers when set returned does not matter any more */
    memset(f->memory, 0, 6 * FIXTURE_PAGE_BYTES);
    fake_engine_release(&f->engine);
    assert_int_equal(fixture_get(f, 0, 6), 4);
    f->metadata.now_ms += f->metadata.reserve_ttl_ms + 1;
    assert_int_equal(fixture_counts(f).reserved, 0);
    atomic_fetch_add(&f->now_ns, SECOND);
    fake_engine_fault(&f->engine, FAKE_NONE, 0, 0, false, false);
    assert_int_equal(fixture_set(f, 0, 6), 6);
    assert_int_equal(fixture_get(f, 0, 6), 6);
    fixture_free(f);
}

/* I/O that hangs for ever holds at most max_inflight_bytes, and calls still end. */
static void test_hung_mount_holds_bounded_memory(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->engine.needs_deadline = true;
    f->options.max_inflight_bytes = 16 * 4096;
    f->options.client_timeout = 0.01;
    fixture_open(f);
    fixture_set(f, 0, 32);
    fake_engine_fault(&f->engine, FAKE_LATE, 1, UINT64_MAX, true, false);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(fixture_get(f, 0, 32), 0);
        assert_true(fixture_stats(f).inflight_bytes <= 16 * 4096);
        atomic_fetch_add(&f->now_ns, 40 * SECOND);
    }
    fake_engine_release(&f->engine);
    fake_engine_fault(&f->engine, FAKE_NONE, 0, 0, false, false);
    atomic_fetch_add(&f->now_ns, 40 * SECOND);
    assert_int_equal(fixture_get(f, 0, 32), 32);
    fixture_free(f);
}

/* I/O may end after the store has been closed. */
static void test_close_with_overdue_io(void **state)
{
    (void)state;
    struct store_fixture *f = network_fixture();
    fixture_set(f, 0, 8);
    fake_engine_fault(&f->engine, FAKE_LATE, 1, 4, true, true);
    fixture_get(f, 0, 2);
    fixture_set(f, 50, 4);
    fixture_close(f);
    fake_engine_release(&f->engine);
    fixture_free(f);
}

/* A pool's file may be a link to another file system: what hangs there holds up nobody here. */
static void test_hung_mount_holds_up_no_local_pool(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->engine.needs_deadline = true;
    f->options.max_inflight_bytes = 4096;
    f->options.client_timeout = 0.01;
    fixture_open(f);
    fake_engine_fault(&f->engine, FAKE_LATE, 1, 1, false, true);
    assert_int_equal(fixture_set(f, 0, 1), 0);
    assert_int_equal(fixture_stats(f).inflight_bytes, 4096);

    f->engine.needs_deadline = false;
    const struct kvs_pool_options local = {
        .size = sizeof(local), .name = "mamba", .bytes_per_page = 64, .file_size = 640};
    uint32_t number;
    assert_int_equal(kvs_store_add_pool(f->store, &local, &number, NULL), KVS_OK);
    atomic_fetch_add(&f->now_ns, 40 * SECOND); /* the breaker lets one page through */
    uint8_t page[64] = {7};
    const void *buffer = page;
    bool stored = false;
    kvs_store_batch_set(f->store, number, 1, f->keys, &buffer, &stored);
    assert_true(stored);
    fake_engine_release(&f->engine);
    assert_int_equal(fixture_stats(f).inflight_bytes, 0);
    fixture_free(f);
}

/* ---- Back-pressure -------------------------------------------------------------------------- */

struct writers {
    struct store_fixture *fixture;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int inside;
    bool open;
    _Atomic unsigned next;
};

static void hold_writes(void *arg, enum page_direction direction)
{
    struct writers *writers = arg;
    if (direction != PAGE_WRITE)
        return;
    pthread_mutex_lock(&writers->mutex);
    writers->inside++;
    pthread_cond_broadcast(&writers->changed);
    while (!writers->open)
        pthread_cond_wait(&writers->changed, &writers->mutex);
    pthread_mutex_unlock(&writers->mutex);
}

static void *write_four(void *arg)
{
    struct writers *writers = arg;
    static uint8_t page[FIXTURE_PAGE_BYTES];
    char texts[4][32];
    const char *keys[4];
    const void *const buffers[4] = {page, page, page, page};
    bool stored[4];
    unsigned number = atomic_fetch_add(&writers->next, 1);
    for (int i = 0; i < 4; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%u/%d", number, i);
        keys[i] = texts[i];
    }
    kvs_store_batch_set(writers->fixture->store, 0, 4, keys, buffers, stored);
    for (int i = 0; i < 4; i++)
        assert_true(stored[i]);
    return NULL;
}

static void test_writers_wait_for_each_other(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->options.max_inflight_bytes = 8 * FIXTURE_PAGE_BYTES;
    fixture_open(f);
    struct writers writers = {
        .fixture = f, .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    f->engine.before = hold_writes;
    f->engine.before_arg = &writers;
    pthread_t threads[5];
    for (int i = 0; i < 5; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_four, &writers), 0);
    pthread_mutex_lock(&writers.mutex);
    while (writers.inside < 2)
        pthread_cond_wait(&writers.changed, &writers.mutex);
    pthread_mutex_unlock(&writers.mutex);
    while (atomic_load(&writers.next) < 5)
        sched_yield();
    /* two are under way, which is the bound: no third can be inside before they have ended */
    assert_int_equal(fixture_stats(f).inflight_bytes, 8 * FIXTURE_PAGE_BYTES);
    pthread_mutex_lock(&writers.mutex);
    assert_int_equal(writers.inside, 2);
    writers.open = true;
    pthread_cond_broadcast(&writers.changed);
    pthread_mutex_unlock(&writers.mutex);
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(fixture_stats(f).inflight_bytes, 0);
    assert_int_equal(fixture_stats(f).pages_written, 20);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounced_pages_are_right),
        cmocka_unit_test(test_overdue_reads),
        cmocka_unit_test(test_overdue_writes_keep_their_page),
        cmocka_unit_test(test_hung_mount_holds_bounded_memory),
        cmocka_unit_test(test_hung_mount_holds_up_no_local_pool),
        cmocka_unit_test(test_close_with_overdue_io),
        cmocka_unit_test(test_writers_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
