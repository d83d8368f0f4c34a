/* `kvshelf explain`: the error catalogue for people, programs and docs/errors.md. */
#include "base/json.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/explain_http.h"
#include "cli/output.h"

#include <stdio.h>
#include <string.h>

#define DOCUMENT "https://github.com/kvshelf/kvshelf/blob/main/docs/errors.md"

enum { WORDS_MAX = 4096, INDENT = 2, PART_MIN = 4, FOUND_MAX = 64 };

static const char *severity_name(enum error_severity severity)
{
    static const char *const NAMES[] = {"warning", "error", "fatal"};
    return NAMES[severity];
}

/* ---- For people -------------------------------------------------------------------------------*/

/* Those whose message holds `part`, under the names of their groups. Returns how many. */
static size_t print_list(FILE *out, const char *part)
{
    size_t n, printed = 0;
    const struct error_info *errors = error_catalogue(&n);
    const char *group = "";
    char code[ERROR_CODE_MAX];
    for (size_t i = 0; i < n; i++) {
        if (strcasestr(errors[i].message, part) == NULL)
            continue;
        if (strcmp(error_type(&errors[i]), group) != 0)
            fprintf(out, "%s%s\n", printed == 0 ? "" : "\n", error_type(&errors[i]));
        group = error_type(&errors[i]);
        fprintf(out, "  %s  %s\n", error_code(&errors[i], code), errors[i].message);
        printed++;
    }
    if (printed > 0)
        fputs("\nkvshelf explain CODE shows one; kvshelf explain 'a line of a log' finds it.\n",
              out);
    return printed;
}

static void print_section(FILE *out, const char *title, const char *text)
{
    fprintf(out, "\n%s\n", title);
    output_wrapped(out, INDENT, text);
}

static void print_items(FILE *out, const char *title, const char *const items[])
{
    fprintf(out, "\n%s\n", title);
    for (; *items != NULL; items++)
        output_item(out, INDENT, *items);
}

static void print_one(FILE *out, const struct error_info *info)
{
    char code[ERROR_CODE_MAX];
    fprintf(out, "%s  %s\n", error_code(info, code), info->symbol);
    output_wrapped(out, INDENT, info->message);
    print_section(out, "What it means", info->meaning);
    print_section(out, "When it happens", info->when);
    print_section(out, "Common situations", info->situations);
    print_items(out, "What to do", info->remedies);
    print_section(out, "For example", info->example_fix);
    print_items(out, "So that it does not happen again", info->prevention);
    fprintf(out, "\n%s, %s; trying again %s; HTTP %d, %s in Python\n", error_type(info),
            severity_name(info->severity), info->retry_helps ? "may help" : "does not help",
            info->http_status, info->error_class);
}

/* ---- For programs -----------------------------------------------------------------------------*/

static void write_list(struct json_writer *json, const char *name, const char *const items[])
{
    json_write_name(json, name);
    json_write_array_begin(json);
    for (; *items != NULL; items++)
        json_write_text(json, *items);
    json_write_array_end(json);
}

static void write_document(struct json_writer *json, const struct error_info *info)
{
    char url[sizeof(DOCUMENT) + ERROR_CODE_MAX];
    snprintf(url, sizeof(url), DOCUMENT "#kvs-%d", info->number);
    json_member_text(json, "documentation", url);
}

static void write_record(struct json_writer *json, const struct error_info *info)
{
    char code[ERROR_CODE_MAX], id[ERROR_ID_MAX];
    struct buffer pattern = {0};
    error_pattern(info, &pattern);
    json->out->failed |= pattern.failed;
    json_write_object_begin(json);
    json_member_text(json, "id", error_id(info, id));
    json_member_text(json, "errorCode", error_code(info, code));
    json_member_text(json, "errorMessage", info->message);
    json_member_text(json, "messagePattern", buffer_text(&pattern));
    json_member_text(json, "errorType", error_type(info));
    json_member_text(json, "errorClass", info->error_class);
    json_write_name(json, "httpStatus");
    json_write_int64(json, info->http_status);
    json_member_text(json, "severity", severity_name(info->severity));
    write_document(json, info);
    json_member_text(json, "triggerScenarios", info->when);
    json_member_text(json, "commonSituations", info->situations);
    write_list(json, "solutions", info->remedies);
    json_member_text(json, "exampleFix", info->example_fix);
    write_list(json, "preventionTips", info->prevention);
    write_list(json, "tags", info->tags);
    json_write_object_end(json);
    buffer_done(&pattern);
}

static int print_records(const struct cli *cli, const struct error_info *errors, size_t n)
{
    struct buffer text = {0};
    struct json_writer json = {.out = &text};
    struct kvs_error error;
    json_write_array_begin(&json);
    for (size_t i = 0; i < n; i++)
        write_record(&json, &errors[i]);
    json_write_array_end(&json);
    enum kvs_status status = output_buffer(stdout, &text, &error);
    buffer_done(&text);
    return status == KVS_OK ? CLI_OK : cli_fail(cli, &error);
}

/* ---- For docs/errors.md -----------------------------------------------------------------------*/

static void print_markdown_items(FILE *out, const char *title, const char *const items[])
{
    fprintf(out, "**%s**\n\n", title);
    for (; *items != NULL; items++)
        fprintf(out, "- %s\n", *items);
    fputc('\n', out);
}

static void print_markdown_one(FILE *out, const struct error_info *info)
{
    char code[ERROR_CODE_MAX];
    fprintf(out, "### %s\n\n", error_code(info, code));
    fprintf(out, "```text\n%s\n```\n\n", info->message);
    fprintf(out, "%s\n\n", info->meaning);
    fprintf(out, "**When it happens:** %s\n\n", info->when);
    fprintf(out, "**Common situations:** %s\n\n", info->situations);
    print_markdown_items(out, "What to do", info->remedies);
    fprintf(out, "```text\n%s\n```\n\n", info->example_fix);
    print_markdown_items(out, "So that it does not happen again", info->prevention);
    fprintf(out, "`%s`, %s, HTTP %d, `%s` in Python; trying again %s.\n", info->symbol,
            severity_name(info->severity), info->http_status, info->error_class,
            info->retry_helps ? "may help" : "does not help");
}

static void print_markdown(FILE *out)
{
    size_t n;
    const struct error_info *errors = error_catalogue(&n);
    fputs(
        "# Errors\n\n"
        "Every failure that kvshelf puts into words: the library, the server and the command line "
        "share them.\n"
        "Words in braces are filled in. `kvshelf explain 'a line of a log'` finds the entry that a "
        "line is about.\n\n"
        "This page is made by `kvshelf explain --markdown` from `include/kvshelf/errors.def`.\n",
        out);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || strcmp(error_type(&errors[i]), error_type(&errors[i - 1])) != 0)
            fprintf(out, "\n## Group: %s\n", error_type(&errors[i]));
        fputc('\n', out);
        print_markdown_one(out, &errors[i]);
    }
}

/* ---- The command ------------------------------------------------------------------------------*/

/* The arguments as one text, as if they had been quoted. */
static const char *joined_arguments(const struct cli *cli, struct buffer *out)
{
    for (size_t i = 0; i < cli_argument_count(cli); i++) {
        if (i > 0)
            buffer_append_char(out, ' ');
        buffer_append_text(out, cli_argument(cli, i));
    }
    return buffer_text(out);
}

/* What a text is about. `one` is the entry of that code or message, NULL for none; the others come
 * with the HTTP status that the text names, if it is a number alone or names no entry. */
struct findings {
    const struct error_info *one;
    int http_status;
    struct error_info others[FOUND_MAX];
    size_t count;
};

/* "Not Found" is the message of KVS-508, and what HTTP calls every 404: only with the URL that was
 * asked does it tell which. */
static bool is_status_only(const char *wanted, const struct error_info *one)
{
    return explain_is_number(wanted) || one == NULL ||
           (one->status == KVS_ERR_NOT_FOUND && strstr(wanted, "url: ") == NULL);
}

static void find(const char *wanted, struct findings *ret_found)
{
    *ret_found = (struct findings){.one = error_match(wanted)};
    if (!is_status_only(wanted, ret_found->one))
        return;
    ret_found->http_status = explain_http_status(wanted);
    ret_found->count =
        explain_http_entries(ret_found->http_status, ret_found->others, FOUND_MAX - 1);
    if (ret_found->count > 0 && !explain_is_number(wanted))
        ret_found->one = NULL;
}

static void print_found(FILE *out, const struct findings *found)
{
    char code[ERROR_CODE_MAX];
    if (found->count > 0)
        fprintf(out, "HTTP status %d, as in the log of an engine, comes with\n",
                found->http_status);
    for (size_t i = 0; i < found->count; i++)
        fprintf(out, "  %s  %s\n", error_code(&found->others[i], code), found->others[i].message);
    if (found->count > 0)
        fputs("\nkvshelf explain CODE shows one.\n", out);
    if (found->count > 0 && found->one != NULL)
        fprintf(out, "\n%s is another matter:\n\n", error_code(found->one, code));
    if (found->one != NULL)
        print_one(out, found->one);
}

static int print_found_records(const struct cli *cli, struct findings *found)
{
    if (found->one != NULL) {
        memmove(found->others + 1, found->others, found->count * sizeof(found->others[0]));
        found->others[0] = *found->one;
        found->count++;
    }
    return print_records(cli, found->others, found->count);
}

static int explain_one(const struct cli *cli)
{
    struct buffer text = {0};
    struct kvs_error error;
    struct findings found;
    int code = CLI_OK;
    const char *wanted = joined_arguments(cli, &text);
    if (wanted[strspn(wanted, " \t\n")] == '\0') {
        buffer_done(&text);
        error_set(&error, KVS_ERR_USAGE_ARGUMENTS, "explain",
                  "the text is empty; give a code such as KVS-201 or a line of a log, or nothing "
                  "to see every error");
        return cli_fail(cli, &error);
    }
    find(wanted, &found);
    if (found.one == NULL && found.count == 0) {
        if (cli_json(cli) || strlen(wanted) < PART_MIN || print_list(stdout, wanted) == 0) {
            error_set(&error, KVS_ERR_EXPLAIN_UNKNOWN, wanted);
            code = cli_fail(cli, &error);
        }
    } else if (cli_json(cli)) {
        code = print_found_records(cli, &found);
    } else {
        print_found(stdout, &found);
    }
    buffer_done(&text);
    return code;
}

static int run(const struct cli *cli)
{
    if (cli_has(cli, "markdown")) {
        print_markdown(stdout);
        return CLI_OK;
    }
    if (cli_argument_count(cli) > 0)
        return explain_one(cli);
    if (cli_json(cli)) {
        size_t n;
        const struct error_info *errors = error_catalogue(&n);
        return print_records(cli, errors, n);
    }
    print_list(stdout, "");
    return CLI_OK;
}

static const struct cli_option options[] = {
    {"markdown", NULL, "Print the whole catalogue as docs/errors.md has it."},
    {0},
};

const struct cli_command cli_explain = {
    .name = "explain",
    .arguments = "[CODE|TEXT]",
    .summary = "say what an error means and what to do about it",
    .about =
        "Without an argument: lists every error that kvshelf can report. With a code (KVS-201), "
        "a symbol (KVS_ERR_CONFIG_LOAD), an id (config-load), or a whole message pasted from a "
        "log: shows that one, with its common causes, remedies and an example. A part of several "
        "messages lists them. An HTTP status (404, \"409 Client Error\"), which is all that an "
        "engine with SGLang's own class logs of a refusal, lists what comes with it; a number "
        "alone that is a code, too (404), gives both.\n"
        "\n"
        "With --json: an array of records (of a number alone that of the code first), each with "
        "the members id, errorCode, errorMessage, "
        "messagePattern (a regular expression), errorType, errorClass (of the Python "
        "exception), httpStatus, severity, documentation, triggerScenarios, commonSituations, "
        "solutions, exampleFix, preventionTips and tags.",
    .examples = "kvshelf explain\n"
                "kvshelf explain KVS-201\n"
                "kvshelf explain \"Namespace 'kv' for rank 0 not initialized\"\n"
                "kvshelf explain --json | jq -r '.[].errorCode'",
    .exit_codes = "0  shown\n1  no error matches\n2  wrong arguments",
    .options = options,
    .arguments_min = 0,
    .arguments_max = WORDS_MAX,
    .json = true,
    .run = run,
};
