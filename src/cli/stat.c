/* `kvshelf stat`: the kept catalogs of a directory, in use or not. */
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/filesystem_text.h"
#include "cli/namespaces.h"
#include "cli/output.h"
#include "cli/stat_live.h"
#include "cli/stat_read.h"

#include <stdio.h>

/* ---- For people ------------------------------------------------------------------------------*/

static void print_pages(const char *name, uint64_t pages, const struct image_header *header)
{
    printf("  %-12s %14s page%s  %5.1f %%", name, COUNT(pages), pages == 1 ? " " : "s",
           100.0 * (double)pages / (double)header->num_pages);
    if (header->bytes_per_page != 0)
        printf("  %s", BYTES(pages * header->bytes_per_page));
    putchar('\n');
}

static void print_image(const struct stat_catalog *catalog, bool in_use)
{
    const struct image_header *header = &catalog->header;
    printf("  %-12s %s, written %s ago", "image", BYTES(catalog->image_bytes),
           DURATION_NS(catalog->written_ago_ms * 1000000));
    if (header->clean)
        puts(", closed by a clean stop");
    else if (in_use)
        puts("; while it is in use these figures follow up to some seconds behind");
    else
        puts(", not closed: the process was killed or runs where this one cannot see it. The next "
             "start takes what it left on /dev/shm");
    if (catalog->damaged > 0)
        printf("  %-12s %s slot%s with a wrong checksum, whose page rests after the next start\n",
               "damaged", COUNT(catalog->damaged), catalog->damaged == 1 ? "" : "s");
}

/* Names come from files: made harmless to a terminal before they are printed. */
static void print_catalog(const struct stat_dir *dir, struct stat_catalog *catalog)
{
    struct image_header *header = &catalog->header;
    text_one_line(catalog->file);
    text_one_line(header->ns);
    text_one_line(header->fingerprint);
    if (catalog->error.status != KVS_OK) {
        printf("\n%s: cannot be read, see below\n", catalog->file);
        return;
    }
    const char *plural = header->num_pages == 1 ? "" : "s";
    printf("\nrank %u, namespace %s  (%s)\n", header->rank, header->ns, catalog->file);
    if (header->bytes_per_page != 0)
        printf("  %-12s %14s page%s of %s, %s in all\n", "geometry", COUNT(header->num_pages),
               plural, BYTES(header->bytes_per_page),
               BYTES(header->num_pages * header->bytes_per_page));
    else
        printf("  %-12s %14s page%s, their size was never stated\n", "geometry",
               COUNT(header->num_pages), plural);
    print_pages("committed", catalog->pages.committed, header);
    print_pages("reserved", catalog->pages.reserved, header);
    print_pages("retired", catalog->pages.retired, header);
    print_pages("free", catalog->pages.free, header);
    printf("  %-12s %s\n", "fingerprint",
           header->fingerprint[0] != '\0' ? header->fingerprint : "not stated");
    print_image(catalog, dir->in_use_by != 0);
}

static void print_errors(const struct stat_dir *dir)
{
    for (size_t i = 0; i < dir->num_catalogs; i++)
        if (dir->catalogs[i].error.status != KVS_OK)
            output_error(stderr, false, &dir->catalogs[i].error);
}

static enum kvs_status print_dir(struct stat_dir *dir, struct kvs_error *error)
{
    printf("%s: %zu catalog%s\n", dir->path, dir->num_catalogs, dir->num_catalogs == 1 ? "" : "s");
    printf("  %-12s %s (%s)\n", "file system", dir->filesystem.name,
           filesystem_catalog_visibility(&dir->filesystem));
    if (dir->in_use_by != 0)
        printf("  %-12s by process %llu\n", "in use", (unsigned long long)dir->in_use_by);
    else
        printf("  %-12s by no process that can be seen from here\n", "in use");
    for (size_t i = 0; i < dir->num_catalogs; i++)
        print_catalog(dir, &dir->catalogs[i]);
    enum kvs_status status = output_flush(stdout, error);
    print_errors(dir);
    return status;
}

/* ---- For programs ----------------------------------------------------------------------------*/

static void write_catalog(struct json_writer *json, const struct stat_catalog *catalog)
{
    const struct namespace_row row = stat_catalog_row(catalog);
    json_write_object_begin(json);
    json_member_text(json, "file", catalog->file);
    if (catalog->error.status != KVS_OK) {
        json_member_text(json, "error", catalog->error.message);
        json_member_text(json, "symbol", kvs_status_name(catalog->error.status));
    } else {
        namespace_row_write(json, &row);
        json_member_bool(json, "kept", true);
        json_member_uint64(json, "damaged_slots", catalog->damaged);
        json_member_uint64(json, "image_bytes", catalog->image_bytes);
        json_member_uint64(json, "image_written_ago_ms", catalog->written_ago_ms);
        json_member_bool(json, "clean", catalog->header.clean != 0);
        json_member_uint64(json, "run", catalog->header.run);
    }
    json_write_object_end(json);
}

static enum kvs_status print_json(const struct stat_dir *dir, struct kvs_error *error)
{
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_write_object_begin(&json);
    json_member_text(&json, "dir", dir->path);
    json_member_text(&json, "filesystem", dir->filesystem.name);
    json_member_bool(&json, "network", dir->filesystem.network);
    json_member_bool(&json, "in_memory", dir->filesystem.in_memory);
    json_member_text(&json, "visibility", filesystem_catalog_visibility(&dir->filesystem));
    json_write_name(&json, "in_use_by");
    if (dir->in_use_by != 0)
        json_write_uint64(&json, dir->in_use_by);
    else
        json_write_null(&json);
    json_write_name(&json, "namespaces");
    json_write_array_begin(&json);
    for (size_t i = 0; i < dir->num_catalogs; i++)
        write_catalog(&json, &dir->catalogs[i]);
    json_write_array_end(&json);
    json_write_object_end(&json);
    enum kvs_status status = output_buffer(stdout, &out, error);
    buffer_done(&out);
    return status;
}

/* ---- The command -----------------------------------------------------------------------------*/

static bool all_readable(const struct stat_dir *dir)
{
    for (size_t i = 0; i < dir->num_catalogs; i++)
        if (dir->catalogs[i].error.status != KVS_OK)
            return false;
    return true;
}

static int run(const struct cli *cli)
{
    struct stat_dir dir;
    struct kvs_error error;
    if (server_client_is_url(cli_argument(cli, 0)))
        return namespaces_stat(cli, cli_argument(cli, 0), cli_text(cli, "token-file", NULL));
    enum kvs_status status = stat_dir_read(cli_argument(cli, 0), &dir, &error);
    bool none = status == KVS_OK ? dir.num_catalogs == 0 : status == KVS_ERR_CATALOG_NONE;
    if (none && stat_live_is_meant(cli_argument(cli, 0))) {
        stat_dir_done(&dir);
        return stat_live(cli, cli_argument(cli, 0));
    }
    if (status == KVS_OK)
        status = cli_json(cli) ? print_json(&dir, &error) : print_dir(&dir, &error);
    bool readable = all_readable(&dir);
    stat_dir_done(&dir);
    if (status != KVS_OK)
        return cli_fail(cli, &error);
    return readable ? CLI_OK : CLI_FAILED;
}

static const struct cli_option options[] = {
    {"token-file", "FILE", "The server's token, one line. Default: none."},
    {0},
};

const struct cli_command cli_stat = {
    .name = "stat",
    .arguments = "DIR|URL",
    .summary = "what the kept catalogs of a directory, or a running server, hold",
    .about =
        "URL is that of a running server: whether it keeps its catalogs, and the pages of its "
        "namespaces; with --json all that its /api/status says.\n"
        "\n"
        "DIR is the metadata_dir of a store or the --data-dir of a server. For each (rank, "
        "namespace): the "
        "number and size of its pages, how many are committed, reserved, retired (resting) "
        "and free, its "
        "fingerprint, and how old the image is. Nothing is locked or written, so it may be "
        "asked while an "
        "engine or a server uses the directory.\n"
        "\n"
        "DIR may be /dev/shm, too: then the live arrays there are listed, which take memory. "
        "Each is in_use by a process, left by one that was killed, unknown (its image cannot be "
        "looked at), or a stray whose image is not there any more. The next start over a "
        "directory takes or removes what it left; what a directory that was removed has left "
        "only a person can remove.\n"
        "\n"
        "With --json both have the member namespaces, and what both can know of one has the "
        "same name in both.",
    .examples = "kvshelf stat /var/lib/kvshelf\n"
                "kvshelf stat http://127.0.0.1:18000\n"
                "kvshelf stat /var/lib/kvshelf --json | jq '.namespaces[].pages'\n"
                "kvshelf stat /dev/shm",
    .exit_codes = "0  every catalog could be read, or there is none (yet)\n"
                  "1  it is no directory of catalogs, or one could not be read\n"
                  "2  wrong arguments",
    .options = options,
    .arguments_min = 1,
    .arguments_max = 1,
    .json = true,
    .run = run,
};
