/* The local metadata client: each operation, the exact error before initialize, long batches. */
#include "metadata/metadata.h"
#include "metadata/registry.h"
#include "support/kept.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 16, TTL_MS = 60000 };

static struct kept_place place;
static struct metadata_client *client;
static struct kvs_error error;
static const struct metadata_scope scope = {.rank = 2, .ns = "kv", .bytes_per_page = 4096};

static struct registry_options options_of(const char *dir)
{
    return (struct registry_options){.dir = dir,
                                     .reserve_ttl_ms = TTL_MS,
                                     .quarantine_ms = TTL_MS,
                                     .lease_ms = 10000,
                                     .log = {kept_log, NULL},
                                     .boot_ms = kept_boot_ms,
                                     .os = &place.os};
}

static void open_client(const char *dir)
{
    const struct registry_options options = options_of(dir);
    assert_int_equal(metadata_local_open(&options, true, &client, &error), KVS_OK);
}

static int set_up(void **state)
{
    (void)state;
    kept_make(&place);
    open_client(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client = client->ops->close(client);
    assert_null(client);
    kept_remove(&place);
    return 0;
}

static void initialize(uint64_t pages)
{
    assert_int_equal(client->ops->initialize(client, &scope, pages, &error), KVS_OK);
}

/* "%064x" and a suffix; the texts are not NUL-terminated on purpose. */
struct texts {
    char *bytes;
    struct metadata_text *keys;
    size_t n;
};

static struct texts texts_of(size_t n, unsigned first, const char *suffix)
{
    size_t stride = 64 + strlen(suffix);
    struct texts texts = {malloc(n * stride + 1), malloc((n + 1) * sizeof(struct metadata_text)),
                          n};
    assert_true(texts.bytes != NULL && texts.keys != NULL);
    for (size_t i = 0; i < n; i++) {
        char text[128];
        snprintf(text, sizeof(text), "%064zx%s", first + i, suffix);
        memcpy(texts.bytes + i * stride, text, stride);
        texts.keys[i] = (struct metadata_text){texts.bytes + i * stride, stride};
    }
    return texts;
}

static void texts_free(struct texts *texts)
{
    free(texts->bytes);
    free(texts->keys);
}

/* Reserves and confirms all; returns how many were new. */
static size_t store(const struct texts *texts)
{
    struct catalog_reserved *reserved = calloc(texts->n, sizeof(*reserved));
    struct metadata_confirm *confirms = calloc(texts->n, sizeof(*confirms));
    enum catalog_rejection *reasons = calloc(texts->n, sizeof(*reasons));
    assert_true(reserved != NULL && confirms != NULL && reasons != NULL);
    assert_int_equal(client->ops->reserve_and_allocate_page_indices(client, &scope, texts->keys,
                                                                    texts->n, reserved, &error),
                     KVS_OK);
    size_t n = 0;
    for (size_t i = 0; i < texts->n; i++)
        if (!reserved[i].present && reserved[i].page >= 0)
            confirms[n++] = (struct metadata_confirm){texts->keys[i], reserved[i].page,
                                                      reserved[i].generation, 1000 + i};
    assert_int_equal(
        client->ops->confirm_write(client, &scope, confirms, n, NULL, 0, reasons, &error), KVS_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(reasons[i], CATALOG_ACCEPTED);
    free(reserved);
    free(confirms);
    free(reasons);
    return n;
}

static size_t count_present(const struct texts *texts)
{
    bool *exists = calloc(texts->n + 1, sizeof(*exists));
    assert_non_null(exists);
    assert_int_equal(client->ops->exists(client, &scope, texts->keys, texts->n, exists, &error),
                     KVS_OK);
    size_t n = 0;
    for (size_t i = 0; i < texts->n; i++)
        n += exists[i];
    free(exists);
    return n;
}

static void before_initialize_every_operation_says_so(void **state)
{
    (void)state;
    struct texts texts = texts_of(1, 1, "");
    struct catalog_reserved reserved;
    struct catalog_found found;
    struct metadata_release release = {texts.keys[0], 0, 0};
    bool exists;
    const struct metadata_ops *ops = client->ops;
    for (unsigned i = 0; i < 7; i++) {
        enum kvs_status status = KVS_OK;
        memset(&error, 0, sizeof(error));
        if (i == 0)
            status = ops->reserve_and_allocate_page_indices(client, &scope, texts.keys, 1,
                                                            &reserved, &error);
        else if (i == 1)
            status = ops->confirm_write(client, &scope, NULL, 0, NULL, 0, NULL, &error);
        else if (i == 2)
            status = ops->get_page_indices(client, &scope, texts.keys, 1, &found, &error);
        else if (i == 3)
            status = ops->exists(client, &scope, texts.keys, 1, &exists, &error);
        else if (i == 4)
            status = ops->delete_keys(client, &scope, texts.keys, 1, &error);
        else if (i == 5)
            status = ops->clear(client, &scope, &error);
        else
            status = ops->report_mismatch(client, &scope, &release, 1, &error);
        assert_int_equal(status, KVS_ERR_NOT_INITIALIZED);
        assert_string_equal(error.message, "Namespace 'kv' for rank 2 not initialized");
    }
    texts_free(&texts);
}

static void what_is_confirmed_is_found(void **state)
{
    (void)state;
    struct texts texts = texts_of(3, 1, "-k");
    struct catalog_found found[3];
    initialize(PAGES);
    assert_int_equal(store(&texts), 3);
    assert_int_equal(store(&texts), 0); /* all present */
    assert_int_equal(count_present(&texts), 3);
    assert_int_equal(client->ops->get_page_indices(client, &scope, texts.keys, 3, found, &error),
                     KVS_OK);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(found[i].page >= 0 && found[i].page < PAGES && found[i].has_checksum);
        assert_int_equal(found[i].checksum, 1000 + i);
        assert_true(found[i].generation != 0);
    }
    assert_int_equal(client->ops->delete_keys(client, &scope, texts.keys, 1, &error), KVS_OK);
    assert_int_equal(count_present(&texts), 2);
    assert_int_equal(client->ops->clear(client, &scope, &error), KVS_OK);
    assert_int_equal(count_present(&texts), 0);
    texts_free(&texts);
}

static void generations_are_checked(void **state)
{
    (void)state;
    struct texts texts = texts_of(2, 1, "");
    struct catalog_reserved reserved[2];
    enum catalog_rejection reasons[2];
    initialize(PAGES);
    assert_int_equal(client->ops->reserve_and_allocate_page_indices(client, &scope, texts.keys, 2,
                                                                    reserved, &error),
                     KVS_OK);
    struct metadata_confirm confirms[] = {
        {texts.keys[0], reserved[0].page, reserved[0].generation + 100, 1},
        {texts.keys[1], PAGES, reserved[1].generation, 1},
    };
    struct metadata_release release = {texts.keys[1], reserved[1].page, reserved[1].generation};
    assert_int_equal(
        client->ops->confirm_write(client, &scope, confirms, 2, &release, 1, reasons, &error),
        KVS_OK);
    assert_int_equal(reasons[0], CATALOG_OTHER_GENERATION);
    assert_int_equal(reasons[1], CATALOG_OUT_OF_RANGE);
    assert_int_equal(count_present(&texts), 0);

    /* The released page is gone: its confirm comes too late. */
    struct metadata_confirm late = {texts.keys[1], reserved[1].page, reserved[1].generation, 1};
    assert_int_equal(client->ops->confirm_write(client, &scope, &late, 1, NULL, 0, reasons, &error),
                     KVS_OK);
    assert_int_equal(reasons[0], CATALOG_NOT_RESERVED);
    texts_free(&texts);
}

static void a_mismatch_retires_the_page_it_names(void **state)
{
    (void)state;
    struct texts texts = texts_of(1, 1, "");
    struct catalog_found found;
    initialize(PAGES);
    store(&texts);
    client->ops->get_page_indices(client, &scope, texts.keys, 1, &found, &error);
    struct metadata_release report = {texts.keys[0], found.page, found.generation + 1};
    assert_int_equal(client->ops->report_mismatch(client, &scope, &report, 1, &error), KVS_OK);
    assert_int_equal(count_present(&texts), 1);
    report.generation = found.generation;
    assert_int_equal(client->ops->report_mismatch(client, &scope, &report, 1, &error), KVS_OK);
    assert_int_equal(count_present(&texts), 0);
    texts_free(&texts);
}

static void another_page_size_is_refused_on_every_call(void **state)
{
    (void)state;
    struct metadata_scope other = scope;
    struct texts texts = texts_of(1, 1, "");
    bool exists;
    initialize(PAGES);
    other.bytes_per_page = 8192;
    assert_int_equal(client->ops->initialize(client, &other, PAGES, &error),
                     KVS_ERR_GEOMETRY_DIFFERS);
    assert_int_equal(client->ops->exists(client, &other, texts.keys, 1, &exists, &error),
                     KVS_ERR_GEOMETRY_DIFFERS);
    texts_free(&texts);
}

/* Longer than what a catalog takes at once, and longer than what fits on the stack. */
static void long_batches_are_split(void **state)
{
    (void)state;
    enum { LONG = 2 * CATALOG_BATCH_MAX + 7 };
    struct texts texts = texts_of(LONG, 1, "-v");
    initialize(LONG);
    assert_int_equal(store(&texts), LONG);
    assert_int_equal(count_present(&texts), LONG);
    assert_int_equal(client->ops->delete_keys(client, &scope, texts.keys, LONG - 1, &error),
                     KVS_OK);
    assert_int_equal(count_present(&texts), 1);
    struct texts none = texts_of(0, 1, "");
    assert_int_equal(store(&none), 0);
    texts_free(&none);
    texts_free(&texts);
}

static void it_is_kept_in_a_directory(void **state)
{
    (void)state;
    struct texts texts = texts_of(5, 1, "-k");
    client->ops->close(client);
    open_client(place.dir);
    initialize(PAGES);
    store(&texts);
    client->ops->close(client);
    open_client(place.dir);
    assert_int_equal(count_present(&texts), 5);
    initialize(PAGES);
    struct metadata_client *second;
    struct registry_options options = {.dir = place.dir, .os = &place.os};
    assert_int_equal(metadata_local_open(&options, true, &second, &error), KVS_ERR_CATALOG_IN_USE);
    texts_free(&texts);
}

/* What a server has in its directory after clients of the original protocol, which know no
 * checksums. */
static void leave_unverified(const struct metadata_text *text)
{
    const struct registry_options options = options_of(place.dir);
    struct registry *registry;
    struct key key;
    struct catalog_reserved reserved;
    enum catalog_rejection reason;
    assert_int_equal(registry_open(&options, &registry, &error), KVS_OK);
    assert_int_equal(registry_initialize(registry, scope.rank, scope.ns, PAGES, 4096, NULL, &error),
                     KVS_OK);
    struct registry_entry *entry = registry_lock(registry, scope.rank, scope.ns, 2);
    struct catalog *catalog = registry_catalog(entry);
    key_parse(&key, text->text, text->length, scope.ns);
    assert_int_equal(catalog_reserve(catalog, kept_clock_ms, &key, 1, false, 0, &reserved), KVS_OK);
    struct catalog_confirm confirm = {.key = key, .page = reserved.page};
    catalog_confirm(catalog, kept_clock_ms, &confirm, 1, &reason);
    assert_int_equal(reason, CATALOG_ACCEPTED);
    registry_unlock(entry);
    registry_close(registry);
}

static void pages_without_a_checksum_are_there_for_who_believes_them(void **state)
{
    (void)state;
    struct texts texts = texts_of(3, 1, "");
    const struct registry_options options = options_of(place.dir);
    client->ops->close(client);
    leave_unverified(&texts.keys[1]);
    for (int verified_only = 0; verified_only < 2; verified_only++) {
        struct catalog_found found[3];
        assert_int_equal(metadata_local_open(&options, verified_only, &client, &error), KVS_OK);
        if (!verified_only) {
            struct texts first = {texts.bytes, texts.keys, 1};
            assert_int_equal(store(&first), 1);
        }
        assert_int_equal(count_present(&texts), verified_only ? 1 : 2);
        assert_int_equal(
            client->ops->get_page_indices(client, &scope, texts.keys, 3, found, &error), KVS_OK);
        assert_true(found[0].page >= 0 && found[0].has_checksum);
        assert_int_equal(found[1].page >= 0, !verified_only);
        assert_false(found[1].page >= 0 && found[1].has_checksum);
        assert_int_equal(found[2].page, -1);
        client->ops->close(client);
    }
    open_client(place.dir);
    texts_free(&texts);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(before_initialize_every_operation_says_so),
        TEST(what_is_confirmed_is_found),
        TEST(generations_are_checked),
        TEST(a_mismatch_retires_the_page_it_names),
        TEST(another_page_size_is_refused_on_every_call),
        TEST(long_batches_are_split),
        TEST(it_is_kept_in_a_directory),
        TEST(pages_without_a_checksum_are_there_for_who_believes_them),
    };
    return cmocka_run_group_tests_name("local", tests, NULL, NULL);
}
