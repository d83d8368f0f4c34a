/* Configuration: what the original reads, read as it does; and one clear sentence for everything
 * that is wrong, naming key, value, range and remedy. */
#include "base/status.h"
#include "store/config.h"
#include "support/unit.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GOOD                                                                                       \
    "\"file_path_prefix\": \"/data/x\", \"file_size\": 1048576, \"numjobs\": 4, \"entries\": 2"

static char path[] = "/tmp/kvshelf-config-XXXXXX";
static char lines[4096];

static void take_line(void *arg, enum kvs_log_level level, const char *line)
{
    (void)arg;
    assert_int_equal(level, KVS_LOG_WARNING);
    size_t used = strlen(lines);
    snprintf(lines + used, sizeof(lines) - used, "%s\n", line);
}

static int set_up(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static void write_bytes(const char *bytes, size_t length)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    fclose(file);
}

static struct store_config defaults(void)
{
    struct kvs_store_options options;
    struct store_config config = {0};
    kvs_store_options_init(&options);
    options.bytes_per_page = 4096;
    options.log = take_line;
    assert_int_equal(config_copy(&config, &options, NULL), KVS_OK);
    lines[0] = '\0';
    return config;
}

static void test_defaults_are_the_originals(void **state)
{
    (void)state;
    struct kvs_store_options o;
    kvs_store_options_init(&o);
    assert_int_equal(o.size, sizeof(o));
    assert_string_equal(o.file_path_prefix, "/data/hicache");
    assert_true(o.file_size == 1ull << 40);
    assert_int_equal(o.numjobs, 16);
    assert_int_equal(o.entries, 8);
    assert_true(o.client_timeout == 5.0);
    assert_null(o.metadata_server_url);
    assert_null(o.metadata_dir);
    assert_int_equal(o.eviction, KVS_EVICTION_PREFIX);
    assert_int_equal(o.verify, KVS_VERIFY_REQUIRED);
    assert_true(o.reserve_ttl == 60.0 && o.quarantine == 60.0);
    assert_int_equal(o.exists_cache_ms, 1000);
    assert_true(o.max_inflight_bytes == 1ull << 30);
    o.bytes_per_page = 1 << 20;
    assert_int_equal(config_check(&o, false, NULL), KVS_OK);
}

static void test_file_over_options(void **state)
{
    (void)state;
    struct store_config config = defaults();
    static const char text[] =
        "{" GOOD
        ", \"client_timeout\": 2.5, \"metadata_dir\": \"/var/lib/k\", \"eviction\": \"lru\","
        " \"verify\": \"if_known\", \"reserve_ttl\": 30, \"quarantine\": 0, \"io_engine\": "
        "\"posix\","
        " \"direct\": \"on\", \"exists_cache_ms\": 0, \"max_inflight_bytes\": 2e9,"
        " \"model\": \"m\\u00e9\", \"revision\": null, \"dtype\": \"bf16\", \"layout\": "
        "\"page_first\","
        " \"share_across_dp\": true, \"metadata_server_url\": \"http://h:18000\","
        " \"metadata_token_file\": \"/etc/t\"}\n";
    write_bytes(text, sizeof(text) - 1);
    struct kvs_error error = {0};
    if (config_read_file(&config, path, &error) != KVS_OK)
        fail_msg("%s", error.message);
    const struct kvs_store_options *o = &config.options;
    assert_string_equal(o->file_path_prefix, "/data/x");
    assert_true(o->file_size == 1048576);
    assert_int_equal(o->numjobs, 4);
    assert_int_equal(o->entries, 2);
    assert_true(o->client_timeout == 2.5);
    assert_string_equal(o->metadata_dir, "/var/lib/k");
    assert_int_equal(o->eviction, KVS_EVICTION_LRU);
    assert_int_equal(o->verify, KVS_VERIFY_IF_KNOWN);
    assert_true(o->reserve_ttl == 30 && o->quarantine == 0);
    assert_int_equal(o->io_engine, KVS_IO_POSIX);
    assert_int_equal(o->direct, KVS_DIRECT_ON);
    assert_int_equal(o->exists_cache_ms, 0);
    assert_true(o->max_inflight_bytes == 2000000000);
    assert_string_equal(o->model, "m\xc3\xa9");
    assert_null(o->revision);
    assert_string_equal(o->dtype, "bf16");
    assert_string_equal(o->layout, "page_first");
    assert_true(o->share_across_dp);
    assert_string_equal(o->metadata_server_url, "http://h:18000");
    assert_string_equal(o->metadata_token_file, "/etc/t");
    assert_true(o->bytes_per_page == 4096);
    assert_string_equal(lines, "");
    config_done(&config);
}

/* Everything that can be wrong with a file; `words` are in the message. */
static void test_bad_files(void **state)
{
    (void)state;
#define WITH(members) "{" GOOD ", " members "}"
#define SIZE(text)                                                                                 \
    "{\"file_path_prefix\": \"/d\", \"file_size\": " text ", \"numjobs\": 4, \"entries\": 2}"
    static const struct {
        const char *text;
        enum kvs_status status;
        const char *words[3];
    } cases[] = {
        {"", KVS_ERR_CONFIG_LOAD, {"Failed to load config from /tmp/", "it is empty"}},
        {" \n\t ", KVS_ERR_CONFIG_LOAD, {"it is empty"}},
        {"file_size = 5", KVS_ERR_CONFIG_LOAD, {"Failed to load config from ", "line 1"}},
        {"{" GOOD ",}", KVS_ERR_CONFIG_LOAD, {"line 1, column "}},
        {"{" GOOD "", KVS_ERR_CONFIG_LOAD, {"line 1"}},
        {"{" GOOD "} x", KVS_ERR_CONFIG_LOAD, {"line 1"}},
        {"{\n" GOOD ",\n \"a\": // no\n 5}", KVS_ERR_CONFIG_LOAD, {"line 3"}},
        {"[1, 2]", KVS_ERR_CONFIG_LOAD, {"no JSON object"}},
        {"5", KVS_ERR_CONFIG_LOAD, {"no JSON object"}},
        {"null", KVS_ERR_CONFIG_LOAD, {"no JSON object"}},
        {"\xff\xfe{}", KVS_ERR_CONFIG_LOAD, {"line 1"}},
        {"{}",
         KVS_ERR_CONFIG_MISSING_KEYS,
         {"Missing required keys in config: file_path_prefix, file_size, numjobs, entries"}},
        {"{\"file_path_prefix\": \"/d\", \"numjobs\": 4}",
         KVS_ERR_CONFIG_MISSING_KEYS,
         {"Missing required keys in config: file_size, entries"}},
        {SIZE("\"1TB\""), KVS_ERR_CONFIG_VALUE, {"\"1TB\"", "file_size", "not a string"}},
        {SIZE("-5"), KVS_ERR_CONFIG_VALUE, {"-5", "file_size", "from 1 to 1152921504606846976"}},
        {SIZE("0"), KVS_ERR_CONFIG_VALUE, {"value 0", "file_size", "bytes"}},
        {SIZE("1.5"), KVS_ERR_CONFIG_VALUE, {"1.5", "file_size", "whole number"}},
        {SIZE("99999999999999999999"), KVS_ERR_CONFIG_VALUE, {"99999999999999999999"}},
        {SIZE("18446744073709551616"), KVS_ERR_CONFIG_VALUE, {"18446744073709551616"}},
        {SIZE("9223372036854775807"), KVS_ERR_CONFIG_VALUE, {"9223372036854775807"}},
        {SIZE("1e30"), KVS_ERR_CONFIG_VALUE, {"1e30", "file_size"}},
        {SIZE("true"), KVS_ERR_CONFIG_VALUE, {"true", "file_size"}},
        {SIZE("null"), KVS_ERR_CONFIG_VALUE, {"null", "file_size"}},
        {SIZE("[1]"), KVS_ERR_CONFIG_VALUE, {"[1]", "file_size"}},
        {SIZE("{}"), KVS_ERR_CONFIG_VALUE, {"{}", "file_size"}},
        {"{" GOOD ", \"numjobs\": 0}", KVS_ERR_CONFIG_VALUE, {"0", "numjobs", "from 1 to 1024"}},
        {WITH("\"numjobs\": 1000000"), KVS_ERR_CONFIG_VALUE, {"1000000", "numjobs", "threads"}},
        {WITH("\"numjobs\": 4294967297"), KVS_ERR_CONFIG_VALUE, {"4294967297", "numjobs"}},
        {WITH("\"entries\": -1"), KVS_ERR_CONFIG_VALUE, {"-1", "entries", "from 1 to 4096"}},
        {WITH("\"entries\": \"8\""), KVS_ERR_CONFIG_VALUE, {"entries", "not a string"}},
        {WITH("\"client_timeout\": 0"), KVS_ERR_CONFIG_VALUE, {"client_timeout", "seconds"}},
        {WITH("\"client_timeout\": -1.5"), KVS_ERR_CONFIG_VALUE, {"-1.5", "client_timeout"}},
        {WITH("\"client_timeout\": \"5\""), KVS_ERR_CONFIG_VALUE, {"client_timeout", "number"}},
        {WITH("\"client_timeout\": 1e9"), KVS_ERR_CONFIG_VALUE, {"client_timeout", "3600"}},
        {WITH("\"eviction\": \"LRU\""), KVS_ERR_CONFIG_VALUE, {"eviction", "\"prefix\", \"lru\""}},
        {WITH("\"eviction\": \"prefx\""), KVS_ERR_CONFIG_VALUE, {"did you mean \"prefix\"?"}},
        {WITH("\"verify\": true"), KVS_ERR_CONFIG_VALUE, {"verify", "string"}},
        {WITH("\"direct\": \"\""), KVS_ERR_CONFIG_VALUE, {"direct", "\"auto\", \"on\", \"off\""}},
        {WITH("\"share_across_dp\": 1"),
         KVS_ERR_CONFIG_VALUE,
         {"share_across_dp", "true or false"}},
        {WITH("\"file_path_prefix\": 5"), KVS_ERR_CONFIG_VALUE, {"file_path_prefix", "a string"}},
        {WITH("\"model\": \"a\\u0000b\""), KVS_ERR_CONFIG_VALUE, {"model", "NUL"}},
        {WITH("\"max_inflight_bytes\": 0"), KVS_ERR_CONFIG_VALUE, {"max_inflight_bytes"}},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct store_config config = defaults();
        write_bytes(cases[c].text, strlen(cases[c].text));
        struct kvs_error error = {0};
        enum kvs_status status = config_read_file(&config, path, &error);
        if (status != cases[c].status || error.status != status)
            fail_msg("%s: status %d: %s", cases[c].text, status, error.message);
        for (size_t w = 0; w < 3 && cases[c].words[w] != NULL; w++)
            if (strstr(error.message, cases[c].words[w]) == NULL)
                fail_msg("%s: '%s' is not in: %s", cases[c].text, cases[c].words[w], error.message);
        assert_null(strchr(error.message, '\n'));
        /* nothing was changed */
        assert_string_equal(config.options.file_path_prefix, "/data/hicache");
        assert_int_equal(config.options.numjobs, 16);
        config_done(&config);
    }
}

static void test_files_that_cannot_be_read(void **state)
{
    (void)state;
    struct store_config config = defaults();
    struct kvs_error error = {0};
    assert_int_equal(config_read_file(&config, "/nowhere/x.json", &error), KVS_ERR_CONFIG_LOAD);
    assert_string_equal(error.message,
                        "Failed to load config from /nowhere/x.json: No such file or directory");
    assert_int_equal(config_read_file(&config, "/tmp", &error), KVS_ERR_CONFIG_LOAD);
    assert_non_null(strstr(error.message, "directory"));
    assert_int_equal(config_read_file(&config, "/dev/null", &error), KVS_ERR_CONFIG_LOAD);
    assert_non_null(strstr(error.message, "regular file"));
    assert_int_equal(config_read_file(&config, "", &error), KVS_ERR_CONFIG_LOAD);
    write_bytes("{" GOOD "}", strlen("{" GOOD "}"));
    assert_int_equal(chmod(path, 0), 0);
    bool root = geteuid() == 0; /* may read everything, so be somebody else */
    assert_true(!root || seteuid(65534) == 0);
    enum kvs_status status = config_read_file(&config, path, &error);
    assert_true(!root || seteuid(0) == 0);
    assert_int_equal(status, KVS_ERR_CONFIG_LOAD);
    assert_non_null(strstr(error.message, "Permission denied"));
    assert_int_equal(chmod(path, 0600), 0);
    char *huge = malloc(CONFIG_FILE_BYTES_MAX + 1);
    assert_non_null(huge);
    memset(huge, ' ', CONFIG_FILE_BYTES_MAX + 1);
    write_bytes(huge, CONFIG_FILE_BYTES_MAX + 1);
    free(huge);
    assert_int_equal(config_read_file(&config, path, &error), KVS_ERR_CONFIG_LOAD);
    assert_non_null(strstr(error.message, "1 MiB"));
    config_done(&config);
}

static void test_warnings(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words[2];
    } cases[] = {
        {WITH("\"numjob\": 5"), {"Unknown key 'numjob'", "did you mean 'numjobs'?"}},
        {WITH("\"file_sise\": 5"), {"'file_sise'", "'file_size'"}},
        {WITH("\"metadata_server\": \"x\""), {"'metadata_server'", "is ignored"}},
        {WITH("\"frobnicate_all\": [1, {\"a\": 2}]"),
         {"'frobnicate_all'", "docs/configuration.md"}},
        {WITH("\"use_mock_hf3fs_client\": true"), {"use_mock_hf3fs_client", "extra_config"}},
        {WITH("\"entries\": 3"), {"'entries'", "more than once"}},
        {WITH("\"a\\nb\": 3"), {"'a?b'"}},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct store_config config = defaults();
        write_bytes(cases[c].text, strlen(cases[c].text));
        assert_int_equal(config_read_file(&config, path, NULL), KVS_OK);
        for (size_t w = 0; w < 2 && cases[c].words[w] != NULL; w++)
            if (strstr(lines, cases[c].words[w]) == NULL)
                fail_msg("'%s' is not in: %s", cases[c].words[w], lines);
        config_done(&config);
    }
}

static void test_environment(void **state)
{
    (void)state;
    struct store_config config = defaults();
    const char *used = "untouched";
    unsetenv(CONFIG_PATH_VARIABLE);
    unsetenv(CONFIG_WRONG_VARIABLE);
    assert_int_equal(config_read_env(&config, &used, NULL), KVS_OK);
    assert_null(used);
    assert_string_equal(config.options.file_path_prefix, "/data/hicache");
    assert_string_equal(lines, "");

    setenv(CONFIG_WRONG_VARIABLE, path, 1); /* named in old guides */
    assert_int_equal(config_read_env(&config, &used, NULL), KVS_OK);
    assert_null(used);
    assert_non_null(strstr(lines, "SGLANG_HF3FS_CONFIG is set"));
    assert_non_null(strstr(lines, "SGLANG_HICACHE_HF3FS_CONFIG_PATH"));

    lines[0] = '\0';
    write_bytes("{" GOOD "}", strlen("{" GOOD "}"));
    setenv(CONFIG_PATH_VARIABLE, path, 1);
    assert_int_equal(config_read_env(&config, &used, NULL), KVS_OK);
    assert_string_equal(used, path);
    assert_string_equal(config.options.file_path_prefix, "/data/x");
    assert_string_equal(lines, "");

    setenv(CONFIG_PATH_VARIABLE, "/nowhere.json", 1);
    struct kvs_error error = {0};
    used = "untouched";
    assert_int_equal(config_read_env(&config, &used, &error), KVS_ERR_CONFIG_LOAD);
    assert_string_equal(used, "untouched");
    unsetenv(CONFIG_PATH_VARIABLE);
    unsetenv(CONFIG_WRONG_VARIABLE);
    config_done(&config);
}

/* ---- Values, from whoever they are ---------------------------------------------------------- */

static void test_values(void **state)
{
    (void)state;
    struct kvs_store_options o;
    struct kvs_error error;
#define CASE(change, expected, ...)                                                                \
    do {                                                                                           \
        static const char *const words[] = {__VA_ARGS__};                                          \
        kvs_store_options_init(&o);                                                                \
        o.bytes_per_page = 4096;                                                                   \
        o.file_size = 4096 * 100;                                                                  \
        change;                                                                                    \
        memset(&error, 0, sizeof(error));                                                          \
        enum kvs_status status = config_check(&o, false, &error);                                  \
        if (status != (expected))                                                                  \
            fail_msg("%s: status %d: %s", #change, status, error.message);                         \
        for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)                              \
            if (strstr(error.message, words[w]) == NULL)                                           \
                fail_msg("%s: '%s' is not in: %s", #change, words[w], error.message);              \
    } while (0)
    CASE(o.numjobs = 16, KVS_OK, "");
    CASE(o.bytes_per_page = 0, KVS_ERR_CONFIG_PAGE_BYTES, "bytes_per_page must be positive", "kv");
    CASE(o.bytes_per_page = (1ull << 30) + 1, KVS_ERR_CONFIG_VALUE, "bytes_per_page", "1 GiB");
    CASE(o.file_size = 4095, KVS_ERR_CONFIG_FILE_SIZE, "4095", "4096", "smaller than one page");
    CASE(o.file_size = 0, KVS_ERR_CONFIG_VALUE, "file_size", "from 1 to");
    CASE(o.file_size = UINT64_MAX, KVS_ERR_CONFIG_VALUE, "file_size", "1 EiB");
    CASE((o.file_size = 1ull << 50, o.bytes_per_page = 1), KVS_ERR_CONFIG_FILE_SIZE, "1073741824");
    CASE(o.file_path_prefix = NULL, KVS_ERR_CONFIG_VALUE, "(none)", "file_path_prefix");
    CASE(o.file_path_prefix = "", KVS_ERR_CONFIG_VALUE, "file_path_prefix", "empty");
    CASE(o.metadata_dir = "", KVS_ERR_CONFIG_VALUE, "metadata_dir", "empty");
    CASE(o.numjobs = 0, KVS_ERR_CONFIG_VALUE, "value 0", "numjobs", "1 to 1024");
    CASE(o.entries = 0, KVS_ERR_CONFIG_VALUE, "value 0", "entries", "1 to 4096");
    CASE((o.numjobs = 1024, o.entries = 4096), KVS_ERR_CONFIG_VALUE, "entries", "65536");
    CASE(o.client_timeout = (double)NAN, KVS_ERR_CONFIG_VALUE, "client_timeout", "not a number");
    CASE(o.client_timeout = (double)INFINITY, KVS_ERR_CONFIG_VALUE, "inf", "client_timeout");
    CASE(o.reserve_ttl = 0, KVS_ERR_CONFIG_VALUE, "reserve_ttl");
    CASE(o.quarantine = -1, KVS_ERR_CONFIG_VALUE, "quarantine");
    CASE(o.max_inflight_bytes = 0, KVS_ERR_CONFIG_VALUE, "max_inflight_bytes");
    CASE(o.eviction = (enum kvs_eviction)9, KVS_ERR_CONFIG_VALUE, "9", "eviction");
    CASE(o.tp_rank = 1, KVS_ERR_CONFIG_VALUE, "tp_rank", "0 to 0");
    CASE((o.pp_size = 2, o.pp_rank = 2), KVS_ERR_CONFIG_VALUE, "pp_rank", "pp_size", "0 to 1");
    CASE(o.cp_size = 0, KVS_ERR_CONFIG_VALUE, "cp_size", "at least 1");
    CASE((o.use_mock_hf3fs_client = true, o.io_engine = KVS_IO_USRBIO), KVS_ERR_CONFIG_VALUE,
         "use_mock_hf3fs_client");
    CASE(o.metadata_server_url = "127.0.0.1:18000", KVS_ERR_CONFIG_VALUE, "metadata_server_url",
         "http://");
#undef CASE
}

/* Messages end up in logs. */
static void test_credentials_are_not_shown(void **state)
{
    (void)state;
    static const struct {
        const char *url, *shown;
    } cases[] = {
        {"http://h:18000", "http://h:18000"},
        {"http://any:secret@h:18000/x", "http://h:18000/x"},
        {"HTTP://any:secret@h", "HTTP://h"},
        {"any:secret@h:1", "h:1"},
        {"https://any:sec/r@et@[::1]:1", "https://[::1]:1"},
        {"any:s://ecret@h", "h"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *shown = config_shown_url(cases[i].url);
        assert_string_equal(shown, cases[i].shown);
        free(shown);
    }
    struct kvs_store_options options;
    struct kvs_error error;
    char url[5000] = " http://any:secret@h:18000", text[CONFIG_TEXT_MAX];
    for (int i = 0; i < 2; i++) {
        kvs_store_options_init(&options);
        options.bytes_per_page = 4096;
        options.metadata_server_url = url;
        assert_int_equal(config_check(&options, false, &error), KVS_ERR_CONFIG_VALUE);
        assert_null(strstr(error.message, "secret"));
        memset(url + strlen(url), 'x', sizeof(url) - 1 - strlen(url)); /* too long for a path */
    }
    for (size_t i = 0; i < config_key_count(); i++)
        assert_null(strstr(config_value_text(&options, config_key(i), text), "secret"));
}

static void test_mla_with_a_server(void **state)
{
    (void)state;
    struct kvs_store_options options;
    kvs_store_options_init(&options);
    options.bytes_per_page = 4096;
    options.is_mla_model = true;
    options.metadata_server_url = "https://shelf:18000";
    assert_int_equal(config_check(&options, false, NULL), KVS_OK);
}

/* Users search for this text: it is the original's, with our document behind it. */
static void test_mla_without_a_server(void **state)
{
    (void)state;
    static const char exact[] = "MLA model is not supported without global metadata server, please "
                                "refer to ";
    struct kvs_store_options o;
    struct kvs_store *store = NULL;
    struct kvs_error error = {0};
    kvs_store_options_init(&o);
    o.bytes_per_page = 4096;
    o.is_mla_model = true;
    unsetenv(CONFIG_PATH_VARIABLE);
    assert_int_equal(kvs_store_open(&o, &store, &error), KVS_ERR_MLA_NEEDS_SERVER);
    assert_memory_equal(error.message, exact, sizeof(exact) - 1);
    assert_non_null(strstr(error.message + sizeof(exact) - 1, "http"));
    assert_int_equal(kvs_store_open_env(&o, &store, &error), KVS_ERR_MLA_NEEDS_SERVER);
    write_bytes("{" GOOD "}", strlen("{" GOOD "}"));
    setenv(CONFIG_PATH_VARIABLE, path, 1);
    assert_int_equal(kvs_store_open_env(&o, &store, &error), KVS_ERR_MLA_NEEDS_SERVER);
    unsetenv(CONFIG_PATH_VARIABLE);
    assert_null(store);
}

/* Callers compiled against an older or a newer header. */
static void test_sizes_of_options(void **state)
{
    (void)state;
    struct {
        struct kvs_store_options options;
        char more[16];
    } newer = {0};
    struct store_config config = {0};
    struct kvs_error error = {0};
    kvs_store_options_init(&newer.options);
    newer.options.bytes_per_page = 4096;
    newer.options.size = sizeof(newer);
    assert_int_equal(config_copy(&config, &newer.options, &error), KVS_OK);
    assert_int_equal(config.options.size, sizeof(struct kvs_store_options));
    config_done(&config);
    newer.more[3] = 1;
    assert_int_equal(config_copy(&config, &newer.options, &error), KVS_ERR_CONFIG_VALUE);
    assert_non_null(strstr(error.message, "older library"));

    newer.options.size = offsetof(struct kvs_store_options, max_inflight_bytes);
    newer.options.max_inflight_bytes = 7;
    assert_int_equal(config_copy(&config, &newer.options, &error), KVS_OK);
    assert_true(config.options.max_inflight_bytes == 1ull << 30);
    config_done(&config);
    newer.options.size = 0;
    assert_int_equal(config_copy(&config, &newer.options, &error), KVS_ERR_CONFIG_VALUE);
    assert_non_null(strstr(error.message, "kvs_store_options_init"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_the_originals),
        cmocka_unit_test(test_file_over_options),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_files_that_cannot_be_read),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_credentials_are_not_shown),
        cmocka_unit_test(test_mla_with_a_server),
        cmocka_unit_test(test_mla_without_a_server),
        cmocka_unit_test(test_sizes_of_options),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
