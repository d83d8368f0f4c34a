/* What a server has just said of keys, kept for the moment between "is it there" and "read it", so
 * that the second needs no question. Bounded: what does not fit is asked again.
 *
 * Only pages with a checksum are kept: an answer that has become stale then costs a miss, never a
 * wrong byte. Each is given out once: whoever looks twice, because what was read did not verify,
 * hears the server. Threads: any. The time is an argument (CLOCK_MONOTONIC, nanoseconds). */
#ifndef KVSHELF_METADATA_REMOTE_CACHE_H
#define KVSHELF_METADATA_REMOTE_CACHE_H

#include "metadata/metadata.h"

enum {
    REMOTE_CACHE_KEYS = 1 << 16, /* 80 bytes each */
    REMOTE_CACHE_SCOPES = 64,    /* further (rank, namespace)s are not kept */
};

struct remote_cache;

/* NULL on lack of memory. */
struct remote_cache *remote_cache_new(uint64_t life_ns);
struct remote_cache *remote_cache_free(struct remote_cache *cache); /* NULL allowed; returns NULL */

/* To be asked for before the server is: answers to questions from before a drop are not kept. */
uint64_t remote_cache_epoch(struct remote_cache *cache, const struct metadata_scope *scope);
/* Each key's answer takes the place of an older one, also where it is that the key is absent. */
void remote_cache_put(struct remote_cache *cache, const struct metadata_scope *scope,
                      uint64_t epoch, const struct metadata_text keys[],
                      const struct catalog_found found[], size_t n, uint64_t now_ns);

/* Takes out what is known of the keys. True when that is all of them: only then is ret_found an
 * answer, because with the server's word for the rest it would be of two moments (K of one life of
 * a page and V of another). */
bool remote_cache_take(struct remote_cache *cache, const struct metadata_scope *scope,
                       const struct metadata_text keys[], size_t n, uint64_t now_ns,
                       struct catalog_found ret_found[]);

/* Forgets a namespace: something was deleted in it. */
void remote_cache_drop(struct remote_cache *cache, const struct metadata_scope *scope);

#endif
