/* A bound on how often something is done: a bucket of tokens that fills at a rate. For log lines
 * that a broken disk would repeat for every page, and for reports that must not empty a shared
 * cache. Threads: any. */
#ifndef KVSHELF_STORE_LIMITER_H
#define KVSHELF_STORE_LIMITER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct limiter {
    pthread_mutex_t mutex;
    uint64_t interval_ns; /* one token each */
    uint64_t burst;       /* the most tokens */
    uint64_t tokens, filled_ns;
};

/* Starts full. */
void limiter_init(struct limiter *limiter, uint64_t interval_ns, uint64_t burst);
void limiter_done(struct limiter *limiter);
/* Takes up to n tokens; returns how many. now_ns: CLOCK_MONOTONIC. */
uint64_t limiter_take(struct limiter *limiter, uint64_t now_ns, uint64_t n);

#endif
