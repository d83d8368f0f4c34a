/* A line of the log that peers can bring about again and again: a burst of them is written, so that
 * all ranks of an engine that start at once are seen, then one a second, and what was left out is
 * counted and said with the next one. Threads: any. */
#ifndef KVSHELF_SERVER_THINNED_H
#define KVSHELF_SERVER_THINNED_H

#include "base/log.h"

#include <pthread.h>

enum { THINNED_BURST = 16, THINNED_INTERVAL_MS = 1000 };

struct thinned {
    pthread_mutex_t mutex;
    unsigned left;      /* lines that may be written now */
    uint64_t filled_ms; /* when the last one was gained */
    uint64_t unsaid;
};

void thinned_init(struct thinned *thinned, uint64_t now_ms);
void thinned_done(struct thinned *thinned);

/* Writes the line as a warning, or counts it. */
void thinned_log(struct thinned *thinned, const struct logger *log, uint64_t now_ms,
                 const char *line);

#endif
