/* The model of the catalog's rules (support/catalog_model.h) beside the catalog of the seed: it
 * plays the same calls and must agree, and what was answered must be there after every restart.
 * Attached at link time to the functions of catalog/catalog.h, so that whoever uses a catalog is
 * heard.
 *
 * A seed has one catalog at a time, of rank 0 and namespace "kv". */
#ifndef KVSHELF_TESTS_SIM_SIM_TWIN_H
#define KVSHELF_TESTS_SIM_SIM_TWIN_H

#include "sim_network.h"

void twin_begin(void);

/* Who is being answered: set before a request; taken over when the catalog is reached. */
extern struct truth_asker twin_asker;
/* Where the generations of the answer are noted; NULL: nowhere. */
extern struct network_answer_note *twin_note;

/* How the process that had the catalog ended. */
void twin_stopped(void);
void twin_killed(void);
/* The machine lost power, or /dev/shm was lost while the process was not there. */
void twin_lost_shm(void);

/* A process begins to open its catalogs. */
void twin_begin_opening(void);

/* Looks at everything; fails the seed. NULL catalog: nothing. */
void twin_look(void);
struct catalog *twin_catalog(void);

extern bool twin_without_model; /* the promises alone judge */

#endif
