/* The life of a page: every transition between FREE, RESERVED, COMMITTED and RETIRED, and where the
 * next page for a writer comes from. Private to the catalog; requests.c and open.c are built on it.
 *
 * A page is in exactly one of these places, and its state follows from the place:
 *   FREE       free list, or at or above `frontier` (never used)
 *   RESERVED   reserved list, oldest deadline first
 *   COMMITTED  recency list, youngest first
 *   RETIRED    one of two resting queues (ordered by deadline), or one of the two lists of pages
 *              that clear() has killed and nobody has swept yet
 * RESERVED and COMMITTED pages are in the index, and so are unswept ones, until their key is given
 * another page: no key fills the index by being cleared again and again. */
#ifndef KVSHELF_CATALOG_LIFE_H
#define KVSHELF_CATALOG_LIFE_H

#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/links.h"

/* Where the evictions of one request have come to. */
struct eviction {
    uint32_t at; /* next candidate, or PAGE_NONE */
    uint32_t leased_passed;
    bool met_leased; /* a page was passed over for its lease, if only to see how many there are */
};

struct catalog {
    struct catalog_options options;
    struct slot *slots;
    struct catalog_state *state;
    struct catalog_state own_state; /* when the caller gave none */
    struct page_links *links;
    uint64_t *until_ms;  /* RESERVED: expires; COMMITTED: leased until; RETIRED: rests until */
    uint64_t *changed;   /* one byte for eight pages: not yet copied to the image */
    uint64_t *pinned;    /* one bit a page: of the batch that is being reserved */
    uint64_t *unindexed; /* one bit a page: killed by clear(), and no longer in the index */
    struct index index;

    struct page_list free, reserved, recency, quarantine, leased, cleared, cleared_reserved;
    uint32_t frontier;

    uint64_t now_ms;
    uint64_t last_lease_ms; /* the last lease ends */

    /* After a start: what may still be going on outside. */
    uint64_t relet_until_ms, relet_below; /* COMMITTED pages below this generation are leased */
    uint64_t free_from_ms;                /* FREE pages are not handed out before */
    uint64_t evict_from_ms;               /* nor COMMITTED ones */

    struct eviction eviction;
    uint32_t *batch_map; /* scratch of reserve: positions of a batch's keys */
    size_t batch_map_size;
    struct catalog_totals totals;
};

static inline bool bit_get(const uint64_t *bits, uint32_t page)
{
    return (bits[page / 64] >> (page % 64)) & 1;
}
static inline void bit_set(uint64_t *bits, uint32_t page)
{
    bits[page / 64] |= UINT64_C(1) << (page % 64);
}
static inline void bit_clear(uint64_t *bits, uint32_t page)
{
    bits[page / 64] &= ~(UINT64_C(1) << (page % 64));
}

/* After the change, so that who finds the mark finds the change; see catalog_copy_changed(). */
static inline void mark_changed(struct catalog *catalog, uint32_t page)
{
    uint8_t *marks = (uint8_t *)catalog->changed;
    __atomic_store_n(&marks[page / CATALOG_MARK_PAGES], 1, __ATOMIC_RELEASE);
}

static inline bool slot_alive(const struct catalog *catalog, const struct slot *slot)
{
    return slot->generation >= catalog->state->floor;
}

/* Seals the slot in a new state and marks it changed. */
void life_seal(struct catalog *catalog, uint32_t page, uint16_t suffix, enum slot_state state,
               uint8_t flags);

/* Takes the later of now and the last time; expires reservations and ends rests that are over. */
void life_advance(struct catalog *catalog, uint64_t now_ms);

/* The end of the lease of a COMMITTED page; at or before now when there is none. */
uint64_t life_leased_until(const struct catalog *catalog, uint32_t page);

/* Starts looking for victims at the old end, about so many; at the start of a request that may
 * evict. */
void life_start_eviction(struct catalog *catalog, size_t pages);
/* A page for a writer, in no list and out of the index, or PAGE_NONE. */
uint32_t life_take_page(struct catalog *catalog);
/* Two of them, or false and no page lost. */
bool life_take_pair(struct catalog *catalog, uint32_t ret_pages[2]);
/* Why there was none, within the request. */
enum catalog_shortage life_shortage(const struct catalog *catalog);
/* Could taking this many pages evict one? */
bool life_may_evict(const struct catalog *catalog, size_t pages);

/* taken -> RESERVED, indexed. */
void life_reserve(struct catalog *catalog, uint32_t page, const struct key *key,
                  uint64_t generation, uint64_t owner);
/* RESERVED -> COMMITTED, the youngest. */
void life_commit(struct catalog *catalog, uint32_t page, bool has_checksum, uint64_t checksum);
/* RESERVED -> rests for the quarantine from now: its writer has given up. */
void life_release(struct catalog *catalog, uint32_t page);
/* RESERVED -> rests for the quarantine from the end of the reservation: its writer knows nothing.
 */
void life_revoke(struct catalog *catalog, uint32_t page);
/* COMMITTED -> rests until its lease ends, or FREE. */
void life_retire(struct catalog *catalog, uint32_t page);
/* COMMITTED: becomes the youngest. */
void life_refresh(struct catalog *catalog, uint32_t page);
/* Enters the quarantine (or FREE, when that is over already). */
void life_rest(struct catalog *catalog, uint32_t page, uint64_t until_ms);

/* Everything alive becomes dead; see catalog_clear(). */
void life_clear(struct catalog *catalog);

#endif
