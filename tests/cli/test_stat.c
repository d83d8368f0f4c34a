/* kvshelf stat: figures of a directory that is in use, closed, damaged; and that looking changes
 * nothing. */
#include "base/clock.h"
#include "cli/stat_read.h"
#include "metadata/registry.h"
#include "support/program.h"
#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[] = "stat_test_XXXXXX";

static int make_place(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(place));
    return 0;
}

static int remove_place(void **state)
{
    (void)state;
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", place);
    return system(command);
}

static struct registry *open_kept(const char *dir)
{
    struct registry_options options = {
        .dir = dir, .reserve_ttl_ms = 60000, .quarantine_ms = 60000, .lease_ms = 10000};
    struct registry *registry = NULL;
    struct kvs_error error;
    if (registry_open(&options, &registry, &error) != KVS_OK)
        fail_msg("%s", error.message);
    return registry;
}

/* Reserves n keys from `first` on and confirms all but the last `open` of them. */
static void use_pages(struct registry *registry, uint32_t rank, const char *ns, uint8_t first,
                      size_t n, size_t open)
{
    struct key keys[64];
    struct catalog_reserved reserved[64];
    struct catalog_confirm confirms[64];
    enum catalog_rejection reasons[64];
    assert_true(n <= 64);
    struct registry_entry *entry = registry_lock(registry, rank, ns, strlen(ns));
    assert_non_null(entry);
    for (size_t i = 0; i < n; i++) {
        memset(&keys[i], 0, sizeof keys[i]);
        keys[i].digest[0] = (uint8_t)(first + i);
        keys[i].suffix = KEY_PLAIN;
    }
    struct catalog *catalog = registry_catalog(entry);
    assert_int_equal(catalog_reserve(catalog, clock_boot_ms(), keys, n, true, 0, reserved), KVS_OK);
    for (size_t i = 0; i < n; i++)
        confirms[i] = (struct catalog_confirm){.key = keys[i],
                                               .page = reserved[i].page,
                                               .has_generation = true,
                                               .generation = reserved[i].generation,
                                               .has_checksum = true};
    catalog_confirm(catalog, clock_boot_ms(), confirms, n - open, reasons);
    registry_unlock(entry);
}

static void initialize(struct registry *registry, uint32_t rank, const char *ns, uint64_t num_pages,
                       uint64_t bytes_per_page, const char *fingerprint)
{
    struct kvs_error error;
    if (registry_initialize(registry, rank, ns, num_pages, bytes_per_page, fingerprint, &error) !=
        KVS_OK)
        fail_msg("%s", error.message);
}

static const char *make_dir(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", place, name);
    struct registry *registry = open_kept(path);
    initialize(registry, 0, "kv", 100, 4096, "model=m");
    use_pages(registry, 0, "kv", 0, 30, 10);
    registry_close(registry);
    return path;
}

/* ---- Tests -----------------------------------------------------------------------------------*/

static void counts_pages_by_state(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/%s", place, "several");
    struct registry *registry = open_kept(path);
    initialize(registry, 3, "swa", 50, 0, NULL);
    initialize(registry, 0, "kv", 100, 4096, "model=m");
    initialize(registry, 0, "a b", 7, 1, NULL);
    use_pages(registry, 0, "kv", 0, 30, 10);
    use_pages(registry, 3, "swa", 0, 5, 0);
    struct registry_entry *entry = registry_lock(registry, 3, "swa", 3);
    catalog_clear(registry_catalog(entry), clock_boot_ms()); /* cleared pages count as retired */
    registry_unlock(entry);
    use_pages(registry, 3, "swa", 100, 2, 0);
    struct kvs_error error;
    assert_int_equal(registry_sync(registry, &error), KVS_OK);

    for (int closed = 0; closed < 2; closed++) {
        struct stat_dir dir;
        assert_int_equal(stat_dir_read(path, &dir, &error), KVS_OK);
        assert_int_equal(dir.num_catalogs, 3);
        assert_int_equal(dir.in_use_by, closed ? 0 : (uint64_t)getpid());
        const struct stat_catalog *kv = &dir.catalogs[1], *swa = &dir.catalogs[2];
        assert_string_equal(dir.catalogs[0].header.ns, "a b");
        assert_int_equal(dir.catalogs[0].pages.free, 7);
        assert_string_equal(kv->header.ns, "kv");
        assert_string_equal(kv->header.fingerprint, "model=m");
        assert_int_equal(kv->header.bytes_per_page, 4096);
        assert_int_equal(kv->pages.committed, 20);
        assert_int_equal(kv->pages.reserved, 10);
        assert_int_equal(kv->pages.free, 70);
        assert_int_equal(kv->pages.retired, 0);
        assert_int_equal(kv->header.clean, closed);
        assert_int_equal(swa->header.rank, 3);
        assert_int_equal(swa->pages.committed, 2);
        assert_int_equal(
            swa->pages.committed + swa->pages.reserved + swa->pages.retired + swa->pages.free, 50);
        assert_int_equal(swa->damaged, 0);
        stat_dir_done(&dir);
        if (!closed)
            registry_close(registry);
    }
}

static void the_program_prints_and_changes_nothing(void **state)
{
    (void)state;
    const char *path = make_dir("printed");
    char image[160];
    snprintf(image, sizeof image, "%s/0.kv.kvc", path);
    struct stat before, after;
    assert_int_equal(stat(image, &before), 0);

    struct program_result text = PROGRAM("stat", path);
    assert_int_equal(text.exit_code, 0);
    static const char *const parts[] = {
        "rank 0, namespace kv", "100 pages of 4 KiB", "committed", "20 pages", "model=m",
        "clean stop",           "file system"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(buffer_text(&text.out), parts[i]) == NULL)
            fail_msg("'%s' is not in:\n%s", parts[i], buffer_text(&text.out));
    program_done(&text);

    struct program_result json = PROGRAM("stat", path, "--json");
    assert_int_equal(json.exit_code, 0);
    assert_non_null(
        strstr(buffer_text(&json.out),
               "\"pages\":{\"free\":70,\"reserved\":10,\"committed\":20,\"retired\":0}"));
    assert_non_null(strstr(buffer_text(&json.out), "\"in_use_by\":null"));
    assert_non_null(strstr(buffer_text(&json.out), "\"clean\":true"));
    program_done(&json);

    struct registry *registry = open_kept(path); /* while this process has it */
    struct program_result used = PROGRAM("stat", path);
    assert_int_equal(used.exit_code, 0);
    char expected[64];
    snprintf(expected, sizeof expected, "by process %ld", (long)getpid());
    assert_non_null(strstr(buffer_text(&used.out), expected));
    program_done(&used);
    registry_close(registry);

    struct program_result again = PROGRAM("stat", path);
    program_done(&again);
    assert_int_equal(stat(image, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
}

/* What is done to the image, and what is said of it. */
static const struct {
    const char *name;
    off_t at;         /* where bytes are flipped in both header copies; -1: none */
    off_t cut_to;     /* -1: not */
    const char *text; /* replaces the file; NULL: not */
    const char *says;
} damages[] = {
    {"foreign", -1, -1, "PNG or something else that is not a catalog", "KVS_ERR_CATALOG_FOREIGN"},
    {"empty", -1, 0, NULL, "KVS_ERR_CATALOG_TRUNCATED"},
    {"half_a_header", -1, 2000, NULL, "KVS_ERR_CATALOG_TRUNCATED"},
    {"cut", -1, 13000, NULL, "KVS_ERR_CATALOG_TRUNCATED"},
    {"other_version", offsetof(struct image_header, version), -1, NULL, "KVS_ERR_CATALOG_VERSION"},
    {"flipped", offsetof(struct image_header, num_pages), -1, NULL, "KVS_ERR_CATALOG_DAMAGED"},
};

static void flip(int fd, off_t at)
{
    unsigned char byte;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

static void a_damaged_catalog_is_said_and_does_not_hide_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        char path[128], image[160];
        snprintf(path, sizeof path, "%s", make_dir(damages[i].name));
        struct registry *registry = open_kept(path);
        initialize(registry, 1, "kv", 10, 512, NULL);
        registry_close(registry);
        snprintf(image, sizeof image, "%s/0.kv.kvc", path);
        int fd = open(image, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        if (damages[i].at >= 0)
            for (off_t copy = 0; copy < IMAGE_COPIES; copy++)
                flip(fd, copy * IMAGE_BLOCK_BYTES + damages[i].at);
        if (damages[i].cut_to >= 0 || damages[i].text != NULL)
            assert_int_equal(ftruncate(fd, damages[i].text != NULL ? 0 : damages[i].cut_to), 0);
        if (damages[i].text != NULL)
            assert_true(pwrite(fd, damages[i].text, strlen(damages[i].text), 0) > 0);
        close(fd);

        struct program_result json = PROGRAM("stat", path, "--json");
        assert_int_equal(json.exit_code, 1);
        if (strstr(buffer_text(&json.out), damages[i].says) == NULL)
            fail_msg("%s: %s", damages[i].name, buffer_text(&json.out));
        assert_non_null(strstr(buffer_text(&json.out), "\"rank\":1,\"namespace\":\"kv\""));
        program_done(&json);
        struct program_result text = PROGRAM("stat", path);
        assert_int_equal(text.exit_code, 1);
        assert_non_null(strstr(buffer_text(&text.out), "rank 1, namespace kv"));
        assert_non_null(strstr(buffer_text(&text.err), "kvshelf explain"));
        program_done(&text);
    }
}

static void slots_with_a_wrong_checksum_count_as_retired(void **state)
{
    (void)state;
    char image[160];
    const char *path = make_dir("slots");
    snprintf(image, sizeof image, "%s/0.kv.kvc", path);
    int fd = open(image, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    flip(fd, IMAGE_SLOTS_OFFSET + 5);
    close(fd);
    struct stat_dir dir;
    assert_int_equal(stat_dir_read(path, &dir, NULL), KVS_OK);
    assert_int_equal(dir.catalogs[0].damaged, 1);
    assert_int_equal(dir.catalogs[0].pages.retired, 1);
    assert_int_equal(dir.catalogs[0].pages.committed + dir.catalogs[0].pages.reserved, 29);
    stat_dir_done(&dir);
}

static void says_where_there_is_none(void **state)
{
    (void)state;
    struct stat_dir dir;
    struct kvs_error error;
    char path[160];
    snprintf(path, sizeof path, "%s/nothing_here", place);
    assert_int_equal(stat_dir_read(path, &dir, &error), KVS_ERR_CATALOG_NONE);
    assert_non_null(strstr(error.message, ": no such directory"));
    stat_dir_done(&dir);
    /* One that was never used is as one whose namespaces were dropped, but not one of other files.
     */
    char file[192];
    snprintf(file, sizeof file, "%s/lock", path);
    assert_int_equal(mkdir(path, 0700), 0);
    for (int emptied = 0; emptied < 2; emptied++) {
        assert_int_equal(stat_dir_read(path, &dir, &error), KVS_OK);
        assert_int_equal(dir.num_catalogs, 0);
        stat_dir_done(&dir);
        struct program_result result = PROGRAM("stat", path);
        assert_int_equal(result.exit_code, 0);
        assert_non_null(strstr(buffer_text(&result.out), ": 0 catalogs"));
        program_done(&result);
        assert_int_equal(close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
    }
    char other[192];
    snprintf(other, sizeof other, "%s/pages.0.bin", path);
    assert_int_equal(rename(file, other), 0);
    assert_int_equal(stat_dir_read(path, &dir, &error), KVS_ERR_CATALOG_NONE);
    assert_non_null(strstr(error.message, "no file named *.kvc"));
    stat_dir_done(&dir);
    assert_int_equal(stat_dir_read("localhost:18000", &dir, &error), KVS_ERR_CATALOG_NONE);
    assert_non_null(strstr(error.message, "begins with http://"));
    stat_dir_done(&dir);
    snprintf(path, sizeof path, "%s/printed/0.kv.kvc", place);
    assert_int_equal(stat_dir_read(path, &dir, &error), KVS_ERR_CATALOG_DIR); /* a file */
    stat_dir_done(&dir);
    struct program_result result = PROGRAM("stat", path);
    assert_int_equal(result.exit_code, 1);
    program_done(&result);
    result = PROGRAM("stat");
    assert_int_equal(result.exit_code, 2);
    program_done(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_pages_by_state),
        cmocka_unit_test(the_program_prints_and_changes_nothing),
        cmocka_unit_test(a_damaged_catalog_is_said_and_does_not_hide_others),
        cmocka_unit_test(slots_with_a_wrong_checksum_count_as_retired),
        cmocka_unit_test(says_where_there_is_none),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
