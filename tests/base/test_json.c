/* The JSON reader: what it accepts, what it refuses and where, and that it reads nothing outside of
 * its range (each input ends at the end of a mapped page). */
#include "base/json.h"
#include "support/page_end.h"
#include "support/unit.h"

#include <dlfcn.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

#define TEXT(literal)       (literal), sizeof(literal) - 1
#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Whole documents --------------------------------------------------------------------------
 */

static const struct {
    const char *text;
    size_t length;
} accepted[] = {
    {TEXT("{}")},
    {TEXT("[]")},
    {TEXT(" [ ] ")},
    {TEXT("\t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : { } } \n")},
    {TEXT("null")},
    {TEXT("true")},
    {TEXT("false")},
    {TEXT("\"\"")},
    {TEXT("0")},
    {TEXT("-0")},
    {TEXT("-0.0e-0")},
    {TEXT("1E+2")},
    {TEXT("123456789012345678901234567890")},
    {TEXT("1.7976931348623157e308")},
    {TEXT("1e-400")},
    {TEXT("0e999999999999")},
    {TEXT("[1,[2,[3,[]]],{\"a\":{\"b\":[{}]}}]")},
    {TEXT("{\"a\":1,\"a\":2}")},
    {TEXT("{\"\":0}")},
    {TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"")},
    {TEXT("\"\\u0000\\u001f\\uFFFF\"")},
    {TEXT("\"\\ud83d\\ude00\"")},
    {TEXT("\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\"")},
    {TEXT("\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"")},
    {TEXT("\"\x7f\"")},
};

static const struct {
    const char *text;
    size_t length;
    size_t fault_at;
    const char *fault; /* a part of it */
} refused[] = {
    {TEXT(""), 0, "end of the document"},
    {TEXT("  "), 2, "end of the document"},
    {TEXT("hello"), 0, "expected a value"},
    {TEXT("nul"), 0, "expected a value"},
    {TEXT("truE"), 0, "expected a value"},
    {TEXT("nullx"), 4, "after the document"},
    {TEXT("falsefalse"), 5, "after the document"},
    {TEXT("{}{}"), 2, "after the document"},
    {TEXT("[] x"), 3, "after the document"},
    {TEXT("[1,]"), 3, "trailing comma"},
    {TEXT("[1, ]"), 4, "trailing comma"},
    {TEXT("{\"a\":1,}"), 7, "trailing comma"},
    {TEXT("[,1]"), 1, "expected a value"},
    {TEXT("[1,,2]"), 3, "expected a value"},
    {TEXT("[1 2]"), 3, "expected ',' or ']'"},
    {TEXT("[1"), 2, "end of the document"},
    {TEXT("["), 1, "end of the document"},
    {TEXT("]"), 0, "expected a value"},
    {TEXT("[1}"), 2, "expected ',' or ']'"},
    {TEXT("{"), 1, "end of the document"},
    {TEXT("{]"), 1, "member name"},
    {TEXT("{1:2}"), 1, "member name"},
    {TEXT("{a:2}"), 1, "member name"},
    {TEXT("{'a':2}"), 1, "member name"},
    {TEXT("{\"a\"}"), 4, "expected ':'"},
    {TEXT("{\"a\""), 4, "end of the document"},
    {TEXT("{\"a\":"), 5, "end of the document"},
    {TEXT("{\"a\":}"), 5, "expected a value"},
    {TEXT("{\"a\":1 \"b\":2}"), 7, "expected ',' or '}'"},
    {TEXT("{\"a\":1"), 6, "end of the document"},
    {TEXT("/* x */ 1"), 0, "expected a value"},
    {TEXT("[1/*x*/]"), 2, "expected ',' or ']'"},
    {TEXT("\xef\xbb\xbf{}"), 0, "byte order mark"},
    {TEXT("\xff\xfe{\0}\0"), 0, "expected a value"},
    {TEXT("\0"), 0, "expected a value"},
    {TEXT("\x0b[]"), 0, "expected a value"},
    {TEXT("NaN"), 0, "expected a value"},
    {TEXT("Infinity"), 0, "expected a value"},
    {TEXT("-Infinity"), 1, "a minus needs a digit"},
    {TEXT("-"), 1, "a minus needs a digit"},
    {TEXT("--1"), 1, "a minus needs a digit"},
    {TEXT("+1"), 0, "expected a value"},
    {TEXT(".5"), 0, "expected a value"},
    {TEXT("1."), 2, "after the point"},
    {TEXT("1.e1"), 2, "after the point"},
    {TEXT("1e"), 2, "exponent"},
    {TEXT("1e+"), 3, "exponent"},
    {TEXT("[1ex]"), 3, "exponent"},
    {TEXT("01"), 0, "begin with a zero"},
    {TEXT("-01"), 1, "begin with a zero"},
    {TEXT("0x10"), 1, "after the document"},
    {TEXT("1_000"), 1, "after the document"},
    {TEXT("1e400"), 0, "out of range"},
    {TEXT("[-1e400]"), 1, "out of range"},
    {TEXT("1e99999999999999999999"), 0, "out of range"},
    {TEXT("\""), 1, "end of the document"},
    {TEXT("\"abc"), 4, "end of the document"},
    {TEXT("\"\\"), 2, "end of the document"},
    {TEXT("\"\\\""), 3, "end of the document"},
    {TEXT("\"\\u"), 3, "end of the document"},
    {TEXT("\"\\u12"), 5, "end of the document"},
    {TEXT("\"\\u123g\""), 6, "hexadecimal"},
    {TEXT("\"\\x41\""), 1, "unknown escape"},
    {TEXT("\"\\'\""), 1, "unknown escape"},
    {TEXT("\"\\\0\""), 1, "unknown escape"},
    {TEXT("\"\\ud800\""), 1, "surrogate"},
    {TEXT("\"a\\ud800b\""), 2, "surrogate"},
    {TEXT("\"\\ud800\\n\""), 1, "surrogate"},
    {TEXT("\"\\ud800\\u0041\""), 1, "surrogate"},
    {TEXT("\"\\ud800\\ud800\""), 1, "surrogate"},
    {TEXT("\"\\udc00\""), 1, "surrogate"},
    {TEXT("\"\\ud800"), 1, "surrogate"},
    {TEXT("\"\n\""), 1, "control character"},
    {TEXT("\"\0\""), 1, "control character"},
    {TEXT("\"\x1f\""), 1, "control character"},
    {TEXT("\"\x80\""), 1, "not UTF-8"},
    {TEXT("\"\xc2\""), 1, "not UTF-8"},
    {TEXT("\"\xc0\xaf\""), 1, "not UTF-8"},
    {TEXT("\"\xc1\xbf\""), 1, "not UTF-8"},
    {TEXT("\"\xe0\x9f\xbf\""), 1, "not UTF-8"},
    {TEXT("\"\xed\xa0\x80\""), 1, "not UTF-8"},
    {TEXT("\"\xf0\x8f\xbf\xbf\""), 1, "not UTF-8"},
    {TEXT("\"\xf4\x90\x80\x80\""), 1, "not UTF-8"},
    {TEXT("\"\xf8\x88\x80\x80\x80\""), 1, "not UTF-8"},
    {TEXT("\"\xe2\x82"), 1, "not UTF-8"},
    {TEXT("\"\xf0\x9f\x98"), 1, "not UTF-8"},
    {TEXT("{\"\xff\":1}"), 2, "not UTF-8"},
};

/* Reads each value with the call made for it, every string unescaped. */
static void read_value(struct json_reader *r)
{
    struct json_text text;
    double number;
    bool flag;
    switch (json_peek(r)) {
    case JSON_OBJECT:
        for (json_object_begin(r); json_object_next(r, &text);)
            read_value(r);
        break;
    case JSON_ARRAY:
        for (json_array_begin(r); json_array_next(r);)
            read_value(r);
        break;
    case JSON_STRING:
        json_string(r, &text);
        break;
    case JSON_NUMBER:
        json_double(r, &number);
        break;
    case JSON_BOOL:
        json_bool(r, &flag);
        break;
    case JSON_NULL:
        json_null(r);
        break;
    case JSON_INVALID:
        json_skip(r);
        break;
    }
}

static struct json_reader read_document(const struct page_end *area, struct buffer *scratch,
                                        bool skip)
{
    struct json_reader r;
    json_reader_init(&r, area->bytes, area->length, scratch, JSON_DEPTH);
    if (skip)
        json_skip(&r);
    else
        read_value(&r);
    json_end(&r);
    return r;
}

static void test_accepts(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(accepted); i++) {
        struct page_end area = page_end_new(accepted[i].text, accepted[i].length);
        for (int skip = 0; skip < 2; skip++) {
            struct buffer scratch = {0};
            struct json_reader r = read_document(&area, &scratch, skip == 1);
            if (json_failed(&r))
                fail_msg("%s: %s at %zu", accepted[i].text, r.fault, r.fault_at);
            buffer_done(&scratch);
        }
        page_end_done(&area);
    }
}

static void test_refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(refused); i++) {
        struct page_end area = page_end_new(refused[i].text, refused[i].length);
        for (int skip = 0; skip < 2; skip++) {
            struct buffer scratch = {0};
            struct json_reader r = read_document(&area, &scratch, skip == 1);
            if (!json_failed(&r) || strstr(r.fault, refused[i].fault) == NULL ||
                r.fault_at != refused[i].fault_at)
                fail_msg("'%s': \"%s\" at %zu, expected \"...%s...\" at %zu", refused[i].text,
                         json_failed(&r) ? r.fault : "accepted", r.fault_at, refused[i].fault,
                         refused[i].fault_at);
            buffer_done(&scratch);
        }
        page_end_done(&area);
    }
}

/* Cutting a document anywhere makes it a fault at its end, never a read beyond it. */
static void test_every_cut(void **state)
{
    (void)state;
    static const char WHOLE[] =
        "{\"keys\":[\"0123456789abcdef0123456789abcdef-k\",\"\\u00e9\\n\xc3\xa9"
        "\"],\"n\":-12.5e+3,\"t\":[true,false,null],\"o\":{\"a\":{}}}";
    for (size_t length = 0; length < sizeof(WHOLE) - 1; length++) {
        struct page_end area = page_end_new(WHOLE, length);
        for (int skip = 0; skip < 2; skip++) {
            struct buffer scratch = {0};
            struct json_reader r = read_document(&area, &scratch, skip == 1);
            assert_true(json_failed(&r));
            assert_true(r.fault_at <= length);
            buffer_done(&scratch);
        }
        page_end_done(&area);
    }
}

/* A special byte at every place of a long string, whatever the width the scan works in. */
static void test_special_at_every_place(void **state)
{
    (void)state;
    static const char SPECIAL[] = {'"', '\\', '\x01', '\x1f', '\x80', '\xff'};
    for (size_t length = 1; length < 70; length++) {
        for (size_t place = 1; place <= length; place++) {
            for (size_t s = 0; s < sizeof(SPECIAL); s++) {
                char text[72];
                memset(text, 'a', sizeof(text));
                text[0] = '"';
                text[place] = SPECIAL[s];
                struct page_end area = page_end_new(text, length + 1);
                struct json_reader r;
                struct json_text string;
                json_reader_init(&r, area.bytes, area.length, NULL, JSON_DEPTH);
                bool read = json_string(&r, &string);
                assert_true(read == (SPECIAL[s] == '"'));
                if (read)
                    assert_int_equal(string.length, place - 1);
                page_end_done(&area);
            }
        }
    }
}

/* ---- Depth ------------------------------------------------------------------------------------
 */

static void test_depth(void **state)
{
    (void)state;
    enum { LIMIT = 128 };
    char text[2 * LIMIT + 2];
    for (size_t depth = LIMIT; depth <= LIMIT + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        struct json_reader r;
        json_reader_init(&r, text, 2 * depth, NULL, LIMIT);
        assert_true(json_skip(&r) == (depth == LIMIT));
        if (depth > LIMIT) {
            assert_string_equal(r.fault, "nested too deeply");
            assert_int_equal(r.fault_at, LIMIT);
        } else {
            assert_true(json_end(&r));
        }
    }
}

static void test_depth_is_bounded_whatever_is_asked(void **state)
{
    (void)state;
    enum { MANY = 1 << 20 };
    char *text = malloc(MANY);
    assert_non_null(text);
    memset(text, '[', MANY);
    struct json_reader r;
    json_reader_init(&r, text, MANY, NULL, UINT32_MAX);
    assert_false(json_skip(&r));
    assert_int_equal(r.fault_at, JSON_DEPTH_LIMIT);
    free(text);
}

/* ---- Strings ----------------------------------------------------------------------------------
 */

static const struct {
    const char *json;
    const char *text;
    size_t length;
} strings[] = {
    {"\"\"", TEXT("")},
    {"\"abc\"", TEXT("abc")},
    {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", TEXT("\"\\/\b\f\n\r\t")},
    {"\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00\"", TEXT("A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")},
    {"\"x\\u0000y\"", TEXT("x\0y")},
    {"\"\\uffff\\ue000\\ud7ff\"", TEXT("\xef\xbf\xbf\xee\x80\x80\xed\x9f\xbf")},
    {"\"\\udbff\\udfff\"", TEXT("\xf4\x8f\xbf\xbf")},
    {"\"plain before \\n and after it, longer than a block\"",
     TEXT("plain before \n and after it, longer than a block")},
};

static void test_strings(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(strings); i++) {
        struct page_end area = page_end_new(strings[i].json, strlen(strings[i].json));
        struct buffer scratch = {0};
        struct json_reader r;
        struct json_text text = {0};
        json_reader_init(&r, area.bytes, area.length, &scratch, JSON_DEPTH);
        assert_true(json_string(&r, &text));
        assert_int_equal(text.length, strings[i].length);
        assert_memory_equal(text.text, strings[i].text, text.length);
        /* Without an escape the string is a view into the input, and scratch is not used. */
        assert_true((strchr(strings[i].json, '\\') == NULL) == (scratch.data == NULL));
        buffer_done(&scratch);
        page_end_done(&area);
    }
}

/* Views made by unescaping stay where they are while the rest of the document is read. */
static void test_unescaped_strings_stay(void **state)
{
    (void)state;
    enum { STRINGS = 5000 };
    struct buffer json = {0}, scratch = {0};
    struct json_text texts[STRINGS];
    buffer_append_char(&json, '[');
    for (int i = 0; i < STRINGS; i++)
        buffer_append_format(&json, "%s\"\\n%d\"", i == 0 ? "" : ",", i);
    buffer_append_char(&json, ']');
    struct json_reader r;
    json_reader_init(&r, json.data, json.length, &scratch, JSON_DEPTH);
    size_t n = 0;
    for (json_array_begin(&r); json_array_next(&r);)
        assert_true(json_string(&r, &texts[n++]));
    assert_true(json_end(&r));
    assert_int_equal(n, STRINGS);
    for (int i = 0; i < STRINGS; i++) {
        char expected[16];
        snprintf(expected, sizeof(expected), "\n%d", i);
        assert_true(json_text_is(texts[i], expected));
    }
    buffer_done(&json);
    buffer_done(&scratch);
}

static void test_escape_without_scratch(void **state)
{
    (void)state;
    struct json_reader r;
    struct json_text text;
    json_reader_init(&r, TEXT("\"\\n\""), NULL, JSON_DEPTH);
    assert_false(json_string(&r, &text));
    assert_string_equal(r.fault, "an escape is not allowed here");
    json_reader_init(&r, TEXT("\"\\n\""), NULL, JSON_DEPTH);
    assert_true(json_skip(&r));
    /* Nor is a string ever cut because memory ran out. */
    struct buffer scratch = {.failed = true};
    json_reader_init(&r, TEXT("\"\\n\""), &scratch, JSON_DEPTH);
    assert_false(json_string(&r, &text));
    assert_string_equal(r.fault, "out of memory");
}

/* ---- Numbers ----------------------------------------------------------------------------------
 */

/* Stands before the C library's: what the reader converts with it is counted. */
static unsigned conversions;

locale_t newlocale(int mask, const char *name, locale_t base)
{
    locale_t (*real)(int, const char *, locale_t);
    *(void **)&real = dlsym(RTLD_NEXT, "newlocale");
    conversions++;
    return real(mask, name, base);
}

/* Skipping refuses exactly what reading a double refuses, and converts nothing for it. */
static void check_skipped(const char *text)
{
    struct json_reader read, skipped;
    double value;
    json_reader_init(&read, text, strlen(text), NULL, JSON_DEPTH);
    json_reader_init(&skipped, text, strlen(text), NULL, JSON_DEPTH);
    bool is_double = json_double(&read, &value) && json_end(&read);
    unsigned before = conversions;
    bool is_skipped = json_skip(&skipped) && json_end(&skipped);
    if (is_double != is_skipped)
        fail_msg("read %d, skipped %d: %s", is_double, is_skipped, text);
    assert_int_equal(conversions, before);
    if (!is_double) {
        assert_string_equal(read.fault, skipped.fault);
        assert_int_equal(read.fault_at, skipped.fault_at);
    }
}

static void test_skipped_numbers(void **state)
{
    (void)state;
    /* 2^1024 - 2^970, the least that rounds to infinity. */
    static const char LEAST[] =
        "179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017"
        "977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273"
        "854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704"
        "342711559699508093042880177904174497792";
    enum { DIGITS = sizeof(LEAST) - 1, SEED = 20240607 };
    static const char *const plain[] = {"0",
                                        "0e999999",
                                        "-0.000e400",
                                        "1e23",
                                        "1e308",
                                        "1e309",
                                        "-1e309",
                                        "0.001e311",
                                        "0.001e312",
                                        "1e-999999",
                                        "1e999999",
                                        "10e307",
                                        "10e308",
                                        "1e",
                                        "1e+308",
                                        "1E+00000309",
                                        "1.7976931348623157e308",
                                        "1.7976931348623158e308",
                                        "1.7976931348623159e308",
                                        "0.0e99999999999999999999",
                                        "9e99999999999999999999",
                                        "9e-99999999999999999999"};
    for (size_t i = 0; i < ARRAY_LENGTH(plain); i++)
        check_skipped(plain[i]);
    char text[1100];
    uint64_t random = SEED;
    for (int i = 0; i < 20000; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        /* The bound, cut, with a digit changed, the point moved, and zeros before and behind. */
        size_t length = 1 + (random >> 33) % DIGITS, point = (random >> 13) % (length + 1);
        size_t zeros = (random >> 24) % 12, more = (random >> 44) % 3;
        char digits[DIGITS + 4];
        memcpy(digits, LEAST, length);
        if ((random >> 50) % 3 != 0)
            digits[(random >> 23) % length] = (char)('0' + (random >> 53) % 10);
        if (digits[0] == '0')
            digits[0] = '1';
        memset(digits + length, '0', more);
        digits[length + more] = '\0';
        int exponent = 309 - (int)point + (int)((random >> 57) % 3) - 1;
        if (point == 0)
            snprintf(text, sizeof(text), "0.%.*s%se%d", (int)zeros, "000000000000", digits,
                     exponent + (int)zeros);
        else
            snprintf(text, sizeof(text), "%.*s.%s0e%d", (int)point, digits, digits + point,
                     exponent);
        check_skipped(text);
    }
}

static const struct {
    const char *text;
    bool is_int64, is_uint64;
    int64_t int64;
    uint64_t uint64;
} integers[] = {
    {"0", true, true, 0, 0},
    {"-0", true, true, 0, 0},
    {"7", true, true, 7, 7},
    {"-1", true, false, -1, 0},
    {"9007199254740993", true, true, 9007199254740993, 9007199254740993},
    {"9223372036854775807", true, true, INT64_MAX, INT64_MAX},
    {"9223372036854775808", false, true, 0, UINT64_C(9223372036854775808)},
    {"-9223372036854775808", true, false, INT64_MIN, 0},
    {"-9223372036854775809", false, false, 0, 0},
    {"18446744073709551615", false, true, 0, UINT64_MAX},
    {"18446744073709551616", false, false, 0, 0},
    {"99999999999999999999999999", false, false, 0, 0},
    {"1.0", false, false, 0, 0},
    {"1e3", false, false, 0, 0},
    {"true", false, false, 0, 0},
    {"\"1\"", false, false, 0, 0},
    {"[1]", false, false, 0, 0},
    {"01", false, false, 0, 0},
};

static void test_integers(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(integers); i++) {
        struct page_end area = page_end_new(integers[i].text, strlen(integers[i].text));
        struct json_reader r;
        int64_t signed_value = 42;
        uint64_t value = 42;
        json_reader_init(&r, area.bytes, area.length, NULL, JSON_DEPTH);
        assert_true(json_int64(&r, &signed_value) == integers[i].is_int64);
        assert_true(signed_value == (integers[i].is_int64 ? integers[i].int64 : 42));
        json_reader_init(&r, area.bytes, area.length, NULL, JSON_DEPTH);
        assert_true(json_uint64(&r, &value) == integers[i].is_uint64);
        assert_true(value == (integers[i].is_uint64 ? integers[i].uint64 : 42));
        page_end_done(&area);
    }
}

static const char *const doubles[] = {
    "0",
    "-0.0",
    "1",
    "0.1",
    "123456.789e-3",
    "9007199254740993",
    "1e22",
    "1e23",
    "5e-324",
    "2.2250738585072011e-308",
    "1.7976931348623157e308",
    "8.5e-46",
    "1e-22",
    "123456789012345678",
    "0.000000000000000000000000000000123",
    "7.2057594037927933e+16",
    "179769313486231580793728971405301e276",
    "18446744073709551616",
    "3.0e-5",
    "1e-400",
    "9007199254740992.5000000000000000000000000000000000000000000000000000000001",
};

static void test_doubles_are_rounded_as_by_the_c_library(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(doubles); i++) {
        struct page_end area = page_end_new(doubles[i], strlen(doubles[i]));
        struct json_reader r;
        double value = 0, expected = strtod(doubles[i], NULL);
        json_reader_init(&r, area.bytes, area.length, NULL, JSON_DEPTH);
        if (!json_double(&r, &value))
            fail_msg("%s: %s", doubles[i], r.fault);
        assert_memory_equal(&value, &expected, sizeof(value));
        page_end_done(&area);
    }
}

static void test_long_numbers(void **state)
{
    (void)state;
    char text[JSON_NUMBER_MAX + 2];
    struct json_reader r;
    double value;
    memset(text, '0', sizeof(text));
    memcpy(text, "0.", 2);
    json_reader_init(&r, text, JSON_NUMBER_MAX, NULL, JSON_DEPTH);
    assert_true(json_double(&r, &value));
    json_reader_init(&r, text, JSON_NUMBER_MAX + 1, NULL, JSON_DEPTH);
    assert_false(json_double(&r, &value));
    assert_string_equal(r.fault, "a number is too long");
    /* 400 digits are finite as text but not as a double. */
    memset(text, '9', 400);
    json_reader_init(&r, text, 400, NULL, JSON_DEPTH);
    assert_false(json_skip(&r));
    assert_string_equal(r.fault, "a number is out of range");
}

/* ---- The pull interface -----------------------------------------------------------------------
 */

static void test_types(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum json_type type;
    } types[] = {
        {" {", JSON_OBJECT}, {"[", JSON_ARRAY},   {"\"", JSON_STRING}, {"-", JSON_NUMBER},
        {"7", JSON_NUMBER},  {"t", JSON_BOOL},    {"f", JSON_BOOL},    {"n", JSON_NULL},
        {"", JSON_INVALID},  {"}", JSON_INVALID},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        struct json_reader r;
        json_reader_init(&r, types[i].text, strlen(types[i].text), NULL, JSON_DEPTH);
        assert_int_equal(json_peek(&r), types[i].type);
        assert_false(json_failed(&r));
    }
}

static void test_duplicates_come_in_order(void **state)
{
    (void)state;
    struct json_reader r;
    struct json_text name;
    int64_t value, last = 0, seen = 0;
    json_reader_init(&r, TEXT("{\"a\":1,\"a\":2,\"b\":3,\"a\":4}"), NULL, JSON_DEPTH);
    for (json_object_begin(&r); json_object_next(&r, &name);) {
        assert_true(json_int64(&r, &value));
        if (json_text_is(name, "a")) {
            last = value;
            seen++;
        }
    }
    assert_true(json_end(&r));
    assert_int_equal(seen, 3);
    assert_int_equal(last, 4);
}

static void test_first_fault_stays(void **state)
{
    (void)state;
    struct json_reader r;
    struct json_text text = {"untouched", 9};
    int64_t number = 5;
    json_reader_init(&r, TEXT("[1, \"a\", 3]"), NULL, JSON_DEPTH);
    assert_true(json_array_begin(&r));
    assert_true(json_array_next(&r));
    assert_false(json_string(&r, &text));
    assert_string_equal(r.fault, "expected a string");
    assert_int_equal(r.fault_at, 1);
    assert_false(json_array_next(&r));
    assert_false(json_int64(&r, &number));
    assert_false(json_skip(&r));
    assert_false(json_end(&r));
    assert_false(json_fail(&r, "later"));
    assert_string_equal(r.fault, "expected a string");
    assert_int_equal(number, 5);
    assert_string_equal(text.text, "untouched");
}

static void test_raw_and_going_back(void **state)
{
    (void)state;
    struct json_reader r;
    struct json_text name, raw = {0};
    json_reader_init(&r, TEXT("{\"keys\": [ \"a\", {\"b\": 1} ] , \"n\": 2}"), NULL, JSON_DEPTH);
    assert_true(json_object_begin(&r));
    assert_true(json_object_next(&r, &name));
    struct json_reader here = r;
    assert_true(json_raw(&r, &raw));
    assert_true(json_text_is(raw, "[ \"a\", {\"b\": 1} ]"));
    assert_true(json_object_next(&r, &name));
    assert_true(json_text_is(name, "n"));
    assert_true(json_array_begin(&here));
    assert_true(json_array_next(&here));
    assert_true(json_string(&here, &name));
    assert_true(json_text_is(name, "a"));
}

static void test_places(void **state)
{
    (void)state;
    struct json_reader r;
    char text[JSON_ERROR_TEXT_MAX];
    json_reader_init(&r, TEXT("{\n  \"a\": 1,\n  \"b\": x\n}"), NULL, JSON_DEPTH);
    assert_false(json_skip(&r));
    assert_string_equal(json_error_text(&r, text),
                        "expected a value at line 3, column 8 (byte 19)");
    json_reader_init(&r, TEXT(""), NULL, JSON_DEPTH);
    assert_false(json_skip(&r));
    assert_string_equal(json_error_text(&r, text),
                        "unexpected end of the document at line 1, column 1 (byte 0)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_special_at_every_place),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_depth_is_bounded_whatever_is_asked),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_unescaped_strings_stay),
        cmocka_unit_test(test_escape_without_scratch),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_doubles_are_rounded_as_by_the_c_library),
        cmocka_unit_test(test_long_numbers),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_duplicates_come_in_order),
        cmocka_unit_test(test_first_fault_stays),
        cmocka_unit_test(test_raw_and_going_back),
        cmocka_unit_test(test_skipped_numbers),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
