/* The disk under kept catalogs: real files on a tmpfs, which remember what of them was synced, so
 * that a power cut can take the rest. */
#ifndef KVSHELF_TESTS_SIM_SIM_FILES_H
#define KVSHELF_TESTS_SIM_SIM_FILES_H

#include "catalog/image_os.h"
#include "sim.h"

/* Makes the place of this operating system process; removed by sim_files_done(). */
void sim_files_init(void);
void sim_files_done(void);

/* For a seed: empty directories, nothing synced. */
void sim_files_begin(struct chance *chance, const struct sim_machine *machine);

extern const struct image_os sim_image_os;
extern char sim_files_dir[64]; /* for the catalogs; not made yet */

/* Its next start finds no room on /dev/shm. */
extern bool sim_files_shm_full;
/* Called before each system call that writes, in the task that makes it; may kill its process. */
extern void (*sim_files_before_call)(void);

/* Both after the process was killed. */
void sim_files_power_cut(void);
void sim_files_lose_shm(void);

#endif
