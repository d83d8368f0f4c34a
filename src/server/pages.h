/* The bodies of the pages that are read by people and tools: /api/status and /. */
#ifndef KVSHELF_SERVER_PAGES_H
#define KVSHELF_SERVER_PAGES_H

#include "base/buffer.h"
#include "metadata/registry.h"
#include "server/metrics.h"

/* `registry` NULL: the catalogs are not loaded yet. `time_ms`: the wall clock's, since 1970. */
void pages_write_status(struct buffer *out, const struct metrics_sum *sum,
                        struct registry *registry, uint64_t time_ms, uint64_t uptime_ms);
void pages_write_root(struct buffer *out, const struct metrics_sum *sum, struct registry *registry,
                      uint64_t uptime_ms);

#endif
