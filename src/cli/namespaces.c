/* kvshelf namespaces, and kvshelf stat of a running server. */
#include "cli/namespaces.h"

#include "base/status.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/stat_read.h"
#include "metadata/registry.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- /api/status -----------------------------------------------------------------------------*/

static bool read_pages(struct json_reader *json, struct namespace_row *row)
{
    struct json_text name;
    if (!json_object_begin(json))
        return false;
    while (json_object_next(json, &name)) {
        uint64_t *value = json_text_is(name, "free")        ? &row->pages.free
                          : json_text_is(name, "reserved")  ? &row->pages.reserved
                          : json_text_is(name, "committed") ? &row->pages.committed
                          : json_text_is(name, "retired")   ? &row->pages.retired
                                                            : NULL;
        if (!(value == NULL ? json_skip(json) : json_uint64(json, value)))
            return false;
    }
    return !json_failed(json);
}

static bool read_row(struct json_reader *json, struct namespace_row *row)
{
    struct json_text name;
    *row = (struct namespace_row){.ns = {"", 0}, .fingerprint = {"", 0}};
    if (!json_object_begin(json))
        return false;
    while (json_object_next(json, &name)) {
        bool read;
        if (json_text_is(name, "rank"))
            read = json_uint64(json, &row->rank);
        else if (json_text_is(name, "namespace"))
            read = json_string(json, &row->ns);
        else if (json_text_is(name, "num_pages"))
            read = json_uint64(json, &row->num_pages);
        else if (json_text_is(name, "bytes_per_page"))
            read = json_uint64(json, &row->bytes_per_page);
        else if (json_text_is(name, "fingerprint"))
            read = json_string(json, &row->fingerprint);
        else if (json_text_is(name, "pages"))
            read = read_pages(json, row);
        else
            read = json_skip(json);
        if (!read)
            return false;
    }
    return !json_failed(json);
}

static bool read_rows(struct json_reader *json, namespace_row_fn each, void *arg,
                      enum kvs_status *ret_status, struct kvs_error *error)
{
    struct namespace_row row;
    if (!json_array_begin(json))
        return false;
    while (json_array_next(json)) {
        if (!read_row(json, &row))
            return false;
        if (*ret_status == KVS_OK)
            *ret_status = each(arg, &row, error);
    }
    return !json_failed(json);
}

enum kvs_status namespaces_read(const struct buffer *status_body, namespace_row_fn each, void *arg,
                                struct kvs_error *error)
{
    struct buffer unescaped = {0};
    struct json_reader json;
    struct json_text name;
    enum kvs_status status = KVS_OK;
    bool found = false;
    json_reader_init(&json, status_body->data, status_body->length, &unescaped, JSON_DEPTH);
    bool going = json_object_begin(&json);
    while (going && json_object_next(&json, &name)) {
        bool is_list = json_text_is(name, "namespaces");
        found = found || is_list;
        going = is_list ? read_rows(&json, each, arg, &status, error) : json_skip(&json);
    }
    json_end(&json);
    char reason[JSON_ERROR_TEXT_MAX];
    if (status == KVS_OK && (json_failed(&json) || !found))
        status = error_set(error, KVS_ERR_REMOTE_ANSWER, "/api/status",
                           found || json_failed(&json) ? json_error_text(&json, reason)
                                                       : "it names no namespaces");
    buffer_done(&unescaped);
    return status;
}

void server_facts_read(const struct buffer *status_body, struct server_facts *ret_facts)
{
    struct buffer unescaped = {0};
    struct json_reader json;
    struct json_text name, text;
    struct server_facts facts = {0};
    json_reader_init(&json, status_body->data, status_body->length, &unescaped, JSON_DEPTH);
    bool going = json_object_begin(&json);
    while (going && json_object_next(&json, &name)) {
        bool keeps = true;
        if (json_text_is(name, "version") && json_string(&json, &text))
            snprintf(facts.version, sizeof(facts.version), "%.*s", (int)text.length, text.text);
        else if (json_text_is(name, "time_ms"))
            going = json_uint64(&json, &facts.time_ms);
        else if (json_text_is(name, "ready"))
            going = json_bool(&json, &facts.ready);
        else if (json_text_is(name, "kept") && json_peek(&json) == JSON_BOOL)
            going = json_bool(&json, &keeps);
        else
            going = json_skip(&json);
        facts.forgets = facts.forgets || !keeps;
    }
    buffer_done(&unescaped);
    text_one_line(facts.version);
    *ret_facts = facts;
}

enum kvs_status namespaces_none(const char *ns, const uint64_t *rank, const char *place,
                                struct kvs_error *error)
{
    struct buffer what = {0};
    if (ns != NULL)
        buffer_append_format(&what, "'%s'%s", ns, rank != NULL ? " " : "");
    if (rank != NULL)
        buffer_append_format(&what, "of rank %" PRIu64, *rank);
    enum kvs_status status = error_set(error, KVS_ERR_NAMESPACE_NONE, buffer_text(&what), place);
    buffer_done(&what);
    return status;
}

/* ---- Printing --------------------------------------------------------------------------------*/

static void print_heading(void)
{
    printf("%10s  %-24s %14s %14s %12s %12s %14s  %s\n", "rank", "namespace", "pages", "committed",
           "reserved", "retired", "free", "page size");
}

static void print_row(uint64_t rank, const char *ns, const struct namespace_row *row)
{
    printf("%10" PRIu64 "  %-24s %14s %14s %12s %12s %14s  %s\n", rank, ns, COUNT(row->num_pages),
           COUNT(row->pages.committed), COUNT(row->pages.reserved), COUNT(row->pages.retired),
           COUNT(row->pages.free),
           row->bytes_per_page == 0 ? "not stated" : BYTES(row->bytes_per_page));
}

/* The rows so far; the heading comes with the first. With --json they are collected. */
struct rows {
    size_t count;
    bool as_json;
    struct buffer out;
    struct json_writer json; /* into `out` */
};

static void rows_begin(struct rows *rows, bool as_json)
{
    *rows = (struct rows){.as_json = as_json};
    rows->json.out = &rows->out;
    json_write_object_begin(&rows->json);
    json_write_name(&rows->json, "namespaces");
    json_write_array_begin(&rows->json);
}

static enum kvs_status print_one(struct rows *rows, const struct namespace_row *row,
                                 struct kvs_error *error)
{
    struct buffer ns = {0};
    buffer_append(&ns, row->ns.text, row->ns.length);
    if (ns.failed)
        return error_set(error, KVS_ERR_NO_MEMORY, "listing namespaces");
    buffer_text(&ns);
    text_one_line(ns.data);
    if (rows->count == 0)
        print_heading();
    print_row(row->rank, ns.data, row);
    buffer_done(&ns);
    return KVS_OK;
}

static enum kvs_status rows_add(void *arg, const struct namespace_row *row, struct kvs_error *error)
{
    struct rows *rows = arg;
    enum kvs_status status = KVS_OK;
    if (rows->as_json) {
        json_write_object_begin(&rows->json);
        namespace_row_write(&rows->json, row);
        json_write_object_end(&rows->json);
    } else {
        status = print_one(rows, row, error);
    }
    rows->count++;
    return status;
}

/* Prints what is left to print, if all went well. */
static enum kvs_status rows_end(struct rows *rows, enum kvs_status status, struct kvs_error *error)
{
    json_write_array_end(&rows->json);
    json_write_object_end(&rows->json);
    if (status == KVS_OK && rows->as_json)
        status = output_buffer(stdout, &rows->out, error);
    else if (status == KVS_OK && rows->count == 0)
        puts("No namespaces."); /* there may have been some: dropped, or forgotten by a restart
                                   without --data-dir */
    buffer_done(&rows->out);
    return status;
}

/* ---- Servers ---------------------------------------------------------------------------------*/

/* With --json nothing is said while it is waited for. */
static enum kvs_status ask_status(const char *url, const char *token_file, bool as_json,
                                  struct buffer *ret_body, struct kvs_error *error)
{
    struct server_client *client;
    enum kvs_status status = server_client_open(url, token_file, &client, error);
    if (status != KVS_OK)
        return status;
    if (!as_json)
        server_client_say_waiting(client);
    status = server_client_ask(client, "/api/status", NULL, ret_body, error);
    server_client_close(client);
    return status;
}

static void print_server(const struct buffer *body)
{
    struct server_facts facts;
    server_facts_read(body, &facts);
    if (facts.version[0] != '\0')
        printf("kvshelf %s%s\n", facts.version,
               !facts.ready    ? ", loading its catalogs"
               : facts.forgets ? ", in memory only: a restart forgets every page (no --data-dir)"
                               : ", keeps its catalogs (--data-dir)");
}

static enum kvs_status list_url(const char *url, const char *token_file, bool as_json, bool server,
                                struct kvs_error *error)
{
    struct buffer body = {0};
    struct rows rows;
    enum kvs_status status = ask_status(url, token_file, as_json, &body, error);
    if (status == KVS_OK && server)
        print_server(&body);
    if (status == KVS_OK) {
        rows_begin(&rows, as_json);
        status = namespaces_read(&body, rows_add, &rows, error);
        status = rows_end(&rows, status, error);
    }
    buffer_done(&body);
    return status;
}

static enum kvs_status print_status(const char *url, const char *token_file,
                                    struct kvs_error *error)
{
    struct buffer body = {0};
    enum kvs_status status = ask_status(url, token_file, true, &body, error);
    if (status == KVS_OK)
        status = output_buffer(stdout, &body, error);
    buffer_done(&body);
    return status;
}

int namespaces_stat(const struct cli *cli, const char *url, const char *token_file)
{
    struct kvs_error error;
    enum kvs_status status = cli_json(cli) ? print_status(url, token_file, &error)
                                           : list_url(url, token_file, false, true, &error);
    return status == KVS_OK ? CLI_OK : cli_fail(cli, &error);
}

/* ---- Directories -----------------------------------------------------------------------------*/

static enum kvs_status list_dir(const char *path, bool as_json, struct kvs_error *error)
{
    struct stat_dir dir;
    struct rows rows;
    enum kvs_status status = stat_dir_read(path, &dir, error);
    rows_begin(&rows, as_json);
    for (size_t i = 0; status == KVS_OK && i < dir.num_catalogs; i++) {
        const struct stat_catalog *catalog = &dir.catalogs[i];
        const struct namespace_row row = stat_catalog_row(catalog);
        status = catalog->error.status;
        if (status == KVS_OK)
            status = rows_add(&rows, &row, error);
        else
            *error = catalog->error;
    }
    status = rows_end(&rows, status, error);
    stat_dir_done(&dir);
    return status;
}

/* ---- Dropping --------------------------------------------------------------------------------*/

static enum kvs_status drop_url(const char *url, const char *token_file, bool as_json,
                                uint64_t rank, const char *ns, struct kvs_error *error)
{
    struct server_client *client;
    struct buffer request = {0}, answer = {0};
    char path[48];
    enum kvs_status status = server_client_open(url, token_file, &client, error);
    if (status != KVS_OK)
        return status;
    struct json_writer json = {.out = &request};
    json_write_object_begin(&json);
    json_member_text(&json, "namespace", ns);
    json_write_object_end(&json);
    if (!as_json)
        server_client_say_waiting(client);
    snprintf(path, sizeof(path), "/%" PRIu64 "/drop", rank);
    status = request.failed
                 ? error_set(error, KVS_ERR_NO_MEMORY, "asking a server")
                 : server_client_ask(client, path, buffer_text(&request), &answer, error);
    /* A refusal, not a path that the server does not know. */
    if (status == KVS_ERR_REMOTE_REFUSED && server_client_http_status(client) == 404)
        status = namespaces_none(ns, &rank, server_client_url(client), error);
    buffer_done(&request);
    buffer_done(&answer);
    server_client_close(client);
    return status;
}

/* By the names of files, so that one whose image is damaged is found, too. */
static enum kvs_status find_in_dir(const struct stat_dir *dir, uint64_t rank, const char *ns,
                                   struct kvs_error *error)
{
    char name[IMAGE_NAME_BYTES];
    if (!image_file_name((uint32_t)rank, ns, name))
        return error_set(error, KVS_ERR_NO_MEMORY, "looking for a namespace");
    for (size_t i = 0; i < dir->num_catalogs; i++)
        if (strcmp(dir->catalogs[i].file, name) == 0)
            return KVS_OK;
    return namespaces_none(ns, &rank, dir->path, error);
}

/* The directory is opened as a server would, so that one that is in use is refused. */
static enum kvs_status drop_dir(const char *path, uint64_t rank, const char *ns,
                                struct kvs_error *error)
{
    struct stat_dir dir;
    struct registry *registry;
    enum kvs_status status = stat_dir_read(path, &dir, error); /* which never creates it */
    if (status == KVS_OK)
        status = find_in_dir(&dir, rank, ns, error); /* nor is it locked for nothing */
    stat_dir_done(&dir);
    if (status != KVS_OK)
        return status;
    const struct registry_options options = {.dir = path, .log = {output_log, NULL}};
    status = registry_open(&options, &registry, error);
    if (status != KVS_OK)
        return status;
    status = registry_drop(registry, (uint32_t)rank, ns, error);
    registry_close(registry);
    return status;
}

static enum kvs_status print_dropped(const struct cli *cli, uint64_t rank, const char *ns,
                                     struct kvs_error *error)
{
    if (!cli_json(cli)) {
        printf("Dropped rank %" PRIu64 " namespace '%s'.\n", rank, ns);
        return KVS_OK;
    }
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_write_object_begin(&json);
    json_member_uint64(&json, "rank", rank);
    json_member_text(&json, "namespace", ns);
    json_member_text(&json, "result", "dropped");
    json_write_object_end(&json);
    enum kvs_status status = output_buffer(stdout, &out, error);
    buffer_done(&out);
    return status;
}

static enum kvs_status drop(const struct cli *cli, const char *place, const char *token_file,
                            struct kvs_error *error)
{
    uint64_t rank = 0;
    if (cli_argument_count(cli) != 4)
        return error_set(error, KVS_ERR_USAGE_ARGUMENTS, "namespaces",
                         "drop needs a rank and a namespace: drop URL|DIR RANK NAMESPACE");
    const char *ns = cli_argument(cli, 3);
    const char *problem = text_parse_uint64(cli_argument(cli, 2), &rank);
    if (problem == NULL && rank > UINT32_MAX)
        problem = "it must be from 0 to 4294967295";
    enum kvs_status status = KVS_OK;
    if (problem != NULL)
        status = error_set(error, KVS_ERR_USAGE_VALUE, "RANK", cli_argument(cli, 2), problem);
    if (status == KVS_OK && server_client_is_url(place))
        status = drop_url(place, token_file, cli_json(cli), rank, ns, error);
    else if (status == KVS_OK)
        status = drop_dir(place, rank, ns, error);
    return status == KVS_OK ? print_dropped(cli, rank, ns, error) : status;
}

/* ---- The command -----------------------------------------------------------------------------*/

static int run(const struct cli *cli)
{
    struct kvs_error error;
    const char *verb = cli_argument(cli, 0), *place = cli_argument(cli, 1);
    const char *token_file = cli_text(cli, "token-file", NULL);
    enum kvs_status status;
    if (strcmp(verb, "drop") == 0)
        status = drop(cli, place, token_file, &error);
    else if (strcmp(verb, "list") != 0)
        status = error_set(&error, KVS_ERR_USAGE_ARGUMENTS, "namespaces",
                           "the first argument is list or drop");
    else if (cli_argument_count(cli) > 2)
        status = error_set(&error, KVS_ERR_USAGE_ARGUMENTS, "namespaces",
                           "list takes one URL or directory");
    else if (server_client_is_url(place))
        status = list_url(place, token_file, cli_json(cli), false, &error);
    else
        status = list_dir(place, cli_json(cli), &error);
    return status == KVS_OK ? CLI_OK : cli_fail(cli, &error);
}

static const struct cli_option options[] = {
    {"token-file", "FILE", "The server's token, one line. Default: none."},
    {0},
};

const struct cli_command cli_namespaces = {
    .name = "namespaces",
    .arguments = "list|drop URL|DIR [RANK NAMESPACE]",
    .summary = "list the namespaces of a server or a directory, or drop one",
    .about =
        "URL is that of a running server, DIR the --data-dir of one that is stopped (list reads "
        "one in use as well) or the metadata_dir of a store.\n"
        "\n"
        "Dropping forgets every key of one rank and namespace, and its kept files. The page file "
        "stays as it is. Clients get 404 until one calls initialize again, with whatever "
        "geometry.\n"
        "\n"
        "The list with --json is the same for both; kvshelf stat --json says more of each.",
    .examples = "kvshelf namespaces list http://127.0.0.1:18000\n"
                "kvshelf namespaces list /var/lib/kvshelf --json\n"
                "kvshelf namespaces drop http://127.0.0.1:18000 0 kv",
    .options = options,
    .arguments_min = 2,
    .arguments_max = 4,
    .json = true,
    .run = run,
};
