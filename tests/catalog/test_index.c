/* The hash index: every key finds its page, however badly the hashes fall. */
#include "catalog/index.h"
#include "support/shelf.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* How a key's number becomes its hash: well spread, all alike, or all near the end of the array. */
enum spread { SPREAD, ALIKE, AT_THE_END, SPREADS };

static uint64_t hash_for(const struct index *index, enum spread spread, const struct key *key)
{
    if (spread == ALIKE)
        return 0x123456789abcdef0;
    if (spread == AT_THE_END)
        return UINT64_MAX - key->digest[KEY_DIGEST_BYTES - 1];
    return index_hash(index, key->digest);
}

static struct key key_number(unsigned number)
{
    return number % 3 == 0 ? plain(number / 3) : number % 3 == 1 ? half_k(number) : half_v(number);
}

/* Pages come and go under random keys; an array remembers which key has which page. */
static void every_key_finds_its_page(void **state)
{
    (void)state;
    enum { PAGES = 3000, KEYS = 4000, STEPS = 30000 };
    for (enum spread spread = SPREAD; spread < SPREADS; spread++) {
        struct slot *slots = calloc(PAGES, sizeof(*slots));
        uint32_t *page_of = calloc(KEYS, sizeof(*page_of));
        uint32_t *spare = calloc(PAGES, sizeof(*spare));
        assert_true(slots != NULL && page_of != NULL && spare != NULL);
        struct index index;
        assert_true(index_init(&index, PAGES, 77, slots));
        uint32_t spares = PAGES;
        for (uint32_t i = 0; i < PAGES; i++)
            spare[i] = i;
        for (unsigned i = 0; i < KEYS; i++)
            page_of[i] = PAGE_NONE;
        uint64_t random = 0x853c49e6748fea9bu;
        for (int step = 0; step < STEPS; step++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            unsigned number = (unsigned)(random % KEYS);
            struct key key = key_number(number);
            uint64_t hash = hash_for(&index, spread, &key);
            assert_int_equal(index_find(&index, hash, &key, 1), page_of[number]);
            if (page_of[number] != PAGE_NONE) {
                index_remove(&index, hash, key.suffix, page_of[number]);
                spare[spares++] = page_of[number];
                page_of[number] = PAGE_NONE;
            } else if (spares > 0) {
                uint32_t page = spare[--spares];
                memcpy(slots[page].digest, key.digest, sizeof(key.digest));
                slots[page].generation = 1;
                slot_seal(&slots[page], page, key.suffix, SLOT_RESERVED, 0);
                index_insert(&index, hash, key.suffix, page);
                page_of[number] = page;
            }
        }
        for (unsigned number = 0; number < KEYS; number++) {
            struct key key = key_number(number);
            uint64_t hash = hash_for(&index, spread, &key);
            assert_int_equal(index_find(&index, hash, &key, 1), page_of[number]);
            if (page_of[number] != PAGE_NONE)
                index_remove(&index, hash, key.suffix, page_of[number]);
        }
        for (uint64_t group = 0; group < index.group_count; group++) {
            for (int i = 0; i < INDEX_GROUP_ENTRIES; i++)
                assert_int_equal(index.groups[group].tags[i], 0);
            if (spread == SPREAD) /* no count has reached its limit: look-ups stay short */
                assert_int_equal(index.groups[group].overflow, 0);
        }
        index_done(&index);
        free(slots);
        free(page_of);
        free(spare);
    }
}

/* A probe must end even where the overflow counts no longer end it: they stick at their limit. */
static void a_look_up_ends_when_every_group_has_overflowed(void **state)
{
    (void)state;
    enum { PAGES = 400 };
    struct slot slots[PAGES] = {{.seal = 0}};
    struct index index;
    assert_true(index_init(&index, PAGES, 0, slots));
    for (uint64_t group = 0; group < index.group_count; group++)
        index.groups[group].overflow = UINT8_MAX;
    struct key key = plain(1);
    assert_int_equal(index_find(&index, 5, &key, 0), PAGE_NONE);
    index_done(&index);
}

static void keys_of_dead_pages_are_passed_over(void **state)
{
    (void)state;
    struct slot slots[2] = {{.seal = 0}};
    struct index index;
    struct key key = plain(1);
    assert_true(index_init(&index, 2, 0, slots));
    uint64_t hash = index_hash(&index, key.digest);
    for (uint32_t page = 0; page < 2; page++) {
        memcpy(slots[page].digest, key.digest, sizeof(key.digest));
        slots[page].generation = 10 + page;
        slot_seal(&slots[page], page, key.suffix, SLOT_COMMITTED, 0);
        index_insert(&index, hash, key.suffix, page);
    }
    assert_int_equal(index_find(&index, hash, &key, 11), 1);
    assert_int_equal(index_find(&index, hash, &key, 12), PAGE_NONE);
    index_remove(&index, hash, key.suffix, 0);
    assert_int_equal(index_find(&index, hash, &key, 0), 1);
    index_done(&index);
}

static void a_block_is_looked_up_like_its_keys(void **state)
{
    (void)state;
    enum { PAGES = INDEX_BLOCK };
    static struct slot slots[PAGES];
    struct index index;
    assert_true(index_init(&index, PAGES, 5, slots));
    static struct key keys[INDEX_BLOCK];
    for (uint32_t i = 0; i < INDEX_BLOCK; i++) {
        keys[i] = key_number(i);
        if (i % 5 == 0)
            continue; /* a miss */
        memcpy(slots[i].digest, keys[i].digest, sizeof(slots[i].digest));
        slot_seal(&slots[i], i, keys[i].suffix, SLOT_COMMITTED, 0);
        index_insert(&index, index_hash(&index, keys[i].digest), keys[i].suffix, i);
    }
    for (size_t n = 0; n <= INDEX_BLOCK; n++) {
        uint32_t pages[INDEX_BLOCK + 1];
        pages[n] = 12345;
        index_find_block(&index, keys, n, 0, pages);
        assert_int_equal(pages[n], 12345);
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(pages[i], i % 5 == 0 ? PAGE_NONE : i);
    }
    index_done(&index);
}

/* Keys share long prefixes, and a stranger who knows the hash must not be able to choose
 * collisions: every byte of the digest counts, and so does the seed. */
static void every_byte_and_the_seed_count_in_the_hash(void **state)
{
    (void)state;
    struct slot slot = {.seal = 0};
    struct index a, b;
    assert_true(index_init(&a, 1, 1, &slot));
    assert_true(index_init(&b, 1, 2, &slot));
    struct key key = plain(1);
    uint64_t hash = index_hash(&a, key.digest);
    assert_int_not_equal(hash, index_hash(&b, key.digest));
    for (int i = 0; i < KEY_DIGEST_BYTES; i++) {
        struct key other = key;
        other.digest[i] ^= 1;
        assert_int_not_equal(index_hash(&a, other.digest), hash);
    }
    index_done(&a);
    index_done(&b);
}

/* Keys are spread over all of it: the first requests of a new catalog would fault it in, a huge
 * page and up to a millisecond at a time. */
static void a_new_index_is_in_memory(void **state)
{
    (void)state;
    enum { PAGES = 1 << 20, PAGE_BYTES = 4096 };
    struct index index;
    assert_true(index_init(&index, PAGES, 77, NULL));
    size_t n = (index_memory_bytes(&index) + PAGE_BYTES - 1) / PAGE_BYTES, resident = 0;
    unsigned char *pages = malloc(n);
    assert_non_null(pages);
    assert_int_equal(mincore(index.groups, index_memory_bytes(&index), pages), 0);
    for (size_t i = 0; i < n; i++)
        resident += pages[i] & 1;
    assert_int_equal(resident, n);
    free(pages);
    index_done(&index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_finds_its_page),
        cmocka_unit_test(a_look_up_ends_when_every_group_has_overflowed),
        cmocka_unit_test(keys_of_dead_pages_are_passed_over),
        cmocka_unit_test(a_block_is_looked_up_like_its_keys),
        cmocka_unit_test(every_byte_and_the_seed_count_in_the_hash),
        cmocka_unit_test(a_new_index_is_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
