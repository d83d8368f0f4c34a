/* Text helpers: nearest names, names as file names, numbers in and out. */
#include "base/text.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static void test_nearest(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"file_path_prefix", "file_size", "numjobs", "entries",
                                        "client_timeout",   "io_engine", "replay",  "stat"};
    static const struct {
        const char *name, *expected;
    } cases[] = {
        {"file_szie", "file_size"},
        {"filesize", "file_size"},
        {"file-size", "file_size"},
        {"numjob", "numjobs"},
        {"num_jobs", "numjobs"},
        {"client_time_out", "client_timeout"},
        {"entires", "entries"},
        {"replya", "replay"},
        {"rep", NULL},
        {"start", "stat"},
        {"x", NULL},
        {"", NULL},
        {"completely_different", NULL},
        {"stat", "stat"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const char *found = text_nearest(cases[i].name, NAMES, ARRAY_LENGTH(NAMES));
        if (cases[i].expected == NULL ? found != NULL
                                      : found == NULL || strcmp(found, cases[i].expected) != 0)
            fail_msg("%s: %s", cases[i].name, found == NULL ? "none" : found);
    }
    assert_null(text_nearest("a", NULL, 0));
    char longer[1000];
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_null(text_nearest(longer, NAMES, ARRAY_LENGTH(NAMES)));
}

static const struct {
    const char *text;
    size_t length;
    const char *encoded;
} names[] = {
    {"kv", 2, "kv"},
    {"kv@pp1of2", 9, "kv@pp1of2"},
    {"", 0, ""},
    {"../../etc/passwd", 16, "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd"},
    {".", 1, "%2E"},
    {"a b%c", 5, "a%20b%25c"},
    {"\0\xff\n", 3, "%00%FF%0A"},
    {"\xc3\xa9", 2, "%C3%A9"},
    {"A_z-9", 5, "A_z-9"},
};

static void test_percent(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        struct buffer encoded = {0}, decoded = {0};
        text_percent_encode(&encoded, names[i].text, names[i].length);
        assert_string_equal(buffer_text(&encoded), names[i].encoded);
        assert_true(text_percent_decode(&decoded, encoded.data, encoded.length));
        assert_int_equal(decoded.length, names[i].length);
        if (decoded.length > 0)
            assert_memory_equal(decoded.data, names[i].text, decoded.length);
        buffer_done(&encoded);
        buffer_done(&decoded);
    }
}

static void test_percent_refuses_other_spellings(void **state)
{
    (void)state;
    static const char *const REFUSED[] = {"%",   "%4",  "%2",  "%41", "%2e",  "a.b",
                                          "a/b", "%GG", "%2%", "a b", "\xff", "%6b"};
    for (size_t i = 0; i < ARRAY_LENGTH(REFUSED); i++) {
        struct buffer decoded = {0};
        if (text_percent_decode(&decoded, REFUSED[i], strlen(REFUSED[i])))
            fail_msg("%s was decoded", REFUSED[i]);
        buffer_done(&decoded);
    }
}

typedef const char *(*parse_fn)(const char *text, uint64_t *ret_value);

static void check_parse(parse_fn parse, const char *text, bool valid, uint64_t expected)
{
    uint64_t value = 42;
    const char *problem = parse(text, &value);
    if ((problem == NULL) != valid || value != (valid ? expected : 42))
        fail_msg("'%s': %s, %llu", text, problem == NULL ? "accepted" : problem,
                 (unsigned long long)value);
}

static void test_whole_numbers(void **state)
{
    (void)state;
    check_parse(text_parse_uint64, "0", true, 0);
    check_parse(text_parse_uint64, "007", true, 7);
    check_parse(text_parse_uint64, "18446744073709551615", true, UINT64_MAX);
    static const char *const REFUSED[] = {"18446744073709551616",
                                          "99999999999999999999999",
                                          "",
                                          "-1",
                                          "+1",
                                          " 1",
                                          "1 ",
                                          "1e3",
                                          "0x10",
                                          "1.0",
                                          "one",
                                          "1k"};
    for (size_t i = 0; i < ARRAY_LENGTH(REFUSED); i++)
        check_parse(text_parse_uint64, REFUSED[i], false, 0);
}

static void test_bytes(void **state)
{
    (void)state;
    check_parse(text_parse_bytes, "0", true, 0);
    check_parse(text_parse_bytes, "4096", true, 4096);
    check_parse(text_parse_bytes, "256KiB", true, 262144);
    check_parse(text_parse_bytes, "4GiB", true, UINT64_C(4) << 30);
    check_parse(text_parse_bytes, "1T", true, UINT64_C(1) << 40);
    check_parse(text_parse_bytes, "16383P", true, UINT64_C(16383) << 50);
    static const char *const REFUSED[] = {"16384P", "18446744073709551615K",
                                          "1e3",    "1.5GiB",
                                          "4 GiB",  "4GB",
                                          "4gib",   "4Ki",
                                          "4KiBs",  "4B",
                                          "-4096",  "",
                                          "K",      "GiB",
                                          "4KK"};
    for (size_t i = 0; i < ARRAY_LENGTH(REFUSED); i++)
        check_parse(text_parse_bytes, REFUSED[i], false, 0);
}

static void test_seconds(void **state)
{
    (void)state;
    check_parse(text_parse_seconds, "0", true, 0);
    check_parse(text_parse_seconds, "60", true, 60000);
    check_parse(text_parse_seconds, "60s", true, 60000);
    check_parse(text_parse_seconds, "0.25", true, 250);
    check_parse(text_parse_seconds, "1.5s", true, 1500);
    check_parse(text_parse_seconds, "0.001", true, 1);
    check_parse(text_parse_seconds, "250ms", true, 250);
    static const char *const REFUSED[] = {"",    "-1",   "1.",  ".5",    "1.2345",
                                          "1e3", "5min", "5 s", "1.5ms", "1,5",
                                          "inf", "nan",  "s",   "60sx",  "18446744073709551615"};
    for (size_t i = 0; i < ARRAY_LENGTH(REFUSED); i++)
        check_parse(text_parse_seconds, REFUSED[i], false, 0);
}

static void test_numbers_for_people(void **state)
{
    (void)state;
    assert_string_equal(BYTES(0), "0 B");
    assert_string_equal(BYTES(1023), "1023 B");
    assert_string_equal(BYTES(1024), "1 KiB");
    assert_string_equal(BYTES(262144), "256 KiB");
    assert_string_equal(BYTES(1536 << 10), "1.5 MiB");
    assert_string_equal(BYTES(UINT64_C(1) << 40), "1 TiB");
    assert_string_equal(BYTES(UINT64_MAX), "16 EiB");
    assert_string_equal(BYTES(4497408), "4.29 MiB");
    assert_string_equal(COUNT(0), "0");
    assert_string_equal(COUNT(999), "999");
    assert_string_equal(COUNT(1000), "1,000");
    assert_string_equal(COUNT(1073741824), "1,073,741,824");
    assert_string_equal(COUNT(UINT64_MAX), "18,446,744,073,709,551,615");
    assert_string_equal(DURATION_NS(0), "0 ns");
    assert_string_equal(DURATION_NS(999), "999 ns");
    assert_string_equal(DURATION_NS(1250), "1.25 us");
    assert_string_equal(DURATION_NS(12300000), "12.3 ms");
    assert_string_equal(DURATION_NS(1500000000), "1.5 s");
    assert_string_equal(DURATION_NS(UINT64_C(200000000000)), "3 min 20 s");
    assert_string_equal(DURATION_NS(UINT64_C(7260000000000)), "2 h 1 min");
    assert_string_equal(RATE(0.0), "0 B/s");
    assert_string_equal(RATE(1.93e9), "1.93 GB/s");
    assert_string_equal(RATE(100e9), "100 GB/s");
}

static void test_one_line(void **state)
{
    (void)state;
    char text[] = "a\nb\r\tc\x1b[0m\x7f \xc3\xa9";
    text_one_line(text);
    assert_string_equal(text, "a?b??c?[0m? \xc3\xa9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_percent),
        cmocka_unit_test(test_percent_refuses_other_spellings),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_numbers_for_people),
        cmocka_unit_test(test_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
