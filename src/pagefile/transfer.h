/* One I/O, moved whole by the calling thread: short transfers are continued, the checksum is taken
 * while the bytes are still in the processor's cache, and unaligned memory is carried over for
 * direct I/O. Knows nothing of batches. */
#ifndef KVSHELF_PAGEFILE_TRANSFER_H
#define KVSHELF_PAGEFILE_TRANSFER_H

#include "pagefile/file.h"

/* A thread's memory for direct I/O from and to unaligned buffers. Zero it before use. */
struct transfer_bounce {
    void *bytes;
};
void transfer_bounce_done(struct transfer_bounce *bounce);

/* Called before the thread waits for the storage, and after: time in which another can work. */
struct transfer_waiting {
    void (*begin)(void *arg);
    void (*end)(void *arg);
    void *arg;
};

/* Returns bytes moved (short only at the end of the file), or -errno. ret_checksum is set when the
 * I/O asks for it and moved whole. */
int64_t transfer_run(struct page_file *file, enum page_direction direction,
                     const struct page_io *io, struct transfer_bounce *bounce,
                     const struct transfer_waiting *waiting, uint64_t *ret_checksum);

/* The part of a read, from its beginning, that the page cache has: moved in pieces, each summed
 * while it is warm. Never waits. Returns bytes (also 0), or -errno; ret_checksum is that of the
 * bytes moved. The file is not direct, the I/O not refused. */
int64_t transfer_read_cached(struct page_file *file, const struct page_io *io,
                             uint64_t *ret_checksum);

#endif
