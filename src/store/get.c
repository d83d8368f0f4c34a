/* batch_get: ask the index, read the hits, verify, else miss.
 *
 * Only keys that the index has reach the engine. Bytes of another checksum are either those of
 * another key, because the page was handed out again while it was read (the index then says another
 * generation), or damage: a page is called damaged after two reads, the second from the storage
 * itself, in one life of the page. Only damage is reported. */
#include "store/store.h"

#include <inttypes.h>

/* Until something is known of a key its outcome is this. */
static const enum store_stat PENDING = STAT_MISSED_ABSENT;

static bool in_file(struct kvs_store *store, const struct pool *pool, int64_t page)
{
    if ((uint64_t)page < pool->num_pages)
        return true;
    stats_add(&store->stats, STAT_METADATA_ERRORS, 1);
    if (limiter_take(&store->metadata_lines, store_now_ns(store), 1) == 1)
        log_line(&store->log, KVS_LOG_WARNING,
                 "The index names page %" PRId64 " of pool '%s', but %s is told to hold %" PRIu64
                 ": file_size or the page size is not that of who stored it. It is a miss.",
                 page, pool_label(pool), pool->path, pool->num_pages);
    return false;
}

static void take_found(struct kvs_store *store, struct pool *pool, struct chunk *chunk, size_t i)
{
    const struct catalog_found *found = &chunk->found[i];
    struct chunk_key *key = &chunk->key[chunk->from[i]];
    bool usable = found->has_checksum || store->config.options.verify == KVS_VERIFY_IF_KNOWN;
    key->outcome = PENDING;
    key->moves = false;
    if (found->page < 0 || !usable)
        return;
    if (!in_file(store, pool, found->page)) {
        key->outcome = STAT_MISSED_METADATA;
        return;
    }
    key->moves = true;
    key->index = found->page;
    key->generation = found->generation;
    key->checksum = found->checksum;
    key->has_checksum = found->has_checksum;
}

/* Half a page is of no use: it is not read. Counts what is. */
static uint64_t keep_whole_pages(struct chunk *chunk)
{
    uint64_t hits = 0;
    for (size_t i = 0; i < chunk->pages; i++) {
        struct chunk_key *key = &chunk->key[i * chunk->halves];
        bool whole = key[0].moves && (chunk->halves == 1 || key[1].moves);
        for (size_t half = 0; half < chunk->halves; half++)
            key[half].moves = whole;
        hits += whole;
    }
    return hits;
}

static void find(struct kvs_store *store, struct pool *pool, struct chunk *chunk)
{
    size_t n = chunk_list(chunk, PENDING);
    if (n == 0)
        return;
    if (!pool_index_get(store, pool, &chunk->time, chunk->texts, n, chunk->found)) {
        chunk_turn_listed(chunk, n, STAT_MISSED_METADATA);
        return;
    }
    for (size_t i = 0; i < n; i++)
        take_found(store, pool, chunk, i);
}

/* ---- Reading, if the breaker lets it -------------------------------------------------------- */

/* Puts every moving page but the first one (if `keep_first`) aside as refused. */
static void hold(struct chunk *chunk, bool keep_first)
{
    bool kept = !keep_first;
    size_t kept_page = SIZE_MAX;
    for (size_t k = 0; k < chunk->keys; k++) {
        struct chunk_key *key = &chunk->key[k];
        if (!key->moves)
            continue;
        if (!kept || key->page == kept_page) {
            kept = true;
            kept_page = key->page;
            continue;
        }
        key->moves = false;
        key->held = true;
        key->outcome = STAT_MISSED_REFUSED;
    }
}

static void read_pages(struct kvs_store *store, struct pool *pool, struct chunk *chunk,
                       bool uncached, uint64_t deadline_ns)
{
    enum breaker_answer answer = breaker_ask(&store->read_breaker, store_now_ns(store));
    if (answer != BREAKER_ALLOWS)
        hold(chunk, answer == BREAKER_PROBES);
    if (answer == BREAKER_REFUSES)
        return;
    pool_transfer(store, pool, chunk, PAGE_READ, uncached, deadline_ns);
    if (answer != BREAKER_PROBES || !breaker_closed(&store->read_breaker))
        return;
    for (size_t k = 0; k < chunk->keys; k++)
        chunk->key[k].moves = chunk->key[k].held;
    pool_transfer(store, pool, chunk, PAGE_READ, uncached, deadline_ns);
}

/* ---- Other bytes than expected -------------------------------------------------------------- */

/* Asks the index again about the keys listed, which did not verify. */
static bool ask_again(struct kvs_store *store, struct pool *pool, struct chunk *chunk, size_t n)
{
    if (pool_index_get(store, pool, &chunk->time, chunk->texts, n, chunk->found))
        return true;
    chunk_turn_listed(chunk, n, STAT_MISSED_METADATA);
    return false;
}

static bool same_life(const struct chunk_key *key, const struct catalog_found *found)
{
    return found->page == key->index && found->generation == key->generation;
}

static void read_again(struct kvs_store *store, struct pool *pool, struct chunk *chunk, size_t n,
                       uint64_t deadline_ns)
{
    for (size_t k = 0; k < chunk->keys; k++)
        chunk->key[k].moves = chunk->key[k].held = false;
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        struct chunk_key *key = &chunk->key[chunk->from[i]];
        bool replaced = !same_life(key, &chunk->found[i]);
        take_found(store, pool, chunk, i);
        key->replaced = replaced;
        if (key->outcome == PENDING && !key->moves)
            key->outcome = STAT_MISSED_REPLACED;
        any = any || key->moves;
    }
    if (any)
        read_pages(store, pool, chunk, true, deadline_ns);
}

static void log_damage(struct kvs_store *store, const struct pool *pool, const struct chunk *chunk,
                       size_t damaged)
{
    log_line(&store->log, KVS_LOG_WARNING,
             "Pages of pool '%s' in %s hold other bytes than were confirmed, read twice: %zu, the "
             "first is page %" PRId64 ". They are misses and are %s.",
             pool_label(pool), pool->path, damaged, chunk->releases[0].page,
             store->config.options.inspect ? "left as they are" : "dropped");
}

/* Who only inspects may have opened the wrong file: the index is not told. */
static void report_damage(struct kvs_store *store, struct pool *pool, struct chunk *chunk, size_t n)
{
    uint64_t now_ns = store_now_ns(store);
    size_t damaged = 0;
    for (size_t i = 0; i < n; i++) {
        struct chunk_key *key = &chunk->key[chunk->from[i]];
        if (key->replaced || !same_life(key, &chunk->found[i])) {
            key->outcome = STAT_MISSED_REPLACED;
            continue;
        }
        chunk->releases[damaged++] =
            (struct metadata_release){key->text, key->index, key->generation};
    }
    if (damaged == 0)
        return;
    stats_add(&store->stats, STAT_CHECKSUM_MISMATCHES, damaged);
    if (limiter_take(&store->mismatch_lines, now_ns, 1) == 1)
        log_damage(store, pool, chunk, damaged);
    if (store->config.options.inspect)
        return;
    size_t reported = (size_t)limiter_take(&pool->mismatch_reports, now_ns, damaged);
    if (reported > 0 &&
        pool_index_report_mismatch(store, pool, &chunk->time, chunk->releases, reported))
        stats_add(&store->stats, STAT_MISMATCHES_REPORTED, reported);
    pool_check_file(store, pool);
}

/* K and V of one confirmed page, never K of one and V of the next: where a half did not verify,
 * what the other one is now is asked in the same question. */
static void doubt_other_halves(struct chunk *chunk)
{
    for (size_t i = 0; chunk->halves == 2 && i < chunk->pages; i++) {
        struct chunk_key *key = &chunk->key[i * 2];
        for (size_t half = 0; half < 2; half++)
            if (key[half].outcome == STAT_MISSED_MISMATCH && key[1 - half].outcome == STAT_LOADED)
                key[1 - half].outcome = STAT_MISSED_MISMATCH;
    }
}

static void resolve_mismatches(struct kvs_store *store, struct pool *pool, struct chunk *chunk,
                               uint64_t deadline_ns)
{
    doubt_other_halves(chunk);
    size_t n = chunk_list(chunk, STAT_MISSED_MISMATCH);
    if (n == 0 || !ask_again(store, pool, chunk, n))
        return;
    read_again(store, pool, chunk, n, deadline_ns);
    n = chunk_list(chunk, STAT_MISSED_MISMATCH);
    if (n > 0 && ask_again(store, pool, chunk, n))
        report_damage(store, pool, chunk, n);
}

/* ---- The call ------------------------------------------------------------------------------- */

static void get_chunk(struct kvs_store *store, struct pool *pool, struct chunk *chunk,
                      uint64_t deadline_ns)
{
    find(store, pool, chunk);
    uint64_t hits = keep_whole_pages(chunk);
    if (hits > 0) {
        stats_add(&store->stats, STAT_HIT, hits);
        read_pages(store, pool, chunk, false, deadline_ns);
        resolve_mismatches(store, pool, chunk, deadline_ns);
    }
    chunk_fold(chunk);
}

static void get_all(struct kvs_store *store, struct pool *pool, struct chunk *chunk, size_t step,
                    size_t n, const char *const keys[], void *const buffers[], bool ret_loaded[])
{
    uint64_t deadline_ns = store_deadline_ns(store, pool);
    pool_check_sometimes(store, pool);
    for (size_t at = 0; at < n; at += step) {
        size_t pages = n - at < step ? n - at : step;
        chunk_load(chunk, keys + at, buffers + at * chunk->halves, pages, PENDING,
                   STAT_MISSED_REFUSED);
        get_chunk(store, pool, chunk, deadline_ns);
        for (size_t i = 0; i < pages; i++) {
            ret_loaded[at + i] =
                stat_is_loaded(chunk->outcomes[i]) && !atomic_load(&store->poisoned);
            stats_add(&store->stats, chunk->outcomes[i], 1);
        }
    }
}

void kvs_store_batch_get(struct kvs_store *store, uint32_t number, size_t n,
                         const char *const keys[], void *const buffers[], bool ret_loaded[])
{
    for (size_t i = 0; i < n; i++)
        ret_loaded[i] = false;
    struct pool *pool = pool_find(store, number);
    if (n == 0)
        return;
    if (pool == NULL || !store_enter(store)) {
        stats_add(&store->stats, STAT_MISSED_REFUSED, n);
        return;
    }
    size_t step = chunk_pages(store, pool, true);
    struct chunk chunk;
    if (chunk_init(&chunk, pool, n < step ? n : step, store_index_time(store, false))) {
        get_all(store, pool, &chunk, step, n, keys, buffers, ret_loaded);
        chunk_done(&chunk);
    } else {
        stats_add(&store->stats, STAT_MISSED_REFUSED, n);
    }
    store_leave(store);
}
