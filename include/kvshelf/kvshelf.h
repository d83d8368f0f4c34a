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
#define KVS_VERSION "0.1.0"

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

/* The symbol of a status, e.g. "KVS_ERR_CONFIG_LOAD"; "KVS_OK" for 0; "KVS_ERR_UNKNOWN" for a number
 * that is not in the catalogue. Static storage. */
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

    /* Where pages and their index are. */
    const char *file_path_prefix; /* file: {prefix}.{rank}.bin */
    uint64_t file_size;           /* bytes */
    uint32_t numjobs;             /* I/O threads */
    uint32_t entries;             /* I/Os in flight per thread */
    const char *metadata_server_url;
    const char *metadata_token_file;
    const char *metadata_dir; /* keeps the local catalogs; NULL: in memory */
    double client_timeout;    /* seconds */
    bool use_mock_hf3fs_client;

    enum kvs_eviction eviction;
    enum kvs_verify verify;
    double reserve_ttl; /* seconds */
    double quarantine;  /* seconds */
    enum kvs_io_engine io_engine;
    enum kvs_direct direct;
    uint32_t exists_cache_ms;
    uint64_t max_inflight_bytes;

    kvs_log_fn log;
    void *log_arg;
};

/* Sets every field to its default: /data/hicache, 1 TiB, numjobs 16, entries 8, client_timeout 5 s,
 * local metadata in memory, one rank of one. bytes_per_page stays 0 and must be set. */
KVS_API void kvs_store_options_init(struct kvs_store_options *options);

/* ---- Store -----------------------------------------------------------------------------------*/
struct kvs_store; /* opaque */

/* Opens a store: creates missing directories and the page file (which only ever grows), and its
 * catalog. Blocks on file-system calls. On success the caller owns *ret_store and ends it with
 * kvs_store_close(). Errors: the KVS_ERR_CONFIG_* group for what is wrong in the options,
 * KVS_ERR_MLA_NEEDS_SERVER, KVS_ERR_FILE_* for the page file, KVS_ERR_CATALOG_* for a kept catalog
 * that cannot be used, KVS_ERR_NO_MEMORY. */
KVS_API enum kvs_status kvs_store_open(const struct kvs_store_options *options,
                                       struct kvs_store **ret_store, struct kvs_error *error);

/* Like kvs_store_open(), after reading the JSON file named by SGLANG_HICACHE_HF3FS_CONFIG_PATH over
 * `options`; where the variable is not set, options stand as they are (the defaults of the original).
 * Further errors: KVS_ERR_CONFIG_LOAD, KVS_ERR_CONFIG_MISSING_KEYS, KVS_ERR_CONFIG_VALUE. */
KVS_API enum kvs_status kvs_store_open_env(const struct kvs_store_options *options,
                                           struct kvs_store **ret_store, struct kvs_error *error);

/* Pool 0 is the KV pool. Extra pools (mamba, swa, indexer, ...) have their own file
 * ({file}.{name}), page size and namespace. Adding one that exists with the same geometry gives the
 * same number again. `replicated`: its pages are the same on every rank of an MLA model. Errors:
 * KVS_ERR_CONFIG_VALUE (bytes_per_page 0, other geometry, too many pools), and those of open. */
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

/* Stores n pages. keys[i] is NUL-terminated; buffers[i] holds bytes_per_page bytes, with pairs
 * buffers[2 * i] is K and buffers[2 * i + 1] is V of page i. ret_stored[i] is true when page i is
 * present under its key when the call returns (just written, or there already). Never fails as a
 * whole: what could not be stored is false and counted in the statistics. Blocks until the I/O has
 * ended; splits batches of any size inside. An MLA rank other than 0 writes no KV and answers true. */
KVS_API void kvs_store_batch_set(struct kvs_store *store, uint32_t pool, size_t n,
                                 const char *const keys[], const void *const buffers[],
                                 bool ret_stored[]);

/* Loads n pages into the caller's buffers (as for set). ret_loaded[i] is true when buffers[i] holds
 * exactly the bytes confirmed under keys[i]; otherwise the page is a miss and its buffer's content
 * is undefined. Never fails as a whole. Blocks until the I/O has ended. */
KVS_API void kvs_store_batch_get(struct kvs_store *store, uint32_t pool, size_t n,
                                 const char *const keys[], void *const buffers[], bool ret_loaded[]);

/* The number of leading keys that are present (the leading run): 0..n. Never fails. */
KVS_API size_t kvs_store_batch_exists(struct kvs_store *store, uint32_t pool, size_t n,
                                      const char *const keys[]);

/* Deletes the keys that are present. Errors: those of the metadata client. */
KVS_API enum kvs_status kvs_store_delete(struct kvs_store *store, uint32_t pool, size_t n,
                                         const char *const keys[], struct kvs_error *error);

/* Empties the catalog of every pool. Errors: those of the metadata client. */
KVS_API enum kvs_status kvs_store_clear(struct kvs_store *store, struct kvs_error *error);

/* Totals since open, over all pools. Lock-free, callable from any thread at any rate. */
struct kvs_store_stats {
    uint64_t pages_asked, pages_hit, pages_loaded, pages_missed;
    uint64_t pages_set, pages_present, pages_written, pages_not_stored;
    uint64_t bytes_read, bytes_written;
    uint64_t checksum_mismatches, io_errors, short_reads, metadata_errors;
};
KVS_API void kvs_store_get_stats(const struct kvs_store *store, struct kvs_store_stats *ret_stats);

/* Waits for I/O under way, writes the kept catalogs and frees everything. NULL is allowed. Returns
 * NULL. */
KVS_API struct kvs_store *kvs_store_close(struct kvs_store *store);

#ifdef __cplusplus
}
#endif
#endif
