/* Clients: native ones, which are real stores, and original ones, as SGLang's own backend behaves.
 */
#ifndef KVSHELF_TESTS_SIM_SIM_CLIENT_H
#define KVSHELF_TESTS_SIM_SIM_CLIENT_H

#include "sim_disk.h"
#include "sim_network.h"

struct client {
    struct network_client network;
    struct disk_user disk;
    struct sim_process process;
    struct sim_machine machine; /* of its own */
    struct chance chance;
    char name[32];
    bool local;              /* it holds the catalogs itself */
    bool leaving;            /* to end by itself */
    bool gone;               /* has ended by itself */
    struct kvs_store *store; /* of a native one */
    uint32_t rank;           /* of a native one, of an MLA model */
    bool idle;               /* its work is over, and it waits until it may look again */
    bool may_look;
    unsigned busy; /* its tasks under way */
};

/* `number` from 1. */
void client_init(struct client *client, const char *kind, int number, uint64_t seed);
void client_kill(struct client *client);

void native_start(struct client *client);
void original_start(struct client *client);

/* A store of its own that only looks whether all is well again. Before that each store that has
 * lived through everything does, once it `may_look`. */
void native_last_look(struct client *client);

#endif
