/* Checksums by isa-l, in their usual presets. */
#include "base/checksum.h"

#include <isa-l/crc.h>
#include <isa-l/crc64.h>
#include <limits.h>

uint64_t checksum_page(const void *bytes, size_t length)
{
    return checksum_page_more(0, bytes, length);
}

uint64_t checksum_page_more(uint64_t checksum, const void *bytes, size_t length)
{
    /* This variant inverts at both ends by itself, which makes it CRC-64/XZ and lets it go on. */
    return crc64_ecma_refl(checksum, bytes, length);
}

uint32_t checksum_crc32c(uint32_t seed, const void *bytes, size_t length)
{
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
