/* The directory of kept catalogs: made, checked, locked against a second process, and what is in
 * it. */
#ifndef KVSHELF_METADATA_DIRECTORY_H
#define KVSHELF_METADATA_DIRECTORY_H

#include "catalog/image.h"

struct directory {
    struct image_dir images;
    char *path; /* absolute */
    int lock_fd;
};

/* Makes what is missing of the path (0700), refuses network and user-space file systems, takes
 * `DIR/lock`, and removes what an interrupted creation has left. `path` may be relative. Errors:
 * KVS_ERR_CATALOG_DIR, KVS_ERR_CATALOG_IN_USE, KVS_ERR_NO_MEMORY. */
enum kvs_status directory_open(struct directory *ret_dir, const char *path,
                               const struct image_os *os, const struct logger *log,
                               struct kvs_error *error);

/* The names of the images, sorted; the caller frees them with directory_free_names(). Errors:
 * KVS_ERR_CATALOG_DIR, KVS_ERR_NO_MEMORY. */
enum kvs_status directory_names(const struct directory *dir, char ***ret_names, size_t *ret_n,
                                struct kvs_error *error);
void directory_free_names(char **names, size_t n);

/* A directory that was never opened is all zero, and may be closed. Unlocks. */
void directory_close(struct directory *dir);

/* The name of a file system that is refused, by the magic number of statfs(); NULL for others. */
const char *directory_refused_filesystem(uint64_t magic);

#endif
