/* The network; see sim_network.h. */
#include "sim_network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DELIVERIES_MAX = 2 * NETWORK_CALLS_MAX,
    SILENT_ONE_IN = 4, /* of messages that are lost: the others break the connection */
};

static struct network_call calls[NETWORK_CALLS_MAX];
static struct network_delivery deliveries[DELIVERIES_MAX];
static struct chance *chance;
static uint64_t questions;
bool (*network_listener)(struct network_delivery *delivery);

void network_begin(struct chance *of_network)
{
    chance = of_network;
    questions = 0;
    for (size_t i = 0; i < NETWORK_CALLS_MAX; i++)
        calls[i].used = false;
    for (size_t i = 0; i < DELIVERIES_MAX; i++)
        deliveries[i].used = false;
}

static uint64_t draw_delay_us(void)
{
    if (sim_fault(chance, FAULT_DELAY))
        return below(chance, one_in(chance, 2) ? 200 : 2 * (uint64_t)sim_plan.slow_ms) * 1000;
    return between(chance, 50, 800);
}

bool network_is_cut_off(const struct network_client *client)
{
    return client->cut_off_until_us > sim_now_us();
}

bool network_connects(void)
{
    return one_in(chance, 2);
}

uint64_t network_new_question(void)
{
    return ++questions;
}

static bool is_cut_off(const struct network_call *call)
{
    return network_is_cut_off(call->client);
}

/* The last of those who know the call frees it. */
static void let_go(struct network_call *call)
{
    if (call->deliveries == 0 && call->given_up)
        call->used = false;
}

static void break_connection(void *arg)
{
    struct network_call *call = arg;
    call->deliveries--;
    if (!call->answered && !call->refused)
        call->broken = true;
    if (!call->given_up)
        sim_wake_all(call);
    let_go(call);
}

static void refuse_connection(void *arg)
{
    struct network_call *call = arg;
    call->refused = !call->answered && !call->broken;
    break_connection(call);
}

static void end_delivery(struct network_delivery *delivery)
{
    delivery->used = false;
}

/* The client hears nothing more of it: at once, later, or never but by its own time-out. */
static void lose(struct network_delivery *delivery)
{
    struct network_call *call = delivery->call;
    bool again = delivery->again;
    end_delivery(delivery);
    if (again || (!call->client->patient && one_in(chance, SILENT_ONE_IN))) {
        call->deliveries--;
        let_go(call);
        return;
    }
    sim_after(between(chance, 1, 300) * 1000, break_connection, call);
}

static void deliver(void *arg)
{
    struct network_delivery *delivery = arg;
    if (is_cut_off(delivery->call)) {
        lose(delivery);
        return;
    }
    delivery->at_server = true;
    if (network_listener(delivery))
        return;
    delivery->at_server = false;
    if (delivery->again) {
        delivery->call->deliveries--;
        let_go(delivery->call);
    } else {
        sim_after(between(chance, 50, 500), refuse_connection, delivery->call);
    }
    end_delivery(delivery);
}

static void send(struct network_call *call, bool again)
{
    struct network_delivery *delivery = NULL;
    for (size_t i = 0; i < DELIVERIES_MAX && delivery == NULL; i++)
        if (!deliveries[i].used)
            delivery = &deliveries[i];
    if (delivery == NULL) {
        sim_fail("the network's queue is out of bounds");
        return;
    }
    delivery->used = true;
    delivery->again = again;
    delivery->at_server = false;
    delivery->call = call;
    call->deliveries++;
    if (is_cut_off(call) || sim_fault(chance, FAULT_LOST_REQUEST))
        lose(delivery);
    else
        sim_after(draw_delay_us(), deliver, delivery);
}

static struct network_call *take_call(void)
{
    for (size_t i = 0; i < NETWORK_CALLS_MAX; i++)
        if (!calls[i].used)
            return &calls[i];
    sim_fail("more than %d calls are under way", NETWORK_CALLS_MAX);
    return NULL;
}

/* A client that was killed gives up no call: its calls are found by who made them. */
static void sweep_dead_callers(void)
{
    for (size_t i = 0; i < NETWORK_CALLS_MAX; i++) {
        struct network_call *call = &calls[i];
        if (call->used && !call->given_up &&
            (!call->client->process->alive || call->client->process->lives != call->client_life)) {
            call->given_up = true;
            let_go(call);
        }
    }
}

static void write_request(struct network_call *call, const char *path, const char *body,
                          size_t body_bytes)
{
    int head = snprintf(call->request, sizeof(call->request),
                        "POST %s HTTP/1.1\r\nHost: simulated\r\nContent-Type: "
                        "application/json\r\nContent-Length: %zu\r\n\r\n",
                        path, body_bytes);
    if ((size_t)head + body_bytes > sizeof(call->request)) {
        sim_fail("a request of %zu bytes is out of bounds", body_bytes);
        return;
    }
    memcpy(call->request + head, body, body_bytes);
    call->request_bytes = (size_t)head + body_bytes;
}

enum network_outcome network_post(struct network_client *client, const char *path, const char *body,
                                  size_t body_bytes, const struct network_note *note,
                                  uint64_t timeout_us, struct network_call **ret_call)
{
    sweep_dead_callers();
    struct network_call *call = take_call();
    call->used = true;
    call->answered = call->broken = call->refused = call->given_up = false;
    call->deliveries = 0;
    call->client = client;
    call->client_life = client->process->lives;
    call->note.question = call->note.confirms = call->note.releases = 0;
    if (note != NULL)
        call->note = *note;
    write_request(call, path, body, body_bytes);
    send(call, false);
    if (sim_fault(chance, FAULT_DUPLICATE))
        send(call, true);
    uint64_t until_us = timeout_us == SIM_FOREVER ? SIM_FOREVER : sim_now_us() + timeout_us;
    while (!call->answered && !call->broken && !call->refused && sim_now_us() < until_us)
        sim_wait(call, until_us == SIM_FOREVER ? SIM_FOREVER : until_us - sim_now_us());
    *ret_call = call;
    if (call->answered)
        return NETWORK_ANSWERED;
    enum network_outcome outcome = call->broken    ? NETWORK_BROKEN
                                   : call->refused ? NETWORK_REFUSED
                                                   : NETWORK_SILENT;
    network_done(call);
    return outcome;
}

void network_done(struct network_call *call)
{
    call->given_up = true;
    let_go(call);
}

/* ---- Answers -------------------------------------------------------------------------------- */

static void arrive(void *arg)
{
    struct network_delivery *delivery = arg;
    struct network_call *call = delivery->call;
    if (is_cut_off(call)) {
        lose(delivery);
        return;
    }
    end_delivery(delivery);
    call->deliveries--;
    if (!call->given_up && !call->broken && !call->refused) {
        call->answered = true;
        sim_wake_all(call);
    }
    let_go(call);
}

void network_answer(struct network_delivery *delivery, int status, const char *body, size_t bytes)
{
    struct network_call *call = delivery->call;
    delivery->at_server = false;
    if (delivery->again) {
        end_delivery(delivery);
        call->deliveries--;
        let_go(call);
        return;
    }
    if (bytes > sizeof(call->answer))
        sim_fail("an answer of %zu bytes is out of bounds", bytes);
    call->status = status;
    call->answer_note = delivery->note;
    if (bytes > 0)
        memcpy(call->answer, body, bytes);
    call->answer_bytes = bytes;
    if (is_cut_off(call) || sim_fault(chance, FAULT_LOST_ANSWER))
        lose(delivery);
    else
        sim_after(draw_delay_us(), arrive, delivery);
}

void network_server_died(void)
{
    for (size_t i = 0; i < DELIVERIES_MAX; i++)
        if (deliveries[i].used && deliveries[i].at_server) {
            deliveries[i].at_server = false;
            lose(&deliveries[i]);
        }
}
