/* The JSON writer: commas, escapes, numbers, and that the reader reads back what was written. */
#include "base/json.h"
#include "support/page_end.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static void test_nesting_and_commas(void **state)
{
    (void)state;
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    json_write_object_begin(&w);
    json_write_name(&w, "a");
    json_write_array_begin(&w);
    json_write_int64(&w, 1);
    json_write_array_begin(&w);
    json_write_array_end(&w);
    json_write_object_begin(&w);
    json_write_object_end(&w);
    json_write_null(&w);
    json_write_array_end(&w);
    json_write_name(&w, "b");
    json_write_bool(&w, true);
    json_write_name(&w, "c");
    json_write_bool(&w, false);
    json_write_name(&w, "d");
    json_write_raw(&w, "[1]", 3);
    json_write_name(&w, "e");
    json_write_text(&w, "x");
    json_write_object_end(&w);
    assert_string_equal(buffer_text(&out),
                        "{\"a\":[1,[],{},null],\"b\":true,\"c\":false,\"d\":[1],\"e\":\"x\"}");
    buffer_done(&out);
}

static void test_members(void **state)
{
    (void)state;
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    json_write_object_begin(&w);
    json_member_uint64(&w, "a", UINT64_MAX);
    json_member_double(&w, "b", 0.5);
    json_member_bool(&w, "c", false);
    json_member_text(&w, "d", "\"");
    json_member_text(&w, "e", NULL);
    json_write_object_end(&w);
    assert_string_equal(
        buffer_text(&out),
        "{\"a\":18446744073709551615,\"b\":0.5,\"c\":false,\"d\":\"\\\"\",\"e\":null}");
    buffer_done(&out);
}

static const struct {
    const char *text;
    size_t length;
    const char *json;
} strings[] = {
    {"", 0, "\"\""},
    {"plain", 5, "\"plain\""},
    {"\"\\\b\f\n\r\t/", 8, "\"\\\"\\\\\\b\\f\\n\\r\\t/\""},
    {"\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\x7f\""},
    {"\xc3\xa9 \xf0\x9f\x98\x80", 7, "\"\xc3\xa9 \xf0\x9f\x98\x80\""},
    /* What is not UTF-8 becomes U+FFFD, byte by byte. */
    {"\xff", 1, "\"\xef\xbf\xbd\""},
    {"a\xe2\x82", 3, "\"a\xef\xbf\xbd\xef\xbf\xbd\""},
    {"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    {"0123456789abcdef0123456789abcdef0123456789abcdef\n0123456789abcdef", 65,
     "\"0123456789abcdef0123456789abcdef0123456789abcdef\\n0123456789abcdef\""},
};

static void test_strings(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(strings); i++) {
        struct page_end area = page_end_new(strings[i].text, strings[i].length);
        struct buffer out = {0};
        struct json_writer w = {.out = &out};
        json_write_string(&w, area.bytes, area.length);
        assert_string_equal(buffer_text(&out), strings[i].json);
        buffer_done(&out);
        page_end_done(&area);
    }
}

static void test_integers(void **state)
{
    (void)state;
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    json_write_array_begin(&w);
    json_write_int64(&w, 0);
    json_write_int64(&w, -1);
    json_write_int64(&w, INT64_MIN);
    json_write_int64(&w, INT64_MAX);
    json_write_uint64(&w, UINT64_MAX);
    json_write_array_end(&w);
    assert_string_equal(buffer_text(&out),
                        "[0,-1,-9223372036854775808,9223372036854775807,18446744073709551615]");
    buffer_done(&out);
}

static const struct {
    double value;
    const char *json;
} doubles[] = {
    {0, "0"},
    {-0.0, "-0"},
    {1, "1"},
    {0.1, "0.1"},
    {-2.5, "-2.5"},
    {1e21, "1e+21"},
    {5e-324, "5e-324"},
    {0.3, "0.3"},
    {DBL_MAX, "1.7976931348623157e+308"},
    {0.1 + 0.2, "0.30000000000000004"},
    {9007199254740993.0, "9007199254740992"},
    {INFINITY, "null"},
    {-INFINITY, "null"},
    {NAN, "null"},
};

static void test_doubles(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(doubles); i++) {
        struct buffer out = {0};
        struct json_writer w = {.out = &out};
        json_write_double(&w, doubles[i].value);
        assert_string_equal(buffer_text(&out), doubles[i].json);
        buffer_done(&out);
    }
}

/* A splitmix64 of a fixed seed: the numbers are the same in every run. */
static uint64_t next_random(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void test_doubles_come_back(void **state)
{
    (void)state;
    uint64_t seed = 20250101;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct buffer out = {0};
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next_random(&seed);
        double value, back = 0;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value))
            continue;
        struct json_writer w = {.out = &out};
        struct json_reader r;
        buffer_clear(&out);
        json_write_double(&w, value);
        json_reader_init(&r, out.data, out.length, NULL, JSON_DEPTH);
        assert_true(json_double(&r, &back) && json_end(&r));
        assert_memory_equal(&value, &back, sizeof(value));
    }
    buffer_done(&out);
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[TEMP_DIR_MAX + 16];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Makes a locale of its own, which writes 1,5, and sets it: a bare machine has none, and neither
 * the sources to make one of. False where there is no localedef. */
static bool set_decimal_comma(const char *dir)
{
    char command[2 * TEMP_DIR_MAX + 128];
    write_file(dir, "charmap",
               "<code_set_name> ASCII\n<escape_char> /\nCHARMAP\n<U0000>..<U007F> /x00 ASCII\n"
               "END CHARMAP\n");
    write_file(dir, "numeric",
               "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\n"
               "END LC_NUMERIC\n");
    /* It complains, and fails, for want of the other categories; -c writes what there is. */
    snprintf(command, sizeof(command),
             "cd '%s' && localedef -c -f ./charmap -i ./numeric ./comma >log 2>&1", dir);
    int status = system(command);
    setenv("LOCPATH", dir, 1);
    return setlocale(LC_NUMERIC, "comma") != NULL || WEXITSTATUS(status) != 127;
}

/* The host process may have set a locale that writes 1,5: JSON must not change. */
static void test_locale_does_not_matter(void **state)
{
    (void)state;
    char dir[TEMP_DIR_MAX], text[8];
    temp_dir_make(dir);
    bool has_localedef = set_decimal_comma(dir);
    temp_dir_remove(dir);
    if (!has_localedef) {
        print_message("skipped: there is no localedef to make a locale with a decimal comma\n");
        skip();
    }
    snprintf(text, sizeof(text), "%.1f", 1.5);
    assert_string_equal(text, "1,5");
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    struct json_reader r;
    double value = 0;
    json_write_double(&w, 1.5);
    assert_string_equal(buffer_text(&out), "1.5");
    json_reader_init(&r, "1.5000000000000000000000000000", 30, NULL, JSON_DEPTH);
    assert_true(json_double(&r, &value) && value > 1.25);
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    buffer_done(&out);
}

static void test_no_memory_is_remembered(void **state)
{
    (void)state;
    struct buffer out = {.failed = true};
    struct json_writer w = {.out = &out};
    json_write_object_begin(&w);
    json_write_name(&w, "a");
    json_write_double(&w, 1.5);
    json_write_object_end(&w);
    assert_true(out.failed);
    assert_int_equal(out.length, 0);
    assert_string_equal(buffer_text(&out), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nesting_and_commas),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_doubles_come_back),
        cmocka_unit_test(test_locale_does_not_matter),
        cmocka_unit_test(test_no_memory_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
