/* Inside of a store: pools over a metadata client and page file engines, and what their calls
 * share.
 *
 * A call enters the store (which fails in a forked child, after an internal fault and while
 * closing), works on its keys in chunks, and leaves. Nothing after construction raises: what cannot
 * be done is a miss, or not stored, and counted.
 *
 *   store.c       open, close, enter and leave
 *   pool.c        pools, their files and namespaces
 *   pool_index.c  what a pool asks the index, with its breaker
 *   pool_io.c     pages between a pool's file and memory, with their breakers
 *   chunk.c       keys of a call, as the index has them
 *   get.c set.c lookup.c   the calls themselves
 */
#ifndef KVSHELF_STORE_STORE_H
#define KVSHELF_STORE_STORE_H

#include "base/buffer.h"
#include "metadata/metadata.h"
#include "pagefile/pagefile.h"
#include "store/breaker.h"
#include "store/config.h"
#include "store/inflight.h"
#include "store/limiter.h"
#include "store/stats.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

/* What a store is built from, so that tests can put other parts under it. */
struct store_parts {
    /* Becomes the store's, also when opening fails. NULL: local catalogs as the options say. */
    struct metadata_client *metadata;
    /* NULL: pagefile_open(). */
    enum kvs_status (*open_file)(void *arg, enum kvs_io_engine engine,
                                 const struct pagefile_options *options, struct pagefile **ret_file,
                                 struct kvs_error *error);
    void *open_file_arg;
    /* With options.inspect: pages are stored all the same, in a namespace that must exist; the page
     * file is opened for it, and made where it is missing. */
    bool stores_inspecting;
    /* How metadata_server_url is asked, in the time of now_ns; becomes the store's likewise. NULL:
     * HTTP by libcurl, in real time. */
    struct remote_transport *transport;
    /* Of a server's `exists`; 0: the client's own short one. */
    uint64_t exists_timeout_ms;
    /* For pauses, rates and what the index takes, not for deadlines of I/O. NULL: clock_mono_ns().
     */
    uint64_t (*now_ns)(void *arg);
    void *now_arg;
};

struct pool {
    char *name; /* "" is the KV pool */
    char *ns, *fingerprint, *path;
    struct metadata_scope scope; /* points into the above */
    struct pagefile *file;
    struct pagefile_info info;
    uint64_t bytes_per_page, file_size, num_pages;
    bool pairs, replicated;
    bool writes;                 /* false: rank 0 writes for all ranks */
    pthread_mutex_t check_mutex; /* one caller at a time looks after the file */
    struct limiter mismatch_reports;
};

struct kvs_store {
    struct store_config config;
    struct logger log;
    struct store_parts parts;
    pid_t owner; /* the process that opened it */

    struct metadata_client *metadata;
    bool remote;                       /* it is a server's */
    struct pool *pools[KVS_POOLS_MAX]; /* never removed; valid below pool_count */
    _Atomic uint32_t pool_count;
    pthread_mutex_t pools_mutex; /* held while a pool is added */

    struct breaker metadata_breaker, read_breaker, write_breaker;
    /* Two bounds of max_inflight_bytes: what hangs on a network must not hold up local files. */
    struct inflight *inflight, *network_inflight;
    struct limiter mismatch_lines, metadata_lines, read_lines, write_lines, file_lines, file_checks;
    /* Of trips: storage of which only a part fails closes a breaker and trips it again and again.
     */
    struct limiter metadata_trip_lines, read_trip_lines, write_trip_lines;
    struct stats stats;

    atomic_bool poisoned, closing;
    _Atomic uint64_t calls; /* under way */
    pthread_mutex_t calls_mutex;
    pthread_cond_t calls_ended;
};

/* As kvs_store_open(), from the parts given. */
enum kvs_status store_open(const struct kvs_store_options *options, const struct store_parts *parts,
                           struct kvs_store **ret_store, struct kvs_error *error);

/* Begins a call: false when the store cannot be used (fork, fault, closing). Else store_leave(). */
bool store_enter(struct kvs_store *store);
void store_leave(struct kvs_store *store);
/* KVS_ERR_STORE_UNUSABLE, and why. */
enum kvs_status store_unusable(const struct kvs_store *store, struct kvs_error *error);

/* After this every call is a miss: the library met what cannot be, and does not know what it says
 * any more. Never ends the process. */
void store_poison(struct kvs_store *store, const char *file, int line, const char *what);
#define STORE_CHECK(store, condition)                                                              \
    ((condition) ? true : (store_poison((store), __FILE__, __LINE__, #condition), false))

uint64_t store_now_ns(const struct kvs_store *store);
/* When a call that begins now must have ended, CLOCK_MONOTONIC; 0: when its I/O has. */
uint64_t store_deadline_ns(const struct kvs_store *store, const struct pool *pool);

/* ---- pool.c */
/* `name` NULL: the KV pool. */
enum kvs_status pool_open(struct kvs_store *store, const char *name, uint64_t bytes_per_page,
                          uint64_t file_size, bool replicated, struct pool **ret_pool,
                          struct kvs_error *error);
/* Closes the file; NULL allowed; returns NULL. */
struct pool *pool_close(struct pool *pool);
const char *pool_label(const struct pool *pool); /* "kv" or its name */
/* NULL when there is no such pool. */
struct pool *pool_find(const struct kvs_store *store, uint32_t number);
/* Looks whether the path still leads to the open file in full size; for after failed I/O. */
void pool_check_file(struct kvs_store *store, struct pool *pool);
/* The same now and then, because a file that was removed fails no I/O; where that cannot hang. */
void pool_check_sometimes(struct kvs_store *store, struct pool *pool);

/* What a call may still spend on questions to a server: all of them together take no longer than
 * client_timeout, or the short deadline of `exists`. Page I/O does not count. */
struct index_time {
    bool limited; /* catalogs of this process do not keep anybody waiting */
    uint64_t left_ns;
};
struct index_time store_index_time(const struct kvs_store *store, bool quick);

/* ---- chunk.c: a part of a call's keys, expanded to the keys of the index */
struct chunk_key {
    struct metadata_text text;
    uint32_t page; /* within the chunk */
    bool moves;    /* goes to the engine */
    void *buffer;  /* of the caller; only read from when setting */
    int64_t index; /* the page in the file, -1 */
    uint64_t generation;
    uint64_t checksum; /* as the index has it, or as written */
    bool has_checksum;
    bool held;     /* get: put aside by the breaker; set: reserved, and given back unwritten */
    bool waiting;  /* set: refused unless the probe succeeds */
    bool replaced; /* get: the page was handed out again since the first read */
    bool stuck;    /* its I/O has outlived the call */
    enum store_stat outcome;
};
struct chunk {
    const struct pool *pool;
    size_t pages, halves; /* halves: keys a page, 1 or 2 */
    size_t keys;          /* pages * halves */
    struct chunk_key *key;
    enum store_stat *outcomes; /* of pages */
    /* For calls to the index: a compact list of keys, where each is from, and the answers. */
    struct metadata_text *texts;
    uint32_t *from;
    union {
        struct catalog_found *found;
        struct catalog_reserved *reserved;
        bool *exists;
    };
    struct metadata_confirm *confirms;
    struct metadata_release *releases;
    enum catalog_rejection *reasons;
    struct index_time time; /* of the call */
    struct buffer arena;    /* texts of keys with a suffix */
    uint64_t transfers;     /* pages that went to the engine so far */
    void *memory;
};
enum { CHUNK_KEYS_MAX = 4096 };
/* Pages of one chunk: bounded by keys and, when `moving`, by bytes under way. At least 1. */
size_t chunk_pages(const struct kvs_store *store, const struct pool *pool, bool moving);
/* Makes room for at most `pages` pages a time; false on lack of memory (nothing to free). `time` is
 * what the call has for the index. */
bool chunk_init(struct chunk *chunk, const struct pool *pool, size_t pages, struct index_time time);
void chunk_done(struct chunk *chunk);
/* Takes keys and buffers of `pages` pages (buffers NULL: none). Keys that cannot be (NULL, too
 * long, without a buffer) get the outcome `refused`, the others `initial`. */
void chunk_load(struct chunk *chunk, const char *const keys[], void *const buffers[], size_t pages,
                enum store_stat initial, enum store_stat refused);
/* Lists the keys whose outcome is `outcome` in texts[] and from[]; returns how many. */
size_t chunk_list(struct chunk *chunk, enum store_stat outcome);
/* Sets the outcome of the first n listed keys. */
void chunk_turn_listed(struct chunk *chunk, size_t n, enum store_stat to);
/* The outcomes of pages from those of their halves. */
void chunk_fold(struct chunk *chunk);

/* ---- pool_index.c: each call takes the breaker's leave, and tells it what came of it. On a server
 * that has forgotten the namespace it is initialized again and the call is made once more. */
/* Whether the namespace, if it is there, holds pages of this size and identity: asked before the
 * page file is touched. Errors: KVS_ERR_GEOMETRY_DIFFERS, KVS_ERR_FINGERPRINT_DIFFERS,
 * KVS_ERR_REMOTE_DEADLINE; when the store only inspects all those of the metadata client. */
enum kvs_status pool_index_check(struct kvs_store *store, const struct pool *pool,
                                 struct kvs_error *error);
enum kvs_status pool_index_initialize(struct kvs_store *store, const struct pool *pool,
                                      struct kvs_error *error);
/* What the index was asked; false: it did not answer, nothing may be believed. */
bool pool_index_reserve(struct kvs_store *store, const struct pool *pool, struct index_time *time,
                        const struct metadata_text keys[], size_t n,
                        struct catalog_reserved ret_reserved[]);
bool pool_index_confirm(struct kvs_store *store, const struct pool *pool, struct index_time *time,
                        const struct metadata_confirm confirms[], size_t n_confirm,
                        const struct metadata_release releases[], size_t n_release,
                        enum catalog_rejection ret_reasons[]);
bool pool_index_get(struct kvs_store *store, const struct pool *pool, struct index_time *time,
                    const struct metadata_text keys[], size_t n, struct catalog_found ret_found[]);
bool pool_index_exists(struct kvs_store *store, const struct pool *pool, struct index_time *time,
                       const struct metadata_text keys[], size_t n, bool ret_exists[]);
bool pool_index_report_mismatch(struct kvs_store *store, const struct pool *pool,
                                struct index_time *time, const struct metadata_release pages[],
                                size_t n);
/* These two give their failure to the caller. */
enum kvs_status pool_index_delete(struct kvs_store *store, const struct pool *pool,
                                  struct index_time *time, const struct metadata_text keys[],
                                  size_t n, struct kvs_error *error);
enum kvs_status pool_index_clear(struct kvs_store *store, const struct pool *pool,
                                 struct index_time *time, struct kvs_error *error);

/* ---- pool_io.c */
/* Moves the keys of the chunk that have `moves`. Each gets an outcome: LOADED or WRITTEN when
 * exactly bytes_per_page bytes were moved (checksum then is that of the bytes), otherwise why not.
 * The caller's buffers are not touched after the return. `uncached`: ask the storage again. */
void pool_transfer(struct kvs_store *store, struct pool *pool, struct chunk *chunk,
                   enum page_direction direction, bool uncached, uint64_t deadline_ns);

#endif
