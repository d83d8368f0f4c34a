/* The secret that servers and clients share, the one line of a file. Nothing here is ever logged.
 */
#ifndef KVSHELF_BASE_TOKEN_H
#define KVSHELF_BASE_TOKEN_H

#include "kvshelf/kvshelf.h"

enum { TOKEN_MAX = 512 }; /* bytes */

/* Reads the token; it is printable ASCII without spaces, of 1 to TOKEN_MAX bytes, NUL-terminated.
 * Errors: KVS_ERR_TOKEN_FILE. */
enum kvs_status token_read(const char *path, char ret_token[TOKEN_MAX + 1], size_t *ret_length,
                           struct kvs_error *error);

#endif
