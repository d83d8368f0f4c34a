/* The bound on bytes under way: waits, deadlines, and one that is larger than the bound. */
#include "store/inflight.h"
#include "support/unit.h"

#include <pthread.h>

static void test_takes_and_gives(void **state)
{
    (void)state;
    struct inflight *inflight = inflight_new(100);
    assert_true(inflight_take(inflight, 60, 1));
    assert_true(inflight_take(inflight, 40, 1));
    assert_false(inflight_take(inflight, 1, 1)); /* a deadline that has passed */
    assert_int_equal(inflight_bytes(inflight), 100);
    assert_int_equal(inflight_waits(inflight), 1);
    inflight_give(inflight, 40);
    assert_true(inflight_take(inflight, 1, 1));
    inflight_give(inflight, 61);
    assert_true(inflight_take(inflight, UINT64_MAX, 1)); /* alone */
    assert_false(inflight_take(inflight, 1, 1));
    inflight_give(inflight, UINT64_MAX);
    assert_int_equal(inflight_bytes(inflight), 0);
    assert_null(inflight_unref(inflight));
    assert_null(inflight_unref(NULL));
}

static void *take_and_give(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        assert_true(inflight_take(arg, 30, 0));
        assert_in_range(inflight_bytes(arg), 30, 100);
        inflight_give(arg, 30);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct inflight *inflight = inflight_new(100);
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, inflight), 0);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(inflight_bytes(inflight), 0);
    inflight_unref(inflight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_and_gives),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
