/* How JSON strings are scanned, for the reader and the writer: most of what kvshelf sends and
 * receives is keys, so this loop decides the speed of both. */
#ifndef KVSHELF_BASE_JSON_SCAN_H
#define KVSHELF_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* A quote, a backslash, a control character, or a byte of a longer UTF-8 character. */
static inline bool json_is_special(char c)
{
    unsigned char b = (unsigned char)c;
    return b < 0x20 || b >= 0x80 || b == '"' || b == '\\';
}

#ifdef __SSE2__
static inline const char *json_scan_blocks(const char *at, const char *end)
{
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'),
                  space = _mm_set1_epi8(' ');
    while (end - at >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        /* Signed: bytes from 0x80 on are negative and so less than a space, too. */
        __m128i special = _mm_or_si128(
            _mm_cmplt_epi8(bytes, space),
            _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)));
        unsigned mask = (unsigned)_mm_movemask_epi8(special);
        if (mask != 0)
            return at + __builtin_ctz(mask);
        at += 16;
    }
    return at;
}
#else
/* Eight bytes at a time: the high bit of a byte is set where the byte is special. Borrows may mark
 * the byte after a special one as well, so only "none" is taken from it. */
static inline const char *json_scan_blocks(const char *at, const char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = UINT64_C(0x8080808080808080);
    while (end - at >= 8) {
        uint64_t bytes;
        memcpy(&bytes, at, 8);
        uint64_t quote = bytes ^ (ones * '"'), backslash = bytes ^ (ones * '\\');
        uint64_t special =
            ((bytes - ones * ' ') | (quote - ones) | (backslash - ones) | bytes) & highs;
        if (special != 0)
            return at;
        at += 8;
    }
    return at;
}
#endif

/* The first special byte, or `end`. Reads nothing outside. */
static inline const char *json_scan_plain(const char *at, const char *end)
{
    at = json_scan_blocks(at, end);
    while (at < end && !json_is_special(*at))
        at++;
    return at;
}

#endif
