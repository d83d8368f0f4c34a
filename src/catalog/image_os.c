/* Whole transfers over the table of system calls; see image_os.h. */
#include "catalog/image_os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    READ_BYTES = 4 << 20, /* of one pread */
    TWO_THREADS_BYTES = 64 << 20,
    ALLOCATE_BYTES = 16 << 20, /* of one fallocate: a few milliseconds on tmpfs */
};

static int linux_allocate(int fd, off_t offset, off_t length)
{
    return posix_fallocate(fd, offset, length);
}

static void linux_pause(uint64_t ns)
{
    struct timespec time = {.tv_nsec = (long)ns};
    (void)nanosleep(&time, NULL);
}

const struct image_os image_os_linux = {
    .shm_dir = "/dev/shm",
    .pwrite = pwrite,
    .fdatasync = fdatasync,
    .fsync = fsync,
    .allocate = linux_allocate,
    .fstatfs = fstatfs,
    .pause = linux_pause,
};

int image_os_read(int fd, void *bytes, size_t length, uint64_t offset)
{
    for (size_t done = 0; done < length;) {
        size_t part = length - done < READ_BYTES ? length - done : READ_BYTES;
        ssize_t got = pread(fd, (char *)bytes + done, part, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (got == 0)
            return EIO;
        done += (size_t)got;
    }
    return 0;
}

/* Where RLIMIT_FSIZE is passed the kernel sends SIGXFSZ, which would end the process: a server by a
 * mere request for a large namespace, or the engine. */
static bool may_reach(uint64_t end)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           end <= limit.rlim_cur;
}

static bool has_size(int fd, uint64_t length)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && (uint64_t)stat.st_size >= length;
}

int image_os_write(const struct image_os *os, int fd, const void *bytes, size_t length,
                   uint64_t offset)
{
    if (!may_reach(offset + length))
        return EFBIG;
    for (size_t done = 0; done < length;) {
        ssize_t put =
            os->pwrite(fd, (const char *)bytes + done, length - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        if (put == 0)
            return EIO;
        done += (size_t)put;
    }
    return 0;
}

int image_os_sync(const struct image_os *os, int fd)
{
    /* Not repeated on EINTR: a second call may report success for data the first one gave up. */
    return os->fdatasync(fd) == 0 ? 0 : errno;
}

int image_os_allocate(const struct image_os *os, int fd, uint64_t length)
{
    if (!may_reach(length) && !has_size(fd, length))
        return EFBIG;
    for (uint64_t done = 0; done < length;) {
        uint64_t part = length - done < ALLOCATE_BYTES ? length - done : ALLOCATE_BYTES;
        int failure = os->allocate(fd, (off_t)done, (off_t)part);
        if (failure == EINTR)
            continue;
        if (failure != 0)
            return failure;
        done += part;
    }
    return 0;
}

struct read_part {
    int fd;
    void *bytes;
    size_t length;
    uint64_t offset;
    int failure;
};

static void *read_part_run(void *arg)
{
    struct read_part *part = arg;
    part->failure = image_os_read(part->fd, part->bytes, part->length, part->offset);
    return NULL;
}

int image_os_read_large(int fd, void *bytes, size_t length, uint64_t offset)
{
    if (length < TWO_THREADS_BYTES)
        return image_os_read(fd, bytes, length, offset);

    size_t half = length / 2 & ~(size_t)4095;
    struct read_part second = {fd, (char *)bytes + half, length - half, offset + half, 0};
    /* The host's signals are not for our threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    bool started = pthread_create(&thread, NULL, read_part_run, &second) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);

    int failure = image_os_read(fd, bytes, half, offset);
    if (started)
        pthread_join(thread, NULL);
    else
        read_part_run(&second);
    return failure != 0 ? failure : second.failure;
}

int image_os_random(void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = getrandom((char *)bytes + done, length - done, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        done += (size_t)got;
    }
    return 0;
}
