/* A request trace in memory: which pages each request asks for. The format is that of the public
 * Mooncake traces, one JSON object a line:
 *
 *     {"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}
 *
 * `hash_ids` holds one id per block of 512 tokens (equal ids mean equal prefixes up to there) and
 * no more than `input_length` has blocks; other members are skipped. The whole trace is read and
 * checked before anything is done with it. */
#ifndef KVSHELF_CLI_TRACE_H
#define KVSHELF_CLI_TRACE_H

#include "kvshelf/kvshelf.h"

enum {
    TRACE_BLOCK_TOKENS = 512,
    TRACE_IDS_MAX = 65536,    /* ids of one request */
    TRACE_LINE_MAX = 4 << 20, /* longest line accepted, bytes */
    TRACE_TOTAL_MAX =
        1 << 28, /* requests and ids of a trace: some 8 GiB of memory while replaying */
};

struct trace {
    size_t num_requests;
    size_t *first; /* ids of request r: ids[first[r]] to ids[first[r + 1] - 1]; num_requests + 1 */
    uint64_t *ids;
    size_t num_ids;
    size_t largest; /* most ids of one request */
};

static inline size_t trace_count(const struct trace *trace, size_t request)
{
    return trace->first[request + 1] - trace->first[request];
}

/* Reads the first `limit` requests (0: all) of the file, or of standard input ("-"). Lines after
 * them are not looked at. Empty lines are skipped. Errors: KVS_ERR_TRACE_OPEN (missing or
 * unreadable), KVS_ERR_TRACE_EMPTY, KVS_ERR_TRACE_LINE (names the line; also the one with which
 * there are more than TRACE_TOTAL_MAX), KVS_ERR_NO_MEMORY. Zero or set `*ret_trace` is ended with
 * trace_done(). */
enum kvs_status trace_read(const char *path, size_t limit, struct trace *ret_trace,
                           struct kvs_error *error);
/* The same with another bound than TRACE_TOTAL_MAX. */
enum kvs_status trace_read_at_most(const char *path, size_t limit, size_t total_max,
                                   struct trace *ret_trace, struct kvs_error *error);
void trace_done(struct trace *trace);

#endif
