/* `kvshelf bench catalog`: runs the measurements and prints them, beside their goals. */
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/bench.h"
#include "cli/output.h"
#include "cli/workplace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SIZES_MAX = 2, SECONDS_DEFAULT = 10, SECONDS_MAX = 3600 };

enum part { PART_SPEED, PART_STALL, PART_REOPEN, PARTS };
static const char *const part_names[] = {"speed", "stall", "reopen", NULL};

struct catalog_bench {
    uint64_t sizes[SIZES_MAX]; /* pages */
    size_t num_sizes;
    uint64_t seconds; /* of load, for each of the two kinds of catalogs */
    bool parts[PARTS];
    struct bench_speed speed[SIZES_MAX];
    struct bench_stall stall[SIZES_MAX];
    struct bench_reopen reopen;
};

/* ---- Running ---------------------------------------------------------------------------------*/

static void say(const struct cli *cli, const char *what, uint64_t pages)
{
    if (!cli_json(cli))
        fprintf(stderr, "measuring %s, %s pages\n", what, COUNT(pages));
}

/* A directory of its own for each, so that every part starts with nothing. */
static enum kvs_status run_stall(struct catalog_bench *bench, size_t i, struct kvs_error *error)
{
    struct workplace place = {0};
    enum kvs_status status = workplace_open(&place, NULL, "", bench->sizes[i] * 80, error);
    if (status == KVS_OK)
        status =
            bench_stall_run(bench->sizes[i], bench->seconds, place.path, &bench->stall[i], error);
    workplace_close(&place);
    return status;
}

static enum kvs_status run_reopen(struct catalog_bench *bench, struct kvs_error *error)
{
    struct workplace place = {0};
    uint64_t pages = bench->sizes[bench->num_sizes - 1];
    enum kvs_status status = workplace_open(&place, NULL, "", pages * 80, error);
    if (status == KVS_OK)
        status = bench_reopen_run(pages, place.path, &bench->reopen, error);
    workplace_close(&place);
    return status;
}

static enum kvs_status run_parts(const struct cli *cli, struct catalog_bench *bench,
                                 struct kvs_error *error)
{
    enum kvs_status status = KVS_OK;
    for (size_t i = 0; bench->parts[PART_SPEED] && i < bench->num_sizes && status == KVS_OK; i++) {
        say(cli, "memory and speed on one core", bench->sizes[i]);
        status = bench_speed_run(bench->sizes[i], &bench->speed[i], error);
    }
    for (size_t i = 0; bench->parts[PART_STALL] && i < bench->num_sizes && status == KVS_OK; i++) {
        say(cli, "stalls while the image is written", bench->sizes[i]);
        status = run_stall(bench, i, error);
    }
    if (bench->parts[PART_REOPEN] && status == KVS_OK) {
        say(cli, "reopening", bench->sizes[bench->num_sizes - 1]);
        status = run_reopen(bench, error);
    }
    return status;
}

/* ---- For people ------------------------------------------------------------------------------*/

static void print_rate(const char *name, const struct bench_rate *rate, double over_gather,
                       const char *goal)
{
    printf("  %-26s %8.2f M keys/s  (%.2f to %.2f)", name, rate->median / 1e6, rate->lowest / 1e6,
           rate->highest / 1e6);
    if (over_gather > 0)
        printf("  %.3f of the gather%s", over_gather, goal);
    putchar('\n');
}

static void print_speed(const struct bench_speed *speed)
{
    double pages = (double)speed->pages;
    printf("\nOne core, in memory, %s pages, batches of %d keys; median (lowest to highest) of %d "
           "rounds\n",
           COUNT(speed->pages), BENCH_BATCH, BENCH_ROUNDS);
    printf(
        "  %-26s %8.2f bytes a page by its own account, %.2f as the kernel counts  (goal <= 90)\n",
        "memory", (double)speed->memory_bytes / pages, (double)speed->resident_bytes / pages);
    print_rate("bare random gather", &speed->gather, 0, "");
    print_rate("the same, overlapping", &speed->overlapping_gather, 0, "");
    print_rate("exists", &speed->exists, speed->exists_over_gather, "  (goal >= 0.25)");
    print_rate("get", &speed->get, speed->get_over_gather, "  (goal >= 0.25)");
    print_rate("reserve + confirm, free", &speed->reserve_free,
               speed->reserve_free.median / speed->gather.median, "");
    print_rate("reserve + confirm, evicting", &speed->reserve_evicting,
               speed->reserve_evicting.median / speed->gather.median, "");
}

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static void print_load(const char *name, const struct bench_load *load)
{
    printf(
        "  %-10s %10s requests in %.1f s: %.3f ms p50, %.3f ms p99, %.3f ms p99.9, %.3f ms worst, "
        "%s over 5 ms\n",
        name, COUNT(load->requests), load->seconds, ms(load->p50_ns), ms(load->p99_ns),
        ms(load->p999_ns), ms(load->worst_ns), COUNT(load->over_5_ms));
    printf("  %-10s without those during which the core was taken away (%s): %.3f ms worst, "
           "%s over "
           "5 ms\n",
           "", COUNT(load->disturbed), ms(load->undisturbed_worst_ns),
           COUNT(load->undisturbed_over_5_ms));
}

static void print_stall(const struct bench_stall *stall)
{
    printf("\nRequests of %d keys under full load, %s pages, half gets, half reserve + confirm "
           "evicting\n",
           BENCH_BATCH, COUNT(stall->pages));
    print_load("in memory", &stall->in_memory);
    print_load("kept", &stall->kept);
    printf("  %-10s the image was at most %.1f s behind  (goal: worst request < 5 ms)\n", "",
           (double)stall->worst_image_age_ms / 1e3);
}

static void print_reopen(const struct bench_reopen *reopen)
{
    printf("\nReopening %s pages, each time by a new process; median of %d  (goal < 1 s)\n",
           COUNT(reopen->pages), BENCH_REOPENS);
    printf("  after a clean stop %8.3f s  %s of %s keys looked for were there (the stop took %.3f "
           "s)\n",
           reopen->after_clean_stop_s, COUNT(reopen->found_after_clean_stop), COUNT(reopen->asked),
           reopen->clean_stop_s);
    printf("  after kill -9      %8.3f s  %s of %s keys looked for were there\n",
           reopen->after_kill_s, COUNT(reopen->found_after_kill), COUNT(reopen->asked));
}

static enum kvs_status print(const struct catalog_bench *bench, struct kvs_error *error)
{
    printf("kvshelf %s, bench catalog\n", kvs_version());
    for (size_t i = 0; bench->parts[PART_SPEED] && i < bench->num_sizes; i++)
        print_speed(&bench->speed[i]);
    for (size_t i = 0; bench->parts[PART_STALL] && i < bench->num_sizes; i++)
        print_stall(&bench->stall[i]);
    if (bench->parts[PART_REOPEN])
        print_reopen(&bench->reopen);
    return output_flush(stdout, error);
}

/* ---- For programs ----------------------------------------------------------------------------*/

static void rate(struct json_writer *json, const char *name, const struct bench_rate *of)
{
    json_write_name(json, name);
    json_write_object_begin(json);
    json_member_double(json, "median", of->median);
    json_member_double(json, "lowest", of->lowest);
    json_member_double(json, "highest", of->highest);
    json_write_object_end(json);
}

static void write_speed(struct json_writer *json, const struct bench_speed *speed)
{
    json_write_object_begin(json);
    json_member_uint64(json, "pages", speed->pages);
    json_member_uint64(json, "batch_keys", BENCH_BATCH);
    json_member_uint64(json, "rounds", BENCH_ROUNDS);
    json_member_double(json, "bytes_per_page", (double)speed->memory_bytes / (double)speed->pages);
    json_member_double(json, "resident_bytes_per_page",
                       (double)speed->resident_bytes / (double)speed->pages);
    rate(json, "gather_lines_per_s", &speed->gather);
    rate(json, "overlapping_gather_lines_per_s", &speed->overlapping_gather);
    rate(json, "exists_keys_per_s", &speed->exists);
    rate(json, "get_keys_per_s", &speed->get);
    rate(json, "reserve_confirm_free_keys_per_s", &speed->reserve_free);
    rate(json, "reserve_confirm_evicting_keys_per_s", &speed->reserve_evicting);
    json_member_double(json, "exists_over_gather", speed->exists_over_gather);
    json_member_double(json, "get_over_gather", speed->get_over_gather);
    json_write_object_end(json);
}

static void write_load(struct json_writer *json, const char *name, const struct bench_load *load)
{
    json_write_name(json, name);
    json_write_object_begin(json);
    json_member_uint64(json, "requests", load->requests);
    json_member_double(json, "seconds", load->seconds);
    json_member_double(json, "p50_ms", ms(load->p50_ns));
    json_member_double(json, "p99_ms", ms(load->p99_ns));
    json_member_double(json, "p999_ms", ms(load->p999_ns));
    json_member_double(json, "worst_ms", ms(load->worst_ns));
    json_member_uint64(json, "over_5_ms", load->over_5_ms);
    json_member_uint64(json, "disturbed_requests", load->disturbed);
    json_member_double(json, "undisturbed_worst_ms", ms(load->undisturbed_worst_ns));
    json_member_uint64(json, "undisturbed_over_5_ms", load->undisturbed_over_5_ms);
    json_write_object_end(json);
}

static void write_stall(struct json_writer *json, const struct bench_stall *stall)
{
    json_write_object_begin(json);
    json_member_uint64(json, "pages", stall->pages);
    json_member_uint64(json, "batch_keys", BENCH_BATCH);
    write_load(json, "in_memory", &stall->in_memory);
    write_load(json, "kept", &stall->kept);
    json_member_uint64(json, "worst_image_age_ms", stall->worst_image_age_ms);
    json_write_object_end(json);
}

static void write_reopen(struct json_writer *json, const struct bench_reopen *reopen)
{
    json_write_object_begin(json);
    json_member_uint64(json, "pages", reopen->pages);
    json_member_uint64(json, "openings", BENCH_REOPENS);
    json_member_double(json, "after_clean_stop_s", reopen->after_clean_stop_s);
    json_member_double(json, "after_kill_s", reopen->after_kill_s);
    json_member_double(json, "clean_stop_s", reopen->clean_stop_s);
    json_member_uint64(json, "keys_asked", reopen->asked);
    json_member_uint64(json, "keys_found_after_clean_stop", reopen->found_after_clean_stop);
    json_member_uint64(json, "keys_found_after_kill", reopen->found_after_kill);
    json_write_object_end(json);
}

static void write_json(struct buffer *out, const struct catalog_bench *bench)
{
    struct json_writer json = {.out = out};
    json_write_object_begin(&json);
    json_member_text(&json, "version", kvs_version());
    json_write_name(&json, "speed");
    json_write_array_begin(&json);
    for (size_t i = 0; bench->parts[PART_SPEED] && i < bench->num_sizes; i++)
        write_speed(&json, &bench->speed[i]);
    json_write_array_end(&json);
    json_write_name(&json, "stall");
    json_write_array_begin(&json);
    for (size_t i = 0; bench->parts[PART_STALL] && i < bench->num_sizes; i++)
        write_stall(&json, &bench->stall[i]);
    json_write_array_end(&json);
    json_write_name(&json, "reopen");
    json_write_array_begin(&json);
    if (bench->parts[PART_REOPEN])
        write_reopen(&json, &bench->reopen);
    json_write_array_end(&json);
    json_write_object_end(&json);
}

static enum kvs_status print_json(const struct catalog_bench *bench, FILE *to,
                                  struct kvs_error *error)
{
    struct buffer out = {0};
    write_json(&out, bench);
    enum kvs_status status = output_buffer(to, &out, error);
    buffer_done(&out);
    return status;
}

static enum kvs_status save_json(const struct catalog_bench *bench, const char *path,
                                 struct kvs_error *error)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return error_set(error, KVS_ERR_OUTPUT, strerror(errno));
    enum kvs_status status = print_json(bench, file, error);
    fclose(file); /* all of it has been flushed */
    return status;
}

/* ---- The command -----------------------------------------------------------------------------*/

static enum kvs_status read_arguments(const struct cli *cli, struct catalog_bench *bench,
                                      struct kvs_error *error)
{
    uint64_t pages = 0;
    size_t only = PARTS;
    *bench = (struct catalog_bench){
        .sizes = {1000000, 10000000}, .num_sizes = 2, .seconds = SECONDS_DEFAULT};
    enum kvs_status status =
        cli_count(cli, "pages", BENCH_PAGES_MIN, BENCH_PAGES_MAX, "pages", &pages, error);
    if (status == KVS_OK)
        status = cli_count(cli, "seconds", 1, SECONDS_MAX, "seconds", &bench->seconds, error);
    if (status == KVS_OK)
        status = cli_choice(cli, "only", part_names, &only, error);
    if (pages != 0) {
        bench->sizes[0] = pages;
        bench->num_sizes = 1;
    }
    for (size_t part = 0; part < PARTS; part++)
        bench->parts[part] = only == PARTS || only == part;
    return status;
}

int bench_catalog(const struct cli *cli)
{
    struct catalog_bench bench;
    struct kvs_error error;
    enum kvs_status status = read_arguments(cli, &bench, &error);
    if (status == KVS_OK) {
        workplace_catch_signals();
        status = run_parts(cli, &bench, &error);
    }
    if (workplace_stop_signal() != 0)
        return 128 + workplace_stop_signal();
    if (status == KVS_OK)
        status = cli_json(cli) ? print_json(&bench, stdout, &error) : print(&bench, &error);
    if (status == KVS_OK && cli_has(cli, "save"))
        status = save_json(&bench, cli_text(cli, "save", NULL), &error);
    return status == KVS_OK ? CLI_OK : cli_fail(cli, &error);
}
