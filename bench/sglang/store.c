/* The lookups of an engine through kvshelf's store with the remote client: batch_exists, then
 * batch_get of what is there. Used by bench/sglang/run.py, which has SGLang's class do the same.
 *
 *   bench_store URL PREFIX FILE_BYTES PAGE_BYTES PAGES
 *
 * Stores so many pages, then waits for lines on standard input: a number of rounds. Each is
 * answered by one line with as many pairs of nanoseconds (of exists, of get). Every page is
 * compared after the last round of a line. Whatever is missing or different ends the program. */
#include "base/clock.h"
#include "kvshelf/kvshelf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 72 };

static struct {
    struct kvs_store *store;
    size_t n, page_bytes;
    const char **keys;
    void **buffers;
    uint8_t *memory;
    bool *results;
} b;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "bench_store: %s\n", what);
    exit(1);
}

static void open_store(const char *url, const char *prefix, uint64_t file_bytes)
{
    struct kvs_store_options options;
    struct kvs_error error = {0};
    kvs_store_options_init(&options);
    options.metadata_server_url = url;
    options.file_path_prefix = prefix;
    options.file_size = file_bytes;
    options.bytes_per_page = b.page_bytes;
    options.is_mla_model = true;
    if (kvs_store_open(&options, &b.store, &error) != KVS_OK)
        fail(error.message);
}

static void prepare(void)
{
    char *texts = calloc(b.n, KEY_BYTES);
    b.memory = aligned_alloc(4096, b.n * b.page_bytes);
    b.keys = calloc(b.n, sizeof(*b.keys));
    b.buffers = calloc(b.n, sizeof(*b.buffers));
    b.results = calloc(b.n, sizeof(*b.results));
    if (texts == NULL || b.memory == NULL || b.keys == NULL || b.buffers == NULL ||
        b.results == NULL)
        fail("out of memory");
    for (size_t i = 0; i < b.n; i++) {
        snprintf(texts + i * KEY_BYTES, KEY_BYTES, "%064zx", i);
        b.keys[i] = texts + i * KEY_BYTES;
        b.buffers[i] = b.memory + i * b.page_bytes;
    }
}

/* The byte that page i is full of. */
static int content(size_t i)
{
    return (int)(1 + i % 255);
}

static bool all_there(void)
{
    for (size_t i = 0; i < b.n; i++)
        if (!b.results[i])
            return false;
    return true;
}

static void store_pages(void)
{
    for (size_t i = 0; i < b.n; i++)
        memset(b.buffers[i], content(i), b.page_bytes);
    kvs_store_batch_set(b.store, KVS_POOL_KV, b.n, b.keys, (const void *const *)b.buffers,
                        b.results);
    if (!all_there())
        fail("not every page was stored");
}

static void look_up(void)
{
    uint64_t begin_ns = clock_mono_ns();
    if (kvs_store_batch_exists(b.store, KVS_POOL_KV, b.n, b.keys) != b.n)
        fail("not every page is there");
    uint64_t between_ns = clock_mono_ns();
    kvs_store_batch_get(b.store, KVS_POOL_KV, b.n, b.keys, b.buffers, b.results);
    uint64_t end_ns = clock_mono_ns();
    if (!all_there())
        fail("not every page was loaded");
    printf("%" PRIu64 " %" PRIu64 " ", between_ns - begin_ns, end_ns - between_ns);
}

static void compare(void)
{
    for (size_t i = 0; i < b.n; i++) {
        const uint8_t *page = b.buffers[i];
        if (page[0] != content(i) || memcmp(page, page + 1, b.page_bytes - 1) != 0)
            fail("a page has other bytes");
    }
}

int main(int argc, char *argv[])
{
    char line[32];
    if (argc != 6)
        fail("usage: bench_store URL PREFIX FILE_BYTES PAGE_BYTES PAGES");
    b.page_bytes = strtoull(argv[4], NULL, 10);
    b.n = strtoull(argv[5], NULL, 10);
    open_store(argv[1], argv[2], strtoull(argv[3], NULL, 10));
    prepare();
    store_pages();
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        memset(b.memory, 0, b.n * b.page_bytes);
        for (unsigned long left = strtoul(line, NULL, 10); left > 0; left--)
            look_up();
        compare();
        printf("\n");
        fflush(stdout);
    }
    kvs_store_close(b.store);
    return 0;
}
