/* What the product asks of the C library and the kernel, replaced at link time (ld --wrap) for
 * tasks of simulated processes: locks and condition variables wait in virtual time, threads are
 * tasks, clocks are the machine's, random numbers come from the seed, and what is allocated, mapped
 * or opened is noted as the process's. Outside of such tasks everything is the real thing. */
#include "sim_wrap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

const char *sim_boot_id_path;

/* ---- Memory --------------------------------------------------------------------------------- */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t bytes);
char *__real_realpath(const char *path, char *resolved);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t bytes);
char *__wrap_realpath(const char *path, char *resolved);

static void *note(void *memory, size_t bytes)
{
    struct sim_process *process = sim_process();
    if (process != NULL && memory != NULL)
        sim_hold(process, SIM_HELD_MEMORY, (uintptr_t)memory, bytes);
    return memory;
}

void *__wrap_malloc(size_t bytes)
{
    return note(__real_malloc(bytes), bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return note(__real_calloc(n, bytes), n * bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    if (memory != NULL)
        sim_unhold(SIM_HELD_MEMORY, (uintptr_t)memory);
    return note(__real_realloc(memory, bytes), bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return note(__real_aligned_alloc(alignment, bytes), bytes);
}

void __wrap_free(void *memory)
{
    if (memory != NULL)
        sim_unhold(SIM_HELD_MEMORY, (uintptr_t)memory);
    __real_free(memory);
}

char *__wrap_strdup(const char *text)
{
    return note(__real_strdup(text), strlen(text) + 1);
}

char *__wrap_strndup(const char *text, size_t bytes)
{
    return note(__real_strndup(text, bytes), bytes + 1);
}

char *__wrap_realpath(const char *path, char *resolved)
{
    char *found = __real_realpath(path, resolved);
    return resolved != NULL || found == NULL ? found : note(found, strlen(found) + 1);
}

/* ---- Mappings and descriptors --------------------------------------------------------------- */

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);
int __real_open(const char *path, int flags, ...);
int __real_openat(int dir, const char *path, int flags, ...);
int __real_close(int fd);
DIR *__real_fdopendir(int fd);

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_open(const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap___open_2(const char *path, int flags);
int __wrap___openat_2(int dir, const char *path, int flags);
int __wrap_close(int fd);
DIR *__wrap_fdopendir(int fd);

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    void *map = __real_mmap(at, bytes, protection, flags, fd, offset);
    if (sim_process() != NULL && map != MAP_FAILED)
        sim_hold(sim_process(), SIM_HELD_MAPPING, (uintptr_t)map, bytes);
    return map;
}

int __wrap_munmap(void *at, size_t bytes)
{
    sim_unhold(SIM_HELD_MAPPING, (uintptr_t)at);
    return __real_munmap(at, bytes);
}

static int note_fd(int fd)
{
    if (sim_process() != NULL && fd >= 0)
        sim_hold(sim_process(), SIM_HELD_DESCRIPTOR, (uint64_t)fd, 0);
    return fd;
}

static mode_t mode_of(int flags, va_list args)
{
    return (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    if (sim_process() != NULL && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)
        path = sim_boot_id_path;
    return note_fd(__real_open(path, flags, mode));
}

int __wrap_openat(int dir, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return note_fd(__real_openat(dir, path, flags, mode));
}

/* What fortified headers call when no mode is given. */
int __wrap___open_2(const char *path, int flags)
{
    return __wrap_open(path, flags);
}

int __wrap___openat_2(int dir, const char *path, int flags)
{
    return __wrap_openat(dir, path, flags);
}

int __wrap_close(int fd)
{
    sim_unhold(SIM_HELD_DESCRIPTOR, (uint64_t)fd);
    return __real_close(fd);
}

/* closedir() closes it inside the C library. */
DIR *__wrap_fdopendir(int fd)
{
    DIR *listing = __real_fdopendir(fd);
    if (listing != NULL)
        sim_unhold(SIM_HELD_DESCRIPTOR, (uint64_t)fd);
    return listing;
}

void sim_really_give_up(enum sim_held kind, uint64_t value, size_t bytes)
{
    switch (kind) {
    case SIM_HELD_MEMORY:
        __real_free((void *)(uintptr_t)value);
        break;
    case SIM_HELD_MAPPING:
        __real_munmap((void *)(uintptr_t)value, bytes);
        break;
    case SIM_HELD_DESCRIPTOR:
        __real_close((int)value);
        break;
    }
}

/* ---- Clocks and random numbers -------------------------------------------------------------- */

int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
ssize_t __real_getrandom(void *bytes, size_t length, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t length, unsigned flags);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    struct sim_process *process = sim_process();
    if (process == NULL)
        return __real_clock_gettime(id, ret);
    uint64_t us = id == CLOCK_REALTIME
                      ? process->machine->wall_us + sim_machine_us(process->machine)
                      : sim_machine_boot_us(process->machine);
    ret->tv_sec = (time_t)(us / 1000000);
    ret->tv_nsec = (long)(us % 1000000 * 1000);
    return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    if (sim_process() == NULL)
        return __real_nanosleep(time, left);
    sim_sleep((uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_nsec / 1000);
    return 0;
}

ssize_t __wrap_getrandom(void *bytes, size_t length, unsigned flags)
{
    if (sim_process() == NULL)
        return __real_getrandom(bytes, length, flags);
    for (size_t i = 0; i < length; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)draw(sim_kernel_chance());
    return (ssize_t)length;
}

/* ---- Locks and threads ---------------------------------------------------------------------- */

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __real_pthread_cond_signal(pthread_cond_t *condition);
int __real_pthread_cond_broadcast(pthread_cond_t *condition);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *arg);
int __real_pthread_join(pthread_t thread, void **result);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_signal(pthread_cond_t *condition);
int __wrap_pthread_cond_broadcast(pthread_cond_t *condition);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    while (pthread_mutex_trylock(mutex) != 0) {
        if (!sim_in_task()) {
            sim_fail("a lock is held while nobody can wait for it");
            return EDEADLK;
        }
        sim_wait(mutex, SIM_FOREVER);
    }
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    int result = __real_pthread_mutex_unlock(mutex);
    sim_wake_one(mutex);
    return result;
}

static int wait_on(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t us)
{
    __wrap_pthread_mutex_unlock(mutex);
    bool woken = sim_wait(condition, us);
    __wrap_pthread_mutex_lock(mutex);
    return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    return wait_on(condition, mutex, SIM_FOREVER);
}

/* Every condition of the product counts in CLOCK_MONOTONIC. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    uint64_t until_us = (uint64_t)until->tv_sec * 1000000 + ((uint64_t)until->tv_nsec + 999) / 1000;
    uint64_t now_us = sim_machine_boot_us(sim_process()->machine);
    if (until_us <= now_us)
        return ETIMEDOUT;
    return wait_on(condition, mutex, until_us - now_us);
}

int __wrap_pthread_cond_signal(pthread_cond_t *condition)
{
    sim_wake_one(condition);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *condition)
{
    sim_wake_all(condition);
    return 0;
}

struct thread {
    void *(*fn)(void *);
    void *arg;
    bool ended;
};

static void thread_main(void *arg)
{
    struct thread *thread = arg;
    thread->fn(thread->arg);
    thread->ended = true;
    sim_wake_all(thread);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *arg)
{
    if (sim_process() == NULL)
        return __real_pthread_create(thread, attributes, fn, arg);
    struct thread *made = __wrap_calloc(1, sizeof(*made));
    if (made == NULL)
        return EAGAIN;
    made->fn = fn;
    made->arg = arg;
    *thread = (pthread_t)(uintptr_t)made;
    sim_spawn(sim_process(), thread_main, made);
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    if (sim_process() == NULL)
        return __real_pthread_join(thread, result);
    struct thread *made = (struct thread *)(uintptr_t)thread;
    while (!made->ended)
        sim_wait(made, SIM_FOREVER);
    __wrap_free(made);
    return 0;
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    (void)thread, (void)name;
    return 0;
}
