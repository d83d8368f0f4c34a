/* The engines for tests do what they are told: otherwise the tests that stand on them prove
 * nothing. */
#include "base/checksum.h"
#include "pagefile/pagefile.h"
#include "support/engine_delay.h"
#include "support/engine_fault.h"
#include "support/engine_mem.h"
#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 16384, PAGES = 8, SEED = 7 };

static struct mem_disk *disk;

static int set_up(void **state)
{
    (void)state;
    disk = mem_disk_new(PAGE * PAGES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    disk = mem_disk_free(disk);
    return 0;
}

static struct page_io one(struct pagefile *file, enum page_direction direction, uint64_t page,
                          void *buffer)
{
    struct page_batch *batch = page_batch_new(direction, 1, NULL, NULL);
    *page_batch_ios(batch) = (struct page_io){
        .offset = page * PAGE, .buffer = buffer, .length = PAGE, .want_checksum = true};
    assert_int_equal(file->ops->run(file, batch, 0), KVS_OK);
    struct page_io io = *page_batch_ios(batch);
    page_batch_abandon(batch);
    return io;
}

/* How many bytes of the page differ from `byte`. */
static size_t others(struct pagefile *file, uint64_t page, char byte)
{
    static char buffer[PAGE];
    assert_int_equal(one(file, PAGE_READ, page, buffer).result, PAGE);
    size_t n = 0;
    for (size_t i = 0; i < PAGE; i++) {
        n += buffer[i] != byte;
    }
    return n;
}

static void test_faults(void **state)
{
    (void)state;
    static const struct {
        enum fault_kind kind;
        int64_t result;
        size_t wrong_after_write, wrong_after_read; /* bytes that are not what they should be */
    } rows[] = {
        {FAULT_NONE, PAGE, 0, 0},
        {FAULT_ERROR, -ENOSPC, PAGE, PAGE},
        {FAULT_SHORT, PAGE / 2, PAGE / 2, PAGE / 2},
        {FAULT_LONG, PAGE + 1, 0, 0},
        {FAULT_TORN, -ENOSPC, PAGE / 2, PAGE / 2},
        {FAULT_LOST, PAGE, PAGE, PAGE},
        {FAULT_FLIP, PAGE, 1, 1},
    };
    struct pagefile *file = engine_fault_new(engine_mem_new(disk), SEED);
    char buffer[PAGE];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fault_rule none = {.kind = FAULT_NONE};
        engine_fault_set(file, &none);
        memset(buffer, 0, PAGE);
        one(file, PAGE_WRITE, 1, buffer);
        struct fault_rule rule = {
            .kind = rows[i].kind, .error_number = ENOSPC, .writes = true, .nth = 1};
        engine_fault_set(file, &rule);
        memset(buffer, 'w', PAGE);
        struct page_io io = one(file, PAGE_WRITE, 1, buffer);
        assert_int_equal(io.result, rows[i].result);
        assert_true(io.result != PAGE || io.checksum == checksum_page(buffer, PAGE));
        assert_int_equal(others(file, 1, 'w'), rows[i].wrong_after_write);

        memset(buffer, 'w', PAGE);
        one(file, PAGE_WRITE, 1, buffer);
        rule.writes = false, rule.reads = true;
        engine_fault_set(file, &rule);
        memset(buffer, 'r', PAGE);
        io = one(file, PAGE_READ, 1, buffer);
        assert_int_equal(io.result, rows[i].result);
        assert_true(io.result != PAGE || io.checksum == checksum_page(buffer, PAGE));
        size_t wrong = 0;
        for (size_t b = 0; b < PAGE; b++) {
            wrong += buffer[b] != 'w';
        }
        assert_int_equal(wrong, rows[i].wrong_after_read);
    }
    file->ops->close(file);
}

static void test_nth(void **state)
{
    (void)state;
    struct pagefile *file = engine_fault_new(engine_mem_new(disk), SEED);
    char buffer[PAGE] = {0};
    for (int from_then_on = 0; from_then_on < 2; from_then_on++) {
        struct fault_rule rule = {.kind = FAULT_ERROR,
                                  .error_number = EIO,
                                  .writes = true,
                                  .nth = 3,
                                  .from_then_on = from_then_on};
        engine_fault_set(file, &rule);
        for (uint64_t i = 1; i <= 5; i++) {
            bool fails = i == 3 || (from_then_on && i > 3);
            assert_int_equal(one(file, PAGE_READ, 0, buffer).result, PAGE);
            assert_int_equal(one(file, PAGE_WRITE, 0, buffer).result, fails ? -EIO : PAGE);
        }
        assert_int_equal(engine_fault_counted(file), 5);
        assert_int_equal(engine_fault_fired(file), from_then_on ? 3 : 1);
    }
    struct fault_rule rule = {.kind = FAULT_ERROR, .error_number = EIO, .syncs = true, .nth = 2};
    engine_fault_set(file, &rule);
    assert_int_equal(file->ops->sync(file, NULL), KVS_OK);
    assert_int_equal(file->ops->sync(file, NULL), KVS_ERR_FILE_SYNC);
    assert_int_equal(file->ops->sync(file, NULL), KVS_OK);
    file->ops->close(file);
}

static void test_crash(void **state)
{
    (void)state;
    size_t lost = 0, kept = 0, torn = 0, older = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct pagefile *file = engine_fault_new(engine_mem_new(disk), seed);
        engine_fault_journal(file);
        char buffer[PAGE];
        memset(buffer, 'a', PAGE);
        one(file, PAGE_WRITE, 0, buffer);
        one(file, PAGE_WRITE, 1, buffer);
        assert_int_equal(file->ops->sync(file, NULL), KVS_OK);
        memset(buffer, 'b', PAGE);
        one(file, PAGE_WRITE, 1, buffer);
        memset(buffer, 'c', PAGE);
        one(file, PAGE_WRITE, 1, buffer);
        assert_int_equal(others(file, 1, 'c'), 0);
        assert_int_equal(engine_fault_crash(file), 2);
        assert_int_equal(engine_fault_crash(file), 0);
        assert_int_equal(others(file, 0, 'a'), 0); /* what was synced stays */
        size_t a = PAGE - others(file, 1, 'a'), b = PAGE - others(file, 1, 'b'),
               c = PAGE - others(file, 1, 'c');
        assert_int_equal(a + b + c, PAGE);
        lost += a == PAGE;
        kept += c == PAGE;
        older += b == PAGE;
        torn += a % PAGE != 0 || b % PAGE != 0 || c % PAGE != 0;
        file->ops->close(file);
    }
    assert_true(lost > 0 && kept > 0 && torn > 0 && older > 0);
}

/* ---- Delay ----------------------------------------------------------------------------------*/

struct call {
    struct pagefile *file;
    struct page_batch *batch;
    uint64_t deadline_ns;
    enum kvs_status status;
};

static void *call_main(void *arg)
{
    struct call *call = arg;
    call->status = call->file->ops->run(call->file, call->batch, call->deadline_ns);
    return NULL;
}

static void count_idle(void *arg)
{
    ++*(unsigned *)arg;
}

static struct page_batch *reads(char *buffer, unsigned *idle)
{
    struct page_batch *batch = page_batch_new(PAGE_READ, PAGES, idle ? count_idle : NULL, idle);
    for (uint64_t i = 0; i < PAGES; i++) {
        page_batch_ios(batch)[i] =
            (struct page_io){.offset = i * PAGE, .buffer = buffer + i * PAGE, .length = PAGE};
    }
    return batch;
}

static void test_hold_and_release(void **state)
{
    (void)state;
    struct delay_options options = {.seed = SEED, .network = true};
    struct pagefile *file = engine_delay_new(engine_mem_new(disk), &options);
    assert_true(file->ops->info(file).needs_deadline);
    static char buffer[PAGES * PAGE];
    struct call call = {.file = file, .batch = reads(buffer, NULL)};
    engine_delay_hold(file);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, call_main, &call), 0);
    engine_delay_wait_held(file, PAGES);
    engine_delay_release(file, PAGES - 1);
    engine_delay_release(file, 1);
    pthread_join(thread, NULL);
    assert_int_equal(call.status, KVS_OK);
    assert_int_equal(engine_delay_held(file), 0);
    page_batch_abandon(call.batch);
    file->ops->close(file);
}

/* Late I/O writes into its buffer when it ends, which is after the call; its buffer is then freed.
 */
static void test_overdue(void **state)
{
    (void)state;
    struct delay_options options = {.seed = SEED};
    struct pagefile *file = engine_delay_new(engine_mem_new(disk), &options);
    static char buffer[PAGES * PAGE];
    memset(buffer, 'x', sizeof(buffer));
    unsigned idle = 0;
    struct call call = {.file = file, .batch = reads(buffer, &idle), .deadline_ns = 1};
    engine_delay_hold(file);
    call_main(&call);
    assert_int_equal(call.status, KVS_ERR_IO_DEADLINE);
    for (size_t i = 0; i < PAGES; i++) {
        assert_false(page_batch_ios(call.batch)[i].done);
    }
    page_batch_abandon(call.batch);
    assert_int_equal(engine_delay_held(file), PAGES);
    assert_int_equal(buffer[0], 'x');
    assert_int_equal(idle, 0);
    engine_delay_release(file, SIZE_MAX);
    file->ops->close(file); /* ends what is held */
    assert_int_equal(idle, 1);
    assert_int_equal(buffer[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_faults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nth, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_crash, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hold_and_release, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_overdue, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
