/* The file under an engine: how it is opened, grown, looked after and synced; not how pages are
 * moved.
 *
 * Directories are created as by many processes at once, the file only ever grows, and whether
 * O_DIRECT is used is decided here. The descriptor keeps its number for the life of the structure:
 * when the path leads elsewhere the new file is put under the same number, so that I/O needs no
 * lock. */
#ifndef KVSHELF_PAGEFILE_FILE_H
#define KVSHELF_PAGEFILE_FILE_H

#include "pagefile/filesystem.h"
#include "pagefile/pagefile.h"

#include <stdatomic.h>
#include <sys/types.h>

struct page_file {
    int fd;
    char *path; /* absolute: the process may change its directory */
    uint64_t size, bytes_per_page;
    struct filesystem filesystem;
    enum pagefile_index index;
    bool existing;         /* nothing is made or grown, and nothing written */
    bool locked;           /* nobody with another index is known to use it */
    bool direct;           /* fd has O_DIRECT */
    uint32_t memory_align; /* of buffers, when direct; 1 otherwise */
    uint32_t offset_align; /* of offsets and lengths, when direct; 1 otherwise */
    pid_t owner;           /* the process that opened it: a forked child does no I/O */
    struct logger log;
    atomic_bool nowait;     /* cached reads can be tried without blocking (RWF_NOWAIT) */
    atomic_uint generation; /* goes up when another file was put under fd */
};

/* Errors: those of pagefile_open(), but for KVS_ERR_IO_ENGINE. On success ended by
 * page_file_done(). */
enum kvs_status page_file_open(struct page_file *file, const struct pagefile_options *options,
                               struct kvs_error *error);
void page_file_done(struct page_file *file);
/* `to` is unset; `from` is not to be used any more. */
void page_file_move(struct page_file *to, struct page_file *from);
bool page_file_forked(const struct page_file *file);
/* See `sync` and `check` of struct pagefile_ops. check: one caller at a time. */
enum kvs_status page_file_sync(struct page_file *file, struct kvs_error *error);
enum kvs_status page_file_check(struct page_file *file, struct kvs_error *error);

#endif
