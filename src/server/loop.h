/* What the parts of the server share: one event loop and its connections. For this folder only. */
#ifndef KVSHELF_SERVER_LOOP_H
#define KVSHELF_SERVER_LOOP_H

#include "server/server.h"

#include <uv.h>

enum {
    LOOP_INPUT_BYTES = 256 * 1024, /* read at once, for all connections of a loop */
    LOOP_BODY_BYTES = 64 * 1024,   /* of a body that did not come with its head: a turn; */
    LOOP_LONG_BYTES = 16 * 1024,   /* of a long one, so that its copy delays nobody */
    LOOP_SHARE_BYTES =
        128 * 1024,               /* of the others' requests: a further lengthy turn; see turns.c */
    LOOP_CALLS_BYTES = 8 * 1024,  /* of a body cost as much as a turn's system calls */
    LOOP_TIGHT_BYTES = 4 * 1024,  /* read at once while a loop holds much: see held.c */
    LOOP_STALL_BYTES = 16 * 1024, /* of a body that others wait for: less in stall_ms */
    LOOP_STALL_MS = 1000,         /* costs its connection */
    LOOP_FLUSH_BYTES = 1024 * 1024, /* answers gathered before they are written */
    LOOP_TURN_NS = 50 * 1000,       /* of one connection, before the others have theirs */
    LOOP_LENGTHY_BYTES = 32 * 1024, /* of bodies: a turn that took more is a lengthy one */
    LOOP_TICK_MS = 250,             /* how finely deadlines are kept */
    LOOP_LINGER_MS = 1000,          /* for a peer to take the last answer */
    LOOP_SHED_IDLE_MS = 1000,       /* idle for less is not shed for another connection */
    LOOP_SHED_LOOKS = 64,           /* at connections, for one to shed */
    LOOP_FREED_MAX = 1024 * 1024,   /* more is freed beside the loop, bytes */
    LOOP_KEPT_MAX = 16 * 1024,      /* a connection's buffer beyond is freed when empty, bytes */
};
/* See server_options.buffered_max_bytes. */
#define LOOP_BUFFERED_BYTES (256u * 1024 * 1024)

/* What a connection is waited for. Each phase is a list ordered by deadline. */
enum phase {
    PHASE_IDLE,   /* for a request to begin */
    PHASE_HEAD,   /* for a head to be complete */
    PHASE_BODY,   /* for a short body to be complete */
    PHASE_LONG,   /* for a body beyond REQUEST_LONG_BYTES to be complete */
    PHASE_WRITE,  /* for the peer to read */
    PHASE_HELD,   /* for the server itself: no deadline */
    PHASE_LINGER, /* for the peer to close */
    PHASES,
};

struct loop;

struct connection {
    uv_tcp_t tcp; /* first member */
    struct loop *loop;
    enum phase phase;
    uint64_t since_ms, deadline_ms;
    struct connection *before, *after; /* in the list of its phase */
    struct http_parser parser;
    struct request_peer peer;
    struct buffer pending; /* input that has to wait */
    size_t pending_at;     /* how much of it has been taken, bytes */
    struct buffer unsent;  /* being written by `write` */
    size_t unsent_left;    /* when last looked at: whether the peer reads, bytes */
    size_t held_bytes;     /* of this connection in loop->held_bytes, and if `passes` in */
                           /* loop->passing_bytes */
    uv_write_t write;
    uv_work_t work;
    struct buffer job_answer; /* of `work` */
    struct buffer job_body;   /* of its request: freed by `work`, its length counted until after */
    char job_date[64];
    bool reading, writing, working, waits_for_start, waits_for_lane;
    bool in_lane; /* `work` has the lane of long bodies */
    bool passes;
    bool delayed; /* it was made to wait for room */
    bool filled;  /* its last read took all there was room for */
    bool yields;  /* its turn is over, it has more input */
    bool lengthy; /* its last turn was a lengthy one: see turns.c */
    bool has_turn;
    struct turn_queue *queue; /* in which it waits for its turn, between */
    struct connection *ahead, *behind;
    bool ended;  /* the peer will send nothing more */
    bool last;   /* what is being answered is the last */
    bool served; /* a request was answered since the phase was last set */
    bool closed; /* uv_close() was called */
    bool freed;  /* its handle is gone: only `work` keeps it */
};

struct connection_list {
    struct connection *first, *last;
};

/* Connections that wait for their turn. */
struct turn_queue {
    struct connection *first, *last;
    size_t left; /* turns in this pass */
};

struct loop {
    struct server *server;
    struct worker *worker;
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t tick;
    uv_idle_t turns;      /* active while connections wait for their turn: no wait for events */
    uv_prepare_t before;  /* before each wait for events: who was made to wait goes on */
    uv_poll_t *listening; /* the first loop's, one for each address */
    size_t listening_count;
    bool accepting;
    pthread_t thread;
    bool started, stopping, ended;
    uint64_t stop_at_ms;
    uint64_t now_ms;   /* when the last event was taken */
    uint64_t turn_ns;  /* when the turn under way began; 0: with its first request */
    size_t turn_bytes; /* of bodies, so far */
    bool turn_is_lengthy;
    size_t others_bytes; /* what turns that are not lengthy have cost in this pass */
    size_t shares;       /* how much those that are lengthy may cost: turns, or pieces */
    struct turn_queue lengthy, long_bodies;
    struct connection_list phases[PHASES];
    size_t connections, connections_share;
    size_t held_bytes;    /* of heads, bodies and waiting input */
    size_t passing_bytes; /* of these, what goes without a peer's doing */
    bool short_wait,
        long_wait; /* connections of PHASE_BODY, of PHASE_LONG may have to be resumed */
    struct connection *awaited; /* the long body that others wait for, */
    size_t awaited_bytes;       /* how much of it there was */
    uint64_t awaited_ms;        /* and when */
    size_t unsent_bytes;
    char date[64];
    struct buffer out;
    char *input;
    pthread_mutex_t mutex; /* of what follows */
    int *handed;           /* descriptors from the first loop */
    size_t handed_count, handed_capacity;
    size_t lane_waiting; /* under the lane's mutex: connections, */
    bool lane_given;     /* and whether one of them may go */
};

struct lane {
    pthread_mutex_t mutex; /* of what follows */
    bool taken;
};

struct server {
    struct server_options options;
    struct service *service;
    struct loop *loops;
    struct worker **workers; /* one a loop, one for slow work, one for the lane of long bodies */
    pthread_mutex_t slow;    /* of the worker for slow work */
    struct lane lane;        /* of the last worker */
    int *sockets;
    size_t socket_count;
    uint16_t port;
    size_t next; /* the loop that is handed the next connection */
    _Atomic size_t connections;
    _Atomic bool accept_paused;
    _Atomic bool stopping;
    _Atomic bool cut; /* it waits for no request any longer */
    uint64_t grace_ms;
};

enum kvs_status loop_init(struct loop *loop, struct server *server, struct worker *worker,
                          struct kvs_error *error);
enum kvs_status loop_start(struct loop *loop, struct kvs_error *error);
/* After the thread has ended, or was never started. */
void loop_done(struct loop *loop);
/* Takes a descriptor: at once on the loop's own thread (`own`), else by waking it. */
void loop_hand(struct loop *loop, int fd, bool own);

/* connection.c, on the loop's thread only. */
void connection_open(struct loop *loop, int fd);
void connection_close(struct connection *connection);
void connection_end(struct connection *connection, enum metrics_end reason); /* counted */
void connection_resume(struct connection *connection);                       /* reads on */
/* The lane was given to this loop: the connection that waits longest goes. */
void connection_enter_lane(struct loop *loop);
void connection_expire(struct connection *connection);
void connection_start(struct connection *connection); /* the catalogs are loaded */
void connection_take_turn(struct connection *connection);
void connection_stop(struct connection *connection); /* the server stops */
/* The oldest idle connection makes room, unless a request of it was not read yet. */
void connection_shed(struct loop *loop);

/* turns.c, on the loop's thread only. May the connection be read from in this pass of the loop? */
bool turns_allow(struct connection *connection);
void turns_wait(struct connection *connection);  /* connection_take_turn() will be called */
void turns_leave(struct connection *connection); /* waits no more, if it did */
void turns_begin_pass(struct loop *loop);        /* before each wait for events: gives turns */
void turns_begin(struct connection *connection); /* a turn of its */
/* A request was answered: the turn goes on, or is over (`yields`). */
void turns_count(struct connection *connection, uint64_t start_ns, uint64_t end_ns);
/* How much of its input a turn of the connection takes at most, bytes. */
unsigned turns_room(const struct connection *connection);

/* held.c, on the loop's thread only. */
size_t held_budget(const struct loop *loop);              /* bytes */
void held_count(struct connection *connection);           /* after every change */
void held_forget(struct connection *connection);          /* its memory is freed */
bool held_must_wait(const struct connection *connection); /* nothing is read from it for now */
unsigned held_room(const struct connection *connection);  /* bytes to read at once */
/* The oldest incomplete requests but this connection's go, until the rest fits the budget. */
void held_bound(struct connection *connection);
void held_resume(struct loop *loop);
void held_expire(struct loop *loop); /* every tick */

/* lane.c: on the loop's thread. True: it is this loop's until it leaves; else one more connection
 * of the loop waits, and the loop is woken when it is given the lane. */
bool lane_enter(struct loop *loop);
void lane_leave(struct loop *loop);
void lane_stop_waiting(struct loop *loop); /* one connection less */
/* The loop was given the lane since it last asked: it has to use it, or to leave it. */
bool lane_was_given(struct loop *loop);

#endif
