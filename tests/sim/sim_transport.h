/* How the real remote client (src/metadata/remote.c) asks the simulated server: HTTP by libcurl is
 * replaced by the simulated network, and nothing else is. */
#ifndef KVSHELF_TESTS_SIM_SIM_TRANSPORT_H
#define KVSHELF_TESTS_SIM_SIM_TRANSPORT_H

#include "metadata/remote_transport.h"
#include "sim_disk.h"
#include "sim_network.h"

/* The client's; frees itself at close. */
struct remote_transport *transport_new(struct network_client *network, struct disk_user *disk);

/* When the call of a store began in whose course this task asks its next questions. */
void transport_call_began(uint64_t began_us);

#endif
