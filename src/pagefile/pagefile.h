/* Page files: one interface, several engines.
 *
 * A page file is one large file of equal slots. An engine moves whole pages between it and memory, in
 * batches, and knows nothing of keys. Each I/O carries its own offset, buffer, length and result:
 * completions are matched to it by tag, never by order.
 *
 * A batch is a heap object with two owners, the caller and the engine. pagefile_run() starts its I/Os
 * and waits until all have ended or the deadline has passed. After a deadline the caller must not touch
 * the I/Os that have not ended (io->done is false), nor their buffers: it abandons the batch
 * (page_batch_abandon), and `on_idle` is called, from an engine thread, once the last I/O has ended.
 * Engines over local files do not take a deadline: their bound is the device's. */
#ifndef KVSHELF_PAGEFILE_PAGEFILE_H
#define KVSHELF_PAGEFILE_PAGEFILE_H

#include "base/log.h"
#include "kvshelf/kvshelf.h"

enum page_direction { PAGE_READ, PAGE_WRITE };

struct page_io {
    uint64_t tag;       /* the caller's */
    uint64_t offset;    /* bytes into the file */
    void *buffer;       /* `length` bytes; only read from when writing */
    uint64_t length;    /* bytes */
    bool want_checksum; /* CRC-64/XZ of the buffer: before writing, after a full read */
    /* Set by the engine: */
    bool done;
    int64_t result;    /* bytes moved, or -errno */
    uint64_t checksum; /* when asked for; after a read only if result == length */
};

struct page_batch;
/* `on_idle` may be NULL; it owns what the batch's buffers need. NULL on lack of memory. */
struct page_batch *page_batch_new(enum page_direction direction, size_t n,
                                  void (*on_idle)(void *arg), void *arg);
struct page_io *page_batch_ios(struct page_batch *batch);
size_t page_batch_count(const struct page_batch *batch);
/* Ends the caller's share: freed now if every I/O has ended, else by the engine when it has.
 * NULL allowed; returns NULL. */
struct page_batch *page_batch_abandon(struct page_batch *batch);

struct pagefile_options {
    const char *path;
    uint64_t file_size;      /* the file is grown to this, never cut */
    uint64_t bytes_per_page; /* every offset is a multiple, every length is this */
    uint32_t threads;        /* numjobs */
    uint32_t entries;        /* I/Os in flight per thread */
    enum kvs_direct direct;
    struct logger log;
};

struct pagefile; /* first member of each engine's own structure: ops */
struct pagefile_info {
    const char *engine; /* "posix" */
    bool direct;        /* O_DIRECT in use */
    bool needs_deadline; /* a network file system: calls may end before their I/O */
    uint32_t alignment; /* of buffers, for direct I/O; 1 otherwise */
};

struct pagefile_ops {
    const char *name;
    enum kvs_status (*open)(const struct pagefile_options *, struct pagefile **ret,
                            struct kvs_error *);
    /* Starts the batch's I/Os and waits for them. deadline_ns: CLOCK_MONOTONIC, 0 for none. Returns
     * KVS_OK when every I/O has ended (each with its own result), KVS_ERR_IO_DEADLINE otherwise. */
    enum kvs_status (*run)(struct pagefile *, struct page_batch *, uint64_t deadline_ns);
    /* Makes what was written visible to other machines and a crash (fdatasync). */
    enum kvs_status (*sync)(struct pagefile *, struct kvs_error *);
    /* Memory that many I/Os will use; engines that gain nothing from it do nothing. */
    enum kvs_status (*register_memory)(struct pagefile *, void *base, size_t bytes,
                                       struct kvs_error *);
    struct pagefile_info (*info)(const struct pagefile *);
    struct pagefile *(*close)(struct pagefile *); /* waits for its I/O; returns NULL */
};
struct pagefile {
    const struct pagefile_ops *ops;
};

extern const struct pagefile_ops pagefile_posix;

/* Opens the file with the engine asked for, or the best one that works here. Errors:
 * KVS_ERR_FILE_OPEN, KVS_ERR_FILE_DIRECTORY, KVS_ERR_NO_SPACE, KVS_ERR_FILE_SIZE,
 * KVS_ERR_NO_MEMORY, KVS_ERR_IO_ENGINE. */
enum kvs_status pagefile_open(enum kvs_io_engine engine, const struct pagefile_options *options,
                              struct pagefile **ret_file, struct kvs_error *error);

#endif
