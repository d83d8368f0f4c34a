/* The server as a process; see sim_server.h. */
#include "sim_server.h"

#include "base/clock.h"
#include "server/request.h"
#include "sim_files.h"
#include "sim_twin.h"

#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 8, SERVER_BYTES_MAX = 4 << 20, BODY_MAX = NETWORK_BYTES_MAX };

struct sim_machine sim_server_machine;
struct sim_process sim_server_process;

/* Scratch of fixed size, made once; what grows in it is the process's. */
static struct worker *workers[WORKERS];
static bool worker_busy[WORKERS];
static struct chance *chance;
static struct service service;
static struct registry *registry;
static enum { DOWN, STARTING, UP, STOPPING } state;
static unsigned serving;

void sim_server_log(void *arg, enum kvs_log_level level, const char *line)
{
    (void)arg, (void)level;
    sim_trace("  %s: %s", sim_process() == NULL ? "?" : sim_process()->name, line);
}

void sim_server_begin(struct chance *of_server)
{
    chance = of_server;
    sim_server_machine = (struct sim_machine){.wall_us = UINT64_C(1700000000000000)};
    sim_server_process = (struct sim_process){.name = "the server", .machine = &sim_server_machine};
    for (size_t i = 0; i < WORKERS; i++) {
        worker_busy[i] = false;
        if (workers[i] == NULL && (workers[i] = worker_new()) == NULL)
            abort();
    }
    registry = NULL;
    state = DOWN;
    serving = 0;
}

/* ---- Requests ------------------------------------------------------------------------------- */

static struct worker *take_worker(size_t *ret_at)
{
    for (;;) {
        for (size_t i = 0; i < WORKERS; i++)
            if (!worker_busy[i]) {
                worker_busy[i] = true;
                *ret_at = i;
                return workers[i];
            }
        sim_wait(workers, SIM_FOREVER);
    }
}

static void give_worker(size_t at)
{
    worker_busy[at] = false;
    sim_wake_one(workers);
}

static void ask(const struct http_request *request, struct network_delivery *delivery,
                struct answer *ret_answer, struct worker *worker)
{
    struct network_call *call = delivery->call;
    struct request_peer peer = {0};
    twin_asker = (struct truth_asker){
        .client = call->client->number,
        .life = call->client_life,
        .confirm_generations = call->note.confirm_generations,
        .release_generations = call->note.release_generations,
        .confirms = call->note.confirms,
        .releases = call->note.releases,
        .question = call->note.question,
        .began_us = call->note.began_us,
    };
    twin_note = &delivery->note;
    twin_note->reserved = 0;
    request_answer(&service, worker, &peer, request, registry_now_ms(registry), ret_answer);
    twin_note = NULL;
    delivery->note.answered_ms = truth_now_ms();
}

/* One request, read as the server reads it, whole or in two parts. */
static void serve(void *arg)
{
    struct network_delivery *delivery = arg;
    struct network_call *call = delivery->call;
    size_t worker_at;
    struct worker *worker = take_worker(&worker_at);
    struct http_parser parser;
    http_parser_init(&parser, BODY_MAX);
    const char *at = call->request, *end = at + call->request_bytes;
    const char *part_end = one_in(chance, 4) ? at + below(chance, call->request_bytes) : end;
    enum http_event event = http_next(&parser, &at, part_end);
    while (event == HTTP_NEXT_HEAD || (event == HTTP_NEXT_MORE && at < end))
        event = http_next(&parser, &at, end);
    struct answer answer = {0};
    if (event == HTTP_NEXT_WHOLE)
        ask(&parser.request, delivery, &answer, worker);
    else
        request_fault(worker, parser.fault_status, parser.fault, BODY_MAX, &answer);
    network_answer(delivery, answer.status, answer.body, answer.length);
    http_parser_done(&parser);
    give_worker(worker_at);
    serving--;
    sim_wake_all(&serving);
}

static bool listen_to(struct network_delivery *delivery)
{
    if (state != UP)
        return false;
    serving++;
    sim_spawn(&sim_server_process, serve, delivery);
    return true;
}

/* ---- Coming and going ----------------------------------------------------------------------- */

struct registry_options sim_server_registry_options(void)
{
    return (struct registry_options){
        .dir = sim_plan.kept ? sim_files_dir : NULL,
        .eviction = sim_plan.eviction,
        .reserve_ttl_ms = sim_plan.reserve_ttl_ms,
        .quarantine_ms = sim_plan.quarantine_ms,
        .lease_ms = sim_plan.lease_ms,
        .idle_reset_ms = sim_plan.idle_reset_ms,
        .foreign_writers = true,
        .log = {sim_server_log, NULL},
        .os = &sim_image_os,
    };
}

static void boot(void *arg)
{
    (void)arg;
    const struct registry_options options = sim_server_registry_options();
    struct kvs_error error;
    network_listener = listen_to;
    sim_sleep(between(chance, 1, 5) * 1000);
    twin_begin_opening();
    while (registry_open(&options, &registry, &error) != KVS_OK) {
        sim_trace("the server does not start: %s", error.message);
        if (sim_settling && truth_now_ms() > 600000) {
            sim_fail("the server does not start although nothing fails any more: %s",
                     error.message);
        }
        sim_sleep(20000);
    }
    service_init(&service, registry, registry_now_ms(registry));
    state = UP;
    sim_trace("the server is up");
}

void sim_server_start(void)
{
    state = STARTING;
    serving = 0;
    for (size_t i = 0; i < WORKERS; i++) {
        worker_busy[i] = false;
        workers[i]->answer = workers[i]->body.unescaped = (struct buffer){0};
    }
    sim_process_start(&sim_server_process);
    sim_spawn(&sim_server_process, boot, NULL);
}

bool sim_server_is_up(void)
{
    return state == UP;
}

bool sim_server_is_down(void)
{
    return state == DOWN;
}

static void stop(void *arg)
{
    (void)arg;
    while (serving > 0)
        sim_wait(&serving, SIM_FOREVER);
    service_done(&service);
    for (size_t i = 0; i < WORKERS; i++) {
        buffer_done(&workers[i]->answer);
        buffer_done(&workers[i]->body.unescaped);
    }
    registry = registry_close(registry);
    twin_stopped();
    state = DOWN;
    sim_trace("the server has stopped");
    sim_process_exit(&sim_server_process);
    if (sim_server_process.peak_bytes > SERVER_BYTES_MAX)
        sim_fail("the server held %zu bytes of memory", sim_server_process.peak_bytes);
}

void sim_server_stop(void)
{
    if (state != UP)
        return;
    sim_trace("the server is being stopped");
    state = STOPPING;
    sim_spawn(&sim_server_process, stop, NULL);
}

/* Does not return in a task of the server. */
void sim_server_kill(void)
{
    if (state == DOWN)
        return;
    state = DOWN;
    registry = NULL;
    twin_killed();
    network_server_died();
    sim_process_kill(&sim_server_process);
}
