/* What is said of a token that is taken all the same; what is taken is in server/test_auth.c. */
#include "base/token.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct said {
    unsigned lines;
    char text[1024];
};

static void take_line(void *arg, enum kvs_log_level level, const char *line)
{
    struct said *said = arg;
    assert_int_equal(level, KVS_LOG_WARNING);
    said->lines++;
    snprintf(said->text + strlen(said->text), sizeof(said->text) - strlen(said->text), "%s\n",
             line);
}

static void test_weaknesses(void **state)
{
    (void)state;
    static const struct {
        const char *token;
        mode_t mode;
        unsigned lines;
        const char *words[2];
    } cases[] = {
        {"0123456789abcdef", 0600, 0, {"", ""}},
        {"0123456789abcdef", 0400, 0, {"", ""}},
        {"0123456789abcde", 0600, 1, {"has 15 characters", "use 16 or more"}},
        {"0", 0600, 1, {"has 1 character and", ""}},
        {"0123456789abcdef", 0644, 1, {"mode 0644", "chmod 600"}},
        {"12345", 0640, 2, {"has 5 characters", "mode 0640"}},
    };
    char path[] = "token_test_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char token[TOKEN_MAX + 1];
        size_t length = strlen(cases[i].token);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, cases[i].token, length, 0), length);
        assert_int_equal(fchmod(fd, cases[i].mode), 0);
        struct said said = {0};
        const struct logger log = {take_line, &said};
        assert_int_equal(token_read(path, token, &length, NULL), KVS_OK);
        token_warn(path, length, &log);
        assert_int_equal(said.lines, cases[i].lines);
        assert_non_null(strstr(said.text, cases[i].words[0]));
        assert_non_null(strstr(said.text, cases[i].words[1]));
        assert_true(said.lines == 0 || strstr(said.text, path) != NULL);
        assert_null(strstr(said.text, "12345")); /* no part of a token is shown */
    }
    close(fd);
    unlink(path);
}

static void test_a_missing_file_is_an_error_of_its_own(void **state)
{
    (void)state;
    char token[TOKEN_MAX + 1];
    size_t length;
    struct kvs_error error;
    static const char *const paths[] = {"there-is-no-such-token", "/dev/null/token"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        assert_int_equal(token_read(paths[i], token, &length, &error), KVS_ERR_TOKEN_FILE_MISSING);
        assert_non_null(strstr(error.message, paths[i]));
    }
    assert_int_equal(token_read("/dev/null", token, &length, &error), KVS_ERR_TOKEN_FILE);
    assert_non_null(strstr(error.message, "not a regular file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weaknesses),
        cmocka_unit_test(test_a_missing_file_is_an_error_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
