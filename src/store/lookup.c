/* What needs no page I/O: exists, contains, delete, clear. */
#include "base/status.h"
#include "store/store.h"

/* Of keys: not an outcome that is counted, but chunk_list() needs one. */
static const enum store_stat PENDING = STAT_MISSED_ABSENT, FOUND = STAT_LOADED;

static void look_up(struct kvs_store *store, struct pool *pool, struct chunk *chunk)
{
    size_t n = chunk_list(chunk, PENDING);
    if (n > 0 && pool_index_exists(store, pool, &chunk->time, chunk->texts, n, chunk->exists))
        for (size_t i = 0; i < n; i++)
            if (chunk->exists[i])
                chunk->key[chunk->from[i]].outcome = FOUND;
    chunk_fold(chunk);
}

/* Calls the index for chunk after chunk; with `leading` only up to the first page that is absent.
 * Returns the number of leading pages present. ret_present may be NULL. */
static size_t look_up_all(struct kvs_store *store, uint32_t number, size_t n,
                          const char *const keys[], bool leading, bool ret_present[])
{
    struct pool *pool = pool_find(store, number);
    size_t run = 0, found = 0;
    if (pool == NULL || n == 0 || !store_enter(store))
        return 0;
    stats_add(&store->stats, STAT_EXISTS_ASKED, n);
    size_t step = chunk_pages(store, pool, false);
    struct chunk chunk;
    if (chunk_init(&chunk, pool, n < step ? n : step, store_index_time(store, true))) {
        for (size_t at = 0; at < n && (!leading || run == at); at += step) {
            size_t pages = n - at < step ? n - at : step;
            chunk_load(&chunk, keys + at, NULL, pages, PENDING, STAT_MISSED_REFUSED);
            look_up(store, pool, &chunk);
            for (size_t i = 0; i < pages; i++) {
                bool present = chunk.outcomes[i] == FOUND && !atomic_load(&store->poisoned);
                if (present && run == at + i)
                    run++;
                found += present;
                if (ret_present != NULL)
                    ret_present[at + i] = present;
            }
        }
        chunk_done(&chunk);
    }
    stats_add(&store->stats, STAT_EXISTS_FOUND, leading ? run : found);
    store_leave(store);
    return run;
}

size_t kvs_store_batch_exists(struct kvs_store *store, uint32_t pool, size_t n,
                              const char *const keys[])
{
    return look_up_all(store, pool, n, keys, true, NULL);
}

void kvs_store_batch_contains(struct kvs_store *store, uint32_t pool, size_t n,
                              const char *const keys[], bool ret_present[])
{
    for (size_t i = 0; i < n; i++)
        ret_present[i] = false;
    look_up_all(store, pool, n, keys, false, ret_present);
}

static enum kvs_status delete_all(struct kvs_store *store, struct pool *pool, size_t n,
                                  const char *const keys[], struct kvs_error *error)
{
    size_t step = chunk_pages(store, pool, false);
    struct chunk chunk;
    if (!chunk_init(&chunk, pool, n < step ? n : step, store_index_time(store, false)))
        return error_set(error, KVS_ERR_NO_MEMORY, "deleting pages");
    enum kvs_status status = KVS_OK;
    for (size_t at = 0; at < n && status == KVS_OK; at += step) {
        size_t pages = n - at < step ? n - at : step;
        chunk_load(&chunk, keys + at, NULL, pages, PENDING, STAT_MISSED_REFUSED);
        if (chunk.arena.failed) { /* then it has refused good keys, which may be there */
            status = error_set(error, KVS_ERR_NO_MEMORY, "deleting pages");
            break;
        }
        size_t listed = chunk_list(&chunk, PENDING);
        if (listed > 0)
            status = pool_index_delete(store, pool, &chunk.time, chunk.texts, listed, error);
    }
    chunk_done(&chunk);
    return status;
}

enum kvs_status kvs_store_delete(struct kvs_store *store, uint32_t number, size_t n,
                                 const char *const keys[], struct kvs_error *error)
{
    struct pool *pool = pool_find(store, number);
    if (pool == NULL)
        return error_set(error, KVS_ERR_CONFIG_POOL, "(unknown)",
                         "the store has no pool of this number");
    if (n == 0)
        return KVS_OK;
    if (!store_enter(store))
        return store_unusable(store, error);
    enum kvs_status status = delete_all(store, pool, n, keys, error);
    store_leave(store);
    return status;
}

enum kvs_status kvs_store_clear(struct kvs_store *store, struct kvs_error *error)
{
    if (!store_enter(store))
        return store_unusable(store, error);
    enum kvs_status first = KVS_OK;
    struct index_time time = store_index_time(store, false);
    uint32_t count = atomic_load_explicit(&store->pool_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        enum kvs_status status =
            pool_index_clear(store, store->pools[i], &time, first == KVS_OK ? error : NULL);
        if (first == KVS_OK)
            first = status;
    }
    store_leave(store);
    return first;
}
