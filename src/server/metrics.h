/* What the server counts about itself, and the text that Prometheus reads.
 *
 * Each worker counts in its own block: one thread writes it, any thread reads it, so that a count
 * is a plain store and never a contended one. What the catalogs count is asked of the registry. */
#ifndef KVSHELF_SERVER_METRICS_H
#define KVSHELF_SERVER_METRICS_H

#include "base/buffer.h"
#include "metadata/registry.h"
#include "server/route.h"

#include <stdatomic.h>
#include <stdint.h>

enum { METRICS_BUCKETS = 17 }; /* of a latency histogram, the last one without a bound */

enum metrics_outcome { OUTCOME_OK, OUTCOME_REFUSED, OUTCOME_FAILED, OUTCOMES }; /* 2xx, 4xx, 5xx */

/* Why a connection was ended by the server. */
enum metrics_end {
    END_IDLE,     /* nothing came for the idle time */
    END_SLOW,     /* a head or a body was not complete in time */
    END_UNREAD,   /* the peer did not read its answers */
    END_PROTOCOL, /* what came was not HTTP, or beyond a limit */
    END_SHED,     /* the oldest idle one made room for another */
    ENDS,
};

/* Why a request was not let in. */
enum metrics_unauthorized { NO_TOKEN, WRONG_TOKEN, UNAUTHORIZED };

struct metrics {
    _Atomic uint64_t requests[ENDPOINTS][OUTCOMES];
    _Atomic uint64_t latency[ENDPOINTS][METRICS_BUCKETS]; /* not cumulative */
    _Atomic uint64_t latency_ns[ENDPOINTS];
    _Atomic uint64_t keys[ENDPOINTS];
    _Atomic uint64_t bytes_received, bytes_sent;
    _Atomic uint64_t connections_opened, connections_closed;
    _Atomic uint64_t ended[ENDS];
    _Atomic uint64_t unauthorized[UNAUTHORIZED];
};

/* By the one thread that owns the block. */
static inline void metrics_add(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value,
                          memory_order_relaxed);
}

void metrics_count_request(struct metrics *metrics, enum endpoint endpoint, int status,
                           uint64_t duration_ns);

/* A sum over all blocks, as plain numbers. */
struct metrics_sum {
    uint64_t requests[ENDPOINTS][OUTCOMES];
    uint64_t latency[ENDPOINTS][METRICS_BUCKETS];
    uint64_t latency_ns[ENDPOINTS];
    uint64_t keys[ENDPOINTS];
    uint64_t bytes_received, bytes_sent, connections_opened, connections_closed;
    uint64_t ended[ENDS];
    uint64_t unauthorized[UNAUTHORIZED];
};
void metrics_sum_add(struct metrics_sum *sum, const struct metrics *metrics);

/* Appends the exposition text. `registry` NULL: the catalogs are not loaded yet. */
void metrics_write(struct buffer *out, const struct metrics_sum *sum, struct registry *registry,
                   uint64_t uptime_ms);

#endif
