/* A stand-in in C for what a rank of SGLang's HF3FS backend does with pages: HiCacheHF3FS with its
 * plain-file client and its HTTP client, as released. It asks as they ask (no generations, no
 * checksums, no owner), repeats as they repeat (any request, three times, after a failed connection
 * or a status of 500, 502, 503 or 504), moves pages with one pread or pwrite each, and believes
 * what it reads. What it leaves out is the time Python takes.
 *
 * One thread at a time. */
#ifndef KVSHELF_TESTS_SUPPORT_ORIGINAL_CLIENT_H
#define KVSHELF_TESTS_SUPPORT_ORIGINAL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct original_client;

/* Initializes namespace kv of rank 0 with `num_pages`, and makes the file of that many pages. NULL
 * when it cannot: the original raises. */
struct original_client *original_client_open(const char *url, const char *path, uint64_t num_pages,
                                             uint64_t page_bytes);
struct original_client *original_client_close(struct original_client *client); /* returns NULL */

/* Each is false when the original would raise, which ends the thread of the engine that called. */

/* How many of the keys are present, from the first on. */
bool original_client_exists(struct original_client *client, size_t n, const char *const keys[],
                            size_t *ret_run);
/* How many pages, from the first on, are said to be in their buffers; an engine uses these. */
bool original_client_get(struct original_client *client, size_t n, const char *const keys[],
                         void *const buffers[], size_t *ret_run);
/* How many pages are said to be stored. */
bool original_client_set(struct original_client *client, size_t n, const char *const keys[],
                         const void *const pages[], size_t *ret_stored);

#endif
