/* Which bytes are UTF-8: RFC 3629, so no surrogates, no overlong forms, nothing above U+10FFFF. */
#ifndef KVSHELF_BASE_UTF8_H
#define KVSHELF_BASE_UTF8_H

#include <stddef.h>

/* The length in bytes of the character of two to four bytes at `at`, whose first byte is 0x80 or
 * more; 0 when the bytes before `end` are not one. */
static inline size_t utf8_sequence(const char *at, const char *end)
{
    const unsigned char *b = (const unsigned char *)at;
    size_t room = (size_t)(end - at);
    /* The second byte's range is what keeps out overlong forms, surrogates and too high numbers. */
    unsigned char low = 0x80, high = 0xbf;
    size_t length;
    if (b[0] >= 0xc2 && b[0] <= 0xdf)
        length = 2;
    else if ((b[0] & 0xf0) == 0xe0)
        length = 3;
    else if (b[0] >= 0xf0 && b[0] <= 0xf4)
        length = 4;
    else
        return 0;
    if (room < length)
        return 0;
    low = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : low;
    high = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : high;
    if (b[1] < low || b[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((b[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

#endif
