/* The store's counters: one atomic number each, added to by any thread, read without a lock.
 *
 * What became of a page is told by the counter it is counted in: the STAT_MISSED_*, STAT_UNSTORED_*
 * and the three ways to be stored are outcomes of pages, every page of a call has exactly one. They
 * are ordered by how much they say: of the two halves of a pair the greater outcome is the page's.
 */
#ifndef KVSHELF_STORE_STATS_H
#define KVSHELF_STORE_STATS_H

#include "kvshelf/kvshelf.h"

#include <stdatomic.h>

enum store_stat {
    /* outcomes of batch_get */
    STAT_LOADED,
    STAT_MISSED_ABSENT,
    STAT_MISSED_REPLACED,
    STAT_MISSED_REFUSED,
    STAT_MISSED_METADATA,
    STAT_MISSED_OVERDUE,
    STAT_MISSED_READ_ERROR,
    STAT_MISSED_MISMATCH,
    /* outcomes of batch_set */
    STAT_SKIPPED,
    STAT_PRESENT,
    STAT_WRITTEN,
    STAT_UNSTORED_NO_PAGE,
    STAT_UNSTORED_REJECTED,
    STAT_UNSTORED_REFUSED,
    STAT_UNSTORED_METADATA,
    STAT_UNSTORED_OVERDUE,
    STAT_UNSTORED_NO_SPACE,
    STAT_UNSTORED_WRITE_ERROR,
    /* events */
    STAT_HIT,
    STAT_EXISTS_ASKED,
    STAT_EXISTS_FOUND,
    STAT_BYTES_READ,
    STAT_BYTES_WRITTEN,
    STAT_CHECKSUM_MISMATCHES,
    STAT_MISMATCHES_REPORTED,
    STAT_IO_ERRORS,
    STAT_SHORT_READS,
    STAT_SHORT_WRITES,
    STAT_OVERDUE_IOS,
    STAT_METADATA_ERRORS,
    STATS,
};

static inline bool stat_is_loaded(enum store_stat outcome)
{
    return outcome == STAT_LOADED;
}

static inline bool stat_is_stored(enum store_stat outcome)
{
    return outcome == STAT_SKIPPED || outcome == STAT_PRESENT || outcome == STAT_WRITTEN;
}

struct stats {
    _Atomic uint64_t counters[STATS];
};

static inline void stats_add(struct stats *stats, enum store_stat stat, uint64_t n)
{
    if (n != 0)
        atomic_fetch_add_explicit(&stats->counters[stat], n, memory_order_relaxed);
}

/* Fills all that comes from counters; sums are made here, so that they add up at any moment. */
void stats_read(const struct stats *stats, struct kvs_store_stats *ret_stats);

#endif
