/* What a call of a store may spend on its questions to a server. The server is made up: each
 * question takes as long as the test says, on a clock that stands still otherwise. */
#include "base/status.h"
#include "metadata/remote_transport.h"
#include "store/store.h"
#include "support/fake_engine.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 512, PAGES = 1 << 14, KEYS = 3 * CHUNK_KEYS_MAX };

static const uint64_t ms_ns = 1000000;

static struct server {
    struct remote_transport transport;
    uint64_t now_ns, takes_ms, takes_us_more, asked, timeout_ms; /* the last one's */
    bool forgetful; /* it answers 404 but to initialize */
    char operations[32][40];
} server;

static uint64_t now(void *arg)
{
    (void)arg;
    return server.now_ns;
}

/* A member with a list of as many `entry`s as there are keys in the question. */
static void list(struct buffer *out, const struct remote_question *question, const char *name,
                 const char *entry)
{
    const char *before = "";
    buffer_append_text(out, out->length == 0 ? "{\"" : ",\"");
    buffer_append_text(out, name);
    buffer_append_text(out, "\":[");
    const char *end = question->body + question->body_bytes;
    const char *at = memmem(question->body, question->body_bytes, "\"keys\":", 7);
    for (; (at = memmem(at, (size_t)(end - at), "\"0", 2)) != NULL; at++) {
        buffer_append_text(out, before);
        buffer_append_text(out, entry);
        before = ",";
    }
    buffer_append_text(out, "]");
}

static enum kvs_status ask(struct remote_transport *transport,
                           const struct remote_question *question, int *ret_http_status,
                           struct buffer *ret_answer, struct kvs_error *error)
{
    (void)transport;
    server.timeout_ms = question->timeout_ms;
    snprintf(server.operations[server.asked++ % 32], 40, "%s", strrchr(question->path, '/') + 1);
    const char *operation = strrchr(question->path, '/') + 1;
    if (server.takes_ms >= question->timeout_ms) {
        server.now_ns += question->timeout_ms * ms_ns;
        return error_set(error, KVS_ERR_REMOTE_DEADLINE, transport->url, "0");
    }
    server.now_ns += server.takes_ms * ms_ns + server.takes_us_more * 1000;
    *ret_http_status = 200;
    if (server.forgetful && strcmp(operation, "initialize") != 0) {
        *ret_http_status = 404;
        buffer_append_text(ret_answer,
                           "{\"detail\": \"Rank 0 namespace 'kv' not initialized. Please "
                           "call /0/initialize first.\"}");
    } else if (strcmp(operation, "exists") == 0) {
        list(ret_answer, question, "exists", "true");
        buffer_append_text(ret_answer, "}");
    } else if (strcmp(operation, "get_page_indices") == 0) {
        list(ret_answer, question, "indices", "null");
        list(ret_answer, question, "checksums", "null");
        list(ret_answer, question, "generations", "null");
        buffer_append_text(ret_answer, "}");
    } else {
        *ret_http_status = 204;
    }
    return KVS_OK;
}

static struct remote_transport *close_transport(struct remote_transport *transport)
{
    (void)transport;
    return NULL;
}

static struct fake_engine engine;
static struct kvs_store *store;
static char texts[KEYS][72];
static const char *keys[KEYS];
static void *buffers[KEYS];
static uint8_t page[PAGE_BYTES];
static bool results[KEYS];

static enum kvs_status open_store(struct kvs_error *error)
{
    struct kvs_store_options options;
    kvs_store_options_init(&options);
    options.file_path_prefix = "/made/up";
    options.file_size = (uint64_t)PAGES * PAGE_BYTES;
    options.bytes_per_page = PAGE_BYTES;
    options.metadata_server_url = "http://any:secret@made-up";
    options.client_timeout = 5;
    options.exists_cache_ms = 0;
    const struct store_parts parts = {.transport = &server.transport,
                                      .open_file = fake_engine_open,
                                      .open_file_arg = &engine,
                                      .now_ns = now};
    return store_open(&options, &parts, &store, error);
}

static int begin(void **state)
{
    (void)state;
    server = (struct server){
        .transport = {.ask = ask, .close = close_transport, .url = "http://made-up"},
        .now_ns = 1000 * ms_ns};
    fake_engine_init(&engine);
    struct kvs_error error;
    if (open_store(&error) != KVS_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%064zx", i);
        keys[i] = texts[i];
        buffers[i] = page;
    }
    server.asked = 0;
    return 0;
}

static int finish(void **state)
{
    (void)state;
    store = kvs_store_close(store);
    fake_engine_done(&engine);
    return 0;
}

/* However many keys and however many questions: client_timeout in all. */
static void test_a_large_batch_has_one_deadline(void **state)
{
    (void)state;
    uint64_t began_ns = server.now_ns;
    server.takes_ms = 2000;
    kvs_store_batch_get(store, KVS_POOL_KV, KEYS, keys, buffers, results);
    assert_int_equal(server.asked, 3); /* the third had one second left */
    assert_int_equal(server.timeout_ms, 1000);
    assert_int_equal(server.now_ns - began_ns, 5000 * ms_ns);
    struct kvs_store_stats stats;
    kvs_store_get_stats(store, &stats);
    assert_int_equal(stats.metadata_breaker_trips, 1);
}

/* A server that has answered everything is not left alone for a time that was as good as over. */
static void test_less_than_a_millisecond_is_nothing(void **state)
{
    (void)state;
    server.takes_ms = 2499;
    server.takes_us_more = 750;
    kvs_store_batch_get(store, KVS_POOL_KV, KEYS, keys, buffers, results);
    assert_int_equal(server.asked, 2);
    struct kvs_store_stats stats;
    kvs_store_get_stats(store, &stats);
    assert_int_equal(stats.metadata_breaker_trips, 0);
    assert_int_equal(stats.missed_metadata, CHUNK_KEYS_MAX);
}

static void test_exists_has_its_short_one(void **state)
{
    (void)state;
    uint64_t began_ns = server.now_ns;
    server.takes_ms = 80;
    assert_int_equal(kvs_store_batch_exists(store, KVS_POOL_KV, KEYS, keys), 2 * CHUNK_KEYS_MAX);
    assert_int_equal(server.now_ns - began_ns, 200 * ms_ns);
}

/* Initializing a namespace that was forgotten is part of the call. */
static void test_initializing_again_is_in_time(void **state)
{
    (void)state;
    uint64_t began_ns = server.now_ns;
    server.forgetful = true;
    server.takes_ms = 80;
    assert_int_equal(kvs_store_batch_exists(store, KVS_POOL_KV, 1, keys), 0);
    assert_int_equal(server.now_ns - began_ns, 200 * ms_ns);
    assert_string_equal(server.operations[0], "exists");
    assert_string_equal(server.operations[1], "initialize");
}

static void test_a_delete_tells_that_its_time_was_over(void **state)
{
    (void)state;
    struct kvs_error error;
    uint64_t began_ns = server.now_ns;
    server.takes_ms = 2500;
    assert_int_equal(kvs_store_delete(store, KVS_POOL_KV, KEYS, keys, &error),
                     KVS_ERR_REMOTE_DEADLINE);
    assert_non_null(strstr(error.message, "http://made-up"));
    assert_null(strstr(error.message, "secret"));
    assert_int_equal(server.now_ns - began_ns, 5000 * ms_ns);
}

/* Opening asks before it touches the page file, initializes, and asks what kind of server it is. */
static void test_opening_has_one_deadline(void **state)
{
    (void)state;
    static const uint64_t takes_ms[] = {1500, 2400, 4000, 60000};
    static const unsigned asked[] = {3, 3, 2, 1};
    kvs_store_close(store);
    for (size_t i = 0; i < sizeof(takes_ms) / sizeof(takes_ms[0]); i++) {
        uint64_t began_ns = server.now_ns;
        struct kvs_error error;
        store = NULL;
        server.asked = 0;
        server.takes_ms = takes_ms[i];
        enum kvs_status status = open_store(&error);
        assert_int_equal(status, i == 0 ? KVS_OK : KVS_ERR_REMOTE_DEADLINE);
        assert_int_equal(server.asked, asked[i]);
        assert_int_equal(server.now_ns - began_ns, i == 0 ? 3 * 1500 * ms_ns : 5000 * ms_ns);
        kvs_store_close(store);
    }
    store = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_large_batch_has_one_deadline, begin, finish),
        cmocka_unit_test_setup_teardown(test_less_than_a_millisecond_is_nothing, begin, finish),
        cmocka_unit_test_setup_teardown(test_exists_has_its_short_one, begin, finish),
        cmocka_unit_test_setup_teardown(test_initializing_again_is_in_time, begin, finish),
        cmocka_unit_test_setup_teardown(test_a_delete_tells_that_its_time_was_over, begin, finish),
        cmocka_unit_test_setup_teardown(test_opening_has_one_deadline, begin, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
