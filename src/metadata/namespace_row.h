/* What can be said of a namespace wherever its catalog is met: in a running server or as an image
 * in a directory. Its JSON is written here alone, so that both say it alike. */
#ifndef KVSHELF_METADATA_NAMESPACE_ROW_H
#define KVSHELF_METADATA_NAMESPACE_ROW_H

#include "base/json.h"
#include "catalog/catalog.h"

struct namespace_row {
    uint64_t rank, num_pages;
    uint64_t bytes_per_page; /* 0: not stated */
    struct catalog_counts pages;
    struct json_text ns, fingerprint; /* views; the fingerprint is empty when not stated */
};

/* Members of an object that the caller has begun: rank, namespace, num_pages, bytes_per_page,
 * fingerprint, pages (free, reserved, committed, retired) and committed_bytes. */
void namespace_row_write(struct json_writer *json, const struct namespace_row *row);

/* Whether it has the geometry asked for; 0, on either side, was not stated and matches anything.
 * `ns` is its name as a text. Errors: KVS_ERR_GEOMETRY_DIFFERS. */
enum kvs_status namespace_row_match(const struct namespace_row *row, const char *ns,
                                    uint64_t num_pages, uint64_t bytes_per_page,
                                    struct kvs_error *error);

#endif
