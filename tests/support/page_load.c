/* The load. */
#include "support/page_load.h"

#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void page_load_key(uint64_t number, char text[PAGE_LOAD_KEY_BYTES])
{
    snprintf(text, PAGE_LOAD_KEY_BYTES, "%016" PRIx64 "%048" PRIx64, mix(number), number);
}

/* Word i of a page: no two pages, and no two places of one, share a word but by chance. */
static uint64_t word_of(uint64_t number, uint64_t i)
{
    return (number * 0x9e3779b97f4a7c15u) ^ (i * 0xd1342543de82ef95u + 1);
}

void page_load_fill(uint8_t *page, uint64_t bytes, uint64_t number)
{
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word = word_of(number, i);
        memcpy(page + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

uint64_t page_load_wrong(const uint8_t *page, uint64_t bytes, uint64_t number)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word = word_of(number, i), found = word, length = bytes - i < 8 ? bytes - i : 8;
        memcpy(&found, page + i, length);
        for (uint64_t differing = word ^ found; differing != 0; differing >>= 8)
            wrong += (differing & 0xff) != 0;
    }
    return wrong;
}

/* ---- Calls -----------------------------------------------------------------------------------*/

/* The arguments of calls of up to n pages. */
struct call {
    size_t n;
    char (*texts)[PAGE_LOAD_KEY_BYTES];
    const char **keys;
    uint8_t *memory;
    void **buffers;
    bool *results;
};

static void call_init(struct call *call, const struct page_load *load, size_t n)
{
    uint64_t stride = (load->page_bytes + 4095) / 4096 * 4096;
    *call = (struct call){.n = n,
                          .texts = calloc(n, sizeof(*call->texts)),
                          .keys = calloc(n, sizeof(*call->keys)),
                          .memory = aligned_alloc(4096, n * stride),
                          .buffers = calloc(n, sizeof(*call->buffers)),
                          .results = calloc(n, sizeof(*call->results))};
    assert_non_null(call->texts);
    assert_non_null(call->keys);
    assert_non_null(call->memory);
    assert_non_null(call->buffers);
    assert_non_null(call->results);
    for (size_t i = 0; i < n; i++)
        call->buffers[i] = call->memory + i * stride;
}

static void call_done(struct call *call)
{
    free(call->texts);
    free(call->keys);
    free(call->memory);
    free(call->buffers);
    free(call->results);
}

static void name_keys(struct call *call, uint64_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        page_load_key(first + i, call->texts[i]);
        call->keys[i] = call->texts[i];
        call->results[i] = false;
    }
}

static size_t set_pages(struct page_load *load, struct call *call, uint64_t first, size_t n)
{
    size_t stored = 0;
    name_keys(call, first, n);
    for (size_t i = 0; i < n; i++)
        page_load_fill(call->buffers[i], load->page_bytes, first + i);
    kvs_store_batch_set(load->store, KVS_POOL_KV, n, call->keys, (const void *const *)call->buffers,
                        call->results);
    for (size_t i = 0; i < n; i++)
        stored += call->results[i];
    atomic_fetch_add(&load->set, n);
    atomic_fetch_add(&load->stored, stored);
    return stored;
}

static size_t get_pages(struct page_load *load, struct call *call, uint64_t first, size_t n)
{
    size_t loaded = 0;
    name_keys(call, first, n);
    kvs_store_batch_get(load->store, KVS_POOL_KV, n, call->keys, call->buffers, call->results);
    for (size_t i = 0; i < n; i++) {
        if (!call->results[i])
            continue;
        loaded++;
        uint64_t wrong = page_load_wrong(call->buffers[i], load->page_bytes, first + i);
        atomic_fetch_add(&load->wrong_bytes, wrong);
        atomic_fetch_add(&load->wrong_pages, wrong != 0);
    }
    atomic_fetch_add(&load->asked, n);
    atomic_fetch_add(&load->loaded, loaded);
    return loaded;
}

size_t page_load_set(struct page_load *load, uint64_t first, size_t n)
{
    struct call call;
    call_init(&call, load, n);
    size_t stored = set_pages(load, &call, first, n);
    call_done(&call);
    return stored;
}

size_t page_load_get(struct page_load *load, uint64_t first, size_t n)
{
    struct call call;
    call_init(&call, load, n);
    size_t loaded = get_pages(load, &call, first, n);
    call_done(&call);
    return loaded;
}

/* ---- Threads ---------------------------------------------------------------------------------*/

static bool has_enough(const struct page_load *load)
{
    return (load->reads_wanted != 0 && atomic_load(&load->asked) >= load->reads_wanted) ||
           (load->loads_wanted != 0 && atomic_load(&load->loaded) >= load->loads_wanted);
}

static void *work(void *arg)
{
    struct page_load_thread *self = arg;
    struct page_load *load = self->load;
    bool reader = self->number < load->readers;
    uint64_t seed = mix(load->seed + 1000003 * (uint64_t)self->number);
    struct call call;
    call_init(&call, load, load->batch);
    while (!atomic_load(&load->stop) && !(reader && has_enough(load))) {
        seed = mix(seed + 0x9e3779b97f4a7c15u);
        size_t n = 1 + (size_t)(seed % load->batch);
        uint64_t first = load->first_key + (seed >> 32) % (load->keys - n + 1);
        if (reader)
            get_pages(load, &call, first, n);
        else
            set_pages(load, &call, first, n);
    }
    call_done(&call);
    return NULL;
}

void page_load_start(struct page_load *load)
{
    unsigned threads = load->readers + load->writers;
    assert_true(threads <= PAGE_LOAD_THREADS_MAX);
    assert_true(load->keys >= load->batch);
    atomic_store(&load->stop, false);
    for (unsigned i = 0; i < threads; i++) {
        load->threads[i] = (struct page_load_thread){.load = load, .number = i};
        assert_int_equal(pthread_create(&load->threads[i].thread, NULL, work, &load->threads[i]),
                         0);
    }
}

void page_load_stop(struct page_load *load)
{
    atomic_store(&load->stop, true);
    page_load_finish(load);
}

void page_load_finish(struct page_load *load)
{
    for (unsigned i = 0; i < load->readers; i++)
        pthread_join(load->threads[i].thread, NULL);
    atomic_store(&load->stop, true);
    for (unsigned i = load->readers; i < load->readers + load->writers; i++)
        pthread_join(load->threads[i].thread, NULL);
}
