/* A bound on the bytes of I/O under way: who would exceed it waits. It is what holds writers back
 * when storage is slower than they are, and what bounds the memory of I/O that outlived its call.
 *
 * Counted by references, because I/O that outlived its call may end after the store has been
 * closed. Threads: any. */
#ifndef KVSHELF_STORE_INFLIGHT_H
#define KVSHELF_STORE_INFLIGHT_H

#include <stdbool.h>
#include <stdint.h>

struct inflight;

/* NULL on lack of memory. The caller holds the first reference. */
struct inflight *inflight_new(uint64_t max_bytes);
struct inflight *inflight_ref(struct inflight *inflight);
/* NULL allowed; returns NULL. */
struct inflight *inflight_unref(struct inflight *inflight);

/* Waits until `bytes` fit, or nothing else is under way (so that one page larger than the bound can
 * move). deadline_ns: CLOCK_MONOTONIC, 0 for none. False when the deadline passed first. */
bool inflight_take(struct inflight *inflight, uint64_t bytes, uint64_t deadline_ns);
void inflight_give(struct inflight *inflight, uint64_t bytes);

/* Without a lock. */
uint64_t inflight_bytes(const struct inflight *inflight);
uint64_t inflight_waits(const struct inflight *inflight);

#endif
