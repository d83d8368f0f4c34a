/* kvshelf get, set and delete: one page through the store that a configuration describes, for
 * looking and for repair. They open the store to inspect, so that they create none: a namespace
 * that set made would have to state the identity as the engine will, to be refused to an engine of
 * another model and not to its own, and only the engine knows all of it.
 *
 * The identity (model, dtype, layout) is compared here, as far as the configuration states it: an
 * engine states more, and a store that stated a part would be taken for another model's. */
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/engine_options.h"
#include "cli/namespace_find.h"
#include "cli/output.h"
#include "cli/waiting.h"
#include "store/config.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct page {
    const struct cli *cli;
    const char *command, *key;
    bool writes;     /* stores a page, in a page file that may have to be made */
    bool unverified; /* a page without a checksum is there, too */
    struct store_config config;
    struct kvs_store *store;
    char *bytes;
    size_t length;
};

/* ---- The store ------------------------------------------------------------------------------ */

static enum kvs_status read_options(struct page *page, struct kvs_error *error)
{
    const struct cli *cli = page->cli;
    struct kvs_store_options options;
    enum kvs_status status = engine_options_read(cli, &options, error);
    if (status != KVS_OK)
        return status;
    options.log = output_log;
    options.file_path_prefix = "";
    status = cli_bytes(cli, "bytes-per-page", 1, UINT64_C(1) << 30, &options.bytes_per_page, error);
    if (status == KVS_OK && !cli_has(cli, "bytes-per-page"))
        status = error_set(
            error, KVS_ERR_USAGE_ARGUMENTS, page->command,
            "give --bytes-per-page N, which kvshelf stat --json shows (of SGLang's own class: "
            "file_size / num_pages, which the engine logs at start)");
    if (status == KVS_OK)
        status = config_copy(&page->config, &options, error);
    const char *path = cli_text(cli, "config", NULL);
    if (status == KVS_OK)
        status = path != NULL ? config_read_file(&page->config, path, error)
                              : config_read_env(&page->config, &path, error);
    if (status == KVS_OK && path == NULL)
        status = error_set(error, KVS_ERR_USAGE_ARGUMENTS, page->command,
                           "give --config FILE, or set " CONFIG_PATH_VARIABLE);
    if (status == KVS_OK)
        status = config_check_ranks(&page->config.options, error);
    return status;
}

/* An index that lives in the memory of an engine cannot be looked into. */
static enum kvs_status check_place(const struct kvs_store_options *options, struct kvs_error *error)
{
    if (options->metadata_server_url != NULL || options->metadata_dir != NULL)
        return KVS_OK;
    return error_set(error, KVS_ERR_CONFIG_VALUE, "(none)", "metadata_dir",
                     "the index of this configuration is in the memory of the engine, where "
                     "no command can look; metadata_dir or metadata_server_url would show it");
}

static enum kvs_status say_none(const struct page *page, struct kvs_error *error)
{
    return namespace_none(
        &page->config.options,
        page->writes ? ", and set makes none: start the engine once, which does" : "", error);
}

/* Is the namespace there, and is it of this configuration? */
static enum kvs_status check_namespace(const struct page *page, struct kvs_error *error)
{
    const struct kvs_store_options *options = &page->config.options;
    enum namespace_presence presence = NAMESPACE_UNKNOWN;
    uint64_t num_pages = 0;
    enum kvs_status status =
        config_check_geometry("kv", options->bytes_per_page, options->file_size, &num_pages, error);
    if (status == KVS_OK)
        status = namespace_find(options, num_pages, &presence, error);
    if (status == KVS_OK && presence == NAMESPACE_ABSENT)
        status = say_none(page, error);
    return status;
}

/* The store as page->config says; a lookup takes the time that any other question has. */
static enum kvs_status open_as_configured(struct page *page, struct kvs_error *error)
{
    const struct kvs_store_options *options = &page->config.options;
    const struct store_parts parts = {.exists_timeout_ms =
                                          (uint64_t)(options->client_timeout * 1000 + 0.5),
                                      .stores_inspecting = page->writes};
    enum kvs_status status = store_open(options, &parts, &page->store, error);
    if (status == KVS_ERR_NOT_INITIALIZED || status == KVS_ERR_NOT_INITIALIZED_SERVER)
        status = say_none(page, error);
    return status;
}

static enum kvs_status open_checked(struct page *page, struct kvs_error *error)
{
    struct kvs_store_options *options = &page->config.options;
    enum kvs_status status = check_namespace(page, error);
    if (status != KVS_OK)
        return status;
    options->model = options->revision = options->dtype = options->layout = NULL;
    options->inspect = true;
    options->exists_cache_ms = 0; /* with it a lookup leases pages that have no checksum */
    if (page->unverified)
        options->verify = KVS_VERIFY_IF_KNOWN;
    return open_as_configured(page, error);
}

/* "waiting for ..."; empty when there is nobody to wait for, or programs read what is said. */
static void name_whom_it_waits_for(const struct page *page, struct buffer *out)
{
    const struct kvs_store_options *options = &page->config.options;
    char *url = NULL;
    if (options->metadata_server_url != NULL && !cli_json(page->cli))
        url = config_shown_url(options->metadata_server_url);
    if (url != NULL)
        buffer_append_format(out, "waiting for metadata server %s, %g s at most (client_timeout)",
                             url, options->client_timeout);
    free(url);
}

/* Reads what was asked for, and takes the memory of a page; opens nothing. */
static enum kvs_status prepare(struct page *page, struct kvs_error *error)
{
    enum kvs_status status = read_options(page, error);
    if (status == KVS_OK)
        status = check_place(&page->config.options, error);
    if (status != KVS_OK)
        return status;
    page->length = (size_t)page->config.options.bytes_per_page;
    page->bytes = aligned_alloc(4096, (page->length + 4095) & ~(size_t)4095); /* for O_DIRECT */
    return page->bytes != NULL ? KVS_OK : error_set(error, KVS_ERR_NO_MEMORY, "reading a page");
}

static enum kvs_status open_store(struct page *page, struct kvs_error *error)
{
    struct buffer line = {0};
    struct waiting waiting;
    name_whom_it_waits_for(page, &line);
    waiting_begin(&waiting, line.length == 0 ? NULL : buffer_text(&line));
    enum kvs_status status = open_checked(page, error);
    waiting_end(&waiting);
    buffer_done(&line);
    return status;
}

/* What came of it, for people and for programs. */
static enum kvs_status print_result(const struct page *page, const char *result, const char *words,
                                    struct kvs_error *error)
{
    if (!cli_json(page->cli)) {
        puts(words);
        return KVS_OK;
    }
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_write_object_begin(&json);
    json_member_text(&json, "key", page->key);
    json_member_text(&json, "result", result);
    json_member_uint64(&json, "bytes_per_page", page->length);
    json_write_object_end(&json);
    enum kvs_status status = output_buffer(stdout, &out, error);
    buffer_done(&out);
    return status;
}

static int finish(struct page *page, enum kvs_status status, const struct kvs_error *error)
{
    kvs_store_close(page->store);
    config_done(&page->config);
    free(page->bytes);
    return status == KVS_OK ? CLI_OK : cli_fail(page->cli, error);
}

/* ---- The bytes ------------------------------------------------------------------------------ */

static enum kvs_status bytes_fault(const char *path, const char *reason, struct kvs_error *error)
{
    return error_set(error, KVS_ERR_PAGE_BYTES, path, reason);
}

static enum kvs_status read_bytes(struct page *page, struct kvs_error *error)
{
    const char *path = cli_text(page->cli, "input", NULL);
    struct buffer content = {0};
    int fd = path == NULL ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (path == NULL)
        path = "standard input";
    if (fd < 0)
        return bytes_fault(path, strerror(errno), error);
    int failed = buffer_read_fd(&content, fd, page->length);
    if (fd != STDIN_FILENO)
        close(fd);
    char reason[96] = "";
    if (failed == EFBIG)
        snprintf(reason, sizeof(reason), "it has more than the %zu bytes of a page", page->length);
    else if (failed != 0)
        snprintf(reason, sizeof(reason), "%s", strerror(failed));
    else if (content.length != page->length)
        snprintf(reason, sizeof(reason), "it has %zu bytes, a page has %zu", content.length,
                 page->length);
    if (reason[0] == '\0')
        memcpy(page->bytes, content.data, page->length);
    buffer_done(&content);
    return reason[0] == '\0' ? KVS_OK : bytes_fault(path, reason, error);
}

static enum kvs_status write_bytes(struct page *page, struct kvs_error *error)
{
    const char *path = cli_text(page->cli, "output", NULL);
    FILE *out = path == NULL ? stdout : fopen(path, "wbe");
    if (out == NULL)
        return bytes_fault(path, strerror(errno), error);
    bool good = fwrite(page->bytes, 1, page->length, out) == page->length && fflush(out) == 0;
    int failure = errno;
    if (out != stdout && fclose(out) != 0 && good) {
        good = false;
        failure = errno;
    }
    return good ? KVS_OK
                : bytes_fault(path == NULL ? "standard output" : path, strerror(failure), error);
}

/* ---- The commands --------------------------------------------------------------------------- */

static const char *why_missed(const struct kvs_store_stats *stats)
{
    return stats->missed_mismatch > 0     ? "it holds other bytes than were confirmed"
           : stats->missed_replaced > 0   ? "it was replaced while it was read"
           : stats->missed_read_error > 0 ? "it cannot be read"
           : stats->missed_overdue > 0    ? "it could not be read within client_timeout"
           : stats->missed_metadata > 0   ? "the index did not answer"
           : stats->missed_absent > 0     ? "the index does not have the key"
                                          : "it was refused";
}

/* A page that nothing can verify is absent to a store that verifies: is it there to one that does
 * not? Ends the store that was open. */
static bool is_unverifiable(struct page *page)
{
    static enum kvs_log_level from = KVS_LOG_ERROR; /* what there is to warn of was said before */
    struct kvs_error error;
    bool there = false;
    page->store = kvs_store_close(page->store);
    if (page->config.options.verify != KVS_VERIFY_REQUIRED)
        return false;
    page->config.options.verify = KVS_VERIFY_IF_KNOWN;
    page->config.options.log_arg = &from;
    if (open_as_configured(page, &error) == KVS_OK)
        kvs_store_batch_contains(page->store, KVS_POOL_KV, 1, &page->key, &there);
    return there;
}

static enum kvs_status say_missed(struct page *page, const struct kvs_store_stats *stats,
                                  struct kvs_error *error)
{
    const char *reason = why_missed(stats);
    if (stats->missed_absent > 0 && is_unverifiable(page))
        reason = "the index has the key, but no checksum, as SGLang's own class states none: "
                 "nothing can verify the page, and verify is required";
    return error_set(error, KVS_ERR_PAGE_MISSED, page->key, reason);
}

static int run_get(const struct cli *cli)
{
    struct page page = {.cli = cli, .command = "get", .key = cli_argument(cli, 0)};
    struct kvs_error error;
    struct kvs_store_stats stats;
    bool loaded = false;
    if (cli_json(cli) && !cli_has(cli, "output")) {
        error_set(&error, KVS_ERR_USAGE_ARGUMENTS, page.command,
                  "--json needs --output FILE: else the bytes go to standard output");
        return cli_fail(cli, &error);
    }
    if (!cli_has(cli, "output") && isatty(STDOUT_FILENO)) {
        bytes_fault("standard output", "it is a terminal: give --output FILE, or redirect it",
                    &error);
        return cli_fail(cli, &error);
    }
    enum kvs_status status = prepare(&page, &error);
    if (status == KVS_OK)
        status = open_store(&page, &error);
    if (status == KVS_OK) {
        void *buffer = page.bytes;
        kvs_store_batch_get(page.store, KVS_POOL_KV, 1, &page.key, &buffer, &loaded);
        kvs_store_get_stats(page.store, &stats);
        status = loaded ? write_bytes(&page, &error) : say_missed(&page, &stats, &error);
    }
    if (status == KVS_OK && cli_json(cli))
        status = print_result(&page, "read", "", &error);
    return finish(&page, status, &error);
}

static const char *why_not_stored(const struct kvs_store_stats *stats)
{
    return stats->unstored_no_page > 0       ? "the index had no page to give"
           : stats->unstored_no_space > 0    ? "the file system is full"
           : stats->unstored_write_error > 0 ? "it cannot be written"
           : stats->unstored_overdue > 0     ? "it could not be written within client_timeout"
           : stats->unstored_metadata > 0    ? "the index did not answer"
           : stats->unstored_rejected > 0    ? "its reservation ended before it was confirmed"
                                             : "it was refused";
}

static int run_set(const struct cli *cli)
{
    struct page page = {.cli = cli, .command = "set", .key = cli_argument(cli, 0), .writes = true};
    struct kvs_error error;
    struct kvs_store_stats stats;
    bool stored = false;
    enum kvs_status status = prepare(&page, &error);
    if (status == KVS_OK)
        status = read_bytes(&page, &error);
    if (status == KVS_OK)
        status = open_store(&page, &error);
    if (status == KVS_OK) {
        const void *buffer = page.bytes;
        kvs_store_batch_set(page.store, KVS_POOL_KV, 1, &page.key, &buffer, &stored);
        kvs_store_get_stats(page.store, &stats);
        if (!stored)
            status = error_set(&error, KVS_ERR_PAGE_NOT_STORED, page.key, why_not_stored(&stats));
        else if (stats.pages_present > 0)
            status = print_result(&page, "present", "present already, left as it was", &error);
        else if (stats.pages_skipped > 0)
            status = print_result(&page, "skipped", "left to rank 0, which writes for all ranks",
                                  &error);
        else
            status = print_result(&page, "stored", "stored", &error);
    }
    return finish(&page, status, &error);
}

static int run_delete(const struct cli *cli)
{
    struct page page = {
        .cli = cli, .command = "delete", .key = cli_argument(cli, 0), .unverified = true};
    struct kvs_error error;
    bool present = false;
    enum kvs_status status = prepare(&page, &error);
    if (status == KVS_OK)
        status = open_store(&page, &error);
    if (status == KVS_OK) {
        kvs_store_batch_contains(page.store, KVS_POOL_KV, 1, &page.key, &present);
        status = kvs_store_delete(page.store, KVS_POOL_KV, 1, &page.key, &error);
    }
    if (status == KVS_OK)
        status = present ? print_result(&page, "deleted", "deleted", &error)
                         : print_result(&page, "absent", "was not there", &error);
    return finish(&page, status, &error);
}

/* ---- What they take ------------------------------------------------------------------------- */

/* clang-format off */
#define PLACE_OPTIONS                                                                              \
    {"bytes-per-page", "BYTES",                                                                    \
     "Bytes behind one key, as kvshelf stat --json shows them; of K or V alone in page_first "     \
     "layouts. A namespace of SGLang's own class has not stated them: file_size / num_pages, "     \
     "which the engine logs at start. Required."},                                                 \
    ENGINE_OPTIONS
/* clang-format on */

#define ABOUT_KEYS                                                                                 \
    "Where the configuration states model, revision, dtype or layout, they must be those of the "  \
    "pages that are there.\n\n"                                                                    \
    "The key is as the index has it: of models whose K and V are apart it ends in -k or -v. The "  \
    "index must be where another process can reach it: behind metadata_server_url, or in "         \
    "metadata_dir while no engine uses it."

static const struct cli_option get_options[] = {
    {"output", "FILE", "Where the bytes go; default: standard output, if that is no terminal."},
    PLACE_OPTIONS,
    {NULL, NULL, NULL},
};
static const struct cli_option set_options[] = {
    {"input", "FILE", "A file of exactly one page; default: standard input."},
    PLACE_OPTIONS,
    {NULL, NULL, NULL},
};
static const struct cli_option delete_options[] = {PLACE_OPTIONS, {NULL, NULL, NULL}};

const struct cli_command cli_get = {
    .name = "get",
    .arguments = "KEY",
    .summary = "the bytes of one page",
    .about = "Reads the page of a key and verifies it, as an engine does. Where there is no such "
             "namespace or page file it says so and makes none; a page that holds other bytes than "
             "were confirmed is left as it is. To the order of eviction it is a use of the "
             "page.\n\n" ABOUT_KEYS,
    .examples = "kvshelf get \"$KEY-k\" --bytes-per-page 4194304 --output k.bin\n"
                "kvshelf get \"$KEY\" --config f.json --bytes-per-page 4497408 --mla | sha256sum",
    .exit_codes = "0  the page was written out\n1  it is not there, or failed\n2  wrong arguments",
    .options = get_options,
    .arguments_min = 1,
    .arguments_max = 1,
    .json = true,
    .run = run_get,
};

const struct cli_command cli_set = {
    .name = "set",
    .arguments = "KEY",
    .summary = "store one page under a key",
    .about =
        "Stores one page. A key that is present keeps its bytes: delete it first. The namespace "
        "must be there, and none is made: start the engine once, which states of which model the "
        "pages are and what else only it knows. A page file that is not there is "
        "made.\n\n" ABOUT_KEYS,
    .examples = "kvshelf set \"$KEY-k\" --bytes-per-page 4194304 --input k.bin\n"
                "head -c 4096 /dev/urandom | kvshelf set trial --config f.json --bytes-per-page 4K",
    .exit_codes = "0  the page is there\n1  it was not stored\n2  wrong arguments",
    .options = set_options,
    .arguments_min = 1,
    .arguments_max = 1,
    .json = true,
    .run = run_set,
};

const struct cli_command cli_delete = {
    .name = "delete",
    .arguments = "KEY",
    .summary = "delete one page",
    .about = "Takes a key out of the index; its page is given to another key when nobody can be "
             "reading it any more, and says whether it was there. One that was not is no "
             "failure; a namespace that is not there is one, and none is made.\n\n" ABOUT_KEYS,
    .examples = "kvshelf delete \"$KEY-k\" --bytes-per-page 4194304",
    .exit_codes = "0  the key is not there (any more)\n"
                  "1  there is no such namespace, or it failed\n2  wrong arguments",
    .options = delete_options,
    .arguments_min = 1,
    .arguments_max = 1,
    .json = true,
    .run = run_delete,
};
