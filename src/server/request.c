/* One request in, one answer out; see request.h. The order of checks: token and origin, path,
 * method, rank, body, namespace, what the body states of the pages. Everything is checked before
 * the catalog is touched. */
#include "server/request.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "server/call.h"
#include "server/pages.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    ANSWER_KEPT_MAX = 256 * 1024, /* an answer buffer that grew beyond is freed, bytes */
    PATH_BYTES = 64,              /* of any endpoint */
};

/* ---- Service and worker ----------------------------------------------------------------------*/

void service_init(struct service *service, struct registry *registry, uint64_t now_ms)
{
    *service = (struct service){.started_ms = now_ms};
    thinned_init(&service->refused_initializes, now_ms);
    thinned_init(&service->unauthorized, now_ms);
    atomic_init(&service->registry, registry);
}

void service_done(struct service *service)
{
    thinned_done(&service->refused_initializes);
    thinned_done(&service->unauthorized);
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

void call_answer(struct call *call, int status, const char *content_type)
{
    call->answer->status = status;
    call->answer->content_type = content_type;
}

void call_answer_error(struct call *call)
{
    const struct error_info *info = error_find(call->error.status);
    struct buffer *out = &call->worker->answer;
    buffer_clear(out);
    struct json_writer json = {.out = out};
    json_write_object_begin(&json);
    json_write_name(&json, "detail");
    json_write_text(&json, call->error.message);
    json_write_object_end(&json);
    call_answer(call, info == NULL ? 500 : info->http_status, "application/json");
}

void call_answer_nothing(struct call *call)
{
    call_answer(call, 204, NULL);
}

/* ---- Dispatch --------------------------------------------------------------------------------*/

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
        call_answer(call, 200, "text/plain; version=0.0.4; charset=utf-8");
        break;
    case ENDPOINT_STATUS:
        pages_write_status(out, &sum, call->registry, clock_wall_us() / 1000, uptime_ms);
        call_answer(call, 200, "application/json");
        break;
    case ENDPOINT_ROOT:
        pages_write_root(out, &sum, call->registry, uptime_ms);
        call_answer(call, 200, "text/html; charset=utf-8");
        break;
    case ENDPOINT_READY:
        buffer_append_text(out, call->registry != NULL ? "{\"ready\":true}" : "{\"ready\":false}");
        call_answer(call, call->registry != NULL ? 200 : 503, "application/json");
        break;
    default:
        buffer_append_text(out, "{\"healthy\":true}");
        call_answer(call, 200, "application/json");
        break;
    }
}

static bool is_open(enum endpoint endpoint)
{
    return endpoint == ENDPOINT_HEALTH || endpoint == ENDPOINT_READY;
}

/* The path as it is written in docs/protocol.md, for a line of the log; nothing that a stranger
 * chose but the rank. */
static void name_path(const struct call *call, char path[PATH_BYTES])
{
    const char *name = route_endpoint_name(call->route.endpoint);
    if (!route_is_post(call->route.endpoint))
        snprintf(path, PATH_BYTES, "/%s", name);
    else if (call->route.bad_rank)
        snprintf(path, PATH_BYTES, "/?/%s", name);
    else
        snprintf(path, PATH_BYTES, "/%" PRIu32 "/%s", call->route.rank, name);
}

/* A client without the token has no cache, and who guesses at it should be seen. */
static void refuse_token(struct call *call)
{
    bool none = call->request->authorization.text == NULL;
    call_fail(call, KVS_ERR_UNAUTHORIZED,
              none ? "the request carries no token"
                   : "the token of the request is not the server's");
    call->answer->extra = "www-authenticate: Basic realm=\"kvshelf\"\r\n";
    metrics_add(&call->worker->metrics.unauthorized[none ? NO_TOKEN : WRONG_TOKEN], 1);
    char line[KVS_ERROR_MESSAGE_MAX + 256], path[PATH_BYTES];
    name_path(call, path);
    snprintf(line, sizeof(line), "A request (%s) from %s was refused: %s", path,
             call->peer->address[0] == '\0' ? "a client" : call->peer->address,
             call->error.message);
    thinned_log(&call->service->unauthorized, &call->service->log, call->now_ms, line);
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
        call_fail(call, KVS_ERR_ORIGIN, origin);
        return true;
    }
    if (is_open(call->route.endpoint) || auth_allows(&service->auth, request->authorization))
        return false;
    refuse_token(call);
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
    call_fail(call, KVS_ERR_REQUEST_RANK, length == 0 ? "?" : rank);
}

static void serve(struct call *call)
{
    enum endpoint endpoint = call->route.endpoint;
    if (endpoint == ENDPOINT_NONE) {
        call_fail(call, KVS_ERR_NOT_FOUND);
        return;
    }
    enum http_method method = call->request->method;
    bool allowed = route_is_post(endpoint) ? method == METHOD_POST
                                           : method == METHOD_GET || method == METHOD_HEAD;
    if (!allowed) {
        call_fail(call, KVS_ERR_METHOD);
        call->answer->extra = route_is_post(endpoint) ? "allow: POST\r\n" : "allow: GET, HEAD\r\n";
    } else if (!route_is_post(endpoint)) {
        serve_page(call);
    } else if (call->route.bad_rank) {
        refuse_rank(call);
    } else {
        call_serve_operation(call);
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
        call_fail(call, KVS_ERR_NO_MEMORY, "writing the answer");
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

bool request_is_refused(struct service *service, struct worker *worker, struct request_peer *peer,
                        const struct http_request *request, uint64_t now_ms,
                        struct answer *ret_answer)
{
    struct call call = {.service = service,
                        .worker = worker,
                        .peer = peer,
                        .request = request,
                        .now_ms = now_ms,
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
    if (request->body.length > REQUEST_LONG_BYTES)
        return true;
    switch (route_find(request->target).endpoint) {
    case ENDPOINT_INITIALIZE:
    case ENDPOINT_DROP:
    case ENDPOINT_LIST_KEYS:
    case ENDPOINT_METRICS:
    case ENDPOINT_STATUS:
    case ENDPOINT_ROOT:
        return true;
    default:
        return false;
    }
}

void request_fault(struct worker *worker, int status, const char *fault, uint64_t body_max,
                   struct answer *ret_answer)
{
    struct call call = {.worker = worker, .answer = ret_answer};
    call.route.endpoint = ENDPOINT_NONE;
    begin(&call);
    switch (status) {
    case 413:
        call_fail(&call, KVS_ERR_REQUEST_TOO_LARGE, text_count(body_max).text);
        break;
    case 414:
        call_fail(&call, KVS_ERR_TARGET_TOO_LONG, text_count(HTTP_TARGET_MAX).text);
        break;
    case 431:
        call_fail(&call, KVS_ERR_HEADERS_TOO_LARGE, text_count(HTTP_HEAD_MAX).text);
        break;
    case 408:
        call_fail(&call, KVS_ERR_REQUEST_TIMEOUT, fault);
        break;
    case 500:
        call_fail(&call, KVS_ERR_NO_MEMORY, "reading a request");
        break;
    default:
        error_set(&call.error, KVS_ERR_HTTP);
        size_t length = strlen(call.error.message);
        snprintf(call.error.message + length, sizeof(call.error.message) - length, " (%s)", fault);
        call_answer_error(&call);
        break;
    }
    end(&call);
}
