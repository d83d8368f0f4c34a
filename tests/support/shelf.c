/* A catalog for tests: see shelf.h. */
#include "support/shelf.h"

#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct catalog_options shelf_options(uint32_t num_pages)
{
    return (struct catalog_options){.num_pages = num_pages,
                                    .eviction = KVS_EVICTION_PREFIX,
                                    .reserve_ttl_ms = SHELF_TTL,
                                    .quarantine_ms = SHELF_QUARANTINE,
                                    .lease_ms = SHELF_LEASE,
                                    .wall_us = 1000};
}

void shelf_open(struct shelf *shelf, const struct catalog_options *options)
{
    *shelf = (struct shelf){.now = 1000000, .options = *options};
    shelf->slots = calloc(options->num_pages, sizeof(struct slot));
    assert_non_null(shelf->slots);
    shelf->options.slots = shelf->slots;
    shelf->options.state = &shelf->state;
    shelf->options.origin = CATALOG_NEW;
    assert_int_equal(catalog_open(&shelf->options, shelf->now, &shelf->catalog, NULL), KVS_OK);
}

void shelf_open_pages(struct shelf *shelf, uint32_t num_pages)
{
    struct catalog_options options = shelf_options(num_pages);
    shelf_open(shelf, &options);
}

static void check(struct shelf *shelf)
{
    const char *wrong = catalog_check(shelf->catalog);
    if (wrong != NULL)
        fail_msg("the catalog is inconsistent: %s", wrong);
}

void shelf_close(struct shelf *shelf)
{
    check(shelf);
    shelf->catalog = catalog_close(shelf->catalog);
    free(shelf->slots);
    shelf->slots = NULL;
}

void shelf_reopen(struct shelf *shelf, enum catalog_origin origin)
{
    size_t count = catalog_counts(shelf->catalog, shelf->now).committed;
    uint32_t *recency = calloc(count + 1, sizeof(uint32_t));
    assert_non_null(recency);
    shelf->options.recency_count = catalog_recency(shelf->catalog, recency);
    shelf->options.recency = origin == CATALOG_CLEAN ? recency : NULL;
    shelf->options.origin = origin;
    shelf->catalog = catalog_close(shelf->catalog);
    assert_int_equal(catalog_open(&shelf->options, shelf->now, &shelf->catalog, NULL), KVS_OK);
    free(recency);
    check(shelf);
}

static struct key key_of(unsigned number, const char *suffix)
{
    char text[80];
    struct key key;
    int length = snprintf(text, sizeof(text), "%064x%s", number, suffix);
    key_parse(&key, text, (size_t)length, "kv");
    return key;
}

struct key plain(unsigned number)
{
    return key_of(number, "");
}

struct key half_k(unsigned number)
{
    return key_of(number, "-k");
}

struct key half_v(unsigned number)
{
    return key_of(number, "-v");
}

uint64_t checksum_of(const struct key *key)
{
    uint64_t number;
    memcpy(&number, key->digest + KEY_DIGEST_BYTES - sizeof(number), sizeof(number));
    return number * 31 + key->suffix;
}

void shelf_reserve_all(struct shelf *shelf, const struct key keys[], size_t n,
                       struct catalog_reserved ret_reserved[])
{
    assert_int_equal(catalog_reserve(shelf->catalog, shelf->now, keys, n, true, 0, ret_reserved),
                     KVS_OK);
    check(shelf);
}

struct catalog_reserved shelf_reserve(struct shelf *shelf, struct key key)
{
    struct catalog_reserved reserved;
    shelf_reserve_all(shelf, &key, 1, &reserved);
    return reserved;
}

static enum catalog_rejection confirm(struct shelf *shelf, struct key key,
                                      struct catalog_reserved reserved, bool has_checksum)
{
    struct catalog_confirm entry = {.key = key,
                                    .page = reserved.page,
                                    .has_generation = true,
                                    .generation = reserved.generation,
                                    .has_checksum = has_checksum,
                                    .checksum = checksum_of(&key)};
    enum catalog_rejection reason;
    catalog_confirm(shelf->catalog, shelf->now, &entry, 1, &reason);
    check(shelf);
    return reason;
}

enum catalog_rejection shelf_confirm(struct shelf *shelf, struct key key,
                                     struct catalog_reserved reserved)
{
    return confirm(shelf, key, reserved, true);
}

enum catalog_rejection shelf_release(struct shelf *shelf, struct catalog_reserved reserved)
{
    struct catalog_release entry = {
        .page = reserved.page, .has_generation = true, .generation = reserved.generation};
    enum catalog_rejection reason;
    catalog_release(shelf->catalog, shelf->now, &entry, 1, &reason);
    check(shelf);
    return reason;
}

static int64_t store(struct shelf *shelf, struct key key, bool has_checksum)
{
    struct catalog_reserved reserved;
    assert_int_equal(
        catalog_reserve(shelf->catalog, shelf->now, &key, 1, has_checksum, 0, &reserved), KVS_OK);
    if (!reserved.present && reserved.page >= 0)
        assert_int_equal(confirm(shelf, key, reserved, has_checksum), CATALOG_ACCEPTED);
    return reserved.page;
}

int64_t shelf_store(struct shelf *shelf, struct key key)
{
    return store(shelf, key, true);
}

int64_t shelf_store_unverified(struct shelf *shelf, struct key key)
{
    return store(shelf, key, false);
}

int64_t shelf_get(struct shelf *shelf, struct key key)
{
    struct catalog_found found;
    catalog_get(shelf->catalog, shelf->now, &key, 1, true, &found);
    return found.page;
}

int64_t shelf_lease(struct shelf *shelf, struct key key)
{
    struct catalog_found found;
    catalog_get(shelf->catalog, shelf->now, &key, 1, false, &found);
    return found.page;
}

bool shelf_exists(struct shelf *shelf, struct key key)
{
    bool exists;
    catalog_exists(shelf->catalog, shelf->now, &key, 1, true, &exists);
    return exists;
}

size_t shelf_delete(struct shelf *shelf, struct key key)
{
    size_t deleted = catalog_delete(shelf->catalog, shelf->now, &key, 1);
    check(shelf);
    return deleted;
}

struct catalog_counts shelf_counts(struct shelf *shelf)
{
    return catalog_counts(shelf->catalog, shelf->now);
}

void shelf_assert_counts(struct shelf *shelf, uint64_t free, uint64_t reserved, uint64_t committed,
                         uint64_t retired, const char *file, int line)
{
    struct catalog_counts counts = shelf_counts(shelf);
    if (counts.free == free && counts.reserved == reserved && counts.committed == committed &&
        counts.retired == retired)
        return;
    print_error("%s:%d: free %" PRIu64 " reserved %" PRIu64 " committed %" PRIu64
                " retired %" PRIu64 ", expected %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                file, line, counts.free, counts.reserved, counts.committed, counts.retired, free,
                reserved, committed, retired);
    fail();
}
