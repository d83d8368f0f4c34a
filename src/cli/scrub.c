/* `kvshelf scrub`: the command line in, the report out. */
#include "cli/scrub.h"

#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/workplace.h"
#include "store/config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_DEFAULT = 8, THREADS_MAX = 256, PAGES_SHOWN = 8 };

/* What failed, or what is wrong and still there. */
static enum kvs_status judge(const struct scrub_catalog *catalog, struct kvs_error *error)
{
    uint64_t left = catalog->wrong - catalog->dropped + catalog->unreadable;
    if (catalog->error.status != KVS_OK) {
        *error = catalog->error;
        return error->status;
    }
    return left == 0 ? KVS_OK : error_set(error, KVS_ERR_WRONG_BYTES, catalog->path, NUM(left));
}

/* ---- For people ------------------------------------------------------------------------------*/

static void print_pages(const char *name, uint64_t pages, uint64_t page_bytes)
{
    printf("  %-14s %14s page%s", name, COUNT(pages), pages == 1 ? "" : "s");
    if (page_bytes != 0 && pages != 0)
        printf("  %s", BYTES(pages * page_bytes));
    putchar('\n');
}

static void print_wrong(const struct scrub_catalog *catalog)
{
    printf("  %-14s %14s page%s  (", "wrong", COUNT(catalog->wrong),
           catalog->wrong == 1 ? "" : "s");
    for (uint64_t i = 0; i < catalog->wrong && i < PAGES_SHOWN; i++)
        printf("%s%" PRIu32, i == 0 ? "" : ", ", catalog->found[i].page);
    puts(catalog->wrong > PAGES_SHOWN ? ", ...)" : ")");
}

static void print_catalog(struct scrub_catalog *catalog)
{
    text_one_line(catalog->ns);
    printf("\nrank %" PRIu32 ", namespace %s\n", catalog->rank, catalog->ns);
    if (catalog->path != NULL)
        printf("  %-14s %s%s%s%s%s%s\n", "page file", catalog->path,
               catalog->engine[0] != '\0' ? " (" : "", catalog->filesystem,
               catalog->engine[0] != '\0' ? ", " : "", catalog->engine,
               catalog->engine[0] == '\0' ? ""
               : catalog->direct          ? ", O_DIRECT)"
                                          : ")");
    print_pages("committed", catalog->committed, catalog->bytes_per_page);
    print_pages("verified", catalog->verified, catalog->bytes_per_page);
    if (catalog->unchecked > 0)
        print_pages("no checksum", catalog->unchecked, catalog->bytes_per_page);
    if (catalog->wrong > 0)
        print_wrong(catalog);
    if (catalog->dropped > 0)
        print_pages("dropped", catalog->dropped, 0);
    if (catalog->unreadable > 0)
        printf("  %-14s %14s page%s  (first: %s)\n", "unreadable", COUNT(catalog->unreadable),
               catalog->unreadable == 1 ? "" : "s", strerror(catalog->read_errno));
    if (catalog->bytes > 0)
        printf("  %-14s %s in %s, %s\n", "read", BYTES(catalog->bytes),
               DURATION_NS(catalog->duration_ns),
               RATE((double)catalog->bytes * 1e9 / (double)(catalog->duration_ns + 1)));
    if (catalog->error.status != KVS_OK)
        printf("  %-14s see below\n", "failed");
}

static enum kvs_status print_report(const char *dir, struct scrub_report *report,
                                    struct kvs_error *error)
{
    printf("%s: %zu catalog%s%s\n", dir, report->count, report->count == 1 ? "" : "s",
           report->stopped ? ", stopped before the end" : "");
    for (size_t i = 0; i < report->count; i++)
        print_catalog(&report->catalogs[i]);
    return output_flush(stdout, error);
}

/* ---- For programs ----------------------------------------------------------------------------*/

static void write_catalog(struct json_writer *json, const struct scrub_catalog *catalog)
{
    json_write_object_begin(json);
    json_member_uint64(json, "rank", catalog->rank);
    json_member_text(json, "namespace", catalog->ns);
    json_member_text(json, "page_file", catalog->path);
    json_member_uint64(json, "bytes_per_page", catalog->bytes_per_page);
    json_member_uint64(json, "committed", catalog->committed);
    json_member_uint64(json, "verified", catalog->verified);
    json_member_uint64(json, "without_checksum", catalog->unchecked);
    json_member_uint64(json, "wrong", catalog->wrong);
    json_member_uint64(json, "unreadable", catalog->unreadable);
    json_member_uint64(json, "dropped", catalog->dropped);
    json_write_name(json, "wrong_pages");
    json_write_array_begin(json);
    for (uint64_t i = 0; i < catalog->wrong; i++)
        json_write_uint64(json, catalog->found[i].page);
    json_write_array_end(json);
    json_member_uint64(json, "bytes_read", catalog->bytes);
    json_member_uint64(json, "duration_ns", catalog->duration_ns);
    struct kvs_error error;
    bool good = judge(catalog, &error) == KVS_OK;
    json_member_text(json, "error", good ? NULL : error.message);
    json_member_text(json, "symbol", good ? NULL : kvs_status_name(error.status));
    json_write_object_end(json);
}

static enum kvs_status print_json(const char *dir, const struct scrub_report *report,
                                  struct kvs_error *error)
{
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_write_object_begin(&json);
    json_member_text(&json, "dir", dir);
    json_member_bool(&json, "complete", !report->stopped);
    json_write_name(&json, "catalogs");
    json_write_array_begin(&json);
    for (size_t i = 0; i < report->count; i++)
        write_catalog(&json, &report->catalogs[i]);
    json_write_array_end(&json);
    json_write_object_end(&json);
    enum kvs_status status = output_buffer(stdout, &out, error);
    buffer_done(&out);
    return status;
}

/* ---- What was asked for ----------------------------------------------------------------------*/

/* A directory, a configuration, or what the engine's variable names. */
static enum kvs_status read_config(const struct cli *cli, struct store_config *config,
                                   bool *ret_read, struct kvs_error *error)
{
    struct kvs_store_options options;
    kvs_store_options_init(&options);
    options.log = output_log;
    const char *path = cli_text(cli, "config", NULL);
    enum kvs_status status = config_copy(config, &options, error);
    if (status != KVS_OK)
        return status;
    if (path != NULL)
        status = config_read_file(config, path, error);
    else if (cli_argument_count(cli) == 0)
        status = config_read_env(config, &path, error);
    *ret_read = path != NULL;
    return status;
}

static enum kvs_status read_request(const struct cli *cli, const struct store_config *config,
                                    bool configured, struct scrub_request *request,
                                    struct kvs_error *error)
{
    uint64_t threads = THREADS_DEFAULT;
    enum kvs_status status = cli_count(cli, "threads", 1, THREADS_MAX, "threads", &threads, error);
    if (status != KVS_OK)
        return status;
    *request = (struct scrub_request){
        .dir = cli_argument_count(cli) > 0 ? cli_argument(cli, 0) : NULL,
        .prefix = cli_text(cli, "prefix", configured ? config->options.file_path_prefix : NULL),
        .threads = (uint32_t)threads,
        .repair = cli_has(cli, "repair"),
        .log = {output_log, NULL},
    };
    if (request->dir == NULL && configured)
        request->dir = config->options.metadata_dir;
    if (request->dir != NULL)
        return KVS_OK;
    return error_set(
        error, KVS_ERR_USAGE_ARGUMENTS, "scrub",
        !configured ? "name a directory of catalogs, or the engine's configuration with --config"
        : config->options.metadata_server_url != NULL
            ? "the configuration leads to a server, which has the catalogs: stop it "
              "and name its --data-dir as DIR"
            : "the configuration has no metadata_dir, so no catalog is kept and there "
              "is nothing to verify");
}

/* ---- The command -----------------------------------------------------------------------------*/

static bool show_progress(void *arg, uint64_t pages, uint64_t total, uint64_t bytes)
{
    struct progress *progress = arg;
    progress->total = total;
    progress->bytes = bytes;
    progress_update(progress, pages);
    return workplace_stop_signal() == 0;
}

/* What is wrong and still there, on stderr; false when something is. */
static bool say_what_is_left(const struct scrub_report *report)
{
    bool good = true;
    struct kvs_error error;
    for (size_t i = 0; i < report->count; i++) {
        if (judge(&report->catalogs[i], &error) != KVS_OK) {
            output_error(stderr, false, &error);
            good = false;
        }
    }
    return good;
}

static enum kvs_status scrub(const struct cli *cli, bool *ret_good, struct kvs_error *error)
{
    struct store_config config = {0};
    struct scrub_request request;
    struct scrub_report report = {0};
    struct progress progress;
    bool configured = false;
    enum kvs_status status = read_config(cli, &config, &configured, error);
    if (status == KVS_OK)
        status = read_request(cli, &config, configured, &request, error);
    if (status == KVS_OK) {
        workplace_catch_signals();
        progress_begin(&progress, "verifying", "pages", 0, cli_json(cli));
        status = scrub_run(&request, show_progress, &progress, &report, error);
        progress_end(&progress);
    }
    if (status == KVS_OK)
        status = cli_json(cli) ? print_json(request.dir, &report, error)
                               : print_report(request.dir, &report, error);
    if (status == KVS_OK)
        *ret_good = say_what_is_left(&report);
    scrub_report_done(&report);
    config_done(&config);
    return status;
}

static int run(const struct cli *cli)
{
    struct kvs_error error;
    bool good = false;
    if (scrub(cli, &good, &error) != KVS_OK)
        return cli_fail(cli, &error);
    if (workplace_stop_signal() != 0)
        return 128 + workplace_stop_signal();
    return good ? CLI_OK : CLI_FAILED;
}

static const struct cli_option options[] = {
    {"config", "F",
     "The engine's configuration file: its metadata_dir and file_path_prefix. Default, without "
     "DIR: "
     "what SGLANG_HICACHE_HF3FS_CONFIG_PATH names."},
    {"prefix", "PATH",
     "The engine's file_path_prefix. Default: that of the configuration, else the page files are "
     "looked for in DIR."},
    {"repair", NULL,
     "Drop the pages that are wrong, so that an engine computes and stores them anew. Pages that "
     "cannot be read are not dropped."},
    {"threads", "N", "Threads that read. Default 8."},
    {0},
};

const struct cli_command cli_scrub = {
    .name = "scrub",
    .arguments = "[DIR]",
    .summary = "verify every page at rest, and drop what is wrong",
    .about =
        "Reads every committed page of every kept catalog from its page file and compares its "
        "checksum. DIR is the metadata_dir of a store, the --dir of a replay or the --data-dir of "
        "a "
        "server; what uses it must be stopped, and the directory is locked meanwhile. Page files "
        "are only read.\n"
        "\n"
        "A page is wrong when it was read twice, from the storage, and holds other bytes than were "
        "confirmed, or lies behind the end of the file. An engine takes such a page as a miss and "
        "drops it too: scrub finds it before, and tells how much of a disk can be believed. Pages "
        "confirmed without a checksum cannot be verified and are counted.\n"
        "\n"
        "With --repair nothing is dropped where not one page of several is right: that is most "
        "likely another file. Ctrl-C ends the reading; what was found so far counts.",
    .examples = "kvshelf scrub --config /etc/kvshelf/hf3fs.json\n"
                "kvshelf scrub /var/lib/kvshelf --prefix /data/hicache --repair\n"
                "kvshelf scrub build/demo/store --json | jq '.catalogs[].wrong'",
    .exit_codes = "0  every page with a checksum holds its bytes, or was dropped with --repair\n"
                  "1  wrong or unreadable pages are left, or it could not be done\n"
                  "2  wrong arguments\n"
                  "130, 143  stopped by Ctrl-C or SIGTERM",
    .options = options,
    .arguments_max = 1,
    .json = true,
    .run = run,
};
