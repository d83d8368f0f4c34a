/* Where a replay puts its pages: the store, with every byte read back checked (replay_store.c), or
 * the local metadata client alone, which moves no bytes (replay_memory.c). */
#ifndef KVSHELF_CLI_REPLAY_TARGET_H
#define KVSHELF_CLI_REPLAY_TARGET_H

#include "base/log.h"
#include "kvshelf/kvshelf.h"

struct replay_target {
    const struct replay_target_ops *ops; /* first member of each target */
};

/* What one batch of a get came to. */
struct replay_got {
    size_t run;    /* pages of the leading run */
    size_t loaded; /* pages loaded, in the run or behind it */
    size_t wrong_pages;
    uint64_t bytes, wrong_bytes;
    uint64_t duration_ns; /* of the call, without making keys and checking bytes */
};

/* What one batch of a set came to. */
struct replay_put {
    size_t written;    /* pages */
    size_t not_stored; /* pages that are not there afterwards */
    size_t failed;     /* of these, those that the storage refused */
    size_t no_space;   /* of these, those for which there was no space */
    uint64_t bytes;
    uint64_t duration_ns; /* of the call, without making keys and bytes */
};

struct replay_target_ops {
    enum kvs_status (*get)(struct replay_target *, const uint64_t ids[], size_t n,
                           struct replay_got *ret_got, struct kvs_error *);
    enum kvs_status (*set)(struct replay_target *, const uint64_t ids[], size_t n,
                           struct replay_put *ret_put, struct kvs_error *);
    struct replay_target *(*close)(struct replay_target *); /* returns NULL */
};

struct replay_target_options {
    uint32_t capacity_pages;
    uint64_t page_bytes;
    size_t batch_max; /* most ids of one call */
    enum kvs_eviction eviction;
    const char *dir; /* of the page file */
    bool kept;       /* the catalogs are kept there as well */
    struct logger log;
};

/* Errors: those of kvs_store_open(), KVS_ERR_NO_MEMORY. */
enum kvs_status replay_store_open(const struct replay_target_options *options,
                                  struct replay_target **ret_target, struct kvs_error *error);
/* `dir` is not used. Errors: those of metadata_local_open() and its initialize. */
enum kvs_status replay_memory_open(const struct replay_target_options *options,
                                   struct replay_target **ret_target, struct kvs_error *error);

/* ---- Keys ------------------------------------------------------------------------------------*/

enum { REPLAY_KEY_LENGTH = 64 };
struct replay_key {
    char text[REPLAY_KEY_LENGTH + 1];
};
/* The key of a page: the SHA-256 of the decimal digits of its id, as 64 lower-case hex digits. */
void replay_key_make(struct replay_key *ret_key, uint64_t id);

#endif
