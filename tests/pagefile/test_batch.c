/* The life of a batch: two owners, a view that stands still, on_idle exactly once. */
#include "pagefile/batch.h"
#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

enum { MANY = 64, ROUNDS = 300 };

struct counter {
    pthread_mutex_t lock;
    unsigned calls;
};

static void count_call(void *arg)
{
    struct counter *counter = arg;
    pthread_mutex_lock(&counter->lock);
    counter->calls++;
    pthread_mutex_unlock(&counter->lock);
}

static struct page_batch *new_batch(struct counter *counter, size_t n)
{
    struct page_batch *batch = page_batch_new(PAGE_READ, n, count_call, counter);
    assert_non_null(batch);
    return batch;
}

static void test_never_run(void **state)
{
    (void)state;
    struct counter counter = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct page_batch *batch = new_batch(&counter, 3);
    assert_true(page_batch_idle(batch));
    assert_false(page_batch_ios(batch)[2].done);
    assert_int_equal(counter.calls, 0);
    page_batch_abandon(batch);
    assert_int_equal(counter.calls, 1);
}

static void test_absurd_size(void **state)
{
    (void)state;
    assert_null(page_batch_new(PAGE_READ, SIZE_MAX, NULL, NULL));
    assert_null(page_batch_new(PAGE_READ, SIZE_MAX / sizeof(struct page_io), NULL, NULL));
}

static void test_ended_before_abandoned(void **state)
{
    (void)state;
    struct counter counter = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct page_batch *batch = new_batch(&counter, 2);
    assert_true(page_batch_begin(batch));
    assert_false(page_batch_idle(batch));
    page_batch_end_io(batch, 1, 4096, 7);
    assert_false(page_batch_wait(batch, 1));
    page_batch_end_io(batch, 0, -EIO, 0);
    assert_true(page_batch_wait(batch, 0));
    assert_int_equal(page_batch_leave(batch), KVS_OK);
    assert_true(page_batch_idle(batch));
    assert_int_equal(page_batch_ios(batch)[0].result, -EIO);
    assert_int_equal(page_batch_ios(batch)[1].checksum, 7);
    assert_int_equal(counter.calls, 0);
    page_batch_abandon(batch);
    assert_int_equal(counter.calls, 1);
}

/* What ends after run() has returned changes nothing in the caller's eyes. */
static void test_abandoned_before_ended(void **state)
{
    (void)state;
    struct counter counter = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct page_batch *batch = new_batch(&counter, 3);
    page_batch_begin(batch);
    page_batch_end_io(batch, 0, 4096, 5);
    assert_int_equal(page_batch_leave(batch), KVS_ERR_IO_DEADLINE);
    page_batch_end_io(batch, 1, 4096, 5);
    const struct page_io *ios = page_batch_ios(batch);
    assert_true(ios[0].done && !ios[1].done && !ios[2].done);
    assert_int_equal(ios[1].result, 0);
    page_batch_abandon(batch);
    assert_int_equal(counter.calls, 0);
    page_batch_end_io(batch, 2, 4096, 5);
    assert_int_equal(counter.calls, 1);
}

static void test_run_again(void **state)
{
    (void)state;
    struct counter counter = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct page_batch *batch = new_batch(&counter, 1);
    assert_int_equal(page_batch_fail(batch, ENXIO), KVS_OK);
    assert_int_equal(page_batch_ios(batch)->result, -ENXIO);
    page_batch_begin(batch);
    assert_false(page_batch_ios(batch)->done);
    page_batch_end_io(batch, 0, 1, 2);
    assert_int_equal(page_batch_leave(batch), KVS_OK);
    assert_int_equal(page_batch_ios(batch)->result, 1);
    page_batch_abandon(batch);
    assert_int_equal(counter.calls, 1);
}

/* ---- The caller's and the engine's threads race for the end ---------------------------------*/

struct racer {
    struct page_batch *batch;
    size_t first, n;
};

static void *end_share(void *arg)
{
    struct racer *racer = arg;
    for (size_t i = 0; i < racer->n; i++) {
        page_batch_end_io(racer->batch, racer->first + i, 4096, 1);
    }
    return NULL;
}

static void test_race(void **state)
{
    (void)state;
    struct counter counter = {.lock = PTHREAD_MUTEX_INITIALIZER};
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct page_batch *batch = new_batch(&counter, MANY);
        page_batch_begin(batch);
        struct racer racers[2] = {{batch, 0, MANY / 2}, {batch, MANY / 2, MANY / 2}};
        pthread_t threads[2];
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, end_share, &racers[i]), 0);
        }
        if (round % 2 == 0) {
            page_batch_wait(batch, 0);
        } else {
            page_batch_wait(batch, 1);
        }
        enum kvs_status status = page_batch_leave(batch);
        size_t done = 0;
        for (size_t i = 0; i < MANY; i++) {
            done += page_batch_ios(batch)[i].done;
        }
        assert_true(status == KVS_OK ? done == MANY : done < MANY);
        page_batch_abandon(batch);
        for (size_t i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
        }
        assert_int_equal(counter.calls, round + 1);
    }
}

static void test_refuse(void **state)
{
    (void)state;
    char byte;
    static const struct {
        uint64_t offset, length, file_size;
        int64_t read, write;
    } rows[] = {
        {0, 4096, 4096, 0, 0},
        {0, 0, 4096, -EINVAL, -EINVAL},
        {1, 4096, 4096, 0, -EINVAL},
        {4096, 4096, 0, 0, 0},
        {UINT64_MAX, 1, 0, -EINVAL, -EINVAL},
        {INT64_MAX, 1, 0, -EINVAL, -EINVAL},
        {INT64_MAX - 1, 1, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct page_io io = {.offset = rows[i].offset, .length = rows[i].length, .buffer = &byte};
        assert_int_equal(page_io_refuse(&io, PAGE_READ, rows[i].file_size), rows[i].read);
        assert_int_equal(page_io_refuse(&io, PAGE_WRITE, rows[i].file_size), rows[i].write);
    }
    struct page_io io = {.length = 1};
    assert_int_equal(page_io_refuse(&io, PAGE_READ, 0), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_run),
        cmocka_unit_test(test_absurd_size),
        cmocka_unit_test(test_ended_before_abandoned),
        cmocka_unit_test(test_abandoned_before_ended),
        cmocka_unit_test(test_run_again),
        cmocka_unit_test(test_race),
        cmocka_unit_test(test_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
