/* The remote client (real: libcurl over sockets) against a server that behaves badly (a stand-in):
 * every call ends within its time with an error that says what happened, and nothing crashes. */
#include "base/clock.h"
#include "base/status.h"
#include "metadata/metadata.h"
#include "support/bad_server.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_MS = 20000, SHORT_MS = 300 };

static struct bad_server bad;
static char log_lines[4096], request[BAD_REQUEST_MAX];

static void take_line(void *arg, enum kvs_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    size_t length = strlen(log_lines);
    snprintf(log_lines + length, sizeof(log_lines) - length, "%s\n", line);
}

static const struct metadata_scope scope = {.rank = 0, .ns = "kv", .bytes_per_page = 4096};
static const struct metadata_text keys[2] = {{"a", 1}, {"b", 1}};

static struct metadata_client *open_at(const char *url, uint64_t timeout_ms, bool verified_only,
                                       uint64_t cache_ms)
{
    const struct metadata_remote_options options = {.url = url,
                                                    .timeout_ms = timeout_ms,
                                                    .verified_only = verified_only,
                                                    .cache_ms = cache_ms,
                                                    .log = {take_line, NULL}};
    struct metadata_client *client;
    assert_int_equal(metadata_remote_open(&options, &client, NULL), KVS_OK);
    log_lines[0] = '\0';
    return client;
}

#define START(...)                                                                                 \
    bad_server_start(&bad, (const struct bad_step[]){__VA_ARGS__},                                 \
                     sizeof((const struct bad_step[]){__VA_ARGS__}) / sizeof(struct bad_step))

/* One get of two keys against the script. */
static enum kvs_status get(uint64_t timeout_ms, struct catalog_found found[2],
                           struct kvs_error *error)
{
    struct metadata_client *client = open_at(bad.url, timeout_ms, true, 0);
    enum kvs_status status = client->ops->get_page_indices(client, &scope, keys, 2, found, error);
    client->ops->close(client);
    return status;
}

#define HEAD "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"

/* What is answered to a get of two keys, and what becomes of it. */
static const struct {
    const char *answer;
    enum bad_end end;
    enum kvs_status status;
    const char *says; /* a part of the message */
} answers[] = {
    {"", BAD_CLOSES, KVS_ERR_REMOTE_BROKEN, "Empty reply"},
    {"", BAD_RESETS, KVS_ERR_REMOTE_BROKEN, ""},
    {HEAD "content-length: 100\r\n\r\n{\"indices\":[1", BAD_CLOSES, KVS_ERR_REMOTE_BROKEN, ""},
    {HEAD "content-length: 100\r\n\r\n{\"indices\":[1", BAD_RESETS, KVS_ERR_REMOTE_BROKEN, ""},
    {HEAD "transfer-encoding: chunked\r\n\r\n5\r\n{\"ind\r\n", BAD_CLOSES, KVS_ERR_REMOTE_BROKEN,
     ""},
    {HEAD, BAD_CLOSES, KVS_ERR_REMOTE_ANSWER, ""},
    {HEAD "content-length: 99999999\r\n\r\n", BAD_FLOODS, KVS_ERR_REMOTE_ANSWER, "longer than"},
    {HEAD "\r\n", BAD_FLOODS, KVS_ERR_REMOTE_ANSWER, "longer than"},
    {"HTTP/1.1 200 OK\r\nx: ", BAD_FLOODS, KVS_ERR_REMOTE_ANSWER, "headers are longer"},
    {"\x16\x03\x01\x02", BAD_CLOSES, KVS_ERR_REMOTE_ANSWER, "HTTP"},
    {"SSH-2.0-OpenSSH_9.2\r\n", BAD_CLOSES, KVS_ERR_REMOTE_ANSWER, "HTTP"},
    {"HTTP/1.1 301 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", BAD_KEEPS,
     KVS_ERR_REMOTE_ANSWER, "status 301"},
    {HEAD "content-length: 0\r\n\r\n", BAD_KEEPS, KVS_ERR_REMOTE_ANSWER, "get_page_indices"},
    {"HTTP/1.1 204 No Content\r\n\r\n", BAD_KEEPS, KVS_ERR_REMOTE_ANSWER, "get_page_indices"},
};

static void test_answers_that_are_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct kvs_error error;
        struct catalog_found found[2];
        const struct bad_step step = {answers[i].answer, answers[i].end};
        bad_server_start(&bad, &step, 1);
        enum kvs_status status = get(LONG_MS, found, &error);
        if (status != answers[i].status || strstr(error.message, answers[i].says) == NULL ||
            strstr(error.message, bad.url) == NULL)
            fail_msg("answer %zu: %s, not %s", i, status == KVS_OK ? "OK" : error.message,
                     answers[i].says);
        bad_server_stop(&bad);
    }
}

/* Whole answers of a status and a body. */
static const struct {
    int http_status;
    const char *body;
    enum kvs_status status;
    const char *says;
} bodies[] = {
    {200,
     "{\"indices\":[1,null],\"checksums\":[\"00000000000000ff\",null],"
     "\"generations\":[7,null]}",
     KVS_OK, ""},
    {200, "[]", KVS_ERR_REMOTE_ANSWER, "get_page_indices"},
    {200, "{}", KVS_ERR_REMOTE_ANSWER, "no member \"indices\""},
    {200, "{\"indices\":[1]}", KVS_ERR_REMOTE_ANSWER, "fewer elements"},
    {200, "{\"indices\":[1,2,3]}", KVS_ERR_REMOTE_ANSWER, "more elements"},
    {200, "{\"indices\":[1,\"2\"]}", KVS_ERR_REMOTE_ANSWER, ""},
    {200, "{\"indices\":[1,2.5]}", KVS_ERR_REMOTE_ANSWER, ""},
    {200, "<html>", KVS_ERR_REMOTE_ANSWER, ""},
    {400, "{\"detail\":\"Request member 'keys' must be a list\"}", KVS_ERR_REMOTE_ANSWER,
     "status 400 to get_page_indices: Request member 'keys'"},
    {401, "{\"detail\":\"no token\"}", KVS_ERR_REMOTE_AUTH, "no token"},
    {403, "", KVS_ERR_REMOTE_AUTH, "status 403"},
    {404, "{\"detail\":\"Not Found\"}", KVS_ERR_REMOTE_ANSWER, "Not Found"},
    {404,
     "{\"detail\":\"Rank 0 namespace 'kv' not initialized. Please call /0/initialize first.\"}",
     KVS_ERR_NOT_INITIALIZED_SERVER, "Rank 0 namespace 'kv' not initialized."},
    {409, "{\"detail\":\"something else\"}", KVS_ERR_REMOTE_ANSWER, "status 409"},
    {500, "Internal Server Error", KVS_ERR_REMOTE_ANSWER, "status 500"},
    {502, "<html><h1>Bad Gateway</h1></html>", KVS_ERR_REMOTE_ANSWER, "status 502"},
    {500, "{\"detail\":\"two\\nlines\\u0007\"}", KVS_ERR_REMOTE_ANSWER, "two?lines?"},
};

static void test_bodies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct kvs_error error = {0};
        struct catalog_found found[2];
        START({bad_answer(bodies[i].http_status, bodies[i].body), BAD_KEEPS});
        enum kvs_status status = get(LONG_MS, found, &error);
        if (status != bodies[i].status || strstr(error.message, bodies[i].says) == NULL)
            fail_msg("body %zu: %s, not %s", i, status == KVS_OK ? "OK" : error.message,
                     bodies[i].says);
        bad_server_stop(&bad);
    }
}

/* ---- Time ----------------------------------------------------------------------------------- */

static void test_deadlines(void **state)
{
    (void)state;
    static const struct bad_step steps[] = {
        {"", BAD_HANGS},
        {HEAD "content-length: 100\r\n\r\n{", BAD_HANGS},
        {HEAD "content-length: 65000\r\n\r\n{", BAD_DRIPS},
        {"HTTP/1.1 200 OK\r\nx: ", BAD_DRIPS},
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct kvs_error error;
        struct catalog_found found[2];
        bad_server_start(&bad, &steps[i], 1);
        assert_int_equal(get(SHORT_MS, found, &error), KVS_ERR_REMOTE_DEADLINE);
        assert_non_null(strstr(error.message, "did not answer within 0.3 s"));
        assert_int_equal(bad_server_requests(&bad, 1), 1); /* never repeated: its time is over */
        bad_server_stop(&bad);
    }
}

/* Engines ask for existence from their scheduler: 200 ms whatever client_timeout says. With the
 * long timeout this test would hang. */
static void test_exists_has_a_deadline_of_its_own(void **state)
{
    (void)state;
    struct kvs_error error;
    bool present[2];
    for (uint64_t cache_ms = 0; cache_ms <= 1000; cache_ms += 1000) {
        START({"", BAD_HANGS});
        struct metadata_client *client = open_at(bad.url, 3600000, true, cache_ms);
        assert_int_equal(client->ops->exists(client, &scope, keys, 2, present, &error),
                         KVS_ERR_REMOTE_DEADLINE);
        assert_non_null(strstr(error.message, "within 0.2 s"));
        client->ops->close(client);
        bad_server_stop(&bad);
    }
}

/* ---- Repeating ------------------------------------------------------------------------------ */

static const char native_get[] = "{\"indices\":[],\"checksums\":[],\"generations\":[]}";

/* A native server, met; then the script goes on. */
static struct metadata_client *open_initialized(void)
{
    struct metadata_client *client = open_at(bad.url, LONG_MS, true, 0);
    assert_int_equal(client->ops->initialize(client, &scope, 8, NULL), KVS_OK);
    return client;
}

static void test_reads_are_repeated_once(void **state)
{
    (void)state;
    struct catalog_found found[2];
    START({HEAD "content-length: 100\r\n\r\n{", BAD_CLOSES},
          {bad_answer(200, "{\"indices\":[1,null],\"checksums\":[\"00000000000000ff\",null],"
                           "\"generations\":[7,null]}"),
           BAD_KEEPS});
    assert_int_equal(get(LONG_MS, found, NULL), KVS_OK);
    assert_int_equal(found[0].page, 1);
    assert_true(found[0].has_checksum && found[0].checksum == 0xff && found[0].generation == 7);
    assert_int_equal(found[1].page, -1);
    assert_int_equal(bad_server_requests(&bad, 2), 2);
    bad_server_stop(&bad);

    START({HEAD "content-length: 100\r\n\r\n{", BAD_CLOSES});
    assert_int_equal(get(LONG_MS, found, NULL), KVS_ERR_REMOTE_BROKEN);
    assert_int_equal(bad_server_requests(&bad, 2), 2);
    bad_server_stop(&bad);
}

/* An answer that nobody asked for, on a connection that is kept: it is not one to the next
 * question, whose keys it would give the pages of others together with their checksums. */
static void test_what_was_not_asked_for_is_no_answer(void **state)
{
    (void)state;
    const char *said[3];
    struct catalog_found found[2];
    for (int i = 0; i < 3; i++) {
        char body[128];
        snprintf(body, sizeof(body),
                 "{\"indices\":[%d,null],\"checksums\":[\"00000000000000ff\",null],"
                 "\"generations\":[7,null]}",
                 i);
        said[i] = bad_answer(200, body);
    }
    START({said[0], BAD_KEEPS}, {said[2], BAD_KEEPS});
    struct metadata_client *client = open_at(bad.url, LONG_MS, true, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(client->ops->get_page_indices(client, &scope, keys, 2, found, NULL),
                         KVS_OK);
        assert_int_equal(found[0].page, i == 0 ? 0 : 2);
        if (i == 0)
            bad_server_say(&bad, said[1]);
    }
    assert_int_equal(bad_server_requests(&bad, 2), 2);
    client->ops->close(client);
    bad_server_stop(&bad);
}

static void owner_of(const char *text, char owner[32])
{
    const char *member = strstr(text, "\"owner\":");
    assert_non_null(member);
    snprintf(owner, 32, "%.*s", (int)strspn(member + 8, "0123456789"), member + 8);
    assert_string_not_equal(owner, "0");
}

/* The answer of a reserve is lost: it is asked again under the same owner, who is given the same
 * pages. The next call is another owner's. */
static void test_reserve_is_repeated_under_its_owner(void **state)
{
    (void)state;
    char owners[2][32];
    struct catalog_reserved reserved[2];
    const char *reserve_answer =
        bad_answer(200, "{\"indices\":[[false,3],[false,-1]],\"generations\":[9,null]}");
    START({"HTTP/1.1 204 No Content\r\n\r\n", BAD_KEEPS}, {bad_answer(200, native_get), BAD_KEEPS},
          {HEAD "content-length: 90\r\n\r\n{", BAD_CLOSES}, {reserve_answer, BAD_KEEPS});
    struct metadata_client *client = open_initialized();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            client->ops->reserve_and_allocate_page_indices(client, &scope, keys, 2, reserved, NULL),
            KVS_OK);
        assert_false(reserved[0].present);
        assert_int_equal(reserved[0].page, 3);
        assert_int_equal(reserved[0].generation, 9);
        assert_int_equal(reserved[1].page, -1);
        bad_server_last_request(&bad, request);
        owner_of(request, owners[i]);
    }
    assert_int_equal(bad_server_requests(&bad, 5), 5);
    assert_string_not_equal(owners[0], owners[1]);
    client->ops->close(client);
    bad_server_stop(&bad);
}

/* ---- A server of the original protocol ------------------------------------------------------ */

/* Without owners a repetition would reserve further pages; without generations a late confirm could
 * be another's page. */
static void test_the_original_is_not_asked_twice(void **state)
{
    (void)state;
    struct kvs_error error;
    struct catalog_reserved reserved[2];
    enum catalog_rejection reasons[1];
    START({"HTTP/1.1 204 No Content\r\n\r\n", BAD_KEEPS},
          {bad_answer(200, "{\"indices\":[]}"), BAD_KEEPS},
          {bad_answer(200, "{\"indices\":[[false,3],[true,-7]]}"), BAD_KEEPS},
          {HEAD "content-length: 100\r\n\r\n{", BAD_CLOSES});
    struct metadata_client *client = open_initialized();
    assert_non_null(strstr(log_lines, "keeps no checksums"));
    assert_non_null(strstr(log_lines, "if_known"));
    log_lines[0] = '\0';
    assert_int_equal(
        client->ops->reserve_and_allocate_page_indices(client, &scope, keys, 2, reserved, &error),
        KVS_OK);
    assert_int_equal(reserved[0].page, 3);
    assert_int_equal(reserved[0].generation, 0);
    assert_int_equal(reserved[1].page, -1);
    assert_string_equal(log_lines, ""); /* said once */

    const struct metadata_confirm confirm = {keys[0], 3, 0, 0xabcd};
    const struct metadata_release release = {keys[1], 5, 0};
    assert_int_equal(
        client->ops->confirm_write(client, &scope, &confirm, 1, &release, 1, reasons, &error),
        KVS_ERR_REMOTE_BROKEN);
    /* In the original's form: two members, and a page alone. */
    bad_server_last_request(&bad, request);
    assert_non_null(strstr(request, "\"written_keys_to_confirm\":[[\"a\",3]]"));
    assert_non_null(strstr(request, "\"pages_to_release\":[5]"));
    assert_int_equal(
        client->ops->reserve_and_allocate_page_indices(client, &scope, keys, 2, reserved, &error),
        KVS_ERR_REMOTE_BROKEN);
    assert_int_equal(bad_server_requests(&bad, 5), 5);
    assert_int_equal(client->ops->report_mismatch(client, &scope, &release, 1, &error), KVS_OK);
    assert_int_equal(bad_server_requests(&bad, 5), 5); /* it has no such operation */
    client->ops->close(client);
    bad_server_stop(&bad);
}

static void test_confirms_that_were_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        bool good;
        enum catalog_rejection reasons[2];
    } cases[] = {
        {"{\"rejected\":[]}", true, {CATALOG_ACCEPTED, CATALOG_ACCEPTED}},
        {"{\"rejected\":[{\"key\":\"b\",\"page_index\":4,\"reason\":\"another generation\"}]}",
         true,
         {CATALOG_ACCEPTED, CATALOG_OTHER_GENERATION}},
        {"{\"rejected\":[{\"key\":\"a\",\"page_index\":3,\"reason\":\"news\"},"
         "{\"key\":null,\"page_index\":5,\"reason\":\"no such page\"}]}",
         true,
         {CATALOG_NOT_RESERVED, CATALOG_ACCEPTED}},
        {"{\"rejected\":[{\"key\":\"a\",\"page_index\":4,\"reason\":\"no such page\"}]}",
         false,
         {0}},
        {"{\"rejected\":[{\"key\":\"a\"}]}", false, {0}},
        {"{\"rejected\":[7]}", false, {0}},
        {"{}", false, {0}},
    };
    const struct metadata_confirm confirms[] = {{keys[0], 3, 11, 1}, {keys[1], 4, 12, 2}};
    const struct metadata_release release = {keys[0], 5, 13};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kvs_error error;
        enum catalog_rejection reasons[2];
        START({bad_answer(200, cases[i].body), BAD_KEEPS});
        struct metadata_client *client = open_at(bad.url, LONG_MS, true, 0);
        enum kvs_status status =
            client->ops->confirm_write(client, &scope, confirms, 2, &release, 1, reasons, &error);
        if (status != (cases[i].good ? KVS_OK : KVS_ERR_REMOTE_ANSWER))
            fail_msg("case %zu: status %d", i, status);
        if (cases[i].good)
            assert_memory_equal(reasons, cases[i].reasons, sizeof(reasons));
        client->ops->close(client);
        bad_server_stop(&bad);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_that_are_none),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_exists_has_a_deadline_of_its_own),
        cmocka_unit_test(test_reads_are_repeated_once),
        cmocka_unit_test(test_what_was_not_asked_for_is_no_answer),
        cmocka_unit_test(test_reserve_is_repeated_under_its_owner),
        cmocka_unit_test(test_the_original_is_not_asked_twice),
        cmocka_unit_test(test_confirms_that_were_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
