/* Whose turn it is.
 *
 * A turn is the requests of one connection that are answered without looking at the others. Most
 * are a few hundred keys and take microseconds: whoever has sent such a one is served in the same
 * pass of the loop. Those whose last turn was a lengthy one, and those that are new, share one turn
 * a pass: the others of them wait in a queue, their input in their sockets. So a crowd that asks
 * for much costs the others one of its turns, and not all of them. */
#include "base/clock.h"
#include "server/loop.h"

static void give_turn(uv_idle_t *turns)
{
    struct loop *loop = turns->data;
    struct connection *c = loop->queue.first;
    if (c == NULL) {
        uv_idle_stop(turns);
        return;
    }
    turns_leave(c);
    loop->now_ms = clock_boot_ms();
    loop->lengthy_pass = loop->pass + 1; /* which begins when this has returned */
    connection_take_turn(c);
}

void turns_begin_pass(struct loop *loop)
{
    loop->pass++;
}

void turns_begin(struct connection *c)
{
    c->has_turn = false;
    c->loop->turn_ns = 0;
    c->loop->turn_bytes = 0;
}

void turns_count(struct connection *c, uint64_t start_ns, uint64_t end_ns)
{
    struct loop *loop = c->loop;
    if (loop->turn_ns == 0)
        loop->turn_ns = start_ns;
    loop->turn_bytes += c->parser.request.body.length;
    c->yields = end_ns - loop->turn_ns > LOOP_TURN_NS;
    c->lengthy = c->yields || loop->turn_bytes > LOOP_LENGTHY_BYTES;
}

bool turns_allow(struct connection *c)
{
    struct loop *loop = c->loop;
    if (!c->lengthy || c->has_turn)
        return true;
    if (loop->queue.first != NULL || loop->lengthy_pass == loop->pass)
        return false;
    loop->lengthy_pass = loop->pass;
    return true;
}

void turns_wait(struct connection *c)
{
    struct connection_list *queue = &c->loop->queue;
    if (c->queued)
        return;
    c->queued = true;
    c->ahead = queue->last;
    *(queue->last == NULL ? &queue->first : &queue->last->behind) = c;
    queue->last = c;
    uv_idle_start(&c->loop->turns, give_turn);
}

void turns_leave(struct connection *c)
{
    struct connection_list *queue = &c->loop->queue;
    if (!c->queued)
        return;
    c->queued = false;
    *(c->ahead == NULL ? &queue->first : &c->ahead->behind) = c->behind;
    *(c->behind == NULL ? &queue->last : &c->behind->ahead) = c->ahead;
    c->behind = c->ahead = NULL;
}
