/* See namespace_row.h. */
#include "metadata/namespace_row.h"

void namespace_row_write(struct json_writer *json, const struct namespace_row *row)
{
    json_member_uint64(json, "rank", row->rank);
    json_write_name(json, "namespace");
    json_write_string(json, row->ns.text, row->ns.length);
    json_member_uint64(json, "num_pages", row->num_pages);
    json_member_uint64(json, "bytes_per_page", row->bytes_per_page);
    json_write_name(json, "fingerprint");
    json_write_string(json, row->fingerprint.text, row->fingerprint.length);
    json_write_name(json, "pages");
    json_write_object_begin(json);
    json_member_uint64(json, "free", row->pages.free);
    json_member_uint64(json, "reserved", row->pages.reserved);
    json_member_uint64(json, "committed", row->pages.committed);
    json_member_uint64(json, "retired", row->pages.retired);
    json_write_object_end(json);
    json_member_uint64(json, "committed_bytes", row->pages.committed * row->bytes_per_page);
}
