/* sim: plays seeds and says which of them violate a promise, why, and how to see it.
 *
 *     sim [--seeds N] [--from S] [--jobs J]    plays N seeds from S on, in J processes
 *     sim --seed S [-v]                        one seed; -v prints everything that happens
 *     sim --file PATH                          the seeds that its lines begin with
 *
 * What a plan holds can be left out, to understand a failure: --without FAULT, --natives N,
 * --originals N, --horizon-ms N. --no-model judges by the promises alone. A failing seed is made
 * smaller in this way by itself. Ends with 1 when a seed failed. */
#include "sim_files.h"
#include "sim_truth.h"
#include "sim_twin.h"
#include "sim_world.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { JOBS_MAX = 64, FAILURES_SHOWN = 8 };

/* ---- What is asked for ---------------------------------------------------------------------- */

struct wishes {
    bool without[SIM_FAULT_KINDS];
    long natives, originals, horizon_ms; /* -1: as drawn */
};

struct arguments {
    uint64_t from, seeds;
    unsigned jobs, failures_max;
    bool one, shrink;
    const char *file;
    struct wishes wishes;
};

static struct arguments arguments = {
    .from = 1,
    .seeds = 1000,
    .jobs = 1,
    .failures_max = 5,
    .shrink = true,
    .wishes = {.natives = -1, .originals = -1, .horizon_ms = -1},
};

static void draw_plan(struct sim_plan *plan, uint64_t seed, const struct wishes *wishes)
{
    sim_plan_draw(plan, seed);
    for (unsigned i = 0; i < SIM_FAULT_KINDS; i++)
        if (wishes->without[i])
            sim_plan_without(plan, (enum sim_fault)i);
    if (wishes->natives >= 0 && (uint32_t)wishes->natives < plan->natives)
        plan->natives = (uint32_t)wishes->natives;
    if (wishes->originals >= 0 && (uint32_t)wishes->originals < plan->originals)
        plan->originals = (uint32_t)wishes->originals;
    if (wishes->horizon_ms >= 0 && (uint64_t)wishes->horizon_ms * 1000 < plan->horizon_us)
        plan->horizon_us = (uint64_t)wishes->horizon_ms * 1000;
}

/* ---- Shared by all processes ---------------------------------------------------------------- */

static struct shared {
    uint64_t played, failures, steps;
    uint64_t faults[SIM_FAULT_KINDS];
    struct truth_counts counts;
    struct {
        uint64_t seed; /* being played */
        bool done;
    } job[JOBS_MAX];
} * shared;

static void add(uint64_t *sum, uint64_t n)
{
    __atomic_fetch_add(sum, n, __ATOMIC_RELAXED);
}

static void add_counts(void)
{
    for (unsigned i = 0; i < SIM_FAULT_KINDS; i++)
        add(&shared->faults[i], sim_fault_counts[i]);
    add(&shared->counts.native_reads, truth_counts.native_reads);
    add(&shared->counts.original_reads, truth_counts.original_reads);
    add(&shared->counts.excused_reads, truth_counts.excused_reads);
    add(&shared->counts.confused, truth_counts.confused);
    add(&shared->counts.wild_writes, truth_counts.wild_writes);
    memset(sim_fault_counts, 0, sizeof(sim_fault_counts));
    memset(&truth_counts, 0, sizeof(truth_counts));
}

/* ---- Making a failure smaller --------------------------------------------------------------- */

/* In a process of its own: a failure may be a crash. */
static bool fails(uint64_t seed, const struct wishes *wishes)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct sim_plan plan;
        draw_plan(&plan, seed, wishes);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(2);
        _exit(plan.natives + plan.originals > 0 && world_play(&plan) != NULL ? 1 : 0);
    }
    int status;
    waitpid(child, &status, 0);
    return status != 0;
}

static void shrink(uint64_t seed, struct wishes *wishes)
{
    struct sim_plan plan;
    struct wishes trial;
    for (unsigned i = 0; i < SIM_FAULT_KINDS; i++) {
        trial = *wishes;
        trial.without[i] = true;
        if (!wishes->without[i] && fails(seed, &trial))
            *wishes = trial;
    }
    draw_plan(&plan, seed, wishes);
    for (long n = 0; n < (long)plan.originals; n++) {
        trial = *wishes;
        trial.originals = n;
        if (fails(seed, &trial)) {
            *wishes = trial;
            break;
        }
    }
    for (long n = 0; !plan.local && n < (long)plan.natives; n++) {
        trial = *wishes;
        trial.natives = n;
        if (fails(seed, &trial)) {
            *wishes = trial;
            break;
        }
    }
    for (long step = (long)(plan.horizon_us / 2000); step > 0; step /= 2) {
        long now = wishes->horizon_ms >= 0 ? wishes->horizon_ms : (long)(plan.horizon_us / 1000);
        trial = *wishes;
        trial.horizon_ms = now - step;
        if (trial.horizon_ms > 0 && fails(seed, &trial))
            *wishes = trial;
    }
}

static void print_replay(uint64_t seed, const struct wishes *wishes)
{
    struct sim_plan plan;
    sim_plan_draw(&plan, seed);
    fprintf(stderr, "  replay: sim --seed %" PRIu64, seed);
    for (unsigned i = 0; i < SIM_FAULT_KINDS; i++)
        if (wishes->without[i] && plan.faults[i])
            fprintf(stderr, " --without %s", sim_fault_name((enum sim_fault)i));
    if (wishes->natives >= 0)
        fprintf(stderr, " --natives %ld", wishes->natives);
    if (wishes->originals >= 0)
        fprintf(stderr, " --originals %ld", wishes->originals);
    if (wishes->horizon_ms >= 0)
        fprintf(stderr, " --horizon-ms %ld", wishes->horizon_ms);
    fprintf(stderr, " -v\n");
}

/* ---- Playing -------------------------------------------------------------------------------- */

static bool play(uint64_t seed, const struct wishes *wishes)
{
    struct sim_plan plan;
    draw_plan(&plan, seed, wishes);
    if (sim_verbose)
        sim_plan_print(&plan);
    const char *failure = world_play(&plan);
    add(&shared->played, 1);
    add(&shared->steps, sim_steps());
    add_counts();
    if (failure == NULL)
        return true;
    uint64_t earlier = __atomic_fetch_add(&shared->failures, 1, __ATOMIC_RELAXED);
    fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, failure);
    if (arguments.one && !sim_verbose)
        sim_trace_print();
    if (!arguments.one && earlier < FAILURES_SHOWN) {
        struct wishes smaller = *wishes;
        if (arguments.shrink)
            shrink(seed, &smaller);
        print_replay(seed, &smaller);
    }
    return false;
}

static void play_job(unsigned job, uint64_t from)
{
    sim_files_init();
    for (uint64_t seed = from; seed < arguments.from + arguments.seeds; seed += arguments.jobs) {
        shared->job[job].seed = seed;
        if (__atomic_load_n(&shared->failures, __ATOMIC_RELAXED) >= arguments.failures_max)
            break;
        play(seed, &arguments.wishes);
    }
    shared->job[job].done = true;
    sim_files_done();
}

static pid_t start_job(unsigned job, uint64_t from)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        play_job(job, from);
        exit(0);
    }
    return child;
}

/* Lines that begin with something else are for people. */
static void play_file(const char *path)
{
    char line[512];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    sim_files_init();
    while (fgets(line, sizeof(line), file) != NULL) {
        char *end;
        uint64_t seed = strtoull(line, &end, 10);
        if (end != line)
            play(seed, &arguments.wishes);
    }
    sim_files_done();
    fclose(file);
}

/* A process that crashed failed with the seed it was at; another goes on behind it. */
static void play_all(void)
{
    pid_t children[JOBS_MAX];
    for (unsigned job = 0; job < arguments.jobs; job++)
        children[job] = start_job(job, arguments.from + job);
    for (unsigned job = 0; job < arguments.jobs; job++) {
        int status;
        while (waitpid(children[job], &status, 0) > 0 && !shared->job[job].done) {
            uint64_t seed = shared->job[job].seed;
            fprintf(stderr, "seed %" PRIu64 ": the process crashed (status %#x)\n", seed, status);
            print_replay(seed, &arguments.wishes);
            add(&shared->failures, 1);
            children[job] = start_job(job, seed + arguments.jobs);
        }
    }
}

static void report(double seconds)
{
    printf("faults injected:\n");
    for (unsigned i = 0; i < SIM_FAULT_KINDS; i++)
        printf("  %12" PRIu64 "  %s\n", shared->faults[i], sim_fault_text((enum sim_fault)i));
    printf("judged: %" PRIu64 " reads of native clients, %" PRIu64 " of original clients (%" PRIu64
           " outside of P1's conditions), %" PRIu64 " writes that landed too late, %" PRIu64
           " requests of original clients that met another "
           "life of their page\n",
           shared->counts.native_reads, shared->counts.original_reads, shared->counts.excused_reads,
           shared->counts.wild_writes, shared->counts.confused);
    printf("%" PRIu64 " steps in %.1f s\n", shared->steps, seconds);
    printf("%" PRIu64 " seeds, %" PRIu64 " failures\n", shared->played, shared->failures);
}

/* ---- The command line ----------------------------------------------------------------------- */

static void usage(void)
{
    fprintf(stderr,
            "usage: sim [--seeds N] [--from S] [--jobs J] [--max-failures N] [--no-shrink]\n"
            "           [--no-model] [--without FAULT] [--natives N] [--originals N]\n"
            "           [--horizon-ms N]\n"
            "       sim --seed S [-v] ...\n"
            "       sim --file PATH ...\n");
    exit(2);
}

static uint64_t number(const char *text)
{
    char *end;
    if (text == NULL)
        usage();
    uint64_t value = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0')
        usage();
    return value;
}

static void leave_out(const char *name)
{
    for (unsigned i = 0; name != NULL && i < SIM_FAULT_KINDS; i++)
        if (strcmp(sim_fault_name((enum sim_fault)i), name) == 0) {
            arguments.wishes.without[i] = true;
            return;
        }
    usage();
}

static void read_arguments(char *argv[])
{
    for (; *argv != NULL; argv++) {
        if (strcmp(*argv, "-v") == 0)
            sim_verbose = true;
        else if (strcmp(*argv, "--no-model") == 0)
            twin_without_model = true;
        else if (strcmp(*argv, "--no-shrink") == 0)
            arguments.shrink = false;
        else if (strcmp(*argv, "--seed") == 0)
            arguments.from = number(*++argv), arguments.one = true;
        else if (strcmp(*argv, "--file") == 0)
            arguments.file = *++argv;
        else if (strcmp(*argv, "--from") == 0)
            arguments.from = number(*++argv);
        else if (strcmp(*argv, "--seeds") == 0)
            arguments.seeds = number(*++argv);
        else if (strcmp(*argv, "--jobs") == 0)
            arguments.jobs = (unsigned)number(*++argv);
        else if (strcmp(*argv, "--max-failures") == 0)
            arguments.failures_max = (unsigned)number(*++argv);
        else if (strcmp(*argv, "--without") == 0)
            leave_out(*++argv);
        else if (strcmp(*argv, "--natives") == 0)
            arguments.wishes.natives = (long)number(*++argv);
        else if (strcmp(*argv, "--originals") == 0)
            arguments.wishes.originals = (long)number(*++argv);
        else if (strcmp(*argv, "--horizon-ms") == 0)
            arguments.wishes.horizon_ms = (long)number(*++argv);
        else
            usage();
    }
    if (arguments.jobs == 0 || arguments.jobs > JOBS_MAX)
        usage();
}

/* The thread sanitizer knows nothing of coroutines, and there is one thread to look at. */
#if defined(__SANITIZE_THREAD__)
#define SIM_SKIPPED true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIM_SKIPPED true
#endif
#endif
#ifndef SIM_SKIPPED
#define SIM_SKIPPED false
#endif

int main(int argc, char *argv[])
{
    (void)argc;
    if (SIM_SKIPPED) {
        puts("skipped: the thread sanitizer knows nothing of coroutines");
        return 77;
    }
    read_arguments(argv + 1);
    mallopt(M_MMAP_THRESHOLD,
            1 << 20); /* or clearing what a cache never uses is most of the work */
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    if (arguments.one) {
        sim_files_init();
        bool good = play(arguments.from, &arguments.wishes);
        sim_files_done();
        printf("seed %" PRIu64 ": %s\n", arguments.from, good ? "no violation" : "FAILED");
        return good ? 0 : 1;
    }
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    if (arguments.file != NULL)
        play_file(arguments.file);
    else
        play_all();
    clock_gettime(CLOCK_MONOTONIC, &ended);
    report((double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9);
    return shared->failures == 0 ? 0 : 1;
}
