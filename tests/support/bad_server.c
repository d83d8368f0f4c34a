/* See bad_server.h. */
#include "support/bad_server.h"

#include "support/unit.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection {
    struct bad_server *bad;
    size_t number;
    int fd;
};

/* Reads one request into `request`; false at the end of the connection. */
static int read_request(int fd, char request[BAD_REQUEST_MAX])
{
    size_t length = 0;
    for (;;) {
        ssize_t n = recv(fd, request + length, BAD_REQUEST_MAX - 1 - length, 0);
        if (n <= 0)
            return 0;
        length += (size_t)n;
        request[length] = '\0';
        const char *body = strstr(request, "\r\n\r\n");
        const char *header = strstr(request, "Content-Length: ");
        size_t expected = header == NULL ? 0 : strtoul(header + 16, NULL, 10);
        if (body != NULL && length >= (size_t)(body + 4 - request) + expected)
            return 1;
        if (length == BAD_REQUEST_MAX - 1)
            return 0;
    }
}

static int send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL);
        if (n <= 0)
            return 0;
        bytes += n;
        length -= (size_t)n;
    }
    return 1;
}

/* Waits until the other side ends the connection, or this one is stopped, for at most `ms`. */
static int ended(struct connection *c, int ms)
{
    struct pollfd poll_fd = {c->fd, POLLIN, 0};
    char byte;
    return atomic_load(&c->bad->stopping) ||
           (poll(&poll_fd, 1, ms) > 0 && recv(c->fd, &byte, 1, MSG_PEEK) <= 0);
}

/* Returns whether the connection goes on. */
static int play(struct connection *c, const struct bad_step *step)
{
    static const char flood[65536] = {0};
    size_t length = strlen(step->answer);
    if (length > 0 && !send_all(c->fd, step->answer, length))
        return 0;
    switch (step->end) {
    case BAD_KEEPS:
        return 1;
    case BAD_RESETS: {
        const struct linger linger = {1, 0};
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        return 0;
    }
    case BAD_HANGS:
        while (!ended(c, 20))
            continue;
        return 0;
    case BAD_FLOODS:
        while (!atomic_load(&c->bad->stopping) && send_all(c->fd, flood, sizeof(flood)))
            continue;
        return 0;
    case BAD_DRIPS:
        while (!ended(c, 5) && send_all(c->fd, " ", 1))
            continue;
        return 0;
    case BAD_CLOSES:
        break;
    }
    return 0;
}

static void *serve(void *arg)
{
    struct connection *c = arg;
    char *request = malloc(BAD_REQUEST_MAX);
    while (request != NULL && read_request(c->fd, request)) {
        pthread_mutex_lock(&c->bad->mutex);
        memcpy(c->bad->last_request, request, strlen(request) + 1);
        size_t number = atomic_fetch_add(&c->bad->requests, 1);
        pthread_mutex_unlock(&c->bad->mutex);
        size_t last = c->bad->step_count - 1;
        if (!play(c, &c->bad->steps[number < last ? number : last]))
            break;
    }
    free(request);
    pthread_mutex_lock(&c->bad->mutex); /* bad_server_say() may be using it */
    atomic_store(&c->bad->sockets[c->number], -1);
    close(c->fd);
    pthread_mutex_unlock(&c->bad->mutex);
    free(c);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct bad_server *bad = arg;
    while (atomic_load(&bad->connections) < BAD_CONNECTIONS_MAX) {
        int fd = accept(bad->fd, NULL, NULL);
        if (fd < 0 || atomic_load(&bad->stopping)) {
            if (fd >= 0)
                close(fd);
            break;
        }
        struct connection *c = malloc(sizeof(*c));
        size_t number = atomic_load(&bad->connections);
        *c = (struct connection){bad, number, fd};
        atomic_store(&bad->sockets[number], fd);
        if (pthread_create(&bad->threads[number], NULL, serve, c) != 0)
            abort();
        atomic_fetch_add(&bad->connections, 1);
    }
    return NULL;
}

void bad_server_start(struct bad_server *bad, const struct bad_step *steps, size_t n)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    memset(bad, 0, sizeof(*bad));
    bad->steps = steps;
    bad->step_count = n;
    pthread_mutex_init(&bad->mutex, NULL);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bad->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(bad->fd >= 0);
    assert_int_equal(bind(bad->fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(bad->fd, 16), 0);
    assert_int_equal(getsockname(bad->fd, (struct sockaddr *)&address, &length), 0);
    snprintf(bad->url, sizeof(bad->url), "http://127.0.0.1:%u", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&bad->acceptor, NULL, accept_all, bad), 0);
}

void bad_server_stop(struct bad_server *bad)
{
    atomic_store(&bad->stopping, 1);
    shutdown(bad->fd, SHUT_RDWR); /* accept returns */
    pthread_join(bad->acceptor, NULL);
    close(bad->fd);
    size_t n = atomic_load(&bad->connections);
    for (size_t i = 0; i < n; i++) {
        int fd = atomic_load(&bad->sockets[i]);
        if (fd >= 0)
            shutdown(fd, SHUT_RDWR);
        pthread_join(bad->threads[i], NULL);
    }
    pthread_mutex_destroy(&bad->mutex);
}

size_t bad_server_requests(struct bad_server *bad, size_t at_least)
{
    enum { STEP_MS = 5, HANG_MS = 30000 };
    for (int ms = 0; atomic_load(&bad->requests) < at_least && ms < HANG_MS; ms += STEP_MS)
        poll(NULL, 0, STEP_MS);
    return atomic_load(&bad->requests);
}

void bad_server_last_request(struct bad_server *bad, char request[BAD_REQUEST_MAX])
{
    pthread_mutex_lock(&bad->mutex);
    memcpy(request, bad->last_request, BAD_REQUEST_MAX);
    pthread_mutex_unlock(&bad->mutex);
}

void bad_server_say(struct bad_server *bad, const char *bytes)
{
    size_t n = atomic_load(&bad->connections);
    pthread_mutex_lock(&bad->mutex);
    for (size_t i = 0; i < n; i++) {
        int fd = atomic_load(&bad->sockets[i]), unsent = 1;
        if (fd < 0)
            continue;
        assert_true(send_all(fd, bytes, strlen(bytes)));
        while (unsent > 0) /* until the other side's kernel has said that it has them */
            if (ioctl(fd, SIOCOUTQ, &unsent) != 0 || (unsent > 0 && poll(NULL, 0, 1) != 0))
                fail_msg("what was said did not arrive");
    }
    pthread_mutex_unlock(&bad->mutex);
}

const char *bad_answer(int status, const char *body)
{
    static char answers[8][4096];
    static size_t next;
    char *answer = answers[next++ % 8];
    snprintf(
        answer, sizeof(answers[0]),
        "HTTP/1.1 %d Whatever\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
        status, strlen(body), body);
    return answer;
}
