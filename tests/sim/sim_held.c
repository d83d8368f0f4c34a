/* What each simulated process holds of the real one: memory, mappings, descriptors. It is taken
 * back when the process is killed, and must be nothing when it ends by itself. */
#include "sim.h"
#include "sim_wrap.h"

#include <stdio.h>
#include <stdlib.h>

enum { PLACES = 1 << 15 }; /* a power of two, far above what is ever held */

struct held {
    struct sim_process *process; /* NULL: an empty place */
    uint64_t value;
    size_t bytes;
    enum sim_held kind;
};

static struct held table[PLACES];
static size_t count;

static size_t home_of(enum sim_held kind, uint64_t value)
{
    return ((value >> 4 ^ value << 3 ^ kind) * 0x9e3779b97f4a7c15u) >> 49;
}

/* The place of a value, or the empty one where it would go. */
static size_t place_of(enum sim_held kind, uint64_t value)
{
    size_t at = home_of(kind, value);
    while (table[at].process != NULL && (table[at].value != value || table[at].kind != kind))
        at = (at + 1) % PLACES;
    return at;
}

/* Later values of the run move up, so that each is found from its home. */
static void remove_at(size_t at)
{
    struct sim_process *process = table[at].process;
    process->bytes -= table[at].bytes;
    count--;
    for (size_t next = (at + 1) % PLACES; table[next].process != NULL; next = (next + 1) % PLACES) {
        size_t home = home_of(table[next].kind, table[next].value);
        bool may_move = at <= next ? home <= at || home > next : home <= at && home > next;
        if (!may_move)
            continue;
        table[at] = table[next];
        at = next;
    }
    table[at].process = NULL;
}

void sim_hold(struct sim_process *process, enum sim_held kind, uint64_t value, size_t bytes)
{
    size_t at = place_of(kind, value);
    if (table[at].process != NULL) /* a descriptor that was closed inside the C library */
        remove_at(at), at = place_of(kind, value);
    if (++count > PLACES / 2) {
        fprintf(stderr, "simulation: too much is held\n");
        abort();
    }
    table[at] = (struct held){process, value, bytes, kind};
    process->bytes += bytes;
    if (process->peak_bytes < process->bytes)
        process->peak_bytes = process->bytes;
}

bool sim_unhold(enum sim_held kind, uint64_t value)
{
    size_t at = place_of(kind, value);
    if (table[at].process == NULL)
        return false;
    remove_at(at);
    return true;
}

bool sim_holds_anything(const struct sim_process *process, enum sim_held *ret_kind)
{
    for (size_t at = 0; count > 0 && at < PLACES; at++)
        if (table[at].process == process) {
            *ret_kind = table[at].kind;
            return true;
        }
    return false;
}

void sim_take_back(struct sim_process *process)
{
    for (size_t at = 0; count > 0 && at < PLACES; at++)
        while (table[at].process == process) {
            struct held held = table[at];
            remove_at(at);
            sim_really_give_up(held.kind, held.value, held.bytes);
        }
}
