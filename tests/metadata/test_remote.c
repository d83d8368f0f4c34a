/* The remote client (real: libcurl over sockets) against kvshelf's server (real, in this process).
 */
#include "base/status.h"
#include "metadata/metadata.h"
#include "metadata/remote_transport.h"
#include "support/live_server.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 20000, PAGES = 64, KEY_BYTES = 72 };

static struct live_server server;
static struct metadata_client *client;
static _Atomic uint64_t clock_ns; /* of the cache and of deadlines */
static char log_lines[4096];

static uint64_t fixed_clock(void *arg)
{
    (void)arg;
    return clock_ns;
}

static void take_line(void *arg, enum kvs_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    size_t length = strlen(log_lines);
    snprintf(log_lines + length, sizeof(log_lines) - length, "%s\n", line);
}

static struct metadata_remote_options options_of(const char *url)
{
    return (struct metadata_remote_options){.url = url,
                                            .timeout_ms = TIMEOUT_MS,
                                            .exists_timeout_ms = TIMEOUT_MS,
                                            .verified_only = true,
                                            .log = {take_line, NULL},
                                            .now_ns = fixed_clock};
}

static struct metadata_client *open_client(const struct metadata_remote_options *options)
{
    struct metadata_client *opened;
    struct kvs_error error;
    if (metadata_remote_open(options, &opened, &error) != KVS_OK)
        fail_msg("%s", error.message);
    return opened;
}

static const struct metadata_scope scope = {
    .rank = 3, .ns = "kv", .bytes_per_page = 4096, .fingerprint = "model=a;"};

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        struct kvs_error error_of_call = {0};                                                      \
        struct kvs_error *error = &error_of_call;                                                  \
        if ((call) != KVS_OK)                                                                      \
            fail_msg("%s: %s", #call, error_of_call.message);                                      \
    } while (0)

static int begin_with(void **state, uint64_t cache_ms)
{
    (void)state;
    server = (struct live_server){0};
    live_server_start(&server);
    clock_ns = 1000000000;
    log_lines[0] = '\0';
    struct metadata_remote_options options = options_of(server.url);
    options.cache_ms = cache_ms;
    client = open_client(&options);
    ASSERT_OK(client->ops->initialize(client, &scope, PAGES, error));
    return 0;
}

static int begin(void **state)
{
    return begin_with(state, 0);
}

static int begin_cached(void **state)
{
    return begin_with(state, 1000);
}

static int end(void **state)
{
    (void)state;
    client = client->ops->close(client);
    live_server_stop(&server);
    return 0;
}

static struct metadata_text text_of(const char *text)
{
    return (struct metadata_text){text, strlen(text)};
}

/* Key number i, 64 digits. */
static struct metadata_text key_of(char text[KEY_BYTES], unsigned i)
{
    snprintf(text, KEY_BYTES, "%064x", i);
    return text_of(text);
}

/* Reserves and confirms one key with the checksum given; its page. */
static int64_t store_key(struct metadata_text key, uint64_t checksum)
{
    struct catalog_reserved reserved;
    enum catalog_rejection reason = CATALOG_OTHER_KEY;
    ASSERT_OK(
        client->ops->reserve_and_allocate_page_indices(client, &scope, &key, 1, &reserved, error));
    assert_false(reserved.present);
    assert_true(reserved.page >= 0 && reserved.generation > 0);
    const struct metadata_confirm confirm = {key, reserved.page, reserved.generation, checksum};
    ASSERT_OK(client->ops->confirm_write(client, &scope, &confirm, 1, NULL, 0, &reason, error));
    assert_int_equal(reason, CATALOG_ACCEPTED);
    return reserved.page;
}

static struct catalog_found found_of(struct metadata_text key)
{
    struct catalog_found found = {0};
    ASSERT_OK(client->ops->get_page_indices(client, &scope, &key, 1, &found, error));
    return found;
}

static bool exists(struct metadata_text key)
{
    bool present = false;
    ASSERT_OK(client->ops->exists(client, &scope, &key, 1, &present, error));
    return present;
}

static void test_the_life_of_a_page(void **state)
{
    (void)state;
    char text[KEY_BYTES], other[KEY_BYTES];
    struct metadata_text key = key_of(text, 1);
    assert_false(exists(key));
    assert_int_equal(found_of(key).page, -1);
    int64_t page = store_key(key, 0x0123456789abcdef);
    assert_true(exists(key));
    struct catalog_found found = found_of(key);
    assert_int_equal(found.page, page);
    assert_true(found.has_checksum);
    assert_true(found.checksum == 0x0123456789abcdef);
    assert_true(found.generation > 0);
    assert_int_equal(found_of(key_of(other, 2)).page, -1);

    struct catalog_reserved again;
    ASSERT_OK(
        client->ops->reserve_and_allocate_page_indices(client, &scope, &key, 1, &again, error));
    assert_true(again.present);
    assert_int_equal(again.page, page);

    ASSERT_OK(client->ops->delete_keys(client, &scope, &key, 1, error));
    assert_false(exists(key));
    store_key(key_of(other, 2), 5);
    ASSERT_OK(client->ops->clear(client, &scope, error));
    assert_false(exists(text_of(other)));
    assert_string_equal(log_lines, "");
}

static void test_what_is_rejected(void **state)
{
    (void)state;
    char texts[4][KEY_BYTES];
    struct metadata_text keys[4];
    struct catalog_reserved reserved[4];
    for (unsigned i = 0; i < 4; i++)
        keys[i] = key_of(texts[i], i);
    ASSERT_OK(
        client->ops->reserve_and_allocate_page_indices(client, &scope, keys, 4, reserved, error));
    const struct metadata_confirm confirms[] = {
        {keys[0], reserved[0].page, reserved[0].generation, 10},
        {keys[1], reserved[1].page, reserved[1].generation + 1, 11}, /* another life */
        {keys[2], 999, reserved[2].generation, 12},                  /* no such page */
        {keys[0], reserved[0].page, reserved[0].generation, 99},     /* another checksum */
    };
    const struct metadata_release releases[] = {
        {keys[3], reserved[3].page, reserved[3].generation},
        {keys[2], reserved[2].page, reserved[2].generation + 7}, /* rejected, and of no matter */
    };
    enum catalog_rejection reasons[4];
    ASSERT_OK(client->ops->confirm_write(client, &scope, confirms, 4, releases, 2, reasons, error));
    assert_int_equal(reasons[3], CATALOG_ACCEPTED); /* a batch is gone through from its end */
    assert_int_equal(reasons[2], CATALOG_OUT_OF_RANGE);
    assert_int_equal(reasons[1], CATALOG_OTHER_GENERATION);
    assert_int_equal(reasons[0], CATALOG_OTHER_CHECKSUM);
    struct catalog_counts counts = live_server_counts(&server, 3, "kv");
    assert_int_equal(counts.committed, 1);
    assert_int_equal(counts.reserved, 2);
    assert_int_equal(counts.retired, 1);
}

/* Each key is another key, whatever its bytes: none is lost on the way, no two become one. */
static void test_any_bytes_are_keys(void **state)
{
    (void)state;
    static char longest[KEY_TEXT_MAX], too_long[2][KEY_TEXT_MAX + 9];
    memset(longest, 'x', sizeof(longest));
    memset(too_long, 'x', sizeof(too_long));
    too_long[1][KEY_TEXT_MAX + 8] = 'y';
    const struct metadata_text keys[] = {
        text_of(""),
        text_of("a"),
        text_of("\xff"),
        text_of("\xfe"),
        text_of("\xef\xbf\xbd"), /* U+FFFD */
        text_of("\xed\xa0\x80"), /* a surrogate */
        text_of("\"quoted\\\""),
        text_of("\x01\n\t"),
        text_of("\xc3\xa9"),
        text_of("sha256:"),
        text_of(
            "sha256:a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89"), /* \xff */
        {"a\0b", 3},
        {"a\0c", 3},
        {longest, sizeof(longest)},
        {too_long[0], sizeof(too_long[0])},
        {too_long[1], sizeof(too_long[1])},
    };
    const size_t n = sizeof(keys) / sizeof(keys[0]);
    int64_t pages[16];
    struct catalog_found found[16];
    for (size_t i = 0; i < n; i++)
        pages[i] = store_key(keys[i], i);
    ASSERT_OK(client->ops->get_page_indices(client, &scope, keys, n, found, error));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(found[i].page, pages[i]);
        assert_true(found[i].checksum == i);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(pages[i], pages[j]);
    }
}

/* More keys than a request may hold; K and V of a page stay in one request. */
static void test_long_batches_are_split(void **state)
{
    (void)state;
    enum { MANY = 70001 };
    const struct metadata_scope wide = {.rank = 0, .ns = "wide", .bytes_per_page = 1};
    struct metadata_text *keys = calloc(MANY, sizeof(*keys));
    struct catalog_reserved *reserved = calloc(MANY, sizeof(*reserved));
    struct metadata_confirm *confirms = calloc(MANY, sizeof(*confirms));
    struct metadata_release *releases = calloc(MANY, sizeof(*releases));
    enum catalog_rejection *reasons = calloc(MANY, sizeof(*reasons));
    struct catalog_found *found = calloc(MANY, sizeof(*found));
    bool *present = calloc(MANY, sizeof(*present));
    char(*texts)[KEY_BYTES] = calloc(MANY, sizeof(*texts));
    /* One page short: of the pair that does not fit neither half is given a page. */
    ASSERT_OK(client->ops->initialize(client, &wide, MANY - 2, error));
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(texts[i], KEY_BYTES, "%064x-%c", i / 2, i % 2 == 0 ? 'k' : 'v');
        keys[i] = text_of(texts[i]);
    }
    ASSERT_OK(
        client->ops->reserve_and_allocate_page_indices(client, &wide, keys, MANY, reserved, error));
    size_t pages = 0, confirm = 0, release = 0;
    for (unsigned i = 0; i < MANY; i++) {
        pages += reserved[i].page >= 0;
        if (i % 2 == 1)
            assert_int_equal(reserved[i].page < 0, reserved[i - 1].page < 0);
        if (reserved[i].page < 0)
            continue;
        if (i % 16 == 0)
            releases[release++] =
                (struct metadata_release){keys[i], reserved[i].page, reserved[i].generation};
        else
            confirms[confirm++] =
                (struct metadata_confirm){keys[i], reserved[i].page, reserved[i].generation, i};
    }
    assert_true(pages >= MANY - 3);
    ASSERT_OK(client->ops->confirm_write(client, &wide, confirms, confirm, releases, release,
                                         reasons, error));
    for (size_t i = 0; i < confirm; i++)
        assert_int_equal(reasons[i], CATALOG_ACCEPTED);
    ASSERT_OK(client->ops->get_page_indices(client, &wide, keys, MANY, found, error));
    ASSERT_OK(client->ops->exists(client, &wide, keys, MANY, present, error));
    for (unsigned i = 0; i < MANY; i++) {
        bool stored = reserved[i].page >= 0 && i % 16 != 0;
        assert_int_equal(present[i], stored);
        assert_int_equal(found[i].page, stored ? reserved[i].page : -1);
        if (stored)
            assert_true(found[i].checksum == i);
    }
    struct catalog_counts counts = live_server_counts(&server, 0, "wide");
    assert_int_equal(counts.committed, confirm);
    assert_int_equal(counts.retired, release);
    assert_int_equal(counts.reserved, 0);
    ASSERT_OK(client->ops->delete_keys(client, &wide, keys, MANY, error));
    assert_int_equal(live_server_counts(&server, 0, "wide").committed, 0);
    free(keys);
    free(reserved);
    free(confirms);
    free(releases);
    free(reasons);
    free(found);
    free(present);
    free(texts);
}

static void test_another_geometry_and_identity(void **state)
{
    (void)state;
    struct kvs_error error;
    struct metadata_scope other = scope;
    other.bytes_per_page = 8192;
    assert_int_equal(client->ops->initialize(client, &other, PAGES, &error),
                     KVS_ERR_GEOMETRY_DIFFERS);
    assert_non_null(strstr(error.message, "4096"));
    assert_non_null(strstr(error.message, "8192"));
    assert_int_equal(client->ops->exists(client, &other, NULL, 0, NULL, &error),
                     KVS_ERR_GEOMETRY_DIFFERS);
    assert_int_equal(client->ops->initialize(client, &scope, PAGES + 1, &error),
                     KVS_ERR_GEOMETRY_DIFFERS);
    other = scope;
    other.fingerprint = "model=b;";
    assert_int_equal(client->ops->clear(client, &other, &error), KVS_ERR_FINGERPRINT_DIFFERS);
    assert_non_null(strstr(error.message, "model=b;"));
    other = scope;
    other.ns = "swa";
    assert_int_equal(client->ops->clear(client, &other, &error), KVS_ERR_NOT_INITIALIZED_SERVER);
    assert_string_equal(error.message, "Rank 3 namespace 'swa' not initialized. Please call "
                                       "/3/initialize first.");
    other.ns =
        "a-namespace-whose-name-is-longer-than-the-eighty-bytes-that-a-server-takes-for-one!";
    assert_int_equal(client->ops->clear(client, &other, &error), KVS_ERR_REMOTE_ANSWER);
    assert_non_null(strstr(error.message, "namespace"));
}

/* ---- Access --------------------------------------------------------------------------------- */

static enum kvs_status probe(const char *url, const char *token_file, struct kvs_error *error)
{
    struct metadata_remote_options options = options_of(url);
    options.token_file = token_file;
    struct metadata_client *other;
    enum kvs_status status = metadata_remote_open(&options, &other, error);
    if (status != KVS_OK)
        return status;
    status = other->ops->exists(other, &scope, NULL, 0, NULL, error);
    other->ops->close(other);
    return status;
}

static void test_tokens(void **state)
{
    (void)state;
    char dir[TEMP_DIR_MAX], path[TEMP_DIR_MAX + 16], url[128];
    struct kvs_error error;
    struct live_server locked = {.token = "open-sesame-open-sesame"};
    live_server_start(&locked);
    snprintf(path, sizeof(path), "%s/token", temp_dir_make(dir));
    assert_int_equal(probe(locked.url, NULL, &error), KVS_ERR_REMOTE_AUTH);
    assert_non_null(strstr(error.message, "carries no token"));
    assert_int_equal(probe(locked.url, path, &error), KVS_ERR_TOKEN_FILE_MISSING);
    assert_non_null(strstr(error.message, path));

    FILE *file = fopen(path, "w");
    fputs("another-token\n", file);
    fclose(file);
    assert_int_equal(probe(locked.url, path, &error), KVS_ERR_REMOTE_AUTH);
    assert_null(strstr(error.message, "another-token"));

    file = fopen(path, "w");
    fputs("open-sesame-open-sesame\n", file);
    fclose(file);
    assert_int_equal(probe(locked.url, path, &error), KVS_ERR_NOT_INITIALIZED_SERVER);

    snprintf(url, sizeof(url), "http://any:open-sesame-open-sesame@127.0.0.1:%u/", locked.port);
    assert_int_equal(probe(url, NULL, &error), KVS_ERR_NOT_INITIALIZED_SERVER);
    snprintf(url, sizeof(url), "http://any:secret-of-mine@127.0.0.1:%u", locked.port);
    assert_int_equal(probe(url, NULL, &error), KVS_ERR_REMOTE_AUTH);
    assert_null(strstr(error.message, "secret-of-mine"));
    live_server_stop(&locked);
    temp_dir_remove(dir);
}

static void test_urls_that_cannot_be(void **state)
{
    (void)state;
    static const char *const urls[] = {"",           "127.0.0.1:18000", "ftp://h",
                                       "http://",    "http://h:port",   "http://h?x=1",
                                       "http://h#x", "http://a b"};
    static const char *const secrets[] = {"http://any:ab/cd@127.0.0.1:18555", "http://any:1/2@h",
                                          "http://any:a#b@h", "http://any:a?b@h:1"};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct kvs_error error;
        if (probe(urls[i], NULL, &error) != KVS_ERR_CONFIG_VALUE)
            fail_msg("%s was taken", urls[i]);
        assert_non_null(strstr(error.message, "metadata_server_url"));
    }
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
        struct kvs_error error;
        assert_int_equal(probe(secrets[i], NULL, &error), KVS_ERR_CONFIG_VALUE);
        assert_non_null(strstr(error.message, "percent-encode the password (/ is %2F)"));
        assert_null(strstr(error.message, secrets[i] + strlen("http://")));
    }
    struct kvs_error error;
    probe("http://", NULL, &error);
    assert_string_equal(error.message,
                        "Invalid config value http:// for metadata_server_url: it must be the "
                        "whole address of a server, for example http://127.0.0.1:18000");
    probe("http://h?token=s3cret", NULL, &error);
    assert_null(strstr(error.message, "s3cret"));
}

/* ---- The server comes and goes -------------------------------------------------------------- */

static void test_restarts(void **state)
{
    (void)state;
    char text[KEY_BYTES];
    struct metadata_text key = key_of(text, 1);
    struct kvs_error failure;
    store_key(key, 1);
    for (int i = 0; i < 3; i++) {
        live_server_stop(&server);
        live_server_start(&server);
        /* The connection that is kept open has died meanwhile: not the caller's concern. */
        assert_int_equal(client->ops->clear(client, &scope, &failure),
                         KVS_ERR_NOT_INITIALIZED_SERVER);
        ASSERT_OK(client->ops->initialize(client, &scope, PAGES, error));
        store_key(key, 1);
    }
    live_server_stop(&server);
    assert_int_equal(client->ops->exists(client, &scope, NULL, 0, NULL, &failure),
                     KVS_ERR_REMOTE_UNREACHABLE);
    assert_non_null(strstr(failure.message, server.url));
    live_server_start(&server);
    ASSERT_OK(client->ops->initialize(client, &scope, PAGES, error));
}

static void *start_late(void *arg)
{
    live_server_start(arg);
    return NULL;
}

/* An engine and a server that are started together. */
static void test_initialize_waits_for_a_server(void **state)
{
    (void)state;
    pthread_t thread;
    live_server_stop(&server);
    assert_int_equal(pthread_create(&thread, NULL, start_late, &server), 0);
    ASSERT_OK(client->ops->initialize(client, &scope, PAGES, error));
    pthread_join(thread, NULL);
}

static void test_a_child_of_fork(void **state)
{
    (void)state;
    char text[KEY_BYTES];
    store_key(key_of(text, 1), 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct kvs_error error;
        bool refused = client->ops->clear(client, &scope, &error) == KVS_ERR_STORE_UNUSABLE;
        _exit(refused ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(exists(text_of(text)));
}

/* ---- Many threads --------------------------------------------------------------------------- */

enum { THREADS = 8, ROUNDS = 60 };

static void *hammer(void *arg)
{
    unsigned first = 100000u * (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        char text[KEY_BYTES];
        struct metadata_text key = key_of(text, first + i);
        struct catalog_reserved reserved;
        struct catalog_found found;
        enum catalog_rejection reason;
        if (client->ops->reserve_and_allocate_page_indices(client, &scope, &key, 1, &reserved,
                                                           NULL) != KVS_OK)
            return "reserve";
        if (reserved.page < 0)
            continue;
        const struct metadata_confirm confirm = {key, reserved.page, reserved.generation,
                                                 first + i};
        if (client->ops->confirm_write(client, &scope, &confirm, 1, NULL, 0, &reason, NULL) !=
                KVS_OK ||
            client->ops->get_page_indices(client, &scope, &key, 1, &found, NULL) != KVS_OK)
            return "confirm or get";
        if (found.page >= 0 && found.checksum != first + i)
            return "another key's answer";
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *problem;
        pthread_join(threads[i], &problem);
        if (problem != NULL)
            fail_msg("%s", (const char *)problem);
    }
    assert_int_equal(live_server_counts(&server, 3, "kv").committed, PAGES);
}

/* ---- One round trip saved ------------------------------------------------------------------- */

static uint64_t requests(void)
{
    return live_server_requests(&server, ENDPOINT_GET) +
           live_server_requests(&server, ENDPOINT_EXISTS);
}

static void test_get_after_exists_asks_nothing(void **state)
{
    (void)state;
    char texts[4][KEY_BYTES];
    struct metadata_text keys[4];
    struct catalog_found found[4];
    bool present[4];
    for (unsigned i = 0; i < 4; i++)
        keys[i] = key_of(texts[i], i);
    int64_t page_0 = store_key(keys[0], 10), page_1 = store_key(keys[1], 11);
    ASSERT_OK(client->ops->exists(client, &scope, keys, 3, present, error));
    assert_true(present[0] && present[1] && !present[2]);
    uint64_t before = requests();
    ASSERT_OK(client->ops->get_page_indices(client, &scope, keys, 2, found, error));
    assert_int_equal(requests(), before);
    assert_int_equal(found[0].page, page_0);
    assert_int_equal(found[1].page, page_1);
    assert_true(found[1].has_checksum && found[1].checksum == 11 && found[1].generation > 0);

    /* Each answer serves once. */
    ASSERT_OK(client->ops->get_page_indices(client, &scope, keys, 2, found, error));
    assert_int_equal(requests(), before + 1);
    assert_int_equal(found[0].page, page_0);

    /* One that is not known: all are asked. */
    ASSERT_OK(client->ops->exists(client, &scope, keys, 1, present, error));
    ASSERT_OK(client->ops->get_page_indices(client, &scope, keys, 4, found, error));
    assert_int_equal(requests(), before + 3);
    assert_int_equal(found[0].page, page_0);
    assert_int_equal(found[1].page, page_1);
    assert_int_equal(found[2].page, -1);
    assert_int_equal(found[3].page, -1);
}

/* Halves of a pair that was stored again meanwhile: one remembered and one asked would be halves of
 * two lives, each of which verifies. */
static void test_an_answer_is_of_one_moment(void **state)
{
    (void)state;
    char texts[2][KEY_BYTES];
    struct metadata_text keys[2];
    struct catalog_found found[2];
    for (unsigned i = 0; i < 2; i++)
        store_key(keys[i] = key_of(texts[i], i), 10 + i);
    assert_true(exists(keys[0]));
    const struct metadata_remote_options options = options_of(server.url);
    struct metadata_client *other = open_client(&options), *first = client;
    client = other;
    ASSERT_OK(client->ops->delete_keys(client, &scope, keys, 2, error));
    for (unsigned i = 0; i < 2; i++)
        store_key(keys[i], 20 + i);
    client = first;
    ASSERT_OK(client->ops->get_page_indices(client, &scope, keys, 2, found, error));
    assert_int_equal(found[0].checksum, 20);
    assert_int_equal(found[1].checksum, 21);
    other->ops->close(other);
}

static void test_remembered_answers_end(void **state)
{
    (void)state;
    char text[KEY_BYTES];
    struct metadata_text key = key_of(text, 1);
    store_key(key, 1);
    assert_true(exists(key));
    clock_ns += 1000000000; /* its life */
    uint64_t before = requests();
    found_of(key);
    assert_int_equal(requests(), before + 1);

    assert_true(exists(key));
    ASSERT_OK(client->ops->delete_keys(client, &scope, &key, 1, error));
    assert_int_equal(found_of(key).page, -1);

    store_key(key, 1);
    assert_true(exists(key));
    ASSERT_OK(client->ops->clear(client, &scope, error));
    assert_int_equal(found_of(key).page, -1);
}

/* A page that a client of the original protocol confirmed has no checksum: it is absent, or, where
 * it is believed, asked for each time, because only that leases it. */
static void test_pages_without_a_checksum(void **state)
{
    (void)state;
    char text[KEY_BYTES];
    struct metadata_text key = key_of(text, 1);
    struct catalog_reserved reserved;
    struct registry_entry *entry = registry_lock(server.registry, 3, "kv", 2);
    struct key packed;
    enum catalog_rejection reason;
    key_parse(&packed, key.text, key.length, "kv");
    uint64_t now_ms = registry_now_ms(server.registry);
    catalog_reserve(registry_catalog(entry), now_ms, &packed, 1, false, 0, &reserved);
    const struct catalog_confirm confirm = {.key = packed, .page = reserved.page};
    catalog_confirm(registry_catalog(entry), now_ms, &confirm, 1, &reason);
    registry_unlock(entry);
    assert_int_equal(reason, CATALOG_ACCEPTED);

    assert_false(exists(key));
    assert_int_equal(found_of(key).page, -1);
    struct metadata_remote_options options = options_of(server.url);
    options.cache_ms = 1000;
    options.verified_only = false;
    client = client->ops->close(client);
    client = open_client(&options);
    assert_true(exists(key));
    uint64_t before = requests();
    struct catalog_found found = found_of(key);
    assert_int_equal(found.page, reserved.page);
    assert_false(found.has_checksum);
    assert_true(requests() > before);
    options.cache_ms = 0;
    client = client->ops->close(client);
    client = open_client(&options);
    assert_true(exists(key));
    assert_int_equal(found_of(key).page, reserved.page);
}

static void test_damage_is_reported(void **state)
{
    (void)state;
    char text[KEY_BYTES];
    struct metadata_text key = key_of(text, 1);
    store_key(key, 1);
    struct catalog_found found = found_of(key);
    struct metadata_release page = {key, found.page, found.generation + 1};
    ASSERT_OK(client->ops->report_mismatch(client, &scope, &page, 1, error));
    assert_true(exists(key)); /* another life of the page */
    page.generation = found.generation;
    ASSERT_OK(client->ops->report_mismatch(client, &scope, &page, 1, error));
    assert_false(exists(key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_life_of_a_page, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_rejected, begin, end),
        cmocka_unit_test_setup_teardown(test_any_bytes_are_keys, begin, end),
        cmocka_unit_test_setup_teardown(test_long_batches_are_split, begin, end),
        cmocka_unit_test_setup_teardown(test_another_geometry_and_identity, begin, end),
        cmocka_unit_test_setup_teardown(test_tokens, begin, end),
        cmocka_unit_test_setup_teardown(test_urls_that_cannot_be, begin, end),
        cmocka_unit_test_setup_teardown(test_restarts, begin, end),
        cmocka_unit_test_setup_teardown(test_initialize_waits_for_a_server, begin, end),
        cmocka_unit_test_setup_teardown(test_a_child_of_fork, begin, end),
        cmocka_unit_test_setup_teardown(test_threads, begin, end),
        cmocka_unit_test_setup_teardown(test_get_after_exists_asks_nothing, begin_cached, end),
        cmocka_unit_test_setup_teardown(test_an_answer_is_of_one_moment, begin_cached, end),
        cmocka_unit_test_setup_teardown(test_remembered_answers_end, begin_cached, end),
        cmocka_unit_test_setup_teardown(test_pages_without_a_checksum, begin, end),
        cmocka_unit_test_setup_teardown(test_damage_is_reported, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
