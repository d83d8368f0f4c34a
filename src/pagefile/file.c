/* Opening, growing and looking after the file under an engine. */
#include "pagefile/file.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum {
    DIRECTORY_MODE = 0777, /* cut by the umask, as mkdir -p does */
    FILE_MODE = 0600,      /* pages are what users wrote */
    PROBE_ALIGN = 4096,    /* fits every device where the kernel does not tell */
    LOCK_TRIES = 200,      /* of 1 ms: whoever grows the file needs microseconds */
};

/* ---- Directories and the descriptor ---------------------------------------------------------*/

/* mkdir -p of everything above the file. Other processes do the same at the same time. */
static enum kvs_status make_directories(const char *path, struct kvs_error *error)
{
    char *part = strdup(path);
    if (!part) {
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a page file");
    }
    enum kvs_status status = KVS_OK;
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, DIRECTORY_MODE) != 0) {
            /* A read-only or forbidden parent may well hold the directory already. */
            int reason = errno;
            struct stat about;
            if (stat(part, &about) != 0) {
                status = error_set(error, KVS_ERR_FILE_DIRECTORY, part, strerror(reason));
                break;
            }
            if (!S_ISDIR(about.st_mode)) {
                status = error_set(error, KVS_ERR_FILE_DIRECTORY, part, strerror(ENOTDIR));
                break;
            }
        }
        *slash = '/';
    }
    free(part);
    return status;
}

/* O_NONBLOCK: the path may be a FIFO or a device, which must not hold us up before it is refused.
 * It does not stay: io_uring would take it as "fail instead of waiting". */
static enum kvs_status open_regular(const char *path, int access, int *ret_fd,
                                    struct kvs_error *error)
{
    int fd = open(path, access | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, FILE_MODE);
    if (fd < 0) {
        return error_set(error, KVS_ERR_FILE_OPEN, path, strerror(errno));
    }
    struct stat about;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(fd);
        return error_set(error, KVS_ERR_FILE_OPEN, path, "it is not a regular file");
    }
    fcntl(fd, F_SETFL, 0);
    *ret_fd = fd;
    return KVS_OK;
}

/* ---- Size and space -------------------------------------------------------------------------*/

/* One writer of the size at a time, where there is no call that only grows. A lock that cannot be
 * had is no reason to fail: it is held for microseconds by us and by nobody else. */
static void lock_size(int fd)
{
    struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < LOCK_TRIES && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
         i++) {
        nanosleep(&pause, NULL);
    }
}

static int grow(int fd, uint64_t size)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return errno;
    }
    if ((uint64_t)about.st_size >= size) {
        return 0;
    }
    /* Allocating the last byte grows the file, keeps what is there and can never cut what another
     * process has grown further meanwhile, which fstat and ftruncate could. */
    if (fallocate(fd, 0, (off_t)(size - 1), 1) == 0) {
        return 0;
    }
    if (errno == EFBIG) {
        return errno;
    }
    lock_size(fd);
    int failed = 0;
    if (fstat(fd, &about) != 0 ||
        ((uint64_t)about.st_size < size && ftruncate(fd, (off_t)size) != 0)) {
        failed = errno;
    }
    flock(fd, LOCK_UN);
    return failed;
}

static enum kvs_status grow_to(const char *path, int fd, uint64_t size, struct kvs_error *error)
{
    /* Beyond RLIMIT_FSIZE the kernel sends SIGXFSZ, which would end the engine's process. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        size > limit.rlim_cur) {
        char reason[128];
        snprintf(reason, sizeof(reason),
                 "the process may only write files of up to %" PRIu64 " bytes (ulimit -f)",
                 (uint64_t)limit.rlim_cur);
        return error_set(error, KVS_ERR_FILE_SIZE, path, NUM(size), reason);
    }
    int failed = size > INT64_MAX ? EFBIG : grow(fd, size);
    switch (failed) {
    case 0:
        return KVS_OK;
    case ENOSPC:
    case EDQUOT:
        return error_set(error, KVS_ERR_NO_SPACE, path, NUM(size));
    default:
        return error_set(error, KVS_ERR_FILE_SIZE, path, NUM(size), strerror(failed));
    }
}

/* A sparse file may promise more than there is: worth a line, no reason to fail. */
static void warn_of_space(const struct page_file *file)
{
    struct statvfs space;
    struct stat about;
    if (fstatvfs(file->fd, &space) != 0 || fstat(file->fd, &about) != 0) {
        return;
    }
    uint64_t free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
    uint64_t held_bytes = (uint64_t)about.st_blocks * 512;
    if (held_bytes < file->size && free_bytes < file->size - held_bytes) {
        log_line(
            &file->log, KVS_LOG_WARNING,
            "%s may grow to %" PRIu64 " bytes (file_size) and holds %" PRIu64
            ", but its file system (%s) has only %" PRIu64
            " bytes free: pages that do not fit will not be stored. Lower file_size or make room.",
            file->path, file->size, held_bytes, file->filesystem.name, free_bytes);
    }
}

/* Pages hold what users wrote: whoever may read or write the file can read or change it. A file
 * that was there keeps its owner and mode, which may be meant. */
static void warn_of_others(const struct page_file *file)
{
    struct stat about;
    if (fstat(file->fd, &about) != 0) {
        return;
    }
    if (about.st_uid != geteuid()) {
        log_line(&file->log, KVS_LOG_WARNING,
                 "%s belongs to user %u, not to the user %u of this process, and may be read and "
                 "changed by them.",
                 file->path, (unsigned)about.st_uid, (unsigned)geteuid());
    } else if ((about.st_mode & 07) != 0) {
        log_line(&file->log, KVS_LOG_WARNING,
                 "%s can be %s by every user (mode %03o). Remedy: chmod o= on it.", file->path,
                 (about.st_mode & 02) != 0 ? "changed" : "read", (unsigned)about.st_mode & 0777);
    }
}

/* Stores that share an index share the lock, a store that has one of its own wants it alone. It is
 * on a byte that no file has, so that it is in nobody's way, and goes with the last descriptor,
 * also of a process that is killed. On a network it would be a call to a server. */
static bool lock_use(int fd, short type)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = INT64_MAX - 1, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES);
}

/* False when somebody is in the way. Tried again later, too: the next one in the way of this file
 * must hear of it. */
static bool take_use(struct page_file *file)
{
    if (file->index == PAGEFILE_INDEX_NOBODYS || file->filesystem.network) {
        return true;
    }
    if (!file->locked) {
        file->locked = lock_use(file->fd, file->index == PAGEFILE_INDEX_OWN ? F_WRLCK : F_RDLCK);
    }
    return file->locked;
}

static void warn_of_another_user(struct page_file *file)
{
    file->locked = false;
    if (take_use(file)) {
        return;
    }
    log_line(&file->log, KVS_LOG_WARNING,
             "%s is in use by another store that has another index: each overwrites the "
             "other's pages, which are misses then (reads stay true). Give each a file_path_prefix "
             "of its own, or both one metadata_server_url.",
             file->path);
}

/* ---- Direct I/O -----------------------------------------------------------------------------*/

/* What the kernel says about alignment, or what fits everywhere when it says nothing. False when
 * the file system has no direct I/O. */
static bool ask_alignment(int fd, uint32_t *ret_memory, uint32_t *ret_offset)
{
#ifdef STATX_DIOALIGN
    struct statx about;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) == 0 &&
        (about.stx_mask & STATX_DIOALIGN)) {
        *ret_memory = about.stx_dio_mem_align;
        *ret_offset = about.stx_dio_offset_align;
        return about.stx_dio_mem_align > 0 && about.stx_dio_offset_align > 0;
    }
#endif
    *ret_memory = PROBE_ALIGN;
    *ret_offset = PROBE_ALIGN;
    return true;
}

/* Some file systems take the flag and refuse the I/O: only a read tells. */
static bool direct_read_works(int fd)
{
    void *probe = NULL;
    if (posix_memalign(&probe, PROBE_ALIGN, PROBE_ALIGN) != 0) {
        return false;
    }
    bool works = pread(fd, probe, PROBE_ALIGN, 0) >= 0;
    free(probe);
    return works;
}

static bool set_direct(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

/* auto: past the page cache where it would lie (network) and where it cannot hold the file, so that
 * copying through it costs a copy and gains nothing; through it where the file fits into memory. */
static bool wants_direct(const struct page_file *file, enum kvs_direct direct)
{
    switch (direct) {
    case KVS_DIRECT_ON:
        return true;
    case KVS_DIRECT_OFF:
        return false;
    default:
        break;
    }
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t memory = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
    return file->filesystem.network || (!file->filesystem.in_memory && file->size > memory);
}

static void decide_direct(struct page_file *file, enum kvs_direct direct)
{
    file->memory_align = file->offset_align = 1;
    file->direct = false;
    if (!wants_direct(file, direct)) {
        return;
    }
    uint32_t memory = 1, offset = 1;
    const char *obstacle = NULL;
    if (!ask_alignment(file->fd, &memory, &offset)) {
        obstacle = "the file system has none";
    } else if (file->bytes_per_page % offset != 0) {
        obstacle = "bytes_per_page is not a multiple of the device's block";
    } else if (!set_direct(file->fd, true)) {
        obstacle = "the file system refuses it";
    } else if (!direct_read_works(file->fd)) {
        set_direct(file->fd, false);
        obstacle = "the file system refuses to read that way";
    }
    if (!obstacle) {
        file->memory_align = memory;
        file->offset_align = offset;
        file->direct = true;
    } else if (direct == KVS_DIRECT_ON || file->filesystem.network) {
        log_line(&file->log, KVS_LOG_WARNING,
                 "Direct I/O is not possible on %s (%s, %" PRIu64
                 " bytes a page): %s. Pages go through the page cache instead.",
                 file->path, file->filesystem.name, file->bytes_per_page, obstacle);
    }
}

/* ---- Life -----------------------------------------------------------------------------------*/

static char *absolute_path(const char *path)
{
    if (path[0] == '/') {
        return strdup(path);
    }
    char *directory = getcwd(NULL, 0);
    char *absolute = NULL;
    if (directory && asprintf(&absolute, "%s/%s", directory, path) < 0) {
        absolute = NULL;
    }
    free(directory);
    return absolute;
}

static enum kvs_status open_and_grow(const char *path, uint64_t size, int *ret_fd,
                                     struct kvs_error *error)
{
    int fd = -1;
    enum kvs_status status = make_directories(path, error);
    if (status == KVS_OK) {
        status = open_regular(path, O_RDWR | O_CREAT, &fd, error);
    }
    if (status == KVS_OK) {
        status = grow_to(path, fd, size, error);
    }
    if (status == KVS_OK) {
        *ret_fd = fd;
    } else if (fd >= 0) {
        close(fd);
    }
    return status;
}

/* As the options of the file want it. */
static enum kvs_status open_path(const char *path, uint64_t size, bool existing, int *ret_fd,
                                 struct kvs_error *error)
{
    return existing ? open_regular(path, O_RDONLY, ret_fd, error)
                    : open_and_grow(path, size, ret_fd, error);
}

enum kvs_status page_file_open(struct page_file *file, const struct pagefile_options *options,
                               struct kvs_error *error)
{
    char *path = absolute_path(options->path);
    if (!path) {
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a page file");
    }
    int fd = -1;
    enum kvs_status status = open_path(path, options->file_size, options->existing, &fd, error);
    if (status != KVS_OK) {
        free(path);
        return status;
    }
    *file = (struct page_file){.fd = fd,
                               .path = path,
                               .size = options->file_size,
                               .bytes_per_page = options->bytes_per_page,
                               .index = options->index,
                               .existing = options->existing,
                               .filesystem = filesystem_of(fd),
                               .owner = getpid(),
                               .log = options->log};
    atomic_init(&file->nowait, true);
    atomic_init(&file->generation, 0);
    if (!file->existing) {
        warn_of_space(file);
    }
    warn_of_others(file);
    warn_of_another_user(file);
    decide_direct(file, options->direct);
    return KVS_OK;
}

void page_file_done(struct page_file *file)
{
    if (file->fd >= 0) {
        /* By name: an io_uring may hold the file a moment longer, a child even for good. */
        if (file->locked && !page_file_forked(file)) {
            lock_use(file->fd, F_UNLCK);
        }
        close(file->fd);
    }
    file->fd = -1;
    free(file->path);
    file->path = NULL;
}

void page_file_move(struct page_file *to, struct page_file *from)
{
    *to = *from;
    from->fd = -1;
    from->path = NULL;
}

bool page_file_forked(const struct page_file *file)
{
    return getpid() != file->owner;
}

enum kvs_status page_file_sync(struct page_file *file, struct kvs_error *error)
{
    while (fdatasync(file->fd) != 0) {
        if (errno != EINTR) {
            return error_set(error, KVS_ERR_FILE_SYNC, file->path, strerror(errno));
        }
    }
    return KVS_OK;
}

/* Opens what the path leads to now, under the number of the old descriptor. I/O under way keeps the
 * old file until it ends. */
static enum kvs_status reopen(struct page_file *file, struct kvs_error *error)
{
    int fd = -1;
    enum kvs_status status = open_path(file->path, file->size, file->existing, &fd, error);
    if (status != KVS_OK) {
        return status;
    }
    if (file->direct && !(set_direct(fd, true) && direct_read_works(fd))) {
        close(fd);
        return error_set(error, KVS_ERR_FILE_OPEN, file->path,
                         "the file that replaced it does not allow direct I/O");
    }
    int put = dup3(fd, file->fd, O_CLOEXEC);
    int reason = errno;
    close(fd);
    if (put < 0) {
        return error_set(error, KVS_ERR_FILE_OPEN, file->path, strerror(reason));
    }
    atomic_fetch_add(&file->generation, 1);
    warn_of_another_user(file);
    return error_set(error, KVS_ERR_FILE_CHANGED, file->path,
                     "it was removed or replaced, and has been opened anew");
}

enum kvs_status page_file_check(struct page_file *file, struct kvs_error *error)
{
    struct stat held, named;
    if (fstat(file->fd, &held) != 0) {
        return error_set(error, KVS_ERR_FILE_OPEN, file->path, strerror(errno));
    }
    if (stat(file->path, &named) != 0) {
        return errno == ENOENT ? reopen(file, error)
                               : error_set(error, KVS_ERR_FILE_OPEN, file->path, strerror(errno));
    }
    if (held.st_dev != named.st_dev || held.st_ino != named.st_ino) {
        return reopen(file, error);
    }
    take_use(file);
    if (file->existing || (uint64_t)held.st_size >= file->size) {
        return KVS_OK;
    }
    enum kvs_status status = grow_to(file->path, file->fd, file->size, error);
    if (status != KVS_OK) {
        return status;
    }
    return error_set(error, KVS_ERR_FILE_CHANGED, file->path,
                     "it was cut, and has been grown to its size again");
}
