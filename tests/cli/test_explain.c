/* kvshelf explain: its list, one entry, its records, the page in docs/. */
#include "base/json.h"
#include "base/status.h"
#include "cli/commands.h"
#include "support/program.h"
#include "support/unit.h"

#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool holds(const struct buffer *text, const char *part)
{
    return text->length > 0 && memmem(text->data, text->length, part, strlen(part)) != NULL;
}

static void test_list(void **state)
{
    (void)state;
    struct program_result result = PROGRAM("explain");
    size_t n;
    const struct error_info *errors = error_catalogue(&n);
    assert_int_equal(result.exit_code, 0);
    for (size_t i = 0; i < n; i++) {
        char code[ERROR_CODE_MAX];
        assert_true(holds(&result.out, error_code(&errors[i], code)));
        assert_true(holds(&result.out, errors[i].message));
    }
    assert_int_equal(result.err.length, 0);
    program_done(&result);
}

static void test_one(void **state)
{
    (void)state;
    static const char *const ASKED[] = {
        "KVS-301",
        "kvs-301",
        "301",
        "KVS_ERR_NOT_INITIALIZED",
        "not-initialized",
        "RuntimeError: Namespace 'mamba' for rank 7 not initialized",
        "2025-01-01 12:00:00 | Namespace '' for rank 0 not initialized | TP0",
        "Namespace 'kv' for rank",
    };
    for (size_t i = 0; i < sizeof(ASKED) / sizeof(ASKED[0]) - 2; i++) {
        struct program_result result = PROGRAM("explain", ASKED[i]);
        if (result.exit_code != 0 || !holds(&result.out, "KVS-301  KVS_ERR_NOT_INITIALIZED\n"))
            fail_msg("%s: exit code %d", ASKED[i], result.exit_code);
        assert_true(holds(&result.out, "What to do"));
        program_done(&result);
    }
    /* Words that were not quoted count as one text. */
    struct program_result result =
        PROGRAM("explain", "Namespace", "'kv'", "for", "rank", "0", "not", "initialized");
    assert_int_equal(result.exit_code, 0);
    assert_true(holds(&result.out, "KVS-301"));
    program_done(&result);
}

/* A part of several messages lists them; of none or with --json, where one record is wanted, it
 * fails. */
static void test_several(void **state)
{
    (void)state;
    struct program_result result = PROGRAM("explain", "not initialized");
    assert_int_equal(result.exit_code, 0);
    assert_true(holds(&result.out, "KVS-301"));
    assert_true(holds(&result.out, "KVS-302"));
    assert_false(holds(&result.out, "KVS-201"));
    program_done(&result);
    result = PROGRAM("explain", "not initialized", "--json");
    assert_int_equal(result.exit_code, 1);
    program_done(&result);
    static const char *const empty[] = {"", "  \t"};
    for (size_t i = 0; i < 2; i++) {
        result = PROGRAM("explain", empty[i]);
        assert_int_equal(result.exit_code, 2);
        assert_true(holds(&result.err, "the text is empty; give a code such as KVS-201"));
        program_done(&result);
    }
}

static void test_none(void **state)
{
    (void)state;
    struct program_result result = PROGRAM("explain", "CUDA out of memory");
    assert_int_equal(result.exit_code, 1);
    assert_int_equal(result.out.length, 0);
    assert_string_equal(result.err.data,
                        "kvshelf: No error in the catalogue matches 'CUDA out of memory'\n"
                        "  see: kvshelf explain KVS-906\n");
    program_done(&result);
    result = PROGRAM("explain", "--json", "CUDA out of memory");
    assert_int_equal(result.exit_code, 1);
    assert_true(holds(&result.out, "{\"error\":{\"code\":\"KVS-906\","));
    program_done(&result);
}

/* Of a refusal SGLang's class logs the HTTP status alone. */
static void test_an_http_status(void **state)
{
    (void)state;
    static const struct {
        const char *asked, *says[3], *silent;
    } cases[] = {
        {"404", {"HTTP status 404", "  KVS-302  ", "\nKVS-404  KVS_ERR_NO_SPACE\n"}, "KVS-907"},
        {"401", {"  KVS-506  ", "  KVS-703  ", "\nKVS-401  KVS_ERR_FILE_OPEN\n"}, "KVS-302"},
        {"409", {"HTTP status 409", "  KVS-303  ", "  KVS-304  "}, "another matter"},
        {"500", {"  KVS-404  No space left", "  KVS-312  ", "  KVS-101  "}, "KVS-601"},
        {"503", {"  KVS-515  ", "KVS-503 is another matter", "\nKVS-503  "}, "KVS-302"},
        {"301", {"KVS-301  KVS_ERR_NOT_INITIALIZED", "What to do", "HTTP 404"}, "HTTP status"},
        {"404 Client Error", {"HTTP status 404", "KVS-302", "KVS-508"}, "KVS-404"},
        {"409 Client Error: Conflict", {"HTTP status 409", "KVS-303", "KVS-304"}, "KVS-302"},
        {"401 Client Error: Unauthorized for url", {"KVS-506", "KVS-703", "HTTP"}, "KVS-401"},
        {"400 Client Error: Bad Request for url: http://h/0/exists",
         {"HTTP status 400", "KVS-501", "KVS-502"},
         "KVS-302"},
        {"HTTP 404", {"HTTP status 404", "KVS-302", "KVS-508"}, "KVS-404"},
        {"HTTP/1.1 404 Not Found", {"HTTP status 404", "KVS-302", "KVS-508"}, "KVS-404"},
        {"404 Client Error: Not Found", {"HTTP status 404", "KVS-302", "KVS-508"}, "KVS-404"},
        {"Not Found", {"KVS-508  KVS_ERR_NOT_FOUND", "What to do", "HTTP 404"}, "HTTP status"},
        {"404 Not Found", {"HTTP status 404", "KVS-302", "KVS-508"}, "KVS-404"},
        {"KVS-404", {"KVS-404  KVS_ERR_NO_SPACE", "What to do", "HTTP 500"}, "HTTP status"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct program_result result = PROGRAM("explain", cases[i].asked);
        bool said = result.exit_code == 0 && !holds(&result.out, cases[i].silent);
        for (size_t j = 0; j < 3; j++)
            said = said && holds(&result.out, cases[i].says[j]);
        if (!said)
            fail_msg("%s: exit code %d\n%s", cases[i].asked, result.exit_code,
                     buffer_text(&result.out));
        program_done(&result);
    }
    struct program_result result = PROGRAM("explain", "404", "--json");
    assert_int_equal(result.exit_code, 0);
    assert_non_null(strstr(buffer_text(&result.out), "[{\"id\":\"no-space\""));
    assert_true(holds(&result.out, "\"errorCode\":\"KVS-302\""));
    program_done(&result);
    result = PROGRAM("explain", "418"); /* nothing has it */
    assert_int_equal(result.exit_code, 1);
    program_done(&result);
}

/* ---- Records ----------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    enum json_type type;
} members[] = {
    {"id", JSON_STRING},
    {"errorCode", JSON_STRING},
    {"errorMessage", JSON_STRING},
    {"messagePattern", JSON_STRING},
    {"errorType", JSON_STRING},
    {"errorClass", JSON_STRING},
    {"httpStatus", JSON_NUMBER},
    {"severity", JSON_STRING},
    {"documentation", JSON_STRING},
    {"triggerScenarios", JSON_STRING},
    {"commonSituations", JSON_STRING},
    {"solutions", JSON_ARRAY},
    {"exampleFix", JSON_STRING},
    {"preventionTips", JSON_ARRAY},
    {"tags", JSON_ARRAY},
};
enum { MEMBERS = sizeof(members) / sizeof(members[0]) };

static void check_pattern(struct json_text pattern, const char *message)
{
    char text[2048];
    regex_t regex;
    assert_true(pattern.length < sizeof(text));
    memcpy(text, pattern.text, pattern.length);
    text[pattern.length] = '\0';
    assert_int_equal(regcomp(&regex, text, REG_EXTENDED | REG_NOSUB), 0);
    assert_int_equal(regexec(&regex, message, 0, NULL, 0), 0);
    regfree(&regex);
}

/* One list of texts, none of them empty. */
static void check_list(struct json_reader *r)
{
    struct json_text text;
    size_t n = 0;
    for (json_array_begin(r); json_array_next(r); n++)
        assert_true(json_string(r, &text) && text.length > 0);
    assert_true(n > 0);
}

/* Exactly the members, in their order, each of its type. */
static void check_record(struct json_reader *r, const struct error_info *info)
{
    struct json_text name, text;
    char code[ERROR_CODE_MAX];
    size_t n = 0;
    for (json_object_begin(r); json_object_next(r, &name); n++) {
        assert_true(n < MEMBERS);
        assert_true(json_text_is(name, members[n].name));
        assert_int_equal(json_peek(r), members[n].type);
        if (members[n].type == JSON_ARRAY) {
            check_list(r);
        } else if (members[n].type == JSON_NUMBER) {
            int64_t status = 0;
            assert_true(json_int64(r, &status) && status == info->http_status);
        } else {
            assert_true(json_string(r, &text) && text.length > 0);
            if (json_text_is(name, "errorCode"))
                assert_true(json_text_is(text, error_code(info, code)));
            if (json_text_is(name, "errorMessage"))
                assert_true(json_text_is(text, info->message));
            if (json_text_is(name, "errorClass"))
                assert_true(json_text_is(text, info->error_class));
            if (json_text_is(name, "messagePattern"))
                check_pattern(text, info->message);
        }
    }
    assert_int_equal(n, MEMBERS);
}

static void test_records(void **state)
{
    (void)state;
    struct program_result result = PROGRAM("explain", "--json");
    struct buffer scratch = {0};
    struct json_reader r;
    size_t n, seen = 0;
    const struct error_info *errors = error_catalogue(&n);
    assert_int_equal(result.exit_code, 0);
    json_reader_init(&r, result.out.data, result.out.length, &scratch, JSON_DEPTH);
    for (json_array_begin(&r); json_array_next(&r); seen++) {
        assert_true(seen < n);
        check_record(&r, &errors[seen]);
    }
    assert_true(json_end(&r));
    assert_int_equal(seen, n);
    buffer_done(&scratch);
    program_done(&result);
}

static void test_one_record_is_an_array(void **state)
{
    (void)state;
    struct program_result result = PROGRAM("explain", "KVS-201", "--json");
    struct buffer scratch = {0};
    struct json_reader r;
    json_reader_init(&r, result.out.data, result.out.length, &scratch, JSON_DEPTH);
    assert_true(json_array_begin(&r));
    assert_true(json_array_next(&r));
    check_record(&r, error_find(KVS_ERR_CONFIG_LOAD));
    assert_false(json_array_next(&r));
    assert_true(json_end(&r));
    buffer_done(&scratch);
    program_done(&result);
}

/* ---- docs/errors.md ---------------------------------------------------------------------------
 */

/* This file is tests/cli/test_explain.c of the repository. */
static void repository_path(char path[4096], const char *rest, size_t length)
{
    const char *here = strstr(__FILE__, "tests/cli/test_explain.c");
    assert_non_null(here);
    snprintf(path, 4096, "%.*s%.*s", (int)(here - __FILE__), __FILE__, (int)length, rest);
}

static void test_the_page_is_not_stale(void **state)
{
    (void)state;
    static const char PAGE[] = "docs/errors.md";
    char path[4096];
    repository_path(path, PAGE, strlen(PAGE));
    struct buffer page = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(buffer_read_fd(&page, fd, SIZE_MAX), 0);
    close(fd);
    struct program_result result = PROGRAM("explain", "--markdown");
    assert_int_equal(result.exit_code, 0);
    if (strcmp(buffer_text(&page), buffer_text(&result.out)) != 0)
        fail_msg("docs/errors.md is stale: run kvshelf explain --markdown > docs/errors.md");
    buffer_done(&page);
    program_done(&result);
}

/* ---- What the texts send people to -------------------------------------------------------------
 */

static void check_reference(const char *name, size_t length, bool there, size_t *wrong)
{
    if (there)
        return;
    print_message("%.*s is named in the catalogue and is not there\n", (int)length, name);
    ++*wrong;
}

static size_t check_references(const char *catalogue)
{
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz", COMMAND[] = "kvshelf ";
    size_t wrong = 0;
    char path[4096];
    for (const char *at = catalogue; (at = strstr(at, "docs/")) != NULL; at++) {
        size_t length = 5 + strspn(at + 5, LETTERS);
        if (strncmp(at + length, ".md", 3) != 0)
            continue;
        repository_path(path, at, length + 3);
        check_reference(at, length + 3, access(path, R_OK) == 0, &wrong);
    }
    /* No sentence of the catalogue begins with the name of the program: such a line is a command.
     */
    for (const char *at = catalogue; (at = strstr(at, COMMAND)) != NULL; at++) {
        char name[64];
        const char *word = at + strlen(COMMAND);
        size_t length = strspn(word, LETTERS);
        if (length == 0 || length >= sizeof(name) || at == catalogue || at[-1] != '\n')
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)length, word);
        bool there = strcmp(name, "help") == 0 || cli_command_find(name) != NULL;
        check_reference(name, length, there, &wrong);
    }
    return wrong;
}

/* A remedy that names a command or a page of docs/ that does not exist is worse than none. */
static void test_commands_and_pages_exist(void **state)
{
    (void)state;
    struct program_result result = PROGRAM("explain", "--markdown");
    assert_int_equal(result.exit_code, 0);
    size_t wrong = check_references(buffer_text(&result.out));
    program_done(&result);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_an_http_status),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_one_record_is_an_array),
        cmocka_unit_test(test_the_page_is_not_stale),
        cmocka_unit_test(test_commands_and_pages_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
