/* `kvshelf bench pages`: the command, and how its figures are shown. */
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/bench.h"
#include "cli/bench_pages.h"
#include "cli/output.h"
#include "cli/workplace.h"

#include <errno.h>
#include <string.h>

static const char *const mover_names[MOVERS] = {
    "loop", "fio", "posix", "uring", "posix_checksum", "uring_checksum",
};

/* ---- For people ------------------------------------------------------------------------------*/

static void print_mover(const struct pages_cell *cell, enum mover mover, FILE *out)
{
    if (mover <= MOVER_FIO) {
        if (cell->median[mover] <= 0) {
            fprintf(out, "  %10s", "-");
        } else {
            fprintf(out, "  %9.2f%c", cell->median[mover] / 1e9, mover == cell->peer ? '*' : ' ');
        }
    } else if (cell->median[mover] <= 0) {
        fprintf(out, "  %22s", "-");
    } else {
        fprintf(out, "  %5.2f (%4.2f %4.2f-%4.2f)", cell->median[mover] / 1e9, cell->ratio[mover],
                cell->ratio_low[mover], cell->ratio_high[mover]);
    }
}

static void print_group(const struct pages_bench *bench, enum page_direction direction, bool direct,
                        FILE *out)
{
    fprintf(out, "\n%s, %s\n", direction == PAGE_READ ? "Reads" : "Writes",
            direct ? "direct (past the page cache)" : "through the page cache, warm");
    fprintf(out, "  %-10s  %10s  %10s  %22s  %22s  %22s  %22s\n", "page", "plain loop", "fio",
            "posix", "uring", "posix + sum", "uring + sum");
    for (size_t i = 0; i < bench->n_cells; i++) {
        const struct pages_cell *cell = &bench->cells[i];
        if (cell->direction == direction && cell->direct == direct) {
            fprintf(out, "  %-10s", BYTES(cell->bytes_per_page));
            for (int m = 0; m < MOVERS; m++) {
                print_mover(cell, (enum mover)m, out);
            }
            fputc('\n', out);
        }
    }
}

void pages_bench_print(const struct pages_bench *bench, FILE *out)
{
    fprintf(
        out,
        "kvshelf %s, bench pages: a file of %s, batches of %s pages at random places, depth %s, "
        "%u processor%s\n"
        "GB/s (1000^3), median of %s round%s of %s ms turns; in brackets the rounds' ratios to the "
        "better of loop and fio (*): median, lowest and highest\n"
        "Goals: without checksums >= 0.95; with checksums >= 0.70 warm on one core, >= 0.90 "
        "direct or with two cores\n",
        kvs_version(), BYTES(bench->file_bytes), COUNT(bench->batch), COUNT(bench->depth),
        bench->processors, bench->processors == 1 ? "" : "s", COUNT(bench->rounds),
        bench->rounds == 1 ? "" : "s", COUNT(bench->turn_ms));
    for (int direct = 0; direct < 2; direct++) {
        if (direct ? bench->direct : bench->cached) {
            print_group(bench, PAGE_READ, direct, out);
            print_group(bench, PAGE_WRITE, direct, out);
        }
    }
}

/* ---- For programs ----------------------------------------------------------------------------*/

static void write_mover(struct json_writer *json, const struct pages_cell *cell, enum mover mover,
                        uint64_t rounds)
{
    json_write_name(json, mover_names[mover]);
    if (cell->median[mover] <= 0) { /* had no turns, or could not be measured */
        json_write_null(json);
        return;
    }
    json_write_object_begin(json);
    json_member_double(json, "median_bytes_per_s", cell->median[mover]);
    json_member_double(json, "ratio", cell->ratio[mover]);
    json_member_double(json, "ratio_lowest", cell->ratio_low[mover]);
    json_member_double(json, "ratio_highest", cell->ratio_high[mover]);
    json_write_name(json, "rounds_bytes_per_s");
    json_write_array_begin(json);
    for (uint64_t r = 0; r < rounds; r++) {
        json_write_double(json, cell->rates[mover][r]);
    }
    json_write_array_end(json);
    json_write_object_end(json);
}

void pages_bench_json(const struct pages_bench *bench, struct buffer *out)
{
    struct json_writer json = {.out = out};
    json_write_object_begin(&json);
    json_member_text(&json, "version", kvs_version());
    json_member_uint64(&json, "file_bytes", bench->file_bytes);
    json_member_uint64(&json, "batch_pages", bench->batch);
    json_member_uint64(&json, "depth", bench->depth);
    json_member_uint64(&json, "processors", bench->processors);
    json_member_uint64(&json, "turn_ms", bench->turn_ms);
    json_write_name(&json, "cells");
    json_write_array_begin(&json);
    for (size_t i = 0; i < bench->n_cells; i++) {
        const struct pages_cell *cell = &bench->cells[i];
        json_write_object_begin(&json);
        json_member_uint64(&json, "bytes_per_page", cell->bytes_per_page);
        json_member_text(&json, "direction", cell->direction == PAGE_READ ? "read" : "write");
        json_member_bool(&json, "direct", cell->direct);
        json_member_text(&json, "peer", mover_names[cell->peer]);
        for (int m = 0; m < MOVERS; m++) {
            write_mover(&json, cell, (enum mover)m, bench->rounds);
        }
        json_write_object_end(&json);
    }
    json_write_array_end(&json);
    json_write_object_end(&json);
}

static enum kvs_status print_json(const struct pages_bench *bench, FILE *to,
                                  struct kvs_error *error)
{
    struct buffer out = {0};
    pages_bench_json(bench, &out);
    enum kvs_status status = output_buffer(to, &out, error);
    buffer_done(&out);
    return status;
}

static enum kvs_status save_json(const struct pages_bench *bench, const char *path,
                                 struct kvs_error *error)
{
    FILE *file = fopen(path, "we");
    if (!file) {
        return error_set(error, KVS_ERR_OUTPUT, strerror(errno));
    }
    enum kvs_status status = print_json(bench, file, error);
    fclose(file); /* all of it has been flushed */
    return status;
}

/* ---- The command -----------------------------------------------------------------------------*/

static const char *const kind_names[] = {"cached", "direct", NULL};

static enum kvs_status read_arguments(const struct cli *cli, struct pages_bench *bench,
                                      struct kvs_error *error)
{
    enum { CACHED, DIRECT, BOTH };
    size_t only = BOTH;
    enum kvs_status status =
        cli_bytes(cli, "size", 64 << 20, 1ULL << 40, &bench->file_bytes, error);
    if (status == KVS_OK) {
        status = cli_count(cli, "depth", 1, 256, "I/Os", &bench->depth, error);
    }
    if (status == KVS_OK) {
        status =
            cli_count(cli, "rounds", 1, BENCH_PAGES_ROUNDS_MAX, "rounds", &bench->rounds, error);
    }
    if (status == KVS_OK) {
        status = cli_count(cli, "turn", 1, 60000, "ms", &bench->turn_ms, error);
    }
    if (status == KVS_OK) {
        status = cli_choice(cli, "only", kind_names, &only, error);
    }
    bench->cached = only != DIRECT;
    bench->direct = only != CACHED;
    bench->with_fio = cli_has(cli, "fio");
    return status;
}

struct bar {
    struct progress progress;
    uint64_t done;
};

static void step(void *arg)
{
    struct bar *bar = arg;
    progress_update(&bar->progress, ++bar->done);
}

static enum kvs_status measure(const struct cli *cli, struct pages_bench *bench,
                               struct kvs_error *error)
{
    struct workplace place = {0};
    enum kvs_status status = workplace_open(&place, NULL, "", bench->file_bytes, error);
    if (status == KVS_OK) {
        char path[4096];
        snprintf(path, sizeof path, "%s/pages.bin", place.path);
        struct bar bar = {.done = 0};
        progress_begin(&bar.progress, "moving pages", "turns", pages_bench_turns(bench),
                       cli_json(cli));
        status = pages_bench_run(bench, path, step, &bar, error);
        progress_end(&bar.progress);
    }
    workplace_close(&place);
    return status;
}

int bench_pages(const struct cli *cli)
{
    static struct pages_bench bench;
    bench = (struct pages_bench){
        .file_bytes = 1 << 30, .turn_ms = 200, .rounds = 7, .depth = 16, .batch = BENCH_BATCH};
    struct kvs_error error;
    enum kvs_status status = read_arguments(cli, &bench, &error);
    if (status == KVS_OK) {
        workplace_catch_signals();
        status = measure(cli, &bench, &error);
    }
    if (workplace_stop_signal() != 0) {
        return 128 + workplace_stop_signal();
    }
    if (status == KVS_OK && cli_json(cli)) {
        status = print_json(&bench, stdout, &error);
    } else if (status == KVS_OK) {
        pages_bench_print(&bench, stdout);
        status = output_flush(stdout, &error);
    }
    if (status == KVS_OK && cli_has(cli, "save")) {
        status = save_json(&bench, cli_text(cli, "save", NULL), &error);
    }
    return status == KVS_OK ? CLI_OK : cli_fail(cli, &error);
}
