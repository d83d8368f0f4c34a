/* Help made from the tables of commands. */
#include "cli/help.h"

#include "cli/commands.h"
#include "cli/output.h"

#include <string.h>

enum { INDENT = 2, HELP_INDENT = 8 };

void help_program(FILE *out)
{
    fputs("kvshelf keeps pages of a KV cache on disk, for LLM inference engines\n\n"
          "Usage: kvshelf COMMAND [ARGUMENTS] [OPTIONS]\n\n"
          "Commands:\n",
          out);
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        fprintf(out, "  %-12s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    fputs("\n"
          "  kvshelf help COMMAND   what a command does, its options and examples\n"
          "  kvshelf --version      the version\n"
          "\n"
          "To see it work:  kvshelf replay TRACE.jsonl --no-io\n"
          "Before an engine starts:  kvshelf doctor\n"
          "An error in a log:  kvshelf explain 'the whole message'\n"
          "\n"
          "Exit codes: 0 done, 1 failed, 2 the command line is wrong.\n",
          out);
}

static void print_option(FILE *out, const char *name, const char *value, const char *help)
{
    fprintf(out, "%*s--%s%s%s\n", INDENT, "", name, value == NULL ? "" : " ",
            value == NULL ? "" : value);
    output_wrapped(out, HELP_INDENT, help);
}

/* Lines as they are, indented. */
static void print_lines(FILE *out, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        fprintf(out, "%*s%.*s\n", INDENT, "", (int)length, text);
        text += length;
        text += *text == '\n';
    }
}

void help_command(FILE *out, const struct cli_command *command)
{
    bool arguments = command->arguments[0] != '\0';
    fprintf(out, "kvshelf %s: %s\n\n", command->name, command->summary);
    fprintf(out, "Usage: kvshelf %s%s%s [OPTIONS]\n\n", command->name, arguments ? " " : "",
            command->arguments);
    output_wrapped(out, 0, command->about);
    fputs("\nOptions:\n", out);
    for (size_t i = 0; command->options != NULL && command->options[i].name != NULL; i++)
        print_option(out, command->options[i].name, command->options[i].value,
                     command->options[i].help);
    if (command->json)
        print_option(out, "json", NULL,
                     "Print the result as JSON on stdout, and an error as an object, too.");
    print_option(out, "help", NULL, "Print this.");
    fputs("\nExamples:\n", out);
    print_lines(out, command->examples);
    fputs("\nExit codes:\n", out);
    print_lines(out, command->exit_codes != NULL ? command->exit_codes
                                                 : "0  done\n1  failed\n2  wrong arguments");
}
