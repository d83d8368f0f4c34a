/* Live arrays on /dev/shm; see live.h. */
#include "catalog/live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char live_magic[8] = {'k', 'v', 's', 'h', 'e', 'l', 'f', 'L'};

static void live_name(char *name, size_t capacity, const uint8_t id[IMAGE_ID_BYTES])
{
    char hex[2 * IMAGE_ID_BYTES + 1];
    for (size_t i = 0; i < IMAGE_ID_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", id[i]);
    snprintf(name, capacity, "kvshelf-%u-%s", (unsigned)geteuid(), hex);
}

static void live_path(char *path, size_t capacity, const struct live_owner *owner)
{
    char name[80];
    live_name(name, sizeof(name), owner->id);
    snprintf(path, capacity, "%s/%s", owner->os->shm_dir, name);
}

static uint64_t live_bytes(const struct live_owner *owner)
{
    return IMAGE_BLOCK_BYTES + owner->num_pages * sizeof(struct slot);
}

/* A file of ours that no other process has open for use: locked. -1 with errno otherwise. */
static int open_own_locked(const char *path, struct stat *ret_stat)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -1;
    int failure = 0;
    if (fstat(fd, ret_stat) != 0)
        failure = errno;
    else if (!S_ISREG(ret_stat->st_mode) || ret_stat->st_uid != geteuid())
        failure = EPERM;
    else if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        failure = errno;
    if (failure == 0)
        return fd;
    close(fd);
    errno = failure;
    return -1;
}

static int live_map(struct live *live, uint64_t bytes, int fd, off_t offset)
{
    void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    if (at == MAP_FAILED)
        return errno;
    live->block = at;
    live->bytes = bytes;
    return 0;
}

static bool block_is_of(const struct live_block *block, const struct live_owner *owner)
{
    return memcmp(block->magic, live_magic, sizeof(live_magic)) == 0 &&
           block->version == IMAGE_VERSION && block->slot_bytes == sizeof(struct slot) &&
           block->num_pages == owner->num_pages &&
           memcmp(block->id, owner->id, IMAGE_ID_BYTES) == 0 &&
           memcmp(block->boot_id, owner->boot_id, IMAGE_BOOT_ID_BYTES) == 0;
}

bool live_matches(const struct live_block *block, const struct live_owner *owner, uint64_t token)
{
    static const uint8_t unknown_boot[IMAGE_BOOT_ID_BYTES];
    return token != 0 && memcmp(owner->boot_id, unknown_boot, sizeof(unknown_boot)) != 0 &&
           block_is_of(block, owner) && (block->token == token || block->next_token == token);
}

/* Everything else that open() says leaves a file where it is: it must not pass for a lost one. */
static bool means_absent(int failure)
{
    return failure == ENOENT || failure == ENOTDIR || failure == ELOOP || failure == ENXIO ||
           failure == EACCES || failure == EPERM;
}

static bool is_in_directory_of(const struct live_block *block, const struct live_owner *owner)
{
    return block->dir_device == owner->dir_device && block->dir_inode == owner->dir_inode;
}

/* Is the image that the block was made for still where it was? */
static bool first_image_is_there(const struct live_block *block)
{
    char path[LIVE_PATH_BYTES];
    struct stat image, dir;
    memcpy(path, block->path, sizeof(path));
    path[sizeof(path) - 1] = 0;
    if (path[0] != '/' || stat(path, &image) != 0)
        return false;
    *(strrchr(path, '/') + 1) = 0;
    return stat(path, &dir) == 0 && (uint64_t)dir.st_dev == block->dir_device &&
           (uint64_t)dir.st_ino == block->dir_inode;
}

/* Copies of a directory hold images of one id. The live array belongs to the directory it was made
 * in, or that the image was moved to: a copy must neither use it nor put its own in its place. */
static enum live_found whose_is(const struct live_block *block, const struct live_owner *owner,
                                uint64_t token)
{
    if (!block_is_of(block, owner))
        return LIVE_ABSENT;
    bool ours = is_in_directory_of(block, owner);
    if (!live_matches(block, owner, token))
        return ours ? LIVE_ABSENT : LIVE_OTHERS;
    return ours || !first_image_is_there(block) ? LIVE_FOUND : LIVE_OTHERS;
}

static void set_place(struct live_block *block, const struct live_owner *owner)
{
    block->dir_device = owner->dir_device;
    block->dir_inode = owner->dir_inode;
    snprintf(block->path, sizeof(block->path), "%s", owner->path);
}

enum live_found live_attach(struct live *live, const struct live_owner *owner, uint64_t token,
                            int *ret_failure)
{
    *live = (struct live){.fd = -1};
    live_path(live->path, sizeof(live->path), owner);
    struct stat stat;
    int fd = open_own_locked(live->path, &stat);
    if (fd < 0) {
        *ret_failure = errno;
        return errno == EWOULDBLOCK ? LIVE_OTHERS : means_absent(errno) ? LIVE_ABSENT : LIVE_FAILED;
    }
    int failure = 0;
    enum live_found found = LIVE_ABSENT;
    if ((uint64_t)stat.st_size == live_bytes(owner))
        failure = live_map(live, live_bytes(owner), fd, 0);
    live->fd = fd;
    if (failure != 0)
        found = LIVE_FAILED;
    else if (live->block != NULL)
        found = whose_is(live->block, owner, token);
    if (found == LIVE_FOUND)
        set_place(live->block, owner);
    else
        live_close(live);
    *ret_failure = failure;
    return found;
}

/* Filling /dev/shm to the brim would break others on this machine. */
static int check_room(const struct live_owner *owner)
{
    struct statvfs room;
    if (statvfs(owner->os->shm_dir, &room) != 0)
        return errno;
    uint64_t free_bytes = (uint64_t)room.f_bavail * room.f_frsize;
    return live_bytes(owner) > free_bytes - free_bytes / 8 ? ENOSPC : 0;
}

int live_create(struct live *live, const struct live_owner *owner)
{
    *live = (struct live){.fd = -1};
    live_path(live->path, sizeof(live->path), owner);
    int failure = check_room(owner);
    if (failure != 0)
        return failure;
    if (unlink(live->path) != 0 && errno != ENOENT)
        return errno;
    int fd = open(live->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        failure = errno;
    /* Blocks of its own: a store into a hole of a full tmpfs would be SIGBUS. */
    if (failure == 0)
        failure = image_os_allocate(owner->os, fd, live_bytes(owner));
    if (failure == 0)
        failure = live_map(live, live_bytes(owner), fd, 0);
    if (failure != 0) {
        unlink(live->path);
        close(fd);
        return failure;
    }
    live->fd = fd;
    live->made = true;
    live_reset_block(live, owner);
    return 0;
}

int live_map_image(struct live *live, const struct live_owner *owner, int image_fd)
{
    *live = (struct live){.fd = -1};
    return live_map(live, live_bytes(owner), image_fd, IMAGE_LIVE_OFFSET);
}

void live_reset_block(struct live *live, const struct live_owner *owner)
{
    struct live_block *block = live->block;
    memset(block, 0, sizeof(*block));
    memcpy(block->magic, live_magic, sizeof(live_magic));
    block->version = IMAGE_VERSION;
    block->slot_bytes = sizeof(struct slot);
    memcpy(block->id, owner->id, IMAGE_ID_BYTES);
    memcpy(block->boot_id, owner->boot_id, IMAGE_BOOT_ID_BYTES);
    block->num_pages = owner->num_pages;
    set_place(block, owner);
}

void live_unlink(const struct live_owner *owner)
{
    char path[256];
    live_path(path, sizeof(path), owner);
    unlink(path);
}

void live_close(struct live *live)
{
    if (live->block != NULL)
        munmap(live->block, (size_t)live->bytes);
    if (live->fd >= 0) {
        flock(live->fd, LOCK_UN); /* a child that was forked meanwhile has the descriptor, too */
        close(live->fd);
    }
    live->block = NULL;
    live->fd = -1;
}

static bool id_is_among(const uint8_t id[IMAGE_ID_BYTES], const uint8_t ids[][IMAGE_ID_BYTES],
                        size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(id, ids[i], IMAGE_ID_BYTES) == 0)
            return true;
    return false;
}

/* Looks without locking: the file may be another directory's, whose process is just about to lock
 * it. */
static bool look(const char *path, struct live_block *ret_block, struct stat *ret_about)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool good = fstat(fd, ret_about) == 0 && S_ISREG(ret_about->st_mode) &&
                image_os_read(fd, ret_block, sizeof(*ret_block), 0) == 0 &&
                memcmp(ret_block->magic, live_magic, sizeof(live_magic)) == 0;
    close(fd);
    return good;
}

static bool is_orphan(const char *path, uint64_t dir_device, uint64_t dir_inode,
                      const uint8_t ids[][IMAGE_ID_BYTES], size_t n)
{
    struct live_block block;
    struct stat about;
    return look(path, &block, &about) && block.dir_device == dir_device &&
           block.dir_inode == dir_inode && !id_is_among(block.id, ids, n);
}

static bool unlink_unused(const char *path)
{
    struct stat stat;
    int fd = open_own_locked(path, &stat);
    if (fd < 0)
        return false;
    bool removed = unlink(path) == 0;
    close(fd);
    return removed;
}

size_t live_sweep(const struct image_os *os, uint64_t dir_device, uint64_t dir_inode,
                  const uint8_t ids[][IMAGE_ID_BYTES], size_t n)
{
    DIR *dir = opendir(os->shm_dir);
    if (dir == NULL)
        return 0;
    char prefix[32];
    snprintf(prefix, sizeof(prefix), "kvshelf-%u-", (unsigned)geteuid());
    size_t swept = 0;
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        char path[512];
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        int length = snprintf(path, sizeof(path), "%s/%s", os->shm_dir, entry->d_name);
        if (length > 0 && (size_t)length < sizeof(path) &&
            is_orphan(path, dir_device, dir_inode, ids, n) && unlink_unused(path))
            swept++;
    }
    closedir(dir);
    return swept;
}

/* kvshelf-<user>-<id>, and nothing else: the name is printed as part of a command. */
static bool is_live_name(const char *name)
{
    static const char prefix[] = "kvshelf-";
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
        return false;
    name += sizeof(prefix) - 1;
    size_t user = strspn(name, "0123456789");
    if (user == 0 || name[user] != '-')
        return false;
    name += user + 1;
    return strspn(name, "0123456789abcdef") == 2 * IMAGE_ID_BYTES &&
           name[2 * IMAGE_ID_BYTES] == '\0';
}

int live_list(const char *shm_dir, live_file_fn each, void *arg)
{
    DIR *dir = opendir(shm_dir);
    struct dirent *entry;
    if (dir == NULL)
        return errno;
    while ((entry = readdir(dir)) != NULL) {
        struct live_file file;
        struct live_block block;
        struct stat about;
        int length = snprintf(file.path, sizeof(file.path), "%s/%s", shm_dir, entry->d_name);
        if (!is_live_name(entry->d_name) || length < 0 || (size_t)length >= sizeof(file.path) ||
            !look(file.path, &block, &about))
            continue;
        memcpy(file.image, block.path, sizeof(file.image));
        file.image[sizeof(file.image) - 1] = '\0';
        memcpy(file.id, block.id, sizeof(file.id));
        file.bytes = (uint64_t)about.st_blocks * 512;
        file.device = about.st_dev;
        file.inode = about.st_ino;
        each(arg, &file);
    }
    closedir(dir);
    return 0;
}
