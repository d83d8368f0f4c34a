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
enum { FIELD_READ = 7, FIELD_WRITE = 48, TEXT_MAX = 8192 };

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

double bench_fio(const struct pages_cell *cell, const char *path, uint64_t file_bytes,
                 uint64_t depth, uint64_t ms)
{
    bool reading = cell->direction == PAGE_READ;
    char file[4096], block[64], size[64], queue[64], time[64];
    snprintf(file, sizeof file, "--filename=%s", path);
    snprintf(block, sizeof block, "--bs=%" PRIu64, cell->bytes_per_page);
    snprintf(size, sizeof size, "--size=%" PRIu64,
             file_bytes / cell->bytes_per_page * cell->bytes_per_page);
    snprintf(queue, sizeof queue, "--iodepth=%" PRIu64, depth);
    snprintf(time, sizeof time, "--runtime=%" PRIu64 "ms", ms);
    char *const arguments[] = {"fio",
                               "--name=pages",
                               file,
                               reading ? "--rw=randread" : "--rw=randwrite",
                               block,
                               size,
                               queue,
                               time,
                               "--time_based",
                               "--ramp_time=100ms", /* its memory is new */
                               "--ioengine=io_uring",
                               "--registerfiles=1",
                               "--invalidate=0",
                               "--randrepeat=1",
                               "--norandommap=1",
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
