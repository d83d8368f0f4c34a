/* The bucket: full at first, fills at its rate, never beyond its size. */
#include "store/limiter.h"
#include "support/unit.h"

static void test_rate_and_burst(void **state)
{
    (void)state;
    struct limiter l;
    limiter_init(&l, 100, 5);
    assert_int_equal(limiter_take(&l, 1000, 3), 3);
    assert_int_equal(limiter_take(&l, 1000, 3), 2);
    assert_int_equal(limiter_take(&l, 1000, 1), 0);
    assert_int_equal(limiter_take(&l, 1099, 1), 0);
    assert_int_equal(limiter_take(&l, 1100, 9), 1);
    assert_int_equal(limiter_take(&l, 1350, 9), 2); /* the rest of 50 is kept */
    assert_int_equal(limiter_take(&l, 1399, 9), 0);
    assert_int_equal(limiter_take(&l, 1400, 9), 1);
    assert_int_equal(limiter_take(&l, 1000000, 9), 5);
    assert_int_equal(limiter_take(&l, 999999, 9), 0); /* a clock that goes back gives nothing */
    limiter_done(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rate_and_burst)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
