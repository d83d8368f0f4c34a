/* The catalog on one core, in memory, beside a bare random gather over as much memory of the same
 * kind. A gather of one line a key is what no index can beat: a lookup has to load its line too.
 *
 * Time is the thread's own (CLOCK_THREAD_CPUTIME_ID), taken around blocks of 64 batches whose keys
 * were made before, so that neither the clock, other processes nor the making of keys is measured.
 * Memory that is slowed down by other cores still is. */
#include "base/clock.h"
#include "base/status.h"
#include "catalog/memory.h"
#include "cli/bench.h"
#include "cli/workplace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BLOCK_BATCHES = 64,
    BLOCK_KEYS = BLOCK_BATCHES * BENCH_BATCH,
    ROUND_PAGES_MAX = 1 << 18, /* pages handed out in one round */
    LOOKUP_BLOCKS_MAX = 64,    /* a round of lookups: half a million keys */
};

struct line {
    uint64_t word[8];
};

struct speed_run {
    uint64_t pages, next_id, seed;
    struct catalog *catalog;
    uint32_t *order; /* ids 0 to pages - 1, shuffled: the first `deleted` are gone */
    uint64_t deleted;
    struct line *lines; /* of the gather */
    uint64_t line_count;
    volatile uint64_t sink; /* what was loaded has to go somewhere */
    volatile uint64_t zero; /* the compiler does not know that it is */
    /* Of one block: */
    struct key keys[BLOCK_KEYS];
    uint32_t picks[BLOCK_KEYS];
    struct catalog_confirm confirms[BLOCK_KEYS];
    bool exists[BENCH_BATCH];
    struct catalog_found found[BENCH_BATCH];
    struct catalog_reserved reserved[BENCH_BATCH];
    enum catalog_rejection reasons[BENCH_BATCH];
};

static uint64_t thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* From /proc/self/statm: the second number, in pages. */
static uint64_t resident_bytes(void)
{
    unsigned long long resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*u %llu", &resident) != 1)
        resident = 0;
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- What is timed ---------------------------------------------------------------------------*/

/* Each does one block and gives the nanoseconds it took. */
typedef uint64_t (*block_fn)(struct speed_run *run);

/* A batch begins when the one before has been loaded, as a request is made when the one before has
 * been answered: its addresses depend, by nothing, on what was loaded. With `overlapping` the
 * processor is free to begin the next batch early. */
static uint64_t gather(struct speed_run *run, bool overlapping)
{
    for (size_t i = 0; i < BLOCK_KEYS; i++)
        run->picks[i] = (uint32_t)(bench_random(&run->seed) % run->line_count);
    uint64_t mask = run->zero, sum = 0, begin_ns = thread_ns();
    for (size_t at = 0; at < BLOCK_KEYS; at += BENCH_BATCH) {
        const struct line *lines = overlapping ? run->lines : run->lines + (sum & mask);
        for (size_t i = 0; i < BENCH_BATCH; i++)
            sum += lines[run->picks[at + i]].word[0];
        run->sink = sum;
    }
    return thread_ns() - begin_ns;
}

static uint64_t gather_block(struct speed_run *run)
{
    return gather(run, false);
}

static uint64_t overlapping_block(struct speed_run *run)
{
    return gather(run, true);
}

static void pick_present_keys(struct speed_run *run)
{
    for (size_t i = 0; i < BLOCK_KEYS; i++)
        bench_key(&run->keys[i], bench_random(&run->seed) % run->pages);
}

static uint64_t exists_block(struct speed_run *run)
{
    pick_present_keys(run);
    uint64_t now_ms = clock_boot_ms(), begin_ns = thread_ns();
    for (size_t at = 0; at < BLOCK_KEYS; at += BENCH_BATCH) {
        catalog_exists(run->catalog, now_ms, run->keys + at, BENCH_BATCH, true, run->exists);
        run->sink = run->exists[0];
    }
    return thread_ns() - begin_ns;
}

static uint64_t get_block(struct speed_run *run)
{
    pick_present_keys(run);
    uint64_t now_ms = clock_boot_ms(), begin_ns = thread_ns();
    for (size_t at = 0; at < BLOCK_KEYS; at += BENCH_BATCH) {
        catalog_get(run->catalog, now_ms, run->keys + at, BENCH_BATCH, true, run->found);
        run->sink = (uint64_t)run->found[0].page;
    }
    return thread_ns() - begin_ns;
}

static uint64_t reserve_block(struct speed_run *run)
{
    for (size_t i = 0; i < BLOCK_KEYS; i++) {
        bench_key(&run->keys[i], run->next_id++);
        run->confirms[i] = (struct catalog_confirm){
            .key = run->keys[i], .has_generation = true, .has_checksum = true, .checksum = i};
    }
    uint64_t now_ms = clock_boot_ms(), begin_ns = thread_ns();
    for (size_t at = 0; at < BLOCK_KEYS; at += BENCH_BATCH) {
        catalog_reserve(run->catalog, now_ms, run->keys + at, BENCH_BATCH, true, 0, run->reserved);
        for (size_t i = 0; i < BENCH_BATCH; i++) {
            run->confirms[at + i].page = run->reserved[i].page;
            run->confirms[at + i].generation = run->reserved[i].generation;
        }
        catalog_confirm(run->catalog, now_ms, run->confirms + at, BENCH_BATCH, run->reasons);
    }
    return thread_ns() - begin_ns;
}

/* Keys per second over so many blocks. */
static double rate_of(struct speed_run *run, block_fn block, uint64_t blocks)
{
    uint64_t ns = 0;
    for (uint64_t b = 0; b < blocks; b++)
        ns += block(run);
    return (double)(blocks * BLOCK_KEYS) * 1e9 / (double)ns;
}

static struct bench_rate rate_over_rounds(double rates[BENCH_ROUNDS])
{
    double median = bench_median(rates, BENCH_ROUNDS); /* sorts */
    return (struct bench_rate){median, rates[0], rates[BENCH_ROUNDS - 1]};
}

/* ---- Rounds ----------------------------------------------------------------------------------*/

static void fill(struct speed_run *run)
{
    while (run->next_id + BLOCK_KEYS <= run->pages && workplace_stop_signal() == 0)
        reserve_block(run);
    while (run->next_id < run->pages) { /* the rest, one by one */
        struct catalog_confirm confirm = {.has_checksum = true};
        bench_key(&confirm.key, run->next_id++);
        catalog_reserve(run->catalog, clock_boot_ms(), &confirm.key, 1, true, 0, run->reserved);
        confirm.page = run->reserved[0].page;
        catalog_confirm(run->catalog, clock_boot_ms(), &confirm, 1, run->reasons);
    }
}

static void measure_lookups(struct speed_run *run, struct bench_speed *speed)
{
    double gathers[BENCH_ROUNDS], overlapping[BENCH_ROUNDS];
    double exists[BENCH_ROUNDS], get[BENCH_ROUNDS];
    double exists_ratio[BENCH_ROUNDS], get_ratio[BENCH_ROUNDS];
    uint64_t blocks = run->pages / BLOCK_KEYS;
    if (blocks > LOOKUP_BLOCKS_MAX)
        blocks = LOOKUP_BLOCKS_MAX;
    for (size_t r = 0; r < BENCH_ROUNDS; r++) {
        gathers[r] = rate_of(run, gather_block, blocks);
        overlapping[r] = rate_of(run, overlapping_block, blocks);
        exists[r] = rate_of(run, exists_block, blocks);
        get[r] = rate_of(run, get_block, blocks);
        exists_ratio[r] = exists[r] / gathers[r];
        get_ratio[r] = get[r] / gathers[r];
    }
    speed->gather = rate_over_rounds(gathers);
    speed->overlapping_gather = rate_over_rounds(overlapping);
    speed->exists = rate_over_rounds(exists);
    speed->get = rate_over_rounds(get);
    speed->exists_over_gather = bench_median(exists_ratio, BENCH_ROUNDS);
    speed->get_over_gather = bench_median(get_ratio, BENCH_ROUNDS);
}

/* Uses all pages in shuffled order, so that the oldest ones are spread over the whole array, as
 * they are in a catalog that has been in use for a while. */
static void shuffle_recency(struct speed_run *run)
{
    for (uint64_t at = 0; at < run->pages; at += BENCH_BATCH) {
        size_t n = run->pages - at < BENCH_BATCH ? (size_t)(run->pages - at) : BENCH_BATCH;
        for (size_t i = 0; i < n; i++)
            bench_key(&run->keys[i], run->order[at + i]);
        catalog_get(run->catalog, clock_boot_ms(), run->keys, n, true, run->found);
    }
}

/* Deletes pages here and there, so that what is free is spread over the whole array. */
static void delete_pages(struct speed_run *run, uint64_t n)
{
    for (; n > 0; n--) {
        struct key key;
        bench_key(&key, run->order[run->deleted++]);
        catalog_delete(run->catalog, clock_boot_ms(), &key, 1);
    }
}

static void measure_reserves(struct speed_run *run, struct bench_speed *speed)
{
    uint64_t round_pages = run->pages / (BENCH_ROUNDS + 1);
    if (round_pages > ROUND_PAGES_MAX)
        round_pages = ROUND_PAGES_MAX;
    uint64_t blocks = round_pages / BLOCK_KEYS;
    double free_rates[BENCH_ROUNDS], evicting_rates[BENCH_ROUNDS];
    shuffle_recency(run);
    for (size_t r = 0; r < BENCH_ROUNDS; r++) {
        delete_pages(run, blocks * BLOCK_KEYS);
        free_rates[r] = rate_of(run, reserve_block, blocks);
    }
    for (size_t r = 0; r < BENCH_ROUNDS; r++) /* the catalog is full again */
        evicting_rates[r] = rate_of(run, reserve_block, blocks);
    speed->reserve_free = rate_over_rounds(free_rates);
    speed->reserve_evicting = rate_over_rounds(evicting_rates);
}

/* ---- The whole -------------------------------------------------------------------------------*/

static bool shuffle_order(struct speed_run *run)
{
    run->order = malloc(run->pages * sizeof *run->order);
    if (run->order == NULL)
        return false;
    for (uint64_t i = 0; i < run->pages; i++)
        run->order[i] = (uint32_t)i;
    for (uint64_t i = run->pages - 1; i > 0; i--) {
        uint64_t j = bench_random(&run->seed) % (i + 1);
        uint32_t other = run->order[j];
        run->order[j] = run->order[i];
        run->order[i] = other;
    }
    return true;
}

static enum kvs_status measure(struct speed_run *run, struct bench_speed *speed,
                               struct kvs_error *error)
{
    struct catalog_options options = {
        .num_pages = (uint32_t)run->pages,
        .eviction = KVS_EVICTION_PREFIX,
        .reserve_ttl_ms = 60000,
        .quarantine_ms = 60000,
        .lease_ms = 10000,
        .wall_us = clock_wall_us(),
    };
    uint64_t before_bytes = resident_bytes();
    enum kvs_status status = catalog_open(&options, clock_boot_ms(), &run->catalog, error);
    if (status != KVS_OK)
        return status;
    fill(run);
    speed->memory_bytes = catalog_memory_bytes(run->catalog);
    speed->resident_bytes = resident_bytes() - before_bytes;
    run->line_count = speed->memory_bytes / sizeof(struct line);
    run->lines = memory_new(run->line_count * sizeof(struct line));
    if (run->lines == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "setting up the gather");
    memset(run->lines, 1, run->line_count * sizeof(struct line));
    measure_lookups(run, speed);
    memory_free(run->lines, run->line_count * sizeof(struct line));
    measure_reserves(run, speed);
    struct catalog_counts counts = catalog_counts(run->catalog, clock_boot_ms());
    if (counts.committed != run->pages)
        return error_set(error, KVS_ERR_INTERNAL, "the benchmark's pages are not all there");
    return KVS_OK;
}

enum kvs_status bench_speed_run(uint64_t pages, struct bench_speed *ret_speed,
                                struct kvs_error *error)
{
    struct speed_run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "setting up the benchmark");
    memset(run->confirms, 0, sizeof run->confirms); /* resident before it is counted */
    run->pages = pages;
    run->seed = 88172645463325252U;
    struct bench_speed speed = {.pages = pages};
    enum kvs_status status = shuffle_order(run)
                                 ? measure(run, &speed, error)
                                 : error_set(error, KVS_ERR_NO_MEMORY, "setting up the benchmark");
    catalog_close(run->catalog);
    free(run->order);
    free(run);
    if (status == KVS_OK)
        *ret_speed = speed;
    return status;
}
