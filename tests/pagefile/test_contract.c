/* What every engine owes its callers: one table of cases, run over each engine. Cases about the
 * file system itself (opening, growing, full disks) are in test_file.c. */
#include "base/checksum.h"
#include "pagefile/pagefile.h"
#include "support/engine_delay.h"
#include "support/engine_fault.h"
#include "support/engine_mem.h"
#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KIB = 1024, MIB = 1024 * KIB, THREADS = 4, SEED = 20261130 };

/* ---- The engines ----------------------------------------------------------------------------*/

struct world {
    char dir[64], path[128];
    struct mem_disk *disk;
};

typedef struct pagefile *(*open_fn)(struct world *world, const struct pagefile_options *options);

static struct pagefile *open_named(const struct pagefile_ops *ops,
                                   const struct pagefile_options *options)
{
    struct pagefile *file = NULL;
    struct kvs_error error = {.message = ""};
    enum kvs_status status = ops->open(options, &file, &error);
    if (status == KVS_ERR_IO_ENGINE) {
        print_message("skipped: %s\n", error.message);
        return NULL;
    }
    if (status != KVS_OK) {
        fail_msg("%s", error.message);
    }
    return file;
}

static struct pagefile *open_posix(struct world *world, const struct pagefile_options *options)
{
    (void)world;
    return open_named(&pagefile_posix, options);
}

static struct pagefile *open_uring(struct world *world, const struct pagefile_options *options)
{
    (void)world;
    return open_named(&pagefile_uring, options);
}

static struct pagefile *open_mem(struct world *world, const struct pagefile_options *options)
{
    if (!world->disk) {
        world->disk = mem_disk_new(options->file_size);
    }
    return engine_mem_new(world->disk);
}

static struct pagefile *open_delay(struct world *world, const struct pagefile_options *options)
{
    struct delay_options how = {.seed = SEED, .max_us = 20};
    return engine_delay_new(open_mem(world, options), &how);
}

static struct pagefile *open_delay_posix(struct world *world,
                                         const struct pagefile_options *options)
{
    struct delay_options how = {.seed = SEED};
    return engine_delay_new(open_posix(world, options), &how);
}

static struct pagefile *open_fault(struct world *world, const struct pagefile_options *options)
{
    return engine_fault_new(open_posix(world, options), SEED);
}

struct subject {
    const char *name;
    open_fn open;
    enum kvs_direct direct;
    bool deadlines; /* run() keeps them */
    bool is_file;   /* there is a file behind it, at the path */
};

static const struct subject subjects[] = {
    {"posix", open_posix, KVS_DIRECT_OFF, true, true},
    {"posix direct", open_posix, KVS_DIRECT_ON, true, true},
    {"uring", open_uring, KVS_DIRECT_OFF, false, true},
    {"uring direct", open_uring, KVS_DIRECT_ON, false, true},
    {"mem", open_mem, KVS_DIRECT_OFF, false, false},
    {"delay over mem", open_delay, KVS_DIRECT_OFF, true, false},
    {"delay over posix", open_delay_posix, KVS_DIRECT_OFF, true, true},
    {"fault over posix", open_fault, KVS_DIRECT_OFF, false, true},
};

/* ---- Helpers --------------------------------------------------------------------------------*/

struct setting {
    const struct subject *subject;
    struct world world;
    struct pagefile *file;
};

static struct pagefile_options options_of(struct setting *s, uint64_t page, uint64_t size)
{
    return (struct pagefile_options){.path = s->world.path,
                                     .file_size = size,
                                     .bytes_per_page = page,
                                     .threads = 4,
                                     .entries = 4,
                                     .direct = s->subject->direct};
}

/* False when the engine cannot work here; the case is then over. */
static bool open_with(struct setting *s, uint64_t page, uint64_t size)
{
    struct pagefile_options options = options_of(s, page, size);
    s->file = s->subject->open(&s->world, &options);
    return s->file != NULL;
}

static void close_it(struct setting *s)
{
    if (s->file) {
        s->file = s->file->ops->close(s->file);
    }
}

/* Every case its own directory: two cases never see each other's file. */
static int set_up(void **state)
{
    struct setting *s = *state;
    snprintf(s->world.dir, sizeof(s->world.dir), "contract-XXXXXX");
    if (!mkdtemp(s->world.dir)) {
        return -1;
    }
    snprintf(s->world.path, sizeof(s->world.path), "%s/pages.bin", s->world.dir);
    return 0;
}

static int tear_down(void **state)
{
    struct setting *s = *state;
    close_it(s);
    s->world.disk = mem_disk_free(s->world.disk);
    unlink(s->world.path);
    rmdir(s->world.dir);
    return 0;
}

static char *aligned_memory(size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 4096, bytes), 0);
    return memory;
}

/* Bytes that say which page and which version they are, at each place. */
static uint64_t next_word(uint64_t *state)
{
    uint64_t z = *state;
    z ^= z << 13, z ^= z >> 7, z ^= z << 17;
    return *state = z;
}

static uint64_t first_word(uint64_t page, uint64_t version)
{
    return (page + 1) * 0x9e3779b97f4a7c15u + version;
}

static void fill(char *bytes, size_t length, uint64_t page, uint64_t version)
{
    uint64_t state = first_word(page, version);
    for (size_t at = 0; at < length; at += sizeof(uint64_t)) {
        uint64_t word = next_word(&state);
        memcpy(bytes + at, &word, length - at < sizeof(word) ? length - at : sizeof(word));
    }
}

static bool holds(const char *bytes, size_t length, uint64_t page, uint64_t version)
{
    uint64_t state = first_word(page, version);
    bool same = true;
    for (size_t at = 0; at < length && same; at += sizeof(uint64_t)) {
        uint64_t word = next_word(&state);
        same =
            memcmp(bytes + at, &word, length - at < sizeof(word) ? length - at : sizeof(word)) == 0;
    }
    return same;
}

static struct page_batch *batch_of(enum page_direction direction, size_t n)
{
    struct page_batch *batch = page_batch_new(direction, n, NULL, NULL);
    assert_non_null(batch);
    return batch;
}

/* One I/O by itself; returns its result. */
static int64_t one(struct pagefile *file, enum page_direction direction, uint64_t offset,
                   void *buffer, uint64_t length)
{
    struct page_batch *batch = batch_of(direction, 1);
    struct page_io *io = page_batch_ios(batch);
    io->offset = offset;
    io->buffer = buffer;
    io->length = length;
    assert_int_equal(file->ops->run(file, batch, 0), KVS_OK);
    assert_true(io->done);
    int64_t result = io->result;
    page_batch_abandon(batch);
    return result;
}

/* ---- Cases ----------------------------------------------------------------------------------*/

static void write_and_read(struct setting *s, uint64_t page, size_t n, size_t shift)
{
    if (!open_with(s, page, page * n)) {
        return;
    }
    size_t stride = (page + shift + 4095) / 4096 * 4096;
    char *memory = aligned_memory(stride * n + 4096);
    for (int direction = PAGE_WRITE; direction >= PAGE_READ; direction--) {
        struct page_batch *batch = batch_of((enum page_direction)direction, n);
        assert_int_equal(page_batch_count(batch), n);
        for (size_t i = 0; i < n; i++) {
            size_t at = (i * 7 + 3) % n; /* not in order; 7 divides no n used here */
            char *buffer = memory + i * stride + shift;
            if (direction == PAGE_WRITE) {
                fill(buffer, page, at, 1);
            } else {
                memset(buffer, 0xaa, page);
            }
            page_batch_ios(batch)[i] = (struct page_io){.tag = 1000 + at,
                                                        .offset = at * page,
                                                        .buffer = buffer,
                                                        .length = page,
                                                        .want_checksum = i % 3 != 0};
        }
        assert_int_equal(s->file->ops->run(s->file, batch, 0), KVS_OK);
        for (size_t i = 0; i < n; i++) {
            const struct page_io *io = &page_batch_ios(batch)[i];
            size_t at = (i * 7 + 3) % n;
            assert_true(io->done);
            assert_int_equal(io->tag, 1000 + at);
            assert_int_equal(io->result, page);
            assert_true(holds(memory + i * stride + shift, page, at, 1));
            if (io->want_checksum) {
                assert_int_equal(io->checksum, checksum_page(io->buffer, page));
            }
        }
        page_batch_abandon(batch);
    }
    free(memory);
    close_it(s);
}

static void test_sizes(void **state)
{
    static const uint64_t sizes[] = {4 * KIB, 64 * KIB, 256 * KIB, 2 * MIB + 4 * KIB, 4497408,
                                     1,       5000,     70001,     64 * MIB};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct setting *s = *state;
        size_t n = sizes[i] > 16 * MIB ? 2 : sizes[i] > MIB ? 5 : 20;
        write_and_read(s, sizes[i], n, 0);
        unlink(s->world.path);
        s->world.disk = mem_disk_free(s->world.disk);
    }
}

static void test_unaligned_buffers(void **state)
{
    static const size_t shifts[] = {1, 8, 512, 4095};
    for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
        write_and_read(*state, 3 * MIB, 4, shifts[i]);
        write_and_read(*state, 3 * MIB, 4, shifts[i]); /* over what is there */
    }
}

static void test_large_batch(void **state)
{
    write_and_read(*state, 4 * KIB, 1000, 0);
}

static void test_empty_batch(void **state)
{
    struct setting *s = *state;
    if (!open_with(s, 4096, 8192)) {
        return;
    }
    struct page_batch *batch = batch_of(PAGE_READ, 0);
    assert_int_equal(s->file->ops->run(s->file, batch, 0), KVS_OK);
    assert_true(page_batch_idle(batch));
    page_batch_abandon(batch);
    assert_null(page_batch_abandon(NULL));
}

static void test_end_of_file(void **state)
{
    struct setting *s = *state;
    enum { PAGE = 64 * KIB };
    static const uint64_t rests[] = {PAGE / 2, 1000};
    for (size_t i = 0; i < 2; i++) {
        uint64_t size = 4 * PAGE + rests[i];
        if (!open_with(s, PAGE, size)) {
            return;
        }
        char *memory = aligned_memory(PAGE);
        assert_int_equal(one(s->file, PAGE_READ, 3 * PAGE, memory, PAGE), PAGE);
        assert_int_equal(one(s->file, PAGE_READ, 4 * PAGE, memory, PAGE), rests[i]);
        assert_int_equal(one(s->file, PAGE_READ, 5 * PAGE, memory, PAGE), 0);
        assert_int_equal(one(s->file, PAGE_READ, 1ULL << 50, memory, PAGE), 0);
        assert_int_equal(one(s->file, PAGE_WRITE, 4 * PAGE, memory, PAGE), -EINVAL);
        assert_int_equal(one(s->file, PAGE_WRITE, 5 * PAGE, memory, PAGE), -EINVAL);
        free(memory);
        close_it(s);
        unlink(s->world.path);
        s->world.disk = mem_disk_free(s->world.disk);
    }
}

static void test_refused(void **state)
{
    struct setting *s = *state;
    if (!open_with(s, 4096, 8192)) {
        return;
    }
    char *memory = aligned_memory(4096);
    for (int direction = PAGE_READ; direction <= PAGE_WRITE; direction++) {
        enum page_direction d = (enum page_direction)direction;
        assert_int_equal(one(s->file, d, 0, memory, 0), -EINVAL);
        assert_int_equal(one(s->file, d, 0, NULL, 4096), -EINVAL);
        assert_int_equal(one(s->file, d, UINT64_MAX - 4095, memory, 4096), -EINVAL);
        assert_int_equal(one(s->file, d, INT64_MAX - 4095, memory, 4097), -EINVAL);
    }
    free(memory);
}

/* One bad I/O in a batch is its own affair. */
static void test_mixed_batch(void **state)
{
    struct setting *s = *state;
    if (!open_with(s, 4096, 4096 * 8)) {
        return;
    }
    char *memory = aligned_memory(4096 * 8);
    struct page_batch *batch = batch_of(PAGE_READ, 8);
    for (uint64_t i = 0; i < 8; i++) {
        struct page_io *io = &page_batch_ios(batch)[i];
        io->offset = i == 5 ? 1 << 20 : i * 4096;
        io->buffer = i == 2 ? NULL : memory + i * 4096;
        io->length = 4096;
    }
    for (int again = 0; again < 2; again++) { /* a batch that has ended may be run again */
        assert_int_equal(s->file->ops->run(s->file, batch, 0), KVS_OK);
        for (size_t i = 0; i < 8; i++) {
            int64_t wanted = i == 5 ? 0 : i == 2 ? -EINVAL : 4096;
            assert_int_equal(page_batch_ios(batch)[i].result, wanted);
        }
    }
    page_batch_abandon(batch);
    free(memory);
}

static void test_reopen(void **state)
{
    struct setting *s = *state;
    if (!open_with(s, 4096, 4096 * 4)) {
        return;
    }
    char *memory = aligned_memory(4096);
    fill(memory, 4096, 2, 9);
    assert_int_equal(one(s->file, PAGE_WRITE, 2 * 4096, memory, 4096), 4096);
    assert_int_equal(s->file->ops->sync(s->file, NULL), KVS_OK);
    close_it(s);
    assert_true(open_with(s, 4096, 4096 * 4));
    memset(memory, 0, 4096);
    assert_int_equal(one(s->file, PAGE_READ, 2 * 4096, memory, 4096), 4096);
    assert_true(holds(memory, 4096, 2, 9));
    free(memory);
}

static void test_uncached_and_registered(void **state)
{
    struct setting *s = *state;
    if (!open_with(s, 64 * KIB, 1 * MIB)) {
        return;
    }
    char *memory = aligned_memory(256 * KIB);
    assert_int_equal(s->file->ops->register_memory(s->file, memory, 256 * KIB, NULL), KVS_OK);
    for (uint64_t at = 0; at < 16; at++) {
        char *buffer = memory + at % 4 * 64 * KIB;
        fill(buffer, 64 * KIB, at, 3);
        assert_int_equal(one(s->file, PAGE_WRITE, at * 64 * KIB, buffer, 64 * KIB), 64 * KIB);
        struct page_batch *batch = batch_of(PAGE_READ, 1);
        *page_batch_ios(batch) = (struct page_io){
            .offset = at * 64 * KIB, .buffer = buffer, .length = 64 * KIB, .uncached = true};
        memset(buffer, 0, 64 * KIB);
        assert_int_equal(s->file->ops->run(s->file, batch, 0), KVS_OK);
        assert_int_equal(page_batch_ios(batch)->result, 64 * KIB);
        assert_true(holds(buffer, 64 * KIB, at, 3));
        page_batch_abandon(batch);
    }
    close_it(s);
    free(memory);
}

/* ---- Many threads ---------------------------------------------------------------------------*/

struct hammer {
    struct pagefile *file;
    uint64_t number;
    unsigned wrong;
};

enum { HAMMER_PAGE = 16 * KIB, HAMMER_PAGES = 32, HAMMER_ROUNDS = 20 };

/* Each thread has its own pages, in between those of the others. */
static void *hammer_main(void *arg)
{
    struct hammer *h = arg;
    char *memory = NULL;
    if (posix_memalign((void **)&memory, 4096, HAMMER_PAGES * HAMMER_PAGE) != 0) {
        h->wrong++;
        return NULL;
    }
    for (uint64_t round = 0; round < HAMMER_ROUNDS * 2; round++) {
        enum page_direction direction = round % 2 == 0 ? PAGE_WRITE : PAGE_READ;
        struct page_batch *batch = page_batch_new(direction, HAMMER_PAGES, NULL, NULL);
        for (size_t i = 0; i < HAMMER_PAGES; i++) {
            uint64_t at = (i * THREADS + h->number);
            char *buffer = memory + i * HAMMER_PAGE;
            if (direction == PAGE_WRITE) {
                fill(buffer, HAMMER_PAGE, at, round);
            } else {
                memset(buffer, 0, HAMMER_PAGE);
            }
            page_batch_ios(batch)[i] = (struct page_io){.tag = at,
                                                        .offset = at * HAMMER_PAGE,
                                                        .buffer = buffer,
                                                        .length = HAMMER_PAGE,
                                                        .want_checksum = true};
        }
        h->wrong += h->file->ops->run(h->file, batch, 0) != KVS_OK;
        for (size_t i = 0; i < HAMMER_PAGES; i++) {
            const struct page_io *io = &page_batch_ios(batch)[i];
            h->wrong += !io->done || io->result != HAMMER_PAGE ||
                        io->checksum != checksum_page(io->buffer, HAMMER_PAGE) ||
                        !holds(io->buffer, HAMMER_PAGE, io->tag, round / 2 * 2);
        }
        page_batch_abandon(batch);
    }
    free(memory);
    return NULL;
}

static void test_many_threads(void **state)
{
    struct setting *s = *state;
    if (!open_with(s, HAMMER_PAGE, (uint64_t)HAMMER_PAGE * HAMMER_PAGES * 2 * THREADS)) {
        return;
    }
    pthread_t threads[2 * THREADS]; /* more than there are rings */
    struct hammer hammers[2 * THREADS];
    for (uint64_t i = 0; i < 2 * THREADS; i++) {
        /* The second half of the threads works on the second half of the file. */
        hammers[i] =
            (struct hammer){s->file, i % THREADS + i / THREADS * THREADS * HAMMER_PAGES, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, hammer_main, &hammers[i]), 0);
    }
    unsigned wrong = 0;
    for (size_t i = 0; i < 2 * THREADS; i++) {
        pthread_join(threads[i], NULL);
        wrong += hammers[i].wrong;
    }
    assert_int_equal(wrong, 0);
}

/* ---- Deadlines and abandoned I/O ------------------------------------------------------------*/

struct overdue {
    pthread_mutex_t lock;
    unsigned begun, idle;
};

struct overdue_call {
    struct overdue *overdue;
    char *memory;
};

static void overdue_idle(void *arg)
{
    struct overdue_call *call = arg;
    pthread_mutex_lock(&call->overdue->lock);
    call->overdue->idle++;
    pthread_mutex_unlock(&call->overdue->lock);
    free(call->memory); /* what an engine still wrote into would be found by a sanitizer */
    free(call);
}

/* A deadline that has passed already: I/O is taken back, has ended, or is under way. */
static void test_overdue(void **state)
{
    struct setting *s = *state;
    enum { PAGE = 64 * KIB, PAGES = 8, CALLS = 100 };
    if (!open_with(s, PAGE, PAGE * PAGES)) {
        return;
    }
    struct overdue overdue = {.lock = PTHREAD_MUTEX_INITIALIZER};
    for (unsigned c = 0; c < CALLS; c++) {
        struct overdue_call *call = malloc(sizeof(*call));
        *call = (struct overdue_call){&overdue, aligned_memory(PAGE * PAGES)};
        struct page_batch *batch = page_batch_new(PAGE_READ, PAGES, overdue_idle, call);
        for (uint64_t i = 0; i < PAGES; i++) {
            page_batch_ios(batch)[i] = (struct page_io){
                .offset = i * PAGE, .buffer = call->memory + i * PAGE, .length = PAGE};
        }
        enum kvs_status status = s->file->ops->run(s->file, batch, 1);
        for (size_t i = 0; i < PAGES; i++) {
            const struct page_io *io = &page_batch_ios(batch)[i];
            assert_true(io->done || status == KVS_ERR_IO_DEADLINE);
            assert_true(!io->done || io->result == PAGE || io->result == -ETIMEDOUT);
        }
        assert_true(s->subject->deadlines || status == KVS_OK);
        page_batch_abandon(batch);
        overdue.begun++;
    }
    close_it(s); /* waits for what is under way */
    assert_int_equal(overdue.idle, overdue.begun);
}

/* ---- A forked child -------------------------------------------------------------------------*/

static void test_forked_child(void **state)
{
    struct setting *s = *state;
    if (s->subject->open != open_posix && s->subject->open != open_uring) {
        return; /* the others are helpers of tests, which do not fork */
    }
    if (!open_with(s, 4096, 8192)) {
        return;
    }
    char *memory = aligned_memory(4096);
    assert_int_equal(one(s->file, PAGE_READ, 0, memory, 4096), 4096);
    pid_t child = fork();
    if (child == 0) {
        int64_t result = one(s->file, PAGE_READ, 0, memory, 4096);
        s->file->ops->register_memory(s->file, memory, 4096, NULL);
        bool sound = result == -ENXIO && s->file->ops->check(s->file, NULL) == KVS_OK &&
                     s->file->ops->close(s->file) == NULL;
        _exit(sound ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(one(s->file, PAGE_READ, 0, memory, 4096), 4096);
    free(memory);
}

/* ---- A file that is touched by others -------------------------------------------------------*/

static void test_cut(void **state)
{
    struct setting *s = *state;
    enum { PAGE = 64 * KIB };
    if (!open_with(s, PAGE, 4 * PAGE)) {
        return;
    }
    char *memory = aligned_memory(PAGE);
    fill(memory, PAGE, 1, 1);
    assert_int_equal(one(s->file, PAGE_WRITE, PAGE, memory, PAGE), PAGE);
    assert_int_equal(s->file->ops->check(s->file, NULL), KVS_OK);
    if (s->subject->is_file) {
        assert_int_equal(truncate(s->world.path, PAGE / 2), 0);
    } else {
        mem_disk_cut(s->world.disk, PAGE / 2);
    }
    assert_int_equal(one(s->file, PAGE_READ, 0, memory, PAGE), PAGE / 2);
    assert_int_equal(one(s->file, PAGE_READ, PAGE, memory, PAGE), 0);
    assert_int_equal(s->file->ops->check(s->file, NULL), KVS_ERR_FILE_CHANGED);
    assert_int_equal(s->file->ops->check(s->file, NULL), KVS_OK);
    assert_int_equal(one(s->file, PAGE_READ, PAGE, memory, PAGE), PAGE);
    assert_true(memory[0] == 0 && memcmp(memory, memory + 1, PAGE - 1) == 0);
    free(memory);
}

static void test_removed(void **state)
{
    struct setting *s = *state;
    if (!s->subject->is_file || !open_with(s, 4096, 4 * 4096)) {
        return;
    }
    char *memory = aligned_memory(4096);
    for (uint64_t version = 1; version <= 3; version++) {
        fill(memory, 4096, 1, version);
        assert_int_equal(one(s->file, PAGE_WRITE, 4096, memory, 4096), 4096);
        assert_int_equal(unlink(s->world.path), 0);
        if (version == 2) { /* replaced */
            FILE *other = fopen(s->world.path, "w");
            assert_non_null(other);
            fputs("something else", other);
            fclose(other);
        }
        assert_int_equal(s->file->ops->check(s->file, NULL), KVS_ERR_FILE_CHANGED);
        assert_int_equal(s->file->ops->check(s->file, NULL), KVS_OK);
        assert_int_equal(one(s->file, PAGE_READ, 4096, memory, 4096), 4096);
        assert_int_equal(memory[0], 0);
        fill(memory, 4096, 0, 7);
        assert_int_equal(one(s->file, PAGE_WRITE, 0, memory, 4096), 4096);
        struct stat about;
        assert_int_equal(stat(s->world.path, &about), 0);
        assert_int_equal(about.st_size, 4 * 4096);
    }
    free(memory);
}

static void test_info(void **state)
{
    struct setting *s = *state;
    if (!open_with(s, 4096, 8192)) {
        return;
    }
    struct pagefile_info info = s->file->ops->info(s->file);
    assert_non_null(info.engine);
    assert_non_null(info.filesystem);
    assert_true(info.alignment >= 1 && info.max_inflight >= 1);
    assert_true(info.direct || info.alignment == 1);
    /* Otherwise the cases above would prove less than they say. (Where the tests run on a file
     * system without direct I/O they do.) */
    if (s->subject->direct == KVS_DIRECT_ON && strcmp(info.filesystem, "ext4") == 0) {
        assert_true(info.direct);
    }
    assert_false(info.needs_deadline);
}

/* ---- The table ------------------------------------------------------------------------------*/

static const struct {
    const char *name;
    void (*run)(void **state);
} cases[] = {
    {"sizes from 1 byte to 64 MiB", test_sizes},
    {"unaligned buffers", test_unaligned_buffers},
    {"1000 at once", test_large_batch},
    {"nothing to do", test_empty_batch},
    {"the end of the file", test_end_of_file},
    {"what is refused", test_refused},
    {"one bad I/O among good ones", test_mixed_batch},
    {"reopen", test_reopen},
    {"uncached, registered memory", test_uncached_and_registered},
    {"many threads", test_many_threads},
    {"overdue I/O is abandoned", test_overdue},
    {"a forked child", test_forked_child},
    {"the file is cut", test_cut},
    {"the file is removed or replaced", test_removed},
    {"info", test_info},
};

enum {
    SUBJECTS = sizeof(subjects) / sizeof(subjects[0]),
    CASES = sizeof(cases) / sizeof(cases[0]),
};

int main(void)
{
    static struct setting settings[SUBJECTS][CASES];
    static char names[SUBJECTS * CASES][96];
    struct CMUnitTest tests[SUBJECTS * CASES];
    size_t n = 0;
    for (size_t i = 0; i < SUBJECTS; i++) {
        for (size_t c = 0; c < CASES; c++) {
            snprintf(names[n], sizeof(names[n]), "%s: %s", subjects[i].name, cases[c].name);
            settings[i][c].subject = &subjects[i];
            tests[n] =
                (struct CMUnitTest){names[n], cases[c].run, set_up, tear_down, &settings[i][c]};
            n++;
        }
    }
    print_message("seed %d\n", SEED);
    return _cmocka_run_group_tests("page file engines", tests, n, NULL, NULL);
}
