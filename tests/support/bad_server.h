/* A stand-in for a metadata server that behaves badly, on loopback: it reads each request whole and
 * does what its script says with the answer. One connection at a time is enough for it to be true:
 * each has a thread of its own. */
#ifndef KVSHELF_TESTS_SUPPORT_BAD_SERVER_H
#define KVSHELF_TESTS_SUPPORT_BAD_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum bad_end {
    BAD_KEEPS,  /* the connection stays open */
    BAD_CLOSES, /* after what was answered */
    BAD_RESETS, /* RST instead of FIN */
    BAD_HANGS,  /* until the client or the server ends */
    BAD_FLOODS, /* goes on with the last byte of the answer for as long as it is read */
    BAD_DRIPS,  /* a byte at a time, for ever: alive, and never done */
};

struct bad_step {
    const char *answer; /* the bytes, headers included; "" for none */
    enum bad_end end;
};

enum { BAD_CONNECTIONS_MAX = 64, BAD_REQUEST_MAX = 65536 };

struct bad_server {
    const struct bad_step *steps; /* one for each request in turn; the last one for all further */
    size_t step_count;
    _Atomic size_t requests;    /* received whole */
    _Atomic size_t connections; /* accepted */
    pthread_mutex_t mutex;      /* of last_request, and of closing a socket */
    char last_request[BAD_REQUEST_MAX];
    char url[64];

    int fd;
    _Atomic int stopping;
    pthread_t acceptor, threads[BAD_CONNECTIONS_MAX];
    _Atomic int sockets[BAD_CONNECTIONS_MAX];
};

/* Fails the test when it cannot. */
void bad_server_start(struct bad_server *bad, const struct bad_step *steps, size_t n);
void bad_server_stop(struct bad_server *bad);

/* Waits until that many requests were received and returns how many there are: one that nobody
 * waits for any more may be on its way. */
size_t bad_server_requests(struct bad_server *bad, size_t at_least);
/* Copies the last one received. */
void bad_server_last_request(struct bad_server *bad, char request[BAD_REQUEST_MAX]);

/* Says something that nobody has asked for on every open connection, and returns when it has
 * arrived.
 */
void bad_server_say(struct bad_server *bad, const char *bytes);

/* A whole answer; `length` in its header is that of the body. Static storage, good for a script of
 * at most eight. */
const char *bad_answer(int status, const char *body);

#endif
