/* Large zeroed arrays; see memory.h. */
#include "catalog/memory.h"

#include <stdint.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096, HUGE_PAGE_BYTES = 2 << 20 };

/* Small arrays stay on small pages; large ones start on a huge page's boundary. */
void *memory_new(size_t bytes)
{
    size_t slack = bytes < HUGE_PAGE_BYTES ? 0 : HUGE_PAGE_BYTES;
    char *map =
        mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    if (slack == 0)
        return map;
    size_t before = (HUGE_PAGE_BYTES - (uintptr_t)map % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    if (before > 0)
        munmap(map, before);
    size_t used = (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
    char *end = map + bytes + slack;
    char *used_end = map + before + used;
    end = (char *)(((uintptr_t)end + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1));
    if (used_end < end)
        munmap(used_end, (size_t)(end - used_end));
    madvise(map + before, used, MADV_HUGEPAGE); /* a wish: without it everything works */
    return map + before;
}

void *memory_new_touched(size_t bytes)
{
    volatile char *memory = memory_new(bytes);
    for (size_t at = 0; memory != NULL && at < bytes; at += PAGE_BYTES)
        memory[at] = 0;
    return (void *)memory;
}

void *memory_free(void *memory, size_t bytes)
{
    if (memory != NULL)
        munmap(memory, bytes);
    return NULL;
}
