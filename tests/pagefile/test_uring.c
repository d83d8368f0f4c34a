/* The uring engine where the ring fails under it, and memory that it has pinned.
 *
 * A ring is made to fail by forbidding the call that hands it work, as a container could; that
 * cannot be undone, so it happens in a child. */
#include "base/checksum.h"
#include "pagefile/pagefile.h"
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 16384, PAGES = 40 };

struct world {
    char path[64];
    pthread_mutex_t lock; /* lines come from any thread */
    char lines[4096];
};

static void log_to_world(void *arg, enum kvs_log_level level, const char *line)
{
    struct world *world = arg;
    (void)level;
    pthread_mutex_lock(&world->lock);
    size_t used = strlen(world->lines);
    snprintf(world->lines + used, sizeof(world->lines) - used, "%s\n", line);
    pthread_mutex_unlock(&world->lock);
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    *state = world;
    pthread_mutex_init(&world->lock, NULL);
    snprintf(world->path, sizeof(world->path), "uring-XXXXXX");
    int fd = mkstemp(world->path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    struct world *world = *state;
    unlink(world->path);
    free(world);
    return 0;
}

static struct pagefile *open_uring(struct world *world, enum kvs_direct direct)
{
    struct pagefile_options options = {.path = world->path,
                                       .file_size = PAGE * PAGES,
                                       .bytes_per_page = PAGE,
                                       .threads = 2,
                                       .entries = 4,
                                       .direct = direct,
                                       .log = {log_to_world, world}};
    struct pagefile *file = NULL;
    return pagefile_uring.open(&options, &file, NULL) == KVS_OK ? file : NULL;
}

/* The number of I/Os that were not as they should be. */
static size_t run_all(struct pagefile *file, enum page_direction direction, char *memory)
{
    struct page_batch *batch = page_batch_new(direction, PAGES, NULL, NULL);
    for (size_t i = 0; i < PAGES; i++) {
        page_batch_ios(batch)[i] = (struct page_io){
            .offset = i * PAGE, .buffer = memory + i * PAGE, .length = PAGE, .want_checksum = true};
    }
    size_t wrong = file->ops->run(file, batch, 0) != KVS_OK;
    for (size_t i = 0; i < PAGES; i++) {
        const struct page_io *io = &page_batch_ios(batch)[i];
        wrong += !io->done || io->result != PAGE || io->checksum != checksum_page(io->buffer, PAGE);
    }
    page_batch_abandon(batch);
    return wrong;
}

static void fill(char *memory, char salt)
{
    for (size_t i = 0; i < PAGE * PAGES; i++) {
        memory[i] = (char)(i / PAGE * 3 + i % 251 + (size_t)salt);
    }
}

static bool write_and_read(struct pagefile *file, char *memory, char *wanted, char salt)
{
    fill(memory, salt);
    fill(wanted, salt);
    bool right = run_all(file, PAGE_WRITE, memory) == 0;
    memset(memory, 0, PAGE * PAGES);
    return right && run_all(file, PAGE_READ, memory) == 0 &&
           memcmp(memory, wanted, PAGE * PAGES) == 0;
}

/* `setup`: a ring that failed can not be replaced either. */
static bool forbid(bool setup)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, setup ? SYS_io_uring_setup : SYS_io_uring_enter, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

enum child_exit { CHILD_FINE, CHILD_WRONG, CHILD_CANNOT };

static enum child_exit with_failing_rings(struct world *world, bool setup)
{
    static char memory[PAGE * PAGES], wanted[PAGE * PAGES];
    struct pagefile *file = open_uring(world, KVS_DIRECT_OFF);
    if (!file) {
        return CHILD_CANNOT;
    }
    bool right = write_and_read(file, memory, wanted, 1);
    if (!forbid(setup)) {
        return CHILD_CANNOT;
    }
    for (char round = 2; round < 6; round++) { /* more often than there are rings */
        right = right && write_and_read(file, memory, wanted, round);
    }
    right = right && strstr(world->lines,
                            setup ? "plain calls stand in" : "failed and was set up anew") != NULL;
    file->ops->close(file);
    return right ? CHILD_FINE : CHILD_WRONG;
}

static void failing_rings(struct world *world, bool setup)
{
    pid_t child = fork();
    if (child == 0) {
        _exit((int)with_failing_rings(world, setup));
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CHILD_CANNOT) {
        print_message("skipped: no io_uring or no seccomp here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), CHILD_FINE);
}

static void test_ring_fails(void **state)
{
    failing_rings(*state, false);
}

static void test_ring_fails_for_good(void **state)
{
    failing_rings(*state, true);
}

/* Pinned, partly pinned and other memory in one batch. */
static void test_pinned_memory(void **state)
{
    struct world *world = *state;
    struct pagefile *file = open_uring(world, KVS_DIRECT_ON);
    if (!file) {
        print_message("skipped: no io_uring here\n");
        skip();
    }
    static char wanted[PAGE * PAGES];
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 4096, PAGE * PAGES), 0);
    char *bytes = memory;
    assert_true(write_and_read(file, bytes, wanted, 1));
    file->ops->register_memory(file, bytes + PAGE * 5, PAGE * 7 + PAGE / 2, NULL);
    assert_true(write_and_read(file, bytes, wanted, 2));
    for (int i = 0; i < 70; i++) { /* more regions than a ring has room for: no failure */
        assert_int_equal(file->ops->register_memory(file, bytes + PAGE * 20, PAGE, NULL), KVS_OK);
    }
    assert_true(write_and_read(file, bytes, wanted, 3));
    file->ops->close(file);
    free(memory);
}

/* Pages of which the cache has nothing, the first quarters, or all: what is read without waiting
 * and what the ring reads make one page and one checksum. */
static void test_partly_cached_pages(void **state)
{
    struct world *world = *state;
    struct pagefile *file = open_uring(world, KVS_DIRECT_OFF);
    if (!file) {
        print_message("skipped: no io_uring here\n");
        skip();
    }
    static char memory[PAGE * PAGES], wanted[PAGE * PAGES];
    assert_true(write_and_read(file, memory, wanted, 1));
    int fd = open(world->path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0); /* nothing is read ahead */
    for (int round = 0; round < 3; round++) {
        assert_int_equal(fdatasync(fd), 0);
        assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        for (size_t i = 0; i < PAGES; i++) {
            size_t cached = (i + (size_t)round) % 5 * (PAGE / 4);
            assert_int_equal(pread(fd, memory, cached, (off_t)(i * PAGE)), cached);
        }
        memset(memory, 0, sizeof(memory));
        assert_int_equal(run_all(file, PAGE_READ, memory), 0);
        assert_memory_equal(memory, wanted, sizeof(memory));
    }
    close(fd);
    file->ops->close(file);
}

struct registrar {
    struct pagefile *file;
    char *bytes;
};

static void *register_often(void *arg)
{
    struct registrar *registrar = arg;
    for (int i = 0; i < 200; i++) {
        registrar->file->ops->register_memory(registrar->file, registrar->bytes, PAGE, NULL);
    }
    return NULL;
}

/* Each gathers all rings, while others use one: nobody waits for ever. */
static void test_registered_by_many(void **state)
{
    struct world *world = *state;
    struct pagefile *file = open_uring(world, KVS_DIRECT_ON);
    if (!file) {
        print_message("skipped: no io_uring here\n");
        skip();
    }
    static char wanted[PAGE * PAGES];
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 4096, PAGE * PAGES), 0);
    struct registrar registrar = {file, memory};
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, register_often, &registrar), 0);
    }
    for (char round = 0; round < 5; round++) {
        assert_true(write_and_read(file, memory, wanted, round));
    }
    for (size_t i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    file->ops->close(file);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ring_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ring_fails_for_good, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pinned_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_partly_cached_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_registered_by_many, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
