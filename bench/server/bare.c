/* A bare HTTP responder, the bound that no server can beat: one thread, epoll, no parsing beyond
 * the end of the request; every POST gets the same prepared answer. Used by bench/server/run.py.
 *
 *   bench_bare PORT ANSWER-FILE      the file holds the body of the answer */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { INPUT_BYTES = 1 << 18, FD_MAX = 4096 };

struct connection {
    size_t received;
    char in[INPUT_BYTES];
};

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "bench_bare: %s (%s)\n", what, strerror(errno));
    exit(1);
}

static char answer[INPUT_BYTES];
static size_t answer_length;

static void prepare(const char *file)
{
    static char body[INPUT_BYTES / 2];
    FILE *f = fopen(file, "re");
    if (f == NULL)
        fail("the answer cannot be read");
    size_t length = fread(body, 1, sizeof body, f);
    fclose(f);
    answer_length = (size_t)snprintf(answer, sizeof answer,
                                     "HTTP/1.1 200 OK\r\nserver: bare\r\ncontent-length: %zu\r\n"
                                     "content-type: application/json\r\n\r\n%.*s",
                                     length, (int)length, body);
}

/* Bytes of the whole request at the start of `in`, or 0. */
static size_t whole_request(const char *in, size_t length)
{
    const char *end = memmem(in, length, "\r\n\r\n", 4);
    if (end == NULL)
        return 0;
    size_t head = (size_t)(end - in) + 4;
    const char *field = memmem(in, head, "Content-Length: ", 16);
    size_t whole = head + (field == NULL ? 0 : strtoul(field + 16, NULL, 10));
    return length >= whole ? whole : 0;
}

static void serve(int epoll, int fd, struct connection **connection)
{
    struct connection *c = *connection;
    ssize_t n = recv(fd, c->in + c->received, INPUT_BYTES - c->received, 0);
    if (n <= 0) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
        close(fd);
        free(c);
        *connection = NULL;
        return;
    }
    c->received += (size_t)n;
    size_t whole = whole_request(c->in, c->received);
    if (whole == 0)
        return;
    memmove(c->in, c->in + whole, c->received - whole);
    c->received -= whole;
    if (send(fd, answer, answer_length, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
        fail("sending");
}

int main(int argc, char **argv)
{
    static struct connection *connections[FD_MAX];
    if (argc != 3)
        fail("usage: bench_bare PORT ANSWER-FILE");
    prepare(argv[2]);
    int listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 128) != 0)
        fail("listening");
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        struct epoll_event events[64];
        int n = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd != listener) {
                serve(epoll, fd, &connections[fd]);
                continue;
            }
            fd = accept(listener, NULL, NULL);
            if (fd < 0 || fd >= FD_MAX ||
                (connections[fd] = calloc(1, sizeof **connections)) == NULL)
                fail("accepting");
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            event = (struct epoll_event){.events = EPOLLIN, .data.fd = fd};
            epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
        }
    }
}
