/* Reading a command line by a command's table. What commands ask of it is in cli.h. */
#ifndef KVSHELF_CLI_OPTIONS_H
#define KVSHELF_CLI_OPTIONS_H

#include "cli/cli.h"

struct cli {
    const struct cli_command *command;
    const char *values[CLI_OPTIONS_MAX]; /* as in the table; NULL: not given; "" for flags */
    /* Where a value came from if not from the command line: "KVSHELF_PORT"; else NULL. */
    const char *origins[CLI_OPTIONS_MAX];
    char *const *arguments;
    size_t argument_count;
    bool json, help;
};

/* Reads argv[1..argc-1] (argv[0] is the command's name; argv is reordered). With --help anywhere
 * only `help` counts. On failure `json` is still right, so that the error can be shown as asked
 * for. Errors: KVS_ERR_USAGE_OPTION, KVS_ERR_USAGE_ARGUMENTS. Not thread-safe (getopt). */
enum kvs_status cli_parse(const struct cli_command *command, int argc, char *argv[],
                          struct cli *ret_cli, struct kvs_error *error);

/* The error of a value, with where it came from; `problem` says what it must be. Returns
 * KVS_ERR_USAGE_VALUE. */
enum kvs_status cli_wrong_value(const struct cli *cli, const char *name, const char *value,
                                const char *problem, struct kvs_error *error);

/* The advice of a hint of the command; NULL when there is none of this name. */
const char *cli_hint_for(const struct cli_command *command, const char *name);

#endif
