/* kvshelf keys, namespaces and stat of a running server, and of the directory that it leaves. */
#include "base/json.h"
#include "support/bad_server.h"
#include "support/program.h"
#include "support/serving.h"
#include "support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEX "00000000000000000000000000000000000000000000000000000000000000"

static char dir[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/kvshelf-keys-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

/* Runs, and checks the exit code and a part of what is printed ("" where nothing may be). */
static void expect(struct program_result result, int code, const char *part)
{
    const char *printed = buffer_text(code == 0 ? &result.out : &result.err);
    if (result.exit_code != code || strstr(printed, part) == NULL)
        fail_msg("exit %d, not %d with %s: %s%s", result.exit_code, code, part,
                 buffer_text(&result.out), buffer_text(&result.err));
    if (part[0] == '\0')
        assert_string_equal(printed, "");
    program_done(&result);
}

static void fill(const struct serving *serving)
{
    assert_non_null(
        strstr(serving_post(serving, "/3/initialize",
                            "{\"num_pages\":4,\"namespace\":\"swa\",\"bytes_per_page\":4096}"),
               " 204 "));
    assert_non_null(strstr(serving_post(serving, "/0/initialize", "{\"num_pages\":2}"), " 204 "));
    assert_non_null(strstr(serving_post(serving, "/3/reserve_and_allocate_page_indices",
                                        "{\"namespace\":\"swa\",\"keys\":[[\"" HEX "01_swa\",\"\"],"
                                        "[\"odd\",\"\"],[\"" HEX "02\",\"\"]]}"),
                           "[[false,0],[false,1],[false,2]]"));
    assert_non_null(
        strstr(serving_post(serving, "/3/confirm_write",
                            "{\"namespace\":\"swa\",\"written_keys_to_confirm\":[[\"" HEX
                            "01_swa\",0],[\"odd\",1]]}"),
               " 204 "));
}

static void a_server_and_its_directory_list_the_same(void **state)
{
    (void)state;
    char url[64];
    struct serving serving = SERVING_START("--data-dir", dir);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/", serving.port);
    fill(&serving);
    /* While it runs, and from the images it leaves. */
    for (int stopped = 0; stopped < 2; stopped++) {
        const char *place = stopped ? dir : url;
        expect(PROGRAM("keys", place), 0, "3\tswa\t" HEX "01_swa\t0\t");
        expect(PROGRAM("keys", place), 0, "3\tswa\tsha256:");
        expect(PROGRAM("keys", place, "--rank", "0"), 0, "");
        expect(PROGRAM("keys", place, "--namespace", "kv"), 0, "");
        expect(PROGRAM("keys", place, "--rank", "99"), 1,
               stopped ? "There is no namespace of rank 99 in /tmp/"
                       : "There is no namespace of rank 99 in http://127.0.0.1");
        expect(PROGRAM("keys", place, "--namespace", "mamba"), 1, "no namespace 'mamba' in ");
        expect(PROGRAM("keys", place, "--namespace", "swa", "--rank", "0"), 1,
               "no namespace 'swa' of rank 0 in ");
        expect(PROGRAM("keys", place, "--limit", "1", "--json"), 0,
               "{\"rank\":3,\"namespace\":\"swa\",\"key\":\"" HEX
               "01_swa\",\"page_index\":0,\"generation\":");
        expect(PROGRAM("namespaces", "list", place), 0, "4 KiB");
        expect(PROGRAM("namespaces", "list", place, "--json"), 0,
               "\"pages\":{\"free\":1,\"reserved\":1,\"committed\":2,\"retired\":0}");
        if (!stopped) {
            expect(PROGRAM("stat", url), 0, "swa");
            expect(PROGRAM("stat", url), 0, ", keeps its catalogs (--data-dir)\n");
            expect(PROGRAM("stat", url, "--json"), 0, "\"uptime_ms\":");
            expect(PROGRAM("stat", url, "--json"), 0, "\"ready\":true,\"kept\":true,");
            expect(PROGRAM("namespaces", "drop", dir, "0", "kv"), 1, "in use");
            kill(serving.pid, SIGTERM);
            assert_int_equal(serving_wait_end(&serving), 0);
        }
    }
    expect(PROGRAM("namespaces", "drop", dir, "0", "kv"), 0, "Dropped rank 0 namespace 'kv'");
    expect(PROGRAM("namespaces", "drop", dir, "0", "kv"), 1,
           "There is no namespace 'kv' of rank 0 in /tmp/");
    serving_done(&serving);

    serving = SERVING_START("--data-dir", dir);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", serving.port);
    expect(PROGRAM("namespaces", "drop", url, "3", "swa", "--json"), 0,
           "{\"rank\":3,\"namespace\":\"swa\",\"result\":\"dropped\"}\n");
    expect(PROGRAM("namespaces", "drop", url, "3", "swa"), 1,
           "There is no namespace 'swa' of rank 3 in http://127.0.0.1");
    /* What is left is a directory of none, not a wrong one. */
    expect(PROGRAM("stat", url), 0, "No namespaces.\n");
    kill(serving.pid, SIGTERM);
    assert_int_equal(serving_wait_end(&serving), 0);
    serving_done(&serving);
    expect(PROGRAM("namespaces", "list", dir), 0, "No namespaces.\n");
    expect(PROGRAM("namespaces", "list", dir, "--json"), 0, "{\"namespaces\":[]}");
    expect(PROGRAM("stat", dir), 0, "0 catalogs");
    expect(PROGRAM("namespaces", "drop", dir, "0", "kv"), 1, "There is no namespace 'kv'");
}

/* An empty directory may be anybody's. */
static void a_drop_of_nothing_leaves_nothing(void **state)
{
    (void)state;
    expect(PROGRAM("namespaces", "drop", dir, "0", "kv"), 1,
           "There is no namespace 'kv' of rank 0 in /tmp/");
    assert_int_equal(rmdir(dir), 0); /* it is empty still */
    assert_int_equal(mkdir(dir, 0700), 0);
}

/* ---- A server that hangs ---------------------------------------------------------------------*/

static FILE *begin_to_ask(const char *command, const char *url)
{
    char line[160];
    snprintf(line, sizeof(line), "./kvshelf %s 2>&1", command);
    for (char *at; (at = strstr(line, "URL")) != NULL;) {
        char rest[96];
        snprintf(rest, sizeof(rest), "%s", at + 3);
        snprintf(at, sizeof(line) - (size_t)(at - line), "%s%s", url, rest);
    }
    FILE *said = popen(line, "r");
    assert_non_null(said);
    return said;
}

/* Each line is waited for, and the server ends only when it was said. */
static void who_waits_for_a_server_is_told(void **state)
{
    (void)state;
    static struct bad_server bad;
    static const char *const commands[] = {"stat URL", "keys URL", "namespaces list URL",
                                           "namespaces drop URL 0 kv"};
    enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };
    const struct bad_step steps[] = {{"", BAD_HANGS}};
    char expected[128], line[512];
    FILE *said[COMMANDS];
    bad_server_start(&bad, steps, 1);
    snprintf(expected, sizeof(expected), "kvshelf: waiting for metadata server %s, 30 s at most\n",
             bad.url);
    FILE *quiet = begin_to_ask("stat URL --json", bad.url);
    for (size_t i = 0; i < COMMANDS; i++)
        said[i] = begin_to_ask(commands[i], bad.url);
    for (size_t i = 0; i < COMMANDS; i++) {
        assert_non_null(fgets(line, sizeof(line), said[i]));
        assert_string_equal(line, expected);
    }
    bad_server_stop(&bad);
    for (size_t i = 0; i < COMMANDS; i++)
        assert_int_not_equal(pclose(said[i]), 0);
    while (fgets(line, sizeof(line), quiet) != NULL)
        assert_null(strstr(line, "waiting for"));
    assert_int_not_equal(pclose(quiet), 0);
}

/* So that nobody has to look for it in the log of the start. */
static void a_server_that_forgets_says_so(void **state)
{
    (void)state;
    char url[64];
    struct serving serving = SERVING_START();
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", serving.port);
    expect(PROGRAM("stat", url), 0, ", in memory only: a restart forgets every page");
    expect(PROGRAM("stat", url, "--json"), 0, "\"kept\":false,");
    expect(PROGRAM("keys", url), 0, ""); /* none was asked for */
    kill(serving.pid, SIGTERM);
    assert_int_equal(serving_wait_end(&serving), 0);
    serving_done(&serving);
}

/* Members of a namespace in JSON, and who knows them. */
enum { URL = 1, DIR = 2 };
static const struct {
    const char *name;
    unsigned known_by;
} members[] = {
    {"rank", URL | DIR},
    {"namespace", URL | DIR},
    {"num_pages", URL | DIR},
    {"bytes_per_page", URL | DIR},
    {"fingerprint", URL | DIR},
    {"pages", URL | DIR},
    {"kept", URL | DIR},
    {"committed_bytes", URL | DIR},
    {"memory_bytes", URL},
    {"image_age_ms", URL},
    {"totals", URL},
    {"file", DIR},
    {"damaged_slots", DIR},
    {"image_bytes", DIR},
    {"clean", DIR},
    {"image_written_ago_ms", DIR},
    {"run", DIR},
};
enum { MEMBERS = sizeof(members) / sizeof(members[0]) };

/* The members of the last element of `namespaces`; a name that is not in the table fails. */
static void read_last_namespace(const struct buffer *out, struct json_text ret_values[MEMBERS])
{
    struct json_reader json;
    struct json_text name, value;
    json_reader_init(&json, out->data, out->length, NULL, JSON_DEPTH);
    assert_true(json_object_begin(&json));
    while (json_object_next(&json, &name)) {
        if (!json_text_is(name, "namespaces")) {
            json_skip(&json);
            continue;
        }
        assert_true(json_array_begin(&json));
        while (json_array_next(&json)) {
            memset(ret_values, 0, MEMBERS * sizeof(*ret_values));
            assert_true(json_object_begin(&json));
            while (json_object_next(&json, &name) && json_raw(&json, &value)) {
                size_t i = 0;
                while (i < MEMBERS && !json_text_is(name, members[i].name))
                    i++;
                if (i == MEMBERS)
                    fail_msg("'%.*s' is not in the table", (int)name.length, name.text);
                ret_values[i] = value;
            }
        }
    }
    assert_true(json_end(&json));
}

static void the_json_of_a_server_and_its_directory_agree(void **state)
{
    (void)state;
    char url[64];
    struct json_text of_url[MEMBERS] = {0}, of_dir[MEMBERS] = {0};
    struct serving serving = SERVING_START("--data-dir", dir);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", serving.port);
    fill(&serving);
    struct program_result list_url = PROGRAM("namespaces", "list", url, "--json");
    struct program_result stat_url = PROGRAM("stat", url, "--json");
    kill(serving.pid, SIGTERM);
    assert_int_equal(serving_wait_end(&serving), 0);
    serving_done(&serving);
    struct program_result list_dir = PROGRAM("namespaces", "list", dir, "--json");
    struct program_result stat_dir = PROGRAM("stat", dir, "--json");

    assert_string_equal(buffer_text(&list_url.out), buffer_text(&list_dir.out));
    assert_non_null(strstr(buffer_text(&list_dir.out), "\"committed_bytes\":8192"));
    read_last_namespace(&stat_url.out, of_url);
    read_last_namespace(&stat_dir.out, of_dir);
    for (size_t i = 0; i < MEMBERS; i++) {
        if ((of_url[i].text != NULL) != ((members[i].known_by & URL) != 0) ||
            (of_dir[i].text != NULL) != ((members[i].known_by & DIR) != 0))
            fail_msg("%s is where it should not be, or missing", members[i].name);
        if (members[i].known_by == (URL | DIR) &&
            (of_url[i].length != of_dir[i].length ||
             memcmp(of_url[i].text, of_dir[i].text, of_url[i].length) != 0))
            fail_msg("%s differs", members[i].name);
    }
    program_done(&list_url);
    program_done(&stat_url);
    program_done(&list_dir);
    program_done(&stat_dir);
}

static void what_cannot_be_asked_is_said(void **state)
{
    (void)state;
    expect(PROGRAM("keys", "http://127.0.0.1:1"), 1, "cannot be reached");
    expect(PROGRAM("stat", "http://user:s3cret@127.0.0.1:1"), 1,
           "Metadata server http://127.0.0.1:1 cannot be reached");
    expect(PROGRAM("keys", "/nonexistent"), 1, "/nonexistent");
    expect(PROGRAM("namespaces", "drop", "http://127.0.0.1:1", "1"), 2, "RANK NAMESPACE");
    expect(PROGRAM("namespaces", "drop", "http://127.0.0.1:1", "-1", "kv"), 2, "-1");
    expect(PROGRAM("namespaces", "list", "http://127.0.0.1:1", "1"), 2, "list takes one");
    expect(PROGRAM("namespaces", "show", "http://127.0.0.1:1"), 2, "list or drop");
    expect(PROGRAM("keys", "http://127.0.0.1:1", "--token-file", "/nonexistent"), 1,
           "/nonexistent");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_forgets_says_so),
        cmocka_unit_test_setup_teardown(a_server_and_its_directory_list_the_same, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_json_of_a_server_and_its_directory_agree, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_drop_of_nothing_leaves_nothing, set_up, tear_down),
        cmocka_unit_test(who_waits_for_a_server_is_told),
        cmocka_unit_test(what_cannot_be_asked_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
