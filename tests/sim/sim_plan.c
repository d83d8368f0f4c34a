/* What a seed is about; see sim_plan.h. */
#include "sim_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ROUGH_ONE_IN = 6 };

struct sim_plan sim_plan;
uint64_t sim_fault_counts[SIM_FAULT_KINDS];
bool sim_settling;

static const struct {
    const char *name, *text;
} kinds[SIM_FAULT_KINDS] = {
#define X(name, text) [FAULT_##name] = {#name, text},
    SIM_FAULTS(X)
#undef X
};

const char *sim_fault_name(enum sim_fault fault)
{
    return kinds[fault].name;
}

const char *sim_fault_text(enum sim_fault fault)
{
    return kinds[fault].text;
}

/* The most often a kind happens, in a thousand of its occasions. */
static uint32_t most_of(enum sim_fault fault)
{
    switch (fault) {
    case FAULT_KILL:
    case FAULT_POWER_CUT:
    case FAULT_STOP:
    case FAULT_CLIENT_KILL:
    case FAULT_CLOCK_JUMP:
    case FAULT_PARTITION:
    case FAULT_DISK_ROT:
        return 60; /* of the director's steps */
    case FAULT_KILL_IN_CALL:
        return 80;
    case FAULT_SHM_LOST:
    case FAULT_REBOOT:
    case FAULT_SHM_FULL:
    case FAULT_WALL_JUMP:
        return 300;
    case FAULT_DISK_STUCK:
    case FAULT_IMAGE_ERROR:
        return 80;
    case FAULT_DISK_LOST:
    case FAULT_DELETE:
        return 500;
    case FAULT_OTHER_GEOMETRY:
    case FAULT_MALFORMED:
        return 50;
    default:
        return 150;
    }
}

static void draw_faults(struct sim_plan *plan, struct chance *c)
{
    uint64_t calm = below(c, 4); /* how many of the kinds this seed has: few to most */
    for (unsigned i = 0; i < SIM_FAULT_KINDS; i++) {
        plan->faults[i] = below(c, 4) < calm;
        plan->per_mille[i] =
            plan->faults[i] ? (uint32_t)between(c, 1, most_of((enum sim_fault)i)) : 0;
    }
    if (!plan->deadlines)
        sim_plan_without(plan, FAULT_DISK_STUCK);
}

/* Some seeds are about little else than starts that meet what failed starts have left. */
static void make_rough(struct sim_plan *plan)
{
    static const struct {
        enum sim_fault fault;
        uint32_t per_mille;
    } of_starts[] = {
        {FAULT_KILL, 150},       {FAULT_STOP, 150},       {FAULT_POWER_CUT, 80},
        {FAULT_SHM_LOST, 100},   {FAULT_REBOOT, 100},     {FAULT_KILL_IN_CALL, 10},
        {FAULT_IMAGE_ERROR, 40}, {FAULT_IMAGE_SHORT, 40},
    };
    for (size_t i = 0; i < sizeof(of_starts) / sizeof(of_starts[0]); i++) {
        plan->faults[of_starts[i].fault] = true;
        plan->per_mille[of_starts[i].fault] = of_starts[i].per_mille;
    }
    plan->kept = true;
}

static void draw_size(struct sim_plan *plan, struct chance *c)
{
    static const uint32_t pages[] = {1, 2, 2, 3, 3, 4, 4, 5, 6, 8, 12, 24};
    plan->num_pages = PICK(c, pages);
    plan->page_bytes = 16 * (uint32_t)between(c, 2, 4);
    plan->pairs = one_in(c, 3);
    uint64_t keys = 1 + below(c, 2 * (uint64_t)plan->num_pages + 3);
    plan->num_keys = keys > SIM_KEYS_MAX / 2 ? SIM_KEYS_MAX / 2 : (uint32_t)keys;
}

static void draw_times(struct sim_plan *plan, struct chance *c)
{
    static const uint64_t ms[] = {20, 50, 100, 200, 400};
    plan->reserve_ttl_ms = PICK(c, ms);
    plan->quarantine_ms = PICK(c, ms);
    plan->lease_ms = one_in(c, 2) ? PICK(c, ms) / 2 : PICK(c, ms);
    plan->idle_reset_ms = one_in(c, 6) ? between(c, 100, 1500) : 0;
    plan->client_timeout_ms = (uint32_t)between(c, 50, 500);
    static const uint32_t cache_ms[] = {0, 5, 30, 100, 1000};
    plan->exists_cache_ms = PICK(c, cache_ms);
    plan->horizon_us = between(c, 500, 6000) * 1000;
    plan->think_us = (uint32_t)between(c, 5, 80) * 1000;
    plan->slow_ms =
        (uint32_t)((plan->reserve_ttl_ms + plan->quarantine_ms) * between(c, 4, 16) / 10);
    plan->tear_bytes = one_in(c, 2) ? 512 : 64;
}

void sim_plan_draw(struct sim_plan *plan, uint64_t seed)
{
    struct chance c = {seed * 0x2545f4914f6cdd1du ^ 0x706c616e};
    *plan = (struct sim_plan){.seed = seed};
    plan->local = one_in(&c, 8);
    plan->kept = !one_in(&c, 8);
    draw_size(plan, &c);
    draw_times(plan, &c);
    plan->eviction = one_in(&c, 2) ? KVS_EVICTION_PREFIX : KVS_EVICTION_LRU;
    plan->natives = (uint32_t)below(&c, SIM_NATIVES_MAX + 1);
    plan->originals = (uint32_t)below(&c, SIM_ORIGINALS_MAX + 1);
    if (plan->natives + plan->originals == 0)
        plan->natives = 1;
    if (plan->local) {
        plan->natives = 1;
        plan->originals = 0;
    }
    plan->deadlines = one_in(&c, 2);
    plan->mla = one_in(&c, 4) && !plan->local && !plan->pairs && plan->natives > 1;
    draw_faults(plan, &c);
    if (seed % ROUGH_ONE_IN == 0)
        make_rough(plan);
}

void sim_plan_without(struct sim_plan *plan, enum sim_fault fault)
{
    plan->faults[fault] = false;
    plan->per_mille[fault] = 0;
}

void sim_plan_print(const struct sim_plan *plan)
{
    fprintf(stderr,
            "seed %" PRIu64 ": %s, %s, %u pages of %u bytes%s, %u keys, %u native and %u original "
            "clients\n  reserve_ttl %" PRIu64 " ms, quarantine %" PRIu64 " ms, lease %" PRIu64
            " ms, idle_reset %" PRIu64 " ms, %s order, %s%s, client_timeout %u ms, exists_cache %u "
            "ms, until %" PRIu64 " ms\n  faults:",
            plan->seed, plan->local ? "a store of its own" : "a server",
            plan->kept ? "kept" : "in memory", plan->num_pages, plan->page_bytes,
            plan->pairs ? " in pairs" : "", plan->num_keys, plan->natives, plan->originals,
            plan->reserve_ttl_ms, plan->quarantine_ms, plan->lease_ms, plan->idle_reset_ms,
            plan->eviction == KVS_EVICTION_PREFIX ? "prefix" : "lru",
            plan->deadlines ? "I/O with deadlines" : "I/O without deadlines",
            plan->mla ? ", MLA ranks" : "", plan->client_timeout_ms, plan->exists_cache_ms,
            plan->horizon_us / 1000);
    for (unsigned i = 0; i < SIM_FAULT_KINDS; i++)
        if (plan->faults[i])
            fprintf(stderr, " %s:%u", kinds[i].name, plan->per_mille[i]);
    fputc('\n', stderr);
}

void sim_fault_count(enum sim_fault fault)
{
    sim_fault_counts[fault]++;
}

bool sim_fault(struct chance *chance, enum sim_fault fault)
{
    if (sim_settling || !happens(chance, sim_plan.per_mille[fault]))
        return false;
    sim_fault_count(fault);
    return true;
}
