/* Time, tasks and processes; see sim.h. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif
#ifdef SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

enum {
    TASKS_MAX = 192,
    STACK_BYTES = 512 * 1024,
    EVENTS_MAX = 4096,
    TRACE_LINES = 64,
    TRACE_BYTES = 200,
};

struct sim_task {
    ucontext_t context;
    char *stack;
    void *fake_stack; /* of the address sanitizer */
    sim_fn fn;
    void *arg;
    struct sim_process *process;
    bool used;
    const void *waits_for; /* NULL: for its own time only */
    uint64_t ticket;       /* of the event that is to run it; others are stale */
    uint64_t waits_since;  /* orders those that wait for one address */
    bool woken;
    uint64_t words[SIM_TASK_WORDS];
};

struct event {
    uint64_t us, order;
    struct sim_task *task; /* or fn */
    uint64_t ticket;
    sim_fn fn;
    void *arg;
};

static struct {
    uint64_t now_us, steps, order, ticket;
    struct event events[EVENTS_MAX]; /* a heap */
    size_t event_count;
    struct sim_task tasks[TASKS_MAX];
    struct sim_task *running;
    ucontext_t scheduler;
    struct chance kernel;
    bool failed;
    char failure[1024];
    char trace[TRACE_LINES][TRACE_BYTES];
    uint64_t traced;
} sim;

bool sim_verbose;

/* ---- Switching ------------------------------------------------------------------------------ */

#ifdef SIM_ASAN
static void *scheduler_fake;
static const void *scheduler_bottom;
static size_t scheduler_size;
#endif

static void to_task(struct sim_task *task)
{
    sim.running = task;
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(&scheduler_fake, task->stack, STACK_BYTES);
#endif
    swapcontext(&sim.scheduler, &task->context);
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(scheduler_fake, NULL, NULL);
#endif
    sim.running = NULL;
}

static void to_scheduler(void)
{
    struct sim_task *task = sim.running;
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(&task->fake_stack, scheduler_bottom, scheduler_size);
#endif
    swapcontext(&task->context, &sim.scheduler);
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(task->fake_stack, &scheduler_bottom, &scheduler_size);
#endif
}

static void task_main(void)
{
    struct sim_task *task = sim.running;
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(task->fake_stack, &scheduler_bottom, &scheduler_size);
#endif
    task->fn(task->arg);
    if (task->process != NULL)
        task->process->tasks--;
    task->used = false;
    sim_wake_all(task);
    to_scheduler();
    abort(); /* it never runs again */
}

/* ---- Events --------------------------------------------------------------------------------- */

static bool earlier(const struct event *a, const struct event *b)
{
    return a->us != b->us ? a->us < b->us : a->order < b->order;
}

static void push(struct event event)
{
    if (sim.event_count == EVENTS_MAX) {
        fprintf(stderr, "simulation: too many events at once\n");
        abort();
    }
    event.order = ++sim.order;
    size_t at = sim.event_count++;
    while (at > 0 && earlier(&event, &sim.events[(at - 1) / 2])) {
        sim.events[at] = sim.events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim.events[at] = event;
}

static struct event pop(void)
{
    struct event first = sim.events[0], last = sim.events[--sim.event_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= sim.event_count)
            break;
        if (child + 1 < sim.event_count && earlier(&sim.events[child + 1], &sim.events[child]))
            child++;
        if (!earlier(&sim.events[child], &last))
            break;
        sim.events[at] = sim.events[child];
        at = child;
    }
    sim.events[at] = last;
    return first;
}

static uint64_t after_us(uint64_t us)
{
    return us > UINT64_MAX - sim.now_us ? UINT64_MAX : sim.now_us + us;
}

/* The task runs at that time, unless something else runs it before. */
static void schedule(struct sim_task *task, uint64_t us)
{
    push((struct event){.us = us, .task = task, .ticket = task->ticket});
}

void sim_after(uint64_t us, sim_fn fn, void *arg)
{
    push((struct event){.us = after_us(us), .fn = fn, .arg = arg});
}

void sim_run_until(uint64_t us)
{
    while (!sim.failed && sim.event_count > 0 && sim.events[0].us <= us) {
        struct event event = pop();
        sim.now_us = event.us;
        if (event.task != NULL && (!event.task->used || event.task->ticket != event.ticket))
            continue;
        sim.steps++;
        if (event.task != NULL)
            to_task(event.task);
        else
            event.fn(event.arg);
    }
    if (!sim.failed && sim.now_us < us)
        sim.now_us = us;
}

uint64_t sim_now_us(void)
{
    return sim.now_us;
}

uint64_t sim_steps(void)
{
    return sim.steps;
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

bool sim_in_task(void)
{
    return sim.running != NULL;
}

struct sim_process *sim_process(void)
{
    return sim.running == NULL ? NULL : sim.running->process;
}

static struct sim_task *free_task(void)
{
    for (size_t i = 0; i < TASKS_MAX; i++)
        if (!sim.tasks[i].used)
            return &sim.tasks[i];
    fprintf(stderr, "simulation: too many tasks at once\n");
    abort();
}

struct sim_task *sim_spawn(struct sim_process *process, sim_fn fn, void *arg)
{
    struct sim_task *task = free_task();
#ifdef SIM_ASAN
    __asan_unpoison_memory_region(task->stack, STACK_BYTES);
#endif
    getcontext(&task->context);
    task->context.uc_stack.ss_sp = task->stack;
    task->context.uc_stack.ss_size = STACK_BYTES;
    task->context.uc_link = NULL;
    makecontext(&task->context, task_main, 0);
    task->fn = fn;
    task->arg = arg;
    task->process = process;
    task->used = true;
    task->waits_for = NULL;
    memset(task->words, 0, sizeof(task->words));
    task->ticket = ++sim.ticket;
    if (process != NULL)
        process->tasks++;
    schedule(task, sim.now_us);
    return task;
}

bool sim_wait(const void *address, uint64_t us)
{
    struct sim_task *task = sim.running;
    if (task == NULL) {
        sim_fail("something outside of any task would have to wait");
        return false;
    }
    task->ticket = ++sim.ticket;
    task->waits_for = address;
    task->waits_since = sim.ticket;
    task->woken = false;
    if (us != SIM_FOREVER)
        schedule(task, after_us(us));
    to_scheduler();
    task->waits_for = NULL;
    return task->woken;
}

uint64_t *sim_task_words(void)
{
    return sim.running->words;
}

void sim_sleep(uint64_t us)
{
    sim_wait(NULL, us);
}

void sim_wake_one(const void *address)
{
    struct sim_task *first = NULL;
    for (size_t i = 0; i < TASKS_MAX; i++) {
        struct sim_task *task = &sim.tasks[i];
        if (task->used && task->waits_for == address && !task->woken &&
            (first == NULL || task->waits_since < first->waits_since))
            first = task;
    }
    if (first == NULL)
        return;
    first->woken = true;
    first->ticket = ++sim.ticket;
    schedule(first, sim.now_us);
}

void sim_wake_all(const void *address)
{
    for (size_t i = 0; i < TASKS_MAX; i++)
        if (sim.tasks[i].used && sim.tasks[i].waits_for == address && !sim.tasks[i].woken)
            sim_wake_one(address);
}

/* ---- Processes ------------------------------------------------------------------------------ */

void sim_process_start(struct sim_process *process)
{
    process->alive = true;
    process->lives++;
    process->bytes = process->peak_bytes = 0;
    process->tasks = 0;
}

static bool ends_tasks(struct sim_process *process)
{
    bool own = false;
    for (size_t i = 0; i < TASKS_MAX; i++) {
        struct sim_task *task = &sim.tasks[i];
        if (!task->used || task->process != process)
            continue;
        task->used = false;
        task->waits_for = NULL;
        own |= task == sim.running;
    }
    process->tasks = 0;
    return own;
}

void sim_process_kill(struct sim_process *process)
{
    process->alive = false;
    bool own = ends_tasks(process);
    sim_take_back(process);
    if (own)
        to_scheduler();
}

void sim_process_exit(struct sim_process *process)
{
    static const char *const kinds[] = {"memory", "a mapping", "a descriptor"};
    enum sim_held kind;
    if (sim_holds_anything(process, &kind))
        sim_fail("%s ends by itself and still holds %s", process->name, kinds[kind]);
    process->alive = false;
}

uint64_t sim_machine_us(const struct sim_machine *machine)
{
    return sim.now_us + machine->slept_us;
}

uint64_t sim_machine_boot_us(const struct sim_machine *machine)
{
    return sim_machine_us(machine) - machine->booted_us;
}

/* Timed waits of the machine's processes look at the clock again. */
void sim_machine_jump(struct sim_machine *machine, uint64_t us)
{
    machine->slept_us += us;
    for (size_t i = 0; i < TASKS_MAX; i++) {
        struct sim_task *task = &sim.tasks[i];
        if (task->used && task->waits_for != NULL && !task->woken && task->process != NULL &&
            task->process->machine == machine)
            sim_wake_one(task->waits_for);
    }
}

/* ---- A seed --------------------------------------------------------------------------------- */

/* Made once and outside of any process, which would take them along. */
static void make_stacks(void)
{
    for (size_t i = 0; i < TASKS_MAX && sim.tasks[i].stack == NULL; i++) {
        sim.tasks[i].stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (sim.tasks[i].stack == MAP_FAILED)
            abort();
    }
}

void sim_begin(uint64_t seed)
{
    make_stacks();
    sim.now_us = sim.steps = sim.order = sim.ticket = sim.traced = 0;
    sim.event_count = 0;
    sim.failed = false;
    sim.kernel.state = seed ^ 0x6b65726e656cu;
}

void sim_end(void)
{
    for (size_t i = 0; i < TASKS_MAX; i++)
        sim.tasks[i].used = false;
    sim.event_count = 0;
}

struct chance *sim_kernel_chance(void)
{
    return &sim.kernel;
}

void sim_fail(const char *format, ...)
{
    if (!sim.failed) {
        va_list args;
        va_start(args, format);
        vsnprintf(sim.failure, sizeof(sim.failure), format, args);
        va_end(args);
        sim.failed = true;
        sim_trace("FAILED: %s", sim.failure);
    }
    if (sim.running != NULL)
        to_scheduler();
}

const char *sim_failure(void)
{
    return sim.failed ? sim.failure : NULL;
}

void sim_trace(const char *format, ...)
{
    char *line = sim.trace[sim.traced++ % TRACE_LINES];
    int length = snprintf(line, TRACE_BYTES, "%10.3f ms  ", (double)sim.now_us / 1000);
    va_list args;
    va_start(args, format);
    vsnprintf(line + length, TRACE_BYTES - (size_t)length, format, args);
    va_end(args);
    if (sim_verbose)
        fprintf(stderr, "%s\n", line);
}

void sim_trace_print(void)
{
    uint64_t from = sim.traced > TRACE_LINES ? sim.traced - TRACE_LINES : 0;
    for (uint64_t i = from; i < sim.traced; i++)
        fprintf(stderr, "%s\n", sim.trace[i % TRACE_LINES]);
}
