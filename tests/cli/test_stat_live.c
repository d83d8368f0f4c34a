/* kvshelf stat of a directory of live arrays (a stand-in for /dev/shm): whose they are, and that
 * looking changes nothing. */
#include "metadata/registry.h"
#include "support/kept.h"
#include "support/program.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES = KEPT_PATH_BYTES + 64 };

static struct kept_place place;

static int set_up(void **state)
{
    (void)state;
    kept_make(&place);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kept_remove(&place);
    return 0;
}

static const char *in_place(const char *name)
{
    static char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s", place.root, name);
    return path;
}

static struct registry *open_registry(const char *name)
{
    const struct registry_options options = {
        .dir = in_place(name), .reserve_ttl_ms = 60000, .os = &place.os};
    struct registry *registry;
    struct kvs_error error;
    if (registry_open(&options, &registry, &error) != KVS_OK ||
        registry_initialize(registry, 0, "kv", 100, 4096, NULL, &error) != KVS_OK)
        return NULL;
    return registry;
}

/* A process that had the directory, and ended without a word. */
static void leave_killed(const char *name)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(open_registry(name) != NULL ? 0 : 1);
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, 0);
}

static void write_text(const char *path, const char *text)
{
    kept_write_file(path, text, strlen(text));
}

/* The line of the catalog of this directory begins with this state. */
static void expect_state(struct buffer *out, const char *name, const char *expected)
{
    char image[PATH_BYTES];
    snprintf(image, sizeof(image), " of %s/%s/0.kv.kvc", place.root, name);
    const char *text = buffer_text(out), *at = strstr(text, image);
    if (at == NULL)
        fail_msg("%s is not in:\n%s", image, text);
    while (at > text && at[-1] != '\n')
        at--;
    if (strncmp(at, expected, strlen(expected)) != 0)
        fail_msg("%s is not %s:\n%s", name, expected, text);
}

static void tells_whose_live_arrays_lie_there(void **state)
{
    (void)state;
    char path[PATH_BYTES + 64], command[PATH_BYTES + 16], process[64];
    leave_killed("killed");
    leave_killed("damaged");
    leave_killed("image-gone");
    leave_killed("all-gone");
    struct registry *used = open_registry("used"); /* its thread must not be there at a fork */
    assert_non_null(used);
    write_text(in_place("damaged/0.kv.kvc"), "not a catalog");
    assert_int_equal(unlink(in_place("image-gone/0.kv.kvc")), 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", in_place("all-gone"));
    assert_int_equal(system(command), 0);
    /* These are none: other names, other content. */
    static const char *const others[] = {
        "kvshelf-0-$(id)", "kvshelf-0-00112233445566778899aabbccddeeff;id",
        "kvshelf-0-00112233445566778899aabbccddeeff", "pulse-shm-1"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", place.shm, others[i]);
        write_text(path, "kvshelfL");
    }
    size_t files = kept_shm_files(&place);

    struct program_result text = PROGRAM("stat", place.shm);
    assert_int_equal(text.exit_code, 0);
    expect_state(&text.out, "used", "in_use ");
    expect_state(&text.out, "killed", "left ");
    expect_state(&text.out, "damaged", "unknown ");
    expect_state(&text.out, "image-gone", "stray ");
    expect_state(&text.out, "all-gone", "stray ");
    snprintf(process, sizeof(process), "0.kv.kvc, process %ld\n", (long)getpid());
    assert_non_null(strstr(buffer_text(&text.out), process));
    assert_non_null(strstr(buffer_text(&text.out), "5 live arrays, "));
    assert_non_null(strstr(buffer_text(&text.out), "stray: 2 with "));
    program_done(&text);

    struct program_result json = PROGRAM("stat", place.shm, "--json");
    assert_int_equal(json.exit_code, 0);
    snprintf(path, sizeof(path), "\"image\":\"%s/all-gone/0.kv.kvc\",\"in_use_by\":null}",
             place.root);
    assert_non_null(strstr(buffer_text(&json.out), path));
    assert_non_null(strstr(buffer_text(&json.out), "\"state\":\"stray\",\"bytes\":"));
    program_done(&json);
    assert_int_equal(kept_shm_files(&place), files);
    registry_close(used);
}

static void the_one_of_this_machine_may_be_empty(void **state)
{
    (void)state;
    struct program_result result = PROGRAM("stat", "/dev/shm/", "--json");
    assert_int_equal(result.exit_code, 0);
    assert_non_null(strstr(buffer_text(&result.out), "{\"live_arrays\":["));
    program_done(&result);
    result = PROGRAM("stat", place.root); /* another directory, of neither */
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(buffer_text(&result.err), "no file named *.kvc"));
    program_done(&result);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(tells_whose_live_arrays_lie_there),
        TEST(the_one_of_this_machine_may_be_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
