/* Reads headers and slots of images; see stat_read.h. */
#include "cli/stat_read.h"

#include "base/clock.h"
#include "base/status.h"
#include "catalog/image.h"
#include "cli/lock_holder.h"
#include "metadata/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Slots -----------------------------------------------------------------------------------*/

static void count_slot(struct stat_catalog *catalog, const struct slot *slot, uint32_t page)
{
    struct catalog_counts *pages = &catalog->pages;
    bool dead = slot->generation < catalog->header.state.floor; /* cleared, not swept yet */
    if (!slot_intact(slot, page)) {
        catalog->damaged++;
        pages->retired++;
        return;
    }
    switch (slot_state(slot)) {
    case SLOT_FREE:
        pages->free++;
        break;
    case SLOT_RESERVED:
        *(dead ? &pages->retired : &pages->reserved) += 1;
        break;
    case SLOT_COMMITTED:
        *(dead ? &pages->retired : &pages->committed) += 1;
        break;
    default:
        pages->retired++;
    }
}

static enum kvs_status read_slots(struct stat_catalog *catalog, int fd, const char *path,
                                  struct kvs_error *error)
{
    enum { SLOTS_AT_ONCE = 16384 };
    struct slot *slots = malloc(SLOTS_AT_ONCE * sizeof *slots);
    if (slots == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "reading a catalog");
    enum kvs_status status = KVS_OK;
    for (uint64_t page = 0; page < catalog->header.num_pages && status == KVS_OK;) {
        uint64_t now = catalog->header.num_pages - page;
        if (now > SLOTS_AT_ONCE)
            now = SLOTS_AT_ONCE;
        int failure = image_os_read(fd, slots, now * sizeof *slots,
                                    IMAGE_SLOTS_OFFSET + page * sizeof *slots);
        if (failure != 0)
            status = error_set(error, KVS_ERR_CATALOG_IO, "read", path, strerror(failure));
        for (uint64_t i = 0; i < now && status == KVS_OK; i++)
            count_slot(catalog, &slots[i], (uint32_t)(page + i));
        page += now;
    }
    free(slots);
    return status;
}

/* ---- Catalogs --------------------------------------------------------------------------------*/

static uint64_t age_ms(uint64_t written_us)
{
    uint64_t now_us = clock_wall_us();
    return now_us > written_us ? (now_us - written_us) / 1000 : 0;
}

static enum kvs_status read_catalog(const struct image_dir *dir, struct stat_catalog *catalog,
                                    struct kvs_error *error)
{
    enum kvs_status status = image_check(dir, catalog->file, &catalog->header, error);
    if (status != KVS_OK)
        return status;
    int fd = openat(dir->fd, catalog->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat about;
    if (fd < 0 || fstat(fd, &about) != 0) {
        status = error_set(error, KVS_ERR_CATALOG_IO, "read", catalog->file, strerror(errno));
    } else {
        catalog->image_bytes = (uint64_t)about.st_size;
        catalog->written_ago_ms = age_ms(catalog->header.written_us);
        status = read_slots(catalog, fd, catalog->file, error);
    }
    if (fd >= 0)
        close(fd);
    return status;
}

struct namespace_row stat_catalog_row(const struct stat_catalog *catalog)
{
    const struct image_header *header = &catalog->header;
    return (struct namespace_row){
        .rank = header->rank,
        .num_pages = header->num_pages,
        .bytes_per_page = header->bytes_per_page,
        .pages = catalog->pages,
        .ns = {header->ns, strlen(header->ns)},
        .fingerprint = {header->fingerprint, strlen(header->fingerprint)},
    };
}

static bool is_empty(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    bool empty = listing != NULL;
    for (const struct dirent *entry; empty && (entry = readdir(listing)) != NULL;)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (listing != NULL)
        closedir(listing);
    else if (fd >= 0)
        close(fd);
    return empty;
}

static int compare_catalogs(const void *a, const void *b)
{
    const struct stat_catalog *x = a, *y = b;
    if (x->header.rank != y->header.rank)
        return x->header.rank < y->header.rank ? -1 : 1;
    return strcmp(x->file, y->file);
}

static enum kvs_status read_catalogs(const struct directory *directory, struct stat_dir *dir,
                                     struct kvs_error *error)
{
    char **names = NULL;
    size_t n = 0;
    enum kvs_status status = directory_names(directory, &names, &n, error);
    if (status != KVS_OK)
        return status;
    dir->catalogs = calloc(n + 1, sizeof *dir->catalogs);
    if (dir->catalogs == NULL)
        status = error_set(error, KVS_ERR_NO_MEMORY, "reading a catalog");
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        struct stat_catalog *catalog = &dir->catalogs[dir->num_catalogs];
        catalog->file = strdup(names[i]);
        if (catalog->file == NULL) {
            status = error_set(error, KVS_ERR_NO_MEMORY, "reading a catalog");
            break;
        }
        dir->num_catalogs++;
        catalog->error.status =
            read_catalog(&directory->images, catalog, &catalog->error); /* kept beside it */
    }
    directory_free_names(names, n);
    /* A process that keeps catalogs leaves a lock; its namespaces may all have been dropped. An
     * empty directory waits for its first use. Another one holds something else. */
    if (status == KVS_OK && n == 0 && faccessat(directory->images.fd, "lock", F_OK, 0) != 0 &&
        !is_empty(directory->images.fd))
        return error_set(error, KVS_ERR_CATALOG_NONE, dir->path, "it holds no file named *.kvc");
    if (status == KVS_OK)
        qsort(dir->catalogs, dir->num_catalogs, sizeof *dir->catalogs, compare_catalogs);
    return status;
}

enum kvs_status stat_dir_read(const char *path, struct stat_dir *ret_dir, struct kvs_error *error)
{
    *ret_dir = (struct stat_dir){.path = strdup(path)};
    if (ret_dir->path == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "reading a catalog");
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return error_set(error, KVS_ERR_CATALOG_NONE, path,
                         strchr(path, ':') == NULL
                             ? "no such directory"
                             : "no such directory, and the URL of a server begins with http://");
    if (fd < 0) {
        char reason[160];
        snprintf(reason, sizeof(reason), "it cannot be opened: %s", strerror(errno));
        return error_set(error, KVS_ERR_CATALOG_DIR, path, reason);
    }
    ret_dir->filesystem = filesystem_of(fd);
    struct stat lock;
    if (fstatat(fd, "lock", &lock, AT_SYMLINK_NOFOLLOW) == 0)
        ret_dir->in_use_by = lock_holder(lock.st_dev, lock.st_ino);
    /* Not directory_open(), which locks. */
    struct directory directory = {
        .images = {.path = ret_dir->path, .fd = fd, .os = &image_os_linux},
        .path = ret_dir->path,
        .lock_fd = -1,
    };
    enum kvs_status status = read_catalogs(&directory, ret_dir, error);
    close(fd);
    return status;
}

void stat_dir_done(struct stat_dir *dir)
{
    for (size_t i = 0; i < dir->num_catalogs; i++)
        free(dir->catalogs[i].file);
    free(dir->catalogs);
    free(dir->path);
    *dir = (struct stat_dir){0};
}
