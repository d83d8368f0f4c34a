/* Checksums by isa-l, in their usual presets. */
#include "base/checksum.h"

#include <isa-l/crc.h>
#include <isa-l/crc64.h>
#include <limits.h>
#include <string.h>

uint64_t checksum_page(const void *bytes, size_t length)
{
    return checksum_page_more(0, bytes, length);
}

uint64_t checksum_page_more(uint64_t checksum, const void *bytes, size_t length)
{
    /* This variant inverts at both ends by itself, which makes it CRC-64/XZ and lets it go on. */
    return crc64_ecma_refl(checksum, bytes, length);
}

/* A slot has 44 or 52 bytes: the processor's own instruction takes a third of the time that isa-l's
 * folding, made for long runs, needs for so few. */
#if defined(__x86_64__)
enum { SHORT_BYTES = 128 };

__attribute__((target("sse4.2"))) static uint32_t
crc32c_short(uint32_t crc, const unsigned char *at, size_t length)
{
    uint64_t wide = crc;
    for (; length >= 8; at += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    if (length >= 4) { /* the last word of a slot's bytes */
        uint32_t word;
        memcpy(&word, at, 4);
        crc = __builtin_ia32_crc32si(crc, word);
        at += 4;
        length -= 4;
    }
    for (; length > 0; at++, length--)
        crc = __builtin_ia32_crc32qi(crc, *at);
    return crc;
}
#endif

uint32_t checksum_crc32c(uint32_t seed, const void *bytes, size_t length)
{
#if defined(__x86_64__)
    if (length <= SHORT_BYTES && __builtin_cpu_supports("sse4.2"))
        return ~crc32c_short(~seed, bytes, length);
#endif
    /* This one does not invert, takes a length of type int, and is not const although it only
     * reads. */
    unsigned char *at = (unsigned char *)(uintptr_t)bytes;
    uint32_t crc = ~seed;
    while (length > 0) {
        int chunk = length > INT_MAX ? INT_MAX : (int)length;
        crc = crc32_iscsi(at, chunk, crc);
        at += chunk;
        length -= (size_t)chunk;
    }
    return ~crc;
}
