/* `kvshelf doctor`: the command line in, the report out. */
#include "cli/doctor.h"

#include "base/json.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/engine_options.h"
#include "cli/output.h"

#include <stdio.h>

static const char *const levels[] = {"ok", "warning", "error"};

enum { REMEDY_INDENT = 23 };

static enum kvs_status print_lines(const struct doctor_report *report, struct kvs_error *error)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct doctor_line *line = &report->lines[i];
        printf("%-8s %-12s  %s\n", levels[line->level], line->check, line->message);
        if (line->remedy != NULL)
            printf("%*s%s\n", REMEDY_INDENT, "-> ", line->remedy);
    }
    if (report->errors == 0)
        printf("\nAn engine can start with this (%zu warning%s).\n", report->warnings,
               report->warnings == 1 ? "" : "s");
    else
        printf("\nAn engine cannot start with this: %zu error%s, %zu warning%s.\n", report->errors,
               report->errors == 1 ? "" : "s", report->warnings, report->warnings == 1 ? "" : "s");
    return output_flush(stdout, error);
}

static void write_line(struct json_writer *json, const struct doctor_line *line)
{
    json_write_object_begin(json);
    json_member_text(json, "level", levels[line->level]);
    json_member_text(json, "check", line->check);
    json_member_text(json, "message", line->message);
    json_member_text(json, "remedy", line->remedy);
    json_write_object_end(json);
}

static enum kvs_status print_json(const struct doctor_report *report, struct kvs_error *error)
{
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_write_object_begin(&json);
    json_member_uint64(&json, "errors", report->errors);
    json_member_uint64(&json, "warnings", report->warnings);
    json_write_name(&json, "checks");
    json_write_array_begin(&json);
    for (size_t i = 0; i < report->count; i++)
        write_line(&json, &report->lines[i]);
    json_write_array_end(&json);
    json_write_object_end(&json);
    enum kvs_status status = output_buffer(stdout, &out, error);
    buffer_done(&out);
    return status;
}

static enum kvs_status read_request(const struct cli *cli, struct doctor_request *request,
                                    struct kvs_error *error)
{
    request->config_path = cli_text(cli, "config", NULL);
    enum kvs_status status = engine_options_read(cli, &request->options, error);
    if (status != KVS_OK)
        return status;
    uint64_t *bytes = &request->options.bytes_per_page;
    *bytes = 0;
    status = cli_bytes(cli, "bytes-per-page", 0, UINT64_MAX, bytes, error);
    if (status == KVS_OK && cli_has(cli, "bytes-per-page") && *bytes == 0)
        status = error_set(error, KVS_ERR_CONFIG_PAGE_BYTES, "kv", "0");
    return status;
}

static int run(const struct cli *cli)
{
    struct doctor_request request;
    struct kvs_error error;
    enum kvs_status status = read_request(cli, &request, &error);
    if (status != KVS_OK)
        return cli_fail(cli, &error);
    struct doctor_report report = {0};
    doctor_examine(&request, &report);
    if (report.failed)
        status = error_set(&error, KVS_ERR_NO_MEMORY, "examining the configuration");
    else
        status = cli_json(cli) ? print_json(&report, &error) : print_lines(&report, &error);
    bool healthy = report.errors == 0;
    doctor_report_done(&report);
    if (status != KVS_OK)
        return cli_fail(cli, &error);
    return healthy ? CLI_OK : CLI_FAILED;
}

static const struct cli_option options[] = {
    ENGINE_OPTIONS,
    {"bytes-per-page", "BYTES",
     "Bytes behind one key, of K or V alone in page_first layouts. SGLang's own class does not log "
     "them: file_size / num_pages, which it does at start."},
    {NULL, NULL, NULL},
};

const struct cli_command cli_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "what an engine would meet before it loads a model",
    .about =
        "Looks at the variable, the configuration file, its keys and their values, the path and "
        "the right to write there, the kind of its file system and what follows from it, direct "
        "I/O, io_uring, limits, the space, the page arithmetic, and the index: of this process, "
        "or the metadata server (whether it answers, who it is, its token, whether it keeps its "
        "catalogs, how long a question takes), and whether the namespace of this rank that is "
        "there "
        "is of this geometry and model. Each line is ok, a warning or an error, "
        "with what to do.\n\n"
        "Nothing is created, changed or locked. Run it as the user that runs the engine, in "
        "the same container.",
    .examples = "kvshelf doctor\n"
                "kvshelf doctor --config /etc/kvshelf/hf3fs.json --bytes-per-page 4194304\n"
                "kvshelf doctor --mla --tp-rank 1 --tp-size 8 --json | jq '.checks[]'",
    .exit_codes = "0  an engine can start with this; there may be warnings\n"
                  "1  an error was found\n"
                  "2  wrong arguments",
    .options = options,
    .json = true,
    .run = run,
};
