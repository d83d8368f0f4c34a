/* kvshelf replay as a user runs it: cold and warm, with and without bytes, interrupted, and with
 * every kind of bad input, which must leave nothing behind. Small: some megabytes at most. */
#include "base/json.h"
#include "support/program.h"
#include "support/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char place[] = "replay_program_XXXXXX";

static const char *in_place(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", place, name);
    return path;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Chains of ids with shared beginnings, as conversations make them. */
static void write_trace(const char *path, unsigned requests)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (unsigned r = 0; r < requests; r++) {
        unsigned chat = r * 7 % 11, blocks = 1 + r % 9;
        fprintf(file, "{\"input_length\": %u, \"hash_ids\": [0, 1", (blocks + 2) * 512);
        for (unsigned b = 0; b < blocks; b++)
            fprintf(file, ", %u", 2 + chat * 10 + b);
        fputs("]}\n", file);
    }
    assert_int_equal(fclose(file), 0);
}

/* The entries of a directory, without what the thread sanitizer puts there when a program starts;
 * -1: it is not there. */
static int entries_of(const char *path)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return -1;
    int count = 0;
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        count += entry->d_name[0] != '.' && strncmp(entry->d_name, "tsan.", 5) != 0;
    closedir(dir);
    return count;
}

/* A numeric member of the only object printed. */
static double number_of(struct program_result *result, const char *name)
{
    struct buffer scratch = {0};
    struct json_reader json;
    struct json_text member;
    double value = -1, found = -1;
    json_reader_init(&json, result->out.data, result->out.length, &scratch, JSON_DEPTH);
    if (json_object_begin(&json)) {
        while (json_object_next(&json, &member)) {
            if (json_peek(&json) == JSON_NUMBER && json_double(&json, &value)) {
                if (json_text_is(member, name))
                    found = value;
            } else {
                json_skip(&json);
            }
        }
    }
    json_end(&json);
    assert_false(json_failed(&json));
    buffer_done(&scratch);
    return found;
}

static int make_place(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(place));
    write_trace(in_place("trace.jsonl"), 60);
    assert_int_equal(mkdir(in_place("tmp"), 0700), 0);
    char tmp[4096];
    assert_non_null(getcwd(tmp, sizeof tmp - 128));
    snprintf(tmp + strlen(tmp), 128, "/%s", in_place("tmp"));
    assert_int_equal(setenv("TMPDIR", tmp, 1), 0);
    return 0;
}

static int remove_place(void **state)
{
    (void)state;
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", place);
    return system(command);
}

/* ---- Tests -----------------------------------------------------------------------------------*/

static void bytes_come_back_and_a_second_run_is_warm(void **state)
{
    (void)state;
    static const char *const extra[] = {"100", "3"}; /* --batch */
    for (size_t i = 0; i < 2; i++) {
        const char *dir = in_place(i == 0 ? "whole" : "split");
        double hits[2];
        for (size_t run = 0; run < 2; run++) {
            struct program_result result =
                PROGRAM("replay", in_place("trace.jsonl"), "--capacity-pages", "120",
                        "--page-bytes", "4KiB", "--batch", extra[i], "--dir", dir, "--json");
            assert_int_equal(result.exit_code, 0);
            assert_int_equal((int)number_of(&result, "requests"), 60);
            assert_int_equal((int)number_of(&result, "wrong_bytes"), 0);
            assert_int_equal((int)number_of(&result, "pages_not_stored"), 0);
            hits[run] = number_of(&result, "hit_ratio");
            assert_true(number_of(&result, "bytes_in") >= 4096 * number_of(&result, "pages_hit"));
            if (run == 0)
                assert_true(number_of(&result, "pages_at_start") == 0 &&
                            number_of(&result, "bytes_out") ==
                                4096 * number_of(&result, "pages_written"));
            else /* everything fits, so that everything is still there */
                assert_true(number_of(&result, "pages_at_start") > 0 &&
                            number_of(&result, "pages_written") == 0);
            program_done(&result);
        }
        assert_true(hits[0] > 0 && hits[0] < 1);
        assert_true(hits[1] == 1);
    }
}

static void the_index_alone_hits_as_the_store_does(void **state)
{
    (void)state;
    static const char *const evictions[] = {"prefix", "lru"};
    for (size_t i = 0; i < 2; i++) {
        struct program_result store =
            PROGRAM("replay", in_place("trace.jsonl"), "--capacity-pages", "40", "--page-bytes",
                    "1000", "--eviction", evictions[i], "--json");
        struct program_result index =
            PROGRAM("replay", in_place("trace.jsonl"), "--capacity-pages", "40", "--no-io",
                    "--eviction", evictions[i], "--json");
        assert_int_equal(store.exit_code, 0);
        assert_int_equal(index.exit_code, 0);
        assert_true(number_of(&store, "pages_hit") > 0);
        assert_true(number_of(&store, "pages_hit") == number_of(&index, "pages_hit"));
        assert_true(number_of(&store, "pages_written") == number_of(&index, "pages_written"));
        assert_int_equal((int)number_of(&index, "bytes_out"), 0);
        assert_int_equal((int)number_of(&store, "wrong_bytes"), 0);
        assert_int_equal(entries_of(in_place("tmp")), 0);
        program_done(&store);
        program_done(&index);
    }
}

static void people_get_units_and_a_picture(void **state)
{
    (void)state;
    struct program_result result = PROGRAM("replay", in_place("trace.jsonl"), "--capacity-pages",
                                           "40", "--page-bytes", "4096", "--limit", "20");
    assert_int_equal(result.exit_code, 0);
    static const char *const parts[] = {"hit_ratio",   "GB/s",        "ms p50", "ms p99",
                                        "wrong bytes", "pages asked", "█"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(buffer_text(&result.out), parts[i]) == NULL)
            fail_msg("'%s' is not in:\n%s", parts[i], buffer_text(&result.out));
    program_done(&result);
}

/* Bytes changed on disk are found by the store, not handed to the reader. */
static void changed_bytes_are_misses(void **state)
{
    (void)state;
    const char *dir = in_place("changed");
    struct program_result first = PROGRAM("replay", in_place("trace.jsonl"), "--capacity-pages",
                                          "120", "--page-bytes", "4096", "--dir", dir, "--json");
    assert_int_equal(first.exit_code, 0);
    program_done(&first);
    char path[160];
    snprintf(path, sizeof path, "%s/pages.0.bin", dir);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (off_t page = 0; page < 120; page++)
        assert_int_equal(pwrite(fd, "kvshelf", 7, page * 4096 + 100), 7);
    close(fd);
    struct program_result second =
        PROGRAM("replay", in_place("trace.jsonl"), "--capacity-pages", "120", "--page-bytes",
                "4096", "--dir", dir, "--limit", "1", "--json");
    assert_int_equal(second.exit_code, 0);
    assert_int_equal((int)number_of(&second, "pages_hit"), 0);
    assert_int_equal((int)number_of(&second, "wrong_bytes"), 0);
    program_done(&second);
}

static const struct {
    const char *arguments[12];
    int exit_code;
    const char *says; /* a part of the error, with --json */
} refused[] = {
    {{"no_such_trace"}, 1, "KVS_ERR_TRACE_OPEN"},
    {{"."}, 1, "KVS_ERR_TRACE_OPEN"},
    {{"@empty"}, 1, "KVS_ERR_TRACE_EMPTY"},
    {{"@cut"}, 1, "line 2"},
    {{"@too_many"}, 1, "line 3"},
    {{"@negative"}, 1, "KVS_ERR_TRACE_LINE"},
    {{"@binary"}, 1, "KVS_ERR_TRACE_LINE"},
    {{NULL}, 2, "KVS_ERR_USAGE_ARGUMENTS"},
    {{"@trace", "@trace"}, 2, "KVS_ERR_USAGE_ARGUMENTS"},
    {{"@trace", "--capacity-pages", "0"}, 2, "KVS_ERR_USAGE_VALUE"},
    {{"@trace", "--capacity-pages", "-1"}, 2, "KVS_ERR_USAGE"},
    {{"@trace", "--capacity-pages", "1e3"}, 2, "KVS_ERR_USAGE_VALUE"},
    {{"@trace", "--capacity-pages", "99999999999999999999"}, 2, "KVS_ERR_USAGE_VALUE"},
    {{"@trace", "--page-bytes", "0"}, 2, "KVS_ERR_USAGE_VALUE"},
    {{"@trace", "--page-bytes", "4.5KiB"}, 2, "KVS_ERR_USAGE_VALUE"},
    {{"@trace", "--page-bytes", "2TiB"}, 2, "KVS_ERR_USAGE_VALUE"},
    {{"@trace", "--eviction", "fifo"}, 2, "KVS_ERR_USAGE_VALUE"},
    {{"@trace", "--batch", "0"}, 2, "KVS_ERR_USAGE_VALUE"},
    {{"@trace", "--limit", "many"}, 2, "KVS_ERR_USAGE_VALUE"},
    {{"@trace", "--no-io", "--dir", "@new"}, 2, "KVS_ERR_USAGE_ARGUMENTS"},
    {{"@trace", "--nosuch"}, 2, "KVS_ERR_USAGE_OPTION"},
    {{"@trace", "--dir", "@new", "--capacity-pages", "1000000000", "--page-bytes", "1GiB"},
     1,
     "KVS_ERR_NO_SPACE"},
    {{"@trace", "--capacity-pages", "1000000000", "--page-bytes", "1GiB"}, 1, "KVS_ERR_NO_SPACE"},
    {{"@cut", "--dir", "@new"}, 1, "line 2"},
    {{"@trace", "--dir", "@trace/below_a_file"}, 1, "KVS_ERR_"},
    {{"@trace", "--dir", "@whole", "--capacity-pages", "77", "--page-bytes", "4096"},
     1,
     "KVS_ERR_GEOMETRY_DIFFERS"},
    {{"@trace", "--dir", "@whole", "--capacity-pages", "120", "--page-bytes", "8192"},
     1,
     "KVS_ERR_GEOMETRY_DIFFERS"},
};

static void bad_input_is_refused_and_leaves_nothing(void **state)
{
    (void)state;
    write_file(in_place("empty"), "");
    write_file(in_place("cut"), "{\"input_length\": 1, \"hash_ids\": [1]}\n{\"input_length\": 1, ");
    write_file(in_place("too_many"), "{\"input_length\": 512, \"hash_ids\": [1]}\n\n"
                                     "{\"input_length\": 512, \"hash_ids\": [1, 2]}\n");
    write_file(in_place("negative"), "{\"input_length\": 512, \"hash_ids\": [-1]}\n");
    write_file(in_place("binary"), "\x7f"
                                   "ELF\x02\x01\x01\n");
    rename(in_place("trace.jsonl"), in_place("trace"));
    struct stat before, after;
    assert_int_equal(stat(in_place("whole/pages.0.bin"), &before), 0);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const char *arguments[16] = {"replay"};
        char paths[12][160];
        size_t n = 1;
        for (size_t a = 0; refused[i].arguments[a] != NULL; a++) {
            const char *argument = refused[i].arguments[a];
            snprintf(paths[a], sizeof paths[a], "%s%s%s", argument[0] == '@' ? place : "",
                     argument[0] == '@' ? "/" : "", argument + (argument[0] == '@'));
            arguments[n++] = paths[a];
        }
        arguments[n] = "--json";
        struct program_result result = program_run(arguments);
        if (result.exit_code != refused[i].exit_code ||
            strstr(buffer_text(&result.out), refused[i].says) == NULL)
            fail_msg("case %zu: exit %d, %s%s", i, result.exit_code, buffer_text(&result.out),
                     buffer_text(&result.err));
        assert_int_equal(entries_of(in_place("new")), -1);
        assert_int_equal(entries_of(in_place("tmp")), 0);
        program_done(&result);
    }
    assert_int_equal(stat(in_place("whole/pages.0.bin"), &after), 0);
    assert_true(before.st_size == after.st_size && before.st_mtime == after.st_mtime);
    rename(in_place("trace"), in_place("trace.jsonl"));
}

/* Signals it once it writes pages. It would run for far longer by itself. */
static void a_signal_ends_it_and_removes_the_temporary_directory(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM};
    write_trace(in_place("long.jsonl"), 100000);
    for (size_t i = 0; i < 2; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s", in_place("long.jsonl"));
        char *argv[] = {"./kvshelf",    path,  "--capacity-pages", "64",
                        "--page-bytes", "64K", "--json",           NULL};
        char *words[9] = {argv[0], "replay"};
        memcpy(words + 2, argv + 1, sizeof argv - sizeof argv[0]);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, in_place("out"),
                                         O_WRONLY | O_CREAT | O_TRUNC, 0600);
        pid_t pid;
        assert_int_equal(posix_spawn(&pid, words[0], &actions, NULL, words, environ), 0);
        posix_spawn_file_actions_destroy(&actions);
        int status = 0;
        while (entries_of(in_place("tmp")) == 0 && waitpid(pid, &status, WNOHANG) == 0)
            sched_yield();
        assert_int_equal(kill(pid, signals[i]), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 128 + signals[i]);
        assert_int_equal(entries_of(in_place("tmp")), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_back_and_a_second_run_is_warm),
        cmocka_unit_test(the_index_alone_hits_as_the_store_does),
        cmocka_unit_test(people_get_units_and_a_picture),
        cmocka_unit_test(changed_bytes_are_misses),
        cmocka_unit_test(bad_input_is_refused_and_leaves_nothing),
        cmocka_unit_test(a_signal_ends_it_and_removes_the_temporary_directory),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
