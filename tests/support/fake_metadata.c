/* The fake client: each operation is the catalog's, after the script has had its say. */
#include "support/fake_metadata.h"

#include "base/status.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake_metadata *fake_of(struct metadata_client *client)
{
    return (struct fake_metadata *)client;
}

/* Takes the lock, or fails. */
static enum kvs_status begin(struct fake_metadata *fake, enum fake_call call, size_t n,
                             struct kvs_error *error)
{
    if (fake->before != NULL)
        fake->before(fake->before_arg, call);
    pthread_mutex_lock(&fake->lock);
    fake->calls[call]++;
    fake->keys[call] += n;
    bool fails = fake->failing[call];
    if (fake->fail_nth > 0 && --fake->fail_nth == 0)
        fails = true;
    if (!fails)
        return KVS_OK;
    pthread_mutex_unlock(&fake->lock);
    return error_set(error, KVS_ERR_NO_MEMORY, "playing a dead index");
}

static struct fake_catalog *find(struct fake_metadata *fake, uint32_t rank, const char *ns)
{
    for (size_t i = 0; i < fake->catalog_count; i++)
        if (fake->catalogs[i].rank == rank && strcmp(fake->catalogs[i].ns, ns) == 0)
            return &fake->catalogs[i];
    return NULL;
}

static enum kvs_status differs(const struct fake_catalog *entry, const struct metadata_scope *scope,
                               uint64_t asked_pages, struct kvs_error *error)
{
    return error_set(error, KVS_ERR_GEOMETRY_DIFFERS, NUM(scope->rank), scope->ns,
                     NUM(catalog_num_pages(entry->catalog)), NUM(entry->bytes_per_page),
                     NUM(asked_pages), NUM(scope->bytes_per_page));
}

static enum kvs_status begin_with(struct fake_metadata *fake, enum fake_call call, size_t n,
                                  const struct metadata_scope *scope, struct catalog **ret_catalog,
                                  struct kvs_error *error)
{
    enum kvs_status status = begin(fake, call, n, error);
    if (status != KVS_OK)
        return status;
    struct fake_catalog *entry = find(fake, scope->rank, scope->ns);
    if (entry == NULL) {
        pthread_mutex_unlock(&fake->lock);
        return error_set(error, KVS_ERR_NOT_INITIALIZED, scope->ns, NUM(scope->rank));
    }
    if (entry->bytes_per_page != scope->bytes_per_page) {
        pthread_mutex_unlock(&fake->lock);
        return differs(entry, scope, catalog_num_pages(entry->catalog), error);
    }
    *ret_catalog = entry->catalog;
    return KVS_OK;
}

static enum kvs_status end_without_memory(struct fake_metadata *fake, struct kvs_error *error)
{
    pthread_mutex_unlock(&fake->lock);
    return error_set(error, KVS_ERR_NO_MEMORY, "reading keys");
}

static struct key *parse(const struct metadata_text keys[], size_t n, const char *ns)
{
    struct key *parsed = calloc(n + 1, sizeof(*parsed));
    for (size_t i = 0; parsed != NULL && i < n; i++)
        key_parse(&parsed[i], keys[i].text, keys[i].length, ns);
    return parsed;
}

static enum kvs_status fake_initialize(struct metadata_client *client,
                                       const struct metadata_scope *scope, uint64_t num_pages,
                                       struct kvs_error *error)
{
    struct fake_metadata *fake = fake_of(client);
    enum kvs_status status = begin(fake, FAKE_INITIALIZE, 0, error);
    if (status != KVS_OK)
        return status;
    struct fake_catalog *entry = find(fake, scope->rank, scope->ns);
    if (entry != NULL && (catalog_num_pages(entry->catalog) != num_pages ||
                          entry->bytes_per_page != scope->bytes_per_page)) {
        status = differs(entry, scope, num_pages, error);
    } else if (entry == NULL) {
        assert_true(fake->catalog_count < FAKE_CATALOGS_MAX);
        entry = &fake->catalogs[fake->catalog_count];
        const struct catalog_options options = {
            .num_pages = (uint32_t)num_pages,
            .reserve_ttl_ms = fake->reserve_ttl_ms,
            .quarantine_ms = fake->quarantine_ms,
            .wall_us = 1000,
        };
        status = catalog_open(&options, fake->now_ms, &entry->catalog, error);
        if (status == KVS_OK) {
            fake->catalog_count++;
            entry->rank = scope->rank;
            entry->bytes_per_page = scope->bytes_per_page;
            snprintf(entry->ns, sizeof(entry->ns), "%s", scope->ns);
            snprintf(entry->fingerprint, sizeof(entry->fingerprint), "%s",
                     scope->fingerprint == NULL ? "" : scope->fingerprint);
        }
    }
    pthread_mutex_unlock(&fake->lock);
    return status;
}

/* A page that was given is not given after all. */
static void take_back(struct fake_metadata *fake, struct catalog *catalog,
                      struct catalog_reserved *reserved)
{
    const struct catalog_release release = {
        .page = reserved->page, .has_generation = true, .generation = reserved->generation};
    enum catalog_rejection reason;
    catalog_release(catalog, fake->now_ms, &release, 1, &reason);
    *reserved = (struct catalog_reserved){.page = -1};
}

static enum kvs_status fake_reserve(struct metadata_client *client,
                                    const struct metadata_scope *scope,
                                    const struct metadata_text keys[], size_t n,
                                    struct catalog_reserved ret_reserved[], struct kvs_error *error)
{
    struct fake_metadata *fake = fake_of(client);
    struct catalog *catalog;
    enum kvs_status status = begin_with(fake, FAKE_RESERVE, n, scope, &catalog, error);
    if (status != KVS_OK)
        return status;
    struct key *parsed = parse(keys, n, scope->ns);
    if (parsed == NULL)
        return end_without_memory(fake, error);
    status = catalog_reserve(catalog, fake->now_ms, parsed, n, true, 0, ret_reserved);
    for (size_t i = 0; status == KVS_OK && i < n && fake->no_page_for_v; i++)
        if (parsed[i].suffix == KEY_V && !ret_reserved[i].present)
            take_back(fake, catalog, &ret_reserved[i]);
    for (size_t i = 0; status == KVS_OK && i < n; i++)
        if (ret_reserved[i].page >= 0)
            ret_reserved[i].page += fake->page_offset;
    free(parsed);
    pthread_mutex_unlock(&fake->lock);
    return status == KVS_OK ? KVS_OK : error_set(error, status, "reserving pages");
}

static enum kvs_status fake_confirm(struct metadata_client *client,
                                    const struct metadata_scope *scope,
                                    const struct metadata_confirm confirms[], size_t n_confirm,
                                    const struct metadata_release releases[], size_t n_release,
                                    enum catalog_rejection ret_reasons[], struct kvs_error *error)
{
    struct fake_metadata *fake = fake_of(client);
    struct catalog *catalog;
    enum kvs_status status =
        begin_with(fake, FAKE_CONFIRM, n_confirm + n_release, scope, &catalog, error);
    if (status != KVS_OK)
        return status;
    for (size_t i = 0; i < n_confirm; i++) {
        struct catalog_confirm entry = {.page = confirms[i].page,
                                        .has_generation = true,
                                        .has_checksum = true,
                                        .generation = confirms[i].generation,
                                        .checksum = confirms[i].checksum};
        enum catalog_rejection reason;
        key_parse(&entry.key, confirms[i].key.text, confirms[i].key.length, scope->ns);
        catalog_confirm(catalog, fake->now_ms, &entry, 1, &reason);
        fake->confirmed += reason == CATALOG_ACCEPTED;
        if (ret_reasons != NULL)
            ret_reasons[i] = reason;
    }
    for (size_t i = 0; i < n_release; i++) {
        struct catalog_release entry = {.page = releases[i].page,
                                        .has_generation = true,
                                        .has_key = true,
                                        .generation = releases[i].generation};
        enum catalog_rejection reason;
        key_parse(&entry.key, releases[i].key.text, releases[i].key.length, scope->ns);
        catalog_release(catalog, fake->now_ms, &entry, 1, &reason);
        fake->released += reason == CATALOG_ACCEPTED;
    }
    pthread_mutex_unlock(&fake->lock);
    return KVS_OK;
}

static enum kvs_status fake_get(struct metadata_client *client, const struct metadata_scope *scope,
                                const struct metadata_text keys[], size_t n,
                                struct catalog_found ret_found[], struct kvs_error *error)
{
    struct fake_metadata *fake = fake_of(client);
    struct catalog *catalog;
    enum kvs_status status = begin_with(fake, FAKE_GET, n, scope, &catalog, error);
    if (status != KVS_OK)
        return status;
    struct key *parsed = parse(keys, n, scope->ns);
    if (parsed == NULL)
        return end_without_memory(fake, error);
    catalog_get(catalog, fake->now_ms, parsed, n, true, ret_found);
    for (size_t i = 0; i < n; i++) {
        if (ret_found[i].page >= 0)
            ret_found[i].page += fake->page_offset;
        if (fake->drop_checksums)
            ret_found[i].has_checksum = false;
    }
    free(parsed);
    pthread_mutex_unlock(&fake->lock);
    return KVS_OK;
}

static enum kvs_status fake_exists(struct metadata_client *client,
                                   const struct metadata_scope *scope,
                                   const struct metadata_text keys[], size_t n, bool ret_exists[],
                                   struct kvs_error *error)
{
    struct fake_metadata *fake = fake_of(client);
    struct catalog *catalog;
    enum kvs_status status = begin_with(fake, FAKE_EXISTS, n, scope, &catalog, error);
    if (status != KVS_OK)
        return status;
    struct key *parsed = parse(keys, n, scope->ns);
    if (parsed == NULL)
        return end_without_memory(fake, error);
    catalog_exists(catalog, fake->now_ms, parsed, n, true, ret_exists);
    free(parsed);
    pthread_mutex_unlock(&fake->lock);
    return KVS_OK;
}

static enum kvs_status fake_delete(struct metadata_client *client,
                                   const struct metadata_scope *scope,
                                   const struct metadata_text keys[], size_t n,
                                   struct kvs_error *error)
{
    struct fake_metadata *fake = fake_of(client);
    struct catalog *catalog;
    enum kvs_status status = begin_with(fake, FAKE_DELETE, n, scope, &catalog, error);
    if (status != KVS_OK)
        return status;
    struct key *parsed = parse(keys, n, scope->ns);
    if (parsed == NULL)
        return end_without_memory(fake, error);
    catalog_delete(catalog, fake->now_ms, parsed, n);
    free(parsed);
    pthread_mutex_unlock(&fake->lock);
    return KVS_OK;
}

static enum kvs_status fake_clear(struct metadata_client *client,
                                  const struct metadata_scope *scope, struct kvs_error *error)
{
    struct fake_metadata *fake = fake_of(client);
    struct catalog *catalog;
    enum kvs_status status = begin_with(fake, FAKE_CLEAR, 0, scope, &catalog, error);
    if (status != KVS_OK)
        return status;
    catalog_clear(catalog, fake->now_ms);
    pthread_mutex_unlock(&fake->lock);
    return KVS_OK;
}

static enum kvs_status fake_report(struct metadata_client *client,
                                   const struct metadata_scope *scope,
                                   const struct metadata_release pages[], size_t n,
                                   struct kvs_error *error)
{
    struct fake_metadata *fake = fake_of(client);
    struct catalog *catalog;
    enum kvs_status status = begin_with(fake, FAKE_REPORT, n, scope, &catalog, error);
    if (status != KVS_OK)
        return status;
    for (size_t i = 0; i < n; i++) {
        struct key key;
        key_parse(&key, pages[i].key.text, pages[i].key.length, scope->ns);
        catalog_report_mismatch(catalog, fake->now_ms, &key, pages[i].page, pages[i].generation);
    }
    pthread_mutex_unlock(&fake->lock);
    return KVS_OK;
}

static struct metadata_client *fake_close(struct metadata_client *client)
{
    fake_of(client)->closed++;
    return NULL;
}

static const struct metadata_ops fake_ops = {
    .initialize = fake_initialize,
    .reserve_and_allocate_page_indices = fake_reserve,
    .confirm_write = fake_confirm,
    .get_page_indices = fake_get,
    .exists = fake_exists,
    .delete_keys = fake_delete,
    .clear = fake_clear,
    .report_mismatch = fake_report,
    .close = fake_close,
};

void fake_metadata_init(struct fake_metadata *fake)
{
    *fake = (struct fake_metadata){
        .client = {&fake_ops}, .now_ms = 1000, .reserve_ttl_ms = 60000, .quarantine_ms = 0};
    pthread_mutex_init(&fake->lock, NULL);
}

void fake_metadata_forget(struct fake_metadata *fake)
{
    pthread_mutex_lock(&fake->lock);
    for (size_t i = 0; i < fake->catalog_count; i++)
        catalog_close(fake->catalogs[i].catalog);
    fake->catalog_count = 0;
    pthread_mutex_unlock(&fake->lock);
}

void fake_metadata_done(struct fake_metadata *fake)
{
    fake_metadata_forget(fake);
    pthread_mutex_destroy(&fake->lock);
}

struct catalog_counts fake_metadata_counts(struct fake_metadata *fake, uint32_t rank,
                                           const char *ns)
{
    pthread_mutex_lock(&fake->lock);
    struct fake_catalog *entry = find(fake, rank, ns);
    assert_non_null(entry);
    const char *fault = catalog_check(entry->catalog);
    struct catalog_counts counts = catalog_counts(entry->catalog, fake->now_ms);
    uint64_t total = catalog_num_pages(entry->catalog);
    pthread_mutex_unlock(&fake->lock);
    if (fault != NULL)
        fail_msg("the catalog: %s", fault);
    assert_int_equal(counts.free + counts.reserved + counts.committed + counts.retired, total);
    return counts;
}

int64_t fake_metadata_page(struct fake_metadata *fake, uint32_t rank, const char *ns,
                           const char *key)
{
    struct key parsed;
    struct catalog_found found;
    key_parse(&parsed, key, strlen(key), ns);
    pthread_mutex_lock(&fake->lock);
    struct fake_catalog *entry = find(fake, rank, ns);
    assert_non_null(entry);
    catalog_get(entry->catalog, fake->now_ms, &parsed, 1, true, &found);
    pthread_mutex_unlock(&fake->lock);
    return found.page;
}
