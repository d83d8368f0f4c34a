/* Which endpoint a request's path names. Pure. */
#ifndef KVSHELF_SERVER_ROUTE_H
#define KVSHELF_SERVER_ROUTE_H

#include "server/http.h"

/* The order is that of the metrics; names are in route_endpoint_name(). */
enum endpoint {
    ENDPOINT_INITIALIZE,
    ENDPOINT_RESERVE,
    ENDPOINT_CONFIRM,
    ENDPOINT_GET,
    ENDPOINT_EXISTS,
    ENDPOINT_DELETE,
    ENDPOINT_CLEAR,
    ENDPOINT_REPORT_MISMATCH,
    ENDPOINT_LIST_KEYS,
    ENDPOINT_DROP,
    ENDPOINT_RANK_LAST = ENDPOINT_DROP, /* up to here: POST /{rank}/{name} */
    ENDPOINT_HEALTH,
    ENDPOINT_READY,
    ENDPOINT_METRICS,
    ENDPOINT_STATUS,
    ENDPOINT_ROOT,
    ENDPOINT_NONE, /* no such path */
    ENDPOINTS,
};

struct route {
    enum endpoint endpoint;
    bool bad_rank; /* the path is right but for its rank */
    uint32_t rank;
};

/* `target` as in the request line. Its query string is ignored, %XX is decoded. */
struct route route_find(struct http_text target);

/* The last part of the path, e.g. "get_page_indices". Static storage. */
const char *route_endpoint_name(enum endpoint endpoint);

static inline bool route_is_post(enum endpoint endpoint)
{
    return endpoint <= ENDPOINT_RANK_LAST;
}

#endif
