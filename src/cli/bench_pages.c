/* Measuring page I/O, turn by turn. */
#include "cli/bench_pages.h"

#include "base/clock.h"
#include "base/status.h"
#include "cli/bench.h"
#include "cli/workplace.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint64_t page_sizes[] = {64 << 10, 256 << 10, 2 << 20, 4497408};
enum {
    PAGE_SIZES = sizeof page_sizes / sizeof page_sizes[0],
    FILL_BYTES = 8 << 20,
    HUGE_BYTES = 2 << 20,
};

/* The memory that everyone but fio moves pages from and to. */
struct memory {
    char *bytes;
    size_t length;
};

struct place {
    const char *path;
    struct memory memory;
    uint64_t next; /* where the next batch begins: no page twice in a row */
};

/* At least FILL_BYTES; in huge pages where the system has them for who asks. */
static bool memory_new(struct memory *memory, size_t length)
{
    memory->length =
        (length < FILL_BYTES ? FILL_BYTES : length) / HUGE_BYTES * HUGE_BYTES + HUGE_BYTES;
    memory->bytes = aligned_alloc(HUGE_BYTES, memory->length);
    if (!memory->bytes) {
        return false;
    }
    madvise(memory->bytes, memory->length, MADV_HUGEPAGE);
    return true;
}

/* ---- Turns -----------------------------------------------------------------------------------*/

static uint64_t offset_of(const struct place *place, const struct pages_bench *bench,
                          uint64_t bytes_per_page, uint64_t i)
{
    return (place->next + i) * 7919 % (bench->file_bytes / bytes_per_page) * bytes_per_page;
}

uint64_t pages_bench_window(const struct pages_bench *bench, const struct pages_cell *cell)
{
    return cell->direct ? 2 * bench->depth
                        : bench->batch * page_sizes[PAGE_SIZES - 1] / cell->bytes_per_page;
}

/* Goes around in the window. Past the page cache a batch has more pages than the window: two that
 * are under way may then share memory, which nobody looks at; it is twice the depth because they
 * would get in each other's way if that were the rule. */
static char *memory_of(const struct place *place, const struct pages_bench *bench,
                       const struct pages_cell *cell, uint64_t i)
{
    return place->memory.bytes +
           (place->next + i) % pages_bench_window(bench, cell) * cell->bytes_per_page;
}

static bool loop_batch(int fd, const struct pages_cell *cell, const struct pages_bench *bench,
                       struct place *place)
{
    size_t length = (size_t)cell->bytes_per_page;
    for (uint64_t i = 0; i < bench->batch; i++) {
        char *bytes = memory_of(place, bench, cell, i);
        off_t offset = (off_t)offset_of(place, bench, cell->bytes_per_page, i);
        ssize_t moved = cell->direction == PAGE_READ ? pread(fd, bytes, length, offset)
                                                     : pwrite(fd, bytes, length, offset);
        if (moved != (ssize_t)length) {
            return false;
        }
    }
    return true;
}

static bool engine_batch(struct pagefile *file, const struct pages_cell *cell,
                         const struct pages_bench *bench, struct place *place, bool checksum)
{
    struct page_batch *batch = page_batch_new(cell->direction, bench->batch, NULL, NULL);
    if (!batch) {
        return false;
    }
    struct page_io *ios = page_batch_ios(batch);
    for (uint64_t i = 0; i < bench->batch; i++) {
        ios[i] = (struct page_io){.offset = offset_of(place, bench, cell->bytes_per_page, i),
                                  .buffer = memory_of(place, bench, cell, i),
                                  .length = cell->bytes_per_page,
                                  .want_checksum = checksum};
    }
    bool whole = file->ops->run(file, batch, 0) == KVS_OK;
    for (uint64_t i = 0; i < bench->batch; i++) {
        whole = whole && ios[i].result == (int64_t)cell->bytes_per_page;
    }
    page_batch_abandon(batch);
    return whole;
}

/* Batches for the time of a turn. Bytes per second; 0 when I/O failed. */
static double timed(int fd, struct pagefile *file, const struct pages_cell *cell,
                    const struct pages_bench *bench, struct place *place, bool checksum)
{
    uint64_t began = clock_mono_ns(), now = began, bytes = 0;
    while (now - began < bench->turn_ms * 1000000) {
        bool whole = file ? engine_batch(file, cell, bench, place, checksum)
                          : loop_batch(fd, cell, bench, place);
        if (!whole) {
            return 0;
        }
        place->next += bench->batch;
        bytes += bench->batch * cell->bytes_per_page;
        now = clock_mono_ns();
    }
    return (double)bytes * 1e9 / (double)(now - began);
}

static double loop_turn(const struct pages_cell *cell, const struct pages_bench *bench,
                        struct place *place)
{
    int fd = open(place->path, O_RDWR | O_CLOEXEC | (cell->direct ? O_DIRECT : 0));
    if (fd < 0) {
        return 0;
    }
    double rate = timed(fd, NULL, cell, bench, place, false);
    close(fd);
    return rate;
}

static double engine_turn(enum mover mover, const struct pages_cell *cell,
                          const struct pages_bench *bench, struct place *place)
{
    bool uring = mover == MOVER_URING || mover == MOVER_URING_CHECKSUM;
    bool checksum = mover == MOVER_POSIX_CHECKSUM || mover == MOVER_URING_CHECKSUM;
    /* `depth` I/Os in flight for one caller: of threads for posix, of one of 4 rings for uring. */
    struct pagefile_options options = {.path = place->path,
                                       .file_size = bench->file_bytes,
                                       .bytes_per_page = cell->bytes_per_page,
                                       .threads = (uint32_t)bench->depth,
                                       .entries = 4,
                                       .direct = cell->direct ? KVS_DIRECT_ON : KVS_DIRECT_OFF};
    const struct pagefile_ops *ops = uring ? &pagefile_uring : &pagefile_posix;
    struct pagefile *file = NULL;
    if (ops->open(&options, &file, NULL) != KVS_OK) {
        return 0;
    }
    double rate = 0;
    if (file->ops->info(file).direct == cell->direct) {
        file->ops->register_memory(file, place->memory.bytes, place->memory.length, NULL);
        rate = timed(-1, file, cell, bench, place, checksum);
    }
    file->ops->close(file);
    return rate;
}

/* What one has left to be written back is not to be paid for by the next. */
static void settle(const struct pages_cell *cell, const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        if (cell->direction == PAGE_WRITE && !cell->direct) {
            fdatasync(fd);
        }
        close(fd);
    }
}

static double take_turn(enum mover mover, const struct pages_cell *cell,
                        const struct pages_bench *bench, struct place *place)
{
    double rate;
    switch (mover) {
    case MOVER_LOOP:
        rate = loop_turn(cell, bench, place);
        break;
    case MOVER_FIO:
        rate = bench->with_fio ? bench_fio(bench, cell, place->path, place->next) : 0;
        break;
    default:
        rate = engine_turn(mover, cell, bench, place);
        break;
    }
    settle(cell, place->path);
    return rate;
}

/* ---- A cell ----------------------------------------------------------------------------------*/

/* Reads through the page cache are of what is in it; and what the device or its host keep of the
 * file they keep for whoever is first as well. */
static bool warm_up(const struct pages_cell *cell, const struct pages_bench *bench,
                    const char *path, struct memory memory)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | (cell->direct ? O_DIRECT : 0));
    bool read_all = fd >= 0;
    for (uint64_t at = 0; read_all && at < bench->file_bytes; at += FILL_BYTES) {
        read_all = pread(fd, memory.bytes, FILL_BYTES, (off_t)at) > 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    return read_all;
}

/* Against the peer of the same round, so that a machine that slows down slows down both; a round
 * without one does not count. */
static void compare(struct pages_cell *cell, enum mover mover, uint64_t rounds)
{
    double sorted[BENCH_PAGES_ROUNDS_MAX];
    size_t n = 0;
    for (uint64_t r = 0; r < rounds; r++) {
        double peer = cell->rates[cell->peer][r];
        if (peer > 0) {
            sorted[n++] = cell->rates[mover][r] / peer;
        }
    }
    if (n > 0) {
        cell->ratio[mover] = bench_median(sorted, n); /* sorts */
        cell->ratio_low[mover] = sorted[0];
        cell->ratio_high[mover] = sorted[n - 1];
    }
}

static void summarize(struct pages_cell *cell, uint64_t rounds)
{
    double sorted[BENCH_PAGES_ROUNDS_MAX];
    for (int m = 0; m < MOVERS; m++) {
        memcpy(sorted, cell->rates[m], rounds * sizeof *sorted);
        cell->median[m] = bench_median(sorted, rounds);
    }
    cell->peer = cell->median[MOVER_FIO] > cell->median[MOVER_LOOP] ? MOVER_FIO : MOVER_LOOP;
    for (int m = 0; m < MOVERS; m++) {
        compare(cell, (enum mover)m, rounds);
    }
}

static enum kvs_status run_cell(struct pages_cell *cell, const struct pages_bench *bench,
                                struct place *place, void (*turn)(void *arg), void *arg,
                                struct kvs_error *error)
{
    if (!warm_up(cell, bench, place->path, place->memory)) {
        return error_set(error, KVS_ERR_FILE_OPEN, place->path, strerror(errno));
    }
    for (uint64_t r = 0; r < bench->rounds; r++) {
        for (uint64_t i = 0; i < MOVERS && workplace_stop_signal() == 0; i++) {
            enum mover mover = (enum mover)((r + i) % MOVERS); /* each is first in its turn */
            cell->rates[mover][r] = take_turn(mover, cell, bench, place);
            turn(arg);
        }
        if (cell->rates[MOVER_LOOP][r] <= 0 && workplace_stop_signal() == 0) {
            return error_set(error, KVS_ERR_IO_ENGINE, cell->direct ? "direct I/O" : "pread",
                             "the file system of the benchmark does not do it");
        }
    }
    summarize(cell, bench->rounds);
    return KVS_OK;
}

/* ---- All of it -------------------------------------------------------------------------------*/

/* Real blocks with changing bytes: holes and zeros are read at other speeds. */
static enum kvs_status fill_file(const char *path, uint64_t bytes, struct memory memory,
                                 struct kvs_error *error)
{
    uint64_t seed = 1;
    for (size_t at = 0; at + sizeof seed <= memory.length; at += sizeof seed) {
        uint64_t word = bench_random(&seed);
        memcpy(memory.bytes + at, &word, sizeof word);
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return error_set(error, KVS_ERR_FILE_OPEN, path, strerror(errno));
    }
    enum kvs_status status = KVS_OK;
    for (uint64_t at = 0; at < bytes && status == KVS_OK; at += FILL_BYTES) {
        if (pwrite(fd, memory.bytes, FILL_BYTES, (off_t)at) != FILL_BYTES) {
            status = error_set(error, KVS_ERR_NO_SPACE, path, NUM(bytes));
        }
    }
    if (status == KVS_OK && fdatasync(fd) != 0) {
        status = error_set(error, KVS_ERR_FILE_SYNC, path, strerror(errno));
    }
    close(fd);
    return status;
}

static void lay_out(struct pages_bench *bench)
{
    cpu_set_t set;
    bench->processors = sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
    bench->file_bytes = (bench->file_bytes + FILL_BYTES - 1) / FILL_BYTES * FILL_BYTES;
    bench->n_cells = 0;
    for (int direct = 0; direct < 2; direct++) {
        for (int direction = PAGE_READ; direction <= PAGE_WRITE; direction++) {
            for (size_t i = 0; i < PAGE_SIZES && (direct ? bench->direct : bench->cached); i++) {
                bench->cells[bench->n_cells++] =
                    (struct pages_cell){.bytes_per_page = page_sizes[i],
                                        .direction = (enum page_direction)direction,
                                        .direct = direct};
            }
        }
    }
}

uint64_t pages_bench_turns(const struct pages_bench *bench)
{
    uint64_t modes = (uint64_t)bench->cached + bench->direct;
    return modes * 2 * PAGE_SIZES * bench->rounds * MOVERS;
}

enum kvs_status pages_bench_run(struct pages_bench *bench, const char *path,
                                void (*turn)(void *arg), void *arg, struct kvs_error *error)
{
    lay_out(bench);
    struct place place = {.path = path};
    if (!memory_new(&place.memory, (size_t)(bench->batch * page_sizes[PAGE_SIZES - 1]))) {
        return error_set(error, KVS_ERR_NO_MEMORY, "allocating the pages of a batch");
    }
    enum kvs_status status = fill_file(path, bench->file_bytes, place.memory, error);
    for (size_t i = 0; i < bench->n_cells && status == KVS_OK && workplace_stop_signal() == 0;
         i++) {
        status = run_cell(&bench->cells[i], bench, &place, turn, arg, error);
    }
    free(place.memory.bytes);
    return status;
}
