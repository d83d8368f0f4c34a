/* Whose turn it is.
 *
 * A turn is the requests of one connection that are answered without looking at the others. Most
 * are a few hundred keys and take microseconds: whoever has sent such a one is served in the same
 * pass of the loop. Those whose last turn was a lengthy one, and those whose next one is seen to
 * become one, share one turn a pass: the others of them wait in a queue, their input in their
 * sockets. So a crowd that asks for much costs the others one of its turns, and not all of them.
 * Where the others are many a pass takes long, and so there are more turns in it, for up to half as
 * much as the others ask for: who asks for much does not starve either.
 *
 * Long bodies have a queue of their own: a piece of one is read a pass. That is but a copy, and a
 * body would take minutes to come if each of its pieces waited for the turns of all the rest. */
#include "base/clock.h"
#include "server/loop.h"

/* Where it has to wait, if it has. */
static struct turn_queue *queue_of(const struct connection *c)
{
    struct loop *loop = c->loop;
    if (c->phase == PHASE_LONG)
        return &loop->long_bodies;
    bool coming = c->phase == PHASE_BODY && http_body_length(&c->parser) > LOOP_LENGTHY_BYTES;
    return c->lengthy || coming ? &loop->lengthy : NULL;
}

static void give_turns(struct turn_queue *queue)
{
    struct connection *c;
    while (queue->left > 0 && (c = queue->first) != NULL) {
        queue->left--;
        turns_leave(c);
        connection_take_turn(c);
    }
}

static void do_nothing(uv_idle_t *turns)
{
    (void)turns;
}

void turns_begin_pass(struct loop *loop)
{
    loop->shares = 1 + loop->others_bytes / LOOP_SHARE_BYTES;
    loop->others_bytes = 0;
    loop->lengthy.left = loop->shares;
    loop->long_bodies.left = 1;
    if (loop->lengthy.first != NULL)
        loop->now_ms = clock_boot_ms();
    give_turns(&loop->lengthy);
    give_turns(&loop->long_bodies);
    if (loop->lengthy.first != NULL || loop->long_bodies.first != NULL)
        uv_idle_start(&loop->turns, do_nothing);
    else
        uv_idle_stop(&loop->turns);
}

void turns_begin(struct connection *c)
{
    struct loop *loop = c->loop;
    loop->turn_is_lengthy = queue_of(c) != NULL;
    if (!loop->turn_is_lengthy)
        loop->others_bytes += LOOP_CALLS_BYTES;
    c->has_turn = false;
    loop->turn_ns = 0;
    loop->turn_bytes = 0;
}

void turns_count(struct connection *c, uint64_t start_ns, uint64_t end_ns)
{
    struct loop *loop = c->loop;
    size_t bytes = c->parser.request.body.length;
    if (loop->turn_ns == 0)
        loop->turn_ns = start_ns;
    loop->turn_bytes += bytes;
    if (!loop->turn_is_lengthy)
        loop->others_bytes += bytes;
    c->yields = end_ns - loop->turn_ns > LOOP_TURN_NS;
    c->lengthy = c->yields || loop->turn_bytes > LOOP_LENGTHY_BYTES;
}

/* Of one that is not known to ask for much, no more is read than shows whether it does. */
unsigned turns_room(const struct connection *c)
{
    enum { PIECES_MAX = LOOP_INPUT_BYTES / LOOP_LONG_BYTES };
    size_t pieces = c->loop->shares < PIECES_MAX ? c->loop->shares : PIECES_MAX;
    if (c->phase == PHASE_LONG)
        return (unsigned)pieces * LOOP_LONG_BYTES;
    if (queue_of(c) == NULL)
        return LOOP_LENGTHY_BYTES;
    return c->phase == PHASE_BODY ? LOOP_BODY_BYTES : LOOP_INPUT_BYTES;
}

bool turns_allow(struct connection *c)
{
    struct turn_queue *queue = queue_of(c);
    if (queue == NULL || c->has_turn)
        return true;
    if (queue->first != NULL || queue->left == 0)
        return false;
    queue->left--;
    return true;
}

void turns_wait(struct connection *c)
{
    struct turn_queue *queue = queue_of(c);
    if (c->queue != NULL)
        return;
    c->queue = queue;
    c->ahead = queue->last;
    *(queue->last == NULL ? &queue->first : &queue->last->behind) = c;
    queue->last = c;
}

void turns_leave(struct connection *c)
{
    struct turn_queue *queue = c->queue;
    if (queue == NULL)
        return;
    c->queue = NULL;
    *(c->ahead == NULL ? &queue->first : &c->ahead->behind) = c->behind;
    *(c->behind == NULL ? &queue->last : &c->behind->ahead) = c->ahead;
    c->behind = c->ahead = NULL;
}
