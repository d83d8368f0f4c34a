/* Keys as the catalog holds them: a 32-byte digest and a suffix of a fixed table.
 *
 * A key of 64 lower-case hex digits and a known suffix is packed without loss. Any other text is
 * held as its SHA-256 under KEY_HASHED: exact to look up, listed as a digest. The table of suffixes
 * belongs to the file format: numbers are never reused and none is allocated at run time. */
#ifndef KVSHELF_CATALOG_KEY_H
#define KVSHELF_CATALOG_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum key_suffix {
    KEY_HASHED = 0, /* not packable: the digest is the SHA-256 of the whole text */
    KEY_PLAIN = 1,  /* no suffix */
    KEY_K = 2,      /* "-k" */
    KEY_V = 3,      /* "-v" */
    KEY_POOL = 4,   /* "_" and the pool name: the namespace up to '@' */
};

enum {
    KEY_DIGEST_BYTES = 32,
    KEY_TEXT_MAX = 4096, /* longest key text accepted anywhere, bytes */
};

struct key {
    uint8_t digest[KEY_DIGEST_BYTES];
    uint16_t suffix; /* enum key_suffix */
};

/* Decodes 64 lower-case hex digits; false (and ret_digest undefined) when one is not such a digit.
 */
bool key_decode_digest(uint8_t ret_digest[KEY_DIGEST_BYTES], const char *text);

/* Packs `text` (any bytes, `length` of them) for a catalog of namespace `ns`. Cannot fail. */
void key_parse(struct key *ret_key, const char *text, size_t length, const char *ns);

/* The text of a packed key, or for KEY_HASHED "sha256:" and the digest. NUL-terminated; `capacity`
 * must hold 64 + 2 + strlen(ns) or 71 characters. Returns the length. */
size_t key_format(const struct key *key, const char *ns, char *text, size_t capacity);

bool key_equal(const struct key *a, const struct key *b);

/* The other half of a K/V pair; false when the key is not a half. */
bool key_other_half(const struct key *key, struct key *ret_other);

#endif
