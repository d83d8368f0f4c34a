/* kvshelf get, set and delete as a user runs them (the program, real) against kvshelf serve (real,
 * in this process), and over a kept index without a server. */
#include "base/clock.h"
#include "support/bad_server.h"
#include "support/live_server.h"
#include "support/program.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };

static struct live_server server;
static const char *model; /* that the configuration states */
static char dir[TEMP_DIR_MAX], config[TEMP_DIR_MAX + 16], page[TEMP_DIR_MAX + 16],
    copy[TEMP_DIR_MAX + 16];

static void write_page(const char *path, size_t bytes)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < bytes; i++)
        fputc((int)(i * 7 % 251), file);
    assert_int_equal(fclose(file), 0);
}

static void write_config(const char *member, const char *value)
{
    FILE *file = fopen(config, "w");
    assert_non_null(file);
    fprintf(
        file,
        "{\"file_path_prefix\": \"%s/pages\", \"file_size\": 65536, \"numjobs\": 1, \"entries\": 2,"
        " \"io_engine\": \"posix\", \"model\": \"%s\", \"client_timeout\": 2, \"%s\": \"%s\"}",
        dir, model, member, value);
    assert_int_equal(fclose(file), 0);
}

static int begin(void **state)
{
    (void)state;
    server = (struct live_server){0};
    model = "m";
    live_server_start(&server);
    temp_dir_make(dir);
    snprintf(config, sizeof(config), "%s/f.json", dir);
    snprintf(page, sizeof(page), "%s/page", dir);
    snprintf(copy, sizeof(copy), "%s/copy", dir);
    unsetenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH");
    write_config("metadata_server_url", server.url);
    write_page(page, PAGE_BYTES);
    return 0;
}

static int end(void **state)
{
    (void)state;
    live_server_stop(&server);
    temp_dir_remove(dir);
    return 0;
}

/* As an engine does that is configured like this: it makes what is missing. Not after a command has
 * been at the server, see test_a_page_without_checksum. */
static enum kvs_status start_engine(void)
{
    struct kvs_store_options options;
    struct kvs_store *store = NULL;
    struct kvs_error error;
    kvs_store_options_init(&options);
    options.bytes_per_page = PAGE_BYTES;
    options.page_size = 64;
    options.dtype = "bf16";
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    enum kvs_status status = kvs_store_open_env(&options, &store, &error);
    unsetenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH");
    kvs_store_close(store);
    return status;
}

static void expect(struct program_result result, int exit_code, const char *part)
{
    const char *out = result.out.data == NULL ? "" : result.out.data;
    if (result.exit_code != exit_code ||
        (strstr(out, part) == NULL && strstr(result.err.data, part) == NULL))
        fail_msg("exit code %d, not %d with '%s': %s%s", result.exit_code, exit_code, part, out,
                 result.err.data);
    program_done(&result);
}

#define RUN(command, key, ...)                                                                     \
    PROGRAM(command, key, "--config", config, "--bytes-per-page", "4096", ##__VA_ARGS__)

static void assert_same_file(const char *a, const char *b)
{
    static char bytes[2][2 * PAGE_BYTES];
    const char *const paths[2] = {a, b};
    size_t length[2];
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(paths[i], "r");
        assert_non_null(file);
        length[i] = fread(bytes[i], 1, sizeof(bytes[i]), file);
        fclose(file);
    }
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(bytes[0], bytes[1], length[0]);
}

static void come_and_go(void)
{
    expect(RUN("set", "trial", "--input", page), 0, "stored");
    expect(RUN("set", "trial", "--input", page), 0, "present already");
    expect(RUN("get", "trial", "--output", copy), 0, "");
    assert_same_file(page, copy);
    struct program_result result = RUN("get", "trial");
    assert_int_equal(result.exit_code, 0);
    assert_int_equal(result.out.length, PAGE_BYTES);
    program_done(&result);
    expect(RUN("get", "trial-k"), 1, "'trial-k' cannot be given: the index does not have the key");
    expect(RUN("delete", "trial"), 0, "deleted\n");
    expect(RUN("delete", "trial"), 0, "was not there\n");
    expect(RUN("get", "trial"), 1, "the index does not have the key");
    expect(RUN("set", "t", "--input", page, "--json"), 0,
           "{\"key\":\"t\",\"result\":\"stored\",\"bytes_per_page\":4096}\n");
    expect(RUN("set", "t", "--input", page, "--json"), 0, "\"result\":\"present\"");
    expect(RUN("get", "t", "--output", copy, "--json"), 0, "\"result\":\"read\"");
    assert_same_file(page, copy);
    expect(RUN("get", "t", "--json"), 2, "--json needs --output FILE");
    expect(RUN("delete", "t", "--json"), 0, "\"result\":\"deleted\"");
    expect(RUN("delete", "t", "--json"), 0, "\"result\":\"absent\"");
    expect(RUN("get", "t", "--output", copy, "--json"), 1, "\"symbol\":\"KVS_ERR_PAGE_MISSED\"");
}

static void test_over_a_server(void **state)
{
    (void)state;
    assert_int_equal(start_engine(), KVS_OK);
    come_and_go();
    assert_int_equal(live_server_counts(&server, 0, "kv").committed, 0);
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    expect(PROGRAM("set", "x", "--bytes-per-page", "4K", "--input", page), 0, "stored");
    expect(PROGRAM("set", "y", "--bytes-per-page", "4K", "--input", page, "--mla", "--tp-size", "2",
                   "--tp-rank", "1"),
           0, "left to rank 0");
    unsetenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH");
    expect(PROGRAM("get", "x", "--config", config, "--bytes-per-page", "8192"), 1,
           "holds 16 pages of 4096 bytes");
    live_server_stop(&server);
    expect(RUN("get", "x"), 1, "cannot be reached");
}

static void test_over_a_kept_index(void **state)
{
    (void)state;
    char index[TEMP_DIR_MAX + 16];
    snprintf(index, sizeof(index), "%s/index", dir);
    live_server_stop(&server); /* as in test_a_page_without_checksum */
    write_config("metadata_dir", index);
    assert_int_equal(start_engine(), KVS_OK);
    come_and_go();
}

/* A namespace that set made would be adopted by the engine of any model, or refused to its own. An
 * input that is none is found out first. */
static void test_set_creates_no_namespace(void **state)
{
    (void)state;
    char index[TEMP_DIR_MAX + 16], pages[TEMP_DIR_MAX + 16];
    snprintf(index, sizeof(index), "%s/index", dir);
    snprintf(pages, sizeof(pages), "%s/pages.0.bin", dir);
    for (int kept = 0; kept < 2; kept++) {
        write_config(kept ? "metadata_dir" : "metadata_server_url", kept ? index : server.url);
        expect(PROGRAM("set", "k", "--config", config, "--bytes-per-page", "8192", "--input", page),
               1, "it has 4096 bytes, a page has 8192");
        expect(RUN("set", "k", "--input", "/none"), 1, "/none cannot be used");
        expect(RUN("set", "k", "--input", page), 1,
               ", and set makes none: start the engine once, which does");
        assert_int_equal(access(index, F_OK), -1);
        assert_int_equal(access(pages, F_OK), -1);
        assert_null(registry_lock(server.registry, 0, "kv", 2));
    }
}

static void test_another_model_is_refused_what_set_stored(void **state)
{
    (void)state;
    struct kvs_error error;
    char index[TEMP_DIR_MAX + 16];
    snprintf(index, sizeof(index), "%s/index", dir);
    model = "llama";
    write_config("metadata_server_url", server.url);
    assert_int_equal(start_engine(), KVS_OK);
    expect(RUN("set", "k", "--input", page), 0, "stored\n");
    assert_int_equal(registry_initialize(server.registry, 0, "kv", 16, PAGE_BYTES,
                                         "model=qwen;dtype=bf16", &error),
                     KVS_ERR_FINGERPRINT_DIFFERS);
    live_server_stop(&server); /* as in test_a_page_without_checksum */

    write_config("metadata_dir", index);
    assert_int_equal(start_engine(), KVS_OK);
    expect(RUN("set", "k", "--input", page), 0, "stored\n");
    assert_int_equal(start_engine(), KVS_OK);
    model = "qwen";
    write_config("metadata_dir", index);
    assert_int_equal(start_engine(), KVS_ERR_FINGERPRINT_DIFFERS);
    expect(RUN("set", "l", "--input", page), 1, "holds pages of 'model=llama;");
}

/* With a size or a rank mistyped a look that created something would keep the engine out. */
static void test_a_look_creates_nothing(void **state)
{
    (void)state;
    static const char *const looks[] = {"get", "delete"};
    char index[TEMP_DIR_MAX + 16], pages[TEMP_DIR_MAX + 16];
    snprintf(index, sizeof(index), "%s/index", dir);
    snprintf(pages, sizeof(pages), "%s/pages.0.bin", dir);
    for (size_t i = 0; i < 2; i++) {
        write_config("metadata_server_url", server.url);
        expect(RUN(looks[i], "k"), 1, "There is no namespace 'kv' of rank 0 in http://127.0.0.1:");
        expect(RUN(looks[i], "k", "--pp-size", "2"), 1, "no namespace 'kv@pp0of2' of rank 0 in");
        assert_null(registry_lock(server.registry, 0, "kv", 2));
        write_config("metadata_dir", index);
        expect(RUN(looks[i], "k"), 1, "There is no namespace 'kv' of rank 0 in /");
        assert_int_equal(access(index, F_OK), -1);
    }
    assert_int_equal(access(pages, F_OK), -1);
    live_server_stop(&server); /* as in test_a_page_without_checksum */
    assert_int_equal(start_engine(), KVS_OK);
    for (size_t i = 0; i < 2; i++)
        expect(RUN(looks[i], "k", "--tp-rank", "1", "--tp-size", "2"), 1,
               "There is no namespace 'kv' of rank 1 in /");
    assert_int_equal(unlink(pages), 0);
    expect(RUN("get", "k"), 1, "pages.0.bin: No such file");
    assert_int_equal(access(pages, F_OK), -1);
}

/* Live pages that are looked for in the file of another deployment. */
static void test_a_look_reports_no_damage(void **state)
{
    (void)state;
    assert_int_equal(start_engine(), KVS_OK);
    expect(RUN("set", "k", "--input", page), 0, "stored");
    char from[TEMP_DIR_MAX + 16], to[TEMP_DIR_MAX + 16];
    snprintf(from, sizeof(from), "%s/pages.0.bin", dir);
    snprintf(to, sizeof(to), "%s/away", dir);
    assert_int_equal(rename(from, to), 0);
    FILE *other = fopen(from, "w");
    assert_non_null(other);
    assert_int_equal(ftruncate(fileno(other), 65536), 0);
    assert_int_equal(fclose(other), 0);
    expect(RUN("get", "k"), 1, "it holds other bytes than were confirmed");
    assert_int_equal(live_server_counts(&server, 0, "kv").committed, 1);
    assert_int_equal(rename(to, from), 0);
    expect(RUN("get", "k", "--output", copy), 0, "");
    assert_same_file(page, copy);
}

/* An engine states more than its configuration: what both state must agree. */
static void test_beside_an_engine(void **state)
{
    (void)state;
    struct kvs_error error;
    assert_int_equal(registry_initialize(server.registry, 0, "kv", 16, PAGE_BYTES,
                                         "model=m;dtype=bf16;pairs=1;bytes_per_page=4096", &error),
                     KVS_OK);
    come_and_go();
    assert_int_equal(registry_initialize(server.registry, 1, "kv", 16, PAGE_BYTES,
                                         "model=other;dtype=bf16;", &error),
                     KVS_OK);
    static const char *const commands[] = {"get", "set", "delete"};
    /* --output is where get would write, --input what set reads. */
    static const char *const ends[] = {"--output", "--input", "--tp-size"};
    const char *const values[] = {copy, page, "2"};
    for (size_t i = 0; i < 3; i++)
        expect(RUN(commands[i], "k", "--tp-rank", "1", "--tp-size", "2", ends[i], values[i]), 1,
               "Rank 1 namespace 'kv' holds pages of 'model=other;dtype=bf16;', not of 'model=m'");

    live_server_stop(&server); /* as in test_a_page_without_checksum */

    char index[TEMP_DIR_MAX + 16];
    snprintf(index, sizeof(index), "%s/index", dir);
    write_config("metadata_dir", index);
    const struct registry_options kept = {.dir = index};
    struct registry *registry;
    assert_int_equal(registry_open(&kept, &registry, &error), KVS_OK);
    assert_int_equal(registry_initialize(registry, 0, "kv", 16, PAGE_BYTES, "model=other;", &error),
                     KVS_OK);
    registry_close(registry);
    for (size_t i = 0; i < 3; i++)
        expect(RUN(commands[i], "k", "--tp-size", "2", ends[i], values[i]), 1,
               "holds pages of 'model=other;', not of 'model=m'");
}

/* One of the original protocol, which lists no namespaces (a stand-in): it is asked about the keys,
 * and nothing more when it has no such namespace. */
static void test_a_server_of_the_original_protocol(void **state)
{
    (void)state;
    static struct bad_server other;
    static char request[BAD_REQUEST_MAX];
    const struct bad_step steps[] = {
        {bad_answer(404, "{\"detail\":\"Not Found\"}"), BAD_KEEPS},
        {bad_answer(404, "{\"detail\":\"Rank 0 namespace 'kv' not initialized. Please call "
                         "/0/initialize first.\"}"),
         BAD_KEEPS},
    };
    static const char *const looks[] = {"get", "delete"};
    for (size_t i = 0; i < 2; i++) {
        bad_server_start(&other, steps, 2);
        write_config("metadata_server_url", other.url);
        expect(RUN(looks[i], "k"), 1, "There is no namespace 'kv' of rank 0 in http://127.0.0.1:");
        assert_int_equal(bad_server_requests(&other, 2), 2);
        bad_server_last_request(&other, request);
        assert_non_null(strstr(request, "POST /0/exists"));
        bad_server_stop(&other);
    }
}

/* Takes requests and answers none. */
static void test_a_server_that_hangs(void **state)
{
    (void)state;
    static struct bad_server bad;
    const struct bad_step steps[] = {{"", BAD_HANGS}};
    char line[128];
    bad_server_start(&bad, steps, 1);
    write_config("metadata_server_url", bad.url);
    snprintf(line, sizeof(line), "kvshelf: waiting for metadata server %s, 2 s at most", bad.url);
    struct program_result result = RUN("get", "k");
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(buffer_text(&result.err), line));
    assert_non_null(strstr(buffer_text(&result.err), "did not answer within 2"));
    program_done(&result);
    bad_server_stop(&bad);
}

/* As a client of the original protocol does, which knows no checksums. */
static void confirm_without_checksum(struct registry *registry, const char *text)
{
    struct key key;
    struct catalog_reserved reserved;
    enum catalog_rejection reason;
    key_parse(&key, text, strlen(text), "kv");
    struct registry_entry *entry = registry_lock(registry, 0, "kv", 2);
    assert_non_null(entry);
    struct catalog *catalog = registry_catalog(entry);
    assert_int_equal(catalog_reserve(catalog, clock_boot_ms(), &key, 1, false, 0, &reserved),
                     KVS_OK);
    struct catalog_confirm confirm = {.key = key, .page = reserved.page};
    catalog_confirm(catalog, clock_boot_ms(), &confirm, 1, &reason);
    assert_int_equal(reason, CATALOG_ACCEPTED);
    registry_unlock(entry);
}

/* Nothing can verify it, so that it is absent to get; it is in the index all the same, and takes a
 * page until it is deleted. */
static void expect_deletable(const char *key)
{
    expect(RUN("get", key, "--output", copy), 1,
           "the index has the key, but no checksum, as SGLang's own class states none");
    expect(RUN("delete", key), 0, "deleted\n");
    expect(RUN("delete", key), 0, "was not there\n");
}

/* The store is opened a second time to find the reason. */
static void test_a_miss_warns_once(void **state)
{
    (void)state;
    char pages[TEMP_DIR_MAX + 16];
    snprintf(pages, sizeof(pages), "%s/pages.0.bin", dir);
    assert_int_equal(start_engine(), KVS_OK);
    assert_int_equal(chmod(pages, 0755), 0);
    confirm_without_checksum(server.registry, "bare");
    struct program_result result = RUN("get", "bare", "--output", copy);
    assert_int_equal(result.exit_code, 1);
    const char *said = strstr(buffer_text(&result.err), "can be read by every user (mode 755)");
    assert_non_null(said);
    assert_null(strstr(said + 1, "can be read by every user"));
    assert_non_null(strstr(said, "the index has the key, but no checksum"));
    program_done(&result);
}

static void test_a_page_without_checksum(void **state)
{
    (void)state;
    assert_int_equal(start_engine(), KVS_OK);
    expect(RUN("set", "checked", "--input", page), 0, "stored");
    confirm_without_checksum(server.registry, "bare");
    assert_int_equal(live_server_counts(&server, 0, "kv").committed, 2);
    expect_deletable("bare");
    assert_int_equal(live_server_counts(&server, 0, "kv").committed, 1);
    /* Its event loop closes descriptors behind the thread sanitizer's back, which would take the
     * next use of the same number for a race. */
    live_server_stop(&server);

    char index[TEMP_DIR_MAX + 16];
    snprintf(index, sizeof(index), "%s/index", dir);
    write_config("metadata_dir", index);
    assert_int_equal(start_engine(), KVS_OK);
    expect(RUN("set", "checked", "--input", page), 0, "stored");
    const struct registry_options kept = {.dir = index, .reserve_ttl_ms = 60000};
    struct registry *registry;
    struct kvs_error error;
    assert_int_equal(registry_open(&kept, &registry, &error), KVS_OK);
    confirm_without_checksum(registry, "bare");
    registry_close(registry);
    expect_deletable("bare");
    expect(RUN("get", "checked", "--output", copy), 0, "");
    assert_same_file(page, copy);
}

static void test_what_cannot_be(void **state)
{
    (void)state;
    static const char *const commands[] = {"get", "set", "delete"};
    assert_int_equal(start_engine(), KVS_OK);
    for (size_t i = 0; i < 3; i++) {
        expect(PROGRAM(commands[i]), 2, "Wrong arguments");
        expect(PROGRAM(commands[i], "k", "--config", config), 2, "give --bytes-per-page");
        expect(PROGRAM(commands[i], "k", "--bytes-per-page", "4K"), 2, "give --config FILE");
        expect(PROGRAM(commands[i], "k", "--bytes-per-page", "0", "--config", config), 2,
               "--bytes-per-page");
        expect(PROGRAM(commands[i], "k", "--bytes-per-page", "4K", "--config", "/none"), 1,
               "Failed to load config from /none");
    }
    expect(RUN("get", "k", "--tp-rank", "3", "--tp-size", "2"), 1,
           "Invalid config value 3 for tp_rank");
    write_page(page, PAGE_BYTES - 1);
    expect(RUN("set", "k", "--input", page), 1, "it has 4095 bytes, a page has 4096");
    write_page(page, PAGE_BYTES + 1);
    expect(RUN("set", "k", "--input", page), 1, "more than the 4096 bytes");
    expect(RUN("set", "k"), 1, "standard input cannot be used");
    expect(RUN("set", "k", "--input", "/none"), 1, "/none cannot be used");
    write_page(page, PAGE_BYTES);
    expect(RUN("set", "k", "--input", page), 0, "stored");
    expect(RUN("get", "k", "--output", "/none/x"), 1, "/none/x cannot be used");
    write_config("layout", "page_first");
    expect(RUN("get", "k"), 1, "in the memory of the engine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_over_a_server, begin, end),
        cmocka_unit_test_setup_teardown(test_over_a_kept_index, begin, end),
        cmocka_unit_test_setup_teardown(test_set_creates_no_namespace, begin, end),
        cmocka_unit_test_setup_teardown(test_another_model_is_refused_what_set_stored, begin, end),
        cmocka_unit_test_setup_teardown(test_a_look_creates_nothing, begin, end),
        cmocka_unit_test_setup_teardown(test_a_look_reports_no_damage, begin, end),
        cmocka_unit_test_setup_teardown(test_beside_an_engine, begin, end),
        cmocka_unit_test_setup_teardown(test_a_server_of_the_original_protocol, begin, end),
        cmocka_unit_test_setup_teardown(test_a_server_that_hangs, begin, end),
        cmocka_unit_test_setup_teardown(test_a_miss_warns_once, begin, end),
        cmocka_unit_test_setup_teardown(test_a_page_without_checksum, begin, end),
        cmocka_unit_test_setup_teardown(test_what_cannot_be, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
