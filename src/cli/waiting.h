/* A line on stderr when something takes longer than a second: who waits should know for what. */
#ifndef KVSHELF_CLI_WAITING_H
#define KVSHELF_CLI_WAITING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct waiting {
    const char *line; /* NULL: nothing is said */
    uint64_t said_from_ns;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t ended_early;
    bool ended, said, runs;
};

/* `line` without an end of line; valid until waiting_end(), as is `waiting`. NULL is quiet. */
void waiting_begin(struct waiting *waiting, const char *line);
void waiting_end(struct waiting *waiting);

#endif
