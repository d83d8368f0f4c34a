/* Numbers of the JSON reader: integers exact, doubles rounded correctly, whatever the locale. */
#include "base/json_internal.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

struct number {
    const char *start;
    size_t length;
    uint64_t mantissa;    /* all digits as one integer, unless `long_mantissa` */
    int64_t exponent;     /* of ten, to be applied to the mantissa; capped */
    size_t digits;        /* of the integer part */
    size_t decimals;      /* digits after the point */
    bool negative, whole; /* whole: no fraction and no exponent */
    bool long_mantissa;   /* more than 64 bits */
};

static void add_digit(struct number *number, char c)
{
    uint64_t tens;
    if (__builtin_mul_overflow(number->mantissa, 10u, &tens) ||
        __builtin_add_overflow(tens, (uint64_t)(c - '0'), &number->mantissa))
        number->long_mantissa = true;
}

static bool scan_fraction(struct json_reader *reader, struct number *number)
{
    const char *first = ++reader->at;
    for (; reader->at < reader->end && json_is_digit(*reader->at); reader->at++)
        add_digit(number, *reader->at);
    number->decimals = (size_t)(reader->at - first);
    number->exponent = -(int64_t)number->decimals;
    return reader->at > first || json_fail(reader, "a number needs a digit after the point");
}

static bool scan_exponent(struct json_reader *reader, struct number *number)
{
    enum { CAP = 100000000 }; /* beyond this any number of allowed length is 0 or infinite */
    bool negative = false;
    reader->at++;
    if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '-'))
        negative = *reader->at++ == '-';
    const char *first = reader->at;
    int64_t exponent = 0;
    for (; reader->at < reader->end && json_is_digit(*reader->at); reader->at++)
        exponent = exponent > CAP ? CAP : exponent * 10 + (*reader->at - '0');
    number->exponent += negative ? -exponent : exponent;
    return reader->at > first || json_fail(reader, "a number needs a digit in its exponent");
}

/* At a digit or a minus. */
static bool scan_number(struct json_reader *reader, struct number *ret_number)
{
    struct number number = {.start = reader->at, .whole = true};
    if (*reader->at == '-') {
        number.negative = true;
        reader->at++;
    }
    const char *first = reader->at;
    for (; reader->at < reader->end && json_is_digit(*reader->at); reader->at++)
        add_digit(&number, *reader->at);
    number.digits = (size_t)(reader->at - first);
    if (number.digits == 0)
        return json_fail(reader, "a minus needs a digit after it");
    if (*first == '0' && number.digits > 1)
        return json_fault_at(reader, first, "a number must not begin with a zero");
    if (reader->at < reader->end && *reader->at == '.') {
        number.whole = false;
        if (!scan_fraction(reader, &number))
            return false;
    }
    if (reader->at < reader->end && (*reader->at | 0x20) == 'e') {
        number.whole = false;
        if (!scan_exponent(reader, &number))
            return false;
    }
    number.length = (size_t)(reader->at - number.start);
    if (number.length > JSON_NUMBER_MAX)
        return json_fault_at(reader, number.start, "a number is too long");
    *ret_number = number;
    return true;
}

/* The C library rounds correctly, but reads the point by the locale: ask for the C locale (which
 * takes no memory and cannot fail). */
static double convert(const struct number *number)
{
    char text[JSON_NUMBER_MAX + 1];
    memcpy(text, number->start, number->length);
    text[number->length] = '\0';
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = strtod_l(text, NULL, c_locale);
    freelocale(c_locale);
    return value;
}

static double to_double(const struct number *number)
{
    static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    /* Both parts are exact doubles here, so that one operation rounds once, which is correct. */
    if (!number->long_mantissa && number->mantissa <= UINT64_C(1) << 53 &&
        number->exponent >= -22 && number->exponent <= 22) {
        double mantissa = number->negative ? -(double)number->mantissa : (double)number->mantissa;
        return number->exponent < 0 ? mantissa / POWERS[-number->exponent]
                                    : mantissa * POWERS[number->exponent];
    }
    return convert(number);
}

static bool expect_number(struct json_reader *reader, const char *fault, struct number *ret_number)
{
    if (json_peek(reader) != JSON_NUMBER)
        return reader->fault == NULL && json_expected(reader, fault);
    return scan_number(reader, ret_number);
}

bool json_double(struct json_reader *reader, double *ret_value)
{
    struct number number;
    if (!expect_number(reader, "expected a number", &number))
        return false;
    double value = to_double(&number);
    if (isinf(value))
        return json_fault_at(reader, number.start, "a number is out of range");
    *ret_value = value;
    return true;
}

/* Whether json_double() would find infinity. From the digits alone: whoever sends a number that
 * nobody asked for must not have it converted, which takes a hundred times as long as to read it.
 */
static bool is_infinite(const struct number *number)
{
    /* The least that rounds to infinity: 2^1024 - 2^970. */
    static const char LEAST[] =
        "179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017"
        "977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273"
        "854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704"
        "342711559699508093042880177904174497792";
    enum { LEAST_DIGITS = sizeof(LEAST) - 1 };
    _Static_assert(LEAST_DIGITS == 309, "2^1024 - 2^970 has 309 digits");
    size_t count = number->digits + number->decimals, zeros = 0;
    const char *at = number->start + number->negative, *end = number->start + number->length;
    for (; at < end && (*at == '0' || *at == '.'); at++)
        zeros += *at == '0';
    if (zeros == count)
        return false;
    int64_t before_point = (int64_t)(count - zeros) + number->exponent;
    if (before_point != LEAST_DIGITS)
        return before_point > LEAST_DIGITS;
    size_t i = 0;
    for (; i < LEAST_DIGITS && at < end && (json_is_digit(*at) || *at == '.'); at++)
        if (*at != '.' && *at != LEAST[i++])
            return *at > LEAST[i - 1];
    /* Equal as far as the number goes: what is missing from it are zeros. */
    for (; i < LEAST_DIGITS; i++)
        if (LEAST[i] != '0')
            return false;
    return true;
}

bool json_skip_number(struct json_reader *reader)
{
    struct number number;
    if (!scan_number(reader, &number))
        return false;
    return !is_infinite(&number) || json_fault_at(reader, number.start, "a number is out of range");
}

/* A whole number without a sign that cannot overflow, as page indices and generations are. False,
 * with nothing taken, where it is anything else. */
static bool take_usual(struct json_reader *reader, uint64_t *ret_value)
{
    enum { DIGITS = 18 };
    if (!json_value_starts(reader))
        return false;
    const char *first = reader->at, *at = first;
    const char *end = reader->end - first > DIGITS ? first + DIGITS : reader->end;
    uint64_t value = 0;
    for (; at < end && json_is_digit(*at); at++)
        value = value * 10 + (uint64_t)(*at - '0');
    if (at == first || at == reader->end || (*at != ',' && *at != ']' && *at != '}') ||
        (*first == '0' && at - first > 1))
        return false;
    reader->at = at;
    *ret_value = value;
    return true;
}

bool json_uint64(struct json_reader *reader, uint64_t *ret_value)
{
    struct number number;
    if (take_usual(reader, ret_value))
        return true;
    if (!expect_number(reader, "expected a whole number", &number))
        return false;
    if (!number.whole)
        return json_fault_at(reader, number.start, "expected a whole number");
    if (number.long_mantissa || (number.negative && number.mantissa != 0))
        return json_fault_at(reader, number.start, "a whole number is out of range");
    *ret_value = number.mantissa;
    return true;
}

bool json_int64(struct json_reader *reader, int64_t *ret_value)
{
    struct number number;
    uint64_t value;
    if (take_usual(reader, &value)) {
        *ret_value = (int64_t)value;
        return true;
    }
    if (!expect_number(reader, "expected a whole number", &number))
        return false;
    if (!number.whole)
        return json_fault_at(reader, number.start, "expected a whole number");
    uint64_t limit = (uint64_t)INT64_MAX + number.negative;
    if (number.long_mantissa || number.mantissa > limit)
        return json_fault_at(reader, number.start, "a whole number is out of range");
    /* Negated as unsigned: the most negative number has no positive counterpart. */
    *ret_value = (int64_t)(number.negative ? -number.mantissa : number.mantissa);
    return true;
}
