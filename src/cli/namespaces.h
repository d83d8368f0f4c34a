/* What a running server says about itself and its namespaces. */
#ifndef KVSHELF_CLI_NAMESPACES_H
#define KVSHELF_CLI_NAMESPACES_H

#include "cli/server_client.h"
#include "metadata/namespace_row.h"

/* Called with one namespace; its texts are valid during the call. */
typedef enum kvs_status (*namespace_row_fn)(void *arg, const struct namespace_row *row,
                                            struct kvs_error *error);

/* Calls `each` for every namespace in the answer of /api/status; the first failure ends it. Errors:
 * those of `each`; KVS_ERR_REMOTE_ANSWER when it is not such an answer. */
enum kvs_status namespaces_read(const struct buffer *status_body, namespace_row_fn each, void *arg,
                                struct kvs_error *error);

/* What /api/status says of the server itself. */
enum { SERVER_VERSION_MAX = 32 };
struct server_facts {
    char version[SERVER_VERSION_MAX]; /* "": it says none */
    uint64_t time_ms;                 /* its clock; 0: not said */
    bool ready;                       /* its catalogs are loaded */
    bool forgets;                     /* it says that it keeps no catalogs */
};
/* What cannot be read is left as not said. */
void server_facts_read(const struct buffer *status_body, struct server_facts *ret_facts);

/* KVS_ERR_NAMESPACE_NONE: none of this name (NULL: of any) and rank (NULL: of any) at `place`. */
enum kvs_status namespaces_none(const char *ns, const uint64_t *rank, const char *place,
                                struct kvs_error *error);

/* kvshelf stat URL. Returns an exit code. */
struct cli;
int namespaces_stat(const struct cli *cli, const char *url, const char *token_file);

#endif
