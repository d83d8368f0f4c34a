/* Counters put into the public structure. */
#include "store/stats.h"

#include <string.h>

static const struct {
    enum store_stat stat;
    size_t offset;
} fields[] = {
#define FIELD(stat, name)                                                                          \
    {                                                                                              \
        stat, offsetof(struct kvs_store_stats, name)                                               \
    }
    FIELD(STAT_LOADED, pages_loaded),
    FIELD(STAT_MISSED_ABSENT, missed_absent),
    FIELD(STAT_MISSED_REPLACED, missed_replaced),
    FIELD(STAT_MISSED_REFUSED, missed_refused),
    FIELD(STAT_MISSED_METADATA, missed_metadata),
    FIELD(STAT_MISSED_OVERDUE, missed_overdue),
    FIELD(STAT_MISSED_READ_ERROR, missed_read_error),
    FIELD(STAT_MISSED_MISMATCH, missed_mismatch),
    FIELD(STAT_SKIPPED, pages_skipped),
    FIELD(STAT_PRESENT, pages_present),
    FIELD(STAT_WRITTEN, pages_written),
    FIELD(STAT_UNSTORED_NO_PAGE, unstored_no_page),
    FIELD(STAT_UNSTORED_REJECTED, unstored_rejected),
    FIELD(STAT_UNSTORED_REFUSED, unstored_refused),
    FIELD(STAT_UNSTORED_METADATA, unstored_metadata),
    FIELD(STAT_UNSTORED_OVERDUE, unstored_overdue),
    FIELD(STAT_UNSTORED_NO_SPACE, unstored_no_space),
    FIELD(STAT_UNSTORED_WRITE_ERROR, unstored_write_error),
    FIELD(STAT_HIT, pages_hit),
    FIELD(STAT_EXISTS_ASKED, exists_asked),
    FIELD(STAT_EXISTS_FOUND, exists_found),
    FIELD(STAT_BYTES_READ, bytes_read),
    FIELD(STAT_BYTES_WRITTEN, bytes_written),
    FIELD(STAT_CHECKSUM_MISMATCHES, checksum_mismatches),
    FIELD(STAT_MISMATCHES_REPORTED, mismatches_reported),
    FIELD(STAT_IO_ERRORS, io_errors),
    FIELD(STAT_SHORT_READS, short_reads),
    FIELD(STAT_SHORT_WRITES, short_writes),
    FIELD(STAT_OVERDUE_IOS, overdue_ios),
    FIELD(STAT_METADATA_ERRORS, metadata_errors),
#undef FIELD
};
_Static_assert(sizeof(fields) / sizeof(fields[0]) == STATS, "every counter has its field");

void stats_read(const struct stats *stats, struct kvs_store_stats *ret_stats)
{
    struct kvs_store_stats out = {0};
    for (size_t i = 0; i < STATS; i++) {
        enum store_stat stat = fields[i].stat;
        uint64_t n = atomic_load_explicit(&stats->counters[stat], memory_order_relaxed);
        memcpy((char *)&out + fields[i].offset, &n, sizeof(n));
        if (stat >= STAT_MISSED_ABSENT && stat <= STAT_MISSED_MISMATCH)
            out.pages_missed += n;
        if (stat >= STAT_UNSTORED_NO_PAGE && stat <= STAT_UNSTORED_WRITE_ERROR)
            out.pages_not_stored += n;
    }
    out.pages_asked = out.pages_loaded + out.pages_missed;
    out.pages_set =
        out.pages_written + out.pages_present + out.pages_skipped + out.pages_not_stored;
    *ret_stats = out;
}
