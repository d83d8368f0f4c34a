/* The `posix` engine: read and write calls by a bounded pool of threads, and by the caller itself.
 *
 * A batch's I/Os are claimed one by one by its caller and by workers. Waking a worker costs as much
 * as moving a small page, and more runnable threads than processors make stragglers, so a worker is
 * woken only
 *   - while fewer threads run than there are processors and enough bytes are left to pay for it, or
 *   - when a thread is about to wait for the storage: another then starts the next I/O, and so on,
 *     until all workers wait (that is the queue depth) or nothing is left to start.
 * With a deadline the caller starts no I/O itself, as it could not leave a hung one: it waits,
 * takes back what was not started, and leaves.
 *
 * The same goes for looking after the file where that may hang: a worker does it.
 *
 * Queued: one job per caller, on its stack. In flight: one I/O per worker and caller. */
#include "base/clock.h"
#include "base/status.h"
#include "pagefile/batch.h"
#include "pagefile/engines.h"
#include "pagefile/file.h"
#include "pagefile/pagefile.h"
#include "pagefile/transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WORTH_WAKING_BYTES = 512 << 10, /* moved in about the time a wake-up takes */
    WORKERS_MAX = 1024,
    CLOSE_WAIT_S = 10, /* on a network file system, for I/O that does not end */
    LINE_INTERVAL_S = 10,
};

/* A batch with I/Os that nobody has claimed. It is on its caller's stack: the caller stays until
 * all are claimed or taken back. */
struct job {
    struct page_batch *batch;
    size_t next, n;
    struct job *after;
};

struct posix_file {
    struct pagefile pagefile;
    struct page_file file;
    unsigned workers_max, processors;
    pthread_mutex_t checking; /* one page_file_check() at a time */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work;
    struct job *first, *last;
    unsigned idle;    /* workers that wait for work */
    unsigned woken;   /* of them, those already sent for */
    unsigned running; /* threads in an I/O that do not wait for the storage */
    unsigned workers;
    unsigned shares; /* workers and the owner: the last one frees */
    bool closing;
    bool look_wanted, looking; /* after the file, by a worker */
    uint64_t line_after_ns;    /* when it may say again what it saw */
    pthread_t threads[];
};

static void posix_free(struct posix_file *posix)
{
    page_file_done(&posix->file);
    pthread_cond_destroy(&posix->work);
    pthread_mutex_destroy(&posix->lock);
    pthread_mutex_destroy(&posix->checking);
    free(posix);
}

/* ---- The queue, under the lock --------------------------------------------------------------*/

static void enqueue(struct posix_file *posix, struct job *job)
{
    if (posix->last) {
        posix->last->after = job;
    } else {
        posix->first = job;
    }
    posix->last = job;
}

static void dequeue(struct posix_file *posix, struct job *job)
{
    struct job **link = &posix->first, *before = NULL;
    while (*link != job) {
        before = *link;
        link = &before->after;
    }
    *link = job->after;
    if (posix->last == job) {
        posix->last = before;
    }
}

/* The index of an I/O that is now the calling thread's to do. */
static size_t claim(struct posix_file *posix, struct job *job)
{
    size_t index = job->next++;
    if (job->next == job->n) {
        dequeue(posix, job);
    }
    return index;
}

/* Whether another processor would help with what is queued. */
static bool worth_waking(const struct posix_file *posix)
{
    const struct job *job = posix->first;
    if (!job || posix->running >= posix->processors) {
        return false;
    }
    const struct page_io *next = &page_batch_ios(job->batch)[job->next];
    if (page_batch_direction(job->batch) == PAGE_WRITE && !next->want_checksum) {
        return false; /* file systems copy into one file one after another: two get in their way */
    }
    return job->after || next->length >= WORTH_WAKING_BYTES / (job->n - job->next);
}

static void *worker_main(void *arg);

/* A thread that cannot be had is no failure: the caller, or a worker that comes free, does the I/O.
 */
static void start_worker(struct posix_file *posix)
{
    sigset_t all, before;
    sigfillset(&all); /* the host's signals are not for us */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&posix->threads[posix->workers], NULL, worker_main, posix) == 0) {
        posix->workers++;
        posix->shares++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void wake_one(struct posix_file *posix)
{
    if (posix->idle > posix->woken) {
        posix->woken++;
        pthread_cond_signal(&posix->work);
    } else if (posix->woken == 0 && posix->workers < posix->workers_max) {
        start_worker(posix);
    }
}

/* ---- Doing I/O ------------------------------------------------------------------------------*/

static void begin_waiting(void *arg)
{
    struct posix_file *posix = arg;
    pthread_mutex_lock(&posix->lock);
    posix->running--;
    if (posix->first) {
        wake_one(posix);
    }
    pthread_mutex_unlock(&posix->lock);
}

static void end_waiting(void *arg)
{
    struct posix_file *posix = arg;
    pthread_mutex_lock(&posix->lock);
    posix->running++;
    pthread_mutex_unlock(&posix->lock);
}

/* Claims and does one I/O of the job. Called with the lock held, which is dropped meanwhile. */
static void work_on(struct posix_file *posix, struct job *job, struct transfer_bounce *bounce)
{
    struct page_batch *batch = job->batch;
    size_t index = claim(posix, job);
    posix->running++;
    if (worth_waking(posix)) {
        wake_one(posix);
    }
    pthread_mutex_unlock(&posix->lock);

    struct transfer_waiting waiting = {begin_waiting, end_waiting, posix};
    uint64_t checksum = 0;
    int64_t result = transfer_run(&posix->file, page_batch_direction(batch),
                                  &page_batch_ios(batch)[index], bounce, &waiting, &checksum);
    page_batch_end_io(batch, index, result, checksum);

    pthread_mutex_lock(&posix->lock);
    posix->running--;
}

/* Where the caller of posix_check() must not hang. Called with the lock held, which is dropped
 * meanwhile. */
static void look_after_file(struct posix_file *posix)
{
    struct kvs_error error = {0};
    posix->look_wanted = false;
    posix->looking = true;
    pthread_mutex_unlock(&posix->lock);
    enum kvs_status status = page_file_check(&posix->file, &error);
    uint64_t now_ns = clock_mono_ns();
    pthread_mutex_lock(&posix->lock);
    posix->looking = false;
    if (status == KVS_OK || now_ns < posix->line_after_ns) {
        return;
    }
    posix->line_after_ns = now_ns + LINE_INTERVAL_S * UINT64_C(1000000000);
    pthread_mutex_unlock(&posix->lock);
    log_line(&posix->file.log, KVS_LOG_WARNING,
             "A page file has changed or cannot be looked at: %s", error.message);
    pthread_mutex_lock(&posix->lock);
}

static void *worker_main(void *arg)
{
    struct posix_file *posix = arg;
    struct transfer_bounce bounce = {0};
    pthread_mutex_lock(&posix->lock);
    while (posix->first || !posix->closing) {
        if (posix->first) {
            work_on(posix, posix->first, &bounce);
            continue;
        }
        if (posix->look_wanted) {
            look_after_file(posix);
            continue;
        }
        posix->idle++;
        pthread_cond_wait(&posix->work, &posix->lock);
        posix->idle--;
        if (posix->woken > 0) {
            posix->woken--;
        }
    }
    bool last = --posix->shares == 0;
    pthread_mutex_unlock(&posix->lock);
    transfer_bounce_done(&bounce);
    if (last) {
        posix_free(posix);
    }
    return NULL;
}

/* The caller works until nothing of its own is left to claim, then waits for the others. */
static void run_to_the_end(struct posix_file *posix, struct page_batch *batch)
{
    struct job job = {.batch = batch, .n = page_batch_count(batch)};
    struct transfer_bounce bounce = {0};
    pthread_mutex_lock(&posix->lock);
    enqueue(posix, &job);
    while (job.next < job.n) {
        work_on(posix, &job, &bounce);
    }
    pthread_mutex_unlock(&posix->lock);
    transfer_bounce_done(&bounce);
    page_batch_wait(batch, 0);
}

static void run_until(struct posix_file *posix, struct page_batch *batch, uint64_t deadline_ns)
{
    struct job job = {.batch = batch, .n = page_batch_count(batch)};
    pthread_mutex_lock(&posix->lock);
    enqueue(posix, &job);
    wake_one(posix);
    pthread_mutex_unlock(&posix->lock);
    if (page_batch_wait(batch, deadline_ns)) {
        return;
    }
    pthread_mutex_lock(&posix->lock);
    size_t taken_back = job.next;
    if (job.next < job.n) {
        dequeue(posix, &job);
    }
    pthread_mutex_unlock(&posix->lock);
    for (size_t i = taken_back; i < job.n; i++) {
        page_batch_end_io(batch, i, -ETIMEDOUT, 0);
    }
}

static enum kvs_status posix_run(struct pagefile *pagefile, struct page_batch *batch,
                                 uint64_t deadline_ns)
{
    struct posix_file *posix = (struct posix_file *)pagefile;
    if (page_file_forked(&posix->file)) {
        return page_batch_fail(batch, ENXIO);
    }
    if (page_batch_begin(batch)) {
        if (deadline_ns == 0) {
            run_to_the_end(posix, batch);
        } else {
            run_until(posix, batch, deadline_ns);
        }
    }
    return page_batch_leave(batch);
}

/* ---- The rest of the table ------------------------------------------------------------------*/

static unsigned count_processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (unsigned)count : 1;
}

enum kvs_status posix_take(struct page_file *file, const struct pagefile_options *options,
                           struct pagefile **ret_file, struct kvs_error *error)
{
    unsigned workers_max = options->threads < WORKERS_MAX ? options->threads : WORKERS_MAX;
    struct posix_file *posix = calloc(1, sizeof(*posix) + workers_max * sizeof(posix->threads[0]));
    if (!posix) {
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a page file");
    }
    posix->pagefile.ops = &pagefile_posix;
    posix->file.fd = -1;
    posix->workers_max = workers_max;
    posix->processors = count_processors();
    posix->shares = 1;
    pthread_mutex_init(&posix->checking, NULL);
    pthread_mutex_init(&posix->lock, NULL);
    pthread_cond_init(&posix->work, NULL);
    start_worker(posix); /* the others when they are needed; calls with a deadline depend on one */
    if (posix->workers == 0) {
        posix_free(posix);
        return error_set(error, KVS_ERR_IO_ENGINE, "posix", "no thread can be started");
    }
    page_file_move(&posix->file, file);
    *ret_file = &posix->pagefile;
    return KVS_OK;
}

static enum kvs_status posix_open(const struct pagefile_options *options,
                                  struct pagefile **ret_file, struct kvs_error *error)
{
    return engine_open(posix_take, options, ret_file, error);
}

static enum kvs_status posix_sync(struct pagefile *pagefile, struct kvs_error *error)
{
    return page_file_sync(&((struct posix_file *)pagefile)->file, error);
}

/* Copies and direct I/O by calls gain nothing from registration. */
static enum kvs_status posix_register_memory(struct pagefile *pagefile, void *base, size_t bytes,
                                             struct kvs_error *error)
{
    (void)pagefile, (void)base, (void)bytes, (void)error;
    return KVS_OK;
}

static enum kvs_status posix_check(struct pagefile *pagefile, struct kvs_error *error)
{
    struct posix_file *posix = (struct posix_file *)pagefile;
    if (page_file_forked(&posix->file)) {
        return KVS_OK;
    }
    if (posix->file.filesystem.network) {
        pthread_mutex_lock(&posix->lock);
        if (!posix->looking && !posix->look_wanted) {
            posix->look_wanted = true;
            wake_one(posix);
        }
        pthread_mutex_unlock(&posix->lock);
        return KVS_OK;
    }
    pthread_mutex_lock(&posix->checking);
    enum kvs_status status = page_file_check(&posix->file, error);
    pthread_mutex_unlock(&posix->checking);
    return status;
}

static struct pagefile_info posix_info(const struct pagefile *pagefile)
{
    const struct posix_file *posix = (const struct posix_file *)pagefile;
    return (struct pagefile_info){.engine = "posix",
                                  .filesystem = posix->file.filesystem.name,
                                  .direct = posix->file.direct,
                                  .needs_deadline = posix->file.filesystem.network,
                                  .alignment = posix->file.memory_align,
                                  .max_inflight = posix->workers_max};
}

/* Workers stuck in the storage are left behind, with the structure; they free it should they ever
 * come back. */
static void join_workers(struct posix_file *posix)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_WAIT_S;
    unsigned stuck = 0;
    for (unsigned i = 0; i < posix->workers; i++) {
        if (!posix->file.filesystem.network) {
            pthread_join(posix->threads[i], NULL);
        } else if (pthread_timedjoin_np(posix->threads[i], NULL, &until) != 0) {
            pthread_detach(posix->threads[i]);
            stuck++;
        }
    }
    if (stuck > 0) {
        log_line(
            &posix->file.log, KVS_LOG_WARNING,
            "%u I/O threads of %s are still waiting for the file system (%s) after %d s and are "
            "left behind.",
            stuck, posix->file.path, posix->file.filesystem.name, CLOSE_WAIT_S);
    }
}

static struct pagefile *posix_close(struct pagefile *pagefile)
{
    struct posix_file *posix = (struct posix_file *)pagefile;
    if (page_file_forked(&posix->file)) {
        /* The threads and whoever held the locks are not in this process. */
        page_file_done(&posix->file);
        free(posix);
        return NULL;
    }
    pthread_mutex_lock(&posix->lock);
    posix->closing = true;
    pthread_cond_broadcast(&posix->work);
    pthread_mutex_unlock(&posix->lock);
    join_workers(posix);
    pthread_mutex_lock(&posix->lock);
    bool last = --posix->shares == 0;
    pthread_mutex_unlock(&posix->lock);
    if (last) {
        posix_free(posix);
    }
    return NULL;
}

const struct pagefile_ops pagefile_posix = {
    .name = "posix",
    .open = posix_open,
    .run = posix_run,
    .sync = posix_sync,
    .register_memory = posix_register_memory,
    .check = posix_check,
    .info = posix_info,
    .close = posix_close,
};
