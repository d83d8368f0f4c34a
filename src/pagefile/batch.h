/* What engines do with batches: begin, end each I/O once, wait. Callers of engines use pagefile.h.
 *
 * page_batch_begin() takes the engine's share. Each I/O is then ended exactly once, by any thread;
 * the last one gives the share back, after which the batch may be gone. */
#ifndef KVSHELF_PAGEFILE_BATCH_H
#define KVSHELF_PAGEFILE_BATCH_H

#include "pagefile/pagefile.h"

enum page_direction page_batch_direction(const struct page_batch *batch);

/* False when there is nothing to do (n is 0). */
bool page_batch_begin(struct page_batch *batch);
void page_batch_end_io(struct page_batch *batch, size_t index, int64_t result, uint64_t checksum);
/* Waits until every I/O has ended (true) or the deadline (CLOCK_MONOTONIC, 0: none) has passed. */
bool page_batch_wait(struct page_batch *batch, uint64_t deadline_ns);
/* Makes the batch stand still for its caller and tells what run() is to return. */
enum kvs_status page_batch_leave(struct page_batch *batch);

/* begin, end all with the same result, leave: for runs that cannot start anything. */
enum kvs_status page_batch_fail(struct page_batch *batch, int error_number);

/* 0, or the -errno of an I/O that no engine starts: no bytes, no buffer, beyond what a file can
 * have, or a write past the end that was agreed on (file_size, 0: none). */
int64_t page_io_refuse(const struct page_io *io, enum page_direction direction, uint64_t file_size);

#endif
