/* Lines at a bounded rate: a burst, then one a second, with the number of those left out. */
#include "server/thinned.h"
#include "support/unit.h"

#include <string.h>

struct lines {
    size_t count;
    char last[128];
};

static void keep_line(void *arg, enum kvs_log_level level, const char *line)
{
    struct lines *lines = arg;
    assert_int_equal(level, KVS_LOG_WARNING);
    lines->count++;
    snprintf(lines->last, sizeof(lines->last), "%s", line);
}

static void a_burst_then_one_a_second(void **state)
{
    (void)state;
    struct lines lines = {0};
    const struct logger log = {keep_line, &lines};
    struct thinned thinned;
    thinned_init(&thinned, 5000);
    for (int i = 0; i < THINNED_BURST; i++)
        thinned_log(&thinned, &log, 5000, "refused");
    assert_int_equal(lines.count, THINNED_BURST);
    assert_string_equal(lines.last, "refused");
    for (int i = 0; i < 1234; i++)
        thinned_log(&thinned, &log, 5999, "refused");
    assert_int_equal(lines.count, THINNED_BURST);
    thinned_log(&thinned, &log, 6000, "refused");
    assert_int_equal(lines.count, THINNED_BURST + 1);
    assert_string_equal(lines.last, "refused (and 1,234 more since the last such line)");
    thinned_log(&thinned, &log, 6000, "refused");
    assert_int_equal(lines.count, THINNED_BURST + 1);
    /* After a long rest there is a burst again and no more, even if the clock went back before. */
    thinned_log(&thinned, &log, 0, "refused");
    for (int i = 0; i < 2 * THINNED_BURST; i++)
        thinned_log(&thinned, &log, 86400000, "refused");
    assert_int_equal(lines.count, 2 * THINNED_BURST + 1);
    thinned_done(&thinned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_then_one_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
