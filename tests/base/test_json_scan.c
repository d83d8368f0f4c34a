/* The scan of strings without SSE2, which other processors use: it must stop where a loop over the
 * bytes stops, and read nothing outside. (test_json.c tests the scan of this processor.) */
#undef __SSE2__
#include "base/json_scan.h"
#include "support/page_end.h"
#include "support/unit.h"

static const char *scan_slowly(const char *at, const char *end)
{
    while (at < end && !json_is_special(*at))
        at++;
    return at;
}

static void test_every_byte_at_every_place(void **state)
{
    (void)state;
    enum { LONGEST = 40 };
    char text[LONGEST];
    for (size_t length = 0; length <= LONGEST; length++) {
        for (size_t place = 0; place < length; place++) {
            for (int byte = 0; byte < 256; byte += length == LONGEST ? 1 : 17) {
                memset(text, 'a', sizeof(text));
                text[place] = (char)byte;
                const char *found = json_scan_plain(text, text + length);
                assert_ptr_equal(found, scan_slowly(text, text + length));
            }
        }
    }
}

/* A special byte right after one that is nearly special: a borrow must not hide or move it. */
static void test_neighbours(void **state)
{
    (void)state;
    static const char NEAR[] = {' ', '!', '#', '[', ']', '\x7f', '~'};
    static const char SPECIAL[] = {'"', '\\', '\x1f', '\0', '\x80', '\xff'};
    for (size_t i = 0; i < sizeof(NEAR); i++) {
        for (size_t j = 0; j < sizeof(SPECIAL); j++) {
            for (size_t place = 0; place < 15; place++) {
                char text[16];
                memset(text, NEAR[i], sizeof(text));
                text[place] = SPECIAL[j];
                assert_ptr_equal(json_scan_plain(text, text + sizeof(text)), text + place);
            }
        }
    }
}

static void test_reads_nothing_outside(void **state)
{
    (void)state;
    char text[64];
    memset(text, 'a', sizeof(text));
    for (size_t length = 0; length <= sizeof(text); length++) {
        struct page_end area = page_end_new(text, length);
        assert_ptr_equal(json_scan_plain(area.bytes, area.bytes + length), area.bytes + length);
        page_end_done(&area);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_at_every_place),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_reads_nothing_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
