/* Reads a token file; see token.h. */
#include "base/token.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Takes the one line; says what is wrong with it, or NULL. */
static const char *take_line(const struct buffer *content, char ret_token[TOKEN_MAX + 1],
                             size_t *ret_length)
{
    const char *text = content->data;
    size_t length = content->length;
    while (length > 0 && is_space(text[length - 1]))
        length--;
    if (length == 0)
        return "it is empty";
    if (length > TOKEN_MAX)
        return "its line is longer than 512 bytes";
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return "it holds more than one line of printable ASCII without spaces";
    memcpy(ret_token, text, length);
    ret_token[length] = '\0';
    *ret_length = length;
    return NULL;
}

static enum kvs_status refuse(const char *path, const char *fault, struct kvs_error *error)
{
    return error_set(error, KVS_ERR_TOKEN_FILE, path, fault);
}

/* O_NONBLOCK: a FIFO would hold up the start until somebody writes to it. -1, why, and errno. */
static int open_regular(const char *path, const char **ret_fault)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        return fd;
    *ret_fault = fd < 0 ? strerror(errno) : "it is not a regular file";
    if (fd >= 0) {
        close(fd);
        errno = EINVAL;
    }
    return -1;
}

enum kvs_status token_read(const char *path, char ret_token[TOKEN_MAX + 1], size_t *ret_length,
                           struct kvs_error *error)
{
    const char *fault = NULL;
    int fd = open_regular(path, &fault);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return error_set(error, KVS_ERR_TOKEN_FILE_MISSING, path);
    if (fd < 0)
        return refuse(path, fault, error);
    struct buffer content = {0};
    int failed = buffer_read_fd(&content, fd, 4 * TOKEN_MAX);
    close(fd);
    fault = failed != 0 ? strerror(failed) : take_line(&content, ret_token, ret_length);
    if (content.data != NULL)
        explicit_bzero(content.data, content.capacity);
    buffer_done(&content);
    return fault == NULL ? KVS_OK : refuse(path, fault, error);
}

/* With an access control list the bits of the group are the most that any of its entries gives.
 * Whoever wrote one has named who may read: so does systemd for the user of a service. */
static bool is_open_to_others(const char *path, mode_t mode)
{
    bool has_list = getxattr(path, "system.posix_acl_access", NULL, 0) > 0;
    return (mode & (has_list ? 007 : 077)) != 0;
}

void token_warn(const char *path, size_t length, const struct logger *log)
{
    struct stat about;
    if (length < TOKEN_FEW)
        log_line(log, KVS_LOG_WARNING,
                 "The token in %s has %zu character%s and may be guessed; use %d or more "
                 "(openssl rand -hex 32)",
                 path, length, length == 1 ? "" : "s", TOKEN_FEW);
    if (stat(path, &about) == 0 && is_open_to_others(path, about.st_mode))
        log_line(
            log, KVS_LOG_WARNING,
            "The token file %s can be read or changed by other users (mode %04o); chmod 600 %s",
            path, (unsigned)about.st_mode & 07777, path);
}
