/* One request on its way to its answer: what request.c and operations.c share. For this folder
 * only. */
#ifndef KVSHELF_SERVER_CALL_H
#define KVSHELF_SERVER_CALL_H

#include "base/status.h"
#include "server/request.h"

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

/* The body is what was written into the worker's answer buffer; content_type NULL: none. */
void call_answer(struct call *call, int status, const char *content_type);
void call_answer_nothing(struct call *call); /* 204 */
/* Turns call->error into the answer. */
void call_answer_error(struct call *call);

/* `call_fail(call, KVS_ERR_X, argument...)`: answers with an error of the catalogue. */
#define call_fail(call, status, ...)                                                               \
    (error_set(&(call)->error, status, ##__VA_ARGS__), call_answer_error(call))

/* operations.c: POST /{rank}/{operation}, once path, method and rank are known to be right. */
void call_serve_operation(struct call *call);

#endif
