/* A store's life: opened from options and parts, entered and left by calls, closed when the last of
 * them has left. */
#include "store/store.h"

#include "base/clock.h"
#include "base/status.h"
#include "metadata/registry.h"
#include "metadata/remote_transport.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    METADATA_FAILURES = 3, /* calls in a row */
    READ_FAILURES = 8,     /* pages in a row */
    WRITE_FAILURES = 1,    /* one batch without a success: failing writes evict good pages */
};
static const uint64_t LINE_INTERVAL_NS = 10ull * 1000 * 1000 * 1000;
static const uint64_t CHECK_INTERVAL_NS = 5ull * 1000 * 1000 * 1000;

static uint64_t to_ms(double seconds)
{
    return (uint64_t)(seconds * 1000.0 + 0.5);
}

uint64_t store_now_ns(const struct kvs_store *store)
{
    return store->parts.now_ns != NULL ? store->parts.now_ns(store->parts.now_arg)
                                       : clock_mono_ns();
}

uint64_t store_deadline_ns(const struct kvs_store *store, const struct pool *pool)
{
    if (!pool->info.needs_deadline)
        return 0;
    return clock_mono_ns() + to_ms(store->config.options.client_timeout) * 1000000;
}

struct index_time store_index_time(const struct kvs_store *store, bool quick)
{
    uint64_t ms = to_ms(store->config.options.client_timeout);
    uint64_t quick_ms = store->parts.exists_timeout_ms != 0 ? store->parts.exists_timeout_ms
                                                            : METADATA_EXISTS_TIMEOUT_MS;
    if (quick && ms > quick_ms)
        ms = quick_ms;
    return (struct index_time){.limited = store->remote, .left_ns = ms * 1000000};
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static bool in_fork(const struct kvs_store *store)
{
    return getpid() != store->owner;
}

bool store_enter(struct kvs_store *store)
{
    if (in_fork(store))
        return false;
    atomic_fetch_add(&store->calls, 1);
    if (!atomic_load(&store->closing) && !atomic_load(&store->poisoned))
        return true;
    store_leave(store);
    return false;
}

void store_leave(struct kvs_store *store)
{
    /* The last call must not touch the store once close may free it: it decrements under the mutex
     * that close waits with. */
    if (!atomic_load(&store->closing)) {
        uint64_t calls = atomic_load(&store->calls);
        while (calls > 1)
            if (atomic_compare_exchange_weak(&store->calls, &calls, calls - 1))
                return;
    }
    pthread_mutex_lock(&store->calls_mutex);
    if (atomic_fetch_sub(&store->calls, 1) == 1)
        pthread_cond_broadcast(&store->calls_ended);
    pthread_mutex_unlock(&store->calls_mutex);
}

enum kvs_status store_unusable(const struct kvs_store *store, struct kvs_error *error)
{
    const char *reason = in_fork(store)                  ? "it was opened before fork()"
                         : atomic_load(&store->poisoned) ? "an internal fault was logged"
                                                         : "it is being closed";
    return error_set(error, KVS_ERR_STORE_UNUSABLE, reason);
}

void store_poison(struct kvs_store *store, const char *file, int line, const char *what)
{
    if (!atomic_exchange(&store->poisoned, true))
        log_line(
            &store->log, KVS_LOG_ERROR,
            "Internal fault in kvshelf (%s:%d: %s). Every page is a miss from now on; the engine "
            "goes on without this store. Please report this line.",
            file, line, what);
}

/* ---- Opening and closing -------------------------------------------------------------------- */

static enum kvs_status open_metadata(struct kvs_store *store, struct kvs_error *error)
{
    const struct kvs_store_options *options = &store->config.options;
    if (store->parts.metadata != NULL) {
        store->metadata = store->parts.metadata;
        return KVS_OK;
    }
    if (options->metadata_server_url != NULL) {
        const struct metadata_remote_options remote = {
            .url = options->metadata_server_url,
            .token_file = options->metadata_token_file,
            .timeout_ms = to_ms(options->client_timeout),
            .exists_timeout_ms = store->parts.exists_timeout_ms,
            .cache_ms = options->exists_cache_ms,
            .verified_only = options->verify == KVS_VERIFY_REQUIRED,
            .log = store->log,
            .transport = store->parts.transport,
            .now_ns = store->parts.transport != NULL ? store->parts.now_ns : NULL,
            .now_arg = store->parts.now_arg,
        };
        store->parts.transport = NULL; /* the client's now */
        store->remote = true;
        return metadata_remote_open(&remote, &store->metadata, error);
    }
    struct stat about;
    if (options->inspect && options->metadata_dir != NULL &&
        stat(options->metadata_dir, &about) != 0)
        return error_set(error, KVS_ERR_CATALOG_DIR, options->metadata_dir, strerror(errno));
    const struct registry_options registry = {
        .dir = options->metadata_dir,
        .eviction = options->eviction,
        .reserve_ttl_ms = to_ms(options->reserve_ttl),
        .quarantine_ms = to_ms(options->quarantine),
        .log = store->log,
    };
    return metadata_local_open(&registry, options->verify == KVS_VERIFY_REQUIRED, &store->metadata,
                               error);
}

static enum kvs_status assemble(struct kvs_store *store, struct kvs_error *error)
{
    const struct kvs_store_options *options = &store->config.options;
    enum kvs_status status = open_metadata(store, error);
    if (status != KVS_OK)
        return status;
    store->inflight = inflight_new(options->max_inflight_bytes);
    store->network_inflight = inflight_new(options->max_inflight_bytes);
    if (store->inflight == NULL || store->network_inflight == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a store");
    status = pool_open(store, NULL, options->bytes_per_page, options->file_size, false,
                       &store->pools[KVS_POOL_KV], error);
    if (status == KVS_OK)
        atomic_store_explicit(&store->pool_count, 1, memory_order_release);
    return status;
}

static void init_limits(struct kvs_store *store)
{
    breaker_init(&store->metadata_breaker, METADATA_FAILURES);
    breaker_init(&store->read_breaker, READ_FAILURES);
    breaker_init(&store->write_breaker, WRITE_FAILURES);
    limiter_init(&store->mismatch_lines, LINE_INTERVAL_NS, 1);
    limiter_init(&store->metadata_lines, LINE_INTERVAL_NS, 1);
    limiter_init(&store->read_lines, LINE_INTERVAL_NS, 1);
    limiter_init(&store->write_lines, LINE_INTERVAL_NS, 1);
    limiter_init(&store->metadata_trip_lines, LINE_INTERVAL_NS, 1);
    limiter_init(&store->read_trip_lines, LINE_INTERVAL_NS, 1);
    limiter_init(&store->write_trip_lines, LINE_INTERVAL_NS, 1);
    limiter_init(&store->file_lines, LINE_INTERVAL_NS, 1);
    limiter_init(&store->file_checks, CHECK_INTERVAL_NS, 1);
    pthread_mutex_init(&store->pools_mutex, NULL);
    pthread_mutex_init(&store->calls_mutex, NULL);
    pthread_cond_init(&store->calls_ended, NULL);
}

static void done_limits(struct kvs_store *store)
{
    pthread_cond_destroy(&store->calls_ended);
    pthread_mutex_destroy(&store->calls_mutex);
    pthread_mutex_destroy(&store->pools_mutex);
    limiter_done(&store->file_checks);
    limiter_done(&store->file_lines);
    limiter_done(&store->write_trip_lines);
    limiter_done(&store->read_trip_lines);
    limiter_done(&store->metadata_trip_lines);
    limiter_done(&store->write_lines);
    limiter_done(&store->read_lines);
    limiter_done(&store->metadata_lines);
    limiter_done(&store->mismatch_lines);
    breaker_done(&store->write_breaker);
    breaker_done(&store->read_breaker);
    breaker_done(&store->metadata_breaker);
}

/* Files first: once their I/O has ended nobody writes a page that the catalogs still call reserved.
 */
static void dismantle(struct kvs_store *store)
{
    uint32_t count = atomic_load(&store->pool_count);
    for (uint32_t i = 0; i < count; i++)
        pool_close(store->pools[i]);
    if (store->metadata != NULL)
        store->metadata->ops->close(store->metadata);
    if (store->parts.transport != NULL)
        store->parts.transport->close(store->parts.transport);
    inflight_unref(store->inflight);
    inflight_unref(store->network_inflight);
    done_limits(store);
    config_done(&store->config);
    free(store);
}

enum kvs_status store_open(const struct kvs_store_options *options, const struct store_parts *parts,
                           struct kvs_store **ret_store, struct kvs_error *error)
{
    struct kvs_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        if (parts->metadata != NULL)
            parts->metadata->ops->close(parts->metadata);
        if (parts->transport != NULL)
            parts->transport->close(parts->transport);
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a store");
    }
    init_limits(store);
    store->parts = *parts;
    store->owner = getpid();
    store->metadata = parts->metadata;
    enum kvs_status status = config_copy(&store->config, options, error);
    if (status == KVS_OK) {
        store->log = (struct logger){store->config.options.log, store->config.options.log_arg};
        status = config_check(&store->config.options, parts->metadata != NULL, error);
    }
    if (status == KVS_OK)
        status = assemble(store, error);
    if (status != KVS_OK) {
        dismantle(store);
        return status;
    }
    *ret_store = store;
    return KVS_OK;
}

enum kvs_status kvs_store_open(const struct kvs_store_options *options,
                               struct kvs_store **ret_store, struct kvs_error *error)
{
    const struct store_parts parts = {0};
    return store_open(options, &parts, ret_store, error);
}

enum kvs_status kvs_store_open_env(const struct kvs_store_options *options,
                                   struct kvs_store **ret_store, struct kvs_error *error)
{
    struct store_config config = {0};
    const char *path;
    enum kvs_status status = config_copy(&config, options, error);
    if (status == KVS_OK)
        status = config_read_env(&config, &path, error);
    if (status == KVS_OK)
        status = kvs_store_open(&config.options, ret_store, error);
    config_done(&config);
    return status;
}

struct kvs_store *kvs_store_close(struct kvs_store *store)
{
    if (store == NULL || in_fork(store))
        return NULL;
    atomic_store(&store->closing, true);
    pthread_mutex_lock(&store->calls_mutex);
    while (atomic_load(&store->calls) > 0)
        pthread_cond_wait(&store->calls_ended, &store->calls_mutex);
    pthread_mutex_unlock(&store->calls_mutex);
    dismantle(store);
    return NULL;
}

void kvs_store_get_stats(const struct kvs_store *store, struct kvs_store_stats *ret_stats)
{
    struct kvs_store_stats out;
    stats_read(&store->stats, &out);
    out.metadata_breaker_trips = breaker_trips(&store->metadata_breaker);
    out.read_breaker_trips = breaker_trips(&store->read_breaker);
    out.write_breaker_trips = breaker_trips(&store->write_breaker);
    out.inflight_bytes = inflight_bytes(store->inflight) + inflight_bytes(store->network_inflight);
    out.backpressure_waits =
        inflight_waits(store->inflight) + inflight_waits(store->network_inflight);
    *ret_stats = out;
}
