/* A replay over the public store: pages are written and read back, and every byte that comes back
 * is compared with what was written. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/status.h"
#include "cli/page_pattern.h"
#include "cli/replay_target.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

struct store_target {
    struct replay_target target;
    struct kvs_store *store;
    uint64_t page_bytes;
    uint8_t *memory; /* batch_max pages */
    size_t memory_bytes;
    /* Of one call: batch_max each. */
    struct replay_key *keys;
    const char **texts;
    void **buffers;
    bool *done;
};

void replay_key_make(struct replay_key *ret_key, uint64_t id)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)id);
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256((const uint8_t *)digits, (size_t)length, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        ret_key->text[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        ret_key->text[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    ret_key->text[REPLAY_KEY_LENGTH] = '\0';
}

static void make_keys(struct store_target *store, const uint64_t ids[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        replay_key_make(&store->keys[i], ids[i]);
}

static enum kvs_status store_get(struct replay_target *target, const uint64_t ids[], size_t n,
                                 struct replay_got *ret_got, struct kvs_error *error)
{
    (void)error;
    struct store_target *store = (struct store_target *)target;
    make_keys(store, ids, n);
    for (size_t i = 0; i < n; i++)
        page_pattern_spoil(store->buffers[i], store->page_bytes);
    struct replay_got got = {0};
    uint64_t begin_ns = clock_mono_ns();
    kvs_store_batch_get(store->store, KVS_POOL_KV, n, store->texts, store->buffers, store->done);
    got.duration_ns = clock_mono_ns() - begin_ns;
    while (got.run < n && store->done[got.run])
        got.run++;
    for (size_t i = 0; i < n; i++) {
        if (!store->done[i])
            continue;
        got.loaded++;
        size_t wrong = page_pattern_wrong_bytes(store->buffers[i], store->page_bytes, ids[i]);
        got.wrong_bytes += wrong;
        got.wrong_pages += wrong > 0;
    }
    got.bytes = got.loaded * store->page_bytes;
    *ret_got = got;
    return KVS_OK;
}

static enum kvs_status store_set(struct replay_target *target, const uint64_t ids[], size_t n,
                                 struct replay_put *ret_put, struct kvs_error *error)
{
    (void)error;
    struct store_target *store = (struct store_target *)target;
    make_keys(store, ids, n);
    for (size_t i = 0; i < n; i++)
        page_pattern_fill(store->buffers[i], store->page_bytes, ids[i]);
    struct kvs_store_stats before, after;
    kvs_store_get_stats(store->store, &before);
    struct replay_put put = {0};
    uint64_t begin_ns = clock_mono_ns();
    kvs_store_batch_set(store->store, KVS_POOL_KV, n, store->texts,
                        (const void *const *)store->buffers, store->done);
    put.duration_ns = clock_mono_ns() - begin_ns;
    kvs_store_get_stats(store->store, &after);
    for (size_t i = 0; i < n; i++)
        put.not_stored += !store->done[i];
    put.written = after.pages_written - before.pages_written;
    put.bytes = after.bytes_written - before.bytes_written;
    put.no_space = after.unstored_no_space - before.unstored_no_space;
    put.failed = put.no_space + (after.unstored_write_error - before.unstored_write_error) +
                 (after.unstored_refused - before.unstored_refused);
    *ret_put = put;
    return KVS_OK;
}

static struct replay_target *store_close(struct replay_target *target)
{
    struct store_target *store = (struct store_target *)target;
    kvs_store_close(store->store);
    if (store->memory != NULL)
        munmap(store->memory, store->memory_bytes);
    free(store->keys);
    free(store->texts);
    free(store->buffers);
    free(store->done);
    free(store);
    return NULL;
}

static const struct replay_target_ops store_ops = {store_get, store_set, store_close};

static enum kvs_status store_start(struct store_target *store,
                                   const struct replay_target_options *options,
                                   struct kvs_error *error)
{
    struct buffer prefix = {0};
    buffer_append_format(&prefix, "%s/pages", options->dir);
    struct kvs_store_options open;
    kvs_store_options_init(&open);
    open.bytes_per_page = options->page_bytes;
    open.file_path_prefix = buffer_text(&prefix);
    open.file_size = options->capacity_pages * options->page_bytes;
    open.metadata_dir = options->kept ? options->dir : NULL;
    open.eviction = options->eviction;
    open.model =
        "kvshelf replay"; /* so that no engine's pages are taken for these, nor the reverse */
    open.log = options->log.fn;
    open.log_arg = options->log.arg;
    enum kvs_status status = prefix.failed
                                 ? error_set(error, KVS_ERR_NO_MEMORY, "setting up the replay")
                                 : kvs_store_open(&open, &store->store, error);
    buffer_done(&prefix);
    return status;
}

static bool allocate(struct store_target *store, size_t n)
{
    store->keys = calloc(n, sizeof *store->keys);
    store->texts = calloc(n, sizeof *store->texts);
    store->buffers = calloc(n, sizeof *store->buffers);
    store->done = calloc(n, sizeof *store->done);
    if (!store->keys || !store->texts || !store->buffers || !store->done)
        return false;
    if (__builtin_mul_overflow(n, store->page_bytes, &store->memory_bytes))
        return false;
    /* Mapped, so that pages of whole sectors are aligned for direct I/O. */
    void *memory =
        mmap(NULL, store->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    store->memory = memory;
    for (size_t i = 0; i < n; i++) {
        store->texts[i] = store->keys[i].text;
        store->buffers[i] = store->memory + i * store->page_bytes;
    }
    return true;
}

enum kvs_status replay_store_open(const struct replay_target_options *options,
                                  struct replay_target **ret_target, struct kvs_error *error)
{
    struct store_target *store = calloc(1, sizeof *store);
    if (store == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "setting up the replay");
    store->target.ops = &store_ops;
    store->page_bytes = options->page_bytes;
    enum kvs_status status = allocate(store, options->batch_max)
                                 ? store_start(store, options, error)
                                 : error_set(error, KVS_ERR_NO_MEMORY, "setting up the replay");
    if (status != KVS_OK) {
        store_close(&store->target);
        return status;
    }
    *ret_target = &store->target;
    return KVS_OK;
}
