/* Putting text and numbers into room that is known to be enough: what answers are made of. The
 * writer of base/json.h asks for room value by value; an answer of 256 page indices cannot afford
 * to. */
#ifndef KVSHELF_SERVER_PUT_H
#define KVSHELF_SERVER_PUT_H

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
    char digits[PUT_NUMBER_MAX + 1];
    char *end = digits + sizeof(digits), *at = end;
    while (value >= 100) {
        at -= 2;
        memcpy(at, pairs + 2 * (value % 100), 2);
        value /= 100;
    }
    at -= 2;
    memcpy(at, pairs + 2 * value, 2);
    at += value < 10;
    return put_bytes(to, at, (size_t)(end - at));
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
