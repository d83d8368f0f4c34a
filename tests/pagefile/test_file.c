/* Opening and growing page files, full disks, and which engine is chosen. Tests that need a mount
 * of their own are skipped, with the reason, where they may not make one. */
#include "pagefile/pagefile.h"
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 64 * 1024, PAGES = 16 };

/* ---- Helpers --------------------------------------------------------------------------------*/

struct world {
    char dir[64];
    char lines[4096]; /* what was logged */
};

static void log_to_world(void *arg, enum kvs_log_level level, const char *line)
{
    struct world *world = arg;
    (void)level;
    size_t used = strlen(world->lines);
    snprintf(world->lines + used, sizeof(world->lines) - used, "%s\n", line);
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    snprintf(world->dir, sizeof(world->dir), "file-XXXXXX");
    *state = world;
    return mkdtemp(world->dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", world->dir);
    int failed = system(command);
    free(world);
    return failed;
}

static struct pagefile_options options_for(struct world *world, const char *path)
{
    return (struct pagefile_options){.path = path,
                                     .file_size = PAGE * PAGES,
                                     .bytes_per_page = PAGE,
                                     .threads = 3,
                                     .entries = 4,
                                     .direct = KVS_DIRECT_OFF,
                                     .log = {log_to_world, world}};
}

static uint64_t size_of(const char *path)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return (uint64_t)about.st_size;
}

static enum kvs_status open_and_close(const struct pagefile_options *options,
                                      struct kvs_error *error)
{
    struct pagefile *untouched = (struct pagefile *)(uintptr_t)1, *file = untouched;
    enum kvs_status status = pagefile_open(KVS_IO_POSIX, options, &file, error);
    if (status == KVS_OK) {
        file->ops->close(file);
    } else {
        assert_ptr_equal(file, untouched);
    }
    return status;
}

static int64_t move(struct pagefile *file, enum page_direction direction, uint64_t page,
                    char *bytes)
{
    struct page_batch *batch = page_batch_new(direction, 1, NULL, NULL);
    *page_batch_ios(batch) =
        (struct page_io){.offset = page * PAGE, .buffer = bytes, .length = PAGE};
    assert_int_equal(file->ops->run(file, batch, 0), KVS_OK);
    int64_t result = page_batch_ios(batch)->result;
    page_batch_abandon(batch);
    return result;
}

/* ---- Opening --------------------------------------------------------------------------------*/

static void test_directories_and_mode(void **state)
{
    struct world *world = *state;
    char path[128];
    snprintf(path, sizeof(path), "%s//a/b/../b/c/pages.bin", world->dir);
    struct pagefile_options options = options_for(world, path);
    assert_int_equal(open_and_close(&options, NULL), KVS_OK);
    assert_int_equal(size_of(path), PAGE * PAGES);
    struct stat about;
    stat(path, &about);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_string_equal(world->lines, "");
}

/* For who only looks: nothing is made, nothing grows, nothing can be written, not later either. */
static void test_an_existing_file_stays_as_it_is(void **state)
{
    struct world *world = *state;
    static char bytes[PAGE];
    char path[128];
    struct kvs_error error;
    struct stat about;
    snprintf(path, sizeof(path), "%s/a/pages.bin", world->dir);
    struct pagefile_options look = options_for(world, path), make = options_for(world, path);
    look.existing = true;
    assert_int_equal(open_and_close(&look, &error), KVS_ERR_FILE_OPEN);
    assert_non_null(strstr(error.message, "No such file"));
    snprintf(path, sizeof(path), "%s/a", world->dir);
    assert_int_equal(stat(path, &about), -1);

    snprintf(path, sizeof(path), "%s/a/pages.bin", world->dir);
    make.file_size = PAGE * 2;
    assert_int_equal(open_and_close(&make, NULL), KVS_OK);
    struct pagefile *file;
    assert_int_equal(pagefile_open(KVS_IO_AUTO, &look, &file, NULL), KVS_OK);
    assert_int_equal(move(file, PAGE_READ, 1, bytes), PAGE);
    assert_int_equal(move(file, PAGE_READ, 2, bytes), 0); /* beyond its end */
    assert_int_equal(move(file, PAGE_WRITE, 0, bytes), -EBADF);
    assert_int_equal(file->ops->check(file, NULL), KVS_OK);
    assert_int_equal(size_of(path), PAGE * 2);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(file->ops->check(file, NULL), KVS_ERR_FILE_OPEN);
    assert_int_equal(stat(path, &about), -1);
    file->ops->close(file);
    assert_string_equal(world->lines, "");
}

static void test_only_grows(void **state)
{
    struct world *world = *state;
    char path[128];
    snprintf(path, sizeof(path), "%s/pages.bin", world->dir);
    static const uint64_t sizes[] = {PAGE, PAGE * 3, PAGE * 2, PAGE * 3 + 1, 1};
    uint64_t largest = 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct pagefile_options options = options_for(world, path);
        options.file_size = sizes[i];
        assert_int_equal(open_and_close(&options, NULL), KVS_OK);
        largest = sizes[i] > largest ? sizes[i] : largest;
        assert_int_equal(size_of(path), largest);
    }
}

struct opener {
    struct pagefile_options options;
    enum kvs_status status;
};

static void *open_main(void *arg)
{
    struct opener *opener = arg;
    opener->status = open_and_close(&opener->options, NULL);
    return NULL;
}

/* Ranks start together, with directories missing and sizes that differ. */
static void test_opened_by_many(void **state)
{
    struct world *world = *state;
    for (unsigned round = 0; round < 20; round++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%u/x/y/z/pages.bin", world->dir, round);
        struct opener openers[8];
        pthread_t threads[8];
        for (uint64_t i = 0; i < 8; i++) {
            openers[i].options = options_for(world, path);
            openers[i].options.log = (struct logger){NULL, NULL};
            openers[i].options.file_size = PAGE * (1 + (i * 5 + round) % 8);
            assert_int_equal(pthread_create(&threads[i], NULL, open_main, &openers[i]), 0);
        }
        for (size_t i = 0; i < 8; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(openers[i].status, KVS_OK);
        }
        assert_int_equal(size_of(path), PAGE * 8);
    }
}

static void test_open_errors(void **state)
{
    struct world *world = *state;
    char file[128], fifo[128], below[160], loop[128];
    snprintf(file, sizeof(file), "%s/file", world->dir);
    snprintf(below, sizeof(below), "%s/file/pages.bin", world->dir);
    snprintf(fifo, sizeof(fifo), "%s/fifo", world->dir);
    snprintf(loop, sizeof(loop), "%s/loop", world->dir);
    fclose(fopen(file, "w"));
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("loop", loop), 0);
    const struct {
        const char *path;
        uint64_t size;
        enum kvs_status status;
        const char *says;
    } rows[] = {
        {world->dir, PAGE, KVS_ERR_FILE_OPEN, "directory"},
        {below, PAGE, KVS_ERR_FILE_DIRECTORY, "Not a directory"},
        {fifo, PAGE, KVS_ERR_FILE_OPEN, "not a regular file"},
        {"/dev/null", PAGE, KVS_ERR_FILE_OPEN, "not a regular file"},
        {loop, PAGE, KVS_ERR_FILE_OPEN, "symbolic links"},
        {"/proc/kvshelf/pages.bin", PAGE, KVS_ERR_FILE_DIRECTORY, "/proc/kvshelf"},
        {file, (1ULL << 62) + 1, KVS_ERR_FILE_SIZE, "File too large"},
        {file, UINT64_MAX, KVS_ERR_FILE_SIZE, "File too large"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pagefile_options options = options_for(world, rows[i].path);
        options.file_size = rows[i].size;
        struct kvs_error error = {.status = KVS_OK};
        assert_int_equal(open_and_close(&options, &error), rows[i].status);
        assert_int_equal(error.status, rows[i].status);
        if (!strstr(error.message, rows[i].says)) {
            fail_msg("'%s' does not say '%s'", error.message, rows[i].says);
        }
    }
    assert_int_equal(size_of(file), 0);
}

/* Beyond ulimit -f the kernel would end the process. */
static void test_file_limit(void **state)
{
    struct world *world = *state;
    char path[128];
    snprintf(path, sizeof(path), "%s/pages.bin", world->dir);
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = (struct rlimit){.rlim_cur = PAGE, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct pagefile_options options = options_for(world, path);
    struct kvs_error error;
    enum kvs_status status = open_and_close(&options, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, KVS_ERR_FILE_SIZE);
    assert_non_null(strstr(error.message, "ulimit -f"));
}

static void test_a_file_open_to_others_is_warned_of(void **state)
{
    struct world *world = *state;
    char path[128];
    snprintf(path, sizeof(path), "%s/pages.bin", world->dir);
    struct pagefile_options options = options_for(world, path);
    assert_int_equal(open_and_close(&options, NULL), KVS_OK);
    assert_null(strstr(world->lines, "by every user"));
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(open_and_close(&options, NULL), KVS_OK);
    assert_non_null(strstr(world->lines, "can be read by every user (mode 644)"));
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(open_and_close(&options, NULL), KVS_OK);
    assert_non_null(strstr(world->lines, "can be changed by every user (mode 666)"));
    if (geteuid() == 0) { /* who else may give a file away */
        assert_int_equal(chmod(path, 0600), 0);
        assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
        assert_int_equal(open_and_close(&options, NULL), KVS_OK);
        assert_non_null(strstr(world->lines, "belongs to user 65534"));
    }
}

/* Two indexes over one file: reads stay true by their checksums, and nothing else would tell. */
static void test_a_second_index_is_warned_of(void **state)
{
    struct world *world = *state;
    static const char line[] = "is in use by another store";
    char path[128];
    snprintf(path, sizeof(path), "%s/pages.bin", world->dir);
    struct pagefile_options options = options_for(world, path);
    static const struct {
        enum pagefile_index first, second;
        bool warned;
    } cases[] = {
        {PAGEFILE_INDEX_OWN, PAGEFILE_INDEX_OWN, true},
        {PAGEFILE_INDEX_OWN, PAGEFILE_INDEX_SHARED, true},
        {PAGEFILE_INDEX_OWN, PAGEFILE_INDEX_NOBODYS, false},
        {PAGEFILE_INDEX_SHARED, PAGEFILE_INDEX_OWN, true},
        {PAGEFILE_INDEX_SHARED, PAGEFILE_INDEX_SHARED, false},
        {PAGEFILE_INDEX_NOBODYS, PAGEFILE_INDEX_OWN, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pagefile *first = NULL;
        options.index = cases[i].first;
        assert_int_equal(pagefile_open(KVS_IO_POSIX, &options, &first, NULL), KVS_OK);
        assert_null(strstr(world->lines, line));
        options.index = cases[i].second;
        assert_int_equal(open_and_close(&options, NULL), KVS_OK);
        assert_int_equal(strstr(world->lines, line) != NULL, cases[i].warned);
        first->ops->close(first);
        world->lines[0] = '\0';
    }
}

static void test_the_warning_follows_the_file(void **state)
{
    struct world *world = *state;
    static const char line[] = "is in use by another store";
    char path[128];
    snprintf(path, sizeof(path), "%s/pages.bin", world->dir);
    struct pagefile_options options = options_for(world, path);
    options.index = PAGEFILE_INDEX_OWN;
    struct pagefile *first = NULL, *second = NULL;
    assert_int_equal(pagefile_open(KVS_IO_POSIX, &options, &first, NULL), KVS_OK);
    assert_int_equal(unlink(path), 0); /* another file takes its place */
    assert_int_equal(first->ops->check(first, NULL), KVS_ERR_FILE_CHANGED);
    assert_null(strstr(world->lines, line));
    assert_int_equal(pagefile_open(KVS_IO_POSIX, &options, &second, NULL), KVS_OK);
    assert_non_null(strstr(world->lines, line));

    world->lines[0] = '\0';
    first->ops->close(first); /* the second one is still there */
    assert_int_equal(second->ops->check(second, NULL), KVS_OK);
    assert_int_equal(open_and_close(&options, NULL), KVS_OK);
    assert_non_null(strstr(world->lines, line));
    world->lines[0] = '\0';
    second->ops->close(second);
    assert_int_equal(open_and_close(&options, NULL), KVS_OK);
    assert_null(strstr(world->lines, line));
}

enum child_exit { CHILD_FINE, CHILD_WRONG, CHILD_CANNOT };

/* Root may open everything, so root becomes somebody else. */
static enum child_exit open_as_somebody(const struct pagefile_options *options)
{
    if (getuid() == 0 && setuid(65534) != 0) {
        return CHILD_CANNOT;
    }
    struct kvs_error error = {.message = ""};
    enum kvs_status status = open_and_close(options, &error);
    return status == KVS_ERR_FILE_OPEN && strstr(error.message, "Permission denied") ? CHILD_FINE
                                                                                     : CHILD_WRONG;
}

static void test_not_permitted(void **state)
{
    struct world *world = *state;
    char path[128];
    snprintf(path, sizeof(path), "%s/pages.bin", world->dir);
    fclose(fopen(path, "w"));
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(chmod(world->dir, 0755), 0);
    struct pagefile_options options = options_for(world, path);
    pid_t child = fork();
    if (child == 0) {
        _exit((int)open_as_somebody(&options));
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), CHILD_FINE);
}

static void test_forgets_no_descriptor(void **state)
{
    struct world *world = *state;
    char path[128];
    snprintf(path, sizeof(path), "%s/pages.bin", world->dir);
    int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(before);
    bool was_open[16];
    for (int i = 0; i < 16; i++) {
        was_open[i] = fcntl(before + i, F_GETFD) >= 0;
    }
    struct pagefile_options options = options_for(world, path);
    for (int engine = KVS_IO_AUTO; engine <= KVS_IO_USRBIO; engine++) {
        struct pagefile *file = NULL;
        if (pagefile_open((enum kvs_io_engine)engine, &options, &file, NULL) == KVS_OK) {
            for (int i = 0; i < 16; i++) { /* none is inherited by a program */
                int flags = fcntl(before + i, F_GETFD);
                assert_true(was_open[i] || flags < 0 || (flags & FD_CLOEXEC));
            }
            file->ops->close(file);
        }
    }
    options.path = world->dir;
    open_and_close(&options, NULL);
    int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(after);
    assert_int_equal(before, after);
}

/* ---- Disks that are full or may not be written -----------------------------------------------*/

/* False, and the reason printed, when it may not be mounted here. */
static bool mount_tmpfs(const char *dir, const char *what)
{
    if (mount("tmpfs", dir, "tmpfs", 0, what) != 0) {
        print_message("skipped: cannot mount a tmpfs: %s\n", strerror(errno));
        return false;
    }
    return true;
}

static void test_full_disk(void **state)
{
    struct world *world = *state;
    char dir[96], path[128];
    snprintf(dir, sizeof(dir), "%s/mnt", world->dir);
    snprintf(path, sizeof(path), "%s/pages.bin", dir);
    mkdir(dir, 0700);
    if (!mount_tmpfs(dir, "size=512k")) {
        skip();
    }
    struct pagefile_options options = options_for(world, path);
    struct pagefile *file = NULL;
    assert_int_equal(pagefile_open(KVS_IO_POSIX, &options, &file, NULL), KVS_OK);
    assert_non_null(strstr(world->lines, "1048576 bytes (file_size)"));
    assert_non_null(strstr(world->lines, "bytes free"));
    static char bytes[PAGE];
    unsigned kept = 0, refused = 0;
    for (uint64_t page = 0; page < PAGES; page++) {
        memset(bytes, (int)page + 1, PAGE);
        int64_t result = move(file, PAGE_WRITE, page, bytes);
        kept += result == PAGE;
        refused += result == -ENOSPC;
    }
    assert_true(kept >= 6 && refused >= 7);
    assert_int_equal(kept + refused, PAGES);
    for (uint64_t page = 0; page < kept; page++) { /* and what was kept is whole */
        assert_int_equal(move(file, PAGE_READ, page, bytes), PAGE);
        assert_true(bytes[0] == (char)(page + 1) && memcmp(bytes, bytes + 1, PAGE - 1) == 0);
    }
    file->ops->close(file);
    assert_int_equal(umount(dir), 0);
}

static void test_read_only(void **state)
{
    struct world *world = *state;
    char dir[96], path[128];
    snprintf(dir, sizeof(dir), "%s/mnt", world->dir);
    mkdir(dir, 0700);
    if (!mount_tmpfs(dir, "size=512k")) {
        skip();
    }
    assert_int_equal(mount("tmpfs", dir, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
    struct kvs_error error;
    snprintf(path, sizeof(path), "%s/pages.bin", dir);
    struct pagefile_options options = options_for(world, path);
    assert_int_equal(open_and_close(&options, &error), KVS_ERR_FILE_OPEN);
    assert_non_null(strstr(error.message, "Read-only file system"));
    snprintf(path, sizeof(path), "%s/a/pages.bin", dir);
    assert_int_equal(open_and_close(&options, &error), KVS_ERR_FILE_DIRECTORY);
    assert_non_null(strstr(error.message, "Read-only file system"));
    assert_int_equal(umount(dir), 0);
}

/* ---- Direct I/O and the choice of the engine -------------------------------------------------*/

static void test_direct(void **state)
{
    struct world *world = *state;
    char path[128];
    snprintf(path, sizeof(path), "%s/pages.bin", world->dir);
    static const struct {
        uint64_t page, size;
        enum kvs_direct direct;
        bool may; /* direct, where the file system can */
        bool warns;
    } rows[] = {
        {PAGE, 16 * PAGE, KVS_DIRECT_OFF, false, false},
        {PAGE, 16 * PAGE, KVS_DIRECT_ON, true, false},
        {PAGE, 16 * PAGE, KVS_DIRECT_AUTO, false, false}, /* fits into memory */
        {PAGE, 1ULL << 43, KVS_DIRECT_AUTO, true, false}, /* does not */
        {5000, 50000, KVS_DIRECT_ON, false, true},        /* no whole blocks */
        {5000, 1ULL << 43, KVS_DIRECT_AUTO, false, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pagefile_options options = options_for(world, path);
        options.bytes_per_page = rows[i].page;
        options.file_size = rows[i].size;
        options.direct = rows[i].direct;
        struct pagefile *file = NULL;
        unlink(path);
        world->lines[0] = '\0';
        assert_int_equal(pagefile_open(KVS_IO_AUTO, &options, &file, NULL), KVS_OK);
        struct pagefile_info info = file->ops->info(file);
        file->ops->close(file);
        bool warned = strstr(world->lines, "Direct I/O is not possible") != NULL;
        if (!rows[i].may) {
            assert_false(info.direct);
            assert_int_equal(warned, rows[i].warns);
            assert_string_equal(info.engine, "posix");
        } else if (strcmp(info.filesystem, "ext4") == 0 || strcmp(info.filesystem, "xfs") == 0) {
            assert_true(info.direct && !warned);
        }
    }
}

static void test_usrbio_is_not_here(void **state)
{
    struct world *world = *state;
    struct pagefile_options options = options_for(world, "unused");
    struct pagefile *file = NULL;
    struct kvs_error error = {.message = ""};
    enum kvs_status status = pagefile_open(KVS_IO_USRBIO, &options, &file, &error);
    assert_int_equal(status, KVS_ERR_IO_ENGINE);
    assert_non_null(strstr(error.message, "usrbio"));
}

/* As a container's seccomp profile does. Only in a child: it cannot be undone. */
static bool forbid_io_uring(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static enum child_exit without_io_uring(struct world *world, const char *path)
{
    if (!forbid_io_uring()) {
        return CHILD_CANNOT;
    }
    struct pagefile_options options = options_for(world, path);
    struct pagefile *file = NULL;
    if (pagefile_open(KVS_IO_URING, &options, &file, NULL) != KVS_OK) {
        return CHILD_WRONG;
    }
    static char bytes[PAGE];
    bool fine = strcmp(file->ops->info(file).engine, "posix") == 0 &&
                strstr(world->lines, "io_uring is forbidden") != NULL &&
                strstr(world->lines, "uses the engine posix instead") != NULL &&
                move(file, PAGE_WRITE, 3, bytes) == PAGE;
    file->ops->close(file);
    return fine ? CHILD_FINE : CHILD_WRONG;
}

static void test_falls_back(void **state)
{
    struct world *world = *state;
    char path[128];
    snprintf(path, sizeof(path), "%s/pages.bin", world->dir);
    pid_t child = fork();
    if (child == 0) {
        _exit((int)without_io_uring(world, path));
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CHILD_CANNOT) {
        print_message("skipped: no seccomp here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), CHILD_FINE);
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(test_directories_and_mode),
        FILE_TEST(test_an_existing_file_stays_as_it_is),
        FILE_TEST(test_only_grows),
        FILE_TEST(test_opened_by_many),
        FILE_TEST(test_open_errors),
        FILE_TEST(test_file_limit),
        FILE_TEST(test_a_file_open_to_others_is_warned_of),
        FILE_TEST(test_a_second_index_is_warned_of),
        FILE_TEST(test_the_warning_follows_the_file),
        FILE_TEST(test_not_permitted),
        FILE_TEST(test_forgets_no_descriptor),
        FILE_TEST(test_full_disk),
        FILE_TEST(test_read_only),
        FILE_TEST(test_direct),
        FILE_TEST(test_usrbio_is_not_here),
        FILE_TEST(test_falls_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
