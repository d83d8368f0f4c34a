/* The bytes of a page made from its id, and the check that a page read back holds exactly them:
 * what replay writes and compares. Both run at about the speed of memory. Not a checksum: the check
 * sees every byte, so a page that holds another page's bytes, a mix or a shifted copy is found. */
#ifndef KVSHELF_CLI_PAGE_PATTERN_H
#define KVSHELF_CLI_PAGE_PATTERN_H

#include <stddef.h>
#include <stdint.h>

void page_pattern_fill(void *page, size_t bytes, uint64_t id);

/* Makes every 512 bytes of the page differ from any pattern, so that a read that leaves the buffer
 * as it was cannot pass for one that filled it. Cheap: one word in each. */
void page_pattern_spoil(void *page, size_t bytes);

/* The number of bytes that differ from what page_pattern_fill() would store. */
size_t page_pattern_wrong_bytes(const void *page, size_t bytes, uint64_t id);

#endif
