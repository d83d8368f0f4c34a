/* Pages between the file and the caller's memory.
 *
 * On local file systems the caller's buffers go to the engine and the call waits until the last I/O
 * has ended. Where calls can hang (info.needs_deadline) the engine works on buffers of its own, so
 * that it may go on after the deadline: the batch is then left to it, with its buffer, which is
 * freed (and stops counting as under way) when the last I/O has ended. The caller's memory is never
 * touched after the call.
 *
 * Results belong to keys by tag. */
#include "store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BOUNCE_ALIGNMENT = 4096, BOUNCE_SHARES = 8 };

/* The memory of one batch that may outlive its call, and its part of the bound. */
struct bounce {
    char *memory;
    uint64_t stride, bytes;
    struct inflight *inflight;
};

static void bounce_free(void *arg)
{
    struct bounce *bounce = arg;
    inflight_give(bounce->inflight, bounce->bytes);
    inflight_unref(bounce->inflight);
    free(bounce->memory);
    free(bounce);
}

/* NULL: no memory, or too much is under way until the deadline (*ret_late). */
static struct bounce *bounce_new(struct kvs_store *store, const struct pool *pool, size_t n,
                                 uint64_t deadline_ns, bool *ret_late)
{
    uint64_t align =
        pool->info.alignment > BOUNCE_ALIGNMENT ? pool->info.alignment : BOUNCE_ALIGNMENT;
    struct bounce *bounce = calloc(1, sizeof(*bounce));
    if (bounce == NULL)
        return NULL;
    bounce->stride = (pool->bytes_per_page + align - 1) / align * align;
    bounce->bytes = n * bounce->stride;
    if (!inflight_take(store->network_inflight, bounce->bytes, deadline_ns)) {
        *ret_late = true;
        free(bounce);
        return NULL;
    }
    bounce->inflight = inflight_ref(store->network_inflight);
    bounce->memory = aligned_alloc(align, bounce->bytes);
    if (bounce->memory == NULL) {
        bounce_free(bounce);
        return NULL;
    }
    return bounce;
}

struct totals {
    uint64_t bytes, successes, errors, shorts, overdue;
    bool no_space;
    int first_errno;
};

static enum store_stat outcome_of(enum page_direction direction, const struct page_io *io,
                                  uint64_t expected, struct totals *totals)
{
    bool reading = direction == PAGE_READ;
    if (!io->done || io->result == -ETIMEDOUT) {
        totals->overdue++;
        return reading ? STAT_MISSED_OVERDUE : STAT_UNSTORED_OVERDUE;
    }
    if (io->result >= 0 && (uint64_t)io->result == expected) {
        totals->successes++;
        totals->bytes += expected;
        return reading ? STAT_LOADED : STAT_WRITTEN;
    }
    if (io->result >= 0) {
        totals->shorts++;
        return reading ? STAT_MISSED_READ_ERROR : STAT_UNSTORED_WRITE_ERROR;
    }
    totals->errors++;
    if (totals->first_errno == 0)
        totals->first_errno = (int)-io->result;
    if (!reading && (io->result == -ENOSPC || io->result == -EDQUOT)) {
        totals->no_space = true;
        return STAT_UNSTORED_NO_SPACE;
    }
    return reading ? STAT_MISSED_READ_ERROR : STAT_UNSTORED_WRITE_ERROR;
}

static void prepare_io(struct chunk *chunk, const uint32_t which[], size_t n,
                       struct page_batch *batch, enum page_direction direction, bool uncached,
                       struct bounce *bounce)
{
    uint64_t length = chunk->pool->bytes_per_page;
    struct page_io *ios = page_batch_ios(batch);
    for (size_t i = 0; i < n; i++) {
        struct chunk_key *key = &chunk->key[which[i]];
        void *buffer = key->buffer;
        if (bounce != NULL) {
            buffer = bounce->memory + i * bounce->stride;
            if (direction == PAGE_WRITE)
                memcpy(buffer, key->buffer, length);
        }
        ios[i] = (struct page_io){.tag = which[i],
                                  .offset = (uint64_t)key->index * length,
                                  .buffer = buffer,
                                  .length = length,
                                  .want_checksum = true,
                                  .uncached = uncached};
    }
}

static void collect(struct kvs_store *store, struct chunk *chunk, size_t n,
                    struct page_batch *batch, enum page_direction direction, bool bounced,
                    struct totals *totals)
{
    uint64_t length = chunk->pool->bytes_per_page;
    const struct page_io *ios = page_batch_ios(batch);
    for (size_t i = 0; i < n; i++) {
        if (!STORE_CHECK(store, ios[i].tag < chunk->keys && chunk->key[ios[i].tag].moves))
            continue;
        struct chunk_key *key = &chunk->key[ios[i].tag];
        key->outcome = outcome_of(direction, &ios[i], length, totals);
        key->stuck = !ios[i].done;
        if (direction == PAGE_WRITE && key->outcome == STAT_WRITTEN)
            key->checksum = ios[i].checksum;
        if (direction == PAGE_READ && key->outcome == STAT_LOADED) {
            if (key->has_checksum && key->checksum != ios[i].checksum)
                key->outcome = STAT_MISSED_MISMATCH;
            else if (bounced)
                memcpy(key->buffer, ios[i].buffer, length);
        }
    }
}

static void refuse(struct chunk *chunk, const uint32_t which[], size_t n, enum store_stat outcome)
{
    for (size_t i = 0; i < n; i++)
        chunk->key[which[i]].outcome = outcome;
}

/* Moves n keys in one batch of the engine. */
static void run_batch(struct kvs_store *store, struct pool *pool, struct chunk *chunk,
                      const uint32_t which[], size_t n, enum page_direction direction,
                      bool uncached, uint64_t deadline_ns, struct totals *totals)
{
    bool reading = direction == PAGE_READ, late = false;
    struct bounce *bounce = NULL;
    if (pool->info.needs_deadline) {
        bounce = bounce_new(store, pool, n, deadline_ns, &late);
        if (bounce == NULL) {
            if (late)
                totals->overdue += n;
            refuse(chunk, which, n,
                   late ? (reading ? STAT_MISSED_OVERDUE : STAT_UNSTORED_OVERDUE)
                        : (reading ? STAT_MISSED_REFUSED : STAT_UNSTORED_REFUSED));
            return;
        }
    }
    struct page_batch *batch =
        page_batch_new(direction, n, bounce == NULL ? NULL : bounce_free, bounce);
    if (batch == NULL) {
        if (bounce != NULL)
            bounce_free(bounce);
        refuse(chunk, which, n, reading ? STAT_MISSED_REFUSED : STAT_UNSTORED_REFUSED);
        return;
    }
    prepare_io(chunk, which, n, batch, direction, uncached, bounce);
    pool->file->ops->run(pool->file, batch, deadline_ns);
    collect(store, chunk, n, batch, direction, bounce != NULL, totals);
    STORE_CHECK(store, bounce != NULL || page_batch_idle(batch));
    page_batch_abandon(batch);
}

static void report(struct kvs_store *store, struct pool *pool, enum page_direction direction,
                   uint64_t began_ns, const struct totals *totals)
{
    bool reading = direction == PAGE_READ;
    uint64_t failures = totals->errors + totals->shorts + totals->overdue;
    stats_add(&store->stats, reading ? STAT_BYTES_READ : STAT_BYTES_WRITTEN, totals->bytes);
    stats_add(&store->stats, STAT_IO_ERRORS, totals->errors);
    stats_add(&store->stats, reading ? STAT_SHORT_READS : STAT_SHORT_WRITES, totals->shorts);
    stats_add(&store->stats, STAT_OVERDUE_IOS, totals->overdue);

    struct breaker *breaker = reading ? &store->read_breaker : &store->write_breaker;
    uint64_t now_ns = store_now_ns(store);
    if (totals->successes + failures == 0) {
        breaker_cancel(breaker);
        return;
    }
    bool at_once = totals->no_space || totals->overdue > 0;
    bool tripped = breaker_report(breaker, began_ns, now_ns, totals->successes, failures, at_once);
    if (failures == 0)
        return;
    struct limiter *lines = reading ? &store->read_lines : &store->write_lines;
    if (limiter_take(lines, now_ns, 1) == 1)
        log_line(&store->log, KVS_LOG_WARNING,
                 "Pages of pool '%s' could not be %s %s: %" PRIu64 " (errors: %" PRIu64
                 "%s%s, short: %" PRIu64 ", not ended in time: %" PRIu64 "). They count as %s.",
                 pool_label(pool), reading ? "read from" : "written to", pool->path, failures,
                 totals->errors, totals->first_errno == 0 ? "" : ": ",
                 totals->first_errno == 0 ? "" : strerrordesc_np(totals->first_errno),
                 totals->shorts, totals->overdue, reading ? "misses" : "not stored");
    struct limiter *trip_lines = reading ? &store->read_trip_lines : &store->write_trip_lines;
    if (tripped && limiter_take(trip_lines, now_ns, 1) == 1)
        log_line(&store->log, KVS_LOG_WARNING,
                 "%s %s failed repeatedly: it is left alone for %" PRIu64 " ms.",
                 reading ? "Reading from" : "Writing to", pool->path, breaker_pause_ms(breaker));
    /* Looking at the path may hang where its I/O just did. */
    if (totals->errors + totals->shorts > 0 && totals->overdue == 0)
        pool_check_file(store, pool);
}

/* How many pages go to the engine at once: all, or a part of the bound where each batch has its own
 * memory, so that one that hangs does not hold all of it. */
static size_t batch_pages(const struct kvs_store *store, const struct pool *pool, size_t n)
{
    if (!pool->info.needs_deadline)
        return n;
    uint64_t fit = store->config.options.max_inflight_bytes / BOUNCE_SHARES / pool->bytes_per_page;
    return fit >= n ? n : fit > 0 ? (size_t)fit : 1;
}

void pool_transfer(struct kvs_store *store, struct pool *pool, struct chunk *chunk,
                   enum page_direction direction, bool uncached, uint64_t deadline_ns)
{
    size_t n = 0;
    for (size_t k = 0; k < chunk->keys; k++)
        if (chunk->key[k].moves)
            chunk->from[n++] = (uint32_t)k;
    if (n == 0)
        return;
    chunk->transfers += n;
    struct totals totals = {0};
    uint64_t taken = 0, began_ns = store_now_ns(store);
    if (direction == PAGE_WRITE && !pool->info.needs_deadline) {
        taken = n * pool->bytes_per_page;
        inflight_take(store->inflight, taken, 0);
    }
    size_t step = batch_pages(store, pool, n);
    for (size_t at = 0; at < n; at += step)
        run_batch(store, pool, chunk, chunk->from + at, n - at < step ? n - at : step, direction,
                  uncached, deadline_ns, &totals);
    if (taken != 0)
        inflight_give(store->inflight, taken);
    report(store, pool, direction, began_ns, &totals);
}
