/* A closed-loop load: some connections, each sending its next request when the one before has been
 * answered. Speaks the metadata protocol over HTTP, or Redis with as many keys of 64 bytes, so that
 * both are measured by the same program. Used by bench/server/run.py.
 *
 *   bench_load --port N --op fill|get|exists|cycle|stall [--resp] [--connections N] [--keys N]
 *              [--pages N] [--first ID] [--requests N] [--rank N] [--pause-us N]
 *
 *   fill, cycle   reserve and confirm `keys` new keys a request, ids from --first on (Redis: MSET)
 *   get, exists   `keys` random keys among ids 0 to --pages - 1 (Redis: MGET, EXISTS)
 *   stall         get on all connections but the last, which all the while reserves `keys` new keys
 * on the next rank and releases their pages: only the gets are timed
 *
 * A connection waits for --pause-us between an answer and its next request: 0 measures what a
 * server can take, a pause what requests wait for in a server that is not overloaded. Without a
 * pause the load never sleeps, so that no server pays for waking it.
 *
 * Prints one JSON object. Latencies are of whole cycles. `worst_running_us` leaves out the requests
 * that were under way while the load itself, which never sleeps, stood still for over a
 * millisecond: its core was taken away, by the kernel or by the host of a virtual machine. Any
 * unexpected answer ends the program. */
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEY_CHARS = 64, PREPARED = 512, CONNECTIONS_MAX = 1024, INPUT_BYTES = 1 << 18 };
enum { STOOD_STILL_NS = 1000 * 1000, SILENCE_S = 60 };

struct text {
    char *bytes;
    size_t length, room;
};

struct settings {
    uint16_t port;
    const char *op;
    bool resp, writes, stall;
    unsigned connections, keys, rank;
    uint64_t pages, first, requests, pause_us;
};

struct connection {
    int fd;
    bool writes, confirming; /* this one reserves; and now says what became of it */
    bool stood_still;        /* the load, while this request was under way */
    uint64_t first_id, started_ns, due_ns;
    struct text out, confirm;
    const struct text *sending;
    size_t received;
    char *in;
};

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "bench_load: %s (%s)\n", what, strerror(errno));
    exit(1);
}

/* ---- texts -----------------------------------------------------------------------------------*/

static void add(struct text *text, const char *bytes, size_t length)
{
    if (text->length + length > text->room) {
        text->room = 2 * (text->length + length) + 256;
        text->bytes = realloc(text->bytes, text->room);
        if (text->bytes == NULL)
            fail("no memory");
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

static void add_text(struct text *text, const char *string)
{
    add(text, string, strlen(string));
}

static void add_number(struct text *text, uint64_t number)
{
    char digits[24];
    add(text, digits, (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)number));
}

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

/* By table: the load must not be what is measured. */
static void add_key(struct text *text, uint64_t id)
{
    static const char digits[] = "0123456789abcdef";
    char key[KEY_CHARS];
    for (unsigned part = 0; part < 4; part++) {
        uint64_t word = mix(id * 4 + part);
        for (unsigned i = 0; i < 16; i++, word >>= 4)
            key[part * 16 + i] = digits[word & 15];
    }
    add(text, key, KEY_CHARS);
}

/* ---- requests --------------------------------------------------------------------------------*/

static void add_head(struct text *out, unsigned rank, const char *endpoint, size_t length)
{
    char head[256];
    add(out, head,
        (size_t)snprintf(head, sizeof head,
                         "POST /%u/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                         "application/json\r\nContent-Length: %zu\r\n\r\n",
                         rank, endpoint, length));
}

static uint64_t id_of(const struct settings *settings, uint64_t first, unsigned i)
{
    return settings->writes ? first + i : mix(first + i) % settings->pages;
}

static void make_lookup(const struct settings *settings, uint64_t first, struct text *out)
{
    struct text body = {0};
    bool get = strcmp(settings->op, "exists") != 0;
    add_text(&body, "{\"keys\":[");
    for (unsigned i = 0; i < settings->keys; i++) {
        add_text(&body, i == 0 ? "\"" : ",\"");
        add_key(&body, id_of(settings, first, i));
        add_text(&body, "\"");
    }
    add_text(&body, "],\"namespace\":\"kv\"}");
    add_head(out, settings->rank, get ? "get_page_indices" : "exists", body.length);
    add(out, body.bytes, body.length);
    free(body.bytes);
}

/* While stalls are looked for, pages come and go beside the keys that are asked for. */
static unsigned writing_rank(const struct settings *settings)
{
    return settings->rank + (settings->stall ? 1 : 0);
}

static void make_reserve(const struct settings *settings, uint64_t first, struct text *out)
{
    struct text body = {0};
    add_text(&body, "{\"keys\":[");
    for (unsigned i = 0; i < settings->keys; i++) {
        add_text(&body, i == 0 ? "[\"" : ",[\"");
        add_key(&body, first + i);
        add_text(&body, "\",\"\"]");
    }
    add_text(&body, "],\"namespace\":\"kv\"}");
    add_head(out, writing_rank(settings), "reserve_and_allocate_page_indices", body.length);
    add(out, body.bytes, body.length);
    free(body.bytes);
}

/* From the answer {"indices":[[false,7],...]}: every key must have got a page to write. The keys
 * are copied from the request that was answered. */
static void make_confirm(const struct settings *settings, const struct text *asked,
                         const char *answer, struct text *out)
{
    enum { STRIDE = KEY_CHARS + sizeof "\",\"\"],[\"" - 1 };
    struct text body = {0};
    const char *keys = (const char *)memmem(asked->bytes, asked->length, "[[\"", 3) + 3;
    add_text(&body, settings->stall ? "{\"pages_to_release\":[" : "{\"written_keys_to_confirm\":[");
    const char *at = answer;
    for (unsigned i = 0; i < settings->keys; i++) {
        at = strstr(at, "[false,");
        if (at == NULL || at[7] == '-')
            fail("a key got no page");
        at += 7;
        if (i > 0)
            add_text(&body, ",");
        if (!settings->stall) {
            add_text(&body, "[\"");
            add(&body, keys + (size_t)i * STRIDE, KEY_CHARS);
            add_text(&body, "\",");
        }
        add(&body, at, strspn(at, "0123456789"));
        if (!settings->stall)
            add_text(&body, "]");
    }
    add_text(&body, "],\"namespace\":\"kv\"}");
    add_head(out, writing_rank(settings), "confirm_write", body.length);
    add(out, body.bytes, body.length);
    free(body.bytes);
}

static void make_resp(const struct settings *settings, uint64_t first, struct text *out)
{
    bool get = strcmp(settings->op, "get") == 0;
    const char *command = settings->writes ? "MSET" : get ? "MGET" : "EXISTS";
    add_text(out, "*");
    add_number(out, 1 + (uint64_t)settings->keys * (settings->writes ? 2 : 1));
    add_text(out, "\r\n$");
    add_number(out, strlen(command));
    add_text(out, "\r\n");
    add_text(out, command);
    add_text(out, "\r\n");
    for (unsigned i = 0; i < settings->keys; i++)
        for (unsigned value = 0; value < (settings->writes ? 2U : 1U); value++) {
            add_text(out, "$64\r\n");
            add_key(out, id_of(settings, first, i));
            add_text(out, "\r\n");
        }
}

/* ---- answers ---------------------------------------------------------------------------------*/

/* Bytes of the whole answer at the start of `in` (NUL behind it), or 0 when it has not all come. */
static size_t http_answer(const char *in, size_t length)
{
    const char *end = strstr(in, "\r\n\r\n");
    if (end == NULL)
        return 0;
    if (strncmp(in, "HTTP/1.1 20", 11) != 0)
        fail(in);
    size_t head = (size_t)(end - in) + 4, body = 0;
    if (in[11] != '4') {
        const char *field = strcasestr(in, "content-length:");
        if (field == NULL)
            fail("an answer without content-length");
        body = strtoul(field + 15, NULL, 10);
    }
    return length >= head + body ? head + body : 0;
}

static size_t resp_answer(const struct settings *settings, const char *in, size_t length)
{
    if (length > 0 && in[0] == '-')
        fail(in);
    const char *line = memchr(in, '\n', length);
    if (line == NULL)
        return 0;
    size_t head = (size_t)(line - in) + 1;
    if (in[0] != '*')
        return head;
    size_t whole = head + settings->keys * sizeof "$64\r\n" - settings->keys +
                   (size_t)settings->keys * (KEY_CHARS + 2);
    if (length >= head + 2 && in[head + 1] == '-')
        fail("a key is not there");
    return length >= whole ? whole : 0;
}

/* ---- running ---------------------------------------------------------------------------------*/

struct run {
    struct settings settings;
    struct text prepared[PREPARED];
    struct connection connections[CONNECTIONS_MAX];
    uint32_t *latencies; /* of 100 ns */
    uint64_t sent, answered, next_id, checked, released;
    uint64_t worst_running_ns, stood_still, looked_ns;
    /* A ring of those that pause; all for as long, so the first is due first. */
    struct connection *pausing[CONNECTIONS_MAX];
    unsigned first_pausing, pausing_count;
    int epoll;
};

static void send_all(struct connection *connection)
{
    const struct text *text = connection->sending;
    for (size_t sent = 0; sent < text->length;) {
        ssize_t n = send(connection->fd, text->bytes + sent, text->length - sent, MSG_NOSIGNAL);
        if (n < 0)
            fail("sending");
        sent += (size_t)n;
    }
}

static void begin(struct run *run, struct connection *connection)
{
    const struct settings *settings = &run->settings;
    if (run->sent == settings->requests)
        return;
    if (!(settings->stall && connection->writes))
        run->sent++;
    if (connection->writes) {
        connection->first_id = run->next_id;
        run->next_id += settings->keys;
        connection->out.length = 0;
        if (settings->resp)
            make_resp(settings, connection->first_id, &connection->out);
        else
            make_reserve(settings, connection->first_id, &connection->out);
        connection->sending = &connection->out;
    } else {
        connection->sending = &run->prepared[run->sent % PREPARED];
    }
    connection->confirming = connection->stood_still = false;
    connection->received = 0;
    connection->started_ns = clock_mono_ns();
    send_all(connection);
}

static void begin_later(struct run *run, struct connection *connection)
{
    if (run->settings.pause_us == 0) {
        begin(run, connection);
        return;
    }
    connection->due_ns = clock_mono_ns() + run->settings.pause_us * 1000;
    run->pausing[(run->first_pausing + run->pausing_count++) % CONNECTIONS_MAX] = connection;
}

static void begin_due(struct run *run)
{
    while (run->pausing_count > 0 && run->pausing[run->first_pausing]->due_ns <= clock_mono_ns()) {
        struct connection *connection = run->pausing[run->first_pausing];
        run->first_pausing = (run->first_pausing + 1) % CONNECTIONS_MAX;
        run->pausing_count--;
        begin(run, connection);
    }
}

/* Sleeps until there are answers, no longer than to the next request that is due. */
static int sleep_for_events(const struct run *run, struct epoll_event events[], int max)
{
    struct timespec wait = {.tv_sec = SILENCE_S};
    if (run->pausing_count > 0) {
        uint64_t due = run->pausing[run->first_pausing]->due_ns, now = clock_mono_ns();
        uint64_t ns = due > now ? due - now : 0;
        wait = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    }
    int n = epoll_pwait2(run->epoll, events, max, &wait, NULL);
    if (n == 0 && wait.tv_sec == SILENCE_S)
        fail("no answer for a minute");
    return n;
}

/* Called over and over: who comes late has stood still, and so have those that wait. */
static void look_at_clock(struct run *run)
{
    uint64_t now_ns = clock_mono_ns();
    if (now_ns - run->looked_ns > STOOD_STILL_NS && run->looked_ns != 0)
        for (unsigned i = 0; i < run->settings.connections; i++)
            run->connections[i].stood_still = true;
    run->looked_ns = now_ns;
}

static int spin_for_events(struct run *run, struct epoll_event events[], int max)
{
    uint64_t since_ns = clock_mono_ns();
    int n;
    do {
        n = epoll_wait(run->epoll, events, max, 0);
        look_at_clock(run);
        if (run->looked_ns - since_ns > SILENCE_S * UINT64_C(1000000000))
            fail("no answer for a minute");
    } while (n == 0);
    return n;
}

static void answered(struct run *run, struct connection *connection)
{
    const struct settings *settings = &run->settings;
    if (connection->writes && !settings->resp && !connection->confirming) {
        connection->confirm.length = 0;
        make_confirm(settings, &connection->out, connection->in, &connection->confirm);
        connection->sending = &connection->confirm;
        connection->confirming = true;
        connection->received = 0;
        send_all(connection);
        return;
    }
    if (settings->stall && connection->writes) {
        run->released++;
        begin_later(run, connection);
        return;
    }
    uint64_t took_ns = clock_mono_ns() - connection->started_ns;
    run->latencies[run->answered++] =
        took_ns / 100 > UINT32_MAX ? UINT32_MAX : (uint32_t)(took_ns / 100);
    if (connection->stood_still)
        run->stood_still++;
    else if (took_ns > run->worst_running_ns)
        run->worst_running_ns = took_ns;
    if (!settings->writes && !settings->resp && run->checked++ < 64 &&
        (strstr(connection->in, "null") != NULL || strstr(connection->in, "false") != NULL))
        fail("a key is not there");
    begin_later(run, connection);
}

static void readable(struct run *run, struct connection *connection)
{
    ssize_t n = recv(connection->fd, connection->in + connection->received,
                     INPUT_BYTES - 1 - connection->received, 0);
    if (n <= 0)
        fail("the server closed a connection");
    connection->received += (size_t)n;
    connection->in[connection->received] = '\0';
    size_t whole = run->settings.resp
                       ? resp_answer(&run->settings, connection->in, connection->received)
                       : http_answer(connection->in, connection->received);
    if (whole == connection->received)
        answered(run, connection);
    else if (whole != 0)
        fail("more than one answer came");
}

static void connect_all(struct run *run)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(run->settings.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    run->epoll = epoll_create1(0);
    for (unsigned i = 0; i < run->settings.connections; i++) {
        struct connection *connection = &run->connections[i];
        connection->writes =
            run->settings.writes || (run->settings.stall && i + 1 == run->settings.connections);
        connection->fd = socket(AF_INET, SOCK_STREAM, 0);
        connection->in = malloc(INPUT_BYTES);
        if (connection->in == NULL ||
            connect(connection->fd, (struct sockaddr *)&address, sizeof address) != 0)
            fail("connecting");
        int one = 1;
        setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        epoll_ctl(run->epoll, EPOLL_CTL_ADD, connection->fd, &event);
    }
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void print(const struct run *run, uint64_t took_ns)
{
    const struct settings *settings = &run->settings;
    uint64_t n = run->answered;
    qsort(run->latencies, n, sizeof *run->latencies, by_value);
    printf("{\"op\":\"%s\",\"keys\":%u,\"connections\":%u,\"requests\":%llu,\"seconds\":%.4f,"
           "\"per_s\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"worst_us\":%.1f,\"worst_running_us\":%"
           ".1f,"
           "\"stood_still\":%llu,\"releases\":%llu}\n",
           settings->op, settings->keys, settings->connections, (unsigned long long)n,
           (double)took_ns / 1e9, (double)n * 1e9 / (double)took_ns, run->latencies[n / 2] / 10.0,
           run->latencies[n * 99 / 100] / 10.0, run->latencies[n - 1] / 10.0,
           (double)run->worst_running_ns / 1e3, (unsigned long long)run->stood_still,
           (unsigned long long)run->released);
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0')
        fail("a number was expected");
    return value;
}

static struct settings read_settings(int argc, char **argv)
{
    struct settings s = {.op = "get", .connections = 1, .keys = 1, .pages = 1, .requests = 1};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--resp") == 0) {
            s.resp = true;
            continue;
        }
        if (i + 1 == argc)
            fail("an option without a value");
        const char *value = argv[++i];
        if (strcmp(name, "--op") == 0)
            s.op = value;
        else if (strcmp(name, "--port") == 0)
            s.port = (uint16_t)number(value);
        else if (strcmp(name, "--connections") == 0)
            s.connections = (unsigned)number(value);
        else if (strcmp(name, "--keys") == 0)
            s.keys = (unsigned)number(value);
        else if (strcmp(name, "--rank") == 0)
            s.rank = (unsigned)number(value);
        else if (strcmp(name, "--pages") == 0)
            s.pages = number(value);
        else if (strcmp(name, "--first") == 0)
            s.first = number(value);
        else if (strcmp(name, "--requests") == 0)
            s.requests = number(value);
        else if (strcmp(name, "--pause-us") == 0)
            s.pause_us = number(value);
        else
            fail("unknown option");
    }
    s.writes = strcmp(s.op, "fill") == 0 || strcmp(s.op, "cycle") == 0;
    s.stall = strcmp(s.op, "stall") == 0;
    if (s.connections == 0 || s.connections > CONNECTIONS_MAX || s.keys == 0 || s.pages == 0 ||
        s.requests == 0)
        fail("a setting is out of range");
    return s;
}

int main(int argc, char **argv)
{
    static struct run run;
    run.settings = read_settings(argc, argv);
    run.next_id = run.settings.first;
    run.latencies = malloc(run.settings.requests * sizeof *run.latencies);
    if (run.latencies == NULL)
        fail("no memory");
    for (unsigned i = 0; !run.settings.writes && i < PREPARED; i++) {
        uint64_t first = run.settings.first + (uint64_t)i * run.settings.keys;
        if (run.settings.resp)
            make_resp(&run.settings, first, &run.prepared[i]);
        else
            make_lookup(&run.settings, first, &run.prepared[i]);
    }
    prctl(PR_SET_TIMERSLACK, 1UL);
    connect_all(&run);
    uint64_t started_ns = clock_mono_ns();
    for (unsigned i = 0; i < run.settings.connections; i++)
        begin(&run, &run.connections[i]);
    while (run.answered < run.settings.requests) {
        struct epoll_event events[64];
        int n = run.settings.pause_us == 0 ? spin_for_events(&run, events, 64)
                                           : sleep_for_events(&run, events, 64);
        for (int i = 0; i < n; i++)
            readable(&run, events[i].data.ptr);
        begin_due(&run);
    }
    print(&run, clock_mono_ns() - started_ns);
    return 0;
}
