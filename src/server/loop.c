/* One event loop: its thread, its deadlines, and the connections that are handed to it. */
#include "server/loop.h"

#include "base/clock.h"
#include "base/status.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ACCEPT_AT_ONCE = 64 };

/* ---- Accepting, on the first loop ------------------------------------------------------------*/

static void on_connections(uv_poll_t *poll, int status, int events);

static void set_accepting(struct loop *loop, bool accepting)
{
    if (loop->accepting == accepting)
        return;
    loop->accepting = accepting;
    atomic_store(&loop->server->accept_paused, !accepting);
    for (size_t i = 0; i < loop->listening_count; i++) {
        if (accepting)
            uv_poll_start(&loop->listening[i], UV_READABLE, on_connections);
        else
            uv_poll_stop(&loop->listening[i]);
    }
}

static bool has_room(const struct server *server)
{
    return atomic_load(&server->connections) < server->options.connections_max;
}

/* False when there is no more to accept. */
static bool accept_one(struct loop *loop, int listening)
{
    struct server *server = loop->server;
    int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            log_line(&server->options.log, KVS_LOG_WARNING,
                     "No connection can be accepted for now: %s; raise the limit of open files "
                     "(ulimit -n, LimitNOFILE=) or lower --max-connections",
                     strerror(errno));
            set_accepting(loop, false);
        }
        return errno == ECONNABORTED || errno == EINTR;
    }
    atomic_fetch_add(&server->connections, 1);
    size_t next = server->next++ % server->options.threads;
    loop_hand(&server->loops[next], fd, next == 0);
    return true;
}

static void on_connections(uv_poll_t *poll, int status, int events)
{
    struct loop *loop = poll->data;
    (void)events;
    int listening;
    if (status != 0 || uv_fileno((uv_handle_t *)poll, &listening) != 0)
        return;
    loop->now_ms = clock_boot_ms();
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        if (!has_room(loop->server)) {
            set_accepting(loop, false);
            return;
        }
        if (!accept_one(loop, listening))
            return;
    }
}

/* ---- Deadlines -------------------------------------------------------------------------------*/

static void write_date(struct loop *loop)
{
    time_t now = time(NULL);
    struct tm parts;
    gmtime_r(&now, &parts);
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    snprintf(loop->date, sizeof(loop->date), "%s, %02d %s %04d %02d:%02d:%02d GMT",
             days[parts.tm_wday], parts.tm_mday, months[parts.tm_mon], parts.tm_year + 1900,
             parts.tm_hour, parts.tm_min, parts.tm_sec);
}

static void expire(struct loop *loop)
{
    for (int phase = 0; phase < PHASES; phase++) {
        struct connection *c;
        while ((c = loop->phases[phase].first) != NULL && c->deadline_ms <= loop->now_ms)
            connection_expire(c);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    (void)handle;
}

/* Work that was not begun is taken back with its connection, or ends at once. */
static void close_all(struct loop *loop)
{
    atomic_store(&loop->server->cut, true);
    for (int phase = 0; phase < PHASES; phase++)
        while (loop->phases[phase].first != NULL)
            connection_close(loop->phases[phase].first);
}

/* Every connection is gone: nothing keeps the loop running. */
static void end(struct loop *loop)
{
    if (loop->ended)
        return;
    loop->ended = true;
    uv_close((uv_handle_t *)&loop->wake, on_handle_closed);
    uv_close((uv_handle_t *)&loop->tick, on_handle_closed);
    uv_close((uv_handle_t *)&loop->turns, on_handle_closed);
    uv_close((uv_handle_t *)&loop->before, on_handle_closed);
    if (lane_was_given(loop))
        lane_leave(loop);
}

static void on_tick(uv_timer_t *timer)
{
    struct loop *loop = timer->data;
    loop->now_ms = clock_boot_ms();
    write_date(loop);
    expire(loop);
    held_expire(loop);
    if (loop->listening_count > 0 && !loop->accepting && !loop->stopping && has_room(loop->server))
        set_accepting(loop, true);
    if (loop->stopping && loop->now_ms >= loop->stop_at_ms)
        close_all(loop);
    if (loop->stopping && loop->connections == 0)
        end(loop);
}

/* ---- Waking ----------------------------------------------------------------------------------*/

void loop_hand(struct loop *loop, int fd, bool own)
{
    if (own) {
        connection_open(loop, fd);
        return;
    }
    bool handed = true;
    pthread_mutex_lock(&loop->mutex);
    if (loop->handed_count == loop->handed_capacity) {
        size_t capacity = loop->handed_capacity == 0 ? ACCEPT_AT_ONCE : 2 * loop->handed_capacity;
        int *grown = realloc(loop->handed, capacity * sizeof(*grown));
        handed = grown != NULL;
        if (handed) {
            loop->handed = grown;
            loop->handed_capacity = capacity;
        }
    }
    if (handed)
        loop->handed[loop->handed_count++] = fd;
    pthread_mutex_unlock(&loop->mutex);
    if (handed) {
        uv_async_send(&loop->wake);
    } else {
        close(fd);
        atomic_fetch_sub(&loop->server->connections, 1);
    }
}

static void open_handed(struct loop *loop)
{
    int fds[ACCEPT_AT_ONCE];
    size_t n;
    do {
        pthread_mutex_lock(&loop->mutex);
        for (n = 0; n < ACCEPT_AT_ONCE && loop->handed_count > 0; n++)
            fds[n] = loop->handed[--loop->handed_count];
        pthread_mutex_unlock(&loop->mutex);
        for (size_t i = 0; i < n; i++)
            connection_open(loop, fds[i]);
    } while (n > 0);
}

static void stop(struct loop *loop)
{
    loop->stopping = true;
    loop->stop_at_ms = loop->now_ms + loop->server->grace_ms;
    if (loop->listening_count > 0)
        set_accepting(loop, false);
    for (size_t i = 0; i < loop->listening_count; i++)
        uv_close((uv_handle_t *)&loop->listening[i], on_handle_closed);
    struct connection *after;
    for (struct connection *c = loop->phases[PHASE_IDLE].first; c != NULL; c = after) {
        after = c->after;
        connection_stop(c);
    }
}

static void on_before(uv_prepare_t *before)
{
    turns_begin_pass(before->data);
    held_resume(before->data);
}

/* A connection that goes on waiting stays in the list, so the list is walked, not emptied. */
static void start_waiting(struct loop *loop)
{
    struct connection *after;
    for (struct connection *c = loop->phases[PHASE_HELD].first; c != NULL; c = after) {
        after = c->after;
        connection_start(c);
    }
}

static void on_wake(uv_async_t *wake)
{
    struct loop *loop = wake->data;
    struct server *server = loop->server;
    loop->now_ms = clock_boot_ms();
    open_handed(loop);
    if (atomic_load(&server->service->registry) != NULL)
        start_waiting(loop);
    if (lane_was_given(loop))
        connection_enter_lane(loop);
    if (atomic_load(&server->stopping) && !loop->stopping)
        stop(loop);
    else if (loop->listening_count > 0 && !loop->accepting && !loop->stopping && has_room(server))
        set_accepting(loop, true);
    if (loop->stopping && loop->connections == 0)
        end(loop);
}

/* ---- The loop's life -------------------------------------------------------------------------*/

enum kvs_status loop_init(struct loop *loop, struct server *server, struct worker *worker,
                          struct kvs_error *error)
{
    *loop = (struct loop){.server = server, .worker = worker, .now_ms = clock_boot_ms()};
    pthread_mutex_init(&loop->mutex, NULL);
    size_t threads = server->options.threads;
    loop->connections_share = (size_t)((server->options.connections_max + threads - 1) / threads);
    loop->input = malloc(LOOP_INPUT_BYTES);
    if (loop->input == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "starting an event loop");
    int failed = uv_loop_init(&loop->uv);
    if (failed != 0)
        return error_set(error, KVS_ERR_THREAD, "an event loop", uv_strerror(failed));
    loop->started = true;
    failed = uv_async_init(&loop->uv, &loop->wake, on_wake);
    if (failed != 0)
        return error_set(error, KVS_ERR_THREAD, "an event loop", uv_strerror(failed));
    uv_timer_init(&loop->uv, &loop->tick);
    uv_idle_init(&loop->uv, &loop->turns);
    uv_prepare_init(&loop->uv, &loop->before);
    loop->wake.data = loop->tick.data = loop->turns.data = loop->before.data = loop;
    write_date(loop);
    return KVS_OK;
}

static enum kvs_status listen_on(struct loop *loop, struct kvs_error *error)
{
    const struct server *server = loop->server;
    loop->listening = calloc(server->socket_count, sizeof(*loop->listening));
    if (loop->listening == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "listening");
    for (size_t i = 0; i < server->socket_count; i++) {
        int failed = uv_poll_init(&loop->uv, &loop->listening[i], server->sockets[i]);
        if (failed != 0)
            return error_set(error, KVS_ERR_THREAD, "an event loop", uv_strerror(failed));
        loop->listening[i].data = loop;
        loop->listening_count++;
    }
    set_accepting(loop, true);
    return KVS_OK;
}

static void *loop_thread(void *arg)
{
    struct loop *loop = arg;
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    return NULL;
}

enum kvs_status loop_start(struct loop *loop, struct kvs_error *error)
{
    uv_timer_start(&loop->tick, on_tick, LOOP_TICK_MS, LOOP_TICK_MS);
    uv_prepare_start(&loop->before, on_before);
    if (loop == &loop->server->loops[0]) {
        enum kvs_status status = listen_on(loop, error);
        if (status != KVS_OK)
            return status;
    }
    int failed = pthread_create(&loop->thread, NULL, loop_thread, loop);
    if (failed != 0)
        return error_set(error, KVS_ERR_THREAD, "an event loop", strerror(failed));
    return KVS_OK;
}

void loop_done(struct loop *loop)
{
    if (loop->started) {
        if (!loop->ended) { /* never ran */
            for (size_t i = 0; i < loop->listening_count; i++)
                uv_close((uv_handle_t *)&loop->listening[i], on_handle_closed);
            if (loop->wake.data != NULL)
                end(loop);
        }
        uv_run(&loop->uv, UV_RUN_DEFAULT);
        uv_loop_close(&loop->uv);
    }
    for (size_t i = 0; i < loop->handed_count; i++)
        close(loop->handed[i]);
    free(loop->handed);
    free(loop->listening);
    free(loop->input);
    buffer_done(&loop->out);
    pthread_mutex_destroy(&loop->mutex);
}
