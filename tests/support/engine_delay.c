#include "support/engine_delay.h"

#include "pagefile/batch.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct held {
    struct page_batch *batch;
    size_t index;
};

struct delay_file {
    struct pagefile pagefile;
    struct pagefile *below;
    struct delay_options options;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct held *held;
    size_t n_held, room;
    size_t budget; /* I/Os that may end; SIZE_MAX: all */
    uint64_t state;
    bool closing;
};

static uint64_t next_random(struct delay_file *delay) /* splitmix64 */
{
    uint64_t z = (delay->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void end_one(struct delay_file *delay, struct held held)
{
    const struct page_io *io = &page_batch_ios(held.batch)[held.index];
    struct page_batch *single = page_batch_new(page_batch_direction(held.batch), 1, NULL, NULL);
    if (!single) {
        abort();
    }
    struct page_io *copy = page_batch_ios(single);
    copy->tag = io->tag;
    copy->offset = io->offset;
    copy->buffer = io->buffer;
    copy->length = io->length;
    copy->want_checksum = io->want_checksum;
    copy->uncached = io->uncached;
    delay->below->ops->run(delay->below, single, 0);
    int64_t result = copy->result;
    uint64_t checksum = copy->checksum;
    page_batch_abandon(single);
    page_batch_end_io(held.batch, held.index, result, checksum);
}

static void take_time(uint64_t us)
{
    struct timespec time = {.tv_sec = (time_t)(us / 1000000),
                            .tv_nsec = (long)(us % 1000000 * 1000)};
    nanosleep(&time, NULL);
}

static void *delay_main(void *arg)
{
    struct delay_file *delay = arg;
    pthread_mutex_lock(&delay->lock);
    while (delay->n_held > 0 || !delay->closing) {
        if (delay->n_held == 0 || delay->budget == 0) {
            pthread_cond_wait(&delay->changed, &delay->lock);
            continue;
        }
        size_t chosen = next_random(delay) % delay->n_held;
        uint64_t us = delay->options.max_us > 0 ? next_random(delay) % delay->options.max_us : 0;
        struct held held = delay->held[chosen];
        delay->held[chosen] = delay->held[--delay->n_held];
        delay->budget -= delay->budget == SIZE_MAX ? 0 : 1;
        pthread_mutex_unlock(&delay->lock);
        if (us > 0) {
            take_time(us);
        }
        end_one(delay, held);
        pthread_mutex_lock(&delay->lock);
    }
    pthread_mutex_unlock(&delay->lock);
    return NULL;
}

static void hold_all(struct delay_file *delay, struct page_batch *batch)
{
    size_t n = page_batch_count(batch);
    if (delay->n_held + n > delay->room) {
        delay->room = (delay->n_held + n) * 2;
        delay->held = realloc(delay->held, delay->room * sizeof(*delay->held));
        if (!delay->held) {
            abort();
        }
    }
    for (size_t i = 0; i < n; i++) {
        delay->held[delay->n_held++] = (struct held){batch, i};
    }
    pthread_cond_broadcast(&delay->changed);
}

static enum kvs_status delay_run(struct pagefile *file, struct page_batch *batch,
                                 uint64_t deadline_ns)
{
    struct delay_file *delay = (struct delay_file *)file;
    if (page_batch_begin(batch)) {
        pthread_mutex_lock(&delay->lock);
        hold_all(delay, batch);
        pthread_mutex_unlock(&delay->lock);
        page_batch_wait(batch, deadline_ns);
    }
    return page_batch_leave(batch);
}

static enum kvs_status delay_sync(struct pagefile *file, struct kvs_error *error)
{
    struct pagefile *below = ((struct delay_file *)file)->below;
    return below->ops->sync(below, error);
}

static enum kvs_status delay_register(struct pagefile *file, void *base, size_t bytes,
                                      struct kvs_error *error)
{
    struct pagefile *below = ((struct delay_file *)file)->below;
    return below->ops->register_memory(below, base, bytes, error);
}

static enum kvs_status delay_check(struct pagefile *file, struct kvs_error *error)
{
    struct pagefile *below = ((struct delay_file *)file)->below;
    return below->ops->check(below, error);
}

static struct pagefile_info delay_info(const struct pagefile *file)
{
    const struct delay_file *delay = (const struct delay_file *)file;
    struct pagefile_info info = delay->below->ops->info(delay->below);
    info.engine = "delay";
    info.needs_deadline = delay->options.network;
    return info;
}

static struct pagefile *delay_close(struct pagefile *file)
{
    struct delay_file *delay = (struct delay_file *)file;
    pthread_mutex_lock(&delay->lock);
    delay->closing = true;
    delay->budget = SIZE_MAX;
    pthread_cond_broadcast(&delay->changed);
    pthread_mutex_unlock(&delay->lock);
    pthread_join(delay->thread, NULL);
    delay->below->ops->close(delay->below);
    pthread_cond_destroy(&delay->changed);
    pthread_mutex_destroy(&delay->lock);
    free(delay->held);
    free(delay);
    return NULL;
}

static const struct pagefile_ops delay_ops = {
    .name = "delay",
    .run = delay_run,
    .sync = delay_sync,
    .register_memory = delay_register,
    .check = delay_check,
    .info = delay_info,
    .close = delay_close,
};

struct pagefile *engine_delay_new(struct pagefile *below, const struct delay_options *options)
{
    struct delay_file *delay = calloc(1, sizeof(*delay));
    if (!delay) {
        abort();
    }
    delay->pagefile.ops = &delay_ops;
    delay->below = below;
    delay->options = *options;
    delay->state = options->seed;
    delay->budget = SIZE_MAX;
    pthread_mutex_init(&delay->lock, NULL);
    pthread_cond_init(&delay->changed, NULL);
    if (pthread_create(&delay->thread, NULL, delay_main, delay) != 0) {
        abort();
    }
    return &delay->pagefile;
}

static void set_budget(struct pagefile *file, size_t add, bool hold)
{
    struct delay_file *delay = (struct delay_file *)file;
    pthread_mutex_lock(&delay->lock);
    if (hold) {
        delay->budget = 0;
    } else if (add == SIZE_MAX || delay->budget > SIZE_MAX - add) {
        delay->budget = SIZE_MAX;
    } else {
        delay->budget += add;
    }
    pthread_cond_broadcast(&delay->changed);
    pthread_mutex_unlock(&delay->lock);
}

void engine_delay_hold(struct pagefile *file)
{
    set_budget(file, 0, true);
}

void engine_delay_release(struct pagefile *file, size_t n)
{
    set_budget(file, n, false);
}

void engine_delay_wait_held(struct pagefile *file, size_t n)
{
    struct delay_file *delay = (struct delay_file *)file;
    pthread_mutex_lock(&delay->lock);
    while (delay->n_held < n) {
        pthread_cond_wait(&delay->changed, &delay->lock);
    }
    pthread_mutex_unlock(&delay->lock);
}

size_t engine_delay_held(struct pagefile *file)
{
    struct delay_file *delay = (struct delay_file *)file;
    pthread_mutex_lock(&delay->lock);
    size_t n = delay->n_held;
    pthread_mutex_unlock(&delay->lock);
    return n;
}
