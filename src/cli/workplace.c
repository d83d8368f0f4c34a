/* Temporary directories, space, and signals that end a loop instead of the process. */
#include "cli/workplace.h"

#include "base/buffer.h"
#include "base/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
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

/* Files only: nothing makes directories in a temporary one. */
static void remove_directory(const char *path)
{
    DIR *entries = opendir(path);
    if (entries != NULL) {
        struct dirent *entry;
        while ((entry = readdir(entries)) != NULL)
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                unlinkat(dirfd(entries), entry->d_name, 0);
        closedir(entries);
    }
    rmdir(path);
}

void workplace_close(struct workplace *place)
{
    if (place->temporary)
        remove_directory(place->path);
    free(place->path);
    *place = (struct workplace){0};
}

/* ---- Signals ---------------------------------------------------------------------------------*/

static volatile sig_atomic_t stop_signal;

static void note_signal(int number)
{
    stop_signal = number;
}

void workplace_catch_signals(void)
{
    struct sigaction action = {.sa_handler = note_signal,
                               .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int workplace_stop_signal(void)
{
    return stop_signal;
}
