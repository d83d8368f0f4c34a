/* The ways of decoding a key's digits, each against a loop over the digits: the program takes one
 * of them by the processor, the test all that this one can run. */
#include "catalog/key_decode.h"
#include "support/unit.h"

typedef bool (*decode_fn)(uint8_t ret_digest[KEY_DIGEST_BYTES], const char *text);

enum { DIGITS = 2 * KEY_DIGEST_BYTES };

static bool decode_by_1(uint8_t ret_digest[KEY_DIGEST_BYTES], const char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < DIGITS; i++) {
        const char *found = text[i] == '\0' ? NULL : strchr(digits, text[i]);
        if (found == NULL)
            return false;
        unsigned value = (unsigned)(found - digits);
        ret_digest[i / 2] = (uint8_t)(i % 2 == 0 ? value << 4 : ret_digest[i / 2] | value);
    }
    return true;
}

static void compare(decode_fn decode, const char *text)
{
    uint8_t expected[KEY_DIGEST_BYTES], got[KEY_DIGEST_BYTES];
    bool good = decode_by_1(expected, text);
    assert_int_equal(decode(got, text), good);
    if (good)
        assert_memory_equal(got, expected, sizeof(got));
}

/* Each byte at each place, among digits that differ from place to place. */
static void try_all(decode_fn decode)
{
    char text[DIGITS];
    for (int shift = 0; shift < 16; shift++)
        for (int at = 0; at < DIGITS; at++)
            for (int byte = 0; byte < 256; byte++) {
                for (int i = 0; i < DIGITS; i++)
                    text[i] = "0123456789abcdef"[(i * 5 + i / 16 + shift) % 16];
                text[at] = (char)byte;
                compare(decode, text);
            }
}

static void digits_are_decoded_by_the_word(void **state)
{
    (void)state;
    try_all(key_decode_by_8);
}

#ifdef __SSE2__
static void digits_are_decoded_by_sixteen(void **state)
{
    (void)state;
    try_all(key_decode_by_16);
}

static void digits_are_decoded_by_thirty_two(void **state)
{
    (void)state;
    if (!__builtin_cpu_supports("avx2")) {
        print_message("skipped: no AVX2 here\n");
        skip();
    }
    try_all(key_decode_by_32);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_are_decoded_by_the_word),
#ifdef __SSE2__
        cmocka_unit_test(digits_are_decoded_by_sixteen),
        cmocka_unit_test(digits_are_decoded_by_thirty_two),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
