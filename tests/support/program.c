/* Runs the program as a user would. Both outputs go to unlinked files, so that no pipe can fill up.
 */
#include "support/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { ARGUMENTS_MAX = 64 };

static void check(bool good, const char *what)
{
    if (!good) {
        perror(what);
        abort();
    }
}

static int unlinked_file(void)
{
    char path[] = "/tmp/kvshelf-program-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    check(fd >= 0, "mkostemp");
    unlink(path);
    return fd;
}

static void read_whole(struct buffer *out, int fd)
{
    check(lseek(fd, 0, SEEK_SET) == 0, "lseek");
    check(buffer_read_fd(out, fd, SIZE_MAX) == 0, "read");
    check(buffer_text(out)[out->length] == '\0', "memory");
    close(fd);
}

static struct program_result run(int out, const char *const arguments[])
{
    struct program_result result = {.exit_code = -1};
    const char *argv[ARGUMENTS_MAX] = {"./kvshelf"};
    size_t n = 1;
    for (; arguments[n - 1] != NULL && n < ARGUMENTS_MAX - 1; n++)
        argv[n] = arguments[n - 1];
    int err = unlinked_file(), status;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    /* posix_spawn() takes arguments that are not const and does not write to them. */
    char **words = (char **)(uintptr_t)argv;
    check(posix_spawn(&pid, argv[0], &actions, NULL, words, environ) == 0, "./kvshelf");
    posix_spawn_file_actions_destroy(&actions);
    check(waitpid(pid, &status, 0) == pid, "waitpid");
    if (WIFEXITED(status))
        result.exit_code = WEXITSTATUS(status);
    read_whole(&result.err, err);
    return result;
}

struct program_result program_run(const char *const arguments[])
{
    int out = unlinked_file();
    struct program_result result = run(out, arguments);
    read_whole(&result.out, out);
    return result;
}

struct program_result program_run_to(const char *path, const char *const arguments[])
{
    int out = open(path, O_WRONLY | O_CLOEXEC);
    check(out >= 0, path);
    struct program_result result = run(out, arguments);
    close(out);
    return result;
}

void program_done(struct program_result *result)
{
    buffer_done(&result->out);
    buffer_done(&result->err);
}
