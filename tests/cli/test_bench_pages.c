/* kvshelf bench pages measures what it says, on a small file and for a moment: every mover moves
 * whole pages, and the ratios are to the better peer. */
#include "base/json.h"
#include "cli/bench_pages.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void count_turn(void *arg)
{
    ++*(uint64_t *)arg;
}

static void check_cell(const struct pages_cell *cell, bool uring)
{
    assert_true(cell->median[MOVER_LOOP] > 0);
    assert_true(cell->median[MOVER_POSIX] > 0 && cell->median[MOVER_POSIX_CHECKSUM] > 0);
    assert_true(!uring ||
                (cell->median[MOVER_URING] > 0 && cell->median[MOVER_URING_CHECKSUM] > 0));
    assert_true(cell->median[MOVER_FIO] == 0); /* was not asked for */
    assert_true(cell->ratio[MOVER_LOOP] == 1);
    assert_true(cell->ratio[MOVER_POSIX] > 0);
}

static void test_pages(void **state)
{
    (void)state;
    static struct pages_bench bench;
    bench = (struct pages_bench){
        .file_bytes = 20000000, .turn_ms = 1, .rounds = 1, .depth = 4, .batch = 2, .cached = true};
    char path[] = "bench-pages-XXXXXX";
    int fd = mkstemp(path);
    close(fd);
    uint64_t turns = 0;
    struct kvs_error error = {.message = ""};
    enum kvs_status status = pages_bench_run(&bench, path, count_turn, &turns, &error);
    unlink(path);
    assert_string_equal(error.message, "");
    assert_int_equal(status, KVS_OK);
    assert_int_equal(turns, pages_bench_turns(&bench));
    assert_int_equal(bench.n_cells, 8);
    bool uring = bench.cells[0].median[MOVER_URING] > 0;
    for (size_t i = 0; i < bench.n_cells; i++) {
        check_cell(&bench.cells[i], uring);
    }

    struct buffer out = {0};
    pages_bench_json(&bench, &out);
    buffer_append_char(&out, '\0');
    assert_false(out.failed);
    assert_non_null(strstr(out.data, uring ? "\"uring_checksum\":{" : "\"uring_checksum\":null"));
    assert_non_null(strstr(out.data, "\"fio\":null"));
    buffer_done(&out);
    FILE *shown = tmpfile();
    pages_bench_print(&bench, shown);
    assert_true(ftell(shown) > 1000);
    fclose(shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
