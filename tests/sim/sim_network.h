/* The network between clients and the server: requests and answers that are lost, delayed,
 * overtaken, delivered twice, and cut off by partitions; connections that break when the server
 * dies. */
#ifndef KVSHELF_TESTS_SIM_SIM_NETWORK_H
#define KVSHELF_TESTS_SIM_SIM_NETWORK_H

#include "base/buffer.h"
#include "sim_truth.h"

enum {
    NETWORK_BYTES_MAX = 16 * 1024, /* of a request or an answer */
    NETWORK_ENTRIES_MAX = 128,     /* keys of a request, for the truth */
    NETWORK_CALLS_MAX = 64,        /* under way at once: more is a leak */
};

/* Told beside a request, seen by the truth alone: which lives of pages the client means, and of a
 * native client which question it is, counted from 1, and when the call began that asks it. */
struct network_note {
    uint64_t question, began_us;
    uint64_t confirm_generations[NETWORK_ENTRIES_MAX], release_generations[NETWORK_ENTRIES_MAX];
    size_t confirms, releases;
};
/* The same beside an answer. */
struct network_answer_note {
    uint64_t generations[NETWORK_ENTRIES_MAX];
    int64_t
        granted[NETWORK_ENTRIES_MAX]; /* by a reserve of that many keys: a page to write, or -1 */
    size_t reserved;
    uint64_t answered_ms; /* truth_now_ms() */
};

struct network_client {
    int number; /* from 1 */
    struct sim_process *process;
    uint64_t cut_off_until_us;
    bool patient; /* sets no time-out: it learns of a loss when the connection breaks */
};

struct network_call {
    bool used, answered, broken, refused, given_up;
    unsigned deliveries; /* under way or at the server */
    struct network_client *client;
    uint64_t client_life;
    char request[NETWORK_BYTES_MAX], answer[NETWORK_BYTES_MAX];
    size_t request_bytes, answer_bytes;
    int status;
    struct network_note note;
    struct network_answer_note answer_note;
};

struct network_delivery {
    bool used, again; /* the same request a second time: nobody hears the answer */
    bool at_server;
    struct network_call *call;
    struct network_answer_note note;
};

void network_begin(struct chance *chance);

enum network_outcome {
    NETWORK_ANSWERED, /* network_done() follows */
    NETWORK_BROKEN,   /* the connection broke before the answer */
    NETWORK_REFUSED,  /* nobody listens */
    NETWORK_SILENT,   /* nothing within timeout_us */
};
/* Sends `POST {path}` and waits for the answer, in the client's task. */
enum network_outcome network_post(struct network_client *client, const char *path, const char *body,
                                  size_t body_bytes, const struct network_note *note,
                                  uint64_t timeout_us, struct network_call **ret_call);
void network_done(struct network_call *call);
uint64_t network_new_question(void);
bool network_is_cut_off(const struct network_client *client);
/* Whether a client has no connection now and would have to make one: drawn. */
bool network_connects(void);

/* ---- The server's side */
/* Set by the server: takes a delivery, or false when nobody listens. */
extern bool (*network_listener)(struct network_delivery *delivery);
void network_answer(struct network_delivery *delivery, int status, const char *body, size_t bytes);
/* The server is gone: whoever waits for it learns so. */
void network_server_died(void);

#endif
