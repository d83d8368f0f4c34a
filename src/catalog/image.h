/* A kept catalog's file, the image, and its live array: what is where, which of the two is the
 * truth after a start, and writing the one behind the other. No rules of the catalog, no threads,
 * no locks but those on files. docs/format.md describes both.
 *
 *     image_open()    finds the truth; the caller opens a catalog over slots and state
 *     image_begin()   from now on the live array is the truth
 *     image_write(), image_commit()   write changed slots behind
 *     image_stop()    a clean stop: the image is the truth, the live array is gone
 *     image_close()   frees; files stay as they are
 *
 * Threads: image_slots() and image_state() may be used at any time; everything else by one thread
 * at a time. */
#ifndef KVSHELF_CATALOG_IMAGE_H
#define KVSHELF_CATALOG_IMAGE_H

#include "base/log.h"
#include "catalog/catalog.h"
#include "catalog/image_header.h"
#include "catalog/image_os.h"

/* A directory of images, locked by this process. The strings outlive the images. */
struct image_dir {
    const char *path;
    int fd;
    uint64_t device, inode;
    const struct image_os *os;
    struct logger log;
};

struct image_identity {
    uint32_t rank;
    const char *ns;
    uint64_t num_pages;
    uint64_t bytes_per_page; /* 0: not stated */
    const char *fingerprint; /* "": not stated */
};

struct image;

/* Makes the file of a new, empty catalog, whole or not at all. Errors: KVS_ERR_NO_SPACE,
 * KVS_ERR_CATALOG_IO (also when the file is there already), KVS_ERR_NO_MEMORY. */
enum kvs_status image_create(const struct image_dir *dir, const struct image_identity *identity,
                             struct kvs_error *error);

/* Removes the file of a catalog that was just made and cannot be opened. */
void image_discard(const struct image_dir *dir, const char *name);

/* Opens a file of the directory and gives it a live array. now_ms: CLOCK_BOOTTIME. Nothing is
 * written into the image, except where its live array is the image itself, mapped. Errors (the file
 * is left untouched): KVS_ERR_CATALOG_FOREIGN, _VERSION, _DAMAGED, _TRUNCATED, _IO,
 * KVS_ERR_NO_MEMORY, KVS_ERR_NO_SPACE. */
enum kvs_status image_open(const struct image_dir *dir, const char *name, uint64_t now_ms,
                           struct image **ret_image, struct kvs_error *error);

/* Only reads the header: the errors of image_open() for a file that cannot be used. */
enum kvs_status image_check(const struct image_dir *dir, const char *name,
                            struct image_header *ret_header, struct kvs_error *error);

/* What a catalog is opened over: slots, state, origin and recency of the options. */
void image_fill_options(const struct image *image, struct catalog_options *options);

/* Starts the run, once the catalog has been opened and before its first answer. Until
 * unsettled_until_ms (CLOCK_BOOTTIME; 0: no such time) a further start has to keep the caution that
 * the origin of this one asks for. Errors: KVS_ERR_CATALOG_IO, KVS_ERR_NO_SPACE. */
enum kvs_status image_begin(struct image *image, uint64_t unsettled_until_ms,
                            struct kvs_error *error);

/* Valid until image_set_identity(). */
struct image_identity image_identity(const struct image *image);
struct catalog_state *image_state(const struct image *image);
/* The image itself is mapped. */
bool image_is_mapped(const struct image *image);
const char *image_path(const struct image *image);

/* bytes_per_page and fingerprint, written with the next commit. */
void image_set_identity(struct image *image, uint64_t bytes_per_page, const char *fingerprint);

/* What was done to the file behind our back. */
enum image_loss { IMAGE_KEPT, IMAGE_REMOVED, IMAGE_CUT };
/* Whether the file is still there, whole and under its name. One that was removed or cut is made
 * anew (*ret_loss): it holds a header and not every slot, so that all of them must be written.
 * Errors: KVS_ERR_CATALOG_DISPLACED (another file is there, and is left alone; or the image is gone
 * and was mapped, or cannot be made anew), KVS_ERR_CATALOG_IO, KVS_ERR_NO_SPACE. */
enum kvs_status image_look_after(struct image *image, enum image_loss *ret_loss,
                                 struct kvs_error *error);

/* Writes changed slots; they are not safe before the commit. Errors: KVS_ERR_CATALOG_IO,
 * KVS_ERR_NO_SPACE. After a failure every slot must be written again. */
enum kvs_status image_write(struct image *image, const struct catalog_copy *copy,
                            struct kvs_error *error);
/* Syncs what was written, then writes and syncs a header with this state. */
enum kvs_status image_commit(struct image *image, const struct catalog_state *state,
                             struct kvs_error *error);

/* The time of caution is over, written with the next commit or stop. */
void image_settled(struct image *image);

/* A clean stop, after every slot was written and committed. The recency order is left out when it
 * cannot be written. Errors as image_commit(): the live array then stays the truth. */
enum kvs_status image_stop(struct image *image, const uint32_t *recency, uint32_t recency_count,
                           struct kvs_error *error);

/* Removes the image and its live array. Errors: KVS_ERR_CATALOG_IO. */
enum kvs_status image_remove(struct image *image, struct kvs_error *error);

/* NULL allowed; returns NULL. */
struct image *image_close(struct image *image);

#endif
