/* A store's life: opening with what can go wrong, fork, faults inside, closing under load, opening
 * again; and lookups. */
#include "support/store_fixture.h"
#include "support/unit.h"

#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static enum kvs_status try_open(struct store_fixture *f, struct kvs_error *error)
{
    const struct store_parts parts = fixture_parts(f);
    return store_open(&f->options, &parts, &f->store, error);
}

static void test_failed_opens_leave_nothing(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    struct kvs_error error = {0};
    struct kvs_store *untouched = (struct kvs_store *)(void *)f;
    f->store = untouched;
    f->options.bytes_per_page = 0;
    assert_int_equal(try_open(f, &error), KVS_ERR_CONFIG_PAGE_BYTES);
    assert_non_null(strstr(error.message, "bytes_per_page must be positive"));
    f->options.bytes_per_page = FIXTURE_PAGE_BYTES;
    f->engine.open_fails = KVS_ERR_NO_MEMORY;
    assert_int_equal(try_open(f, &error), KVS_ERR_NO_MEMORY);
    f->engine.open_fails = KVS_OK;
    f->metadata.failing[FAKE_INITIALIZE] = true;
    assert_int_equal(try_open(f, &error), KVS_ERR_NO_MEMORY);
    f->metadata.failing[FAKE_INITIALIZE] = false;
    assert_ptr_equal(f->store, untouched);
    f->store = NULL;
    assert_int_equal(f->metadata.closed, 3);
    assert_int_equal(f->engine.opens, f->engine.closes);
    assert_int_equal(try_open(f, &error), KVS_OK);
    fixture_free(f);
}

/* Another page size over the same index: refused, with both geometries and what to do. */
static void test_other_geometry_is_refused(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    fixture_close(f);
    struct kvs_error error = {0};
    f->options.bytes_per_page *= 2;
    uint64_t opens = f->engine.opens;
    assert_int_equal(try_open(f, &error), KVS_ERR_GEOMETRY_DIFFERS);
    assert_int_equal(f->engine.opens, opens); /* before the file is touched */
    assert_non_null(strstr(error.message, "512"));
    assert_non_null(strstr(error.message, "1024"));
    f->options.bytes_per_page /= 2;
    fixture_open(f);
    assert_int_equal(fixture_get(f, 0, 4), 4);
    fixture_free(f);
}

static void test_pages_outlive_the_store(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    for (uint64_t round = 0; round < 5; round++) {
        fixture_open(f);
        assert_int_equal(fixture_set(f, round * 10, 10), 10);
        assert_int_equal(fixture_get(f, 0, 10 * (round + 1)), 10 * (round + 1));
        fixture_close(f);
    }
    assert_null(kvs_store_close(NULL));
    fixture_free(f);
}

/* Two stores with different page sizes over one file and two indexes of their own (what two engines
 * do that share a path by mistake): each reads its own bytes or misses. */
static void test_two_stores_on_one_path_never_lie(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    struct fake_metadata other;
    fake_metadata_init(&other);
    fixture_open(f);
    struct kvs_store_options options = f->options;
    options.bytes_per_page = 800;
    options.file_size /= 2; /* never cuts */
    const struct store_parts parts = {
        .metadata = &other.client, .open_file = fake_engine_open, .open_file_arg = &f->engine};
    struct kvs_store *second;
    assert_int_equal(store_open(&options, &parts, &second, NULL), KVS_OK);
    static uint8_t pages[20][800];
    void *buffers[20];
    const char *keys[20];
    char texts[20][16];
    bool results[20];
    for (int i = 0; i < 20; i++) {
        snprintf(texts[i], sizeof(texts[i]), "k%d", i);
        keys[i] = texts[i];
        buffers[i] = pages[i];
    }
    for (uint64_t round = 0; round < 20; round++) {
        assert_int_equal(fixture_set(f, round * 100, 30), 30);
        for (uint64_t i = 0; i < 20; i++)
            fixture_fill(pages[i], 800, 7000 + i, 0);
        kvs_store_clear(second, NULL);
        kvs_store_batch_set(second, 0, 20, keys, (const void *const *)buffers, results);
        fixture_get(f, round * 100, 30); /* checks every byte that is said to be right */
        memset(pages, 0, sizeof(pages));
        kvs_store_batch_get(second, 0, 20, keys, buffers, results);
        for (uint64_t i = 0; i < 20; i++)
            assert_true(!results[i] || fixture_holds(pages[i], 800, 7000 + i, 0));
    }
    assert_true(fixture_stats(f).checksum_mismatches > 0);
    kvs_store_close(second);
    fake_metadata_done(&other);
    fixture_free(f);
}

/* ---- Fork and faults ------------------------------------------------------------------------ */

static int child_of_fork(struct store_fixture *f)
{
    bool results[4] = {true, true, true, true};
    kvs_store_batch_get(f->store, 0, 4, f->keys, f->buffers, results);
    if (results[0] || results[1] || results[2] || results[3])
        return 1;
    results[0] = true;
    kvs_store_batch_set(f->store, 0, 4, f->keys, (const void *const *)f->buffers, results);
    if (results[0])
        return 2;
    if (kvs_store_batch_exists(f->store, 0, 4, f->keys) != 0)
        return 3;
    struct kvs_error error = {0};
    if (kvs_store_clear(f->store, &error) != KVS_ERR_STORE_UNUSABLE ||
        strstr(error.message, "fork") == NULL)
        return 4;
    if (kvs_store_close(f->store) != NULL)
        return 5;
    return 0;
}

static void test_forked_children_miss(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(child_of_fork(f));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(fixture_get(f, 0, 4), 4);
    assert_int_equal(f->engine.closes, 0);
    fixture_free(f);
}

static void test_internal_fault_poisons_and_never_aborts(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    assert_true(STORE_CHECK(f->store, 1 + 1 == 2));
    assert_int_equal(fixture_get(f, 0, 4), 4);
    assert_false(STORE_CHECK(f->store, 1 + 1 == 3));
    assert_false(STORE_CHECK(f->store, 1 + 1 == 4));
    assert_true(fixture_logged(f, "1 + 1 == 3"));
    assert_false(fixture_logged(f, "1 + 1 == 4")); /* said once */
    assert_int_equal(fixture_get(f, 0, 4), 0);
    assert_int_equal(fixture_set(f, 10, 4), 0);
    assert_int_equal(fixture_exists(f, 0, 4), 0);
    struct kvs_error error = {0};
    assert_int_equal(kvs_store_clear(f->store, &error), KVS_ERR_STORE_UNUSABLE);
    assert_non_null(strstr(error.message, "internal fault"));
    fixture_stats(f);
    fixture_free(f);
}

/* ---- Closing -------------------------------------------------------------------------------- */

struct closing {
    struct store_fixture *fixture;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool inside, go_on, closed;
    size_t loaded;
};

static void stop_in_the_middle(void *arg, enum page_direction direction)
{
    struct closing *closing = arg;
    if (direction != PAGE_READ)
        return;
    pthread_mutex_lock(&closing->mutex);
    closing->inside = true;
    pthread_cond_broadcast(&closing->changed);
    while (!closing->go_on)
        pthread_cond_wait(&closing->changed, &closing->mutex);
    assert_false(closing->closed);
    pthread_mutex_unlock(&closing->mutex);
}

static void *read_slowly(void *arg)
{
    struct closing *closing = arg;
    closing->loaded = fixture_get(closing->fixture, 0, 4);
    return NULL;
}

static void *close_store(void *arg)
{
    struct closing *closing = arg;
    kvs_store_close(closing->fixture->store);
    pthread_mutex_lock(&closing->mutex);
    closing->closed = true;
    pthread_mutex_unlock(&closing->mutex);
    return NULL;
}

static void test_close_waits_for_calls(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    fixture_open(f);
    fixture_set(f, 0, 4);
    struct closing closing = {
        .fixture = f, .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    f->engine.before = stop_in_the_middle;
    f->engine.before_arg = &closing;
    pthread_t reader, closer;
    assert_int_equal(pthread_create(&reader, NULL, read_slowly, &closing), 0);
    pthread_mutex_lock(&closing.mutex);
    while (!closing.inside)
        pthread_cond_wait(&closing.changed, &closing.mutex);
    pthread_mutex_unlock(&closing.mutex);
    assert_int_equal(pthread_create(&closer, NULL, close_store, &closing), 0);
    while (!atomic_load(&f->store->closing))
        sched_yield();
    /* a call that comes now is a miss, not a crash */
    bool result = true;
    kvs_store_batch_get(f->store, 0, 1, f->keys, f->buffers + 100, &result);
    assert_false(result);
    pthread_mutex_lock(&closing.mutex);
    closing.go_on = true;
    pthread_cond_broadcast(&closing.changed);
    pthread_mutex_unlock(&closing.mutex);
    pthread_join(reader, NULL);
    pthread_join(closer, NULL);
    assert_int_equal(closing.loaded, 4);
    f->store = NULL;
    f->engine.before = NULL;
    fixture_open(f);
    assert_int_equal(fixture_get(f, 0, 4), 4);
    fixture_free(f);
}

/* ---- Lookups -------------------------------------------------------------------------------- */

static void test_exists_is_the_leading_run(void **state)
{
    (void)state;
    for (int pairs = 0; pairs < 2; pairs++) {
        struct store_fixture *f = fixture_new();
        f->options.pairs = pairs == 1;
        fixture_open(f);
        fixture_set(f, 0, 6);
        fixture_set(f, 8, 2);
        assert_int_equal(fixture_exists(f, 0, 12), 6);
        assert_int_equal(fixture_exists(f, 6, 6), 0);
        assert_int_equal(fixture_exists(f, 8, 2), 2);
        fixture_keys(f, 0, 12);
        kvs_store_batch_contains(f->store, 0, 12, f->keys, f->results);
        for (size_t i = 0; i < 12; i++)
            assert_int_equal(f->results[i], i < 6 || i == 8 || i == 9);
        fixture_free(f);
    }
}

/* Present in exists is what get finds: one place derives the keys of the index. */
static void test_exists_asks_for_the_keys_that_are_stored(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->options.pairs = true;
    fixture_open(f);
    fixture_set(f, 0, 1);
    uint64_t keys = f->metadata.keys[FAKE_EXISTS];
    assert_int_equal(fixture_exists(f, 0, 10), 1);
    assert_int_equal(f->metadata.keys[FAKE_EXISTS] - keys, 20);
    fixture_free(f);
}

static void test_more_keys_than_one_request_takes(void **state)
{
    (void)state;
    enum { MANY = 3 * CHUNK_KEYS_MAX + 17 };
    struct store_fixture *f = fixture_new();
    f->options.bytes_per_page = 8;
    f->options.file_size = 8 * 20000;
    fixture_open(f);
    static char texts[MANY][24];
    static const char *keys[MANY];
    static uint64_t pages[MANY];
    static void *buffers[MANY];
    static bool results[MANY];
    for (uint64_t i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof(texts[i]), "key-%d", (int)i);
        keys[i] = texts[i];
        pages[i] = i * i;
        buffers[i] = &pages[i];
    }
    kvs_store_batch_set(f->store, 0, MANY, keys, (const void *const *)buffers, results);
    assert_int_equal(kvs_store_batch_exists(f->store, 0, MANY, keys), MANY);
    memset(pages, 0xee, sizeof(pages));
    kvs_store_batch_get(f->store, 0, MANY, keys, buffers, results);
    for (uint64_t i = 0; i < MANY; i++) {
        assert_true(results[i]);
        assert_int_equal(pages[i], i * i);
    }
    assert_int_equal(kvs_store_delete(f->store, 0, 1, &keys[CHUNK_KEYS_MAX + 5], NULL), KVS_OK);
    assert_int_equal(kvs_store_batch_exists(f->store, 0, MANY, keys), CHUNK_KEYS_MAX + 5);
    assert_int_equal(kvs_store_delete(f->store, 0, MANY, keys, NULL), KVS_OK);
    assert_int_equal(kvs_store_batch_exists(f->store, 0, MANY, keys), 0);
    fixture_free(f);
}

static void test_delete(void **state)
{
    (void)state;
    struct store_fixture *f = fixture_new();
    f->options.pairs = true;
    fixture_open(f);
    fixture_set(f, 0, 6);
    fixture_keys(f, 2, 2);
    assert_int_equal(kvs_store_delete(f->store, 0, 2, f->keys, NULL), KVS_OK);
    assert_int_equal(fixture_counts(f).committed, 8); /* both halves */
    assert_int_equal(fixture_get(f, 0, 6), 4);
    struct kvs_error error = {0};
    assert_int_equal(kvs_store_delete(f->store, 5, 2, f->keys, &error), KVS_ERR_CONFIG_POOL);
    f->metadata.failing[FAKE_DELETE] = true;
    assert_int_equal(kvs_store_delete(f->store, 0, 2, f->keys, &error), KVS_ERR_NO_MEMORY);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failed_opens_leave_nothing),
        cmocka_unit_test(test_other_geometry_is_refused),
        cmocka_unit_test(test_pages_outlive_the_store),
        cmocka_unit_test(test_two_stores_on_one_path_never_lie),
        cmocka_unit_test(test_forked_children_miss),
        cmocka_unit_test(test_internal_fault_poisons_and_never_aborts),
        cmocka_unit_test(test_close_waits_for_calls),
        cmocka_unit_test(test_exists_is_the_leading_run),
        cmocka_unit_test(test_exists_asks_for_the_keys_that_are_stored),
        cmocka_unit_test(test_more_keys_than_one_request_takes),
        cmocka_unit_test(test_delete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
