/* Counters of the server and the text that Prometheus reads; see metrics.h. */
#include "server/metrics.h"

#include <inttypes.h>
#include <stdlib.h>

/* Upper bounds of the latency buckets. */
static const uint64_t bucket_ns[METRICS_BUCKETS - 1] = {
    10000,   25000,    50000,    100000,   250000,    500000,    1000000,   2500000,
    5000000, 10000000, 25000000, 50000000, 100000000, 250000000, 500000000, 1000000000,
};
static const char *const bucket_seconds[METRICS_BUCKETS] = {
    "0.00001", "0.000025", "0.00005", "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005",
    "0.01",    "0.025",    "0.05",    "0.1",    "0.25",    "0.5",    "1",     "+Inf",
};
static const char *const outcome_names[OUTCOMES] = {"2xx", "4xx", "5xx"};
static const char *const unauthorized_names[UNAUTHORIZED] = {"no token", "wrong token"};
static const char *const end_names[ENDS] = {"idle", "slow", "unread", "protocol", "shed"};

void metrics_count_request(struct metrics *metrics, enum endpoint endpoint, int status,
                           uint64_t duration_ns)
{
    enum metrics_outcome outcome = status < 400   ? OUTCOME_OK
                                   : status < 500 ? OUTCOME_REFUSED
                                                  : OUTCOME_FAILED;
    size_t bucket = 0;
    while (bucket < METRICS_BUCKETS - 1 && duration_ns > bucket_ns[bucket])
        bucket++;
    metrics_add(&metrics->requests[endpoint][outcome], 1);
    metrics_add(&metrics->latency[endpoint][bucket], 1);
    metrics_add(&metrics->latency_ns[endpoint], duration_ns);
}

static uint64_t load(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void metrics_sum_add(struct metrics_sum *sum, const struct metrics *metrics)
{
    for (size_t e = 0; e < ENDPOINTS; e++) {
        for (size_t i = 0; i < OUTCOMES; i++)
            sum->requests[e][i] += load(&metrics->requests[e][i]);
        for (size_t i = 0; i < METRICS_BUCKETS; i++)
            sum->latency[e][i] += load(&metrics->latency[e][i]);
        sum->latency_ns[e] += load(&metrics->latency_ns[e]);
        sum->keys[e] += load(&metrics->keys[e]);
    }
    sum->bytes_received += load(&metrics->bytes_received);
    sum->bytes_sent += load(&metrics->bytes_sent);
    /* Closed first: a connection counted as closed is counted as opened, too. */
    sum->connections_closed += load(&metrics->connections_closed);
    sum->connections_opened += load(&metrics->connections_opened);
    for (size_t i = 0; i < ENDS; i++)
        sum->ended[i] += load(&metrics->ended[i]);
    for (size_t i = 0; i < UNAUTHORIZED; i++)
        sum->unauthorized[i] += load(&metrics->unauthorized[i]);
}

/* ---- Text ------------------------------------------------------------------------------------*/

static void family(struct buffer *out, const char *name, const char *type, const char *help)
{
    buffer_append_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static const char *endpoint_label(enum endpoint endpoint)
{
    return endpoint == ENDPOINT_ROOT ? "root" : route_endpoint_name(endpoint);
}

static uint64_t request_count(const struct metrics_sum *sum, size_t endpoint)
{
    uint64_t count = 0;
    for (size_t i = 0; i < METRICS_BUCKETS; i++)
        count += sum->latency[endpoint][i];
    return count;
}

static void write_latency(struct buffer *out, const struct metrics_sum *sum)
{
    family(out, "kvshelf_request_duration_seconds", "histogram",
           "Time from a whole request to its answer, without the network.");
    for (enum endpoint e = 0; e < ENDPOINTS; e++) {
        if (request_count(sum, e) == 0)
            continue;
        uint64_t cumulative = 0;
        for (size_t i = 0; i < METRICS_BUCKETS; i++) {
            cumulative += sum->latency[e][i];
            buffer_append_format(
                out,
                "kvshelf_request_duration_seconds_bucket{endpoint=\"%s\",le=\"%s\"} "
                "%" PRIu64 "\n",
                endpoint_label(e), bucket_seconds[i], cumulative);
        }
        buffer_append_format(
            out,
            "kvshelf_request_duration_seconds_sum{endpoint=\"%s\"} %.9f\n"
            "kvshelf_request_duration_seconds_count{endpoint=\"%s\"} %" PRIu64 "\n",
            endpoint_label(e), (double)sum->latency_ns[e] / 1e9, endpoint_label(e), cumulative);
    }
}

/* A series that begins with its first refusal hides that one from increase(): those that can come
 * are there from the start. What asks for no path of the server, or is not HTTP, is never granted.
 */
static bool can_come(enum endpoint endpoint, enum metrics_outcome outcome)
{
    return endpoint != ENDPOINT_NONE || outcome != OUTCOME_OK;
}

static void write_requests(struct buffer *out, const struct metrics_sum *sum)
{
    family(out, "kvshelf_requests_total", "counter", "Requests answered, by status class.");
    for (enum endpoint e = 0; e < ENDPOINTS; e++)
        for (size_t i = 0; i < OUTCOMES; i++)
            if (can_come(e, (enum metrics_outcome)i) || sum->requests[e][i] > 0)
                buffer_append_format(
                    out, "kvshelf_requests_total{endpoint=\"%s\",status=\"%s\"} %" PRIu64 "\n",
                    endpoint_label(e), outcome_names[i], sum->requests[e][i]);
    family(out, "kvshelf_request_keys_total", "counter", "Keys and pages named by requests.");
    for (enum endpoint e = 0; e <= ENDPOINT_RANK_LAST; e++)
        if (sum->keys[e] > 0)
            buffer_append_format(out, "kvshelf_request_keys_total{endpoint=\"%s\"} %" PRIu64 "\n",
                                 endpoint_label(e), sum->keys[e]);
}

static void write_unauthorized(struct buffer *out, const struct metrics_sum *sum)
{
    family(out, "kvshelf_unauthorized_total", "counter",
           "Requests refused because of their token, by reason.");
    for (size_t i = 0; i < UNAUTHORIZED; i++)
        buffer_append_format(out, "kvshelf_unauthorized_total{reason=\"%s\"} %" PRIu64 "\n",
                             unauthorized_names[i], sum->unauthorized[i]);
}

static void write_single(struct buffer *out, const char *name, const char *type, const char *help,
                         uint64_t value)
{
    family(out, name, type, help);
    buffer_append_format(out, "%s %" PRIu64 "\n", name, value);
}

static void write_connections(struct buffer *out, const struct metrics_sum *sum)
{
    write_single(out, "kvshelf_connections", "gauge", "Connections open now.",
                 sum->connections_opened - sum->connections_closed);
    write_single(out, "kvshelf_connections_total", "counter", "Connections accepted.",
                 sum->connections_opened);
    family(out, "kvshelf_connections_ended_total", "counter",
           "Connections the server ended, by reason.");
    for (size_t i = 0; i < ENDS; i++)
        buffer_append_format(out, "kvshelf_connections_ended_total{reason=\"%s\"} %" PRIu64 "\n",
                             end_names[i], sum->ended[i]);
    write_single(out, "kvshelf_received_bytes_total", "counter", "Bytes read from clients.",
                 sum->bytes_received);
    write_single(out, "kvshelf_sent_bytes_total", "counter", "Bytes written to clients.",
                 sum->bytes_sent);
}

/* ---- What the catalogs count -----------------------------------------------------------------*/

/* One namespace, copied under its lock: a family of Prometheus must not be torn apart, so the text
 * is written family by family afterwards. */
struct row {
    char *labels; /* rank="0",namespace="kv" */
    struct registry_info info;
};
struct rows {
    struct row *rows;
    size_t count, capacity;
    bool failed;
};

static void append_label_value(struct buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\' || *text == '"')
            buffer_append_char(out, '\\');
        if (*text == '\n')
            buffer_append_text(out, "\\n");
        else
            buffer_append_char(out, *text);
    }
}

static void collect(void *arg, const struct registry_info *info, struct catalog *catalog)
{
    (void)catalog;
    struct rows *rows = arg;
    if (rows->count == rows->capacity) {
        size_t capacity = rows->capacity == 0 ? 16 : 2 * rows->capacity;
        struct row *grown = realloc(rows->rows, capacity * sizeof(*grown));
        if (grown == NULL) {
            rows->failed = true;
            return;
        }
        rows->rows = grown;
        rows->capacity = capacity;
    }
    struct buffer labels = {0};
    buffer_append_format(&labels, "rank=\"%" PRIu32 "\",namespace=\"", info->rank);
    append_label_value(&labels, info->ns);
    buffer_append(&labels, "\"", 2);
    if (labels.failed) {
        rows->failed = true;
        buffer_done(&labels);
        return;
    }
    rows->rows[rows->count++] = (struct row){.labels = labels.data, .info = *info};
}

typedef uint64_t (*row_value_fn)(const struct registry_info *info);

#define VALUE(name, expression)                                                                    \
    static uint64_t name(const struct registry_info *info)                                         \
    {                                                                                              \
        return expression;                                                                         \
    }
VALUE(value_hits, info->totals.hits)
VALUE(value_misses, info->totals.misses)
VALUE(value_reserved, info->totals.reserved)
VALUE(value_present, info->totals.present)
VALUE(value_confirmed, info->totals.confirmed)
VALUE(value_released, info->totals.released)
VALUE(value_deleted, info->totals.deleted)
VALUE(value_evicted, info->totals.evicted)
VALUE(value_expired, info->totals.expired)
VALUE(value_clears, info->totals.clears)
VALUE(value_mismatches, info->totals.mismatches)
VALUE(value_num_pages, info->num_pages)
VALUE(value_page_bytes, info->bytes_per_page)
VALUE(value_memory, (uint64_t)info->memory_bytes)
#undef VALUE

static const struct {
    const char *name, *type, *help;
    row_value_fn value;
} row_families[] = {
    {"kvshelf_hits_total", "counter", "Keys of get that were present.", value_hits},
    {"kvshelf_misses_total", "counter", "Keys of get that were absent.", value_misses},
    {"kvshelf_reserved_total", "counter", "Pages handed to writers.", value_reserved},
    {"kvshelf_present_total", "counter", "Keys of reserve that had a page already.", value_present},
    {"kvshelf_confirmed_total", "counter", "Pages confirmed.", value_confirmed},
    {"kvshelf_released_total", "counter", "Pages released by writers.", value_released},
    {"kvshelf_deleted_total", "counter", "Keys deleted.", value_deleted},
    {"kvshelf_evictions_total", "counter", "Pages evicted for a writer.", value_evicted},
    {"kvshelf_expiries_total", "counter", "Reservations that were never confirmed.", value_expired},
    {"kvshelf_clears_total", "counter", "Calls of clear.", value_clears},
    {"kvshelf_mismatches_total", "counter", "Pages retired after a report of other bytes.",
     value_mismatches},
    {"kvshelf_capacity_pages", "gauge", "Pages of the file.", value_num_pages},
    {"kvshelf_page_bytes", "gauge", "Bytes of a page, 0 when no client has said.",
     value_page_bytes},
    {"kvshelf_catalog_memory_bytes", "gauge", "Memory of the catalog.", value_memory},
};

static void write_rows(struct buffer *out, const struct rows *rows)
{
    for (size_t f = 0; f < sizeof(row_families) / sizeof(row_families[0]); f++) {
        family(out, row_families[f].name, row_families[f].type, row_families[f].help);
        for (size_t i = 0; i < rows->count; i++)
            buffer_append_format(out, "%s{%s} %" PRIu64 "\n", row_families[f].name,
                                 rows->rows[i].labels, row_families[f].value(&rows->rows[i].info));
    }
}

static void write_pages(struct buffer *out, const struct rows *rows)
{
    family(out, "kvshelf_pages", "gauge", "Pages by state; the four add up to the capacity.");
    for (size_t i = 0; i < rows->count; i++) {
        const struct catalog_counts *c = &rows->rows[i].info.counts;
        const struct {
            const char *name;
            uint64_t pages;
        } states[] = {{"free", c->free},
                      {"reserved", c->reserved},
                      {"committed", c->committed},
                      {"retired", c->retired}};
        for (size_t s = 0; s < 4; s++)
            buffer_append_format(out, "kvshelf_pages{%s,state=\"%s\"} %" PRIu64 "\n",
                                 rows->rows[i].labels, states[s].name, states[s].pages);
    }
}

static void write_rejections(struct buffer *out, const struct rows *rows)
{
    family(out, "kvshelf_rejections_total", "counter",
           "Entries of confirm and release that were rejected, by reason.");
    for (size_t i = 0; i < rows->count; i++)
        for (size_t r = CATALOG_ACCEPTED + 1; r < CATALOG_REJECTIONS; r++)
            buffer_append_format(out, "kvshelf_rejections_total{%s,reason=\"%s\"} %" PRIu64 "\n",
                                 rows->rows[i].labels,
                                 catalog_rejection_text((enum catalog_rejection)r),
                                 rows->rows[i].info.totals.rejected[r]);
}

static void write_shortages(struct buffer *out, const struct rows *rows)
{
    family(out, "kvshelf_no_page_total", "counter",
           "Keys of reserve for which no page was to be had, by reason.");
    for (size_t i = 0; i < rows->count; i++)
        for (size_t r = 0; r < CATALOG_SHORTAGES; r++)
            buffer_append_format(out, "kvshelf_no_page_total{%s,reason=\"%s\"} %" PRIu64 "\n",
                                 rows->rows[i].labels,
                                 catalog_shortage_text((enum catalog_shortage)r),
                                 rows->rows[i].info.totals.no_page[r]);
}

static void write_images(struct buffer *out, const struct rows *rows)
{
    family(out, "kvshelf_image_age_seconds", "gauge",
           "Time since the kept image last held every change.");
    for (size_t i = 0; i < rows->count; i++)
        if (rows->rows[i].info.kept)
            buffer_append_format(out, "kvshelf_image_age_seconds{%s} %.3f\n", rows->rows[i].labels,
                                 (double)rows->rows[i].info.image_age_ms / 1e3);
}

static void write_catalogs(struct buffer *out, struct registry *registry)
{
    struct rows rows = {0};
    registry_visit(registry, collect, &rows);
    if (rows.failed)
        out->failed = true;
    write_pages(out, &rows);
    write_rows(out, &rows);
    write_rejections(out, &rows);
    write_shortages(out, &rows);
    write_images(out, &rows);
    for (size_t i = 0; i < rows.count; i++)
        free(rows.rows[i].labels);
    free(rows.rows);
}

void metrics_write(struct buffer *out, const struct metrics_sum *sum, struct registry *registry,
                   uint64_t uptime_ms)
{
    family(out, "kvshelf_info", "gauge", "The release that is running.");
    buffer_append_format(out, "kvshelf_info{version=\"%s\"} 1\n", kvs_version());
    family(out, "kvshelf_uptime_seconds", "gauge", "Time since the start.");
    buffer_append_format(out, "kvshelf_uptime_seconds %.3f\n", (double)uptime_ms / 1e3);
    write_single(out, "kvshelf_ready", "gauge", "1 when the catalogs are loaded.",
                 registry != NULL);
    write_requests(out, sum);
    write_unauthorized(out, sum);
    write_latency(out, sum);
    write_connections(out, sum);
    if (registry != NULL)
        write_catalogs(out, registry);
}
