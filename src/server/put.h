/* Putting text and numbers into room that is known to be enough: what answers are made of. The
 * writer of base/json.h asks for room value by value; an answer of 256 page indices cannot afford
 * to. */
#ifndef KVSHELF_SERVER_PUT_H
#define KVSHELF_SERVER_PUT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digits are put by the word");

enum { PUT_NUMBER_MAX = 20 }; /* bytes of the longest number */

static inline char *put_bytes(char *to, const void *bytes, size_t length)
{
    memcpy(to, bytes, length);
    return to + length;
}

static inline char *put_text(char *to, const char *text)
{
    return put_bytes(to, text, strlen(text));
}

/* The eight digits of a number below 10^8 as a word, the first one in the lowest byte: halves, then
 * quarters, then single digits are divided off in lanes of one word. */
static inline uint64_t put_eight_digits(uint64_t value)
{
    uint64_t halves = value / 10000 | (value % 10000) << 32;
    uint64_t hundreds = (halves * 10486 >> 20) & UINT64_C(0x0000007f0000007f);
    uint64_t quarters = hundreds | (halves - 100 * hundreds) << 16;
    uint64_t tens = (quarters * 103 >> 10) & UINT64_C(0x000f000f000f000f);
    return tens | (quarters - 10 * tens) << 8;
}

/* Digits, without a sign. Needs room for PUT_NUMBER_MAX, whatever the number: words are stored
 * whole. */
static inline char *put_number(char *to, uint64_t value)
{
    enum { DIGITS = 8 };
    static const uint64_t zeros = UINT64_C(0x3030303030303030), limit = 100000000;
    if (value >= limit) {
        to = put_number(to, value / limit);
        uint64_t word = put_eight_digits(value % limit) + zeros;
        return put_bytes(to, &word, DIGITS);
    }
    uint64_t word = put_eight_digits(value);
    unsigned leading = (unsigned)__builtin_ctzll(word | UINT64_C(1) << 56) / 8;
    word = (word + zeros) >> (8 * leading);
    memcpy(to, &word, DIGITS);
    return to + DIGITS - leading;
}

/* true or false. Needs room for PUT_BOOL_BYTES. */
enum { PUT_BOOL_BYTES = 8 };
static inline char *put_bool(char *to, bool value)
{
    static const char texts[2][PUT_BOOL_BYTES] = {"false", "true"};
    memcpy(to, texts[value], PUT_BOOL_BYTES);
    return to + 5 - value;
}

/* 16 hex digits between quotes. */
static inline char *put_checksum(char *to, uint64_t checksum)
{
    static const char digits[] = "0123456789abcdef";
    to[0] = to[17] = '"';
    for (int i = 16; i > 0; i--, checksum >>= 4)
        to[i] = digits[checksum & 15];
    return to + 18;
}

#endif
