/* Tokens and origins. */
#include "server/auth.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct http_text text(const char *t)
{
    return (struct http_text){t, t == NULL ? 0 : strlen(t)};
}

static struct auth with_token(const char *token)
{
    struct auth auth = {.length = strlen(token)};
    snprintf(auth.token, sizeof(auth.token), "%s", token);
    return auth;
}

static void tokens_are_compared_whole(void **state)
{
    (void)state;
    static const struct {
        const char *authorization;
        bool allowed;
    } cases[] = {
        {NULL, false},
        {"", false},
        {"Bearer", false},
        {"Bearer ", false},
        {"Bearer s3cre", false},
        {"Bearer s3crets", false},
        {"Bearer s3cret", true},
        {"bearer   s3cret", true},
        {"s3cret", false},
        {"Digest s3cret", false},
        {"Basic YW55OnMzY3JldA==", true},  /* any:s3cret */
        {"Basic YW55OnMzY3JldA", true},    /* without padding */
        {"Basic OnMzY3JldA==", true},      /* :s3cret */
        {"Basic YTpiOnMzY3JldA==", false}, /* a:b:s3cret */
        {"Basic czNjcmV0", false},         /* s3cret, no colon */
        {"Basic czNjcmV0Og==", false},     /* s3cret: */
        {"Basic !!!!", false},
        {"Basic ", false},
    };
    struct auth auth = with_token("s3cret");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (auth_allows(&auth, text(cases[i].authorization)) != cases[i].allowed)
            fail_msg("%s", cases[i].authorization == NULL ? "(none)" : cases[i].authorization);
    struct auth none = {0};
    assert_true(auth_allows(&none, text(NULL)));
    assert_true(auth_allows(&none, text("Bearer whatever")));
    char longest[3000] = "Basic ";
    memset(longest + 6, 'A', sizeof(longest) - 7);
    assert_false(auth_allows(&auth, text(longest)));
}

static void origins_are_own_or_foreign(void **state)
{
    (void)state;
    static const struct {
        const char *origin, *host;
        bool own, own_with_token;
    } cases[] = {
        {NULL, NULL, true, true},
        {"http://127.0.0.1:18000", "127.0.0.1:18000", true, true},
        {"http://LOCALHOST:18000", "localhost:18000", true, true},
        {"http://[::1]:18000", "[::1]:18000", true, true},
        {"https://10.0.0.1", "10.0.0.1", true, true},
        {"http://kv.internal:18000", "kv.internal:18000", false, true}, /* a name may be rebound */
        {"http://example.org", "127.0.0.1:18000", false, false},
        {"http://127.0.0.1:18001", "127.0.0.1:18000", false, false},
        {"http://127.0.0.1:1800", "127.0.0.1:18000", false, false},
        {"null", "127.0.0.1:18000", false, false},
        {"", "127.0.0.1:18000", false, false},
        {"http://", "", false, false},
        {"http://127.0.0.1:18000", NULL, false, false},
        {"ftp://127.0.0.1:18000", "127.0.0.1:18000", false, false},
        {"http://127.0.0.1.example.org", "127.0.0.1.example.org", false, true},
    };
    struct auth none = {0}, some = with_token("t");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http_text origin = text(cases[i].origin), host = text(cases[i].host);
        if (auth_origin_is_own(&none, origin, host) != cases[i].own ||
            auth_origin_is_own(&some, origin, host) != cases[i].own_with_token)
            fail_msg("%s at %s", cases[i].origin, cases[i].host);
    }
}

static void token_files_hold_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *content, *token; /* NULL: refused */
    } cases[] = {
        {"s3cret\n", "s3cret"}, {"s3cret", "s3cret"}, {"s3cret\r\n\n", "s3cret"},
        {"a+/=~!\n", "a+/=~!"}, {"", NULL},           {"\n", NULL},
        {"two words\n", NULL},  {"a\nb\n", NULL},     {"\xc3\xa9\n", NULL},
    };
    char path[] = "/tmp/kvshelf-token-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t length = strlen(cases[i].content);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, cases[i].content, length, 0), length);
        struct auth auth = {0};
        struct kvs_error error = {0};
        enum kvs_status status = auth_load(path, &auth, &error);
        if (cases[i].token == NULL) {
            assert_int_equal(status, KVS_ERR_TOKEN_FILE);
            assert_non_null(strstr(error.message, path));
            assert_int_equal(auth.length, 0);
        } else {
            assert_int_equal(status, KVS_OK);
            assert_string_equal(auth.token, cases[i].token);
            assert_int_equal(auth.length, strlen(cases[i].token));
        }
    }
    close(fd);
    unlink(path);
    struct auth auth = {0};
    assert_int_equal(auth_load(path, &auth, NULL), KVS_ERR_TOKEN_FILE_MISSING);

    struct kvs_error error = {0};
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody will ever write to it */
    assert_int_equal(auth_load(path, &auth, &error), KVS_ERR_TOKEN_FILE);
    assert_non_null(strstr(error.message, "it is not a regular file"));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_compared_whole),
        cmocka_unit_test(origins_are_own_or_foreign),
        cmocka_unit_test(token_files_hold_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
