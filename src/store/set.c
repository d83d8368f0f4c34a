/* batch_set: reserve, write, then confirm what was written in full and release what was not.
 *
 * While the write breaker is open nothing is reserved, because a reservation in a full catalog
 * evicts a good page: what is there already is answered true, the rest false. A probe reserves one
 * page. I/O that has outlived the call keeps its page reserved: it may still be writing, so the
 * reservation is left to expire into quarantine. */
#include "store/store.h"

/* Until something is known of a key its outcome is this. */
static const enum store_stat PENDING = STAT_UNSTORED_NO_PAGE;

/* ---- Reserving ------------------------------------------------------------------------------ */

static void take_reserved(struct kvs_store *store, const struct pool *pool, struct chunk *chunk,
                          size_t i)
{
    const struct catalog_reserved *reserved = &chunk->reserved[i];
    struct chunk_key *key = &chunk->key[chunk->from[i]];
    if (reserved->page >= 0 && (uint64_t)reserved->page >= pool->num_pages) {
        stats_add(&store->stats, STAT_METADATA_ERRORS, 1);
        key->outcome = STAT_UNSTORED_METADATA;
        return;
    }
    key->index = reserved->page;
    key->generation = reserved->generation;
    if (reserved->present)
        key->outcome = STAT_PRESENT;
    else
        key->moves = reserved->page >= 0;
}

/* A half whose other half got no page is given back unwritten. */
static void give_up_halves(struct chunk *chunk)
{
    for (size_t i = 0; chunk->halves == 2 && i < chunk->pages; i++) {
        struct chunk_key *key = &chunk->key[i * 2];
        for (size_t half = 0; half < 2; half++) {
            const struct chunk_key *other = &key[1 - half];
            if (key[half].moves && !other->moves && !stat_is_stored(other->outcome)) {
                key[half].moves = false;
                key[half].held = true;
                key[half].outcome = other->outcome;
            }
        }
    }
}

static bool reserve(struct kvs_store *store, struct pool *pool, struct chunk *chunk)
{
    size_t n = chunk_list(chunk, PENDING);
    if (n == 0)
        return false;
    if (!pool_index_reserve(store, pool, &chunk->time, chunk->texts, n, chunk->reserved)) {
        chunk_turn_listed(chunk, n, STAT_UNSTORED_METADATA);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        take_reserved(store, pool, chunk, i);
    give_up_halves(chunk);
    return true;
}

/* ---- Confirming ----------------------------------------------------------------------------- */

/* Both halves of a page are kept, or neither is. */
static void spoil_halves(struct chunk *chunk)
{
    for (size_t i = 0; chunk->halves == 2 && i < chunk->pages; i++) {
        struct chunk_key *key = &chunk->key[i * 2];
        for (size_t half = 0; half < 2; half++)
            if (key[half].outcome == STAT_WRITTEN && !stat_is_stored(key[1 - half].outcome))
                key[half].outcome = key[1 - half].outcome;
    }
}

static void confirm(struct kvs_store *store, struct pool *pool, struct chunk *chunk)
{
    size_t confirms = 0, releases = 0;
    for (size_t k = 0; k < chunk->keys; k++) {
        struct chunk_key *key = &chunk->key[k];
        if (key->moves && key->outcome == STAT_WRITTEN) {
            chunk->from[confirms] = (uint32_t)k;
            chunk->confirms[confirms++] =
                (struct metadata_confirm){key->text, key->index, key->generation, key->checksum};
        } else if ((key->moves && !key->stuck) || key->held) {
            chunk->releases[releases++] =
                (struct metadata_release){key->text, key->index, key->generation};
        }
    }
    if (confirms + releases == 0)
        return;
    if (!pool_index_confirm(store, pool, &chunk->time, chunk->confirms, confirms, chunk->releases,
                            releases, chunk->reasons)) {
        chunk_turn_listed(chunk, confirms, STAT_UNSTORED_METADATA);
        return;
    }
    for (size_t i = 0; i < confirms; i++)
        if (chunk->reasons[i] != CATALOG_ACCEPTED)
            chunk->key[chunk->from[i]].outcome = STAT_UNSTORED_REJECTED;
}

/* A key repeated in a batch was answered "present" because its first occurrence is being written:
 * what became of that one is the answer for both. */
static void follow_own_writes(struct chunk *chunk)
{
    for (size_t k = 0; k < chunk->keys; k++) {
        const struct chunk_key *failed = &chunk->key[k];
        if ((!failed->moves && !failed->held) || failed->outcome == STAT_WRITTEN)
            continue;
        for (size_t j = 0; j < chunk->keys; j++) {
            struct chunk_key *key = &chunk->key[j];
            if (key->outcome == STAT_PRESENT && key->index == failed->index)
                key->outcome = failed->outcome;
        }
    }
}

static void write_pending(struct kvs_store *store, struct pool *pool, struct chunk *chunk,
                          uint64_t deadline_ns)
{
    for (size_t k = 0; k < chunk->keys; k++)
        chunk->key[k].moves = chunk->key[k].held = false;
    if (!reserve(store, pool, chunk))
        return;
    pool_transfer(store, pool, chunk, PAGE_WRITE, false, deadline_ns);
    spoil_halves(chunk);
    confirm(store, pool, chunk);
    follow_own_writes(chunk);
}

/* ---- While the breaker is open -------------------------------------------------------------- */

/* Answers pages that are present, and refuses the others but for one that `probe` leaves pending.
 */
static void answer_present(struct kvs_store *store, struct pool *pool, struct chunk *chunk,
                           bool probe)
{
    size_t n = chunk_list(chunk, PENDING);
    if (n > 0 && !pool_index_exists(store, pool, &chunk->time, chunk->texts, n, chunk->exists)) {
        chunk_turn_listed(chunk, n, STAT_UNSTORED_METADATA);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (chunk->exists[i])
            chunk->key[chunk->from[i]].outcome = STAT_PRESENT;
    size_t probed = SIZE_MAX;
    for (size_t k = 0; k < chunk->keys; k++) {
        struct chunk_key *key = &chunk->key[k];
        if (key->outcome != PENDING)
            continue;
        if (probe && probed == SIZE_MAX)
            probed = key->page;
        if (key->page != probed) {
            key->outcome = STAT_UNSTORED_REFUSED;
            key->waiting = true;
        }
    }
}

static void probe(struct kvs_store *store, struct pool *pool, struct chunk *chunk,
                  uint64_t deadline_ns)
{
    answer_present(store, pool, chunk, true);
    uint64_t tried = chunk->transfers;
    write_pending(store, pool, chunk, deadline_ns);
    if (chunk->transfers == tried) {
        breaker_cancel(&store->write_breaker);
        return;
    }
    if (!breaker_closed(&store->write_breaker))
        return;
    for (size_t k = 0; k < chunk->keys; k++)
        if (chunk->key[k].waiting)
            chunk->key[k].outcome = PENDING;
    write_pending(store, pool, chunk, deadline_ns);
}

/* ---- The call ------------------------------------------------------------------------------- */

static void set_chunk(struct kvs_store *store, struct pool *pool, struct chunk *chunk,
                      uint64_t deadline_ns)
{
    switch (breaker_ask(&store->write_breaker, store_now_ns(store))) {
    case BREAKER_ALLOWS:
        write_pending(store, pool, chunk, deadline_ns);
        break;
    case BREAKER_PROBES:
        probe(store, pool, chunk, deadline_ns);
        break;
    case BREAKER_REFUSES:
        answer_present(store, pool, chunk, false);
        break;
    }
    chunk_fold(chunk);
}

static void set_all(struct kvs_store *store, struct pool *pool, struct chunk *chunk, size_t step,
                    size_t n, const char *const keys[], const void *const buffers[],
                    bool ret_stored[])
{
    uint64_t deadline_ns = store_deadline_ns(store, pool);
    pool_check_sometimes(store, pool);
    for (size_t at = 0; at < n; at += step) {
        size_t pages = n - at < step ? n - at : step;
        chunk_load(chunk, keys + at, (void *const *)(buffers + at * chunk->halves), pages, PENDING,
                   STAT_UNSTORED_REFUSED);
        set_chunk(store, pool, chunk, deadline_ns);
        for (size_t i = 0; i < pages; i++) {
            ret_stored[at + i] =
                stat_is_stored(chunk->outcomes[i]) && !atomic_load(&store->poisoned);
            stats_add(&store->stats, chunk->outcomes[i], 1);
        }
    }
}

void kvs_store_batch_set(struct kvs_store *store, uint32_t number, size_t n,
                         const char *const keys[], const void *const buffers[], bool ret_stored[])
{
    struct pool *pool = pool_find(store, number);
    for (size_t i = 0; i < n; i++)
        ret_stored[i] = false;
    if (n == 0)
        return;
    bool refused = store->config.options.inspect && !store->parts.stores_inspecting;
    if (pool == NULL || refused || !store_enter(store)) {
        stats_add(&store->stats, STAT_UNSTORED_REFUSED, n);
        return;
    }
    if (!pool->writes) {
        for (size_t i = 0; i < n; i++)
            ret_stored[i] = true;
        stats_add(&store->stats, STAT_SKIPPED, n);
        store_leave(store);
        return;
    }
    size_t step = chunk_pages(store, pool, true);
    struct chunk chunk;
    if (chunk_init(&chunk, pool, n < step ? n : step, store_index_time(store, false))) {
        set_all(store, pool, &chunk, step, n, keys, buffers, ret_stored);
        chunk_done(&chunk);
    } else {
        stats_add(&store->stats, STAT_UNSTORED_REFUSED, n);
    }
    store_leave(store);
}
