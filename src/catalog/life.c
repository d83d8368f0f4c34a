/* The life of a page; see life.h. */
#include "catalog/life.h"

#include "catalog/memory.h"

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void life_seal(struct catalog *catalog, uint32_t page, uint16_t suffix, enum slot_state state,
               uint8_t flags)
{
    slot_seal(&catalog->slots[page], page, suffix, state, flags);
    mark_changed(catalog, page);
}

static void change_state(struct catalog *catalog, uint32_t page, enum slot_state state)
{
    life_seal(catalog, page, slot_suffix(&catalog->slots[page]), state, 0);
}

static void unindex(struct catalog *catalog, uint32_t page)
{
    const struct slot *slot = &catalog->slots[page];
    index_remove(&catalog->index, index_hash(&catalog->index, slot->digest), slot_suffix(slot),
                 page);
}

/* The same for a page that clear() has killed. */
static void unindex_dead(struct catalog *catalog, uint32_t page)
{
    if (bit_get(catalog->unindexed, page))
        bit_clear(catalog->unindexed, page);
    else
        unindex(catalog, page);
}

static void make_free(struct catalog *catalog, uint32_t page)
{
    change_state(catalog, page, SLOT_FREE);
    list_push_last(&catalog->free, catalog->links, page);
}

/* Pages whose rest is over become FREE. */
static void end_rests(struct catalog *catalog, struct page_list *queue)
{
    while (queue->first != PAGE_NONE && catalog->until_ms[queue->first] <= catalog->now_ms) {
        uint32_t page = queue->first;
        list_remove(queue, catalog->links, page);
        make_free(catalog, page);
    }
}

/* A queue stays ordered because a page rests at least as long as the one before it: at most one
 * quarantine, or one lease, longer than it must. */
static void rest_in(struct catalog *catalog, struct page_list *queue, uint32_t page,
                    uint64_t until_ms)
{
    if (queue->last != PAGE_NONE)
        until_ms = later(until_ms, catalog->until_ms[queue->last]);
    change_state(catalog, page, SLOT_RETIRED);
    catalog->until_ms[page] = until_ms;
    list_push_last(queue, catalog->links, page);
    end_rests(catalog, queue);
}

void life_rest(struct catalog *catalog, uint32_t page, uint64_t until_ms)
{
    rest_in(catalog, &catalog->quarantine, page, until_ms);
}

static void expire(struct catalog *catalog)
{
    struct page_list *reserved = &catalog->reserved;
    while (reserved->first != PAGE_NONE && catalog->until_ms[reserved->first] <= catalog->now_ms) {
        uint32_t page = reserved->first;
        list_remove(reserved, catalog->links, page);
        unindex(catalog, page);
        catalog->totals.expired++;
        life_rest(catalog, page, catalog->until_ms[page] + catalog->options.quarantine_ms);
    }
}

void life_advance(struct catalog *catalog, uint64_t now_ms)
{
    catalog->now_ms = later(catalog->now_ms, now_ms);
    expire(catalog);
    end_rests(catalog, &catalog->quarantine);
    end_rests(catalog, &catalog->leased);
}

uint64_t life_leased_until(const struct catalog *catalog, uint32_t page)
{
    uint64_t until = catalog->until_ms[page];
    if (catalog->slots[page].generation < catalog->relet_below)
        until = later(until, catalog->relet_until_ms);
    return until;
}

static bool is_leased(const struct catalog *catalog, uint32_t page)
{
    return life_leased_until(catalog, page) > catalog->now_ms;
}

/* ---- Where a page for a writer comes from ---- */

static uint32_t take_free(struct catalog *catalog)
{
    if (catalog->frontier < catalog->options.num_pages)
        return catalog->frontier++;
    uint32_t page = catalog->free.first;
    if (page != PAGE_NONE)
        list_remove(&catalog->free, catalog->links, page);
    return page;
}

/* Writers of pages that were RESERVED at a clear() do not know of it and go on. */
static void sweep_cleared_reserved(struct catalog *catalog)
{
    while (catalog->cleared_reserved.first != PAGE_NONE) {
        uint32_t page = catalog->cleared_reserved.first;
        list_remove(&catalog->cleared_reserved, catalog->links, page);
        unindex_dead(catalog, page);
        life_rest(catalog, page, catalog->until_ms[page] + catalog->options.quarantine_ms);
    }
}

static uint32_t take_cleared(struct catalog *catalog)
{
    while (catalog->cleared.first != PAGE_NONE) {
        uint32_t page = catalog->cleared.first;
        list_remove(&catalog->cleared, catalog->links, page);
        unindex_dead(catalog, page);
        if (!is_leased(catalog, page))
            return page;
        rest_in(catalog, &catalog->leased, page, life_leased_until(catalog, page));
    }
    return PAGE_NONE;
}

/* The oldest page that may go, or PAGE_NONE. Pages passed over stay where they are. */
static uint32_t find_victim(struct catalog *catalog)
{
    struct eviction *eviction = &catalog->eviction;
    while (eviction->at != PAGE_NONE) {
        uint32_t page = eviction->at;
        if (!bit_get(catalog->pinned, page)) {
            if (!is_leased(catalog, page))
                return page;
            eviction->met_leased = true;
            if (++eviction->leased_passed > CATALOG_LEASED_SCAN_MAX)
                eviction->at = PAGE_NONE;
        }
        if (eviction->at != PAGE_NONE)
            eviction->at = catalog->links[page].before;
    }
    return PAGE_NONE;
}

/* Takes a COMMITTED page out of the recency list and the index. */
static void detach(struct catalog *catalog, uint32_t page)
{
    if (catalog->eviction.at == page)
        catalog->eviction.at = catalog->links[page].before;
    list_remove(&catalog->recency, catalog->links, page);
    unindex(catalog, page);
}

static void retire_detached(struct catalog *catalog, uint32_t page)
{
    uint64_t leased_until = life_leased_until(catalog, page);
    if (leased_until > catalog->now_ms)
        rest_in(catalog, &catalog->leased, page, leased_until);
    else
        make_free(catalog, page);
}

/* The other half of a K/V pair if it is COMMITTED and may go, or PAGE_NONE. */
static uint32_t find_other_half(const struct catalog *catalog, uint32_t victim)
{
    const struct slot *slot = &catalog->slots[victim];
    struct key key, other;
    key.suffix = slot_suffix(slot);
    __builtin_memcpy(key.digest, slot->digest, sizeof key.digest);
    if (!key_other_half(&key, &other))
        return PAGE_NONE;
    uint32_t page = index_find(&catalog->index, index_hash(&catalog->index, other.digest), &other,
                               catalog->state->floor);
    if (page == PAGE_NONE || slot_state(&catalog->slots[page]) != SLOT_COMMITTED ||
        bit_get(catalog->pinned, page))
        return PAGE_NONE;
    return page;
}

/* Half a page is no page: the other half goes along, unless somebody is writing it. Returned when
 * it need not rest: it is then nobody's. */
static uint32_t evict_other_half(struct catalog *catalog, uint32_t victim)
{
    uint32_t page = find_other_half(catalog, victim);
    if (page == PAGE_NONE)
        return PAGE_NONE;
    detach(catalog, page);
    catalog->totals.evicted++;
    if (!is_leased(catalog, page))
        return page;
    retire_detached(catalog, page);
    return PAGE_NONE;
}

/* How many pages may become RESERVED by evicting. */
static uint32_t eviction_room(const struct catalog *catalog)
{
    uint32_t half = catalog->options.num_pages / 2;
    uint32_t limit = half > 1 ? half : 2; /* a pair needs two, however few pages there are */
    return catalog->reserved.count < limit ? limit - catalog->reserved.count : 0;
}

/* *ret_half: the victim's other half, if that is to be had too; it is not FREE. */
static uint32_t take_victim_and_half(struct catalog *catalog, uint32_t *ret_half)
{
    uint32_t page = find_victim(catalog);
    *ret_half = PAGE_NONE;
    if (page == PAGE_NONE)
        return PAGE_NONE;
    detach(catalog, page);
    catalog->totals.evicted++;
    *ret_half = evict_other_half(catalog, page);
    return page;
}

static uint32_t take_victim(struct catalog *catalog)
{
    uint32_t half, page = take_victim_and_half(catalog, &half);
    if (half != PAGE_NONE)
        make_free(catalog, half);
    return page;
}

/* Would evicting give two pages? The victim's other half is one, unless it must rest. */
static bool can_evict_two(struct catalog *catalog)
{
    struct eviction before = catalog->eviction;
    uint32_t room = eviction_room(catalog), victim = PAGE_NONE, next = PAGE_NONE;
    if (room > 0)
        victim = find_victim(catalog);
    if (victim != PAGE_NONE) {
        uint32_t half = find_other_half(catalog, victim);
        catalog->eviction.at = catalog->links[victim].before;
        if (half != PAGE_NONE && !is_leased(catalog, half)) {
            next = half;
        } else if (room > 1) {
            next = find_victim(catalog);
            if (next != PAGE_NONE && next == half) {
                catalog->eviction.at = catalog->links[half].before;
                next = find_victim(catalog);
            }
        }
    }
    before.met_leased = catalog->eviction.met_leased;
    catalog->eviction = before;
    return next != PAGE_NONE;
}

/* Each victim costs its slot's line and its index group's: bring in those of the next ones
 * together. */
static void prefetch_victims(const struct catalog *catalog, size_t n)
{
    uint32_t pages[INDEX_BLOCK];
    size_t count = 0;
    for (uint32_t page = catalog->recency.last;
         page != PAGE_NONE && count < n && count < INDEX_BLOCK;
         page = catalog->links[page].before) {
        memory_prefetch(&catalog->slots[page]);
        memory_prefetch(&catalog->until_ms[page]);
        pages[count++] = page;
    }
    for (size_t i = 0; i < count; i++)
        index_prefetch(&catalog->index,
                       index_hash(&catalog->index, catalog->slots[pages[i]].digest));
}

void life_start_eviction(struct catalog *catalog, size_t pages)
{
    catalog->eviction = (struct eviction){.at = catalog->recency.last};
    prefetch_victims(catalog, pages);
}

/* A page that nobody holds: FREE, or killed by clear(). */
static uint32_t take_unheld(struct catalog *catalog)
{
    if (catalog->now_ms < catalog->free_from_ms)
        return PAGE_NONE;
    uint32_t page = take_free(catalog);
    if (page == PAGE_NONE)
        page = take_cleared(catalog);
    if (page == PAGE_NONE && catalog->cleared_reserved.count > 0) {
        sweep_cleared_reserved(catalog);
        page = take_free(catalog);
    }
    return page;
}

uint32_t life_take_page(struct catalog *catalog)
{
    uint32_t page = take_unheld(catalog);
    if (page == PAGE_NONE && catalog->now_ms >= catalog->evict_from_ms &&
        eviction_room(catalog) > 0)
        page = take_victim(catalog);
    return page;
}

/* The second page after a first one that nobody held. */
static uint32_t take_second(struct catalog *catalog)
{
    uint32_t page = take_unheld(catalog);
    if (page == PAGE_NONE && catalog->now_ms >= catalog->evict_from_ms &&
        eviction_room(catalog) > 1)
        page = take_victim(catalog);
    return page;
}

/* A pair goes for a pair. That its second half need not become FREE in between matters while FREE
 * pages are held back after a restart: each pair would cost two, and the second one's pages could
 * not be given to anybody. */
bool life_take_pair(struct catalog *catalog, uint32_t ret_pages[2])
{
    uint32_t half = PAGE_NONE;
    ret_pages[0] = take_unheld(catalog);
    if (ret_pages[0] == PAGE_NONE) {
        if (catalog->now_ms < catalog->evict_from_ms || !can_evict_two(catalog))
            return false;
        ret_pages[0] = take_victim_and_half(catalog, &half);
    }
    ret_pages[1] = half != PAGE_NONE ? half : take_second(catalog);
    if (ret_pages[1] == PAGE_NONE)
        make_free(catalog, ret_pages[0]); /* and alone there */
    return ret_pages[1] != PAGE_NONE;
}

enum catalog_shortage life_shortage(const struct catalog *catalog)
{
    if (catalog->now_ms < catalog->evict_from_ms)
        return CATALOG_SHORT_STARTING;
    if (eviction_room(catalog) == 0)
        return CATALOG_SHORT_RESERVED;
    if (catalog->eviction.met_leased)
        return CATALOG_SHORT_LEASED;
    return catalog->now_ms < catalog->free_from_ms ? CATALOG_SHORT_STARTING : CATALOG_SHORT_OTHER;
}

bool life_may_evict(const struct catalog *catalog, size_t pages)
{
    uint32_t never_used = catalog->options.num_pages - catalog->frontier;
    return catalog->now_ms < catalog->free_from_ms ||
           pages > (size_t)never_used + catalog->free.count;
}

/* ---- Transitions ---- */

/* The place in the index of the page that the key had before a clear(). It has one at most. */
static void unindex_earlier(struct catalog *catalog, uint64_t hash, const struct key *key)
{
    if (catalog->cleared.count == 0 && catalog->cleared_reserved.count == 0)
        return;
    uint32_t page = index_find(&catalog->index, hash, key, 0);
    if (page == PAGE_NONE || slot_alive(catalog, &catalog->slots[page]))
        return;
    index_remove(&catalog->index, hash, key->suffix, page);
    bit_set(catalog->unindexed, page);
}

void life_reserve(struct catalog *catalog, uint32_t page, const struct key *key,
                  uint64_t generation, uint64_t owner)
{
    struct slot *slot = &catalog->slots[page];
    uint64_t hash = index_hash(&catalog->index, key->digest);
    unindex_earlier(catalog, hash, key);
    slot_set_digest(slot, key->digest);
    slot_set_generation(slot, generation);
    slot_set_value(slot, owner);
    life_seal(catalog, page, key->suffix, SLOT_RESERVED, 0);
    catalog->until_ms[page] = catalog->now_ms + catalog->options.reserve_ttl_ms;
    list_push_last(&catalog->reserved, catalog->links, page);
    index_insert(&catalog->index, hash, key->suffix, page);
}

void life_commit(struct catalog *catalog, uint32_t page, bool has_checksum, uint64_t checksum)
{
    struct slot *slot = &catalog->slots[page];
    list_remove(&catalog->reserved, catalog->links, page);
    slot_set_value(slot, has_checksum ? checksum : 0);
    life_seal(catalog, page, slot_suffix(slot), SLOT_COMMITTED,
              has_checksum ? SLOT_HAS_CHECKSUM : 0);
    catalog->until_ms[page] = 0;
    list_push_first(&catalog->recency, catalog->links, page);
}

static void abandon(struct catalog *catalog, uint32_t page, uint64_t from_ms)
{
    list_remove(&catalog->reserved, catalog->links, page);
    unindex(catalog, page);
    life_rest(catalog, page, from_ms + catalog->options.quarantine_ms);
}

void life_release(struct catalog *catalog, uint32_t page)
{
    abandon(catalog, page, catalog->now_ms);
}

void life_revoke(struct catalog *catalog, uint32_t page)
{
    abandon(catalog, page, catalog->until_ms[page]);
}

void life_retire(struct catalog *catalog, uint32_t page)
{
    detach(catalog, page);
    retire_detached(catalog, page);
}

void life_refresh(struct catalog *catalog, uint32_t page)
{
    if (catalog->recency.first == page)
        return;
    list_remove(&catalog->recency, catalog->links, page);
    list_push_first(&catalog->recency, catalog->links, page);
}

void life_clear(struct catalog *catalog)
{
    sweep_cleared_reserved(catalog);
    catalog->state->floor = catalog->state->next_generation;
    list_append_all(&catalog->cleared, &catalog->recency, catalog->links);
    list_append_all(&catalog->cleared_reserved, &catalog->reserved, catalog->links);
}
