/* kvshelf scrub: finds each damaged page and no other, drops it when told to, and touches nothing
 * else; where it looks for page files; what it refuses. */
#include "base/json.h"
#include "cli/scrub.h"
#include "metadata/registry.h"
#include "support/mounted.h"
#include "support/program.h"
#include "support/store_fixture.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 8192, PAGES = 40, STORED = 30, PATH_BYTES = TEMP_DIR_MAX + 64 };

/* ---- A store to look at ----------------------------------------------------------------------*/

struct shelf {
    char dir[TEMP_DIR_MAX], prefix[PATH_BYTES], file[PATH_BYTES];
    struct kvs_store_options options;
};

static void shelf_make(struct shelf *shelf)
{
    temp_dir_make(shelf->dir);
    snprintf(shelf->prefix, sizeof shelf->prefix, "%s/pages", shelf->dir);
    snprintf(shelf->file, sizeof shelf->file, "%s/pages.0.bin", shelf->dir);
    kvs_store_options_init(&shelf->options);
    shelf->options.bytes_per_page = PAGE;
    shelf->options.file_size = PAGE * PAGES;
    shelf->options.file_path_prefix = shelf->prefix;
    shelf->options.metadata_dir = shelf->dir;
    shelf->options.numjobs = 2;
}

static struct kvs_store *shelf_open(const struct shelf *shelf)
{
    struct kvs_store *store = NULL;
    struct kvs_error error = {0};
    if (kvs_store_open(&shelf->options, &store, &error) != KVS_OK)
        fail_msg("%s", error.message);
    return store;
}

static void page_of(uint64_t number, char key[80], uint8_t *page)
{
    snprintf(key, 80, "%064" PRIx64, number);
    fixture_fill(page, PAGE, number, 0);
}

static void put(struct kvs_store *store, uint32_t pool, uint64_t first, size_t n)
{
    for (uint64_t number = first; number < first + n; number++) {
        static uint8_t page[PAGE];
        char text[80];
        const char *key = text;
        const void *buffer = page;
        bool stored = false;
        page_of(number, text, page);
        kvs_store_batch_set(store, pool, 1, &key, &buffer, &stored);
        assert_true(stored);
    }
}

/* How many of them are there, with their bytes. */
static size_t count_held(struct kvs_store *store, uint64_t first, size_t n)
{
    size_t held = 0;
    for (uint64_t number = first; number < first + n; number++) {
        static uint8_t page[PAGE], expected[PAGE];
        char text[80];
        const char *key = text;
        void *buffer = page;
        bool loaded = false;
        page_of(number, text, expected);
        kvs_store_batch_get(store, KVS_POOL_KV, 1, &key, &buffer, &loaded);
        assert_true(!loaded || memcmp(page, expected, PAGE) == 0);
        held += loaded;
    }
    return held;
}

static void shelf_fill(const struct shelf *shelf)
{
    struct kvs_store *store = shelf_open(shelf);
    put(store, KVS_POOL_KV, 0, STORED);
    kvs_store_close(store);
}

/* Pages are given out in ascending order, so page n of the file is that of key n. */
static void damage(const char *path, uint64_t offset)
{
    uint8_t byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

static uint64_t size_of(const char *path)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return (uint64_t)about.st_size;
}

/* ---- Scrubbing -------------------------------------------------------------------------------*/

static bool go_on(void *arg, uint64_t pages, uint64_t total, uint64_t bytes)
{
    (void)bytes;
    assert_true(pages <= total);
    return arg == NULL;
}

static void scrub(const struct shelf *shelf, bool repair, struct scrub_report *report)
{
    const struct scrub_request request = {.dir = shelf->dir, .threads = 2, .repair = repair};
    struct kvs_error error = {0};
    if (scrub_run(&request, go_on, NULL, report, &error) != KVS_OK)
        fail_msg("%s", error.message);
}

static void expect(const struct scrub_catalog *catalog, uint64_t verified, uint64_t wrong,
                   uint64_t dropped)
{
    assert_int_equal(catalog->error.status, KVS_OK);
    assert_int_equal(catalog->verified, verified);
    assert_int_equal(catalog->wrong, wrong);
    assert_int_equal(catalog->dropped, dropped);
    assert_int_equal(catalog->unreadable, 0);
    assert_int_equal(catalog->committed, verified + wrong + catalog->unchecked);
}

static void scrub_and_expect(const struct shelf *shelf, bool repair, uint64_t verified,
                             uint64_t wrong, uint64_t dropped)
{
    struct scrub_report report;
    scrub(shelf, repair, &report);
    assert_int_equal(report.count, 1);
    expect(&report.catalogs[0], verified, wrong, dropped);
    assert_string_equal(report.catalogs[0].path, shelf->file);
    scrub_report_done(&report);
}

static void finds_and_drops_damaged_pages(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_make(&shelf);
    shelf_fill(&shelf);
    scrub_and_expect(&shelf, false, STORED, 0, 0);

    damage(shelf.file, 0);                          /* the first byte of all */
    damage(shelf.file, 7 * PAGE + 5000);            /* the middle of a page */
    damage(shelf.file, STORED * PAGE - 1);          /* the last byte of the last page */
    damage(shelf.file, (STORED + 3) * PAGE + 1000); /* nobody's */
    struct scrub_report report;
    scrub(&shelf, false, &report);
    expect(&report.catalogs[0], STORED - 3, 3, 0);
    assert_int_equal(report.catalogs[0].found[0].page, 0);
    assert_int_equal(report.catalogs[0].found[1].page, 7);
    assert_int_equal(report.catalogs[0].found[2].page, STORED - 1);
    scrub_report_done(&report);

    scrub_and_expect(&shelf, false, STORED - 3, 3, 0); /* looking has changed nothing */
    scrub_and_expect(&shelf, true, STORED - 3, 3, 3);
    scrub_and_expect(&shelf, false, STORED - 3, 0, 0);

    struct kvs_store *store = shelf_open(&shelf);
    struct kvs_store_stats stats;
    assert_int_equal(count_held(store, 0, STORED), STORED - 3);
    kvs_store_get_stats(store, &stats);
    assert_int_equal(stats.missed_absent, 3);
    assert_int_equal(stats.checksum_mismatches, 0);
    put(store, KVS_POOL_KV, 7, 1);
    assert_int_equal(count_held(store, 0, STORED), STORED - 2);
    kvs_store_close(store);
    temp_dir_remove(shelf.dir);
}

static void pages_behind_the_end_are_wrong(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_make(&shelf);
    shelf_fill(&shelf);
    assert_int_equal(truncate(shelf.file, 20 * PAGE + 1), 0);
    scrub_and_expect(&shelf, false, 20, STORED - 20, 0);
    assert_int_equal(size_of(shelf.file), 20 * PAGE + 1); /* it is not made longer */
    scrub_and_expect(&shelf, true, 20, STORED - 20, STORED - 20);
    scrub_and_expect(&shelf, false, 20, 0, 0);
    temp_dir_remove(shelf.dir);
}

/* A store that was killed has its truth on /dev/shm. */
static void a_killed_store_is_verified_too(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_make(&shelf);
    pid_t child = fork();
    if (child == 0) {
        put(shelf_open(&shelf), KVS_POOL_KV, 0, STORED);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    damage(shelf.file, 3 * PAGE);
    scrub_and_expect(&shelf, true, STORED - 1, 1, 1);
    struct kvs_store *store = shelf_open(&shelf);
    assert_int_equal(count_held(store, 0, STORED), STORED - 1);
    kvs_store_close(store);
    temp_dir_remove(shelf.dir);
}

static void another_file_drops_nothing(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_make(&shelf);
    shelf_fill(&shelf);
    assert_int_equal(truncate(shelf.file, 0), 0);
    struct scrub_report report;
    scrub(&shelf, true, &report);
    assert_int_equal(report.catalogs[0].error.status, KVS_ERR_SCRUB_ALL_WRONG);
    assert_int_equal(report.catalogs[0].wrong, STORED);
    assert_int_equal(report.catalogs[0].dropped, 0);
    scrub_report_done(&report);
    scrub_and_expect(&shelf, false, 0, STORED, 0);
    temp_dir_remove(shelf.dir);
}

static void pages_without_a_checksum_are_counted(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_make(&shelf);
    shelf_fill(&shelf);
    const struct registry_options options = {
        .dir = shelf.dir, .reserve_ttl_ms = 1000, .quarantine_ms = 1000};
    struct registry *registry;
    assert_int_equal(registry_open(&options, &registry, NULL), KVS_OK);
    struct registry_entry *entry = registry_lock(registry, 0, "kv", 2);
    assert_non_null(entry);
    struct key key;
    key_parse(&key, "plain", 5, "kv");
    struct catalog_reserved reserved;
    uint64_t now_ms = registry_now_ms(registry);
    assert_int_equal(catalog_reserve(registry_catalog(entry), now_ms, &key, 1, false, 0, &reserved),
                     KVS_OK);
    const struct catalog_confirm confirm = {.key = key, .page = reserved.page};
    enum catalog_rejection reason;
    catalog_confirm(registry_catalog(entry), now_ms, &confirm, 1, &reason);
    assert_int_equal(reason, CATALOG_ACCEPTED);
    registry_unlock(entry);
    registry_close(registry);

    struct scrub_report report;
    scrub(&shelf, true, &report);
    expect(&report.catalogs[0], STORED, 0, 0);
    assert_int_equal(report.catalogs[0].unchecked, 1);
    assert_int_equal(report.catalogs[0].committed, STORED + 1);
    scrub_report_done(&report);
    temp_dir_remove(shelf.dir);
}

/* A shard, and a pool whose name needs escaping: every catalog finds its own file. */
static void every_catalog_has_its_file(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_make(&shelf);
    shelf_fill(&shelf);
    shelf.options.pp_rank = 1;
    shelf.options.pp_size = 2;
    shelf.options.tp_rank = 3;
    shelf.options.tp_size = 4;
    struct kvs_store *store = shelf_open(&shelf);
    const struct kvs_pool_options pool = {.size = sizeof pool,
                                          .name = "state/of mamba",
                                          .bytes_per_page = PAGE,
                                          .file_size = PAGE * 10};
    uint32_t number;
    assert_int_equal(kvs_store_add_pool(store, &pool, &number, NULL), KVS_OK);
    put(store, KVS_POOL_KV, 100, 5);
    put(store, number, 200, 4);
    struct kvs_pool_info kv, mamba;
    assert_true(kvs_store_pool_info(store, KVS_POOL_KV, &kv));
    assert_true(kvs_store_pool_info(store, number, &mamba));
    char mamba_path[PATH_BYTES * 2];
    snprintf(mamba_path, sizeof mamba_path, "%s", mamba.file_path);
    kvs_store_close(store);
    damage(mamba_path, 2 * PAGE);

    for (int given = 0; given < 2; given++) {
        const struct scrub_request request = {
            .dir = shelf.dir, .prefix = given ? shelf.prefix : NULL, .threads = 2};
        struct scrub_report report;
        assert_int_equal(scrub_run(&request, go_on, NULL, &report, NULL), KVS_OK);
        assert_int_equal(report.count, 3);
        expect(&report.catalogs[0], STORED, 0, 0);
        expect(&report.catalogs[1], 5, 0, 0);
        expect(&report.catalogs[2], 3, 1, 0);
        assert_string_equal(report.catalogs[2].path, mamba_path);
        scrub_report_done(&report);
    }
    temp_dir_remove(shelf.dir);
}

static void stops_when_told_to(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_make(&shelf);
    shelf_fill(&shelf);
    const struct scrub_request request = {.dir = shelf.dir, .threads = 1};
    struct scrub_report report;
    int stop = 1;
    assert_int_equal(scrub_run(&request, go_on, &stop, &report, NULL), KVS_OK);
    assert_true(report.stopped);
    scrub_report_done(&report);
    temp_dir_remove(shelf.dir);
}

/* ---- As a user runs it -----------------------------------------------------------------------*/

static void expect_run(struct program_result result, int exit_code, const char *out,
                       const char *err)
{
    if (result.exit_code != exit_code || strstr(result.out.data, out) == NULL ||
        strstr(result.err.data, err) == NULL)
        fail_msg("exit code %d for %d, expected '%s' and '%s' in:\n%s\n%s", result.exit_code,
                 exit_code, out, err, result.out.data, result.err.data);
    program_done(&result);
}

static void write_config(const struct shelf *shelf, const char *path, bool kept)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file,
            "{\"file_path_prefix\": \"%s\", \"file_size\": %d, \"numjobs\": 2, \"entries\": 2",
            shelf->prefix, PAGE * PAGES);
    if (kept)
        fprintf(file, ", \"metadata_dir\": \"%s\"", shelf->dir);
    fputs("}\n", file);
    assert_int_equal(fclose(file), 0);
}

static void the_command_says_what_it_finds(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_make(&shelf);
    shelf_fill(&shelf);
    expect_run(PROGRAM("scrub", shelf.dir), 0, "verified                   30 pages", "");
    damage(shelf.file, 12 * PAGE + 9);
    expect_run(PROGRAM("scrub", shelf.dir), 1, "wrong                       1 page  (12)",
               "KVS-804");
    expect_run(PROGRAM("scrub", shelf.dir, "--json"), 1, "\"wrong_pages\":[12]", "KVS-804");
    expect_run(PROGRAM("scrub", shelf.dir, "--json"), 1, "\"symbol\":\"KVS_ERR_WRONG_BYTES\"",
               "KVS-804");
    expect_run(PROGRAM("scrub", shelf.dir, "--repair", "--json"), 0,
               "\"error\":null,\"symbol\":null", "");
    expect_run(PROGRAM("scrub", shelf.dir, "--json"), 0, "\"verified\":29,\"without_checksum\":0",
               "");

    struct kvs_store *store = shelf_open(&shelf);
    expect_run(PROGRAM("scrub", shelf.dir, "--repair"), 1, "", "are in use by process");
    assert_int_equal(count_held(store, 0, STORED), STORED - 1);
    kvs_store_close(store);
    temp_dir_remove(shelf.dir);
}

static void the_command_finds_its_files_or_says_why_not(void **state)
{
    (void)state;
    struct shelf shelf;
    shelf_make(&shelf);
    shelf_fill(&shelf);
    char config[PATH_BYTES], other[PATH_BYTES], empty[PATH_BYTES];
    snprintf(config, sizeof config, "%s/config.json", shelf.dir);
    snprintf(other, sizeof other, "%s/other.0.bin", shelf.dir);
    snprintf(empty, sizeof empty, "%s/missing", shelf.dir);
    write_config(&shelf, config, true);
    unsetenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH");
    expect_run(PROGRAM("scrub"), 2, "", "name a directory of catalogs");
    expect_run(PROGRAM("scrub", "--config", config), 0, "30 pages", "");
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    expect_run(PROGRAM("scrub"), 0, "30 pages", "");
    unsetenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH");
    write_config(&shelf, config, false);
    expect_run(PROGRAM("scrub", "--config", config), 2, "", "has no metadata_dir");
    expect_run(PROGRAM("scrub", "--config", config, shelf.dir), 0, "30 pages", "");

    expect_run(PROGRAM("scrub", empty), 1, "", "There is no kvshelf catalog");
    assert_int_equal(access(empty, F_OK), -1); /* nor is one made */
    FILE *file = fopen(other, "we");           /* which of the two? */
    assert_non_null(file);
    fclose(file);
    expect_run(PROGRAM("scrub", shelf.dir), 1, "", "holds 2 files named *.0.bin");
    expect_run(PROGRAM("scrub", shelf.dir, "--prefix", shelf.prefix), 0, "30 pages", "");
    assert_int_equal(unlink(other), 0);
    assert_int_equal(unlink(shelf.file), 0);
    expect_run(PROGRAM("scrub", shelf.dir), 1, "", "holds no file named *.0.bin");
    expect_run(PROGRAM("scrub", shelf.dir, "--prefix", shelf.prefix), 1, "", "No such file");
    assert_int_equal(access(shelf.file, F_OK), -1); /* nor is one made */
    temp_dir_remove(shelf.dir);
}

/* ---- A device that fails ---------------------------------------------------------------------*/

enum { DEVICE_BYTES = 16 << 20, FIRST_BAD = 20 };

/* Where on its device a file has this offset. */
static uint64_t place_on_device(const char *path, uint64_t offset)
{
    union {
        struct fiemap map;
        uint8_t room[sizeof(struct fiemap) + sizeof(struct fiemap_extent)];
    } ask = {.map = {.fm_start = offset, .fm_length = 1, .fm_extent_count = 1}};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ioctl(fd, FS_IOC_FIEMAP, &ask), 0);
    close(fd);
    assert_int_equal(ask.map.fm_mapped_extents, 1);
    const struct fiemap_extent *extent = &ask.map.fm_extents[0];
    return extent->fe_physical + (offset - extent->fe_logical);
}

/* Scrubs while the device cannot be read from page FIRST_BAD on (and, where the kernel reads more
 * at once, somewhat before). */
static void scrub_failing_device(const struct shelf *shelf)
{
    struct scrub_report report;
    const struct scrub_request request = {
        .dir = shelf->dir, .prefix = shelf->prefix, .threads = 2, .repair = true};
    assert_int_equal(scrub_run(&request, go_on, NULL, &report, NULL), KVS_OK);
    const struct scrub_catalog *catalog = &report.catalogs[0];
    assert_int_equal(catalog->error.status, KVS_OK);
    assert_true(catalog->unreadable >= STORED - FIRST_BAD);
    assert_int_equal(catalog->read_errno, EIO);
    assert_int_equal(catalog->verified + catalog->unreadable, STORED);
    assert_int_equal(catalog->wrong + catalog->dropped, 0);
    scrub_report_done(&report);

    expect_run(PROGRAM("scrub", shelf->dir, "--prefix", shelf->prefix), 1,
               "pages  (first: Input/output error)\n", "KVS-804");
    expect_run(PROGRAM("scrub", shelf->dir, "--prefix", shelf->prefix, "--repair", "--json"), 1,
               "\"wrong\":0,\"unreadable\":", "KVS-804");
}

/* Unreadable pages are told and kept: when the device can be read again they are there. */
static void pages_of_a_failing_device_are_kept(void **state)
{
    (void)state;
    struct shelf shelf;
    char device[TEMP_DIR_MAX], reason[256];
    int image = -1;
    shelf_make(&shelf);
    temp_dir_make(device);
    if (!mounted_ext4(device, DEVICE_BYTES, &image, reason, sizeof reason)) {
        print_message("skipped: %s\n", reason);
        temp_dir_remove(device);
        temp_dir_remove(shelf.dir);
        skip();
    }
    snprintf(shelf.prefix, sizeof shelf.prefix, "%s/pages", device);
    snprintf(shelf.file, sizeof shelf.file, "%s/pages.0.bin", device);
    shelf_fill(&shelf);
    int fd = open(shelf.file, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(syncfs(fd), 0);
    close(fd);

    uint64_t cut = place_on_device(shelf.file, FIRST_BAD * PAGE);
    static uint8_t rest[DEVICE_BYTES];
    assert_int_equal(pread(image, rest, DEVICE_BYTES - cut, (off_t)cut), DEVICE_BYTES - cut);
    assert_int_equal(ftruncate(image, (off_t)cut), 0);
    scrub_failing_device(&shelf);
    assert_int_equal(pwrite(image, rest, DEVICE_BYTES - cut, (off_t)cut), DEVICE_BYTES - cut);
    expect_run(PROGRAM("scrub", shelf.dir, "--prefix", shelf.prefix), 0,
               "verified                   30 pages", "");

    close(image);
    mounted_undo(device);
    temp_dir_remove(device);
    temp_dir_remove(shelf.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_and_drops_damaged_pages),
        cmocka_unit_test(pages_behind_the_end_are_wrong),
        cmocka_unit_test(a_killed_store_is_verified_too),
        cmocka_unit_test(another_file_drops_nothing),
        cmocka_unit_test(pages_without_a_checksum_are_counted),
        cmocka_unit_test(every_catalog_has_its_file),
        cmocka_unit_test(stops_when_told_to),
        cmocka_unit_test(the_command_says_what_it_finds),
        cmocka_unit_test(the_command_finds_its_files_or_says_why_not),
        cmocka_unit_test(pages_of_a_failing_device_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
