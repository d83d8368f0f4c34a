/* Packing keys into digest and suffix, and putting them back into words. Knows nothing of pages. */
#include "catalog/key.h"

#include "catalog/key_decode.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { HEX_DIGITS = 2 * KEY_DIGEST_BYTES };

bool key_decode_digest(uint8_t ret_digest[KEY_DIGEST_BYTES], const char *text)
{
#ifdef __SSE2__
    if (__builtin_cpu_supports("avx2"))
        return key_decode_by_32(ret_digest, text);
    return key_decode_by_16(ret_digest, text);
#else
    return key_decode_by_8(ret_digest, text);
#endif
}

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
