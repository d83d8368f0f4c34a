/* Help made from the tables of commands. */
#ifndef KVSHELF_CLI_HELP_H
#define KVSHELF_CLI_HELP_H

#include "cli/cli.h"

#include <stdio.h>

void help_program(FILE *out); /* kvshelf --help */
void help_command(FILE *out, const struct cli_command *command);

#endif
