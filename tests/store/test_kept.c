/* The whole store: real files, real catalogs, in memory and kept. What comes back after a restart,
 * and what a directory that cannot be used says, without changing anything. */
#include "support/store_fixture.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64 };

struct place {
    char dir[TEMP_DIR_MAX];
    char prefix[TEMP_DIR_MAX + 32], catalogs[TEMP_DIR_MAX + 32], file[TEMP_DIR_MAX + 64];
    struct kvs_store_options options;
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof(*place));
    assert_non_null(place);
    temp_dir_make(place->dir);
    snprintf(place->prefix, sizeof(place->prefix), "%s/a/b/pages", place->dir); /* a, b: missing */
    snprintf(place->catalogs, sizeof(place->catalogs), "%s/catalogs", place->dir);
    snprintf(place->file, sizeof(place->file), "%s.0.bin", place->prefix);
    kvs_store_options_init(&place->options);
    place->options.file_path_prefix = place->prefix;
    place->options.metadata_dir = place->catalogs;
    place->options.bytes_per_page = PAGE;
    place->options.file_size = PAGE * PAGES;
    place->options.numjobs = 2;
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    temp_dir_remove(place->dir);
    free(place);
    return 0;
}

static struct kvs_store *open_store(const struct place *place)
{
    struct kvs_store *store = NULL;
    struct kvs_error error = {0};
    if (kvs_store_open(&place->options, &store, &error) != KVS_OK)
        fail_msg("%s", error.message);
    return store;
}

static uint8_t memory[PAGES][PAGE];
static char texts[PAGES][80];
static const char *keys[PAGES];
static void *buffers[PAGES];
static bool results[PAGES];

static void name_keys(size_t n, unsigned salt)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%062x%02x", salt, (unsigned)i);
        keys[i] = texts[i];
        buffers[i] = memory[i];
    }
}

static size_t set(struct kvs_store *store, size_t n, unsigned salt)
{
    name_keys(n, salt);
    for (size_t i = 0; i < n; i++)
        fixture_fill(memory[i], PAGE, salt * 1000 + i, 0);
    kvs_store_batch_set(store, 0, n, keys, (const void *const *)buffers, results);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += results[i];
    return count;
}

static size_t get(struct kvs_store *store, size_t n, unsigned salt)
{
    name_keys(n, salt);
    memset(memory, 0, sizeof(memory));
    kvs_store_batch_get(store, 0, n, keys, buffers, results);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        count += results[i];
        assert_true(!results[i] || fixture_holds(memory[i], PAGE, salt * 1000 + i, 0));
    }
    return count;
}

static void test_warm_after_a_restart(void **state)
{
    struct place *place = *state;
    struct kvs_store *store = open_store(place);
    assert_int_equal(set(store, 20, 1), 20);
    kvs_store_close(store);
    store = open_store(place);
    assert_int_equal(get(store, 20, 1), 20);
    assert_int_equal(set(store, 20, 2), 20);
    kvs_store_close(store);
    store = open_store(place);
    assert_int_equal(get(store, 20, 1), 20);
    assert_int_equal(get(store, 20, 2), 20);
    assert_int_equal(kvs_store_clear(store, NULL), KVS_OK);
    kvs_store_close(store);
    store = open_store(place);
    assert_int_equal(get(store, 20, 1), 0);
    kvs_store_close(store);
}

/* Who only inspects must not make a directory of catalogs, a namespace in it, or a page file. */
static void test_inspecting_creates_nothing(void **state)
{
    struct place *place = *state;
    struct kvs_store *store = NULL;
    struct kvs_error error;
    place->options.inspect = true;
    assert_int_equal(kvs_store_open(&place->options, &store, &error), KVS_ERR_CATALOG_DIR);
    assert_non_null(strstr(error.message, "No such file"));
    assert_int_equal(access(place->catalogs, F_OK), -1);
    assert_int_equal(mkdir(place->catalogs, 0700), 0);
    assert_int_equal(kvs_store_open(&place->options, &store, &error), KVS_ERR_NOT_INITIALIZED);
    assert_int_equal(access(place->file, F_OK), -1);

    place->options.inspect = false;
    store = open_store(place);
    assert_int_equal(set(store, 20, 1), 20);
    kvs_store_close(store);
    place->options.inspect = true;
    store = open_store(place);
    assert_int_equal(get(store, 20, 1), 20);
    assert_int_equal(kvs_store_delete(store, KVS_POOL_KV, 5, keys, NULL), KVS_OK);
    assert_int_equal(get(store, 20, 1), 15);
    kvs_store_close(store);
}

static void test_cold_without_a_directory(void **state)
{
    struct place *place = *state;
    place->options.metadata_dir = NULL;
    struct kvs_store *store = open_store(place);
    assert_int_equal(set(store, 20, 1), 20);
    assert_int_equal(get(store, 20, 1), 20);
    kvs_store_close(store);
    store = open_store(place);
    assert_int_equal(get(store, 20, 1), 0);
    kvs_store_close(store);
    struct stat about;
    assert_int_equal(stat(place->catalogs, &about), -1);
}

/* Another page size on the same path. Kept: an error that names both, and nothing is touched. In
 * memory: both go on, and each reads its own bytes or misses. */
static void test_other_page_size(void **state)
{
    struct place *place = *state;
    struct kvs_store *store = open_store(place), *other = NULL;
    assert_int_equal(set(store, 20, 1), 20);
    kvs_store_close(store);
    struct kvs_error error = {0};
    place->options.bytes_per_page = 2 * PAGE;
    place->options.file_size = 1 << 20;
    assert_int_equal(kvs_store_open(&place->options, &other, &error), KVS_ERR_GEOMETRY_DIFFERS);
    assert_non_null(strstr(error.message, "holds 64 pages of 4096 bytes"));
    assert_non_null(strstr(error.message, "become 128 pages of 8192 bytes"));
    assert_null(other);
    struct stat about;
    assert_int_equal(stat(place->file, &about), 0);
    assert_int_equal(about.st_size, PAGE * PAGES);
    place->options.bytes_per_page = PAGE;
    place->options.file_size = PAGE * PAGES;
    store = open_store(place);
    assert_int_equal(get(store, 20, 1), 20);

    place->options.metadata_dir = NULL;
    place->options.bytes_per_page = PAGE / 2;
    other = open_store(place);
    for (unsigned round = 0; round < 20; round++) {
        set(other, 30, 100 + round);
        set(store, 30, 200 + round);
        get(store, 30, 200 + round);
    }
    kvs_store_close(other);
    kvs_store_close(store);
}

static void test_other_identity(void **state)
{
    struct place *place = *state;
    place->options.dtype = "bfloat16";
    struct kvs_store *store = open_store(place);
    assert_int_equal(set(store, 4, 1), 4);
    kvs_store_close(store);
    place->options.dtype = "float8_e4m3fn";
    struct kvs_error error = {0};
    assert_int_equal(kvs_store_open(&place->options, &store, &error), KVS_ERR_FINGERPRINT_DIFFERS);
    assert_non_null(strstr(error.message, "bfloat16"));
    assert_non_null(strstr(error.message, "float8_e4m3fn"));
    place->options.dtype = "bfloat16";
    store = open_store(place);
    assert_int_equal(get(store, 4, 1), 4);
    kvs_store_close(store);
}

static void test_directory_in_use(void **state)
{
    struct place *place = *state;
    struct kvs_store *store = open_store(place), *second = NULL;
    struct kvs_error error = {0};
    assert_int_equal(kvs_store_open(&place->options, &second, &error), KVS_ERR_CATALOG_IN_USE);
    assert_non_null(strstr(error.message, place->catalogs));
    assert_null(second);
    assert_int_equal(set(store, 4, 1), 4);
    kvs_store_close(store);
}

static void test_directories_without_permission(void **state)
{
    struct place *place = *state;
    assert_int_equal(chmod(place->dir, 0555), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* root may write everywhere, so be somebody else */
        struct kvs_store *store = NULL;
        struct kvs_error error = {0};
        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(3);
        enum kvs_status status = kvs_store_open(&place->options, &store, &error);
        if (status != KVS_ERR_CATALOG_DIR || strstr(error.message, place->catalogs) == NULL)
            _exit(1);
        place->options.metadata_dir = NULL;
        status = kvs_store_open(&place->options, &store, &error);
        _exit(status == KVS_ERR_FILE_DIRECTORY && store == NULL ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(place->dir, 0755), 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    struct stat about;
    assert_int_equal(stat(place->catalogs, &about), -1);
}

/* A catalog file that is not one, or damaged: one sentence, and the file as it was. */
static void test_damaged_catalogs(void **state)
{
    struct place *place = *state;
    struct kvs_store *store = open_store(place);
    assert_int_equal(set(store, 20, 1), 20);
    kvs_store_close(store);
    char image[TEMP_DIR_MAX + 64];
    snprintf(image, sizeof(image), "%s/0.kv.kvc", place->catalogs);
    static uint8_t good[1 << 16], bad[1 << 16], after[1 << 16];
    int fd = open(image, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t size = read(fd, good, sizeof(good));
    assert_true(size > 4096 && size < (ssize_t)sizeof(good));
    for (int kind = 0; kind < 3; kind++) {
        memcpy(bad, good, (size_t)size);
        size_t length = (size_t)size;
        if (kind == 0)
            memset(bad, 'x', length); /* foreign */
        else if (kind == 1)
            length = 100; /* cut */
        else
            memset(bad, 0, length); /* empty */
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, bad, length, 0), length);
        struct kvs_error error = {0};
        struct kvs_store *none = NULL;
        enum kvs_status status = kvs_store_open(&place->options, &none, &error);
        assert_true(status == KVS_ERR_CATALOG_FOREIGN || status == KVS_ERR_CATALOG_TRUNCATED ||
                    status == KVS_ERR_CATALOG_DAMAGED || status == KVS_ERR_CATALOG_VERSION);
        assert_non_null(strstr(error.message, "0.kv.kvc"));
        assert_int_equal(pread(fd, after, sizeof(after), 0), length);
        assert_memory_equal(after, bad, length);
    }
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, good, (size_t)size, 0), size);
    close(fd);
    store = open_store(place);
    assert_int_equal(get(store, 20, 1), 20);
    kvs_store_close(store);
}

/* The page file is cut, removed or replaced under a running store: misses, one line, recovery. */
static void test_page_file_changes_under_the_store(void **state)
{
    struct place *place = *state;
    for (int kind = 0; kind < 3; kind++) {
        struct kvs_store *store = open_store(place);
        if (kind > 0)
            limiter_init(&store->file_checks, 1, 1); /* look at every call: no I/O fails */
        assert_int_equal(set(store, 40, 1), 40);
        if (kind == 0)
            assert_int_equal(truncate(place->file, 10 * PAGE + 5), 0);
        else
            assert_int_equal(unlink(place->file), 0);
        if (kind == 2) {
            int fd = open(place->file, O_CREAT | O_WRONLY, 0600);
            assert_int_equal(write(fd, "other", 5), 5);
            close(fd);
        }
        /* it may take some calls until all that was lost is noticed and written again */
        size_t there = 0;
        for (int round = 0; round < 20 && there < 40; round++) {
            store->read_breaker.open = false; /* do without its pauses */
            there = get(store, 40, 1);        /* checks every byte */
            set(store, 40, 1);
        }
        assert_int_equal(get(store, 40, 1), 40);
        kvs_store_close(store);
        struct stat about;
        assert_int_equal(stat(place->file, &about), 0);
        store = open_store(place);
        get(store, 40, 1);
        kvs_store_close(store);
    }
}

static void test_environment(void **state)
{
    struct place *place = *state;
    char config[TEMP_DIR_MAX + 32];
    snprintf(config, sizeof(config), "%s/config.json", place->dir);
    FILE *file = fopen(config, "w");
    assert_non_null(file);
    fprintf(file,
            "{\"file_path_prefix\": \"%s\", \"file_size\": %d, \"numjobs\": 2, \"entries\": 2}",
            place->prefix, PAGE * 10);
    fclose(file);
    setenv(CONFIG_PATH_VARIABLE, config, 1);
    struct kvs_store_options options;
    struct kvs_store *store = NULL;
    kvs_store_options_init(&options);
    options.bytes_per_page = PAGE;
    options.tp_rank = 3;
    options.tp_size = 4;
    assert_int_equal(kvs_store_open_env(&options, &store, NULL), KVS_OK);
    unsetenv(CONFIG_PATH_VARIABLE);
    struct kvs_pool_info info;
    assert_true(kvs_store_pool_info(store, 0, &info));
    assert_int_equal(info.num_pages, 10);
    snprintf(place->file, sizeof(place->file), "%s.3.bin", place->prefix);
    assert_string_equal(info.file_path, place->file);
    assert_int_equal(info.rank, 3);
    assert_int_equal(set(store, 5, 1), 5);
    assert_int_equal(get(store, 5, 1), 5);
    kvs_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_warm_after_a_restart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_inspecting_creates_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cold_without_a_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_page_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_identity, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_directory_in_use, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_directories_without_permission, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_catalogs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_page_file_changes_under_the_store, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_environment, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
