/* The catalogs of one process by (rank, namespace), each behind its own lock, in memory or kept in
 * a directory. The local metadata client and the server are two doors to it.
 *
 * Kept: the live array is a file on /dev/shm, an image in the directory is written behind by one
 * thread of the registry once a second. The directory is locked against a second process.
 * Threads: every function may be called from any thread. */
#ifndef KVSHELF_METADATA_REGISTRY_H
#define KVSHELF_METADATA_REGISTRY_H

#include "base/log.h"
#include "catalog/catalog.h"

struct registry;
struct registry_entry; /* one (rank, namespace) */
struct image_os;

/* What a registry holds at most. A page costs about 90 bytes of memory; names and fingerprints are
 * limited by what an image's header holds. */
enum { REGISTRY_NAMESPACES_MAX = 4096 };
#define REGISTRY_TOTAL_PAGES_MAX (UINT64_C(1) << 30)

struct registry_options {
    const char *dir; /* NULL: in memory. Created (0700) when missing. */
    enum kvs_eviction eviction;
    uint64_t reserve_ttl_ms, quarantine_ms, lease_ms;
    uint64_t idle_reset_ms; /* 0: never */
    bool foreign_writers;
    struct logger log;
    uint64_t max_total_pages;  /* over all namespaces; 0: REGISTRY_TOTAL_PAGES_MAX */
    uint32_t max_namespaces;   /* 0: REGISTRY_NAMESPACES_MAX */
    uint64_t (*boot_ms)(void); /* NULL: clock_boot_ms(); tests set the time */
    const struct image_os *os; /* NULL: image_os_linux; tests make system calls fail */
};

/* Opens every catalog found in the directory. Errors: KVS_ERR_CATALOG_DIR (cannot be created,
 * written or is on NFS, CIFS or FUSE), KVS_ERR_CATALOG_IN_USE, KVS_ERR_CATALOG_FOREIGN, _VERSION,
 * _DAMAGED, _TRUNCATED (the file is left untouched), KVS_ERR_NO_MEMORY, KVS_ERR_NO_SPACE. */
enum kvs_status registry_open(const struct registry_options *options,
                              struct registry **ret_registry, struct kvs_error *error);
/* A clean stop: writes images and recency orders, then frees. What cannot be written is logged and
 * stays as after a kill: nothing is lost while /dev/shm is there. In a child made by fork() it does
 * nothing. The last call made with it. NULL allowed; returns NULL. */
struct registry *registry_close(struct registry *registry);

/* Whether it has a directory. */
bool registry_is_kept(const struct registry *registry);

/* The time its catalogs are to be asked at: CLOCK_BOOTTIME, milliseconds. */
uint64_t registry_now_ms(const struct registry *registry);

/* Creates the catalog, or checks that the one there has this geometry (bytes_per_page 0 and
 * fingerprint NULL match anything, and a first one is adopted). Errors: KVS_ERR_GEOMETRY_DIFFERS,
 * KVS_ERR_FINGERPRINT_DIFFERS, KVS_ERR_CATALOG_GEOMETRY, KVS_ERR_NAME_TOO_LONG,
 * KVS_ERR_TOO_MANY_NAMESPACES, KVS_ERR_TOO_MANY_PAGES, KVS_ERR_CATALOG_IO, KVS_ERR_NO_MEMORY,
 * KVS_ERR_NO_SPACE. */
enum kvs_status registry_initialize(struct registry *registry, uint32_t rank, const char *ns,
                                    uint64_t num_pages, uint64_t bytes_per_page,
                                    const char *fingerprint, struct kvs_error *error);

/* Finds an entry and locks its catalog; NULL when (rank, namespace) was not initialized. */
struct registry_entry *registry_lock(struct registry *registry, uint32_t rank, const char *ns,
                                     size_t ns_length);
struct catalog *registry_catalog(struct registry_entry *entry); /* while locked */
void registry_unlock(struct registry_entry *entry);
/* While locked: does the namespace have this page size and fingerprint? 0 and NULL match anything.
 * Errors: KVS_ERR_GEOMETRY_DIFFERS, KVS_ERR_FINGERPRINT_DIFFERS. */
enum kvs_status registry_check(const struct registry_entry *entry, uint64_t bytes_per_page,
                               const char *fingerprint, struct kvs_error *error);

struct registry_info {
    uint32_t rank;
    const char *ns; /* valid until the entry is dropped; use inside the visit only */
    uint64_t num_pages, bytes_per_page;
    const char *fingerprint; /* "" when not stated */
    bool kept;
    bool mapped;           /* kept without room on /dev/shm: the image itself is mapped */
    bool image_failing;    /* the last write of the image failed */
    uint64_t image_age_ms; /* since the image last held every change; 0 when not kept */
    struct catalog_counts counts;
    struct catalog_totals totals;
    size_t memory_bytes;
};
typedef void (*registry_visit_fn)(void *arg, const struct registry_info *info,
                                  struct catalog *catalog);
/* Calls `visit` for each entry under its lock, ordered by rank, then namespace. */
void registry_visit(struct registry *registry, registry_visit_fn visit, void *arg);

/* Forgets a namespace and its files. Errors: KVS_ERR_NOT_INITIALIZED_SERVER; KVS_ERR_CATALOG_IO
 * (the namespace stays). */
enum kvs_status registry_drop(struct registry *registry, uint32_t rank, const char *ns,
                              struct kvs_error *error);

/* Writes every change there is to the images and syncs them; what close does, without closing.
 * Errors: KVS_ERR_CATALOG_IO, KVS_ERR_NO_SPACE (the first one; the other images were written). */
enum kvs_status registry_sync(struct registry *registry, struct kvs_error *error);

#endif
