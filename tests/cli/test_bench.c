/* kvshelf bench: that it measures what it says and cleans up. Small; no figure is judged. */
#include "cli/bench.h"
#include "support/program.h"
#include "support/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[] = "bench_test_XXXXXX";

static int make_place(void **state)
{
    (void)state;
    char tmp[4096];
    assert_non_null(mkdtemp(place));
    assert_non_null(getcwd(tmp, sizeof tmp - 64));
    snprintf(tmp + strlen(tmp), 64, "/%s", place);
    return setenv("TMPDIR", tmp, 1);
}

static int remove_place(void **state)
{
    (void)state;
    return rmdir(place); /* everything in it has been removed */
}

static void keys_differ(void **state)
{
    (void)state;
    enum { KEYS = 1024 };
    static struct key keys[KEYS];
    for (uint64_t id = 0; id < KEYS; id++)
        bench_key(&keys[id], id * 977);
    for (size_t i = 0; i < KEYS; i++)
        for (size_t j = 0; j < i; j++)
            assert_false(key_equal(&keys[i], &keys[j]));
}

static void the_median_is_in_the_middle(void **state)
{
    (void)state;
    double numbers[] = {5, 1, 4, 2, 3};
    assert_true(bench_median(numbers, 5) == 3);
    assert_true(numbers[0] == 1 && numbers[4] == 5); /* sorted */
    assert_true(bench_median(numbers, 1) == 1);
}

static void measures_memory_and_speed(void **state)
{
    (void)state;
    struct bench_speed speed;
    struct kvs_error error;
    if (bench_speed_run(BENCH_PAGES_MIN, &speed, &error) != KVS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(speed.pages, BENCH_PAGES_MIN);
    assert_in_range(speed.memory_bytes / speed.pages, 64, 128);
    const struct bench_rate *rates[] = {&speed.gather,       &speed.overlapping_gather,
                                        &speed.exists,       &speed.get,
                                        &speed.reserve_free, &speed.reserve_evicting};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        assert_true(rates[i]->lowest > 0 && rates[i]->lowest <= rates[i]->median &&
                    rates[i]->median <= rates[i]->highest);
    assert_true(speed.exists_over_gather > 0 && speed.get_over_gather > 0);
}

/* A process of its own, since what is reopened has to be left by another. */
static void reopens_all_that_was_there(void **state)
{
    (void)state;
    struct program_result result =
        PROGRAM("bench", "catalog", "--only", "reopen", "--pages", "65536", "--json");
    assert_int_equal(result.exit_code, 0);
    static const char *const parts[] = {"\"keys_asked\":65536",
                                        "\"keys_found_after_clean_stop\":65536",
                                        "\"keys_found_after_kill\":65536", "\"speed\":[]"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(buffer_text(&result.out), parts[i]) == NULL)
            fail_msg("'%s' is not in:\n%s", parts[i], buffer_text(&result.out));
    program_done(&result);
}

static void refuses_what_it_cannot_measure(void **state)
{
    (void)state;
    static const char *const wrong[][4] = {
        {"bench", NULL, NULL, NULL},
        {"bench", "pagess", NULL, NULL},
        {"bench", "catalog", "--pages", "100"},
        {"bench", "catalog", "--only", "everything"},
        {"bench", "catalog", "--seconds", "0"},
        {"bench", "pages", "--pages", "5"},
        {"bench", "pages", "--seconds", "5"},
        {"bench", "catalog", "--fio", NULL},
        {"bench", "catalog", "--size", "1GiB"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct program_result result = PROGRAM(wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3]);
        assert_int_equal(result.exit_code, 2);
        assert_non_null(strstr(buffer_text(&result.err), "kvshelf explain"));
        program_done(&result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_differ),
        cmocka_unit_test(the_median_is_in_the_middle),
        cmocka_unit_test(measures_memory_and_speed),
        cmocka_unit_test(reopens_all_that_was_there),
        cmocka_unit_test(refuses_what_it_cannot_measure),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
