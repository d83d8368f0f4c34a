/* Opening a catalog over what an earlier one left: after a clean stop, a kill, a power cut; and a
 * kill between any two stores of every kind of change. */
#include "support/shelf.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const enum catalog_origin origins[] = {CATALOG_CLEAN, CATALOG_KILLED, CATALOG_POWER_LOST};

/* ---- options -------------------------------------------------------------------------------- */

static void the_number_of_pages_is_limited(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, CATALOG_PAGES_MAX + 1, UINT32_MAX};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct catalog_options options = shelf_options(bad[i]);
        struct catalog *untouched = (struct catalog *)&options;
        struct kvs_error error = {.status = KVS_OK};
        assert_int_equal(catalog_open(&options, 0, &untouched, &error), KVS_ERR_CATALOG_GEOMETRY);
        assert_ptr_equal(untouched, &options);
        assert_int_equal(error.status, KVS_ERR_CATALOG_GEOMETRY);
        assert_true(strlen(error.message) > 0);
    }
    assert_null(catalog_close(NULL));
}

static void generations_start_at_the_wall_clock_and_never_fall_back(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 4);
    uint64_t last = shelf_reserve(&shelf, plain(1)).generation;
    assert_int_equal(last, 1000);
    for (size_t i = 0; i < COUNT(origins); i++) {
        shelf.options.wall_us = 1; /* a clock that was set back */
        shelf_reopen(&shelf, origins[i]);
        uint64_t next = shelf_reserve(&shelf, plain(10 + (unsigned)i)).generation;
        assert_true(next > last);
        shelf.options.wall_us = last = next + 1000000;
        shelf_reopen(&shelf, origins[i]);
        shelf.now += SHELF_TTL + SHELF_QUARANTINE;
        next = shelf_reserve(&shelf, plain(20 + (unsigned)i)).generation;
        assert_true(next >= last);
        last = next;
    }
    shelf_close(&shelf);
}

/* The counter beside the slots may be older than the slots: an image's tail is missing. */
static void generations_are_above_those_of_every_slot(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 2);
    uint64_t last = shelf_reserve(&shelf, plain(1)).generation;
    shelf.state.next_generation = 0;
    shelf.options.wall_us = 1;
    shelf_reopen(&shelf, CATALOG_POWER_LOST);
    assert_true(shelf_reserve(&shelf, plain(2)).generation > last);
    shelf_close(&shelf);
}

/* ---- what is kept --------------------------------------------------------------------------- */

static void confirmed_keys_are_there_after_every_kind_of_start(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(origins); i++) {
        for (int foreign = 0; foreign < 2; foreign++) {
            struct catalog_options options = shelf_options(8);
            options.foreign_writers = foreign;
            struct shelf shelf;
            shelf_open(&shelf, &options);
            struct key keys[] = {plain(1), half_k(2), half_v(2), plain(3)};
            struct catalog_found before[4], after[4];
            for (size_t j = 0; j < 4; j++)
                shelf_store(&shelf, keys[j]);
            catalog_get(shelf.catalog, shelf.now, keys, 4, true, before);
            shelf_reopen(&shelf, origins[i]);
            catalog_get(shelf.catalog, shelf.now, keys, 4, true, after);
            for (size_t j = 0; j < 4; j++) {
                assert_int_equal(after[j].page, before[j].page);
                assert_int_equal(after[j].generation, before[j].generation);
                assert_int_equal(after[j].checksum, before[j].checksum);
            }
            shelf_close(&shelf);
        }
    }
}

static void reservations_get_a_full_ttl_and_keep_their_owner(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(origins); i++) {
        struct shelf shelf;
        struct catalog_options options = shelf_options(2);
        options.foreign_writers = true;
        shelf_open(&shelf, &options);
        struct key key = plain(1);
        struct catalog_reserved before, again, other;
        catalog_reserve(shelf.catalog, shelf.now, &key, 1, true, 77, &before);
        shelf.now += SHELF_TTL - 1;
        shelf_reopen(&shelf, origins[i]);
        shelf.now += SHELF_TTL - 1;
        catalog_reserve(shelf.catalog, shelf.now, &key, 1, true, 77, &again);
        catalog_reserve(shelf.catalog, shelf.now, &key, 1, true, 78, &other);
        assert_true(!again.present && again.page == before.page &&
                    again.generation == before.generation);
        assert_true(other.present && other.page == before.page);
        assert_int_equal(shelf_confirm(&shelf, key, before), CATALOG_ACCEPTED);
        shelf_close(&shelf);
    }
}

/* Who reserved it is gone, so the key must be written again and not be said to be on its way. */
static void reservations_without_foreign_writers_rest(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(origins); i++) {
        struct shelf shelf;
        shelf_open_pages(&shelf, 4);
        struct catalog_reserved before = shelf_reserve(&shelf, plain(1));
        shelf_reopen(&shelf, origins[i]);
        assert_counts(&shelf, 3, 0, 0, 1);
        assert_int_equal(shelf_confirm(&shelf, plain(1), before), CATALOG_NOT_RESERVED);
        struct catalog_reserved again = shelf_reserve(&shelf, plain(1));
        assert_true(!again.present && again.page >= 0 && again.page != before.page);
        shelf.now += SHELF_QUARANTINE;
        assert_counts(&shelf, 3, 1, 0, 0);
        shelf_close(&shelf);
    }
}

static void resting_pages_start_their_rest_again(void **state)
{
    (void)state;
    static const struct {
        bool foreign;
        uint64_t quarantine, lease, rest;
    } cases[] = {
        {false, 30000, 10000, 30000},
        /* For what it rested is not known: for a writer whose reservation was deleted, */
        {true, 30000, 10000, SHELF_TTL + 30000},
        {false, 100, 10000, 100},
        {true, 100, 100000, 100000}, /* or for a reader. */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (int deleted = 0; deleted < 2; deleted++) {
            struct catalog_options options = shelf_options(1);
            options.foreign_writers = cases[i].foreign;
            options.quarantine_ms = cases[i].quarantine;
            options.lease_ms = cases[i].lease;
            struct shelf shelf;
            shelf_open(&shelf, &options);
            if (deleted) {
                shelf_store(&shelf, plain(1));
                shelf_lease(&shelf, plain(1));
                shelf_delete(&shelf, plain(1));
            } else {
                shelf_release(&shelf, shelf_reserve(&shelf, plain(1)));
            }
            assert_counts(&shelf, 0, 0, 0, 1);
            shelf_reopen(&shelf, CATALOG_CLEAN);
            shelf.now += cases[i].rest - 1;
            assert_counts(&shelf, 0, 0, 0, 1);
            shelf.now += 1;
            assert_counts(&shelf, 1, 0, 0, 0);
            shelf_close(&shelf);
        }
    }
}

static void cleared_keys_stay_away_after_every_kind_of_start(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(origins); i++) {
        struct shelf shelf;
        shelf_open_pages(&shelf, 4);
        shelf_store(&shelf, plain(1));
        struct catalog_reserved r = shelf_reserve(&shelf, plain(2));
        catalog_clear(shelf.catalog, shelf.now);
        shelf_store(&shelf, plain(3));
        shelf_reopen(&shelf, origins[i]);
        assert_false(shelf_exists(&shelf, plain(1)));
        assert_true(shelf_exists(&shelf, plain(3)));
        assert_int_equal(shelf_confirm(&shelf, plain(2), r), CATALOG_NOT_RESERVED);
        struct catalog_counts counts = shelf_counts(&shelf);
        assert_true(counts.reserved == 0 && counts.committed == 1);
        shelf_close(&shelf);
    }
}

/* ---- recency -------------------------------------------------------------------------------- */

static void a_clean_stop_keeps_the_recency_order(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 3);
    for (unsigned i = 0; i < 3; i++)
        shelf_store(&shelf, plain(i));
    shelf_get(&shelf, plain(0));
    shelf_reopen(&shelf, CATALOG_CLEAN);
    shelf_store(&shelf, plain(9));
    assert_true(shelf_exists(&shelf, plain(0)));
    assert_false(shelf_exists(&shelf, plain(1)));
    shelf_reopen(&shelf, CATALOG_KILLED); /* the order is lost: that of generations stands in */
    uint32_t pages[3];
    assert_int_equal(catalog_recency(shelf.catalog, pages), 3);
    for (uint32_t i = 1; i < 3; i++)
        assert_true(catalog_slot(shelf.catalog, pages[i - 1])->generation <
                    catalog_slot(shelf.catalog, pages[i])->generation);
    shelf_close(&shelf);
}

/* The order comes from a file: whatever it says, every page is in it once. */
static void a_nonsensical_recency_order_does_no_harm(void **state)
{
    (void)state;
    static const struct {
        uint32_t pages[6], count;
    } cases[] = {
        {{0, 0, 0}, 3},
        {{7, UINT32_MAX, 1, 4, 99}, 5}, /* FREE, out of range, RESERVED */
        {{2, 1, 0, 1, 2, 0}, 6},
        {{0}, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct shelf shelf;
        shelf_open_pages(&shelf, 8);
        for (unsigned j = 0; j < 4; j++)
            shelf_store(&shelf, plain(j));
        shelf_reserve(&shelf, plain(4));
        shelf.catalog = catalog_close(shelf.catalog);
        shelf.options.recency = cases[i].pages;
        shelf.options.recency_count = cases[i].count;
        shelf.options.origin = CATALOG_CLEAN;
        assert_int_equal(catalog_open(&shelf.options, shelf.now, &shelf.catalog, NULL), KVS_OK);
        assert_null(catalog_check(shelf.catalog));
        uint32_t pages[8];
        assert_int_equal(catalog_recency(shelf.catalog, pages), 4);
        shelf_close(&shelf);
    }
}

/* Many pages, in an order that no sort finds by accident. */
static void the_order_of_generations_stands_in(void **state)
{
    (void)state;
    enum { PAGES = 20000 };
    struct shelf shelf;
    shelf_open_pages(&shelf, PAGES);
    static struct slot shuffled[PAGES];
    for (uint32_t i = 0; i < PAGES; i++) {
        uint32_t page = i * 7919u % PAGES;
        struct key key = plain(i);
        struct slot *slot = &shelf.slots[page];
        memcpy(slot->digest, key.digest, sizeof(slot->digest));
        slot->generation = 5000 + (uint64_t)i * i * 3;
        slot_seal(slot, page, key.suffix, SLOT_COMMITTED, 0);
        shuffled[i] = *slot;
    }
    shelf.catalog = catalog_close(shelf.catalog);
    shelf.options.origin = CATALOG_KILLED;
    assert_int_equal(catalog_open(&shelf.options, shelf.now, &shelf.catalog, NULL), KVS_OK);
    static uint32_t pages[PAGES];
    assert_int_equal(catalog_recency(shelf.catalog, pages), PAGES);
    for (uint32_t i = 0; i < PAGES; i++)
        assert_memory_equal(&shelf.slots[pages[i]], &shuffled[i], sizeof(struct slot));
    shelf_close(&shelf);
}

/* ---- what may still be going on outside ----------------------------------------------------- */

/* Two pages COMMITTED, one FREE. When may FREE ones be handed out, and when by eviction? */
static void what_is_handed_out_after_a_start(void **state)
{
    (void)state;
    enum { NEVER_HELD = 0, SETTLED = SHELF_TTL + SHELF_QUARANTINE };
    static const struct {
        enum catalog_origin origin;
        bool foreign;
        uint64_t free_from, evict_from;
    } cases[] = {
        {CATALOG_CLEAN, false, 0, 0},
        {CATALOG_KILLED, false, 0, 0},
        {CATALOG_POWER_LOST, false, 0, 0},
        {CATALOG_CLEAN, true, 0, SHELF_LEASE},
        {CATALOG_KILLED, true, SETTLED, SHELF_LEASE},
        {CATALOG_POWER_LOST, true, SETTLED, SETTLED},
    };
    static const uint64_t times[] = {0,           SHELF_LEASE - 1, SHELF_LEASE,
                                     SETTLED - 1, SETTLED,         SETTLED + 1};
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (size_t j = 0; j < COUNT(times); j++) {
            struct catalog_options options = shelf_options(4);
            options.foreign_writers = cases[i].foreign;
            struct shelf shelf;
            shelf_open(&shelf, &options);
            for (unsigned k = 0; k < 3; k++)
                shelf_store(&shelf, plain(k));
            shelf_reopen(&shelf, cases[i].origin);
            shelf.now += times[j];
            bool free = times[j] >= cases[i].free_from, evict = times[j] >= cases[i].evict_from;
            struct key keys[] = {plain(10), plain(11), plain(12)};
            struct catalog_reserved r[3];
            shelf_reserve_all(&shelf, keys, 3, r);
            int expected = 0; /* one FREE; eviction until half of four are RESERVED */
            if (free)
                expected = evict ? 2 : 1;
            else if (evict)
                expected = 2;
            int got = 0;
            for (size_t k = 0; k < 3; k++)
                got += r[k].page >= 0;
            print_message("  origin %d, foreign %d, after %u ms: %d\n", cases[i].origin,
                          cases[i].foreign, (unsigned)times[j], got);
            assert_int_equal(got, expected);
            if (expected > 0) /* FREE before COMMITTED, where it may be */
                assert_int_equal(r[0].page == 3, free);
            shelf_close(&shelf);
        }
    }
}

/* A pair is evicted for a pair, and no other with it, while FREE pages are held back: a cache in
 * use would otherwise be empty before they are given out again. */
static void a_pair_is_evicted_for_a_pair_while_free_pages_are_held(void **state)
{
    (void)state;
    struct catalog_options options = shelf_options(8);
    options.foreign_writers = true;
    struct shelf shelf;
    shelf_open(&shelf, &options);
    for (unsigned i = 0; i < 3; i++) {
        shelf_store(&shelf, half_k(i));
        shelf_store(&shelf, half_v(i));
    }
    shelf_reopen(&shelf, CATALOG_KILLED);
    shelf.now += SHELF_LEASE;
    for (unsigned i = 10; i < 30; i++) {
        struct key keys[] = {half_k(i), half_v(i)};
        struct catalog_reserved r[2];
        shelf_reserve_all(&shelf, keys, 2, r);
        assert_true(r[0].page >= 0 && r[1].page >= 0);
        assert_counts(&shelf, 2, 2, 4, 0);
        assert_int_equal(shelf_confirm(&shelf, keys[0], r[0]), CATALOG_ACCEPTED);
        assert_int_equal(shelf_confirm(&shelf, keys[1], r[1]), CATALOG_ACCEPTED);
    }
    shelf_close(&shelf);
}

static void a_catalog_with_foreign_writers_is_not_quiet_after_a_start(void **state)
{
    (void)state;
    struct catalog_options options = shelf_options(4);
    options.foreign_writers = true;
    struct shelf shelf;
    shelf_open(&shelf, &options);
    assert_true(catalog_is_quiet(shelf.catalog, shelf.now));
    shelf_reopen(&shelf, CATALOG_KILLED);
    shelf.now += SHELF_TTL + SHELF_QUARANTINE - 1;
    assert_false(catalog_is_quiet(shelf.catalog, shelf.now));
    shelf.now += 1;
    assert_true(catalog_is_quiet(shelf.catalog, shelf.now));
    shelf_close(&shelf);
}

/* After a power cut a page's bytes may be missing although its slot is there: only a checksum can
 * tell. */
static void after_a_power_cut_only_checksums_are_believed(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 8);
    int64_t page = shelf_store(&shelf, plain(1));
    shelf_store_unverified(&shelf, plain(2));
    shelf_reopen(&shelf, CATALOG_POWER_LOST);
    assert_counts(&shelf, 6, 0, 1, 1);
    assert_int_equal(shelf_lease(&shelf, plain(1)), -1);
    assert_int_equal(shelf_lease(&shelf, plain(2)), -1);
    assert_int_equal(shelf_get(&shelf, plain(1)), page);
    assert_int_equal(shelf_get(&shelf, plain(2)), -1);

    /* That lasts over further starts; what is written now is not concerned. */
    int64_t fresh = shelf_store_unverified(&shelf, plain(3));
    shelf_reopen(&shelf, CATALOG_KILLED);
    assert_int_equal(shelf_lease(&shelf, plain(1)), -1);
    assert_int_equal(shelf_get(&shelf, plain(1)), page);
    assert_int_equal(shelf_lease(&shelf, plain(3)), fresh);

    /* A caller that does not verify cannot see it, so it may write it anew. */
    int64_t again = shelf_store_unverified(&shelf, plain(1));
    assert_true(again >= 0 && again != page);
    assert_int_equal(shelf_lease(&shelf, plain(1)), again);
    shelf_close(&shelf);
}

/* ---- damage --------------------------------------------------------------------------------- */

static void a_damaged_slot_costs_its_own_page_only(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 512; bit++) {
        if (bit / 8 >= offsetof(struct slot, unused) && bit / 8 < offsetof(struct slot, seal))
            continue; /* not under the CRC */
        struct shelf shelf;
        shelf_open_pages(&shelf, 4);
        for (unsigned i = 0; i < 3; i++)
            shelf_store(&shelf, plain(i));
        shelf.catalog = catalog_close(shelf.catalog);
        ((uint8_t *)&shelf.slots[1])[bit / 8] ^= (uint8_t)(1 << bit % 8);
        shelf.options.origin = CATALOG_KILLED;
        assert_int_equal(catalog_open(&shelf.options, shelf.now, &shelf.catalog, NULL), KVS_OK);
        assert_null(catalog_check(shelf.catalog));
        assert_counts(&shelf, 1, 0, 2, 1);
        assert_true(shelf.state.next_generation < 2000); /* what it says is not believed */
        assert_int_equal(shelf_get(&shelf, plain(0)), 0);
        assert_int_equal(shelf_get(&shelf, plain(1)), -1);
        assert_int_equal(shelf_get(&shelf, plain(2)), 2);
        shelf.now += SHELF_QUARANTINE;
        assert_counts(&shelf, 2, 0, 2, 0);
        shelf_close(&shelf);
    }
}

static void random_slots_never_break_a_catalog(void **state)
{
    (void)state;
    enum { PAGES = 32, ROUNDS = 2000 };
    uint64_t random = 88172645463325252u;
    print_message("  seed %llu\n", (unsigned long long)random);
    for (int round = 0; round < ROUNDS; round++) {
        struct shelf shelf;
        shelf_open_pages(&shelf, PAGES);
        shelf.catalog = catalog_close(shelf.catalog);
        for (uint32_t page = 0; page < PAGES; page++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            struct slot *slot = &shelf.slots[page];
            struct key key = plain((unsigned)(random % 8)); /* many claim one key */
            memcpy(slot->digest, key.digest, sizeof(slot->digest));
            slot->generation = random >> 8 & 15;
            slot->value = random >> 12;
            /* Any state and suffix, known or not, under a CRC that is right. */
            slot_seal(slot, page, (uint16_t)(random >> 20 & 7), (enum slot_state)(random >> 24 & 7),
                      (uint8_t)(random >> 28 & 3));
            if ((random >> 40 & 7) == 0)
                slot->digest[random >> 43 & 31] ^= 1;
        }
        shelf.state.floor = random >> 50 & 7;
        shelf.options.foreign_writers = round & 1;
        shelf.options.origin = origins[round % 3];
        assert_int_equal(catalog_open(&shelf.options, shelf.now, &shelf.catalog, NULL), KVS_OK);
        const char *wrong = catalog_check(shelf.catalog);
        if (wrong != NULL)
            fail_msg("round %d: %s", round, wrong);
        shelf.now += SHELF_TTL + SHELF_QUARANTINE;
        for (unsigned i = 0; i < PAGES; i++)
            shelf_store(&shelf, half_k(i));
        shelf_close(&shelf);
    }
}

static void of_two_slots_that_claim_a_key_the_newer_life_wins(void **state)
{
    (void)state;
    static const enum slot_state states[] = {SLOT_RESERVED, SLOT_COMMITTED};
    for (size_t a = 0; a < 2; a++) {
        for (size_t b = 0; b < 2; b++) {
            for (uint32_t newer = 0; newer < 2; newer++) {
                struct shelf shelf;
                struct catalog_options options = shelf_options(2);
                options.foreign_writers = true; /* so that reservations count */
                shelf_open(&shelf, &options);
                shelf.catalog = catalog_close(shelf.catalog);
                struct key key = plain(1);
                for (uint32_t page = 0; page < 2; page++) {
                    struct slot *slot = &shelf.slots[page];
                    memcpy(slot->digest, key.digest, sizeof(slot->digest));
                    slot->generation = page == newer ? 6 : 5;
                    slot_seal(slot, page, key.suffix, states[page == 0 ? a : b], SLOT_HAS_CHECKSUM);
                }
                shelf.options.origin = CATALOG_KILLED;
                assert_int_equal(catalog_open(&shelf.options, shelf.now, &shelf.catalog, NULL),
                                 KVS_OK);
                struct catalog_reserved r = shelf_reserve(&shelf, key);
                assert_true(r.present);
                assert_int_equal(r.page, newer);
                struct catalog_counts counts = shelf_counts(&shelf);
                assert_int_equal(counts.reserved + counts.committed, 1);
                assert_int_equal(counts.retired, 1);
                shelf_close(&shelf);
            }
        }
    }
}

/* ---- kills ---------------------------------------------------------------------------------- */

enum { KILL_PAGES = 4, WORDS = sizeof(struct slot) / 8, STATE_WORDS = 4 };

/* What is stored of a catalog, as words: the unit in which a kill can cut a change in two. */
struct memory {
    uint64_t slots[KILL_PAGES][WORDS];
    uint64_t state[STATE_WORDS];
};

static void read_memory(const struct shelf *shelf, struct memory *ret_memory)
{
    memcpy(ret_memory->slots, shelf->slots, sizeof(ret_memory->slots));
    memcpy(ret_memory->state, &shelf->state, sizeof(ret_memory->state));
}

/* The keys of the kill tests. */
static struct key kill_key(unsigned i)
{
    return i == 0 ? half_k(1) : i == 1 ? half_v(1) : plain(i);
}

enum { KILL_KEYS = 6 };

static void look_up(struct shelf *shelf, struct catalog_found ret_found[KILL_KEYS])
{
    for (unsigned i = 0; i < KILL_KEYS; i++) {
        struct key key = kill_key(i);
        catalog_get(shelf->catalog, shelf->now, &key, 1, true, &ret_found[i]);
    }
}

/* The same from the slots: a look-up would refresh, and the change must meet what was prepared. */
static void look_up_untouched(const struct shelf *shelf, struct catalog_found ret_found[KILL_KEYS])
{
    for (unsigned i = 0; i < KILL_KEYS; i++) {
        struct key key = kill_key(i);
        ret_found[i] = (struct catalog_found){.page = -1};
        for (uint32_t page = 0; page < KILL_PAGES; page++) {
            const struct slot *slot = &shelf->slots[page];
            if (catalog_holds_key(shelf->catalog, page) && slot_has_checksum(slot) &&
                slot_suffix(slot) == key.suffix &&
                memcmp(slot->digest, key.digest, sizeof(key.digest)) == 0)
                ret_found[i] = (struct catalog_found){.page = page,
                                                      .has_checksum = true,
                                                      .generation = slot->generation,
                                                      .checksum = slot->value};
        }
    }
}

static bool same_found(const struct catalog_found *a, const struct catalog_found *b)
{
    return a->page == b->page && a->generation == b->generation &&
           a->has_checksum == b->has_checksum && a->checksum == b->checksum;
}

/* Opens what a kill left. Keys that were there before and after the change must be there; any key
 * must be as it was before or as it was to be; and no page has two owners. */
static void judge_killed(const struct shelf *shelf, const struct memory *memory,
                         const struct catalog_found before[], const struct catalog_found after[])
{
    struct memory copy = *memory;
    struct catalog_options options = shelf->options;
    struct shelf killed = {.now = shelf->now, .slots = (struct slot *)copy.slots};
    memcpy(&killed.state, copy.state, sizeof(killed.state));
    options.slots = killed.slots;
    options.state = &killed.state;
    options.origin = CATALOG_KILLED;
    assert_int_equal(catalog_open(&options, killed.now, &killed.catalog, NULL), KVS_OK);
    const char *wrong = catalog_check(killed.catalog);
    if (wrong != NULL)
        fail_msg("after the kill: %s", wrong);

    struct catalog_found found[KILL_KEYS];
    look_up(&killed, found);
    bool owned[KILL_PAGES] = {false};
    for (unsigned i = 0; i < KILL_KEYS; i++) {
        bool as_before = same_found(&found[i], &before[i]);
        bool as_after = same_found(&found[i], &after[i]);
        assert_true(as_before || as_after || found[i].page == -1);
        if (same_found(&before[i], &after[i]))
            assert_true(as_before);
        if (found[i].page < 0)
            continue;
        assert_false(owned[found[i].page]);
        owned[found[i].page] = true;
    }
    struct catalog_counts counts = catalog_counts(killed.catalog, killed.now);
    assert_int_equal(counts.free + counts.reserved + counts.committed + counts.retired, KILL_PAGES);
    catalog_close(killed.catalog);
}

/* The stages of one slot's change: any of its words but the seal may have been stored, in whatever
 * order the compiler likes, before the seal is; then all are. Stage 0: none. Returns how many. */
static unsigned count_stages(const uint64_t before[WORDS], const uint64_t after[WORDS])
{
    unsigned changed = 0;
    for (unsigned w = 0; w < WORDS - 1; w++)
        changed += before[w] != after[w];
    bool whole = memcmp(before, after, sizeof(struct slot)) != 0;
    return (1u << changed) + whole;
}

static void make_stage(const uint64_t before[WORDS], const uint64_t after[WORDS], unsigned stage,
                       uint64_t ret_slot[WORDS])
{
    memcpy(ret_slot, before, sizeof(struct slot));
    if (stage + 1 == count_stages(before, after)) {
        memcpy(ret_slot, after, sizeof(struct slot));
        return;
    }
    for (unsigned w = 0; w < WORDS - 1; w++) {
        if (before[w] == after[w])
            continue;
        if (stage & 1)
            ret_slot[w] = after[w];
        stage >>= 1;
    }
}

/* Every combination of the stages of all slots and of the words of the state. */
static unsigned kill_everywhere(const struct shelf *shelf, const struct memory *before,
                                const struct memory *after,
                                const struct catalog_found found_before[],
                                const struct catalog_found found_after[])
{
    unsigned stages[KILL_PAGES], kills = 1;
    for (unsigned page = 0; page < KILL_PAGES; page++) {
        stages[page] = count_stages(before->slots[page], after->slots[page]);
        kills *= stages[page];
    }
    for (unsigned kill = 0; kill < kills << STATE_WORDS; kill++) {
        struct memory memory;
        unsigned rest = kill >> STATE_WORDS;
        for (unsigned w = 0; w < STATE_WORDS; w++)
            memory.state[w] = kill >> w & 1 ? after->state[w] : before->state[w];
        for (unsigned page = 0; page < KILL_PAGES; page++) {
            make_stage(before->slots[page], after->slots[page], rest % stages[page],
                       memory.slots[page]);
            rest /= stages[page];
        }
        judge_killed(shelf, &memory, found_before, found_after);
    }
    return kills << STATE_WORDS;
}

/* Each kind of change: what is there before, and the request that changes it. */
static void reserve_never_used(struct shelf *shelf)
{
    shelf_reserve(shelf, kill_key(2));
}
static void reserve_pair(struct shelf *shelf)
{
    struct key keys[] = {kill_key(0), kill_key(1)};
    struct catalog_reserved r[2];
    shelf_reserve_all(shelf, keys, 2, r);
}
static void fill(struct shelf *shelf)
{
    for (unsigned i = 2; i < 6; i++)
        shelf_store(shelf, kill_key(i));
}
static void fill_with_pair(struct shelf *shelf)
{
    for (unsigned i = 0; i < 4; i++)
        shelf_store(shelf, kill_key(i));
}
static void evict_one(struct shelf *shelf)
{
    shelf_reserve(shelf, plain(100));
}
static void evict_leased_half(struct shelf *shelf)
{
    shelf_lease(shelf, kill_key(1));
    shelf_reserve(shelf, plain(100));
}
static void hold_reserved(struct shelf *shelf)
{
    shelf_store(shelf, kill_key(3));
    shelf_reserve(shelf, kill_key(2));
}
static void confirm_checked(struct shelf *shelf)
{
    struct catalog_reserved r = {.page = 1, .generation = shelf->slots[1].generation};
    assert_int_equal(shelf_confirm(shelf, kill_key(2), r), CATALOG_ACCEPTED);
}
static void confirm_unchecked(struct shelf *shelf)
{
    struct catalog_confirm entry = {.key = kill_key(2), .page = 1};
    enum catalog_rejection reason;
    catalog_confirm(shelf->catalog, shelf->now, &entry, 1, &reason);
    assert_int_equal(reason, CATALOG_ACCEPTED);
}
static void hold_unverified(struct shelf *shelf)
{
    shelf_store(shelf, kill_key(3));
    shelf_store_unverified(shelf, kill_key(2));
}
static void replace_unverified(struct shelf *shelf)
{
    shelf_reserve(shelf, kill_key(2));
}
static void release_one(struct shelf *shelf)
{
    shelf_release(shelf,
                  (struct catalog_reserved){.page = 1, .generation = shelf->slots[1].generation});
}
static void let_expire(struct shelf *shelf)
{
    shelf->now += SHELF_TTL;
    shelf_counts(shelf);
}
static void let_rest(struct shelf *shelf)
{
    release_one(shelf);
    shelf->now += SHELF_QUARANTINE;
    shelf_counts(shelf);
}
static void delete_one(struct shelf *shelf)
{
    shelf_delete(shelf, kill_key(2));
}
static void delete_leased(struct shelf *shelf)
{
    shelf_lease(shelf, kill_key(2));
    shelf_delete(shelf, kill_key(2));
}
static void report_one(struct shelf *shelf)
{
    struct key key = kill_key(2);
    assert_true(
        catalog_report_mismatch(shelf->catalog, shelf->now, &key, 0, shelf->slots[0].generation));
}
static void clear_all(struct shelf *shelf)
{
    catalog_clear(shelf->catalog, shelf->now);
}
static void clear_filled(struct shelf *shelf)
{
    fill(shelf);
    catalog_clear(shelf->catalog, shelf->now);
}
static void hold_nothing(struct shelf *shelf)
{
    (void)shelf;
}

static void a_kill_between_any_two_stores_loses_nothing_that_was_said(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        void (*prepare)(struct shelf *);
        void (*change)(struct shelf *);
    } cases[] = {
        {"reserve a page never used", hold_nothing, reserve_never_used},
        {"reserve a pair", hold_nothing, reserve_pair},
        {"reserve by evicting", fill, evict_one},
        {"reserve by evicting half a pair", fill_with_pair, evict_one},
        {"reserve by evicting half a pair, the other leased", fill_with_pair, evict_leased_half},
        {"reserve a cleared page", clear_filled, reserve_never_used},
        {"confirm with a checksum", hold_reserved, confirm_checked},
        {"confirm without a checksum", hold_reserved, confirm_unchecked},
        {"add a first checksum", hold_unverified, confirm_checked},
        {"replace an unverified page", hold_unverified, replace_unverified},
        {"release", hold_reserved, release_one},
        {"expire", hold_reserved, let_expire},
        {"rest to the end", hold_reserved, let_rest},
        {"delete a COMMITTED page", fill, delete_one},
        {"delete a leased page", fill, delete_leased},
        {"delete a RESERVED page", hold_reserved, delete_one},
        {"report a mismatch", fill, report_one},
        {"clear", fill, clear_all},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct shelf shelf;
        struct memory before, after;
        struct catalog_found found_before[KILL_KEYS], found_after[KILL_KEYS];
        shelf_open_pages(&shelf, KILL_PAGES);
        cases[i].prepare(&shelf);
        read_memory(&shelf, &before);
        look_up_untouched(&shelf, found_before);
        cases[i].change(&shelf);
        read_memory(&shelf, &after);
        look_up(&shelf, found_after);
        unsigned kills = kill_everywhere(&shelf, &before, &after, found_before, found_after);
        print_message("  %s: %u kills\n", cases[i].what, kills);
        assert_true(memcmp(&before, &after, sizeof(before)) != 0);
        shelf_close(&shelf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_of_pages_is_limited),
        cmocka_unit_test(generations_start_at_the_wall_clock_and_never_fall_back),
        cmocka_unit_test(generations_are_above_those_of_every_slot),
        cmocka_unit_test(confirmed_keys_are_there_after_every_kind_of_start),
        cmocka_unit_test(reservations_get_a_full_ttl_and_keep_their_owner),
        cmocka_unit_test(reservations_without_foreign_writers_rest),
        cmocka_unit_test(resting_pages_start_their_rest_again),
        cmocka_unit_test(cleared_keys_stay_away_after_every_kind_of_start),
        cmocka_unit_test(a_clean_stop_keeps_the_recency_order),
        cmocka_unit_test(a_nonsensical_recency_order_does_no_harm),
        cmocka_unit_test(the_order_of_generations_stands_in),
        cmocka_unit_test(what_is_handed_out_after_a_start),
        cmocka_unit_test(a_pair_is_evicted_for_a_pair_while_free_pages_are_held),
        cmocka_unit_test(a_catalog_with_foreign_writers_is_not_quiet_after_a_start),
        cmocka_unit_test(after_a_power_cut_only_checksums_are_believed),
        cmocka_unit_test(a_damaged_slot_costs_its_own_page_only),
        cmocka_unit_test(random_slots_never_break_a_catalog),
        cmocka_unit_test(of_two_slots_that_claim_a_key_the_newer_life_wins),
        cmocka_unit_test(a_kill_between_any_two_stores_loses_nothing_that_was_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
