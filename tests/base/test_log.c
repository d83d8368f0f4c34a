/* Log lines: where they go, that each stays one line, and the clocks beside them. */
#include "base/clock.h"
#include "base/log.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

struct seen {
    int lines;
    enum kvs_log_level level;
    char last[4096];
};

static void remember(void *arg, enum kvs_log_level level, const char *line)
{
    struct seen *seen = arg;
    seen->lines++;
    seen->level = level;
    snprintf(seen->last, sizeof(seen->last), "%s", line);
}

static void test_lines(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct logger logger = {remember, &seen};
    log_line(&logger, KVS_LOG_WARNING, "page %d of %s", 3, "kv");
    assert_int_equal(seen.lines, 1);
    assert_int_equal(seen.level, KVS_LOG_WARNING);
    assert_string_equal(seen.last, "page 3 of kv");
    log_line(&logger, KVS_LOG_ERROR, "namespace %s", "a\nfaked: line\x1b[2J\x7f");
    assert_string_equal(seen.last, "namespace a?faked: line?[2J?");
}

static void test_long_lines_are_cut(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct logger logger = {remember, &seen};
    char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_line(&logger, KVS_LOG_INFO, "%s", text);
    assert_int_equal(strlen(seen.last), 2047);
}

static void test_nowhere(void **state)
{
    (void)state;
    struct logger logger = {0};
    log_line(&logger, KVS_LOG_ERROR, "lost");
    log_line(NULL, KVS_LOG_ERROR, "lost");
}

static void test_clocks_go_on(void **state)
{
    (void)state;
    uint64_t ms = clock_boot_ms(), ns = clock_mono_ns(), us = clock_wall_us();
    assert_true(clock_boot_ms() >= ms);
    assert_true(clock_mono_ns() >= ns);
    assert_true(us > UINT64_C(1500000000000000)); /* later than 2017 */
    assert_true(us < UINT64_C(1) << 53); /* generations start there, and are JSON integers */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_long_lines_are_cut),
        cmocka_unit_test(test_nowhere),
        cmocka_unit_test(test_clocks_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
