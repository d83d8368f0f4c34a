/* A place for kept catalogs in tests; see kept.h. */
#include "support/kept.h"

#include "support/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct kept_faults kept_faults;
void (*kept_on_fsync)(void);
int kept_writes;
atomic_int kept_pauses;
uint64_t kept_clock_ms;
char kept_log_text[KEPT_LOG_BYTES];

static char shm_prefix[KEPT_PATH_BYTES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *durable; /* the last synced image, as it was at the sync */
static size_t durable_length;

uint64_t kept_boot_ms(void)
{
    return __atomic_load_n(&kept_clock_ms, __ATOMIC_RELAXED);
}

uint64_t kept_random(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15;
    uint64_t z = *seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* ---- System calls ----*/

static int injected(void)
{
    errno = kept_faults.failure != 0 ? kept_faults.failure : EIO;
    return -1;
}

static ssize_t faulty_pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    pthread_mutex_lock(&lock);
    ssize_t result;
    if (kept_faults.slow_writes)
        usleep(1000);
    if (kept_faults.tiny_writes && kept_writes++ % 2 == 0) {
        errno = EINTR;
        result = -1;
    } else if (kept_faults.tiny_writes) {
        result = pwrite(fd, bytes, length < 7 ? length : 7, offset);
    } else if (kept_faults.writes_left == 0) {
        if (kept_faults.torn_bytes > 0 && kept_faults.torn_bytes < length &&
            pwrite(fd, bytes, kept_faults.torn_bytes, offset) < 0)
            abort();
        kept_faults.torn_bytes = 0;
        result = injected();
    } else {
        if (kept_faults.writes_left > 0)
            kept_faults.writes_left--;
        kept_writes++;
        result = pwrite(fd, bytes, length, offset);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static void remember_durable(int fd)
{
    struct stat stat;
    if (fstat(fd, &stat) != 0 || stat.st_size > 1 << 20)
        return;
    free(durable);
    durable_length = (size_t)stat.st_size;
    durable = malloc(durable_length + 1);
    if (durable == NULL || image_os_read(fd, durable, durable_length, 0) != 0)
        abort();
}

static int faulty_fdatasync(int fd)
{
    pthread_mutex_lock(&lock);
    bool fails = kept_faults.writes_left == 0 && !kept_faults.syncs_work;
    int result = fails ? injected() : fdatasync(fd);
    if (result == 0)
        remember_durable(fd);
    pthread_mutex_unlock(&lock);
    return result;
}

static bool is_on_shm(int fd)
{
    char link[64], path[KEPT_PATH_BYTES] = "";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    return length > 0 && strncmp(path, shm_prefix, strlen(shm_prefix)) == 0;
}

static int faulty_allocate(int fd, off_t offset, off_t length)
{
    if (is_on_shm(fd) ? kept_faults.shm_full : kept_faults.disk_full)
        return ENOSPC;
    return posix_fallocate(fd, offset, length);
}

/* Of directories. */
static int watched_fsync(int fd)
{
    if (kept_on_fsync != NULL)
        kept_on_fsync();
    return fsync(fd);
}

static int faulty_fstatfs(int fd, struct statfs *ret)
{
    int result = fstatfs(fd, ret);
    if (kept_faults.filesystem != 0)
        ret->f_type = kept_faults.filesystem;
    return result;
}

static void count_pause(uint64_t ns)
{
    (void)ns;
    atomic_fetch_add(&kept_pauses, 1);
}

/* ---- The place ----*/

void kept_make(struct kept_place *place)
{
    /* In memory where possible: syncs cost nothing there. */
    snprintf(place->root, sizeof(place->root), "/dev/shm/kept-test-XXXXXX");
    if (mkdtemp(place->root) == NULL) {
        snprintf(place->root, sizeof(place->root), "/tmp/kept-test-XXXXXX");
        assert_non_null(mkdtemp(place->root));
    }
    snprintf(place->dir, sizeof(place->dir), "%.200s/dir", place->root);
    snprintf(place->shm, sizeof(place->shm), "%.200s/shm", place->root);
    assert_int_equal(mkdir(place->shm, 0700), 0);
    snprintf(shm_prefix, sizeof(shm_prefix), "%s", place->shm);
    place->os = (struct image_os){.shm_dir = place->shm,
                                  .pwrite = faulty_pwrite,
                                  .fdatasync = faulty_fdatasync,
                                  .fsync = watched_fsync,
                                  .allocate = faulty_allocate,
                                  .fstatfs = faulty_fstatfs,
                                  .pause = count_pause};
    kept_faults = (struct kept_faults){.writes_left = -1};
    kept_on_fsync = NULL;
    kept_writes = 0;
    atomic_store(&kept_pauses, 0);
    kept_clock_ms = 1000000;
    kept_log_clear();
}

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    if (dir != NULL) {
        struct dirent *entry;
        while ((entry = readdir(dir)) != NULL) {
            char child[2 * KEPT_PATH_BYTES + 8];
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                continue;
            snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
            remove_tree(child);
        }
        closedir(dir);
    }
    remove(path);
}

void kept_remove(struct kept_place *place)
{
    remove_tree(place->root);
    free(durable);
    durable = NULL;
    durable_length = 0;
}

static size_t walk_shm(const struct kept_place *place, bool unlink_them)
{
    size_t n = 0;
    DIR *dir = opendir(place->shm);
    assert_non_null(dir);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        n++;
        if (unlink_them)
            assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
    }
    closedir(dir);
    return n;
}

size_t kept_shm_files(const struct kept_place *place)
{
    return walk_shm(place, false);
}

void kept_lose_shm(const struct kept_place *place)
{
    walk_shm(place, true);
}

void kept_tear(const char *path, uint64_t seed)
{
    enum { SECTOR = 512 };
    size_t length;
    uint8_t *now = kept_read_file(path, &length);
    for (size_t at = 0; at < length && at < durable_length; at += SECTOR) {
        size_t part = length - at < SECTOR ? length - at : SECTOR;
        if (part > durable_length - at)
            part = durable_length - at;
        if (kept_random(&seed) % 2 == 0)
            memcpy(now + at, durable + at, part);
    }
    kept_write_file(path, now, length);
    free(now);
}

uint8_t *kept_read_file(const char *path, size_t *ret_length)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat stat;
    assert_true(fd >= 0 && fstat(fd, &stat) == 0);
    *ret_length = (size_t)stat.st_size;
    uint8_t *bytes = malloc(*ret_length + 1);
    assert_non_null(bytes);
    assert_int_equal(image_os_read(fd, bytes, *ret_length, 0), 0);
    close(fd);
    return bytes;
}

void kept_write_file(const char *path, const void *bytes, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(image_os_write(&image_os_linux, fd, bytes, length, 0), 0);
    close(fd);
}

/* ---- Log lines ----*/

void kept_log(void *arg, enum kvs_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    pthread_mutex_lock(&lock);
    size_t length = strlen(kept_log_text);
    snprintf(kept_log_text + length, sizeof(kept_log_text) - length, "%s\n", line);
    pthread_mutex_unlock(&lock);
}

void kept_log_clear(void)
{
    pthread_mutex_lock(&lock);
    kept_log_text[0] = 0;
    pthread_mutex_unlock(&lock);
}
