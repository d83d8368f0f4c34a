/* What is kept between exists and get: bounded, given once, and void when it may be wrong. */
#include "metadata/remote_cache.h"
#include "metadata/remote_transport.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 72, LIFE_NS = 1000 };

static const struct metadata_scope kv = {.rank = 0, .ns = "kv"};
static const struct metadata_scope kv_of_rank_1 = {.rank = 1, .ns = "kv"};
static const struct metadata_scope swa = {.rank = 0, .ns = "swa"};

static struct metadata_text key_of(char text[KEY_BYTES], unsigned i)
{
    snprintf(text, KEY_BYTES, "%064x", i);
    return (struct metadata_text){text, 64};
}

static void put(struct remote_cache *cache, const struct metadata_scope *scope, unsigned i,
                bool has_checksum, uint64_t now_ns)
{
    char text[KEY_BYTES];
    struct metadata_text key = key_of(text, i);
    const struct catalog_found found = {(int64_t)i, has_checksum, i + 1000, i + 2000};
    remote_cache_put(cache, scope, remote_cache_epoch(cache, scope), &key, &found, 1, now_ns);
}

static bool take(struct remote_cache *cache, const struct metadata_scope *scope, unsigned i,
                 uint64_t now_ns)
{
    char text[KEY_BYTES];
    struct metadata_text key = key_of(text, i);
    struct catalog_found found = {0};
    bool taken = remote_cache_take(cache, scope, &key, 1, now_ns, &found);
    if (taken) {
        assert_int_equal(found.page, i);
        assert_true(found.has_checksum);
        assert_true(found.generation == i + 1000 && found.checksum == i + 2000);
    }
    return taken;
}

static void test_given_once_and_in_time(void **state)
{
    (void)state;
    struct remote_cache *cache = remote_cache_new(LIFE_NS);
    assert_false(take(cache, &kv, 1, 0));
    put(cache, &kv, 1, true, 0);
    assert_false(take(cache, &kv, 2, 0));
    assert_true(take(cache, &kv, 1, LIFE_NS - 1));
    assert_false(take(cache, &kv, 1, LIFE_NS - 1));
    put(cache, &kv, 1, true, 0);
    assert_false(take(cache, &kv, 1, LIFE_NS));
    assert_false(take(cache, &kv, 1, 0)); /* gone, not hidden */
    remote_cache_free(cache);
}

/* A stale answer about a page that cannot be verified would be a wrong byte. */
static void test_only_what_can_be_verified(void **state)
{
    (void)state;
    struct remote_cache *cache = remote_cache_new(LIFE_NS);
    char text[KEY_BYTES];
    struct metadata_text key = key_of(text, 3);
    const struct catalog_found absent = {.page = -1, .has_checksum = true};
    put(cache, &kv, 1, false, 0);
    assert_false(take(cache, &kv, 1, 0));
    remote_cache_put(cache, &kv, 0, &key, &absent, 1, 0);
    assert_false(take(cache, &kv, 3, 0));
    remote_cache_free(cache);
}

/* Half of an answer is none, and is gone with it. */
static void test_all_or_nothing(void **state)
{
    (void)state;
    struct remote_cache *cache = remote_cache_new(LIFE_NS);
    char texts[2][KEY_BYTES];
    struct metadata_text keys[2];
    struct catalog_found found[2];
    for (unsigned i = 0; i < 2; i++)
        keys[i] = key_of(texts[i], i);
    put(cache, &kv, 0, true, 0);
    assert_false(remote_cache_take(cache, &kv, keys, 2, 0, found));
    assert_false(take(cache, &kv, 0, 0));
    put(cache, &kv, 0, true, 0);
    put(cache, &kv, 1, true, 0);
    assert_true(remote_cache_take(cache, &kv, keys, 2, 0, found));
    assert_int_equal(found[1].page, 1);
    remote_cache_free(cache);
}

static void test_an_answer_of_absence_counts(void **state)
{
    (void)state;
    struct remote_cache *cache = remote_cache_new(LIFE_NS);
    char text[KEY_BYTES];
    struct metadata_text key = key_of(text, 1);
    const struct catalog_found answers[] = {{.page = -1}, {.page = 1}};
    for (size_t i = 0; i < 2; i++) {
        put(cache, &kv, 1, true, 0);
        remote_cache_put(cache, &kv, 0, &key, &answers[i], 1, 1);
        assert_false(take(cache, &kv, 1, 1));
    }
    remote_cache_free(cache);
}

static void test_namespaces_are_apart(void **state)
{
    (void)state;
    struct remote_cache *cache = remote_cache_new(LIFE_NS);
    put(cache, &kv, 1, true, 0);
    assert_false(take(cache, &kv_of_rank_1, 1, 0));
    assert_false(take(cache, &swa, 1, 0));
    put(cache, &swa, 1, true, 0);
    remote_cache_drop(cache, &kv);
    assert_false(take(cache, &kv, 1, 0));
    assert_true(take(cache, &swa, 1, 0));
    remote_cache_free(cache);
}

/* The answer to a question that was asked before something was deleted. */
static void test_answers_from_before_a_drop(void **state)
{
    (void)state;
    struct remote_cache *cache = remote_cache_new(LIFE_NS);
    char text[KEY_BYTES];
    struct metadata_text key = key_of(text, 1);
    const struct catalog_found found = {1, true, 1001, 2001};
    uint64_t epoch = remote_cache_epoch(cache, &kv);
    remote_cache_drop(cache, &kv);
    remote_cache_put(cache, &kv, epoch, &key, &found, 1, 0);
    assert_false(take(cache, &kv, 1, 0));
    put(cache, &kv, 1, true, 0);
    assert_true(take(cache, &kv, 1, 0));
    remote_cache_free(cache);
}

static void test_it_is_bounded(void **state)
{
    (void)state;
    struct remote_cache *cache = remote_cache_new(LIFE_NS);
    const unsigned many = 3 * REMOTE_CACHE_KEYS;
    unsigned kept = 0, old = 0;
    for (unsigned i = 0; i < many; i++)
        put(cache, &kv, i, true, i < many / 2 ? 0 : 1);
    for (unsigned i = 0; i < many; i++) {
        bool taken = take(cache, &kv, i, 1);
        kept += taken;
        old += taken && i < many / 2;
    }
    assert_true(kept <= REMOTE_CACHE_KEYS);
    assert_true(kept > REMOTE_CACHE_KEYS * 9 / 10); /* the sets fill evenly */
    assert_true(old < kept / 10);                   /* the oldest make room */

    /* Further namespaces are not kept. */
    char names[REMOTE_CACHE_SCOPES + 8][16];
    unsigned scopes = 0;
    for (unsigned i = 0; i < REMOTE_CACHE_SCOPES + 8; i++) {
        snprintf(names[i], sizeof(names[i]), "pool%u", i);
        const struct metadata_scope scope = {.rank = 0, .ns = names[i]};
        put(cache, &scope, 1, true, 0);
        scopes += take(cache, &scope, 1, 0);
    }
    assert_int_equal(scopes, REMOTE_CACHE_SCOPES - 1); /* and kv */
    remote_cache_free(cache);
    assert_null(remote_cache_free(NULL));
}

/* ---- The client over it, asking a server that is made up and takes its time ------------------ */

static struct {
    uint64_t now_ns, takes_ns;
    unsigned asked;
} server;

static uint64_t now_of_server(void *arg)
{
    (void)arg;
    return server.now_ns;
}

static enum kvs_status ask(struct remote_transport *transport,
                           const struct remote_question *question, int *ret_http_status,
                           struct buffer *ret_answer, struct kvs_error *error)
{
    (void)transport, (void)question, (void)error;
    server.asked++;
    server.now_ns += server.takes_ns;
    *ret_http_status = 200;
    buffer_append_text(ret_answer, "{\"indices\":[5],\"checksums\":[\"0123456789abcdef\"],"
                                   "\"generations\":[7]}");
    return KVS_OK;
}

static struct remote_transport *close_transport(struct remote_transport *transport)
{
    (void)transport;
    return NULL;
}

/* What the server does after it has answered is not in an answer that comes late. */
static void test_an_answer_is_as_old_as_its_question(void **state)
{
    (void)state;
    static const uint64_t ms_ns = 1000000;
    char text[KEY_BYTES];
    const struct metadata_text key = key_of(text, 1);
    struct remote_transport transport = {.ask = ask, .close = close_transport, .url = "http://it"};
    const struct metadata_remote_options options = {.url = "http://it",
                                                    .timeout_ms = 5000,
                                                    .cache_ms = 100,
                                                    .verified_only = true,
                                                    .transport = &transport,
                                                    .now_ns = now_of_server};
    const struct {
        uint64_t takes_ms;
        unsigned asked;
    } cases[] = {{90, 1}, {110, 2}};
    struct metadata_client *client;
    assert_int_equal(metadata_remote_open(&options, &client, NULL), KVS_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool there = false;
        struct catalog_found found;
        server.asked = 0;
        server.takes_ns = cases[i].takes_ms * ms_ns;
        assert_int_equal(client->ops->exists(client, &kv, &key, 1, &there, NULL), KVS_OK);
        assert_true(there);
        assert_int_equal(client->ops->get_page_indices(client, &kv, &key, 1, &found, NULL), KVS_OK);
        assert_int_equal(found.page, 5);
        assert_int_equal(server.asked, cases[i].asked);
    }
    client->ops->close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given_once_and_in_time),
        cmocka_unit_test(test_only_what_can_be_verified),
        cmocka_unit_test(test_all_or_nothing),
        cmocka_unit_test(test_an_answer_of_absence_counts),
        cmocka_unit_test(test_namespaces_are_apart),
        cmocka_unit_test(test_answers_from_before_a_drop),
        cmocka_unit_test(test_it_is_bounded),
        cmocka_unit_test(test_an_answer_is_as_old_as_its_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
