/* The requests: what a caller may ask of a catalog, entry by entry. The transitions are life.c's.
 */
#include "base/status.h"
#include "catalog/life.h"
#include "catalog/memory.h"

#include <stdlib.h>
#include <string.h>

/* Can a caller of this kind see a COMMITTED page? One that verifies needs a checksum; one that does
 * not must not be shown a page whose file a power cut may have left behind its index. */
static bool is_visible(const struct catalog *catalog, const struct slot *slot, bool verifying)
{
    return verifying ? slot_has_checksum(slot) : slot->generation >= catalog->state->verify_below;
}

static bool is_committed(const struct catalog *catalog, uint32_t page)
{
    return slot_state(&catalog->slots[page]) == SLOT_COMMITTED;
}

/* The i-th entry to refresh of n: the head of a prefix is refreshed last, and so is the youngest.
 */
static size_t refresh_position(const struct catalog *catalog, size_t i, size_t n)
{
    return catalog->options.eviction == KVS_EVICTION_LRU ? i : n - 1 - i;
}

/* Blocks of a batch in refresh order: the start of the i-th block and its length. */
static size_t block_of(const struct catalog *catalog, size_t done, size_t n, size_t *ret_count)
{
    size_t count = n - done < INDEX_BLOCK ? n - done : INDEX_BLOCK;
    *ret_count = count;
    return catalog->options.eviction == KVS_EVICTION_LRU ? done : n - done - count;
}

/* Refreshing touches the links of a page and of its neighbours, leasing its deadline: bring them in
 * before. */
static void prefetch_links(const struct catalog *catalog, const uint32_t pages[], size_t n,
                           bool leasing)
{
    for (size_t i = 0; i < n; i++) {
        if (pages[i] == PAGE_NONE)
            continue;
        memory_prefetch(&catalog->links[pages[i]]);
        if (leasing)
            memory_prefetch(&catalog->until_ms[pages[i]]);
    }
    for (size_t i = 0; i < n; i++) {
        if (pages[i] == PAGE_NONE)
            continue;
        struct page_links at = catalog->links[pages[i]];
        if (at.before != PAGE_NONE)
            memory_prefetch(&catalog->links[at.before]);
        if (at.after != PAGE_NONE)
            memory_prefetch(&catalog->links[at.after]);
    }
}

/* ---- get, exists ---- */

static void lease(struct catalog *catalog, uint32_t page)
{
    uint64_t until = catalog->now_ms + catalog->options.lease_ms;
    if (catalog->until_ms[page] < until)
        catalog->until_ms[page] = until;
    if (catalog->last_lease_ms < until)
        catalog->last_lease_ms = until;
}

static struct catalog_found found_of(const struct slot *slot, uint32_t page)
{
    bool has_checksum = slot_has_checksum(slot);
    return (struct catalog_found){
        .page = page,
        .has_checksum = has_checksum,
        .generation = slot->generation,
        .checksum = has_checksum ? slot->value : 0,
    };
}

static void get_block(struct catalog *catalog, const struct key keys[], size_t n, bool verifying,
                      struct catalog_found ret_found[])
{
    uint32_t pages[INDEX_BLOCK];
    index_find_block(&catalog->index, keys, n, catalog->state->floor, pages);
    for (size_t i = 0; i < n; i++) {
        const struct slot *slot = &catalog->slots[pages[i] == PAGE_NONE ? 0 : pages[i]];
        if (pages[i] != PAGE_NONE &&
            (!is_committed(catalog, pages[i]) || !is_visible(catalog, slot, verifying)))
            pages[i] = PAGE_NONE;
        ret_found[i] =
            pages[i] == PAGE_NONE ? (struct catalog_found){.page = -1} : found_of(slot, pages[i]);
    }
    prefetch_links(catalog, pages, n, !verifying);
    for (size_t i = 0; i < n; i++) {
        uint32_t page = pages[refresh_position(catalog, i, n)];
        if (page == PAGE_NONE) {
            catalog->totals.misses++;
            continue;
        }
        catalog->totals.hits++;
        life_refresh(catalog, page);
        if (!verifying)
            lease(catalog, page);
    }
}

void catalog_get(struct catalog *catalog, uint64_t now_ms, const struct key keys[], size_t n,
                 bool verifying, struct catalog_found ret_found[])
{
    life_advance(catalog, now_ms);
    for (size_t done = 0, count; done < n; done += count) {
        size_t at = block_of(catalog, done, n, &count);
        get_block(catalog, keys + at, count, verifying, ret_found + at);
    }
}

void catalog_exists(struct catalog *catalog, uint64_t now_ms, const struct key keys[], size_t n,
                    bool verifying, bool ret_exists[])
{
    life_advance(catalog, now_ms);
    for (size_t at = 0, count; at < n; at += count) {
        uint32_t pages[INDEX_BLOCK];
        count = n - at < INDEX_BLOCK ? n - at : INDEX_BLOCK;
        index_find_block(&catalog->index, keys + at, count, catalog->state->floor, pages);
        for (size_t i = 0; i < count; i++)
            ret_exists[at + i] = pages[i] != PAGE_NONE && is_committed(catalog, pages[i]) &&
                                 is_visible(catalog, &catalog->slots[pages[i]], verifying);
    }
}

/* ---- reserve ---- */

/* One reserve call. Key i of the batch gets the generation first_generation + (n - 1 - i), so that
 * the head of a prefix is the newest, and a page's generation tells which key of the batch took it.
 */
struct reserving {
    struct catalog *catalog;
    const struct key *keys;
    size_t n;
    bool verifying;
    uint64_t owner;
    uint64_t first_generation;
    bool map_filled;
};

static uint64_t generation_for(const struct reserving *call, size_t i)
{
    return call->first_generation + (call->n - 1 - i);
}

static uint32_t find_key(const struct catalog *catalog, const struct key *key)
{
    return index_find(&catalog->index, index_hash(&catalog->index, key->digest), key,
                      catalog->state->floor);
}

/* Has the key a page that answers it? An invisible COMMITTED page does not: it is replaced. */
static bool has_page(const struct reserving *call, uint32_t page)
{
    return page != PAGE_NONE &&
           (!is_committed(call->catalog, page) ||
            is_visible(call->catalog, &call->catalog->slots[page], call->verifying));
}

/* Finds what is there and refreshes it. ret_reserved[i].page is the key's page or -1. Returns how
 * many keys have none. */
static size_t find_present(const struct reserving *call, struct catalog_reserved ret_reserved[])
{
    struct catalog *catalog = call->catalog;
    size_t missing = 0;
    for (size_t done = 0, count; done < call->n; done += count) {
        uint32_t pages[INDEX_BLOCK];
        size_t at = block_of(catalog, done, call->n, &count);
        index_find_block(&catalog->index, call->keys + at, count, catalog->state->floor, pages);
        for (size_t i = 0; i < count; i++) {
            bool has = has_page(call, pages[i]);
            missing += !has;
            ret_reserved[at + i] = (struct catalog_reserved){.page = has ? (int64_t)pages[i] : -1};
            if (!has || !is_committed(catalog, pages[i]))
                pages[i] = PAGE_NONE;
        }
        prefetch_links(catalog, pages, count, false);
        for (size_t i = 0; i < count; i++) {
            uint32_t page = pages[refresh_position(catalog, i, count)];
            if (page != PAGE_NONE)
                life_refresh(catalog, page);
        }
    }
    return missing;
}

/* The pages of the batch's keys, and of their other halves, are nobody's victims during the call.
 */
static void pin_batch(const struct reserving *call, bool pin)
{
    struct catalog *catalog = call->catalog;
    for (size_t i = 0; i < call->n; i++) {
        struct key pair[2] = {call->keys[i]};
        size_t halves = key_other_half(&pair[0], &pair[1]) ? 2 : 1;
        for (size_t half = 0; half < halves; half++) {
            uint32_t page = find_key(catalog, &pair[half]);
            if (page == PAGE_NONE)
                continue;
            if (pin)
                bit_set(catalog->pinned, page);
            else
                bit_clear(catalog->pinned, page);
        }
    }
}

/* ---- which position of the batch holds a key: asked for other halves and for repeated calls ----
 */

static size_t map_slots_for(size_t n)
{
    size_t size = 64;
    while (size < 2 * n)
        size *= 2;
    return size;
}

static enum kvs_status map_make_room(struct catalog *catalog, size_t n)
{
    size_t size = map_slots_for(n);
    if (size <= catalog->batch_map_size)
        return KVS_OK;
    uint32_t *map = realloc(catalog->batch_map, size * sizeof *map);
    if (map == NULL)
        return KVS_ERR_NO_MEMORY;
    catalog->batch_map = map;
    catalog->batch_map_size = size;
    return KVS_OK;
}

/* The place of a key in the map: its own, or the empty one where it would go. Positions are stored
 * plus one; the first occurrence of a key stays. */
static uint32_t *map_place(const struct reserving *call, const struct key *key)
{
    size_t mask = map_slots_for(call->n) - 1;
    size_t at = (index_hash(&call->catalog->index, key->digest) + key->suffix) & mask;
    uint32_t *map = call->catalog->batch_map;
    while (map[at] != 0 && !key_equal(&call->keys[map[at] - 1], key))
        at = (at + 1) & mask;
    return &map[at];
}

static void map_fill(struct reserving *call)
{
    memset(call->catalog->batch_map, 0, map_slots_for(call->n) * sizeof(uint32_t));
    for (size_t i = 0; i < call->n; i++) {
        uint32_t *place = map_place(call, &call->keys[i]);
        if (*place == 0)
            *place = (uint32_t)i + 1;
    }
    call->map_filled = true;
}

/* The position of the key's other half in the batch, or n. Engines send both halves side by side.
 */
static size_t other_half_position(struct reserving *call, size_t i)
{
    struct key other;
    if (!key_other_half(&call->keys[i], &other))
        return call->n;
    if (i + 1 < call->n && key_equal(&call->keys[i + 1], &other))
        return i + 1;
    if (!call->map_filled)
        map_fill(call);
    uint32_t place = *map_place(call, &other);
    return place == 0 ? call->n : place - 1;
}

/* Is this the first occurrence of its key in the batch? */
static bool is_first(struct reserving *call, size_t i)
{
    if (!call->map_filled)
        map_fill(call);
    return *map_place(call, &call->keys[i]) == i + 1;
}

/* ---- handing out ---- */

static struct catalog_reserved answer_for(struct reserving *call, size_t i, uint32_t page)
{
    const struct slot *slot = &call->catalog->slots[page];
    bool mine = false;
    if (slot_state(slot) == SLOT_RESERVED)
        mine = slot->generation >= call->first_generation
                   ? slot->generation == generation_for(call, i)
                   : call->owner != 0 && slot->value == call->owner && is_first(call, i);
    return (struct catalog_reserved){!mine, page, slot->generation};
}

/* `replaced`: the page that does not answer the key, or PAGE_NONE. */
static void hand_out(const struct reserving *call, size_t i, uint32_t page, uint32_t replaced)
{
    struct catalog *catalog = call->catalog;
    life_reserve(catalog, page, &call->keys[i], generation_for(call, i), call->owner);
    catalog->totals.reserved++;
    if (replaced == PAGE_NONE)
        return;
    bit_clear(catalog->pinned, replaced);
    life_retire(catalog, replaced);
}

/* A page for key i, and one for its other half when that is in the batch and needs one too: both or
 * none. Returns the page of key i. */
static uint32_t try_hand_out(struct reserving *call, size_t i, uint32_t replaced)
{
    struct catalog *catalog = call->catalog;
    size_t other = other_half_position(call, i);
    uint32_t others = other < call->n ? find_key(catalog, &call->keys[other]) : PAGE_NONE;
    if (other < call->n && !has_page(call, others)) {
        uint32_t pages[2];
        if (!life_take_pair(catalog, pages))
            return PAGE_NONE;
        hand_out(call, i, pages[0], replaced);
        hand_out(call, other, pages[1], others);
        return pages[0];
    }
    uint32_t page = life_take_page(catalog);
    if (page != PAGE_NONE)
        hand_out(call, i, page, replaced);
    return page;
}

static void reserve_each(struct reserving *call, struct catalog_reserved ret_reserved[])
{
    struct catalog *catalog = call->catalog;
    for (size_t i = 0; i < call->n; i++) {
        uint32_t page = PAGE_NONE;
        if (ret_reserved[i].page >= 0) {
            page = (uint32_t)ret_reserved[i].page;
        } else {
            page = find_key(catalog, &call->keys[i]); /* an earlier key of the batch may have it */
            if (!has_page(call, page))
                page = try_hand_out(call, i, page);
        }
        if (page != PAGE_NONE) {
            ret_reserved[i] = answer_for(call, i, page);
            catalog->totals.present += ret_reserved[i].present;
        } else {
            ret_reserved[i] = (struct catalog_reserved){false, -1, 0};
            catalog->totals.no_page[life_shortage(catalog)]++;
        }
    }
}

enum kvs_status catalog_reserve(struct catalog *catalog, uint64_t now_ms, const struct key keys[],
                                size_t n, bool verifying, uint64_t owner,
                                struct catalog_reserved ret_reserved[])
{
    if (map_make_room(catalog, n) != KVS_OK)
        return KVS_ERR_NO_MEMORY;
    life_advance(catalog, now_ms);
    struct reserving call = {
        .catalog = catalog,
        .keys = keys,
        .n = n,
        .verifying = verifying,
        .owner = owner,
        .first_generation = catalog->state->next_generation,
    };
    size_t missing = find_present(&call, ret_reserved);
    bool may_evict = life_may_evict(catalog, missing);
    catalog->state->next_generation += missing > 0 ? n : 0;
    if (may_evict)
        pin_batch(&call, true);
    life_start_eviction(catalog, may_evict ? missing : 0);
    reserve_each(&call, ret_reserved);
    if (may_evict)
        pin_batch(&call, false);
    return KVS_OK;
}

const char *catalog_shortage_text(enum catalog_shortage reason)
{
    static const char *const texts[CATALOG_SHORTAGES] = {
        [CATALOG_SHORT_LEASED] = "leased",
        [CATALOG_SHORT_RESERVED] = "reserved",
        [CATALOG_SHORT_STARTING] = "starting",
        [CATALOG_SHORT_OTHER] = "other",
    };
    return texts[reason];
}

/* ---- confirm, release ---- */

static const char *const rejection_texts[CATALOG_REJECTIONS] = {
    [CATALOG_ACCEPTED] = "accepted",
    [CATALOG_OUT_OF_RANGE] = "no such page",
    [CATALOG_NOT_RESERVED] = "not reserved",
    [CATALOG_OTHER_KEY] = "reserved for another key",
    [CATALOG_OTHER_GENERATION] = "another generation",
    [CATALOG_OTHER_CHECKSUM] = "confirmed with another checksum",
    [CATALOG_HOLDS_KEY] = "holds a confirmed key",
};

const char *catalog_rejection_text(enum catalog_rejection reason)
{
    return rejection_texts[reason];
}

static bool slot_has_key(const struct slot *slot, const struct key *key)
{
    return slot_suffix(slot) == key->suffix &&
           memcmp(slot->digest, key->digest, KEY_DIGEST_BYTES) == 0;
}

/* The slot of a page that is RESERVED or COMMITTED and alive, else why not. */
static enum catalog_rejection live_slot(const struct catalog *catalog, int64_t page,
                                        const struct slot **ret_slot)
{
    if (page < 0 || page >= (int64_t)catalog->options.num_pages)
        return CATALOG_OUT_OF_RANGE;
    const struct slot *slot = &catalog->slots[page];
    enum slot_state state = slot_state(slot);
    if ((state != SLOT_RESERVED && state != SLOT_COMMITTED) || !slot_alive(catalog, slot))
        return CATALOG_NOT_RESERVED;
    *ret_slot = slot;
    return CATALOG_ACCEPTED;
}

static enum catalog_rejection confirm_one(struct catalog *catalog,
                                          const struct catalog_confirm *entry)
{
    const struct slot *slot;
    enum catalog_rejection reason = live_slot(catalog, entry->page, &slot);
    if (reason != CATALOG_ACCEPTED)
        return reason;
    uint32_t page = (uint32_t)entry->page;
    if (!slot_has_key(slot, &entry->key))
        return CATALOG_OTHER_KEY;
    if (entry->has_generation && entry->generation != slot->generation)
        return CATALOG_OTHER_GENERATION;
    if (slot_state(slot) == SLOT_RESERVED) {
        life_commit(catalog, page, entry->has_checksum, entry->checksum);
        catalog->totals.confirmed++;
        return CATALOG_ACCEPTED;
    }
    if (entry->has_checksum && slot_has_checksum(slot) && slot->value != entry->checksum)
        return CATALOG_OTHER_CHECKSUM;
    if (entry->has_checksum && !slot_has_checksum(slot)) {
        slot_set_value(&catalog->slots[page], entry->checksum);
        life_seal(catalog, page, slot_suffix(slot), SLOT_COMMITTED, SLOT_HAS_CHECKSUM);
    }
    life_refresh(catalog, page);
    return CATALOG_ACCEPTED;
}

void catalog_confirm(struct catalog *catalog, uint64_t now_ms,
                     const struct catalog_confirm entries[], size_t n,
                     enum catalog_rejection ret_reasons[])
{
    life_advance(catalog, now_ms);
    for (size_t i = 0; i < n; i++) {
        if (entries[i].page < 0 || entries[i].page >= (int64_t)catalog->options.num_pages)
            continue;
        memory_prefetch(&catalog->slots[entries[i].page]);
        memory_prefetch(&catalog->links[entries[i].page]);
        memory_prefetch(&catalog->until_ms[entries[i].page]);
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = refresh_position(catalog, i, n);
        ret_reasons[at] = confirm_one(catalog, &entries[at]);
        if (ret_reasons[at] != CATALOG_ACCEPTED)
            catalog->totals.rejected[ret_reasons[at]]++;
    }
}

static enum catalog_rejection release_one(struct catalog *catalog,
                                          const struct catalog_release *entry)
{
    const struct slot *slot;
    enum catalog_rejection reason = live_slot(catalog, entry->page, &slot);
    if (reason != CATALOG_ACCEPTED)
        return reason;
    if (entry->has_key && !slot_has_key(slot, &entry->key))
        return CATALOG_OTHER_KEY;
    if (entry->has_generation && entry->generation != slot->generation)
        return CATALOG_OTHER_GENERATION;
    if (slot_state(slot) == SLOT_COMMITTED)
        return CATALOG_HOLDS_KEY;
    life_release(catalog, (uint32_t)entry->page);
    catalog->totals.released++;
    return CATALOG_ACCEPTED;
}

void catalog_release(struct catalog *catalog, uint64_t now_ms,
                     const struct catalog_release entries[], size_t n,
                     enum catalog_rejection ret_reasons[])
{
    life_advance(catalog, now_ms);
    for (size_t i = 0; i < n; i++) {
        ret_reasons[i] = release_one(catalog, &entries[i]);
        if (ret_reasons[i] != CATALOG_ACCEPTED)
            catalog->totals.rejected[ret_reasons[i]]++;
    }
}

/* ---- delete, clear, report_mismatch ---- */

size_t catalog_delete(struct catalog *catalog, uint64_t now_ms, const struct key keys[], size_t n)
{
    life_advance(catalog, now_ms);
    size_t deleted = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t page = find_key(catalog, &keys[i]);
        if (page == PAGE_NONE)
            continue;
        if (is_committed(catalog, page)) {
            life_retire(catalog, page);
            deleted++;
        } else {
            life_revoke(catalog, page);
        }
    }
    catalog->totals.deleted += deleted;
    return deleted;
}

void catalog_clear(struct catalog *catalog, uint64_t now_ms)
{
    life_advance(catalog, now_ms);
    life_clear(catalog);
    catalog->totals.clears++;
}

bool catalog_report_mismatch(struct catalog *catalog, uint64_t now_ms, const struct key *key,
                             int64_t page, uint64_t generation)
{
    life_advance(catalog, now_ms);
    const struct slot *slot;
    if (live_slot(catalog, page, &slot) != CATALOG_ACCEPTED || slot_state(slot) != SLOT_COMMITTED ||
        !slot_has_checksum(slot) || !slot_has_key(slot, key) || slot->generation != generation)
        return false;
    life_retire(catalog, (uint32_t)page);
    catalog->totals.mismatches++;
    return true;
}
