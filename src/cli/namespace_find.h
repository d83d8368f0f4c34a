/* The namespace of the KV pool that a configuration leads to, as its index has it now: a running
 * server, or a directory, in use or not. Nothing is created, locked, or counted as a use. */
#ifndef KVSHELF_CLI_NAMESPACE_FIND_H
#define KVSHELF_CLI_NAMESPACE_FIND_H

#include "base/buffer.h"
#include "kvshelf/kvshelf.h"
#include "metadata/namespace_row.h"

/* Its rank, and its name appended to `ns`. */
uint32_t namespace_meant(const struct kvs_store_options *options, struct buffer *ns);

/* Whether a store of these options would be let in. Of the identity only what both sides state is
 * compared: an engine states more than its configuration. `ns` is the name of the row as a text.
 * `num_pages` and options->bytes_per_page 0: not known. Errors: KVS_ERR_GEOMETRY_DIFFERS,
 * KVS_ERR_FINGERPRINT_DIFFERS. */
enum kvs_status namespace_check(const struct namespace_row *row, const char *ns,
                                const struct kvs_store_options *options, uint64_t num_pages,
                                struct kvs_error *error);

enum namespace_presence {
    NAMESPACE_ABSENT,
    NAMESPACE_THERE,
    NAMESPACE_UNKNOWN, /* the server does not tell: it is of the original protocol, or starting */
};

/* Looks for it and checks it. The options name a server or a directory. Errors: those of
 * namespace_check() and of asking a server; KVS_ERR_CATALOG_* when the directory cannot be read, or
 * a file in it would keep a store from opening. A directory that is not there holds none. */
enum kvs_status namespace_find(const struct kvs_store_options *options, uint64_t num_pages,
                               enum namespace_presence *ret_presence, struct kvs_error *error);

/* KVS_ERR_NAMESPACE_NONE, for what namespace_meant() says. `advice` follows the place, "" for none.
 */
enum kvs_status namespace_none(const struct kvs_store_options *options, const char *advice,
                               struct kvs_error *error);

#endif
