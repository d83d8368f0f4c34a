/* The secret that servers and clients share, the one line of a file. Nothing here is ever logged.
 */
#ifndef KVSHELF_BASE_TOKEN_H
#define KVSHELF_BASE_TOKEN_H

#include "base/log.h"

enum {
    TOKEN_MAX = 512, /* bytes */
    TOKEN_FEW = 16,  /* fewer are warned of */
};

/* Reads the token; it is printable ASCII without spaces, of 1 to TOKEN_MAX bytes, NUL-terminated.
 * Errors: KVS_ERR_TOKEN_FILE, KVS_ERR_TOKEN_FILE_MISSING. */
enum kvs_status token_read(const char *path, char ret_token[TOKEN_MAX + 1], size_t *ret_length,
                           struct kvs_error *error);
/* A line for each weakness that is no reason to refuse: a short token, a file for other eyes. */
void token_warn(const char *path, size_t length, const struct logger *log);

#endif
