/* The native protocol's client; see sim_remote.h. */
#include "sim_remote.h"

#include "base/json.h"
#include "base/status.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ATTEMPTS = 3 };

struct remote {
    struct metadata_client client;
    struct network_client *network;
    struct disk_user *disk;
    struct chance *chance;
};

static struct remote *remote_of(struct metadata_client *client)
{
    return (struct remote *)client;
}

/* ---- Requests ------------------------------------------------------------------------------- */

struct post {
    struct buffer body;
    struct json_writer json;
};

static void begin(struct post *post, const struct metadata_scope *scope)
{
    *post = (struct post){0};
    post->json.out = &post->body;
    json_write_object_begin(&post->json);
    json_write_name(&post->json, "namespace");
    json_write_text(&post->json, scope->ns);
    json_write_name(&post->json, "bytes_per_page");
    json_write_uint64(&post->json, scope->bytes_per_page);
    if (scope->fingerprint != NULL) {
        json_write_name(&post->json, "fingerprint");
        json_write_text(&post->json, scope->fingerprint);
    }
}

static void write_flag(struct post *post, const char *name)
{
    json_write_name(&post->json, name);
    json_write_bool(&post->json, true);
}

static void write_keys(struct post *post, const struct metadata_text keys[], size_t n,
                       bool with_prefix)
{
    json_write_name(&post->json, "keys");
    json_write_array_begin(&post->json);
    for (size_t i = 0; i < n; i++) {
        if (with_prefix)
            json_write_array_begin(&post->json);
        json_write_string(&post->json, keys[i].text, keys[i].length);
        if (with_prefix) {
            json_write_text(&post->json, "");
            json_write_array_end(&post->json);
        }
    }
    json_write_array_end(&post->json);
}

static void write_entry(struct post *post, const struct metadata_text *key, int64_t page,
                        uint64_t generation, const uint64_t *checksum)
{
    json_write_array_begin(&post->json);
    json_write_string(&post->json, key->text, key->length);
    json_write_int64(&post->json, page);
    json_write_uint64(&post->json, generation);
    if (checksum != NULL) {
        char text[17];
        snprintf(text, sizeof(text), "%016" PRIx64, *checksum);
        json_write_text(&post->json, text);
    }
    json_write_array_end(&post->json);
}

static enum kvs_status status_of(const struct network_call *call, struct kvs_error *error)
{
    enum kvs_status status = call->status == 404   ? KVS_ERR_NOT_INITIALIZED_SERVER
                             : call->status == 409 ? KVS_ERR_GEOMETRY_DIFFERS
                                                   : KVS_ERR_REMOTE_ANSWER;
    if (error != NULL) {
        error->status = status;
        snprintf(error->message, sizeof(error->message), "%.*s", (int)call->answer_bytes,
                 call->answer);
    }
    return status;
}

/* Sends the body up to `attempts` times. On KVS_OK the answer is *ret_call, for network_done(). */
static enum kvs_status send(struct remote *remote, const char *operation, struct post *post,
                            unsigned attempts, struct network_call **ret_call,
                            struct kvs_error *error)
{
    json_write_object_end(&post->json);
    enum kvs_status status = KVS_OK;
    struct network_call *call = NULL;
    for (unsigned i = 0; i < attempts && call == NULL; i++)
        call = network_post(remote->network, operation, &post->body, NULL,
                            (uint64_t)sim_plan.client_timeout_ms * 1000);
    buffer_done(&post->body);
    if (call == NULL)
        return error_set(error, KVS_ERR_REMOTE_UNREACHABLE, "sim", "no answer");
    if (call->status >= 400)
        status = status_of(call, error);
    if (status != KVS_OK)
        network_done(call);
    else
        *ret_call = call;
    return status;
}

static enum kvs_status send_and_forget(struct remote *remote, const char *operation,
                                       struct post *post, unsigned attempts,
                                       struct kvs_error *error)
{
    struct network_call *call;
    enum kvs_status status = send(remote, operation, post, attempts, &call, error);
    if (status == KVS_OK)
        network_done(call);
    return status;
}

/* ---- Answers -------------------------------------------------------------------------------- */

static bool read_pages(struct json_reader *json, size_t n, struct catalog_reserved ret[])
{
    size_t i = 0;
    if (!json_array_begin(json))
        return false;
    for (; json_array_next(json); i++) {
        if (i == n || !json_array_begin(json) || !json_array_next(json) ||
            !json_bool(json, &ret[i].present) || !json_array_next(json) ||
            !json_int64(json, &ret[i].page) || json_array_next(json))
            return false;
    }
    return i == n;
}

/* A list of whole numbers or nulls, which leave what is there. */
static bool read_numbers(struct json_reader *json, size_t n, uint64_t *first, size_t stride)
{
    size_t i = 0;
    if (!json_array_begin(json))
        return false;
    for (; json_array_next(json); i++) {
        uint64_t *to = (uint64_t *)(void *)((char *)first + i * stride);
        if (i == n || !(json_peek(json) == JSON_NULL ? json_null(json) : json_uint64(json, to)))
            return false;
    }
    return i == n;
}

static bool read_checksums(struct json_reader *json, size_t n, struct catalog_found ret[])
{
    size_t i = 0;
    struct json_text text;
    if (!json_array_begin(json))
        return false;
    for (; json_array_next(json); i++) {
        if (i == n)
            return false;
        if (json_peek(json) == JSON_NULL) {
            json_null(json);
            continue;
        }
        char digits[17] = "";
        if (!json_string(json, &text) || text.length != 16)
            return false;
        memcpy(digits, text.text, 16);
        ret[i].checksum = strtoull(digits, NULL, 16);
        ret[i].has_checksum = true;
    }
    return i == n;
}

static enum kvs_status done_reading(struct network_call *call, struct json_reader *json, bool good,
                                    struct kvs_error *error)
{
    good = good && json_end(json);
    network_done(call);
    if (!good)
        sim_fail("a native client cannot read the server's answer");
    return good ? KVS_OK : error_set(error, KVS_ERR_REMOTE_ANSWER, "sim", "not as expected");
}

/* ---- Operations ----------------------------------------------------------------------------- */

static enum kvs_status remote_initialize(struct metadata_client *client,
                                         const struct metadata_scope *scope, uint64_t num_pages,
                                         struct kvs_error *error)
{
    struct post post;
    begin(&post, scope);
    json_write_name(&post.json, "num_pages");
    json_write_uint64(&post.json, num_pages);
    return send_and_forget(remote_of(client), "initialize", &post, ATTEMPTS, error);
}

static enum kvs_status remote_reserve(struct metadata_client *client,
                                      const struct metadata_scope *scope,
                                      const struct metadata_text keys[], size_t n,
                                      struct catalog_reserved ret_reserved[],
                                      struct kvs_error *error)
{
    struct remote *remote = remote_of(client);
    struct post post;
    struct network_call *call;
    struct json_text name;
    begin(&post, scope);
    write_flag(&post, "generations");
    json_write_name(&post.json, "owner");
    json_write_uint64(&post.json, draw(remote->chance) >> 1 | 1);
    write_keys(&post, keys, n, true);
    enum kvs_status status =
        send(remote, "reserve_and_allocate_page_indices", &post, ATTEMPTS, &call, error);
    if (status != KVS_OK)
        return status;
    for (size_t i = 0; i < n; i++)
        ret_reserved[i] = (struct catalog_reserved){.page = -1};
    struct json_reader json;
    json_reader_init(&json, call->answer, call->answer_bytes, NULL, JSON_DEPTH);
    bool good = json_object_begin(&json);
    while (good && json_object_next(&json, &name))
        good = json_text_is(name, "indices")
                   ? read_pages(&json, n, ret_reserved)
                   : read_numbers(&json, n, &ret_reserved[0].generation, sizeof(*ret_reserved));
    for (size_t i = 0; good && i < n; i++)
        if (!ret_reserved[i].present && ret_reserved[i].page >= 0 &&
            ret_reserved[i].page < SIM_PAGES_MAX)
            remote->disk->generations[ret_reserved[i].page] = ret_reserved[i].generation;
    return done_reading(call, &json, good, error);
}

/* Entries the answer names are rejected; the others are accepted. */
static bool read_rejected(struct json_reader *json, const struct metadata_confirm confirms[],
                          size_t n, enum catalog_rejection ret_reasons[])
{
    struct json_text name;
    if (!json_array_begin(json))
        return false;
    while (json_array_next(json)) {
        int64_t page = -1;
        if (!json_object_begin(json))
            return false;
        while (json_object_next(json, &name))
            if (!(json_text_is(name, "page_index") ? json_int64(json, &page) : json_skip(json)))
                return false;
        for (size_t i = 0; i < n && ret_reasons != NULL; i++)
            if (confirms[i].page == page)
                ret_reasons[i] = CATALOG_NOT_RESERVED;
    }
    return !json_failed(json);
}

static enum kvs_status remote_confirm(struct metadata_client *client,
                                      const struct metadata_scope *scope,
                                      const struct metadata_confirm confirms[], size_t n_confirm,
                                      const struct metadata_release releases[], size_t n_release,
                                      enum catalog_rejection ret_reasons[], struct kvs_error *error)
{
    struct post post;
    struct network_call *call;
    struct json_text name;
    begin(&post, scope);
    json_write_name(&post.json, "written_keys_to_confirm");
    json_write_array_begin(&post.json);
    for (size_t i = 0; i < n_confirm; i++)
        write_entry(&post, &confirms[i].key, confirms[i].page, confirms[i].generation,
                    &confirms[i].checksum);
    json_write_array_end(&post.json);
    json_write_name(&post.json, "pages_to_release");
    json_write_array_begin(&post.json);
    for (size_t i = 0; i < n_release; i++)
        write_entry(&post, &releases[i].key, releases[i].page, releases[i].generation, NULL);
    json_write_array_end(&post.json);
    enum kvs_status status =
        send(remote_of(client), "confirm_write", &post, ATTEMPTS, &call, error);
    if (status != KVS_OK)
        return status;
    for (size_t i = 0; i < n_confirm && ret_reasons != NULL; i++)
        ret_reasons[i] = CATALOG_ACCEPTED;
    if (call->status == 204) {
        network_done(call);
        return KVS_OK;
    }
    struct json_reader json;
    json_reader_init(&json, call->answer, call->answer_bytes, NULL, JSON_DEPTH);
    bool good = json_object_begin(&json);
    while (good && json_object_next(&json, &name))
        good = read_rejected(&json, confirms, n_confirm, ret_reasons);
    return done_reading(call, &json, good, error);
}

static bool read_found(struct json_reader *json, struct json_text name, size_t n,
                       struct catalog_found ret[])
{
    if (json_text_is(name, "checksums"))
        return read_checksums(json, n, ret);
    if (json_text_is(name, "generations"))
        return read_numbers(json, n, &ret[0].generation, sizeof(*ret));
    uint64_t *pages = (uint64_t *)(void *)&ret[0].page;
    return read_numbers(json, n, pages, sizeof(*ret));
}

static enum kvs_status remote_get(struct metadata_client *client,
                                  const struct metadata_scope *scope,
                                  const struct metadata_text keys[], size_t n,
                                  struct catalog_found ret_found[], struct kvs_error *error)
{
    struct post post;
    struct network_call *call;
    struct json_text name;
    begin(&post, scope);
    write_flag(&post, "checksums");
    write_keys(&post, keys, n, false);
    enum kvs_status status =
        send(remote_of(client), "get_page_indices", &post, ATTEMPTS, &call, error);
    if (status != KVS_OK)
        return status;
    for (size_t i = 0; i < n; i++)
        ret_found[i] = (struct catalog_found){.page = -1};
    struct json_reader json;
    json_reader_init(&json, call->answer, call->answer_bytes, NULL, JSON_DEPTH);
    bool good = json_object_begin(&json);
    while (good && json_object_next(&json, &name))
        good = read_found(&json, name, n, ret_found);
    return done_reading(call, &json, good, error);
}

static enum kvs_status remote_exists(struct metadata_client *client,
                                     const struct metadata_scope *scope,
                                     const struct metadata_text keys[], size_t n, bool ret_exists[],
                                     struct kvs_error *error)
{
    struct post post;
    struct network_call *call;
    struct json_text name;
    begin(&post, scope);
    write_flag(&post, "checksums");
    write_keys(&post, keys, n, false);
    enum kvs_status status = send(remote_of(client), "exists", &post, ATTEMPTS, &call, error);
    if (status != KVS_OK)
        return status;
    struct json_reader json;
    json_reader_init(&json, call->answer, call->answer_bytes, NULL, JSON_DEPTH);
    bool good =
        json_object_begin(&json) && json_object_next(&json, &name) && json_array_begin(&json);
    size_t i = 0;
    for (; good && json_array_next(&json); i++)
        good = i < n && json_bool(&json, &ret_exists[i]);
    good = good && i == n && !json_object_next(&json, &name);
    return done_reading(call, &json, good, error);
}

static enum kvs_status remote_delete(struct metadata_client *client,
                                     const struct metadata_scope *scope,
                                     const struct metadata_text keys[], size_t n,
                                     struct kvs_error *error)
{
    struct post post;
    begin(&post, scope);
    write_keys(&post, keys, n, false);
    return send_and_forget(remote_of(client), "delete_keys", &post, ATTEMPTS, error);
}

/* Once: a second one would take what was stored in between. */
static enum kvs_status remote_clear(struct metadata_client *client,
                                    const struct metadata_scope *scope, struct kvs_error *error)
{
    struct post post;
    begin(&post, scope);
    return send_and_forget(remote_of(client), "clear", &post, 1, error);
}

static enum kvs_status remote_report(struct metadata_client *client,
                                     const struct metadata_scope *scope,
                                     const struct metadata_release pages[], size_t n,
                                     struct kvs_error *error)
{
    struct post post;
    begin(&post, scope);
    json_write_name(&post.json, "pages");
    json_write_array_begin(&post.json);
    for (size_t i = 0; i < n; i++)
        write_entry(&post, &pages[i].key, pages[i].page, pages[i].generation, NULL);
    json_write_array_end(&post.json);
    return send_and_forget(remote_of(client), "report_mismatch", &post, ATTEMPTS, error);
}

static struct metadata_client *remote_close(struct metadata_client *client)
{
    free(client);
    return NULL;
}

static const struct metadata_ops remote_ops = {
    .initialize = remote_initialize,
    .reserve_and_allocate_page_indices = remote_reserve,
    .confirm_write = remote_confirm,
    .get_page_indices = remote_get,
    .exists = remote_exists,
    .delete_keys = remote_delete,
    .clear = remote_clear,
    .report_mismatch = remote_report,
    .close = remote_close,
};

struct metadata_client *remote_new(struct network_client *network, struct disk_user *disk,
                                   struct chance *chance)
{
    struct remote *remote = calloc(1, sizeof(*remote));
    if (remote == NULL)
        abort();
    *remote = (struct remote){{&remote_ops}, network, disk, chance};
    return &remote->client;
}
