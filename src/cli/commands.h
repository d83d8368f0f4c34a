/* All subcommands, in the order they are listed. */
#ifndef KVSHELF_CLI_COMMANDS_H
#define KVSHELF_CLI_COMMANDS_H

#include "cli/cli.h"

extern const struct cli_command cli_serve;
extern const struct cli_command cli_namespaces;
extern const struct cli_command cli_keys;
extern const struct cli_command cli_replay;
extern const struct cli_command cli_doctor;
extern const struct cli_command cli_stat;
extern const struct cli_command cli_scrub;
extern const struct cli_command cli_get;
extern const struct cli_command cli_set;
extern const struct cli_command cli_delete;
extern const struct cli_command cli_bench;
extern const struct cli_command cli_explain;

/* NULL-terminated. */
extern const struct cli_command *const cli_commands[];

/* NULL when there is none of that name. */
const struct cli_command *cli_command_find(const char *name);

#endif
