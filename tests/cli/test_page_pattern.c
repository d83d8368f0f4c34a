/* The pattern of a page: ids do not share words, every changed byte is seen, whatever the length.
 */
#include "cli/page_pattern.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t lengths[] = {1,   7,    8,    63,   64,   65,    511,
                                 512, 4095, 4096, 4097, 8256, 12345, 65536};
enum { LENGTHS = sizeof lengths / sizeof lengths[0], LONGEST = 65536 };

static void a_filled_page_is_right(void **state)
{
    (void)state;
    static uint8_t page[LONGEST + 1];
    for (size_t i = 0; i < LENGTHS; i++) {
        page[lengths[i]] = 0x5c;
        page_pattern_fill(page, lengths[i], 42 + i);
        assert_int_equal(page[lengths[i]], 0x5c);
        assert_int_equal(page_pattern_wrong_bytes(page, lengths[i], 42 + i), 0);
    }
}

static void every_changed_byte_is_seen(void **state)
{
    (void)state;
    static uint8_t page[LONGEST];
    for (size_t i = 0; i < LENGTHS; i++) {
        page_pattern_fill(page, lengths[i], 7);
        size_t step = lengths[i] > 8256 ? 97 : 1;
        for (size_t at = 0; at < lengths[i]; at += step) {
            page[at] ^= 1;
            assert_int_equal(page_pattern_wrong_bytes(page, lengths[i], 7), 1);
            page[at] ^= 1;
        }
    }
    page_pattern_fill(page, LONGEST, 7);
    page[0] ^= 1, page[4096] ^= 1, page[LONGEST - 1] ^= 1;
    assert_int_equal(page_pattern_wrong_bytes(page, LONGEST, 7), 3);
}

static void pages_of_different_ids_share_no_word(void **state)
{
    (void)state;
    static const uint64_t ids[] = {0, 1, 2, 3, 255, 256, 182789, UINT64_MAX};
    static uint64_t a[LONGEST / 8], b[LONGEST / 8];
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        page_pattern_fill(a, sizeof a, ids[i]);
        for (size_t j = 0; j < i; j++) {
            page_pattern_fill(b, sizeof b, ids[j]);
            for (size_t w = 0; w < LONGEST / 8; w++)
                assert_true(a[w] != b[w]);
        }
    }
}

/* A page that was not read into, or only in part, is not taken for one that was. */
static void a_spoilt_page_is_wrong_in_every_sector(void **state)
{
    (void)state;
    static uint8_t page[LONGEST], fresh[LONGEST];
    page_pattern_fill(fresh, LONGEST, 9);
    page_pattern_fill(page, LONGEST, 9);
    page_pattern_spoil(page, LONGEST);
    for (size_t sector = 0; sector < LONGEST; sector += 512)
        assert_memory_not_equal(page + sector, fresh + sector, 512);
    page_pattern_spoil(page, 3);
    memcpy(page, fresh, LONGEST - 512);
    assert_true(page_pattern_wrong_bytes(page, LONGEST, 9) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filled_page_is_right),
        cmocka_unit_test(every_changed_byte_is_seen),
        cmocka_unit_test(pages_of_different_ids_share_no_word),
        cmocka_unit_test(a_spoilt_page_is_wrong_in_every_sector),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
