/* The posix engine where the storage does not answer: calls end at their deadline, what is stuck is
 * left to the workers, and nothing is lost when it comes back.
 *
 * A read is made to hang by its buffer: memory under userfaultfd has no pages until we give them.
 * That needs a privilege; without it these tests are skipped. */
#include "base/clock.h"
#include "pagefile/engines.h"
#include "pagefile/pagefile.h"
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8, THREADS = 2, DEADLINE_NS = 50000000 };

struct world {
    char path[64];
    struct pagefile *file;
    int faults;  /* userfaultfd */
    char *stuck; /* PAGES of memory that no one can write to yet */
    pthread_mutex_t lock;
    unsigned idle;
};

static bool make_stuck_memory(struct world *world)
{
    struct uffdio_api api = {.api = UFFD_API};
    world->faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (world->faults < 0 || ioctl(world->faults, UFFDIO_API, &api) != 0) {
        print_message("skipped: no userfaultfd here: %s\n", strerror(errno));
        return false;
    }
    world->stuck =
        mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)world->stuck, PAGES * PAGE},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    assert_int_equal(ioctl(world->faults, UFFDIO_REGISTER, &range), 0);
    return true;
}

static void free_stuck_memory(struct world *world)
{
    struct uffdio_range range = {(uintptr_t)world->stuck, PAGES * PAGE};
    assert_int_equal(ioctl(world->faults, UFFDIO_UNREGISTER, &range), 0);
}

static void write_pattern(const char *path)
{
    FILE *file = fopen(path, "w");
    for (int page = 0; page < PAGES; page++) {
        for (int i = 0; i < PAGE; i++) {
            fputc('a' + page, file);
        }
    }
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    *state = world;
    pthread_mutex_init(&world->lock, NULL);
    world->faults = -1;
    snprintf(world->path, sizeof(world->path), "posix-XXXXXX");
    int fd = mkstemp(world->path);
    close(fd);
    write_pattern(world->path);
    struct pagefile_options options = {.path = world->path,
                                       .file_size = PAGES * PAGE,
                                       .bytes_per_page = PAGE,
                                       .threads = THREADS,
                                       .entries = 1,
                                       .direct = KVS_DIRECT_OFF};
    return pagefile_open(KVS_IO_POSIX, &options, &world->file, NULL);
}

static int tear_down(void **state)
{
    struct world *world = *state;
    if (world->faults >= 0) {
        close(world->faults); /* lets go of what hangs */
    }
    if (world->file) {
        world->file->ops->close(world->file);
    }
    if (world->stuck) {
        munmap(world->stuck, PAGES * PAGE);
    }
    unlink(world->path);
    free(world);
    return 0;
}

static void count_idle(void *arg)
{
    struct world *world = arg;
    pthread_mutex_lock(&world->lock);
    world->idle++;
    pthread_mutex_unlock(&world->lock);
}

static unsigned idle_batches(struct world *world)
{
    pthread_mutex_lock(&world->lock);
    unsigned n = world->idle;
    pthread_mutex_unlock(&world->lock);
    return n;
}

static struct page_batch *reads_into(struct world *world, char *memory, size_t n)
{
    struct page_batch *batch = page_batch_new(PAGE_READ, n, count_idle, world);
    for (size_t i = 0; i < n; i++) {
        page_batch_ios(batch)[i] =
            (struct page_io){.offset = i * PAGE, .buffer = memory + i * PAGE, .length = PAGE};
    }
    return batch;
}

static enum kvs_status run(struct world *world, struct page_batch *batch)
{
    return world->file->ops->run(world->file, batch, clock_mono_ns() + DEADLINE_NS);
}

static size_t count_results(struct page_batch *batch, bool done, int64_t result)
{
    size_t n = 0;
    for (size_t i = 0; i < page_batch_count(batch); i++) {
        const struct page_io *io = &page_batch_ios(batch)[i];
        n += io->done == done && io->result == result;
    }
    return n;
}

/* As many I/Os hang as there are workers; the rest is taken back. More calls do not pile up. */
static void test_all_workers_stuck(void **state)
{
    struct world *world = *state;
    if (!make_stuck_memory(world)) {
        skip();
    }
    /* A worker is woken for each batch; the second may come with the first one already. */
    struct page_batch *first = reads_into(world, world->stuck, PAGES / 2);
    assert_int_equal(run(world, first), KVS_ERR_IO_DEADLINE);
    struct page_batch *second = reads_into(world, world->stuck, PAGES / 2);
    run(world, second);
    assert_int_equal(count_results(first, false, 0) + count_results(second, false, 0), THREADS);
    assert_int_equal(count_results(first, true, -ETIMEDOUT) +
                         count_results(second, true, -ETIMEDOUT),
                     PAGES - THREADS);

    static char memory[PAGES * PAGE];
    struct page_batch *third = reads_into(world, memory, PAGES);
    assert_int_equal(run(world, third), KVS_OK);
    assert_int_equal(count_results(third, true, -ETIMEDOUT), PAGES);
    page_batch_abandon(third);
    assert_int_equal(idle_batches(world), 1);
    page_batch_abandon(first);
    page_batch_abandon(second);

    free_stuck_memory(world); /* the storage answers again */
    world->file = world->file->ops->close(world->file);
    assert_int_equal(idle_batches(world), 3);
    assert_int_equal(world->stuck[0], 'a');
}

static void test_one_worker_stuck(void **state)
{
    struct world *world = *state;
    if (!make_stuck_memory(world)) {
        skip();
    }
    struct page_batch *stuck = reads_into(world, world->stuck, 1);
    assert_int_equal(run(world, stuck), KVS_ERR_IO_DEADLINE);
    static char memory[PAGES * PAGE];
    struct page_batch *others = reads_into(world, memory, PAGES);
    assert_int_equal(world->file->ops->run(world->file, others, 0), KVS_OK);
    assert_int_equal(count_results(others, true, PAGE), PAGES);
    for (int page = 0; page < PAGES; page++) {
        assert_int_equal(memory[page * PAGE], 'a' + page);
    }
    page_batch_abandon(others);

    /* It ends after its call: the caller sees nothing of it, then the batch goes. */
    free_stuck_memory(world);
    page_batch_abandon(stuck);
    world->file = world->file->ops->close(world->file);
    assert_int_equal(idle_batches(world), 2);
}

/* A path whose text nobody can read yet: looking where it leads hangs, as on a dead mount. */
static char *make_stuck_path(struct world *world)
{
    char *path = aligned_alloc(PAGE, PAGE);
    assert_non_null(path);
    assert_int_equal(madvise(path, PAGE, MADV_DONTNEED), 0);
    struct uffdio_register range = {.range = {(uintptr_t)path, PAGE},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    assert_int_equal(ioctl(world->faults, UFFDIO_REGISTER, &range), 0);
    return path;
}

static void free_stuck_path(struct world *world, char *path)
{
    static char text[PAGE];
    snprintf(text, sizeof(text), "%s", world->path);
    struct uffdio_copy copy = {.dst = (uintptr_t)path, .src = (uintptr_t)text, .len = PAGE};
    assert_int_equal(ioctl(world->faults, UFFDIO_COPY, &copy), 0);
    struct uffdio_range range = {(uintptr_t)path, PAGE};
    assert_int_equal(ioctl(world->faults, UFFDIO_UNREGISTER, &range), 0);
}

static void test_looking_after_a_file_does_not_hang(void **state)
{
    struct world *world = *state;
    struct page_file file = {.fd = -1};
    struct pagefile *pagefile = NULL;
    const struct pagefile_options options = {.path = world->path,
                                             .file_size = PAGES * PAGE,
                                             .bytes_per_page = PAGE,
                                             .threads = THREADS,
                                             .entries = 1,
                                             .direct = KVS_DIRECT_OFF};
    if (!make_stuck_memory(world)) {
        skip();
    }
    assert_int_equal(page_file_open(&file, &options, NULL), KVS_OK);
    file.filesystem.network = true;
    free(file.path);
    char *path = file.path = make_stuck_path(world);
    assert_int_equal(posix_take(&file, &options, &pagefile, NULL), KVS_OK);
    for (int i = 0; i < 3; i++) { /* one of which sees to it, and hangs */
        assert_int_equal(pagefile->ops->check(pagefile, NULL), KVS_OK);
    }
    static char buffer[PAGE];
    struct page_batch *batch = page_batch_new(PAGE_READ, 1, NULL, NULL);
    page_batch_ios(batch)[0] = (struct page_io){.buffer = buffer, .length = PAGE};
    assert_int_equal(
        pagefile->ops->run(pagefile, batch, clock_mono_ns() + 60 * UINT64_C(1000000000)), KVS_OK);
    assert_int_equal(page_batch_ios(batch)[0].result, PAGE);
    page_batch_abandon(batch);
    free_stuck_path(world, path);
    pagefile->ops->close(pagefile);
    free_stuck_memory(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_workers_stuck, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_worker_stuck, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_looking_after_a_file_does_not_hang, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
