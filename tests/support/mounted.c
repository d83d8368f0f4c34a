/* Mounts. */
#include "support/mounted.h"

#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

enum { COMMAND_BYTES = 1024 };

/* What is mounted from now on stays in this process and its children. */
static bool own_namespace(char *reason, size_t reason_bytes)
{
    static bool done;
    if (done)
        return true;
    if (geteuid() != 0) {
        snprintf(reason, reason_bytes, "only root may mount a file system");
        return false;
    }
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        snprintf(reason, reason_bytes, "no mount namespace is to be had: %s", strerror(errno));
        return false;
    }
    done = true;
    return true;
}

bool mounted_tmpfs(const char *dir, uint64_t bytes, char *reason, size_t reason_bytes)
{
    char options[64];
    if (!own_namespace(reason, reason_bytes))
        return false;
    snprintf(options, sizeof(options), "size=%llu", (unsigned long long)bytes);
    if (mount("tmpfs", dir, "tmpfs", 0, options) == 0)
        return true;
    snprintf(reason, reason_bytes, "tmpfs cannot be mounted: %s", strerror(errno));
    return false;
}

bool mounted_ext4(const char *dir, uint64_t bytes, int *ret_image, char *reason,
                  size_t reason_bytes)
{
    char command[COMMAND_BYTES];
    if (!own_namespace(reason, reason_bytes))
        return false;
    snprintf(command, sizeof(command),
             "exec >/dev/null 2>&1; PATH=$PATH:/usr/sbin:/sbin; truncate -s %llu '%s.img' && "
             "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 '%s.img' && "
             "mount -o loop,noatime '%s.img' '%s'",
             (unsigned long long)bytes, dir, dir, dir, dir);
    int status = system(command);
    snprintf(command, sizeof(command), "%s.img", dir);
    if (status == 0 && ret_image != NULL) {
        *ret_image = open(command, O_RDWR | O_CLOEXEC);
        assert_true(*ret_image >= 0);
    }
    unlink(command); /* the loop device holds it */
    if (status == 0)
        return true;
    snprintf(reason, reason_bytes, "mkfs.ext4 or a loop device is not to be had here");
    return false;
}

void mounted_undo(const char *dir)
{
    assert_int_equal(umount2(dir, MNT_DETACH), 0);
}
