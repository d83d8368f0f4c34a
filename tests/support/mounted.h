/* Small file systems of a test's own, so that a disk can be full. They are mounted in a mount
 * namespace of this process: nobody else sees them, and they are gone when it ends. */
#ifndef KVSHELF_TESTS_SUPPORT_MOUNTED_H
#define KVSHELF_TESTS_SUPPORT_MOUNTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Mounts on `dir`, an empty directory. False, with the reason, where that is not permitted or the
 * tools are not there. */
bool mounted_tmpfs(const char *dir, uint64_t bytes, char *reason, size_t reason_bytes);
/* Over a loop device. `ret_image` (may be NULL; to be closed) is the file behind the device: where
 * it is cut the device answers EIO. Nothing is written that the test does not write. */
bool mounted_ext4(const char *dir, uint64_t bytes, int *ret_image, char *reason,
                  size_t reason_bytes);
void mounted_undo(const char *dir);

#endif
