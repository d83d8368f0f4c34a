/* The life of a batch: two shares, one lock, and a view for the caller that stands still. */
#include "pagefile/batch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { NS_PER_S = 1000000000 };

struct page_batch {
    enum page_direction direction;
    size_t n;
    void (*on_idle)(void *arg);
    void *arg;
    pthread_mutex_t lock; /* guards what follows, and what the engine sets in ios */
    pthread_cond_t ended;
    size_t pending; /* I/Os begun and not ended: the engine's share is there while it is not 0 */
    bool abandoned; /* the caller's share has ended */
    bool still;     /* run() has returned: nothing may change in the caller's eyes */
    struct page_io ios[];
};

struct page_batch *page_batch_new(enum page_direction direction, size_t n,
                                  void (*on_idle)(void *arg), void *arg)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, sizeof(struct page_io), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct page_batch), &bytes)) {
        return NULL;
    }
    struct page_batch *batch = calloc(1, bytes);
    if (!batch) {
        return NULL;
    }
    batch->direction = direction;
    batch->n = n;
    batch->on_idle = on_idle;
    batch->arg = arg;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&batch->lock, NULL);
    pthread_cond_init(&batch->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return batch;
}

struct page_io *page_batch_ios(struct page_batch *batch)
{
    return batch->ios;
}

size_t page_batch_count(const struct page_batch *batch)
{
    return batch->n;
}

enum page_direction page_batch_direction(const struct page_batch *batch)
{
    return batch->direction;
}

bool page_batch_idle(struct page_batch *batch)
{
    pthread_mutex_lock(&batch->lock);
    bool idle = batch->pending == 0;
    pthread_mutex_unlock(&batch->lock);
    return idle;
}

/* Both shares have ended. The batch goes first: on_idle may free the memory of the engine's caller,
 * and nothing may depend on the order in which the two look at it. */
static void batch_free(struct page_batch *batch)
{
    void (*on_idle)(void *) = batch->on_idle;
    void *arg = batch->arg;
    pthread_cond_destroy(&batch->ended);
    pthread_mutex_destroy(&batch->lock);
    free(batch);
    if (on_idle) {
        on_idle(arg);
    }
}

struct page_batch *page_batch_abandon(struct page_batch *batch)
{
    if (!batch) {
        return NULL;
    }
    pthread_mutex_lock(&batch->lock);
    batch->abandoned = true;
    bool idle = batch->pending == 0;
    pthread_mutex_unlock(&batch->lock);
    if (idle) {
        batch_free(batch);
    }
    return NULL;
}

bool page_batch_begin(struct page_batch *batch)
{
    pthread_mutex_lock(&batch->lock);
    batch->still = false;
    batch->pending = batch->n;
    for (size_t i = 0; i < batch->n; i++) {
        struct page_io *io = &batch->ios[i];
        io->done = false;
        io->result = 0;
        io->checksum = 0;
    }
    pthread_mutex_unlock(&batch->lock);
    return batch->n > 0;
}

void page_batch_end_io(struct page_batch *batch, size_t index, int64_t result, uint64_t checksum)
{
    pthread_mutex_lock(&batch->lock);
    if (!batch->still) {
        struct page_io *io = &batch->ios[index];
        io->result = result;
        io->checksum = checksum;
        io->done = true;
    }
    bool last = --batch->pending == 0;
    bool gone = last && batch->abandoned;
    if (last && !gone) {
        pthread_cond_broadcast(&batch->ended);
    }
    pthread_mutex_unlock(&batch->lock);
    if (gone) {
        batch_free(batch);
    }
}

bool page_batch_wait(struct page_batch *batch, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / NS_PER_S),
                             .tv_nsec = (long)(deadline_ns % NS_PER_S)};
    pthread_mutex_lock(&batch->lock);
    int failed = 0;
    while (batch->pending > 0 && failed == 0) {
        failed = deadline_ns == 0 ? pthread_cond_wait(&batch->ended, &batch->lock)
                                  : pthread_cond_timedwait(&batch->ended, &batch->lock, &until);
    }
    bool ended = batch->pending == 0;
    pthread_mutex_unlock(&batch->lock);
    return ended;
}

enum kvs_status page_batch_leave(struct page_batch *batch)
{
    pthread_mutex_lock(&batch->lock);
    batch->still = true;
    enum kvs_status status = batch->pending == 0 ? KVS_OK : KVS_ERR_IO_DEADLINE;
    pthread_mutex_unlock(&batch->lock);
    return status;
}

enum kvs_status page_batch_fail(struct page_batch *batch, int error_number)
{
    page_batch_begin(batch);
    for (size_t i = 0; i < batch->n; i++) {
        page_batch_end_io(batch, i, -error_number, 0);
    }
    return page_batch_leave(batch);
}

int64_t page_io_refuse(const struct page_io *io, enum page_direction direction, uint64_t file_size)
{
    uint64_t end;
    if (io->length == 0 || !io->buffer || __builtin_add_overflow(io->offset, io->length, &end) ||
        end > INT64_MAX) {
        return -EINVAL;
    }
    if (direction == PAGE_WRITE && file_size > 0 && end > file_size) {
        return -EINVAL;
    }
    return 0;
}
