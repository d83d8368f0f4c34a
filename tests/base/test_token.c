/* What is said of a token that is taken all the same; what is taken is in server/test_auth.c. */
#include "base/token.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
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

/* As systemd hands over the credentials of a service: root's, and one user named in a list. */
static void test_a_list_that_names_a_reader_is_no_weakness(void **state)
{
    (void)state;
    enum { VERSION = 2, USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, MASK = 16, OTHER = 32, READ = 4 };
    struct {
        uint32_t version;
        struct {
            uint16_t tag, permissions;
            uint32_t id;
        } entries[5];
    } list = {VERSION,
              {{USER_OBJ, READ, UINT32_MAX},
               {USER, READ, 12345},
               {GROUP_OBJ, 0, UINT32_MAX},
               {MASK, READ, UINT32_MAX},
               {OTHER, 0, UINT32_MAX}}};
    char path[] = "token_test_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (unsigned open_to_all = 0; open_to_all < 2; open_to_all++) {
        list.entries[4].permissions = open_to_all ? READ : 0;
        if (fsetxattr(fd, "system.posix_acl_access", &list, sizeof(list), 0) != 0) {
            print_message("skipped: this file system has no access control lists\n");
            close(fd);
            unlink(path);
            skip();
        }
        struct stat about;
        struct said said = {0};
        const struct logger log = {take_line, &said};
        assert_int_equal(fstat(fd, &about), 0);
        assert_int_equal(about.st_mode & 0777, open_to_all ? 0444 : 0440);
        token_warn(path, TOKEN_FEW, &log);
        assert_int_equal(said.lines, open_to_all);
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
        cmocka_unit_test(test_a_list_that_names_a_reader_is_no_weakness),
        cmocka_unit_test(test_a_missing_file_is_an_error_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
