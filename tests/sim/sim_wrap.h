/* What the link-time replacements of sim_wrap.c offer to the rest of the simulation. */
#ifndef KVSHELF_TESTS_SIM_SIM_WRAP_H
#define KVSHELF_TESTS_SIM_SIM_WRAP_H

#include "sim.h"

/* Frees, unmaps or closes for real. */
void sim_really_give_up(enum sim_held kind, uint64_t value, size_t bytes);

/* Where the kernel's boot id is read from in this seed. */
extern const char *sim_boot_id_path;

#endif
