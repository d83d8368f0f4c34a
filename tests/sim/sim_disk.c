/* The page file; see sim_disk.h. */
#include "sim_disk.h"

#include "base/checksum.h"
#include "base/status.h"
#include "pagefile/batch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { IOS_MAX = 1024 };

struct half {
    uint8_t bytes[SIM_PAGE_BYTES_MAX / 2], synced[SIM_PAGE_BYTES_MAX / 2];
    bool wild; /* landed when it should not have, was lost or damaged */
};

struct disk_io {
    bool used;
    enum page_direction direction;
    int64_t page;
    int life; /* of a write; TRUTH_NONE */
    uint8_t *buffer;
    uint8_t copy[SIM_PAGE_BYTES_MAX]; /* of what is written, as it was at the start */
    struct disk_user *user;           /* NULL: its process has died */
    unsigned first_half, halves_to_move;
    bool wild;
    int64_t result;
    struct page_batch *batch; /* or, of an original client, `ended` */
    size_t index;
    bool ended;
};

static struct half halves[SIM_PAGES_MAX][2];
static struct disk_io ios[IOS_MAX];
static struct chance *chance;

void disk_begin(struct chance *of_disk)
{
    chance = of_disk;
    memset(halves, 0, sizeof(halves));
    memset(ios, 0, sizeof(ios));
}

static size_t half_bytes(void)
{
    return sim_plan.page_bytes / 2;
}

/* ---- Bytes land ----------------------------------------------------------------------------- */

static void move_half(struct disk_io *io, unsigned which)
{
    struct half *half = &halves[io->page][which];
    size_t at = which * half_bytes();
    if (io->direction == PAGE_WRITE) {
        if (io->user != NULL && memcmp(io->buffer + at, io->copy + at, half_bytes()) != 0)
            sim_fail("the memory of a write to page %" PRId64 " was changed while it was under way",
                     io->page);
        memcpy(half->bytes, io->copy + at, half_bytes());
        half->wild = io->life == TRUTH_NONE || !truth_may_land(io->life);
    } else {
        io->wild |= half->wild;
        if (io->user != NULL)
            memcpy(io->buffer + at, half->bytes, half_bytes());
    }
}

static void first_half(void *arg)
{
    struct disk_io *io = arg;
    if (io->halves_to_move > 0)
        move_half(io, io->first_half);
}

static void second_half(void *arg)
{
    struct disk_io *io = arg;
    if (io->halves_to_move > 1)
        move_half(io, 1 - io->first_half);
}

static void io_ends(void *arg)
{
    struct disk_io *io = arg;
    struct disk_user *user = io->user;
    if (io->life != TRUTH_NONE)
        truth_has_written(io->life, io->result == sim_plan.page_bytes);
    if (user == NULL) {
        io->used = false;
        return;
    }
    if (io->batch != NULL) {
        uint64_t checksum =
            io->result == sim_plan.page_bytes ? checksum_page(io->buffer, sim_plan.page_bytes) : 0;
        struct page_batch *batch = io->batch;
        size_t index = io->index;
        int64_t result = io->result;
        io->used = false;
        page_batch_end_io(batch, index, result, checksum);
    }
    io->ended = true;
    user->under_way--;
    sim_wake_all(io);
    sim_wake_all(user);
}

/* ---- I/O begins ----------------------------------------------------------------------------- */

static void draw_result(struct disk_io *io)
{
    io->result = sim_plan.page_bytes;
    io->halves_to_move = 2;
    io->first_half = (unsigned)below(chance, 2);
    if (sim_fault(chance, FAULT_DISK_ERROR)) {
        io->result = -EIO;
        io->halves_to_move = (unsigned)below(chance, 3);
    } else if (sim_fault(chance, FAULT_DISK_SHORT)) {
        io->result = (int64_t)half_bytes();
        io->first_half = 0;
        io->halves_to_move = 1;
    } else if (io->direction == PAGE_WRITE && sim_fault(chance, FAULT_DISK_FULL)) {
        io->result = -ENOSPC;
        io->halves_to_move = 0;
    }
}

static uint64_t draw_time_us(void)
{
    if (sim_fault(chance, FAULT_DISK_SLOW))
        return below(chance, sim_plan.slow_ms) * 1000;
    if (sim_fault(chance, FAULT_DISK_STUCK))
        return (sim_plan.client_timeout_ms + below(chance, 3 * (uint64_t)sim_plan.slow_ms)) * 1000;
    return between(chance, 50, 3000);
}

static struct disk_io *start(struct disk_user *user, enum page_direction direction, int64_t page,
                             void *buffer)
{
    struct disk_io *io = NULL;
    for (size_t i = 0; i < IOS_MAX && io == NULL; i++)
        if (!ios[i].used)
            io = &ios[i];
    if (io == NULL)
        abort();
    *io = (struct disk_io){.used = true,
                           .direction = direction,
                           .page = page,
                           .user = user,
                           .buffer = buffer,
                           .life = TRUTH_NONE};
    if (direction == PAGE_WRITE) {
        memcpy(io->copy, buffer, sim_plan.page_bytes);
        int version = truth_identify(io->copy);
        io->life = truth_life(page, user->generations[page]);
        if (version == TRUTH_NONE || io->life == TRUTH_NONE)
            sim_fail("%s writes page %" PRId64 " that it never was given, or bytes of nobody",
                     user->process->name, page);
        else
            truth_writes(io->life, version);
    }
    draw_result(io);
    user->under_way++;
    uint64_t us = draw_time_us(), first_us = below(chance, us + 1);
    sim_after(first_us, first_half, io);
    sim_after(between(chance, first_us, us), second_half, io);
    sim_after(us, io_ends, io);
    return io;
}

int64_t disk_transfer(struct disk_user *user, enum page_direction direction, int64_t page,
                      void *buffer, bool *ret_wild)
{
    struct disk_io *io = start(user, direction, page, buffer);
    while (!io->ended)
        sim_wait(io, SIM_FOREVER);
    *ret_wild = io->wild;
    int64_t result = io->result;
    io->used = false;
    return result;
}

void disk_user_died(struct disk_user *user)
{
    for (size_t i = 0; i < IOS_MAX; i++)
        if (ios[i].used && ios[i].user == user) {
            ios[i].user = NULL;
            ios[i].used = !ios[i].ended;
        }
    user->under_way = 0;
    user->failed_us = 0;
}

/* ---- The engine ----------------------------------------------------------------------------- */

struct disk_file {
    struct pagefile pagefile;
    struct disk_user *user;
};

/* A write without space or in time is one too many; of others one good one is enough. */
static bool has_failed(struct page_batch *batch)
{
    const struct page_io *io = page_batch_ios(batch);
    bool good = false;
    for (size_t i = 0; i < page_batch_count(batch); i++) {
        if (!io[i].done || io[i].result == -ENOSPC)
            return true;
        good |= io[i].result == sim_plan.page_bytes;
    }
    return !good;
}

/* The first failure counts, until something went well after the time of restraint: what was under
 * way when it came changes nothing, and of probes nothing is known here. */
static void note_failure(struct disk_user *user, bool failed)
{
    uint64_t now_us = sim_machine_us(user->process->machine);
    if (user->failed_us == 0 && failed)
        user->failed_us = now_us;
    else if (!failed && now_us - user->failed_us >= DISK_RESTRAINT_US)
        user->failed_us = 0;
}

static enum kvs_status file_run(struct pagefile *pagefile, struct page_batch *batch,
                                uint64_t deadline_ns)
{
    struct disk_user *user = ((struct disk_file *)pagefile)->user;
    enum page_direction direction = page_batch_direction(batch);
    page_batch_begin(batch);
    for (size_t i = 0; i < page_batch_count(batch); i++) {
        struct page_io *io = &page_batch_ios(batch)[i];
        uint64_t page = io->offset / sim_plan.page_bytes;
        if (io->offset % sim_plan.page_bytes != 0 || io->length != sim_plan.page_bytes ||
            page >= SIM_PAGES_MAX)
            sim_fail("%s asks for %" PRIu64 " bytes at %" PRIu64, user->process->name, io->length,
                     io->offset);
        struct disk_io *started = start(user, direction, (int64_t)page, io->buffer);
        started->batch = batch;
        started->index = i;
    }
    page_batch_wait(batch, sim_plan.deadlines ? deadline_ns : 0);
    enum kvs_status status = page_batch_leave(batch);
    sim_trace("  %s %s %zu pages, %s", user->process->name,
              direction == PAGE_WRITE ? "wrote" : "read", page_batch_count(batch),
              has_failed(batch) ? "a failure" : "well enough");
    if (direction == PAGE_WRITE && page_batch_count(batch) > 0)
        note_failure(user, has_failed(batch));
    return status;
}

static enum kvs_status file_sync(struct pagefile *pagefile, struct kvs_error *error)
{
    (void)pagefile, (void)error;
    disk_flush();
    return KVS_OK;
}

static enum kvs_status file_register(struct pagefile *pagefile, void *base, size_t bytes,
                                     struct kvs_error *error)
{
    (void)pagefile, (void)base, (void)bytes, (void)error;
    return KVS_OK;
}

static enum kvs_status file_check(struct pagefile *pagefile, struct kvs_error *error)
{
    (void)pagefile, (void)error;
    return KVS_OK;
}

static struct pagefile_info file_info(const struct pagefile *pagefile)
{
    (void)pagefile;
    return (struct pagefile_info){.engine = "sim",
                                  .filesystem = "sim",
                                  .needs_deadline = sim_plan.deadlines,
                                  .alignment = 1,
                                  .max_inflight = IOS_MAX};
}

static struct pagefile *file_close(struct pagefile *pagefile)
{
    struct disk_user *user = ((struct disk_file *)pagefile)->user;
    while (user->under_way > 0)
        sim_wait(user, SIM_FOREVER);
    free(pagefile);
    return NULL;
}

static const struct pagefile_ops file_ops = {
    .name = "sim",
    .run = file_run,
    .sync = file_sync,
    .register_memory = file_register,
    .check = file_check,
    .info = file_info,
    .close = file_close,
};

enum kvs_status disk_open(void *user, enum kvs_io_engine engine,
                          const struct pagefile_options *options, struct pagefile **ret_file,
                          struct kvs_error *error)
{
    (void)engine, (void)options;
    struct disk_file *file = calloc(1, sizeof(*file));
    if (file == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a simulated file");
    file->pagefile.ops = &file_ops;
    file->user = user;
    *ret_file = &file->pagefile;
    return KVS_OK;
}

/* ---- What happens to the disk --------------------------------------------------------------- */

void disk_flush(void)
{
    for (size_t page = 0; page < SIM_PAGES_MAX; page++)
        for (size_t half = 0; half < 2; half++)
            memcpy(halves[page][half].synced, halves[page][half].bytes, half_bytes());
}

void disk_power_cut(void)
{
    if (!sim_fault(chance, FAULT_DISK_LOST)) {
        disk_flush();
        return;
    }
    for (size_t page = 0; page < SIM_PAGES_MAX; page++)
        for (size_t i = 0; i < 2; i++) {
            struct half *half = &halves[page][i];
            if (memcmp(half->bytes, half->synced, half_bytes()) == 0 || one_in(chance, 2))
                continue;
            memcpy(half->bytes, half->synced, half_bytes());
            half->wild = true;
        }
    disk_flush();
}

void disk_rot(void)
{
    struct half *half = &halves[below(chance, sim_plan.num_pages)][below(chance, 2)];
    half->bytes[below(chance, half_bytes())] ^= (uint8_t)(1u << below(chance, 8));
    half->wild = true;
}
