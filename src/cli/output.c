/* What commands print: see output.h. */
#include "cli/output.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS = 78, BAR_WIDTH = 30 };

static void write_error_json(FILE *out, const struct error_info *info,
                             const struct kvs_error *error)
{
    struct buffer text = {0};
    struct json_writer json = {.out = &text};
    char code[ERROR_CODE_MAX];
    json_write_object_begin(&json);
    json_write_name(&json, "error");
    json_write_object_begin(&json);
    json_member_text(&json, "code", info == NULL ? "KVS-0" : error_code(info, code));
    json_member_text(&json, "symbol", kvs_status_name(error->status));
    json_member_text(&json, "message", error->message);
    json_member_bool(&json, "retry", info != NULL && info->retry_helps);
    json_write_name(&json, "remedies");
    json_write_array_begin(&json);
    for (size_t i = 0; info != NULL && info->remedies[i] != NULL; i++)
        json_write_text(&json, info->remedies[i]);
    json_write_array_end(&json);
    json_write_object_end(&json);
    json_write_object_end(&json);
    output_buffer(out, &text, NULL);
    buffer_done(&text);
}

void output_error(FILE *out, bool json, const struct kvs_error *error)
{
    const struct error_info *info = error_find(error->status);
    if (json) {
        write_error_json(out, info, error);
        return;
    }
    struct kvs_error shown = *error;
    char code[ERROR_CODE_MAX];
    text_one_line(shown.message);
    fprintf(out, "kvshelf: %s\n", shown.message);
    if (info != NULL)
        fprintf(out, "  see: kvshelf explain %s\n", error_code(info, code));
}

enum kvs_status output_flush(FILE *out, struct kvs_error *error)
{
    bool failed = ferror(out) != 0;
    errno = 0;
    if (fflush(out) == 0 && !failed)
        return KVS_OK;
    return error_set(error, KVS_ERR_OUTPUT,
                     errno != 0 ? strerror(errno) : "an earlier write failed");
}

enum kvs_status output_buffer(FILE *out, struct buffer *buffer, struct kvs_error *error)
{
    if (buffer->failed)
        return error_set(error, KVS_ERR_NO_MEMORY, "building the output");
    if (buffer->length > 0)
        fwrite(buffer->data, 1, buffer->length, out);
    fputc('\n', out);
    return output_flush(out, error);
}

/* One paragraph: no line ends in it. `mark` stands in front of the first line. */
static void print_paragraph(FILE *out, unsigned indent, const char *mark, const char *text,
                            size_t length)
{
    const char *end = text + length;
    int mark_length = (int)strlen(mark);
    for (bool first = true; text < end; first = false) {
        size_t room = COLUMNS - indent, take = (size_t)(end - text);
        if (take > room) {
            const char *blank = memrchr(text, ' ', room + 1);
            if (blank == NULL) /* a word longer than the line: up to its end */
                blank = memchr(text + room, ' ', take - room);
            take = blank == NULL ? take : (size_t)(blank - text);
        }
        fprintf(out, "%*s%s%.*s\n", (int)indent - (first ? mark_length : 0), "", first ? mark : "",
                (int)take, text);
        text += take;
        while (text < end && *text == ' ')
            text++;
    }
}

void output_wrapped(FILE *out, unsigned indent, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        if (length == 0)
            fputc('\n', out);
        print_paragraph(out, indent, "", text, length);
        text += length;
        text += *text == '\n';
    }
}

void output_item(FILE *out, unsigned indent, const char *text)
{
    print_paragraph(out, indent + 2, "- ", text, strlen(text));
}

/* ---- Progress ---------------------------------------------------------------------------------*/

/* 0: not known. */
static int columns_of(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void progress_begin(struct progress *progress, const char *what, const char *unit, uint64_t total,
                    bool quiet)
{
    uint64_t now = clock_mono_ns();
    *progress = (struct progress){
        .out = stderr,
        .what = what,
        .unit = unit,
        .total = total,
        .started_ns = now,
        .last_ns = now,
        .terminal = isatty(STDERR_FILENO) == 1,
        .columns = columns_of(STDERR_FILENO),
        .quiet = quiet,
    };
}

static void append_bar(struct buffer *line, double part)
{
    size_t full = (size_t)(part * BAR_WIDTH);
    buffer_append_format(line, " [");
    for (size_t i = 0; i < BAR_WIDTH; i++)
        buffer_append_char(line, i < full ? '#' : '.');
    buffer_append_char(line, ']');
}

static void compose(const struct progress *progress, uint64_t done, uint64_t elapsed_ns,
                    struct buffer *line)
{
    double part = progress->total == 0 ? 0 : (double)done / (double)progress->total;
    part = part > 1 ? 1 : part;
    buffer_append_format(line, "%s", progress->what);
    if (progress->terminal && (progress->columns == 0 || progress->columns > COLUMNS))
        append_bar(line, part);
    buffer_append_format(line, " %.0f %%, %s", part * 100, COUNT(done));
    buffer_append_format(line, " of %s %s", COUNT(progress->total), progress->unit);
    if (progress->bytes > 0)
        buffer_append_format(line, ", %s",
                             RATE((double)progress->bytes * 1e9 / (double)elapsed_ns));
    if (part > 0)
        buffer_append_format(line, ", %s left",
                             DURATION_NS((double)elapsed_ns * (1 - part) / part));
}

void progress_update(struct progress *progress, uint64_t done)
{
    const uint64_t second = 1000000000u;
    uint64_t now = progress->quiet ? 0 : clock_mono_ns();
    if (progress->quiet ||
        now - progress->last_ns < (progress->terminal ? second / 10 : 5 * second))
        return;
    progress->last_ns = now;
    struct buffer line = {0};
    compose(progress, done, now - progress->started_ns, &line);
    /* A line that wraps cannot be drawn over: it ends before the last column. */
    int most = progress->terminal && progress->columns > 1 ? progress->columns - 1 : INT_MAX;
    const char *text = line.failed ? "" : buffer_text(&line);
    /* What was drawn before may have been longer: clear the rest of the line. */
    fprintf(progress->out, "%s%.*s%s", progress->terminal ? "\r" : "", most, text,
            progress->terminal ? "\033[K" : "\n");
    fflush(progress->out);
    buffer_done(&line);
    progress->drawn = progress->terminal;
}

void progress_end(struct progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", progress->out);
    progress->drawn = false;
}

void output_log(void *arg, enum kvs_log_level level, const char *line)
{
    static const char *const LEVELS[] = {"debug", "info", "warning", "error"};
    enum kvs_log_level from = arg == NULL ? KVS_LOG_WARNING : *(const enum kvs_log_level *)arg;
    if (level >= from)
        fprintf(stderr, "kvshelf: %s: %s\n", LEVELS[level], line);
}
