/* Bodies and answers of the protocol, without a network: what is written, that every cut or changed
 * answer is either understood or refused, and never read beyond its end. */
#include "metadata/remote_wire.h"
#include "support/page_end.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct metadata_scope scope = {
    .rank = 0, .ns = "kv@\"pp", .bytes_per_page = 4096, .fingerprint = "model=m;"};
#define STATED "{\"namespace\":\"kv@\\\"pp\",\"bytes_per_page\":4096,\"fingerprint\":\"model=m;\""

static const struct metadata_text keys[] = {{"a", 1}, {"\xff", 1}};
#define HASH_FF "sha256:a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89"

static void expect_body(struct buffer *body, const char *expected)
{
    assert_string_equal(buffer_text(body), expected);
    buffer_done(body);
}

static void test_bodies(void **state)
{
    (void)state;
    struct buffer body = {0};
    wire_write_initialize(&body, &scope, 17);
    expect_body(&body, STATED ",\"num_pages\":17}");
    wire_write_keys(&body, WIRE_EXISTS, &scope, keys, 2, true, 0);
    expect_body(&body, STATED ",\"checksums\":true,\"keys\":[\"a\",\"" HASH_FF "\"]}");
    wire_write_keys(&body, WIRE_GET, &scope, keys, 1, false, 0);
    expect_body(&body, STATED ",\"keys\":[\"a\"]}");
    wire_write_keys(&body, WIRE_RESERVE, &scope, keys, 1, true, UINT64_MAX);
    expect_body(&body, STATED ",\"generations\":true,\"owner\":18446744073709551615,"
                              "\"keys\":[[\"a\",\"\"]]}");
    wire_write_keys(&body, WIRE_DELETE, &scope, NULL, 0, true, 0);
    expect_body(&body, STATED ",\"keys\":[]}");
    const struct metadata_confirm confirms[] = {{keys[0], 1, 7, 0xabc}, {keys[1], 2, 0, 0xdef}};
    const struct metadata_release releases[] = {{keys[0], 3, 8}, {keys[1], 4, 0}};
    wire_write_confirm(&body, &scope, confirms, 2, releases, 2);
    expect_body(&body, STATED ",\"written_keys_to_confirm\":[[\"a\",1,7,\"0000000000000abc\"],"
                              "[\"" HASH_FF "\",2]],\"pages_to_release\":[[\"a\",3,8],4]}");
    wire_write_report(&body, &scope, releases, 1);
    expect_body(&body, STATED ",\"pages\":[[\"a\",3,8]]}");
    struct metadata_scope plain = scope;
    plain.fingerprint = NULL;
    plain.ns = "kv";
    wire_write_clear(&body, &plain);
    expect_body(&body, "{\"namespace\":\"kv\",\"bytes_per_page\":4096}");
}

static void test_parts(void **state)
{
    (void)state;
    enum { MANY = 40001 };
    struct metadata_text *many = calloc(MANY, sizeof(*many));
    for (size_t i = 0; i < MANY; i++)
        many[i] = (struct metadata_text){"key", 3};
    assert_int_equal(wire_part(many, 0), 0);
    assert_int_equal(wire_part(many, 1), 1);
    assert_int_equal(wire_part(many, 3), 3);
    assert_int_equal(wire_part(many, MANY), 32768);
    for (size_t i = 0; i < MANY; i++)
        many[i].length = KEY_TEXT_MAX; /* only counted */
    size_t part = wire_part(many, MANY);
    assert_true(part > 2 && part % 2 == 0 && part * KEY_TEXT_MAX * 6 <= 16 << 20);
    for (size_t i = 0; i < MANY; i++)
        many[i].length = SIZE_MAX; /* sent as a digest */
    assert_int_equal(wire_part(many, MANY), part);
    free(many);
}

/* ---- Answers -------------------------------------------------------------------------------- */

enum kind { RESERVED, FOUND, EXISTS, REJECTED };

static const struct metadata_confirm confirmed[] = {{{"a", 1}, 1, 7, 1}, {{"b", 1}, 2, 8, 2}};
static const struct metadata_release released[] = {{{"c", 1}, 3, 9}};

/* Reads an answer of two keys that ends at the end of a mapped page. Returns whether it is good; a
 * refusal says why. */
static bool read_answer(enum kind kind, const char *bytes, size_t length)
{
    char fault[WIRE_FAULT_MAX] = "";
    struct page_end end = page_end_new(bytes, length);
    bool native, exists[2];
    struct catalog_reserved reserved[2];
    struct catalog_found found[2];
    enum catalog_rejection reasons[2] = {0};
    const struct buffer answer = {.data = end.bytes, .length = length};
    bool good = kind == RESERVED ? wire_read_reserved(&answer, 2, reserved, &native, fault)
                : kind == FOUND  ? wire_read_found(&answer, 2, found, &native, fault)
                : kind == EXISTS
                    ? wire_read_exists(&answer, 2, exists, fault)
                    : wire_read_rejected(&answer, confirmed, 2, released, 1, reasons, fault);
    char detail[KVS_ERROR_MESSAGE_MAX];
    wire_read_detail(&answer, detail);
    page_end_done(&end);
    if (!good)
        assert_string_not_equal(fault, "");
    return good;
}

static const struct {
    enum kind kind;
    const char *text;
} good[] = {
    {RESERVED, "{\"indices\":[[false,5],[true,6]],\"generations\":[1,2]}"},
    {RESERVED, "{\"generations\":[null,2],\"more\":{\"x\":[1]},\"indices\":[[false,-1],[true,0]]}"},
    {RESERVED, " { \"indices\" : [ [ false , null ] , [ true , 6 ] ] } "},
    {FOUND, "{\"indices\":[5,null],\"checksums\":[\"0123456789abcDEF\",null],"
            "\"generations\":[9,null]}"},
    {FOUND, "{\"indices\":[5,-3]}"},
    {EXISTS, "{\"exists\":[true,false]}"},
    {REJECTED, "{\"rejected\":[{\"key\":\"\\u0061\",\"page_index\":1,\"reason\":\"x\"},"
               "{\"key\":\"c\",\"page_index\":3,\"reason\":\"y\",\"also\":null}]}"},
};

static const struct {
    enum kind kind;
    const char *text;
} wrong[] = {
    {RESERVED, ""},
    {RESERVED, "null"},
    {RESERVED, "{\"generations\":[1,2]}"},
    {RESERVED, "{\"indices\":[[false,5]]}"},
    {RESERVED, "{\"indices\":[[false,5],[true,6],[true,7]]}"},
    {RESERVED, "{\"indices\":[[false,5],[true]]}"},
    {RESERVED, "{\"indices\":[[false,5],[true,6,7]]}"},
    {RESERVED, "{\"indices\":[[0,5],[true,6]]}"},
    {RESERVED, "{\"indices\":[[false,5],[true,9223372036854775808]]}"},
    {RESERVED, "{\"indices\":[[false,5],[true,6]],\"generations\":[1]}"},
    {RESERVED, "{\"indices\":[[false,5],[true,6]],\"generations\":[1,-2]}"},
    {FOUND, "{\"indices\":{}}"},
    {FOUND, "{\"indices\":[1,2],\"checksums\":[\"0123456789abcde\",null]}"},
    {FOUND, "{\"indices\":[1,2],\"checksums\":[\"0123456789abcdefg\",null]}"},
    {FOUND, "{\"indices\":[1,2],\"checksums\":[\"0123456789abcdeg\",null]}"},
    {FOUND, "{\"indices\":[1,2],\"checksums\":[7,null]}"},
    {FOUND, "{\"indices\":[1,2],\"generations\":[1,2,3]}"},
    {EXISTS, "{\"exists\":[true]}"},
    {EXISTS, "{\"exists\":[true,null]}"},
    {EXISTS, "{\"exists\":[true,false]}x"},
    {REJECTED, "{\"rejected\":[{\"key\":\"z\",\"page_index\":1,\"reason\":\"x\"}]}"},
    {REJECTED, "{\"rejected\":[{\"key\":\"a\",\"page_index\":99,\"reason\":\"x\"}]}"},
};

static void test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!read_answer(good[i].kind, good[i].text, strlen(good[i].text)))
            fail_msg("refused: %s", good[i].text);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (read_answer(wrong[i].kind, wrong[i].text, strlen(wrong[i].text)))
            fail_msg("taken: %s", wrong[i].text);
}

/* Every cut is refused; every change of one byte is read to an end. */
static void test_cut_and_changed_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char text[256];
        size_t length = strlen(good[i].text);
        while (good[i].text[length - 1] == ' ')
            length--;
        for (size_t cut = 0; cut < length; cut++)
            assert_false(read_answer(good[i].kind, good[i].text, cut));
        for (size_t at = 0; at < length; at++)
            for (const char *c = "\"[]{},:0-x\\\n\xff"; *c != '\0'; c++) {
                memcpy(text, good[i].text, length);
                text[at] = *c;
                read_answer(good[i].kind, text, length);
            }
    }
}

static void test_details(void **state)
{
    (void)state;
    static const struct {
        const char *body, *detail;
    } cases[] = {
        {"{\"detail\":\"why\"}", "why"},
        {"{\"detail\":[{\"loc\":1}]}", ""},
        {"{\"x\":1,\"detail\":\"a\\nb\"}", "a?b"},
        {"Internal Server Error", ""},
        {"", ""},
        {"{\"detail\":\"cut", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char detail[KVS_ERROR_MESSAGE_MAX], body[64];
        snprintf(body, sizeof(body), "%s", cases[i].body);
        const struct buffer answer = {.data = body, .length = strlen(body)};
        wire_read_detail(&answer, detail);
        assert_string_equal(detail, cases[i].detail);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies),  cmocka_unit_test(test_parts),
        cmocka_unit_test(test_answers), cmocka_unit_test(test_cut_and_changed_answers),
        cmocka_unit_test(test_details),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
