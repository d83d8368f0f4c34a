/* The live array of a kept catalog: the memory its slots and state are in while it is used. A file
 * of its own on /dev/shm, which outlives a killed process, or where that has no room the image
 * itself, mapped. Both hold a live block, then the slots. Not decided here: whether what is found
 * is the truth (image.c does). */
#ifndef KVSHELF_CATALOG_LIVE_H
#define KVSHELF_CATALOG_LIVE_H

#include "catalog/image_header.h"
#include "catalog/image_os.h"

enum { LIVE_PATH_BYTES = 2048 };

/* The first block. `token` and `next_token` change while it is used, and so does `state`. */
struct live_block {
    char magic[8];
    uint32_t version, slot_bytes;
    uint8_t id[IMAGE_ID_BYTES];
    uint8_t boot_id[IMAGE_BOOT_ID_BYTES];
    uint64_t num_pages;
    uint64_t token;                 /* of the run that used it last; 0: not used yet */
    uint64_t next_token;            /* of the run that is about to */
    uint64_t dir_device, dir_inode; /* where the image is */
    uint8_t unused[40];
    struct catalog_state state;
    uint8_t unused_too[32];
    char path[LIVE_PATH_BYTES]; /* of the image, for people who find the file */
    uint8_t rest[1856];
};
_Static_assert(sizeof(struct live_block) == IMAGE_BLOCK_BYTES, "the live block is one block");
_Static_assert(offsetof(struct live_block, state) == 128, "the state is in a line of its own");

/* Whose live array: what is written into a new block and looked for in an old one. */
struct live_owner {
    const struct image_os *os;
    uint8_t id[IMAGE_ID_BYTES];
    uint8_t boot_id[IMAGE_BOOT_ID_BYTES];
    uint64_t num_pages;
    uint64_t dir_device, dir_inode;
    const char *path;
};

struct live {
    struct live_block *block; /* NULL: none */
    uint64_t bytes;
    int fd;    /* of the file on /dev/shm, locked; -1 when the image itself is mapped */
    bool made; /* by this process, and not used yet: to be unlinked when the opening fails */
    char path[256];
};

static inline struct slot *live_slots(const struct live *live)
{
    return (struct slot *)((char *)live->block + IMAGE_BLOCK_BYTES);
}

enum live_found {
    LIVE_FOUND,  /* mapped */
    LIVE_ABSENT, /* no such file, or one that is of no use: not ours, not whole, of another boot or
                    of a run with another token */
    LIVE_OTHERS, /* another process uses it, or it belongs to another directory: the image is a copy
                    of the one there */
    LIVE_FAILED, /* it may be there, and cannot be looked at now */
};
/* Maps the file of this owner on /dev/shm, when it is whole and of a run with this token (0: none).
 * ret_failure: an errno, of LIVE_FAILED. */
enum live_found live_attach(struct live *live, const struct live_owner *owner, uint64_t token,
                            int *ret_failure);

/* Makes one with zero slots; any old one is replaced. 0 or an errno; ENOSPC also when it would take
 * more than 7/8 of what is free there. */
int live_create(struct live *live, const struct live_owner *owner);

/* Maps the live block and slots of the image itself and takes what is there as it is. 0 or an
 * errno. */
int live_map_image(struct live *live, const struct live_owner *owner, int image_fd);

/* Makes the block one of this owner that no run has used. */
void live_reset_block(struct live *live, const struct live_owner *owner);

/* Is this a block of this owner and of a run with this token? */
bool live_matches(const struct live_block *block, const struct live_owner *owner, uint64_t token);

/* Removes the file of this owner from /dev/shm, in use by us or by nobody. */
void live_unlink(const struct live_owner *owner);

/* Unmaps and unlocks; the file stays. */
void live_close(struct live *live);

/* Removes the files on /dev/shm whose image was in this directory and is not among the ids (n of
 * them) any more: the process was killed and the image removed. Returns how many. */
size_t live_sweep(const struct image_os *os, uint64_t dir_device, uint64_t dir_inode,
                  const uint8_t ids[][IMAGE_ID_BYTES], size_t n);

/* A live array as a file, for people who find it there. */
struct live_file {
    char path[320];
    char image[LIVE_PATH_BYTES]; /* whose it is: the path as its process was given it */
    uint8_t id[IMAGE_ID_BYTES];
    uint64_t bytes; /* of memory that it takes */
    uint64_t device, inode;
};
typedef void (*live_file_fn)(void *arg, const struct live_file *file);
/* Calls `each` for every live array in a directory such as /dev/shm, of whichever user, that may be
 * read. Locks nothing. 0 or an errno. */
int live_list(const char *shm_dir, live_file_fn each, void *arg);

#endif
