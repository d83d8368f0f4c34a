/* The directory of kept catalogs; see directory.h. */
#include "metadata/directory.h"

#include "base/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Numbers of the kernel (linux/magic.h lacks some). A lock there may not hold, a sync may lie, and
 * a mapping may fail with SIGBUS. */
static const struct {
    uint64_t magic;
    const char *name;
} refused[] = {
    {0x6969, "NFS"}, {0xff534d42, "CIFS"}, {0xfe534d42, "CIFS"},
    {0x517b, "SMB"}, {0x65735546, "FUSE"},
};

const char *directory_refused_filesystem(uint64_t magic)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (refused[i].magic == (magic & 0xffffffff))
            return refused[i].name;
    return NULL;
}

static enum kvs_status dir_error(struct kvs_error *error, const char *path, const char *doing,
                                 int failure)
{
    char reason[256];
    snprintf(reason, sizeof(reason), "%s: %s", doing, strerror(failure));
    return error_set(error, KVS_ERR_CATALOG_DIR, path, reason);
}

/* Another process may make the same directories at the same time. */
static int make_path(const char *path)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length == 0)
        return ENOENT;
    if (length >= sizeof(part))
        return ENAMETOOLONG;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != 0)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0700) != 0 && errno != EEXIST) {
            /* A parent we may not look into can still hold the directory. */
            struct stat there;
            int failure = errno;
            if (stat(part, &there) != 0)
                return failure;
        }
    }
    return 0;
}

static enum kvs_status check_filesystem(const struct directory *dir, struct kvs_error *error)
{
    struct statfs fs;
    char reason[160];
    if (dir->images.os->fstatfs(dir->images.fd, &fs) != 0)
        return dir_error(error, dir->path, "statfs", errno);
    const char *name = directory_refused_filesystem((uint64_t)fs.f_type);
    if (name == NULL)
        return KVS_OK;
    snprintf(reason, sizeof(reason),
             "it is on %s, where locks and syncs cannot be trusted; use a local disk", name);
    return error_set(error, KVS_ERR_CATALOG_DIR, dir->path, reason);
}

/* ---- The lock ----*/

static enum kvs_status in_use(const struct directory *dir, struct kvs_error *error)
{
    char text[32] = "", owner[64] = "another process";
    int fd = openat(dir->images.fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t length = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
    if (fd >= 0)
        close(fd);
    long pid = length > 0 ? strtol(text, NULL, 10) : 0;
    if (pid > 0)
        snprintf(owner, sizeof(owner), "process %ld (or a child it has forked)", pid);
    return error_set(error, KVS_ERR_CATALOG_IN_USE, dir->path, owner);
}

/* Is the locked file still the one that has the name? */
static bool lock_is_current(const struct directory *dir, int fd)
{
    struct stat ours, named;
    return fstat(fd, &ours) == 0 && fstatat(dir->images.fd, "lock", &named, 0) == 0 &&
           ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

/* Both the directory itself and the file in it are locked. The file tells people and tools whose it
 * is, but somebody may remove it as a remnant, and a second process would lock the next one. */
static enum kvs_status take_lock(struct directory *dir, struct kvs_error *error)
{
    if (flock(dir->images.fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return in_use(dir, error);
    for (;;) {
        int fd = openat(dir->images.fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return dir_error(error, dir->path, "its lock cannot be opened", errno);
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            int failure = errno;
            enum kvs_status status = failure == EWOULDBLOCK
                                         ? in_use(dir, error)
                                         : dir_error(error, dir->path, "flock", failure);
            close(fd);
            return status;
        }
        if (lock_is_current(dir, fd)) {
            dir->lock_fd = fd;
            break;
        }
        close(fd);
    }
    /* For the message of who comes second; the lock holds without it. */
    char text[32];
    int length = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    int failure = ftruncate(dir->lock_fd, 0) != 0 ? errno : 0;
    if (failure == 0)
        failure = image_os_write(dir->images.os, dir->lock_fd, text, (size_t)length, 0);
    if (failure != 0)
        return dir_error(error, dir->path, "its lock cannot be written", failure);
    return KVS_OK;
}

/* ---- What is in it ----*/

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), end_length = strlen(end);
    return length > end_length && strcmp(name + length - end_length, end) == 0;
}

static DIR *open_listing(const struct directory *dir)
{
    int fd = openat(dir->images.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (listing == NULL && fd >= 0)
        close(fd);
    return listing;
}

static void remove_temporaries(const struct directory *dir)
{
    DIR *listing = open_listing(dir);
    if (listing == NULL)
        return;
    struct dirent *entry;
    while ((entry = readdir(listing)) != NULL)
        if (ends_with(entry->d_name, ".kvc.tmp"))
            unlinkat(dir->images.fd, entry->d_name, 0);
    closedir(listing);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int collect_names(DIR *listing, char ***names, size_t *n)
{
    size_t capacity = 0;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(listing);
        if (entry == NULL)
            return errno;
        if (!ends_with(entry->d_name, ".kvc"))
            continue;
        if (*n == capacity) {
            capacity = capacity == 0 ? 16 : 2 * capacity;
            char **more = realloc(*names, capacity * sizeof(*more));
            if (more == NULL)
                return ENOMEM;
            *names = more;
        }
        char *name = strdup(entry->d_name);
        if (name == NULL)
            return ENOMEM;
        (*names)[(*n)++] = name;
    }
}

enum kvs_status directory_names(const struct directory *dir, char ***ret_names, size_t *ret_n,
                                struct kvs_error *error)
{
    char **names = NULL;
    size_t n = 0;
    DIR *listing = open_listing(dir);
    if (listing == NULL)
        return dir_error(error, dir->path, "it cannot be listed", errno);
    int failure = collect_names(listing, &names, &n);
    closedir(listing);
    if (failure != 0) {
        directory_free_names(names, n);
        return dir_error(error, dir->path, "it cannot be listed", failure);
    }
    if (n > 0)
        qsort(names, n, sizeof(*names), compare_names);
    *ret_names = names;
    *ret_n = n;
    return KVS_OK;
}

void directory_free_names(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* ---- Opening and closing ----*/

static enum kvs_status open_and_lock(struct directory *dir, struct kvs_error *error)
{
    struct stat stat;
    dir->images.fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->images.fd < 0 || fstat(dir->images.fd, &stat) != 0)
        return dir_error(error, dir->path, "it cannot be opened", errno);
    dir->images.device = (uint64_t)stat.st_dev;
    dir->images.inode = (uint64_t)stat.st_ino;
    enum kvs_status status = check_filesystem(dir, error);
    if (status == KVS_OK)
        status = take_lock(dir, error);
    if (status != KVS_OK)
        return status;
    if ((stat.st_mode & 022) != 0)
        log_line(
            &dir->images.log, KVS_LOG_WARNING,
            "%s can be written by other users (mode %03o): they could replace catalogs. Remedy: "
            "chmod go-w.",
            dir->path, (unsigned)stat.st_mode & 0777);
    remove_temporaries(dir);
    return KVS_OK;
}

enum kvs_status directory_open(struct directory *ret_dir, const char *path,
                               const struct image_os *os, const struct logger *log,
                               struct kvs_error *error)
{
    struct directory dir = {.images = {.fd = -1, .os = os, .log = *log}, .lock_fd = -1};
    int failure = make_path(path);
    if (failure != 0)
        return dir_error(error, path, "it cannot be created", failure);
    dir.path = realpath(path, NULL);
    if (dir.path == NULL)
        return dir_error(error, path, "it cannot be opened", errno);
    enum kvs_status status = open_and_lock(&dir, error);
    if (status != KVS_OK) {
        directory_close(&dir);
        return status;
    }
    dir.images.path = dir.path;
    *ret_dir = dir;
    return KVS_OK;
}

void directory_close(struct directory *dir)
{
    if (dir->path == NULL)
        return;
    /* Unlocked by name: a child that was forked meanwhile has the descriptors, too. */
    if (dir->lock_fd >= 0) {
        flock(dir->lock_fd, LOCK_UN);
        close(dir->lock_fd);
    }
    if (dir->images.fd >= 0) {
        flock(dir->images.fd, LOCK_UN);
        close(dir->images.fd);
    }
    free(dir->path);
    *dir = (struct directory){0};
}
