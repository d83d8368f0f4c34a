/* An engine over another one that fails as told: the nth I/O once, or from then on. And one that
 * forgets as a machine does that loses its power: what was not synced is kept, torn or lost at
 * random. For I/O that is late, out of order or never ends put engine_delay.h over or under it. */
#ifndef KVSHELF_TESTS_SUPPORT_ENGINE_FAULT_H
#define KVSHELF_TESTS_SUPPORT_ENGINE_FAULT_H

#include "pagefile/pagefile.h"

enum fault_kind {
    FAULT_NONE,
    FAULT_ERROR, /* nothing is moved: -error_number */
    FAULT_SHORT, /* half the bytes are moved, and that is the result */
    FAULT_LONG,  /* moved whole, but the result is one byte too many */
    FAULT_TORN,  /* half the bytes are moved, the result is -error_number */
    FAULT_LOST,  /* said to be done, nothing is moved */
    FAULT_FLIP, /* done, with one bit wrong: in the buffer when reading, in the file when writing */
};

struct fault_rule {
    enum fault_kind kind;
    int error_number;
    bool reads, writes, syncs; /* which I/O counts */
    uint64_t nth;              /* the first that counts is 1 */
    bool from_then_on;
};

/* Owns `below`. `seed` is of what crash() keeps. */
struct pagefile *engine_fault_new(struct pagefile *below, uint64_t seed);
/* Replaces the rule and starts counting anew. */
void engine_fault_set(struct pagefile *file, const struct fault_rule *rule);
/* How many I/Os have counted, and how many of them were made to fail, since. */
uint64_t engine_fault_counted(struct pagefile *file);
uint64_t engine_fault_fired(struct pagefile *file);

/* From now on writes are remembered until they are synced. */
void engine_fault_journal(struct pagefile *file);
/* A power cut: of each write since the last sync all, nothing or some 4 KiB blocks remain, and
 * writes may have reached the disk in any order. Returns how many were unsynced. With no I/O under
 * way. */
size_t engine_fault_crash(struct pagefile *file);

#endif
