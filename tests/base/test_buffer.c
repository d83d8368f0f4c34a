/* The byte buffer: growth, texts, reading a file, and what lack of memory does. */
#include "base/buffer.h"
#include "support/unit.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static void test_grows(void **state)
{
    (void)state;
    struct buffer buffer = {0};
    for (int i = 0; i < 10000; i++)
        buffer_append_char(&buffer, (char)('a' + i % 26));
    assert_int_equal(buffer.length, 10000);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(buffer.data[i], 'a' + i % 26);
    buffer_append(&buffer, NULL, 0);
    assert_int_equal(buffer.length, 10000);
    buffer_done(&buffer);
    assert_null(buffer.data);
    buffer_done(&buffer);
}

static void test_texts(void **state)
{
    (void)state;
    struct buffer buffer = {0};
    assert_string_equal(buffer_text(&buffer), "");
    buffer_append_text(&buffer, "page ");
    buffer_append_format(&buffer, "%d of %s", 7, "12");
    assert_string_equal(buffer_text(&buffer), "page 7 of 12");
    assert_int_equal(buffer.length, 12);
    buffer_clear(&buffer);
    assert_string_equal(buffer_text(&buffer), "");
    buffer_done(&buffer);
}

/* A size that no machine has: remembered, nothing is appended after it, clear() forgets it. */
static void test_no_memory(void **state)
{
    (void)state;
    struct buffer buffer = {0};
    buffer_append_text(&buffer, "kept");
    assert_false(buffer_reserve(&buffer, SIZE_MAX));
    assert_true(buffer.failed);
    buffer_append_text(&buffer, "lost");
    buffer_append_char(&buffer, 'x');
    buffer_append_format(&buffer, "%d", 1);
    assert_int_equal(buffer.length, 4);
    assert_false(buffer_reserve(&buffer, 1));
    assert_string_equal(buffer_text(&buffer), "");
    buffer_clear(&buffer);
    buffer_append_text(&buffer, "again");
    assert_string_equal(buffer_text(&buffer), "again");
    buffer_done(&buffer);
}

static void test_reads_a_file(void **state)
{
    (void)state;
    enum { BYTES = 200000 };
    char path[] = "/tmp/kvshelf-buffer-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    char *bytes = malloc(BYTES);
    assert_non_null(bytes);
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (char)i;
    assert_int_equal(write(fd, bytes, BYTES), BYTES);
    static const struct {
        size_t limit;
        int expected;
    } limits[] = {{SIZE_MAX, 0}, {BYTES, 0}, {BYTES - 1, EFBIG}, {0, EFBIG}};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct buffer buffer = {0};
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_int_equal(buffer_read_fd(&buffer, fd, limits[i].limit), limits[i].expected);
        if (limits[i].expected == 0) {
            assert_int_equal(buffer.length, BYTES);
            assert_memory_equal(buffer.data, bytes, BYTES);
        }
        buffer_done(&buffer);
    }
    free(bytes);
    close(fd);
    struct buffer buffer = {0};
    assert_int_equal(buffer_read_fd(&buffer, fd, SIZE_MAX), EBADF);
    buffer_done(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_reads_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
