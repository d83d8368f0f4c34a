/* A part of a call's keys. The one place where a key of the engine becomes keys of the index:
 * itself,
 * `-k` and `-v` for pairs, `_{pool}` for extra pools; set, get and exists all come through here. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

size_t chunk_pages(const struct kvs_store *store, const struct pool *pool, bool moving)
{
    size_t halves = pool->pairs ? 2 : 1;
    uint64_t pages = CHUNK_KEYS_MAX / halves;
    uint64_t fit = store->config.options.max_inflight_bytes / pool->bytes_per_page / halves;
    if (moving && fit < pages)
        pages = fit;
    return pages > 0 ? (size_t)pages : 1;
}

/* Cuts the next array out of a block; with block NULL only its size counts. */
static void *carve(char *block, size_t *used, size_t count, size_t size)
{
    size_t at = (*used + 15) & ~(size_t)15;
    *used = at + count * size;
    return block == NULL ? NULL : block + at;
}

static size_t lay_out(struct chunk *chunk, char *block, size_t pages, size_t keys)
{
    size_t used = 0;
    chunk->key = carve(block, &used, keys, sizeof(*chunk->key));
    chunk->outcomes = carve(block, &used, pages, sizeof(*chunk->outcomes));
    chunk->texts = carve(block, &used, keys, sizeof(*chunk->texts));
    chunk->from = carve(block, &used, keys, sizeof(*chunk->from));
    chunk->found = carve(block, &used, keys, sizeof(*chunk->found));
    _Static_assert(sizeof(struct catalog_found) >= sizeof(struct catalog_reserved),
                   "the answers share their memory");
    chunk->confirms = carve(block, &used, keys, sizeof(*chunk->confirms));
    chunk->releases = carve(block, &used, keys, sizeof(*chunk->releases));
    chunk->reasons = carve(block, &used, keys, sizeof(*chunk->reasons));
    return used;
}

bool chunk_init(struct chunk *chunk, const struct pool *pool, size_t pages, struct index_time time)
{
    *chunk = (struct chunk){.pool = pool, .halves = pool->pairs ? 2 : 1, .time = time};
    size_t keys = pages * chunk->halves;
    chunk->memory = malloc(lay_out(chunk, NULL, pages, keys));
    if (chunk->memory == NULL)
        return false;
    lay_out(chunk, chunk->memory, pages, keys);
    return true;
}

void chunk_done(struct chunk *chunk)
{
    free(chunk->memory);
    buffer_done(&chunk->arena);
    *chunk = (struct chunk){0};
}

/* The suffixes of the keys of one page, one for each half; NULL for none. */
static void suffixes_of(const struct pool *pool, const char *ret_suffixes[2])
{
    ret_suffixes[0] = pool->pairs ? "-k" : pool->name[0] == '\0' ? NULL : pool->name;
    ret_suffixes[1] = "-v";
}

static struct metadata_text key_text(struct chunk *chunk, const char *key, size_t length,
                                     const char *suffix)
{
    if (suffix == NULL)
        return (struct metadata_text){key, length};
    size_t at = chunk->arena.length;
    buffer_append(&chunk->arena, key, length);
    if (!chunk->pool->pairs)
        buffer_append_char(&chunk->arena, '_');
    buffer_append_text(&chunk->arena, suffix);
    return (struct metadata_text){chunk->arena.data + at, chunk->arena.length - at};
}

/* How much room all texts of the chunk need, so that the arena does not move while they are made.
 */
static size_t arena_bytes(const struct chunk *chunk, const char *const keys[], size_t pages,
                          size_t suffix_bytes)
{
    size_t bytes = 0;
    for (size_t i = 0; i < pages; i++)
        if (keys[i] != NULL)
            bytes += chunk->halves * (strnlen(keys[i], KEY_TEXT_MAX + 1) + suffix_bytes);
    return bytes;
}

void chunk_load(struct chunk *chunk, const char *const keys[], void *const buffers[], size_t pages,
                enum store_stat initial, enum store_stat refused)
{
    const char *suffixes[2];
    suffixes_of(chunk->pool, suffixes);
    size_t suffix_bytes = suffixes[0] == NULL ? 0 : strlen(suffixes[0]) + 1;
    chunk->pages = pages;
    chunk->keys = pages * chunk->halves;
    buffer_clear(&chunk->arena);
    bool room = suffixes[0] == NULL ||
                buffer_reserve(&chunk->arena, arena_bytes(chunk, keys, pages, suffix_bytes));
    for (size_t i = 0; i < pages; i++) {
        size_t length = keys[i] == NULL ? 0 : strnlen(keys[i], KEY_TEXT_MAX + 1);
        bool good = room && keys[i] != NULL && length + suffix_bytes <= KEY_TEXT_MAX;
        for (size_t half = 0; half < chunk->halves; half++)
            if (buffers != NULL && buffers[i * chunk->halves + half] == NULL)
                good = false;
        for (size_t half = 0; half < chunk->halves; half++) {
            size_t k = i * chunk->halves + half;
            chunk->key[k] = (struct chunk_key){
                .page = (uint32_t)i,
                .buffer = buffers == NULL ? NULL : buffers[k],
                .index = -1,
                .outcome = good ? initial : refused,
            };
            if (good)
                chunk->key[k].text = key_text(chunk, keys[i], length, suffixes[half]);
        }
    }
}

size_t chunk_list(struct chunk *chunk, enum store_stat outcome)
{
    size_t n = 0;
    for (size_t k = 0; k < chunk->keys; k++) {
        if (chunk->key[k].outcome != outcome)
            continue;
        chunk->texts[n] = chunk->key[k].text;
        chunk->from[n++] = (uint32_t)k;
    }
    return n;
}

void chunk_turn_listed(struct chunk *chunk, size_t n, enum store_stat to)
{
    for (size_t i = 0; i < n; i++)
        chunk->key[chunk->from[i]].outcome = to;
}

void chunk_fold(struct chunk *chunk)
{
    for (size_t i = 0; i < chunk->pages; i++) {
        const struct chunk_key *key = &chunk->key[i * chunk->halves];
        chunk->outcomes[i] = key[0].outcome;
        if (chunk->halves == 2 && key[1].outcome > key[0].outcome)
            chunk->outcomes[i] = key[1].outcome;
    }
}
