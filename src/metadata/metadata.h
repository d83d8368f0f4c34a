/* The metadata client: the seven operations a store needs of an index, over catalogs of this
 * process (local.c) or a server (remote.c). Keys are text here. Threads: any; calls may block up to
 * their deadline where there is one (the remote client), never on the local one.
 *
 * Every operation names (rank, namespace); before initialize it fails with KVS_ERR_NOT_INITIALIZED,
 * whose text is the original's. */
#ifndef KVSHELF_METADATA_METADATA_H
#define KVSHELF_METADATA_METADATA_H

#include "base/log.h"
#include "catalog/catalog.h"

struct metadata_client {
    const struct metadata_ops *ops; /* first member of each client */
};

struct metadata_scope {
    uint32_t rank;
    const char *ns;
    uint64_t bytes_per_page;
    const char *fingerprint; /* NULL: not stated */
    uint64_t left_ns; /* of the call that this question is a part of; 0: as long as any may take */
};

struct metadata_text {
    const char *text;
    size_t length;
};

struct metadata_confirm {
    struct metadata_text key;
    int64_t page;
    uint64_t generation, checksum;
};
struct metadata_release {
    struct metadata_text key;
    int64_t page;
    uint64_t generation;
};

struct metadata_ops {
    enum kvs_status (*initialize)(struct metadata_client *, const struct metadata_scope *,
                                  uint64_t num_pages, struct kvs_error *);
    enum kvs_status (*reserve_and_allocate_page_indices)(
        struct metadata_client *, const struct metadata_scope *, const struct metadata_text keys[],
        size_t n, struct catalog_reserved ret_reserved[], struct kvs_error *);
    /* Confirms and releases in one call; reasons[] (n_confirm) may be NULL. */
    enum kvs_status (*confirm_write)(struct metadata_client *, const struct metadata_scope *,
                                     const struct metadata_confirm confirms[], size_t n_confirm,
                                     const struct metadata_release releases[], size_t n_release,
                                     enum catalog_rejection ret_reasons[], struct kvs_error *);
    enum kvs_status (*get_page_indices)(struct metadata_client *, const struct metadata_scope *,
                                        const struct metadata_text keys[], size_t n,
                                        struct catalog_found ret_found[], struct kvs_error *);
    enum kvs_status (*exists)(struct metadata_client *, const struct metadata_scope *,
                              const struct metadata_text keys[], size_t n, bool ret_exists[],
                              struct kvs_error *);
    enum kvs_status (*delete_keys)(struct metadata_client *, const struct metadata_scope *,
                                   const struct metadata_text keys[], size_t n, struct kvs_error *);
    enum kvs_status (*clear)(struct metadata_client *, const struct metadata_scope *,
                             struct kvs_error *);
    /* A verifying reader found other bytes twice under this generation. */
    enum kvs_status (*report_mismatch)(struct metadata_client *, const struct metadata_scope *,
                                       const struct metadata_release pages[], size_t n,
                                       struct kvs_error *);
    struct metadata_client *(*close)(struct metadata_client *); /* returns NULL */
};

struct registry_options;
/* Catalogs of this process, kept when options->dir is set. Native: its gets ask for checksums and
 * take no lease. `verified_only`: pages without a checksum, which a directory may have from a time
 * when a server used it, are absent. Errors: those of registry_open(). */
enum kvs_status metadata_local_open(const struct registry_options *options, bool verified_only,
                                    struct metadata_client **ret_client, struct kvs_error *error);

struct remote_transport;

enum { METADATA_EXISTS_TIMEOUT_MS = 200 };

struct metadata_remote_options {
    const char *url; /* http:// or https://, with or without credentials; read while opening */
    const char *token_file; /* NULL: none; read while opening */
    uint64_t timeout_ms;    /* of each question, repetitions included */
    uint64_t
        exists_timeout_ms; /* of exists, which engines ask from their scheduler; 0: the above */
    uint64_t cache_ms;     /* how long an answer of exists serves the get that follows; 0: never */
    bool verified_only;    /* pages without a checksum are absent */
    struct logger log;
    struct remote_transport *transport; /* taken over, on failure too; NULL: HTTP by libcurl */
    uint64_t (*now_ns)(void *arg);      /* of deadlines and the cache; NULL: clock_mono_ns() */
    void *now_arg;
};
/* A server's catalogs. Asks nothing yet. Calls fail with KVS_ERR_REMOTE_*, and with the server's
 * KVS_ERR_NOT_INITIALIZED_SERVER, KVS_ERR_GEOMETRY_DIFFERS and KVS_ERR_FINGERPRINT_DIFFERS.
 * initialize waits for a server that is starting, at most timeout_ms. Errors: KVS_ERR_CONFIG_VALUE
 * (the URL), KVS_ERR_TOKEN_FILE, KVS_ERR_TOKEN_FILE_MISSING, KVS_ERR_NO_MEMORY. */
enum kvs_status metadata_remote_open(const struct metadata_remote_options *options,
                                     struct metadata_client **ret_client, struct kvs_error *error);

#endif
