/* How the 64 hex digits of a key become 32 bytes, in three ways: by the widest registers there are.
 * Each request has hundreds of them. For key.c and its test only.
 *
 * All of them: false (and ret_digest undefined) when one of the 64 is no lower-case hex digit. */
#ifndef KVSHELF_CATALOG_KEY_DECODE_H
#define KVSHELF_CATALOG_KEY_DECODE_H

#include "catalog/key.h"

#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digits are decoded by the word");

enum { KEY_WORD = 8 };

/* The word with `byte` in each of its eight bytes. */
#define KEY_EACH(byte) (0x0101010101010101u * (uint64_t)(byte))

/* Decodes 64 lower-case hex digits, eight at a time; false when one is not such a digit. The adds
 * set a byte's top bit when the byte is at or above a bound; no byte is above 0x7f, so none of them
 * carries into its neighbour. */
static inline bool key_decode_by_8(uint8_t ret_digest[KEY_DIGEST_BYTES], const char *text)
{
    for (int i = 0; i < 2 * KEY_DIGEST_BYTES / KEY_WORD; i++) {
        uint64_t x;
        memcpy(&x, text + i * KEY_WORD, KEY_WORD);
        uint64_t high = x & KEY_EACH(0x80);
        uint64_t y = x & KEY_EACH(0x7f);
        uint64_t at_least_0 = y + KEY_EACH(0x80 - '0');
        uint64_t above_9 = y + KEY_EACH(0x80 - '9' - 1);
        uint64_t at_least_a = y + KEY_EACH(0x80 - 'a');
        uint64_t above_f = y + KEY_EACH(0x80 - 'f' - 1);
        uint64_t good = at_least_0 & (~above_9 | at_least_a) & ~above_f & KEY_EACH(0x80);
        if (high != 0 || good != KEY_EACH(0x80))
            return false;

        uint64_t nibbles = (y & KEY_EACH(0x0f)) + 9 * ((y >> 6) & KEY_EACH(1));
        uint64_t bytes = ((nibbles << 4) | (nibbles >> 8)) & 0x00ff00ff00ff00ffu;
        bytes = (bytes | (bytes >> 8)) & 0x0000ffff0000ffffu;
        uint32_t packed = (uint32_t)(bytes | (bytes >> 16));
        memcpy(ret_digest + i * (KEY_WORD / 2), &packed, sizeof(packed));
    }
    return true;
}

#ifdef __SSE2__
/* 16 digits to eight bytes in the low halves of eight lanes. Clears `good` where one is no digit.
 */
static inline __m128i key_decode_lanes(const char *text, __m128i *good)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)text);
    __m128i digit = _mm_and_si128(_mm_cmpgt_epi8(x, _mm_set1_epi8('0' - 1)),
                                  _mm_cmplt_epi8(x, _mm_set1_epi8('9' + 1)));
    __m128i letter = _mm_and_si128(_mm_cmpgt_epi8(x, _mm_set1_epi8('a' - 1)),
                                   _mm_cmplt_epi8(x, _mm_set1_epi8('f' + 1)));
    *good = _mm_and_si128(*good, _mm_or_si128(digit, letter));
    __m128i nibbles = _mm_add_epi8(_mm_and_si128(x, _mm_set1_epi8(0x0f)),
                                   _mm_and_si128(letter, _mm_set1_epi8(9)));
    __m128i bytes = _mm_or_si128(_mm_slli_epi16(nibbles, 4), _mm_srli_epi16(nibbles, 8));
    return _mm_and_si128(bytes, _mm_set1_epi16(0xff));
}

static inline bool key_decode_by_16(uint8_t ret_digest[KEY_DIGEST_BYTES], const char *text)
{
    __m128i good = _mm_set1_epi8(-1);
    for (int i = 0; i < 2; i++) {
        __m128i low = key_decode_lanes(text + 32 * i, &good);
        __m128i high = key_decode_lanes(text + 32 * i + 16, &good);
        _mm_storeu_si128((__m128i *)(void *)(ret_digest + 16 * i), _mm_packus_epi16(low, high));
    }
    return _mm_movemask_epi8(good) == 0xffff;
}

/* 32 digits to 16 bytes in the low halves of 16 lanes. */
__attribute__((target("avx2"))) static inline __m256i key_decode_wide(const char *text,
                                                                      __m256i *good)
{
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)text);
    __m256i from_0 = _mm256_sub_epi8(x, _mm256_set1_epi8('0'));
    __m256i from_a = _mm256_sub_epi8(x, _mm256_set1_epi8('a'));
    __m256i digit = _mm256_cmpeq_epi8(_mm256_min_epu8(from_0, _mm256_set1_epi8(9)), from_0);
    __m256i letter = _mm256_cmpeq_epi8(_mm256_min_epu8(from_a, _mm256_set1_epi8(5)), from_a);
    *good = _mm256_and_si256(*good, _mm256_or_si256(digit, letter));
    __m256i nibbles =
        _mm256_blendv_epi8(_mm256_add_epi8(from_a, _mm256_set1_epi8(10)), from_0, digit);
    return _mm256_maddubs_epi16(nibbles, _mm256_set1_epi16(0x0110)); /* 16 x high + low */
}

__attribute__((target("avx2"))) static inline bool
key_decode_by_32(uint8_t ret_digest[KEY_DIGEST_BYTES], const char *text)
{
    __m256i good = _mm256_set1_epi8(-1);
    __m256i first = key_decode_wide(text, &good), second = key_decode_wide(text + 32, &good);
    __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0xd8);
    _mm256_storeu_si256((__m256i *)(void *)ret_digest, bytes);
    return _mm256_movemask_epi8(good) == -1;
}

#endif

#endif
