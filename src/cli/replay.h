/* A replay: a trace run against a target, and what came of it. replay_run.c runs it,
 * replay_report.c prints it, replay.c is the command. */
#ifndef KVSHELF_CLI_REPLAY_H
#define KVSHELF_CLI_REPLAY_H

#include "base/buffer.h"
#include "cli/replay_target.h"
#include "cli/trace.h"

#include <stdio.h>

/* Durations of calls, in the order they were made. */
struct replay_times {
    uint64_t *ns;
    size_t count;
    uint64_t total_ns;
};

struct replay_result {
    uint64_t pages_at_start; /* committed by an earlier run: set by the caller */
    size_t requests;         /* done: less than the trace has when it was interrupted */
    uint64_t pages_asked, pages_hit, pages_written, pages_not_stored;
    uint64_t pages_failed, pages_no_space; /* of those not stored: refused by the storage */
    uint64_t bytes_in, bytes_out;          /* read from and written to the target */
    uint64_t wrong_bytes, wrong_pages;
    struct replay_times get_times, set_times;
    uint32_t *hit_of_request; /* pages, one number a request */
    bool interrupted;
};

/* Told after each request; returns false to stop the replay there. */
typedef bool (*replay_progress_fn)(void *arg, size_t requests_done, size_t requests);

/* A request is a get of its ids, in batches of `batch` (0: one batch of all of them) up to the
 * first that is not loaded in full, then a set of all its ids in the same batches. `*ret_result` is
 * ended with replay_result_done() whatever the outcome. Errors: those of the target,
 * KVS_ERR_NO_MEMORY. */
enum kvs_status replay_run(const struct trace *trace, struct replay_target *target, size_t batch,
                           replay_progress_fn progress, void *arg, struct replay_result *ret_result,
                           struct kvs_error *error);
void replay_result_done(struct replay_result *result);

double replay_hit_ratio(const struct replay_result *result);

/* The time below which `percent` of the calls stayed, nanoseconds; 0 without calls. Sorts them. */
uint64_t replay_percentile_ns(struct replay_times *times, double percent);

/* `moves_bytes`: the target was a store. */
void replay_print(FILE *out, const struct trace *trace, struct replay_result *result,
                  bool moves_bytes);
void replay_write_json(struct buffer *out, struct replay_result *result, bool moves_bytes);

/* The hit ratio over time as a line of at most `width` block characters, each the ratio of as many
 * requests, from 0 to the highest among them, which is given back. */
double replay_picture(struct buffer *out, const struct trace *trace,
                      const struct replay_result *result, size_t width);

#endif
