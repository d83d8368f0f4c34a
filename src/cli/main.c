/* The program: finds the subcommand, reads its options, runs it. */
#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/output.h"

#include <stdio.h>
#include <string.h>

static int unknown_command(const char *name)
{
    const char *names[64];
    size_t n = 0;
    for (; cli_commands[n] != NULL && n < sizeof(names) / sizeof(names[0]); n++)
        names[n] = cli_commands[n]->name;
    const char *nearest = text_nearest(name, names, n);
    char advice[128] = "see kvshelf --help";
    if (name[0] == '-')
        snprintf(advice, sizeof(advice), "options follow the command, see kvshelf --help");
    if (nearest != NULL)
        snprintf(advice, sizeof(advice), "did you mean %s?", nearest);
    struct kvs_error error;
    error_set(&error, KVS_ERR_USAGE_COMMAND, name, advice);
    output_error(stderr, false, &error);
    return CLI_USAGE;
}

static int help(const char *name)
{
    if (name == NULL) {
        help_program(stdout);
        return CLI_OK;
    }
    const struct cli_command *command = cli_command_find(name);
    if (command == NULL)
        return unknown_command(name);
    help_command(stdout, command);
    return CLI_OK;
}

static int run_command(const struct cli_command *command, int argc, char *argv[])
{
    struct cli cli;
    struct kvs_error error;
    if (cli_parse(command, argc, argv, &cli, &error) != KVS_OK)
        return cli_fail(&cli, &error);
    if (!cli.help)
        return command->run(&cli);
    help_command(stdout, command);
    return CLI_OK;
}

static int run(int argc, char *argv[])
{
    if (argc < 2) {
        help_program(stderr);
        return CLI_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "version") == 0) {
        printf("kvshelf %s\n", kvs_version());
        return CLI_OK;
    }
    if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return help(argc > 2 ? argv[2] : NULL);
    const struct cli_command *command = cli_command_find(word);
    return command == NULL ? unknown_command(word) : run_command(command, argc - 1, argv + 1);
}

int main(int argc, char *argv[])
{
    int code = run(argc, argv);
    struct kvs_error error;
    if (output_flush(stdout, &error) == KVS_OK)
        return code;
    output_error(stderr, false, &error);
    return code == CLI_OK ? CLI_FAILED : code;
}
