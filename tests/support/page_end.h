/* Bytes whose end is the end of a mapped page: reading one byte further faults. */
#ifndef KVSHELF_TESTS_SUPPORT_PAGE_END_H
#define KVSHELF_TESTS_SUPPORT_PAGE_END_H

#include <stddef.h>

struct page_end {
    char *bytes; /* `length` of them, read-only */
    size_t length;
    void *map;
    size_t map_bytes;
};

/* Ends the process when memory runs out. */
struct page_end page_end_new(const void *bytes, size_t length);
void page_end_done(struct page_end *area);

#endif
