/* A table of sets of four; the oldest of a set makes room. A namespace has a number, and an epoch
 * that makes all its older entries void at once. */
#include "metadata/remote_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { WAYS = 4, SETS = REMOTE_CACHE_KEYS / WAYS, NAME_MAX_BYTES = 160 };

struct entry {
    struct key key;
    uint16_t scope; /* its number + 1; 0: the entry is empty */
    uint32_t epoch;
    uint64_t until_ns;
    int64_t page;
    uint64_t generation, checksum;
};

struct known_scope {
    uint32_t rank, epoch;
    char ns[NAME_MAX_BYTES];
};

struct remote_cache {
    pthread_mutex_t mutex;
    uint64_t life_ns;
    struct known_scope scopes[REMOTE_CACHE_SCOPES];
    size_t scope_count;
    struct entry *entries; /* SETS * WAYS */
};

struct remote_cache *remote_cache_new(uint64_t life_ns)
{
    struct remote_cache *cache = calloc(1, sizeof(*cache));
    if (cache == NULL)
        return NULL;
    cache->life_ns = life_ns;
    cache->entries = calloc((size_t)SETS * WAYS, sizeof(*cache->entries));
    pthread_mutex_init(&cache->mutex, NULL);
    return cache->entries == NULL ? remote_cache_free(cache) : cache;
}

struct remote_cache *remote_cache_free(struct remote_cache *cache)
{
    if (cache == NULL)
        return NULL;
    pthread_mutex_destroy(&cache->mutex);
    free(cache->entries);
    free(cache);
    return NULL;
}

/* The number of a scope + 1; 0 when there is no room for it. */
static uint16_t number_of(struct remote_cache *cache, const struct metadata_scope *scope)
{
    for (size_t i = 0; i < cache->scope_count; i++)
        if (cache->scopes[i].rank == scope->rank && strcmp(cache->scopes[i].ns, scope->ns) == 0)
            return (uint16_t)(i + 1);
    size_t length = strlen(scope->ns);
    if (cache->scope_count == REMOTE_CACHE_SCOPES || length >= NAME_MAX_BYTES)
        return 0;
    struct known_scope *known = &cache->scopes[cache->scope_count++];
    known->rank = scope->rank;
    memcpy(known->ns, scope->ns, length + 1);
    return (uint16_t)cache->scope_count;
}

static struct entry *set_of(struct remote_cache *cache, const struct key *key, uint16_t scope)
{
    uint64_t seed = (uint64_t)key->suffix << 16 | scope;
    uint64_t hash = XXH3_64bits_withSeed(key->digest, sizeof(key->digest), seed);
    return &cache->entries[hash % SETS * WAYS];
}

static bool holds(const struct entry *entry, const struct key *key, uint16_t scope)
{
    return entry->scope == scope && entry->key.suffix == key->suffix &&
           memcmp(entry->key.digest, key->digest, sizeof(key->digest)) == 0;
}

/* The entry of the key, or the one of its set that makes room for it. */
static struct entry *place_of(struct remote_cache *cache, const struct key *key, uint16_t scope)
{
    struct entry *set = set_of(cache, key, scope), *oldest = set;
    for (struct entry *entry = set; entry < set + WAYS; entry++) {
        if (holds(entry, key, scope))
            return entry;
        if (entry->until_ns < oldest->until_ns)
            oldest = entry;
    }
    return oldest;
}

uint64_t remote_cache_epoch(struct remote_cache *cache, const struct metadata_scope *scope)
{
    pthread_mutex_lock(&cache->mutex);
    uint16_t number = number_of(cache, scope);
    uint64_t epoch = number == 0 ? 0 : cache->scopes[number - 1].epoch;
    pthread_mutex_unlock(&cache->mutex);
    return epoch;
}

void remote_cache_put(struct remote_cache *cache, const struct metadata_scope *scope,
                      uint64_t epoch, const struct metadata_text keys[],
                      const struct catalog_found found[], size_t n, uint64_t now_ns)
{
    pthread_mutex_lock(&cache->mutex);
    uint16_t number = number_of(cache, scope);
    bool current = number != 0 && cache->scopes[number - 1].epoch == epoch;
    for (size_t i = 0; current && i < n; i++) {
        struct key key;
        key_parse(&key, keys[i].text, keys[i].length, scope->ns);
        struct entry *entry = place_of(cache, &key, number);
        if (found[i].page < 0 || !found[i].has_checksum) {
            if (holds(entry, &key, number))
                *entry = (struct entry){0};
            continue;
        }
        *entry = (struct entry){
            .key = key,
            .scope = number,
            .epoch = (uint32_t)epoch,
            .until_ns = now_ns + cache->life_ns,
            .page = found[i].page,
            .generation = found[i].generation,
            .checksum = found[i].checksum,
        };
    }
    pthread_mutex_unlock(&cache->mutex);
}

bool remote_cache_take(struct remote_cache *cache, const struct metadata_scope *scope,
                       const struct metadata_text keys[], size_t n, uint64_t now_ns,
                       struct catalog_found ret_found[])
{
    size_t known = 0;
    pthread_mutex_lock(&cache->mutex);
    uint16_t number = number_of(cache, scope);
    for (size_t i = 0; number != 0 && i < n; i++) {
        struct key key;
        key_parse(&key, keys[i].text, keys[i].length, scope->ns);
        struct entry *entry = place_of(cache, &key, number);
        if (!holds(entry, &key, number))
            continue;
        if (entry->epoch == cache->scopes[number - 1].epoch && entry->until_ns > now_ns) {
            ret_found[i] =
                (struct catalog_found){entry->page, true, entry->generation, entry->checksum};
            known++;
        }
        *entry = (struct entry){0};
    }
    pthread_mutex_unlock(&cache->mutex);
    return known == n;
}

void remote_cache_drop(struct remote_cache *cache, const struct metadata_scope *scope)
{
    pthread_mutex_lock(&cache->mutex);
    uint16_t number = number_of(cache, scope);
    if (number != 0)
        cache->scopes[number - 1].epoch++;
    pthread_mutex_unlock(&cache->mutex);
}
