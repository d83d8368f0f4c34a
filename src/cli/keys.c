/* kvshelf keys: the keys that are present, of a running server or of the images in a directory. */
#include "base/json.h"
#include "base/status.h"
#include "catalog/image_os.h"
#include "catalog/slot.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/namespaces.h"
#include "cli/output.h"
#include "cli/stat_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum { KEY_LINE_MAX = 64 + 2 + IMAGE_NS_MAX + 1, SLOTS_AT_ONCE = 16384 };

/* What is listed, and how much is left of --limit. */
struct listing {
    const struct cli *cli;
    struct server_client *client; /* NULL: a directory */
    uint64_t rank, left;
    bool has_rank;
    const char *ns; /* NULL: every one */
    bool found;     /* a namespace that is wanted */
    const char *path;
};

static bool is_wanted(struct listing *listing, uint64_t rank, const char *ns, size_t length)
{
    bool wanted = (!listing->has_rank || rank == listing->rank) &&
                  (listing->ns == NULL ||
                   (strlen(listing->ns) == length && memcmp(listing->ns, ns, length) == 0));
    listing->found = listing->found || wanted;
    return wanted;
}

/* A rank or a name that was asked for and is not there: most often mistyped. */
static enum kvs_status check_found(const struct listing *listing, const char *place,
                                   struct kvs_error *error)
{
    if (listing->found || (!listing->has_rank && listing->ns == NULL))
        return KVS_OK;
    return namespaces_none(listing->ns, listing->has_rank ? &listing->rank : NULL, place, error);
}

/* One line for people, one object a line with --json: there may be millions. */
static void print_key(struct listing *listing, uint64_t rank, struct json_text ns,
                      struct json_text key, uint64_t page, uint64_t generation,
                      const char *checksum)
{
    struct buffer out = {0};
    listing->left--;
    if (cli_json(listing->cli)) {
        struct json_writer json = {.out = &out};
        json_write_object_begin(&json);
        json_member_uint64(&json, "rank", rank);
        json_write_name(&json, "namespace");
        json_write_string(&json, ns.text, ns.length);
        json_write_name(&json, "key");
        json_write_string(&json, key.text, key.length);
        json_member_uint64(&json, "page_index", page);
        json_member_uint64(&json, "generation", generation);
        json_member_text(&json, "checksum", checksum);
        json_write_object_end(&json);
    } else {
        buffer_append_format(&out, "%" PRIu64 "\t%.*s\t%.*s\t%" PRIu64 "\t%" PRIu64 "\t%s", rank,
                             (int)ns.length, ns.text, (int)key.length, key.text, page, generation,
                             checksum == NULL ? "-" : checksum);
    }
    buffer_append_char(&out, '\n');
    fwrite(out.data, 1, out.length, stdout);
    buffer_done(&out);
}

/* ---- A server --------------------------------------------------------------------------------*/

/* [key, page, generation, checksum or null] */
static bool read_key(struct json_reader *json, struct listing *listing,
                     const struct namespace_row *row)
{
    struct json_text key, checksum;
    uint64_t page, generation;
    char text[32];
    bool has_checksum;
    if (!json_array_begin(json) || !json_array_next(json) || !json_string(json, &key) ||
        !json_array_next(json) || !json_uint64(json, &page) || !json_array_next(json) ||
        !json_uint64(json, &generation) || !json_array_next(json))
        return json_fail(json, "a key is not [key, page, generation, checksum]");
    has_checksum = json_peek(json) != JSON_NULL;
    if (!(has_checksum ? json_string(json, &checksum) : json_null(json)) || json_array_next(json))
        return json_fail(json, "a key is not [key, page, generation, checksum]");
    if (has_checksum)
        snprintf(text, sizeof(text), "%.*s", (int)checksum.length, checksum.text);
    if (listing->left > 0)
        print_key(listing, row->rank, row->ns, key, page, generation, has_checksum ? text : NULL);
    return !json_failed(json);
}

/* One answer of list_keys. *ret_next is UINT64_MAX after the last one. */
static enum kvs_status read_keys(const struct buffer *body, struct listing *listing,
                                 const struct namespace_row *row, uint64_t *ret_next,
                                 struct kvs_error *error)
{
    struct buffer unescaped = {0};
    struct json_reader json;
    struct json_text name;
    *ret_next = UINT64_MAX;
    json_reader_init(&json, body->data, body->length, &unescaped, JSON_DEPTH);
    bool going = json_object_begin(&json);
    while (going && json_object_next(&json, &name)) {
        if (json_text_is(name, "next") && json_peek(&json) == JSON_NUMBER) {
            going = json_uint64(&json, ret_next);
        } else if (json_text_is(name, "keys")) {
            going = json_array_begin(&json);
            while (going && json_array_next(&json))
                going = read_key(&json, listing, row);
        } else {
            going = json_skip(&json);
        }
    }
    json_end(&json);
    char reason[JSON_ERROR_TEXT_MAX];
    enum kvs_status status = KVS_OK;
    if (json_failed(&json))
        status =
            error_set(error, KVS_ERR_REMOTE_ANSWER, listing->path, json_error_text(&json, reason));
    buffer_done(&unescaped);
    return status;
}

static enum kvs_status list_namespace(void *arg, const struct namespace_row *row,
                                      struct kvs_error *error)
{
    struct listing *listing = arg;
    struct buffer request = {0}, answer = {0};
    char path[48];
    enum kvs_status status = KVS_OK;
    uint64_t next = 0;
    if (!is_wanted(listing, row->rank, row->ns.text, row->ns.length))
        return KVS_OK;
    snprintf(path, sizeof(path), "/%" PRIu64 "/list_keys", row->rank);
    while (status == KVS_OK && next != UINT64_MAX && listing->left > 0) {
        struct json_writer json = {.out = &request};
        buffer_clear(&request);
        json_write_object_begin(&json);
        json_write_name(&json, "namespace");
        json_write_string(&json, row->ns.text, row->ns.length);
        json_member_uint64(&json, "start", next);
        json_member_uint64(&json, "limit", listing->left);
        json_write_object_end(&json);
        if (request.failed)
            status = error_set(error, KVS_ERR_NO_MEMORY, "listing keys");
        if (status == KVS_OK)
            status =
                server_client_ask(listing->client, path, buffer_text(&request), &answer, error);
        if (status == KVS_OK)
            status = read_keys(&answer, listing, row, &next, error);
    }
    buffer_done(&request);
    buffer_done(&answer);
    return status;
}

static enum kvs_status list_url(struct listing *listing, const char *token_file,
                                struct kvs_error *error)
{
    struct buffer body = {0};
    enum kvs_status status = server_client_open(listing->path, token_file, &listing->client, error);
    if (status != KVS_OK)
        return status;
    if (!cli_json(listing->cli))
        server_client_say_waiting(listing->client);
    status = server_client_ask(listing->client, "/api/status", NULL, &body, error);
    if (status == KVS_OK)
        status = namespaces_read(&body, list_namespace, listing, error);
    if (status == KVS_OK)
        status = check_found(listing, server_client_url(listing->client), error);
    buffer_done(&body);
    server_client_close(listing->client);
    return status;
}

/* ---- A directory -----------------------------------------------------------------------------*/

static void print_slot(struct listing *listing, const struct image_header *header,
                       const struct slot *slot, uint64_t page)
{
    char text[KEY_LINE_MAX + 8], checksum[17];
    struct key key = {.suffix = slot_suffix(slot)};
    if (!slot_intact(slot, (uint32_t)page) || slot_state(slot) != SLOT_COMMITTED ||
        slot->generation < header->state.floor)
        return;
    memcpy(key.digest, slot->digest, sizeof(key.digest));
    struct json_text name = {text, key_format(&key, header->ns, text, sizeof(text))};
    snprintf(checksum, sizeof(checksum), "%016" PRIx64, slot->value);
    print_key(listing, header->rank, (struct json_text){header->ns, strlen(header->ns)}, name, page,
              slot->generation, slot_has_checksum(slot) ? checksum : NULL);
}

static enum kvs_status list_slots(struct listing *listing, const struct stat_catalog *catalog,
                                  int fd, struct kvs_error *error)
{
    const struct image_header *header = &catalog->header;
    struct slot *slots = malloc(SLOTS_AT_ONCE * sizeof(*slots));
    if (slots == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "listing keys");
    enum kvs_status status = KVS_OK;
    for (uint64_t page = 0; page < header->num_pages && listing->left > 0 && status == KVS_OK;) {
        uint64_t now = header->num_pages - page;
        if (now > SLOTS_AT_ONCE)
            now = SLOTS_AT_ONCE;
        int failed = image_os_read(fd, slots, now * sizeof(*slots),
                                   IMAGE_SLOTS_OFFSET + page * sizeof(*slots));
        if (failed != 0)
            status = error_set(error, KVS_ERR_CATALOG_IO, "read", catalog->file, strerror(failed));
        for (uint64_t i = 0; i < now && listing->left > 0 && status == KVS_OK; i++)
            print_slot(listing, header, &slots[i], page + i);
        page += now;
    }
    free(slots);
    return status;
}

static enum kvs_status list_catalog(struct listing *listing, const struct stat_catalog *catalog,
                                    int dir_fd, struct kvs_error *error)
{
    const struct image_header *header = &catalog->header;
    if (catalog->error.status != KVS_OK) {
        *error = catalog->error;
        return error->status;
    }
    if (!is_wanted(listing, header->rank, header->ns, strlen(header->ns)))
        return KVS_OK;
    int fd = openat(dir_fd, catalog->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return error_set(error, KVS_ERR_CATALOG_IO, "read", catalog->file, strerror(errno));
    enum kvs_status status = list_slots(listing, catalog, fd, error);
    close(fd);
    return status;
}

static enum kvs_status list_dir(struct listing *listing, struct kvs_error *error)
{
    struct stat_dir dir;
    enum kvs_status status = stat_dir_read(listing->path, &dir, error);
    int fd = open(listing->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (status == KVS_OK && fd < 0)
        status = error_set(error, KVS_ERR_CATALOG_IO, "read", listing->path, strerror(errno));
    for (size_t i = 0; i < dir.num_catalogs && status == KVS_OK; i++)
        status = list_catalog(listing, &dir.catalogs[i], fd, error);
    if (status == KVS_OK)
        status = check_found(listing, listing->path, error);
    if (fd >= 0)
        close(fd);
    stat_dir_done(&dir);
    return status;
}

/* ---- The command -----------------------------------------------------------------------------*/

static int run(const struct cli *cli)
{
    struct kvs_error error;
    struct listing listing = {
        .cli = cli,
        .left = UINT64_MAX,
        .has_rank = cli_has(cli, "rank"),
        .ns = cli_text(cli, "namespace", NULL),
        .path = cli_argument(cli, 0),
    };
    enum kvs_status status = cli_count(cli, "rank", 0, UINT32_MAX, "", &listing.rank, &error);
    if (status == KVS_OK)
        status = cli_count(cli, "limit", 1, UINT64_MAX, "keys", &listing.left, &error);
    if (status == KVS_OK && server_client_is_url(listing.path))
        status = list_url(&listing, cli_text(cli, "token-file", NULL), &error);
    else if (status == KVS_OK)
        status = list_dir(&listing, &error);
    return status == KVS_OK ? CLI_OK : cli_fail(cli, &error);
}

static const struct cli_option options[] = {
    {"rank", "N", "Only keys of this rank. Default: all."},
    {"namespace", "NAME", "Only keys of this namespace. Default: all."},
    {"limit", "N", "At most this many keys. Default: all."},
    {"token-file", "FILE", "The server's token, one line. Default: none."},
    {0},
};

const struct cli_command cli_keys = {
    .name = "keys",
    .arguments = "URL|DIR",
    .summary = "list the keys that are present",
    .about =
        "One line a key: rank, namespace, key, page index, generation, checksum (16 hex digits, or "
        "- without one), with tabs between; with --json one object a line. Keys that are not in "
        "the usual form (64 hex digits and a suffix) are kept as a digest and listed as one: "
        "sha256:...\n"
        "\n"
        "URL is that of a running server; its catalogs go on changing while they are listed. DIR "
        "is a directory of kept catalogs, in use or not; while it is in use the images follow a "
        "second or so behind.",
    .examples = "kvshelf keys http://127.0.0.1:18000 --rank 0 --limit 10\n"
                "kvshelf keys /var/lib/kvshelf --namespace kv | cut -f 3",
    .exit_codes = "0  all was listed, of a namespace that is empty nothing\n"
                  "1  there is no namespace of this rank or name, or it cannot be read\n"
                  "2  wrong arguments",
    .options = options,
    .arguments_min = 1,
    .arguments_max = 1,
    .json = true,
    .run = run,
};
