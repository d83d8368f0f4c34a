/* Large zeroed arrays of a catalog. They are read at random, so huge pages are asked for: without
 * them a lookup waits for the page tables as long as for the data. Untouched parts cost no memory,
 * but the first touch of a huge page takes up to a millisecond. */
#ifndef KVSHELF_CATALOG_MEMORY_H
#define KVSHELF_CATALOG_MEMORY_H

#include <stddef.h>

/* Asks for the line of an address that will be read or written soon. The empty asm is an effect:
 * gcc takes a function that does nothing but prefetch for one that does nothing, and drops the
 * calls to it. */
static inline void memory_prefetch(const void *address)
{
    __builtin_prefetch(address, 1);
    __asm__ volatile("");
}

/* NULL on lack of memory. */
void *memory_new(size_t bytes);
/* The same, all of it touched: for an array whose first uses would be all over it. */
void *memory_new_touched(size_t bytes);
/* NULL allowed; returns NULL. `bytes` as given to memory_new(). */
void *memory_free(void *memory, size_t bytes);

#endif
