/* One seed: who is there, what befalls them, and that all is well in the end. */
#include "sim_world.h"

#include "sim_client.h"
#include "sim_files.h"
#include "sim_server.h"
#include "sim_twin.h"

#include <inttypes.h>
#include <stdlib.h>

enum { CLIENTS_MAX = SIM_NATIVES_MAX + SIM_ORIGINALS_MAX };

static struct client clients[CLIENTS_MAX + 1]; /* the last one looks at the end */
static size_t client_count;
static struct chance fate, of_files, of_disk, of_network, of_server;
static uint64_t starts_at_us[CLIENTS_MAX]; /* of clients that were killed; 0: alive */
/* Troubles come together: a kill soon after a power cut, while the caution after that one lasts. */
static uint64_t kill_again_us;

/* ---- Catalogs: the server, or the store that has its own ------------------------------------ */

static struct sim_process *keeper(void)
{
    return sim_plan.local ? &clients[0].process : &sim_server_process;
}

static bool keeper_is_down(void)
{
    return sim_plan.local ? !clients[0].process.alive : sim_server_is_down();
}

static void start_keeper(void)
{
    sim_files_shm_full = sim_fault(&fate, FAULT_SHM_FULL);
    if (sim_plan.local)
        native_start(&clients[0]);
    else
        sim_server_start();
}

/* Does not return in a task of the keeper. */
static void kill_keeper(void)
{
    if (keeper_is_down())
        return;
    sim_trace("kill -9 of %s", keeper()->name);
    if (sim_plan.local) {
        twin_killed();
        client_kill(&clients[0]);
    } else {
        sim_server_kill();
    }
}

static void stop_keeper(void)
{
    if (!sim_plan.local)
        sim_server_stop();
    else
        clients[0].leaving = true;
}

static void cut_power(void)
{
    sim_trace("power cut");
    kill_keeper();
    if (sim_plan.per_mille[FAULT_KILL] > 0 && one_in(&fate, 3))
        kill_again_us = sim_now_us() + between(&fate, 1, 400) * 1000;
    sim_server_machine.boots++;
    sim_files_power_cut();
    twin_lost_shm();
    disk_power_cut();
    sim_server_machine.booted_us = sim_machine_us(&sim_server_machine);
    if (sim_fault(&fate, FAULT_WALL_JUMP))
        sim_server_machine.wall_us -= below(&fate, 20000000);
}

static void before_call(void)
{
    if (sim_process() == keeper() && sim_fault(&fate, FAULT_KILL_IN_CALL))
        kill_keeper();
}

/* ---- Fate ----------------------------------------------------------------------------------- */

/* What is down comes up again after a while. */
static void raise_the_dead(void)
{
    if (keeper_is_down() && one_in(&fate, 3)) {
        if (sim_fault(&fate, FAULT_REBOOT))
            cut_power();
        if (sim_plan.kept && sim_fault(&fate, FAULT_SHM_LOST)) {
            sim_trace("/dev/shm is lost");
            sim_files_lose_shm();
            twin_lost_shm();
        }
        start_keeper();
    }
    for (size_t i = sim_plan.local ? 1 : 0; i < client_count; i++) {
        if (starts_at_us[i] == 0 || starts_at_us[i] > sim_now_us())
            continue;
        starts_at_us[i] = 0;
        if (i < sim_plan.natives)
            native_start(&clients[i]);
        else
            original_start(&clients[i]);
    }
}

static void kill_a_client(void)
{
    size_t at = below(&fate, client_count);
    if (sim_plan.local || !clients[at].process.alive)
        return;
    sim_trace("kill -9 of %s", clients[at].name);
    client_kill(&clients[at]);
    starts_at_us[at] = sim_now_us() + between(&fate, 1, 200) * 1000;
}

static void befall(void)
{
    if (sim_fault(&fate, FAULT_KILL) || sim_now_us() >= kill_again_us) {
        kill_again_us = UINT64_MAX;
        kill_keeper();
    }
    if (sim_fault(&fate, FAULT_POWER_CUT))
        cut_power();
    if (sim_fault(&fate, FAULT_STOP))
        stop_keeper();
    if (sim_fault(&fate, FAULT_CLIENT_KILL))
        kill_a_client();
    if (sim_fault(&fate, FAULT_CLOCK_JUMP)) {
        uint64_t ms = below(&fate, 2 * (sim_plan.reserve_ttl_ms + sim_plan.quarantine_ms));
        sim_trace("the server's clock jumps by %" PRIu64 " ms", ms);
        sim_machine_jump(&sim_server_machine, ms * 1000);
    }
    if (sim_fault(&fate, FAULT_PARTITION)) {
        size_t at = below(&fate, client_count);
        uint64_t ms = below(&fate, 400);
        sim_trace("%s is cut off for %" PRIu64 " ms", clients[at].name, ms);
        clients[at].network.cut_off_until_us = sim_now_us() + ms * 1000;
    }
    if (sim_fault(&fate, FAULT_DISK_ROT))
        disk_rot();
    if (one_in(&fate, 10))
        disk_flush();
}

static void direct(void *arg)
{
    (void)arg;
    for (;;) {
        sim_sleep(between(&fate, 1, 40) * 1000);
        if (sim_settling)
            break;
        raise_the_dead();
        befall();
    }
}

/* ---- The end -------------------------------------------------------------------------------- */

static bool all_are_gone(void)
{
    for (size_t i = 0; i < client_count; i++)
        if (!clients[i].gone)
            return false;
    return true;
}

static bool all_are_idle(void)
{
    for (size_t i = 0; i < client_count; i++)
        if (!clients[i].gone && !clients[i].idle)
            return false;
    return true;
}

static void wait_until(bool (*all_are)(void))
{
    uint64_t limit_us = sim_now_us() + UINT64_C(600) * 1000000;
    while (!all_are()) {
        sim_sleep(20000);
        if (sim_now_us() > limit_us)
            sim_fail("a client is still busy 600 s after everything has settled");
    }
}

/* No fault happens any more; whoever was killed comes back once, and ends by itself. */
static void settle(void *arg)
{
    (void)arg;
    sim_trace("---- settling");
    sim_settling = true;
    sim_files_shm_full = false;
    if (!sim_plan.local && keeper_is_down())
        start_keeper();
    for (size_t i = 0; i < client_count; i++) {
        clients[i].network.cut_off_until_us = 0;
        if (!clients[i].process.alive)
            clients[i].gone = true;
        clients[i].leaving = true;
    }
    while (!sim_plan.local && !sim_server_is_up()) {
        if (sim_server_is_down())
            start_keeper();
        sim_sleep(20000);
    }
    wait_until(all_are_idle);
    for (size_t i = 0; i < client_count; i++)
        clients[i].may_look = true;
    wait_until(all_are_gone);
    if (sim_plan.local) {
        clients[client_count].process.machine = &sim_server_machine;
        clients[client_count].local = true;
    }
    native_last_look(&clients[client_count]);
    while (!clients[client_count].gone)
        sim_sleep(20000);
    if (!sim_plan.local)
        sim_server_stop();
    while (!sim_plan.local && !sim_server_is_down())
        sim_sleep(20000);
}

/* ---- The seed ------------------------------------------------------------------------------- */

static void begin(void)
{
    uint64_t seed = sim_plan.seed * 0x9e3779b97f4a7c15u;
    kill_again_us = UINT64_MAX;
    fate.state = seed ^ 1;
    of_files.state = seed ^ 2;
    of_disk.state = seed ^ 3;
    of_network.state = seed ^ 4;
    of_server.state = seed ^ 5;
    sim_begin(seed);
    sim_settling = false;
    sim_server_begin(&of_server);
    sim_files_begin(&of_files, &sim_server_machine);
    sim_files_before_call = before_call;
    truth_begin(&sim_server_machine);
    twin_begin();
    disk_begin(&of_disk);
    network_begin(&of_network);
    client_count = sim_plan.natives + sim_plan.originals;
    for (size_t i = 0; i <= client_count; i++) {
        client_init(&clients[i], i < sim_plan.natives || i == client_count ? "native" : "original",
                    (int)i + 1, seed);
        if (i < CLIENTS_MAX)
            starts_at_us[i] = 0;
    }
    if (sim_plan.local) {
        clients[0].local = true;
        clients[0].process.machine = &sim_server_machine;
    }
}

static void take_everything_back(void)
{
    sim_end();
    for (size_t i = 0; i <= client_count; i++)
        client_kill(&clients[i]);
    sim_process_kill(&sim_server_process);
}

const char *world_play(const struct sim_plan *plan)
{
    sim_plan = *plan;
    begin();
    start_keeper();
    for (size_t i = sim_plan.local ? 1 : 0; i < client_count; i++) {
        if (i < sim_plan.natives)
            native_start(&clients[i]);
        else
            original_start(&clients[i]);
    }
    sim_spawn(NULL, direct, NULL);
    sim_run_until(sim_plan.horizon_us);
    sim_spawn(NULL, settle, NULL);
    sim_run_until(SIM_FOREVER);
    if (sim_failure() == NULL && !clients[client_count].gone)
        sim_fail("nothing happens any more, and not everyone has ended");
    take_everything_back();
    return sim_failure();
}
