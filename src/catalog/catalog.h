/* The catalog: the index of one (rank, namespace). Which key is at which page of the file, what
 * state each page is in, and in which order pages are given away. The rules are in ARCHITECTURE.md,
 * "Life of a page".
 *
 * Pure: no threads, no files, no clock. The caller holds a lock around every call (but
 * catalog_copy_changed()) and passes the time (CLOCK_BOOTTIME, milliseconds); a time older than the
 * last one counts as the last one.
 *
 *     FREE -> RESERVED -> COMMITTED -> RETIRED -> FREE
 *                   \______________________/      RETIRED rests until its deadline
 *
 * A key has at most one page that is RESERVED or COMMITTED, and the index finds it. */
#ifndef KVSHELF_CATALOG_CATALOG_H
#define KVSHELF_CATALOG_CATALOG_H

#include "catalog/key.h"
#include "catalog/slot.h"
#include "kvshelf/kvshelf.h"

enum {
    CATALOG_PAGES_MAX = 1 << 30,
    CATALOG_BATCH_MAX = 65536, /* keys of one call */
    CATALOG_LEASED_SCAN_MAX = 4096,
    CATALOG_COPY_MAX = 256,
    CATALOG_MARK_PAGES = 8, /* pages that share a mark of having changed */
};

struct catalog;

/* How the array a catalog is opened over came to be. */
enum catalog_origin {
    CATALOG_NEW,        /* all zero: every page FREE */
    CATALOG_CLEAN,      /* closed by catalog_close(): everything is as it was */
    CATALOG_KILLED,     /* the process died, every store it made is there */
    CATALOG_POWER_LOST, /* only the image is there: its tail may be missing */
};

struct catalog_options {
    uint32_t num_pages; /* 1..CATALOG_PAGES_MAX */
    enum kvs_eviction eviction;
    uint64_t reserve_ttl_ms, quarantine_ms, lease_ms;
    /* Writers outside this process may still own pages after a restart: see catalog_open(). */
    bool foreign_writers;
    uint64_t wall_us;   /* generations start here at the least (CLOCK_REALTIME, microseconds) */
    uint64_t hash_seed; /* random where keys come from outside */

    /* Where it lives. NULL: the catalog allocates anonymous memory. Otherwise num_pages slots and
     * one state, owned by the caller, which outlive the catalog. */
    struct slot *slots;
    struct catalog_state *state;
    enum catalog_origin origin; /* CATALOG_NEW when slots is NULL */
    /* After CATALOG_CLEAN: the pages from the least to the most recently used, or NULL; the order
     * of generations stands in. Only read during catalog_open(). */
    const uint32_t *recency;
    uint32_t recency_count;
};

/* Opens a catalog. What it does to what it finds, by origin:
 *   CLEAN       RESERVED pages get a full reserve_ttl with foreign_writers and rest without,
 * RETIRED ones start their rest again. KILLED      as CLEAN, a slot with a bad CRC rests; with
 * foreign_writers pages are handed out only by eviction until reserve_ttl + quarantine has passed.
 * POWER_LOST  pages without a checksum are dropped; with foreign_writers no page is handed out for
 * reserve_ttl + quarantine; earlier pages are absent to readers that do not verify. With
 * foreign_writers COMMITTED pages are leased anew, once, in all three. Errors: KVS_ERR_NO_MEMORY,
 * KVS_ERR_CATALOG_GEOMETRY (num_pages out of range). */
enum kvs_status catalog_open(const struct catalog_options *options, uint64_t now_ms,
                             struct catalog **ret_catalog, struct kvs_error *error);

/* Frees the catalog; NULL is allowed; returns NULL. Slots and state given by the caller stay. */
struct catalog *catalog_close(struct catalog *catalog);

/* ---- Requests --------------------------------------------------------------------------------
 * Keys and results are arrays of n <= CATALOG_BATCH_MAX; each entry gets its own answer.
 * `verifying` callers ask for checksums or generations: pages without a checksum are absent to
 * them, and they take no lease. Only reserve can fail as a whole (KVS_ERR_NO_MEMORY, nothing
 * changed). */

struct catalog_reserved {
    bool present;        /* the key has a page: nothing to write. false with page >= 0: write it */
    int64_t page;        /* -1: no page to be had */
    uint64_t generation; /* of the page's life; 0 with page -1 */
};
/* `owner`: non-zero, of a caller that may repeat this call: a page reserved under the same owner is
 * answered again as (false, page) with the same generation. */
enum kvs_status catalog_reserve(struct catalog *catalog, uint64_t now_ms, const struct key keys[],
                                size_t n, bool verifying, uint64_t owner,
                                struct catalog_reserved ret_reserved[]);

enum catalog_rejection {
    CATALOG_ACCEPTED = 0,
    CATALOG_OUT_OF_RANGE,     /* no such page */
    CATALOG_NOT_RESERVED,     /* the page is FREE or RETIRED (expired, deleted, cleared) */
    CATALOG_OTHER_KEY,        /* the page belongs to another key */
    CATALOG_OTHER_GENERATION, /* the page has been handed out again */
    CATALOG_OTHER_CHECKSUM,   /* committed with a different checksum */
    CATALOG_HOLDS_KEY,        /* release of a COMMITTED page */
    CATALOG_REJECTIONS,
};
/* A short fixed text for a rejection, e.g. "not reserved". */
const char *catalog_rejection_text(enum catalog_rejection reason);

struct catalog_confirm {
    struct key key;
    int64_t page;
    bool has_generation, has_checksum;
    uint64_t generation, checksum;
};
void catalog_confirm(struct catalog *catalog, uint64_t now_ms,
                     const struct catalog_confirm entries[], size_t n,
                     enum catalog_rejection ret_reasons[]);

struct catalog_release {
    int64_t page;
    bool has_generation, has_key;
    uint64_t generation;
    struct key key;
};
void catalog_release(struct catalog *catalog, uint64_t now_ms,
                     const struct catalog_release entries[], size_t n,
                     enum catalog_rejection ret_reasons[]);

struct catalog_found {
    int64_t page; /* -1: absent */
    bool has_checksum;
    uint64_t generation, checksum;
};
/* Hits are refreshed; for callers that do not verify they are leased for lease_ms. */
void catalog_get(struct catalog *catalog, uint64_t now_ms, const struct key keys[], size_t n,
                 bool verifying, struct catalog_found ret_found[]);

/* Never refreshes. */
void catalog_exists(struct catalog *catalog, uint64_t now_ms, const struct key keys[], size_t n,
                    bool verifying, bool ret_exists[]);

/* Returns how many keys were deleted. */
size_t catalog_delete(struct catalog *catalog, uint64_t now_ms, const struct key keys[], size_t n);

/* O(1), amortised: pages are swept later, by the calls that need them. */
void catalog_clear(struct catalog *catalog, uint64_t now_ms);

/* A reader found other bytes twice: the page is retired when key and generation still match. */
bool catalog_report_mismatch(struct catalog *catalog, uint64_t now_ms, const struct key *key,
                             int64_t page, uint64_t generation);

/* ---- Looking ---------------------------------------------------------------------------------*/

struct catalog_counts {
    uint64_t free, reserved, committed, retired; /* pages; they add up to num_pages */
};
struct catalog_counts catalog_counts(struct catalog *catalog, uint64_t now_ms);

/* Why a key of reserve got no page. */
enum catalog_shortage {
    CATALOG_SHORT_LEASED,   /* what might go is leased to readers that do not verify */
    CATALOG_SHORT_RESERVED, /* half of the pages, or more, are with writers that have not confirmed
                             */
    CATALOG_SHORT_STARTING, /* a start that was not clean: writers from before it may live */
    CATALOG_SHORT_OTHER,    /* the rest are resting, or of the batch itself */
    CATALOG_SHORTAGES,
};
/* "leased", "reserved", "starting", "other". */
const char *catalog_shortage_text(enum catalog_shortage reason);

struct catalog_totals {
    uint64_t hits, misses;      /* keys of get */
    uint64_t reserved, present; /* keys of reserve */
    uint64_t confirmed, released, deleted;
    uint64_t evicted, expired, clears, mismatches;
    uint64_t no_page[CATALOG_SHORTAGES]; /* keys of reserve */
    uint64_t rejected[CATALOG_REJECTIONS];
};
const struct catalog_totals *catalog_totals(const struct catalog *catalog);

uint32_t catalog_num_pages(const struct catalog *catalog);

/* No reservation, resting page or lease is alive: its namespace may be given another geometry. */
bool catalog_is_quiet(struct catalog *catalog, uint64_t now_ms);

/* Until then a start that was not clean is cautious, because of writers and readers from before it;
 * 0: it is not. A further start before that time must be as cautious. */
uint64_t catalog_unsettled_until_ms(const struct catalog *catalog);

/* The slot of a page, alive or not. */
const struct slot *catalog_slot(const struct catalog *catalog, uint32_t page);
/* The page is COMMITTED: its slot's key is present (clear leaves dead slots behind). */
bool catalog_holds_key(const struct catalog *catalog, uint32_t page);

/* The COMMITTED pages from the least to the most recently used; the caller's array must hold
 * counts.committed of them. Returns how many. */
uint32_t catalog_recency(const struct catalog *catalog, uint32_t ret_pages[]);

/* Heap and anonymous memory of the catalog, bytes; slots given by the caller included. */
size_t catalog_memory_bytes(const struct catalog *catalog);

/* ---- Copying to an image ---------------------------------------------------------------------
 * Every change marks its page and its neighbours, after it has been made. A copy step takes at most
 * CATALOG_COPY_MAX marked slots and takes their marks away, before it looks at them: what changes
 * meanwhile is marked again. It is the one function that may be called beside requests, without
 * the lock, by one thread at a time: who copies may lose the processor at any moment, and nobody
 * waits for it. A slot that is being changed may be copied torn, and is marked again when it is
 * whole. */
struct catalog_copy {
    uint32_t pages[CATALOG_COPY_MAX]; /* ascending */
    struct slot slots[CATALOG_COPY_MAX];
    size_t count;
};
/* `cursor` starts at 0 for a pass and is moved on; returns false when the pass has ended. */
bool catalog_copy_changed(struct catalog *catalog, uint32_t *cursor, struct catalog_copy *ret_copy);
/* Under the lock, and not beside a copy. */
void catalog_mark_all_changed(struct catalog *catalog);

/* Checks every invariant (each page in exactly one list, counts, index, one page a key). For tests:
 * O(num_pages). Returns NULL when all hold, else what does not. Static storage. */
const char *catalog_check(struct catalog *catalog);

#endif
