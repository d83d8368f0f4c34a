/* Reading traces: what is taken, and that every broken line is refused by name with nothing given.
 */
#include "cli/trace.h"
#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
    char path[64];
};

static void file_write(struct file *file, const char *bytes, size_t length)
{
    snprintf(file->path, sizeof file->path, "trace_test_XXXXXX");
    int fd = mkstemp(file->path);
    assert_true(fd >= 0);
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);
        assert_true(written > 0);
        bytes += written;
        length -= (size_t)written;
    }
    close(fd);
}

static enum kvs_status read_text(const char *text, size_t length, size_t limit, struct trace *trace,
                                 struct kvs_error *error)
{
    struct file file;
    file_write(&file, text, length);
    enum kvs_status status = trace_read(file.path, limit, trace, error);
    unlink(file.path);
    return status;
}

static void takes_requests_and_skips_what_it_does_not_know(void **state)
{
    (void)state;
    static const char text[] =
        "{\"timestamp\": 0, \"input_length\": 1025, \"output_length\": 5, \"hash_ids\": [7, 8, "
        "9]}\r\n"
        "\n"
        "{\"hash_ids\": [], \"input_length\": 0, \"extra\": {\"a\": [1, null, \"\\u0041\"]}}\n"
        " \t\n"
        "{\"\\u0069nput_length\": 512, \"hash_ids\": [18446744073709551615]}";
    struct trace trace = {0};
    struct kvs_error error;
    assert_int_equal(read_text(text, sizeof text - 1, 0, &trace, &error), KVS_OK);
    assert_int_equal(trace.num_requests, 3);
    assert_int_equal(trace.num_ids, 4);
    assert_int_equal(trace.largest, 3);
    assert_int_equal(trace_count(&trace, 0), 3);
    assert_int_equal(trace_count(&trace, 1), 0);
    assert_int_equal(trace_count(&trace, 2), 1);
    assert_int_equal(trace.ids[2], 9);
    assert_true(trace.ids[3] == UINT64_MAX);
    trace_done(&trace);
}

static void a_limit_stops_before_what_follows(void **state)
{
    (void)state;
    static const char text[] = "{\"input_length\": 512, \"hash_ids\": [1]}\n"
                               "{\"input_length\": 512, \"hash_ids\": [2]}\n"
                               "broken\n";
    struct trace trace = {0};
    assert_int_equal(read_text(text, sizeof text - 1, 2, &trace, NULL), KVS_OK);
    assert_int_equal(trace.num_requests, 2);
    trace_done(&trace);
    assert_int_equal(read_text(text, sizeof text - 1, 3, &trace, NULL), KVS_ERR_TRACE_LINE);
}

/* Each follows one good line and stands on line 2. */
static const struct {
    const char *line;
    const char *says; /* a part of the message */
} broken[] = {
    {"nonsense", "line 2"},
    {"{\"input_length\": 512, \"hash_ids\": [1]", "line 2"},
    {"{\"input_length\": 512, \"hash_ids\": [1]} x", "line 2"},
    {"[]", "line 2"},
    {"null", "line 2"},
    {"{}", "hash_ids is missing"},
    {"{\"hash_ids\": [1]}", "input_length is missing"},
    {"{\"input_length\": 512}", "hash_ids is missing"},
    {"{\"input_length\": 512, \"hash_ids\": 1}", "hash_ids: "},
    {"{\"input_length\": 512, \"hash_ids\": {}}", "hash_ids: "},
    {"{\"input_length\": 512, \"hash_ids\": null}", "hash_ids: "},
    {"{\"input_length\": 512, \"hash_ids\": [\"1\"]}", "hash_ids: "},
    {"{\"input_length\": 512, \"hash_ids\": [-1]}", "hash_ids: "},
    {"{\"input_length\": 512, \"hash_ids\": [1.5]}", "hash_ids: "},
    {"{\"input_length\": 512, \"hash_ids\": [1e3]}", "hash_ids: "},
    {"{\"input_length\": 512, \"hash_ids\": [18446744073709551616]}", "hash_ids: "},
    {"{\"input_length\": 512, \"hash_ids\": [1,]}", "line 2"},
    {"{\"input_length\": -1, \"hash_ids\": []}", "input_length: "},
    {"{\"input_length\": \"512\", \"hash_ids\": []}", "input_length: "},
    {"{\"input_length\": 5.5, \"hash_ids\": []}", "input_length: "},
    {"{\"input_length\": 512, \"input_length\": 512, \"hash_ids\": []}", "given twice"},
    {"{\"input_length\": 512, \"hash_ids\": [1], \"hash_ids\": [1]}", "given twice"},
    {"{\"input_length\": 512, \"hash_ids\": [1, 2]}", "2 hash_ids"},
    {"{\"hash_ids\": [1], \"input_length\": 0}", "1 hash_ids"},
    {"{\"input_length\": 1024, \"hash_ids\": [1, 2, 3]}", "3 hash_ids"},
    {"{\"input_length\": 512, \"hash_ids\": [1], \"note\": \"\x01\"}", "line 2"},
    {"{\"input_length\": 512, \"hash_ids\": [1], \"note\": \"\xff\"}", "line 2"},
};

static void refuses_a_broken_line_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char text[512];
        int length = snprintf(text, sizeof text, "{\"input_length\": 512, \"hash_ids\": [1]}\n%s\n",
                              broken[i].line);
        struct trace trace = {.num_requests = 99};
        struct kvs_error error;
        enum kvs_status status = read_text(text, (size_t)length, 0, &trace, &error);
        if (status != KVS_ERR_TRACE_LINE || strstr(error.message, "line 2") == NULL ||
            strstr(error.message, broken[i].says) == NULL)
            fail_msg("%s: %d %s", broken[i].line, status, error.message);
        assert_int_equal(trace.num_requests, 99); /* untouched */
    }
}

static void refuses_a_line_without_end(void **state)
{
    (void)state;
    size_t length = (size_t)TRACE_LINE_MAX * 2;
    char *text = malloc(length);
    assert_non_null(text);
    memset(text, ' ', length);
    struct trace trace;
    struct kvs_error error;
    assert_int_equal(read_text(text, length, 0, &trace, &error), KVS_ERR_TRACE_LINE);
    assert_non_null(strstr(error.message, "line 1"));
    assert_non_null(strstr(error.message, "longer"));
    free(text);
}

static void takes_the_longest_line_there_may_be(void **state)
{
    (void)state;
    static const char request[] = "{\"input_length\": 512, \"hash_ids\": [5]}";
    size_t length = (size_t)TRACE_LINE_MAX + 1 + sizeof request - 1;
    char *text = malloc(length);
    assert_non_null(text);
    memset(text, ' ', length);
    memcpy(text, request, sizeof request - 1);
    text[TRACE_LINE_MAX] = '\n';
    memcpy(text + TRACE_LINE_MAX + 1, request, sizeof request - 1);
    struct trace trace = {0};
    assert_int_equal(read_text(text, length, 0, &trace, NULL), KVS_OK);
    assert_int_equal(trace.num_requests, 2);
    trace_done(&trace);
    free(text);
}

static void refuses_more_ids_than_one_call_may_have(void **state)
{
    (void)state;
    size_t capacity = (size_t)TRACE_IDS_MAX * 2 + 128;
    char *text = malloc(capacity);
    assert_non_null(text);
    size_t length =
        (size_t)snprintf(text, capacity, "{\"input_length\": 999999999, \"hash_ids\": [1");
    for (size_t i = 0; i < TRACE_IDS_MAX; i++) {
        memcpy(text + length, ",1", 2);
        length += 2;
    }
    memcpy(text + length, "]}", 2);
    struct trace trace;
    struct kvs_error error;
    assert_int_equal(read_text(text, length + 2, 0, &trace, &error), KVS_ERR_TRACE_LINE);
    assert_non_null(strstr(error.message, "more than 65536"));
    free(text);
}

/* What comes through a pipe may never end. */
static void refuses_to_take_all_memory(void **state)
{
    (void)state;
    static const char text[] = "{\"hash_ids\": [1, 2], \"input_length\": 1024}\n"
                               "{\"hash_ids\": [], \"input_length\": 0}\n"
                               "{\"hash_ids\": [3], \"input_length\": 512}\n";
    struct file file;
    struct kvs_error error;
    file_write(&file, text, sizeof text - 1);
    for (size_t total_max = 2; total_max <= 6; total_max++) {
        struct trace trace = {0};
        enum kvs_status status = trace_read_at_most(file.path, 0, total_max, &trace, &error);
        assert_int_equal(status, total_max < 6 ? KVS_ERR_TRACE_LINE : KVS_OK);
        if (status != KVS_OK)
            assert_non_null(strstr(error.message, "give --limit"));
        trace_done(&trace);
    }
    unlink(file.path);
}

static void refuses_what_is_no_trace(void **state)
{
    (void)state;
    struct trace trace;
    struct kvs_error error;
    assert_int_equal(trace_read("no_such_trace.jsonl", 0, &trace, &error), KVS_ERR_TRACE_OPEN);
    assert_non_null(strstr(error.message, "no_such_trace.jsonl"));
    assert_int_equal(trace_read(".", 0, &trace, &error), KVS_ERR_TRACE_OPEN);
    static const char *const empty[] = {"", "\n", " \r\n\t\n",
                                        "{\"input_length\": 0, \"hash_ids\": []}\n"};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++)
        assert_int_equal(read_text(empty[i], strlen(empty[i]), 0, &trace, &error),
                         KVS_ERR_TRACE_EMPTY);
    if (geteuid() == 0)
        return; /* root reads everything */
    struct file file;
    file_write(&file, "x", 1);
    chmod(file.path, 0);
    assert_int_equal(trace_read(file.path, 0, &trace, &error), KVS_ERR_TRACE_OPEN);
    unlink(file.path);
}

static void reads_standard_input(void **state)
{
    (void)state;
    static const char text[] = "{\"input_length\": 512, \"hash_ids\": [7]}\n";
    struct trace trace = {0};
    struct kvs_error error;
    struct file file;
    file_write(&file, text, sizeof text - 1);
    int before = dup(STDIN_FILENO), fd = open(file.path, O_RDONLY);
    assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    enum kvs_status status = trace_read("-", 0, &trace, &error);
    dup2(before, STDIN_FILENO);
    close(before);
    close(fd);
    unlink(file.path);
    assert_int_equal(status, KVS_OK);
    assert_int_equal(trace.num_requests, 1);
    trace_done(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_requests_and_skips_what_it_does_not_know),
        cmocka_unit_test(a_limit_stops_before_what_follows),
        cmocka_unit_test(refuses_a_broken_line_by_name),
        cmocka_unit_test(refuses_a_line_without_end),
        cmocka_unit_test(takes_the_longest_line_there_may_be),
        cmocka_unit_test(refuses_more_ids_than_one_call_may_have),
        cmocka_unit_test(refuses_to_take_all_memory),
        cmocka_unit_test(refuses_what_is_no_trace),
        cmocka_unit_test(reads_standard_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
