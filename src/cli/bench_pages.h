/* What `kvshelf bench pages` measures: moving pages of several sizes through each engine, beside a
 * plain loop of pread or pwrite and, where it is installed, fio with io_uring on the same file at
 * the same depth. bench_pages.c measures, bench_pages_print.c prints.
 *
 * What decides a rate here is memory as much as the engine, so everyone has the same of it: huge
 * pages, because a device takes 2 MiB of them in one request and of scattered small pages in
 * hundreds of pieces; through the page cache more than any processor's cache holds, as the host
 * pool of an engine is; past it twice that of `depth` pages (fio: once, it can have no more). */
#ifndef KVSHELF_CLI_BENCH_PAGES_H
#define KVSHELF_CLI_BENCH_PAGES_H

#include "base/buffer.h"
#include "pagefile/pagefile.h"

#include <stdio.h>

enum { BENCH_PAGES_ROUNDS_MAX = 99, BENCH_PAGES_CELLS = 16 };

/* Who moves the pages. Everyone has a turn in every round. */
enum mover {
    MOVER_LOOP,  /* pread or pwrite, page after page, one thread */
    MOVER_FIO,   /* fio --ioengine=io_uring */
    MOVER_POSIX, /* the engines, without checksums */
    MOVER_URING,
    MOVER_POSIX_CHECKSUM, /* and with */
    MOVER_URING_CHECKSUM,
    MOVERS
};

/* One page size, one direction, through the page cache or past it. */
struct pages_cell {
    uint64_t bytes_per_page;
    enum page_direction direction;
    bool direct;
    double rates[MOVERS][BENCH_PAGES_ROUNDS_MAX]; /* bytes per second; 0: could not be measured */
    double median[MOVERS];
    enum mover peer; /* loop or fio, the one with the higher median */
    /* Of each round the rate over the peer's: median, lowest and highest. */
    double ratio[MOVERS], ratio_low[MOVERS], ratio_high[MOVERS];
};

struct pages_bench {
    uint64_t file_bytes, turn_ms, rounds, depth, batch;
    unsigned processors;
    bool with_fio, cached, direct;
    size_t n_cells;
    struct pages_cell cells[BENCH_PAGES_CELLS];
};

/* `path` is made. `turn` is called after each turn. Ends early when a signal has asked for it.
 * Errors: those of pagefile_open(), KVS_ERR_NO_MEMORY, KVS_ERR_IO_ENGINE (I/O failed). */
enum kvs_status pages_bench_run(struct pages_bench *bench, const char *path,
                                void (*turn)(void *arg), void *arg, struct kvs_error *error);
uint64_t pages_bench_turns(const struct pages_bench *bench);

void pages_bench_print(const struct pages_bench *bench, FILE *out);
void pages_bench_json(const struct pages_bench *bench, struct buffer *out);

/* How many pages of memory everyone (past the page cache: but fio) has in this cell. */
uint64_t pages_bench_window(const struct pages_bench *bench, const struct pages_cell *cell);

/* Bytes per second that fio moves in a turn, at places that `seed` decides; 0 when it cannot be
 * run. */
double bench_fio(const struct pages_bench *bench, const struct pages_cell *cell, const char *path,
                 uint64_t seed);

#endif
