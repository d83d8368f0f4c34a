/* One connection: bytes in, answers out, and what it is waited for.
 *
 * Input is parsed where it was read; only what has to wait is copied. Answers of pipelined requests
 * are gathered and written at once; when the peer does not take them, they are kept and nothing
 * more is read until they are gone. */
#include "base/clock.h"
#include "server/loop.h"

#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void run(struct connection *c, const char *at, const char *end);

static const struct server_options *options_of(const struct connection *c)
{
    return &c->loop->server->options;
}

static struct metrics *metrics_of(const struct connection *c)
{
    return &c->loop->worker->metrics;
}

/* ---- Phases ----------------------------------------------------------------------------------*/

static void leave_phase(struct connection *c)
{
    struct connection_list *list = &c->loop->phases[c->phase];
    *(c->before == NULL ? &list->first : &c->before->after) = c->after;
    *(c->after == NULL ? &list->last : &c->after->before) = c->before;
    c->before = c->after = NULL;
}

static void enter_phase(struct connection *c, enum phase phase, uint64_t timeout_ms)
{
    struct connection_list *list = &c->loop->phases[phase];
    c->phase = phase;
    c->since_ms = c->loop->now_ms;
    c->deadline_ms = c->loop->now_ms + timeout_ms;
    c->before = list->last;
    *(list->last == NULL ? &list->first : &list->last->after) = c;
    list->last = c;
}

static uint64_t timeout_of(const struct connection *c, enum phase phase)
{
    switch (phase) {
    case PHASE_HEAD:
        return options_of(c)->head_ms;
    case PHASE_HELD:
        return UINT64_MAX / 2;
    case PHASE_LINGER:
        return LOOP_LINGER_MS;
    default:
        return options_of(c)->idle_ms;
    }
}

/* A phase that goes on keeps its deadline, unless a request was served meanwhile: one byte at a
 * time does not buy time. */
static void set_phase(struct connection *c, enum phase phase)
{
    if (phase == c->phase && !c->served)
        return;
    c->served = false;
    leave_phase(c);
    enter_phase(c, phase, timeout_of(c, phase));
}

static enum phase phase_of(const struct connection *c)
{
    if (c->writing)
        return PHASE_WRITE;
    if (c->working || c->waits_for_start || c->waits_for_lane || c->yields)
        return PHASE_HELD;
    if (http_is_between(&c->parser))
        return PHASE_IDLE;
    if (c->parser.phase == HTTP_IN_HEAD)
        return PHASE_HEAD;
    return http_body_length(&c->parser) > REQUEST_LONG_BYTES ? PHASE_LONG : PHASE_BODY;
}

static bool is_held(const struct connection *c)
{
    return c->writing || c->working || c->waits_for_start || c->waits_for_lane || c->yields;
}

/* ---- Reading ---------------------------------------------------------------------------------*/

/* libuv reads on, up to 32 times, as long as the buffer is filled each time: 8 MiB of one peer
 * before the others have their turn. No buffer ends that; the rest is read in the next round. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    (void)suggested;
    struct connection *c = (struct connection *)(void *)handle;
    unsigned room = 0;
    if (!c->filled && turns_allow(c))
        room = held_room(c);
    else if (!c->filled)
        turns_wait(c);
    *ret_buffer = uv_buf_init(c->loop->input, room);
    c->filled = false;
}

static void set_reading(struct connection *c, bool reading);

static void wait_for_room(struct connection *c)
{
    if (!held_must_wait(c))
        return;
    *(c->phase == PHASE_LONG ? &c->loop->long_wait : &c->loop->short_wait) = true;
    c->delayed = true;
    set_reading(c, false);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct connection *c = (struct connection *)(void *)stream;
    if (n == UV_ENOBUFS && c->queue != NULL)
        set_reading(c, false);
    else if (n == UV_ENOBUFS)
        wait_for_room(c);
    if (n == 0 || n == UV_ENOBUFS)
        return;
    c->filled = n == (ssize_t)buffer->len;
    c->loop->now_ms = clock_boot_ms();
    if (n < 0) {
        c->ended = true;
        if (n != UV_EOF || c->phase == PHASE_LINGER || !is_held(c))
            connection_close(c);
        return;
    }
    metrics_add(&metrics_of(c)->bytes_received, (uint64_t)n);
    if (c->phase != PHASE_LINGER)
        run(c, buffer->base, buffer->base + n);
}

static void set_reading(struct connection *c, bool reading)
{
    if (c->reading == reading || c->closed)
        return;
    c->reading = reading;
    if (!reading)
        uv_read_stop((uv_stream_t *)&c->tcp);
    else if (uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0)
        connection_close(c);
}

void connection_resume(struct connection *c)
{
    if (c->queue == NULL)
        set_reading(c, true);
}

/* ---- Closing ---------------------------------------------------------------------------------*/

static void release(struct connection *c)
{
    held_forget(c);
    http_parser_done(&c->parser);
    buffer_done(&c->pending);
    buffer_done(&c->unsent);
    buffer_done(&c->job_answer);
    buffer_done(&c->job_body);
    free(c);
}

/* On a thread of libuv's pool. */
static void on_discard(uv_work_t *work)
{
    struct connection *c = work->data;
    http_parser_done(&c->parser);
    buffer_done(&c->unsent);
    buffer_done(&c->job_body);
}

static void after_discard(uv_work_t *work, int status)
{
    (void)status;
    release(work->data);
}

/* Half of a long body, when it is given up, takes milliseconds to free. */
static void discard(struct connection *c)
{
    c->work.data = c;
    size_t bytes = c->parser.body.capacity + c->unsent.capacity +
                   (c->job_body.data == NULL ? 0 : c->job_body.capacity);
    if (bytes <= LOOP_FREED_MAX ||
        uv_queue_work(&c->loop->uv, &c->work, on_discard, after_discard) != 0)
        release(c);
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *c = (struct connection *)(void *)handle;
    c->freed = true;
    if (!c->working)
        discard(c);
}

/* Work that no thread has begun is not done; what was begun is waited for, its answer dropped. */
static void give_up_work(struct connection *c)
{
    if (c->waits_for_lane)
        lane_stop_waiting(c->loop);
    c->waits_for_lane = false;
    if (c->working)
        (void)uv_cancel((uv_req_t *)&c->work);
}

void connection_close(struct connection *c)
{
    if (c->closed)
        return;
    c->closed = true;
    struct loop *loop = c->loop;
    struct server *server = loop->server;
    leave_phase(c);
    loop->connections--;
    give_up_work(c);
    turns_leave(c);
    held_count(c);
    if (loop->awaited == c)
        loop->awaited = NULL;
    loop->unsent_bytes -= c->unsent.length;
    metrics_add(&loop->worker->metrics.connections_closed, 1);
    uv_close((uv_handle_t *)&c->tcp, on_closed);
    atomic_fetch_sub(&server->connections, 1);
    if (atomic_load(&server->accept_paused))
        uv_async_send(&server->loops[0].wake);
}

void connection_end(struct connection *c, enum metrics_end reason)
{
    metrics_add(&metrics_of(c)->ended[reason], 1);
    connection_close(c);
}

/* The last answer is written: the peer is told, and gets a moment to take it. Closing at once would
 * make the kernel throw the answer away when there is input that nobody read. */
static void linger(struct connection *c)
{
    int fd;
    if (c->ended || uv_fileno((uv_handle_t *)&c->tcp, &fd) != 0 || shutdown(fd, SHUT_WR) != 0) {
        connection_close(c);
        return;
    }
    c->served = true;
    set_phase(c, PHASE_LINGER);
    held_count(c);
    set_reading(c, true);
}

/* ---- Writing ---------------------------------------------------------------------------------*/

static void go_on(struct connection *c);

static void on_written(uv_write_t *write, int status)
{
    struct connection *c = write->data;
    if (c->closed)
        return;
    c->loop->now_ms = clock_boot_ms();
    c->writing = false;
    c->loop->unsent_bytes -= c->unsent.length;
    metrics_add(&metrics_of(c)->bytes_sent, c->unsent.length);
    if (c->unsent.capacity > LOOP_KEPT_MAX)
        buffer_done(&c->unsent);
    else
        buffer_clear(&c->unsent);
    if (status != 0) {
        connection_close(c);
        return;
    }
    c->served = true;
    go_on(c);
}

/* Peers that do not read share a budget; beyond it the one that has not read for longest goes. */
static void bound_unsent(struct loop *loop, size_t budget)
{
    while (loop->unsent_bytes > budget && loop->phases[PHASE_WRITE].first != NULL)
        connection_end(loop->phases[PHASE_WRITE].first, END_UNREAD);
}

static void keep_unsent(struct connection *c, const char *bytes, size_t length)
{
    buffer_append(&c->unsent, bytes, length);
    if (c->unsent.failed) {
        buffer_clear(&c->unsent);
        connection_close(c);
        return;
    }
    uv_buf_t rest = uv_buf_init(c->unsent.data, (unsigned)c->unsent.length);
    c->write.data = c;
    c->loop->unsent_bytes += c->unsent.length;
    c->unsent_left = c->unsent.length;
    c->writing = true;
    if (uv_write(&c->write, (uv_stream_t *)&c->tcp, &rest, 1, on_written) != 0) {
        c->writing = false;
        connection_close(c);
        return;
    }
    set_phase(c, PHASE_WRITE);
    bound_unsent(c->loop, held_budget(c->loop));
}

/* Writes what has been gathered. */
static void flush(struct connection *c)
{
    struct buffer *out = &c->loop->out;
    if (out->failed) {
        buffer_clear(out);
        connection_close(c);
        return;
    }
    size_t length = out->length;
    if (length == 0)
        return;
    uv_buf_t bytes = uv_buf_init(out->data, (unsigned)length);
    int written = uv_try_write((uv_stream_t *)&c->tcp, &bytes, 1);
    if (written < 0 && written != UV_EAGAIN) {
        buffer_clear(out);
        connection_close(c);
        return;
    }
    size_t done = written > 0 ? (size_t)written : 0;
    metrics_add(&metrics_of(c)->bytes_sent, done);
    if (done < length)
        keep_unsent(c, out->data + done, length - done);
    if (out->capacity > 4 * LOOP_FLUSH_BYTES)
        buffer_done(out);
    else
        buffer_clear(out);
}

/* ---- Answering -------------------------------------------------------------------------------*/

static void write_answer(const struct connection *c, struct buffer *out,
                         const struct answer *answer, const char *date)
{
    const struct http_answer_head head = {
        .status = answer->status,
        .date = date,
        .content_type = answer->content_type,
        .extra = answer->extra,
        .close = c->last,
        .version_1_0 = c->parser.request.version_1_0,
        .head_only = c->parser.request.method == METHOD_HEAD,
    };
    http_write_answer(out, &head, answer->body, answer->length);
}

static bool is_last(const struct connection *c)
{
    return !c->parser.request.keep_alive || c->loop->stopping;
}

static void answer_now(struct connection *c, const struct answer *answer)
{
    write_answer(c, &c->loop->out, answer, c->loop->date);
    c->served = true;
}

static void refuse_bytes(struct connection *c, int status, const char *fault)
{
    struct answer answer;
    request_fault(c->loop->worker, status, fault, options_of(c)->body_max_bytes, &answer);
    metrics_count_request(metrics_of(c), ENDPOINT_NONE, status, 0);
    metrics_add(&metrics_of(c)->ended[END_PROTOCOL], 1);
    c->last = true;
    answer_now(c, &answer);
}

/* On a thread of libuv's pool, one at a time with the same worker. */
static void work_on(struct connection *c)
{
    struct server *server = c->loop->server;
    struct worker *worker = server->workers[server->options.threads + (c->in_lane ? 1 : 0)];
    struct answer answer;
    if (atomic_load(&server->cut))
        return;
    uint64_t start_ns = clock_mono_ns();
    request_answer(server->service, worker, &c->peer, &c->parser.request, clock_boot_ms(), &answer);
    metrics_count_request(&worker->metrics, answer.endpoint, answer.status,
                          clock_mono_ns() - start_ns);
    write_answer(c, &c->job_answer, &answer, c->job_date);
    free(c->job_body.data); /* 64 MiB take milliseconds, which the loop has not */
    c->job_body.data = NULL;
}

static void on_work(uv_work_t *work)
{
    struct connection *c = work->data;
    struct server *server = c->loop->server;
    if (c->in_lane) {
        work_on(c);
        return;
    }
    pthread_mutex_lock(&server->slow);
    work_on(c);
    pthread_mutex_unlock(&server->slow);
}

static void after_work(uv_work_t *work, int status)
{
    struct connection *c = work->data;
    c->working = false;
    if (c->in_lane)
        lane_leave(c->loop);
    c->in_lane = false;
    if (c->freed) {
        discard(c);
        return;
    }
    if (c->closed)
        return;
    buffer_done(&c->job_body);
    c->loop->now_ms = clock_boot_ms();
    if (status != 0 || c->job_answer.failed || c->job_answer.length == 0) {
        connection_close(c);
        return;
    }
    go_on(c);
}

static void begin_work(struct connection *c, bool in_lane)
{
    c->work.data = c;
    c->in_lane = in_lane;
    memcpy(c->job_date, c->loop->date, sizeof(c->job_date));
    c->job_body = http_take_body(&c->parser);
    c->working = uv_queue_work(&c->loop->uv, &c->work, on_work, after_work) == 0;
    if (c->working)
        return;
    if (in_lane)
        lane_leave(c->loop);
    c->in_lane = false;
    refuse_bytes(c, 500, "");
}

static void start_work(struct connection *c)
{
    bool is_long = c->parser.request.body.length > REQUEST_LONG_BYTES;
    if (!http_keep(&c->parser))
        refuse_bytes(c, 500, "");
    else if (is_long && !lane_enter(c->loop))
        c->waits_for_lane = true;
    else
        begin_work(c, is_long);
}

static void answer_refusal(struct connection *c, const struct answer *answer)
{
    metrics_count_request(metrics_of(c), answer->endpoint, answer->status, 0);
    answer_now(c, answer);
}

/* A whole request. */
static void serve(struct connection *c)
{
    struct server *server = c->loop->server;
    const struct http_request *request = &c->parser.request;
    bool waits = request_must_wait(server->service, request), slow = request_is_slow(request);
    struct answer answer;
    c->last = is_last(c);
    /* Before anything is kept of it. */
    if ((waits || slow) && request_is_refused(server->service, c->loop->worker, &c->peer, request,
                                              c->loop->now_ms, &answer)) {
        answer_refusal(c, &answer);
        return;
    }
    if (waits) {
        c->last = false;
        if (http_keep(&c->parser))
            c->waits_for_start = true;
        else
            refuse_bytes(c, 500, "");
        return;
    }
    if (slow) {
        start_work(c);
        return;
    }
    uint64_t start_ns = clock_mono_ns();
    request_answer(server->service, c->loop->worker, &c->peer, request, c->loop->now_ms, &answer);
    answer_now(c, &answer);
    uint64_t end_ns = clock_mono_ns();
    metrics_count_request(metrics_of(c), answer.endpoint, answer.status, end_ns - start_ns);
    turns_count(c, start_ns, end_ns);
}

/* A head whose body is still to come. */
static void look_at_head(struct connection *c)
{
    struct answer answer;
    const struct http_request *request = &c->parser.request;
    if (request_is_refused(c->loop->server->service, c->loop->worker, &c->peer, request,
                           c->loop->now_ms, &answer)) {
        c->last = true;
        answer_refusal(c, &answer);
    } else if (request->expects_continue && !request->version_1_0) {
        buffer_append_text(&c->loop->out, "HTTP/1.1 100 Continue\r\n\r\n");
    }
}

/* ---- The run over input ----------------------------------------------------------------------*/

/* Takes input until it is used up, has to wait, the last request is answered, or the turn is over:
 * a peer that sends ten thousand questions at once must not hold the others. */
static void take(struct connection *c, const char **at, const char *end)
{
    while (!is_held(c) && !c->last && !c->closed) {
        switch (http_next(&c->parser, at, end)) {
        case HTTP_NEXT_MORE:
            return;
        case HTTP_NEXT_HEAD:
            look_at_head(c);
            break;
        case HTTP_NEXT_WHOLE:
            serve(c);
            break;
        case HTTP_NEXT_FAULT:
            refuse_bytes(c, c->parser.fault_status, c->parser.fault);
            return;
        }
        if (c->loop->out.length >= LOOP_FLUSH_BYTES)
            flush(c);
    }
}

static void keep_rest(struct connection *c, const char *at, const char *end)
{
    struct buffer *pending = &c->pending;
    if (pending->data != NULL && at >= pending->data && at <= pending->data + pending->length) {
        c->pending_at = (size_t)(at - pending->data);
        if (at < end)
            return;
        c->pending_at = 0;
        if (pending->capacity > LOOP_KEPT_MAX)
            buffer_done(pending);
        else
            buffer_clear(pending);
        return;
    }
    buffer_append(pending, at, (size_t)(end - at));
    if (pending->failed)
        connection_close(c);
}

/* After every step: what the connection is waited for now. */
static void settle(struct connection *c)
{
    if (c->closed)
        return;
    held_count(c);
    bool over = c->last || (c->ended && c->pending.length == 0);
    if (over && !is_held(c)) {
        linger(c);
        return;
    }
    set_phase(c, phase_of(c));
    set_reading(c, !is_held(c) && !c->last && !c->ended);
}

static void run(struct connection *c, const char *at, const char *end)
{
    turns_begin(c);
    take(c, &at, end);
    c->yields = c->yields && at < end && !c->last;
    if (c->yields)
        turns_wait(c);
    if (!c->closed)
        flush(c);
    if (c->closed) {
        buffer_clear(&c->loop->out);
        return;
    }
    keep_rest(c, at, end);
    if (!c->closed) {
        held_count(c);
        held_bound(c);
    }
    settle(c);
}

/* The answer of slow work comes after those that were still being written when it was done. While
 * the work is being done the answer is the other thread's. */
static void take_job_answer(struct connection *c)
{
    if (is_held(c) || c->job_answer.length == 0)
        return;
    buffer_append(&c->loop->out, c->job_answer.data, c->job_answer.length);
    buffer_done(&c->job_answer);
    http_forget(&c->parser);
    c->served = true;
    flush(c);
}

/* Something that was waited for is over: the input that waited is next. */
static void go_on(struct connection *c)
{
    take_job_answer(c);
    if (c->closed)
        return;
    if (c->pending.length == 0 || c->last) {
        settle(c);
        return;
    }
    run(c, c->pending.data + c->pending_at, c->pending.data + c->pending.length);
}

/* ---- What the loop asks for ------------------------------------------------------------------*/

/* For the log. */
static void know_address(struct request_peer *peer, int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    if (getpeername(fd, (struct sockaddr *)&address, &length) != 0 ||
        getnameinfo((struct sockaddr *)&address, length, peer->address, sizeof(peer->address), NULL,
                    0, NI_NUMERICHOST) != 0)
        peer->address[0] = '\0';
}

void connection_open(struct loop *loop, int fd)
{
    struct connection *c = calloc(1, sizeof(*c));
    if (c == NULL || uv_tcp_init(&loop->uv, &c->tcp) != 0) {
        free(c);
        close(fd);
        atomic_fetch_sub(&loop->server->connections, 1);
        return;
    }
    c->loop = loop;
    know_address(&c->peer, fd);
    http_parser_init(&c->parser, loop->server->options.body_max_bytes);
    enter_phase(c, PHASE_IDLE, loop->server->options.idle_ms);
    loop->connections++;
    metrics_add(&loop->worker->metrics.connections_opened, 1);
    if (uv_tcp_open(&c->tcp, fd) != 0) {
        close(fd);
        connection_close(c);
        return;
    }
    (void)uv_tcp_nodelay(&c->tcp, 1);
    set_reading(c, true);
    if (loop->connections >= loop->connections_share)
        connection_shed(loop);
}

/* Something of its peer's was not read yet: it is the peer that waits. */
static bool has_input(const struct connection *c)
{
    int fd;
    char byte;
    return uv_fileno((const uv_handle_t *)&c->tcp, &fd) == 0 &&
           recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void connection_shed(struct loop *loop)
{
    size_t looks = LOOP_SHED_LOOKS;
    for (struct connection *c = loop->phases[PHASE_IDLE].first;
         c != NULL && c->since_ms + LOOP_SHED_IDLE_MS <= loop->now_ms && looks > 0;
         c = c->after, looks--) {
        if (has_input(c))
            continue;
        connection_end(c, END_SHED);
        return;
    }
}

void connection_take_turn(struct connection *c)
{
    if (c->yields) {
        c->yields = false;
        go_on(c);
    } else if (!is_held(c)) {
        c->has_turn = true;
        set_reading(c, true);
    }
}

static void expire_writing(struct connection *c)
{
    size_t left = uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp);
    if (left >= c->unsent_left) {
        connection_end(c, END_UNREAD);
        return;
    }
    c->unsent_left = left;
    c->served = true;
    set_phase(c, PHASE_WRITE);
}

static void expire_request(struct connection *c)
{
    struct answer answer;
    char seconds[32];
    uint64_t timeout_ms = timeout_of(c, c->phase);
    snprintf(seconds, sizeof(seconds), "%.3g", (double)timeout_ms / 1e3);
    request_fault(c->loop->worker, 408, seconds, 0, &answer);
    metrics_count_request(metrics_of(c), ENDPOINT_NONE, answer.status, 0);
    metrics_add(&metrics_of(c)->ended[END_SLOW], 1);
    c->last = true;
    answer_now(c, &answer);
    flush(c);
    settle(c);
}

/* For room, for its turn, or for a loop that was busy. What has a deadline is the peer. */
static bool is_kept_waiting(struct connection *c)
{
    bool delayed = c->delayed;
    switch (c->phase) {
    case PHASE_HEAD:
    case PHASE_BODY:
    case PHASE_LONG:
        c->delayed = delayed && held_must_wait(c);
        return delayed || has_input(c);
    default:
        return c->phase == PHASE_IDLE && has_input(c);
    }
}

void connection_expire(struct connection *c)
{
    if (is_kept_waiting(c)) { /* it has its time once more */
        c->served = true;
        set_phase(c, c->phase);
        return;
    }
    switch (c->phase) {
    case PHASE_HEAD:
    case PHASE_BODY:
    case PHASE_LONG:
        expire_request(c);
        break;
    case PHASE_WRITE:
        expire_writing(c);
        break;
    case PHASE_LINGER:
        connection_close(c);
        break;
    default:
        connection_end(c, END_IDLE);
        break;
    }
}

void connection_start(struct connection *c)
{
    if (!c->waits_for_start)
        return;
    c->waits_for_start = false;
    turns_begin(c);
    serve(c);
    c->yields = false; /* its further input has a turn of its own */
    if (!c->closed)
        flush(c);
    if (!c->closed)
        go_on(c);
}

static struct connection *find_waiting(const struct loop *loop)
{
    static const enum phase phases[] = {PHASE_HELD, PHASE_WRITE};
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
        for (struct connection *c = loop->phases[phases[i]].first; c != NULL; c = c->after)
            if (c->waits_for_lane)
                return c;
    return NULL;
}

void connection_enter_lane(struct loop *loop)
{
    struct connection *c = find_waiting(loop);
    if (c == NULL) {
        lane_leave(loop);
        return;
    }
    lane_stop_waiting(loop);
    c->waits_for_lane = false;
    begin_work(c, true);
    flush(c);
    if (!c->closed)
        go_on(c);
}

/* An idle connection goes, unless a request has come that was not read yet. */
void connection_stop(struct connection *c)
{
    if (c->phase == PHASE_IDLE && !has_input(c))
        connection_close(c);
}
