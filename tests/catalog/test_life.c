/* The life of a page: when it becomes FREE, how long it rests, and which page is given away next.
 */
#include "catalog/life.h"
#include "support/shelf.h"
#include "support/unit.h"

#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- FREE ----------------------------------------------------------------------------------- */

static void pages_never_used_come_first_in_ascending_order(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 4);
    assert_int_equal(shelf_store(&shelf, plain(1)), 0);
    assert_int_equal(shelf_store(&shelf, plain(2)), 1);
    shelf_delete(&shelf, plain(1));
    assert_int_equal(shelf_store(&shelf, plain(3)), 2);
    assert_int_equal(shelf_store(&shelf, plain(4)), 3);
    assert_int_equal(shelf_store(&shelf, plain(5)), 0);
    shelf_close(&shelf);
}

static void pages_given_back_first_are_given_away_first(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 3);
    for (unsigned i = 0; i < 3; i++)
        shelf_store(&shelf, plain(i));
    shelf_delete(&shelf, plain(2));
    shelf_delete(&shelf, plain(0));
    shelf_delete(&shelf, plain(1));
    assert_int_equal(shelf_store(&shelf, plain(3)), 2);
    assert_int_equal(shelf_store(&shelf, plain(4)), 0);
    assert_int_equal(shelf_store(&shelf, plain(5)), 1);
    shelf_close(&shelf);
}

/* ---- time ----------------------------------------------------------------------------------- */

/* Reserved at t, never confirmed: RESERVED until t + ttl, resting until t + ttl + quarantine,
 * however late the passing of either is noticed. */
static void a_reservation_expires_and_then_rests_from_its_deadline(void **state)
{
    (void)state;
    static const struct {
        uint64_t after;
        uint64_t free, reserved, retired;
    } looks[] = {
        {0, 0, 1, 0},
        {SHELF_TTL - 1, 0, 1, 0},
        {SHELF_TTL, 0, 0, 1},
        {SHELF_TTL + SHELF_QUARANTINE - 1, 0, 0, 1},
        {SHELF_TTL + SHELF_QUARANTINE, 1, 0, 0},
        {UINT32_MAX, 1, 0, 0},
    };
    for (size_t first = 0; first < COUNT(looks); first++) { /* the first time anybody looks */
        struct shelf shelf;
        shelf_open_pages(&shelf, 1);
        uint64_t start = shelf.now;
        shelf_reserve(&shelf, plain(1));
        for (size_t i = first; i < COUNT(looks); i++) {
            shelf.now = start + looks[i].after;
            assert_counts(&shelf, looks[i].free, looks[i].reserved, 0, looks[i].retired);
        }
        assert_int_equal(catalog_totals(shelf.catalog)->expired, 1);
        shelf_close(&shelf);
    }
}

/* A writer that releases has given up. One whose key is deleted does not know of it, and has all
 * the time that it was promised. */
static void a_reservation_that_ends_early_rests_for_its_writer(void **state)
{
    (void)state;
    for (int release = 0; release < 2; release++) {
        struct shelf shelf;
        shelf_open_pages(&shelf, 1);
        struct catalog_reserved r = shelf_reserve(&shelf, plain(1));
        if (release)
            assert_int_equal(shelf_release(&shelf, r), CATALOG_ACCEPTED);
        else
            shelf_delete(&shelf, plain(1));
        shelf.now += (release ? 0u : SHELF_TTL) + SHELF_QUARANTINE - 1u;
        assert_counts(&shelf, 0, 0, 0, 1);
        assert_int_equal(shelf_reserve(&shelf, plain(2)).page, -1);
        shelf.now += 1;
        assert_counts(&shelf, 1, 0, 0, 0);
        shelf_close(&shelf);
    }
}

static void durations_of_zero_work(void **state)
{
    (void)state;
    struct catalog_options options = shelf_options(1);
    options.reserve_ttl_ms = options.quarantine_ms = options.lease_ms = 0;
    struct shelf shelf;
    shelf_open(&shelf, &options);
    struct catalog_reserved r = shelf_reserve(&shelf, plain(1));
    assert_int_equal(r.page, 0);
    assert_counts(&shelf, 1, 0, 0, 0); /* expired and rested by the next call */
    assert_int_equal(shelf_confirm(&shelf, plain(1), r), CATALOG_NOT_RESERVED);
    assert_int_equal(shelf_reserve(&shelf, plain(1)).page, 0);
    shelf_close(&shelf);
}

static void durations_without_end_do_not_wrap(void **state)
{
    (void)state;
    struct catalog_options options = shelf_options(2);
    options.reserve_ttl_ms = options.quarantine_ms = options.lease_ms = UINT64_MAX;
    struct shelf shelf;
    shelf_open(&shelf, &options);
    shelf_reserve(&shelf, plain(1));
    shelf_store(&shelf, plain(2));
    assert_int_equal(shelf_lease(&shelf, plain(2)), 1);
    shelf_delete(&shelf, plain(2));
    shelf.now += 1000ull * 365 * 86400 * 1000; /* 1000 years */
    assert_counts(&shelf, 0, 1, 0, 1);
    shelf_delete(&shelf, plain(1));
    assert_counts(&shelf, 0, 0, 0, 2);
    shelf_reopen(&shelf, CATALOG_KILLED);
    assert_counts(&shelf, 0, 0, 0, 2);
    shelf_close(&shelf);
}

static void a_clock_that_goes_back_stands_still(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 1);
    struct catalog_reserved r = shelf_reserve(&shelf, plain(1));
    uint64_t start = shelf.now;
    shelf.now = 0;
    assert_counts(&shelf, 0, 1, 0, 0);
    shelf_release(&shelf, r); /* at `start`: not at 0 */
    shelf.now = SHELF_QUARANTINE;
    assert_counts(&shelf, 0, 0, 0, 1);
    shelf.now = start + SHELF_QUARANTINE;
    assert_counts(&shelf, 1, 0, 0, 0);
    shelf_close(&shelf);
}

/* ---- leases --------------------------------------------------------------------------------- */

/* A reader of the original protocol holds a page number until its lease ends: no way that a page
 * can go gives it to a writer before. */
static void a_leased_page_is_not_given_to_a_writer(void **state)
{
    (void)state;
    enum { EVICT, DELETE, CLEAR, REPLACE, MISMATCH, WAYS };
    static const char *const names[WAYS] = {"evicted", "deleted", "cleared", "replaced",
                                            "reported"};
    for (int way = 0; way < WAYS; way++) {
        for (int leased = 0; leased < 2; leased++) {
            struct shelf shelf;
            shelf_open_pages(&shelf, way == REPLACE ? 2 : 1);
            struct key key = plain(1);
            int64_t page =
                way == REPLACE ? shelf_store_unverified(&shelf, key) : shelf_store(&shelf, key);
            if (leased)
                assert_int_equal(shelf_lease(&shelf, key), page);
            else
                shelf_get(&shelf, key); /* a verifying reader takes no lease */
            if (way == DELETE)
                shelf_delete(&shelf, key);
            else if (way == CLEAR)
                catalog_clear(shelf.catalog, shelf.now);
            else if (way == MISMATCH)
                assert_true(catalog_report_mismatch(shelf.catalog, shelf.now, &key, page, 1000));
            else if (way == REPLACE)
                assert_int_not_equal(shelf_reserve(&shelf, key).page, page);
            print_message("  %s, %s\n", names[way], leased ? "leased" : "not leased");
            shelf.now += SHELF_LEASE - 1;
            assert_int_equal(shelf_reserve(&shelf, plain(2)).page, leased ? -1 : page);
            shelf.now += 1;
            assert_int_equal(shelf_reserve(&shelf, plain(2)).page, page);
            shelf_close(&shelf);
        }
    }
}

static void each_look_renews_the_lease(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 1);
    shelf_store(&shelf, plain(1));
    for (int i = 0; i < 5; i++) {
        shelf_lease(&shelf, plain(1));
        shelf.now += SHELF_LEASE - 1;
        assert_int_equal(shelf_reserve(&shelf, plain(2)).page, -1);
    }
    shelf.now += 1;
    assert_int_equal(shelf_reserve(&shelf, plain(2)).page, 0);
    shelf_close(&shelf);
}

static void a_new_life_has_no_lease_of_the_old_one(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 1);
    shelf_store(&shelf, plain(1));
    shelf_lease(&shelf, plain(1));
    shelf.now += SHELF_LEASE;
    assert_int_equal(shelf_store(&shelf, plain(2)), 0);
    assert_int_equal(shelf_store(&shelf, plain(3)), 0);
    shelf_close(&shelf);
}

/* Pages leave a queue in the order in which they came in. */
static void a_page_rests_at_least_as_long_as_those_before_it(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 2);
    shelf_store(&shelf, plain(1));
    shelf_store(&shelf, plain(2));
    shelf_lease(&shelf, plain(2));
    uint64_t second = shelf.now + SHELF_LEASE;
    shelf.now += 5;
    shelf_lease(&shelf, plain(1));
    uint64_t first = shelf.now + SHELF_LEASE;
    shelf_delete(&shelf, plain(1));
    shelf_delete(&shelf, plain(2));
    shelf.now = second;
    assert_counts(&shelf, 0, 0, 0, 2);
    shelf.now = first;
    assert_counts(&shelf, 2, 0, 0, 0);
    assert_int_equal(shelf_store(&shelf, plain(3)), 0);
    shelf_close(&shelf);
}

/* ---- eviction ------------------------------------------------------------------------------- */

/* Within a batch the head of a prefix is the youngest in prefix mode, so that its tail goes first;
 * in lru mode the order is the original's. Each kind of request refreshes so. */
static void eviction_takes_the_tail_of_a_prefix_first(void **state)
{
    (void)state;
    enum { CONFIRM, GET, RESERVE, WAYS };
    for (int way = 0; way < WAYS; way++) {
        for (int lru = 0; lru < 2; lru++) {
            struct catalog_options options = shelf_options(4);
            options.eviction = lru ? KVS_EVICTION_LRU : KVS_EVICTION_PREFIX;
            struct shelf shelf;
            shelf_open(&shelf, &options);
            struct key keys[] = {plain(0), plain(1), plain(2), plain(3)};
            struct catalog_reserved r[4];
            struct catalog_confirm entries[4];
            enum catalog_rejection reasons[4];
            struct catalog_found found[4];
            shelf_reserve_all(&shelf, keys, 4, r);
            for (size_t i = 0; i < 4; i++)
                entries[i] = (struct catalog_confirm){
                    .key = keys[i], .page = r[i].page, .has_checksum = true};
            if (way == CONFIRM) {
                catalog_confirm(shelf.catalog, shelf.now, entries, 4, reasons);
            } else {
                for (size_t i = 0; i < 4; i++) /* an order of its own */
                    catalog_confirm(shelf.catalog, shelf.now, &entries[i ^ 1], 1, reasons);
                if (way == GET)
                    catalog_get(shelf.catalog, shelf.now, keys, 4, true, found);
                else
                    shelf_reserve_all(&shelf, keys, 4, r);
            }
            uint32_t pages[4];
            assert_int_equal(catalog_recency(shelf.catalog, pages), 4);
            for (uint32_t i = 0; i < 4; i++)
                assert_int_equal(pages[i], lru ? i : 3 - i);
            shelf_store(&shelf, plain(9));
            assert_false(shelf_exists(&shelf, keys[lru ? 0 : 3]));
            assert_true(shelf_exists(&shelf, keys[lru ? 3 : 0]));
            shelf_close(&shelf);
        }
    }
}

/* Batches are looked up block by block: the order holds across them. */
static void the_order_holds_for_a_long_batch(void **state)
{
    (void)state;
    enum { N = 1000 };
    for (int lru = 0; lru < 2; lru++) {
        struct catalog_options options = shelf_options(N);
        options.eviction = lru ? KVS_EVICTION_LRU : KVS_EVICTION_PREFIX;
        struct shelf shelf;
        shelf_open(&shelf, &options);
        static struct key keys[N];
        static struct catalog_found found[N];
        static struct catalog_reserved r[N];
        static uint32_t pages[N];
        for (unsigned i = 0; i < N; i++)
            keys[i] = plain(i);
        for (unsigned i = 0; i < N; i++) /* key i at page i, confirmed in an order of its own */
            shelf_reserve_all(&shelf, &keys[i], 1, &r[i]);
        for (unsigned i = 0; i < N; i++)
            shelf_confirm(&shelf, keys[i * 7 % N], r[i * 7 % N]);
        for (int reserve = 0; reserve < 2; reserve++) {
            if (reserve)
                shelf_reserve_all(&shelf, keys, N, r);
            else
                catalog_get(shelf.catalog, shelf.now, keys, N, true, found);
            assert_int_equal(catalog_recency(shelf.catalog, pages), N);
            for (uint32_t i = 0; i < N; i++)
                assert_int_equal(pages[i], lru ? i : N - 1 - i);
            for (unsigned i = 0; i < N; i++)
                shelf_get(&shelf, keys[i * 7 % N]);
        }
        shelf_close(&shelf);
    }
}

static void reserved_pages_are_never_evicted(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 3);
    struct catalog_reserved r = shelf_reserve(&shelf, plain(1)); /* the oldest */
    shelf_reserve(&shelf, plain(2));
    shelf_store(&shelf, plain(3));
    assert_int_equal(shelf_reserve(&shelf, plain(4)).page, -1);
    assert_int_equal(shelf_confirm(&shelf, plain(1), r), CATALOG_ACCEPTED);
    shelf_close(&shelf);
}

/* A client that reserves and never confirms takes at most half of a cache, or two pages. */
static void eviction_stops_while_half_of_the_pages_are_reserved(void **state)
{
    (void)state;
    static const struct {
        uint32_t num_pages, evicted;
    } cases[] = {{1, 1}, {2, 2}, {3, 2}, {4, 2}, {5, 2}, {64, 32}, {101, 50}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
            struct shelf shelf;
            shelf_open_pages(&shelf, cases[i].num_pages);
            struct key keys[128];
            struct catalog_reserved r[128];
            for (unsigned j = 0; j < cases[i].num_pages; j++) {
                shelf_store(&shelf, plain(j));
                keys[j] = plain(1000 + j);
            }
            if (one_by_one)
                for (unsigned j = 0; j < cases[i].num_pages; j++)
                    shelf_reserve(&shelf, keys[j]);
            else
                shelf_reserve_all(&shelf, keys, cases[i].num_pages, r);
            assert_counts(&shelf, 0, cases[i].evicted, cases[i].num_pages - cases[i].evicted, 0);
            shelf_close(&shelf);
        }
    }
}

static void free_pages_are_given_away_whatever_is_reserved(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 8);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(shelf_reserve(&shelf, plain(i)).page, i);
    assert_counts(&shelf, 0, 8, 0, 0);
    shelf_close(&shelf);
}

static void the_other_half_of_a_victim_goes_with_it(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        bool committed, leased;
        uint64_t free, reserved, retired;
    } cases[] = {
        {"COMMITTED: its page is FREE", true, false, 1, 1, 0},
        {"leased: its page rests first", true, true, 0, 1, 1},
        {"RESERVED: left alone", false, false, 0, 2, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct shelf shelf;
        shelf_open_pages(&shelf, 4);
        shelf_store(&shelf, half_k(1));
        struct catalog_reserved v = shelf_reserve(&shelf, half_v(1));
        if (cases[i].committed)
            shelf_confirm(&shelf, half_v(1), v);
        shelf_store(&shelf, plain(2));
        shelf_store(&shelf, plain(3));
        if (cases[i].leased)
            shelf_lease(&shelf, half_v(1));
        print_message("  %s\n", cases[i].what);
        assert_int_equal(shelf_reserve(&shelf, plain(4)).page, 0); /* K's, the oldest */
        assert_counts(&shelf, cases[i].free, cases[i].reserved, 2, cases[i].retired);
        assert_false(shelf_exists(&shelf, half_v(1)));
        assert_int_equal(shelf_confirm(&shelf, half_v(1), v),
                         cases[i].committed ? CATALOG_NOT_RESERVED : CATALOG_ACCEPTED);
        shelf_close(&shelf);
    }
}

/* At most so many leased pages are passed over by one call. */
static void a_request_passes_over_a_bounded_number_of_leased_pages(void **state)
{
    (void)state;
    for (unsigned leased = CATALOG_LEASED_SCAN_MAX; leased <= CATALOG_LEASED_SCAN_MAX + 1;
         leased++) {
        struct shelf shelf;
        shelf_open_pages(&shelf, leased + 1);
        struct key *keys = calloc(leased + 1, sizeof(*keys));
        struct catalog_reserved *r = calloc(leased + 1, sizeof(*r));
        struct catalog_confirm *entries = calloc(leased + 1, sizeof(*entries));
        enum catalog_rejection *reasons = calloc(leased + 1, sizeof(*reasons));
        struct catalog_found *found = calloc(leased + 1, sizeof(*found));
        assert_true(keys && r && entries && reasons && found);
        for (unsigned i = 0; i <= leased; i++)
            keys[i] = plain(i);
        shelf_reserve_all(&shelf, keys, leased + 1, r);
        for (unsigned i = 0; i <= leased; i++)
            entries[i] =
                (struct catalog_confirm){.key = keys[i], .page = r[i].page, .has_checksum = true};
        catalog_confirm(shelf.catalog, shelf.now, entries, leased + 1, reasons);
        catalog_get(shelf.catalog, shelf.now, keys, leased, false, found);
        shelf_get(&shelf, plain(leased)); /* the youngest is the only one without a lease */
        struct catalog_reserved reserved = shelf_reserve(&shelf, plain(99999));
        assert_int_equal(reserved.page, leased == CATALOG_LEASED_SCAN_MAX ? (int64_t)leased : -1);
        free(keys);
        free(r);
        free(entries);
        free(reasons);
        free(found);
        shelf_close(&shelf);
    }
}

/* Writes that fail again and again: what they cost is what they reserved. */
static void a_released_batch_costs_no_more_than_itself(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 16);
    for (unsigned i = 0; i < 16; i++)
        shelf_store(&shelf, plain(i));
    struct key keys[4];
    struct catalog_reserved r[4];
    for (unsigned i = 0; i < 4; i++)
        keys[i] = plain(100 + i);
    shelf_reserve_all(&shelf, keys, 4, r);
    for (size_t i = 0; i < 4; i++)
        shelf_release(&shelf, r[i]);
    assert_counts(&shelf, 0, 0, 12, 4);
    assert_int_equal(catalog_totals(shelf.catalog)->evicted, 4);
    shelf_close(&shelf);
}

/* ---- clear ---------------------------------------------------------------------------------- */

static void cleared_pages_are_given_away_before_anything_is_evicted(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 8);
    for (unsigned i = 0; i < 8; i++)
        shelf_store(&shelf, plain(i));
    catalog_clear(shelf.catalog, shelf.now);
    bool used[8] = {false};
    for (unsigned i = 0; i < 8; i++) {
        int64_t page = shelf_store(&shelf, plain(i));
        assert_true(page >= 0 && !used[page]);
        used[page] = true;
    }
    assert_counts(&shelf, 0, 0, 8, 0);
    assert_int_equal(catalog_totals(shelf.catalog)->evicted, 0);
    shelf_close(&shelf);
}

/* Dead RESERVED pages rest from the end of their reservations, not from when they are swept. */
static void a_page_that_was_being_written_at_a_clear_rests_for_its_writer(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 2);
    shelf_reserve(&shelf, plain(1));
    shelf_reserve(&shelf, plain(2));
    catalog_clear(shelf.catalog, shelf.now);
    shelf.now += SHELF_TTL + SHELF_QUARANTINE - 1;
    assert_int_equal(shelf_reserve(&shelf, plain(3)).page, -1);
    shelf.now += 1;
    assert_true(shelf_reserve(&shelf, plain(3)).page >= 0);
    assert_true(shelf_reserve(&shelf, plain(4)).page >= 0);
    shelf_close(&shelf);
}

static void a_second_clear_does_not_lengthen_the_rest_of_the_first(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 1);
    shelf_reserve(&shelf, plain(1));
    catalog_clear(shelf.catalog, shelf.now);
    shelf.now += SHELF_TTL + SHELF_QUARANTINE - 1;
    catalog_clear(shelf.catalog, shelf.now);
    shelf.now += 1;
    assert_true(shelf_reserve(&shelf, plain(2)).page >= 0);
    shelf_close(&shelf);
}

/* ---- quiet ---------------------------------------------------------------------------------- */

static void a_catalog_is_quiet_when_nobody_can_be_at_work(void **state)
{
    (void)state;
    enum { NOTHING, RESERVED, RELEASED, COMMITTED, LEASED, LEASED_DELETED, CLEARED, KINDS };
    static const struct {
        const char *what;
        uint64_t quiet_after;
    } cases[KINDS] = {
        [NOTHING] = {"nothing happened", 0},
        [RESERVED] = {"a reservation", SHELF_TTL + SHELF_QUARANTINE},
        [RELEASED] = {"a released page", SHELF_QUARANTINE},
        [COMMITTED] = {"a confirmed key", 0},
        [LEASED] = {"a lease", SHELF_LEASE},
        [LEASED_DELETED] = {"a deleted page under a lease", SHELF_LEASE},
        [CLEARED] = {"a reservation, cleared", SHELF_TTL + SHELF_QUARANTINE},
    };
    for (int i = 0; i < KINDS; i++) {
        struct shelf shelf;
        shelf_open_pages(&shelf, 2);
        struct catalog_reserved r = {.page = -1};
        if (i == RESERVED || i == RELEASED || i == CLEARED)
            r = shelf_reserve(&shelf, plain(1));
        if (i == RELEASED)
            shelf_release(&shelf, r);
        if (i == CLEARED)
            catalog_clear(shelf.catalog, shelf.now);
        if (i == COMMITTED || i == LEASED || i == LEASED_DELETED)
            shelf_store(&shelf, plain(1));
        if (i == LEASED || i == LEASED_DELETED)
            shelf_lease(&shelf, plain(1));
        if (i == LEASED_DELETED)
            shelf_delete(&shelf, plain(1));
        print_message("  %s\n", cases[i].what);
        if (cases[i].quiet_after > 0) {
            assert_false(catalog_is_quiet(shelf.catalog, shelf.now));
            shelf.now += cases[i].quiet_after - 1;
            assert_false(catalog_is_quiet(shelf.catalog, shelf.now));
            shelf.now += 1;
        }
        assert_true(catalog_is_quiet(shelf.catalog, shelf.now));
        shelf_close(&shelf);
    }
}

/* Pages that clear() has killed stay RETIRED until there is need of them. Were they all in the
 * index, a few keys that are stored and cleared again and again would make a lookup walk through
 * it. */
static void a_key_cleared_again_and_again_does_not_fill_the_index(void **state)
{
    (void)state;
    enum { CLEARS = 100 };
    struct shelf shelf;
    shelf_open_pages(&shelf, 2 * CLEARS);
    for (unsigned i = 0; i < CLEARS; i++) {
        shelf_store(&shelf, plain(1));
        shelf_reserve(&shelf, plain(2));
        catalog_clear(shelf.catalog, shelf.now);
    }
    const struct index *index = &shelf.catalog->index;
    size_t entries = 0;
    for (uint64_t group = 0; group < index->group_count; group++)
        for (unsigned i = 0; i < INDEX_GROUP_ENTRIES; i++)
            entries += index->groups[group].tags[i] != 0;
    assert_int_equal(entries, 2);
    assert_counts(&shelf, 0, 0, 0, 2 * CLEARS);
    shelf_reopen(&shelf, CATALOG_KILLED);
    for (unsigned i = 0; i < CLEARS; i++)
        assert_true(shelf_store(&shelf, plain(1 + i)) >= 0);
    shelf_close(&shelf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_never_used_come_first_in_ascending_order),
        cmocka_unit_test(pages_given_back_first_are_given_away_first),
        cmocka_unit_test(a_reservation_expires_and_then_rests_from_its_deadline),
        cmocka_unit_test(a_reservation_that_ends_early_rests_for_its_writer),
        cmocka_unit_test(durations_of_zero_work),
        cmocka_unit_test(durations_without_end_do_not_wrap),
        cmocka_unit_test(a_clock_that_goes_back_stands_still),
        cmocka_unit_test(a_leased_page_is_not_given_to_a_writer),
        cmocka_unit_test(each_look_renews_the_lease),
        cmocka_unit_test(a_new_life_has_no_lease_of_the_old_one),
        cmocka_unit_test(a_page_rests_at_least_as_long_as_those_before_it),
        cmocka_unit_test(eviction_takes_the_tail_of_a_prefix_first),
        cmocka_unit_test(the_order_holds_for_a_long_batch),
        cmocka_unit_test(reserved_pages_are_never_evicted),
        cmocka_unit_test(eviction_stops_while_half_of_the_pages_are_reserved),
        cmocka_unit_test(free_pages_are_given_away_whatever_is_reserved),
        cmocka_unit_test(the_other_half_of_a_victim_goes_with_it),
        cmocka_unit_test(a_request_passes_over_a_bounded_number_of_leased_pages),
        cmocka_unit_test(a_released_batch_costs_no_more_than_itself),
        cmocka_unit_test(cleared_pages_are_given_away_before_anything_is_evicted),
        cmocka_unit_test(a_page_that_was_being_written_at_a_clear_rests_for_its_writer),
        cmocka_unit_test(a_second_clear_does_not_lengthen_the_rest_of_the_first),
        cmocka_unit_test(a_catalog_is_quiet_when_nobody_can_be_at_work),
        cmocka_unit_test(a_key_cleared_again_and_again_does_not_fill_the_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
