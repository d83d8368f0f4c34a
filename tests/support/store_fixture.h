/* A store over the fake index and the fake engine, with pages whose bytes follow from their key. */
#ifndef KVSHELF_TESTS_SUPPORT_STORE_FIXTURE_H
#define KVSHELF_TESTS_SUPPORT_STORE_FIXTURE_H

#include "store/store.h"
#include "support/fake_engine.h"
#include "support/fake_metadata.h"

enum {
    FIXTURE_PAGE_BYTES = 512,
    FIXTURE_PAGES = 64,
    FIXTURE_KEYS_MAX = 512,
    FIXTURE_LINES = 64,
    FIXTURE_LARGE_PAGES = 16 /* buffers, of pages over 64 KiB */
};

struct store_fixture {
    struct fake_metadata metadata;
    struct fake_engine engine;
    struct kvs_store_options options;
    struct kvs_store *store;
    _Atomic uint64_t now_ns; /* of breakers and limiters */

    char lines[FIXTURE_LINES][512]; /* of the log, the last ones */
    _Atomic uint32_t line_count;

    /* Arguments and results of one call. */
    char key_texts[FIXTURE_KEYS_MAX][80];
    const char *keys[FIXTURE_KEYS_MAX];
    uint8_t *memory;
    void *buffers[2 * FIXTURE_KEYS_MAX];
    bool results[FIXTURE_KEYS_MAX];
};

/* Options for FIXTURE_PAGES pages; change them before fixture_open(). */
struct store_fixture *fixture_new(void);
struct store_fixture *fixture_free(struct store_fixture *fixture); /* closes; returns NULL */
struct store_parts fixture_parts(struct store_fixture *fixture);   /* for store_open() */
void fixture_open(struct store_fixture *fixture);                  /* fails the test if it fails */
void fixture_close(struct store_fixture *fixture);

/* Keys first, first + 1, ...: 64 hexadecimal digits each. */
void fixture_keys(struct store_fixture *fixture, uint64_t first, size_t n);
/* Sets, or gets and checks, those keys in the KV pool; results in fixture->results. A page that is
 * said to be loaded and has other bytes fails the test. Returns how many results are true. */
size_t fixture_set(struct store_fixture *fixture, uint64_t first, size_t n);
size_t fixture_get(struct store_fixture *fixture, uint64_t first, size_t n);
size_t fixture_exists(struct store_fixture *fixture, uint64_t first, size_t n);

/* The content of a page, by number of its key and half. */
void fixture_fill(uint8_t *page, size_t bytes, uint64_t key, unsigned half);
bool fixture_holds(const uint8_t *page, size_t bytes, uint64_t key, unsigned half);

struct kvs_store_stats fixture_stats(struct store_fixture *fixture); /* checks the sums */
struct catalog_counts fixture_counts(struct store_fixture *fixture); /* of the KV pool */
bool fixture_logged(struct store_fixture *fixture, const char *part);

#endif
