/* A load of all operations on kept catalogs, which can be killed at any moment, and the check of
 * what is left. What was answered is recorded in memory shared with the processes that come after,
 * and so are the "pages": one word each, written between reserve and confirm as a page's bytes are.
 *
 * Three namespaces of rank 0: "roomy" never evicts, so that every answered confirm must be found;
 * "tight" evicts all the time, so that a page has many owners one after the other; "brief" is
 * initialized and dropped. */
#ifndef KVSHELF_TESTS_SUPPORT_KILL_LOAD_H
#define KVSHELF_TESTS_SUPPORT_KILL_LOAD_H

#include "metadata/registry.h"

#include <stdatomic.h>

enum {
    KILL_THREADS = 3,
    KILL_NAMESPACES = 2, /* those with keys */
    KILL_KEYS = 1500,    /* of each */
    KILL_ROOMY_PAGES = 4096,
    KILL_TIGHT_PAGES = 256,
    KILL_BRIEF_PAGES = 33,
};

/* Values name a key and the attempt to store it. 0: absent. */
struct kill_record {
    atomic_ullong answered; /* what the last answer left under this key */
    atomic_ullong pending;  /* what an operation under way may leave, or KILL_REMOVING */
    atomic_uint attempts;
};
#define KILL_REMOVING 1ull

struct kill_shared {
    struct kill_record records[KILL_NAMESPACES][KILL_KEYS];
    atomic_ullong pages[KILL_NAMESPACES][KILL_ROOMY_PAGES];
    atomic_bool clearing[KILL_NAMESPACES];
    atomic_bool brief_there, brief_pending;
    atomic_ullong operations, confirms; /* answered so far, by all processes */
    atomic_ullong checked, found;       /* keys */
    char wrong[1536];                   /* the first thing a check found wrong */
};

/* Memory that a killed process leaves to its parent. */
struct kill_shared *kill_shared_new(void);

enum kill_end { KILL_BY_SIGNAL, KILL_POWER_LOST };

/* Opens the registry and works until killed, or until `operations` have been answered by this
 * process and then stops cleanly. Returns false when something was answered that cannot be. */
bool kill_load_run(struct kill_shared *shared, const struct registry_options *options,
                   uint64_t seed, uint64_t operations);

/* Opens the registry and compares it with the record; after a power cut the record takes over what
 * is found. Returns false, with `wrong` filled, when they do not agree. Leaves the registry open:
 * the caller stops or dies. */
bool kill_check(struct kill_shared *shared, const struct registry_options *options,
                enum kill_end end, struct registry **ret_registry);

#endif
