/* One catalog of a registry: its lock, its identity and, when it is kept, its image. Private to the
 * registry, which finds entries and decides when they come and go.
 *
 * Two locks. `lock` guards everything but the image; requests hold it for microseconds.
 * `image_lock` is held over the writing of the image, which may take as long as the disk does; it
 * is taken first. */
#ifndef KVSHELF_METADATA_ENTRY_H
#define KVSHELF_METADATA_ENTRY_H

#include "catalog/image.h"
#include "metadata/registry.h"

#include <pthread.h>
#include <stdatomic.h>

struct registry_entry {
    const struct registry_options *options; /* the registry's */
    atomic_uint references;
    uint32_t rank;
    char *ns;
    size_t ns_length;

    pthread_mutex_t lock;
    struct catalog *catalog; /* NULL once dropped */
    bool going;              /* about to be dropped: nobody may begin to use it */
    uint64_t num_pages, bytes_per_page;
    char *fingerprint;     /* "" when not stated */
    uint64_t last_busy_ms; /* the last request, or the last time a page or lease was seen alive */
    uint64_t written_ms;   /* the image held every change of before */

    pthread_mutex_t image_lock;
    struct image *image; /* NULL: in memory */
    bool identity_changed;
    struct catalog_state written_state;
    bool failing;
    bool displaced; /* failing because another file has the image's place */
    uint64_t complained_ms;
};

/* In memory, when dir is NULL. Otherwise the image is made first, and opened. Errors as
 * registry_initialize(). */
enum kvs_status entry_create(const struct registry_options *options, const struct image_dir *dir,
                             const struct image_identity *identity,
                             struct registry_entry **ret_entry, struct kvs_error *error);
/* Opens an image that is there. */
enum kvs_status entry_open(const struct registry_options *options, const struct image_dir *dir,
                           const char *name, struct registry_entry **ret_entry,
                           struct kvs_error *error);

/* Ends one reference; the last one frees, files stay as they are. NULL allowed; returns NULL. */
struct registry_entry *entry_release(struct registry_entry *entry);

/* Under `lock`: does the entry have this identity? num_pages 0, bytes_per_page 0 and fingerprint
 * NULL or "" match anything. Errors: KVS_ERR_GEOMETRY_DIFFERS, KVS_ERR_FINGERPRINT_DIFFERS. */
enum kvs_status entry_match(const struct registry_entry *entry, uint64_t num_pages,
                            uint64_t bytes_per_page, const char *fingerprint,
                            struct kvs_error *error);
/* Takes over what was not stated before. Errors: KVS_ERR_NO_MEMORY. */
enum kvs_status entry_adopt(struct registry_entry *entry, uint64_t bytes_per_page,
                            const char *fingerprint, struct kvs_error *error);

/* Notes a page or lease that is alive. */
void entry_look_for_life(struct registry_entry *entry);

/* How slots are written: in small pieces, with pauses for those that answer requests; or as fast as
 * can be, when somebody waits for it. */
enum entry_manner { ENTRY_GIVES_WAY, ENTRY_HURRIES };

/* Writes every change to the image; the locks are taken inside. Does nothing in memory. */
enum kvs_status entry_write(struct registry_entry *entry, enum entry_manner manner,
                            struct kvs_error *error);
/* A clean stop. The catalog is gone afterwards. */
enum kvs_status entry_stop(struct registry_entry *entry, struct kvs_error *error);
/* Removes the files. The catalog is gone afterwards, and users that wait for the lock find it so.
 * Errors: KVS_ERR_CATALOG_IO; nothing has changed then. */
enum kvs_status entry_drop(struct registry_entry *entry, struct kvs_error *error);

#endif
