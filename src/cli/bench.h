/* What the benchmarks of the catalog measure: bench_speed.c on one core, in memory; bench_kept.c on
 * catalogs kept in a directory. bench_catalog.c runs them and prints; bench.c is the command.
 *
 * Figures come from real requests made one after the other, in batches of BENCH_BATCH keys, as an
 * engine makes them. What they are compared with is measured in the same run, turn by turn. */
#ifndef KVSHELF_CLI_BENCH_H
#define KVSHELF_CLI_BENCH_H

#include "catalog/catalog.h"
#include "cli/cli.h"

enum { BENCH_BATCH = 128, BENCH_ROUNDS = 7, BENCH_PAGES_MIN = 65536, BENCH_PAGES_MAX = 100000000 };

/* The key of a made-up page: any id gives a digest that no other id has. */
void bench_key(struct key *ret_key, uint64_t id);
uint64_t bench_random(uint64_t *seed);

/* The middle of `n` numbers (odd n); sorts them. */
double bench_median(double numbers[], size_t n);

/* ---- Speed on one core -----------------------------------------------------------------------*/

/* Of BENCH_ROUNDS rounds, keys per second of one core's time. */
struct bench_rate {
    double median, lowest, highest;
};

struct bench_speed {
    uint64_t pages;
    uint64_t memory_bytes;   /* what the catalog says it has */
    uint64_t resident_bytes; /* by how much the process grew, as the kernel counts */
    /* One random 64-byte line a key over as much memory, nothing else: batch after batch, and with
     * the batches overlapping as the processor likes. */
    struct bench_rate gather, overlapping_gather;
    struct bench_rate exists, get, reserve_free, reserve_evicting; /* reserve: with confirm */
    double exists_over_gather, get_over_gather; /* medians of the rounds' ratios */
};
/* Errors: those of catalog_open(), KVS_ERR_NO_MEMORY. */
enum kvs_status bench_speed_run(uint64_t pages, struct bench_speed *ret_speed,
                                struct kvs_error *error);

/* ---- Kept catalogs ---------------------------------------------------------------------------*/

/* Requests of BENCH_BATCH keys, one after the other, on a full catalog: half are gets, half reserve
 * and confirm new keys, evicting old ones. Waiting for the lock is part of a request. */
struct bench_load {
    uint64_t requests;
    uint64_t p50_ns, p99_ns, p999_ns, worst_ns;
    uint64_t over_5_ms; /* requests that took longer */
    /* The same of the requests during which the kernel did not give the core to something else:
     * waiting for a lock or for memory counts, sharing the machine does not. */
    uint64_t undisturbed_worst_ns, undisturbed_over_5_ms;
    uint64_t disturbed; /* requests */
    double seconds;
};
struct bench_stall {
    uint64_t pages;
    struct bench_load kept;      /* while the image is written behind */
    struct bench_load in_memory; /* the same without an image, for comparison */
    uint64_t worst_image_age_ms;
};
/* Makes a directory of its own in `dir` and removes it. Errors: those of registry_open(). */
enum kvs_status bench_stall_run(uint64_t pages, uint64_t seconds, const char *dir,
                                struct bench_stall *ret_stall, struct kvs_error *error);

struct bench_reopen {
    uint64_t pages;
    double after_clean_stop_s,
        after_kill_s; /* medians of BENCH_REOPENS openings, each by a new process */
    double clean_stop_s;
    uint64_t found_after_clean_stop, found_after_kill, asked; /* keys that must be there, and are */
};
enum { BENCH_REOPENS = 5 };
enum kvs_status bench_reopen_run(uint64_t pages, const char *dir, struct bench_reopen *ret_reopen,
                                 struct kvs_error *error);

/* ---- Commands --------------------------------------------------------------------------------*/

/* `kvshelf bench catalog`: an exit code. */
int bench_catalog(const struct cli *cli);
/* `kvshelf bench pages`: an exit code. See bench_pages.h. */
int bench_pages(const struct cli *cli);

#endif
