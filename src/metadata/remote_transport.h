/* How the remote metadata client asks a server: one question, sent once, and one answer. HTTP by
 * libcurl (remote_http.c) is the one of the product; the simulation and tests bring their own.
 * Whether a question is asked again is the client's decision (remote.c).
 *
 * Threads: any number may ask at once. */
#ifndef KVSHELF_METADATA_REMOTE_TRANSPORT_H
#define KVSHELF_METADATA_REMOTE_TRANSPORT_H

#include "base/buffer.h"
#include "kvshelf/kvshelf.h"

struct remote_question {
    const char *path; /* "/0/exists" */
    const char *body; /* NULL: GET, otherwise POST */
    size_t body_bytes;
    uint64_t timeout_ms;     /* the answer must be complete by then; 0: it is too late already */
    size_t answer_max_bytes; /* a longer answer is refused */
    bool repeatable; /* carrying it out twice is harmless: a kept connection may be used, and
                      * another one when that turns out to be dead */
};

struct remote_transport {
    /* The HTTP status and the body of whatever was answered. Errors: KVS_ERR_REMOTE_UNREACHABLE
     * (nothing was sent), KVS_ERR_REMOTE_DEADLINE and KVS_ERR_REMOTE_BROKEN (the question may have
     * been carried out), KVS_ERR_REMOTE_ANSWER (too long, or not HTTP), KVS_ERR_STORE_UNUSABLE (in
     * a child of fork()), KVS_ERR_NO_MEMORY. */
    enum kvs_status (*ask)(struct remote_transport *, const struct remote_question *,
                           int *ret_http_status, struct buffer *ret_answer, struct kvs_error *);
    /* Returns NULL. In a child of fork() it frees nothing: the connections are the parent's. */
    struct remote_transport *(*close)(struct remote_transport *);
    const char *url; /* for messages: without credentials */
};

/* `url` is http:// or https://, with or without credentials and a path. `token_file` NULL: none;
 * otherwise its token is sent as Bearer. Nothing is connected yet. Errors: KVS_ERR_CONFIG_VALUE
 * (the URL), KVS_ERR_TOKEN_FILE, KVS_ERR_TOKEN_FILE_MISSING, KVS_ERR_NO_MEMORY. */
enum kvs_status remote_http_open(const char *url, const char *token_file,
                                 struct remote_transport **ret_transport, struct kvs_error *error);

#endif
