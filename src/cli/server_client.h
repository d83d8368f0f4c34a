/* Asking a running server from the command line: one request after another over one connection. */
#ifndef KVSHELF_CLI_SERVER_CLIENT_H
#define KVSHELF_CLI_SERVER_CLIENT_H

#include "base/buffer.h"
#include "kvshelf/kvshelf.h"

enum { SERVER_CLIENT_TIMEOUT_S = 30 }; /* of each request, unless limited to less */

struct server_client;

/* An argument names a server, not a directory. */
bool server_client_is_url(const char *argument);

/* Connects at the first request. `token_file` may be NULL. Errors: KVS_ERR_CONFIG_VALUE (the URL),
 * KVS_ERR_TOKEN_FILE, KVS_ERR_TOKEN_FILE_MISSING, KVS_ERR_NO_MEMORY. */
enum kvs_status server_client_open(const char *url, const char *token_file,
                                   struct server_client **ret_client, struct kvs_error *error);
/* How long each request may take from now on. */
void server_client_limit(struct server_client *client, uint64_t timeout_ms);
/* From now on a question that takes longer than a second says so, once, on stderr: for people. */
void server_client_say_waiting(struct server_client *client);
/* For messages: without credentials. */
const char *server_client_url(const struct server_client *client);
/* NULL allowed; returns NULL. */
struct server_client *server_client_close(struct server_client *client);

/* GET, or POST with a JSON body (NULL: GET). The answer's body replaces what is in `ret_body`.
 * Errors: KVS_ERR_REMOTE_UNREACHABLE, _DEADLINE, _BROKEN, _AUTH; KVS_ERR_REMOTE_REFUSED with the
 * server's own words where it says why (4xx), KVS_ERR_REMOTE_ANSWER for other statuses but 2xx. */
enum kvs_status server_client_ask(struct server_client *client, const char *path, const char *body,
                                  struct buffer *ret_body, struct kvs_error *error);
/* Of the last answer; 0: there was none. */
int server_client_http_status(const struct server_client *client);

#endif
