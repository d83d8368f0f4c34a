/* Threads that set and get pages of a store until they are told to stop. The bytes of a page follow
 * from the number of its key, so that every byte of a page that is said to be loaded is checked:
 * `wrong` counts what must never be. */
#ifndef KVSHELF_TESTS_SUPPORT_PAGE_LOAD_H
#define KVSHELF_TESTS_SUPPORT_PAGE_LOAD_H

#include "kvshelf/kvshelf.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PAGE_LOAD_THREADS_MAX = 16, PAGE_LOAD_KEY_BYTES = 68 };

struct page_load {
    struct kvs_store *store;
    uint64_t page_bytes;
    uint64_t first_key, keys; /* numbers first_key .. first_key + keys - 1 */
    size_t batch;             /* pages of a call, at most */
    unsigned readers, writers;
    uint64_t seed;
    uint64_t reads_wanted; /* readers end when they have asked for so many pages; 0: when stopped */
    uint64_t loads_wanted; /* or when so many have been loaded */

    atomic_bool stop;
    _Atomic uint64_t asked, loaded, set, stored, wrong_pages, wrong_bytes;
    struct page_load_thread {
        struct page_load *load;
        unsigned number; /* the readers are the first ones */
        pthread_t thread;
    } threads[PAGE_LOAD_THREADS_MAX];
};

void page_load_start(struct page_load *load);
void page_load_stop(struct page_load *load); /* waits */
/* Waits for the readers to end by themselves, then stops the writers. */
void page_load_finish(struct page_load *load);

/* One call each, of keys first .. first + n - 1; returns how many were stored or loaded. A loaded
 * page with other bytes counts as wrong. */
size_t page_load_set(struct page_load *load, uint64_t first, size_t n);
size_t page_load_get(struct page_load *load, uint64_t first, size_t n);

void page_load_key(uint64_t number, char text[PAGE_LOAD_KEY_BYTES]);
void page_load_fill(uint8_t *page, uint64_t bytes, uint64_t number);
/* Bytes that are not those of the page of this key. */
uint64_t page_load_wrong(const uint8_t *page, uint64_t bytes, uint64_t number);

#endif
