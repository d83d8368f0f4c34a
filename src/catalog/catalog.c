/* Looking at a catalog: counts, totals, the recency order, copies for an image, and the check of
 * every invariant. */
#include "catalog/catalog.h"

#include "catalog/life.h"

#include <stdlib.h>
#include <string.h>

static uint32_t never_used_count(const struct catalog *catalog)
{
    return catalog->options.num_pages - catalog->frontier;
}

struct catalog_counts catalog_counts(struct catalog *catalog, uint64_t now_ms)
{
    life_advance(catalog, now_ms);
    return (struct catalog_counts){
        .free = (uint64_t)never_used_count(catalog) + catalog->free.count,
        .reserved = catalog->reserved.count,
        .committed = catalog->recency.count,
        .retired = (uint64_t)catalog->quarantine.count + catalog->leased.count +
                   catalog->cleared.count + catalog->cleared_reserved.count,
    };
}

const struct catalog_totals *catalog_totals(const struct catalog *catalog)
{
    return &catalog->totals;
}

uint32_t catalog_num_pages(const struct catalog *catalog)
{
    return catalog->options.num_pages;
}

/* Pages that died RESERVED may stay unswept for good when no more requests come. */
static bool dead_writers_may_be_alive(const struct catalog *catalog)
{
    uint32_t last = catalog->cleared_reserved.last;
    return last != PAGE_NONE &&
           catalog->until_ms[last] + catalog->options.quarantine_ms > catalog->now_ms;
}

bool catalog_is_quiet(struct catalog *catalog, uint64_t now_ms)
{
    life_advance(catalog, now_ms);
    return catalog->reserved.count == 0 && catalog->quarantine.count == 0 &&
           catalog->leased.count == 0 && !dead_writers_may_be_alive(catalog) &&
           catalog->last_lease_ms <= catalog->now_ms && catalog->free_from_ms <= catalog->now_ms;
}

uint64_t catalog_unsettled_until_ms(const struct catalog *catalog)
{
    return catalog->free_from_ms;
}

const struct slot *catalog_slot(const struct catalog *catalog, uint32_t page)
{
    return &catalog->slots[page];
}

bool catalog_holds_key(const struct catalog *catalog, uint32_t page)
{
    const struct slot *slot = &catalog->slots[page];
    return slot_state(slot) == SLOT_COMMITTED && slot->generation >= catalog->state->floor;
}

uint32_t catalog_recency(const struct catalog *catalog, uint32_t ret_pages[])
{
    uint32_t n = 0;
    for (uint32_t page = catalog->recency.last; page != PAGE_NONE;
         page = catalog->links[page].before)
        ret_pages[n++] = page;
    return n;
}

size_t catalog_memory_bytes(const struct catalog *catalog)
{
    size_t n = catalog->options.num_pages;
    size_t per_page = sizeof *catalog->slots + sizeof *catalog->links + sizeof *catalog->until_ms;
    size_t bitmaps = 3 * (n / 64 + 1) * sizeof(uint64_t);
    return sizeof *catalog + n * per_page + bitmaps + index_memory_bytes(&catalog->index) +
           catalog->batch_map_size * sizeof *catalog->batch_map;
}

/* ---- copies ---- */

static void copy_marked(const struct catalog *catalog, uint32_t first, struct catalog_copy *copy)
{
    for (uint32_t page = first;
         page < first + CATALOG_MARK_PAGES && page < catalog->options.num_pages; page++) {
        copy->pages[copy->count] = page;
        slot_copy(&copy->slots[copy->count++], &catalog->slots[page]);
    }
}

bool catalog_copy_changed(struct catalog *catalog, uint32_t *cursor, struct catalog_copy *ret_copy)
{
    uint8_t *marks = (uint8_t *)catalog->changed;
    uint32_t words = catalog->options.num_pages / 64 + 1;
    ret_copy->count = 0;
    for (; *cursor < words; ++*cursor) {
        if (__atomic_load_n(&catalog->changed[*cursor], __ATOMIC_RELAXED) == 0)
            continue;
        for (uint32_t mark = *cursor * sizeof(uint64_t); mark < (*cursor + 1) * sizeof(uint64_t);
             mark++) {
            if (__atomic_load_n(&marks[mark], __ATOMIC_RELAXED) == 0)
                continue;
            if (ret_copy->count + CATALOG_MARK_PAGES > CATALOG_COPY_MAX)
                return true;
            __atomic_exchange_n(&marks[mark], 0, __ATOMIC_SEQ_CST);
            copy_marked(catalog, mark * CATALOG_MARK_PAGES, ret_copy);
        }
    }
    return false;
}

void catalog_mark_all_changed(struct catalog *catalog)
{
    memset(catalog->changed, 1, (catalog->frontier + CATALOG_MARK_PAGES - 1) / CATALOG_MARK_PAGES);
}

/* ---- the check ---- */

/* Walks a list; every page on it must be in `state` and counted once. */
static const char *check_list(const struct catalog *catalog, const struct page_list *list,
                              enum slot_state state, uint8_t *seen)
{
    uint32_t count = 0, before = PAGE_NONE;
    for (uint32_t page = list->first; page != PAGE_NONE; page = catalog->links[page].after) {
        if (page >= catalog->frontier)
            return "a page beyond the frontier is in a list";
        if (catalog->links[page].before != before)
            return "a list's links disagree";
        if (seen[page]++)
            return "a page is in two lists";
        if (slot_state(&catalog->slots[page]) != state)
            return "a page's state is not that of its list";
        if (!slot_intact(&catalog->slots[page], page))
            return "a slot's CRC is wrong";
        if (++count > list->count)
            return "a list is longer than its count";
        before = page;
    }
    if (list->last != before)
        return "a list's end is wrong";
    return count == list->count ? NULL : "a list is shorter than its count";
}

static const char *check_order(const struct catalog *catalog, const struct page_list *list)
{
    for (uint32_t page = list->first; page != PAGE_NONE; page = catalog->links[page].after) {
        uint32_t after = catalog->links[page].after;
        if (after != PAGE_NONE && catalog->until_ms[after] < catalog->until_ms[page])
            return "a queue is out of order";
    }
    return NULL;
}

/* Each alive RESERVED or COMMITTED page is the one its key finds. */
static const char *check_indexed(const struct catalog *catalog, const struct page_list *list)
{
    for (uint32_t page = list->first; page != PAGE_NONE; page = catalog->links[page].after) {
        const struct slot *slot = &catalog->slots[page];
        struct key key = {.suffix = slot_suffix(slot)};
        memcpy(key.digest, slot->digest, sizeof key.digest);
        if (!slot_alive(catalog, slot))
            return "a dead page counts as alive";
        if (index_find(&catalog->index, index_hash(&catalog->index, key.digest), &key,
                       catalog->state->floor) != page)
            return "a key does not find its page";
    }
    return NULL;
}

static size_t index_count(const struct index *index)
{
    size_t count = 0;
    for (uint64_t g = 0; g < index->group_count; g++)
        for (unsigned i = 0; i < INDEX_GROUP_ENTRIES; i++)
            count += index->groups[g].tags[i] != 0;
    return count;
}

static const char *check_counts(const struct catalog *catalog, const uint8_t *seen)
{
    for (uint32_t page = 0; page < catalog->frontier; page++)
        if (!seen[page])
            return "a page is in no list";
    for (uint32_t word = 0; word <= catalog->options.num_pages / 64; word++)
        if (catalog->pinned[word] != 0)
            return "a page stayed pinned";
    size_t indexed = (size_t)catalog->reserved.count + catalog->recency.count +
                     catalog->cleared.count + catalog->cleared_reserved.count;
    for (uint32_t word = 0; word <= catalog->options.num_pages / 64; word++)
        indexed -= (size_t)__builtin_popcountll(catalog->unindexed[word]);
    return index_count(&catalog->index) == indexed ? NULL : "the index holds something else";
}

const char *catalog_check(struct catalog *catalog)
{
    const struct {
        const struct page_list *list;
        enum slot_state state;
    } places[] = {
        {&catalog->free, SLOT_FREE},
        {&catalog->reserved, SLOT_RESERVED},
        {&catalog->recency, SLOT_COMMITTED},
        {&catalog->quarantine, SLOT_RETIRED},
        {&catalog->leased, SLOT_RETIRED},
        {&catalog->cleared, SLOT_COMMITTED},
        {&catalog->cleared_reserved, SLOT_RESERVED},
    };
    uint8_t *seen = calloc(catalog->options.num_pages, 1);
    if (seen == NULL)
        return "no memory for the check";
    const char *wrong = NULL;
    for (size_t i = 0; wrong == NULL && i < sizeof places / sizeof places[0]; i++)
        wrong = check_list(catalog, places[i].list, places[i].state, seen);
    if (wrong == NULL)
        wrong = check_counts(catalog, seen);
    free(seen);
    if (wrong == NULL)
        wrong = check_order(catalog, &catalog->reserved);
    if (wrong == NULL)
        wrong = check_order(catalog, &catalog->quarantine);
    if (wrong == NULL)
        wrong = check_order(catalog, &catalog->leased);
    if (wrong == NULL)
        wrong = check_indexed(catalog, &catalog->reserved);
    if (wrong == NULL)
        wrong = check_indexed(catalog, &catalog->recency);
    return wrong;
}
