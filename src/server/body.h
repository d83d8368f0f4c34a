/* The JSON bodies of operations: read whole and checked before anything is changed.
 *
 * A body ends up in arrays of the worker that serves it, which are made once: a request of any size
 * allocates nothing. Texts are views into the body, or into `unescaped` when they hold escapes. */
#ifndef KVSHELF_SERVER_BODY_H
#define KVSHELF_SERVER_BODY_H

#include "base/json.h"
#include "catalog/catalog.h"
#include "catalog/image_header.h"
#include "server/route.h"

enum {
    BODY_NAMESPACE_MAX = 80, /* bytes: percent-encoded it must fit a file name */
    BODY_FINGERPRINT_MAX = IMAGE_FINGERPRINT_MAX,
    BODY_KEYS_MAX = CATALOG_BATCH_MAX,
};

/* What one request asks for; which members count depends on the endpoint. */
struct body {
    char ns[BODY_NAMESPACE_MAX + 1];
    size_t ns_length;
    uint64_t bytes_per_page; /* 0: not stated */
    char fingerprint[BODY_FINGERPRINT_MAX + 1];
    bool has_fingerprint;
    uint64_t num_pages;          /* initialize */
    bool generations, checksums; /* reserve; get and exists */
    uint64_t owner;              /* reserve; 0: none */
    uint64_t start, limit;       /* list_keys */

    size_t keys, confirms, releases; /* how many of each */
    struct json_text *texts;         /* keys; of confirms and releases their keys, in this order */
    struct key *packed;              /* keys */
    struct catalog_confirm *confirm;
    struct catalog_release *release; /* also the pages of report_mismatch */
    struct buffer unescaped;
};

/* Allocates the arrays; false on lack of memory. */
bool body_init(struct body *body);
void body_done(struct body *body);

/* Reads a body and packs its keys. Errors: KVS_ERR_REQUEST_JSON, _MEMBER, _MISSING, _LIMIT. */
enum kvs_status body_read(struct body *body, enum endpoint endpoint, struct http_text bytes,
                          struct kvs_error *error);

#endif
