/* Kills a process that works on kept catalogs with all operations at once, at random moments, and
 * checks what the next one finds: no answered confirm is missing, no key has another's bytes, no
 * page has two owners, the counts add up. Some rounds lose /dev/shm as a power cut does, some have
 * no room on it, some stop cleanly.
 *
 *     kill_test_kill [--kills N] [--seed S]      without arguments: a bounded run of the suite */
#include "base/clock.h"
#include "support/kept.h"
#include "support/kill_load.h"
#include "support/unit.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SUITE_KILLS = 15, OPERATIONS_MAX = 3000 };

struct totals {
    unsigned kills, power_cuts, clean_stops, while_opening, mapped;
    uint64_t check_ns_max;
};

static struct kept_place place;

static struct registry_options options_of(void)
{
    /* Short times: pages expire and rest while the load runs. */
    return (struct registry_options){
        .dir = place.dir, .reserve_ttl_ms = 20, .quarantine_ms = 5, .os = &place.os};
}

/* Starts a process that works; it stops cleanly after `operations`. */
static pid_t start_load(struct kill_shared *shared, uint64_t seed, uint64_t operations)
{
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return child;
    struct registry_options options = options_of();
    _exit(kill_load_run(shared, &options, seed, operations) ? 0 : 1);
}

/* Waits until the load has answered so many operations, or has ended. */
static void wait_for(struct kill_shared *shared, uint64_t operations, pid_t child)
{
    siginfo_t info;
    while (atomic_load(&shared->operations) < operations) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0)
            return;
        sched_yield();
    }
}

static void pause_us(uint64_t us)
{
    struct timespec time = {0, (long)us * 1000};
    nanosleep(&time, NULL);
}

/* In a process of its own, which then stops cleanly or dies again. */
static bool check(struct kill_shared *shared, enum kill_end end, bool stop)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct registry *registry = NULL;
        struct registry_options options = options_of();
        bool good = kill_check(shared, &options, end, &registry);
        if (stop)
            registry_close(registry);
        _exit(good ? 0 : 1);
    }
    int result;
    return child > 0 && waitpid(child, &result, 0) == child && result == 0;
}

static bool run_round(struct kill_shared *shared, uint64_t *seed, struct totals *totals)
{
    unsigned kind = (unsigned)(kept_random(seed) % 16);
    bool clean = kind == 0, opening = kind == 1, power_cut = kind == 2 || kind == 3;
    uint64_t operations = 1 + kept_random(seed) % OPERATIONS_MAX;
    kept_faults.shm_full = kept_random(seed) % 8 == 0;
    uint64_t target = atomic_load(&shared->operations) + operations;

    pid_t child = start_load(shared, kept_random(seed), clean ? operations : UINT64_MAX);
    if (child < 0)
        return false;
    if (opening)
        pause_us(kept_random(seed) % 4000);
    else if (!clean)
        wait_for(shared, target, child);
    int result;
    if (!clean)
        kill(child, SIGKILL);
    if (waitpid(child, &result, 0) != child)
        return false;
    if (WIFEXITED(result) && (!clean || WEXITSTATUS(result) != 0))
        return false;
    if (power_cut)
        kept_lose_shm(&place);

    totals->kills += !clean;
    totals->clean_stops += clean;
    totals->while_opening += opening;
    totals->power_cuts += power_cut;
    totals->mapped += kept_faults.shm_full;
    /* Where the image itself was mapped a lost /dev/shm takes nothing away, which is fine too. */
    uint64_t start_ns = clock_mono_ns();
    bool good =
        check(shared, power_cut ? KILL_POWER_LOST : KILL_BY_SIGNAL, kept_random(seed) % 4 == 0);
    uint64_t took_ns = clock_mono_ns() - start_ns;
    totals->check_ns_max = took_ns > totals->check_ns_max ? took_ns : totals->check_ns_max;
    return good;
}

/* Drops all at the end: nothing may be left on /dev/shm. */
static bool drop_all(void)
{
    struct registry *registry;
    struct registry_options options = options_of();
    if (registry_open(&options, &registry, NULL) != KVS_OK)
        return false;
    registry_drop(registry, 0, "brief", NULL);
    bool dropped = registry_drop(registry, 0, "roomy", NULL) == KVS_OK &&
                   registry_drop(registry, 0, "tight", NULL) == KVS_OK;
    registry_close(registry);
    return dropped && kept_shm_files(&place) == 0;
}

static bool run_kills(unsigned kills, uint64_t seed)
{
    struct totals totals = {0};
    struct kill_shared *shared = kill_shared_new();
    uint64_t random = seed;
    bool good = shared != NULL;
    kept_make(&place);
    printf("seed %llu\n", (unsigned long long)seed);
    for (unsigned round = 0; good && totals.kills < kills; round++) {
        good = run_round(shared, &random, &totals);
        if (!good)
            printf("round %u: %s\n", round,
                   shared->wrong[0] != 0 ? shared->wrong : "a process ended as it should not");
    }
    if (good && !drop_all()) {
        printf("dropping leaves something behind\n");
        good = false;
    }
    if (good)
        printf(
            "kills %u (%u while opening, %u with /dev/shm lost), clean stops %u, without room on "
            "/dev/shm %u\n"
            "operations answered %llu, confirms answered %llu\n"
            "keys checked %llu, found %llu; answered confirms missing 0, wrong bytes 0, pages with "
            "two owners 0\n"
            "longest reopening with its check %.1f ms\n",
            totals.kills, totals.while_opening, totals.power_cuts, totals.clean_stops,
            totals.mapped, (unsigned long long)atomic_load(&shared->operations),
            (unsigned long long)atomic_load(&shared->confirms),
            (unsigned long long)atomic_load(&shared->checked),
            (unsigned long long)atomic_load(&shared->found), (double)totals.check_ns_max / 1e6);
    kept_remove(&place);
    return good;
}

static void nothing_answered_is_lost(void **state)
{
    (void)state;
    assert_true(run_kills(SUITE_KILLS, 20240607));
}

static bool parse(const char *text, unsigned long long *ret_value)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != 0)
        return false;
    *ret_value = value;
    return true;
}

int main(int argc, char **argv)
{
    unsigned long long kills = SUITE_KILLS, seed = 1;
    if (argc == 1) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_answered_is_lost)};
        return cmocka_run_group_tests_name("kill", tests, NULL, NULL);
    }
    for (int i = 1; i + 1 < argc; i += 2) {
        unsigned long long *value = strcmp(argv[i], "--kills") == 0  ? &kills
                                    : strcmp(argv[i], "--seed") == 0 ? &seed
                                                                     : NULL;
        if (value == NULL || !parse(argv[i + 1], value)) {
            fprintf(stderr, "usage: %s [--kills N] [--seed S]\n", argv[0]);
            return 2;
        }
    }
    return run_kills((unsigned)kills, seed) ? 0 : 1;
}
