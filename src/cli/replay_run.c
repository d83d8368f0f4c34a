/* Runs a trace against a target and adds up what came of it. */
#include "base/status.h"
#include "cli/replay.h"

#include <stdlib.h>
#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void add_time(struct replay_times *times, uint64_t duration_ns)
{
    times->ns[times->count++] = duration_ns;
    times->total_ns += duration_ns;
}

/* The leading run of a request, as an engine would look for it: no further than the first batch
 * that is not there in full. */
static enum kvs_status get_request(struct replay_target *target, const uint64_t ids[], size_t n,
                                   size_t batch, size_t *ret_run, struct replay_result *result,
                                   struct kvs_error *error)
{
    size_t run = 0;
    for (size_t at = 0; at < n && run == at; at += batch) {
        struct replay_got got;
        enum kvs_status status =
            target->ops->get(target, ids + at, smaller(batch, n - at), &got, error);
        if (status != KVS_OK)
            return status;
        add_time(&result->get_times, got.duration_ns);
        run += got.run;
        result->bytes_in += got.bytes;
        result->wrong_bytes += got.wrong_bytes;
        result->wrong_pages += got.wrong_pages;
    }
    *ret_run = run;
    return KVS_OK;
}

static enum kvs_status set_request(struct replay_target *target, const uint64_t ids[], size_t n,
                                   size_t batch, struct replay_result *result,
                                   struct kvs_error *error)
{
    for (size_t at = 0; at < n; at += batch) {
        struct replay_put put;
        enum kvs_status status =
            target->ops->set(target, ids + at, smaller(batch, n - at), &put, error);
        if (status != KVS_OK)
            return status;
        add_time(&result->set_times, put.duration_ns);
        result->bytes_out += put.bytes;
        result->pages_written += put.written;
        result->pages_not_stored += put.not_stored;
        result->pages_failed += put.failed;
        result->pages_no_space += put.no_space;
    }
    return KVS_OK;
}

static enum kvs_status run_request(const struct trace *trace, size_t request,
                                   struct replay_target *target, size_t batch,
                                   struct replay_result *result, struct kvs_error *error)
{
    const uint64_t *ids = trace->ids + trace->first[request];
    size_t n = trace_count(trace, request), run = 0;
    enum kvs_status status = get_request(target, ids, n, batch, &run, result, error);
    if (status == KVS_OK)
        status = set_request(target, ids, n, batch, result, error);
    if (status != KVS_OK)
        return status;
    result->hit_of_request[request] = (uint32_t)run;
    result->pages_asked += n;
    result->pages_hit += run;
    result->requests++;
    return KVS_OK;
}

static bool allocate(const struct trace *trace, size_t batch, struct replay_result *result)
{
    size_t batches = 0;
    for (size_t r = 0; r < trace->num_requests; r++)
        batches += (trace_count(trace, r) + batch - 1) / batch;
    result->get_times.ns = calloc(batches + 1, sizeof *result->get_times.ns);
    result->set_times.ns = calloc(batches + 1, sizeof *result->set_times.ns);
    result->hit_of_request = calloc(trace->num_requests, sizeof *result->hit_of_request);
    return result->get_times.ns && result->set_times.ns && result->hit_of_request;
}

enum kvs_status replay_run(const struct trace *trace, struct replay_target *target, size_t batch,
                           replay_progress_fn progress, void *arg, struct replay_result *ret_result,
                           struct kvs_error *error)
{
    if (batch == 0 || batch > trace->largest)
        batch = trace->largest;
    memset(ret_result, 0, sizeof *ret_result);
    if (!allocate(trace, batch, ret_result))
        return error_set(error, KVS_ERR_NO_MEMORY, "setting up the replay");
    for (size_t r = 0; r < trace->num_requests; r++) {
        enum kvs_status status = run_request(trace, r, target, batch, ret_result, error);
        if (status != KVS_OK)
            return status;
        if (!progress(arg, r + 1, trace->num_requests)) {
            ret_result->interrupted = r + 1 < trace->num_requests;
            break;
        }
    }
    return KVS_OK;
}

void replay_result_done(struct replay_result *result)
{
    free(result->get_times.ns);
    free(result->set_times.ns);
    free(result->hit_of_request);
    memset(result, 0, sizeof *result);
}

double replay_hit_ratio(const struct replay_result *result)
{
    return result->pages_asked == 0 ? 0 : (double)result->pages_hit / (double)result->pages_asked;
}

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint64_t replay_percentile_ns(struct replay_times *times, double percent)
{
    if (times->count == 0)
        return 0;
    qsort(times->ns, times->count, sizeof *times->ns, compare_ns);
    size_t at = (size_t)((double)times->count * percent / 100);
    return times->ns[smaller(at, times->count - 1)];
}
