/* Small work on text: see text.h. */
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>

/* ---- Nearest names ----------------------------------------------------------------------------*/

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment: insert, delete, replace, swap neighbours. Three rows are enough. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][TEXT_NAME_MAX + 1];
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replace = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(replace, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], above2[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

const char *text_nearest(const char *name, const char *const candidates[], size_t n)
{
    enum { FAR = 4 };
    size_t length = strlen(name), best = least(FAR, (length + 1) / 2);
    const char *found = NULL;
    if (length > TEXT_NAME_MAX)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t candidate = strlen(candidates[i]);
        if (candidate > TEXT_NAME_MAX)
            continue;
        size_t distance = edit_distance(name, length, candidates[i], candidate);
        if (distance < best) {
            best = distance;
            found = candidates[i];
        }
    }
    return found;
}

/* ---- Names as file names ----------------------------------------------------------------------*/

/* By hand and not by isalnum(): the file system must not depend on the locale. */
static bool stands_for_itself(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '@';
}

static const char HEX[] = "0123456789ABCDEF";

void text_percent_encode(struct buffer *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (stands_for_itself(text[i])) {
            buffer_append_char(out, text[i]);
        } else {
            unsigned char byte = (unsigned char)text[i];
            buffer_append(out, (char[]){'%', HEX[byte >> 4], HEX[byte & 15]}, 3);
        }
    }
}

bool text_percent_decode(struct buffer *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (stands_for_itself(text[i])) {
            buffer_append_char(out, text[i]);
            continue;
        }
        if (text[i] != '%' || length - i < 3)
            return false;
        const char *high = memchr(HEX, text[i + 1], 16), *low = memchr(HEX, text[i + 2], 16);
        if (high == NULL || low == NULL)
            return false;
        char byte = (char)((high - HEX) << 4 | (low - HEX));
        if (stands_for_itself(byte))
            return false;
        buffer_append_char(out, byte);
        i += 2;
    }
    return !out->failed;
}

/* ---- Numbers in -------------------------------------------------------------------------------*/

static const char NOT_WHOLE[] = "it is not a whole number";
static const char TOO_LARGE[] = "it is too large";

/* Moves *at past the digits. */
static const char *parse_digits(const char **at, uint64_t *ret_value)
{
    uint64_t value = 0;
    const char *digit = *at;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*digit - '0'), &value))
            return TOO_LARGE;
    if (digit == *at)
        return *digit == '-' ? "it must not be negative" : NOT_WHOLE;
    *at = digit;
    *ret_value = value;
    return NULL;
}

const char *text_parse_uint64(const char *text, uint64_t *ret_value)
{
    uint64_t value;
    const char *problem = parse_digits(&text, &value);
    if (problem == NULL && *text != '\0')
        problem = NOT_WHOLE;
    if (problem == NULL)
        *ret_value = value;
    return problem;
}

const char *text_parse_bytes(const char *text, uint64_t *ret_bytes)
{
    static const char UNITS[] = "KMGTP";
    static const char UNKNOWN[] =
        "it is not a whole number of bytes, KiB, MiB, GiB, TiB or PiB (as in 256KiB)";
    uint64_t value;
    const char *problem = parse_digits(&text, &value);
    if (problem != NULL)
        return problem == NOT_WHOLE ? UNKNOWN : problem;
    if (*text != '\0') {
        const char *unit = memchr(UNITS, *text, sizeof(UNITS) - 1);
        if (unit == NULL || (text[1] != '\0' && strcmp(text + 1, "iB") != 0))
            return UNKNOWN;
        uint64_t factor = UINT64_C(1) << (10 * (unit - UNITS + 1));
        if (__builtin_mul_overflow(value, factor, &value))
            return TOO_LARGE;
    }
    *ret_bytes = value;
    return NULL;
}

const char *text_parse_seconds(const char *text, uint64_t *ret_ms)
{
    static const char UNKNOWN[] = "it is not a number of seconds with at most three decimals";
    uint64_t seconds;
    const char *problem = parse_digits(&text, &seconds);
    if (problem != NULL)
        return problem == NOT_WHOLE ? UNKNOWN : problem;
    if (strcmp(text, "ms") == 0) {
        *ret_ms = seconds;
        return NULL;
    }
    uint64_t ms = 0, total;
    if (*text == '.') {
        uint64_t weight = 100;
        const char *digit = ++text;
        for (; *digit >= '0' && *digit <= '9' && weight > 0; digit++, weight /= 10)
            ms += (uint64_t)(*digit - '0') * weight;
        if (digit == text)
            return UNKNOWN;
        text = digit;
    }
    if (*text != '\0' && strcmp(text, "s") != 0)
        return UNKNOWN;
    if (__builtin_mul_overflow(seconds, 1000u, &total) || __builtin_add_overflow(total, ms, &total))
        return TOO_LARGE;
    *ret_ms = total;
    return NULL;
}

/* ---- Numbers out ------------------------------------------------------------------------------*/

/* Three digits that count: "1.25", "12.5", "125". */
static int decimals(double value)
{
    return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

/* With at most `places` decimals and no zeros at their end. */
static void print_number(struct text_number *number, double value, const char *unit, int places)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%.*f", places, value);
    if (places > 0) {
        while (digits[length - 1] == '0')
            length--;
        if (!isdigit((unsigned char)digits[length - 1]))
            length--;
    }
    snprintf(number->text, sizeof(number->text), "%.*s %s", length, digits, unit);
}

struct text_number text_bytes(uint64_t bytes)
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct text_number number;
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit < sizeof(UNITS) / sizeof(UNITS[0]) - 1) {
        value /= 1024;
        unit++;
    }
    print_number(&number, value, UNITS[unit], unit == 0 ? 0 : decimals(value));
    return number;
}

struct text_number text_count(uint64_t count)
{
    struct text_number number;
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
    char *out = number.text;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
    return number;
}

struct text_number text_duration_ns(uint64_t ns)
{
    struct text_number number;
    unsigned long long seconds = ns / 1000000000u;
    if (seconds >= 3600)
        snprintf(number.text, sizeof(number.text), "%llu h %llu min", seconds / 3600,
                 seconds / 60 % 60);
    else if (seconds >= 60)
        snprintf(number.text, sizeof(number.text), "%llu min %llu s", seconds / 60, seconds % 60);
    else if (ns >= 1000000000u)
        print_number(&number, (double)ns / 1e9, "s", decimals((double)ns / 1e9));
    else if (ns >= 1000000u)
        print_number(&number, (double)ns / 1e6, "ms", decimals((double)ns / 1e6));
    else if (ns >= 1000u)
        print_number(&number, (double)ns / 1e3, "us", decimals((double)ns / 1e3));
    else
        print_number(&number, (double)ns, "ns", 0);
    return number;
}

struct text_number text_rate(double bytes_per_second)
{
    static const char *const UNITS[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
    struct text_number number;
    size_t unit = 0;
    while (bytes_per_second >= 1000 && unit < sizeof(UNITS) / sizeof(UNITS[0]) - 1) {
        bytes_per_second /= 1000;
        unit++;
    }
    print_number(&number, bytes_per_second, UNITS[unit],
                 unit == 0 ? 0 : decimals(bytes_per_second));
    return number;
}

void text_one_line(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}
