/* Looking at a catalog and copying it to an image; and catalogs too large to be looked through. */
#include "support/shelf.h"
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t next_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* ---- looking -------------------------------------------------------------------------------- */

static void the_totals_count_what_was_asked_and_done(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 4);
    struct key keys[] = {plain(1), plain(2), plain(3), plain(4), plain(5)};
    struct catalog_reserved r[5];
    shelf_reserve_all(&shelf, keys, 5, r);
    shelf_confirm(&shelf, keys[0], r[0]);
    shelf_confirm(&shelf, keys[1], r[1]);
    shelf_confirm(&shelf, keys[1], r[0]);
    shelf_release(&shelf, r[2]);
    shelf_release(&shelf, r[2]);
    shelf_reserve(&shelf, keys[0]);
    shelf_get(&shelf, keys[0]);
    shelf_get(&shelf, keys[4]);
    shelf.now += SHELF_TTL;
    shelf_delete(&shelf, keys[0]);
    catalog_clear(shelf.catalog, shelf.now);
    const struct catalog_totals *t = catalog_totals(shelf.catalog);
    assert_int_equal(t->reserved, 4);
    assert_int_equal(t->no_page[CATALOG_SHORT_RESERVED], 1);
    assert_int_equal(t->present, 1);
    assert_int_equal(t->confirmed, 2);
    assert_int_equal(t->released, 1);
    assert_int_equal(t->expired, 1);
    assert_int_equal(t->deleted, 1);
    assert_int_equal(t->hits, 1);
    assert_int_equal(t->misses, 1);
    assert_int_equal(t->clears, 1);
    assert_int_equal(t->evicted, 0);
    assert_int_equal(t->rejected[CATALOG_OTHER_KEY], 1);
    assert_int_equal(t->rejected[CATALOG_NOT_RESERVED], 1);
    shelf_close(&shelf);
}

/* Fails unless `n` more keys got no page, all for this reason. */
static void assert_short(struct shelf *shelf, enum catalog_shortage reason, uint64_t n)
{
    const uint64_t *no_page = catalog_totals(shelf->catalog)->no_page;
    for (size_t r = 0; r < CATALOG_SHORTAGES; r++)
        if (no_page[r] != (r == reason ? n : 0))
            fail_msg("%s: %llu keys", catalog_shortage_text((enum catalog_shortage)r),
                     (unsigned long long)no_page[r]);
}

static void the_totals_tell_why_there_was_no_page(void **state)
{
    (void)state;
    struct shelf shelf;
    struct catalog_reserved r[2];
    const struct key pair[] = {half_k(9), half_v(9)};
    /* Leased to readers, whether one page is asked for or two. */
    shelf_open_pages(&shelf, 4);
    for (unsigned i = 0; i < 4; i++) {
        shelf_store(&shelf, plain(i));
        shelf_lease(&shelf, plain(i));
    }
    assert_int_equal(shelf_reserve(&shelf, plain(9)).page, -1);
    assert_short(&shelf, CATALOG_SHORT_LEASED, 1);
    shelf_reserve_all(&shelf, pair, 2, r);
    assert_int_equal(r[0].page, -1);
    assert_short(&shelf, CATALOG_SHORT_LEASED, 3);
    shelf.now += SHELF_LEASE;
    assert_true(shelf_reserve(&shelf, plain(9)).page >= 0);
    shelf_close(&shelf);
    /* Resting. */
    shelf_open_pages(&shelf, 2);
    for (unsigned i = 0; i < 2; i++)
        shelf_release(&shelf, shelf_reserve(&shelf, plain(i)));
    assert_int_equal(shelf_reserve(&shelf, plain(9)).page, -1);
    assert_short(&shelf, CATALOG_SHORT_OTHER, 1);
    shelf_close(&shelf);
    /* After a power cut, with writers that may live. */
    struct catalog_options options = shelf_options(2);
    options.foreign_writers = true;
    shelf_open(&shelf, &options);
    shelf_reopen(&shelf, CATALOG_POWER_LOST);
    assert_int_equal(shelf_reserve(&shelf, plain(9)).page, -1);
    assert_short(&shelf, CATALOG_SHORT_STARTING, 1);
    shelf_close(&shelf);
}

static void a_page_tells_whether_it_holds_a_key(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 3);
    shelf_store(&shelf, plain(1));
    shelf_reserve(&shelf, plain(2));
    assert_true(catalog_holds_key(shelf.catalog, 0));
    assert_false(catalog_holds_key(shelf.catalog, 1));
    assert_false(catalog_holds_key(shelf.catalog, 2));
    catalog_clear(shelf.catalog, shelf.now);
    assert_false(catalog_holds_key(shelf.catalog, 0));
    assert_int_equal(catalog_num_pages(shelf.catalog), 3);
    shelf_close(&shelf);
}

static void the_check_notices_damage(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 4);
    shelf_store(&shelf, plain(1));
    shelf_store(&shelf, plain(2));
    struct slot kept = shelf.slots[1];
    shelf.slots[1].digest[0] ^= 1;
    assert_non_null(catalog_check(shelf.catalog));
    shelf.slots[1] = kept;
    slot_seal(&shelf.slots[1], 1, KEY_PLAIN, SLOT_RESERVED, 0);
    assert_non_null(catalog_check(shelf.catalog));
    shelf.slots[1] = kept;
    shelf.slots[1].digest[0] ^= 1; /* sealed, but under a key that nobody stored */
    slot_seal(&shelf.slots[1], 1, KEY_PLAIN, SLOT_COMMITTED, SLOT_HAS_CHECKSUM);
    assert_non_null(catalog_check(shelf.catalog));
    shelf.slots[1] = kept;
    shelf_close(&shelf);
}

/* The goal: 90 bytes a page in all. */
static void a_page_costs_ninety_bytes_at_most(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {100000, 1000000, 1048576, 1300000};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct catalog_options options = shelf_options(sizes[i]);
        struct catalog *catalog;
        assert_int_equal(catalog_open(&options, 0, &catalog, NULL), KVS_OK);
        size_t bytes = catalog_memory_bytes(catalog);
        print_message("  %u pages: %.1f bytes a page\n", sizes[i],
                      (double)bytes / (double)sizes[i]);
        assert_true(bytes >= sizes[i] * sizeof(struct slot));
        assert_true(bytes <= sizes[i] * 90ull);
        catalog_close(catalog);
    }
}

/* ---- copying -------------------------------------------------------------------------------- */

static size_t copy_pass(struct shelf *shelf, struct slot *image)
{
    static struct catalog_copy copy;
    uint32_t cursor = 0;
    size_t copied = 0;
    bool more = true;
    while (more) {
        more = catalog_copy_changed(shelf->catalog, &cursor, &copy);
        assert_true(copy.count <= CATALOG_COPY_MAX);
        for (size_t i = 0; i < copy.count; i++) {
            assert_true(i == 0 || copy.pages[i] > copy.pages[i - 1]);
            image[copy.pages[i]] = copy.slots[i];
        }
        copied += copy.count;
    }
    return copied;
}

/* After each kind of change one pass makes the image what the slots are; a second finds nothing. */
static void every_change_is_copied_once(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 6);
    struct slot image[6] = {{.seal = 0}};
    struct catalog_reserved r = {.page = -1};
    for (int step = 0; step < 15; step++) {
        switch (step) {
        case 0:
        case 3:
        case 6:
            r = shelf_reserve(&shelf, plain((unsigned)step));
            break;
        case 1:
            shelf_confirm(&shelf, plain(0), r);
            break;
        case 2:
            shelf_store_unverified(&shelf, plain(100));
            break;
        case 4:
            shelf_release(&shelf, r);
            break;
        case 5:
            shelf.now += SHELF_QUARANTINE;
            break;
        case 7:
            shelf.now += SHELF_TTL;
            break;
        case 8:
            shelf_reserve(&shelf, plain(100)); /* replaces */
            break;
        case 9:
            shelf_delete(&shelf, plain(100));
            break;
        case 10:
            for (unsigned i = 0; i < 6; i++)
                shelf_store(&shelf, plain(200 + i)); /* evicts */
            break;
        case 11:
            catalog_clear(shelf.catalog, shelf.now);
            break;
        case 12:
            shelf_store(&shelf, plain(300));
            break;
        case 13:
            shelf_reopen(&shelf, CATALOG_POWER_LOST);
            break;
        default: {
            struct key key = plain(300);
            struct catalog_found found;
            catalog_get(shelf.catalog, shelf.now, &key, 1, true, &found);
            assert_true(found.page >= 0);
            catalog_report_mismatch(shelf.catalog, shelf.now, &key, found.page, found.generation);
        }
        }
        shelf_counts(&shelf);
        copy_pass(&shelf, image);
        assert_memory_equal(image, shelf.slots, sizeof(image));
        assert_int_equal(copy_pass(&shelf, image), 0);
    }
    shelf_close(&shelf);
}

static void looking_up_changes_nothing_that_is_kept(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, 4);
    struct slot image[4] = {{.seal = 0}};
    shelf_store(&shelf, plain(1));
    shelf_store(&shelf, plain(2));
    copy_pass(&shelf, image);
    shelf_get(&shelf, plain(1));
    shelf_lease(&shelf, plain(1));
    shelf_exists(&shelf, plain(2));
    shelf_reserve(&shelf, plain(1));
    assert_int_equal(copy_pass(&shelf, image), 0);
    assert_memory_equal(image, shelf.slots, sizeof(image));
    shelf_close(&shelf);
}

static void a_step_copies_a_bounded_number_of_slots(void **state)
{
    (void)state;
    enum { PAGES = 3 * CATALOG_COPY_MAX + 17 };
    struct shelf shelf;
    shelf_open_pages(&shelf, PAGES);
    for (unsigned i = 0; i < PAGES; i++) {
        struct key key = plain(i);
        struct catalog_reserved r;
        catalog_reserve(shelf.catalog, shelf.now, &key, 1, true, 0, &r);
    }
    static struct catalog_copy copy;
    uint32_t cursor = 0;
    size_t sizes[4];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(catalog_copy_changed(shelf.catalog, &cursor, &copy), i < 3);
        sizes[i] = copy.count;
    }
    assert_int_equal(sizes[0], CATALOG_COPY_MAX);
    assert_int_equal(sizes[1], CATALOG_COPY_MAX);
    assert_int_equal(sizes[2], CATALOG_COPY_MAX);
    assert_int_equal(sizes[3], 17);

    catalog_mark_all_changed(shelf.catalog);
    static struct slot image[PAGES];
    assert_int_equal(copy_pass(&shelf, image), PAGES);
    assert_memory_equal(image, shelf.slots, sizeof(image));
    shelf_close(&shelf);
}

/* A thread that makes and ends lives of a few pages, round by round, while another copies them. */
enum { BESIDE_ROUNDS = 500, BESIDE_STEPS = 40, BESIDE_PAGES = 12 };

struct changer {
    struct shelf *shelf;
    atomic_uint begun, done; /* rounds: the copying of one, the changing of one */
};

static void change_a_page(struct shelf *shelf, uint64_t *random)
{
    struct key key = plain((unsigned)(next_random(random) % (2 * BESIDE_PAGES)));
    struct catalog_reserved r;
    catalog_reserve(shelf->catalog, shelf->now, &key, 1, true, 0, &r);
    if (!r.present && r.page >= 0) {
        struct catalog_confirm entry = {
            .key = key, .page = r.page, .has_checksum = true, .checksum = r.generation};
        enum catalog_rejection reason;
        catalog_confirm(shelf->catalog, shelf->now, &entry, 1, &reason);
    } else {
        catalog_delete(shelf->catalog, shelf->now, &key, 1);
    }
}

static void *change_pages(void *arg)
{
    struct changer *changer = arg;
    uint64_t random = 0x2545f4914f6cdd1du;
    for (unsigned round = 1; round <= BESIDE_ROUNDS; round++) {
        while (atomic_load(&changer->begun) < round)
            sched_yield();
        for (unsigned step = 0; step < BESIDE_STEPS; step++)
            change_a_page(changer->shelf, &random);
        atomic_store(&changer->done, round);
    }
    return NULL;
}

/* Copies are made without the lock. However they meet the changes, the pass after the last change
 * leaves the image as the slots are. */
static void copies_beside_changes_end_with_every_change(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_open_pages(&shelf, BESIDE_PAGES);
    struct slot image[BESIDE_PAGES] = {{.seal = 0}};
    struct changer changer = {.shelf = &shelf};
    atomic_init(&changer.begun, 0);
    atomic_init(&changer.done, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, change_pages, &changer), 0);
    for (unsigned round = 1; round <= BESIDE_ROUNDS; round++) {
        atomic_store(&changer.begun, round);
        for (bool last = false; !last;) {
            last = atomic_load(&changer.done) == round;
            copy_pass(&shelf, image);
        }
        assert_memory_equal(image, shelf.slots, sizeof(image));
    }
    pthread_join(thread, NULL);
    assert_null(catalog_check(shelf.catalog));
    shelf_close(&shelf);
}

/* What was once confirmed at a page, by its generation. */
struct past {
    struct key key;
    uint32_t page;
};

/* An image that is written while requests run is a mixture of many moments. Opened after a power
 * cut it gives each page to one key at most, and only what was confirmed there once. */
static void an_image_written_under_load_is_never_torn(void **state)
{
    (void)state;
    enum { PAGES = 1500, ROUNDS = 40, STEPS = 400, KEYS = 3000, LIVES = 1 << 20 };
    uint64_t random = 0x9e3779b97f4a7c15u;
    print_message("  seed %llu\n", (unsigned long long)random);
    struct past *past = calloc(LIVES, sizeof(*past));
    struct slot *image = calloc(PAGES, sizeof(*image));
    assert_true(past != NULL && image != NULL);
    struct catalog_options options = shelf_options(PAGES);
    options.quarantine_ms = 5;
    struct shelf shelf;
    shelf_open(&shelf, &options);
    struct catalog_state image_state = shelf.state;
    static struct catalog_copy copy;
    uint32_t cursor = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int step = 0; step < STEPS; step++) {
            unsigned number = (unsigned)(next_random(&random) % KEYS);
            struct key key = number % 3 == 0   ? plain(number)
                             : number % 3 == 1 ? half_k(number)
                                               : half_v(number - 1);
            struct catalog_reserved r;
            catalog_reserve(shelf.catalog, shelf.now, &key, 1, true, 0, &r);
            uint64_t what = next_random(&random) % 16;
            if (!r.present && r.page >= 0 && what < 13) {
                struct catalog_confirm entry = {
                    .key = key, .page = r.page, .has_checksum = true, .checksum = r.generation};
                enum catalog_rejection reason;
                catalog_confirm(shelf.catalog, shelf.now, &entry, 1, &reason);
                assert_int_equal(reason, CATALOG_ACCEPTED);
                assert_true(r.generation < LIVES);
                past[r.generation] = (struct past){key, (uint32_t)r.page};
            } else if (what < 15) {
                catalog_delete(shelf.catalog, shelf.now, &key, 1);
            }
            shelf.now += what == 15;
            if (what % 4 == 0) { /* the helper's step, and a write that may be the last */
                if (!catalog_copy_changed(shelf.catalog, &cursor, &copy))
                    cursor = 0;
                size_t arrived =
                    step + 5 > STEPS ? next_random(&random) % (copy.count + 1) : copy.count;
                for (size_t i = 0; i < arrived; i++)
                    image[copy.pages[i]] = copy.slots[i];
                image_state = shelf.state;
            }
        }
        shelf.catalog = catalog_close(shelf.catalog);
        memcpy(shelf.slots, image, PAGES * sizeof(*image));
        shelf.state = image_state;
        shelf.options.origin = CATALOG_POWER_LOST;
        shelf.options.wall_us = 20000 + (uint64_t)round * 20000;
        assert_int_equal(catalog_open(&shelf.options, shelf.now, &shelf.catalog, NULL), KVS_OK);
        assert_null(catalog_check(shelf.catalog));
        cursor = 0;
        for (uint32_t page = 0; page < PAGES; page++) {
            const struct slot *slot = &shelf.slots[page];
            if (!catalog_holds_key(shelf.catalog, page))
                continue;
            const struct past *life = &past[slot->generation];
            assert_int_equal(life->page, page);
            assert_memory_equal(life->key.digest, slot->digest, sizeof(slot->digest));
            assert_int_equal(life->key.suffix, slot_suffix(slot));
            assert_int_equal(slot->value, slot->generation);
        }
    }
    shelf_close(&shelf);
    free(past);
    free(image);
}

/* ---- large ---------------------------------------------------------------------------------- */

/* Keys come and go in a catalog whose index has thousands of groups: each key finds its own page.
 */
static void every_key_of_a_large_catalog_finds_its_page(void **state)
{
    (void)state;
    enum { PAGES = 30000, KEYS = 45000, STEPS = 200000 };
    uint64_t random = 0x2545f4914f6cdd1du;
    print_message("  seed %llu\n", (unsigned long long)random);
    struct shelf shelf;
    shelf_open_pages(&shelf, PAGES);
    for (int step = 0; step < STEPS; step++) {
        unsigned number = (unsigned)(next_random(&random) % KEYS);
        struct key key = number & 1 ? half_v(number - 1) : half_k(number);
        if (next_random(&random) % 8 == 0) {
            catalog_delete(shelf.catalog, shelf.now, &key, 1);
            continue;
        }
        struct catalog_reserved r;
        catalog_reserve(shelf.catalog, shelf.now, &key, 1, true, 0, &r);
        struct catalog_confirm entry = {
            .key = key, .page = r.page, .has_checksum = true, .checksum = number};
        enum catalog_rejection reason;
        catalog_confirm(shelf.catalog, shelf.now, &entry, 1, &reason);
        assert_int_equal(reason, CATALOG_ACCEPTED);
        if (step == STEPS / 2)
            catalog_clear(shelf.catalog, shelf.now);
    }
    assert_null(catalog_check(shelf.catalog));
    uint64_t found_keys = 0;
    bool *owned = calloc(PAGES, sizeof(*owned));
    assert_non_null(owned);
    for (unsigned number = 0; number < KEYS; number++) {
        struct key key = number & 1 ? half_v(number - 1) : half_k(number);
        struct catalog_found found;
        catalog_get(shelf.catalog, shelf.now, &key, 1, true, &found);
        if (found.page < 0)
            continue;
        found_keys++;
        assert_int_equal(found.checksum, number);
        assert_false(owned[found.page]);
        owned[found.page] = true;
    }
    assert_int_equal(found_keys, shelf_counts(&shelf).committed);
    assert_true(found_keys > PAGES / 2);
    free(owned);
    shelf_close(&shelf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_totals_count_what_was_asked_and_done),
        cmocka_unit_test(the_totals_tell_why_there_was_no_page),
        cmocka_unit_test(a_page_tells_whether_it_holds_a_key),
        cmocka_unit_test(the_check_notices_damage),
        cmocka_unit_test(a_page_costs_ninety_bytes_at_most),
        cmocka_unit_test(every_change_is_copied_once),
        cmocka_unit_test(looking_up_changes_nothing_that_is_kept),
        cmocka_unit_test(a_step_copies_a_bounded_number_of_slots),
        cmocka_unit_test(copies_beside_changes_end_with_every_change),
        cmocka_unit_test(an_image_written_under_load_is_never_torn),
        cmocka_unit_test(every_key_of_a_large_catalog_finds_its_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
