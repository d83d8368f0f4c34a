/* Checksums: the published check values, and that a run may be cut anywhere. */
#include "base/checksum.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

static void test_check_values(void **state)
{
    (void)state;
    assert_true(checksum_page("123456789", 9) == UINT64_C(0x995dc9bbdf1939fa));
    assert_true(checksum_page("", 0) == 0);
    assert_true(checksum_crc32c(0, "123456789", 9) == 0xe3069283);
    assert_true(checksum_crc32c(0, "", 0) == 0);
    /* RFC 3720, B.4: 32 bytes of zeros, and of ones. */
    unsigned char bytes[32];
    memset(bytes, 0, sizeof(bytes));
    assert_true(checksum_crc32c(0, bytes, sizeof(bytes)) == 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_true(checksum_crc32c(0, bytes, sizeof(bytes)) == 0x62a8ab43);
}

static void test_any_cut_gives_the_same(void **state)
{
    (void)state;
    enum { LENGTH = 300 };
    unsigned char bytes[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        bytes[i] = (unsigned char)(i * 37);
    uint32_t whole = checksum_crc32c(0, bytes, LENGTH);
    uint64_t page = checksum_page(bytes, LENGTH);
    for (size_t cut = 0; cut <= LENGTH; cut++) {
        uint32_t head = checksum_crc32c(0, bytes, cut);
        assert_true(checksum_crc32c(head, bytes + cut, LENGTH - cut) == whole);
        uint64_t page_head = checksum_page(bytes, cut);
        assert_true(checksum_page_more(page_head, bytes + cut, LENGTH - cut) == page);
    }
}

static void test_every_bit_counts(void **state)
{
    (void)state;
    unsigned char bytes[64] = {0};
    uint64_t page = checksum_page(bytes, sizeof(bytes));
    uint32_t slot = checksum_crc32c(0, bytes, sizeof(bytes));
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_true(checksum_page(bytes, sizeof(bytes)) != page);
        assert_true(checksum_crc32c(0, bytes, sizeof(bytes)) != slot);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_values),
        cmocka_unit_test(test_any_cut_gives_the_same),
        cmocka_unit_test(test_every_bit_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
