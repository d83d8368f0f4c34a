/* What the configuration says of page files reaches the engine: each key alone, from a file, and in
 * what is opened in the end. */
#include "store/store.h"
#include "support/fake_engine.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The last opening of a file. */
struct opening {
    struct fake_engine engine;
    unsigned times;
    enum kvs_io_engine kind;
    struct pagefile_options options;
    char path[256];
};

static enum kvs_status note_opening(void *arg, enum kvs_io_engine kind,
                                    const struct pagefile_options *options,
                                    struct pagefile **ret_file, struct kvs_error *error)
{
    struct opening *opening = arg;
    opening->times++;
    opening->kind = kind;
    opening->options = *options;
    snprintf(opening->path, sizeof(opening->path), "%s", options->path);
    return fake_engine_open(&opening->engine, kind, options, ret_file, error);
}

static const char *const engines[] = {"auto", "uring", "posix", "usrbio"}; /* as the enum */
static const char *const directs[] = {"auto", "on", "off"};

static void write_config(const char *path, const char *prefix, size_t engine, size_t direct)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file,
            "{\"file_path_prefix\": \"%s\", \"file_size\": 123456, \"numjobs\": %zu, \"entries\": "
            "%zu, \"io_engine\": \"%s\", \"direct\": \"%s\"}",
            prefix, 3 + engine, 5 + direct, engines[engine], directs[direct]);
    assert_int_equal(fclose(file), 0);
}

static void read_config(const char *path, struct store_config *config)
{
    struct kvs_store_options options;
    struct kvs_error error = {0};
    kvs_store_options_init(&options);
    options.bytes_per_page = 4096;
    assert_int_equal(config_copy(config, &options, NULL), KVS_OK);
    if (config_read_file(config, path, &error) != KVS_OK)
        fail_msg("%s", error.message);
}

static void test_every_choice_reaches_the_engine(void **state)
{
    (void)state;
    char dir[TEMP_DIR_MAX], path[TEMP_DIR_MAX + 16];
    temp_dir_make(dir);
    snprintf(path, sizeof(path), "%s/config.json", dir);
    for (size_t engine = 0; engine < 4; engine++)
        for (size_t direct = 0; direct < 3; direct++) {
            struct opening opening = {0};
            fake_engine_init(&opening.engine);
            struct store_config config;
            write_config(path, "/fake/pages", engine, direct);
            read_config(path, &config);
            const struct store_parts parts = {.open_file = note_opening, .open_file_arg = &opening};
            struct kvs_store *store;
            assert_int_equal(store_open(&config.options, &parts, &store, NULL), KVS_OK);
            assert_int_equal(opening.times, 1);
            assert_int_equal(opening.kind, engine);
            assert_int_equal(opening.options.direct, direct);
            assert_int_equal(opening.options.threads, 3 + engine);
            assert_int_equal(opening.options.entries, 5 + direct);
            assert_int_equal(opening.options.file_size, 123456);
            assert_int_equal(opening.options.bytes_per_page, 4096);
            assert_string_equal(opening.path, "/fake/pages.0.bin");

            /* An extra pool is opened in the same way. */
            const struct kvs_pool_options pool = {
                .size = sizeof(pool), .name = "mamba", .bytes_per_page = 100, .file_size = 1000};
            uint32_t number;
            assert_int_equal(kvs_store_add_pool(store, &pool, &number, NULL), KVS_OK);
            assert_int_equal(opening.times, 2);
            assert_int_equal(opening.kind, engine);
            assert_int_equal(opening.options.direct, direct);
            assert_int_equal(opening.options.threads, 3 + engine);
            assert_int_equal(opening.options.file_size, 1000);
            assert_string_equal(opening.path, "/fake/pages.0.bin.mamba");
            kvs_store_close(store);
            config_done(&config);
            fake_engine_done(&opening.engine);
        }
    temp_dir_remove(dir);
}

/* use_mock_hf3fs_client asks for plain files: auto must not look for 3FS. */
static void test_plain_files(void **state)
{
    (void)state;
    struct opening opening = {0};
    fake_engine_init(&opening.engine);
    struct kvs_store_options options;
    kvs_store_options_init(&options);
    options.bytes_per_page = 4096;
    options.file_size = 40960;
    options.use_mock_hf3fs_client = true;
    const struct store_parts parts = {.open_file = note_opening, .open_file_arg = &opening};
    struct kvs_store *store;
    assert_int_equal(store_open(&options, &parts, &store, NULL), KVS_OK);
    assert_int_equal(opening.kind, KVS_IO_POSIX);
    kvs_store_close(store);
    fake_engine_done(&opening.engine);
}

/* The same as the engine by itself makes of the choice on this machine. */
static void test_what_is_opened_in_the_end(void **state)
{
    (void)state;
    char dir[TEMP_DIR_MAX], config_path[TEMP_DIR_MAX + 16], prefix[TEMP_DIR_MAX + 16],
        alone[TEMP_DIR_MAX + 16];
    temp_dir_make(dir);
    snprintf(config_path, sizeof(config_path), "%s/config.json", dir);
    snprintf(prefix, sizeof(prefix), "%s/pages", dir);
    snprintf(alone, sizeof(alone), "%s/alone", dir);
    bool differ = false;
    for (size_t engine = KVS_IO_AUTO; engine <= KVS_IO_POSIX; engine++)
        for (size_t direct = 0; direct < 3; direct++) {
            const struct pagefile_options options = {.path = alone,
                                                     .file_size = 123456,
                                                     .bytes_per_page = 4096,
                                                     .threads = 2,
                                                     .entries = 2,
                                                     .direct = (enum kvs_direct)direct};
            struct pagefile *file;
            assert_int_equal(pagefile_open((enum kvs_io_engine)engine, &options, &file, NULL),
                             KVS_OK);
            struct pagefile_info expected = file->ops->info(file);
            file->ops->close(file);

            struct store_config config;
            struct kvs_store *store;
            struct kvs_pool_info info;
            write_config(config_path, prefix, engine, direct);
            read_config(config_path, &config);
            assert_int_equal(kvs_store_open(&config.options, &store, NULL), KVS_OK);
            assert_true(kvs_store_pool_info(store, KVS_POOL_KV, &info));
            assert_string_equal(info.engine, expected.engine);
            assert_int_equal(info.direct, expected.direct);
            differ = differ || info.direct || strcmp(info.engine, "posix") != 0;
            kvs_store_close(store);
            config_done(&config);
        }
    if (!differ)
        print_message("this machine has neither io_uring nor direct I/O: nothing was told apart\n");
    temp_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_choice_reaches_the_engine),
        cmocka_unit_test(test_plain_files),
        cmocka_unit_test(test_what_is_opened_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
