/* What doctor looks at where pages are read and written: the kind of file system and what follows
 * from it, direct I/O, io_uring, and the limits of the process. Nothing that has a name is made. */
#include "base/text.h"
#include "cli/doctor.h"
#include "cli/filesystem_text.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096, FILES_FEW = 256, FALLBACK_ALIGNMENT = 4096 };

/* ---- The file system ------------------------------------------------------------------------ */

static struct filesystem examine_filesystem(const char *place, struct doctor_report *report)
{
    int fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct filesystem kind = {.name = "unknown"};
    if (fd >= 0) {
        kind = filesystem_of(fd);
        close(fd);
    }
    doctor_say(report, kind.in_memory ? DOCTOR_WARNING : DOCTOR_OK, "file system",
               kind.in_memory ? "Choose a path on a disk." : NULL, "%s is on %s. %s", place,
               kind.name, filesystem_visibility(&kind));
    return kind;
}

/* ---- Direct I/O ----------------------------------------------------------------------------- */

/* The page file when it is there, else a file without a name beside it, which is gone when it is
 * closed. -errno. */
static int open_direct(const char *path, const char *place)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        fd = open(place, O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
        if (fd >= 0 && ftruncate(fd, BLOCK_BYTES) != 0) {
            close(fd);
            return -EIO;
        }
    }
    return fd >= 0 ? fd : -errno;
}

/* Some file systems take the flag and refuse the I/O. 0 or an errno. */
static int read_direct(int fd)
{
    void *block = aligned_alloc(FALLBACK_ALIGNMENT, BLOCK_BYTES);
    if (block == NULL)
        return ENOMEM;
    int failure = pread(fd, block, BLOCK_BYTES, 0) < 0 ? errno : 0;
    free(block);
    return failure;
}

static uint32_t alignment_of(int fd)
{
#ifdef STATX_DIOALIGN
    struct statx about;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) == 0 &&
        (about.stx_mask & STATX_DIOALIGN) && about.stx_dio_offset_align > 0)
        return about.stx_dio_offset_align;
#endif
    (void)fd;
    return FALLBACK_ALIGNMENT;
}

static const char *use_of_direct(const struct kvs_store_options *options,
                                 const struct filesystem *kind)
{
    if (options->direct == KVS_DIRECT_ON)
        return "It is asked for (direct: on)";
    if (kind->network)
        return "It is used, so that no page comes from this machine's cache";
    return "It is used when file_size is more than this machine's memory (direct: auto)";
}

static void examine_direct(const struct doctor_place *place, const struct filesystem *kind,
                           struct doctor_report *report)
{
    const struct kvs_store_options *options = place->options;
    if (options->direct == KVS_DIRECT_OFF) {
        doctor_say(report, DOCTOR_OK, "direct I/O", NULL, "Not used (direct: off).");
        return;
    }
    int fd = open_direct(place->path, place->dir);
    int failure = fd < 0 ? -fd : read_direct(fd);
    uint32_t alignment = fd < 0 ? 0 : alignment_of(fd);
    if (fd >= 0)
        close(fd);
    bool wanted = options->direct == KVS_DIRECT_ON || kind->network;
    enum doctor_level level = wanted ? DOCTOR_WARNING : DOCTOR_OK;
    const char *remedy =
        wanted ? "Choose a file system with O_DIRECT (ext4, xfs), or set direct to off." : NULL;
    if (failure == EOPNOTSUPP || failure == EISDIR || failure == EACCES)
        doctor_say(report, DOCTOR_OK, "direct I/O", NULL,
                   "Whether %s has it cannot be told before the page file is there.", kind->name);
    else if (failure != 0)
        doctor_say(report, level, "direct I/O", remedy,
                   "%s refuses it (%s): pages go through the page cache.", kind->name,
                   strerror(failure));
    else if (place->bytes_per_page % alignment != 0)
        doctor_say(report, level, "direct I/O",
                   wanted ? "Choose a page size in the engine that is a multiple of it." : NULL,
                   "%s has it for pages that are multiples of %u bytes, and %llu is none: pages go "
                   "through the page cache.",
                   kind->name, alignment, (unsigned long long)place->bytes_per_page);
    else
        doctor_say(report, DOCTOR_OK, "direct I/O", NULL,
                   "%s has it, in multiples of %u bytes. %s.", kind->name, alignment,
                   use_of_direct(options, kind));
}

/* ---- io_uring ------------------------------------------------------------------------------- */

static long read_number(const char *path)
{
    char text[32] = "";
    FILE *file = fopen(path, "re");
    bool read = file != NULL && fgets(text, sizeof(text), file) != NULL;
    if (file != NULL)
        fclose(file);
    return read ? strtol(text, NULL, 10) : -1;
}

static bool has_seccomp_filter(void)
{
    char line[128];
    int mode = 0;
    FILE *status = fopen("/proc/self/status", "re");
    while (status != NULL && fgets(line, sizeof(line), status) != NULL)
        if (strncmp(line, "Seccomp:", 8) == 0)
            mode = (int)strtol(line + 8, NULL, 10);
    if (status != NULL)
        fclose(status);
    return mode == 2;
}

static const char *why_no_uring(int failure, const char **ret_remedy)
{
    long disabled = read_number("/proc/sys/kernel/io_uring_disabled");
    *ret_remedy = "sysctl kernel.io_uring_disabled=0, or leave io_engine at auto.";
    if (failure == EPERM && disabled == 2)
        return "sysctl kernel.io_uring_disabled is 2: nobody may";
    if (failure == EPERM && disabled == 1)
        return "sysctl kernel.io_uring_disabled is 1: only root and the group of "
               "kernel.io_uring_group may";
    *ret_remedy = "Allow io_uring_setup, io_uring_enter and io_uring_register in the container's "
                  "seccomp profile, or leave io_engine at auto.";
    if ((failure == EPERM || failure == EACCES || failure == ENOSYS) && has_seccomp_filter())
        return "a seccomp filter forbids it, as that of most containers does";
    *ret_remedy = "Use a kernel of 5.6 or later, or leave io_engine at auto.";
    if (failure == ENOSYS)
        return "this kernel has none";
    *ret_remedy = "Raise the limit of locked memory (ulimit -l), or leave io_engine at auto.";
    return failure == ENOMEM ? "the limit of locked memory is too low" : strerror(failure);
}

static void examine_uring(const struct kvs_store_options *options, const struct filesystem *kind,
                          struct doctor_report *report)
{
    struct io_uring ring;
    int failure = -io_uring_queue_init(4, &ring, 0);
    if (failure == 0) {
        io_uring_queue_exit(&ring);
        doctor_say(report, DOCTOR_OK, "io_uring", NULL, "Available. %s.",
                   options->io_engine == KVS_IO_POSIX ? "Not used (io_engine: posix)"
                   : kind->network                    ? "Not used on a network file system"
                   : options->io_engine == KVS_IO_URING
                       ? "It is asked for (io_engine: uring)"
                       : "It is used with direct I/O (io_engine: auto)");
        return;
    }
    const char *remedy;
    const char *reason = why_no_uring(failure, &remedy);
    bool asked = options->io_engine == KVS_IO_URING;
    doctor_say(report, asked ? DOCTOR_WARNING : DOCTOR_OK, "io_uring", asked ? remedy : NULL,
               "Not available (%s): threads read and write instead (engine posix).", reason);
}

/* ---- Limits --------------------------------------------------------------------------------- */

static void examine_limits(const struct kvs_store_options *options, struct doctor_report *report)
{
    struct rlimit files, locked;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || getrlimit(RLIMIT_MEMLOCK, &locked) != 0)
        return;
    char open_files[40] = "any number of", memory[40] = "any amount of";
    if (files.rlim_cur != RLIM_INFINITY)
        snprintf(open_files, sizeof(open_files), "%s", COUNT(files.rlim_cur));
    if (locked.rlim_cur != RLIM_INFINITY)
        snprintf(memory, sizeof(memory), "%s", BYTES(locked.rlim_cur));
    if (files.rlim_cur < FILES_FEW)
        doctor_say(report, DOCTOR_WARNING, "limits", "Raise it: ulimit -n 65536.",
                   "A process of this user may open %s files, and an engine opens many itself.",
                   open_files);
    else
        doctor_say(report, DOCTOR_OK, "limits", NULL, "A process of this user may open %s files.",
                   open_files);
    if (options->io_engine != KVS_IO_POSIX && options->direct != KVS_DIRECT_OFF)
        doctor_say(report, DOCTOR_OK, "limits", NULL,
                   "It may lock %s memory (ulimit -l): what of an engine's buffers can be "
                   "registered with io_uring costs less processor time; the rest works too.",
                   memory);
}

void doctor_examine_io(const struct doctor_place *place, struct doctor_report *report)
{
    struct filesystem kind = examine_filesystem(place->dir, report);
    examine_direct(place, &kind, report);
    examine_uring(place->options, &kind, report);
    examine_limits(place->options, report);
}
