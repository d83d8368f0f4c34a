/* What a loop holds of its connections' requests, and who may add to it.
 *
 * Heads, bodies and waiting input count against one budget (server_options.buffered_max_bytes).
 * Part of it passes without any peer's doing: requests that are whole, and what is being freed. The
 * rest waits for its peers.
 *
 * Long bodies stop being read well below the budget, but for the one that began first, so that
 * there is always room for it to become whole, and for short requests beside it. A peer that is
 * made to wait loses nothing: its bytes stay in its socket. Who does lose is a peer that others
 * wait for and that sends nothing, and, where what passes does not make the room, the oldest
 * incomplete requests. */
#include "server/loop.h"

#include <sys/socket.h>

size_t held_budget(const struct loop *loop)
{
    const struct server_options *options = &loop->server->options;
    uint64_t bodies = 4 * options->body_max_bytes;
    if (options->buffered_max_bytes > 0)
        return (size_t)options->buffered_max_bytes;
    return bodies > LOOP_BUFFERED_BYTES ? (size_t)bodies : LOOP_BUFFERED_BYTES;
}

/* Up to here long bodies may go; the rest is for short requests. */
static size_t long_budget(const struct loop *loop)
{
    size_t budget = held_budget(loop);
    return budget - budget / 8;
}

/* Beyond, only the long body that began first is read: it may need all the room that is left. */
static bool is_tight(const struct loop *loop)
{
    size_t budget = long_budget(loop), longest = (size_t)loop->server->options.body_max_bytes;
    return loop->held_bytes > (budget > longest ? budget - longest : 0);
}

/* Beyond `budget`, and what passes will make the room. */
static bool is_over_for_now(const struct loop *loop, size_t budget)
{
    return loop->held_bytes > budget && loop->held_bytes - loop->passing_bytes <= budget;
}

void held_count(struct connection *c)
{
    struct loop *loop = c->loop;
    size_t answer = c->working ? 0 : c->job_answer.length; /* of the other thread's until then */
    size_t bytes = c->parser.head.length + c->parser.body.length + c->job_body.length +
                   c->pending.length + answer;
    bool passes = c->closed || c->phase == PHASE_LINGER || c->working || c->waits_for_start ||
                  c->waits_for_lane || c->yields;
    loop->held_bytes += bytes - c->held_bytes;
    loop->passing_bytes -= c->passes ? c->held_bytes : 0;
    loop->passing_bytes += passes ? bytes : 0;
    c->held_bytes = bytes;
    c->passes = passes;
}

void held_forget(struct connection *c)
{
    c->loop->held_bytes -= c->held_bytes;
    c->loop->passing_bytes -= c->passes ? c->held_bytes : 0;
    c->held_bytes = 0;
}

bool held_must_wait(const struct connection *c)
{
    const struct loop *loop = c->loop;
    if (c->phase == PHASE_BODY)
        return is_over_for_now(loop, held_budget(loop));
    if (c->phase != PHASE_LONG || !is_tight(loop))
        return false;
    return c != loop->phases[PHASE_LONG].first || is_over_for_now(loop, long_budget(loop));
}

unsigned held_room(const struct connection *c)
{
    if (held_must_wait(c))
        return 0;
    bool body = c->phase == PHASE_BODY || c->phase == PHASE_LONG;
    unsigned bytes = turns_room(c);
    if (c->phase == PHASE_LINGER || !is_tight(c->loop))
        return bytes;
    /* What comes behind a request would have to be kept: little is taken. */
    uint64_t left = body ? http_body_left(&c->parser) : LOOP_TIGHT_BYTES;
    return left < bytes ? (unsigned)left : bytes;
}

/* The oldest incomplete request but that of `but`; then who does not read its answers. */
static struct connection *find_victim(const struct loop *loop, const struct connection *but)
{
    static const enum phase phases[] = {PHASE_BODY, PHASE_LONG, PHASE_HEAD, PHASE_WRITE};
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
        for (struct connection *c = loop->phases[phases[i]].first; c != NULL; c = c->after)
            if (c != but && c->held_bytes > 0 && !c->passes)
                return c;
    return NULL;
}

void held_bound(struct connection *c)
{
    struct loop *loop = c->loop;
    size_t budget = held_budget(loop);
    struct connection *victim;
    while (loop->held_bytes - loop->passing_bytes > budget &&
           (victim = find_victim(loop, c)) != NULL)
        connection_end(victim, victim->phase == PHASE_WRITE ? END_UNREAD : END_SLOW);
}

/* ---- Going on --------------------------------------------------------------------------------*/

static void resume_all(struct loop *loop, enum phase phase)
{
    struct connection *after;
    for (struct connection *c = loop->phases[phase].first; c != NULL; c = after) {
        after = c->after;
        connection_resume(c);
    }
}

void held_resume(struct loop *loop)
{
    if (loop->short_wait && !is_over_for_now(loop, held_budget(loop))) {
        loop->short_wait = false;
        resume_all(loop, PHASE_BODY);
    }
    if (loop->long_wait && !is_tight(loop)) {
        loop->long_wait = false;
        resume_all(loop, PHASE_LONG);
    }
    struct connection *first = loop->phases[PHASE_LONG].first;
    if (first != NULL && !held_must_wait(first))
        connection_resume(first);
}

/* Enough of a body waits in the socket to say that its peer is sending it. */
static bool is_sending(const struct connection *c)
{
    char bytes[LOOP_STALL_BYTES];
    int fd;
    if (uv_fileno((const uv_handle_t *)&c->tcp, &fd) != 0)
        return false;
    ssize_t there = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    uint64_t left = http_body_left(&c->parser);
    if (c->parser.request.chunked)
        return there > 0;
    return there > 0 && ((uint64_t)there >= left || there == sizeof(bytes));
}

/* Others wait for the long body that began first, and it does not come: it goes, and with it all
 * that do not come either, lest each of them be waited for in its turn. */
void held_expire(struct loop *loop)
{
    struct connection *first = loop->phases[PHASE_LONG].first, *after;
    if (first == NULL || !loop->long_wait || held_must_wait(first)) {
        loop->awaited = NULL;
        return;
    }
    size_t length = first->parser.body.length;
    if (first != loop->awaited || length >= loop->awaited_bytes + LOOP_STALL_BYTES) {
        loop->awaited = first;
        loop->awaited_bytes = length;
        loop->awaited_ms = loop->now_ms;
        return;
    }
    uint64_t stall_ms = loop->server->options.stall_ms;
    if (loop->now_ms - loop->awaited_ms < (stall_ms > 0 ? stall_ms : LOOP_STALL_MS))
        return;
    loop->awaited = NULL;
    for (struct connection *c = first; c != NULL; c = after) {
        after = c->after;
        if (c == first || !is_sending(c))
            connection_end(c, END_SLOW);
    }
}
