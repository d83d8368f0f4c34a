/* The slot: the 64 bytes that are kept of a page, and the state kept beside all slots. Both belong
 * to the file format (docs/format.md): little-endian, never re-ordered.
 *
 * A slot changes by plain stores in an order that makes a kill between any two of them harmless:
 * the last word holds state, flags and the CRC, and is stored last, at once. The value field
 * counts, and is under the CRC, only while the state gives it a meaning, so that storing it is not
 * a change. */
#ifndef KVSHELF_CATALOG_SLOT_H
#define KVSHELF_CATALOG_SLOT_H

#include "catalog/key.h"

#include <stdbool.h>
#include <stdint.h>

enum slot_state { SLOT_FREE = 0, SLOT_RESERVED = 1, SLOT_COMMITTED = 2, SLOT_RETIRED = 3 };

enum { SLOT_HAS_CHECKSUM = 1 };

struct slot {
    uint8_t digest[KEY_DIGEST_BYTES];
    uint64_t generation;
    uint64_t value; /* COMMITTED with SLOT_HAS_CHECKSUM: the page's checksum; RESERVED: the owner,
                       or 0 */
    uint64_t unused;
    uint64_t seal; /* bits 0..15 suffix, 16..23 state, 24..31 flags, 32..63 CRC-32C */
};
_Static_assert(sizeof(struct slot) == 64, "a slot is one cache line");

static inline uint16_t slot_suffix(const struct slot *slot)
{
    return (uint16_t)slot->seal;
}
static inline enum slot_state slot_state(const struct slot *slot)
{
    return (enum slot_state)((slot->seal >> 16) & 0xff);
}
static inline bool slot_has_checksum(const struct slot *slot)
{
    return ((slot->seal >> 24) & SLOT_HAS_CHECKSUM) != 0;
}

/* Whoever writes the image copies slots while they change: every store into a slot of an open
 * catalog is one of a whole word, atomic, and so is every load of the copy. */
static inline void slot_set_digest(struct slot *slot, const uint8_t digest[KEY_DIGEST_BYTES])
{
    typedef uint64_t __attribute__((may_alias)) word;
    word *to = (word *)(void *)slot->digest;
    for (unsigned i = 0; i < KEY_DIGEST_BYTES / sizeof(word); i++) {
        word bytes;
        __builtin_memcpy(&bytes, digest + i * sizeof(word), sizeof(word));
        __atomic_store_n(&to[i], bytes, __ATOMIC_RELAXED);
    }
}
static inline void slot_set_generation(struct slot *slot, uint64_t generation)
{
    __atomic_store_n(&slot->generation, generation, __ATOMIC_RELAXED);
}
static inline void slot_set_value(struct slot *slot, uint64_t value)
{
    __atomic_store_n(&slot->value, value, __ATOMIC_RELAXED);
}
/* The words of a slot that may be changing. */
void slot_copy(struct slot *ret_slot, const struct slot *slot);

/* Stores suffix, state, flags and the CRC over them, the page number and the fields that count. */
void slot_seal(struct slot *slot, uint32_t page, uint16_t suffix, enum slot_state state,
               uint8_t flags);
/* All zero (a page never used) is intact. */
bool slot_intact(const struct slot *slot, uint32_t page);

/* What is kept of a catalog beside its slots. */
struct catalog_state {
    uint64_t next_generation;
    uint64_t floor;        /* slots below are dead: catalog_clear() */
    uint64_t verify_below; /* pages below are absent to readers that do not verify: a power cut */
    uint64_t unused;
};

#endif
