/* A page file engine for tests of the store: files in memory, and a script of what goes wrong with
 * which I/O. What is in a file outlives the store, so that a store can be opened again over it. */
#ifndef KVSHELF_TESTS_SUPPORT_FAKE_ENGINE_H
#define KVSHELF_TESTS_SUPPORT_FAKE_ENGINE_H

#include "pagefile/pagefile.h"

#include <pthread.h>

enum { FAKE_FILES_MAX = 16, FAKE_LATE_MAX = 256 };

enum fake_fault {
    FAKE_NONE,
    FAKE_ERROR,     /* ends with -error_number */
    FAKE_SHORT,     /* moves half of the bytes */
    FAKE_ZERO,      /* moves none and says so */
    FAKE_OVER,      /* moves all and says more */
    FAKE_DROP,      /* says all was moved and moved nothing */
    FAKE_CORRUPT,   /* reads: one bit differs from the file */
    FAKE_LATE,      /* has not ended when run() returns; ends in fake_engine_release() */
    FAKE_UNSTARTED, /* the deadline passed before it was started: -ETIMEDOUT */
};

struct fake_engine {
    pthread_mutex_t lock;
    struct fake_store_file {
        char path[512];
        uint8_t *bytes;
        uint64_t size;
    } files[FAKE_FILES_MAX];
    size_t file_count;

    /* The script. Set it only while no call is under way. */
    bool needs_deadline, direct;
    bool reversed; /* I/Os of a batch end from the last to the first */
    enum fake_fault fault;
    uint64_t from, count; /* I/Os [from, from + count) counted from 1 have the fault */
    bool reads, writes;   /* which I/Os are counted */
    int error_number;
    enum kvs_status open_fails; /* KVS_OK: it does not */
    /* Called with no lock held, before a batch is run. */
    void (*before)(void *arg, enum page_direction direction);
    void *before_arg;

    uint64_t ios, read_ios, write_ios, syncs, checks, opens, closes; /* under the lock */
    uint64_t uncached_ios;
    struct {
        struct page_batch *batch;
        size_t index;
    } late[FAKE_LATE_MAX];
    size_t late_count;
};

void fake_engine_init(struct fake_engine *engine);
void fake_engine_done(struct fake_engine *engine);
/* For struct store_parts. */
enum kvs_status fake_engine_open(void *arg, enum kvs_io_engine kind,
                                 const struct pagefile_options *options, struct pagefile **ret_file,
                                 struct kvs_error *error);
/* Arms a fault for `count` I/Os from the `from`th on, counted from now. */
void fake_engine_fault(struct fake_engine *engine, enum fake_fault fault, uint64_t from,
                       uint64_t count, bool reads, bool writes);
/* Ends all late I/Os: writes write now, reads write into their buffers now. */
void fake_engine_release(struct fake_engine *engine);
/* The bytes of a file; NULL when it was never opened. */
uint8_t *fake_engine_bytes(struct fake_engine *engine, const char *path, uint64_t *ret_size);

#endif
