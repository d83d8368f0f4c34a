/* A small model of the catalog's rules: plain arrays, linear searches, nothing clever. It is what
 * the catalog is judged by, and is written from the rules, not from the catalog.
 *
 * It plays the same calls as the catalog and says what the answers must be. One thing it does not
 * foretell: when pages that died at once (a clear) are swept, and in which order the pages of a
 * reopened catalog are given away. Such pages are `vague`: the model knows between which two times
 * each becomes FREE, takes over the catalog's choice where that choice is allowed, and foretells
 * everything else exactly. */
#ifndef KVSHELF_TESTS_CATALOG_MODEL_H
#define KVSHELF_TESTS_CATALOG_MODEL_H

#include "catalog/catalog.h"

enum { MODEL_PAGES_MAX = 64, MODEL_BATCH_MAX = 600 };

enum model_state { MODEL_FREE, MODEL_RESERVED, MODEL_COMMITTED, MODEL_RESTING };
enum model_queue { MODEL_QUARANTINE, MODEL_LEASE };

struct model_page {
    enum model_state state;
    struct key key; /* RESERVED, COMMITTED */
    uint64_t generation;
    uint64_t owner; /* RESERVED */
    bool has_checksum;
    uint64_t checksum;

    uint64_t reserved_until, leased_until;              /* milliseconds */
    uint64_t reserved_at, used_at, rested_at, freed_at; /* stamps: the order of events */

    /* RESTING: it ends not before `own`, and between `earliest` and `latest`. */
    enum model_queue queue;
    uint64_t own, earliest, latest;
    bool unswept;       /* died by a clear and may not have been looked at since */
    bool free_at_sweep; /* unswept, and nothing keeps it from becoming FREE */
    bool vague;         /* its place among the FREE pages is not known */
};

struct model {
    uint32_t num_pages;
    enum kvs_eviction eviction;
    uint64_t reserve_ttl, quarantine, lease;
    uint64_t now;
    uint64_t next_generation, floor, verify_below;
    uint64_t held_until;               /* a restart: FREE pages are not given away before */
    bool held_wholly;                  /* nor are pages evicted until then */
    uint64_t relet_below, relet_until; /* a restart: pages of earlier generations are leased */
    uint64_t rests_until;              /* a restart: what was given up before rests until then */
    uint64_t stamp;
    struct model_page pages[MODEL_PAGES_MAX];
    struct catalog_totals totals;
};

/* Opens the model as the catalog is to be opened with the same options; reads the slots given
 * there, so it comes before catalog_open(), which may change them. */
void model_open(struct model *m, const struct catalog_options *options, uint64_t now);

/* `chosen` is what the catalog answered to the same call. */
void model_reserve(struct model *m, uint64_t now, const struct key keys[], size_t n, bool verifying,
                   uint64_t owner, const struct catalog_reserved chosen[],
                   struct catalog_reserved ret_reserved[]);
void model_confirm(struct model *m, uint64_t now, const struct catalog_confirm entries[], size_t n,
                   enum catalog_rejection ret_reasons[]);
void model_release(struct model *m, uint64_t now, const struct catalog_release entries[], size_t n,
                   enum catalog_rejection ret_reasons[]);
void model_get(struct model *m, uint64_t now, const struct key keys[], size_t n, bool verifying,
               struct catalog_found ret_found[]);
void model_exists(struct model *m, uint64_t now, const struct key keys[], size_t n, bool verifying,
                  bool ret_exists[]);
size_t model_delete(struct model *m, uint64_t now, const struct key keys[], size_t n);
void model_clear(struct model *m, uint64_t now);
bool model_report_mismatch(struct model *m, uint64_t now, const struct key *key, int64_t page,
                           uint64_t generation);

/* The COMMITTED pages from the least to the most recently used. */
uint32_t model_recency(const struct model *m, uint32_t ret_pages[]);

/* What is wrong with what the catalog shows, or NULL. Static storage. */
const char *model_judge_counts(struct model *m, uint64_t now, const struct catalog_counts *counts);
const char *model_judge_quiet(struct model *m, uint64_t now, bool quiet);
const char *model_judge_slot(const struct model *m, uint32_t page, const struct slot *slot);
const char *model_judge_totals(const struct model *m, const struct catalog_totals *totals);

#endif
