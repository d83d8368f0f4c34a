/* A batch on an io_uring.
 *
 * Each turn starts some I/Os, hands them to the kernel, collects what has completed and takes the
 * checksum of some of it, so that checksums overlap with the I/O that is under way: the device gets
 * its next I/Os before anything is summed. What completed is told by the slot number in user_data,
 * never by order. Between turns nothing waits that could go on.
 *
 * Rare cases (unaligned memory with direct I/O, -EAGAIN, a ring that fails) are done by plain
 * calls: one slow page is better than a second set of rules. */
#include "pagefile/ring.h"

#include "base/checksum.h"
#include "pagefile/batch.h"
#include "pagefile/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <time.h>

enum {
    TURN_BYTES = 256 << 10, /* copied and summed in one turn: stays in the processor's cache */
    IO_BYTES_MAX = 1 << 30, /* of one request */
    REGIONS_MAX = 64,       /* of registered memory */
    REGION_BYTES = 1 << 30, /* the kernel's limit of one */
    SUBMIT_TRIES = 1000,    /* of 1 ms, while the kernel is short of memory */
};

/* First in, first out; never more than `n_slots` slot numbers. */
struct fifo {
    unsigned *slots, first, count;
};

struct slot {
    size_t index;   /* of the I/O in the batch */
    uint64_t moved; /* bytes */
    uint64_t checksum;
    uint64_t summed; /* bytes of a read that are in the checksum already */
    int64_t result;
};

struct region {
    char *base;
    size_t bytes;
};

struct ring {
    struct io_uring uring;
    unsigned depth;   /* the most that are queued and in flight */
    unsigned n_slots; /* more than that: what waits for its checksum keeps no I/O from starting */
    struct slot *slots;
    struct fifo idle;     /* slots without an I/O */
    struct fifo queued;   /* prepared, not yet taken by the kernel, in its order */
    struct fifo finished; /* ended, not yet told */
    unsigned in_flight;
    bool sound, fixed_file, fixed_buffers;
    unsigned generation; /* of the file that is registered */
    struct region regions[REGIONS_MAX];
    unsigned n_regions;
};

struct run {
    struct ring *ring;
    struct page_file *file;
    struct page_batch *batch;
    enum page_direction direction;
    struct page_io *ios;
    size_t next, n;
    struct transfer_bounce bounce;
};

/* ---- Slots ----------------------------------------------------------------------------------*/

static void push(const struct ring *ring, struct fifo *fifo, unsigned slot)
{
    fifo->slots[(fifo->first + fifo->count++) % ring->n_slots] = slot;
}

static unsigned pop(const struct ring *ring, struct fifo *fifo)
{
    unsigned slot = fifo->slots[fifo->first];
    fifo->first = (fifo->first + 1) % ring->n_slots;
    fifo->count--;
    return slot;
}

/* ---- Life -----------------------------------------------------------------------------------*/

static bool operations_known(struct io_uring *uring)
{
    static const int needed[] = {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_READ_FIXED,
                                 IORING_OP_WRITE_FIXED};
    struct io_uring_probe *probe = io_uring_get_probe_ring(uring);
    bool known = probe != NULL;
    for (size_t i = 0; known && i < sizeof(needed) / sizeof(needed[0]); i++) {
        known = io_uring_opcode_supported(probe, needed[i]);
    }
    io_uring_free_probe(probe);
    return known;
}

static int setup(struct ring *ring)
{
    /* Completions are collected when we enter the kernel anyway: no interrupts for them. */
    int failed = io_uring_queue_init(ring->depth, &ring->uring, IORING_SETUP_COOP_TASKRUN);
    if (failed == -EINVAL) {
        failed = io_uring_queue_init(ring->depth, &ring->uring, 0);
    }
    if (failed == 0 && !operations_known(&ring->uring)) {
        io_uring_queue_exit(&ring->uring);
        failed = -ENOSYS;
    }
    return failed;
}

static bool allocate(struct ring *ring)
{
    ring->slots = calloc(ring->n_slots, sizeof(*ring->slots));
    ring->idle.slots = calloc(ring->n_slots, sizeof(unsigned));
    ring->queued.slots = calloc(ring->n_slots, sizeof(unsigned));
    ring->finished.slots = calloc(ring->n_slots, sizeof(unsigned));
    return ring->slots && ring->idle.slots && ring->queued.slots && ring->finished.slots;
}

static void release(struct ring *ring)
{
    free(ring->slots);
    free(ring->idle.slots);
    free(ring->queued.slots);
    free(ring->finished.slots);
    free(ring);
}

int ring_new(struct page_file *file, unsigned depth, struct ring **ret_ring)
{
    struct ring *ring = calloc(1, sizeof(*ring));
    if (!ring) {
        return -ENOMEM;
    }
    ring->depth = depth;
    ring->n_slots = 2 * depth;
    int failed = allocate(ring) ? setup(ring) : -ENOMEM;
    if (failed != 0) {
        release(ring);
        return failed;
    }
    for (unsigned i = 0; i < ring->n_slots; i++) {
        push(ring, &ring->idle, i);
    }
    ring->generation = atomic_load(&file->generation);
    ring->fixed_file = io_uring_register_files(&ring->uring, &file->fd, 1) == 0;
    ring->sound = true;
    *ret_ring = ring;
    return 0;
}

struct ring *ring_free(struct ring *ring)
{
    if (ring) {
        io_uring_queue_exit(&ring->uring);
        release(ring);
    }
    return NULL;
}

bool ring_sound(const struct ring *ring)
{
    return ring->sound;
}

/* The registration holds the old file when another one was put under the descriptor. */
static void follow_file(struct ring *ring, struct page_file *file)
{
    unsigned generation = atomic_load(&file->generation);
    if (ring->fixed_file && ring->generation != generation) {
        ring->fixed_file = io_uring_register_files_update(&ring->uring, 0, &file->fd, 1) == 1;
    }
    ring->generation = generation;
}

/* ---- Registered memory ----------------------------------------------------------------------*/

bool ring_register(struct ring *ring, void *base, size_t bytes)
{
    if (!ring->fixed_buffers) {
        ring->fixed_buffers = io_uring_register_buffers_sparse(&ring->uring, REGIONS_MAX) == 0;
    }
    bool all = ring->fixed_buffers;
    for (size_t at = 0; all && at < bytes; at += REGION_BYTES) {
        size_t length = bytes - at < REGION_BYTES ? bytes - at : REGION_BYTES;
        struct iovec vector = {.iov_base = (char *)base + at, .iov_len = length};
        __u64 tag = 0;
        all = ring->n_regions < REGIONS_MAX &&
              io_uring_register_buffers_update_tag(&ring->uring, ring->n_regions, &vector, &tag,
                                                   1) == 1;
        if (all) {
            ring->regions[ring->n_regions++] = (struct region){vector.iov_base, length};
        }
    }
    return all;
}

/* The registered region that holds the memory whole, or -1. */
static int find_region(const struct ring *ring, const char *bytes, size_t length)
{
    for (unsigned i = 0; i < ring->n_regions; i++) {
        const struct region *region = &ring->regions[i];
        uintptr_t at = (uintptr_t)bytes - (uintptr_t)region->base;
        if (bytes >= region->base && at <= region->bytes && length <= region->bytes - at) {
            return (int)i;
        }
    }
    return -1;
}

/* ---- Starting I/O ---------------------------------------------------------------------------*/

static void do_nothing(void *arg)
{
    (void)arg;
}

/* The whole I/O, from its beginning, by plain calls. */
static void run_plainly(struct run *run, size_t index)
{
    struct transfer_waiting waiting = {do_nothing, do_nothing, NULL};
    uint64_t checksum = 0;
    int64_t result = transfer_run(run->file, run->direction, &run->ios[index], &run->bounce,
                                  &waiting, &checksum);
    page_batch_end_io(run->batch, index, result, checksum);
}

/* Puts what is left of the slot's I/O into the submission queue, which has room for `depth`. */
static void prepare(struct run *run, unsigned number)
{
    struct ring *ring = run->ring;
    const struct slot *slot = &ring->slots[number];
    const struct page_io *io = &run->ios[slot->index];
    char *bytes = (char *)io->buffer + slot->moved;
    uint64_t left = io->length - slot->moved, offset = io->offset + slot->moved;
    unsigned length = left < IO_BYTES_MAX ? (unsigned)left : IO_BYTES_MAX;
    int fd = ring->fixed_file ? 0 : run->file->fd;
    int region = find_region(ring, bytes, length);
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
    if (run->direction == PAGE_READ) {
        if (region >= 0) {
            io_uring_prep_read_fixed(sqe, fd, bytes, length, offset, region);
        } else {
            io_uring_prep_read(sqe, fd, bytes, length, offset);
        }
    } else {
        if (region >= 0) {
            io_uring_prep_write_fixed(sqe, fd, bytes, length, offset, region);
        } else {
            io_uring_prep_write(sqe, fd, bytes, length, offset);
        }
    }
    sqe->user_data = number;
    if (ring->fixed_file) {
        sqe->flags |= IOSQE_FIXED_FILE;
    }
    push(ring, &ring->queued, number);
}

/* What is cached is summed piece by piece, which the kernel's own copy of a whole page does not
 * allow (0.65 of a plain loop against 0.73 with 2 MiB pages). True when that ended the I/O. */
static bool read_cached(struct run *run, struct slot *slot)
{
    const struct page_io *io = &run->ios[slot->index];
    int64_t got = transfer_read_cached(run->file, io, &slot->checksum);
    if (got < 0 || (uint64_t)got == io->length) {
        page_batch_end_io(run->batch, slot->index, got, slot->checksum);
        return true;
    }
    slot->moved = slot->summed = (uint64_t)got;
    return false;
}

static void start_next(struct run *run)
{
    size_t index = run->next++;
    const struct page_io *io = &run->ios[index];
    int64_t refused = page_io_refuse(io, run->direction, run->file->size);
    if (refused != 0) {
        page_batch_end_io(run->batch, index, refused, 0);
        return;
    }
    if (run->file->direct && (uintptr_t)io->buffer % run->file->memory_align != 0) {
        run_plainly(run, index);
        return;
    }
    if (run->direction == PAGE_READ && io->uncached) {
        posix_fadvise(run->file->fd, (off_t)io->offset, (off_t)io->length, POSIX_FADV_DONTNEED);
    }
    struct slot slot = {.index = index};
    if (run->direction == PAGE_READ && io->want_checksum && !run->file->direct &&
        read_cached(run, &slot)) {
        return;
    }
    unsigned number = pop(run->ring, &run->ring->idle);
    run->ring->slots[number] = slot;
    if (run->direction == PAGE_WRITE && io->want_checksum) {
        run->ring->slots[number].checksum = checksum_page(io->buffer, (size_t)io->length);
    }
    prepare(run, number);
}

static bool can_start(const struct run *run)
{
    const struct ring *ring = run->ring;
    return run->next < run->n && ring->idle.count > 0 &&
           ring->queued.count + ring->in_flight < ring->depth;
}

/* All that can be started; of what keeps this thread busy (copies, and checksums before writes) a
 * turn's worth. False when no more can be started now. */
static bool start_some(struct run *run)
{
    bool busy = !run->file->direct || run->direction == PAGE_WRITE;
    for (uint64_t bytes = 0; !busy || bytes < TURN_BYTES;) {
        if (!can_start(run)) {
            return false;
        }
        bytes += run->ios[run->next].length;
        start_next(run);
    }
    return true;
}

/* ---- The kernel's side ----------------------------------------------------------------------*/

static void pause_1ms(void)
{
    struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
}

static void taken(struct ring *ring, int count)
{
    for (int i = 0; i < count; i++) {
        pop(ring, &ring->queued);
        ring->in_flight++;
    }
}

/* Hands over what is queued; with `wait`, until something has completed. */
static void submit(struct ring *ring, bool wait)
{
    for (int tries = 0; wait || ring->queued.count > 0;) {
        int got = wait ? io_uring_submit_and_wait(&ring->uring, 1) : io_uring_submit(&ring->uring);
        if (got >= 0) {
            taken(ring, got);
            return;
        }
        if (got == -EINTR) {
            continue;
        }
        if (got != -EAGAIN && got != -EBUSY && got != -ENOMEM) {
            ring->sound = false;
            return;
        }
        if (ring->in_flight > 0) {
            struct io_uring_cqe *cqe;
            io_uring_wait_cqe(&ring->uring, &cqe); /* frees what the kernel is short of */
            return;
        }
        if (++tries == SUBMIT_TRIES) {
            ring->sound = false;
            return;
        }
        pause_1ms();
    }
}

/* What a completion means: finished, or to go on with, or to be done plainly. */
static void complete(struct run *run, unsigned number, int result)
{
    struct ring *ring = run->ring;
    struct slot *slot = &ring->slots[number];
    const struct page_io *io = &run->ios[slot->index];
    if (result > 0) {
        slot->moved += (uint64_t)result;
    }
    bool whole = slot->moved == io->length;
    bool within_block = slot->moved % run->file->offset_align != 0;
    bool at_end = run->direction == PAGE_READ && (result == 0 || within_block);
    if (result == -EINTR || result == -EAGAIN ||
        (result > 0 && !whole && within_block && run->direction == PAGE_WRITE)) {
        run_plainly(run, slot->index);
        push(ring, &ring->idle, number);
    } else if (result < 0 || whole || at_end) {
        slot->result = result < 0 ? result : (int64_t)slot->moved;
        push(ring, &ring->finished, number);
    } else if (result == 0) { /* a write that moves nothing would be tried for ever */
        slot->result = -EIO;
        push(ring, &ring->finished, number);
    } else {
        prepare(run, number);
    }
}

static void collect(struct run *run)
{
    struct ring *ring = run->ring;
    struct io_uring_cqe *cqe;
    while (ring->in_flight > 0 && io_uring_peek_cqe(&ring->uring, &cqe) == 0) {
        unsigned number = (unsigned)cqe->user_data;
        int result = cqe->res;
        io_uring_cqe_seen(&ring->uring, cqe);
        ring->in_flight--;
        complete(run, number, result);
    }
}

static void finish_one(struct run *run)
{
    unsigned number = pop(run->ring, &run->ring->finished);
    struct slot *slot = &run->ring->slots[number];
    const struct page_io *io = &run->ios[slot->index];
    if (run->direction == PAGE_READ && io->want_checksum && slot->moved == io->length) {
        slot->checksum = checksum_page_more(slot->checksum, (const char *)io->buffer + slot->summed,
                                            (size_t)(io->length - slot->summed));
    }
    page_batch_end_io(run->batch, slot->index, slot->result, slot->checksum);
    push(run->ring, &run->ring->idle, number);
}

static void finish_some(struct run *run)
{
    for (uint64_t bytes = 0; bytes < TURN_BYTES && run->ring->finished.count > 0;) {
        const struct fifo *finished = &run->ring->finished;
        bytes += run->ios[run->ring->slots[finished->slots[finished->first]].index].length;
        finish_one(run);
    }
}

/* The ring does not work any more: what the kernel has must still be waited for, the rest is done
 * by plain calls. */
static void go_on_without(struct run *run)
{
    struct ring *ring = run->ring;
    while (ring->queued.count > 0) {
        run_plainly(run, ring->slots[pop(ring, &ring->queued)].index);
    }
    while (ring->in_flight > 0) {
        struct io_uring_cqe *cqe;
        if (io_uring_wait_cqe(&ring->uring, &cqe) != 0) {
            pause_1ms();
        }
        collect(run);
        while (ring->queued.count > 0) { /* short ones */
            run_plainly(run, ring->slots[pop(ring, &ring->queued)].index);
        }
    }
    while (ring->finished.count > 0) {
        finish_one(run);
    }
    while (run->next < run->n) {
        run_plainly(run, run->next++);
    }
}

void ring_run(struct ring *ring, struct page_file *file, struct page_batch *batch)
{
    struct run run = {.ring = ring,
                      .file = file,
                      .batch = batch,
                      .direction = page_batch_direction(batch),
                      .ios = page_batch_ios(batch),
                      .n = page_batch_count(batch)};
    follow_file(ring, file);
    while (ring->sound && (run.next < run.n || ring->idle.count < ring->n_slots)) {
        bool more = start_some(&run);
        bool must_wait = !more && ring->finished.count == 0 && ring->idle.count < ring->n_slots;
        submit(ring, must_wait);
        collect(&run);
        finish_some(&run);
    }
    if (!ring->sound) {
        go_on_without(&run);
    }
    transfer_bounce_done(&run.bounce);
}
