/* The table of subcommands. */
#include "cli/commands.h"

#include <string.h>

const struct cli_command *const cli_commands[] = {
    &cli_serve,      &cli_replay, &cli_doctor, &cli_explain, &cli_stat,
    &cli_namespaces, &cli_keys,   &cli_scrub,  &cli_get,     &cli_set,
    &cli_delete,     &cli_bench,  NULL,
};

const struct cli_command *cli_command_find(const char *name)
{
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    return NULL;
}
