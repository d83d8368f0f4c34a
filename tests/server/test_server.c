/* The server over real sockets: connections, deadlines, back-pressure, start and stop. Nothing is
 * timed: a test waits for bytes or for the end of a connection, with a bound that only a hang
 * reaches. */
#include "base/clock.h"
#include "metadata/registry.h"
#include "server/server.h"
#include "support/unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HANG_S = 20, BODY_MAX = 300000, FOREVER_MS = 1000000 };

static struct registry *registry;
static struct service service;
static struct server *server;

struct shape {
    unsigned threads;
    uint64_t connections, idle_ms, head_ms, buffered;
    bool not_ready;
    uint64_t body_max; /* bytes; 0: BODY_MAX */
    uint64_t stall_ms; /* 0: FOREVER_MS */
};

static void start(struct shape shape)
{
    const struct registry_options catalogs = {.reserve_ttl_ms = 60000,
                                              .quarantine_ms = 60000,
                                              .lease_ms = 10000,
                                              .foreign_writers = true};
    const struct server_options options = {
        .host = "127.0.0.1",
        .threads = shape.threads == 0 ? 2 : shape.threads,
        .body_max_bytes = shape.body_max == 0 ? BODY_MAX : shape.body_max,
        .connections_max = shape.connections == 0 ? 100 : shape.connections,
        .idle_ms = shape.idle_ms == 0 ? FOREVER_MS : shape.idle_ms,
        .buffered_max_bytes = shape.buffered,
        .stall_ms = shape.stall_ms == 0 ? FOREVER_MS : shape.stall_ms,
        .head_ms = shape.head_ms == 0 ? FOREVER_MS : shape.head_ms,
    };
    assert_int_equal(registry_open(&catalogs, &registry, NULL), KVS_OK);
    service_init(&service, shape.not_ready ? NULL : registry, clock_boot_ms());
    assert_int_equal(server_start(&options, &service, &server, NULL), KVS_OK);
}

static void finish(void)
{
    server = server_stop(server, 0);
    service_done(&service);
    registry = registry_close(registry);
}

static int open_connection(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(server_port(server)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval hang = {.tv_sec = HANG_S};
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &hang, sizeof(hang)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &hang, sizeof(hang)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Event loops of newer releases of libuv have io_uring rings, whose completions interrupt the calls
 * of the thread that made them: hence TEMP_FAILURE_RETRY() on every call that may wait. */
static void say_bytes(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = TEMP_FAILURE_RETRY(send(fd, bytes, length, MSG_NOSIGNAL));
        assert_true(n > 0);
        bytes += n;
        length -= (size_t)n;
    }
}

static void say(int fd, const char *text)
{
    say_bytes(fd, text, strlen(text));
}

/* Reads one answer; its status, and what it holds in `ret_text`. */
static int hear(int fd, char *ret_text, size_t capacity)
{
    size_t length = 0, whole = 0;
    while (whole == 0 || length < whole) {
        /* Byte by byte up to the end of the head, so that nothing of the next answer is taken. */
        ssize_t n =
            TEMP_FAILURE_RETRY(recv(fd, ret_text + length, whole == 0 ? 1 : whole - length, 0));
        assert_true(n > 0);
        length += (size_t)n;
        assert_true(length < capacity);
        ret_text[length] = '\0';
        if (whole == 0 && length >= 4 && strcmp(ret_text + length - 4, "\r\n\r\n") == 0) {
            const char *field = strstr(ret_text, "content-length: ");
            whole = length + (field == NULL ? 0 : strtoul(field + 16, NULL, 10));
            assert_true(whole < capacity);
        }
    }
    return (int)strtol(ret_text + 9, NULL, 10);
}

static int hear_status(int fd)
{
    static char text[1 << 20];
    return hear(fd, text, sizeof(text));
}

/* The peer has closed, and nothing is left. */
static bool is_over(int fd)
{
    char byte;
    return TEMP_FAILURE_RETRY(recv(fd, &byte, 1, 0)) == 0;
}

static int ask(int fd, const char *path, const char *body)
{
    char text[1024];
    int n = snprintf(text, sizeof(text), "POST %s HTTP/1.1\r\nContent-Length: %zu\r\n\r\n%s", path,
                     strlen(body), body);
    assert_true(n > 0 && (size_t)n < sizeof(text));
    say(fd, text);
    return hear_status(fd);
}

#define HEALTH "GET /health HTTP/1.1\r\n\r\n"

/* ---- Connections -----------------------------------------------------------------------------*/

static void connections_are_kept_and_pipelined(void **state)
{
    (void)state;
    start((struct shape){0});
    int fd = open_connection();
    assert_int_equal(ask(fd, "/0/exists", "{\"keys\":[]}"), 404);
    assert_int_equal(ask(fd, "/0/initialize", "{\"num_pages\":4}"), 204);
    assert_int_equal(ask(fd, "/0/exists", "{"), 400);
    assert_int_equal(ask(fd, "/0/exists", "{\"keys\":[]}"), 200);
    /* Slow work in the midst of a pipeline keeps its place. */
    struct buffer many = {0};
    for (int i = 0; i < 200; i++)
        buffer_append_format(
            &many,
            "POST /%d/initialize HTTP/1.1\r\nContent-Length: 15\r\n\r\n"
            "{\"num_pages\":%d}POST /%d/exists HTTP/1.1\r\nContent-Length: 11\r\n\r\n"
            "{\"keys\":[]}GET /nope HTTP/1.1\r\n\r\n",
            i % 10, i % 10 == 0 ? 4 : 5, i % 10);
    say_bytes(fd, many.data, many.length);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(hear_status(fd), 204);
        assert_int_equal(hear_status(fd), 200);
        assert_int_equal(hear_status(fd), 404);
    }
    buffer_done(&many);
    close(fd);
    finish();
}

/* A long body is worked on beside the loop; what was pipelined behind it waits for its turn. */
static void long_bodies_keep_their_place(void **state)
{
    (void)state;
    enum { KEYS = 65536 };
    static char text[8 * KEYS];
    struct buffer body = {0}, head = {0};
    start((struct shape){.threads = 1});
    int fd = open_connection();
    assert_int_equal(ask(fd, "/0/initialize", "{\"num_pages\":4}"), 204);
    buffer_append_text(&body, "{\"keys\":[\"x\"");
    for (int i = 1; i < KEYS; i++)
        buffer_append_text(&body, ",\"x\"");
    buffer_append_text(&body, "]}");
    assert_true(body.length > REQUEST_LONG_BYTES);
    buffer_append_format(&head, "POST /0/exists HTTP/1.1\r\nContent-Length: %zu\r\n\r\n",
                         body.length);
    for (int i = 0; i < 3; i++) {
        say_bytes(fd, head.data, head.length);
        say_bytes(fd, body.data, body.length);
        say(fd, "GET /nope HTTP/1.1\r\n\r\n");
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hear(fd, text, sizeof(text)), 200);
        assert_true(strlen(text) > 6 * KEYS);
        assert_int_equal(hear_status(fd), 404);
    }
    buffer_done(&body);
    buffer_done(&head);
    close(fd);
    finish();
}

/* A body that fills many reads is taken read by read, in turn with what others send. */
static void a_body_of_many_reads_arrives_whole(void **state)
{
    (void)state;
    enum { BYTES = 8 << 20 };
    struct buffer head = {0};
    char *body = malloc(BYTES);
    assert_non_null(body);
    memset(body, ' ', BYTES);
    memcpy(body + BYTES - 11, "{\"keys\":[]}", 11);
    start((struct shape){.threads = 1, .body_max = BYTES});
    int fd = open_connection(), other = open_connection();
    assert_int_equal(ask(fd, "/0/initialize", "{\"num_pages\":4}"), 204);
    buffer_append_format(&head, "POST /0/exists HTTP/1.1\r\nContent-Length: %d\r\n\r\n", BYTES);
    for (int i = 0; i < 3; i++) {
        say_bytes(fd, head.data, head.length);
        say_bytes(fd, body, BYTES / 2);
        assert_int_equal(ask(other, "/0/exists", "{\"keys\":[]}"), 200);
        say_bytes(fd, body + BYTES / 2, BYTES - BYTES / 2);
        say(fd, "GET /nope HTTP/1.1\r\n\r\n");
        assert_int_equal(hear_status(fd), 200);
        assert_int_equal(hear_status(fd), 404);
    }
    /* And one that is given up. */
    say_bytes(fd, head.data, head.length);
    say_bytes(fd, body, BYTES / 2);
    assert_int_equal(ask(other, "/0/exists", "{\"keys\":[]}"), 200);
    free(body);
    buffer_done(&head);
    close(fd);
    close(other);
    finish();
}

static void requests_may_come_in_parts(void **state)
{
    (void)state;
    char text[1024];
    start((struct shape){0});
    int fd = open_connection();
    say(fd, "POST /0/initialize HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n");
    assert_int_equal(hear(fd, text, sizeof(text)), 100);
    say(fd, "{\"num_");
    say(fd, "pages\":4}");
    assert_int_equal(hear(fd, text, sizeof(text)), 204);
    /* What came before the end of what a peer says is answered. */
    say(fd, "GET /health HTTP/1.1\r\n\r\nGET /ready HTTP/1.0\r\n\r\n");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(hear(fd, text, sizeof(text)), 200);
    assert_null(strstr(text, "connection: close"));
    assert_int_equal(hear(fd, text, sizeof(text)), 200);
    assert_non_null(strstr(text, "connection: close"));
    assert_true(is_over(fd));
    close(fd);
    finish();
}

/* The answer arrives although the peer goes on sending what nobody reads. */
static void a_refusal_reaches_a_peer_that_is_still_sending(void **state)
{
    (void)state;
    static char body[BODY_MAX];
    char text[1024];
    memset(body, 'x', sizeof(body));
    start((struct shape){0});
    int fd = open_connection();
    say(fd, "POST /0/exists HTTP/1.1\r\nContent-Length: 300001\r\n\r\n");
    say_bytes(fd, body, sizeof(body));
    assert_int_equal(hear(fd, text, sizeof(text)), 413);
    assert_non_null(strstr(text, "connection: close"));
    assert_non_null(strstr(text, "300,000"));
    assert_true(is_over(fd));
    close(fd);

    fd = open_connection();
    say(fd, "POST /0/exists HTTP/1.1\r\nContent-Length: 4\r\nOrigin: http://example.org\r\n\r\n");
    assert_int_equal(hear(fd, text, sizeof(text)), 403); /* the body was not waited for */
    assert_true(is_over(fd));
    close(fd);

    fd = open_connection();
    say(fd, "\x16\x03\x01");
    assert_int_equal(hear(fd, text, sizeof(text)), 400);
    assert_non_null(strstr(text, "Invalid HTTP request received."));
    assert_true(is_over(fd));
    close(fd);
    finish();
}

static void a_peer_that_does_not_read_holds_nobody(void **state)
{
    (void)state;
    enum { QUESTIONS = 20000 };
    start((struct shape){.threads = 1});
    int slow = open_connection(), other = open_connection();
    /* More answers than sockets hold: the server stops reading, so the questions pile up, too. */
    const char question[] = "GET /metrics HTTP/1.1\r\n\r\n";
    size_t asked = 0;
    struct buffer questions = {0};
    for (int i = 0; i < QUESTIONS; i++)
        buffer_append_text(&questions, question);
    while (asked < questions.length) {
        ssize_t n = send(slow, questions.data + asked, questions.length - asked,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
            break;
        asked += (size_t)n;
        say(other, HEALTH);
        assert_int_equal(hear_status(other), 200);
    }
    /* Every question that was taken is answered when the peer reads at last. */
    for (size_t i = 0; i < asked / strlen(question) && i < 300; i++)
        assert_int_equal(hear_status(slow), 200);
    say(other, HEALTH);
    assert_int_equal(hear_status(other), 200);
    buffer_done(&questions);
    close(slow);
    close(other);
    finish();
}

static void connections_beyond_the_limit_wait(void **state)
{
    (void)state;
    start((struct shape){.connections = 2});
    int first = open_connection(), second = open_connection(), third;
    say(first, HEALTH);
    assert_int_equal(hear_status(first), 200);
    say(second, HEALTH);
    assert_int_equal(hear_status(second), 200);
    third = open_connection(); /* the kernel's backlog takes it */
    say(third, HEALTH);
    close(first);
    assert_int_equal(hear_status(third), 200);
    close(second);
    close(third);
    finish();
}

/* The peer has closed, in whichever way; not that nothing came. */
static bool is_ended(int fd)
{
    char byte;
    errno = 0;
    return TEMP_FAILURE_RETRY(recv(fd, &byte, 1, 0)) <= 0 && errno != EAGAIN;
}

static int begin_body(const char *part, size_t length)
{
    char text[256];
    int fd = open_connection();
    say(fd, "POST /0/exists HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 200000\r\n\r\n");
    assert_int_equal(hear(fd, text, sizeof(text)), 100);
    say_bytes(fd, part, length);
    return fd;
}

static void bodies_beyond_the_budget_cost_the_oldest(void **state)
{
    (void)state;
    static char half[100000], text[1024];
    memset(half, ' ', sizeof(half));
    start((struct shape){.threads = 1, .buffered = 150000});
    int old = begin_body(half, sizeof(half)), new = begin_body(half, sizeof(half));
    assert_true(is_ended(old));
    say_bytes(new, half, sizeof(half));
    assert_int_equal(hear(new, text, sizeof(text)), 400); /* whole: and no JSON */
    close(old);
    close(new);
    finish();
}

/* A request whose body is `content` after so many spaces. */
static struct buffer make_long(const char *path, const char *headers, const char *content,
                               size_t length)
{
    struct buffer request = {0};
    buffer_append_format(&request, "POST %s HTTP/1.1\r\n%sContent-Length: %zu\r\n\r\n", path,
                         headers, length);
    assert_true(buffer_reserve(&request, length));
    memset(request.data + request.length, ' ', length);
    request.length += length;
    memcpy(request.data + request.length - strlen(content), content, strlen(content));
    return request;
}

/* As much of a request as the socket takes now; how much of it has been said. */
static size_t say_some(int fd, const struct buffer *request, size_t said)
{
    while (said < request->length) {
        ssize_t n =
            send(fd, request->data + said, request->length - said, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            assert_int_equal(errno, EAGAIN);
        if (n < 0)
            break;
        said += (size_t)n;
    }
    return said;
}

/* Whole bodies that wait count, too: what does not fit is left with the peers, and none of them is
 * given up. */
static void bodies_that_wait_are_bounded(void **state)
{
    (void)state;
    enum { PEERS = 12, BYTES = 2 << 20, BUDGET = 2 * BYTES, ROUNDS = 300, SMALL = 64 * 1024 };
    struct buffer request = make_long("/0/exists", "", "{\"keys\":[]}", BYTES);
    start((struct shape){.not_ready = true, .threads = 1, .body_max = BYTES, .buffered = BUDGET});
    int fds[PEERS], other = open_connection(), small = SMALL;
    size_t said[PEERS] = {0}, all = 0, whole = 0;
    for (int i = 0; i < PEERS; i++) {
        fds[i] = open_connection();
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PEERS; i++)
            said[i] = say_some(fds[i], &request, said[i]);
        say(other, HEALTH); /* the loop has had its turn with all of them */
        assert_int_equal(hear_status(other), 200);
    }
    for (int i = 0; i < PEERS; i++)
        all += said[i];
    assert_true(all >= BYTES);
    assert_true(all < PEERS * (size_t)BYTES / 2); /* the budget, and what sockets hold */
    server_ready(server, registry);
    while (whole < PEERS) {
        whole = 0;
        for (int i = 0; i < PEERS; i++) {
            said[i] = say_some(fds[i], &request, said[i]);
            whole += said[i] == request.length;
        }
        say(other, HEALTH);
        assert_int_equal(hear_status(other), 200);
    }
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(hear_status(fds[i]), 404); /* served: no such namespace */
        close(fds[i]);
    }
    close(other);
    buffer_done(&request);
    finish();
}

/* Long bodies that are begun and not sent take the room: they go, so that another gets through. */
static void a_long_body_that_others_wait_for_must_come(void **state)
{
    (void)state;
    enum { PEERS = 3, BYTES = 2 << 20, BUDGET = 2 * BYTES };
    struct buffer request = make_long("/0/exists", "", "{\"keys\":[]}", BYTES);
    start((struct shape){.threads = 1, .body_max = BYTES, .buffered = BUDGET, .stall_ms = 1});
    int fds[PEERS], status = 0;
    for (int i = 0; i < PEERS; i++) {
        fds[i] = open_connection();
        say_bytes(fds[i], request.data, BYTES / 2);
    }
    /* One that was not seen to send in time goes as well, and comes again. */
    while (status == 0) {
        char first;
        int fd = open_connection();
        size_t said = 0;
        while (said < request.length) {
            ssize_t n = TEMP_FAILURE_RETRY(
                send(fd, request.data + said, request.length - said, MSG_NOSIGNAL));
            if (n <= 0)
                break;
            said += (size_t)n;
        }
        if (said == request.length && TEMP_FAILURE_RETRY(recv(fd, &first, 1, MSG_PEEK)) == 1)
            status = hear_status(fd);
        close(fd);
    }
    assert_int_equal(status, 404);
    assert_true(is_ended(fds[0]));
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    buffer_done(&request);
    finish();
}

/* While the catalog of rank 0 is not let go, long bodies for it cannot be answered. */
static void short_work_does_not_wait_for_long_bodies(void **state)
{
    (void)state;
    enum { PEERS = 6 }; /* more than libuv has threads for them */
    struct buffer request = make_long("/0/exists", "", "{\"keys\":[]}", BODY_MAX);
    struct buffer last = make_long("/0/exists", "Connection: close\r\n", "{\"keys\":[]}", BODY_MAX);
    start((struct shape){.threads = 2});
    int fds[PEERS], other = open_connection();
    assert_int_equal(ask(other, "/0/initialize", "{\"num_pages\":4}"), 204);
    struct registry_entry *entry = registry_lock(registry, 0, "kv", 2);
    assert_non_null(entry);
    for (int i = 0; i < PEERS; i++) {
        const struct buffer *one = i % 2 == 0 ? &request : &last;
        fds[i] = open_connection();
        say_bytes(fds[i], one->data, one->length);
    }
    for (int i = 1; i < 20; i++) {
        char path[32];
        snprintf(path, sizeof(path), "/%d/initialize", i);
        assert_int_equal(ask(other, path, "{\"num_pages\":4}"), 204);
    }
    registry_unlock(entry);
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(hear_status(fds[i]), 200);
        close(fds[i]);
    }
    close(other);
    buffer_done(&request);
    buffer_done(&last);
    finish();
}

static void answers_beyond_the_budget_cost_who_does_not_read(void **state)
{
    (void)state;
    start((struct shape){.threads = 1, .buffered = 1});
    int slow = open_connection(), other = open_connection();
    const char question[] = "GET /metrics HTTP/1.1\r\n\r\n";
    while (send(slow, question, strlen(question), MSG_NOSIGNAL) > 0)
        continue;
    assert_true(errno == EPIPE || errno == ECONNRESET);
    say(other, HEALTH);
    assert_int_equal(hear_status(other), 200);
    close(slow);
    close(other);
    finish();
}

/* ---- A loop that stands still ----------------------------------------------------------------*/

static void wait_for(_Atomic uint64_t *counter, uint64_t value)
{
    uint64_t until_ms = clock_boot_ms() + HANG_S * 1000;
    while (atomic_load(counter) < value) {
        assert_true(clock_boot_ms() < until_ms);
        sched_yield();
    }
}

/* Of the first loop. */
static struct metrics *loop_metrics(void)
{
    return &service.workers[0]->metrics;
}

/* From here to thaw() the only loop stands still, and finds everything that is sent at once. */
static struct registry_entry *freeze(int fd)
{
    const char question[] = "POST /0/exists HTTP/1.1\r\nContent-Length: 11\r\n\r\n{\"keys\":[]}";
    struct registry_entry *entry = registry_lock(registry, 0, "kv", 2);
    uint64_t received = atomic_load(&loop_metrics()->bytes_received);
    assert_non_null(entry);
    say(fd, question);
    wait_for(&loop_metrics()->bytes_received, received + strlen(question));
    return entry;
}

static void thaw(struct registry_entry *entry, int fd)
{
    registry_unlock(entry);
    assert_int_equal(hear_status(fd), 200);
}

/* A single loop, whose rank 0 is for freeze(). */
static int start_alone(struct shape shape)
{
    shape.threads = 1;
    start(shape);
    int fd = open_connection();
    for (int rank = 0; rank < 3; rank++) {
        char path[32];
        snprintf(path, sizeof(path), "/%d/initialize", rank);
        assert_int_equal(ask(fd, path, "{\"num_pages\":64}"), 204);
    }
    return fd;
}

enum { LENGTHY_BYTES = 40000, ORDINARY_BYTES = 31000 };

/* Reserves a page for each of the keys `from` to `to` - 1, in a body of so many bytes. */
static void say_reserve(int fd, int from, int to, size_t body_bytes)
{
    struct buffer body = {0};
    for (int i = from; i < to; i++)
        buffer_append_format(&body, "%s[\"%d\",\"\"]", i == from ? "{\"keys\":[" : ",", i);
    buffer_append_text(&body, "]}");
    struct buffer request =
        make_long("/2/reserve_and_allocate_page_indices", "", buffer_text(&body), body_bytes);
    say_bytes(fd, request.data, request.length);
    buffer_done(&body);
    buffer_done(&request);
}

/* How many of the keys that were asked for had been reserved before. */
static int hear_reserved(int fd)
{
    static char text[1 << 16];
    int count = 0;
    assert_int_equal(hear(fd, text, sizeof(text)), 200);
    for (const char *at = text; (at = strstr(at, "true")) != NULL; at++)
        count++;
    return count;
}

static void open_all(int fds[], int n)
{
    uint64_t opened = atomic_load(&loop_metrics()->connections_opened);
    for (int i = 0; i < n; i++)
        fds[i] = open_connection();
    wait_for(&loop_metrics()->connections_opened, opened + (uint64_t)n);
}

static void close_all(const int fds[], int n)
{
    for (int i = 0; i < n; i++)
        close(fds[i]);
}

static void new_connections_are_served_at_once(void **state)
{
    (void)state;
    enum { NEW = 8 };
    int fds[NEW], control = start_alone((struct shape){0}), other = open_connection();
    assert_int_equal(ask(other, "/2/exists", "{\"keys\":[]}"), 200);
    open_all(fds, NEW);
    struct registry_entry *frozen = freeze(control);
    for (int i = 0; i < NEW; i++)
        say_reserve(fds[i], i, i + 1, 100);
    say_reserve(other, 0, NEW, 1000);
    thaw(frozen, control);
    assert_int_equal(hear_reserved(other), NEW);
    for (int i = 0; i < NEW; i++)
        assert_int_equal(hear_reserved(fds[i]), 0);
    close_all(fds, NEW);
    close(other);
    close(control);
    finish();
}

/* Thirty have a turn in one pass, so that those who ask for much have several in the next. Whoever
 * looks says so much first that its question is read in the pass after that. */
static void many_others_starve_nobody_who_asks_for_much(void **state)
{
    (void)state;
    enum { OTHERS = 30, CROWD = 12, BEFORE = 3 };
    int fds[OTHERS + CROWD + 1], control = start_alone((struct shape){0});
    const int *others = fds, *crowd = fds + OTHERS, *looker = crowd + CROWD;
    struct buffer before = make_long("/nope", "", "", ORDINARY_BYTES);
    open_all(fds, OTHERS + CROWD + 1);
    for (int i = 0; i < CROWD; i++) {
        say_reserve(crowd[i], CROWD, CROWD + 1, LENGTHY_BYTES);
        (void)hear_reserved(crowd[i]);
    }
    say(*looker, HEALTH);
    assert_int_equal(hear_status(*looker), 200);
    struct registry_entry *frozen = freeze(control);
    for (int i = 0; i < OTHERS; i++)
        say_reserve(others[i], CROWD, CROWD + 1, ORDINARY_BYTES);
    for (int i = 0; i < CROWD; i++)
        say_reserve(crowd[i], i, i + 1, LENGTHY_BYTES);
    for (int i = 0; i < BEFORE; i++)
        say_bytes(*looker, before.data, before.length);
    say_reserve(*looker, 0, CROWD, 1000);
    thaw(frozen, control);
    for (int i = 0; i < BEFORE; i++)
        assert_int_equal(hear_status(*looker), 404);
    assert_true(hear_reserved(*looker) > CROWD / 2);
    for (int i = 0; i < OTHERS + CROWD; i++)
        (void)hear_reserved(fds[i]);
    close_all(fds, OTHERS + CROWD + 1);
    close(control);
    buffer_done(&before);
    finish();
}

/* The last of those who ask for much makes the loop stand still again: by then the long body, which
 * comes in some twenty pieces, has come and is worked on. */
static void a_long_body_does_not_wait_for_all_lengthy_turns(void **state)
{
    (void)state;
    enum { CROWD = 40, LANE = 2 };
    int fds[CROWD + 1], control = start_alone((struct shape){0}), peer;
    struct buffer lengthy = make_long("/2/exists", "", "{\"keys\":[]}", LENGTHY_BYTES);
    struct buffer last = make_long("/1/exists", "", "{\"keys\":[]}", LENGTHY_BYTES);
    struct buffer body = make_long("/2/exists", "", "{\"keys\":[]}", BODY_MAX);
    const int buffer_bytes = 1 << 20;
    open_all(fds, CROWD + 1);
    peer = fds[CROWD];
    assert_int_equal(setsockopt(peer, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes)),
                     0);
    for (int i = 0; i < CROWD; i++) {
        say_bytes(fds[i], lengthy.data, lengthy.length);
        assert_int_equal(hear_status(fds[i]), 200);
    }
    struct registry_entry *frozen = freeze(control);
    struct registry_entry *barrier = registry_lock(registry, 1, "kv", 2);
    assert_non_null(barrier);
    for (int i = 0; i < CROWD; i++) {
        const struct buffer *one = i + 1 < CROWD ? &lengthy : &last;
        say_bytes(fds[i], one->data, one->length);
    }
    say_bytes(peer, body.data, body.length);
    thaw(frozen, control);
    wait_for(&service.workers[LANE]->metrics.requests[ENDPOINT_EXISTS][OUTCOME_OK], 1);
    registry_unlock(barrier);
    for (int i = 0; i < CROWD + 1; i++)
        assert_int_equal(hear_status(fds[i]), 200);
    close_all(fds, CROWD + 1);
    close(control);
    buffer_done(&lengthy);
    buffer_done(&last);
    buffer_done(&body);
    finish();
}

/* ---- Deadlines -------------------------------------------------------------------------------*/

static void a_head_that_is_not_complete_in_time_is_refused(void **state)
{
    (void)state;
    char text[1024];
    start((struct shape){.head_ms = 100});
    int fd = open_connection();
    say(fd, "GET /health HTTP/1.1\r\nX:");
    assert_int_equal(hear(fd, text, sizeof(text)), 408);
    assert_true(is_over(fd));
    close(fd);
    finish();
}

static void an_idle_connection_and_a_slow_body_end(void **state)
{
    (void)state;
    char text[1024];
    start((struct shape){.idle_ms = 100});
    int idle = open_connection(), slow = open_connection();
    say(slow, "POST /0/exists HTTP/1.1\r\nContent-Length: 3\r\n\r\n{");
    assert_true(is_over(idle));
    assert_int_equal(hear(slow, text, sizeof(text)), 408);
    assert_true(is_over(slow));
    close(idle);
    close(slow);
    finish();
}

static void pass_time(uint64_t ms)
{
    const struct timespec time = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

/* A loop that is busy for longer than the deadlines finds what came in time. False: this machine
 * was too slow for anything to come in time. */
static bool come_in_time(int control, uint64_t deadline_ms)
{
    const char part[] = "GET /health HTTP/1.1\r\nX:";
    const char rest[] = "POST /2/exists HTTP/1.1\r\nContent-Length: 11\r\n\r\n{";
    uint64_t start_ms = clock_boot_ms(), received = atomic_load(&loop_metrics()->bytes_received);
    int fds[3];
    open_all(fds, 3);
    const int idle = fds[0], head = fds[1], body = fds[2];
    say(head, part);
    say(body, rest);
    wait_for(&loop_metrics()->bytes_received, received + strlen(part) + strlen(rest));
    struct registry_entry *frozen = freeze(control);
    say(idle, HEALTH);
    say(head, "\r\n\r\n");
    say(body, "\"keys\":[]}");
    bool in_time = clock_boot_ms() - start_ms < deadline_ms / 2;
    pass_time(in_time ? deadline_ms + 500 : 0);
    thaw(frozen, control);
    for (int i = 0; i < 3 && in_time; i++)
        assert_int_equal(hear_status(fds[i]), 200);
    close_all(fds, 3);
    return in_time;
}

static void what_came_in_time_is_served_however_late(void **state)
{
    (void)state;
    enum { DEADLINE_MS = 1000 };
    bool in_time = false;
    for (int tries = 0; tries < 20 && !in_time; tries++) {
        int control = start_alone((struct shape){.head_ms = DEADLINE_MS, .idle_ms = DEADLINE_MS});
        in_time = come_in_time(control, DEADLINE_MS);
        close(control);
        finish();
    }
    if (!in_time) {
        print_message("skipped: nothing came within half a second on this machine\n");
        skip();
    }
}

/* It is idle for as long as the loop knows. */
static void a_connection_with_a_request_makes_no_room_for_another(void **state)
{
    (void)state;
    int control = start_alone((struct shape){.connections = 3}), idle = open_connection();
    say(idle, HEALTH);
    assert_int_equal(hear_status(idle), 200);
    struct registry_entry *frozen = freeze(control);
    int other = open_connection(); /* the kernel's backlog takes it */
    say(idle, HEALTH);
    say(other, HEALTH);
    pass_time(1500);
    thaw(frozen, control);
    assert_int_equal(hear_status(idle), 200);
    assert_int_equal(hear_status(other), 200);
    close(idle);
    close(other);
    close(control);
    finish();
}

/* ---- Start and stop --------------------------------------------------------------------------*/

static void requests_wait_until_the_catalogs_are_loaded(void **state)
{
    (void)state;
    start((struct shape){.not_ready = true, .threads = 1});
    int waiting = open_connection(), probe = open_connection();
    say(waiting, "POST /0/initialize HTTP/1.1\r\nContent-Length: 15\r\n\r\n{\"num_pages\":4}"
                 "POST /0/exists HTTP/1.1\r\nContent-Length: 11\r\n\r\n{\"keys\":[]}");
    say(probe, HEALTH);
    assert_int_equal(hear_status(probe), 200);
    say(probe, "GET /ready HTTP/1.1\r\n\r\n");
    assert_int_equal(hear_status(probe), 503);
    server_ready(server, registry);
    assert_int_equal(hear_status(waiting), 204);
    assert_int_equal(hear_status(waiting), 200);
    say(probe, "GET /ready HTTP/1.1\r\n\r\n");
    assert_int_equal(hear_status(probe), 200);
    close(waiting);
    close(probe);
    finish();
}

/* Nothing is kept for somebody who may not ask. */
static void a_refusal_does_not_wait_for_the_catalogs(void **state)
{
    (void)state;
    char text[1024];
    start((struct shape){.not_ready = true, .threads = 1});
    memcpy(service.auth.token, "secret", 7);
    service.auth.length = 6;
    int fd = open_connection();
    assert_int_equal(ask(fd, "/0/exists", "{\"keys\":[]}"), 401); /* head and body in one */
    assert_int_equal(ask(fd, "/0/initialize", "{\"num_pages\":4}"), 401);
    say(fd, "GET /metrics HTTP/1.1\r\n\r\n");
    assert_int_equal(hear(fd, text, sizeof(text)), 401);
    close(fd);
    finish();
}

static void *stop_thread(void *arg)
{
    (void)arg;
    server = server_stop(server, FOREVER_MS);
    return NULL;
}

static void a_stop_lets_requests_in_flight_end(void **state)
{
    (void)state;
    char text[1024];
    pthread_t thread;
    start((struct shape){.threads = 1});
    int idle = open_connection(), busy = open_connection();
    say(busy, "POST /0/initialize HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n");
    assert_int_equal(hear(busy, text, sizeof(text)), 100);
    assert_int_equal(pthread_create(&thread, NULL, stop_thread, NULL), 0);
    assert_true(is_over(idle)); /* the stop has begun */
    say(busy, "{\"num_pages\":4}");
    assert_int_equal(hear(busy, text, sizeof(text)), 204);
    assert_non_null(strstr(text, "connection: close"));
    assert_true(is_over(busy));
    close(idle);
    close(busy);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_null(server);
    finish();
}

static void a_stop_does_not_wait_for_ever(void **state)
{
    (void)state;
    start((struct shape){0});
    char text[1024];
    int busy = open_connection();
    say(busy, "POST /0/initialize HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n");
    assert_int_equal(hear(busy, text, sizeof(text)), 100);
    finish(); /* no grace */
    assert_true(is_over(busy));
    close(busy);
}

static void *stop_at_once_thread(void *arg)
{
    (void)arg;
    server = server_stop(server, 0);
    return NULL;
}

/* A long body is being worked on and cannot end; those behind it are not begun any more. */
static void a_stop_does_not_begin_what_waits(void **state)
{
    (void)state;
    enum { PEERS = 7 };
    pthread_t thread;
    start((struct shape){.threads = 1});
    int fds[PEERS], other = open_connection();
    assert_int_equal(ask(other, "/0/initialize", "{\"num_pages\":4}"), 204);
    struct registry_entry *entry = registry_lock(registry, 0, "kv", 2);
    assert_non_null(entry);
    for (int i = 0; i < PEERS; i++) {
        char path[32];
        snprintf(path, sizeof(path), i == 0 ? "/0/exists" : "/%d/initialize", i);
        struct buffer request =
            make_long(path, "", i == 0 ? "{\"keys\":[]}" : "{\"num_pages\":4}", BODY_MAX);
        fds[i] = open_connection();
        say_bytes(fds[i], request.data, request.length);
        for (int turn = 0; turn < 50; turn++) { /* the loop has taken it */
            say(other, HEALTH);
            assert_int_equal(hear_status(other), 200);
        }
        buffer_done(&request);
    }
    assert_int_equal(pthread_create(&thread, NULL, stop_at_once_thread, NULL), 0);
    for (int i = 0; i < PEERS; i++)
        assert_true(is_ended(fds[i]));
    registry_unlock(entry);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (uint32_t i = 1; i < PEERS; i++)
        assert_null(registry_lock(registry, i, "kv", 2));
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    close(other);
    finish();
}

static void a_port_in_use_is_said(void **state)
{
    (void)state;
    struct kvs_error error;
    struct server *second = NULL;
    start((struct shape){0});
    const struct server_options options = {
        .host = "127.0.0.1", .port = server_port(server), .threads = 1, .connections_max = 1};
    struct service other;
    service_init(&other, NULL, 0);
    assert_int_equal(server_start(&options, &other, &second, &error), KVS_ERR_LISTEN);
    assert_non_null(strstr(error.message, "in use"));
    assert_null(second);
    finish();
}

static void loopback_is_told_from_other_addresses(void **state)
{
    (void)state;
    assert_true(server_host_is_loopback("127.0.0.1"));
    assert_true(server_host_is_loopback("127.1.2.3"));
    assert_true(server_host_is_loopback("::1"));
    assert_false(server_host_is_loopback("0.0.0.0"));
    assert_false(server_host_is_loopback("::"));
    assert_false(server_host_is_loopback("10.0.0.1"));
    assert_false(server_host_is_loopback("256.0.0.1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_are_kept_and_pipelined),
        cmocka_unit_test(long_bodies_keep_their_place),
        cmocka_unit_test(a_body_of_many_reads_arrives_whole),
        cmocka_unit_test(requests_may_come_in_parts),
        cmocka_unit_test(a_refusal_reaches_a_peer_that_is_still_sending),
        cmocka_unit_test(a_peer_that_does_not_read_holds_nobody),
        cmocka_unit_test(connections_beyond_the_limit_wait),
        cmocka_unit_test(bodies_beyond_the_budget_cost_the_oldest),
        cmocka_unit_test(bodies_that_wait_are_bounded),
        cmocka_unit_test(a_long_body_that_others_wait_for_must_come),
        cmocka_unit_test(short_work_does_not_wait_for_long_bodies),
        cmocka_unit_test(answers_beyond_the_budget_cost_who_does_not_read),
        cmocka_unit_test(new_connections_are_served_at_once),
        cmocka_unit_test(many_others_starve_nobody_who_asks_for_much),
        cmocka_unit_test(a_long_body_does_not_wait_for_all_lengthy_turns),
        cmocka_unit_test(a_head_that_is_not_complete_in_time_is_refused),
        cmocka_unit_test(an_idle_connection_and_a_slow_body_end),
        cmocka_unit_test(what_came_in_time_is_served_however_late),
        cmocka_unit_test(a_connection_with_a_request_makes_no_room_for_another),
        cmocka_unit_test(requests_wait_until_the_catalogs_are_loaded),
        cmocka_unit_test(a_refusal_does_not_wait_for_the_catalogs),
        cmocka_unit_test(a_stop_lets_requests_in_flight_end),
        cmocka_unit_test(a_stop_does_not_begin_what_waits),
        cmocka_unit_test(a_stop_does_not_wait_for_ever),
        cmocka_unit_test(a_port_in_use_is_said),
        cmocka_unit_test(loopback_is_told_from_other_addresses),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
