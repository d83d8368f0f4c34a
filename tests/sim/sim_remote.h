/* A metadata client that speaks the native protocol to the simulated server: generations,
 * checksums, owner tokens; what is lost is asked again where that is harmless. */
#ifndef KVSHELF_TESTS_SIM_SIM_REMOTE_H
#define KVSHELF_TESTS_SIM_SIM_REMOTE_H

#include "metadata/metadata.h"
#include "sim_disk.h"
#include "sim_network.h"

struct metadata_client *remote_new(struct network_client *network, struct disk_user *disk,
                                   struct chance *chance);

#endif
