/* Which process has a file locked with flock(2), from the kernel's list: taking the lock to see
 * whether it is free would make a start of that moment fail. */
#ifndef KVSHELF_CLI_LOCK_HOLDER_H
#define KVSHELF_CLI_LOCK_HOLDER_H

#include <stdint.h>

/* A process id; 0: none that is listed. Locks of other containers are not. */
uint64_t lock_holder(uint64_t device, uint64_t inode);

#endif
