#include "support/engine_fault.h"

#include "base/checksum.h"
#include "base/status.h"
#include "pagefile/batch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 4096 };

struct written {
    uint64_t offset, length;
    char *before, *after;
};

struct fault_file {
    struct pagefile pagefile;
    struct pagefile *below;
    pthread_mutex_t lock; /* guards what follows */
    struct fault_rule rule;
    uint64_t counted, fired;
    uint64_t state;
    bool journaling;
    struct written *journal;
    size_t n_journal, room;
};

static uint64_t next_random(struct fault_file *fault) /* splitmix64 */
{
    uint64_t z = (fault->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void *or_abort(void *memory)
{
    if (!memory) {
        abort();
    }
    return memory;
}

/* ---- The engine below, one I/O at a time ----------------------------------------------------*/

static int64_t move(struct fault_file *fault, enum page_direction direction,
                    const struct page_io *io, void *buffer, uint64_t length)
{
    struct page_batch *single = or_abort(page_batch_new(direction, 1, NULL, NULL));
    struct page_io *copy = page_batch_ios(single);
    copy->offset = io->offset;
    copy->buffer = buffer;
    copy->length = length;
    copy->uncached = io->uncached;
    fault->below->ops->run(fault->below, single, 0);
    int64_t result = copy->result;
    page_batch_abandon(single);
    return result;
}

/* ---- Rules ----------------------------------------------------------------------------------*/

/* The fault that this I/O meets. Under the lock. */
static struct fault_rule count(struct fault_file *fault, bool counts)
{
    struct fault_rule met = {.kind = FAULT_NONE};
    if (!counts) {
        return met;
    }
    fault->counted++;
    const struct fault_rule *rule = &fault->rule;
    if (rule->kind != FAULT_NONE && rule->nth > 0 &&
        (fault->counted == rule->nth || (rule->from_then_on && fault->counted > rule->nth))) {
        fault->fired++;
        met = *rule;
    }
    return met;
}

static int64_t move_flipped(struct fault_file *fault, enum page_direction direction,
                            const struct page_io *io)
{
    char *copy = or_abort(malloc(io->length));
    memcpy(copy, io->buffer, io->length);
    if (direction == PAGE_WRITE) {
        copy[io->length / 2] = (char)(copy[io->length / 2] ^ 1);
    }
    int64_t result = move(fault, direction, io, copy, io->length);
    if (direction == PAGE_READ) {
        copy[io->length / 2] = (char)(copy[io->length / 2] ^ 1);
        memcpy(io->buffer, copy, io->length);
    }
    free(copy);
    return result;
}

static int64_t meet(struct fault_file *fault, const struct fault_rule *rule,
                    enum page_direction direction, const struct page_io *io)
{
    switch (rule->kind) {
    case FAULT_ERROR:
        return -rule->error_number;
    case FAULT_SHORT:
        return move(fault, direction, io, io->buffer, io->length / 2);
    case FAULT_LONG:
        return move(fault, direction, io, io->buffer, io->length) + 1;
    case FAULT_TORN:
        move(fault, direction, io, io->buffer, io->length / 2);
        return -rule->error_number;
    case FAULT_LOST:
        return (int64_t)io->length;
    case FAULT_FLIP:
        return move_flipped(fault, direction, io);
    default:
        return move(fault, direction, io, io->buffer, io->length);
    }
}

/* ---- The journal ----------------------------------------------------------------------------*/

static char *read_now(struct fault_file *fault, const struct page_io *io)
{
    char *bytes = or_abort(calloc(1, io->length));
    move(fault, PAGE_READ, io, bytes, io->length);
    return bytes;
}

/* Under the lock, which is held over the write: before and after must be of this write alone. */
static void remember(struct fault_file *fault, const struct page_io *io, char *before)
{
    if (fault->n_journal == fault->room) {
        fault->room = fault->room * 2 + 16;
        fault->journal = or_abort(realloc(fault->journal, fault->room * sizeof(*fault->journal)));
    }
    fault->journal[fault->n_journal++] = (struct written){
        .offset = io->offset, .length = io->length, .before = before, .after = read_now(fault, io)};
}

static void forget(struct fault_file *fault)
{
    for (size_t i = 0; i < fault->n_journal; i++) {
        free(fault->journal[i].before);
        free(fault->journal[i].after);
    }
    fault->n_journal = 0;
}

static void put(struct fault_file *fault, uint64_t offset, char *bytes, uint64_t length)
{
    struct page_io io = {.offset = offset};
    move(fault, PAGE_WRITE, &io, bytes, length);
}

/* All of it, or each block by the toss of a coin. */
static void put_some(struct fault_file *fault, const struct written *written, bool torn)
{
    for (uint64_t at = 0; at < written->length; at += BLOCK_BYTES) {
        uint64_t left = written->length - at;
        if (!torn || next_random(fault) % 2 == 0) {
            put(fault, written->offset + at, written->after + at,
                left < BLOCK_BYTES ? left : BLOCK_BYTES);
        }
    }
}

size_t engine_fault_crash(struct pagefile *file)
{
    struct fault_file *fault = (struct fault_file *)file;
    pthread_mutex_lock(&fault->lock);
    size_t n = fault->n_journal;
    for (size_t i = n; i-- > 0;) {
        put(fault, fault->journal[i].offset, fault->journal[i].before, fault->journal[i].length);
    }
    for (size_t left = n; left > 0; left--) {
        size_t chosen = next_random(fault) % left;
        struct written written = fault->journal[chosen];
        fault->journal[chosen] = fault->journal[left - 1];
        fault->journal[left - 1] = written;
        uint64_t fate = next_random(fault) % 3; /* lost, whole, torn */
        if (fate > 0) {
            put_some(fault, &written, fate == 2);
        }
    }
    forget(fault);
    pthread_mutex_unlock(&fault->lock);
    return n;
}

/* ---- The table ------------------------------------------------------------------------------*/

static int64_t do_one(struct fault_file *fault, enum page_direction direction,
                      const struct page_io *io)
{
    pthread_mutex_lock(&fault->lock);
    struct fault_rule rule =
        count(fault, direction == PAGE_READ ? fault->rule.reads : fault->rule.writes);
    bool journal =
        fault->journaling && direction == PAGE_WRITE && page_io_refuse(io, direction, 0) == 0;
    if (!journal) {
        pthread_mutex_unlock(&fault->lock);
        return meet(fault, &rule, direction, io);
    }
    char *before = read_now(fault, io);
    int64_t result = meet(fault, &rule, direction, io);
    remember(fault, io, before);
    pthread_mutex_unlock(&fault->lock);
    return result;
}

static enum kvs_status fault_run(struct pagefile *file, struct page_batch *batch,
                                 uint64_t deadline_ns)
{
    (void)deadline_ns;
    struct fault_file *fault = (struct fault_file *)file;
    page_batch_begin(batch);
    for (size_t i = 0; i < page_batch_count(batch); i++) {
        const struct page_io *io = &page_batch_ios(batch)[i];
        int64_t result = page_io_refuse(io, page_batch_direction(batch), 0);
        if (result == 0) {
            result = do_one(fault, page_batch_direction(batch), io);
        }
        uint64_t checksum = 0;
        if (io->want_checksum && result == (int64_t)io->length) {
            checksum = checksum_page(io->buffer, io->length);
        }
        page_batch_end_io(batch, i, result, checksum);
    }
    return page_batch_leave(batch);
}

static enum kvs_status fault_sync(struct pagefile *file, struct kvs_error *error)
{
    struct fault_file *fault = (struct fault_file *)file;
    pthread_mutex_lock(&fault->lock);
    struct fault_rule rule = count(fault, fault->rule.syncs);
    enum kvs_status status;
    if (rule.kind != FAULT_NONE) {
        status = error_set(error, KVS_ERR_FILE_SYNC, "the file", strerror(rule.error_number));
    } else {
        status = fault->below->ops->sync(fault->below, error);
        forget(fault);
    }
    pthread_mutex_unlock(&fault->lock);
    return status;
}

static enum kvs_status fault_register(struct pagefile *file, void *base, size_t bytes,
                                      struct kvs_error *error)
{
    struct pagefile *below = ((struct fault_file *)file)->below;
    return below->ops->register_memory(below, base, bytes, error);
}

static enum kvs_status fault_check(struct pagefile *file, struct kvs_error *error)
{
    struct pagefile *below = ((struct fault_file *)file)->below;
    return below->ops->check(below, error);
}

static struct pagefile_info fault_info(const struct pagefile *file)
{
    const struct fault_file *fault = (const struct fault_file *)file;
    struct pagefile_info info = fault->below->ops->info(fault->below);
    info.engine = "fault";
    return info;
}

static struct pagefile *fault_close(struct pagefile *file)
{
    struct fault_file *fault = (struct fault_file *)file;
    fault->below->ops->close(fault->below);
    forget(fault);
    free(fault->journal);
    pthread_mutex_destroy(&fault->lock);
    free(fault);
    return NULL;
}

static const struct pagefile_ops fault_ops = {
    .name = "fault",
    .run = fault_run,
    .sync = fault_sync,
    .register_memory = fault_register,
    .check = fault_check,
    .info = fault_info,
    .close = fault_close,
};

struct pagefile *engine_fault_new(struct pagefile *below, uint64_t seed)
{
    struct fault_file *fault = or_abort(calloc(1, sizeof(*fault)));
    fault->pagefile.ops = &fault_ops;
    fault->below = below;
    fault->state = seed;
    pthread_mutex_init(&fault->lock, NULL);
    return &fault->pagefile;
}

void engine_fault_set(struct pagefile *file, const struct fault_rule *rule)
{
    struct fault_file *fault = (struct fault_file *)file;
    pthread_mutex_lock(&fault->lock);
    fault->rule = *rule;
    fault->counted = fault->fired = 0;
    pthread_mutex_unlock(&fault->lock);
}

uint64_t engine_fault_counted(struct pagefile *file)
{
    struct fault_file *fault = (struct fault_file *)file;
    pthread_mutex_lock(&fault->lock);
    uint64_t counted = fault->counted;
    pthread_mutex_unlock(&fault->lock);
    return counted;
}

uint64_t engine_fault_fired(struct pagefile *file)
{
    struct fault_file *fault = (struct fault_file *)file;
    pthread_mutex_lock(&fault->lock);
    uint64_t fired = fault->fired;
    pthread_mutex_unlock(&fault->lock);
    return fired;
}

void engine_fault_journal(struct pagefile *file)
{
    struct fault_file *fault = (struct fault_file *)file;
    pthread_mutex_lock(&fault->lock);
    fault->journaling = true;
    pthread_mutex_unlock(&fault->lock);
}
