/* Pools: own file, page size, namespace and key suffix; what is per rank and what is for all; and
 * that no two shards, models or ranks meet on one page. */
#include "support/store_fixture.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

static uint32_t add(struct store_fixture *f, const char *name, uint64_t bytes, bool replicated)
{
    const struct kvs_pool_options options = {.size = sizeof(options),
                                             .name = name,
                                             .bytes_per_page = bytes,
                                             .file_size = 16 * bytes,
                                             .replicated = replicated};
    struct kvs_error error = {0};
    uint32_t pool = 99;
    if (kvs_store_add_pool(f->store, &options, &pool, &error) != KVS_OK)
        fail_msg("pool '%s': %s", name, error.message);
    return pool;
}

static bool set_one(struct store_fixture *f, uint32_t pool, const char *key, const void *bytes)
{
    bool stored[1];
    kvs_store_batch_set(f->store, pool, 1, &key, &bytes, stored);
    return stored[0];
}

static bool get_one(struct store_fixture *f, uint32_t pool, const char *key, void *bytes)
{
    bool loaded[1];
    kvs_store_batch_get(f->store, pool, 1, &key, &bytes, loaded);
    return loaded[0];
}

static void test_extra_pools_have_their_own_file_size_and_keys(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->options.pairs = true; /* of the KV pool only */
    fixture_open(f);
    uint32_t mamba = add(f, "mamba", 700, false);
    uint32_t indexer = add(f, "indexer", 33, true);
    assert_int_equal(mamba, 1);
    assert_int_equal(indexer, 2);
    uint8_t state_page[700], index_page[33], back[700];
    fixture_fill(state_page, 700, 1, 0);
    fixture_fill(index_page, 33, 2, 0);
    fixture_set(f, 0, 1);
    assert_true(set_one(f, mamba, f->keys[0], state_page));
    assert_true(set_one(f, indexer, f->keys[0], index_page));
    assert_int_equal(fixture_get(f, 0, 1), 1);
    assert_true(get_one(f, mamba, f->keys[0], back));
    assert_memory_equal(back, state_page, 700);
    assert_true(get_one(f, indexer, f->keys[0], back));
    assert_memory_equal(back, index_page, 33);

    char key[80];
    snprintf(key, sizeof(key), "%s_mamba", f->keys[0]);
    assert_true(fake_metadata_page(&f->metadata, 0, "mamba", key) >= 0);
    struct kvs_pool_info info;
    assert_true(kvs_store_pool_info(f->store, mamba, &info));
    assert_string_equal(info.name, "mamba");
    assert_string_equal(info.file_path, "/fake/pages.0.bin.mamba");
    assert_int_equal(info.num_pages, 16);
    assert_true(kvs_store_pool_info(f->store, KVS_POOL_KV, &info));
    assert_string_equal(info.name, "kv");
    assert_string_equal(info.ns, "kv");
    assert_false(kvs_store_pool_info(f->store, 3, &info));
    fixture_free(f);
}

static void test_adding_again_gives_the_same_pool(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    uint32_t first = add(f, "swa", 100, false);
    assert_int_equal(add(f, "mamba", 200, false), first + 1);
    assert_int_equal(add(f, "swa", 100, false), first); /* any order, any number of times */
    struct kvs_pool_options kv = {
        .size = sizeof(kv), .name = "kv", .bytes_per_page = FIXTURE_PAGE_BYTES};
    uint32_t pool = 99;
    assert_int_equal(kvs_store_add_pool(f->store, &kv, &pool, NULL), KVS_OK);
    assert_int_equal(pool, KVS_POOL_KV);
    fixture_free(f);
}

static void test_pools_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t bytes, file_size;
        enum kvs_status status;
        const char *words;
    } cases[] = {
        {"mamba", 0, 0, KVS_ERR_CONFIG_PAGE_BYTES, "bytes_per_page must be positive"},
        {"", 100, 0, KVS_ERR_CONFIG_POOL, "empty"},
        {NULL, 100, 0, KVS_ERR_CONFIG_POOL, "empty"},
        {"a@b", 100, 0, KVS_ERR_CONFIG_POOL, "'@'"},
        {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
         "xx"
         "xxxxxxxxxxx",
         100, 0, KVS_ERR_CONFIG_POOL, "100 bytes"},
        {"big", 1000, 999, KVS_ERR_CONFIG_FILE_SIZE, "smaller than one page"},
        {"tiny", 1, 1ull << 40, KVS_ERR_CONFIG_FILE_SIZE, "1073741824"},
        {"huge", (1ull << 30) + 1, 1ull << 40, KVS_ERR_CONFIG_VALUE, "1 GiB"},
        {"there", 101, 0, KVS_ERR_CONFIG_POOL, "already"},
        {"kv", FIXTURE_PAGE_BYTES + 1, 0, KVS_ERR_CONFIG_POOL, "already"},
    };
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    add(f, "there", 100, false);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const struct kvs_pool_options options = {.size = sizeof(options),
                                                 .name = cases[c].name,
                                                 .bytes_per_page = cases[c].bytes,
                                                 .file_size = cases[c].file_size};
        struct kvs_error error = {0};
        uint32_t pool = 99;
        enum kvs_status status = kvs_store_add_pool(f->store, &options, &pool, &error);
        if (status != cases[c].status || strstr(error.message, cases[c].words) == NULL)
            fail_msg("case %zu: %d: %s", c, status, error.message);
        assert_int_equal(error.status, status);
        assert_int_equal(pool, 99); /* untouched */
    }
    /* the store goes on */
    assert_int_equal(fixture_set(f, 0, 4), 4);
    fixture_free(f);
}

static void test_number_of_pools_is_bounded(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    char name[16];
    uint32_t pool;
    struct kvs_pool_options options = {.size = sizeof(options), .name = name, .bytes_per_page = 8};
    options.file_size = 8;
    for (int i = 1; i < FAKE_CATALOGS_MAX; i++) {
        snprintf(name, sizeof(name), "p%d", i);
        assert_int_equal(kvs_store_add_pool(f->store, &options, &pool, NULL), KVS_OK);
    }
    /* the double has room for no more: from here on pretend */
    atomic_store(&f->store->pool_count, KVS_POOLS_MAX);
    for (int i = FAKE_CATALOGS_MAX; i < KVS_POOLS_MAX; i++)
        f->store->pools[i] = f->store->pools[0];
    snprintf(name, sizeof(name), "one-more");
    struct kvs_error error = {0};
    assert_int_equal(kvs_store_add_pool(f->store, &options, &pool, &error), KVS_ERR_CONFIG_POOL);
    assert_non_null(strstr(error.message, "at most 32"));
    atomic_store(&f->store->pool_count, FAKE_CATALOGS_MAX);
    fixture_free(f);
}

/* Any name an engine may come up with has a file of its own. */
static void test_odd_names(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    static const char *const names[] = {"a/b",     "..", "a b", "a.b", "deepseek_v4_c4_indexer",
                                        "\xc3\xa9"};
    uint8_t page[64], back[64];
    for (size_t i = 0; i < 6; i++) {
        uint32_t pool = add(f, names[i], 64, false);
        fixture_fill(page, 64, i, 0);
        assert_true(set_one(f, pool, "key", page));
        struct kvs_pool_info info;
        assert_true(kvs_store_pool_info(f->store, pool, &info));
        assert_null(strchr(info.file_path + strlen("/fake/"), '/'));
    }
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(get_one(f, i + 1, "key", back));
        assert_true(fixture_holds(back, 64, i, 0));
    }
    fixture_free(f);
}

/* A pool of another model keeps its pages when the KV pool's are gone, and the other way round;
 * clear empties all. */
static void test_clear_empties_every_pool(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    uint32_t mamba = add(f, "mamba", 64, false);
    uint8_t page[64] = {1};
    fixture_set(f, 0, 4);
    assert_true(set_one(f, mamba, "key", page));
    assert_int_equal(kvs_store_clear(f->store, NULL), KVS_OK);
    assert_int_equal(fixture_get(f, 0, 4), 0);
    assert_false(get_one(f, mamba, "key", page));

    /* when one fails the others are emptied all the same */
    fixture_set(f, 0, 4);
    assert_true(set_one(f, mamba, "key", page));
    f->metadata.fail_nth = 1;
    struct kvs_error error = {0};
    assert_int_equal(kvs_store_clear(f->store, &error), KVS_ERR_NO_MEMORY);
    assert_int_equal(error.status, KVS_ERR_NO_MEMORY);
    assert_int_equal(fixture_get(f, 0, 4), 4);
    assert_false(get_one(f, mamba, "key", page));
    fixture_free(f);
}

/* ---- MLA ------------------------------------------------------------------------------------ */

/* Two ranks of an MLA model over one index and one engine. KV: rank 0 writes, both read. Mamba:
 * each has its own (the original: all ranks write one file and overwrite each other). */
static void test_mla_ranks(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->options.is_mla_model = true;
    f->options.tp_size = 2;
    fixture_open(f);
    struct kvs_store *rank0 = f->store;
    uint32_t mamba0 = add(f, "mamba", 64, false), indexer0 = add(f, "indexer", 32, true);
    f->options.tp_rank = 1;
    fixture_open(f);
    struct kvs_store *rank1 = f->store;
    uint32_t mamba1 = add(f, "mamba", 64, false), indexer1 = add(f, "indexer", 32, true);

    struct kvs_pool_info info;
    assert_true(kvs_store_pool_info(rank1, KVS_POOL_KV, &info));
    assert_string_equal(info.file_path, "/fake/pages.0.bin");
    assert_int_equal(info.rank, 0);
    assert_false(info.writes);
    assert_true(kvs_store_pool_info(rank1, mamba1, &info));
    assert_string_equal(info.file_path, "/fake/pages.1.bin.mamba");
    assert_int_equal(info.rank, 1);
    assert_true(info.writes);
    assert_true(kvs_store_pool_info(rank1, indexer1, &info));
    assert_string_equal(info.file_path, "/fake/pages.0.bin.indexer");
    assert_false(info.writes);

    /* rank 1 does not write KV, and answers true for each key */
    uint64_t writes = f->engine.write_ios;
    assert_int_equal(fixture_set(f, 0, 5), 5);
    assert_int_equal(f->engine.write_ios, writes);
    assert_int_equal(fixture_stats(f).pages_skipped, 5);
    assert_int_equal(fixture_exists(f, 0, 5), 0);
    f->store = rank0;
    assert_int_equal(fixture_set(f, 0, 5), 5);
    f->store = rank1;
    assert_int_equal(fixture_get(f, 0, 5), 5);
    assert_int_equal(fixture_exists(f, 0, 5), 5);

    uint8_t pages[2][64], back[64];
    for (uint32_t rank = 0; rank < 2; rank++) {
        fixture_fill(pages[rank], 64, 100 + rank, 0);
        f->store = rank == 0 ? rank0 : rank1;
        assert_true(set_one(f, rank == 0 ? mamba0 : mamba1, "key", pages[rank]));
        assert_true(set_one(f, rank == 0 ? indexer0 : indexer1, "key", pages[rank]));
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        f->store = rank == 0 ? rank0 : rank1;
        assert_true(get_one(f, rank == 0 ? mamba0 : mamba1, "key", back));
        assert_memory_equal(back, pages[rank], 64);
        assert_true(get_one(f, rank == 0 ? indexer0 : indexer1, "key", back));
        assert_memory_equal(back, pages[0], 32); /* rank 0's */
    }
    kvs_store_close(rank0);
    fixture_free(f);
}

/* `replicated` says nothing about a model whose ranks differ. */
static void test_replicated_pools_of_other_models_are_per_rank(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->options.tp_size = 4;
    f->options.tp_rank = 3;
    fixture_open(f);
    struct kvs_pool_info info;
    assert_true(kvs_store_pool_info(f->store, add(f, "indexer", 32, true), &info));
    assert_int_equal(info.rank, 3);
    assert_true(info.writes);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extra_pools_have_their_own_file_size_and_keys),
        cmocka_unit_test(test_adding_again_gives_the_same_pool),
        cmocka_unit_test(test_pools_that_cannot_be),
        cmocka_unit_test(test_number_of_pools_is_bounded),
        cmocka_unit_test(test_odd_names),
        cmocka_unit_test(test_clear_empties_every_pool),
        cmocka_unit_test(test_mla_ranks),
        cmocka_unit_test(test_replicated_pools_of_other_models_are_per_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
