/* One io_uring and how it runs one batch at a time, by the thread that asks. Not a pool of rings.
 *
 * A ring is used by one thread at a time, but not always the same. It holds no I/O between runs. */
#ifndef KVSHELF_PAGEFILE_RING_H
#define KVSHELF_PAGEFILE_RING_H

#include "pagefile/file.h"

struct ring;

/* depth: the most I/Os in flight, at least 1. Returns 0 or -errno. */
int ring_new(struct page_file *file, unsigned depth, struct ring **ret_ring);
struct ring *ring_free(struct ring *ring);

/* Ends every I/O of the batch, which has been begun. What the ring cannot do any more is done by
 * plain calls; the ring is then not sound, and must be replaced. */
void ring_run(struct ring *ring, struct page_file *file, struct page_batch *batch);
bool ring_sound(const struct ring *ring);

/* Pins memory, so that I/O on it needs not to look it up page by page. False when the kernel
 * refuses or the table is full: I/O on that memory works all the same. */
bool ring_register(struct ring *ring, void *base, size_t bytes);

#endif
