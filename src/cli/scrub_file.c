/* Which file the pages of a catalog are in. A catalog does not say: the path follows from the
 * engine's file_path_prefix. Without one, the directory of the catalogs may hold the pages too, as
 * that of a replay does. */
#include "base/status.h"
#include "cli/scrub.h"
#include "store/identity.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* "pages.pp1of2" is no prefix: its ".0.bin" is the file of a shard. */
static bool ends_with_shard(const char *stem, size_t length)
{
    const char *dot = memrchr(stem, '.', length);
    unsigned rank, size;
    char axis;
    return dot != NULL && sscanf(dot, ".%*[pcd]%c%uof%u", &axis, &rank, &size) == 3 && axis == 'p';
}

static bool is_file_of(const char *name, const char *tail)
{
    size_t length = strlen(name), tail_length = strlen(tail);
    return length > tail_length && strcmp(name + length - tail_length, tail) == 0 &&
           !ends_with_shard(name, length - tail_length);
}

/* Looks for the one file of `dir` whose name ends with `tail`; false with a reason otherwise. */
static bool search(const char *dir, const char *tail, struct buffer *path, struct buffer *reason)
{
    size_t found = 0;
    DIR *entries = opendir(dir);
    if (entries == NULL) {
        buffer_append_format(reason, "%s cannot be listed: %s", dir, strerror(errno));
        return false;
    }
    const struct dirent *entry;
    while ((entry = readdir(entries)) != NULL)
        if (is_file_of(entry->d_name, tail) && found++ == 0)
            buffer_append_format(path, "%s/%s", dir, entry->d_name);
    closedir(entries);
    if (found == 0)
        buffer_append_format(reason, "%s holds no file named *%s", dir, tail);
    if (found > 1)
        buffer_append_format(reason, "%s holds %zu files named *%s", dir, found, tail);
    return found == 1;
}

static enum kvs_status search_dir(const struct scrub_request *request, uint32_t rank,
                                  const char *ns, struct buffer *path, struct kvs_error *error)
{
    struct buffer tail = {0}, reason = {0};
    enum kvs_status status = KVS_OK;
    identity_path_of("", rank, ns, &tail);
    if (!search(request->dir, buffer_text(&tail), path, &reason))
        status = error_set(error, KVS_ERR_SCRUB_FILE, NUM(rank), ns, buffer_text(&reason));
    buffer_done(&tail);
    buffer_done(&reason);
    return status;
}

/* An engine would make the file, and as large as it should be; here it must be there. */
static enum kvs_status check(const char *path, uint64_t *ret_bytes, struct kvs_error *error)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return error_set(error, KVS_ERR_FILE_OPEN, path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return error_set(error, KVS_ERR_FILE_OPEN, path, "it is not a regular file");
    *ret_bytes = (uint64_t)about.st_size;
    return KVS_OK;
}

enum kvs_status scrub_find_file(const struct scrub_request *request, uint32_t rank, const char *ns,
                                char **ret_path, uint64_t *ret_bytes, struct kvs_error *error)
{
    struct buffer path = {0};
    uint64_t bytes = 0;
    enum kvs_status status = KVS_OK;
    if (request->prefix != NULL)
        identity_path_of(request->prefix, rank, ns, &path);
    else
        status = search_dir(request, rank, ns, &path, error);
    if (status == KVS_OK)
        status = check(buffer_text(&path), &bytes, error);
    char *copy = status == KVS_OK && !path.failed ? strdup(buffer_text(&path)) : NULL;
    if (status == KVS_OK && copy == NULL)
        status = error_set(error, KVS_ERR_NO_MEMORY, "looking for a page file");
    buffer_done(&path);
    if (status != KVS_OK)
        return status;
    *ret_path = copy;
    *ret_bytes = bytes;
    return KVS_OK;
}
