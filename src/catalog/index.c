/* The hash index; see index.h. */
#include "catalog/index.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define XXH_INLINE_ALL
#include "catalog/memory.h"

#include <xxhash.h>

enum {
    GROUP_ALL = (1 << INDEX_GROUP_ENTRIES) - 1,
    OVERFLOW_STUCK = UINT8_MAX,
    /* Five eighths full when every page has a key: three groups in a hundred overflow. At four
     * fifths it would be one in five, and a lookup that goes on to another group waits for two
     * lines in turn. */
    FILL_NUMERATOR = 8,
    FILL_DENOMINATOR = 5 * INDEX_GROUP_ENTRIES,
};

bool index_init(struct index *index, uint32_t num_pages, uint64_t seed, const struct slot *slots)
{
    uint64_t count = (uint64_t)num_pages * FILL_NUMERATOR / FILL_DENOMINATOR + 2;
    /* Touched: a new index is written to all over, and the first requests would take the faults. */
    struct index_group *groups = memory_new_touched(count * sizeof *groups);
    if (groups == NULL)
        return false;
    *index = (struct index){groups, count, seed, slots};
    return true;
}

void index_done(struct index *index)
{
    memory_free(index->groups, index_memory_bytes(index));
    *index = (struct index){0};
}

size_t index_memory_bytes(const struct index *index)
{
    return index->group_count * sizeof *index->groups;
}

uint64_t index_hash(const struct index *index, const uint8_t digest[KEY_DIGEST_BYTES])
{
    return XXH3_64bits_withSeed(digest, KEY_DIGEST_BYTES, index->seed);
}

static uint64_t group_of(const struct index *index, uint64_t hash)
{
    return (uint64_t)(((unsigned __int128)hash * index->group_count) >> 64);
}

static uint64_t group_after(const struct index *index, uint64_t group)
{
    return group + 1 == index->group_count ? 0 : group + 1;
}

static uint8_t tag_of(uint64_t hash, uint16_t suffix)
{
    uint8_t tag = (uint8_t)(hash ^ (suffix * 0x3bu));
    return tag == 0 ? 1 : tag;
}

void index_prefetch(const struct index *index, uint64_t hash)
{
    memory_prefetch(&index->groups[group_of(index, hash)]);
}

/* Bit i is set where tags[i] == tag. */
static unsigned group_match(const struct index_group *group, uint8_t tag)
{
#ifdef __SSE2__
    __m128i tags = _mm_loadu_si128((const __m128i *)(const void *)group->tags);
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag))) & GROUP_ALL;
#else
    unsigned mask = 0;
    for (unsigned i = 0; i < INDEX_GROUP_ENTRIES; i++)
        mask |= (unsigned)(group->tags[i] == tag) << i;
    return mask;
#endif
}

static bool slot_is(const struct slot *slot, const struct key *key, uint64_t floor)
{
    return memcmp(slot->digest, key->digest, KEY_DIGEST_BYTES) == 0 &&
           slot_suffix(slot) == key->suffix && slot->generation >= floor;
}

uint32_t index_find(const struct index *index, uint64_t hash, const struct key *key, uint64_t floor)
{
    uint8_t tag = tag_of(hash, key->suffix);
    uint64_t at = group_of(index, hash);
    for (uint64_t probes = 0; probes < index->group_count; probes++) {
        const struct index_group *group = &index->groups[at];
        for (unsigned mask = group_match(group, tag); mask != 0; mask &= mask - 1) {
            uint32_t page = group->pages[__builtin_ctz(mask)];
            if (slot_is(&index->slots[page], key, floor))
                return page;
        }
        if (group->overflow == 0)
            break;
        at = group_after(index, at);
    }
    return PAGE_NONE;
}

/* A key that index_find_block() has to look for once more. */
struct stray {
    uint64_t hash;
    uint32_t at;
};

static uint32_t candidate_in(const struct index_group *group, uint8_t tag)
{
    unsigned mask = group_match(group, tag);
    return mask == 0 ? PAGE_NONE : group->pages[__builtin_ctz(mask)];
}

static void prefetch_slot(const struct index *index, uint32_t page)
{
    if (page != PAGE_NONE)
        memory_prefetch(&index->slots[page]);
}

/* The page that a key's own group names, whose slot is asked for; else the next group is. */
static uint32_t first_candidate(const struct index *index, uint64_t hash, uint16_t suffix)
{
    uint64_t at = group_of(index, hash);
    uint32_t page = candidate_in(&index->groups[at], tag_of(hash, suffix));
    prefetch_slot(index, page);
    if (page == PAGE_NONE && index->groups[at].overflow != 0)
        memory_prefetch(&index->groups[group_after(index, at)]);
    return page;
}

/* Keys that are not where their tag said first: most are in the next group. They are few, but one
 * that waits for its lines in turn costs as much as ten that do not. */
static void find_strays(const struct index *index, const struct key keys[], uint64_t floor,
                        const struct stray strays[], size_t n, uint32_t ret_pages[])
{
    for (size_t i = 0; i < n; i++) {
        uint64_t next = group_after(index, group_of(index, strays[i].hash));
        prefetch_slot(index, candidate_in(&index->groups[next],
                                          tag_of(strays[i].hash, keys[strays[i].at].suffix)));
    }
    for (size_t i = 0; i < n; i++)
        ret_pages[strays[i].at] = index_find(index, strays[i].hash, &keys[strays[i].at], floor);
}

/* Three stages, each AHEAD keys in front of the next, so that the memory is never idle: ask for the
 * group's line, then for the slot's, then compare. */
void index_find_block(const struct index *index, const struct key keys[], size_t n, uint64_t floor,
                      uint32_t ret_pages[])
{
    enum { AHEAD = 24, RING = 64 };
    uint64_t hashes[RING];
    struct stray strays[INDEX_BLOCK];
    size_t stray_count = 0;
    for (size_t step = 0; step < n + 2 * AHEAD; step++) {
        if (step < n) {
            hashes[step % RING] = index_hash(index, keys[step].digest);
            index_prefetch(index, hashes[step % RING]);
        }
        size_t i = step - AHEAD; /* huge before its first key: not < n */
        if (i < n)
            ret_pages[i] = first_candidate(index, hashes[i % RING], keys[i].suffix);
        i = step - 2 * AHEAD;
        if (i < n &&
            (ret_pages[i] == PAGE_NONE || !slot_is(&index->slots[ret_pages[i]], &keys[i], floor)))
            strays[stray_count++] = (struct stray){hashes[i % RING], (uint32_t)i};
    }
    find_strays(index, keys, floor, strays, stray_count, ret_pages);
}

void index_insert(struct index *index, uint64_t hash, uint16_t suffix, uint32_t page)
{
    uint64_t at = group_of(index, hash);
    for (;;) {
        struct index_group *group = &index->groups[at];
        unsigned room = group_match(group, 0);
        if (room != 0) {
            int entry = __builtin_ctz(room);
            group->pages[entry] = page;
            group->tags[entry] = tag_of(hash, suffix);
            return;
        }
        if (group->overflow != OVERFLOW_STUCK)
            group->overflow++;
        at = group_after(index, at);
    }
}

void index_remove(struct index *index, uint64_t hash, uint16_t suffix, uint32_t page)
{
    uint8_t tag = tag_of(hash, suffix);
    uint64_t at = group_of(index, hash);
    for (;;) {
        struct index_group *group = &index->groups[at];
        for (unsigned mask = group_match(group, tag); mask != 0; mask &= mask - 1) {
            int entry = __builtin_ctz(mask);
            if (group->pages[entry] == page) {
                group->tags[entry] = 0;
                return;
            }
        }
        if (group->overflow != OVERFLOW_STUCK)
            group->overflow--;
        at = group_after(index, at);
    }
}
