/* The ground of the simulation: virtual time, chance, tasks, processes and machines. Nothing here
 * knows of catalogs or pages.
 *
 * One thread runs everything. A task is a coroutine that stands for a thread of a process; it runs
 * until it sleeps or waits, so that what happens between two waits is at one instant. The product's
 * own locks, condition variables, threads, clocks, random numbers and allocations are replaced at
 * link time (sim_wrap.c) by ones over this, so that the unchanged product runs here, and a process
 * can be killed at any place where it waits: its tasks never run again, its memory, mappings and
 * descriptors are taken back as the kernel would.
 *
 * Everything that is drawn comes from the seed, so a seed plays the same life each time. */
#ifndef KVSHELF_TESTS_SIM_SIM_H
#define KVSHELF_TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Chance ----------------------------------------------------------------------------------*/

struct chance {
    uint64_t state;
};

static inline uint64_t draw(struct chance *c) /* splitmix64 */
{
    uint64_t z = (c->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static inline uint64_t below(struct chance *c, uint64_t bound)
{
    return draw(c) % bound;
}
static inline uint64_t between(struct chance *c, uint64_t low, uint64_t high)
{
    return low + below(c, high - low + 1);
}
static inline bool one_in(struct chance *c, uint64_t n)
{
    return below(c, n) == 0;
}
/* A fault that happens `per_mille` times in a thousand. */
static inline bool happens(struct chance *c, uint32_t per_mille)
{
    return per_mille > 0 && below(c, 1000) < per_mille;
}
#define PICK(c, table) ((table)[below((c), sizeof(table) / sizeof((table)[0]))])

/* ---- Machines and processes ------------------------------------------------------------------*/

struct sim_machine {
    uint64_t slept_us;  /* its clock ran ahead of the world's by this */
    uint64_t booted_us; /* on that clock: where CLOCK_BOOTTIME is 0 */
    uint64_t wall_us;   /* CLOCK_REALTIME at the world's start */
    uint64_t boots;     /* counts power cuts, for the boot id */
};

struct sim_process {
    const char *name;
    struct sim_machine *machine;
    bool alive;
    uint64_t lives;           /* counts starts */
    size_t bytes, peak_bytes; /* of memory it holds */
    uint32_t tasks;
};

/* The process of the running task; NULL: the simulation itself. */
struct sim_process *sim_process(void);
void sim_process_start(struct sim_process *process);
/* kill -9: none of its tasks runs again, what it held is taken back. The running task may be one of
 * them; then this does not return. */
void sim_process_kill(struct sim_process *process);
/* Its last task is about to end by itself: fails the seed if anything it held is still held. */
void sim_process_exit(struct sim_process *process);

/* The clock of a machine that never goes back, whatever is booted: conditions that span restarts
 * are judged by it. */
uint64_t sim_machine_us(const struct sim_machine *machine);
uint64_t sim_machine_boot_us(const struct sim_machine *machine);
/* The clock jumps ahead (the machine was suspended). */
void sim_machine_jump(struct sim_machine *machine, uint64_t us);

/* ---- Time and tasks --------------------------------------------------------------------------*/

uint64_t sim_now_us(void);

typedef void (*sim_fn)(void *arg);
struct sim_task;
/* Runs fn(arg) as a task of the process, from this instant on. */
struct sim_task *sim_spawn(struct sim_process *process, sim_fn fn, void *arg);
/* Calls fn(arg) after a time, outside of any task: it must not wait. */
void sim_after(uint64_t us, sim_fn fn, void *arg);

/* For tasks: */
bool sim_in_task(void);
void sim_sleep(uint64_t us);
/* Words of the running task, 0 at its start. */
enum { SIM_TASK_WORDS = 4 };
uint64_t *sim_task_words(void);
/* Waits until somebody wakes the address, or for that long (SIM_FOREVER); false when nobody did. */
#define SIM_FOREVER UINT64_MAX
bool sim_wait(const void *address, uint64_t us);
void sim_wake_one(const void *address);
void sim_wake_all(const void *address);

/* ---- A seed ----------------------------------------------------------------------------------*/

/* Begins a world at time 0. */
void sim_begin(uint64_t seed);
/* Runs until the time has come, nothing is left to happen or the seed has failed. */
void sim_run_until(uint64_t us);
/* Takes everything back. */
void sim_end(void);
uint64_t sim_steps(void); /* task switches and calls so far */

/* Where random bytes of the kernel come from. */
struct chance *sim_kernel_chance(void);

/* The seed has failed: the first message stays. In a task this does not return. */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *sim_failure(void); /* NULL: none */

/* What happens, for people: kept in a ring whose end is printed with a failure. */
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_trace_print(void);
extern bool sim_verbose;

/* ---- What processes hold (sim_held.c) --------------------------------------------------------*/

enum sim_held { SIM_HELD_MEMORY, SIM_HELD_MAPPING, SIM_HELD_DESCRIPTOR };
void sim_hold(struct sim_process *process, enum sim_held kind, uint64_t value, size_t bytes);
/* False: nobody holds it. */
bool sim_unhold(enum sim_held kind, uint64_t value);
bool sim_holds_anything(const struct sim_process *process, enum sim_held *ret_kind);
void sim_take_back(struct sim_process *process);

#endif
