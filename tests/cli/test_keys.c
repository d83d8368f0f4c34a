/* kvshelf keys, namespaces and stat of a running server, and of the directory that it leaves. */
#include "support/program.h"
#include "support/serving.h"
#include "support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        expect(PROGRAM("keys", place, "--limit", "1", "--json"), 0,
               "{\"rank\":3,\"namespace\":\"swa\",\"key\":\"" HEX
               "01_swa\",\"page_index\":0,\"generation\":");
        expect(PROGRAM("namespaces", "list", place), 0, "4 KiB");
        expect(PROGRAM("namespaces", "list", place, "--json"), 0,
               "\"pages\":{\"free\":1,\"reserved\":1,\"committed\":2,\"retired\":0}");
        if (!stopped) {
            expect(PROGRAM("stat", url), 0, "swa");
            expect(PROGRAM("stat", url, "--json"), 0, "\"uptime_ms\":");
            expect(PROGRAM("namespaces", "drop", dir, "0", "kv"), 1, "in use");
            kill(serving.pid, SIGTERM);
            assert_int_equal(serving_wait_end(&serving), 0);
        }
    }
    expect(PROGRAM("namespaces", "drop", dir, "0", "kv"), 0, "Dropped rank 0 namespace 'kv'");
    expect(PROGRAM("namespaces", "drop", dir, "0", "kv"), 1, "not initialized");
    serving_done(&serving);

    serving = SERVING_START("--data-dir", dir);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", serving.port);
    expect(PROGRAM("namespaces", "drop", url, "3", "swa"), 0, "Dropped");
    expect(PROGRAM("namespaces", "drop", url, "3", "swa"), 1, "refuses: HTTP 404: Rank 3");
    /* What is left is a directory of none, not a wrong one. */
    expect(PROGRAM("stat", url), 0, "No namespaces.\n");
    kill(serving.pid, SIGTERM);
    assert_int_equal(serving_wait_end(&serving), 0);
    serving_done(&serving);
    expect(PROGRAM("namespaces", "list", dir), 0, "No namespaces.\n");
    expect(PROGRAM("namespaces", "list", dir, "--json"), 0, "{\"namespaces\":[]}");
    expect(PROGRAM("stat", dir), 0, "0 catalogs");
    expect(PROGRAM("namespaces", "drop", dir, "0", "kv"), 1, "not initialized");
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
        cmocka_unit_test(a_server_and_its_directory_list_the_same),
        cmocka_unit_test(what_cannot_be_asked_is_said),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
