/* fio as a peer: run as a program, its terse output read. */
#include "cli/bench_pages.h"

#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Fields of terse output version 3, counted from 1: KiB/s of reads and of writes. */
enum { FIELD_READ = 7, FIELD_WRITE = 48, TEXT_MAX = 8192, FIO_BLOCK_MAX = 2 << 20 };

static double field(const char *text, int number)
{
    for (int i = 1; i < number && text; i++) {
        text = strchr(text, ';');
        text = text ? text + 1 : NULL;
    }
    return text ? strtod(text, NULL) : 0;
}

static size_t read_all(int fd, char *text, size_t room)
{
    size_t used = 0;
    ssize_t got;
    while (used < room - 1 && (got = read(fd, text + used, room - 1 - used)) > 0) {
        used += (size_t)got;
    }
    text[used] = '\0';
    return used;
}

/* Runs it and keeps what it prints. False when it could not be run or failed. */
static bool run_fio(char *const arguments[], char *text, size_t room)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    extern char **environ;
    pid_t child;
    bool started = posix_spawnp(&child, "fio", &actions, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    int status = -1;
    if (started) {
        read_all(ends[0], text, room);
        while (waitpid(child, &status, 0) < 0) {
        }
    }
    close(ends[0]);
    return started && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* fio allocates the memory of all its I/Os at once. By this glibc asks for huge pages for it, as
 * bench_pages.c does; with 2 MiB blocks among those allowed, none of which is ever chosen, there is
 * enough of it for one however small the pages are. */
static void set_memory(const struct pages_cell *cell, char *text, size_t room)
{
    setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 1);
    if (cell->direct && cell->bytes_per_page < FIO_BLOCK_MAX) {
        snprintf(text, room, "--bssplit=%" PRIu64 "/100:%d/0", cell->bytes_per_page, FIO_BLOCK_MAX);
    } else {
        snprintf(text, room, "--bs=%" PRIu64, cell->bytes_per_page);
    }
}

/* Reads are asked for as a mix without writes: fio then touches its memory before it begins, as it
 * does for writes. A ramp would do that too, but counts what was moved during it and is completed
 * after it: 18 % too much with pages of 4 MiB and turns of 200 ms. */
double bench_fio(const struct pages_bench *bench, const struct pages_cell *cell, const char *path,
                 uint64_t seed)
{
    bool reading = cell->direction == PAGE_READ;
    uint64_t bytes = cell->bytes_per_page;
    /* Through the page cache depth does nothing, but it is fio's memory: as much as ours, used
     * batch by batch, or fio would take the same few buffers again and again. */
    uint64_t batch = cell->direct ? 1 : bench->batch;
    char file[4096], block[64], align[64], size[64], queue[64], submit[64], complete[64], time[64];
    char random[64];
    snprintf(file, sizeof file, "--filename=%s", path);
    set_memory(cell, block, sizeof block);
    snprintf(align, sizeof align, "--blockalign=%" PRIu64, bytes);
    snprintf(size, sizeof size, "--size=%" PRIu64, bench->file_bytes / bytes * bytes);
    snprintf(queue, sizeof queue, "--iodepth=%" PRIu64,
             cell->direct ? bench->depth : pages_bench_window(bench, cell));
    snprintf(submit, sizeof submit, "--iodepth_batch=%" PRIu64, batch);
    snprintf(complete, sizeof complete, "--iodepth_batch_complete_min=%" PRIu64, batch);
    snprintf(time, sizeof time, "--runtime=%" PRIu64 "ms", bench->turn_ms);
    snprintf(random, sizeof random, "--randseed=%" PRIu64, seed + 1);
    char *const arguments[] = {"fio",
                               "--name=pages",
                               file,
                               reading ? "--rw=randrw" : "--rw=randwrite",
                               "--rwmixread=100",
                               block,
                               align,
                               size,
                               queue,
                               submit,
                               complete,
                               time,
                               random,
                               "--time_based",
                               "--ioengine=io_uring",
                               "--registerfiles=1",
                               cell->direct ? "--fixedbufs=1" : "--fixedbufs=0",
                               "--invalidate=0",
                               "--fallocate=none",
                               cell->direct ? "--direct=1" : "--direct=0",
                               "--output-format=terse",
                               "--terse-version=3",
                               NULL};
    static char text[TEXT_MAX];
    if (!run_fio(arguments, text, sizeof text)) {
        return 0;
    }
    return field(text, reading ? FIELD_READ : FIELD_WRITE) * 1024;
}
