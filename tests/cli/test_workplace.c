/* A temporary directory is gone afterwards, however the command ends. */
#include "cli/workplace.h"
#include "support/unit.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char parent[PATH_MAX];

static int make_parent(void **state)
{
    (void)state;
    char name[] = "workplace_test_XXXXXX", here[PATH_MAX - 64];
    assert_non_null(mkdtemp(name));
    assert_non_null(getcwd(here, sizeof here));
    snprintf(parent, sizeof parent, "%s/%s", here, name);
    return setenv("TMPDIR", parent, 1);
}

/* Fails when anything is left. */
static int remove_parent(void **state)
{
    (void)state;
    return rmdir(parent);
}

static struct workplace open_with_files(unsigned files)
{
    struct workplace place = {0};
    if (workplace_open(&place, NULL, "", 0, NULL) != KVS_OK)
        abort();
    for (unsigned i = 0; i < files; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/file-%u-with-a-name-of-some-length", place.path, i);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            abort();
        close(fd);
    }
    return place;
}

static void test_closing_removes_it(void **state)
{
    (void)state;
    struct workplace place = open_with_files(300);
    workplace_close(&place);
    assert_null(place.path);
}

static void test_a_second_signal_removes_it(void **state)
{
    (void)state;
    static const int signals[][2] = {{SIGINT, SIGINT}, {SIGTERM, SIGTERM}, {SIGINT, SIGTERM}};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        pid_t child = fork();
        if (child == 0) {
            workplace_catch_signals();
            open_with_files(300);
            raise(signals[i][0]);
            if (workplace_stop_signal() != signals[i][0])
                _exit(1); /* the first one is noted and nothing else */
            raise(signals[i][1]);
            _exit(2);
        }
        int ended = 0;
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_true(WIFSIGNALED(ended));
        assert_int_equal(WTERMSIG(ended), signals[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_closing_removes_it, make_parent, remove_parent),
        cmocka_unit_test_setup_teardown(test_a_second_signal_removes_it, make_parent,
                                        remove_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
