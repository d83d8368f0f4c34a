/* The system calls the kept files are written with, as one table, so that tests can make any of
 * them fail at any moment, and the loops around them: whole transfers, EINTR. No file format here.
 */
#ifndef KVSHELF_CATALOG_IMAGE_OS_H
#define KVSHELF_CATALOG_IMAGE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/vfs.h>

struct image_os {
    const char *shm_dir; /* where live arrays are: a tmpfs */
    ssize_t (*pwrite)(int fd, const void *bytes, size_t length, off_t offset);
    int (*fdatasync)(int fd);
    int (*fsync)(int fd);                                /* of directories */
    int (*allocate)(int fd, off_t offset, off_t length); /* as posix_fallocate(): an errno */
    int (*fstatfs)(int fd, struct statfs *ret);
    void (*pause)(uint64_t ns); /* leaves the processor to others */
};

extern const struct image_os image_os_linux;

/* Each returns 0 or an errno. Reading past the end of the file is EIO; beyond what the process may
 * write (ulimit -f) nothing is written, and it is EFBIG. */
int image_os_read(int fd, void *bytes, size_t length, uint64_t offset);
int image_os_write(const struct image_os *os, int fd, const void *bytes, size_t length,
                   uint64_t offset);
int image_os_sync(const struct image_os *os, int fd);
/* Gives the range blocks of its own, in pieces, so that a host whose timers fire all the time
 * cannot interrupt it for ever. */
int image_os_allocate(const struct image_os *os, int fd, uint64_t length);

/* Like image_os_read(), with two threads where that pays. */
int image_os_read_large(int fd, void *bytes, size_t length, uint64_t offset);

/* Random bytes of the kernel; an errno. */
int image_os_random(void *bytes, size_t length);

#endif
