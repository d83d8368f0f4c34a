/* Images and their live arrays; see image.h.
 *
 * Which is the truth? Every run draws a token. The live array of a run holds its token, and so does
 * the image since image_begin(), so that an old live array never meets a newer image. image_begin()
 * writes the new token as the live array's `next_token` first, then into the image, then as its
 * `token`: killed anywhere between, the two still belong together. A live array that was made for
 * this run has no token before, so that it counts only when the catalog has been opened over it. */
#include "catalog/image.h"

#include "base/checksum.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "catalog/live.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct image {
    const struct image_dir *dir;
    char name[IMAGE_NAME_BYTES];
    char *path;
    int fd;
    uint64_t file_bytes;

    struct image_header header; /* as last written, or found */
    unsigned copy;              /* of the header, which holds it */
    enum catalog_origin origin;
    uint32_t *recency; /* until image_begin() */
    uint32_t recency_count;

    struct live live;
    struct live_owner owner;
};

/* ---- Failures ----*/

static enum kvs_status io_error(struct kvs_error *error, const char *action, const char *path,
                                int failure, uint64_t bytes)
{
    if (failure == EFBIG)
        return error_set(error, KVS_ERR_CATALOG_IO, action, path,
                         "larger than this process may write (ulimit -f) or its file system holds");
    if (failure == ENOSPC || failure == EDQUOT)
        return error_set(error, KVS_ERR_NO_SPACE, path, NUM(bytes));
    if (failure == ENOMEM)
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a kept catalog");
    return error_set(error, KVS_ERR_CATALOG_IO, action, path, strerror(failure));
}

static char *path_of(const struct image_dir *dir, const char *name)
{
    size_t bytes = strlen(dir->path) + 1 + strlen(name) + 1;
    char *path = malloc(bytes);
    if (path != NULL)
        snprintf(path, bytes, "%s/%s", dir->path, name);
    return path;
}

/* ---- Creating ----*/

static void fill_identity(struct image_header *header, uint64_t bytes_per_page,
                          const char *fingerprint)
{
    header->bytes_per_page = bytes_per_page;
    memset(header->fingerprint, 0, sizeof(header->fingerprint));
    snprintf(header->fingerprint, sizeof(header->fingerprint), "%s", fingerprint);
    header->fingerprint_length = (uint32_t)strlen(header->fingerprint);
}

/* The last copy has the higher sequence. */
static int write_new(const struct image_dir *dir, int fd, struct image_header *header)
{
    int failure = image_os_allocate(dir->os, fd, image_base_bytes(header->num_pages));
    for (unsigned copy = 0; copy < IMAGE_COPIES && failure == 0; copy++) {
        header->sequence++;
        image_header_seal(header);
        failure = image_os_write(dir->os, fd, header, sizeof(*header),
                                 (uint64_t)copy * IMAGE_BLOCK_BYTES);
    }
    if (failure == 0)
        failure = image_os_sync(dir->os, fd);
    return failure;
}

/* Whole or not at all; *ret_fd is the caller's to close. */
static int create_as(const struct image_dir *dir, const char *name, struct image_header *header,
                     int *ret_fd)
{
    char temporary[IMAGE_NAME_BYTES + 8];
    snprintf(temporary, sizeof(temporary), "%s.tmp", name);
    struct stat there;
    if (fstatat(dir->fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0)
        return EEXIST;
    if (errno != ENOENT)
        return errno;
    if (unlinkat(dir->fd, temporary, 0) != 0 && errno != ENOENT)
        return errno;
    int fd = openat(dir->fd, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    int failure = write_new(dir, fd, header);
    if (failure == 0 && renameat(dir->fd, temporary, dir->fd, name) != 0)
        failure = errno;
    if (failure != 0) {
        unlinkat(dir->fd, temporary, 0);
    } else if (dir->os->fsync(dir->fd) != 0) {
        failure = errno;
        unlinkat(dir->fd, name, 0); /* it would be in the way of a second try */
    }
    if (failure != 0)
        close(fd);
    else
        *ret_fd = fd;
    return failure;
}

static int create_empty(const struct image_dir *dir, const char *name,
                        const struct image_identity *identity)
{
    struct image_header header = {.clean = 1, .rank = identity->rank};
    header.num_pages = identity->num_pages;
    header.ns_length = (uint32_t)strlen(identity->ns);
    snprintf(header.ns, sizeof(header.ns), "%s", identity->ns);
    fill_identity(&header, identity->bytes_per_page, identity->fingerprint);
    header.written_us = clock_wall_us();
    int fd;
    int failure = image_os_random(header.id, sizeof(header.id));
    if (failure == 0)
        failure = create_as(dir, name, &header, &fd);
    if (failure == 0 && close(fd) != 0)
        failure = errno;
    return failure;
}

enum kvs_status image_create(const struct image_dir *dir, const struct image_identity *identity,
                             struct kvs_error *error)
{
    char name[IMAGE_NAME_BYTES];
    char *path = NULL;
    if (image_file_name(identity->rank, identity->ns, name))
        path = path_of(dir, name);
    if (path == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "creating a kept catalog");
    int failure = create_empty(dir, name, identity);
    enum kvs_status status = KVS_OK;
    if (failure != 0)
        status = io_error(error, "create", path, failure, image_base_bytes(identity->num_pages));
    free(path);
    return status;
}

void image_discard(const struct image_dir *dir, const char *name)
{
    if (unlinkat(dir->fd, name, 0) != 0 && errno != ENOENT)
        log_line(&dir->log, KVS_LOG_WARNING, "%s/%s could not be removed: %s", dir->path, name,
                 strerror(errno));
}

/* ---- Reading the header ----*/

static enum kvs_status refuse(enum image_verdict verdict, const struct image_finding *finding,
                              const char *path, uint64_t file_bytes, struct kvs_error *error)
{
    switch (verdict) {
    case IMAGE_OTHER_VERSION:
        return error_set(error, KVS_ERR_CATALOG_VERSION, path, NUM(finding->version),
                         NUM(IMAGE_VERSION));
    case IMAGE_DAMAGED:
        return error_set(error, KVS_ERR_CATALOG_DAMAGED, path,
                         "both copies of its header fail their checksum");
    case IMAGE_TRUNCATED:
        return error_set(error, KVS_ERR_CATALOG_TRUNCATED, path, NUM(file_bytes),
                         NUM(finding->needed_bytes));
    default:
        return error_set(error, KVS_ERR_CATALOG_FOREIGN, path,
                         "it does not begin with a catalog's header");
    }
}

/* A header belongs to the file name it is under: a renamed file would answer for other pages. */
static enum kvs_status check_name(const struct image_header *header, const char *name,
                                  const char *path, struct kvs_error *error)
{
    char expected[IMAGE_NAME_BYTES], reason[IMAGE_NAME_BYTES + 64];
    if (!image_file_name(header->rank, header->ns, expected))
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a kept catalog");
    if (strcmp(expected, name) == 0)
        return KVS_OK;
    snprintf(reason, sizeof(reason), "its header says that its name is %s", expected);
    return error_set(error, KVS_ERR_CATALOG_FOREIGN, path, reason);
}

static enum kvs_status read_header(struct image *image, struct kvs_error *error)
{
    char head[IMAGE_SLOTS_OFFSET];
    struct stat stat;
    if (fstat(image->fd, &stat) != 0)
        return io_error(error, "read", image->path, errno, 0);
    if (!S_ISREG(stat.st_mode))
        return error_set(error, KVS_ERR_CATALOG_FOREIGN, image->path, "it is not a regular file");
    image->file_bytes = (uint64_t)stat.st_size;
    size_t length = image->file_bytes < sizeof(head) ? (size_t)image->file_bytes : sizeof(head);
    int failure = image_os_read(image->fd, head, length, 0);
    if (failure != 0)
        return io_error(error, "read", image->path, failure, 0);

    struct image_finding finding;
    enum image_verdict verdict = image_header_find(head, length, image->file_bytes, &finding);
    if (verdict != IMAGE_GOOD)
        return refuse(verdict, &finding, image->path, image->file_bytes, error);
    image->header = finding.header;
    image->copy = finding.copy;
    return check_name(&image->header, image->name, image->path, error);
}

static enum kvs_status open_file(const struct image_dir *dir, const char *name, int flags,
                                 struct image **ret_image, struct kvs_error *error)
{
    struct image *image = calloc(1, sizeof(*image));
    if (image == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a kept catalog");
    image->dir = dir;
    image->live.fd = image->fd = -1;
    snprintf(image->name, sizeof(image->name), "%s", name);
    image->path = path_of(dir, name);
    enum kvs_status status = KVS_OK;
    if (image->path == NULL)
        status = error_set(error, KVS_ERR_NO_MEMORY, "opening a kept catalog");
    else if ((image->fd = openat(dir->fd, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) < 0)
        status = io_error(error, "open", image->path, errno, 0);
    else
        status = read_header(image, error);
    if (status != KVS_OK) {
        image_close(image);
        return status;
    }
    *ret_image = image;
    return KVS_OK;
}

enum kvs_status image_check(const struct image_dir *dir, const char *name,
                            struct image_header *ret_header, struct kvs_error *error)
{
    struct image *image;
    enum kvs_status status = open_file(dir, name, O_RDONLY, &image, error);
    if (status != KVS_OK)
        return status;
    *ret_header = image->header;
    image_close(image);
    return KVS_OK;
}

/* ---- Finding the truth ----*/

/* The boot id in binary; all zero when the kernel does not tell, which matches nothing. 0 or an
 * errno: that it could not be read now must not pass for another boot. */
static int read_boot_id(uint8_t ret_id[IMAGE_BOOT_ID_BYTES])
{
    char text[64] = "";
    memset(ret_id, 0, IMAGE_BOOT_ID_BYTES);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == EACCES || errno == EPERM ? 0 : errno;
    ssize_t length = read(fd, text, sizeof(text) - 1);
    int failure = length < 0 ? errno : 0;
    close(fd);
    size_t digits = 0;
    for (ssize_t i = 0; i < length && digits < 2 * IMAGE_BOOT_ID_BYTES; i++) {
        char c = text[i];
        int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (value < 0)
            continue;
        ret_id[digits / 2] = (uint8_t)(ret_id[digits / 2] << 4 | value);
        digits++;
    }
    return failure;
}

static int set_owner(struct image *image)
{
    struct live_owner *owner = &image->owner;
    owner->os = image->dir->os;
    memcpy(owner->id, image->header.id, sizeof(owner->id));
    owner->num_pages = image->header.num_pages;
    owner->dir_device = image->dir->device;
    owner->dir_inode = image->dir->inode;
    owner->path = image->path;
    return read_boot_id(owner->boot_id);
}

/* Caution is kept until its time has passed, however this start came about. */
static enum catalog_origin keep_caution(const struct image *image, enum catalog_origin origin,
                                        uint64_t now_ms)
{
    const struct image_header *header = &image->header;
    /* Another boot's clock says nothing about how long ago that was. */
    bool same_boot = memcmp(header->boot_id, image->owner.boot_id, sizeof(header->boot_id)) == 0;
    bool unsettled =
        header->unsettled_until_ms != 0 && (!same_boot || now_ms < header->unsettled_until_ms);
    enum catalog_origin earlier = (enum catalog_origin)header->unsettled_origin;
    return unsettled && earlier > origin ? earlier : origin;
}

/* Uses the live array that a killed run of this boot has left, when there is one. While that is not
 * known nothing is opened: a new live array would take the place of the old one. */
static enum kvs_status adopt_live(struct image *image, bool *ret_adopted, struct kvs_error *error)
{
    struct image_header *header = &image->header;
    bool clean = header->clean != 0;
    int failure;
    enum live_found found =
        live_attach(&image->live, &image->owner, clean ? 0 : header->token, &failure);
    if (found == LIVE_FAILED && !clean)
        return io_error(error, "open the live array of", image->path, failure, 0);
    if (found == LIVE_OTHERS) {
        /* The directory is a copy: from here on they are two catalogs. */
        if (image_os_random(image->owner.id, sizeof(image->owner.id)) != 0)
            return error_set(error, KVS_ERR_INTERNAL, "the kernel gives no random numbers");
        memcpy(header->id, image->owner.id, sizeof(header->id));
    }
    *ret_adopted = found == LIVE_FOUND;
    return KVS_OK;
}

/* The same for a run whose live array was the image itself. */
static bool mapped_was_live(struct image *image, struct live_block *ret_block)
{
    return image->header.clean == 0 &&
           image_os_read(image->fd, ret_block, sizeof(*ret_block), IMAGE_LIVE_OFFSET) == 0 &&
           live_matches(ret_block, &image->owner, image->header.token);
}

/* ---- A live array for this run ----*/

static int load_slots(struct image *image)
{
    size_t bytes = (size_t)(image->header.num_pages * sizeof(struct slot));
    if (image->header.run == 0)
        return 0; /* never used: zero, as the new array is */
    return image_os_read_large(image->fd, live_slots(&image->live), bytes, IMAGE_SLOTS_OFFSET);
}

static void say_mapped(const struct image *image, int failure)
{
    uint64_t bytes = image_base_bytes(image->header.num_pages) - IMAGE_LIVE_OFFSET;
    log_line(
        &image->dir->log, KVS_LOG_WARNING,
        "%s has no room for the live array of %s (%s, %s): the image itself is mapped. Answers "
        "are as safe, but a request may wait for the disk while the image is synced (measured: "
        "7 %% of them over 5 ms, worst 99 ms), and a failing disk may end the process (SIGBUS). "
        "Enlarge it, e.g. docker run --shm-size.",
        image->dir->os->shm_dir, image->path, BYTES(bytes), strerror(failure));
}

/* Maps the image itself. `state` is the truth, the slots are in place. */
static int map_image(struct image *image, const struct catalog_state *state, bool was_live)
{
    live_unlink(&image->owner);
    int failure =
        image_os_allocate(image->dir->os, image->fd, image_base_bytes(image->header.num_pages));
    if (failure == 0)
        failure = live_map_image(&image->live, &image->owner, image->fd);
    if (failure != 0 || was_live)
        return failure;
    live_reset_block(&image->live, &image->owner);
    image->live.block->state = *state;
    return 0;
}

static enum kvs_status make_live(struct image *image, const struct catalog_state *state,
                                 bool was_live, struct kvs_error *error)
{
    int failure = live_create(&image->live, &image->owner);
    if (failure == 0) {
        failure = load_slots(image);
        if (failure != 0)
            return io_error(error, "read", image->path, failure, 0);
        image->live.block->state = *state;
        return KVS_OK;
    }
    say_mapped(image, failure);
    failure = map_image(image, state, was_live);
    if (failure != 0)
        return io_error(error, "map", image->path, failure,
                        image_base_bytes(image->header.num_pages));
    return KVS_OK;
}

/* The order of a clean stop; a bad or unreadable one is left out. */
static void load_recency(struct image *image)
{
    uint64_t count = image->header.recency_count;
    uint64_t at = image_base_bytes(image->header.num_pages);
    uint32_t *pages = count == 0 ? NULL : malloc((size_t)count * sizeof(*pages));
    if (pages == NULL)
        return;
    size_t bytes = (size_t)count * sizeof(*pages);
    if (image_os_read(image->fd, pages, bytes, at) != 0 ||
        checksum_crc32c(0, pages, bytes) != image->header.recency_crc) {
        log_line(&image->dir->log, KVS_LOG_WARNING,
                 "The recency order in %s is damaged; the order of generations stands in.",
                 image->path);
        free(pages);
        return;
    }
    image->recency = pages;
    image->recency_count = (uint32_t)count;
}

static enum kvs_status find_truth(struct image *image, uint64_t now_ms, struct kvs_error *error)
{
    struct live_block block;
    struct catalog_state state = image->header.state;
    enum catalog_origin origin = CATALOG_KILLED;
    bool adopted = false;
    int failure = set_owner(image);
    enum kvs_status status = failure == 0
                                 ? adopt_live(image, &adopted, error)
                                 : io_error(error, "tell the boot of", image->path, failure, 0);
    if (status != KVS_OK)
        return status;
    if (!adopted) {
        bool was_live = mapped_was_live(image, &block);
        if (was_live)
            state = block.state;
        else if (image->header.clean == 0)
            origin = CATALOG_POWER_LOST;
        else
            origin = image->header.run == 0 ? CATALOG_NEW : CATALOG_CLEAN;
        if (origin == CATALOG_POWER_LOST && state.next_generation < UINT64_C(1) << 52)
            /* Above every generation of the lost tail, whatever the wall clock says now. */
            state.next_generation += UINT64_C(1) << 32;
        status = make_live(image, &state, was_live, error);
        if (status != KVS_OK)
            return status;
    }
    image->origin = keep_caution(image, origin, now_ms);
    if (image->origin == CATALOG_CLEAN)
        load_recency(image);
    return KVS_OK;
}

enum kvs_status image_open(const struct image_dir *dir, const char *name, uint64_t now_ms,
                           struct image **ret_image, struct kvs_error *error)
{
    struct image *image;
    enum kvs_status status = open_file(dir, name, O_RDWR, &image, error);
    if (status != KVS_OK)
        return status;
    status = find_truth(image, now_ms, error);
    if (status != KVS_OK) {
        image_close(image);
        return status;
    }
    *ret_image = image;
    return KVS_OK;
}

void image_fill_options(const struct image *image, struct catalog_options *options)
{
    options->num_pages = (uint32_t)image->header.num_pages;
    options->slots = live_slots(&image->live);
    options->state = image_state(image);
    options->origin = image->origin;
    options->recency = image->recency;
    options->recency_count = image->recency_count;
}

/* ---- Writing ----*/

/* Writes `header` over the older copy and makes it the current one. */
static enum kvs_status write_header(struct image *image, struct image_header *header,
                                    struct kvs_error *error)
{
    unsigned copy = (image->copy + 1) % IMAGE_COPIES;
    header->sequence = image->header.sequence + 1;
    header->written_us = clock_wall_us();
    image_header_seal(header);
    int failure = image_os_write(image->dir->os, image->fd, header, sizeof(*header),
                                 (uint64_t)copy * IMAGE_BLOCK_BYTES);
    if (failure == 0)
        failure = image_os_sync(image->dir->os, image->fd);
    if (failure != 0)
        return io_error(error, "write", image->path, failure, sizeof(*header));
    image->header = *header;
    image->copy = copy;
    return KVS_OK;
}

/* The copy that was found may be in the page cache only: a process that wrote it and was killed, or
 * whose sync failed, has left it so. It has to be on the disk before the other copy, which may be
 * the only one there, is written over. */
static enum kvs_status make_copy_safe(struct image *image, struct kvs_error *error)
{
    image_header_seal(&image->header); /* the id may be a new one */
    int failure = image_os_write(image->dir->os, image->fd, &image->header, sizeof(image->header),
                                 (uint64_t)image->copy * IMAGE_BLOCK_BYTES);
    if (failure == 0)
        failure = image_os_sync(image->dir->os, image->fd);
    if (failure == 0)
        return KVS_OK;
    return io_error(error, "write", image->path, failure, sizeof(image->header));
}

enum kvs_status image_begin(struct image *image, uint64_t unsettled_until_ms,
                            struct kvs_error *error)
{
    enum kvs_status status = make_copy_safe(image, error);
    if (status != KVS_OK)
        return status;
    struct live_block *block = image->live.block;
    struct image_header header = image->header;
    bool was_clean = header.clean != 0;
    do {
        if (image_os_random(&header.token, sizeof(header.token)) != 0)
            return error_set(error, KVS_ERR_INTERNAL, "the kernel gives no random numbers");
    } while (header.token == 0);
    header.run++;
    header.clean = 0;
    header.recency_count = header.recency_crc = 0;
    header.state = block->state;
    header.unsettled_until_ms = unsettled_until_ms;
    header.unsettled_origin = unsettled_until_ms != 0 ? (uint32_t)image->origin : 0;
    memcpy(header.boot_id, image->owner.boot_id, sizeof(header.boot_id));

    /* A start that died before its last store is known by its next_token only: that must not be
     * overwritten while the image still holds the same. */
    if (block->next_token != 0 && block->next_token == image->header.token)
        __atomic_store_n(&block->token, block->next_token, __ATOMIC_SEQ_CST);
    __atomic_store_n(&block->next_token, header.token, __ATOMIC_SEQ_CST);
    /* Also when the write fails the image may hold the token, and then this live array is what it
     * points to. Only one that never ran has nothing to lose. */
    if (header.run > 1)
        image->live.made = false;
    status = write_header(image, &header, error);
    if (status != KVS_OK)
        return status;
    __atomic_store_n(&block->token, header.token, __ATOMIC_SEQ_CST);
    image->live.made = false;

    /* No copy may go on saying "clean": it would be believed when the other one is damaged. */
    if (was_clean)
        status = write_header(image, &header, error);
    free(image->recency);
    image->recency = NULL;
    /* Only gives space back. */
    if (image->file_bytes > image_base_bytes(header.num_pages) &&
        ftruncate(image->fd, (off_t)image_base_bytes(header.num_pages)) == 0)
        image->file_bytes = image_base_bytes(header.num_pages);
    return status;
}

/* Under the same id and token, so that the live array goes on belonging to it. Without a file
 * nothing leads to that array at the next start. */
static enum kvs_status make_anew(struct image *image, struct kvs_error *error)
{
    struct image_header header = image->header;
    int fd;
    int failure = create_as(image->dir, image->name, &header, &fd);
    if (failure != 0) {
        char reason[128];
        snprintf(reason, sizeof(reason), "it was removed, and cannot be made anew (%s)",
                 strerror(failure));
        return error_set(error, KVS_ERR_CATALOG_DISPLACED, image->path, reason);
    }
    close(image->fd);
    image->fd = fd;
    image->header = header;
    image->copy = IMAGE_COPIES - 1;
    image->file_bytes = image_base_bytes(header.num_pages);
    return KVS_OK;
}

/* The same file, whose bytes are gone. */
static enum kvs_status grow_again(struct image *image, struct kvs_error *error)
{
    struct image_header header = image->header;
    int failure = write_new(image->dir, image->fd, &header);
    if (failure != 0)
        return io_error(error, "grow", image->path, failure, image_base_bytes(header.num_pages));
    image->header = header;
    image->copy = IMAGE_COPIES - 1;
    image->file_bytes = image_base_bytes(header.num_pages);
    return KVS_OK;
}

/* KVS_OK and IMAGE_KEPT, or what is to be done, or an error. */
static enum kvs_status find_loss(const struct image *image, enum image_loss *ret_loss,
                                 struct kvs_error *error)
{
    struct stat held, named;
    if (fstat(image->fd, &held) != 0)
        return io_error(error, "look at", image->path, errno, 0);
    if (fstatat(image->dir->fd, image->name, &named, AT_SYMLINK_NOFOLLOW) == 0) {
        if (held.st_dev != named.st_dev || held.st_ino != named.st_ino)
            return error_set(error, KVS_ERR_CATALOG_DISPLACED, image->path,
                             "another file was put in its place");
        *ret_loss = (uint64_t)held.st_size < image_base_bytes(image->header.num_pages) ? IMAGE_CUT
                                                                                       : IMAGE_KEPT;
    } else {
        if (errno != ENOENT)
            return io_error(error, "look at", image->path, errno, 0);
        *ret_loss = IMAGE_REMOVED;
    }
    if (*ret_loss != IMAGE_KEPT && image_is_mapped(image))
        return error_set(error, KVS_ERR_CATALOG_DISPLACED, image->path,
                         *ret_loss == IMAGE_CUT ? "it was cut" : "it was removed");
    return KVS_OK;
}

enum kvs_status image_look_after(struct image *image, enum image_loss *ret_loss,
                                 struct kvs_error *error)
{
    enum image_loss loss = IMAGE_KEPT;
    enum kvs_status status = find_loss(image, &loss, error);
    if (status == KVS_OK && loss == IMAGE_REMOVED)
        status = make_anew(image, error);
    if (status == KVS_OK && loss == IMAGE_CUT)
        status = grow_again(image, error);
    if (status == KVS_OK)
        *ret_loss = loss;
    return status;
}

enum kvs_status image_write(struct image *image, const struct catalog_copy *copy,
                            struct kvs_error *error)
{
    if (image_is_mapped(image))
        return KVS_OK; /* the slots are in the image already */
    for (size_t i = 0; i < copy->count;) {
        size_t run = 1;
        while (i + run < copy->count && copy->pages[i + run] == copy->pages[i] + run)
            run++;
        int failure =
            image_os_write(image->dir->os, image->fd, &copy->slots[i], run * sizeof(struct slot),
                           IMAGE_SLOTS_OFFSET + (uint64_t)copy->pages[i] * sizeof(struct slot));
        if (failure != 0)
            return io_error(error, "write", image->path, failure, run * sizeof(struct slot));
        i += run;
    }
    return KVS_OK;
}

enum kvs_status image_commit(struct image *image, const struct catalog_state *state,
                             struct kvs_error *error)
{
    int failure = image_os_sync(image->dir->os, image->fd);
    if (failure != 0)
        return io_error(error, "sync", image->path, failure, 0);
    struct image_header header = image->header;
    header.state = *state;
    return write_header(image, &header, error);
}

/* ---- Ending ----*/

static bool write_recency(struct image *image, const uint32_t *recency, uint32_t count)
{
    uint64_t at = image_base_bytes(image->header.num_pages);
    if (count == 0)
        return true;
    int failure = image_os_write(image->dir->os, image->fd, recency, count * sizeof(*recency), at);
    if (failure == 0)
        failure = image_os_sync(image->dir->os, image->fd);
    if (failure == 0)
        return true;
    log_line(&image->dir->log, KVS_LOG_WARNING,
             "The recency order of %s could not be written (%s); the next start takes the order of "
             "generations.",
             image->path, strerror(failure));
    return false;
}

void image_settled(struct image *image)
{
    image->header.unsettled_until_ms = 0;
    image->header.unsettled_origin = 0;
}

enum kvs_status image_stop(struct image *image, const uint32_t *recency, uint32_t recency_count,
                           struct kvs_error *error)
{
    struct image_header header = image->header;
    if (write_recency(image, recency, recency_count)) {
        header.recency_count = recency_count;
        header.recency_crc = checksum_crc32c(0, recency, recency_count * sizeof(*recency));
    } else if (ftruncate(image->fd, (off_t)image_base_bytes(header.num_pages)) != 0) {
        log_line(&image->dir->log, KVS_LOG_WARNING, "%s keeps unused bytes at its end.",
                 image->path);
    }
    header.state = image->live.block->state;
    header.clean = 1;
    enum kvs_status status = write_header(image, &header, error);
    if (status == KVS_OK)
        live_unlink(&image->owner);
    return status;
}

enum kvs_status image_remove(struct image *image, struct kvs_error *error)
{
    /* The image first: what is left after a kill in between is swept by the next opening. */
    if (unlinkat(image->dir->fd, image->name, 0) != 0 && errno != ENOENT)
        return io_error(error, "remove", image->path, errno, 0);
    if (image->dir->os->fsync(image->dir->fd) != 0)
        log_line(&image->dir->log, KVS_LOG_WARNING,
                 "The removal of %s could not be synced (%s): it may be there again after a power "
                 "cut.",
                 image->path, strerror(errno));
    live_unlink(&image->owner);
    return KVS_OK;
}

struct image *image_close(struct image *image)
{
    if (image == NULL)
        return NULL;
    if (image->live.made)
        live_unlink(&image->owner);
    live_close(&image->live);
    if (image->fd >= 0)
        close(image->fd);
    free(image->recency);
    free(image->path);
    free(image);
    return NULL;
}

/* ---- Looking ----*/

struct image_identity image_identity(const struct image *image)
{
    const struct image_header *header = &image->header;
    return (struct image_identity){header->rank, header->ns, header->num_pages,
                                   header->bytes_per_page, header->fingerprint};
}

void image_set_identity(struct image *image, uint64_t bytes_per_page, const char *fingerprint)
{
    fill_identity(&image->header, bytes_per_page, fingerprint);
}

struct catalog_state *image_state(const struct image *image)
{
    return &image->live.block->state;
}

bool image_is_mapped(const struct image *image)
{
    return image->live.fd < 0;
}

const char *image_path(const struct image *image)
{
    return image->path;
}
