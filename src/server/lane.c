/* The lane of long bodies: one of the server's is read at a time, whichever loop it came to, so
 * that a crowd of them leaves the threads of libuv's pool to short work. The loops that wait for
 * the lane have it in turn; one that is given it is woken. */
#include "server/loop.h"

bool lane_enter(struct loop *loop)
{
    struct lane *lane = &loop->server->lane;
    pthread_mutex_lock(&lane->mutex);
    bool entered = !lane->taken;
    lane->taken = true;
    if (!entered)
        loop->lane_waiting++;
    pthread_mutex_unlock(&lane->mutex);
    return entered;
}

void lane_stop_waiting(struct loop *loop)
{
    struct lane *lane = &loop->server->lane;
    pthread_mutex_lock(&lane->mutex);
    loop->lane_waiting--;
    pthread_mutex_unlock(&lane->mutex);
}

/* A loop that waits has connections, and so has not ended: it can be woken. */
void lane_leave(struct loop *loop)
{
    struct server *server = loop->server;
    struct lane *lane = &server->lane;
    size_t threads = server->options.threads, own = (size_t)(loop - server->loops);
    pthread_mutex_lock(&lane->mutex);
    lane->taken = false;
    for (size_t i = 1; i <= threads && !lane->taken; i++) {
        struct loop *next = &server->loops[(own + i) % threads];
        if (next->lane_waiting == 0)
            continue;
        lane->taken = true;
        next->lane_given = true;
        uv_async_send(&next->wake);
    }
    pthread_mutex_unlock(&lane->mutex);
}

bool lane_was_given(struct loop *loop)
{
    struct lane *lane = &loop->server->lane;
    pthread_mutex_lock(&lane->mutex);
    bool given = loop->lane_given;
    loop->lane_given = false;
    pthread_mutex_unlock(&lane->mutex);
    return given;
}
