/* The directory of kept catalogs: made, refused, locked, listed. */
#include "base/log.h"
#include "metadata/directory.h"
#include "support/kept.h"
#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct kept_place place;
static const struct logger logger = {kept_log, NULL};

static int set_up(void **state)
{
    (void)state;
    kept_make(&place);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kept_remove(&place);
    return 0;
}

static enum kvs_status open_at(const char *path, struct directory *dir, struct kvs_error *error)
{
    return directory_open(dir, path, &place.os, &logger, error);
}

static void touch(const char *name)
{
    char path[2 * KEPT_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s", place.dir, name);
    kept_write_file(path, "x", 1);
}

static void missing_directories_are_made_private(void **state)
{
    (void)state;
    struct directory dir;
    struct stat stat_buffer;
    char deep[KEPT_PATH_BYTES + 32], lock[KEPT_PATH_BYTES + 64];
    snprintf(deep, sizeof(deep), "%s//a/b/", place.dir);
    mode_t mask = umask(0);
    assert_int_equal(open_at(deep, &dir, NULL), KVS_OK);
    umask(mask);
    assert_int_equal(stat(deep, &stat_buffer), 0);
    assert_int_equal(stat_buffer.st_mode & 0777, 0700);
    snprintf(lock, sizeof(lock), "%s/lock", deep);
    assert_int_equal(stat(lock, &stat_buffer), 0);
    assert_int_equal(stat_buffer.st_mode & 0777, 0600);
    directory_close(&dir);
    directory_close(&dir); /* all zero now */
}

static void what_is_no_directory_is_refused(void **state)
{
    (void)state;
    struct directory dir;
    struct kvs_error error;
    char below[KEPT_PATH_BYTES + 16];
    kept_write_file(place.dir, "x", 1);
    snprintf(below, sizeof(below), "%s/below", place.dir);
    const char *const paths[] = {place.dir, below, "", "/proc/kvshelf/dir"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        assert_int_equal(open_at(paths[i], &dir, &error), KVS_ERR_CATALOG_DIR);
        assert_non_null(strstr(error.message, paths[i]));
    }
}

/* Root may write everywhere, so the one who tries is somebody else. */
static void without_permission_it_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root can become a user without permission\n");
        skip();
    }
    assert_int_equal(mkdir(place.dir, 0700), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct directory dir;
        struct kvs_error error = {0};
        if (setuid(65534) != 0)
            _exit(2);
        enum kvs_status status = open_at(place.dir, &dir, &error);
        _exit(status == KVS_ERR_CATALOG_DIR && strstr(error.message, "denied") != NULL ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

static void network_file_systems_are_refused(void **state)
{
    (void)state;
    static const struct {
        long magic;
        const char *name;
    } cases[] = {
        {0x6969, "NFS"},
        {(long)0xff534d42, "CIFS"},
        {(long)0xfe534d42, "CIFS"},
        {0x65735546, "FUSE"},
        {0x517b, "SMB"},
        {0xef53, NULL},
        {0x01021994, NULL},
        {0x58465342, NULL},
        {(long)0x9123683e, NULL},
        {(int)0xff534d42, "CIFS"}, /* as a 32-bit field would give it */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct directory dir;
        struct kvs_error error;
        kept_faults.filesystem = cases[i].magic;
        enum kvs_status status = open_at(place.dir, &dir, &error);
        assert_int_equal(status, cases[i].name != NULL ? KVS_ERR_CATALOG_DIR : KVS_OK);
        if (status == KVS_OK)
            directory_close(&dir);
        else
            assert_non_null(strstr(error.message, cases[i].name));
    }
}

static void one_process_at_a_time(void **state)
{
    (void)state;
    struct directory first, second;
    struct kvs_error error;
    char pid[32];
    snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
    assert_int_equal(open_at(place.dir, &first, NULL), KVS_OK);
    assert_int_equal(open_at(place.dir, &second, &error), KVS_ERR_CATALOG_IN_USE);
    assert_non_null(strstr(error.message, pid));
    assert_non_null(strstr(error.message, place.dir));
    touch("lock"); /* whoever it is has not said so yet: not a number */
    assert_int_equal(open_at(place.dir, &second, &error), KVS_ERR_CATALOG_IN_USE);
    assert_non_null(strstr(error.message, "another process"));
    directory_close(&first);
    assert_int_equal(open_at(place.dir, &second, NULL), KVS_OK);
    directory_close(&second);
}

/* The kernel ends the lock of a process that is killed. */
static void a_killed_process_holds_no_lock(void **state)
{
    (void)state;
    struct directory dir;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(open_at(place.dir, &dir, NULL) == KVS_OK ? 0 : 1);
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_int_equal(open_at(place.dir, &dir, NULL), KVS_OK);
    directory_close(&dir);
}

static void removing_the_lock_file_lets_nobody_in(void **state)
{
    (void)state;
    struct directory first, second;
    struct kvs_error error;
    char lock[2 * KEPT_PATH_BYTES];
    snprintf(lock, sizeof(lock), "%s/lock", place.dir);
    assert_int_equal(open_at(place.dir, &first, NULL), KVS_OK);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(open_at(place.dir, &second, &error), KVS_ERR_CATALOG_IN_USE);
    assert_non_null(strstr(error.message, "another process"));
    directory_close(&first);
    assert_int_equal(open_at(place.dir, &second, NULL), KVS_OK);
    directory_close(&second);
}

static void a_forked_child_holds_no_lock_after_closing(void **state)
{
    (void)state;
    struct directory dir;
    int wait_for_parent[2];
    assert_int_equal(open_at(place.dir, &dir, NULL), KVS_OK);
    assert_int_equal(pipe(wait_for_parent), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char byte;
        close(wait_for_parent[1]);
        _exit(read(wait_for_parent[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(wait_for_parent[0]);
    directory_close(&dir);
    enum kvs_status status = open_at(place.dir, &dir, NULL);
    close(wait_for_parent[1]);
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_int_equal(status, KVS_OK);
    directory_close(&dir);
}

static void images_are_listed_and_remains_removed(void **state)
{
    (void)state;
    struct directory dir;
    char **names, path[2 * KEPT_PATH_BYTES];
    size_t n;
    assert_int_equal(mkdir(place.dir, 0700), 0);
    touch("1.kv.kvc");
    touch("0.kv.kvc");
    touch("0.kv.kvc.tmp");
    touch("notes.txt");
    touch(".kvc");
    assert_int_equal(open_at(place.dir, &dir, NULL), KVS_OK);
    assert_int_equal(directory_names(&dir, &names, &n, NULL), KVS_OK);
    assert_int_equal(n, 2);
    assert_string_equal(names[0], "0.kv.kvc");
    assert_string_equal(names[1], "1.kv.kvc");
    directory_free_names(names, n);
    snprintf(path, sizeof(path), "%s/0.kv.kvc.tmp", place.dir);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof(path), "%s/notes.txt", place.dir);
    assert_int_equal(access(path, F_OK), 0);
    directory_close(&dir);
}

static void a_directory_open_to_others_is_warned_of(void **state)
{
    (void)state;
    struct directory dir;
    assert_int_equal(mkdir(place.dir, 0700), 0);
    assert_int_equal(chmod(place.dir, 0777), 0);
    assert_int_equal(open_at(place.dir, &dir, NULL), KVS_OK);
    assert_non_null(strstr(kept_log_text, "chmod go-w"));
    directory_close(&dir);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(missing_directories_are_made_private),
        TEST(what_is_no_directory_is_refused),
        TEST(without_permission_it_is_refused),
        TEST(network_file_systems_are_refused),
        TEST(one_process_at_a_time),
        TEST(a_killed_process_holds_no_lock),
        TEST(removing_the_lock_file_lets_nobody_in),
        TEST(a_forked_child_holds_no_lock_after_closing),
        TEST(images_are_listed_and_remains_removed),
        TEST(a_directory_open_to_others_is_warned_of),
    };
    return cmocka_run_group_tests_name("directory", tests, NULL, NULL);
}
