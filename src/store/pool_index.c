/* Calls to the index: the breaker's leave before, what came of it after, one line a while in the
 * log. A server that was restarted without its catalogs answers "not initialized"; the namespace is
 * then initialized again and the call made once more. */
#include "store/store.h"

#include <inttypes.h>

enum kvs_status pool_index_initialize(struct kvs_store *store, const struct pool *pool,
                                      struct kvs_error *error)
{
    return store->metadata->ops->initialize(store->metadata, &pool->scope, pool->num_pages, error);
}

enum kvs_status pool_index_check(struct kvs_store *store, const struct pool *pool,
                                 struct kvs_error *error)
{
    struct kvs_error failure = {0};
    enum kvs_status status =
        store->metadata->ops->exists(store->metadata, &pool->scope, NULL, 0, NULL, &failure);
    if (status != KVS_ERR_GEOMETRY_DIFFERS && status != KVS_ERR_FINGERPRINT_DIFFERS)
        return KVS_OK; /* what else there is to say initialize will say */
    if (error != NULL)
        *error = failure;
    return status;
}

static bool forgotten(enum kvs_status status)
{
    return status == KVS_ERR_NOT_INITIALIZED || status == KVS_ERR_NOT_INITIALIZED_SERVER;
}

/* One call: `while (attempt_next(&attempt)) attempt.status = ...;` */
struct attempt {
    struct kvs_store *store;
    const struct pool *pool;
    bool second_half; /* of what a call before it began: made even while the breaker is open */
    bool quick;       /* its deadline is a short one */
    uint32_t made;
    bool answered;
    enum kvs_status status;
    struct kvs_error error;
};

static void report(struct attempt *attempt)
{
    struct kvs_store *store = attempt->store;
    uint64_t now_ns = store_now_ns(store);
    attempt->answered = attempt->status == KVS_OK;
    /* Without waiting for more: no call finds a connection now, or each waits for its deadline. The
     * short deadline of `exists` may pass on a busy machine. */
    bool at_once = attempt->status == KVS_ERR_REMOTE_UNREACHABLE ||
                   (attempt->status == KVS_ERR_REMOTE_DEADLINE && !attempt->quick);
    bool tripped = breaker_report(&store->metadata_breaker, now_ns, attempt->answered ? 1 : 0,
                                  attempt->answered ? 0 : 1, at_once);
    if (attempt->answered)
        return;
    stats_add(&store->stats, STAT_METADATA_ERRORS, 1);
    if (limiter_take(&store->metadata_lines, now_ns, 1) == 1)
        log_line(
            &store->log, KVS_LOG_WARNING,
            "The index of namespace '%s' did not answer; its pages count as misses and are not "
            "stored: %s",
            attempt->pool->ns, attempt->error.message);
    if (tripped && limiter_take(&store->metadata_trip_lines, now_ns, 1) == 1)
        log_line(&store->log, KVS_LOG_WARNING,
                 "The index failed repeatedly: it is left alone for %" PRIu64
                 " ms, during which every page is a miss.",
                 breaker_pause_ms(&store->metadata_breaker));
}

/* The breaker's leave. A probe is a question about no keys: it costs the index nothing, and whoever
 * makes it no more than the short deadline. */
static bool allowed(struct attempt *attempt)
{
    struct kvs_store *store = attempt->store;
    if (attempt->second_half)
        return true;
    switch (breaker_ask(&store->metadata_breaker, store_now_ns(store))) {
    case BREAKER_ALLOWS:
        return true;
    case BREAKER_PROBES:
        attempt->status = store->metadata->ops->exists(store->metadata, &attempt->pool->scope, NULL,
                                                       0, NULL, &attempt->error);
        if (attempt->status == KVS_OK || forgotten(attempt->status)) {
            breaker_report(&store->metadata_breaker, store_now_ns(store), 1, 0, false);
            return true;
        }
        report(attempt);
        return false;
    case BREAKER_REFUSES:
        break;
    }
    return false;
}

static bool attempt_next(struct attempt *attempt)
{
    struct kvs_store *store = attempt->store;
    if (attempt->made == 0) {
        attempt->made = allowed(attempt) ? 1 : 0;
        return attempt->made == 1;
    }
    if (attempt->made == 1 && forgotten(attempt->status) &&
        pool_index_initialize(store, attempt->pool, &attempt->error) == KVS_OK) {
        attempt->made = 2;
        return true;
    }
    report(attempt);
    return false;
}

bool pool_index_reserve(struct kvs_store *store, const struct pool *pool,
                        const struct metadata_text keys[], size_t n,
                        struct catalog_reserved ret_reserved[])
{
    struct attempt attempt = {.store = store, .pool = pool};
    while (attempt_next(&attempt))
        attempt.status = store->metadata->ops->reserve_and_allocate_page_indices(
            store->metadata, &pool->scope, keys, n, ret_reserved, &attempt.error);
    return attempt.answered;
}

bool pool_index_confirm(struct kvs_store *store, const struct pool *pool,
                        const struct metadata_confirm confirms[], size_t n_confirm,
                        const struct metadata_release releases[], size_t n_release,
                        enum catalog_rejection ret_reasons[])
{
    struct attempt attempt = {.store = store, .pool = pool, .second_half = true};
    while (attempt_next(&attempt))
        attempt.status =
            store->metadata->ops->confirm_write(store->metadata, &pool->scope, confirms, n_confirm,
                                                releases, n_release, ret_reasons, &attempt.error);
    return attempt.answered;
}

bool pool_index_get(struct kvs_store *store, const struct pool *pool,
                    const struct metadata_text keys[], size_t n, struct catalog_found ret_found[])
{
    struct attempt attempt = {.store = store, .pool = pool};
    while (attempt_next(&attempt))
        attempt.status = store->metadata->ops->get_page_indices(store->metadata, &pool->scope, keys,
                                                                n, ret_found, &attempt.error);
    return attempt.answered;
}

bool pool_index_exists(struct kvs_store *store, const struct pool *pool,
                       const struct metadata_text keys[], size_t n, bool ret_exists[])
{
    struct attempt attempt = {.store = store, .pool = pool, .quick = true};
    while (attempt_next(&attempt))
        attempt.status = store->metadata->ops->exists(store->metadata, &pool->scope, keys, n,
                                                      ret_exists, &attempt.error);
    return attempt.answered;
}

bool pool_index_report_mismatch(struct kvs_store *store, const struct pool *pool,
                                const struct metadata_release pages[], size_t n)
{
    struct attempt attempt = {.store = store, .pool = pool};
    while (attempt_next(&attempt))
        attempt.status = store->metadata->ops->report_mismatch(store->metadata, &pool->scope, pages,
                                                               n, &attempt.error);
    return attempt.answered;
}

enum kvs_status pool_index_delete(struct kvs_store *store, const struct pool *pool,
                                  const struct metadata_text keys[], size_t n,
                                  struct kvs_error *error)
{
    const struct metadata_ops *ops = store->metadata->ops;
    enum kvs_status status = ops->delete_keys(store->metadata, &pool->scope, keys, n, error);
    if (forgotten(status) && pool_index_initialize(store, pool, error) == KVS_OK)
        status = ops->delete_keys(store->metadata, &pool->scope, keys, n, error);
    return status;
}

enum kvs_status pool_index_clear(struct kvs_store *store, const struct pool *pool,
                                 struct kvs_error *error)
{
    const struct metadata_ops *ops = store->metadata->ops;
    enum kvs_status status = ops->clear(store->metadata, &pool->scope, error);
    if (forgotten(status) && pool_index_initialize(store, pool, error) == KVS_OK)
        status = ops->clear(store->metadata, &pool->scope, error);
    return status;
}
