/* What a seed is about: who is there, how long it goes, and which faults happen how often. Drawn
 * from the seed alone; then made smaller by the command line, when a failure is to be understood.
 */
#ifndef KVSHELF_TESTS_SIM_SIM_PLAN_H
#define KVSHELF_TESTS_SIM_SIM_PLAN_H

#include "kvshelf/kvshelf.h"
#include "sim.h"

/* Each kind of fault or rare request: what it is, and whether it can be left out. */
#define SIM_FAULTS(X)                                                                              \
    X(LOST_REQUEST, "requests lost")                                                               \
    X(LOST_ANSWER, "answers lost after the effect")                                                \
    X(DUPLICATE, "requests delivered twice")                                                       \
    X(DELAY, "messages delayed and overtaken")                                                     \
    X(PARTITION, "partitions")                                                                     \
    X(KILL, "servers killed")                                                                      \
    X(KILL_IN_CALL, "servers killed in a system call")                                             \
    X(POWER_CUT, "power cuts")                                                                     \
    X(STOP, "servers stopped cleanly")                                                             \
    X(SHM_LOST, "/dev/shm lost while the server was down")                                         \
    X(SHM_FULL, "starts without room on /dev/shm")                                                 \
    X(IMAGE_ERROR, "failed writes and syncs of images")                                            \
    X(IMAGE_SHORT, "short and interrupted writes of images")                                       \
    X(CLIENT_KILL, "clients killed")                                                               \
    X(CLOCK_JUMP, "jumps of the server's clock")                                                   \
    X(WALL_JUMP, "wall clocks set back at a boot")                                                 \
    X(DISK_ERROR, "page I/O errors")                                                               \
    X(DISK_SHORT, "short page I/O")                                                                \
    X(DISK_FULL, "writes without space")                                                           \
    X(DISK_SLOW, "page I/O as slow as a lease or a reservation")                                   \
    X(DISK_STUCK, "page I/O that outlives its call")                                               \
    X(DISK_LOST, "unsynced page halves lost by a power cut")                                       \
    X(DISK_ROT, "pages damaged on the disk")                                                       \
    X(LATE_CONFIRM, "late confirms of original clients")                                           \
    X(DEAD_WRITER, "original clients that die between reserve and confirm")                        \
    X(DELETE, "deletes")                                                                           \
    X(CLEAR, "clears")                                                                             \
    X(OTHER_GEOMETRY, "initializes with another geometry")                                         \
    X(FALSE_REPORT, "reports of mismatches that are none")                                         \
    X(MALFORMED, "requests that are not well-formed")                                              \
    X(FALSE_CONFIRM, "confirms again with another checksum")                                       \
    X(REBOOT, "reboots while the server was down")

enum sim_fault {
#define X(name, text) FAULT_##name,
    SIM_FAULTS(X)
#undef X
        SIM_FAULT_KINDS
};
const char *sim_fault_name(enum sim_fault fault); /* "KILL_IN_CALL" */
const char *sim_fault_text(enum sim_fault fault);

enum { SIM_NATIVES_MAX = 3, SIM_ORIGINALS_MAX = 3, SIM_PAGES_MAX = 24, SIM_KEYS_MAX = 40 };

struct sim_plan {
    uint64_t seed;
    bool local; /* one store with catalogs of its own instead of a server */
    bool kept;  /* in a directory */
    uint32_t num_pages, page_bytes, num_keys;
    bool pairs;
    enum kvs_eviction eviction;
    uint64_t reserve_ttl_ms, quarantine_ms, lease_ms, idle_reset_ms;
    uint32_t natives, originals;
    bool mla;                 /* native clients are ranks of which the first writes for all */
    uint32_t exists_cache_ms; /* of native clients */
    bool deadlines;           /* the page file is one whose I/O may hang */
    uint32_t client_timeout_ms;
    uint64_t horizon_us;
    uint32_t think_us;            /* clients rest up to this long between calls */
    uint32_t slow_ms;             /* what is slow takes up to this long */
    bool faults[SIM_FAULT_KINDS]; /* wanted at all */
    uint32_t per_mille[SIM_FAULT_KINDS];
    uint32_t tear_bytes; /* what a power cut keeps or loses as a whole */
};

void sim_plan_draw(struct sim_plan *plan, uint64_t seed);
void sim_plan_print(const struct sim_plan *plan);
/* Nothing of this kind in this seed. */
void sim_plan_without(struct sim_plan *plan, enum sim_fault fault);

extern struct sim_plan sim_plan; /* of the seed that is played */

/* ---- Faults as they happen -------------------------------------------------------------------*/

/* Draws whether it happens now, and counts it. Never once the world is settling. */
bool sim_fault(struct chance *chance, enum sim_fault fault);
void sim_fault_count(enum sim_fault fault);
extern uint64_t sim_fault_counts[SIM_FAULT_KINDS];
extern bool sim_settling; /* the horizon has passed: no faults any more */

#endif
