/* The hash index: key -> page. Open addressing over groups of one cache line: twelve page numbers,
 * twelve tag bytes, and a count of the entries that found the group full and went on. A lookup
 * costs the group's line and the slot's line; a batch prefetches both so that its cache misses
 * overlap. The overflow count (the idea is from Folly's F14) ends a probe without tombstones.
 *
 * Both halves of a K/V pair hash alike, so that they share a line. Keys of pages that clear() has
 * killed stay until they are swept: lookups pass over generations below the floor. */
#ifndef KVSHELF_CATALOG_INDEX_H
#define KVSHELF_CATALOG_INDEX_H

#include "catalog/links.h"
#include "catalog/slot.h"

#include <stddef.h>

enum { INDEX_GROUP_ENTRIES = 12, INDEX_BLOCK = 256 };

struct index_group {
    uint32_t pages[INDEX_GROUP_ENTRIES];
    uint8_t tags[INDEX_GROUP_ENTRIES]; /* 0: empty */
    uint8_t overflow;                  /* 255: at least; never counted down again */
    uint8_t unused[3];
};
_Static_assert(sizeof(struct index_group) == 64, "a group is one cache line");

struct index {
    struct index_group *groups;
    uint64_t group_count;
    uint64_t seed;
    const struct slot *slots;
};

/* Room for one entry per page; false on lack of memory. `slots` stay the caller's. */
bool index_init(struct index *index, uint32_t num_pages, uint64_t seed, const struct slot *slots);
void index_done(struct index *index);
size_t index_memory_bytes(const struct index *index);

uint64_t index_hash(const struct index *index, const uint8_t digest[KEY_DIGEST_BYTES]);
void index_prefetch(const struct index *index, uint64_t hash);

/* The page of a key whose generation is not below `floor`, or PAGE_NONE. */
uint32_t index_find(const struct index *index, uint64_t hash, const struct key *key,
                    uint64_t floor);
/* The same for up to INDEX_BLOCK keys with overlapping cache misses. */
void index_find_block(const struct index *index, const struct key keys[], size_t n, uint64_t floor,
                      uint32_t ret_pages[]);

/* The caller inserts a page once and removes it under the same key. */
void index_insert(struct index *index, uint64_t hash, uint16_t suffix, uint32_t page);
void index_remove(struct index *index, uint64_t hash, uint16_t suffix, uint32_t page);

#endif
