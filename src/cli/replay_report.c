/* What a replay tells: a table with units and a picture of the hit ratio over time, or one JSON
 * object. The names of the JSON members are stable. */
#include "base/json.h"
#include "base/text.h"
#include "cli/replay.h"

#include <math.h>

enum { PICTURE_WIDTH = 60 };

/* GB/s, 10^9 bytes: bytes per nanosecond. */
static double gb_per_s(uint64_t bytes, uint64_t ns)
{
    return ns == 0 ? 0 : (double)bytes / (double)ns;
}

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

double replay_picture(struct buffer *out, const struct trace *trace,
                      const struct replay_result *result, size_t width)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    enum { LEVELS = sizeof blocks / sizeof *blocks - 1 };
    double highest = 0;
    if (width > result->requests)
        width = result->requests;
    for (int drawing = 0; drawing < 2; drawing++) {
        for (size_t column = 0; column < width; column++) {
            uint64_t asked = 0, hit = 0;
            size_t end = (column + 1) * result->requests / width;
            for (size_t r = column * result->requests / width; r < end; r++) {
                asked += trace_count(trace, r);
                hit += result->hit_of_request[r];
            }
            double ratio = asked == 0 ? 0 : (double)hit / (double)asked;
            if (!drawing)
                highest = fmax(highest, ratio);
            else if (ratio == 0)
                buffer_append_text(out, blocks[0]);
            else
                buffer_append_text(out, blocks[(size_t)ceil(ratio / highest * LEVELS)]);
        }
    }
    return highest;
}

static void print_picture(FILE *out, const struct trace *trace, const struct replay_result *result)
{
    struct buffer picture = {0};
    size_t per_column = (result->requests + PICTURE_WIDTH - 1) / PICTURE_WIDTH;
    double highest = replay_picture(&picture, trace, result, PICTURE_WIDTH);
    fprintf(out, "\n  hit ratio over time, 0 to %.4f, each column about %zu request%s\n", highest,
            per_column, per_column == 1 ? "" : "s");
    fprintf(out, "  |%s|\n", buffer_text(&picture));
    buffer_done(&picture);
}

static void print_count(FILE *out, const char *name, uint64_t value, const char *unit)
{
    fprintf(out, "  %-18s %12s%s%s\n", name, COUNT(value), unit[0] == '\0' ? "" : " ", unit);
}

static void print_speed(FILE *out, const char *name, uint64_t bytes,
                        const struct replay_times *times)
{
    if (bytes == 0) {
        fprintf(out, "  %-18s %12s\n", name, "-");
        return;
    }
    fprintf(out, "  %-18s %12.2f GB/s  (%s in %s)\n", name, gb_per_s(bytes, times->total_ns),
            BYTES(bytes), DURATION_NS(times->total_ns));
}

static void print_times(FILE *out, const char *name, struct replay_times *times)
{
    fprintf(out, "  %-18s %12.3f ms p50, %.3f ms p99  (%s batches)\n", name,
            ms(replay_percentile_ns(times, 50)), ms(replay_percentile_ns(times, 99)),
            COUNT(times->count));
}

void replay_print(FILE *out, const struct trace *trace, struct replay_result *result,
                  bool moves_bytes)
{
    if (moves_bytes)
        print_count(out, "pages at the start", result->pages_at_start,
                    result->pages_at_start == 0 ? "pages: cold" : "pages of an earlier run: warm");
    print_count(out, "requests", result->requests,
                result->interrupted ? "(interrupted before the end)" : "");
    print_count(out, "pages asked", result->pages_asked, "pages");
    print_count(out, "hit pages", result->pages_hit, "pages (leading runs)");
    fprintf(out, "  %-18s %12.4f hit pages / pages asked\n", "hit_ratio", replay_hit_ratio(result));
    print_count(out, "pages written", result->pages_written, "pages");
    if (result->pages_not_stored > 0)
        print_count(out, "pages not stored", result->pages_not_stored, "pages");
    if (moves_bytes) {
        print_speed(out, "in (read)", result->bytes_in, &result->get_times);
        print_speed(out, "out (write)", result->bytes_out, &result->set_times);
    }
    print_times(out, "get, per batch", &result->get_times);
    print_times(out, "set, per batch", &result->set_times);
    if (moves_bytes)
        print_count(out, "wrong bytes", result->wrong_bytes, "bytes");
    print_picture(out, trace, result);
}

void replay_write_json(struct buffer *out, struct replay_result *result, bool moves_bytes)
{
    struct json_writer json = {.out = out};
    json_write_object_begin(&json);
    json_member_uint64(&json, "pages_at_start", result->pages_at_start);
    json_member_uint64(&json, "requests", result->requests);
    json_member_bool(&json, "interrupted", result->interrupted);
    json_member_uint64(&json, "pages_asked", result->pages_asked);
    json_member_uint64(&json, "pages_hit", result->pages_hit);
    json_member_double(&json, "hit_ratio", round(replay_hit_ratio(result) * 1e4) / 1e4);
    json_member_uint64(&json, "pages_written", result->pages_written);
    json_member_uint64(&json, "pages_not_stored", result->pages_not_stored);
    json_member_uint64(&json, "pages_refused_by_storage", result->pages_failed);
    json_member_bool(&json, "moves_bytes", moves_bytes);
    json_member_uint64(&json, "bytes_in", result->bytes_in);
    json_member_uint64(&json, "bytes_out", result->bytes_out);
    json_member_double(&json, "gb_per_s_in",
                       gb_per_s(result->bytes_in, result->get_times.total_ns));
    json_member_double(&json, "gb_per_s_out",
                       gb_per_s(result->bytes_out, result->set_times.total_ns));
    json_member_uint64(&json, "get_batches", result->get_times.count);
    json_member_double(&json, "get_p50_ms", ms(replay_percentile_ns(&result->get_times, 50)));
    json_member_double(&json, "get_p99_ms", ms(replay_percentile_ns(&result->get_times, 99)));
    json_member_uint64(&json, "set_batches", result->set_times.count);
    json_member_double(&json, "set_p50_ms", ms(replay_percentile_ns(&result->set_times, 50)));
    json_member_double(&json, "set_p99_ms", ms(replay_percentile_ns(&result->set_times, 99)));
    json_member_uint64(&json, "wrong_bytes", result->wrong_bytes);
    json_member_uint64(&json, "wrong_pages", result->wrong_pages);
    json_write_object_end(&json);
}
