/* A store over storage that misbehaves while it is used: a disk that fills up and has room again, a
 * page file that is cut, removed or replaced, another store of other sizes on the same path; and
 * pages and batches of every size on every engine.
 *
 * The threads of a load set and get all the time and check every byte. The store's time is the
 * test's own: pauses and rates pass without waiting. `store_test_storage --rounds N` repeats what
 * is random, `--only test_name` runs one test. */
#include "base/clock.h"
#include "store/store.h"
#include "support/mounted.h"
#include "support/page_load.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LINES = 64,
    PATH_BYTES = TEMP_DIR_MAX + 96,
    FAST_STEP_MS = 100,
    PAUSE_MAX_MS = 30000 + FAST_STEP_MS, /* of a breaker */
};
#define BEGIN_NS UINT64_C(1000000000)  /* the store's time when it is opened */
#define LINES_NS UINT64_C(10000000000) /* between log lines of one kind */

static unsigned rounds = 1;

/* How pages are moved. What the machine does not have falls back, which is all right here. */
static const struct way {
    enum kvs_io_engine engine;
    enum kvs_direct direct;
    const char *name;
} ways[] = {
    {KVS_IO_POSIX, KVS_DIRECT_OFF, "posix"},
    {KVS_IO_POSIX, KVS_DIRECT_ON, "posix, direct"},
    {KVS_IO_URING, KVS_DIRECT_OFF, "uring"},
    {KVS_IO_URING, KVS_DIRECT_ON, "uring, direct"},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

struct ground {
    char dir[TEMP_DIR_MAX], prefix[PATH_BYTES], catalogs[PATH_BYTES], file[PATH_BYTES + 8];
    struct kvs_store_options options;
    struct page_load load;
    _Atomic uint64_t now_ns;
    pthread_mutex_t lock;
    char lines[LINES][400];
    unsigned line_count;
};

static void take_line(void *arg, enum kvs_log_level level, const char *line)
{
    struct ground *ground = arg;
    if (level < KVS_LOG_WARNING)
        return;
    pthread_mutex_lock(&ground->lock);
    if (ground->line_count < LINES)
        snprintf(ground->lines[ground->line_count], sizeof(ground->lines[0]), "%s", line);
    ground->line_count++;
    pthread_mutex_unlock(&ground->lock);
}

static unsigned count_lines(struct ground *ground, const char *part)
{
    unsigned n = 0;
    pthread_mutex_lock(&ground->lock);
    for (unsigned i = 0; i < ground->line_count && i < LINES; i++)
        n += strstr(ground->lines[i], part) != NULL;
    pthread_mutex_unlock(&ground->lock);
    return n;
}

static uint64_t now_of(void *arg)
{
    return atomic_load(&((struct ground *)arg)->now_ns);
}

static void pass_time(struct ground *ground, uint64_t ms)
{
    atomic_fetch_add(&ground->now_ns, ms * 1000000);
}

/* Pages in `dir`, or in a directory of their own; catalogs always there. */
static struct ground *ground_new(const char *dir, const struct way *way, uint64_t page_bytes,
                                 uint64_t pages)
{
    struct ground *ground = calloc(1, sizeof(*ground));
    assert_non_null(ground);
    temp_dir_make(ground->dir);
    snprintf(ground->prefix, sizeof(ground->prefix), "%s/pages", dir == NULL ? ground->dir : dir);
    snprintf(ground->file, sizeof(ground->file), "%s.0.bin", ground->prefix);
    snprintf(ground->catalogs, sizeof(ground->catalogs), "%s/catalogs", ground->dir);
    pthread_mutex_init(&ground->lock, NULL);
    atomic_init(&ground->now_ns, BEGIN_NS);
    kvs_store_options_init(&ground->options);
    ground->options.bytes_per_page = page_bytes;
    ground->options.file_size = page_bytes * pages;
    ground->options.file_path_prefix = ground->prefix;
    ground->options.metadata_dir = ground->catalogs;
    ground->options.numjobs = 4;
    ground->options.io_engine = way->engine;
    ground->options.direct = way->direct;
    ground->options.quarantine = 0;
    ground->options.log = take_line;
    ground->options.log_arg = ground;
    ground->load = (struct page_load){.page_bytes = page_bytes,
                                      .keys = pages,
                                      .batch = 8,
                                      .readers = 2,
                                      .writers = 2,
                                      .seed = 20261130};
    return ground;
}

static void ground_open(struct ground *ground)
{
    const struct store_parts parts = {.now_ns = now_of, .now_arg = ground};
    struct kvs_error error = {0};
    if (store_open(&ground->options, &parts, &ground->load.store, &error) != KVS_OK)
        fail_msg("%s", error.message);
}

static struct kvs_store_stats stats_of(const struct ground *ground)
{
    struct kvs_store_stats stats;
    kvs_store_get_stats(ground->load.store, &stats);
    return stats;
}

/* With no call under way: nothing was wrong, and every page is accounted for. */
static void ground_check(struct ground *ground)
{
    struct kvs_store_stats s = stats_of(ground);
    assert_int_equal(ground->load.wrong_pages, 0);
    assert_int_equal(s.pages_asked, s.pages_loaded + s.pages_missed);
    assert_int_equal(s.pages_set,
                     s.pages_written + s.pages_present + s.pages_skipped + s.pages_not_stored);
    assert_int_equal(s.inflight_bytes, 0);
}

static struct ground *ground_free(struct ground *ground)
{
    ground_check(ground);
    kvs_store_close(ground->load.store);
    temp_dir_remove(ground->dir);
    pthread_mutex_destroy(&ground->lock);
    free(ground);
    return NULL;
}

static size_t get_all(struct ground *ground)
{
    size_t loaded = 0;
    for (uint64_t key = 0; key < ground->load.keys; key += 8)
        loaded += page_load_get(&ground->load, key,
                                ground->load.keys - key < 8 ? ground->load.keys - key : 8);
    return loaded;
}

static size_t set_all(struct ground *ground)
{
    size_t stored = 0;
    for (uint64_t key = 0; key < ground->load.keys; key += 8)
        stored += page_load_set(&ground->load, key,
                                ground->load.keys - key < 8 ? ground->load.keys - key : 8);
    return stored;
}

/* Sets and gets everything until all of it is there. How much of the store's time has passed then,
 * in ms: under load there is no bound on it, because it does not wait for a thread that has been
 * stopped while it looks after the file; what others try meanwhile fails, and lengthens the pause.
 * With nobody else at work it is a pause at most. */
static uint64_t recover(struct ground *ground)
{
    uint64_t passed_ms = 0, began_ns = clock_mono_ns();
    size_t there = 0;
    while (clock_mono_ns() - began_ns < UINT64_C(60000000000)) {
        set_all(ground);
        there = get_all(ground);
        if (there == ground->load.keys)
            return passed_ms;
        pass_time(ground, FAST_STEP_MS);
        passed_ms += FAST_STEP_MS;
    }
    struct kvs_store_stats s = stats_of(ground);
    fail_msg(
        "%zu of %d pages: %d mismatches, %d I/O errors, %d short reads, %d absent; not stored: "
        "%d no page, %d rejected, %d no space, %d refused; reads refused: %d; last line: %s",
        there, (int)ground->load.keys, (int)s.checksum_mismatches, (int)s.io_errors,
        (int)s.short_reads, (int)s.missed_absent, (int)s.unstored_no_page, (int)s.unstored_rejected,
        (int)s.unstored_no_space, (int)s.unstored_refused, (int)s.missed_refused,
        ground->line_count == 0 ? "none" : ground->lines[(ground->line_count - 1) % LINES]);
    return 0;
}

/* ---- The page file changes under load --------------------------------------------------------*/

enum change { CUT, REMOVED, REPLACED, CHANGES };
#define FILE_LINE "The page file of pool 'kv' has changed"
static const char *const change_names[] = {"cut", "removed", "replaced"};

static void change_file(const struct ground *ground, enum change change)
{
    if (change == CUT) {
        assert_int_equal(truncate(ground->file, 5 * 4096 + 77), 0);
        return;
    }
    if (change == REMOVED) {
        assert_int_equal(unlink(ground->file), 0);
        return;
    }
    char other[PATH_BYTES + 16];
    snprintf(other, sizeof(other), "%s.new", ground->file);
    int fd = open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "other", 5), 5);
    close(fd);
    assert_int_equal(rename(other, ground->file), 0);
}

static void change_under_load(const struct way *way, enum change change)
{
    struct ground *ground = ground_new(NULL, way, 4096, 48);
    ground_open(ground);
    recover(ground);
    page_load_start(&ground->load);
    for (int i = 0; i < 3; i++)
        get_all(ground);
    change_file(ground, change);
    /* What was removed can still be read; the store looks after its file every 5 s. Lines of one
     * kind come every 10 s. */
    for (int ms = 0; ms < 5500 && count_lines(ground, FILE_LINE) == 0; ms += FAST_STEP_MS) {
        set_all(ground);
        get_all(ground);
        pass_time(ground, FAST_STEP_MS);
    }
    recover(ground);
    page_load_stop(&ground->load);
    assert_true(recover(ground) <= PAUSE_MAX_MS);
    /* Of each of four kinds at most one every 10 s, and one of a trip. */
    unsigned lines = count_lines(ground, FILE_LINE);
    unsigned lines_max = 5 + 4 * (unsigned)((now_of(ground) - BEGIN_NS) / LINES_NS);
    if (lines != 1 || ground->line_count > lines_max) {
        for (unsigned i = 0; i < ground->line_count && i < LINES; i++)
            print_message("%s\n", ground->lines[i]);
        fail_msg("%s, %s: %u lines of the file, %u in all, first: %s", way->name,
                 change_names[change], lines, ground->line_count, ground->lines[0]);
    }
    kvs_store_close(ground->load.store);
    struct stat about;
    assert_int_equal(stat(ground->file, &about), 0);
    assert_int_equal(about.st_size, 48 * 4096);
    ground_open(ground);
    assert_int_equal(get_all(ground), ground->load.keys); /* what it recovered is kept */
    ground_free(ground);
}

static void test_file_changes_under_load(void **state)
{
    (void)state;
    for (unsigned round = 0; round < rounds; round++)
        for (size_t w = 0; w < WAYS; w++)
            for (enum change change = 0; change < CHANGES; change++)
                change_under_load(&ways[w], change);
}

/* ---- A full disk, and back -------------------------------------------------------------------*/

enum { DISK_PAGE = 16384, DISK_PAGES = 512, BALLAST_BYTES = 9 << 20, DISK_BYTES = 14 << 20 };

/* Takes all the room that is left but for some pages. */
static void fill_disk(const char *dir, char path[PATH_BYTES])
{
    static const uint8_t block[65536];
    snprintf(path, PATH_BYTES, "%s/ballast", dir);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (uint64_t at = 0; at < BALLAST_BYTES; at += sizeof(block))
        if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
            break;
    assert_int_equal(fsync(fd), 0);
    close(fd);
}

static void fill_and_make_room(const char *dir, const struct way *way)
{
    char ballast[PATH_BYTES];
    fill_disk(dir, ballast);
    struct ground *ground = ground_new(dir, way, DISK_PAGE, DISK_PAGES);
    ground_open(ground);
    page_load_start(&ground->load);
    for (int i = 0; i < 100 && stats_of(ground).unstored_no_space == 0; i++)
        set_all(ground);
    page_load_stop(&ground->load);
    assert_true(stats_of(ground).unstored_no_space > 0);
    assert_true(stats_of(ground).write_breaker_trips > 0);
    size_t held = get_all(ground);
    assert_true(held > 50 && held < DISK_PAGES);

    /* Writing on and on into the full disk gives up no page, and says little. */
    page_load_start(&ground->load);
    for (int i = 0; i < 20; i++) {
        set_all(ground);
        pass_time(ground, FAST_STEP_MS);
    }
    page_load_stop(&ground->load);
    assert_true(get_all(ground) >= held);
    assert_true(ground->line_count <= 5);

    page_load_start(&ground->load);
    assert_int_equal(unlink(ballast), 0);
    recover(ground);
    page_load_stop(&ground->load);
    assert_int_equal(get_all(ground), DISK_PAGES);
    assert_int_equal(stats_of(ground).checksum_mismatches, 0);
    char file[PATH_BYTES + 8];
    snprintf(file, sizeof(file), "%s", ground->file);
    ground_free(ground);
    unlink(file);
}

static void test_full_tmpfs_and_back(void **state)
{
    (void)state;
    char dir[TEMP_DIR_MAX], reason[256];
    temp_dir_make(dir);
    if (!mounted_tmpfs(dir, DISK_BYTES, reason, sizeof(reason))) {
        print_message("skipped: %s\n", reason);
        temp_dir_remove(dir);
        skip();
    }
    fill_and_make_room(dir, &ways[0]);
    fill_and_make_room(dir, &ways[2]);
    mounted_undo(dir);
    temp_dir_remove(dir);
}

static void test_full_disk_and_back(void **state)
{
    (void)state;
    char dir[TEMP_DIR_MAX], reason[256];
    temp_dir_make(dir);
    if (!mounted_ext4(dir, DISK_BYTES + (4 << 20), NULL, reason, sizeof(reason))) {
        print_message("skipped: %s\n", reason);
        temp_dir_remove(dir);
        skip();
    }
    for (size_t w = 0; w < WAYS; w += 3) /* posix, and uring with direct I/O */
        fill_and_make_room(dir, &ways[w]);
    mounted_undo(dir);
    temp_dir_remove(dir);
}

/* ---- Two stores of other sizes on one path ---------------------------------------------------*/

enum { OTHER_KEYS = 30, OTHER_OPENS = 5 };

/* Another process opens, uses and closes a store of its own on the path: this program again. Its
 * exit code, 0 when all was right. */
static int use_path(char *argv[])
{
    struct ground *ground = ground_new(NULL, &ways[0], strtoull(argv[3], NULL, 10), 1);
    ground->options.file_path_prefix = argv[2];
    ground->options.file_size = strtoull(argv[4], NULL, 10);
    ground->options.metadata_dir = NULL;
    ground->load.first_key = 1000000;
    ground->load.keys = OTHER_KEYS;
    ground->load.readers = ground->load.writers = 1;
    for (unsigned i = 0; i < OTHER_OPENS; i++) {
        ground->load.reads_wanted = ground->load.asked + 300;
        ground_open(ground);
        page_load_set(&ground->load, ground->load.first_key, OTHER_KEYS);
        page_load_start(&ground->load);
        page_load_finish(&ground->load);
        ground_check(ground);
        kvs_store_close(ground->load.store);
    }
    int code = ground->load.wrong_pages != 0 ? 3 : ground->load.loaded == 0 ? 4 : 0;
    temp_dir_remove(ground->dir);
    free(ground);
    return code;
}

static pid_t start_other(const struct ground *ground, uint64_t page_bytes, uint64_t file_size)
{
    char page[24], size[24], prefix[PATH_BYTES];
    pid_t pid;
    snprintf(page, sizeof(page), "%llu", (unsigned long long)page_bytes);
    snprintf(size, sizeof(size), "%llu", (unsigned long long)file_size);
    snprintf(prefix, sizeof(prefix), "%s", ground->prefix);
    char name[] = "other", flag[] = "--use-path";
    char *argv[] = {name, flag, prefix, page, size, NULL};
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    return pid;
}

static void share_path(uint64_t page_bytes, uint64_t file_size)
{
    struct ground *ground = ground_new(NULL, &ways[0], 4096, 64);
    ground_open(ground);
    recover(ground);
    pid_t child = start_other(ground, page_bytes, file_size);
    page_load_start(&ground->load);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    page_load_stop(&ground->load);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(ground->load.wrong_pages, 0);
    struct stat about;
    assert_int_equal(stat(ground->file, &about), 0);
    assert_int_equal(about.st_size, file_size > 64 * 4096 ? file_size : 64 * 4096);
    recover(ground);
    ground_free(ground);
}

static void test_two_sizes_on_one_path(void **state)
{
    (void)state;
    static const struct {
        uint64_t page_bytes, file_size;
    } sizes[] = {
        {4096, 40 * 4096},          /* smaller: never cuts */
        {8192, 100 * 8192},         /* larger */
        {5000, 30 * 5000},          /* no multiple of anything */
        {4096 * 3 + 512, 20 << 14}, /* with a rest at the end */
    };
    for (unsigned round = 0; round < rounds; round++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            share_path(sizes[i].page_bytes, sizes[i].file_size);
}

/* ---- Sizes -----------------------------------------------------------------------------------*/

static void pages_of(const struct way *way, uint64_t page_bytes, uint64_t pages)
{
    struct ground *ground = ground_new(NULL, way, page_bytes, pages);
    ground->options.file_size += page_bytes / 2; /* a rest that holds no page */
    ground_open(ground);
    struct kvs_pool_info info;
    assert_true(kvs_store_pool_info(ground->load.store, KVS_POOL_KV, &info));
    assert_int_equal(info.num_pages, pages);
    assert_int_equal(page_load_set(&ground->load, 0, pages), pages);
    assert_int_equal(page_load_get(&ground->load, 0, pages), pages);
    kvs_store_close(ground->load.store);
    ground_open(ground);
    assert_int_equal(page_load_get(&ground->load, 0, pages), pages);
    assert_int_equal(page_load_get(&ground->load, 1, 1), 1); /* one alone */
    ground_free(ground);
}

static void test_pages_of_every_size(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes, pages;
    } sizes[] = {{4096, 9},  {4097, 9},          {4608, 9},    {12288, 9},
                 {65535, 9}, {262144 + 4096, 5}, {1000001, 4}, {4497408, 2}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t w = 0; w < WAYS; w++)
            pages_of(&ways[w], sizes[i].bytes, sizes[i].pages);
    pages_of(&ways[0], (64 << 20) - 1, 2);
    pages_of(&ways[3], 64 << 20, 2);
}

static void test_batches_of_every_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 3, 7, 64, 257, 4095, 4096, 4097, 6000};
    for (size_t w = 0; w < WAYS; w += 3) {
        struct ground *ground = ground_new(NULL, &ways[w], 4096, 6000);
        ground->options.max_inflight_bytes = 4 << 20; /* splits them once more */
        ground_open(ground);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            size_t n = sizes[i];
            assert_int_equal(kvs_store_clear(ground->load.store, NULL), KVS_OK);
            assert_int_equal(page_load_set(&ground->load, i, n), n);
            assert_int_equal(page_load_get(&ground->load, i, n), n);
        }
        ground_free(ground);
    }
}

int main(int argc, char *argv[])
{
    if (argc == 5 && strcmp(argv[1], "--use-path") == 0)
        return use_path(argv);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--rounds") == 0)
            rounds = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--only") == 0)
            cmocka_set_test_filter(argv[i + 1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_sizes_on_one_path),   cmocka_unit_test(test_pages_of_every_size),
        cmocka_unit_test(test_batches_of_every_size),   cmocka_unit_test(test_full_tmpfs_and_back),
        cmocka_unit_test(test_file_changes_under_load), cmocka_unit_test(test_full_disk_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
