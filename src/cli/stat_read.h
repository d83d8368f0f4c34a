/* What is known of a directory of kept catalogs without opening them: nothing is locked or written,
 * so that it may be asked while an engine or a server uses them. stat.c prints it.
 *
 * Figures are those of the images. While a catalog is used its image follows a second or so behind.
 */
#ifndef KVSHELF_CLI_STAT_READ_H
#define KVSHELF_CLI_STAT_READ_H

#include "catalog/image_header.h"
#include "kvshelf/kvshelf.h"
#include "metadata/namespace_row.h"
#include "pagefile/filesystem.h"

struct stat_catalog {
    char *file; /* its name in the directory */
    struct image_header header;
    struct catalog_counts pages;
    uint64_t
        damaged; /* slots with a bad checksum, counted as retired: what a start makes of them */
    uint64_t image_bytes;    /* size of the image file */
    uint64_t written_ago_ms; /* since the image was last written */
    struct kvs_error error;  /* status KVS_OK, or why there are no figures */
};

/* Of a catalog without error; views into it. */
struct namespace_row stat_catalog_row(const struct stat_catalog *catalog);

struct stat_dir {
    char *path;
    struct filesystem filesystem;
    uint64_t in_use_by; /* process id; 0: by none that can be seen */
    struct stat_catalog *catalogs;
    size_t num_catalogs;
};

/* Reads every catalog of the directory; one that cannot be read has its error. Errors:
 * KVS_ERR_CATALOG_NONE (no such directory, or one of other files), KVS_ERR_CATALOG_DIR,
 * KVS_ERR_NO_MEMORY.
 * `*ret_dir` is ended with stat_dir_done(). */
enum kvs_status stat_dir_read(const char *path, struct stat_dir *ret_dir, struct kvs_error *error);
void stat_dir_done(struct stat_dir *dir);

#endif
