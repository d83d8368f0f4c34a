/* The local metadata client: catalogs of this process. It packs keys, takes the entry's lock once
 * per call and asks the catalog as a native, verifying caller: its gets take no lease. Who
 * believes pages without a checksum gets them by a second look at what was not found. Owner 0: a
 * call inside one process is never repeated because its answer was lost. */
#include "base/status.h"
#include "metadata/metadata.h"
#include "metadata/registry.h"

#include <stdlib.h>
#include <string.h>

struct local_client {
    struct metadata_client client;
    struct registry *registry;
    bool verified_only; /* pages without a checksum are absent */
};

static const struct local_client *local_of(struct metadata_client *client)
{
    return (const struct local_client *)client;
}

static struct registry *registry_of(struct metadata_client *client)
{
    return local_of(client)->registry;
}

/* The locked entry of a scope. */
static enum kvs_status local_lock(struct metadata_client *client,
                                  const struct metadata_scope *scope,
                                  struct registry_entry **ret_entry, struct kvs_error *error)
{
    struct registry_entry *entry =
        registry_lock(registry_of(client), scope->rank, scope->ns, strlen(scope->ns));
    if (entry == NULL)
        return error_set(error, KVS_ERR_NOT_INITIALIZED, scope->ns, NUM(scope->rank));
    enum kvs_status status =
        registry_check(entry, scope->bytes_per_page, scope->fingerprint, error);
    if (status != KVS_OK) {
        registry_unlock(entry);
        return status;
    }
    *ret_entry = entry;
    return KVS_OK;
}

/* ---- Packed arguments ----
 * Usual batches fit here; longer ones are allocated. The catalog takes CATALOG_BATCH_MAX at once,
 * so longer calls go in parts. */
enum { FEW = 256 };

struct packed_keys {
    struct key few[FEW];
    struct key *keys;
};

static bool pack(struct packed_keys *packed, const struct metadata_scope *scope,
                 const struct metadata_text texts[], size_t n)
{
    packed->keys = n <= FEW ? packed->few : malloc(n * sizeof(*packed->keys));
    if (packed->keys == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        key_parse(&packed->keys[i], texts[i].text, texts[i].length, scope->ns);
    return true;
}

static void unpack(struct packed_keys *packed)
{
    if (packed->keys != packed->few)
        free(packed->keys);
}

/* Packs the keys and locks the entry. */
static enum kvs_status enter(struct metadata_client *client, const struct metadata_scope *scope,
                             const struct metadata_text texts[], size_t n,
                             struct packed_keys *packed, struct registry_entry **ret_entry,
                             struct kvs_error *error)
{
    if (!pack(packed, scope, texts, n))
        return error_set(error, KVS_ERR_NO_MEMORY, "packing the keys of a request");
    enum kvs_status status = local_lock(client, scope, ret_entry, error);
    if (status != KVS_OK)
        unpack(packed);
    return status;
}

static void leave(struct registry_entry *entry, struct packed_keys *packed)
{
    registry_unlock(entry);
    unpack(packed);
}

/* The parts of a long call from the last to the first, as the catalog goes through one batch: the
 * head of a prefix ends up the youngest. `at` counts down from n. */
static bool next_part(size_t *at, size_t *ret_from, size_t *ret_n)
{
    if (*at == 0)
        return false;
    size_t n = *at % CATALOG_BATCH_MAX != 0 ? *at % CATALOG_BATCH_MAX : CATALOG_BATCH_MAX;
    *at -= n;
    *ret_from = *at;
    *ret_n = n;
    return true;
}

/* ---- Operations ----*/

static enum kvs_status local_initialize(struct metadata_client *client,
                                        const struct metadata_scope *scope, uint64_t num_pages,
                                        struct kvs_error *error)
{
    return registry_initialize(registry_of(client), scope->rank, scope->ns, num_pages,
                               scope->bytes_per_page, scope->fingerprint, error);
}

static enum kvs_status local_reserve(struct metadata_client *client,
                                     const struct metadata_scope *scope,
                                     const struct metadata_text keys[], size_t n,
                                     struct catalog_reserved ret_reserved[],
                                     struct kvs_error *error)
{
    struct packed_keys packed;
    struct registry_entry *entry;
    enum kvs_status status = enter(client, scope, keys, n, &packed, &entry, error);
    if (status != KVS_OK)
        return status;
    uint64_t now_ms = registry_now_ms(registry_of(client));
    for (size_t at = n, from, part; status == KVS_OK && next_part(&at, &from, &part);)
        status = catalog_reserve(registry_catalog(entry), now_ms, packed.keys + from, part, true, 0,
                                 ret_reserved + from);
    leave(entry, &packed);
    if (status != KVS_OK)
        error_set(error, status, "reserving pages"); /* parts that succeeded expire */
    return status;
}

/* Entries of one part of a call, a few at a time: confirms and releases stand alone, so that parts
 * need no memory of their own. */
static void confirm_all(struct catalog *catalog, uint64_t now_ms,
                        const struct metadata_scope *scope,
                        const struct metadata_confirm confirms[], size_t n,
                        enum catalog_rejection ret_reasons[])
{
    struct catalog_confirm entries[FEW];
    enum catalog_rejection reasons[FEW];
    for (size_t at = n; at > 0;) {
        size_t part = at % FEW != 0 ? at % FEW : FEW;
        at -= part;
        for (size_t i = 0; i < part; i++) {
            const struct metadata_confirm *confirm = &confirms[at + i];
            entries[i] = (struct catalog_confirm){.page = confirm->page,
                                                  .has_generation = true,
                                                  .has_checksum = true,
                                                  .generation = confirm->generation,
                                                  .checksum = confirm->checksum};
            key_parse(&entries[i].key, confirm->key.text, confirm->key.length, scope->ns);
        }
        catalog_confirm(catalog, now_ms, entries, part, reasons);
        if (ret_reasons != NULL)
            memcpy(ret_reasons + at, reasons, part * sizeof(reasons[0]));
    }
}

static void release_all(struct catalog *catalog, uint64_t now_ms,
                        const struct metadata_scope *scope,
                        const struct metadata_release releases[], size_t n)
{
    struct catalog_release entries[FEW];
    enum catalog_rejection reasons[FEW];
    for (size_t at = 0; at < n; at += FEW) {
        size_t part = n - at < FEW ? n - at : FEW;
        for (size_t i = 0; i < part; i++) {
            const struct metadata_release *release = &releases[at + i];
            entries[i] = (struct catalog_release){.page = release->page,
                                                  .has_generation = true,
                                                  .has_key = true,
                                                  .generation = release->generation};
            key_parse(&entries[i].key, release->key.text, release->key.length, scope->ns);
        }
        catalog_release(catalog, now_ms, entries, part, reasons);
    }
}

static enum kvs_status local_confirm(struct metadata_client *client,
                                     const struct metadata_scope *scope,
                                     const struct metadata_confirm confirms[], size_t n_confirm,
                                     const struct metadata_release releases[], size_t n_release,
                                     enum catalog_rejection ret_reasons[], struct kvs_error *error)
{
    struct registry_entry *entry;
    enum kvs_status status = local_lock(client, scope, &entry, error);
    if (status != KVS_OK)
        return status;
    uint64_t now_ms = registry_now_ms(registry_of(client));
    confirm_all(registry_catalog(entry), now_ms, scope, confirms, n_confirm, ret_reasons);
    release_all(registry_catalog(entry), now_ms, scope, releases, n_release);
    registry_unlock(entry);
    return KVS_OK;
}

/* Among what was not found, pages without a checksum. */
static void find_unverified(struct catalog *catalog, uint64_t now_ms, const struct key keys[],
                            size_t n, struct catalog_found found[])
{
    for (size_t i = 0; i < n; i++) {
        bool there = false;
        if (found[i].page < 0)
            catalog_exists(catalog, now_ms, &keys[i], 1, false, &there);
        if (there)
            catalog_get(catalog, now_ms, &keys[i], 1, false, &found[i]);
    }
}

static enum kvs_status local_get(struct metadata_client *client, const struct metadata_scope *scope,
                                 const struct metadata_text keys[], size_t n,
                                 struct catalog_found ret_found[], struct kvs_error *error)
{
    struct packed_keys packed;
    struct registry_entry *entry;
    enum kvs_status status = enter(client, scope, keys, n, &packed, &entry, error);
    if (status != KVS_OK)
        return status;
    uint64_t now_ms = registry_now_ms(registry_of(client));
    for (size_t at = n, from, part; next_part(&at, &from, &part);)
        catalog_get(registry_catalog(entry), now_ms, packed.keys + from, part, true,
                    ret_found + from);
    if (!local_of(client)->verified_only)
        find_unverified(registry_catalog(entry), now_ms, packed.keys, n, ret_found);
    leave(entry, &packed);
    return KVS_OK;
}

static enum kvs_status local_exists(struct metadata_client *client,
                                    const struct metadata_scope *scope,
                                    const struct metadata_text keys[], size_t n, bool ret_exists[],
                                    struct kvs_error *error)
{
    struct packed_keys packed;
    struct registry_entry *entry;
    enum kvs_status status = enter(client, scope, keys, n, &packed, &entry, error);
    if (status != KVS_OK)
        return status;
    uint64_t now_ms = registry_now_ms(registry_of(client));
    for (size_t at = n, from, part; next_part(&at, &from, &part);)
        catalog_exists(registry_catalog(entry), now_ms, packed.keys + from, part, true,
                       ret_exists + from);
    if (!local_of(client)->verified_only)
        for (size_t i = 0; i < n; i++)
            if (!ret_exists[i])
                catalog_exists(registry_catalog(entry), now_ms, packed.keys + i, 1, false,
                               ret_exists + i);
    leave(entry, &packed);
    return KVS_OK;
}

static enum kvs_status local_delete(struct metadata_client *client,
                                    const struct metadata_scope *scope,
                                    const struct metadata_text keys[], size_t n,
                                    struct kvs_error *error)
{
    struct packed_keys packed;
    struct registry_entry *entry;
    enum kvs_status status = enter(client, scope, keys, n, &packed, &entry, error);
    if (status != KVS_OK)
        return status;
    uint64_t now_ms = registry_now_ms(registry_of(client));
    for (size_t at = n, from, part; next_part(&at, &from, &part);)
        catalog_delete(registry_catalog(entry), now_ms, packed.keys + from, part);
    leave(entry, &packed);
    return KVS_OK;
}

static enum kvs_status local_clear(struct metadata_client *client,
                                   const struct metadata_scope *scope, struct kvs_error *error)
{
    struct registry_entry *entry;
    enum kvs_status status = local_lock(client, scope, &entry, error);
    if (status != KVS_OK)
        return status;
    catalog_clear(registry_catalog(entry), registry_now_ms(registry_of(client)));
    registry_unlock(entry);
    return KVS_OK;
}

static enum kvs_status local_report(struct metadata_client *client,
                                    const struct metadata_scope *scope,
                                    const struct metadata_release pages[], size_t n,
                                    struct kvs_error *error)
{
    struct registry_entry *entry;
    enum kvs_status status = local_lock(client, scope, &entry, error);
    if (status != KVS_OK)
        return status;
    uint64_t now_ms = registry_now_ms(registry_of(client));
    for (size_t i = 0; i < n; i++) {
        struct key key;
        key_parse(&key, pages[i].key.text, pages[i].key.length, scope->ns);
        catalog_report_mismatch(registry_catalog(entry), now_ms, &key, pages[i].page,
                                pages[i].generation);
    }
    registry_unlock(entry);
    return KVS_OK;
}

static struct metadata_client *local_close(struct metadata_client *client)
{
    if (client != NULL)
        registry_close(registry_of(client));
    free(client);
    return NULL;
}

static const struct metadata_ops local_ops = {
    .initialize = local_initialize,
    .reserve_and_allocate_page_indices = local_reserve,
    .confirm_write = local_confirm,
    .get_page_indices = local_get,
    .exists = local_exists,
    .delete_keys = local_delete,
    .clear = local_clear,
    .report_mismatch = local_report,
    .close = local_close,
};

enum kvs_status metadata_local_open(const struct registry_options *options, bool verified_only,
                                    struct metadata_client **ret_client, struct kvs_error *error)
{
    struct local_client *local = malloc(sizeof(*local));
    if (local == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a metadata client");
    local->client.ops = &local_ops;
    local->verified_only = verified_only;
    enum kvs_status status = registry_open(options, &local->registry, error);
    if (status != KVS_OK) {
        free(local);
        return status;
    }
    *ret_client = &local->client;
    return KVS_OK;
}
