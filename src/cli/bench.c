/* `kvshelf bench`: the command, and what its measurements share. */
#include "cli/bench.h"

#include "base/status.h"
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Shared ----------------------------------------------------------------------------------*/

/* A bijection of 64 bits (the finalizer of SplitMix64). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

void bench_key(struct key *ret_key, uint64_t id)
{
    uint64_t words[KEY_DIGEST_BYTES / 8];
    for (unsigned i = 0; i < KEY_DIGEST_BYTES / 8; i++)
        words[i] = mix(4 * id + i + 1);
    memcpy(ret_key->digest, words, sizeof words);
    ret_key->suffix = KEY_PLAIN;
}

uint64_t bench_random(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15U;
    return mix(*seed);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double numbers[], size_t n)
{
    qsort(numbers, n, sizeof *numbers, compare);
    return numbers[n / 2];
}

/* ---- The command -----------------------------------------------------------------------------*/

enum { OWN_OPTIONS_MAX = 8 };

/* `own`: the options that mean nothing to the other. */
static const struct {
    const char *name;
    int (*run)(const struct cli *cli);
    const char *own[OWN_OPTIONS_MAX];
} benches[] = {
    {"catalog", bench_catalog, {"pages", "seconds"}},
    {"pages", bench_pages, {"size", "depth", "rounds", "turn", "fio"}},
};
enum { BENCHES = sizeof benches / sizeof benches[0] };

/* An option that would be ignored is a mistake: somebody believes that it counts. */
static enum kvs_status refuse_options_of_others(const struct cli *cli, size_t mine,
                                                struct kvs_error *error)
{
    for (size_t i = 0; i < BENCHES; i++) {
        for (size_t o = 0; i != mine && benches[i].own[o] != NULL; o++) {
            if (cli_has(cli, benches[i].own[o])) {
                char problem[96];
                snprintf(problem, sizeof problem, "--%s is for bench %s", benches[i].own[o],
                         benches[i].name);
                return error_set(error, KVS_ERR_USAGE_ARGUMENTS, "bench", problem);
            }
        }
    }
    return KVS_OK;
}

static int run(const struct cli *cli)
{
    struct kvs_error error;
    for (size_t i = 0; i < BENCHES; i++)
        if (strcmp(cli_argument(cli, 0), benches[i].name) == 0)
            return refuse_options_of_others(cli, i, &error) == KVS_OK ? benches[i].run(cli)
                                                                      : cli_fail(cli, &error);
    error_set(&error, KVS_ERR_USAGE_ARGUMENTS, "bench",
              "what can be measured is 'catalog' or 'pages': kvshelf bench pages");
    return cli_fail(cli, &error);
}

static const struct cli_option options[] = {
    {"pages", "N",
     "catalog: pages, 65536 to 100000000. Default: once with 1000000 and once with "
     "10000000."},
    {"seconds", "N",
     "catalog: how long requests are made while the image is written. Default 10 s."},
    {"only", "PART",
     "catalog: 'speed' (memory, and requests on one core), 'stall' (requests while the image is "
     "written) or 'reopen'. pages: 'cached' or 'direct'. Default: all."},
    {"size", "BYTES", "pages: size of the file. Default 1 GiB."},
    {"depth", "N", "pages: I/Os in flight, 1 to 256. Default 16."},
    {"rounds", "N", "pages: turns that each mover of pages gets, 1 to 99. Default 7."},
    {"turn", "N", "pages: the time of a turn, 1 to 60000 ms. Default 200 ms."},
    {"fio", NULL, "pages: let fio have turns too, where it is installed."},
    {"save", "FILE", "Also write what --json would print to this file."},
    {0},
};

const struct cli_command cli_bench = {
    .name = "bench",
    .arguments = "catalog|pages",
    .summary = "measure this machine",
    .about =
        "catalog: the index without page I/O. Bytes a page; lookups, and reserving and "
        "confirming, per "
        "second on one core in batches of 128 keys, beside a bare random gather of one line a "
        "key over as "
        "much memory; the longest a request waits while the image of a kept catalog is "
        "written; reopening "
        "after a clean stop and after kill -9.\n"
        "\n"
        "pages: reads and writes of pages of 64 KiB, 256 KiB, 2 MiB and 4,497,408 bytes through "
        "each engine, with "
        "and without checksums, through the page cache and past it, beside a plain loop of "
        "pread or pwrite "
        "and, with --fio, beside fio with io_uring at the same depth. Everyone has a turn in "
        "each round. It takes about three minutes, on slow storage longer: as much as the turns "
        "(--rounds, "
        "--turn; --only halves it) and the writing out between them take.\n"
        "\n"
        "Kept catalogs are put into a temporary directory under $TMPDIR or /tmp and on "
        "/dev/shm (each 64 "
        "bytes a page), and removed. With 10000000 pages it takes about 2 GiB of memory and a "
        "few minutes. "
        "Compare figures of one run only, on a machine that does nothing else; taskset keeps "
        "it on one "
        "core.",
    .examples = "kvshelf bench catalog\n"
                "taskset -c 1 kvshelf bench catalog --only speed --pages 1000000\n"
                "TMPDIR=/data kvshelf bench catalog --only stall --json\n"
                "TMPDIR=/data kvshelf bench pages --fio --size 16GiB",
    .exit_codes = "0  measured\n1  failed: no room, no memory, I/O\n2  wrong arguments\n"
                  "130, 143  stopped by Ctrl-C or SIGTERM; a second one ends it at once",
    .options = options,
    .arguments_min = 1,
    .arguments_max = 1,
    .json = true,
    .run = run,
};
