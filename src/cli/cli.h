/* What a subcommand is: a table entry that says what it does and takes, and a function. main.c
 * reads the command line by the table, prints help from it, and calls the function.
 *
 * A command says `const struct cli_command cli_replay = {...};` in its file and is entered in
 * main.c.
 * --help is common to all commands, --json to those with `.json`. */
#ifndef KVSHELF_CLI_CLI_H
#define KVSHELF_CLI_CLI_H

#include "kvshelf/kvshelf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes of every command. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

enum { CLI_OPTIONS_MAX = 40 };

struct cli_option {
    const char *name;  /* long name without dashes; NULL ends the table */
    const char *value; /* "N", "DIR", "BYTES", "S": what it takes; NULL for a flag */
    const char *help;  /* one sentence, with unit and default; wrapped when printed */
};

/* An option that another program has in the place of this command, and what stands for it here. */
struct cli_hint {
    const char *name; /* without dashes; NULL ends the table */
    const char *advice;
};

struct cli; /* the command line as read */

struct cli_command {
    const char *name;
    const char *arguments;  /* "TRACE.jsonl", "[CODE|TEXT]"; "" for none */
    const char *summary;    /* one line for the list of commands */
    const char *about;      /* paragraphs, separated by an empty line; wrapped when printed */
    const char *examples;   /* whole lines, printed indented */
    const char *exit_codes; /* what 0 and 1 mean here, whole lines; NULL: done, failed */
    const struct cli_option *options; /* NULL: none */
    const struct cli_hint *hints;     /* NULL: none */
    size_t arguments_min, arguments_max;
    bool json;                         /* takes --json */
    int (*run)(const struct cli *cli); /* returns an exit code */
};

/* ---- What was given --------------------------------------------------------------------------
 * `name` must be in the command's table. An option given twice counts as it was given last. */
bool cli_json(const struct cli *cli);
size_t cli_argument_count(const struct cli *cli);
const char *cli_argument(const struct cli *cli, size_t i);
bool cli_has(const struct cli *cli, const char *name);
/* The text of an option; `otherwise` when it was not given. */
const char *cli_text(const struct cli *cli, const char *name, const char *otherwise);

/* Typed values: *ret_value is left as it is when the option was not given, so set the default
 * first. Errors: KVS_ERR_USAGE_VALUE. `unit` is used in the error: "pages". */
enum kvs_status cli_count(const struct cli *cli, const char *name, uint64_t min, uint64_t max,
                          const char *unit, uint64_t *ret_value, struct kvs_error *error);
enum kvs_status cli_bytes(const struct cli *cli, const char *name, uint64_t min, uint64_t max,
                          uint64_t *ret_bytes, struct kvs_error *error);
enum kvs_status cli_seconds(const struct cli *cli, const char *name, uint64_t min_ms,
                            uint64_t max_ms, uint64_t *ret_ms, struct kvs_error *error);
/* One of `choices` (NULL-terminated); gives its index. */
enum kvs_status cli_choice(const struct cli *cli, const char *name, const char *const choices[],
                           size_t *ret_index, struct kvs_error *error);

/* ---- What is printed -------------------------------------------------------------------------
 * See output.h for the rest. */

/* Prints the error (on stderr for people, as an object on stdout with --json) and returns the exit
 * code: CLI_USAGE for errors of the command line, else CLI_FAILED. */
int cli_fail(const struct cli *cli, const struct kvs_error *error);
int cli_exit_code(const struct kvs_error *error);

#endif
