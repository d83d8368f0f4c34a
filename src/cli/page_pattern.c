/* Eight 64-bit counters side by side, started from the id and moved on by a large odd step: the
 * cheapest sequence that has no two equal words and looks like noise to a compressing device. The
 * start is a bijection of the id, so that pages of different ids differ in every 8-byte word. */
#include "cli/page_pattern.h"

#include <stdbool.h>
#include <string.h>

enum { LANES = 8, STEP_BYTES = LANES * 8, CHECK_BYTES = 4096 };

struct lanes {
    uint64_t word[LANES];
};

static const uint64_t STEP = 0x9e3779b97f4a7c15U;

/* A bijection of 64 bits (the finalizer of SplitMix64). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

static void lanes_start(struct lanes *lanes, uint64_t id)
{
    for (unsigned i = 0; i < LANES; i++)
        lanes->word[i] = mix(id * LANES + i);
}

static inline void lanes_step(struct lanes *lanes)
{
    for (unsigned i = 0; i < LANES; i++)
        lanes->word[i] += STEP;
}

void page_pattern_fill(void *page, size_t bytes, uint64_t id)
{
    struct lanes lanes;
    lanes_start(&lanes, id);
    uint8_t *at = page;
    for (; bytes >= STEP_BYTES; bytes -= STEP_BYTES, at += STEP_BYTES) {
        memcpy(at, lanes.word, STEP_BYTES);
        lanes_step(&lanes);
    }
    memcpy(at, lanes.word, bytes);
}

void page_pattern_spoil(void *page, size_t bytes)
{
    enum { SECTOR_BYTES = 512 };
    for (size_t at = 0; at < bytes; at += SECTOR_BYTES) {
        size_t left = bytes - at;
        memset((uint8_t *)page + at, 0xa5, left < sizeof(uint64_t) ? left : sizeof(uint64_t));
    }
}

/* How many bytes differ, one by one: only for stretches that are known to differ, and for the tail.
 */
static size_t count_wrong(const uint8_t *at, size_t bytes, struct lanes lanes)
{
    size_t wrong = 0;
    while (bytes > 0) {
        size_t now = bytes < STEP_BYTES ? bytes : STEP_BYTES;
        uint8_t expected[STEP_BYTES];
        memcpy(expected, lanes.word, STEP_BYTES);
        for (size_t i = 0; i < now; i++)
            wrong += at[i] != expected[i];
        lanes_step(&lanes);
        at += now;
        bytes -= now;
    }
    return wrong;
}

/* Whether a stretch of a multiple of STEP_BYTES is as expected; moves *lanes past it. */
static bool stretch_matches(const uint8_t *at, size_t bytes, struct lanes *lanes)
{
    struct lanes now = *lanes, differences = {{0}};
    for (size_t done = 0; done < bytes; done += STEP_BYTES) {
        struct lanes found;
        memcpy(found.word, at + done, STEP_BYTES);
        for (unsigned i = 0; i < LANES; i++)
            differences.word[i] |= found.word[i] ^ now.word[i];
        lanes_step(&now);
    }
    *lanes = now;
    uint64_t any = 0;
    for (unsigned i = 0; i < LANES; i++)
        any |= differences.word[i];
    return any == 0;
}

size_t page_pattern_wrong_bytes(const void *page, size_t bytes, uint64_t id)
{
    struct lanes lanes;
    lanes_start(&lanes, id);
    const uint8_t *at = page;
    size_t wrong = 0;
    while (bytes >= STEP_BYTES) {
        size_t now = bytes < CHECK_BYTES ? bytes - bytes % STEP_BYTES : CHECK_BYTES;
        struct lanes before = lanes;
        if (!stretch_matches(at, now, &lanes))
            wrong += count_wrong(at, now, before);
        at += now;
        bytes -= now;
    }
    return wrong + count_wrong(at, bytes, lanes);
}
