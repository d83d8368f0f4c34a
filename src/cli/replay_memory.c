/* A replay that moves no bytes: the local metadata client, asked what a store would ask it. */
#include "base/clock.h"
#include "base/status.h"
#include "cli/replay_target.h"
#include "metadata/metadata.h"
#include "metadata/registry.h"

#include <stdlib.h>

enum { RESERVE_TTL_MS = 60000, QUARANTINE_MS = 60000, LEASE_MS = 10000 };

struct memory_target {
    struct replay_target target;
    struct metadata_client *client;
    struct metadata_scope scope;
    /* Of one call: batch_max each. */
    struct replay_key *keys;
    struct metadata_text *texts;
    struct catalog_found *found;
    struct catalog_reserved *reserved;
    struct metadata_confirm *confirms;
};

static void make_keys(struct memory_target *memory, const uint64_t ids[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        replay_key_make(&memory->keys[i], ids[i]);
        memory->texts[i] = (struct metadata_text){memory->keys[i].text, REPLAY_KEY_LENGTH};
    }
}

static enum kvs_status memory_get(struct replay_target *target, const uint64_t ids[], size_t n,
                                  struct replay_got *ret_got, struct kvs_error *error)
{
    struct memory_target *memory = (struct memory_target *)target;
    make_keys(memory, ids, n);
    struct replay_got got = {0};
    uint64_t begin_ns = clock_mono_ns();
    enum kvs_status status = memory->client->ops->get_page_indices(
        memory->client, &memory->scope, memory->texts, n, memory->found, error);
    got.duration_ns = clock_mono_ns() - begin_ns;
    if (status != KVS_OK)
        return status;
    while (got.run < n && memory->found[got.run].page >= 0)
        got.run++;
    for (size_t i = 0; i < n; i++)
        got.loaded += memory->found[i].page >= 0;
    *ret_got = got;
    return KVS_OK;
}

/* The whole batch is reserved, as a store does: pages that are there are refreshed by it. */
static enum kvs_status memory_set(struct replay_target *target, const uint64_t ids[], size_t n,
                                  struct replay_put *ret_put, struct kvs_error *error)
{
    struct memory_target *memory = (struct memory_target *)target;
    make_keys(memory, ids, n);
    struct replay_put put = {0};
    uint64_t begin_ns = clock_mono_ns();
    enum kvs_status status = memory->client->ops->reserve_and_allocate_page_indices(
        memory->client, &memory->scope, memory->texts, n, memory->reserved, error);
    if (status != KVS_OK)
        return status;
    for (size_t i = 0; i < n; i++) {
        const struct catalog_reserved *reserved = &memory->reserved[i];
        if (reserved->present)
            continue;
        if (reserved->page < 0) {
            put.not_stored++;
            continue;
        }
        /* The client's gets ask for checksums; there are no bytes to have one of. */
        memory->confirms[put.written++] = (struct metadata_confirm){
            .key = memory->texts[i],
            .page = reserved->page,
            .generation = reserved->generation,
            .checksum = ids[i],
        };
    }
    if (put.written > 0)
        status = memory->client->ops->confirm_write(
            memory->client, &memory->scope, memory->confirms, put.written, NULL, 0, NULL, error);
    put.duration_ns = clock_mono_ns() - begin_ns;
    if (status == KVS_OK)
        *ret_put = put;
    return status;
}

static struct replay_target *memory_close(struct replay_target *target)
{
    struct memory_target *memory = (struct memory_target *)target;
    if (memory->client != NULL)
        memory->client->ops->close(memory->client);
    free(memory->keys);
    free(memory->texts);
    free(memory->found);
    free(memory->reserved);
    free(memory->confirms);
    free(memory);
    return NULL;
}

static const struct replay_target_ops memory_ops = {memory_get, memory_set, memory_close};

static enum kvs_status memory_start(struct memory_target *memory,
                                    const struct replay_target_options *options,
                                    struct kvs_error *error)
{
    struct registry_options registry = {
        .eviction = options->eviction,
        .reserve_ttl_ms = RESERVE_TTL_MS,
        .quarantine_ms = QUARANTINE_MS,
        .lease_ms = LEASE_MS,
        .log = options->log,
    };
    enum kvs_status status = metadata_local_open(&registry, true, &memory->client, error);
    if (status != KVS_OK)
        return status;
    return memory->client->ops->initialize(memory->client, &memory->scope, options->capacity_pages,
                                           error);
}

enum kvs_status replay_memory_open(const struct replay_target_options *options,
                                   struct replay_target **ret_target, struct kvs_error *error)
{
    struct memory_target *memory = calloc(1, sizeof *memory);
    if (memory == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "setting up the replay");
    size_t n = options->batch_max;
    memory->target.ops = &memory_ops;
    memory->scope = (struct metadata_scope){.ns = "kv", .bytes_per_page = options->page_bytes};
    memory->keys = calloc(n, sizeof *memory->keys);
    memory->texts = calloc(n, sizeof *memory->texts);
    memory->found = calloc(n, sizeof *memory->found);
    memory->reserved = calloc(n, sizeof *memory->reserved);
    memory->confirms = calloc(n, sizeof *memory->confirms);
    enum kvs_status status;
    if (!memory->keys || !memory->texts || !memory->found || !memory->reserved || !memory->confirms)
        status = error_set(error, KVS_ERR_NO_MEMORY, "setting up the replay");
    else
        status = memory_start(memory, options, error);
    if (status != KVS_OK) {
        memory_close(&memory->target);
        return status;
    }
    *ret_target = &memory->target;
    return KVS_OK;
}
