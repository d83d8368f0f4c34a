/* The model of the catalog's rules: see catalog_model.h. */
#include "support/catalog_model.h"

#include <string.h>

enum { NONE = -1 };

/* ---- Small words ---------------------------------------------------------------------------- */

static uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t after(uint64_t time, uint64_t duration)
{
    return time > UINT64_MAX - duration ? UINT64_MAX : time + duration;
}

static bool same_key(const struct key *a, const struct key *b)
{
    return a->suffix == b->suffix && memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
}

static bool halves(const struct key *a, const struct key *b)
{
    return memcmp(a->digest, b->digest, sizeof(a->digest)) == 0 &&
           ((a->suffix == KEY_K && b->suffix == KEY_V) ||
            (a->suffix == KEY_V && b->suffix == KEY_K));
}

static bool holds_key(const struct model_page *p)
{
    return p->state == MODEL_RESERVED || p->state == MODEL_COMMITTED;
}

/* After a restart a page from before it may have readers that nobody remembers. */
static uint64_t lease_end(const struct model *m, const struct model_page *p)
{
    return p->generation < m->relet_below ? later_of(p->leased_until, m->relet_until)
                                          : p->leased_until;
}

static bool leased(const struct model *m, const struct model_page *p)
{
    return lease_end(m, p) > m->now;
}

/* The one page of a key. */
static int find(const struct model *m, const struct key *key)
{
    for (uint32_t i = 0; i < m->num_pages; i++)
        if (holds_key(&m->pages[i]) && same_key(&m->pages[i].key, key))
            return (int)i;
    return NONE;
}

static int find_half(const struct model *m, const struct key *key)
{
    for (uint32_t i = 0; i < m->num_pages; i++)
        if (holds_key(&m->pages[i]) && halves(&m->pages[i].key, key))
            return (int)i;
    return NONE;
}

/* A COMMITTED page that this kind of caller may be told of. */
static bool visible(const struct model *m, const struct model_page *p, bool verifying)
{
    if (p->state != MODEL_COMMITTED)
        return false;
    return verifying ? p->has_checksum : p->generation >= m->verify_below;
}

static uint64_t count(const struct model *m, enum model_state state)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->num_pages; i++)
        n += m->pages[i].state == state;
    return n;
}

/* ---- Going to rest, becoming FREE ----------------------------------------------------------- */

static void make_free(struct model *m, struct model_page *p)
{
    p->state = MODEL_FREE;
    p->unswept = false;
    p->freed_at = ++m->stamp;
}

/* A page that enters a queue leaves it no earlier than those before it. */
static void rest(struct model *m, struct model_page *page, enum model_queue queue, uint64_t own)
{
    uint64_t earliest = own, latest = own;
    for (uint32_t i = 0; i < m->num_pages; i++) {
        const struct model_page *p = &m->pages[i];
        if (p == page || p->state != MODEL_RESTING || p->queue != queue)
            continue;
        if (p->unswept) { /* in the queue or not */
            latest = later_of(latest, p->own);
        } else {
            latest = later_of(latest, p->latest);
            earliest = later_of(earliest, p->earliest > m->now ? p->earliest : 0);
        }
    }
    page->state = MODEL_RESTING;
    page->queue = queue;
    page->own = own;
    page->earliest = earliest;
    page->latest = latest;
    page->unswept = page->free_at_sweep = false;
    page->rested_at = ++m->stamp;
    page->vague |= earliest != latest;
    if (latest <= m->now)
        make_free(m, page);
}

/* As a page of the lease's time ends: at once, or when its readers are done. */
static void retire_committed(struct model *m, struct model_page *p)
{
    if (leased(m, p))
        rest(m, p, MODEL_LEASE, lease_end(m, p));
    else
        make_free(m, p);
}

static void drain(struct model *m, enum model_queue queue)
{
    for (;;) {
        struct model_page *first = NULL;
        for (uint32_t i = 0; i < m->num_pages; i++) {
            struct model_page *p = &m->pages[i];
            if (p->state == MODEL_RESTING && p->queue == queue && p->latest <= m->now &&
                (first == NULL || p->rested_at < first->rested_at))
                first = p;
        }
        if (first == NULL)
            return;
        make_free(m, first);
    }
}

static void expire(struct model *m)
{
    for (;;) {
        struct model_page *first = NULL;
        for (uint32_t i = 0; i < m->num_pages; i++) {
            struct model_page *p = &m->pages[i];
            if (p->state == MODEL_RESERVED && p->reserved_until <= m->now &&
                (first == NULL || p->reserved_at < first->reserved_at))
                first = p;
        }
        if (first == NULL)
            return;
        m->totals.expired++;
        rest(m, first, MODEL_QUARANTINE, after(first->reserved_until, m->quarantine));
    }
}

static void advance(struct model *m, uint64_t now)
{
    m->now = later_of(m->now, now);
    drain(m, MODEL_QUARANTINE);
    expire(m);
    drain(m, MODEL_LEASE);
}

/* ---- Where pages come from ------------------------------------------------------------------ */

/* Whether a sweep at this moment must find the page FREE. */
static bool sweeps_to_free(const struct model *m, const struct model_page *page)
{
    if (page->state != MODEL_RESTING || !page->unswept)
        return false;
    if (page->free_at_sweep)
        return true;
    if (page->own > m->now)
        return false;
    for (uint32_t i = 0; i < m->num_pages; i++) {
        const struct model_page *p = &m->pages[i];
        if (p != page && p->state == MODEL_RESTING && p->queue == page->queue &&
            (p->unswept ? p->own : p->latest) > m->now)
            return false; /* it may have been put behind this one */
    }
    return true;
}

static bool may_be_free(const struct model *m, const struct model_page *p)
{
    return p->state == MODEL_FREE || (p->state == MODEL_RESTING && p->earliest <= m->now);
}

/* The catalog found nothing FREE and nothing to sweep, so whatever might have been FREE is not. */
static void all_are_swept(struct model *m)
{
    uint64_t latest[2] = {0, 0};
    for (uint32_t i = 0; i < m->num_pages; i++) {
        const struct model_page *p = &m->pages[i];
        if (p->state == MODEL_RESTING)
            latest[p->queue] = later_of(latest[p->queue], p->unswept ? p->own : p->latest);
    }
    for (uint32_t i = 0; i < m->num_pages; i++) {
        struct model_page *p = &m->pages[i];
        if (p->state != MODEL_RESTING)
            continue;
        if (p->unswept)
            p->latest = latest[p->queue];
        p->unswept = false;
        p->earliest = later_of(p->earliest, m->now + 1);
    }
}

static int take_free(struct model *m, int64_t chosen)
{
    int first = NONE;
    bool vague = false;
    for (uint32_t i = 0; i < m->num_pages; i++) {
        const struct model_page *p = &m->pages[i];
        vague |= p->vague && may_be_free(m, p);
        if (p->state == MODEL_FREE && (first == NONE || p->freed_at < m->pages[first].freed_at))
            first = (int)i;
    }
    if (!vague)
        return first;
    if (chosen >= 0 && chosen < m->num_pages && may_be_free(m, &m->pages[chosen]))
        return (int)chosen;
    if (first != NONE)
        return first;
    for (uint32_t i = 0; i < m->num_pages; i++)
        if (sweeps_to_free(m, &m->pages[i]))
            return (int)i;
    all_are_swept(m);
    return NONE;
}

/* *ret_half: the victim's other half, if it has become FREE. */
static int take_victim(struct model *m, const bool pinned[], int *ret_half)
{
    uint64_t limit = m->num_pages / 2 > 2 ? m->num_pages / 2 : 2;
    if (count(m, MODEL_RESERVED) >= limit)
        return NONE;
    int victim = NONE;
    for (uint32_t i = 0; i < m->num_pages; i++) {
        const struct model_page *p = &m->pages[i];
        if (p->state == MODEL_COMMITTED && !pinned[i] && !leased(m, p) &&
            (victim == NONE || p->used_at < m->pages[victim].used_at))
            victim = (int)i;
    }
    if (victim == NONE)
        return NONE;
    m->totals.evicted++;
    int half = find_half(m, &m->pages[victim].key);
    if (half != NONE && m->pages[half].state == MODEL_COMMITTED && !pinned[half]) {
        m->totals.evicted++;
        retire_committed(m, &m->pages[half]);
        if (m->pages[half].state == MODEL_FREE)
            *ret_half = half;
    }
    return victim;
}

/* Takes a page for a key and makes it RESERVED; its generation comes at the end of the call. *half
 * is the other half of a page evicted for this key's other half, or NONE; and then of this one's.
 */
static int take(struct model *m, const struct key *key, uint64_t owner, const bool pinned[],
                int64_t chosen, int *half)
{
    bool held = m->now < m->held_until;
    int page = *half != NONE ? *half : held ? NONE : take_free(m, chosen);
    *half = NONE;
    if (page == NONE && !(held && m->held_wholly))
        page = take_victim(m, pinned, half);
    if (page == NONE)
        return NONE;
    m->pages[page] = (struct model_page){
        .state = MODEL_RESERVED,
        .key = *key,
        .owner = owner,
        .reserved_until = after(m->now, m->reserve_ttl),
        .reserved_at = ++m->stamp,
    };
    return page;
}

/* ---- Reserve -------------------------------------------------------------------------------- */

static void refresh(struct model *m, const int pages[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int page = pages[m->eviction == KVS_EVICTION_PREFIX ? n - 1 - i : i];
        if (page != NONE)
            m->pages[page].used_at = ++m->stamp;
    }
}

static int first_of(const struct key keys[], size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (same_key(&keys[j], &keys[i]))
            return (int)j;
    return NONE;
}

struct reservation {
    int old;    /* the key's page at the start of the call */
    bool needs; /* a page of its own */
    bool decided;
    int page; /* taken for it */
};

/* The key's earlier page, which this kind of caller must not see, gives way to the new one. */
static void replace(struct model *m, const struct reservation *r)
{
    if (r->old != NONE)
        retire_committed(m, &m->pages[r->old]);
}

/* Pages for entry i and for its other half: both, or none and as if nothing had been tried. */
static bool take_pair(struct model *m, const struct key keys[], const size_t at[2], uint64_t owner,
                      const bool pinned[], const int64_t chosen[2], struct reservation r[])
{
    struct model before = *m;
    int half = NONE;
    int first = take(m, &keys[at[0]], owner, pinned, chosen[0], &half);
    int second = first == NONE ? NONE : take(m, &keys[at[1]], owner, pinned, chosen[1], &half);
    r[at[0]].page = second == NONE ? NONE : first;
    r[at[1]].page = second;
    if (second == NONE)
        *m = before;
    return second != NONE;
}

/* The catalog refused a pair that could have been had by evicting. With one page FREE it may be
 * refused all the same: that page counts as RESERVED when the other is to be evicted. */
static bool may_refuse_pair(const struct model *m, const struct key keys[], const size_t at[2],
                            uint64_t owner, const bool pinned[], const struct reservation r[])
{
    for (int64_t page = 0; page < m->num_pages; page++) {
        struct model trial = *m;
        struct reservation unused[MODEL_BATCH_MAX];
        memcpy(unused, r, sizeof(unused));
        if (may_be_free(m, &m->pages[page]) &&
            !take_pair(&trial, keys, at, owner, pinned, (const int64_t[2]){page, NONE}, unused))
            return true;
    }
    return false;
}

/* Takes a page for entry i and, where the other half needs one too, for that. */
static void take_for(struct model *m, const struct key keys[], size_t n, size_t i, uint64_t owner,
                     const bool pinned[], const struct catalog_reserved chosen[],
                     struct reservation r[])
{
    size_t other = n;
    for (size_t j = i + 1; j < n; j++)
        if (r[j].needs && halves(&keys[i], &keys[j]))
            other = j;
    r[i].decided = true;
    if (other == n) {
        r[i].page = take(m, &keys[i], owner, pinned, chosen[i].page, &(int){NONE});
    } else {
        const size_t at[2] = {i, other};
        struct model before = *m;
        r[other].decided = true;
        if (take_pair(m, keys, at, owner, pinned,
                      (const int64_t[2]){chosen[i].page, chosen[other].page}, r) &&
            chosen[i].page == NONE && chosen[other].page == NONE &&
            may_refuse_pair(&before, keys, at, owner, pinned, r)) {
            *m = before;
            r[i].page = r[other].page = NONE;
        }
    }
    if (r[i].page != NONE)
        replace(m, &r[i]);
    if (other < n && r[other].page != NONE)
        replace(m, &r[other]);
}

/* What each key has at the start of the call, and which pages no entry may evict. */
static void classify(const struct model *m, const struct key keys[], size_t n, bool verifying,
                     bool ret_pinned[], struct reservation ret_r[], int ret_present[])
{
    for (size_t i = 0; i < n; i++) {
        int page = find(m, &keys[i]);
        int half = find_half(m, &keys[i]);
        bool seen = page != NONE && visible(m, &m->pages[page], verifying);
        bool reserved = page != NONE && m->pages[page].state == MODEL_RESERVED;
        ret_r[i] = (struct reservation){.old = page, .page = NONE};
        ret_r[i].needs = !seen && !reserved && first_of(keys, i) == NONE;
        ret_present[i] = seen ? page : NONE;
        if (page != NONE)
            ret_pinned[page] = true;
        if (half != NONE)
            ret_pinned[half] = true;
    }
}

static struct catalog_reserved answer(const struct model *m, bool present, int page)
{
    if (page == NONE)
        return (struct catalog_reserved){.present = false, .page = NONE};
    return (struct catalog_reserved){
        .present = present, .page = page, .generation = m->pages[page].generation};
}

void model_reserve(struct model *m, uint64_t now, const struct key keys[], size_t n, bool verifying,
                   uint64_t owner, const struct catalog_reserved chosen[],
                   struct catalog_reserved ret_reserved[])
{
    bool pinned[MODEL_PAGES_MAX] = {false};
    struct reservation r[MODEL_BATCH_MAX];
    int present[MODEL_BATCH_MAX] = {0};

    advance(m, now);
    classify(m, keys, n, verifying, pinned, r, present);
    refresh(m, present, n);
    for (size_t i = 0; i < n; i++)
        if (r[i].needs && !r[i].decided)
            take_for(m, keys, n, i, owner, pinned, chosen, r);

    /* The head of a prefix gets the highest generation. Each key has one, used or not. */
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        any |= r[i].needs;
        if (r[i].page != NONE)
            m->pages[r[i].page].generation = m->next_generation + (n - 1 - i);
    }
    m->next_generation += any ? n : 0;

    for (size_t i = 0; i < n; i++) {
        int first = first_of(keys, i);
        if (first != NONE)
            ret_reserved[i] = answer(m, true, (int)ret_reserved[first].page);
        else if (r[i].needs)
            ret_reserved[i] = answer(m, false, r[i].page);
        else
            ret_reserved[i] = answer(m,
                                     m->pages[r[i].old].state == MODEL_COMMITTED || owner == 0 ||
                                         m->pages[r[i].old].owner != owner,
                                     r[i].old);
    }
}

/* ---- Confirm, release ----------------------------------------------------------------------- */

static enum catalog_rejection confirm_one(struct model *m, const struct catalog_confirm *e)
{
    if (e->page < 0 || e->page >= m->num_pages)
        return CATALOG_OUT_OF_RANGE;
    struct model_page *p = &m->pages[e->page];
    if (!holds_key(p))
        return CATALOG_NOT_RESERVED;
    if (!same_key(&p->key, &e->key))
        return CATALOG_OTHER_KEY;
    if (e->has_generation && e->generation != p->generation)
        return CATALOG_OTHER_GENERATION;
    if (p->state == MODEL_COMMITTED && p->has_checksum && e->has_checksum &&
        p->checksum != e->checksum)
        return CATALOG_OTHER_CHECKSUM;
    if (p->state == MODEL_RESERVED) {
        p->state = MODEL_COMMITTED;
        p->vague = p->has_checksum = false;
        p->leased_until = 0;
    }
    if (e->has_checksum) {
        p->has_checksum = true;
        p->checksum = e->checksum;
    }
    return CATALOG_ACCEPTED;
}

void model_confirm(struct model *m, uint64_t now, const struct catalog_confirm entries[], size_t n,
                   enum catalog_rejection ret_reasons[])
{
    advance(m, now);
    for (size_t i = 0; i < n; i++) {
        size_t at = m->eviction == KVS_EVICTION_PREFIX ? n - 1 - i : i;
        ret_reasons[at] = confirm_one(m, &entries[at]);
        if (ret_reasons[at] == CATALOG_ACCEPTED)
            m->pages[entries[at].page].used_at = ++m->stamp;
        else
            m->totals.rejected[ret_reasons[at]]++;
    }
}

static enum catalog_rejection release_one(struct model *m, const struct catalog_release *e)
{
    if (e->page < 0 || e->page >= m->num_pages)
        return CATALOG_OUT_OF_RANGE;
    struct model_page *p = &m->pages[e->page];
    if (!holds_key(p))
        return CATALOG_NOT_RESERVED;
    if (e->has_key && !same_key(&p->key, &e->key))
        return CATALOG_OTHER_KEY;
    if (e->has_generation && e->generation != p->generation)
        return CATALOG_OTHER_GENERATION;
    if (p->state == MODEL_COMMITTED)
        return CATALOG_HOLDS_KEY;
    rest(m, p, MODEL_QUARANTINE, after(m->now, m->quarantine));
    return CATALOG_ACCEPTED;
}

void model_release(struct model *m, uint64_t now, const struct catalog_release entries[], size_t n,
                   enum catalog_rejection ret_reasons[])
{
    advance(m, now);
    for (size_t i = 0; i < n; i++) {
        ret_reasons[i] = release_one(m, &entries[i]);
        m->totals.rejected[ret_reasons[i]] += ret_reasons[i] != CATALOG_ACCEPTED;
    }
}

/* ---- Looking up ----------------------------------------------------------------------------- */

void model_get(struct model *m, uint64_t now, const struct key keys[], size_t n, bool verifying,
               struct catalog_found ret_found[])
{
    int hits[MODEL_BATCH_MAX];
    advance(m, now);
    for (size_t i = 0; i < n; i++) {
        int page = find(m, &keys[i]);
        bool hit = page != NONE && visible(m, &m->pages[page], verifying);
        hits[i] = hit ? page : NONE;
        ret_found[i] = (struct catalog_found){.page = NONE};
        m->totals.hits += hit;
        m->totals.misses += !hit;
        if (!hit)
            continue;
        struct model_page *p = &m->pages[page];
        ret_found[i] = (struct catalog_found){.page = page,
                                              .has_checksum = p->has_checksum,
                                              .generation = p->generation,
                                              .checksum = p->has_checksum ? p->checksum : 0};
        if (!verifying)
            p->leased_until = later_of(p->leased_until, after(m->now, m->lease));
    }
    refresh(m, hits, n);
}

void model_exists(struct model *m, uint64_t now, const struct key keys[], size_t n, bool verifying,
                  bool ret_exists[])
{
    advance(m, now);
    for (size_t i = 0; i < n; i++) {
        int page = find(m, &keys[i]);
        ret_exists[i] = page != NONE && visible(m, &m->pages[page], verifying);
    }
}

/* ---- Delete, clear, mismatch ---------------------------------------------------------------- */

size_t model_delete(struct model *m, uint64_t now, const struct key keys[], size_t n)
{
    size_t deleted = 0;
    advance(m, now);
    for (size_t i = 0; i < n; i++) {
        int page = find(m, &keys[i]);
        if (page == NONE)
            continue;
        struct model_page *p = &m->pages[page];
        deleted += p->state == MODEL_COMMITTED;
        if (p->state == MODEL_COMMITTED)
            retire_committed(m, p);
        else
            rest(m, p, MODEL_QUARANTINE, after(p->reserved_until, m->quarantine));
    }
    m->totals.deleted += deleted;
    return deleted;
}

static void clear_page(struct model *m, struct model_page *p)
{
    bool writing = p->state == MODEL_RESERVED;
    p->free_at_sweep = !writing && !leased(m, p);
    p->queue = writing ? MODEL_QUARANTINE : MODEL_LEASE;
    p->own = writing ? after(p->reserved_until, m->quarantine) : lease_end(m, p);
    p->state = MODEL_RESTING;
    p->earliest = p->own;
    p->latest = UINT64_MAX;
    p->unswept = p->vague = true;
}

void model_clear(struct model *m, uint64_t now)
{
    advance(m, now);
    m->totals.clears++;
    m->floor = m->next_generation;
    for (uint32_t i = 0; i < m->num_pages; i++)
        if (holds_key(&m->pages[i]))
            clear_page(m, &m->pages[i]);
}

bool model_report_mismatch(struct model *m, uint64_t now, const struct key *key, int64_t page,
                           uint64_t generation)
{
    advance(m, now);
    if (page < 0 || page >= m->num_pages)
        return false;
    struct model_page *p = &m->pages[page];
    if (p->state != MODEL_COMMITTED || !same_key(&p->key, key) || p->generation != generation ||
        !p->has_checksum)
        return false;
    m->totals.mismatches++;
    retire_committed(m, p);
    return true;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static bool slot_alive(const struct slot *slot, uint32_t page, uint64_t floor)
{
    return slot_intact(slot, page) &&
           (slot_state(slot) == SLOT_RESERVED || slot_state(slot) == SLOT_COMMITTED) &&
           slot->generation >= floor;
}

/* A page without a checksum does not outlive a power cut: its bytes may not have reached the disk.
 * A reservation does not outlive a process that was its only writer. */
static bool dropped(const struct catalog_options *o, uint32_t page)
{
    if (slot_state(&o->slots[page]) == SLOT_RESERVED && !o->foreign_writers)
        return true;
    return o->origin == CATALOG_POWER_LOST && slot_state(&o->slots[page]) == SLOT_COMMITTED &&
           !slot_has_checksum(&o->slots[page]);
}

/* Another slot claims the same key with a higher generation. */
static bool outlived(const struct catalog_options *o, uint32_t page)
{
    const struct slot *mine = &o->slots[page];
    for (uint32_t i = 0; i < o->num_pages; i++) {
        const struct slot *slot = &o->slots[i];
        if (i != page && slot_alive(slot, i, o->state->floor) && !dropped(o, i) &&
            memcmp(slot->digest, mine->digest, sizeof(slot->digest)) == 0 &&
            slot_suffix(slot) == slot_suffix(mine) && slot->generation > mine->generation)
            return true;
    }
    return false;
}

/* A page that somebody from before the restart may be writing or reading still. */
static void rest_again(struct model *m, struct model_page *p)
{
    p->state = MODEL_RESTING;
    p->queue = MODEL_QUARANTINE;
    p->own = p->earliest = p->latest = m->rests_until;
    p->vague = true;
    p->rested_at = ++m->stamp;
    if (p->latest <= m->now)
        make_free(m, p);
}

static void read_alive(struct model *m, const struct slot *slot, struct model_page *p)
{
    memcpy(p->key.digest, slot->digest, sizeof(slot->digest));
    p->key.suffix = slot_suffix(slot);
    p->generation = slot->generation;
    p->used_at = slot->generation;
    if (slot_state(slot) == SLOT_RESERVED) {
        p->state = MODEL_RESERVED;
        p->owner = slot->value;
        p->reserved_until = after(m->now, m->reserve_ttl);
        p->reserved_at = ++m->stamp;
    } else {
        p->state = MODEL_COMMITTED;
        p->vague = false;
        p->has_checksum = slot_has_checksum(slot);
        p->checksum = p->has_checksum ? slot->value : 0;
    }
}

static void read_slot(struct model *m, const struct catalog_options *o, uint32_t page)
{
    const struct slot *slot = &o->slots[page];
    struct model_page *p = &m->pages[page];
    *p = (struct model_page){.state = MODEL_FREE, .vague = true, .freed_at = ++m->stamp};
    if (!slot_intact(slot, page)) {
        rest_again(m, p);
    } else if (slot_alive(slot, page, o->state->floor)) {
        if (dropped(o, page) || outlived(o, page))
            rest_again(m, p);
        else
            read_alive(m, slot, p);
    } else if (slot_state(slot) == SLOT_COMMITTED) { /* cleared before */
        p->generation = slot->generation;
        p->state = MODEL_COMMITTED;
        clear_page(m, p);
    } else if (slot_state(slot) != SLOT_FREE) {
        rest_again(m, p);
    }
}

static void read_slots(struct model *m, const struct catalog_options *o)
{
    m->floor = o->state->floor;
    m->verify_below = o->state->verify_below;
    m->next_generation = later_of(m->next_generation, o->state->next_generation);
    for (uint32_t i = 0; i < m->num_pages; i++)
        if (slot_intact(&o->slots[i], i))
            m->next_generation = later_of(m->next_generation, o->slots[i].generation + 1);
    if (o->origin == CATALOG_POWER_LOST)
        m->verify_below = m->next_generation;
    if (o->foreign_writers) {
        m->relet_below = m->next_generation;
        m->relet_until = after(m->now, m->lease);
        if (o->origin != CATALOG_CLEAN)
            m->held_until =
                later_of(after(after(m->now, m->reserve_ttl), m->quarantine), m->relet_until);
        m->held_wholly = o->origin == CATALOG_POWER_LOST;
    }
    m->rests_until = later_of(after(m->now, m->quarantine), m->relet_until);
    if (o->foreign_writers)
        m->rests_until =
            later_of(after(after(m->now, m->reserve_ttl), m->quarantine), m->relet_until);
    m->stamp = later_of(m->stamp, m->next_generation); /* behind every used_at */
    for (uint32_t i = 0; i < m->num_pages; i++)
        read_slot(m, o, i);
    for (uint32_t i = 0; i < o->recency_count; i++)
        m->pages[o->recency[i]].used_at = ++m->stamp;
}

void model_open(struct model *m, const struct catalog_options *o, uint64_t now)
{
    *m = (struct model){
        .num_pages = o->num_pages,
        .eviction = o->eviction,
        .reserve_ttl = o->reserve_ttl_ms,
        .quarantine = o->quarantine_ms,
        .lease = o->lease_ms,
        .now = now,
        .next_generation = o->wall_us,
    };
    for (uint32_t i = 0; i < m->num_pages; i++)
        m->pages[i] = (struct model_page){.state = MODEL_FREE, .freed_at = ++m->stamp};
    if (o->slots != NULL && o->origin != CATALOG_NEW)
        read_slots(m, o);
}

/* ---- Judging -------------------------------------------------------------------------------- */

uint32_t model_recency(const struct model *m, uint32_t ret_pages[])
{
    uint32_t n = 0;
    uint64_t last = 0;
    for (;;) {
        int next = NONE;
        for (uint32_t i = 0; i < m->num_pages; i++) {
            const struct model_page *p = &m->pages[i];
            if (p->state == MODEL_COMMITTED && p->used_at > last &&
                (next == NONE || p->used_at < m->pages[next].used_at))
                next = (int)i;
        }
        if (next == NONE)
            return n;
        last = m->pages[next].used_at;
        ret_pages[n++] = (uint32_t)next;
    }
}

const char *model_judge_counts(struct model *m, uint64_t now, const struct catalog_counts *counts)
{
    advance(m, now);
    if (counts->reserved != count(m, MODEL_RESERVED))
        return "the count of RESERVED pages is wrong";
    if (counts->committed != count(m, MODEL_COMMITTED))
        return "the count of COMMITTED pages is wrong";
    if (counts->free + counts->reserved + counts->committed + counts->retired != m->num_pages)
        return "the counts do not add up to num_pages";
    uint64_t least = count(m, MODEL_FREE), most = 0;
    for (uint32_t i = 0; i < m->num_pages; i++)
        most += may_be_free(m, &m->pages[i]);
    if (counts->free < least)
        return "pages whose rest is over are not FREE";
    if (counts->free > most)
        return "pages that must rest are FREE";
    return NULL;
}

const char *model_judge_quiet(struct model *m, uint64_t now, bool quiet)
{
    advance(m, now);
    bool alive = count(m, MODEL_RESERVED) > 0 || m->now < m->held_until;
    bool perhaps = m->now < m->relet_until;
    for (uint32_t i = 0; i < m->num_pages; i++) {
        const struct model_page *p = &m->pages[i];
        alive |= p->state == MODEL_RESTING && p->earliest > m->now;
        perhaps |= p->state == MODEL_RESTING && !sweeps_to_free(m, p);
        alive |= p->state == MODEL_COMMITTED && leased(m, p);
    }
    if (quiet && alive)
        return "quiet although a reservation, a resting page or a lease is alive";
    if (!quiet && !alive && !perhaps)
        return "not quiet although no reservation, resting page or lease is alive";
    return NULL;
}

const char *model_judge_slot(const struct model *m, uint32_t page, const struct slot *slot)
{
    const struct model_page *p = &m->pages[page];
    if (!slot_intact(slot, page))
        return "the slot is not intact";
    bool alive = slot_alive(slot, page, m->floor);
    if (!holds_key(p)) {
        if (alive)
            return "the slot holds a key although the page is FREE or RETIRED";
        if (p->state == MODEL_RESTING && p->earliest > m->now && slot_state(slot) == SLOT_FREE)
            return "the slot says FREE although the page must rest";
        return NULL;
    }
    if (!alive)
        return "the slot does not hold the page's key";
    if (memcmp(slot->digest, p->key.digest, sizeof(slot->digest)) != 0 ||
        slot_suffix(slot) != p->key.suffix)
        return "the slot holds another key";
    if (slot->generation != p->generation)
        return "the slot has another generation";
    if ((slot_state(slot) == SLOT_COMMITTED) != (p->state == MODEL_COMMITTED))
        return "the slot has another state";
    if (p->state == MODEL_RESERVED)
        return slot->value == p->owner ? NULL : "the slot has another owner";
    if (slot_has_checksum(slot) != p->has_checksum)
        return "the slot disagrees about having a checksum";
    if (p->has_checksum && slot->value != p->checksum)
        return "the slot has another checksum";
    return NULL;
}

const char *model_judge_totals(const struct model *m, const struct catalog_totals *totals)
{
    const struct catalog_totals *t = &m->totals;
    if (totals->hits != t->hits || totals->misses != t->misses)
        return "hits or misses are counted wrongly";
    if (totals->evicted != t->evicted)
        return "evicted pages are counted wrongly";
    if (totals->expired != t->expired)
        return "expired reservations are counted wrongly";
    if (totals->deleted != t->deleted || totals->clears != t->clears)
        return "deletes or clears are counted wrongly";
    if (totals->mismatches != t->mismatches)
        return "mismatches are counted wrongly";
    for (int i = CATALOG_ACCEPTED + 1; i < CATALOG_REJECTIONS; i++)
        if (totals->rejected[i] != t->rejected[i])
            return "rejections are counted wrongly";
    return NULL;
}
