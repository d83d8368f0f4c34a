/* A catalog for tests: opened over slots that outlive it, with short ways to say the usual
 * requests. Every request checks the catalog's invariants afterwards. */
#ifndef KVSHELF_TESTS_SUPPORT_SHELF_H
#define KVSHELF_TESTS_SUPPORT_SHELF_H

#include "catalog/catalog.h"

enum { SHELF_TTL = 60000, SHELF_QUARANTINE = 30000, SHELF_LEASE = 10000 }; /* milliseconds */

struct shelf {
    struct catalog *catalog;
    uint64_t now;
    struct catalog_options options;
    struct slot *slots;
    struct catalog_state state;
};

/* Options of a catalog of this many pages: prefix order, the durations above, no foreign writers,
 * generations from 1000. */
struct catalog_options shelf_options(uint32_t num_pages);
/* Opens over new slots. The time is 1,000,000. */
void shelf_open(struct shelf *shelf, const struct catalog_options *options);
void shelf_open_pages(struct shelf *shelf, uint32_t num_pages);
void shelf_close(struct shelf *shelf);
/* The process ends and another opens what is there; CLEAN hands the recency order on. */
void shelf_reopen(struct shelf *shelf, enum catalog_origin origin);

/* Keys by number: plain ones, and the halves of pairs. */
struct key plain(unsigned number);
struct key half_k(unsigned number);
struct key half_v(unsigned number);

/* The checksum that shelf_store() confirms a key with. */
uint64_t checksum_of(const struct key *key);

struct catalog_reserved shelf_reserve(struct shelf *shelf, struct key key);
void shelf_reserve_all(struct shelf *shelf, const struct key keys[], size_t n,
                       struct catalog_reserved ret_reserved[]);
enum catalog_rejection shelf_confirm(struct shelf *shelf, struct key key,
                                     struct catalog_reserved reserved);
enum catalog_rejection shelf_release(struct shelf *shelf, struct catalog_reserved reserved);
/* Reserves and confirms with a checksum; the page, or -1 when none was to be had. */
int64_t shelf_store(struct shelf *shelf, struct key key);
/* The same without a checksum. */
int64_t shelf_store_unverified(struct shelf *shelf, struct key key);
/* The key's page or -1: as a verifying reader; as one that takes a lease; without a trace. */
int64_t shelf_get(struct shelf *shelf, struct key key);
int64_t shelf_lease(struct shelf *shelf, struct key key);
bool shelf_exists(struct shelf *shelf, struct key key);
size_t shelf_delete(struct shelf *shelf, struct key key);

struct catalog_counts shelf_counts(struct shelf *shelf);
/* Fails the test unless the four counts are these. */
#define assert_counts(shelf, free, reserved, committed, retired)                                   \
    shelf_assert_counts(shelf, free, reserved, committed, retired, __FILE__, __LINE__)
void shelf_assert_counts(struct shelf *shelf, uint64_t free, uint64_t reserved, uint64_t committed,
                         uint64_t retired, const char *file, int line);

#endif
