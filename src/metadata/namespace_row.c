/* See namespace_row.h. */
#include "metadata/namespace_row.h"

#include "base/status.h"

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

/* "262144", or words where the number was never stated. */
static const char *stated(uint64_t number, struct number_text *text)
{
    *text = number_text_of((long long)number);
    return number == 0 ? "an unstated number of" : text->text;
}

enum kvs_status namespace_row_match(const struct namespace_row *row, const char *ns,
                                    uint64_t num_pages, uint64_t bytes_per_page,
                                    struct kvs_error *error)
{
    bool pages_differ = num_pages != 0 && num_pages != row->num_pages;
    bool bytes_differ =
        bytes_per_page != 0 && row->bytes_per_page != 0 && bytes_per_page != row->bytes_per_page;
    if (!pages_differ && !bytes_differ)
        return KVS_OK;
    struct number_text held, asked, asked_pages;
    return error_set(error, KVS_ERR_GEOMETRY_DIFFERS, NUM(row->rank), ns, NUM(row->num_pages),
                     stated(row->bytes_per_page, &held), stated(num_pages, &asked_pages),
                     stated(bytes_per_page, &asked));
}
