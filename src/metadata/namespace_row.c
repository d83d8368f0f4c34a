/* See namespace_row.h. */
#include "metadata/namespace_row.h"

static void member(struct json_writer *json, const char *name, uint64_t value)
{
    json_write_name(json, name);
    json_write_uint64(json, value);
}

void namespace_row_write(struct json_writer *json, const struct namespace_row *row)
{
    member(json, "rank", row->rank);
    json_write_name(json, "namespace");
    json_write_string(json, row->ns.text, row->ns.length);
    member(json, "num_pages", row->num_pages);
    member(json, "bytes_per_page", row->bytes_per_page);
    json_write_name(json, "fingerprint");
    json_write_string(json, row->fingerprint.text, row->fingerprint.length);
    json_write_name(json, "pages");
    json_write_object_begin(json);
    member(json, "free", row->pages.free);
    member(json, "reserved", row->pages.reserved);
    member(json, "committed", row->pages.committed);
    member(json, "retired", row->pages.retired);
    json_write_object_end(json);
    member(json, "committed_bytes", row->pages.committed * row->bytes_per_page);
}
