/* The server as threads and sockets: N event loops, each with its own connections, over one
 * service.
 *
 * A connection belongs to one loop for its whole life. The first loop accepts and hands connections
 * round. A loop never waits for a peer: what a peer does not read is kept up to a bound, and its
 * further requests are left in its socket meanwhile; so are long bodies while the loop holds much.
 * Long bodies are read one at a time beside the loops, in a lane of their own, so that short slow
 * work (initialize, pages of figures) does not wait for them. */
#ifndef KVSHELF_SERVER_SERVER_H
#define KVSHELF_SERVER_SERVER_H

#include "base/log.h"
#include "server/request.h"

struct server;

struct server_options {
    const char *host;
    uint16_t port; /* 0: any free one */
    unsigned threads;
    uint64_t body_max_bytes;
    uint64_t connections_max;
    /* What one loop holds of requests (heads, bodies whole or not, input that waits), and of its
     * unread answers; 0: the larger of 256 MiB and four of the longest bodies. Near it long bodies
     * are left in their sockets, and go on one at a time. */
    uint64_t buffered_max_bytes;
    uint64_t stall_ms; /* a long body that others wait for has to go on; 0: a second */
    uint64_t
        idle_ms; /* between requests, for the rest of a body, and for a peer to go on reading */
    uint64_t head_ms; /* for a request line and its headers to be complete */
    struct logger log;
};

/* Listens and serves at once; until server_ready() requests but /health and /ready wait. Errors:
 * KVS_ERR_LISTEN, KVS_ERR_NO_MEMORY, KVS_ERR_THREAD. */
enum kvs_status server_start(const struct server_options *options, struct service *service,
                             struct server **ret_server, struct kvs_error *error);

/* The catalogs are loaded. */
void server_ready(struct server *server, struct registry *registry);

uint16_t server_port(const struct server *server);

/* Stops accepting, lets requests in flight end for at most `grace_ms`, then frees everything but
 * the service and its registry. After the grace only what a thread is at is waited for: requests
 * that wait for one are not served. NULL allowed; returns NULL. */
struct server *server_stop(struct server *server, uint64_t grace_ms);

/* Whether every address of `host` is a loopback address; false also when it has none. */
bool server_host_is_loopback(const char *host);

#endif
