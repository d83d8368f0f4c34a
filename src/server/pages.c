/* The bodies of /api/status and /; see pages.h. */
#include "server/pages.h"

#include "base/json.h"
#include "base/text.h"
#include "metadata/namespace_row.h"

#include <inttypes.h>

/* ---- /api/status -----------------------------------------------------------------------------*/

static void write_totals(struct json_writer *json, const struct catalog_totals *totals)
{
    json_write_name(json, "totals");
    json_write_object_begin(json);
    json_member_uint64(json, "hits", totals->hits);
    json_member_uint64(json, "misses", totals->misses);
    json_member_uint64(json, "reserved", totals->reserved);
    json_member_uint64(json, "present", totals->present);
    json_member_uint64(json, "confirmed", totals->confirmed);
    json_member_uint64(json, "released", totals->released);
    json_member_uint64(json, "deleted", totals->deleted);
    json_member_uint64(json, "evicted", totals->evicted);
    json_member_uint64(json, "expired", totals->expired);
    json_member_uint64(json, "clears", totals->clears);
    json_member_uint64(json, "mismatches", totals->mismatches);
    json_write_name(json, "no_page");
    json_write_object_begin(json);
    for (size_t r = 0; r < CATALOG_SHORTAGES; r++)
        json_member_uint64(json, catalog_shortage_text((enum catalog_shortage)r),
                           totals->no_page[r]);
    json_write_object_end(json);
    json_write_name(json, "rejected");
    json_write_object_begin(json);
    for (size_t r = CATALOG_ACCEPTED + 1; r < CATALOG_REJECTIONS; r++)
        json_member_uint64(json, catalog_rejection_text((enum catalog_rejection)r),
                           totals->rejected[r]);
    json_write_object_end(json);
    json_write_object_end(json);
}

static void write_namespace(void *arg, const struct registry_info *info, struct catalog *catalog)
{
    (void)catalog;
    struct json_writer *json = arg;
    const struct namespace_row row = {
        .rank = info->rank,
        .num_pages = info->num_pages,
        .bytes_per_page = info->bytes_per_page,
        .pages = info->counts,
        .ns = {info->ns, strlen(info->ns)},
        .fingerprint = {info->fingerprint, strlen(info->fingerprint)},
    };
    json_write_object_begin(json);
    namespace_row_write(json, &row);
    json_member_uint64(json, "memory_bytes", info->memory_bytes);
    json_member_bool(json, "kept", info->kept);
    json_write_name(json, "image_age_ms");
    if (info->kept)
        json_write_uint64(json, info->image_age_ms);
    else
        json_write_null(json);
    write_totals(json, &info->totals);
    json_write_object_end(json);
}

static uint64_t request_total(const struct metrics_sum *sum)
{
    uint64_t total = 0;
    for (size_t e = 0; e < ENDPOINTS; e++)
        for (size_t i = 0; i < OUTCOMES; i++)
            total += sum->requests[e][i];
    return total;
}

void pages_write_status(struct buffer *out, const struct metrics_sum *sum,
                        struct registry *registry, uint64_t time_ms, uint64_t uptime_ms)
{
    struct json_writer json = {.out = out};
    json_write_object_begin(&json);
    json_member_text(&json, "version", kvs_version());
    json_member_bool(&json, "ready", registry != NULL);
    json_write_name(&json, "kept");
    if (registry != NULL)
        json_write_bool(&json, registry_is_kept(registry));
    else
        json_write_null(&json);
    json_member_uint64(&json, "time_ms", time_ms);
    json_member_uint64(&json, "uptime_ms", uptime_ms);
    json_member_uint64(&json, "requests", request_total(sum));
    json_member_uint64(&json, "connections", sum->connections_opened - sum->connections_closed);
    json_member_uint64(&json, "bytes_received", sum->bytes_received);
    json_member_uint64(&json, "bytes_sent", sum->bytes_sent);
    json_write_name(&json, "namespaces");
    json_write_array_begin(&json);
    if (registry != NULL)
        registry_visit(registry, write_namespace, &json);
    json_write_array_end(&json);
    json_write_object_end(&json);
}

/* ---- / ---------------------------------------------------------------------------------------*/

static void append_html(struct buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<')
            buffer_append_text(out, "&lt;");
        else if (*text == '&')
            buffer_append_text(out, "&amp;");
        else
            buffer_append_char(out, *text);
    }
}

static void write_row(void *arg, const struct registry_info *info, struct catalog *catalog)
{
    (void)catalog;
    struct buffer *out = arg;
    uint64_t asked = info->totals.hits + info->totals.misses;
    buffer_append_format(out, "<tr><td>%" PRIu32 "<td class=t>", info->rank);
    append_html(out, info->ns);
    const uint64_t pages[] = {info->num_pages, info->counts.free, info->counts.reserved,
                              info->counts.committed, info->counts.retired};
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
        buffer_append_format(out, "<td>%s", text_count(pages[i]).text);
    if (asked == 0)
        buffer_append_text(out, "<td>-");
    else
        buffer_append_format(out, "<td>%.1f %%", 100.0 * (double)info->totals.hits / (double)asked);
    buffer_append_format(out, "<td>%s<td>%s", text_count(info->totals.evicted).text,
                         text_bytes(info->memory_bytes).text);
    if (info->kept)
        buffer_append_format(out, "<td>%.1f s\n", (double)info->image_age_ms / 1e3);
    else
        buffer_append_text(out, "<td>in memory\n");
}

void pages_write_root(struct buffer *out, const struct metrics_sum *sum, struct registry *registry,
                      uint64_t uptime_ms)
{
    buffer_append_text(
        out, "<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><title>kvshelf</title>\n"
             "<style>body{font:14px sans-serif;margin:2em}td,th{padding:.2em .8em;text-align:right}"
             ".t{text-align:left}table{border-collapse:collapse}tr{border-bottom:1px solid "
             "#ccc}</style>\n"
             "<h1>kvshelf</h1>\n");
    buffer_append_format(out,
                         "<p>Release %s, up for %s. Requests answered: %s. Connections open: %s.\n",
                         kvs_version(), text_duration_ns(uptime_ms * 1000000).text,
                         text_count(request_total(sum)).text,
                         text_count(sum->connections_opened - sum->connections_closed).text);
    buffer_append_text(out,
                       "<table><tr><th>rank<th class=t>namespace<th>pages<th>free<th>reserved"
                       "<th>committed<th>retired<th>hit ratio<th>evicted<th>memory<th>image age\n");
    if (registry != NULL)
        registry_visit(registry, write_row, out);
    buffer_append_text(out, "</table>\n");
    if (registry == NULL)
        buffer_append_text(out, "<p>The catalogs are being loaded.\n");
    buffer_append_text(out, "<p>For programs: <a href=/api/status>/api/status</a> (JSON), "
                            "<a href=/metrics>/metrics</a> (Prometheus), /health, /ready.\n");
}
