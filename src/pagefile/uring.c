/* The `uring` engine: a small pool of rings, one for each call that is under way.
 *
 * A call takes a ring, runs its batch on it by its own thread and gives it back; when all are taken
 * it waits. There are no threads: the calling thread takes the checksums while the kernel moves the
 * next pages. For local file systems only: the calls take no deadline. */
#include "base/status.h"
#include "pagefile/batch.h"
#include "pagefile/engines.h"
#include "pagefile/file.h"
#include "pagefile/pagefile.h"
#include "pagefile/ring.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    RINGS_MAX = 4,   /* get, set and two more at once; more callers wait */
    DEPTH_MAX = 256, /* of one ring: no device gains from more pages at once */
};

struct uring_file {
    struct pagefile pagefile;
    struct page_file file;
    unsigned n_rings, depth;
    pthread_mutex_t checking; /* one page_file_check() at a time */
    pthread_mutex_t
        registering;      /* one thread at a time gathers all rings, or two would wait for ever */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t given_back;
    struct ring *idle[RINGS_MAX];
    unsigned n_idle;
};

/* ---- The pool -------------------------------------------------------------------------------*/

static struct ring *take_ring(struct uring_file *uring)
{
    pthread_mutex_lock(&uring->lock);
    while (uring->n_idle == 0) {
        pthread_cond_wait(&uring->given_back, &uring->lock);
    }
    struct ring *ring = uring->idle[--uring->n_idle];
    pthread_mutex_unlock(&uring->lock);
    return ring;
}

static void give_back(struct uring_file *uring, struct ring *ring)
{
    pthread_mutex_lock(&uring->lock);
    uring->idle[uring->n_idle++] = ring;
    pthread_cond_signal(&uring->given_back);
    pthread_mutex_unlock(&uring->lock);
}

/* A ring that failed is replaced; should that fail too, it goes on by plain calls. */
static struct ring *renew(struct uring_file *uring, struct ring *ring)
{
    struct ring *fresh = NULL;
    int failed = ring_new(&uring->file, uring->depth, &fresh);
    log_line(&uring->file.log, KVS_LOG_WARNING, "An io_uring of %s failed and %s%s.",
             uring->file.path,
             failed == 0 ? "was set up anew" : "cannot be set up anew, plain calls stand in: ",
             failed == 0 ? "" : strerror(-failed));
    if (failed != 0) {
        return ring;
    }
    ring_free(ring);
    return fresh;
}

/* ---- The table ------------------------------------------------------------------------------*/

static enum kvs_status uring_run(struct pagefile *pagefile, struct page_batch *batch,
                                 uint64_t deadline_ns)
{
    (void)deadline_ns;
    struct uring_file *uring = (struct uring_file *)pagefile;
    if (page_file_forked(&uring->file)) {
        return page_batch_fail(batch, ENXIO);
    }
    if (page_batch_begin(batch)) {
        struct ring *ring = take_ring(uring);
        bool was_sound = ring_sound(ring);
        ring_run(ring, &uring->file, batch);
        if (was_sound && !ring_sound(ring)) {
            ring = renew(uring, ring);
        }
        give_back(uring, ring);
    }
    return page_batch_leave(batch);
}

static enum kvs_status uring_sync(struct pagefile *pagefile, struct kvs_error *error)
{
    return page_file_sync(&((struct uring_file *)pagefile)->file, error);
}

/* On every ring, before it is used again: pinning takes time, which no later call shall pay. */
static enum kvs_status uring_register_memory(struct pagefile *pagefile, void *base, size_t bytes,
                                             struct kvs_error *error)
{
    (void)error;
    struct uring_file *uring = (struct uring_file *)pagefile;
    if (page_file_forked(&uring->file) || !uring->file.direct) {
        return KVS_OK; /* what is copied gains nothing */
    }
    struct ring *taken[RINGS_MAX];
    bool all = true;
    pthread_mutex_lock(&uring->registering);
    for (unsigned i = 0; i < uring->n_rings; i++) {
        taken[i] = take_ring(uring);
        all = ring_register(taken[i], base, bytes) && all;
    }
    for (unsigned i = 0; i < uring->n_rings; i++) {
        give_back(uring, taken[i]);
    }
    pthread_mutex_unlock(&uring->registering);
    if (!all) {
        log_line(
            &uring->file.log, KVS_LOG_INFO,
            "Not all of %zu bytes could be registered with io_uring for %s (ulimit -l, or more "
            "than 64 GiB): I/O on the rest takes somewhat more processor time.",
            bytes, uring->file.path);
    }
    return KVS_OK;
}

static enum kvs_status uring_check(struct pagefile *pagefile, struct kvs_error *error)
{
    struct uring_file *uring = (struct uring_file *)pagefile;
    if (page_file_forked(&uring->file)) {
        return KVS_OK;
    }
    pthread_mutex_lock(&uring->checking);
    enum kvs_status status = page_file_check(&uring->file, error);
    pthread_mutex_unlock(&uring->checking);
    return status;
}

static struct pagefile_info uring_info(const struct pagefile *pagefile)
{
    const struct uring_file *uring = (const struct uring_file *)pagefile;
    return (struct pagefile_info){.engine = "uring",
                                  .filesystem = uring->file.filesystem.name,
                                  .direct = uring->file.direct,
                                  .alignment = uring->file.memory_align,
                                  .max_inflight = (uint64_t)uring->n_rings * uring->depth};
}

static void uring_free(struct uring_file *uring)
{
    while (uring->n_idle > 0) {
        ring_free(uring->idle[--uring->n_idle]);
    }
    pthread_cond_destroy(&uring->given_back);
    pthread_mutex_destroy(&uring->lock);
    pthread_mutex_destroy(&uring->registering);
    pthread_mutex_destroy(&uring->checking);
    free(uring);
}

/* Every call has returned, so every ring is idle. A child closes its view of the rings only. */
static struct pagefile *uring_close(struct pagefile *pagefile)
{
    struct uring_file *uring = (struct uring_file *)pagefile;
    page_file_done(&uring->file);
    uring_free(uring);
    return NULL;
}

/* ---- Opening --------------------------------------------------------------------------------*/

static unsigned depth_of(const struct pagefile_options *options, unsigned n_rings)
{
    uint64_t depth = (uint64_t)options->threads * options->entries / n_rings;
    return depth < 1 ? 1 : depth > DEPTH_MAX ? DEPTH_MAX : (unsigned)depth;
}

static const char *why_not(int failed)
{
    switch (failed) {
    case EPERM:
    case EACCES:
        return "io_uring is forbidden here (sysctl kernel.io_uring_disabled, or the container's "
               "seccomp profile)";
    case ENOSYS:
        return "the kernel's io_uring is missing or too old";
    default:
        return strerror(failed);
    }
}

enum kvs_status uring_take(struct page_file *file, const struct pagefile_options *options,
                           struct pagefile **ret_file, struct kvs_error *error)
{
    if (file->filesystem.network) {
        return error_set(error, KVS_ERR_IO_ENGINE, "uring",
                         "it is for local file systems, and this one is on a network");
    }
    struct uring_file *uring = calloc(1, sizeof(*uring));
    if (!uring) {
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a page file");
    }
    uring->pagefile.ops = &pagefile_uring;
    uring->n_rings = options->threads < RINGS_MAX ? options->threads : RINGS_MAX;
    uring->depth = depth_of(options, uring->n_rings);
    pthread_mutex_init(&uring->checking, NULL);
    pthread_mutex_init(&uring->registering, NULL);
    pthread_mutex_init(&uring->lock, NULL);
    pthread_cond_init(&uring->given_back, NULL);
    for (unsigned i = 0; i < uring->n_rings; i++) {
        int failed = ring_new(file, uring->depth, &uring->idle[i]);
        if (failed != 0) {
            uring_free(uring);
            return error_set(error, KVS_ERR_IO_ENGINE, "uring", why_not(-failed));
        }
        uring->n_idle++;
    }
    page_file_move(&uring->file, file);
    *ret_file = &uring->pagefile;
    return KVS_OK;
}

static enum kvs_status uring_open(const struct pagefile_options *options,
                                  struct pagefile **ret_file, struct kvs_error *error)
{
    return engine_open(uring_take, options, ret_file, error);
}

const struct pagefile_ops pagefile_uring = {
    .name = "uring",
    .open = uring_open,
    .run = uring_run,
    .sync = uring_sync,
    .register_memory = uring_register_memory,
    .check = uring_check,
    .info = uring_info,
    .close = uring_close,
};
