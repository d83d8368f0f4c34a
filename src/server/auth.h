/* Who may ask: the token, and the origin of web pages. Nothing here is ever logged. */
#ifndef KVSHELF_SERVER_AUTH_H
#define KVSHELF_SERVER_AUTH_H

#include "base/token.h"
#include "server/http.h"

enum { AUTH_TOKEN_MAX = TOKEN_MAX }; /* bytes */

struct auth {
    char token[AUTH_TOKEN_MAX + 1];
    size_t length; /* 0: no token is asked for */
};

/* Reads the token, the one line of a file. Errors: KVS_ERR_TOKEN_FILE,
 * KVS_ERR_TOKEN_FILE_MISSING. */
enum kvs_status auth_load(const char *path, struct auth *ret_auth, struct kvs_error *error);

/* The Authorization header carries the token, as Bearer or as the password of Basic (whatever the
 * user). Takes the same time whichever byte is wrong. True when no token is asked for. */
bool auth_allows(const struct auth *auth, struct http_text authorization);

/* A web page's request (one with an Origin header) comes from this server's own pages. Without a
 * token the host must be an address or localhost besides, so that a name that someone else's DNS
 * points here is foreign too. */
bool auth_origin_is_own(const struct auth *auth, struct http_text origin, struct http_text host);

#endif
