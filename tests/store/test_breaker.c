/* The breaker: trips on failures in a row, probes after a pause that doubles, closes on success. */
#include "store/breaker.h"
#include "support/unit.h"

static const uint64_t MS = 1000000;

static void test_row_of_failures(void **state)
{
    (void)state;
    struct breaker b;
    breaker_init(&b, 3);
    assert_false(breaker_report(&b, 0, 0, 0, 2, false));
    assert_false(breaker_report(&b, 0, 0, 1, 100, false)); /* any success ends the row */
    assert_false(breaker_report(&b, 0, 0, 0, 2, false));
    assert_int_equal(breaker_ask(&b, 0), BREAKER_ALLOWS);
    assert_true(breaker_report(&b, 0, 0, 0, 1, false));
    assert_int_equal(breaker_ask(&b, 0), BREAKER_REFUSES);
    assert_int_equal(breaker_trips(&b), 1);
    assert_int_equal(breaker_pause_ms(&b), 1000);
    breaker_done(&b);
}

static void test_at_once(void **state)
{
    (void)state;
    struct breaker b;
    breaker_init(&b, 1000);
    assert_false(breaker_report(&b, 0, 0, 5, 0, true));
    assert_true(breaker_report(&b, 0, 0, 5, 1, true));
    assert_int_equal(breaker_ask(&b, 0), BREAKER_REFUSES);
    breaker_done(&b);
}

static void test_probes_and_pauses(void **state)
{
    (void)state;
    struct breaker b;
    breaker_init(&b, 1);
    uint64_t now = 5 * MS;
    assert_true(breaker_report(&b, now, now, 0, 1, false));
    static const uint64_t pauses_ms[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};
    for (size_t i = 0; i < sizeof(pauses_ms) / sizeof(pauses_ms[0]); i++) {
        assert_int_equal(breaker_pause_ms(&b), pauses_ms[i]);
        assert_int_equal(breaker_ask(&b, now + pauses_ms[i] * MS - 1), BREAKER_REFUSES);
        now += pauses_ms[i] * MS;
        assert_int_equal(breaker_ask(&b, now), BREAKER_PROBES);
        assert_int_equal(breaker_ask(&b, now), BREAKER_REFUSES); /* one prober at a time */
        assert_true(breaker_report(&b, now, now, 0, 1, false));
    }
    now += 30000 * MS;
    assert_int_equal(breaker_ask(&b, now), BREAKER_PROBES);
    breaker_cancel(&b); /* it had nothing to try */
    assert_int_equal(breaker_ask(&b, now), BREAKER_PROBES);
    assert_false(breaker_report(&b, now, now, 1, 0, false));
    assert_int_equal(breaker_ask(&b, now), BREAKER_ALLOWS);
    assert_int_equal(breaker_pause_ms(&b), 0);
    assert_true(breaker_report(&b, now, now, 0, 1, false));
    assert_int_equal(breaker_pause_ms(&b), 1000); /* from the beginning */
    breaker_done(&b);
}

/* Calls that began before it tripped end after: they neither close nor lengthen. */
static void test_stragglers(void **state)
{
    (void)state;
    struct breaker b;
    breaker_init(&b, 1);
    assert_true(breaker_report(&b, 0, 0, 0, 1, false));
    assert_false(breaker_report(&b, 0, 0, 0, 1, false));
    assert_false(breaker_report(&b, 0, 0, 1, 0, false));
    assert_int_equal(breaker_ask(&b, 1), BREAKER_REFUSES);
    assert_int_equal(breaker_trips(&b), 1);
    assert_int_equal(breaker_pause_ms(&b), 1000);
    breaker_done(&b);
}

/* A call that hung since before ends while a probe is under way, or after one has closed it. */
static void test_old_news(void **state)
{
    (void)state;
    const uint64_t s = UINT64_C(1000000000);
    struct breaker b;
    breaker_init(&b, 1);
    assert_true(breaker_report(&b, 0, 1 * s, 0, 1, true));
    assert_int_equal(breaker_ask(&b, 2 * s), BREAKER_PROBES);
    assert_false(breaker_report(&b, 0, 2 * s, 0, 1, true));
    assert_int_equal(breaker_pause_ms(&b), 1000);
    assert_false(breaker_report(&b, 2 * s, 3 * s, 1, 0, false));
    assert_true(breaker_closed(&b));
    assert_false(breaker_report(&b, 0, 4 * s, 0, 1, true));
    assert_true(breaker_closed(&b));
    assert_true(breaker_report(&b, 4 * s, 5 * s, 0, 1, true));
    breaker_done(&b);
}

static void test_counts_do_not_overflow(void **state)
{
    (void)state;
    struct breaker b;
    breaker_init(&b, UINT32_MAX);
    assert_false(breaker_report(&b, 0, 0, 0, UINT32_MAX - 1, false));
    assert_true(breaker_report(&b, 0, 0, 0, UINT64_MAX, false));
    breaker_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_of_failures),   cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_probes_and_pauses), cmocka_unit_test(test_stragglers),
        cmocka_unit_test(test_old_news),          cmocka_unit_test(test_counts_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
