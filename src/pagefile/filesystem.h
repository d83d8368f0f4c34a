/* What kind of file system a page file is on, and what follows from it. */
#ifndef KVSHELF_PAGEFILE_FILESYSTEM_H
#define KVSHELF_PAGEFILE_FILESYSTEM_H

#include <stdbool.h>

struct filesystem {
    const char *name; /* "ext4", "nfs", ...; "unknown" for one that is not in the table */
    bool network;     /* calls may hang, other machines may have the file open, and this machine's
                       * page cache is not the truth. What is unknown counts as local. */
    bool in_memory;   /* tmpfs: there is no device to bypass the cache for */
};

/* fd: any open file on it. Never fails: what cannot be asked is unknown. Blocks on statfs. */
struct filesystem filesystem_of(int fd);

#endif
