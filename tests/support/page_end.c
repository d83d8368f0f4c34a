/* Bytes whose end is the end of a mapped page. */
#include "support/page_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct page_end page_end_new(const void *bytes, size_t length)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (length + page - 1) / page * page;
    char *map = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        perror("mmap");
        abort();
    }
    char *start = map + body - length;
    if (length > 0)
        memcpy(start, bytes, length);
    if (mprotect(map + body, page, PROT_NONE) != 0 ||
        (body > 0 && mprotect(map, body, PROT_READ) != 0)) {
        perror("mprotect");
        abort();
    }
    return (struct page_end){start, length, map, body + page};
}

void page_end_done(struct page_end *area)
{
    munmap(area->map, area->map_bytes);
    *area = (struct page_end){0};
}
