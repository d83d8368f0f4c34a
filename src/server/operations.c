/* The operations: what the bodies of POST /{rank}/{operation} ask of the catalogs, and the answers.
 * A body is checked whole before a catalog is touched; a catalog is locked once a request, and (but
 * for list_keys) neither while JSON is read nor while it is written. */
#include "base/json.h"
#include "server/call.h"
#include "server/put.h"

/* The catalog of the request's namespace, locked; NULL after having answered why not. */
static struct registry_entry *lock_entry(struct call *call)
{
    const struct body *body = &call->worker->body;
    struct registry_entry *entry =
        registry_lock(call->registry, call->route.rank, body->ns, body->ns_length);
    if (entry == NULL) {
        call_fail(call, KVS_ERR_NOT_INITIALIZED_SERVER, NUM(call->route.rank), body->ns,
                  NUM(call->route.rank));
        return NULL;
    }
    if (body->bytes_per_page == 0 && !body->has_fingerprint)
        return entry;
    if (registry_check(entry, body->bytes_per_page,
                       body->has_fingerprint ? body->fingerprint : NULL, &call->error) == KVS_OK)
        return entry;
    registry_unlock(entry);
    call_answer_error(call);
    return NULL;
}

/* Room for a list of n values in the answer, written from where it returns; NULL on lack of memory.
 * The writers below end with finish_list(). */
static char *start_list(struct call *call, size_t n, size_t bytes_each)
{
    enum { AROUND = 64 }; /* the names and brackets of up to three lists */
    struct buffer *out = &call->worker->answer;
    return buffer_reserve(out, n * bytes_each + AROUND) ? out->data + out->length : NULL;
}

/* `at` is behind the last value, or behind its comma. */
static char *end_list(char *at)
{
    if (at[-1] == ',')
        at--;
    *at++ = ']';
    return at;
}

static void finish_list(struct call *call, char *at)
{
    *at++ = '}';
    call->worker->answer.length = (size_t)(at - call->worker->answer.data);
    call_answer(call, 200, "application/json");
}

/* ---- initialize ------------------------------------------------------------------------------*/

/* An engine that may not initialize has no cache: who looks after the server should see it. */
static void log_refusal(struct call *call)
{
    struct service *service = call->service;
    char line[KVS_ERROR_MESSAGE_MAX + 64];
    snprintf(line, sizeof(line), "An initialize was refused: %s", call->error.message);
    thinned_log(&service->refused_initializes, &service->log, call->now_ms, line);
}

static void serve_initialize(struct call *call)
{
    const struct body *body = &call->worker->body;
    if (registry_initialize(call->registry, call->route.rank, body->ns, body->num_pages,
                            body->bytes_per_page, body->has_fingerprint ? body->fingerprint : NULL,
                            &call->error) == KVS_OK) {
        call_answer_nothing(call);
    } else {
        log_refusal(call);
        call_answer_error(call);
    }
}

/* ---- reserve, get, exists, delete, clear -----------------------------------------------------*/

static void write_reserved(struct call *call)
{
    const struct body *body = &call->worker->body;
    const struct catalog_reserved *reserved = call->worker->reserved;
    char *at = start_list(call, body->keys, 2 * PUT_NUMBER_MAX + 16);
    if (at == NULL)
        return;
    at = put_text(at, "{\"indices\":[");
    for (size_t i = 0; i < body->keys; i++) {
        *at++ = '[';
        at = put_bool(at, reserved[i].present);
        *at++ = ',';
        at = reserved[i].page < 0 ? put_text(at, "-1") : put_number(at, (uint64_t)reserved[i].page);
        at = put_text(at, "],");
    }
    at = end_list(at);
    if (body->generations) {
        at = put_text(at, ",\"generations\":[");
        for (size_t i = 0; i < body->keys; i++) {
            at = reserved[i].page < 0 ? put_text(at, "null")
                                      : put_number(at, reserved[i].generation);
            *at++ = ',';
        }
        at = end_list(at);
    }
    finish_list(call, at);
}

static void serve_reserve(struct call *call)
{
    const struct body *body = &call->worker->body;
    struct registry_entry *entry = lock_entry(call);
    if (entry == NULL)
        return;
    enum kvs_status status =
        catalog_reserve(registry_catalog(entry), call->now_ms, body->packed, body->keys,
                        body->generations, body->owner, call->worker->reserved);
    registry_unlock(entry);
    if (status != KVS_OK)
        call_fail(call, KVS_ERR_NO_MEMORY, "reserving pages");
    else
        write_reserved(call);
}

static char *put_found_details(char *at, const struct catalog_found *found, size_t n)
{
    at = put_text(at, ",\"checksums\":[");
    for (size_t i = 0; i < n; i++) {
        at = found[i].page < 0 || !found[i].has_checksum ? put_text(at, "null")
                                                         : put_checksum(at, found[i].checksum);
        *at++ = ',';
    }
    at = put_text(end_list(at), ",\"generations\":[");
    for (size_t i = 0; i < n; i++) {
        at = found[i].page < 0 ? put_text(at, "null") : put_number(at, found[i].generation);
        *at++ = ',';
    }
    return end_list(at);
}

static void write_found(struct call *call)
{
    const struct body *body = &call->worker->body;
    const struct catalog_found *found = call->worker->found;
    /* Index, generation, checksum between quotes, and their commas. */
    char *at = start_list(call, body->keys,
                          body->checksums ? 2 * PUT_NUMBER_MAX + 21 : PUT_NUMBER_MAX + 1);
    if (at == NULL)
        return;
    at = put_text(at, "{\"indices\":[");
    for (size_t i = 0; i < body->keys; i++) {
        at = found[i].page < 0 ? put_text(at, "null") : put_number(at, (uint64_t)found[i].page);
        *at++ = ',';
    }
    at = end_list(at);
    if (body->checksums)
        at = put_found_details(at, found, body->keys);
    finish_list(call, at);
}

static void serve_get(struct call *call)
{
    const struct body *body = &call->worker->body;
    struct registry_entry *entry = lock_entry(call);
    if (entry == NULL)
        return;
    catalog_get(registry_catalog(entry), call->now_ms, body->packed, body->keys, body->checksums,
                call->worker->found);
    registry_unlock(entry);
    write_found(call);
}

static void serve_exists(struct call *call)
{
    const struct body *body = &call->worker->body;
    bool *exists = call->worker->exists;
    struct registry_entry *entry = lock_entry(call);
    if (entry == NULL)
        return;
    catalog_exists(registry_catalog(entry), call->now_ms, body->packed, body->keys, body->checksums,
                   exists);
    registry_unlock(entry);
    char *at = start_list(call, body->keys, PUT_BOOL_BYTES);
    if (at == NULL)
        return;
    at = put_text(at, "{\"exists\":[");
    for (size_t i = 0; i < body->keys; i++) {
        at = put_bool(at, exists[i]);
        *at++ = ',';
    }
    finish_list(call, end_list(at));
}

static void serve_delete(struct call *call)
{
    const struct body *body = &call->worker->body;
    struct registry_entry *entry = lock_entry(call);
    if (entry == NULL)
        return;
    catalog_delete(registry_catalog(entry), call->now_ms, body->packed, body->keys);
    registry_unlock(entry);
    call_answer_nothing(call);
}

static void serve_clear(struct call *call)
{
    struct registry_entry *entry = lock_entry(call);
    if (entry == NULL)
        return;
    catalog_clear(registry_catalog(entry), call->now_ms);
    registry_unlock(entry);
    call_answer_nothing(call);
}

/* ---- confirm ---------------------------------------------------------------------------------*/

static void write_rejection(struct json_writer *json, const struct json_text *key, int64_t page,
                            enum catalog_rejection reason)
{
    if (reason == CATALOG_ACCEPTED)
        return;
    json_write_object_begin(json);
    json_write_name(json, "key");
    if (key == NULL)
        json_write_null(json);
    else
        json_write_string(json, key->text, key->length);
    json_write_name(json, "page_index");
    json_write_int64(json, page);
    json_write_name(json, "reason");
    json_write_text(json, catalog_rejection_text(reason));
    json_write_object_end(json);
}

static void write_rejections(struct call *call)
{
    const struct body *body = &call->worker->body;
    const enum catalog_rejection *reasons = call->worker->reasons;
    struct json_writer json = {.out = &call->worker->answer};
    json_write_object_begin(&json);
    json_write_name(&json, "rejected");
    json_write_array_begin(&json);
    for (size_t i = 0; i < body->confirms; i++)
        write_rejection(&json, &body->texts[i], body->confirm[i].page, reasons[i]);
    for (size_t i = 0; i < body->releases; i++)
        write_rejection(&json, body->release[i].has_key ? &body->texts[BODY_KEYS_MAX + i] : NULL,
                        body->release[i].page, reasons[body->confirms + i]);
    json_write_array_end(&json);
    json_write_object_end(&json);
    call_answer(call, 200, "application/json");
}

static void serve_confirm(struct call *call)
{
    const struct body *body = &call->worker->body;
    enum catalog_rejection *reasons = call->worker->reasons;
    struct registry_entry *entry = lock_entry(call);
    if (entry == NULL)
        return;
    struct catalog *catalog = registry_catalog(entry);
    catalog_confirm(catalog, call->now_ms, body->confirm, body->confirms, reasons);
    catalog_release(catalog, call->now_ms, body->release, body->releases, reasons + body->confirms);
    registry_unlock(entry);
    size_t n = body->confirms + body->releases, i = 0;
    while (i < n && reasons[i] == CATALOG_ACCEPTED)
        i++;
    if (i < n)
        write_rejections(call);
    else
        call_answer_nothing(call);
}

/* ---- report_mismatch, list_keys, drop --------------------------------------------------------*/

/* How many of n reported pages a peer may still report: a reader whose mount is stale must not be
 * able to empty a cache that others share. */
static size_t allow_reports(struct request_peer *peer, uint64_t now_ms, size_t n)
{
    uint64_t elapsed_ms = now_ms > peer->reports_ms ? now_ms - peer->reports_ms : 0;
    uint64_t regained = elapsed_ms * REQUEST_REPORTS_PER_S / 1000;
    if (regained > 0) {
        peer->reports_used -=
            regained < peer->reports_used ? (uint32_t)regained : peer->reports_used;
        peer->reports_ms = now_ms;
    }
    size_t left = REQUEST_REPORTS_BURST - peer->reports_used;
    size_t allowed = n < left ? n : left;
    peer->reports_used += (uint32_t)allowed;
    return allowed;
}

static void serve_report_mismatch(struct call *call)
{
    const struct body *body = &call->worker->body;
    struct registry_entry *entry = lock_entry(call);
    if (entry == NULL)
        return;
    size_t allowed = allow_reports(call->peer, call->now_ms, body->releases), retired = 0;
    for (size_t i = 0; i < allowed; i++)
        retired +=
            catalog_report_mismatch(registry_catalog(entry), call->now_ms, &body->release[i].key,
                                    body->release[i].page, body->release[i].generation);
    registry_unlock(entry);
    struct json_writer json = {.out = &call->worker->answer};
    json_write_object_begin(&json);
    json_write_name(&json, "retired");
    json_write_uint64(&json, retired);
    json_write_name(&json, "ignored");
    json_write_uint64(&json, body->releases - retired);
    json_write_object_end(&json);
    call_answer(call, 200, "application/json");
}

static void write_key(struct json_writer *json, const struct slot *slot, uint32_t page,
                      const char *ns)
{
    char text[64 + 8 + BODY_NAMESPACE_MAX];
    struct key key = {.suffix = slot_suffix(slot)};
    memcpy(key.digest, slot->digest, sizeof(key.digest));
    json_write_array_begin(json);
    json_write_string(json, text, key_format(&key, ns, text, sizeof(text)));
    json_write_uint64(json, page);
    json_write_uint64(json, slot->generation);
    if (slot_has_checksum(slot)) {
        char checksum[18];
        put_checksum(checksum, slot->value);
        json_write_raw(json, checksum, sizeof(checksum));
    } else {
        json_write_null(json);
    }
    json_write_array_end(json);
}

/* Keys by page, from `start` on; `next` is where to go on, or null. Looks at a bounded number of
 * pages under the lock. */
static void serve_list_keys(struct call *call)
{
    enum { LOOK_AT_MAX = 65536 };
    const struct body *body = &call->worker->body;
    struct registry_entry *entry = lock_entry(call);
    if (entry == NULL)
        return;
    const struct catalog *catalog = registry_catalog(entry);
    uint64_t limit =
        body->limit > 0 && body->limit < REQUEST_LIST_MAX ? body->limit : REQUEST_LIST_MAX;
    uint64_t page = body->start, pages = catalog_num_pages(catalog), listed = 0;
    struct json_writer json = {.out = &call->worker->answer};
    json_write_object_begin(&json);
    json_write_name(&json, "keys");
    json_write_array_begin(&json);
    for (; page < pages && listed < limit && page - body->start < LOOK_AT_MAX; page++) {
        if (!catalog_holds_key(catalog, (uint32_t)page))
            continue;
        write_key(&json, catalog_slot(catalog, (uint32_t)page), (uint32_t)page, body->ns);
        listed++;
    }
    registry_unlock(entry);
    json_write_array_end(&json);
    json_write_name(&json, "next");
    if (page < pages)
        json_write_uint64(&json, page);
    else
        json_write_null(&json);
    json_write_object_end(&json);
    call_answer(call, 200, "application/json");
}

static void serve_drop(struct call *call)
{
    if (registry_drop(call->registry, call->route.rank, call->worker->body.ns, &call->error) ==
        KVS_OK)
        call_answer_nothing(call);
    else
        call_answer_error(call);
}

/* ---- All of them -----------------------------------------------------------------------------*/

void call_serve_operation(struct call *call)
{
    static void (*const serve[])(struct call *) = {
        [ENDPOINT_INITIALIZE] = serve_initialize,
        [ENDPOINT_RESERVE] = serve_reserve,
        [ENDPOINT_CONFIRM] = serve_confirm,
        [ENDPOINT_GET] = serve_get,
        [ENDPOINT_EXISTS] = serve_exists,
        [ENDPOINT_DELETE] = serve_delete,
        [ENDPOINT_CLEAR] = serve_clear,
        [ENDPOINT_REPORT_MISMATCH] = serve_report_mismatch,
        [ENDPOINT_LIST_KEYS] = serve_list_keys,
        [ENDPOINT_DROP] = serve_drop,
    };
    struct body *body = &call->worker->body;
    if (call->registry == NULL) {
        call_fail(call, KVS_ERR_STARTING);
        return;
    }
    if (body_read(body, call->route.endpoint, call->request->body, &call->error) != KVS_OK) {
        call_answer_error(call);
        return;
    }
    metrics_add(&call->worker->metrics.keys[call->route.endpoint],
                body->keys + body->confirms + body->releases);
    serve[call->route.endpoint](call);
}
