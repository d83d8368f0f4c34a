/* Slots: a sealed one is intact, any other content is not. */
#include "catalog/slot.h"
#include "support/unit.h"

#include <string.h>

static struct slot sample(void)
{
    struct slot slot = {.generation = 0x0001020304050607, .value = 0x1122334455667788};
    for (int i = 0; i < KEY_DIGEST_BYTES; i++)
        slot.digest[i] = (uint8_t)(i * 7 + 1);
    return slot;
}

static void a_sealed_slot_tells_what_was_sealed(void **state)
{
    (void)state;
    static const enum slot_state states[] = {SLOT_FREE, SLOT_RESERVED, SLOT_COMMITTED,
                                             SLOT_RETIRED};
    static const uint32_t pages[] = {0, 1, 255, 1u << 29, UINT32_MAX};
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        for (size_t j = 0; j < sizeof(pages) / sizeof(pages[0]); j++) {
            for (uint8_t flags = 0; flags <= SLOT_HAS_CHECKSUM; flags++) {
                struct slot slot = sample();
                slot_seal(&slot, pages[j], KEY_V, states[i], flags);
                assert_true(slot_intact(&slot, pages[j]));
                assert_int_equal(slot_state(&slot), states[i]);
                assert_int_equal(slot_suffix(&slot), KEY_V);
                assert_int_equal(slot_has_checksum(&slot), flags);
            }
        }
    }
}

static void a_page_never_used_is_intact(void **state)
{
    (void)state;
    struct slot slot = {.seal = 0};
    assert_true(slot_intact(&slot, 0));
    assert_true(slot_intact(&slot, 12345));
    assert_int_equal(slot_state(&slot), SLOT_FREE);
}

/* A slot of zeros with a bit set anywhere is a torn first change. */
static void one_bit_makes_a_never_used_page_torn(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 512; bit++) {
        struct slot slot = {.seal = 0};
        ((uint8_t *)&slot)[bit / 8] = (uint8_t)(1 << bit % 8);
        assert_false(slot_intact(&slot, 0));
    }
}

static bool bit_counts(unsigned bit, bool value_counts)
{
    if (bit / 8 >= offsetof(struct slot, unused) && bit / 8 < offsetof(struct slot, seal))
        return false;
    if (bit / 8 >= offsetof(struct slot, value) && bit / 8 < offsetof(struct slot, unused))
        return value_counts;
    return true;
}

static void every_bit_that_counts_is_under_the_crc(void **state)
{
    (void)state;
    static const struct {
        enum slot_state state;
        uint8_t flags;
        bool value_counts;
    } cases[] = {
        {SLOT_FREE, 0, false},
        {SLOT_RESERVED, 0, false},
        {SLOT_RESERVED, SLOT_HAS_CHECKSUM, false},
        {SLOT_COMMITTED, 0, false},
        {SLOT_COMMITTED, SLOT_HAS_CHECKSUM, true},
        {SLOT_RETIRED, 0, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slot slot = sample();
        slot_seal(&slot, 3, KEY_PLAIN, cases[i].state, cases[i].flags);
        for (unsigned bit = 0; bit < 512; bit++) {
            struct slot flipped = slot;
            ((uint8_t *)&flipped)[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_int_equal(slot_intact(&flipped, 3), !bit_counts(bit, cases[i].value_counts));
        }
    }
}

static void a_slot_at_another_pages_place_is_not_intact(void **state)
{
    (void)state;
    struct slot slot = sample();
    slot_seal(&slot, 7, KEY_PLAIN, SLOT_COMMITTED, SLOT_HAS_CHECKSUM);
    for (uint32_t page = 0; page < 1000; page++)
        assert_int_equal(slot_intact(&slot, page), page == 7);
}

/* The format: where each field is, so that files stay readable. */
static void the_layout_is_that_of_the_format(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct slot), 64);
    assert_int_equal(offsetof(struct slot, digest), 0);
    assert_int_equal(offsetof(struct slot, generation), 32);
    assert_int_equal(offsetof(struct slot, value), 40);
    assert_int_equal(offsetof(struct slot, seal), 56);
    assert_int_equal(sizeof(struct catalog_state), 32);

    struct slot slot = {.generation = 1};
    slot_seal(&slot, 0, KEY_PLAIN, SLOT_COMMITTED, SLOT_HAS_CHECKSUM);
    assert_int_equal(slot.seal & UINT32_MAX, 1 | 2 << 16 | 1 << 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sealed_slot_tells_what_was_sealed),
        cmocka_unit_test(a_page_never_used_is_intact),
        cmocka_unit_test(one_bit_makes_a_never_used_page_torn),
        cmocka_unit_test(every_bit_that_counts_is_under_the_crc),
        cmocka_unit_test(a_slot_at_another_pages_place_is_not_intact),
        cmocka_unit_test(the_layout_is_that_of_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
