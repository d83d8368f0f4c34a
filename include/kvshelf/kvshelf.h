/* kvshelf: the L3 tier of the KV cache for LLM inference.
 *
 * A store keeps pages of attention state under keys and gives them back: a read gives exactly the
 * bytes that were confirmed under that key, or a miss. This is the only public header.
 *
 * Conventions
 *   - Functions that can fail return enum kvs_status: 0 is success, failures are negative. Where a
 *     `struct kvs_error *` is taken it may be NULL; on failure it receives the status and one
 *     sentence from the error catalogue. Outputs named `ret_` are untouched on failure.
 *   - The caller owns every buffer. A buffer is never touched after the call it was given to has
 *     returned.
 *   - A store handle may be used from any number of threads at once, except that kvs_store_close()
 *     must be the last call made with it.
 *   - The library has no globals that callers can see, installs no signal handlers and never ends
 *     the process. After fork() a child must not expect anything from an inherited handle: every
 *     call is a miss there.
 */
#ifndef KVSHELF_KVSHELF_H
#define KVSHELF_KVSHELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVS_VERSION_MAJOR 0
#define KVS_VERSION_MINOR 1
#define KVS_VERSION_PATCH 0
#define KVS_VERSION       "0.1.0"

#if defined(__GNUC__)
#define KVS_API __attribute__((visibility("default")))
#else
#define KVS_API
#endif

/* Every failure of the library, the server and the command line. The numbers are stable. The texts
 * are in errors.def beside this file; `kvshelf explain` shows them. */
enum kvs_status {
    KVS_OK = 0,
#define KVS_ERROR(symbol, number, ...) symbol = -(number),
#include "kvshelf/errors.def"
#undef KVS_ERROR
};

enum { KVS_ERROR_MESSAGE_MAX = 1024 };

/* Filled on failure; `message` is one sentence, NUL-terminated, cut at KVS_ERROR_MESSAGE_MAX. */
struct kvs_error {
    enum kvs_status status;
    char message[KVS_ERROR_MESSAGE_MAX];
};

/* The version of the library that is running, e.g. "0.1.0". Static storage. */
KVS_API const char *kvs_version(void);

/* The symbol of a status, e.g. "KVS_ERR_CONFIG_LOAD"; "KVS_OK" for 0; "KVS_ERR_UNKNOWN" for a
 * number that is not in the catalogue. Static storage. */
KVS_API const char *kvs_status_name(enum kvs_status status);

/* ---- Logging ---------------------------------------------------------------------------------
 * The library writes nothing by itself: lines go to this callback, from any thread, one complete
 * sentence without a line end. NULL discards them. The callback must not call into the store. */
enum kvs_log_level { KVS_LOG_DEBUG = 0, KVS_LOG_INFO = 1, KVS_LOG_WARNING = 2, KVS_LOG_ERROR = 3 };
typedef void (*kvs_log_fn)(void *arg, enum kvs_log_level level, const char *line);

/* ---- Configuration ---------------------------------------------------------------------------
 * The same names as in the JSON configuration file (see docs/configuration.md). Fill with
 * kvs_store_options_init(), then change what differs. Strings are copied by kvs_store_open(). A
 * string may be NULL where "none" is a choice. */
enum kvs_eviction { KVS_EVICTION_PREFIX = 0, KVS_EVICTION_LRU = 1 };
enum kvs_verify { KVS_VERIFY_REQUIRED = 0, KVS_VERIFY_IF_KNOWN = 1 };
enum kvs_io_engine { KVS_IO_AUTO = 0, KVS_IO_URING = 1, KVS_IO_POSIX = 2, KVS_IO_USRBIO = 3 };
enum kvs_direct { KVS_DIRECT_AUTO = 0, KVS_DIRECT_ON = 1, KVS_DIRECT_OFF = 2 };

struct kvs_store_options {
    size_t size; /* sizeof(struct kvs_store_options), set by kvs_store_options_init() */

    /* What the engine knows about itself. */
    uint64_t bytes_per_page; /* bytes behind one key; with `pairs`, of one half */
    bool pairs;              /* a page is two keys, `<key>-k` and `<key>-v` (MHA, page_first) */
    bool is_mla_model;       /* pages are the same on every tensor-parallel rank */
    uint32_t tp_rank, tp_size;
    uint32_t pp_rank, pp_size;
    uint32_t cp_rank, cp_size;
    uint32_t dp_rank, dp_size;
    bool share_across_dp;
    const char *model, *revision, *dtype, *layout; /* identity; NULL: not stated */
    uint32_t page_size; /* tokens of a page, identity too; 0: not stated */

    /* Where pages and their index are. */
    const char *file_path_prefix;    /* file: {prefix}.{rank}.bin */
    uint64_t file_size;              /* bytes */
    uint32_t numjobs;                /* I/O threads */
    uint32_t entries;                /* I/Os in flight per thread */
    const char *metadata_server_url; /* the shared index; NULL: an index of this process */
    const char *metadata_token_file;
    const char *metadata_dir;   /* keeps the local catalogs; NULL: in memory */
    double client_timeout;      /* seconds */
    bool use_mock_hf3fs_client; /* plain files, even on 3FS */

    enum kvs_eviction eviction;
    enum kvs_verify verify;
    double reserve_ttl; /* seconds */
    double quarantine;  /* seconds */
    enum kvs_io_engine io_engine;
    enum kvs_direct direct;
    uint32_t exists_cache_ms;    /* milliseconds; for a remote index */
    uint64_t max_inflight_bytes; /* of writers; more wait */

    kvs_log_fn log;
    void *log_arg;

    /* For looking at a deployment that is there, as kvshelf get and delete do; an engine leaves it
     * false. The page file, the namespace and metadata_dir must exist: none is made, no file grows.
     * Pages that hold other bytes than were confirmed are misses that the index is not told of.
     * Pages are not stored (unstored_refused); deleting and clearing are done as asked for. */
    bool inspect;
};

/* Sets every field to its default: /data/hicache, 1 TiB, numjobs 16, entries 8, client_timeout 5 s,
 * local metadata in memory, one rank of one. bytes_per_page stays 0 and must be set. */
KVS_API void kvs_store_options_init(struct kvs_store_options *options);

/* ---- Store -----------------------------------------------------------------------------------*/
struct kvs_store; /* opaque */

/* Opens a store: creates missing directories and the page file (which only ever grows), and its
 * catalog. Blocks on file-system calls. On success the caller owns *ret_store and ends it with
 * kvs_store_close(). Errors: the KVS_ERR_CONFIG_* group for what is wrong in the options,
 * KVS_ERR_MLA_NEEDS_SERVER, KVS_ERR_GEOMETRY_DIFFERS and KVS_ERR_FINGERPRINT_DIFFERS when a kept
 * catalog or a server holds pages of another size or identity, KVS_ERR_FILE_* for the page file,
 * KVS_ERR_CATALOG_* for a kept catalog that cannot be used, KVS_ERR_REMOTE_* for a server that does
 * not answer within client_timeout, KVS_ERR_TOKEN_FILE, KVS_ERR_TOKEN_FILE_MISSING,
 * KVS_ERR_NO_MEMORY; with `inspect` KVS_ERR_NOT_INITIALIZED and KVS_ERR_NOT_INITIALIZED_SERVER when
 * the namespace is not there. */
KVS_API enum kvs_status kvs_store_open(const struct kvs_store_options *options,
                                       struct kvs_store **ret_store, struct kvs_error *error);

/* Like kvs_store_open(), after reading the JSON file named by SGLANG_HICACHE_HF3FS_CONFIG_PATH over
 * `options`; where the variable is not set, options stand as they are (the defaults of the
 * original). Further errors: KVS_ERR_CONFIG_LOAD, KVS_ERR_CONFIG_MISSING_KEYS,
 * KVS_ERR_CONFIG_VALUE. */
KVS_API enum kvs_status kvs_store_open_env(const struct kvs_store_options *options,
                                           struct kvs_store **ret_store, struct kvs_error *error);

/* Pool 0 is the KV pool. Extra pools (mamba, swa, indexer, ...) have their own file
 * ({file}.{name}), page size and namespace; their keys get the suffix `_{name}` inside and are
 * never pairs. Adding one that exists with the same geometry gives the same number again.
 * `replicated`: its pages are the same on every rank of an MLA model, so that rank 0 writes them
 * for all; the pages of other pools stay per rank. Errors: KVS_ERR_CONFIG_VALUE (bytes_per_page 0,
 * a name that is empty, too long or holds '@', other geometry, too many pools),
 * KVS_ERR_STORE_UNUSABLE, and those of open. */
enum { KVS_POOL_KV = 0, KVS_POOLS_MAX = 32 };
struct kvs_pool_options {
    size_t size; /* sizeof(struct kvs_pool_options) */
    const char *name;
    uint64_t bytes_per_page;
    uint64_t file_size; /* bytes; 0: as the KV pool's */
    bool replicated;
};
KVS_API enum kvs_status kvs_store_add_pool(struct kvs_store *store,
                                           const struct kvs_pool_options *options,
                                           uint32_t *ret_pool, struct kvs_error *error);

/* What a pool is. The strings belong to the store and live as long as it does. Returns false when
 * there is no such pool. Callable from any thread; does not block. */
struct kvs_pool_info {
    const char *name;      /* "kv", "mamba", ... */
    const char *ns;        /* its namespace in the index, "kv" or "kv@pp1of2" */
    const char *file_path; /* of the page file */
    const char *engine;    /* "posix", ... */
    uint64_t bytes_per_page;
    uint64_t num_pages; /* with pairs a page of the engine takes two of them */
    uint32_t rank;      /* in the index and the path */
    bool direct;        /* O_DIRECT in use */
    bool writes;        /* false: this rank leaves writing to rank 0 */
};
KVS_API bool kvs_store_pool_info(const struct kvs_store *store, uint32_t pool,
                                 struct kvs_pool_info *ret_info);

/* Stores n pages. keys[i] is NUL-terminated; buffers[i] holds bytes_per_page bytes, with pairs
 * buffers[2 * i] is K and buffers[2 * i + 1] is V of page i. ret_stored[i] is true when page i is
 * present under its key when the call returns: just written, there already, or being written by
 * another caller at this moment. Never fails as a whole: what could not be stored is false and
 * counted in the statistics by reason. Blocks until the I/O has ended, or client_timeout has passed
 * on file systems that can hang; splits batches of any size inside. The buffers must not change
 * during the call. An MLA rank other than 0 writes no KV and answers true. */
KVS_API void kvs_store_batch_set(struct kvs_store *store, uint32_t pool, size_t n,
                                 const char *const keys[], const void *const buffers[],
                                 bool ret_stored[]);

/* Loads n pages into the caller's buffers (as for set). ret_loaded[i] is true when buffers[i] holds
 * exactly the bytes confirmed under keys[i]; otherwise the page is a miss and its buffer's content
 * is undefined. Never fails as a whole. Blocks as kvs_store_batch_set() does. */
KVS_API void kvs_store_batch_get(struct kvs_store *store, uint32_t pool, size_t n,
                                 const char *const keys[], void *const buffers[],
                                 bool ret_loaded[]);

/* The number of leading keys that are present (the leading run): 0..n. Never fails. */
KVS_API size_t kvs_store_batch_exists(struct kvs_store *store, uint32_t pool, size_t n,
                                      const char *const keys[]);

/* Which of the keys are present, one answer a page, holes included (pools of which an engine needs
 * only the trailing pages). Never fails. */
KVS_API void kvs_store_batch_contains(struct kvs_store *store, uint32_t pool, size_t n,
                                      const char *const keys[], bool ret_present[]);

/* Deletes the keys that are present. Errors: KVS_ERR_STORE_UNUSABLE (after fork() or an internal
 * fault), KVS_ERR_CONFIG_VALUE (no such pool), and those of the metadata client. */
KVS_API enum kvs_status kvs_store_delete(struct kvs_store *store, uint32_t pool, size_t n,
                                         const char *const keys[], struct kvs_error *error);

/* Empties the catalog of every pool. Errors: KVS_ERR_STORE_UNUSABLE and those of the metadata
 * client; the pools after the one that failed are emptied all the same. */
KVS_API enum kvs_status kvs_store_clear(struct kvs_store *store, struct kvs_error *error);

/* Totals since open, over all pools, in pages unless named otherwise; with pairs, K and V are one
 * page. Lock-free, callable from any thread at any rate. Once no call is under way:
 *     pages_asked = pages_loaded + pages_missed, pages_missed = the sum of the missed_*
 *     pages_set = pages_written + pages_present + pages_skipped + pages_not_stored,
 *     pages_not_stored = the sum of the unstored_* */
struct kvs_store_stats {
    /* kvs_store_batch_get() */
    uint64_t pages_asked, pages_loaded, pages_missed;
    uint64_t pages_hit;         /* found in the index: what was then read, or tried */
    uint64_t missed_absent;     /* not in the index */
    uint64_t missed_replaced;   /* the page was given to another key while it was read */
    uint64_t missed_mismatch;   /* other bytes than were confirmed, twice */
    uint64_t missed_read_error; /* an I/O error or a short read */
    uint64_t missed_overdue;    /* the read did not end within client_timeout */
    uint64_t missed_metadata;   /* the index did not answer */
    uint64_t missed_refused;    /* not tried: a breaker is open, a bad key, no memory, closing */

    /* kvs_store_batch_set() */
    uint64_t pages_set, pages_written, pages_present, pages_not_stored;
    uint64_t pages_skipped;        /* answered true because another rank writes them */
    uint64_t unstored_no_page;     /* the catalog had no page to give */
    uint64_t unstored_write_error; /* an I/O error or a short write */
    uint64_t unstored_no_space;    /* the file system is full */
    uint64_t unstored_overdue;     /* the write did not end within client_timeout */
    uint64_t unstored_rejected;    /* the reservation had ended before the confirm */
    uint64_t unstored_metadata;    /* the index did not answer */
    uint64_t unstored_refused;     /* not tried: as missed_refused */

    /* kvs_store_batch_exists(), kvs_store_batch_contains() */
    uint64_t exists_asked, exists_found;

    uint64_t bytes_read, bytes_written; /* of completed I/O */
    /* Events, each I/O and each call to the index counted */
    uint64_t checksum_mismatches; /* each page of another content, K and V apart */
    uint64_t io_errors, short_reads, short_writes, overdue_ios, metadata_errors;
    uint64_t mismatches_reported; /* told to the index, at a bounded rate */
    uint64_t metadata_breaker_trips, read_breaker_trips, write_breaker_trips;
    uint64_t inflight_bytes;         /* now: of writers, and of I/O that outlived its call */
    uint64_t backpressure_waits;     /* times a call waited for inflight_bytes to sink */
    uint64_t reserved_for_later[16]; /* 0 */
};
KVS_API void kvs_store_get_stats(const struct kvs_store *store, struct kvs_store_stats *ret_stats);

/* Waits for calls and I/O under way, writes the kept catalogs and frees everything. NULL is
 * allowed. Returns NULL. In a child of fork() it frees nothing and writes nothing: all of it is the
 * parent's. */
KVS_API struct kvs_store *kvs_store_close(struct kvs_store *store);

#ifdef __cplusplus
}
#endif
#endif
