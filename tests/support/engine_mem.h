/* A page file in memory: an engine without a file system, exact and fast. The calling thread moves
 * the bytes. What is on its disk outlives the engine, as a file does. */
#ifndef KVSHELF_TESTS_SUPPORT_ENGINE_MEM_H
#define KVSHELF_TESTS_SUPPORT_ENGINE_MEM_H

#include "pagefile/pagefile.h"

struct mem_disk;
struct mem_disk *mem_disk_new(uint64_t size);
struct mem_disk *mem_disk_free(struct mem_disk *disk); /* after the last engine over it */
/* Cuts the disk behind the engine's back: what is read beyond is short, what is written grows it.
 */
void mem_disk_cut(struct mem_disk *disk, uint64_t size);

struct pagefile *engine_mem_new(struct mem_disk *disk);

#endif
