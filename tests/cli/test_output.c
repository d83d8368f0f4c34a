/* What commands print: errors, wrapped text, the progress bar. */
#include "base/status.h"
#include "cli/output.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A stream whose text can be looked at. */
struct page {
    FILE *out;
    char *text;
    size_t length;
};

static void page_open(struct page *page)
{
    *page = (struct page){0};
    page->out = open_memstream(&page->text, &page->length);
    assert_non_null(page->out);
}

static void page_close(struct page *page)
{
    fclose(page->out);
    free(page->text);
}

static void page_is(struct page *page, const char *expected)
{
    fflush(page->out);
    assert_string_equal(page->text, expected);
}

static void test_error(void **state)
{
    (void)state;
    struct page page;
    struct kvs_error error;
    error_set(&error, KVS_ERR_CONFIG_LOAD, "/etc/\x1b[2Jx", "gone");
    page_open(&page);
    output_error(page.out, false, &error);
    page_is(&page, "kvshelf: Failed to load config from /etc/?[2Jx: gone\n"
                   "  see: kvshelf explain KVS-201\n");
    page_close(&page);
    page_open(&page);
    output_error(page.out, true, &error);
    fflush(page.out);
    const char *start =
        "{\"error\":{\"code\":\"KVS-201\",\"symbol\":\"KVS_ERR_CONFIG_LOAD\",\"message\":"
        "\"Failed to load config from /etc/\\u001b[2Jx: gone\",\"retry\":false,"
        "\"remedies\":[\"";
    assert_memory_equal(page.text, start, strlen(start));
    assert_string_equal(page.text + page.length - 5, "\"]}}\n");
    page_close(&page);
}

static void test_wrapped(void **state)
{
    (void)state;
    struct page page;
    char word[200], expected[512];
    memset(word, 'w', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    page_open(&page);
    output_wrapped(
        page.out, 2,
        "A paragraph that is longer than one line of a terminal is broken between two of its "
        "words.\n\nAnother.");
    page_is(&page,
            "  A paragraph that is longer than one line of a terminal is broken between two\n"
            "  of its words.\n\n  Another.\n");
    page_close(&page);
    page_open(&page);
    output_wrapped(page.out, 0, word);
    snprintf(expected, sizeof(expected), "%s\n", word);
    page_is(&page, expected);
    page_close(&page);
    page_open(&page);
    snprintf(expected, sizeof(expected), "%s then", word);
    output_wrapped(page.out, 4, expected);
    snprintf(expected, sizeof(expected), "    %s\n    then\n", word);
    page_is(&page, expected);
    page_close(&page);
}

static void test_item(void **state)
{
    (void)state;
    struct page page;
    page_open(&page);
    output_item(
        page.out, 2,
        "An item that is longer than one line of a terminal is broken between two of its words.");
    page_is(&page, "  - An item that is longer than one line of a terminal is broken between two\n"
                   "    of its words.\n");
    page_close(&page);
}

static void test_buffer(void **state)
{
    (void)state;
    struct page page;
    struct buffer text = {0};
    struct kvs_error error;
    buffer_append_text(&text, "{}");
    page_open(&page);
    assert_int_equal(output_buffer(page.out, &text, &error), KVS_OK);
    page_is(&page, "{}\n");
    text.failed = true;
    assert_int_equal(output_buffer(page.out, &text, &error), KVS_ERR_NO_MEMORY);
    page_is(&page, "{}\n");
    page_close(&page);
    buffer_done(&text);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    fputs("x", full);
    assert_int_equal(output_flush(full, &error), KVS_ERR_OUTPUT);
    assert_string_equal(error.message, "Cannot write the output: No space left on device");
    fclose(full);
}

static struct progress progress_on(struct page *page, bool terminal, bool quiet)
{
    struct progress progress;
    progress_begin(&progress, "replaying", "requests", 2000, quiet);
    progress.out = page->out;
    progress.terminal = terminal;
    progress.columns = 0; /* whatever the tests run on */
    progress.last_ns = 0; /* as if the last drawing was long ago */
    return progress;
}

static void test_progress_on_a_terminal(void **state)
{
    (void)state;
    struct page page;
    page_open(&page);
    struct progress progress = progress_on(&page, true, false);
    progress_update(&progress, 1000);
    fflush(page.out);
    const char *start =
        "\rreplaying [###############...............] 50 %, 1,000 of 2,000 requests, ";
    assert_memory_equal(page.text, start, strlen(start));
    size_t length = page.length;
    progress_update(&progress, 1001); /* too soon */
    fflush(page.out);
    assert_int_equal(page.length, length);
    progress_end(&progress);
    fflush(page.out);
    assert_string_equal(page.text + length, "\r\033[K");
    page_close(&page);
}

static void test_progress_in_a_log(void **state)
{
    (void)state;
    struct page page;
    page_open(&page);
    struct progress progress = progress_on(&page, false, false);
    progress_update(&progress, 500);
    progress_end(&progress);
    fflush(page.out);
    const char *start = "replaying 25 %, 500 of 2,000 requests, ";
    assert_memory_equal(page.text, start, strlen(start));
    assert_int_equal(page.text[page.length - 1], '\n');
    assert_null(strchr(page.text, '\r'));
    page_close(&page);
}

/* A line that is wider than the terminal wraps and cannot be drawn over. */
static void test_progress_on_a_narrow_terminal(void **state)
{
    (void)state;
    struct page page;
    page_open(&page);
    struct progress progress = progress_on(&page, true, false);
    progress.columns = 38;
    progress_update(&progress, 1000);
    fflush(page.out);
    assert_string_equal(page.text, "\rreplaying 50 %, 1,000 of 2,000 reques\033[K");
    page_close(&page);
}

static void test_progress_without_bounds(void **state)
{
    (void)state;
    struct page page;
    page_open(&page);
    struct progress progress = progress_on(&page, true, false);
    progress_update(&progress, 5000); /* more than there should be */
    progress.last_ns = 0;
    progress.total = 0;
    progress_update(&progress, 5);
    progress.last_ns = 0;
    progress_update(&progress, 0);
    progress_end(&progress);
    fflush(page.out);
    assert_non_null(strstr(page.text, "100 %, 5,000 of 2,000 requests"));
    assert_non_null(strstr(page.text, "0 %, 5 of 0 requests"));
    page_close(&page);
}

static void test_quiet_progress(void **state)
{
    (void)state;
    struct page page;
    page_open(&page);
    struct progress progress = progress_on(&page, true, true);
    progress_update(&progress, 1000);
    progress_end(&progress);
    page_is(&page, "");
    page_close(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_wrapped),
        cmocka_unit_test(test_item),
        cmocka_unit_test(test_buffer),
        cmocka_unit_test(test_progress_on_a_terminal),
        cmocka_unit_test(test_progress_in_a_log),
        cmocka_unit_test(test_progress_on_a_narrow_terminal),
        cmocka_unit_test(test_progress_without_bounds),
        cmocka_unit_test(test_quiet_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
