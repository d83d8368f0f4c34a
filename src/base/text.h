/* Small work on text: nearest names, names as file names, numbers with units in and out. */
#ifndef KVSHELF_BASE_TEXT_H
#define KVSHELF_BASE_TEXT_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The candidate that `name` was probably meant to be: the least edit distance (a swap of neighbours
 * counts once), at most 3 and less than half of the name. The first of equals; NULL when none is
 * near. Candidates longer than TEXT_NAME_MAX are not considered. */
enum { TEXT_NAME_MAX = 64 };
const char *text_nearest(const char *name, const char *const candidates[], size_t n);

/* Appends `text` as a part of a file name: letters, digits, '-', '_' and '@' stand for themselves,
 * every other byte becomes %XX. Decoding accepts only what encoding makes, so that one name has one
 * file; on false nothing was appended that may be used. */
void text_percent_encode(struct buffer *out, const char *text, size_t length);
bool text_percent_decode(struct buffer *out, const char *text, size_t length);

/* Numbers from the command line and the environment. Each returns NULL and sets its output, or says
 * what is wrong ("it is not a whole number"; static storage). Nothing may stand before or after,
 * not even a blank. */
const char *text_parse_uint64(const char *text, uint64_t *ret_value);
/* Bytes: digits and K, M, G, T, P, or those with iB, all powers of 1024: "4096", "256KiB", "1T". */
const char *text_parse_bytes(const char *text, uint64_t *ret_bytes);
/* Seconds with at most three decimals: "60", "0.25", "60s"; or "250ms". */
const char *text_parse_seconds(const char *text, uint64_t *ret_ms);

/* Numbers for people. The text lives as long as the full expression it is used in:
 * `printf("%s\n", BYTES(n))`. */
struct text_number {
    char text[40];
};
struct text_number text_bytes(uint64_t bytes);         /* "256 KiB", "1.5 GiB", "17 B" */
struct text_number text_count(uint64_t count);         /* "1,048,576" */
struct text_number text_duration_ns(uint64_t ns);      /* "1.25 ms", "3 min 20 s" */
struct text_number text_rate(double bytes_per_second); /* "1.93 GB/s" (powers of 1000) */
#define BYTES(value)       (text_bytes((uint64_t)(value)).text)
#define COUNT(value)       (text_count((uint64_t)(value)).text)
#define DURATION_NS(value) (text_duration_ns((uint64_t)(value)).text)
#define RATE(value)        (text_rate(value).text)

/* Replaces control characters by '?', in place: a line of a log or a terminal stays one line. */
void text_one_line(char *text);

#endif
