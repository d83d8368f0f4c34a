/* The fake engine. Batches are run by their caller, one I/O after the other. */
#include "support/fake_engine.h"

#include "base/checksum.h"
#include "base/status.h"
#include "pagefile/batch.h"
#include "support/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_file {
    struct pagefile pagefile;
    struct fake_engine *engine;
    size_t number;
};

static const struct pagefile_ops fake_ops;

void fake_engine_init(struct fake_engine *engine)
{
    *engine = (struct fake_engine){.error_number = EIO};
    pthread_mutex_init(&engine->lock, NULL);
}

void fake_engine_done(struct fake_engine *engine)
{
    fake_engine_release(engine);
    for (size_t i = 0; i < engine->file_count; i++)
        free(engine->files[i].bytes);
    pthread_mutex_destroy(&engine->lock);
}

void fake_engine_fault(struct fake_engine *engine, enum fake_fault fault, uint64_t from,
                       uint64_t count, bool reads, bool writes)
{
    engine->fault = fault;
    engine->from = from;
    engine->count = count;
    engine->reads = reads;
    engine->writes = writes;
    engine->ios = 0;
}

static size_t file_number(struct fake_engine *engine, const char *path)
{
    size_t i = 0;
    while (i < engine->file_count && strcmp(engine->files[i].path, path) != 0)
        i++;
    return i;
}

enum kvs_status fake_engine_open(void *arg, enum kvs_io_engine kind,
                                 const struct pagefile_options *options, struct pagefile **ret_file,
                                 struct kvs_error *error)
{
    (void)kind;
    struct fake_engine *engine = arg;
    if (engine->open_fails != KVS_OK)
        return error_set(error, KVS_ERR_NO_MEMORY, "playing a broken disk");
    struct fake_file *file = calloc(1, sizeof(*file));
    if (file == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a fake file");
    pthread_mutex_lock(&engine->lock);
    size_t number = file_number(engine, options->path);
    if (number == engine->file_count) {
        assert_true(number < FAKE_FILES_MAX);
        snprintf(engine->files[number].path, sizeof(engine->files[number].path), "%s",
                 options->path);
        engine->file_count++;
    }
    struct fake_store_file *content = &engine->files[number];
    if (content->size < options->file_size) {
        uint8_t *bytes = realloc(content->bytes, options->file_size);
        if (bytes == NULL) {
            pthread_mutex_unlock(&engine->lock);
            free(file);
            return error_set(error, KVS_ERR_NO_MEMORY, "growing a fake file");
        }
        content->bytes = bytes;
        memset(content->bytes + content->size, 0, options->file_size - content->size);
        content->size = options->file_size;
    }
    engine->opens++;
    pthread_mutex_unlock(&engine->lock);
    file->pagefile.ops = &fake_ops;
    file->engine = engine;
    file->number = number;
    *ret_file = &file->pagefile;
    return KVS_OK;
}

/* Under the lock: the fault of the I/O that is next. */
static enum fake_fault next_fault(struct fake_engine *engine, enum page_direction direction)
{
    if (direction == PAGE_READ ? !engine->reads : !engine->writes)
        return FAKE_NONE;
    uint64_t nth = ++engine->ios;
    bool hit = nth >= engine->from && nth - engine->from < engine->count;
    return hit ? engine->fault : FAKE_NONE;
}

/* Under the lock. Moves bytes; returns the result. */
static int64_t move(struct fake_store_file *content, enum page_direction direction,
                    const struct page_io *io, enum fake_fault fault, int error_number)
{
    uint64_t length = io->length;
    if (io->offset > content->size || length > content->size - io->offset)
        return -EINVAL;
    if (fault == FAKE_ERROR)
        return -error_number;
    if (fault == FAKE_UNSTARTED)
        return -ETIMEDOUT;
    if (fault == FAKE_ZERO)
        return 0;
    if (fault == FAKE_DROP)
        return (int64_t)length;
    if (fault == FAKE_SHORT)
        length /= 2;
    if (direction == PAGE_WRITE)
        memcpy(content->bytes + io->offset, io->buffer, length);
    else
        memcpy(io->buffer, content->bytes + io->offset, length);
    if (fault == FAKE_CORRUPT)
        ((uint8_t *)io->buffer)[io->length / 2] ^= 1;
    return fault == FAKE_OVER ? (int64_t)length + 1 : (int64_t)length;
}

static void end(struct fake_engine *engine, struct fake_store_file *content,
                struct page_batch *batch, size_t index, enum fake_fault fault)
{
    enum page_direction direction = page_batch_direction(batch);
    const struct page_io *io = &page_batch_ios(batch)[index];
    int64_t result = move(content, direction, io, fault, engine->error_number);
    uint64_t checksum = 0;
    if (io->want_checksum && result == (int64_t)io->length)
        checksum = checksum_page(io->buffer, io->length);
    page_batch_end_io(batch, index, result, checksum);
}

static enum kvs_status fake_run(struct pagefile *pagefile, struct page_batch *batch,
                                uint64_t deadline_ns)
{
    struct fake_file *file = (struct fake_file *)pagefile;
    struct fake_engine *engine = file->engine;
    enum page_direction direction = page_batch_direction(batch);
    assert_true(engine->needs_deadline == (deadline_ns != 0));
    if (engine->before != NULL)
        engine->before(engine->before_arg, direction);
    size_t n = page_batch_count(batch);
    if (page_batch_begin(batch)) {
        pthread_mutex_lock(&engine->lock);
        for (size_t i = 0; i < n; i++) {
            size_t index = engine->reversed ? n - 1 - i : i;
            enum fake_fault fault = next_fault(engine, direction);
            *(direction == PAGE_READ ? &engine->read_ios : &engine->write_ios) += 1;
            engine->uncached_ios += page_batch_ios(batch)[index].uncached;
            if (fault == FAKE_LATE) {
                assert_true(engine->late_count < FAKE_LATE_MAX);
                engine->late[engine->late_count].batch = batch;
                engine->late[engine->late_count++].index = index | file->number << 32;
                continue;
            }
            end(engine, &engine->files[file->number], batch, index, fault);
        }
        pthread_mutex_unlock(&engine->lock);
    }
    return page_batch_leave(batch);
}

void fake_engine_release(struct fake_engine *engine)
{
    for (;;) {
        pthread_mutex_lock(&engine->lock);
        if (engine->late_count == 0) {
            pthread_mutex_unlock(&engine->lock);
            return;
        }
        engine->late_count--;
        struct page_batch *batch = engine->late[engine->late_count].batch;
        size_t index = engine->late[engine->late_count].index;
        struct fake_store_file content = engine->files[index >> 32];
        pthread_mutex_unlock(&engine->lock);
        end(engine, &content, batch, index & 0xffffffff, FAKE_NONE);
    }
}

static enum kvs_status fake_sync(struct pagefile *pagefile, struct kvs_error *error)
{
    (void)error;
    struct fake_engine *engine = ((struct fake_file *)pagefile)->engine;
    pthread_mutex_lock(&engine->lock);
    engine->syncs++;
    pthread_mutex_unlock(&engine->lock);
    return KVS_OK;
}

static enum kvs_status fake_check(struct pagefile *pagefile, struct kvs_error *error)
{
    (void)error;
    struct fake_engine *engine = ((struct fake_file *)pagefile)->engine;
    pthread_mutex_lock(&engine->lock);
    engine->checks++;
    pthread_mutex_unlock(&engine->lock);
    return KVS_OK;
}

static enum kvs_status fake_register(struct pagefile *pagefile, void *base, size_t bytes,
                                     struct kvs_error *error)
{
    (void)pagefile, (void)base, (void)bytes, (void)error;
    return KVS_OK;
}

static struct pagefile_info fake_info(const struct pagefile *pagefile)
{
    const struct fake_engine *engine = ((const struct fake_file *)pagefile)->engine;
    return (struct pagefile_info){
        .engine = "fake",
        .filesystem = engine->needs_deadline ? "nfs" : "tmpfs",
        .direct = engine->direct,
        .needs_deadline = engine->needs_deadline,
        .alignment = 1,
        .max_inflight = 1,
    };
}

static struct pagefile *fake_close(struct pagefile *pagefile)
{
    struct fake_file *file = (struct fake_file *)pagefile;
    pthread_mutex_lock(&file->engine->lock);
    file->engine->closes++;
    pthread_mutex_unlock(&file->engine->lock);
    free(file);
    return NULL;
}

static const struct pagefile_ops fake_ops = {
    .name = "fake",
    .run = fake_run,
    .sync = fake_sync,
    .register_memory = fake_register,
    .check = fake_check,
    .info = fake_info,
    .close = fake_close,
};

uint8_t *fake_engine_bytes(struct fake_engine *engine, const char *path, uint64_t *ret_size)
{
    size_t number = file_number(engine, path);
    if (number == engine->file_count)
        return NULL;
    if (ret_size != NULL)
        *ret_size = engine->files[number].size;
    return engine->files[number].bytes;
}
