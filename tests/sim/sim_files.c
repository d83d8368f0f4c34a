/* The disk under kept catalogs; see sim_files.h. */
#include "sim_files.h"

#include "sim_plan.h"
#include "sim_wrap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 64, FILE_BYTES_MAX = 1 << 15 };

/* What of a file would be there after a power cut. */
struct durable {
    ino_t inode; /* 0: none */
    size_t length;
    uint8_t bytes[FILE_BYTES_MAX];
};

static struct durable durables[FILES_MAX];
static struct chance *chance;
static const struct sim_machine *machine;
static char root[48], shm_dir[64], boot_id_path[64];
char sim_files_dir[64];
bool sim_files_shm_full;
void (*sim_files_before_call)(void);

/* ---- Directories ---------------------------------------------------------------------------- */

static void for_each_file(const char *dir, void (*each)(const char *path))
{
    DIR *listing = opendir(dir);
    struct dirent *entry;
    while (listing != NULL && (entry = readdir(listing)) != NULL) {
        char path[400];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        each(path);
    }
    if (listing != NULL)
        closedir(listing);
}

static void remove_file(const char *path)
{
    unlink(path);
}

void sim_files_init(void)
{
    snprintf(root, sizeof(root), "/dev/shm/kvshelf-sim-XXXXXX");
    if (mkdtemp(root) == NULL) {
        snprintf(root, sizeof(root), "/tmp/kvshelf-sim-XXXXXX");
        if (mkdtemp(root) == NULL) {
            perror("simulation: a directory cannot be made");
            exit(2);
        }
    }
    snprintf(shm_dir, sizeof(shm_dir), "%s/shm", root);
    snprintf(sim_files_dir, sizeof(sim_files_dir), "%s/disk", root);
    snprintf(boot_id_path, sizeof(boot_id_path), "%s/boot_id", root);
    mkdir(shm_dir, 0700);
    sim_boot_id_path = boot_id_path;
}

void sim_files_done(void)
{
    for_each_file(shm_dir, remove_file);
    for_each_file(sim_files_dir, remove_file);
    rmdir(shm_dir);
    rmdir(sim_files_dir);
    unlink(boot_id_path);
    rmdir(root);
}

static void write_boot_id(void)
{
    FILE *file = fopen(boot_id_path, "w");
    if (file == NULL)
        abort();
    fprintf(file, "%08x-0000-4000-8000-%012x\n", (unsigned)machine->boots + 1, 0x5eedu);
    fclose(file);
}

void sim_files_begin(struct chance *of_files, const struct sim_machine *of_server)
{
    chance = of_files;
    machine = of_server;
    for_each_file(shm_dir, remove_file);
    for_each_file(sim_files_dir, remove_file);
    for (size_t i = 0; i < FILES_MAX; i++)
        durables[i].inode = 0;
    sim_files_shm_full = false;
    write_boot_id();
}

/* ---- What was synced ------------------------------------------------------------------------ */

static struct durable *durable_of(ino_t inode)
{
    struct durable *empty = NULL;
    for (size_t i = 0; i < FILES_MAX; i++) {
        if (durables[i].inode == inode)
            return &durables[i];
        if (durables[i].inode == 0)
            empty = &durables[i];
    }
    if (empty == NULL)
        abort();
    empty->inode = inode;
    empty->length = 0;
    return empty;
}

static size_t read_whole(int fd, uint8_t bytes[FILE_BYTES_MAX])
{
    ssize_t length = pread(fd, bytes, FILE_BYTES_MAX, 0);
    if (length < 0 || length == FILE_BYTES_MAX)
        abort();
    return (size_t)length;
}

/* Each piece of what was not synced is there or not. */
static void tear(const char *path)
{
    static uint8_t bytes[FILE_BYTES_MAX];
    struct stat stat;
    int fd = open(path, O_RDWR);
    if (fd < 0 || fstat(fd, &stat) != 0)
        abort();
    size_t length = read_whole(fd, bytes), piece = sim_plan.tear_bytes;
    const struct durable *durable = durable_of(stat.st_ino);
    uint64_t kept_of_4 = below(chance, 5);
    for (size_t at = 0; at < length; at += piece) {
        size_t part = length - at < piece ? length - at : piece;
        if (below(chance, 4) < kept_of_4)
            continue;
        for (size_t i = at; i < at + part; i++)
            bytes[i] = i < durable->length ? durable->bytes[i] : 0;
    }
    if (pwrite(fd, bytes, length, 0) != (ssize_t)length)
        abort();
    close(fd);
}

void sim_files_power_cut(void)
{
    for_each_file(sim_files_dir, tear);
    for_each_file(shm_dir, remove_file);
    write_boot_id();
}

void sim_files_lose_shm(void)
{
    for_each_file(shm_dir, remove_file);
}

/* ---- System calls --------------------------------------------------------------------------- */

static int fail(int failure)
{
    errno = failure;
    return -1;
}

static void take_time(uint64_t us)
{
    sim_sleep(below(chance, us));
    if (sim_files_before_call != NULL)
        sim_files_before_call();
}

static ssize_t files_pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    take_time(300);
    if (sim_fault(chance, FAULT_IMAGE_SHORT)) {
        if (one_in(chance, 2))
            return fail(EINTR);
        length = (length + 1) / 2;
    } else if (sim_fault(chance, FAULT_IMAGE_ERROR)) {
        return fail(one_in(chance, 2) ? EIO : ENOSPC);
    }
    return pwrite(fd, bytes, length, offset);
}

/* What is written while it runs may be safe or not. */
static int files_fdatasync(int fd)
{
    static uint8_t bytes[FILE_BYTES_MAX];
    uint8_t *before = malloc(FILE_BYTES_MAX);
    struct stat stat;
    if (before == NULL || fstat(fd, &stat) != 0)
        abort();
    size_t length = read_whole(fd, bytes);
    memcpy(before, bytes, length);
    take_time(one_in(chance, 8) ? 20000 : 2000);
    bool failed = sim_fault(chance, FAULT_IMAGE_ERROR);
    if (!failed) {
        struct durable *durable = durable_of(stat.st_ino);
        memcpy(durable->bytes, before, length);
        durable->length = length;
    }
    free(before);
    return failed ? fail(EIO) : 0;
}

static bool is_on_shm(int fd)
{
    char link[64], path[128] = "";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    return length > 0 && strncmp(path, shm_dir, strlen(shm_dir)) == 0;
}

static int files_allocate(int fd, off_t offset, off_t length)
{
    if (is_on_shm(fd)) {
        if (sim_files_shm_full)
            return ENOSPC;
    } else if (sim_fault(chance, FAULT_IMAGE_ERROR)) {
        return ENOSPC;
    }
    return posix_fallocate(fd, offset, length);
}

static int files_fstatfs(int fd, struct statfs *ret)
{
    return fstatfs(fd, ret);
}

static void files_pause(uint64_t ns)
{
    (void)ns; /* nobody else would run */
}

const struct image_os sim_image_os = {
    .shm_dir = shm_dir,
    .pwrite = files_pwrite,
    .fdatasync = files_fdatasync,
    .fsync = fsync,
    .allocate = files_allocate,
    .fstatfs = files_fstatfs,
    .pause = files_pause,
};
