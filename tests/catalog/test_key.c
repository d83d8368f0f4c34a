/* Keys: what is packed without loss, what is hashed, and which keys are halves of one pair. */
#include "catalog/key.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#define DIGITS "00112233445566778899aabbccddeeff0123456789abcdef0f1e2d3c4b5a6978"

static struct key parse(const char *text, const char *ns)
{
    struct key key;
    key_parse(&key, text, strlen(text), ns);
    return key;
}

static void known_suffixes_are_packed_without_loss(void **state)
{
    (void)state;
    static const struct {
        const char *text, *ns;
        enum key_suffix suffix;
    } cases[] = {
        {DIGITS, "kv", KEY_PLAIN},
        {DIGITS "-k", "kv", KEY_K},
        {DIGITS "-v", "kv", KEY_V},
        {DIGITS "_kv", "kv", KEY_POOL},
        {DIGITS "_mamba", "mamba", KEY_POOL},
        {DIGITS "_mamba", "mamba@pp1of2", KEY_POOL},
        {DIGITS "_", "", KEY_POOL},
        {DIGITS "_", "@pp1of2", KEY_POOL},
        {DIGITS "_-k", "-k", KEY_POOL},
    };
    static const uint8_t digest[] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                     0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
                                     0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                     0x0f, 0x1e, 0x2d, 0x3c, 0x4b, 0x5a, 0x69, 0x78};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct key key = parse(cases[i].text, cases[i].ns);
        assert_int_equal(key.suffix, cases[i].suffix);
        assert_memory_equal(key.digest, digest, sizeof(digest));
        char text[128];
        assert_int_equal(key_format(&key, cases[i].ns, text, sizeof(text)), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
}

static void anything_else_is_hashed(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "a",
        "page-17",
        DIGITS "-K",
        DIGITS "-kv",
        DIGITS "-",
        DIGITS "k",
        DIGITS "_mamba2",
        DIGITS "_mamb",
        DIGITS "_kv",
        DIGITS "_mamba@pp1of2",
        DIGITS "0",
        DIGITS DIGITS,
        "0011223344556677889 aabbccddeeff0123456789abcdef0f1e2d3c4b5a6978",
        "00112233445566778899AABBCCDDEEFF0123456789abcdef0f1e2d3c4b5a6978",
        "00112233445566778899aabbccddeeff0123456789abcdef0f1e2d3c4b5a697",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(cases[i], "mamba").suffix, KEY_HASHED);
        for (size_t j = 0; j < i; j++) {
            struct key a = parse(cases[i], "mamba"), b = parse(cases[j], "mamba");
            assert_false(key_equal(&a, &b));
        }
    }
}

/* Every byte value at every place: only 0-9 and a-f are digits. */
static void only_lower_case_digits_are_digits(void **state)
{
    (void)state;
    for (int place = 0; place < 64; place++) {
        for (int byte = 0; byte < 256; byte++) {
            char text[] = DIGITS;
            text[place] = (char)byte;
            struct key key;
            key_parse(&key, text, 64, "kv");
            bool digit = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
            assert_int_equal(key.suffix, digit ? KEY_PLAIN : KEY_HASHED);
            if (!digit)
                continue;
            char back[80];
            key_format(&key, "kv", back, sizeof(back));
            assert_memory_equal(back, text, 64);
        }
    }
}

static void a_hashed_key_is_the_sha256_of_its_text(void **state)
{
    (void)state;
    struct key key = parse("abc", "kv");
    char text[72];
    assert_int_equal(key_format(&key, "kv", text, sizeof(text)), 71);
    assert_string_equal(text,
                        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void zero_bytes_and_long_texts_are_keys_too(void **state)
{
    (void)state;
    struct key a, b, c;
    key_parse(&a, "a\0b", 3, "kv");
    key_parse(&b, "a\0c", 3, "kv");
    key_parse(&c, "a", 1, "kv");
    assert_false(key_equal(&a, &b));
    assert_false(key_equal(&a, &c));

    char text[KEY_TEXT_MAX];
    memset(text, 'x', sizeof(text));
    key_parse(&a, text, sizeof(text), "kv");
    text[KEY_TEXT_MAX - 1] = 'y';
    key_parse(&b, text, sizeof(text), "kv");
    assert_false(key_equal(&a, &b));
}

/* A hashed key never equals a packed one, not even one whose digits are that hash. */
static void hashed_and_packed_keys_do_not_meet(void **state)
{
    (void)state;
    struct key hashed = parse("abc", "kv");
    struct key packed =
        parse("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "kv");
    assert_memory_equal(hashed.digest, packed.digest, KEY_DIGEST_BYTES);
    assert_false(key_equal(&hashed, &packed));
}

static void halves_know_each_other(void **state)
{
    (void)state;
    struct key k = parse(DIGITS "-k", "kv"), v = parse(DIGITS "-v", "kv"), other;
    assert_true(key_other_half(&k, &other));
    assert_true(key_equal(&other, &v));
    assert_true(key_other_half(&v, &other));
    assert_true(key_equal(&other, &k));

    static const char *const whole[] = {DIGITS, DIGITS "_kv", "abc-k"};
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        struct key key = parse(whole[i], "kv"), untouched = k;
        assert_false(key_other_half(&key, &untouched));
        assert_true(key_equal(&untouched, &k));
    }
}

/* The text is not read past its length: it may end where memory ends. */
static void the_text_needs_no_terminator(void **state)
{
    (void)state;
    char text[66];
    memcpy(text, DIGITS "-k", 66);
    struct key key;
    key_parse(&key, text, 66, "kv");
    assert_int_equal(key.suffix, KEY_K);
    key_parse(&key, text, 64, "kv");
    assert_int_equal(key.suffix, KEY_PLAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_suffixes_are_packed_without_loss),
        cmocka_unit_test(anything_else_is_hashed),
        cmocka_unit_test(only_lower_case_digits_are_digits),
        cmocka_unit_test(a_hashed_key_is_the_sha256_of_its_text),
        cmocka_unit_test(zero_bytes_and_long_texts_are_keys_too),
        cmocka_unit_test(hashed_and_packed_keys_do_not_meet),
        cmocka_unit_test(halves_know_each_other),
        cmocka_unit_test(the_text_needs_no_terminator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
