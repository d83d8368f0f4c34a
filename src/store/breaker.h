/* A breaker: after enough failures in a row it refuses, so that a dead server, a hung mount or a
 * full disk costs one short refusal a call instead of a timeout each, and so that failing writes do
 * not drain the cache. After a pause one caller is let through to probe; its success closes the
 * breaker, its failure doubles the pause.
 *
 * It counts failures of the medium only: misses, mismatches and full catalogs are never told to it.
 * Threads: any. The time is an argument (CLOCK_MONOTONIC, nanoseconds). */
#ifndef KVSHELF_STORE_BREAKER_H
#define KVSHELF_STORE_BREAKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum breaker_answer { BREAKER_ALLOWS, BREAKER_PROBES, BREAKER_REFUSES };

struct breaker {
    pthread_mutex_t mutex;
    uint32_t limit;    /* failures in a row that trip it */
    uint32_t failures; /* in a row */
    bool open, probing;
    uint64_t pause_ns, until_ns;
    uint64_t changed_ns; /* when it last opened or closed */
    _Atomic uint64_t trips;
};

void breaker_init(struct breaker *breaker, uint32_t limit);
void breaker_done(struct breaker *breaker);

/* A caller that is answered BREAKER_PROBES tries as little as it can and must then call
 * breaker_report() or breaker_cancel(). */
enum breaker_answer breaker_ask(struct breaker *breaker, uint64_t now_ns);

/* Whether it lets everything through now, for whoever has reported a probe: asking again could be
 * answered with another one. */
bool breaker_closed(struct breaker *breaker);

/* What came of what was tried from `began_ns` on; any success ends the row of failures. `at_once`:
 * trip whatever the count (the disk is full, the call ran into its deadline). A failure of what
 * began before the breaker last opened or closed is old news, and says nothing. Returns true when
 * this call tripped it, for the one log line. */
bool breaker_report(struct breaker *breaker, uint64_t began_ns, uint64_t now_ns, uint64_t successes,
                    uint64_t failures, bool at_once);

/* Nothing was tried after all: the next caller probes. */
void breaker_cancel(struct breaker *breaker);

/* Without a lock. */
uint64_t breaker_trips(const struct breaker *breaker);
/* The pause that is going on, in milliseconds; 0 when closed. */
uint64_t breaker_pause_ms(struct breaker *breaker);

#endif
