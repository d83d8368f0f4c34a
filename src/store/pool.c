/* Pools: the KV pool and the extra ones, each with its file, its page size and its namespace. */
#include "base/status.h"
#include "store/identity.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static char *take_text(struct buffer *buffer)
{
    char *text = buffer->failed ? NULL : strdup(buffer_text(buffer));
    buffer_clear(buffer);
    return text;
}

static bool name_pool(struct pool *pool, const struct kvs_store_options *options, const char *name)
{
    uint32_t rank = identity_rank(options, pool->replicated);
    struct buffer text = {0};
    if (name != NULL)
        buffer_append_text(&text, name);
    pool->name = take_text(&text);
    identity_path(options, rank, name, &text);
    pool->path = take_text(&text);
    identity_namespace(options, name, &text);
    pool->ns = take_text(&text);
    identity_fingerprint(options, pool->pairs, pool->bytes_per_page, &text);
    pool->fingerprint = take_text(&text);
    buffer_done(&text);
    if (pool->name == NULL || pool->path == NULL || pool->ns == NULL || pool->fingerprint == NULL)
        return false;
    pool->scope = (struct metadata_scope){
        .rank = rank,
        .ns = pool->ns,
        .bytes_per_page = pool->bytes_per_page,
        .fingerprint = pool->fingerprint[0] == '\0' ? NULL : pool->fingerprint,
    };
    return true;
}

static enum kvs_status open_file(struct kvs_store *store, struct pool *pool,
                                 struct kvs_error *error)
{
    const struct kvs_store_options *options = &store->config.options;
    enum kvs_io_engine engine = options->io_engine;
    bool looks = options->inspect && !store->parts.stores_inspecting;
    if (engine == KVS_IO_AUTO && options->use_mock_hf3fs_client)
        engine = KVS_IO_POSIX;
    const struct pagefile_options file = {
        .path = pool->path,
        .file_size = pool->file_size,
        .existing = looks,
        .bytes_per_page = pool->bytes_per_page,
        .threads = options->numjobs,
        .entries = options->entries,
        .direct = options->direct,
        .index = looks ? PAGEFILE_INDEX_NOBODYS
                 : options->metadata_server_url == NULL && store->parts.metadata == NULL
                     ? PAGEFILE_INDEX_OWN
                     : PAGEFILE_INDEX_SHARED,
        .log = store->log,
    };
    enum kvs_status status =
        store->parts.open_file != NULL
            ? store->parts.open_file(store->parts.open_file_arg, engine, &file, &pool->file, error)
            : pagefile_open(engine, &file, &pool->file, error);
    if (status == KVS_OK)
        pool->info = pool->file->ops->info(pool->file);
    return status;
}

/* How fast damage may be reported. One reader with a stale mount must not empty a cache that others
 * share; on a local file system there are no stale mounts, and a file that was cut or replaced
 * should be made good soon. */
static void limit_reports(struct pool *pool)
{
    static const uint64_t second_ns = 1000000000;
    limiter_done(&pool->mismatch_reports);
    if (pool->info.needs_deadline)
        limiter_init(&pool->mismatch_reports, second_ns / 10, 64);
    else
        limiter_init(&pool->mismatch_reports, second_ns / 1000, 4096);
}

/* The questions of opening, like those of any call, take client_timeout together. */
static void limit_opening(const struct kvs_store *store, struct pool *pool, uint64_t spent_ns)
{
    struct index_time time = store_index_time(store, false);
    if (time.limited)
        pool->scope.left_ns = spent_ns < time.left_ns ? time.left_ns - spent_ns : 1;
}

enum kvs_status pool_open(struct kvs_store *store, const char *name, uint64_t bytes_per_page,
                          uint64_t file_size, bool replicated, struct pool **ret_pool,
                          struct kvs_error *error)
{
    const struct kvs_store_options *options = &store->config.options;
    struct pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a pool");
    pthread_mutex_init(&pool->check_mutex, NULL);
    limiter_init(&pool->mismatch_reports, 1, 0);
    pool->bytes_per_page = bytes_per_page;
    pool->file_size = file_size;
    pool->pairs = name == NULL && options->pairs;
    pool->replicated = identity_replicated(options, name == NULL, replicated);
    pool->writes = !pool->replicated || options->tp_rank == 0;

    enum kvs_status status = config_check_geometry(name == NULL ? "kv" : name, bytes_per_page,
                                                   file_size, &pool->num_pages, error);
    if (status == KVS_OK && !name_pool(pool, options, name))
        status = error_set(error, KVS_ERR_NO_MEMORY, "opening a pool");
    uint64_t began_ns = store_now_ns(store);
    if (status == KVS_OK)
        status = pool_index_check(store, pool, error);
    limit_opening(store, pool, store_now_ns(store) - began_ns);
    if (status == KVS_OK)
        status = open_file(store, pool, error);
    if (status == KVS_OK && !options->inspect)
        status = pool_index_initialize(store, pool, error);
    pool->scope.left_ns = 0;
    if (status != KVS_OK) {
        pool_close(pool);
        return status;
    }
    limit_reports(pool);
    log_line(
        &store->log, KVS_LOG_INFO,
        "Pool '%s': %" PRIu64 " page%s of %" PRIu64 " bytes in %s (%s, %s%s%s), namespace '%s' of "
        "rank %u.",
        pool_label(pool), pool->num_pages, pool->num_pages == 1 ? "" : "s", bytes_per_page,
        pool->path, pool->info.engine, pool->info.filesystem, pool->info.direct ? ", O_DIRECT" : "",
        pool->info.needs_deadline ? ", shared with other machines" : "", pool->ns,
        pool->scope.rank);
    *ret_pool = pool;
    return KVS_OK;
}

struct pool *pool_close(struct pool *pool)
{
    if (pool == NULL)
        return NULL;
    if (pool->file != NULL)
        pool->file->ops->close(pool->file);
    limiter_done(&pool->mismatch_reports);
    pthread_mutex_destroy(&pool->check_mutex);
    free(pool->name);
    free(pool->ns);
    free(pool->fingerprint);
    free(pool->path);
    free(pool);
    return NULL;
}

const char *pool_label(const struct pool *pool)
{
    return pool->name[0] == '\0' ? "kv" : pool->name;
}

struct pool *pool_find(const struct kvs_store *store, uint32_t number)
{
    if (number >= atomic_load_explicit(&store->pool_count, memory_order_acquire))
        return NULL;
    return store->pools[number];
}

void pool_check_file(struct kvs_store *store, struct pool *pool)
{
    if (pthread_mutex_trylock(&pool->check_mutex) != 0)
        return;
    struct kvs_error error = {0};
    enum kvs_status status = pool->file->ops->check(pool->file, &error);
    pthread_mutex_unlock(&pool->check_mutex);
    if (status != KVS_OK && limiter_take(&store->file_lines, store_now_ns(store), 1) == 1)
        log_line(&store->log, KVS_LOG_WARNING,
                 "The page file of pool '%s' has changed or cannot be looked at: %s",
                 pool_label(pool), error.message);
}

void pool_check_sometimes(struct kvs_store *store, struct pool *pool)
{
    if (!pool->info.needs_deadline &&
        limiter_take(&store->file_checks, store_now_ns(store), 1) == 1)
        pool_check_file(store, pool);
}

/* ---- Adding --------------------------------------------------------------------------------- */

static enum kvs_status check_name(const char *name, struct kvs_error *error)
{
    if (name == NULL || name[0] == '\0')
        return error_set(error, KVS_ERR_CONFIG_POOL, "(none)", "its name is empty");
    if (strnlen(name, IDENTITY_POOL_NAME_MAX + 1) > IDENTITY_POOL_NAME_MAX)
        return error_set(error, KVS_ERR_CONFIG_POOL, "(too long)",
                         "its name is longer than 100 bytes");
    if (strchr(name, '@') != NULL)
        return error_set(error, KVS_ERR_CONFIG_POOL, name,
                         "its name holds '@', which separates a namespace from its shard");
    return KVS_OK;
}

static enum kvs_status find_same(const struct kvs_store *store,
                                 const struct kvs_pool_options *options, uint32_t *ret_pool,
                                 struct kvs_error *error)
{
    uint32_t count = atomic_load(&store->pool_count);
    for (uint32_t i = 0; i < count; i++) {
        const struct pool *pool = store->pools[i];
        if (strcmp(pool_label(pool), options->name) != 0)
            continue;
        bool replicated =
            identity_replicated(&store->config.options, i == KVS_POOL_KV, options->replicated);
        uint64_t file_size = options->file_size != 0 ? options->file_size : pool->file_size;
        if (pool->bytes_per_page != options->bytes_per_page || pool->file_size != file_size ||
            pool->replicated != replicated)
            return error_set(
                error, KVS_ERR_CONFIG_POOL, options->name,
                "it is there already with another page size, file size or replication");
        *ret_pool = i;
        return KVS_OK;
    }
    *ret_pool = KVS_POOLS_MAX;
    return KVS_OK;
}

static enum kvs_status add(struct kvs_store *store, const struct kvs_pool_options *options,
                           uint32_t *ret_number, struct kvs_error *error)
{
    uint32_t number;
    enum kvs_status status = find_same(store, options, &number, error);
    if (status != KVS_OK)
        return status;
    if (number < KVS_POOLS_MAX) {
        *ret_number = number;
        return KVS_OK;
    }
    uint32_t count = atomic_load(&store->pool_count);
    if (count == KVS_POOLS_MAX)
        return error_set(error, KVS_ERR_CONFIG_POOL, options->name,
                         "a store takes at most 32 pools");
    uint64_t file_size =
        options->file_size != 0 ? options->file_size : store->config.options.file_size;
    status = pool_open(store, options->name, options->bytes_per_page, file_size,
                       options->replicated, &store->pools[count], error);
    if (status != KVS_OK)
        return status;
    atomic_store_explicit(&store->pool_count, count + 1, memory_order_release);
    *ret_number = count;
    return KVS_OK;
}

enum kvs_status kvs_store_add_pool(struct kvs_store *store, const struct kvs_pool_options *options,
                                   uint32_t *ret_pool, struct kvs_error *error)
{
    if (options->size < sizeof(*options))
        return error_set(error, KVS_ERR_CONFIG_POOL, "(unknown)",
                         "its options were not filled: set `size` to sizeof(struct "
                         "kvs_pool_options)");
    enum kvs_status status = check_name(options->name, error);
    if (status != KVS_OK)
        return status;
    if (!store_enter(store))
        return store_unusable(store, error);
    pthread_mutex_lock(&store->pools_mutex);
    status = add(store, options, ret_pool, error);
    pthread_mutex_unlock(&store->pools_mutex);
    store_leave(store);
    return status;
}

bool kvs_store_pool_info(const struct kvs_store *store, uint32_t number,
                         struct kvs_pool_info *ret_info)
{
    const struct pool *pool = pool_find(store, number);
    if (pool == NULL)
        return false;
    *ret_info = (struct kvs_pool_info){
        .name = pool_label(pool),
        .ns = pool->ns,
        .file_path = pool->path,
        .engine = pool->info.engine,
        .bytes_per_page = pool->bytes_per_page,
        .num_pages = pool->num_pages,
        .rank = pool->scope.rank,
        .direct = pool->info.direct,
        .writes = pool->writes,
    };
    return true;
}
