/* The simulated network as a transport; see sim_transport.h. */
#include "sim_transport.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct transport {
    struct remote_transport transport;
    struct network_client *network;
    struct disk_user *disk;
};

/* What a task remembers of its questions. BROKEN: of which call the last one was, if its connection
 * broke, plus 1. */
enum { CALL_BEGAN_US, QUESTION, BODY, BROKEN, WORDS };
_Static_assert((int)WORDS <= (int)SIM_TASK_WORDS, "a task has as many words");

void transport_call_began(uint64_t began_us)
{
    sim_task_words()[CALL_BEGAN_US] = began_us;
}

/* A question has a number. One whose connection broke keeps it when it is asked again; whether it
 * may be asked again is judged here. */
static uint64_t number_question(const struct remote_question *question)
{
    uint64_t *words = sim_task_words();
    uint64_t body = XXH3_64bits(question->body, question->body_bytes);
    bool repeated = words[BROKEN] == words[CALL_BEGAN_US] + 1 && words[BODY] == body;
    if (repeated && (!question->repeatable || strstr(question->path, "/clear") != NULL))
        sim_fail("%s is asked again, which is not harmless: it may have been carried out",
                 question->path);
    if (!repeated)
        words[QUESTION] = network_new_question();
    words[BODY] = body;
    words[BROKEN] = 0;
    return words[QUESTION];
}

/* The pages this client may write from now on. */
static void note_grants(struct transport *transport, const struct network_answer_note *note)
{
    for (size_t i = 0; i < note->reserved; i++)
        if (note->granted[i] >= 0 && note->granted[i] < SIM_PAGES_MAX)
            transport->disk->generations[note->granted[i]] = note->generations[i];
}

static void take_answer(struct transport *transport, const struct remote_question *question,
                        struct network_call *call, int *ret_http_status, struct buffer *ret_answer)
{
    if (call->answer_bytes > question->answer_max_bytes)
        sim_fail("an answer to %s of %zu bytes is longer than its client takes", question->path,
                 call->answer_bytes);
    buffer_append(ret_answer, call->answer, call->answer_bytes);
    *ret_http_status = call->status;
    note_grants(transport, &call->answer_note);
    network_done(call);
}

/* One that was never connected to a server that is cut off says so after half of its time. */
static bool cannot_connect(struct transport *transport, const struct remote_question *question)
{
    if (!network_is_cut_off(transport->network) || !network_connects())
        return false;
    sim_sleep(question->timeout_ms * 500);
    return true;
}

static enum kvs_status ask(struct remote_transport *base, const struct remote_question *question,
                           int *ret_http_status, struct buffer *ret_answer, struct kvs_error *error)
{
    struct transport *transport = (struct transport *)base;
    struct network_call *call;
    if (question->timeout_ms == 0)
        return error_set(error, KVS_ERR_REMOTE_DEADLINE, base->url, "0");
    const struct network_note note = {.question = number_question(question),
                                      .began_us = sim_task_words()[CALL_BEGAN_US]};
    if (cannot_connect(transport, question))
        return error_set(error, KVS_ERR_REMOTE_UNREACHABLE, base->url, "no connection in time");
    switch (network_post(transport->network, question->path, question->body, question->body_bytes,
                         &note, question->timeout_ms * 1000, &call)) {
    case NETWORK_ANSWERED:
        take_answer(transport, question, call, ret_http_status, ret_answer);
        return KVS_OK;
    case NETWORK_BROKEN:
        sim_task_words()[BROKEN] = sim_task_words()[CALL_BEGAN_US] + 1;
        return error_set(error, KVS_ERR_REMOTE_BROKEN, base->url, "the connection broke");
    case NETWORK_REFUSED:
        return error_set(error, KVS_ERR_REMOTE_UNREACHABLE, base->url, "nobody listens");
    case NETWORK_SILENT:
        break;
    }
    return error_set(error, KVS_ERR_REMOTE_DEADLINE, base->url, "its");
}

static struct remote_transport *close_transport(struct remote_transport *transport)
{
    free(transport);
    return NULL;
}

struct remote_transport *transport_new(struct network_client *network, struct disk_user *disk)
{
    struct transport *transport = calloc(1, sizeof(*transport));
    if (transport == NULL)
        abort();
    transport->transport =
        (struct remote_transport){.ask = ask, .close = close_transport, .url = "http://simulated"};
    transport->network = network;
    transport->disk = disk;
    return &transport->transport;
}
