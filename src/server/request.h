/* One request in, one answer out: the whole behaviour of the server as a function, without sockets
 * and with the clock passed in, so that a simulation and tests can drive it.
 *
 * Threads: a service is shared; a worker and a peer belong to one thread at a time. */
#ifndef KVSHELF_SERVER_REQUEST_H
#define KVSHELF_SERVER_REQUEST_H

#include "base/log.h"
#include "metadata/registry.h"
#include "server/auth.h"
#include "server/body.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/thinned.h"

#include <stdatomic.h>

enum {
    REQUEST_LONG_BYTES = 256 * 1024, /* a body beyond is slow work */
    REQUEST_LIST_MAX = 4096,         /* keys of one answer of list_keys */
    REQUEST_REPORTS_BURST = 64,      /* pages of report_mismatch a connection may send at once */
    REQUEST_REPORTS_PER_S = 8,       /* and how many more each second */
};

struct worker;

struct service {
    struct auth auth;
    uint64_t started_ms;
    _Atomic(struct registry *) registry; /* NULL until the catalogs are loaded */
    struct logger log;                   /* set before the first request */
    struct thinned refused_initializes, unauthorized;
    struct worker **workers; /* all of them, for the figures; set before the first request */
    size_t worker_count;
};

/* `registry` may be NULL and set later. */
void service_init(struct service *service, struct registry *registry, uint64_t now_ms);
void service_done(struct service *service);

/* What one thread needs to serve: scratch of fixed size, and its counters. */
struct worker {
    struct metrics metrics;
    struct body body;
    struct catalog_reserved *reserved; /* the results of one batch, BODY_KEYS_MAX of each */
    struct catalog_found *found;
    bool *exists;
    enum catalog_rejection *reasons; /* confirms, then releases */
    struct buffer answer;
};
/* NULL on lack of memory. */
struct worker *worker_new(void);
struct worker *worker_free(struct worker *worker); /* NULL allowed; returns NULL */

/* What the server remembers of a connection. All zero is a new one. */
struct request_peer {
    char address[64];    /* for the log; empty: not known */
    uint64_t reports_ms; /* when `reports_left` was reckoned */
    uint32_t reports_used;
};

struct answer {
    int status;
    const char *content_type; /* NULL: no body */
    const char *extra;        /* further header lines, or NULL; static storage */
    const char *body;         /* in worker->answer, until the next request */
    size_t length;            /* bytes */
    enum endpoint endpoint;
};

/* Answers a whole request. */
void request_answer(struct service *service, struct worker *worker, struct request_peer *peer,
                    const struct http_request *request, uint64_t now_ms, struct answer *ret_answer);

/* Whether a request is refused by its head alone (token, origin): then *ret_answer is its answer
 * and its body need not be read. */
bool request_is_refused(struct service *service, struct worker *worker, struct request_peer *peer,
                        const struct http_request *request, uint64_t now_ms,
                        struct answer *ret_answer);

/* The request has to wait until the catalogs are loaded; /health and /ready have not. */
bool request_must_wait(struct service *service, const struct http_request *request);

/* Not for a thread that others wait for: creating a catalog takes memory in proportion to its
 * pages, a long body takes milliseconds, and so do pages over thousands of namespaces. */
bool request_is_slow(const struct http_request *request);

/* The answer to bytes that are no request: `status` and `fault` as the parser gave them. */
void request_fault(struct worker *worker, int status, const char *fault, uint64_t body_max,
                   struct answer *ret_answer);

#endif
