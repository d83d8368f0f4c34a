/* Calls to the index: the breaker's leave before, what came of it after, one line a while in the
 * log. A server that was restarted without its catalogs answers "not initialized"; the namespace is
 * then initialized again and the call made once more. */
#include "base/status.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t PROBE_NS = 1000 * UINT64_C(1000000), PRECEDENCE_NS = 200 * UINT64_C(1000000);
/* Clients count in milliseconds: with less left a question is not asked at all. */
static const uint64_t LEAST_NS = UINT64_C(1000000);

enum kvs_status pool_index_initialize(struct kvs_store *store, const struct pool *pool,
                                      struct kvs_error *error)
{
    return store->metadata->ops->initialize(store->metadata, &pool->scope, pool->num_pages, error);
}

/* A question states the size of a page alone, so whoever refuses it cannot know how many pages this
 * store would have. */
static void state_pages_asked(struct kvs_error *failure, const struct pool *pool)
{
    static const char before[] = " and cannot become ";
    char *at = NULL;
    for (char *found = failure->message; (found = strstr(found, before)) != NULL; found++)
        at = found;
    if (at != NULL)
        snprintf(at, sizeof(failure->message) - (size_t)(at - failure->message),
                 "%s%" PRIu64 " pages of %" PRIu64 " bytes", before, (uint64_t)pool->num_pages,
                 (uint64_t)pool->scope.bytes_per_page);
}

static bool forgotten(enum kvs_status status)
{
    return status == KVS_ERR_NOT_INITIALIZED || status == KVS_ERR_NOT_INITIALIZED_SERVER;
}

enum kvs_status pool_index_check(struct kvs_store *store, const struct pool *pool,
                                 struct kvs_error *error)
{
    struct kvs_error failure = {0};
    enum kvs_status status =
        store->metadata->ops->exists(store->metadata, &pool->scope, NULL, 0, NULL, &failure);
    bool final = status == KVS_ERR_GEOMETRY_DIFFERS || status == KVS_ERR_FINGERPRINT_DIFFERS ||
                 status == KVS_ERR_REMOTE_DEADLINE;
    /* What else there is to say initialize will say, which who only inspects does not call. */
    if (status == KVS_OK || (!final && !store->config.options.inspect))
        return KVS_OK;
    if (status == KVS_ERR_GEOMETRY_DIFFERS)
        state_pages_asked(&failure, pool);
    if (error != NULL)
        *error = failure;
    return status;
}

/* One call: `while (attempt_next(&attempt)) attempt.status = ...;` */
struct attempt {
    struct kvs_store *store;
    const struct pool *pool;
    struct index_time *time;
    bool second_half; /* of what a call before it began: made even while the breaker is open */
    bool quick;       /* its deadline is a short one */
    bool told;        /* its failure goes to the caller: the breaker is neither asked nor told */
    uint32_t made;
    bool answered;
    enum kvs_status status;
    struct kvs_error error;
    struct metadata_scope scope; /* of the question under way, which began then */
    uint64_t began_ns;
};

/* Each question may take what the call has left: false when that is too little. */
static bool begin(struct attempt *attempt)
{
    attempt->scope = attempt->pool->scope;
    attempt->began_ns = store_now_ns(attempt->store);
    if (!attempt->time->limited)
        return true;
    attempt->scope.left_ns = attempt->time->left_ns;
    if (attempt->time->left_ns >= LEAST_NS)
        return true;
    const struct kvs_store_options *options = &attempt->store->config.options;
    char seconds[32], *shown = config_shown_url(options->metadata_server_url);
    snprintf(seconds, sizeof(seconds), "%g", options->client_timeout);
    attempt->status = error_set(&attempt->error, KVS_ERR_REMOTE_DEADLINE,
                                shown != NULL ? shown : "(unknown)", seconds);
    free(shown);
    return false;
}

static void end(struct attempt *attempt)
{
    struct index_time *time = attempt->time;
    if (!time->limited)
        return;
    uint64_t spent_ns = store_now_ns(attempt->store) - attempt->began_ns;
    time->left_ns = spent_ns < time->left_ns ? time->left_ns - spent_ns : 0;
}

/* What the server has forgotten is told to it again, but not by who only inspects. */
static bool initialized_again(struct attempt *attempt)
{
    if (attempt->store->config.options.inspect || !forgotten(attempt->status) || !begin(attempt))
        return false;
    const struct metadata_ops *ops = attempt->store->metadata->ops;
    enum kvs_status status = ops->initialize(attempt->store->metadata, &attempt->scope,
                                             attempt->pool->num_pages, &attempt->error);
    end(attempt);
    return status == KVS_OK;
}

static void report(struct attempt *attempt)
{
    struct kvs_store *store = attempt->store;
    uint64_t now_ns = store_now_ns(store);
    attempt->answered = attempt->status == KVS_OK;
    /* Without waiting for more: no call finds a connection now, or each waits for its deadline. The
     * short time of `exists` may pass on a busy machine, or while a new connection is made. */
    bool at_once = !attempt->quick && (attempt->status == KVS_ERR_REMOTE_UNREACHABLE ||
                                       attempt->status == KVS_ERR_REMOTE_DEADLINE);
    bool tripped = breaker_report(&store->metadata_breaker, attempt->began_ns, now_ns,
                                  attempt->answered ? 1 : 0, attempt->answered ? 0 : 1, at_once);
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

/* A probe is a question about no keys. It has to make a connection, for which the short time of
 * `exists` is too short on a slow network, but must not take long from whoever makes it. */
static bool probe(struct attempt *attempt)
{
    struct kvs_store *store = attempt->store;
    if (!begin(attempt)) {
        breaker_cancel(&store->metadata_breaker);
        return false;
    }
    if (attempt->scope.left_ns > PROBE_NS)
        attempt->scope.left_ns = PROBE_NS;
    attempt->status = store->metadata->ops->exists(store->metadata, &attempt->scope, NULL, 0, NULL,
                                                   &attempt->error);
    end(attempt);
    if (attempt->status != KVS_OK && !forgotten(attempt->status)) {
        report(attempt);
        return false;
    }
    breaker_report(&store->metadata_breaker, attempt->began_ns, store_now_ns(store), 1, 0, false);
    return true;
}

/* The breaker's leave. Calls with the short time let those with more time probe first. */
static bool allowed(struct attempt *attempt)
{
    struct kvs_store *store = attempt->store;
    uint64_t now_ns = store_now_ns(store);
    if (attempt->second_half || attempt->told)
        return true;
    if (attempt->quick)
        now_ns = now_ns > PRECEDENCE_NS ? now_ns - PRECEDENCE_NS : 0;
    switch (breaker_ask(&store->metadata_breaker, now_ns)) {
    case BREAKER_ALLOWS:
        return true;
    case BREAKER_PROBES:
        return probe(attempt);
    case BREAKER_REFUSES:
        break;
    }
    return false;
}

/* A call that has no time left for a question does without the answer: that says nothing of the
 * index, so the breaker hears nothing. */
static bool attempt_next(struct attempt *attempt)
{
    if (attempt->made == 0) {
        if (!allowed(attempt) || !begin(attempt))
            return false;
        attempt->made = 1;
        return true;
    }
    end(attempt);
    if (attempt->made == 1 && initialized_again(attempt) && begin(attempt)) {
        attempt->made = 2;
        return true;
    }
    if (attempt->told)
        return false;
    report(attempt);
    return false;
}

/* The failure of a call whose failure is told. */
static enum kvs_status told(const struct attempt *attempt, struct kvs_error *error)
{
    if (attempt->status != KVS_OK && error != NULL)
        *error = attempt->error;
    return attempt->status;
}

bool pool_index_reserve(struct kvs_store *store, const struct pool *pool, struct index_time *time,
                        const struct metadata_text keys[], size_t n,
                        struct catalog_reserved ret_reserved[])
{
    struct attempt attempt = {.store = store, .pool = pool, .time = time};
    while (attempt_next(&attempt))
        attempt.status = store->metadata->ops->reserve_and_allocate_page_indices(
            store->metadata, &attempt.scope, keys, n, ret_reserved, &attempt.error);
    return attempt.answered;
}

bool pool_index_confirm(struct kvs_store *store, const struct pool *pool, struct index_time *time,
                        const struct metadata_confirm confirms[], size_t n_confirm,
                        const struct metadata_release releases[], size_t n_release,
                        enum catalog_rejection ret_reasons[])
{
    struct attempt attempt = {.store = store, .pool = pool, .time = time, .second_half = true};
    while (attempt_next(&attempt))
        attempt.status = store->metadata->ops->confirm_write(
            store->metadata, &attempt.scope, confirms, n_confirm, releases, n_release, ret_reasons,
            &attempt.error);
    return attempt.answered;
}

bool pool_index_get(struct kvs_store *store, const struct pool *pool, struct index_time *time,
                    const struct metadata_text keys[], size_t n, struct catalog_found ret_found[])
{
    struct attempt attempt = {.store = store, .pool = pool, .time = time};
    while (attempt_next(&attempt))
        attempt.status = store->metadata->ops->get_page_indices(store->metadata, &attempt.scope,
                                                                keys, n, ret_found, &attempt.error);
    return attempt.answered;
}

bool pool_index_exists(struct kvs_store *store, const struct pool *pool, struct index_time *time,
                       const struct metadata_text keys[], size_t n, bool ret_exists[])
{
    struct attempt attempt = {.store = store, .pool = pool, .time = time, .quick = true};
    while (attempt_next(&attempt))
        attempt.status = store->metadata->ops->exists(store->metadata, &attempt.scope, keys, n,
                                                      ret_exists, &attempt.error);
    return attempt.answered;
}

bool pool_index_report_mismatch(struct kvs_store *store, const struct pool *pool,
                                struct index_time *time, const struct metadata_release pages[],
                                size_t n)
{
    struct attempt attempt = {.store = store, .pool = pool, .time = time};
    while (attempt_next(&attempt))
        attempt.status = store->metadata->ops->report_mismatch(store->metadata, &attempt.scope,
                                                               pages, n, &attempt.error);
    return attempt.answered;
}

enum kvs_status pool_index_delete(struct kvs_store *store, const struct pool *pool,
                                  struct index_time *time, const struct metadata_text keys[],
                                  size_t n, struct kvs_error *error)
{
    struct attempt attempt = {.store = store, .pool = pool, .time = time, .told = true};
    while (attempt_next(&attempt))
        attempt.status = store->metadata->ops->delete_keys(store->metadata, &attempt.scope, keys, n,
                                                           &attempt.error);
    return told(&attempt, error);
}

enum kvs_status pool_index_clear(struct kvs_store *store, const struct pool *pool,
                                 struct index_time *time, struct kvs_error *error)
{
    struct attempt attempt = {.store = store, .pool = pool, .time = time, .told = true};
    while (attempt_next(&attempt))
        attempt.status =
            store->metadata->ops->clear(store->metadata, &attempt.scope, &attempt.error);
    return told(&attempt, error);
}
