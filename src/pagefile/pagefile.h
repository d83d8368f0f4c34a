/* Page files: one interface, several engines.
 *
 * A page file is one large file of equal slots. An engine moves whole pages between it and memory,
 * in batches, and knows nothing of keys. Each I/O carries its own offset, buffer, length and
 * result: completions are matched to it by tag, never by order.
 *
 * A batch is a heap object with two owners, the caller and the engine. pagefile_run() starts its
 * I/Os and waits until all have ended or the deadline has passed. From then on the batch stands
 * still for its caller: an I/O with `done` set has ended, one without has not and never will in the
 * caller's eyes, and its buffer belongs to the engine until `on_idle`. */
#ifndef KVSHELF_PAGEFILE_PAGEFILE_H
#define KVSHELF_PAGEFILE_PAGEFILE_H

#include "base/log.h"
#include "kvshelf/kvshelf.h"

enum page_direction { PAGE_READ, PAGE_WRITE };

struct page_io {
    uint64_t tag;       /* the caller's */
    uint64_t offset;    /* bytes into the file */
    void *buffer;       /* `length` bytes; only read from when writing */
    uint64_t length;    /* bytes, not 0 */
    bool want_checksum; /* CRC-64/XZ of the buffer: before writing, after a full read */
    bool uncached;      /* reads only: drop this machine's cached copy and ask the storage again */
    /* Set by the engine: */
    bool done;
    int64_t result; /* bytes moved, or -errno. Anything but `length` is a failure: short means the
                     * end of the file or of the space; longer is possible on 3FS. */
    uint64_t checksum; /* when asked for and result == length */
};

struct page_batch;
/* `on_idle` may be NULL. It is called exactly once in the life of the batch, with no lock held,
 * when the caller has abandoned the batch and no I/O of it is under way any more: by
 * page_batch_abandon() itself, or else by an engine thread later. It is the place to free what the
 * buffers are in; the batch is already gone. NULL on lack of memory. n may be 0. */
struct page_batch *page_batch_new(enum page_direction direction, size_t n,
                                  void (*on_idle)(void *arg), void *arg);
struct page_io *page_batch_ios(struct page_batch *batch);
size_t page_batch_count(const struct page_batch *batch);
/* Whether every I/O has ended, or none was ever started: only then may the buffers be used. */
bool page_batch_idle(struct page_batch *batch);
/* Ends the caller's share: freed now if every I/O has ended, else by the engine when it has.
 * NULL allowed; returns NULL. */
struct page_batch *page_batch_abandon(struct page_batch *batch);

/* Who knows what is where in the file that is opened. */
enum pagefile_index {
    PAGEFILE_INDEX_NOBODYS, /* the opener only looks */
    PAGEFILE_INDEX_SHARED,  /* the index is a server's */
    PAGEFILE_INDEX_OWN,     /* the opener alone */
};

struct pagefile_options {
    const char *path;
    uint64_t file_size;      /* bytes; the file is grown to this, never cut */
    bool existing;           /* for reading a file that must be there and stays as it is */
    uint64_t bytes_per_page; /* what offsets are multiples of and lengths mostly are */
    uint32_t threads;        /* numjobs, at least 1 */
    uint32_t entries;        /* I/Os in flight per thread, at least 1 */
    enum kvs_direct direct;
    enum pagefile_index index; /* a file of two indexes is warned of */
    struct logger log;
};

struct pagefile; /* first member of each engine's own structure: ops */
struct pagefile_info {
    const char *engine;     /* "posix" */
    const char *filesystem; /* "ext4", "nfs", ...; static storage */
    bool direct;            /* O_DIRECT in use */
    bool needs_deadline;    /* a network file system: run() is to be given a deadline, its I/O may
                             * outlive it, and other machines may have the file open */
    uint32_t alignment;     /* of buffers, so that direct I/O needs no copy; 1 otherwise */
    uint64_t max_inflight;  /* the most I/Os of one engine that are under way at once */
};

struct pagefile_ops {
    const char *name;
    enum kvs_status (*open)(const struct pagefile_options *, struct pagefile **ret,
                            struct kvs_error *);
    /* Starts the batch's I/Os and waits for them. deadline_ns: CLOCK_MONOTONIC, 0 for none. Returns
     * KVS_OK when every I/O has ended (each with its own result), KVS_ERR_IO_DEADLINE otherwise.
     * I/O that was not even started by the deadline ends with -ETIMEDOUT. An engine over local
     * files only (uring) takes no deadline: its bound is the device's. A batch whose run returned
     * KVS_OK may be run again. In a forked child every I/O ends with -ENXIO. Any number of threads
     * at once. */
    enum kvs_status (*run)(struct pagefile *, struct page_batch *, uint64_t deadline_ns);
    /* Makes what was written safe from a crash (fdatasync). Where other machines may have the file
     * open (info.needs_deadline) each write is visible to them when it has ended. Errors:
     * KVS_ERR_FILE_SYNC. Blocks without a bound. */
    enum kvs_status (*sync)(struct pagefile *, struct kvs_error *);
    /* Memory that many I/Os will use, and that stays mapped until close; engines that gain nothing
     * from it do nothing. What cannot be registered works all the same. */
    enum kvs_status (*register_memory)(struct pagefile *, void *base, size_t bytes,
                                       struct kvs_error *);
    /* Whether the path still leads to the open file in its full size. What was cut is grown again,
     * what was removed or replaced is opened anew; both are told by KVS_ERR_FILE_CHANGED: the pages
     * are other bytes from now on. Other errors are those of open: nothing was changed, call again
     * later. For after short or failed I/O, and now and then. Blocks on file-system calls; on a
     * network file system, where they may hang, an I/O thread makes them later and logs what it
     * sees: KVS_OK then means nothing. */
    enum kvs_status (*check)(struct pagefile *, struct kvs_error *);
    struct pagefile_info (*info)(const struct pagefile *);
    /* Waits for its I/O (on a network file system at most some seconds: what is stuck there is left
     * behind with a warning); must be the last call, and made once. Returns NULL. */
    struct pagefile *(*close)(struct pagefile *);
};
struct pagefile {
    const struct pagefile_ops *ops;
};

extern const struct pagefile_ops pagefile_posix;
extern const struct pagefile_ops pagefile_uring;

/* Opens the file with the engine asked for, or the best one that works here. With `existing` writes
 * end with -EBADF, and check() neither makes nor grows a file. Errors: KVS_ERR_FILE_OPEN,
 * KVS_ERR_FILE_DIRECTORY, KVS_ERR_NO_SPACE, KVS_ERR_FILE_SIZE, KVS_ERR_NO_MEMORY, KVS_ERR_IO_ENGINE
 * (usrbio only: uring falls back to posix and says so). */
enum kvs_status pagefile_open(enum kvs_io_engine engine, const struct pagefile_options *options,
                              struct pagefile **ret_file, struct kvs_error *error);

#endif
