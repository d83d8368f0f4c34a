/* An engine that decides when I/O ends: at once, out of order, after a while, or not until told. A
 * thread of its own moves the bytes, by the engine below, at the moment the I/O ends: a late read
 * writes into its buffer late. */
#ifndef KVSHELF_TESTS_SUPPORT_ENGINE_DELAY_H
#define KVSHELF_TESTS_SUPPORT_ENGINE_DELAY_H

#include "pagefile/pagefile.h"

struct delay_options {
    uint64_t seed;   /* of the order, which is never that of the batch */
    bool network;    /* what info.needs_deadline says */
    uint32_t max_us; /* each I/O takes a random time of up to this, 0: none */
};

/* Owns `below`. */
struct pagefile *engine_delay_new(struct pagefile *below, const struct delay_options *options);

/* From now on I/O is taken but not ended. */
void engine_delay_hold(struct pagefile *file);
/* Ends up to n I/Os, now or when they come, though held. SIZE_MAX: hold no more. */
void engine_delay_release(struct pagefile *file, size_t n);
/* Waits until n I/Os are held. */
void engine_delay_wait_held(struct pagefile *file, size_t n);
size_t engine_delay_held(struct pagefile *file);

#endif
