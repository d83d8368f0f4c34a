/* The server as a process: the registry with its writing thread, the request function behind the
 * HTTP parser, on simulated files. It is started, stopped, killed and loses power from outside. */
#ifndef KVSHELF_TESTS_SIM_SIM_SERVER_H
#define KVSHELF_TESTS_SIM_SIM_SERVER_H

#include "metadata/registry.h"
#include "sim_network.h"

extern struct sim_machine sim_server_machine;
extern struct sim_process sim_server_process;

void sim_server_begin(struct chance *chance);
/* What a registry is opened with in this seed; a store of its own uses it too. */
struct registry_options sim_server_registry_options(void);

void sim_server_start(void);
bool sim_server_is_up(void);
/* From outside of its tasks. A stop takes a while; sim_server_is_down() tells when it has ended. */
void sim_server_stop(void);
void sim_server_kill(void);
bool sim_server_is_down(void);

void sim_server_log(void *arg, enum kvs_log_level level, const char *line);

#endif
