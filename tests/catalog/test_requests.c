/* Requests: what reserve, confirm, release, get, exists, delete, clear and report_mismatch answer,
 * one rule a test. Where pages come from and go to is test_life.c. */
#include "support/shelf.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- reserve -------------------------------------------------------------------------------- */

static void a_new_key_gets_a_page_to_write(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 4);
    struct catalog_reserved reserved = shelf_reserve(&shelf, plain(1));
    assert_false(reserved.present);
    assert_int_equal(reserved.page, 0);
    assert_int_equal(reserved.generation, 1000);
    assert_int_equal(shelf_get(&shelf, plain(1)), -1);
    assert_false(shelf_exists(&shelf, plain(1)));
    assert_counts(&shelf, 3, 1, 0, 0);
    shelf_close(&shelf);
}

static void a_committed_key_needs_no_page(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 4);
    int64_t page = shelf_store(&shelf, plain(1));
    struct catalog_reserved reserved = shelf_reserve(&shelf, plain(1));
    assert_true(reserved.present);
    assert_int_equal(reserved.page, page);
    assert_int_equal(reserved.generation, 1000);
    assert_counts(&shelf, 3, 0, 1, 0);
    shelf_close(&shelf);
}

/* Two writers of one key: one writes, the other is told that the bytes are on their way. No page is
 * orphaned by a second confirm. */
static void a_second_writer_of_a_key_gets_no_second_page(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 4);
    struct catalog_reserved first = shelf_reserve(&shelf, plain(1));
    struct catalog_reserved second = shelf_reserve(&shelf, plain(1));
    assert_true(second.present);
    assert_int_equal(second.page, first.page);
    assert_int_equal(second.generation, first.generation);
    assert_int_equal(shelf_confirm(&shelf, plain(1), first), CATALOG_ACCEPTED);
    assert_int_equal(shelf_confirm(&shelf, plain(1), second), CATALOG_ACCEPTED);
    assert_counts(&shelf, 3, 0, 1, 0);
    shelf_close(&shelf);
}

/* A caller whose answer was lost asks again and loses no page; nor does it win time. */
static void the_same_owner_gets_its_page_again(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 4);
    struct key keys[] = {plain(1), plain(2), plain(1)};
    struct catalog_reserved first[3], again[3], other[3], nobody[3];
    catalog_reserve(shelf.catalog, shelf.now, keys, 3, true, 77, first);
    assert_true(!first[0].present && !first[1].present && first[2].present);
    shelf.now += SHELF_TTL - 1;
    catalog_reserve(shelf.catalog, shelf.now, keys, 3, true, 77, again);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(again[i].present, first[i].present);
        assert_int_equal(again[i].page, first[i].page);
        assert_int_equal(again[i].generation, first[i].generation);
    }
    catalog_reserve(shelf.catalog, shelf.now, keys, 3, true, 78, other);
    catalog_reserve(shelf.catalog, shelf.now, keys, 3, true, 0, nobody);
    for (size_t i = 0; i < 3; i++)
        assert_true(other[i].present && nobody[i].present);
    shelf.now += 1; /* the deadline is the first call's */
    assert_counts(&shelf, 2, 0, 0, 2);
    shelf_close(&shelf);
}

static void a_key_twice_in_a_batch_has_one_page(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 2);
    struct key keys[] = {plain(1), plain(1), plain(2), plain(3), plain(3), plain(1)};
    struct catalog_reserved r[COUNT(keys)];
    shelf_reserve_all(&shelf, keys, COUNT(keys), r);
    assert_true(!r[0].present && r[0].page == 0);
    assert_true(r[1].present && r[1].page == 0 && r[1].generation == r[0].generation);
    assert_true(!r[2].present && r[2].page == 1);
    assert_true(!r[3].present && r[3].page == -1 && r[3].generation == 0);
    assert_true(!r[4].present && r[4].page == -1);
    assert_true(r[5].present && r[5].page == 0);
    assert_counts(&shelf, 0, 2, 0, 0);
    shelf_close(&shelf);
}

/* More keys than pages: an answer for each, no page lost, and a repeated call changes nothing. */
static void a_batch_larger_than_the_catalog_is_answered_key_by_key(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 10);
    for (unsigned i = 0; i < 10; i++)
        shelf_store(&shelf, plain(1000 + i));
    struct key keys[300];
    static struct catalog_reserved r[COUNT(keys)];
    for (unsigned i = 0; i < COUNT(keys); i++)
        keys[i] = plain(i);
    for (int call = 0; call < 3; call++) {
        catalog_reserve(shelf.catalog, shelf.now, keys, COUNT(keys), true, 5, r);
        for (unsigned i = 0; i < COUNT(keys); i++) {
            assert_false(r[i].present);
            assert_int_equal(r[i].page >= 0, i < 5);
        }
        assert_counts(&shelf, 0, 5, 5, 0);
    }
    shelf_close(&shelf);
}

static void the_head_of_a_batch_is_served_first_and_is_the_newest(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 3);
    struct key keys[] = {plain(1), plain(2), plain(3), plain(4), plain(5)};
    struct catalog_reserved r[COUNT(keys)];
    shelf_reserve_all(&shelf, keys, COUNT(keys), r);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(r[i].page, i);
    assert_true(r[0].generation > r[1].generation && r[1].generation > r[2].generation);
    assert_int_equal(r[3].page, -1);
    assert_int_equal(r[4].page, -1);
    uint64_t newest = r[0].generation;
    shelf.now += SHELF_TTL + SHELF_QUARANTINE;
    assert_true(shelf_reserve(&shelf, plain(9)).generation > newest);
    shelf_close(&shelf);
}

/* One reply never says that a key is at a page and gives that page to another key. */
static void keys_of_a_batch_are_not_its_victims(void **state)
{
    (void)state;
    for (size_t place = 0; place < 4; place++) {
        struct shelf shelf;
        shelf_open_pages(&shelf, 4);
        for (unsigned i = 0; i < 4; i++)
            shelf_store(&shelf, plain(i)); /* 0 is the oldest */
        struct key keys[] = {plain(10), plain(11), plain(12), plain(13)};
        keys[place] = plain(0);
        struct catalog_reserved r[COUNT(keys)];
        shelf_reserve_all(&shelf, keys, COUNT(keys), r);
        assert_true(r[place].present);
        assert_int_equal(shelf_get(&shelf, plain(0)), r[place].page);
        for (size_t i = 0; i < COUNT(keys); i++)
            for (size_t j = 0; j < i; j++)
                assert_true(r[i].page == -1 || r[i].page != r[j].page);
        shelf_close(&shelf);
    }
}

static void the_other_half_of_a_batchs_key_is_not_its_victim(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 3);
    shelf_store(&shelf, half_v(1)); /* the oldest */
    shelf_store(&shelf, plain(2));
    shelf_store(&shelf, plain(3));
    struct catalog_reserved r = shelf_reserve(&shelf, half_k(1));
    assert_false(r.present);
    assert_true(r.page >= 0);
    assert_true(shelf_exists(&shelf, half_v(1)));
    assert_false(shelf_exists(&shelf, plain(2)));
    shelf_close(&shelf);
}

static void halves_get_two_pages_or_none(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint32_t num_pages;
        unsigned committed; /* other keys, evictable */
        bool v_reserved;    /* before */
        int pages_for_k, pages_for_v;
    } cases[] = {
        {"two FREE pages", 2, 0, false, 1, 1},
        {"one FREE page, nothing to evict", 1, 0, false, 0, 0},
        {"one FREE page, V is there already", 2, 0, true, 1, 0},
        {"no FREE page, and the fewest that hold a pair", 2, 2, false, 1, 1},
        {"no FREE page, two may be evicted", 4, 4, false, 1, 1},
        {"one FREE page, the other may be evicted", 4, 3, false, 1, 1},
        {"one page, evictable: not enough", 1, 1, false, 0, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (int v_first = 0; v_first < 2; v_first++) {
            struct shelf shelf;
            shelf_open_pages(&shelf, cases[i].num_pages);
            for (unsigned j = 0; j < cases[i].committed; j++)
                shelf_store(&shelf, plain(j));
            if (cases[i].v_reserved)
                shelf_reserve(&shelf, half_v(9));
            struct key keys[] = {half_k(9), half_v(9)};
            if (v_first) {
                keys[0] = half_v(9);
                keys[1] = half_k(9);
            }
            struct catalog_counts before = shelf_counts(&shelf);
            struct catalog_reserved r[2];
            shelf_reserve_all(&shelf, keys, 2, r);
            struct catalog_reserved k = r[v_first], v = r[1 - v_first];
            print_message("  %s\n", cases[i].what);
            assert_int_equal(!k.present && k.page >= 0, cases[i].pages_for_k);
            assert_int_equal(!v.present && v.page >= 0, cases[i].pages_for_v);
            assert_int_equal(v.present, cases[i].v_reserved);
            if (!cases[i].pages_for_k) {
                struct catalog_counts counts = shelf_counts(&shelf);
                assert_memory_equal(&counts, &before, sizeof(counts));
            }
            shelf_close(&shelf);
        }
    }
}

/* A page that was given back for want of a second one is the next to be handed out. */
static void a_key_after_a_pair_that_does_not_fit_gets_the_page(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 1);
    struct key keys[] = {half_k(1), half_v(1), plain(2)};
    struct catalog_reserved r[COUNT(keys)];
    shelf_reserve_all(&shelf, keys, COUNT(keys), r);
    assert_int_equal(r[0].page, -1);
    assert_int_equal(r[1].page, -1);
    assert_int_equal(r[2].page, 0);
    shelf_close(&shelf);
}

static void halves_may_be_anywhere_in_a_batch(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 3);
    struct key keys[] = {half_v(1), plain(2), plain(3), half_k(1)};
    struct catalog_reserved r[COUNT(keys)];
    shelf_reserve_all(&shelf, keys, COUNT(keys), r);
    assert_true(r[0].page >= 0 && r[3].page >= 0 && r[1].page >= 0);
    assert_int_equal(r[2].page, -1);
    shelf_close(&shelf);
}

/* ---- unverified pages ----------------------------------------------------------------------- */

static void pages_without_a_checksum_are_absent_to_verifying_callers(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 4);
    int64_t page = shelf_store_unverified(&shelf, plain(1));
    assert_int_equal(shelf_get(&shelf, plain(1)), -1);
    assert_false(shelf_exists(&shelf, plain(1)));
    bool exists;
    struct key key = plain(1);
    catalog_exists(shelf.catalog, shelf.now, &key, 1, false, &exists);
    assert_true(exists);
    assert_int_equal(shelf_lease(&shelf, plain(1)), page);
    shelf_close(&shelf);
}

static void a_verifying_writer_replaces_a_page_without_a_checksum(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        bool leased;
        uint64_t free, retired;
    } cases[] = {{"no reader", false, 1, 0}, {"a reader holds its page", true, 0, 1}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct shelf shelf;
        shelf_open_pages(&shelf, 2);
        int64_t old = shelf_store_unverified(&shelf, plain(1));
        if (cases[i].leased)
            shelf_lease(&shelf, plain(1));
        struct catalog_reserved r = shelf_reserve(&shelf, plain(1));
        assert_false(r.present);
        assert_int_not_equal(r.page, old);
        assert_counts(&shelf, cases[i].free, 1, 0, cases[i].retired);
        assert_int_equal(shelf_confirm(&shelf, plain(1), r), CATALOG_ACCEPTED);
        assert_int_equal(shelf_get(&shelf, plain(1)), r.page);
        shelf_close(&shelf);
    }
}

static void without_a_page_for_the_new_one_the_unverified_one_stays(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 1);
    int64_t old = shelf_store_unverified(&shelf, plain(1));
    struct catalog_reserved r = shelf_reserve(&shelf, plain(1));
    assert_false(r.present);
    assert_int_equal(r.page, -1);
    assert_int_equal(shelf_lease(&shelf, plain(1)), old);
    shelf_close(&shelf);
}

/* ---- confirm -------------------------------------------------------------------------------- */

/* Pages of one catalog of eight: 0 RESERVED for key 0, 1 COMMITTED for key 1, 2 RETIRED, 3 FREE
 * again, 4 never used, 5 COMMITTED without a checksum for key 5. */
static void open_mixed(struct shelf *shelf, struct catalog_reserved r[6])
{
    shelf_open_pages(shelf, 8);
    struct key keys[] = {plain(0), plain(1), plain(2), plain(3)};
    r[4] = (struct catalog_reserved){.page = 4, .generation = 1};
    shelf_reserve_all(shelf, keys, 4, r);
    assert_int_equal(shelf_confirm(shelf, plain(3), r[3]), CATALOG_ACCEPTED);
    shelf_delete(shelf, plain(3));
    assert_int_equal(shelf_confirm(shelf, plain(1), r[1]), CATALOG_ACCEPTED);
    assert_int_equal(shelf_release(shelf, r[2]), CATALOG_ACCEPTED);
    struct key spare[] = {plain(90), plain(5)}; /* pages 4 and 5 */
    struct catalog_reserved s[2];
    shelf_reserve_all(shelf, spare, 2, s);
    assert_int_equal(s[1].page, 5);
    shelf_release(shelf, s[0]);
    struct catalog_confirm entry = {.key = plain(5), .page = 5};
    enum catalog_rejection reason;
    catalog_confirm(shelf->catalog, shelf->now, &entry, 1, &reason);
    assert_int_equal(reason, CATALOG_ACCEPTED);
    r[5] = s[1];
    assert_counts(shelf, 3, 1, 2, 2);
}

static void what_confirm_rejects_it_does_not_touch(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        unsigned key;
        int64_t page;
        int generation; /* -2: not given; else added to the page's */
        enum catalog_rejection reason;
    } cases[] = {
        {"a negative page", 0, -1, -2, CATALOG_OUT_OF_RANGE},
        {"the least number", 0, INT64_MIN, -2, CATALOG_OUT_OF_RANGE},
        {"the page after the last", 0, 8, -2, CATALOG_OUT_OF_RANGE},
        {"a page whose low 32 bits are in range", 0, 1ll << 32, -2, CATALOG_OUT_OF_RANGE},
        {"the greatest number", 0, INT64_MAX, -2, CATALOG_OUT_OF_RANGE},
        {"a page never used", 0, 7, -2, CATALOG_NOT_RESERVED},
        {"a page that is FREE again", 3, 3, -2, CATALOG_NOT_RESERVED},
        {"a page that was released", 2, 2, -2, CATALOG_NOT_RESERVED},
        {"a page that was released, with its generation", 2, 2, 0, CATALOG_NOT_RESERVED},
        {"another key's RESERVED page", 9, 0, -2, CATALOG_OTHER_KEY},
        {"another key's COMMITTED page", 0, 1, -2, CATALOG_OTHER_KEY},
        {"a later generation", 0, 0, 1, CATALOG_OTHER_GENERATION},
        {"an earlier generation", 0, 0, -1, CATALOG_OTHER_GENERATION},
        {"an earlier generation of a COMMITTED page", 1, 1, -1, CATALOG_OTHER_GENERATION},
    };
    struct shelf shelf;
    struct catalog_reserved r[6];
    open_mixed(&shelf, r);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct slot before[8];
        memcpy(before, shelf.slots, sizeof(before));
        bool in_range = cases[i].page >= 0 && cases[i].page < 6;
        struct catalog_confirm entry = {.key = plain(cases[i].key),
                                        .page = cases[i].page,
                                        .has_generation = cases[i].generation != -2,
                                        .generation = (in_range ? r[cases[i].page].generation : 0) +
                                                      (uint64_t)cases[i].generation,
                                        .has_checksum = true,
                                        .checksum = 7};
        enum catalog_rejection reason;
        catalog_confirm(shelf.catalog, shelf.now, &entry, 1, &reason);
        print_message("  %s: %s\n", cases[i].what, catalog_rejection_text(reason));
        assert_int_equal(reason, cases[i].reason);
        assert_memory_equal(shelf.slots, before, sizeof(before));
    }
    assert_counts(&shelf, 3, 1, 2, 2);
    shelf_close(&shelf);
}

static void a_confirm_may_be_repeated(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 2);
    struct catalog_reserved r = shelf_reserve(&shelf, plain(1));
    struct catalog_confirm entry = {.key = plain(1), .page = r.page};
    enum catalog_rejection reasons[3];
    struct catalog_confirm thrice[] = {entry, entry, entry};
    catalog_confirm(shelf.catalog, shelf.now, thrice, 3, reasons);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(reasons[i], CATALOG_ACCEPTED);
    assert_counts(&shelf, 1, 0, 1, 0);
    shelf_close(&shelf);
}

static void a_first_checksum_is_added_and_another_one_rejected(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 2);
    int64_t page = shelf_store_unverified(&shelf, plain(1));
    static const struct {
        bool has_checksum;
        uint64_t checksum;
        enum catalog_rejection reason;
    } steps[] = {
        {true, 5, CATALOG_ACCEPTED},       {true, 6, CATALOG_OTHER_CHECKSUM},
        {true, 5, CATALOG_ACCEPTED},       {false, 6, CATALOG_ACCEPTED},
        {true, 0, CATALOG_OTHER_CHECKSUM},
    };
    for (size_t i = 0; i < COUNT(steps); i++) {
        struct catalog_confirm entry = {.key = plain(1),
                                        .page = page,
                                        .has_checksum = steps[i].has_checksum,
                                        .checksum = steps[i].checksum};
        enum catalog_rejection reason;
        catalog_confirm(shelf.catalog, shelf.now, &entry, 1, &reason);
        assert_int_equal(reason, steps[i].reason);
        struct catalog_found found;
        struct key key = plain(1);
        catalog_get(shelf.catalog, shelf.now, &key, 1, true, &found);
        assert_true(found.page == page && found.has_checksum && found.checksum == 5);
    }
    shelf_close(&shelf);
}

/* A key that was deleted, or cleared away, while it was being written stays away. */
static void a_key_gone_while_it_was_written_does_not_come_back(void **state)
{
    (void)state;
    for (int clear = 0; clear < 2; clear++) {
        struct shelf shelf;
        shelf_open_pages(&shelf, 2);
        struct catalog_reserved r = shelf_reserve(&shelf, plain(1));
        if (clear)
            catalog_clear(shelf.catalog, shelf.now);
        else
            assert_int_equal(shelf_delete(&shelf, plain(1)), 0);
        assert_int_equal(shelf_confirm(&shelf, plain(1), r), CATALOG_NOT_RESERVED);
        assert_false(shelf_exists(&shelf, plain(1)));
        /* The late writer's page is not given to the next one. */
        struct catalog_reserved next = shelf_reserve(&shelf, plain(1));
        assert_int_not_equal(next.page, r.page);
        assert_int_equal(shelf_confirm(&shelf, plain(1), r), CATALOG_NOT_RESERVED);
        assert_int_equal(shelf_confirm(&shelf, plain(1), next), CATALOG_ACCEPTED);
        assert_int_equal(shelf_get(&shelf, plain(1)), next.page);
        shelf_close(&shelf);
    }
}

static void a_confirm_of_an_earlier_life_is_rejected(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 1);
    struct catalog_reserved early = shelf_reserve(&shelf, plain(1));
    shelf.now += SHELF_TTL + SHELF_QUARANTINE;
    struct catalog_reserved late = shelf_reserve(&shelf, plain(1));
    assert_int_equal(late.page, early.page);
    assert_int_equal(shelf_confirm(&shelf, plain(1), early), CATALOG_OTHER_GENERATION);
    assert_int_equal(shelf_confirm(&shelf, plain(1), late), CATALOG_ACCEPTED);
    shelf_close(&shelf);
}

/* ---- release -------------------------------------------------------------------------------- */

static void release_takes_only_what_is_reserved(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        int64_t page;
        int key;        /* -1: not given */
        int generation; /* -2: not given; else added to the page's */
        enum catalog_rejection reason;
    } cases[] = {
        {"a negative page", -1, -1, -2, CATALOG_OUT_OF_RANGE},
        {"the page after the last", 8, -1, -2, CATALOG_OUT_OF_RANGE},
        {"a page never used", 7, -1, -2, CATALOG_NOT_RESERVED},
        {"a page that is FREE again", 3, -1, -2, CATALOG_NOT_RESERVED},
        {"a page that rests", 2, -1, 0, CATALOG_NOT_RESERVED},
        {"a COMMITTED page", 1, -1, -2, CATALOG_HOLDS_KEY},
        {"a COMMITTED page with all that is right", 1, 1, 0, CATALOG_HOLDS_KEY},
        {"another key's page", 0, 9, -2, CATALOG_OTHER_KEY},
        {"another life of the page", 0, 0, -1, CATALOG_OTHER_GENERATION},
        {"its own page", 0, 0, 0, CATALOG_ACCEPTED},
        {"its own page twice", 0, 0, 0, CATALOG_NOT_RESERVED},
    };
    struct shelf shelf;
    struct catalog_reserved r[6];
    open_mixed(&shelf, r);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct slot before[8];
        memcpy(before, shelf.slots, sizeof(before));
        bool in_range = cases[i].page >= 0 && cases[i].page < 6;
        struct catalog_release entry = {.page = cases[i].page,
                                        .has_key = cases[i].key >= 0,
                                        .key = plain((unsigned)cases[i].key),
                                        .has_generation = cases[i].generation != -2,
                                        .generation = (in_range ? r[cases[i].page].generation : 0) +
                                                      (uint64_t)cases[i].generation};
        enum catalog_rejection reason;
        catalog_release(shelf.catalog, shelf.now, &entry, 1, &reason);
        print_message("  %s: %s\n", cases[i].what, catalog_rejection_text(reason));
        assert_int_equal(reason, cases[i].reason);
        if (reason != CATALOG_ACCEPTED)
            assert_memory_equal(shelf.slots, before, sizeof(before));
    }
    assert_counts(&shelf, 3, 0, 2, 3);
    shelf_close(&shelf);
}

/* Releasing does not search: all pages of a large catalog, in batches, in the order that a search
 * would like least. */
static void every_page_of_a_large_catalog_can_be_released(void **state)
{
    (void)state;
    enum { PAGES = 262144, BATCH = CATALOG_BATCH_MAX };
    struct catalog_options options = shelf_options(PAGES);
    struct shelf shelf;
    shelf_open(&shelf, &options);
    struct key *keys = calloc(BATCH, sizeof(*keys));
    struct catalog_reserved *r = calloc(PAGES, sizeof(*r));
    struct catalog_release *entries = calloc(BATCH, sizeof(*entries));
    enum catalog_rejection *reasons = calloc(BATCH, sizeof(*reasons));
    assert_true(keys != NULL && r != NULL && entries != NULL && reasons != NULL);
    for (unsigned at = 0; at < PAGES; at += BATCH) {
        for (unsigned i = 0; i < BATCH; i++)
            keys[i] = plain(at + i);
        assert_int_equal(catalog_reserve(shelf.catalog, shelf.now, keys, BATCH, true, 0, r + at),
                         KVS_OK);
    }
    assert_counts(&shelf, 0, PAGES, 0, 0);
    for (unsigned at = PAGES; at > 0; at -= BATCH) {
        for (unsigned i = 0; i < BATCH; i++)
            entries[i] = (struct catalog_release){.page = r[at - 1 - i].page};
        catalog_release(shelf.catalog, shelf.now, entries, BATCH, reasons);
        for (unsigned i = 0; i < BATCH; i++)
            assert_int_equal(reasons[i], CATALOG_ACCEPTED);
    }
    assert_counts(&shelf, 0, 0, 0, PAGES);
    shelf.now += SHELF_QUARANTINE;
    assert_counts(&shelf, PAGES, 0, 0, 0);
    free(keys);
    free(r);
    free(entries);
    free(reasons);
    shelf_close(&shelf);
}

/* ---- get, exists ---------------------------------------------------------------------------- */

static void get_tells_page_generation_and_checksum(void **state)
{
    (void)state;
    struct shelf shelf;
    struct catalog_reserved r[6];
    open_mixed(&shelf, r);
    static const struct {
        unsigned key;
        bool verifying, found, has_checksum;
    } cases[] = {
        {0, true, false, false}, {0, false, false, false}, {1, true, true, true},
        {1, false, true, true},  {2, false, false, false}, {3, false, false, false},
        {5, true, false, false}, {5, false, true, false},  {77, false, false, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct key key = plain(cases[i].key);
        struct catalog_found found;
        bool exists;
        catalog_get(shelf.catalog, shelf.now, &key, 1, cases[i].verifying, &found);
        catalog_exists(shelf.catalog, shelf.now, &key, 1, cases[i].verifying, &exists);
        assert_int_equal(exists, cases[i].found);
        assert_int_equal(found.page, cases[i].found ? r[cases[i].key].page : -1);
        assert_int_equal(found.generation, cases[i].found ? r[cases[i].key].generation : 0);
        assert_int_equal(found.has_checksum, cases[i].has_checksum);
        assert_int_equal(found.checksum, cases[i].has_checksum ? checksum_of(&key) : 0);
    }
    assert_int_equal(catalog_totals(shelf.catalog)->hits, 3);
    assert_int_equal(catalog_totals(shelf.catalog)->misses, 6);
    shelf_close(&shelf);
}

static void exists_does_not_refresh_and_get_does(void **state)
{
    (void)state;
    for (int get = 0; get < 2; get++) {
        struct shelf shelf;
        shelf_open_pages(&shelf, 2);
        shelf_store(&shelf, plain(1));
        shelf_store(&shelf, plain(2));
        if (get)
            shelf_get(&shelf, plain(1));
        else
            shelf_exists(&shelf, plain(1));
        shelf_store(&shelf, plain(3));
        assert_int_equal(shelf_exists(&shelf, plain(1)), get);
        assert_int_equal(shelf_exists(&shelf, plain(2)), !get);
        shelf_close(&shelf);
    }
}

/* ---- delete, clear, report_mismatch --------------------------------------------------------- */

static void delete_counts_the_keys_that_were_there(void **state)
{
    (void)state;
    struct shelf shelf;
    struct catalog_reserved r[6];
    open_mixed(&shelf, r);
    struct key keys[] = {plain(1), plain(1), plain(2), plain(77), plain(5)};
    assert_int_equal(catalog_delete(shelf.catalog, shelf.now, keys, COUNT(keys)), 2);
    assert_counts(&shelf, 5, 1, 0, 2);
    assert_int_equal(shelf_delete(&shelf, plain(0)), 0); /* it was not there yet */
    assert_counts(&shelf, 5, 0, 0, 3);
    shelf_close(&shelf);
}

static void delete_takes_one_half_only(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 2);
    shelf_store(&shelf, half_k(1));
    shelf_store(&shelf, half_v(1));
    assert_int_equal(shelf_delete(&shelf, half_k(1)), 1);
    assert_true(shelf_exists(&shelf, half_v(1)));
    shelf_close(&shelf);
}

static void clear_empties_the_catalog_at_once(void **state)
{
    (void)state;
    struct shelf shelf;
    struct catalog_reserved r[6];
    open_mixed(&shelf, r);
    catalog_clear(shelf.catalog, shelf.now);
    struct catalog_counts counts = shelf_counts(&shelf);
    assert_int_equal(counts.reserved, 0);
    assert_int_equal(counts.committed, 0);
    assert_int_equal(counts.free + counts.retired, 8);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(shelf_lease(&shelf, plain(i)), -1);
    for (size_t i = 0; i < 6; i++) {
        enum catalog_rejection reason;
        struct catalog_release entry = {.page = r[i].page};
        catalog_release(shelf.catalog, shelf.now, &entry, 1, &reason);
        assert_int_equal(reason, CATALOG_NOT_RESERVED);
    }
    /* New lives are newer than everything that was cleared. */
    assert_true(shelf_reserve(&shelf, plain(1)).generation > r[5].generation);
    shelf_close(&shelf);
}

static void a_mismatch_retires_only_the_page_it_is_about(void **state)
{
    (void)state;
    struct shelf shelf;
    struct catalog_reserved r[6];
    open_mixed(&shelf, r);
    static const struct {
        const char *what;
        unsigned key;
        int64_t page;
        int generation; /* added to the page's */
        bool retired;
    } cases[] = {
        {"no such page", 1, -1, 0, false},
        {"no such page", 1, 8, 0, false},
        {"another page", 1, 5, 0, false},
        {"another key", 5, 1, 0, false},
        {"another life", 1, 1, 1, false},
        {"a page being written", 0, 0, 0, false},
        {"a page without a checksum", 5, 5, 0, false},
        {"the page", 1, 1, 0, true},
        {"the page again", 1, 1, 0, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        bool in_range = cases[i].page >= 0 && cases[i].page < 6;
        struct key key = plain(cases[i].key);
        print_message("  %s\n", cases[i].what);
        assert_int_equal(catalog_report_mismatch(shelf.catalog, shelf.now, &key, cases[i].page,
                                                 (in_range ? r[cases[i].page].generation : 1000) +
                                                     (uint64_t)cases[i].generation),
                         cases[i].retired);
    }
    assert_false(shelf_exists(&shelf, plain(1)));
    assert_counts(&shelf, 4, 1, 1, 2);
    assert_int_equal(catalog_totals(shelf.catalog)->mismatches, 1);
    shelf_close(&shelf);
}

/* ---- batches -------------------------------------------------------------------------------- */

static void an_empty_batch_is_nothing(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 1);
    struct key key = plain(1);
    struct catalog_reserved reserved;
    assert_int_equal(catalog_reserve(shelf.catalog, shelf.now, &key, 0, true, 1, &reserved),
                     KVS_OK);
    catalog_confirm(shelf.catalog, shelf.now, NULL, 0, NULL);
    catalog_release(shelf.catalog, shelf.now, NULL, 0, NULL);
    catalog_get(shelf.catalog, shelf.now, &key, 0, true, NULL);
    catalog_exists(shelf.catalog, shelf.now, &key, 0, true, NULL);
    assert_int_equal(catalog_delete(shelf.catalog, shelf.now, &key, 0), 0);
    assert_counts(&shelf, 1, 0, 0, 0);
    shelf_close(&shelf);
}

/* The largest batch, of pairs, in a catalog that holds exactly that many pages. */
static void the_largest_batch_goes_round(void **state)
{
    (void)state;
    enum { N = CATALOG_BATCH_MAX };
    struct shelf shelf;
    shelf_open_pages(&shelf, N);
    struct key *keys = calloc(N, sizeof(*keys));
    struct catalog_reserved *r = calloc(N, sizeof(*r));
    struct catalog_confirm *entries = calloc(N, sizeof(*entries));
    struct catalog_found *found = calloc(N, sizeof(*found));
    enum catalog_rejection *reasons = calloc(N, sizeof(*reasons));
    assert_true(keys && r && entries && found && reasons);
    for (unsigned i = 0; i < N; i++) /* all K first, then all V: no half beside the other */
        keys[i] = i < N / 2 ? half_k(i) : half_v(i - N / 2);
    shelf_reserve_all(&shelf, keys, N, r);
    for (unsigned i = 0; i < N; i++) {
        assert_true(!r[i].present && r[i].page >= 0);
        entries[i] = (struct catalog_confirm){.key = keys[i],
                                              .page = r[i].page,
                                              .has_generation = true,
                                              .generation = r[i].generation,
                                              .has_checksum = true,
                                              .checksum = i};
    }
    catalog_confirm(shelf.catalog, shelf.now, entries, N, reasons);
    catalog_get(shelf.catalog, shelf.now, keys, N, true, found);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(reasons[i], CATALOG_ACCEPTED);
        assert_int_equal(found[i].page, r[i].page);
        assert_int_equal(found[i].checksum, i);
    }
    assert_counts(&shelf, 0, 0, N, 0);
    assert_int_equal(catalog_delete(shelf.catalog, shelf.now, keys, N), N);
    assert_counts(&shelf, N, 0, 0, 0);
    free(keys);
    free(r);
    free(entries);
    free(found);
    free(reasons);
    shelf_close(&shelf);
}

static void every_rejection_has_a_text_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < CATALOG_REJECTIONS; i++) {
        const char *text = catalog_rejection_text((enum catalog_rejection)i);
        assert_non_null(text);
        assert_true(strlen(text) > 3);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(text, catalog_rejection_text((enum catalog_rejection)j));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_key_gets_a_page_to_write),
        cmocka_unit_test(a_committed_key_needs_no_page),
        cmocka_unit_test(a_second_writer_of_a_key_gets_no_second_page),
        cmocka_unit_test(the_same_owner_gets_its_page_again),
        cmocka_unit_test(a_key_twice_in_a_batch_has_one_page),
        cmocka_unit_test(a_batch_larger_than_the_catalog_is_answered_key_by_key),
        cmocka_unit_test(the_head_of_a_batch_is_served_first_and_is_the_newest),
        cmocka_unit_test(keys_of_a_batch_are_not_its_victims),
        cmocka_unit_test(the_other_half_of_a_batchs_key_is_not_its_victim),
        cmocka_unit_test(halves_get_two_pages_or_none),
        cmocka_unit_test(a_key_after_a_pair_that_does_not_fit_gets_the_page),
        cmocka_unit_test(halves_may_be_anywhere_in_a_batch),
        cmocka_unit_test(pages_without_a_checksum_are_absent_to_verifying_callers),
        cmocka_unit_test(a_verifying_writer_replaces_a_page_without_a_checksum),
        cmocka_unit_test(without_a_page_for_the_new_one_the_unverified_one_stays),
        cmocka_unit_test(what_confirm_rejects_it_does_not_touch),
        cmocka_unit_test(a_confirm_may_be_repeated),
        cmocka_unit_test(a_first_checksum_is_added_and_another_one_rejected),
        cmocka_unit_test(a_key_gone_while_it_was_written_does_not_come_back),
        cmocka_unit_test(a_confirm_of_an_earlier_life_is_rejected),
        cmocka_unit_test(release_takes_only_what_is_reserved),
        cmocka_unit_test(every_page_of_a_large_catalog_can_be_released),
        cmocka_unit_test(get_tells_page_generation_and_checksum),
        cmocka_unit_test(exists_does_not_refresh_and_get_does),
        cmocka_unit_test(delete_counts_the_keys_that_were_there),
        cmocka_unit_test(delete_takes_one_half_only),
        cmocka_unit_test(clear_empties_the_catalog_at_once),
        cmocka_unit_test(a_mismatch_retires_only_the_page_it_is_about),
        cmocka_unit_test(an_empty_batch_is_nothing),
        cmocka_unit_test(the_largest_batch_goes_round),
        cmocka_unit_test(every_rejection_has_a_text_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
