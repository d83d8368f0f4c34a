/* A ring whose kernel side stops working in the middle of a batch.
 *
 * The nth time that it hands work over the ring loses its descriptor, so that this call and every
 * later one, waiting included, is refused by the kernel itself, while what was handed over before
 * is still under way; n goes up until a run passes without. Each I/O is given to the kernel's
 * threads, so that there is something under way. */
#include "base/checksum.h"
#include "pagefile/batch.h"
#include "pagefile/file.h"
#include "pagefile/ring.h"
#include "support/unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 65536, PAGES = 24, DEPTH = 4, FAILURES_MAX = 500 };

/* ---- The call that hands work over, which ring.c gets instead of liburing's ------------------*/

static struct {
    bool armed;
    bool short_of_memory; /* every other call is refused for now */
    unsigned until;       /* so many calls are let through */
    unsigned calls;
    unsigned handed;    /* I/Os, over all calls */
    bool failed;        /* the ring has lost its descriptor */
    unsigned failures;  /* over all runs */
    unsigned in_flight; /* of them, with I/O under way */
} kernel;

static int (*real_of(const char *name))(struct io_uring *, unsigned)
{
    int (*real)(struct io_uring *, unsigned);
    *(void **)&real = dlsym(RTLD_NEXT, name);
    assert_non_null(real);
    return real;
}

static void give_to_threads(struct io_uring *uring)
{
    const struct io_uring_sq *sq = &uring->sq;
    for (unsigned i = *sq->khead; i != sq->sqe_tail; i++) {
        sq->sqes[i & *sq->kring_mask].flags |= IOSQE_ASYNC;
    }
}

static int hand_over(struct io_uring *uring, const char *name, unsigned wait_for)
{
    if (kernel.armed && !kernel.failed && kernel.until-- == 0) {
        kernel.failed = true;
        kernel.failures++;
        kernel.in_flight += kernel.handed > *uring->cq.khead;
        uring->enter_ring_fd = -1;
    }
    if (kernel.armed) {
        give_to_threads(uring);
    }
    if (kernel.armed && kernel.short_of_memory && kernel.calls++ % 2 == 0) {
        return -EAGAIN;
    }
    int got = real_of(name)(uring, wait_for);
    kernel.handed += got > 0 ? (unsigned)got : 0;
    return got;
}

int io_uring_submit(struct io_uring *uring)
{
    return hand_over(uring, "io_uring_submit", 0);
}

int io_uring_submit_and_wait(struct io_uring *uring, unsigned wait_for)
{
    return hand_over(uring, "io_uring_submit_and_wait", wait_for);
}

/* ---- A file and batches over it --------------------------------------------------------------*/

struct world {
    char path[64];
    struct page_file file;
    char *memory, *wanted;
};

static bool open_file(struct world *world, enum kvs_direct direct)
{
    const struct pagefile_options options = {
        .path = world->path, .file_size = PAGE * PAGES, .bytes_per_page = PAGE, .direct = direct};
    return page_file_open(&world->file, &options, NULL) == KVS_OK;
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    *state = world;
    snprintf(world->path, sizeof(world->path), "ring-XXXXXX");
    int fd = mkstemp(world->path);
    void *memory = NULL, *wanted = NULL;
    bool good = fd >= 0 && posix_memalign(&memory, 4096, PAGE * PAGES) == 0 &&
                posix_memalign(&wanted, 4096, PAGE * PAGES) == 0;
    world->memory = memory;
    world->wanted = wanted;
    world->file.fd = -1;
    return good ? close(fd) : -1;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    page_file_done(&world->file);
    unlink(world->path);
    free(world->memory);
    free(world->wanted);
    free(world);
    return 0;
}

static void fill(char *memory, unsigned salt)
{
    for (size_t i = 0; i < PAGE * PAGES; i++) {
        memory[i] = (char)(i / PAGE * 3 + i % 251 + salt);
    }
}

/* Every page is there, whole and summed rightly, whatever the ring did. */
static void run_all(struct world *world, struct ring *ring, enum page_direction direction)
{
    struct page_batch *batch = page_batch_new(direction, PAGES, NULL, NULL);
    assert_non_null(batch);
    for (size_t i = 0; i < PAGES; i++) {
        page_batch_ios(batch)[i] = (struct page_io){.offset = i * PAGE,
                                                    .buffer = world->memory + i * PAGE,
                                                    .length = PAGE,
                                                    .want_checksum = true,
                                                    .uncached = direction == PAGE_READ};
    }
    assert_true(page_batch_begin(batch));
    ring_run(ring, &world->file, batch);
    assert_true(page_batch_idle(batch));
    for (size_t i = 0; i < PAGES; i++) {
        const struct page_io *io = &page_batch_ios(batch)[i];
        assert_true(io->done);
        assert_int_equal(io->result, PAGE);
        assert_int_equal(io->checksum, checksum_page(world->wanted + i * PAGE, PAGE));
    }
    page_batch_abandon(batch);
    kernel.armed = false;
}

/* False when the ring was not made to fail any more. */
static bool run_failing(struct world *world, enum page_direction direction, unsigned after)
{
    struct ring *ring = NULL;
    assert_int_equal(ring_new(&world->file, DEPTH, &ring), 0);
    fill(world->wanted, after);
    if (direction == PAGE_READ) {
        assert_int_equal(pwrite(world->file.fd, world->wanted, PAGE * PAGES, 0), PAGE * PAGES);
        assert_int_equal(fdatasync(world->file.fd), 0); /* what is dirty stays cached */
        assert_int_equal(posix_fadvise(world->file.fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        memset(world->memory, 0, PAGE * PAGES);
    } else {
        memcpy(world->memory, world->wanted, PAGE * PAGES);
    }
    kernel.armed = true;
    kernel.failed = false;
    kernel.until = after;
    kernel.handed = 0;
    run_all(world, ring, direction);
    bool failed = kernel.failed;
    assert_int_equal(ring_sound(ring), !failed);
    if (failed) { /* a ring that cannot be replaced is used on */
        run_all(world, ring, direction);
    }
    ring_free(ring);
    if (direction == PAGE_WRITE) {
        assert_int_equal(pread(world->file.fd, world->memory, PAGE * PAGES, 0), PAGE * PAGES);
    }
    assert_memory_equal(world->memory, world->wanted, PAGE * PAGES);
    return failed;
}

static void fail_each(struct world *world, enum page_direction direction, enum kvs_direct direct)
{
    assert_true(open_file(world, direct));
    struct ring *ring = NULL;
    if (ring_new(&world->file, DEPTH, &ring) != 0) {
        print_message("skipped: no io_uring here\n");
        skip();
    }
    ring_free(ring);
    /* Nothing is read ahead: each page is the ring's. */
    assert_int_equal(posix_fadvise(world->file.fd, 0, 0, POSIX_FADV_RANDOM), 0);
    kernel.failures = kernel.in_flight = 0;
    unsigned after = 0;
    while (run_failing(world, direction, after)) {
        after++;
        assert_true(after < FAILURES_MAX);
    }
    print_message("failed %u times, %u of them with I/O under way\n", kernel.failures,
                  kernel.in_flight);
    if (kernel.failures == 0) {
        print_message("skipped: this file system reads without waiting\n");
        skip();
    }
}

/* It refuses now and then, and takes what it is given a moment later. */
static void test_kernel_short_of_memory(void **state)
{
    struct world *world = *state;
    kernel.short_of_memory = true;
    fail_each(world, PAGE_WRITE, KVS_DIRECT_ON);
    kernel.short_of_memory = false;
}

static void test_direct_reads(void **state)
{
    fail_each(*state, PAGE_READ, KVS_DIRECT_ON);
}

static void test_reads(void **state)
{
    fail_each(*state, PAGE_READ, KVS_DIRECT_OFF);
}

static void test_direct_writes(void **state)
{
    fail_each(*state, PAGE_WRITE, KVS_DIRECT_ON);
}

static void test_writes(void **state)
{
    fail_each(*state, PAGE_WRITE, KVS_DIRECT_OFF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kernel_short_of_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_direct_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_direct_writes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_writes, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
