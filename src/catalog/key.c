/* Packing keys into digest and suffix, and putting them back into words. Knows nothing of pages. */
#include "catalog/key.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { HEX_DIGITS = 2 * KEY_DIGEST_BYTES };

#ifdef __SSE2__
/* 16 digits to eight bytes in the low halves of eight lanes. Clears `good` where one is no digit.
 */
static inline __m128i decode_lanes(const char *text, __m128i *good)
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

bool key_decode_digest(uint8_t ret_digest[KEY_DIGEST_BYTES], const char *text)
{
    __m128i good = _mm_set1_epi8(-1);
    for (int i = 0; i < 2; i++) {
        __m128i low = decode_lanes(text + 32 * i, &good);
        __m128i high = decode_lanes(text + 32 * i + 16, &good);
        _mm_storeu_si128((__m128i *)(void *)(ret_digest + 16 * i), _mm_packus_epi16(low, high));
    }
    return _mm_movemask_epi8(good) == 0xffff;
}
#else
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digits are decoded by the word");

enum { WORD = 8 };

/* The word with `byte` in each of its eight bytes. */
#define EACH(byte) (0x0101010101010101u * (uint64_t)(byte))

/* Decodes 64 lower-case hex digits, eight at a time; false when one is not such a digit. The adds
 * set a byte's top bit when the byte is at or above a bound; no byte is above 0x7f, so none of them
 * carries into its neighbour. */
bool key_decode_digest(uint8_t ret_digest[KEY_DIGEST_BYTES], const char *text)
{
    for (int i = 0; i < HEX_DIGITS / WORD; i++) {
        uint64_t x;
        memcpy(&x, text + i * WORD, WORD);
        uint64_t high = x & EACH(0x80);
        uint64_t y = x & EACH(0x7f);
        uint64_t at_least_0 = y + EACH(0x80 - '0');
        uint64_t above_9 = y + EACH(0x80 - '9' - 1);
        uint64_t at_least_a = y + EACH(0x80 - 'a');
        uint64_t above_f = y + EACH(0x80 - 'f' - 1);
        uint64_t good = at_least_0 & (~above_9 | at_least_a) & ~above_f & EACH(0x80);
        if (high != 0 || good != EACH(0x80))
            return false;

        uint64_t nibbles = (y & EACH(0x0f)) + 9 * ((y >> 6) & EACH(1));
        uint64_t bytes = ((nibbles << 4) | (nibbles >> 8)) & 0x00ff00ff00ff00ffu;
        bytes = (bytes | (bytes >> 8)) & 0x0000ffff0000ffffu;
        uint32_t packed = (uint32_t)(bytes | (bytes >> 16));
        memcpy(ret_digest + i * (WORD / 2), &packed, sizeof(packed));
    }
    return true;
}
#endif

static size_t pool_length(const char *ns)
{
    return strcspn(ns, "@");
}

/* KEY_HASHED when the text after the digits is none of the table's. */
static uint16_t suffix_of(const char *text, size_t length, const char *ns)
{
    if (length == 0)
        return KEY_PLAIN;
    if (length == 2 && text[0] == '-' && text[1] == 'k')
        return KEY_K;
    if (length == 2 && text[0] == '-' && text[1] == 'v')
        return KEY_V;
    if (text[0] == '_' && length - 1 == pool_length(ns) && memcmp(text + 1, ns, length - 1) == 0)
        return KEY_POOL;
    return KEY_HASHED;
}

void key_parse(struct key *ret_key, const char *text, size_t length, const char *ns)
{
    if (length >= HEX_DIGITS) {
        ret_key->suffix = suffix_of(text + HEX_DIGITS, length - HEX_DIGITS, ns);
        if (ret_key->suffix != KEY_HASHED && key_decode_digest(ret_key->digest, text))
            return;
    }
    ret_key->suffix = KEY_HASHED;
    if (EVP_Digest(text, length, ret_key->digest, NULL, EVP_sha256(), NULL) == 1)
        return;
    /* Out of memory inside OpenSSL: a key that nobody else has is a miss; any fixed one would be a
     * hit on another key's page. */
    size_t done = 0;
    while (done < KEY_DIGEST_BYTES) {
        ssize_t got = getrandom(ret_key->digest + done, KEY_DIGEST_BYTES - done, 0);
        done += got > 0 ? (size_t)got : 0;
    }
}

static void encode_digest(char ret_text[HEX_DIGITS + 1], const uint8_t digest[KEY_DIGEST_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < KEY_DIGEST_BYTES; i++) {
        ret_text[2 * i] = digits[digest[i] >> 4];
        ret_text[2 * i + 1] = digits[digest[i] & 15];
    }
    ret_text[HEX_DIGITS] = '\0';
}

size_t key_format(const struct key *key, const char *ns, char *text, size_t capacity)
{
    char hex[HEX_DIGITS + 1];
    encode_digest(hex, key->digest);

    const char *before = "", *after = "", *pool = "";
    switch ((enum key_suffix)key->suffix) {
    case KEY_PLAIN:
        break;
    case KEY_K:
        after = "-k";
        break;
    case KEY_V:
        after = "-v";
        break;
    case KEY_POOL:
        after = "_";
        pool = ns;
        break;
    case KEY_HASHED:
        before = "sha256:";
        break;
    }
    int length =
        snprintf(text, capacity, "%s%s%s%.*s", before, hex, after, (int)pool_length(pool), pool);
    return length > 0 ? (size_t)length : 0;
}

bool key_equal(const struct key *a, const struct key *b)
{
    return a->suffix == b->suffix && memcmp(a->digest, b->digest, KEY_DIGEST_BYTES) == 0;
}

bool key_other_half(const struct key *key, struct key *ret_other)
{
    if (key->suffix != KEY_K && key->suffix != KEY_V)
        return false;
    *ret_other = *key;
    ret_other->suffix = key->suffix == KEY_K ? KEY_V : KEY_K;
    return true;
}
