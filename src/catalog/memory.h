/* Large zeroed arrays of a catalog. They are read at random, so huge pages are asked for: without
 * them a lookup waits for the page tables as long as for the data. Untouched parts cost no memory.
 */
#ifndef KVSHELF_CATALOG_MEMORY_H
#define KVSHELF_CATALOG_MEMORY_H

#include <stddef.h>

/* NULL on lack of memory. */
void *memory_new(size_t bytes);
/* NULL allowed; returns NULL. `bytes` as given to memory_new(). */
void *memory_free(void *memory, size_t bytes);

#endif
