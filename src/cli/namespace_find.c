/* See namespace_find.h. */
#include "cli/namespace_find.h"

#include "base/status.h"
#include "cli/namespaces.h"
#include "cli/server_client.h"
#include "metadata/directory.h"
#include "store/config.h"
#include "store/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t namespace_meant(const struct kvs_store_options *options, struct buffer *ns)
{
    identity_namespace(options, NULL, ns);
    return identity_rank(options, identity_replicated(options, true, false));
}

enum kvs_status namespace_check(const struct namespace_row *row, const char *ns,
                                const struct kvs_store_options *options, uint64_t num_pages,
                                struct kvs_error *error)
{
    enum kvs_status status =
        namespace_row_match(row, ns, num_pages, options->bytes_per_page, error);
    if (status != KVS_OK)
        return status;
    struct buffer stated = {0}, held = {0};
    if (!identity_agrees(options, row->fingerprint.text, row->fingerprint.length, &stated)) {
        buffer_append(&held, row->fingerprint.text, row->fingerprint.length);
        status = error_set(error, KVS_ERR_FINGERPRINT_DIFFERS, NUM(row->rank), ns,
                           buffer_text(&held), buffer_text(&stated));
    }
    if (stated.failed || held.failed)
        status = error_set(error, KVS_ERR_NO_MEMORY, "looking for a namespace");
    buffer_done(&stated);
    buffer_done(&held);
    return status;
}

/* ---- Looking for it ------------------------------------------------------------------------- */

struct search {
    const struct kvs_store_options *options;
    uint64_t num_pages;
    uint32_t rank;
    const char *ns;
    bool found;
};

static enum kvs_status look_at_row(void *arg, const struct namespace_row *row,
                                   struct kvs_error *error)
{
    struct search *search = arg;
    if (row->rank != search->rank || !json_text_is(row->ns, search->ns))
        return KVS_OK;
    search->found = true;
    return namespace_check(row, search->ns, search->options, search->num_pages, error);
}

static enum kvs_status ask_server(struct search *search, enum namespace_presence *ret_presence,
                                  struct kvs_error *error)
{
    const struct kvs_store_options *options = search->options;
    struct server_client *client;
    struct buffer body = {0};
    struct server_facts facts;
    enum kvs_status status = server_client_open(options->metadata_server_url,
                                                options->metadata_token_file, &client, error);
    if (status != KVS_OK)
        return status;
    server_client_limit(client, (uint64_t)(options->client_timeout * 1000 + 0.5));
    status = server_client_ask(client, "/api/status", NULL, &body, error);
    if (status == KVS_OK)
        status = namespaces_read(&body, look_at_row, search, error);
    if (status == KVS_OK)
        server_facts_read(&body, &facts);
    if (status == KVS_ERR_REMOTE_ANSWER || (status == KVS_OK && !facts.ready)) {
        *ret_presence = NAMESPACE_UNKNOWN;
        status = KVS_OK;
    } else if (status == KVS_OK) {
        *ret_presence = search->found ? NAMESPACE_THERE : NAMESPACE_ABSENT;
    }
    buffer_done(&body);
    server_client_close(client);
    return status;
}

static enum kvs_status look_at_image(struct search *search, const struct directory *directory,
                                     const char *name, struct kvs_error *error)
{
    struct image_header header;
    enum kvs_status status = image_check(&directory->images, name, &header, error);
    if (status != KVS_OK)
        return status;
    const struct namespace_row row = {
        .rank = header.rank,
        .num_pages = header.num_pages,
        .bytes_per_page = header.bytes_per_page,
        .ns = {header.ns, strlen(header.ns)},
        .fingerprint = {header.fingerprint, strlen(header.fingerprint)},
    };
    return look_at_row(search, &row, error);
}

static enum kvs_status read_directory(struct search *search, enum namespace_presence *ret_presence,
                                      struct kvs_error *error)
{
    char *path = strdup(search->options->metadata_dir);
    if (path == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "looking for a namespace");
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum kvs_status status = KVS_OK;
    char **names = NULL;
    size_t n = 0;
    /* Not directory_open(), which makes it and locks it. */
    const struct directory directory = {
        .images = {.path = path, .fd = fd, .os = &image_os_linux}, .path = path, .lock_fd = -1};
    if (fd < 0 && errno != ENOENT)
        status = error_set(error, KVS_ERR_CATALOG_DIR, path, strerror(errno));
    else if (fd >= 0)
        status = directory_names(&directory, &names, &n, error);
    for (size_t i = 0; i < n && status == KVS_OK; i++)
        status = look_at_image(search, &directory, names[i], error);
    directory_free_names(names, n);
    if (fd >= 0)
        close(fd);
    free(path);
    if (status == KVS_OK)
        *ret_presence = search->found ? NAMESPACE_THERE : NAMESPACE_ABSENT;
    return status;
}

enum kvs_status namespace_find(const struct kvs_store_options *options, uint64_t num_pages,
                               enum namespace_presence *ret_presence, struct kvs_error *error)
{
    struct buffer ns = {0};
    struct search search = {.options = options, .num_pages = num_pages};
    search.rank = namespace_meant(options, &ns);
    search.ns = buffer_text(&ns);
    enum kvs_status status;
    if (ns.failed)
        status = error_set(error, KVS_ERR_NO_MEMORY, "looking for a namespace");
    else if (options->metadata_server_url != NULL)
        status = ask_server(&search, ret_presence, error);
    else
        status = read_directory(&search, ret_presence, error);
    buffer_done(&ns);
    return status;
}

enum kvs_status namespace_none(const struct kvs_store_options *options, const char *advice,
                               struct kvs_error *error)
{
    struct buffer ns = {0}, place = {0};
    uint64_t rank = namespace_meant(options, &ns);
    char *url = options->metadata_server_url == NULL
                    ? NULL
                    : config_shown_url(options->metadata_server_url);
    buffer_append_format(&place, "%s%s",
                         url != NULL                            ? url
                         : options->metadata_server_url != NULL ? "the metadata server"
                                                                : options->metadata_dir,
                         advice);
    enum kvs_status status = namespaces_none(buffer_text(&ns), &rank, buffer_text(&place), error);
    free(url);
    buffer_done(&ns);
    buffer_done(&place);
    return status;
}
