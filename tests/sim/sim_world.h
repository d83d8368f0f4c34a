/* One seed from its beginning to its end. */
#ifndef KVSHELF_TESTS_SIM_SIM_WORLD_H
#define KVSHELF_TESTS_SIM_SIM_WORLD_H

#include "sim_plan.h"

/* Plays the plan. NULL: nothing was violated; else what was, static storage. */
const char *world_play(const struct sim_plan *plan);

#endif
