/* One request in, one answer out; see request.h. The order of checks: token and origin, path,
 * method, rank, body, namespace, what the body states of the pages. Everything is checked before
 * the catalog is touched. */
#include "server/request.h"

#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "server/pages.h"
#include "server/put.h"

#include <stdlib.h>

enum { ANSWER_KEPT_MAX = 256 * 1024 }; /* an answer buffer that grew beyond is freed, bytes */

/* ---- Service and worker ----------------------------------------------------------------------*/

void service_init(struct service *service, struct registry *registry, uint64_t now_ms)
{
    *service = (struct service){.started_ms = now_ms};
    atomic_init(&service->registry, registry);
}

void service_done(struct service *service)
{
    explicit_bzero(&service->auth, sizeof(service->auth));
}

struct worker *worker_new(void)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL)
        return NULL;
    worker->reserved = malloc(BODY_KEYS_MAX * sizeof(*worker->reserved));
    worker->found = malloc(BODY_KEYS_MAX * sizeof(*worker->found));
    worker->exists = malloc(BODY_KEYS_MAX * sizeof(*worker->exists));
    worker->reasons = malloc(2 * BODY_KEYS_MAX * sizeof(*worker->reasons));
    if (worker->reserved == NULL || worker->found == NULL || worker->exists == NULL ||
        worker->reasons == NULL || !body_init(&worker->body))
        return worker_free(worker);
    return worker;
}

struct worker *worker_free(struct worker *worker)
{
    if (worker == NULL)
        return NULL;
    free(worker->reserved);
    free(worker->found);
    free(worker->exists);
    free(worker->reasons);
    body_done(&worker->body);
    buffer_done(&worker->answer);
    free(worker);
    return NULL;
}

/* ---- One request -----------------------------------------------------------------------------*/

struct call {
    struct service *service;
    struct worker *worker;
    struct request_peer *peer;
    const struct http_request *request;
    struct route route;
    uint64_t now_ms;
    struct registry *registry;
    struct answer *answer;
    struct kvs_error error;
};

static void answer_body(struct call *call, int status, const char *content_type)
{
    call->answer->status = status;
    call->answer->content_type = content_type;
}

/* Turns call->error into the answer. */
static void answer_error(struct call *call)
{
    const struct error_info *info = error_find(call->error.status);
    struct buffer *out = &call->worker->answer;
    buffer_clear(out);
    struct json_writer json = {.out = out};
    json_write_object_begin(&json);
    json_write_name(&json, "detail");
    json_write_text(&json, call->error.message);
    json_write_object_end(&json);
    answer_body(call, info == NULL ? 500 : info->http_status, "application/json");
}

#define answer_failure(call, status, ...)                                                          \
    (error_set(&(call)->error, status, ##__VA_ARGS__), answer_error(call))

static void answer_nothing(struct call *call)
{
    answer_body(call, 204, NULL);
}

/* The catalog of the request's namespace, locked; NULL after having answered why not. */
static struct registry_entry *lock_entry(struct call *call)
{
    const struct body *body = &call->worker->body;
    struct registry_entry *entry =
        registry_lock(call->registry, call->route.rank, body->ns, body->ns_length);
    if (entry == NULL) {
        answer_failure(call, KVS_ERR_NOT_INITIALIZED_SERVER, NUM(call->route.rank), body->ns,
                       NUM(call->route.rank));
        return NULL;
    }
    if (body->bytes_per_page == 0 && !body->has_fingerprint)
        return entry;
    if (registry_check(entry, body->bytes_per_page,
                       body->has_fingerprint ? body->fingerprint : NULL, &call->error) == KVS_OK)
        return entry;
    registry_unlock(entry);
    answer_error(call);
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
    answer_body(call, 200, "application/json");
}

/* ---- initialize ------------------------------------------------------------------------------*/

static void serve_initialize(struct call *call)
{
    const struct body *body = &call->worker->body;
    if (registry_initialize(call->registry, call->route.rank, body->ns, body->num_pages,
                            body->bytes_per_page, body->has_fingerprint ? body->fingerprint : NULL,
                            &call->error) == KVS_OK)
        answer_nothing(call);
    else
        answer_error(call);
}

/* ---- reserve, get, exists, delete, clear
 * -------------------------------------------------------*/

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
        answer_failure(call, KVS_ERR_NO_MEMORY, "reserving pages");
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
    answer_nothing(call);
}

static void serve_clear(struct call *call)
{
    struct registry_entry *entry = lock_entry(call);
    if (entry == NULL)
        return;
    catalog_clear(registry_catalog(entry), call->now_ms);
    registry_unlock(entry);
    answer_nothing(call);
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
    answer_body(call, 200, "application/json");
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
        answer_nothing(call);
}

/* ---- report_mismatch, list_keys, drop
 * ----------------------------------------------------------*/

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
    answer_body(call, 200, "application/json");
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
    answer_body(call, 200, "application/json");
}

static void serve_drop(struct call *call)
{
    if (registry_drop(call->registry, call->route.rank, call->worker->body.ns, &call->error) ==
        KVS_OK)
        answer_nothing(call);
    else
        answer_error(call);
}

/* ---- Dispatch --------------------------------------------------------------------------------*/

static void serve_operation(struct call *call)
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
        answer_failure(call, KVS_ERR_STARTING);
        return;
    }
    if (body_read(body, call->route.endpoint, call->request->body, &call->error) != KVS_OK) {
        answer_error(call);
        return;
    }
    metrics_add(&call->worker->metrics.keys[call->route.endpoint],
                body->keys + body->confirms + body->releases);
    serve[call->route.endpoint](call);
}

static void serve_page(struct call *call)
{
    struct buffer *out = &call->worker->answer;
    struct metrics_sum sum = {0};
    for (size_t i = 0; i < call->service->worker_count; i++)
        metrics_sum_add(&sum, &call->service->workers[i]->metrics);
    uint64_t uptime_ms = call->now_ms - call->service->started_ms;
    switch (call->route.endpoint) {
    case ENDPOINT_METRICS:
        metrics_write(out, &sum, call->registry, uptime_ms);
        answer_body(call, 200, "text/plain; version=0.0.4; charset=utf-8");
        break;
    case ENDPOINT_STATUS:
        pages_write_status(out, &sum, call->registry, uptime_ms);
        answer_body(call, 200, "application/json");
        break;
    case ENDPOINT_ROOT:
        pages_write_root(out, &sum, call->registry, uptime_ms);
        answer_body(call, 200, "text/html; charset=utf-8");
        break;
    case ENDPOINT_READY:
        buffer_append_text(out, call->registry != NULL ? "{\"ready\":true}" : "{\"ready\":false}");
        answer_body(call, call->registry != NULL ? 200 : 503, "application/json");
        break;
    default:
        buffer_append_text(out, "{\"healthy\":true}");
        answer_body(call, 200, "application/json");
        break;
    }
}

static bool is_open(enum endpoint endpoint)
{
    return endpoint == ENDPOINT_HEALTH || endpoint == ENDPOINT_READY;
}

/* What the head alone decides. */
static bool refuse(struct call *call)
{
    const struct service *service = call->service;
    const struct http_request *request = call->request;
    if (!auth_origin_is_own(&service->auth, request->origin, request->host)) {
        char origin[128];
        size_t length = request->origin.length < sizeof(origin) - 1 ? request->origin.length
                                                                    : sizeof(origin) - 1;
        memcpy(origin, request->origin.text, length);
        origin[length] = '\0';
        answer_failure(call, KVS_ERR_ORIGIN, length == 0 ? "(empty)" : origin);
        return true;
    }
    if (is_open(call->route.endpoint) || auth_allows(&service->auth, request->authorization))
        return false;
    answer_failure(call, KVS_ERR_UNAUTHORIZED,
                   request->authorization.text == NULL
                       ? "the request carries no token"
                       : "the token of the request is not the server's");
    call->answer->extra = "www-authenticate: Basic realm=\"kvshelf\"\r\n";
    return true;
}

static void refuse_rank(struct call *call)
{
    char rank[64];
    const char *start = call->request->target.text;
    size_t length = 0;
    while (length < sizeof(rank) - 1 && 1 + length < call->request->target.length &&
           start[1 + length] != '/' && start[1 + length] != '?')
        length++;
    memcpy(rank, start + 1, length);
    rank[length] = '\0';
    answer_failure(call, KVS_ERR_REQUEST_RANK, length == 0 ? "?" : rank);
}

static void serve(struct call *call)
{
    enum endpoint endpoint = call->route.endpoint;
    if (endpoint == ENDPOINT_NONE) {
        answer_failure(call, KVS_ERR_NOT_FOUND);
        return;
    }
    enum http_method method = call->request->method;
    bool allowed = route_is_post(endpoint) ? method == METHOD_POST
                                           : method == METHOD_GET || method == METHOD_HEAD;
    if (!allowed) {
        answer_failure(call, KVS_ERR_METHOD);
        call->answer->extra = route_is_post(endpoint) ? "allow: POST\r\n" : "allow: GET, HEAD\r\n";
    } else if (!route_is_post(endpoint)) {
        serve_page(call);
    } else if (call->route.bad_rank) {
        refuse_rank(call);
    } else {
        serve_operation(call);
    }
}

static void begin(struct call *call)
{
    struct buffer *out = &call->worker->answer;
    if (out->capacity > ANSWER_KEPT_MAX)
        buffer_done(out);
    else
        buffer_clear(out);
    *call->answer = (struct answer){.endpoint = call->route.endpoint};
}

static void end(struct call *call)
{
    struct buffer *out = &call->worker->answer;
    if (out->failed) {
        out->failed = false;
        answer_failure(call, KVS_ERR_NO_MEMORY, "writing the answer");
    }
    call->answer->body = out->failed ? "" : out->data;
    call->answer->length = out->failed ? 0 : out->length;
}

void request_answer(struct service *service, struct worker *worker, struct request_peer *peer,
                    const struct http_request *request, uint64_t now_ms, struct answer *ret_answer)
{
    struct call call;
    call.service = service;
    call.worker = worker;
    call.peer = peer;
    call.request = request;
    call.route = route_find(request->target);
    call.now_ms = now_ms;
    call.registry = atomic_load_explicit(&service->registry, memory_order_acquire);
    call.answer = ret_answer;
    begin(&call);
    if (!refuse(&call))
        serve(&call);
    end(&call);
}

bool request_is_refused(struct service *service, struct worker *worker,
                        const struct http_request *request, struct answer *ret_answer)
{
    struct call call = {.service = service,
                        .worker = worker,
                        .request = request,
                        .route = route_find(request->target),
                        .answer = ret_answer};
    begin(&call);
    if (!refuse(&call))
        return false;
    end(&call);
    return true;
}

bool request_must_wait(struct service *service, const struct http_request *request)
{
    return atomic_load_explicit(&service->registry, memory_order_acquire) == NULL &&
           !is_open(route_find(request->target).endpoint);
}

bool request_is_slow(const struct http_request *request)
{
    enum endpoint endpoint = route_find(request->target).endpoint;
    return request->body.length > REQUEST_LONG_BYTES || endpoint == ENDPOINT_INITIALIZE ||
           endpoint == ENDPOINT_DROP;
}

void request_fault(struct worker *worker, int status, const char *fault, uint64_t body_max,
                   struct answer *ret_answer)
{
    struct call call = {.worker = worker, .answer = ret_answer};
    call.route.endpoint = ENDPOINT_NONE;
    begin(&call);
    switch (status) {
    case 413:
        answer_failure(&call, KVS_ERR_REQUEST_TOO_LARGE, text_count(body_max).text);
        break;
    case 414:
        answer_failure(&call, KVS_ERR_TARGET_TOO_LONG, text_count(HTTP_TARGET_MAX).text);
        break;
    case 431:
        answer_failure(&call, KVS_ERR_HEADERS_TOO_LARGE, text_count(HTTP_HEAD_MAX).text);
        break;
    case 408:
        answer_failure(&call, KVS_ERR_REQUEST_TIMEOUT, fault);
        break;
    case 500:
        answer_failure(&call, KVS_ERR_NO_MEMORY, "reading a request");
        break;
    default:
        error_set(&call.error, KVS_ERR_HTTP);
        size_t length = strlen(call.error.message);
        snprintf(call.error.message + length, sizeof(call.error.message) - length, " (%s)", fault);
        answer_error(&call);
        break;
    }
    end(&call);
}
