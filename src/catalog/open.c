/* Opening a catalog over what is there: every slot finds its place, the index is built, the recency
 * order is taken from the caller or from the generations. */
#include "base/status.h"
#include "catalog/life.h"
#include "catalog/memory.h"

#include <stdlib.h>
#include <string.h>

struct catalog *catalog_close(struct catalog *catalog)
{
    if (catalog == NULL)
        return NULL;
    size_t n = catalog->options.num_pages;
    if (catalog->options.slots == NULL)
        memory_free(catalog->slots, n * sizeof *catalog->slots);
    memory_free(catalog->links, n * sizeof *catalog->links);
    memory_free(catalog->until_ms, n * sizeof *catalog->until_ms);
    free(catalog->changed);
    free(catalog->pinned);
    free(catalog->unindexed);
    free(catalog->batch_map);
    index_done(&catalog->index);
    free(catalog);
    return NULL;
}

static const uint64_t DURATION_MAX_MS = UINT64_C(1000000000000000);

static size_t bit_words(uint32_t num_pages)
{
    return num_pages / 64 + 1;
}

static struct catalog *allocate(const struct catalog_options *options)
{
    uint32_t n = options->num_pages;
    struct catalog *catalog = calloc(1, sizeof *catalog);
    if (catalog == NULL)
        return NULL;
    catalog->options = *options;
    catalog->state = options->state != NULL ? options->state : &catalog->own_state;
    catalog->slots =
        options->slots != NULL ? options->slots : memory_new((size_t)n * sizeof *catalog->slots);
    catalog->links = memory_new((size_t)n * sizeof *catalog->links);
    catalog->until_ms = memory_new((size_t)n * sizeof *catalog->until_ms);
    catalog->changed = calloc(bit_words(n), sizeof *catalog->changed);
    catalog->pinned = calloc(bit_words(n), sizeof *catalog->pinned);
    catalog->unindexed = calloc(bit_words(n), sizeof *catalog->unindexed);
    if (catalog->slots == NULL || catalog->links == NULL || catalog->until_ms == NULL ||
        catalog->changed == NULL || catalog->pinned == NULL || catalog->unindexed == NULL ||
        !index_init(&catalog->index, n, options->hash_seed, catalog->slots))
        return catalog_close(catalog);
    catalog->free = catalog->reserved = catalog->recency = PAGE_LIST_EMPTY;
    catalog->quarantine = catalog->leased = PAGE_LIST_EMPTY;
    catalog->cleared = catalog->cleared_reserved = PAGE_LIST_EMPTY;
    return catalog;
}

/* ---- what may still be going on outside ---- */

static void raise_to(uint64_t *value, uint64_t least)
{
    if (*value < least)
        *value = least;
}

/* After a power cut what looks FREE may have been leased in truth, so leases count there too. */
static void set_restart_rules(struct catalog *catalog)
{
    const struct catalog_options *options = &catalog->options;
    if (options->origin == CATALOG_POWER_LOST)
        catalog->state->verify_below = catalog->state->next_generation;
    if (options->origin == CATALOG_NEW || !options->foreign_writers)
        return;
    catalog->relet_below = catalog->state->next_generation;
    catalog->relet_until_ms = catalog->now_ms + options->lease_ms;
    catalog->last_lease_ms = catalog->relet_until_ms;
    if (options->origin == CATALOG_CLEAN)
        return;
    catalog->free_from_ms = catalog->now_ms + options->reserve_ttl_ms + options->quarantine_ms;
    raise_to(&catalog->free_from_ms, catalog->relet_until_ms);
    if (options->origin == CATALOG_POWER_LOST)
        catalog->evict_from_ms = catalog->free_from_ms;
}

/* A page that was given up before the start: whether a writer or a reader has still to do with it
 * is no longer known, so it rests for both. A writer whose reservation was revoked by a delete or a
 * clear had all its time before it. */
static void rest_again(struct catalog *catalog, uint32_t page)
{
    uint64_t until_ms = catalog->now_ms + catalog->options.quarantine_ms;
    if (catalog->options.foreign_writers)
        until_ms += catalog->options.reserve_ttl_ms;
    raise_to(&until_ms, catalog->relet_until_ms);
    life_rest(catalog, page, until_ms);
}

/* ---- placing ---- */

/* A page whose slot says nothing to be trusted: it rests, in case somebody is writing it. */
static void place_unknown(struct catalog *catalog, uint32_t page)
{
    memset(&catalog->slots[page], 0, sizeof catalog->slots[page]);
    rest_again(catalog, page);
}

static struct key key_of(const struct slot *slot)
{
    struct key key = {.suffix = slot_suffix(slot)};
    memcpy(key.digest, slot->digest, sizeof key.digest);
    return key;
}

static void take_from_list(struct catalog *catalog, uint32_t page)
{
    bool reserved = slot_state(&catalog->slots[page]) == SLOT_RESERVED;
    list_remove(reserved ? &catalog->reserved : &catalog->recency, catalog->links, page);
}

/* Indexes a RESERVED or COMMITTED page. Of two that claim one key the newer life wins; the other
 * rests. Returns whether this one is in. */
static bool index_newest(struct catalog *catalog, uint64_t hash, uint32_t page)
{
    const struct slot *slot = &catalog->slots[page];
    struct key key = key_of(slot);
    uint32_t rival = index_find(&catalog->index, hash, &key, catalog->state->floor);
    if (rival != PAGE_NONE) {
        if (catalog->slots[rival].generation > slot->generation) {
            rest_again(catalog, page);
            return false;
        }
        take_from_list(catalog, rival);
        index_remove(&catalog->index, hash, key.suffix, rival);
        rest_again(catalog, rival);
    }
    index_insert(&catalog->index, hash, key.suffix, page);
    return true;
}

/* A writer in another process may go on. One of this process is gone: its page would be said to be
 * on its way, so that nobody writes the key again, until it expires. */
static void place_reserved(struct catalog *catalog, uint64_t hash, uint32_t page)
{
    if (!catalog->options.foreign_writers) {
        rest_again(catalog, page);
        return;
    }
    if (!index_newest(catalog, hash, page))
        return;
    catalog->until_ms[page] = catalog->now_ms + catalog->options.reserve_ttl_ms;
    list_push_last(&catalog->reserved, catalog->links, page);
}

/* The recency list is put in order afterwards. */
static void place_committed(struct catalog *catalog, uint64_t hash, uint32_t page)
{
    if (index_newest(catalog, hash, page))
        list_push_last(&catalog->recency, catalog->links, page);
}

static void place(struct catalog *catalog, uint64_t hash, uint32_t page)
{
    const struct slot *slot = &catalog->slots[page];
    enum slot_state state = slot_state(slot);
    if (!slot_intact(slot, page) || state > SLOT_RETIRED) {
        place_unknown(catalog, page);
        return;
    }
    if (state == SLOT_FREE) {
        list_push_last(&catalog->free, catalog->links, page);
    } else if (state == SLOT_RETIRED || (state == SLOT_RESERVED && !slot_alive(catalog, slot))) {
        rest_again(catalog, page);
    } else if (state == SLOT_RESERVED) {
        place_reserved(catalog, hash, page);
    } else if (!slot_alive(catalog, slot)) {
        bit_set(catalog->unindexed, page);
        list_push_last(&catalog->cleared, catalog->links, page);
    } else if (catalog->options.origin == CATALOG_POWER_LOST && !slot_has_checksum(slot)) {
        rest_again(catalog, page);
    } else {
        place_committed(catalog, hash, page);
    }
}

/* All of it: a write that was cut short may have left the digest alone. */
static bool never_used(const struct slot *slot)
{
    static const struct slot zero;
    return slot->seal == 0 && slot->generation == 0 && memcmp(slot, &zero, sizeof zero) == 0;
}

/* Counters first: what a slot means depends on them. */
static void find_bounds(struct catalog *catalog)
{
    uint64_t newest = 0;
    uint32_t frontier = 0;
    for (uint32_t page = 0; page < catalog->options.num_pages; page++) {
        const struct slot *slot = &catalog->slots[page];
        if (never_used(slot))
            continue;
        frontier = page + 1;
        /* Only what an intact slot says can be believed; most are, so look closer only at new
         * maxima. */
        if (slot->generation > newest && slot_intact(slot, page))
            newest = slot->generation;
    }
    catalog->frontier = frontier;
    raise_to(&catalog->state->next_generation, newest + 1);
}

static void place_all(struct catalog *catalog)
{
    for (uint32_t at = 0; at < catalog->frontier; at += INDEX_BLOCK) {
        uint64_t hashes[INDEX_BLOCK];
        uint32_t count =
            catalog->frontier - at < INDEX_BLOCK ? catalog->frontier - at : INDEX_BLOCK;
        for (uint32_t i = 0; i < count; i++) {
            hashes[i] = index_hash(&catalog->index, catalog->slots[at + i].digest);
            index_prefetch(&catalog->index, hashes[i]);
        }
        for (uint32_t i = 0; i < count; i++)
            place(catalog, hashes[i], at + i);
    }
}

/* ---- the recency order ---- */

struct aged_page {
    uint64_t generation;
    uint32_t page;
};

/* Sorts by generation, least first: by eleven bits at a time, and only the bits that differ. */
static void sort_by_generation(struct aged_page *pages, struct aged_page *spare, uint32_t n)
{
    enum { BITS = 11, BUCKETS = 1 << BITS };
    uint64_t differing = 0;
    for (uint32_t i = 1; i < n; i++)
        differing |= pages[i].generation ^ pages[0].generation;
    struct aged_page *from = pages, *to = spare;
    for (unsigned shift = 0; shift < 64 && differing >> shift != 0; shift += BITS) {
        uint32_t starts[BUCKETS] = {0};
        for (uint32_t i = 0; i < n; i++)
            starts[(from[i].generation >> shift) & (BUCKETS - 1)]++;
        uint32_t sum = 0;
        for (unsigned b = 0; b < BUCKETS; b++) {
            uint32_t count = starts[b];
            starts[b] = sum;
            sum += count;
        }
        for (uint32_t i = 0; i < n; i++)
            to[starts[(from[i].generation >> shift) & (BUCKETS - 1)]++] = from[i];
        struct aged_page *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != pages)
        memcpy(pages, from, n * sizeof *pages);
}

static enum kvs_status order_by_generation(struct catalog *catalog)
{
    uint32_t n = catalog->recency.count;
    struct aged_page *pages = malloc(2 * (size_t)n * sizeof *pages + 1);
    if (pages == NULL)
        return KVS_ERR_NO_MEMORY;
    uint32_t at = 0;
    for (uint32_t page = catalog->recency.first; page != PAGE_NONE;
         page = catalog->links[page].after)
        pages[at++] = (struct aged_page){catalog->slots[page].generation, page};
    sort_by_generation(pages, pages + n, n);
    catalog->recency = PAGE_LIST_EMPTY;
    for (uint32_t i = 0; i < n; i++)
        list_push_first(&catalog->recency, catalog->links, pages[i].page);
    free(pages);
    return KVS_OK;
}

/* The order a clean stop has left, for the pages that are still COMMITTED; others stay the oldest.
 */
static void order_as_given(struct catalog *catalog)
{
    enum { AHEAD = 16 };
    const uint32_t *order = catalog->options.recency;
    uint32_t n = catalog->options.recency_count;
    for (uint32_t i = 0; i < n; i++) {
        if (i + AHEAD < n && order[i + AHEAD] < catalog->options.num_pages) {
            memory_prefetch(&catalog->links[order[i + AHEAD]]);
            memory_prefetch(&catalog->slots[order[i + AHEAD]]);
        }
        uint32_t page = order[i];
        if (page < catalog->frontier && slot_state(&catalog->slots[page]) == SLOT_COMMITTED &&
            slot_alive(catalog, &catalog->slots[page]))
            life_refresh(catalog, page);
    }
}

/* A slot that is COMMITTED and alive is in the recency list: place() saw to it. */
static enum kvs_status order_recency(struct catalog *catalog)
{
    if (catalog->options.origin == CATALOG_CLEAN && catalog->options.recency != NULL) {
        order_as_given(catalog);
        return KVS_OK;
    }
    return order_by_generation(catalog);
}

/* Sums of times must not wrap: no duration is longer than 30,000 years. */
static void limit_durations(struct catalog_options *options)
{
    uint64_t *const durations[] = {&options->reserve_ttl_ms, &options->quarantine_ms,
                                   &options->lease_ms};
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++)
        if (*durations[i] > DURATION_MAX_MS)
            *durations[i] = DURATION_MAX_MS;
}

enum kvs_status catalog_open(const struct catalog_options *options, uint64_t now_ms,
                             struct catalog **ret_catalog, struct kvs_error *error)
{
    if (options->num_pages == 0 || options->num_pages > CATALOG_PAGES_MAX)
        return error_set(error, KVS_ERR_CATALOG_GEOMETRY, NUM(options->num_pages),
                         NUM(CATALOG_PAGES_MAX));
    struct catalog *catalog = allocate(options);
    if (catalog == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "making a catalog");
    catalog->now_ms = now_ms;
    limit_durations(&catalog->options);
    raise_to(&catalog->state->next_generation, options->wall_us);
    if (options->slots != NULL && options->origin != CATALOG_NEW) {
        find_bounds(catalog);
        set_restart_rules(catalog);
        place_all(catalog);
        if (order_recency(catalog) != KVS_OK) {
            catalog_close(catalog);
            return error_set(error, KVS_ERR_NO_MEMORY, "ordering the pages of a catalog");
        }
    }
    catalog->options.recency = NULL;
    *ret_catalog = catalog;
    return KVS_OK;
}
