/* Numbers put by the word: the same digits as by printf, and none outside the room asked for. */
#include "server/put.h"
#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>

static void check(uint64_t value)
{
    char expected[32], put[PUT_NUMBER_MAX + 1];
    int length = snprintf(expected, sizeof(expected), "%" PRIu64, value);
    memset(put, '#', sizeof(put));
    char *end = put_number(put, value);
    assert_int_equal(end - put, length);
    assert_memory_equal(put, expected, (size_t)length);
    assert_int_equal(put[PUT_NUMBER_MAX], '#');
}

static void numbers_around_every_power_are_put_right(void **state)
{
    (void)state;
    uint64_t power = 1;
    for (int digits = 1; digits <= PUT_NUMBER_MAX; digits++) {
        for (uint64_t near = 0; near < 12; near++) {
            check(power - near);
            check(power + near);
            check(power * (near % 10));
        }
        power *= 10;
    }
    check(UINT64_MAX);
}

static void every_number_of_four_digits_is_put_right_in_every_place(void **state)
{
    (void)state;
    for (uint64_t value = 0; value < 10000; value++) {
        check(value);
        check(value * 10000);
        check(value * 10000 + 9999 - value);
        check(value * UINT64_C(1000000000000) + value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_around_every_power_are_put_right),
        cmocka_unit_test(every_number_of_four_digits_is_put_right_in_every_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
