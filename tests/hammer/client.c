/* A client of hammer.py, of either kind, that loads and stores pages and compares every byte it
 * believes it has loaded; what it did is printed as one JSON object when it ends.
 *
 *     hammer_client native   kvshelf's store: ends when --at-least pages have been loaded
 *     hammer_client original the stand-in of support/original_client.h: one thread that loads and
 *                            one that stores, as an engine has them; prints its counts for each
 *                            byte on its standard input, and ends when that is closed and
 *                            --at-least pages have been loaded
 *
 * A page's bytes follow from the number of its key (support/page_load.h). */
#include "support/original_client.h"
#include "support/page_load.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH_MAX = 64, PROGRESS_PAGES = 500000 };

static struct settings {
    const char *url, *prefix;
    uint64_t pages, page_bytes, keys, batch, write_batch, seed, write_first, write_keys, at_least;
} settings;

static bool parse(int argc, char *argv[])
{
    static const struct option options[] = {
        {"url", required_argument, NULL, 0},         {"prefix", required_argument, NULL, 1},
        {"pages", required_argument, NULL, 2},       {"page-bytes", required_argument, NULL, 3},
        {"keys", required_argument, NULL, 4},        {"batch", required_argument, NULL, 5},
        {"write-batch", required_argument, NULL, 6}, {"write-first", required_argument, NULL, 7},
        {"write-keys", required_argument, NULL, 8},  {"seed", required_argument, NULL, 9},
        {"at-least", required_argument, NULL, 10},   {NULL, 0, NULL, 0},
    };
    uint64_t *const numbers[] = {&settings.pages,      &settings.page_bytes,  &settings.keys,
                                 &settings.batch,      &settings.write_batch, &settings.write_first,
                                 &settings.write_keys, &settings.seed,        &settings.at_least};
    for (int i; (i = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (i == 0)
            settings.url = optarg;
        else if (i == 1)
            settings.prefix = optarg;
        else if (i <= 10)
            *numbers[i - 2] = strtoull(optarg, NULL, 10);
        else
            return false;
    }
    return settings.url != NULL && settings.prefix != NULL && settings.page_bytes > 0 &&
           settings.batch > 0 && settings.batch <= BATCH_MAX && settings.batch <= settings.keys &&
           settings.write_batch > 0 && settings.write_batch <= settings.batch &&
           settings.write_batch <= settings.write_keys && optind + 1 == argc;
}

/* ---- kvshelf's store ------------------------------------------------------------------------ */

static int be_native(void)
{
    struct page_load load = {.page_bytes = settings.page_bytes,
                             .first_key = 0,
                             .keys = settings.keys,
                             .batch = settings.batch,
                             .readers = 2,
                             .writers = 1,
                             .seed = settings.seed};
    struct kvs_store_options options;
    struct kvs_store_stats stats;
    struct kvs_error error = {0};
    kvs_store_options_init(&options);
    options.bytes_per_page = settings.page_bytes;
    options.file_size = settings.page_bytes * settings.pages;
    options.file_path_prefix = settings.prefix;
    options.metadata_server_url = settings.url;
    options.numjobs = 2;
    if (kvs_store_open(&options, &load.store, &error) != KVS_OK) {
        fprintf(stderr, "native client: %s\n", error.message);
        return 1;
    }
    while (load.loaded < settings.at_least) {
        uint64_t left = settings.at_least - load.loaded;
        load.loads_wanted = load.loaded + (left < PROGRESS_PAGES ? left : PROGRESS_PAGES);
        page_load_start(&load);
        page_load_finish(&load);
        if (settings.at_least > PROGRESS_PAGES)
            fprintf(stderr, "  native client %" PRIu64 ": %" PRIu64 " loaded, %" PRIu64 " wrong\n",
                    settings.seed, load.loaded, load.wrong_pages);
    }
    kvs_store_get_stats(load.store, &stats);
    printf("{\"asked\": %" PRIu64 ", \"loaded\": %" PRIu64 ", \"wrong\": %" PRIu64
           ", \"stored\": %" PRIu64 ", \"raised\": 0, \"replaced\": %" PRIu64
           ", \"mismatch\": %" PRIu64 ", \"errors\": %" PRIu64 "}\n",
           load.asked, load.loaded, load.wrong_pages, stats.pages_written, stats.missed_replaced,
           stats.missed_mismatch, stats.io_errors + stats.metadata_errors);
    kvs_store_close(load.store);
    return 0;
}

/* ---- The stand-in for SGLang's -------------------------------------------------------------- */

static struct {
    atomic_bool told_to_stop;
    _Atomic uint64_t asked, loaded, wrong, stored, raised;
} done;

struct worker {
    bool reader;
    uint64_t random;
    struct original_client *client;
    char texts[BATCH_MAX][PAGE_LOAD_KEY_BYTES];
    const char *keys[BATCH_MAX];
    void *buffers[BATCH_MAX];
};

/* Chooses keys; returns the number of the first. */
static uint64_t choose(struct worker *w, uint64_t first, uint64_t keys, uint64_t most,
                       size_t *ret_n)
{
    uint64_t x = w->random = w->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    size_t n = 1 + (size_t)((x >> 33) % most);
    uint64_t begin = first + (x >> 17) % (keys - n + 1);
    for (size_t i = 0; i < n; i++)
        page_load_key(begin + i, w->texts[i]);
    *ret_n = n;
    return begin;
}

/* As an engine: how much of a prefix is there, then that. */
static bool load_pages(struct worker *w)
{
    size_t n, run = 0;
    uint64_t first = choose(w, 0, settings.keys, settings.batch, &n);
    atomic_fetch_add(&done.asked, n);
    if (!original_client_exists(w->client, n, w->keys, &run))
        return false;
    if (run > 0 && !original_client_get(w->client, run, w->keys, w->buffers, &run))
        return false;
    for (size_t i = 0; i < run; i++)
        if (page_load_wrong(w->buffers[i], settings.page_bytes, first + i) != 0)
            atomic_fetch_add(&done.wrong, 1);
    atomic_fetch_add(&done.loaded, run);
    return true;
}

static bool store_pages(struct worker *w)
{
    size_t n, stored = 0;
    uint64_t first = choose(w, settings.write_first, settings.write_keys, settings.write_batch, &n);
    for (size_t i = 0; i < n; i++)
        page_load_fill(w->buffers[i], settings.page_bytes, first + i);
    if (!original_client_set(w->client, n, w->keys, (const void *const *)w->buffers, &stored))
        return false;
    atomic_fetch_add(&done.stored, stored);
    return true;
}

static bool goes_on(void)
{
    return !atomic_load(&done.told_to_stop) || atomic_load(&done.loaded) < settings.at_least;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    while (goes_on())
        if (!(w->reader ? load_pages : store_pages)(w))
            atomic_fetch_add(&done.raised, 1);
    return NULL;
}

static bool prepare(struct worker *w, const char *path, bool reader)
{
    uint8_t *memory = calloc(settings.batch, settings.page_bytes);
    w->reader = reader;
    w->random = settings.seed * 2 + reader;
    w->client = original_client_open(settings.url, path, settings.pages, settings.page_bytes);
    for (size_t i = 0; i < settings.batch; i++) {
        w->keys[i] = w->texts[i];
        w->buffers[i] = memory + i * settings.page_bytes;
    }
    return memory != NULL && w->client != NULL;
}

static int be_original(void)
{
    static struct worker workers[2];
    pthread_t threads[2];
    char path[4096], byte;
    snprintf(path, sizeof(path), "%s.0.bin", settings.prefix);
    for (size_t i = 0; i < 2; i++)
        if (!prepare(&workers[i], path, i == 0)) {
            fprintf(stderr, "original client: it cannot initialize\n");
            return 1;
        }
    for (size_t i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            return 1;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        fprintf(stderr, "  original client %" PRIu64 ": %" PRIu64 " loaded, %" PRIu64 " wrong\n",
                settings.seed, atomic_load(&done.loaded), atomic_load(&done.wrong));
    atomic_store(&done.told_to_stop, true);
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        original_client_close(workers[i].client);
        free(workers[i].buffers[0]);
    }
    printf("{\"asked\": %" PRIu64 ", \"loaded\": %" PRIu64 ", \"wrong\": %" PRIu64
           ", \"stored\": %" PRIu64 ", \"raised\": %" PRIu64 "}\n",
           done.asked, done.loaded, done.wrong, done.stored, done.raised);
    return 0;
}

int main(int argc, char *argv[])
{
    if (!parse(argc, argv)) {
        fprintf(stderr, "hammer_client: see hammer.py for its arguments\n");
        return 2;
    }
    return strcmp(argv[optind], "native") == 0 ? be_native() : be_original();
}
