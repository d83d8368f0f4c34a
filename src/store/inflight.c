/* The bound as a counter under a mutex, with a condition on which takers wait. */
#include "store/inflight.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct inflight {
    pthread_mutex_t mutex;
    pthread_cond_t sunk;
    uint64_t max_bytes;
    _Atomic uint64_t used_bytes; /* changed under the mutex */
    _Atomic uint64_t waits;
    _Atomic uint32_t refs;
};

struct inflight *inflight_new(uint64_t max_bytes)
{
    struct inflight *inflight = calloc(1, sizeof(*inflight));
    if (inflight == NULL)
        return NULL;
    inflight->max_bytes = max_bytes;
    atomic_init(&inflight->refs, 1);
    pthread_mutex_init(&inflight->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&inflight->sunk, &attributes);
    pthread_condattr_destroy(&attributes);
    return inflight;
}

struct inflight *inflight_ref(struct inflight *inflight)
{
    atomic_fetch_add(&inflight->refs, 1);
    return inflight;
}

struct inflight *inflight_unref(struct inflight *inflight)
{
    if (inflight != NULL && atomic_fetch_sub(&inflight->refs, 1) == 1) {
        pthread_cond_destroy(&inflight->sunk);
        pthread_mutex_destroy(&inflight->mutex);
        free(inflight);
    }
    return NULL;
}

static bool fits(const struct inflight *inflight, uint64_t bytes)
{
    uint64_t used = inflight->used_bytes;
    return used == 0 || (used <= inflight->max_bytes && bytes <= inflight->max_bytes - used);
}

bool inflight_take(struct inflight *inflight, uint64_t bytes, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                             .tv_nsec = (long)(deadline_ns % 1000000000)};
    bool waited = false, late = false;
    pthread_mutex_lock(&inflight->mutex);
    while (!fits(inflight, bytes) && !late) {
        waited = true;
        if (deadline_ns == 0)
            pthread_cond_wait(&inflight->sunk, &inflight->mutex);
        else
            late = pthread_cond_timedwait(&inflight->sunk, &inflight->mutex, &until) != 0;
    }
    bool taken = fits(inflight, bytes);
    if (taken)
        atomic_fetch_add(&inflight->used_bytes, bytes);
    if (waited)
        atomic_fetch_add(&inflight->waits, 1);
    pthread_mutex_unlock(&inflight->mutex);
    return taken;
}

void inflight_give(struct inflight *inflight, uint64_t bytes)
{
    pthread_mutex_lock(&inflight->mutex);
    atomic_fetch_sub(&inflight->used_bytes, bytes);
    pthread_cond_broadcast(&inflight->sunk);
    pthread_mutex_unlock(&inflight->mutex);
}

uint64_t inflight_bytes(const struct inflight *inflight)
{
    return atomic_load(&inflight->used_bytes);
}

uint64_t inflight_waits(const struct inflight *inflight)
{
    return atomic_load(&inflight->waits);
}
