#include "support/engine_mem.h"

#include "base/checksum.h"
#include "base/status.h"
#include "pagefile/batch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct mem_disk {
    pthread_mutex_t lock; /* one I/O at a time: bytes are never torn */
    char *bytes;
    uint64_t size, used;
};

struct mem_file {
    struct pagefile pagefile;
    struct mem_disk *disk;
};

struct mem_disk *mem_disk_new(uint64_t size)
{
    struct mem_disk *disk = calloc(1, sizeof(*disk));
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!disk || bytes == MAP_FAILED) {
        abort();
    }
    pthread_mutex_init(&disk->lock, NULL);
    disk->bytes = bytes;
    disk->size = disk->used = size;
    return disk;
}

struct mem_disk *mem_disk_free(struct mem_disk *disk)
{
    if (disk) {
        munmap(disk->bytes, disk->size);
        pthread_mutex_destroy(&disk->lock);
        free(disk);
    }
    return NULL;
}

void mem_disk_cut(struct mem_disk *disk, uint64_t size)
{
    pthread_mutex_lock(&disk->lock);
    if (size < disk->used) {
        memset(disk->bytes + size, 0, disk->used - size);
        disk->used = size;
    }
    pthread_mutex_unlock(&disk->lock);
}

/* Returns bytes moved. Under the lock. */
static int64_t move(struct mem_disk *disk, enum page_direction direction, const struct page_io *io)
{
    if (direction == PAGE_WRITE) {
        memcpy(disk->bytes + io->offset, io->buffer, io->length);
        disk->used = disk->used > io->offset + io->length ? disk->used : io->offset + io->length;
        return (int64_t)io->length;
    }
    uint64_t there = io->offset < disk->used ? disk->used - io->offset : 0;
    uint64_t length = io->length < there ? io->length : there;
    if (length > 0) {
        memcpy(io->buffer, disk->bytes + io->offset, length);
    }
    return (int64_t)length;
}

static enum kvs_status mem_run(struct pagefile *pagefile, struct page_batch *batch,
                               uint64_t deadline_ns)
{
    (void)deadline_ns;
    struct mem_disk *disk = ((struct mem_file *)pagefile)->disk;
    enum page_direction direction = page_batch_direction(batch);
    page_batch_begin(batch);
    for (size_t i = 0; i < page_batch_count(batch); i++) {
        const struct page_io *io = &page_batch_ios(batch)[i];
        uint64_t checksum = 0;
        int64_t result = page_io_refuse(io, direction, disk->size);
        if (result == 0) {
            pthread_mutex_lock(&disk->lock);
            result = move(disk, direction, io);
            pthread_mutex_unlock(&disk->lock);
            if (io->want_checksum && result == (int64_t)io->length) {
                checksum = checksum_page(io->buffer, io->length);
            }
        }
        page_batch_end_io(batch, i, result, checksum);
    }
    return page_batch_leave(batch);
}

static enum kvs_status mem_sync(struct pagefile *pagefile, struct kvs_error *error)
{
    (void)pagefile, (void)error;
    return KVS_OK;
}

static enum kvs_status mem_register(struct pagefile *pagefile, void *base, size_t bytes,
                                    struct kvs_error *error)
{
    (void)pagefile, (void)base, (void)bytes, (void)error;
    return KVS_OK;
}

static enum kvs_status mem_check(struct pagefile *pagefile, struct kvs_error *error)
{
    struct mem_disk *disk = ((struct mem_file *)pagefile)->disk;
    pthread_mutex_lock(&disk->lock);
    bool cut = disk->used < disk->size;
    disk->used = disk->size;
    pthread_mutex_unlock(&disk->lock);
    return cut ? error_set(error, KVS_ERR_FILE_CHANGED, "memory", "it was cut") : KVS_OK;
}

static struct pagefile_info mem_info(const struct pagefile *pagefile)
{
    (void)pagefile;
    return (struct pagefile_info){
        .engine = "mem", .filesystem = "memory", .alignment = 1, .max_inflight = 1};
}

static struct pagefile *mem_close(struct pagefile *pagefile)
{
    free(pagefile);
    return NULL;
}

static const struct pagefile_ops mem_ops = {
    .name = "mem",
    .run = mem_run,
    .sync = mem_sync,
    .register_memory = mem_register,
    .check = mem_check,
    .info = mem_info,
    .close = mem_close,
};

struct pagefile *engine_mem_new(struct mem_disk *disk)
{
    struct mem_file *mem = calloc(1, sizeof(*mem));
    if (!mem) {
        abort();
    }
    mem->pagefile.ops = &mem_ops;
    mem->disk = disk;
    return &mem->pagefile;
}
