/* Checksums: CRC-64/XZ of page contents, CRC-32C of slots and headers, by isa-l; what is as short
 * as a slot by the processor's own instruction, where it has one. */
#ifndef KVSHELF_BASE_CHECKSUM_H
#define KVSHELF_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t checksum_page(const void *bytes, size_t length);
/* The checksum of a page that goes on: `checksum` is that of the bytes before (0 when none were).
 */
uint64_t checksum_page_more(uint64_t checksum, const void *bytes, size_t length);
/* `seed` continues or salts; the result for seed 0 is the usual CRC-32C. */
uint32_t checksum_crc32c(uint32_t seed, const void *bytes, size_t length);

#endif
