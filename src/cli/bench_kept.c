/* Kept catalogs: what requests wait for while the image is written behind, and how long reopening
 * takes.
 *
 * Every opening is made by a process of its own, as a restart is. Processes are forked while this
 * one has no threads, and tell their figures through a pipe. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/bench.h"
#include "cli/output.h"
#include "cli/workplace.h"
#include "metadata/registry.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char NS[] = "kv";
enum { BYTES_PER_PAGE = 4096, TIMES_MAX = 1 << 24, SLOW_NS = 5000000 };

struct kept_run {
    struct registry *registry;
    uint64_t pages, next_id, seed; /* the youngest ids below next_id are there */
    struct key keys[BENCH_BATCH];
    struct catalog_confirm confirms[BENCH_BATCH];
    struct catalog_found found[BENCH_BATCH];
    struct catalog_reserved reserved[BENCH_BATCH];
    enum catalog_rejection reasons[BENCH_BATCH];
};

static enum kvs_status open_registry(struct kept_run *run, const char *dir, struct kvs_error *error)
{
    struct registry_options options = {
        .dir = dir,
        .eviction = KVS_EVICTION_PREFIX,
        .reserve_ttl_ms = 60000,
        .quarantine_ms = 60000,
        .lease_ms = 10000,
        .log = {output_log, NULL},
    };
    enum kvs_status status = registry_open(&options, &run->registry, error);
    if (status != KVS_OK)
        return status;
    return registry_initialize(run->registry, 0, NS, run->pages, BYTES_PER_PAGE, NULL, error);
}

/* ---- Requests --------------------------------------------------------------------------------*/

/* Nanoseconds, with the wait for the lock and without the making of keys. */
static uint64_t timed_get(struct kept_run *run)
{
    for (size_t i = 0; i < BENCH_BATCH; i++)
        bench_key(&run->keys[i], run->next_id - 1 - bench_random(&run->seed) % run->pages);
    uint64_t begin_ns = clock_mono_ns();
    struct registry_entry *entry = registry_lock(run->registry, 0, NS, sizeof NS - 1);
    catalog_get(registry_catalog(entry), clock_boot_ms(), run->keys, BENCH_BATCH, true, run->found);
    registry_unlock(entry);
    return clock_mono_ns() - begin_ns;
}

static uint64_t timed_write(struct kept_run *run, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bench_key(&run->keys[i], run->next_id++);
        run->confirms[i] = (struct catalog_confirm){
            .key = run->keys[i], .has_generation = true, .has_checksum = true, .checksum = i};
    }
    uint64_t begin_ns = clock_mono_ns();
    struct registry_entry *entry = registry_lock(run->registry, 0, NS, sizeof NS - 1);
    struct catalog *catalog = registry_catalog(entry);
    uint64_t now_ms = clock_boot_ms();
    catalog_reserve(catalog, now_ms, run->keys, n, true, 0, run->reserved);
    for (size_t i = 0; i < n; i++) {
        run->confirms[i].page = run->reserved[i].page;
        run->confirms[i].generation = run->reserved[i].generation;
    }
    catalog_confirm(catalog, now_ms, run->confirms, n, run->reasons);
    registry_unlock(entry);
    return clock_mono_ns() - begin_ns;
}

static void fill(struct kept_run *run)
{
    while (run->next_id < run->pages && workplace_stop_signal() == 0) {
        uint64_t left = run->pages - run->next_id;
        timed_write(run, left < BENCH_BATCH ? (size_t)left : BENCH_BATCH);
    }
}

/* How many of the ids from `first` on are there. */
static uint64_t count_present(struct kept_run *run, uint64_t first, uint64_t n)
{
    uint64_t present = 0;
    bool exists[BENCH_BATCH];
    for (uint64_t at = 0; at < n; at += BENCH_BATCH) {
        size_t now = n - at < BENCH_BATCH ? (size_t)(n - at) : BENCH_BATCH;
        for (size_t i = 0; i < now; i++)
            bench_key(&run->keys[i], first + at + i);
        struct registry_entry *entry = registry_lock(run->registry, 0, NS, sizeof NS - 1);
        catalog_exists(registry_catalog(entry), clock_boot_ms(), run->keys, now, true, exists);
        registry_unlock(entry);
        for (size_t i = 0; i < now; i++)
            present += exists[i];
    }
    return present;
}

/* ---- Stalls ----------------------------------------------------------------------------------*/

struct times {
    uint32_t *ns;
    size_t count;
};

static int compare_ns(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void see_age(void *arg, const struct registry_info *info, struct catalog *catalog)
{
    (void)catalog;
    uint64_t *worst_ms = arg;
    if (info->image_age_ms > *worst_ms)
        *worst_ms = info->image_age_ms;
}

static uint64_t involuntary_switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_nivcsw;
}

static void count_request(struct bench_load *load, uint64_t ns, bool disturbed)
{
    load->over_5_ms += ns > SLOW_NS;
    if (disturbed) {
        load->disturbed++;
        return;
    }
    load->undisturbed_over_5_ms += ns > SLOW_NS;
    if (ns > load->undisturbed_worst_ns)
        load->undisturbed_worst_ns = ns;
}

static void run_load(struct kept_run *run, uint64_t seconds, struct times *times,
                     struct bench_load *load, uint64_t *worst_age_ms)
{
    uint64_t begin_ns = clock_mono_ns(), now_ns = begin_ns;
    uint64_t looked_ns = begin_ns;
    times->count = 0;
    while (now_ns - begin_ns < seconds * 1000000000U && times->count < TIMES_MAX &&
           (times->count == 0 || workplace_stop_signal() == 0)) {
        bool reads = bench_random(&run->seed) % 2 == 0;
        uint64_t switches = involuntary_switches();
        uint64_t ns = reads ? timed_get(run) : timed_write(run, BENCH_BATCH);
        count_request(load, ns, involuntary_switches() != switches);
        times->ns[times->count++] = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
        now_ns = clock_mono_ns();
        if (now_ns - looked_ns > 250000000U) {
            registry_visit(run->registry, see_age, worst_age_ms);
            looked_ns = now_ns;
        }
    }
    load->seconds = (double)(now_ns - begin_ns) / 1e9;
    load->requests = times->count;
    qsort(times->ns, times->count, sizeof *times->ns, compare_ns);
    load->p50_ns = times->ns[times->count / 2];
    load->p99_ns = times->ns[times->count * 99 / 100];
    load->p999_ns = times->ns[times->count * 999 / 1000];
    load->worst_ns = times->ns[times->count - 1];
}

static enum kvs_status measure_load(uint64_t pages, uint64_t seconds, const char *dir,
                                    struct times *times, struct bench_load *ret_load,
                                    uint64_t *worst_age_ms, struct kvs_error *error)
{
    struct kept_run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "setting up the benchmark");
    run->pages = pages;
    run->seed = 88172645463325252U;
    enum kvs_status status = open_registry(run, dir, error);
    if (status == KVS_OK) {
        fill(run);
        run_load(run, seconds, times, ret_load, worst_age_ms);
    }
    registry_close(run->registry);
    free(run);
    return status;
}

enum kvs_status bench_stall_run(uint64_t pages, uint64_t seconds, const char *dir,
                                struct bench_stall *ret_stall, struct kvs_error *error)
{
    struct bench_stall stall = {.pages = pages};
    struct times times = {malloc(TIMES_MAX * sizeof *times.ns), 0};
    if (times.ns == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "setting up the benchmark");
    memset(times.ns, 0, TIMES_MAX * sizeof *times.ns); /* no page faults while measuring */
    uint64_t no_age = 0;
    enum kvs_status status =
        measure_load(pages, seconds, NULL, &times, &stall.in_memory, &no_age, error);
    if (status == KVS_OK)
        status = measure_load(pages, seconds, dir, &times, &stall.kept, &stall.worst_image_age_ms,
                              error);
    free(times.ns);
    if (status == KVS_OK)
        *ret_stall = stall;
    return status;
}

/* ---- Reopening -------------------------------------------------------------------------------*/

enum { CHANGED_BATCHES_MAX = 1000 }; /* of an eighth of the pages, if that is less */

/* One life of a process that owns the catalog. */
struct life {
    uint64_t pages, next_id; /* before: ids below are there, as far as they fit */
    const char *dir;
    bool ends_clean; /* else it is killed */
    uint64_t open_ns, stop_ns, found;
    enum kvs_status status;
    struct kvs_error error;
};

static uint64_t keys_checked(uint64_t pages)
{
    return pages < 100000 ? pages : 100000;
}

/* Opens (timed), looks for the youngest keys, changes some, tells, and stops or waits to be killed.
 */
static void live(struct life *life, int tell_fd)
{
    struct kept_run *run = calloc(1, sizeof *run);
    if (run == NULL)
        _exit(1);
    run->pages = life->pages;
    run->next_id = life->next_id;
    run->seed = 1;
    uint64_t begin_ns = clock_mono_ns();
    life->status = open_registry(run, life->dir, &life->error);
    life->open_ns = clock_mono_ns() - begin_ns;
    if (life->status == KVS_OK) {
        uint64_t n = keys_checked(life->pages);
        if (life->next_id >= life->pages)
            life->found = count_present(run, life->next_id - n, n);
        fill(run);
        uint64_t batches = life->pages / 8 / BENCH_BATCH;
        if (batches > CHANGED_BATCHES_MAX)
            batches = CHANGED_BATCHES_MAX;
        for (uint64_t i = 0; life->next_id >= life->pages && i < batches; i++)
            timed_write(run, BENCH_BATCH);
        life->next_id = run->next_id;
    }
    if (life->status == KVS_OK && life->ends_clean) {
        begin_ns = clock_mono_ns();
        run->registry = registry_close(run->registry);
        life->stop_ns = clock_mono_ns() - begin_ns;
    }
    ssize_t told = write(tell_fd, life, sizeof *life);
    while (told == (ssize_t)sizeof *life && !life->ends_clean)
        pause(); /* for the kill */
    _exit(0);
}

static bool read_whole(int fd, void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = read(fd, (char *)bytes + done, length - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static enum kvs_status live_once(struct life *life, bool ends_clean, struct kvs_error *error)
{
    int ends[2];
    life->ends_clean = ends_clean;
    life->found = 0;
    if (pipe(ends) != 0)
        return error_set(error, KVS_ERR_INTERNAL, strerror(errno));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        live(life, ends[1]);
    }
    close(ends[1]);
    struct life told;
    bool whole = child > 0 && read_whole(ends[0], &told, sizeof told);
    close(ends[0]);
    if (child > 0) {
        if (!ends_clean || !whole)
            kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    if (!whole)
        return error_set(error, KVS_ERR_INTERNAL, "a process of the benchmark ended early");
    *life = told;
    if (life->status != KVS_OK && error != NULL)
        *error = life->error;
    return life->status;
}

/* Opens BENCH_REOPENS times what a process left that ended in this way. */
static enum kvs_status reopen_often(struct life *life, bool after_clean, double *ret_open_s,
                                    uint64_t *ret_found, double *ret_stop_s,
                                    struct kvs_error *error)
{
    double open_s[BENCH_REOPENS] = {0}, stop_s[BENCH_REOPENS] = {0};
    uint64_t least_found = UINT64_MAX;
    for (size_t i = 0; i < BENCH_REOPENS && workplace_stop_signal() == 0; i++) {
        enum kvs_status status = live_once(life, after_clean, error);
        if (status != KVS_OK)
            return status;
        open_s[i] = (double)life->open_ns / 1e9;
        stop_s[i] = (double)life->stop_ns / 1e9;
        if (life->found < least_found)
            least_found = life->found;
    }
    *ret_open_s = bench_median(open_s, BENCH_REOPENS);
    *ret_stop_s = bench_median(stop_s, BENCH_REOPENS);
    *ret_found = least_found;
    return KVS_OK;
}

enum kvs_status bench_reopen_run(uint64_t pages, const char *dir, struct bench_reopen *ret_reopen,
                                 struct kvs_error *error)
{
    struct bench_reopen reopen = {.pages = pages, .asked = keys_checked(pages)};
    struct life life = {.pages = pages, .dir = dir};
    double no_stop_s;
    enum kvs_status status = live_once(&life, true, error); /* fills it */
    if (status == KVS_OK)
        status = reopen_often(&life, true, &reopen.after_clean_stop_s,
                              &reopen.found_after_clean_stop, &reopen.clean_stop_s, error);
    if (status == KVS_OK)
        status = live_once(&life, false, error); /* the first to be killed */
    if (status == KVS_OK)
        status = reopen_often(&life, false, &reopen.after_kill_s, &reopen.found_after_kill,
                              &no_stop_s, error);
    if (status == KVS_OK)
        status = live_once(&life, true, error); /* leaves nothing on /dev/shm */
    if (status == KVS_OK)
        *ret_reopen = reopen;
    return status;
}
