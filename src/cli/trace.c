/* Reads traces: a line reader with a bound on the length of a line, and one function that takes a
 * line apart. */
#include "cli/trace.h"

#include "base/json.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Lines -----------------------------------------------------------------------------------*/

struct lines {
    const char *path;
    int fd;
    char *bytes; /* TRACE_LINE_MAX + 1: a line and its end */
    size_t begin, end;
    bool at_end;
    size_t number; /* of the line given last, from 1 */
};

static enum kvs_status bad_line(const struct lines *lines, const char *reason,
                                struct kvs_error *error)
{
    return error_set(error, KVS_ERR_TRACE_LINE, lines->path, NUM(lines->number), reason);
}

static enum kvs_status lines_fill(struct lines *lines, struct kvs_error *error)
{
    memmove(lines->bytes, lines->bytes + lines->begin, lines->end - lines->begin);
    lines->end -= lines->begin;
    lines->begin = 0;
    ssize_t got;
    do
        got = read(lines->fd, lines->bytes + lines->end, TRACE_LINE_MAX + 1 - lines->end);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return error_set(error, KVS_ERR_TRACE_OPEN, lines->path, strerror(errno));
    lines->at_end = got == 0;
    lines->end += (size_t)got;
    return KVS_OK;
}

/* Gives the next line without its end, or NULL after the last. */
static enum kvs_status lines_next(struct lines *lines, struct json_text *ret_line,
                                  struct kvs_error *error)
{
    lines->number++;
    for (size_t searched = 0;;) {
        char *from = lines->bytes + lines->begin;
        size_t there = lines->end - lines->begin;
        char *stop = memchr(from + searched, '\n', there - searched);
        if (stop != NULL || (lines->at_end && there > 0)) {
            size_t length = stop != NULL ? (size_t)(stop - from) : there;
            *ret_line = (struct json_text){from, length};
            lines->begin += length + (stop != NULL);
            return KVS_OK;
        }
        if (lines->at_end) {
            *ret_line = (struct json_text){NULL, 0};
            return KVS_OK;
        }
        if (there > TRACE_LINE_MAX)
            return bad_line(lines, "the line is longer than 4 MiB", error);
        searched = there;
        enum kvs_status status = lines_fill(lines, error);
        if (status != KVS_OK)
            return status;
    }
}

/* ---- Requests --------------------------------------------------------------------------------*/

struct reading {
    struct trace trace;
    size_t ids_capacity, requests_capacity;
};

static bool grow(void **array, size_t *capacity, size_t needed, size_t item_bytes)
{
    if (needed <= *capacity)
        return true;
    size_t now = *capacity < 1024 ? 1024 : *capacity;
    while (now < needed)
        now *= 2;
    void *grown = reallocarray(*array, now, item_bytes);
    if (grown == NULL)
        return false;
    *array = grown;
    *capacity = now;
    return true;
}

static bool add_id(struct reading *reading, uint64_t id)
{
    struct trace *trace = &reading->trace;
    if (!grow((void **)&trace->ids, &reading->ids_capacity, trace->num_ids + 1, sizeof *trace->ids))
        return false;
    trace->ids[trace->num_ids++] = id;
    return true;
}

/* Ends the request whose ids have been added since the last one. */
static bool end_request(struct reading *reading)
{
    struct trace *trace = &reading->trace;
    if (!grow((void **)&trace->first, &reading->requests_capacity, trace->num_requests + 2,
              sizeof *trace->first))
        return false;
    trace->first[0] = 0;
    trace->first[++trace->num_requests] = trace->num_ids;
    size_t count = trace_count(trace, trace->num_requests - 1);
    if (count > trace->largest)
        trace->largest = count;
    return true;
}

/* The ids of one line are at ids[begin...]; false on a fault (kept in the reader) or lack of
 * memory. */
static bool read_ids(struct reading *reading, struct json_reader *json, bool *ret_no_memory)
{
    size_t begin = reading->trace.num_ids;
    if (!json_array_begin(json))
        return false;
    while (json_array_next(json)) {
        uint64_t id;
        if (!json_uint64(json, &id))
            return false;
        if (reading->trace.num_ids - begin == TRACE_IDS_MAX)
            return json_fail(json, "more than 65536 hash_ids");
        if (!add_id(reading, id)) {
            *ret_no_memory = true;
            return false;
        }
    }
    return !json_failed(json);
}

static enum kvs_status json_fault(const struct lines *lines, const struct json_reader *json,
                                  const char *member, struct kvs_error *error)
{
    size_t line, column;
    json_fault_place(json, &line, &column);
    struct buffer text = {0};
    if (member != NULL)
        buffer_append_format(&text, "%s: ", member);
    buffer_append_format(&text, "%s at column %zu", json->fault, column);
    enum kvs_status status = bad_line(lines, buffer_text(&text), error);
    buffer_done(&text);
    return status;
}

static enum kvs_status check_count(const struct lines *lines, size_t count, uint64_t input_length,
                                   struct kvs_error *error)
{
    uint64_t blocks = input_length / TRACE_BLOCK_TOKENS + (input_length % TRACE_BLOCK_TOKENS != 0);
    if (count <= blocks)
        return KVS_OK;
    struct buffer text = {0};
    buffer_append_format(
        &text, "%zu hash_ids, but an input_length of %llu tokens has only %llu blocks of %d", count,
        (unsigned long long)input_length, (unsigned long long)blocks, TRACE_BLOCK_TOKENS);
    enum kvs_status status = bad_line(lines, buffer_text(&text), error);
    buffer_done(&text);
    return status;
}

static enum kvs_status read_request(struct reading *reading, const struct lines *lines,
                                    struct json_text line, struct buffer *scratch,
                                    struct kvs_error *error)
{
    struct json_reader json;
    json_reader_init(&json, line.text, line.length, scratch, JSON_DEPTH);
    size_t begin = reading->trace.num_ids;
    bool have_ids = false, have_length = false, no_memory = false;
    uint64_t input_length = 0;
    const char *member = NULL; /* the one a fault is in, when it is one of ours */
    struct json_text name;
    if (json_object_begin(&json)) {
        while (!no_memory && json_object_next(&json, &name)) {
            if (json_text_is(name, "hash_ids")) {
                member = "hash_ids";
                if (have_ids)
                    json_fail(&json, "given twice");
                else
                    have_ids = read_ids(reading, &json, &no_memory);
            } else if (json_text_is(name, "input_length")) {
                member = "input_length";
                if (have_length)
                    json_fail(&json, "given twice");
                else
                    have_length = json_uint64(&json, &input_length);
            } else {
                json_skip(&json);
            }
            if (!json_failed(&json))
                member = NULL;
        }
    }
    if (no_memory)
        return error_set(error, KVS_ERR_NO_MEMORY, "reading the trace");
    json_end(&json);
    if (json_failed(&json))
        return json_fault(lines, &json, member, error);
    if (!have_ids)
        return bad_line(lines, "hash_ids is missing", error);
    if (!have_length)
        return bad_line(lines, "input_length is missing", error);
    enum kvs_status status =
        check_count(lines, reading->trace.num_ids - begin, input_length, error);
    if (status != KVS_OK)
        return status;
    return end_request(reading) ? KVS_OK : error_set(error, KVS_ERR_NO_MEMORY, "reading the trace");
}

static bool is_blank(struct json_text line)
{
    for (size_t i = 0; i < line.length; i++)
        if (line.text[i] != ' ' && line.text[i] != '\t' && line.text[i] != '\r')
            return false;
    return true;
}

/* Standard input may never end. */
static enum kvs_status check_total(const struct reading *reading, const struct lines *lines,
                                   size_t total_max, struct kvs_error *error)
{
    if (reading->trace.num_requests + reading->trace.num_ids <= total_max)
        return KVS_OK;
    struct buffer text = {0};
    buffer_append_format(
        &text, "with this one the trace has more than %zu requests and hash_ids; give --limit",
        total_max);
    enum kvs_status status = bad_line(lines, buffer_text(&text), error);
    buffer_done(&text);
    return status;
}

static enum kvs_status read_lines(struct reading *reading, struct lines *lines, size_t limit,
                                  size_t total_max, struct kvs_error *error)
{
    struct buffer scratch = {0};
    enum kvs_status status = KVS_OK;
    while (status == KVS_OK && (limit == 0 || reading->trace.num_requests < limit)) {
        struct json_text line;
        status = lines_next(lines, &line, error);
        if (status != KVS_OK || line.text == NULL)
            break;
        buffer_clear(&scratch);
        if (!is_blank(line))
            status = read_request(reading, lines, line, &scratch, error);
        if (status == KVS_OK)
            status = check_total(reading, lines, total_max, error);
    }
    buffer_done(&scratch);
    if (status == KVS_OK && reading->trace.num_ids == 0)
        status = error_set(error, KVS_ERR_TRACE_EMPTY, lines->path);
    return status;
}

enum kvs_status trace_read(const char *path, size_t limit, struct trace *ret_trace,
                           struct kvs_error *error)
{
    return trace_read_at_most(path, limit, TRACE_TOTAL_MAX, ret_trace, error);
}

enum kvs_status trace_read_at_most(const char *path, size_t limit, size_t total_max,
                                   struct trace *ret_trace, struct kvs_error *error)
{
    bool standard_input = strcmp(path, "-") == 0;
    int fd =
        standard_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, KVS_ERR_TRACE_OPEN, path, strerror(errno));
    struct lines lines = {.path = path, .fd = fd, .bytes = malloc(TRACE_LINE_MAX + 1)};
    struct reading reading = {0};
    enum kvs_status status = lines.bytes == NULL
                                 ? error_set(error, KVS_ERR_NO_MEMORY, "reading the trace")
                                 : read_lines(&reading, &lines, limit, total_max, error);
    free(lines.bytes);
    close(fd);
    if (status != KVS_OK) {
        trace_done(&reading.trace);
        return status;
    }
    *ret_trace = reading.trace;
    return KVS_OK;
}

void trace_done(struct trace *trace)
{
    free(trace->first);
    free(trace->ids);
    memset(trace, 0, sizeof *trace);
}
