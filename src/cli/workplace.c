/* Temporary directories, space, and signals that end a loop instead of the process. */
#include "cli/workplace.h"

#include "base/buffer.h"
#include "base/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- Space -----------------------------------------------------------------------------------*/

/* Asks the file system that `path` is on, or would be: the nearest parent that is there. */
static bool space_at(const char *path, uint64_t *ret_free_bytes)
{
    char *at = strdup(path);
    struct statvfs space;
    int failed = at == NULL ? -1 : statvfs(at, &space);
    while (at != NULL && failed != 0 && errno == ENOENT) {
        char *parent = strdup(dirname(at));
        free(at);
        at = parent;
        failed = at == NULL ? -1 : statvfs(at, &space);
    }
    free(at);
    if (failed == 0)
        *ret_free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
    return failed == 0;
}

static enum kvs_status check_space(const char *dir, const char *file, uint64_t bytes,
                                   struct kvs_error *error)
{
    struct buffer path = {0};
    buffer_append_format(&path, "%s/%s", dir, file);
    struct stat about;
    uint64_t has = stat(buffer_text(&path), &about) == 0 ? (uint64_t)about.st_blocks * 512 : 0;
    uint64_t free_bytes;
    enum kvs_status status = KVS_OK;
    if (bytes > has && space_at(dir, &free_bytes) && free_bytes < bytes - has)
        status = error_set(error, KVS_ERR_NO_SPACE, buffer_text(&path), NUM(bytes - has));
    buffer_done(&path);
    return status;
}

/* ---- Directories -----------------------------------------------------------------------------*/

/* The temporary directory that is there now, for a signal that ends the process at once. */
static char temporary[PATH_MAX];
static volatile sig_atomic_t has_temporary;

static void remember(const char *path)
{
    size_t length = strlen(path);
    if (length >= sizeof temporary)
        return;
    memcpy(temporary, path, length + 1);
    has_temporary = 1;
}

static enum kvs_status make_temporary(struct workplace *place, struct kvs_error *error)
{
    const char *parent = getenv("TMPDIR");
    struct buffer path = {0};
    buffer_append_format(&path, "%s/kvshelf-XXXXXX",
                         parent != NULL && parent[0] == '/' ? parent : "/tmp");
    buffer_text(&path);
    enum kvs_status status = KVS_OK;
    if (path.failed)
        status = error_set(error, KVS_ERR_NO_MEMORY, "naming a temporary directory");
    else if (mkdtemp(path.data) == NULL)
        status = error_set(error, KVS_ERR_FILE_DIRECTORY, path.data, strerror(errno));
    if (status != KVS_OK) {
        buffer_done(&path);
        return status;
    }
    *place = (struct workplace){path.data, true};
    remember(path.data);
    return KVS_OK;
}

enum kvs_status workplace_open(struct workplace *place, const char *dir, const char *file,
                               uint64_t bytes, struct kvs_error *error)
{
    enum kvs_status status = KVS_OK;
    if (dir == NULL) {
        status = make_temporary(place, error);
    } else {
        *place = (struct workplace){strdup(dir), false};
        if (place->path == NULL)
            status = error_set(error, KVS_ERR_NO_MEMORY, "naming the directory");
    }
    if (status == KVS_OK)
        status = check_space(place->path, file, bytes, error);
    if (status != KVS_OK)
        workplace_close(place);
    return status;
}

/* How many files were removed of those that one look finds. */
static size_t remove_files(int dir_fd)
{
    alignas(struct dirent64) char entries[4096];
    size_t removed = 0;
    ssize_t length;
    lseek(dir_fd, 0, SEEK_SET);
    while ((length = getdents64(dir_fd, entries, sizeof entries)) > 0) {
        for (ssize_t at = 0; at < length;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            removed += unlinkat(dir_fd, entry->d_name, 0) == 0; /* not "." and ".." */
            at += entry->d_reclen;
        }
    }
    return removed;
}

/* Files only: nothing makes directories in a temporary one. Also called by a signal's handler, so
 * it does without memory and locks: no opendir(). */
static void remove_directory(const char *path)
{
    int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd >= 0) {
        while (remove_files(dir_fd) > 0)
            continue;
        close(dir_fd);
    }
    rmdir(path);
}

void workplace_close(struct workplace *place)
{
    if (place->temporary) {
        remove_directory(place->path);
        has_temporary = 0; /* its name may be another's from now on */
    }
    free(place->path);
    *place = (struct workplace){0};
}

/* ---- Signals ---------------------------------------------------------------------------------*/

static volatile sig_atomic_t stop_signal;

static void note_signal(int number)
{
    if (stop_signal == 0) {
        stop_signal = number;
        return;
    }
    if (has_temporary)
        remove_directory(temporary);
    const struct sigaction end = {.sa_handler = SIG_DFL};
    sigaction(number, &end, NULL);
    raise(number); /* takes effect when this handler returns */
}

void workplace_catch_signals(void)
{
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int workplace_stop_signal(void)
{
    return stop_signal;
}
