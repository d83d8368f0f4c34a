/* See waiting.h. A thread of its own says it, as whoever waits cannot. */
#include "cli/waiting.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

static const uint64_t PATIENCE_NS = 1000000000;

static void say(struct waiting *waiting)
{
    if (!waiting->said && clock_mono_ns() >= waiting->said_from_ns)
        fprintf(stderr, "kvshelf: %s\n", waiting->line);
    waiting->said = waiting->said || clock_mono_ns() >= waiting->said_from_ns;
}

static void *watch(void *arg)
{
    struct waiting *waiting = arg;
    const struct timespec until = {(time_t)(waiting->said_from_ns / 1000000000),
                                   (long)(waiting->said_from_ns % 1000000000)};
    pthread_mutex_lock(&waiting->mutex);
    int woken = 0;
    while (!waiting->ended && woken == 0)
        woken = pthread_cond_timedwait(&waiting->ended_early, &waiting->mutex, &until);
    say(waiting);
    pthread_mutex_unlock(&waiting->mutex);
    return NULL;
}

void waiting_begin(struct waiting *waiting, const char *line)
{
    *waiting = (struct waiting){.line = line, .said_from_ns = clock_mono_ns() + PATIENCE_NS};
    if (line == NULL)
        return;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&waiting->ended_early, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&waiting->mutex, NULL);
    /* Signals are for the thread that works. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    waiting->runs = pthread_create(&waiting->thread, NULL, watch, waiting) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void waiting_end(struct waiting *waiting)
{
    if (waiting->line == NULL)
        return;
    pthread_mutex_lock(&waiting->mutex);
    waiting->ended = true;
    pthread_cond_signal(&waiting->ended_early);
    pthread_mutex_unlock(&waiting->mutex);
    if (waiting->runs)
        pthread_join(waiting->thread, NULL);
    else
        say(waiting);
    pthread_cond_destroy(&waiting->ended_early);
    pthread_mutex_destroy(&waiting->mutex);
    waiting->line = NULL;
}
