/* Putting text and numbers into room that is known to be enough: what answers are made of. The
 * writer of base/json.h asks for room value by value; an answer of 256 page indices cannot afford
 * to. */
#ifndef KVSHELF_SERVER_PUT_H
#define KVSHELF_SERVER_PUT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

/* Digits, without a sign. */
static inline char *put_number(char *to, uint64_t value)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233"
        "34353637383940414243444546474849505152535455565758596061626364656667"
        "6869707172737475767778798081828384858687888990919293949596979899";
    unsigned length = 1;
    for (uint64_t rest = value; rest >= 10; length++) {
        if (rest >= 10000) {
            rest /= 10000;
            length += 3;
        } else {
            rest /= 10;
        }
    }
    char *end = to + length, *at = end;
    for (; value >= 100; value /= 100) {
        at -= 2;
        memcpy(at, pairs + 2 * (value % 100), 2);
    }
    if (value >= 10)
        memcpy(to, pairs + 2 * value, 2);
    else
        *to = (char)('0' + value);
    return end;
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
