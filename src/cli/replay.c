/* `kvshelf replay`: a request trace served from pages, every byte that comes back checked. */
#include "cli/replay.h"

#include "base/status.h"
#include "base/text.h"
#include "catalog/catalog.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/stat_read.h"
#include "cli/workplace.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGES_DEFAULT = 5000, PAGE_BYTES_DEFAULT = 256 << 10, PAGE_BYTES_MAX = 1 << 30 };

struct replay_arguments {
    const char *trace;
    uint64_t capacity_pages, page_bytes, batch, limit;
    size_t eviction; /* enum kvs_eviction */
    const char *dir; /* NULL: a temporary one */
    bool no_io;
};

static enum kvs_status read_arguments(const struct cli *cli, struct replay_arguments *arguments,
                                      struct kvs_error *error)
{
    static const char *const evictions[] = {"prefix", "lru", NULL}; /* as enum kvs_eviction */
    *arguments = (struct replay_arguments){
        .trace = cli_argument(cli, 0),
        .capacity_pages = PAGES_DEFAULT,
        .page_bytes = PAGE_BYTES_DEFAULT,
        .dir = cli_text(cli, "dir", NULL),
        .no_io = cli_has(cli, "no-io"),
    };
    enum kvs_status status = cli_count(cli, "capacity-pages", 1, CATALOG_PAGES_MAX, "pages",
                                       &arguments->capacity_pages, error);
    if (status == KVS_OK)
        status = cli_bytes(cli, "page-bytes", 1, PAGE_BYTES_MAX, &arguments->page_bytes, error);
    if (status == KVS_OK)
        status = cli_count(cli, "batch", 1, TRACE_IDS_MAX, "pages", &arguments->batch, error);
    if (status == KVS_OK)
        status = cli_count(cli, "limit", 1, SIZE_MAX / 2, "requests", &arguments->limit, error);
    if (status == KVS_OK)
        status = cli_choice(cli, "eviction", evictions, &arguments->eviction, error);
    if (status == KVS_OK && arguments->no_io && arguments->dir != NULL)
        status =
            error_set(error, KVS_ERR_USAGE_ARGUMENTS, "replay",
                      "--no-io keeps nothing on disk, so --dir says nothing; give one of them");
    return status;
}

static bool show_progress(void *arg, size_t requests_done, size_t requests)
{
    (void)requests;
    progress_update(arg, requests_done);
    return workplace_stop_signal() == 0;
}

static enum kvs_status report(const struct cli *cli, const struct replay_arguments *arguments,
                              const struct trace *trace, struct replay_result *result,
                              struct kvs_error *error)
{
    if (!cli_json(cli)) {
        replay_print(stdout, trace, result, !arguments->no_io);
        return output_flush(stdout, error);
    }
    struct buffer json = {0};
    replay_write_json(&json, result, !arguments->no_io);
    enum kvs_status status = output_buffer(stdout, &json, error);
    buffer_done(&json);
    return status;
}

/* The buffers hold one batch. Without a bound a trace with one huge request could take all memory.
 */
static enum kvs_status check_memory(const struct replay_arguments *arguments, size_t batch,
                                    struct kvs_error *error)
{
    uint64_t half = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    if (arguments->no_io || batch <= half / arguments->page_bytes)
        return KVS_OK;
    struct buffer problem = {0};
    buffer_append_format(
        &problem,
        "a batch of %zu page%s of %s takes more than half of this machine's memory; "
        "give --batch N",
        batch, batch == 1 ? "" : "s", BYTES(arguments->page_bytes));
    enum kvs_status status =
        error_set(error, KVS_ERR_USAGE_ARGUMENTS, "replay", buffer_text(&problem));
    buffer_done(&problem);
    return status;
}

/* What an earlier run has left in a directory. Another geometry is refused here already: a store
 * would find it only after it has made the page file as large as it was told. */
static enum kvs_status look_at_dir(const struct replay_arguments *arguments,
                                   const struct workplace *place, uint64_t *ret_pages,
                                   struct kvs_error *error)
{
    *ret_pages = 0;
    if (place->path == NULL || place->temporary)
        return KVS_OK;
    struct stat_dir dir;
    enum kvs_status status = stat_dir_read(place->path, &dir, NULL);
    /* Whatever else there is to say of the directory the store will say. */
    bool nothing_there = status != KVS_OK;
    status = KVS_OK;
    for (size_t i = 0; !nothing_there && i < dir.num_catalogs; i++) {
        const struct image_header *header = &dir.catalogs[i].header;
        if (dir.catalogs[i].error.status != KVS_OK || header->rank != 0 ||
            strcmp(header->ns, "kv") != 0)
            continue;
        *ret_pages = dir.catalogs[i].pages.committed;
        if (header->num_pages != arguments->capacity_pages ||
            (header->bytes_per_page != 0 && header->bytes_per_page != arguments->page_bytes))
            status = error_set(error, KVS_ERR_GEOMETRY_DIFFERS, "0", "kv", NUM(header->num_pages),
                               NUM(header->bytes_per_page), NUM(arguments->capacity_pages),
                               NUM(arguments->page_bytes));
    }
    stat_dir_done(&dir);
    return status;
}

/* What makes a replay that has come to its end a failed one. */
static enum kvs_status judge(const struct replay_result *result, const struct workplace *place,
                             struct kvs_error *error)
{
    if (result->wrong_bytes > 0)
        return error_set(error, KVS_ERR_WRONG_BYTES, place->path, NUM(result->wrong_pages));
    if (result->pages_failed > 0)
        return error_set(error, KVS_ERR_PAGES_NOT_WRITTEN, place->path, NUM(result->pages_failed),
                         result->pages_no_space > 0 ? "there is no space left"
                                                    : "writing failed, as said above");
    return KVS_OK;
}

static enum kvs_status replay_in(const struct cli *cli, const struct replay_arguments *arguments,
                                 const struct trace *trace, const struct workplace *place,
                                 struct kvs_error *error)
{
    size_t batch = trace->largest;
    if (arguments->batch != 0 && arguments->batch < batch)
        batch = (size_t)arguments->batch;
    enum kvs_status status = check_memory(arguments, batch, error);
    if (status != KVS_OK)
        return status;
    struct replay_target_options options = {
        .capacity_pages = (uint32_t)arguments->capacity_pages,
        .page_bytes = arguments->page_bytes,
        .batch_max = batch,
        .eviction = (enum kvs_eviction)arguments->eviction,
        .dir = place->path,
        .kept = !place->temporary,
        .log = {output_log, NULL},
    };
    struct replay_target *target = NULL;
    uint64_t pages_at_start;
    status = look_at_dir(arguments, place, &pages_at_start, error);
    if (status != KVS_OK)
        return status;
    status = arguments->no_io ? replay_memory_open(&options, &target, error)
                              : replay_store_open(&options, &target, error);
    if (status != KVS_OK)
        return status;
    struct progress progress;
    progress_begin(&progress, "replaying", "requests", trace->num_requests, cli_json(cli));
    struct replay_result result;
    status = replay_run(trace, target, batch, show_progress, &progress, &result, error);
    progress_end(&progress);
    result.pages_at_start = pages_at_start;
    target->ops->close(target);
    if (status == KVS_OK)
        status = report(cli, arguments, trace, &result, error);
    if (status == KVS_OK)
        status = judge(&result, place, error);
    replay_result_done(&result);
    return status;
}

/* Everything that can be wrong is found before anything is made: arguments, trace, space. */
static enum kvs_status replay(const struct cli *cli, struct kvs_error *error)
{
    struct replay_arguments arguments;
    struct trace trace = {0};
    struct workplace place = {0};
    enum kvs_status status = read_arguments(cli, &arguments, error);
    if (status == KVS_OK)
        status = trace_read(arguments.trace, (size_t)arguments.limit, &trace, error);
    if (status == KVS_OK && !arguments.no_io) {
        uint64_t bytes = arguments.capacity_pages * arguments.page_bytes;
        workplace_catch_signals();
        status = workplace_open(&place, arguments.dir, "pages.0.bin", bytes, error);
    }
    if (status == KVS_OK)
        status = replay_in(cli, &arguments, &trace, &place, error);
    workplace_close(&place);
    trace_done(&trace);
    return status;
}

static int run(const struct cli *cli)
{
    struct kvs_error error;
    enum kvs_status status = replay(cli, &error);
    /* Then the figures have been printed already, as JSON where asked. */
    if (status == KVS_ERR_WRONG_BYTES || status == KVS_ERR_PAGES_NOT_WRITTEN) {
        output_error(stderr, false, &error);
        return CLI_FAILED;
    }
    if (status != KVS_OK)
        return cli_fail(cli, &error);
    return workplace_stop_signal() != 0 ? 128 + workplace_stop_signal() : CLI_OK;
}

static const struct cli_option options[] = {
    {"capacity-pages", "N", "Pages the store may hold. Default 5000."},
    {"page-bytes", "BYTES", "Bytes of a page, 1 to 1GiB. Default 256KiB."},
    {"eviction", "ORDER",
     "What is given up first: 'prefix' (the ends of prefixes go before their beginnings) or 'lru' "
     "(the "
     "original's order). Default prefix."},
    {"batch", "N",
     "Most pages of one call, as an engine would split a request. Default: a request is one call."},
    {"dir", "DIR",
     "Keep pages and catalog in this directory; a second run there starts warm. Default: a "
     "temporary "
     "directory under $TMPDIR or /tmp, removed at the end."},
    {"no-io", NULL,
     "Only the index: no page is written or read. Hit ratios are the same, in seconds."},
    {"limit", "N", "Only the first N requests of the trace. Default: all."},
    {0},
};

const struct cli_command cli_replay = {
    .name = "replay",
    .arguments = "TRACE.jsonl",
    .summary = "serve a request trace from pages and check every byte",
    .about = "Each line of the trace is a request, one JSON object with hash_ids, one id for each "
             "block of 512 "
             "tokens, and input_length, in tokens. The traces published by the Mooncake project "
             "have this "
             "form. Equal ids mean equal prefixes. TRACE.jsonl may be -, standard input.\n"
             "\n"
             "Every id is a page with one key and bytes of its own. A request first asks for all "
             "its pages; "
             "those present from its beginning on are its hit. Then it stores all of them. Bytes "
             "that are read "
             "are compared with those that were stored.\n"
             "\n"
             "The whole trace is checked before anything is written. Ctrl-C ends the replay after "
             "the request "
             "under way, prints the figures so far and removes the temporary directory.",
    .examples = "kvshelf replay conversation_trace.jsonl --no-io --capacity-pages 10000\n"
                "kvshelf replay conversation_trace.jsonl --limit 1000 --dir /var/tmp/pages\n"
                "kvshelf replay trace.jsonl --no-io --json | jq .hit_ratio",
    .exit_codes = "0  every byte read was the byte stored\n"
                  "1  it could not be done, or bytes were wrong\n"
                  "2  wrong arguments\n"
                  "130, 143  stopped by Ctrl-C or SIGTERM",
    .options = options,
    .arguments_min = 1,
    .arguments_max = 1,
    .json = true,
    .run = run,
};
