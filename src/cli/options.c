/* Reading a command line by a command's table, and typed values of options. */
#include "cli/options.h"

#include "base/buffer.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/output.h"

#include <assert.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What getopt returns for an option: its place in the table from here on. */
enum { OPTION_JSON = 256, OPTION_FIRST = 257 };

static size_t option_count(const struct cli_command *command)
{
    size_t n = 0;
    while (command->options != NULL && command->options[n].name != NULL)
        n++;
    assert(n <= CLI_OPTIONS_MAX);
    return n;
}

static void fill_getopt(const struct cli_command *command,
                        struct option ret_options[CLI_OPTIONS_MAX + 2])
{
    size_t n = option_count(command);
    for (size_t i = 0; i < n; i++)
        ret_options[i] = (struct option){
            .name = command->options[i].name,
            .has_arg = command->options[i].value != NULL ? required_argument : no_argument,
            .val = OPTION_FIRST + (int)i,
        };
    if (command->json)
        ret_options[n++] = (struct option){"json", no_argument, NULL, OPTION_JSON};
    ret_options[n] = (struct option){0};
}

/* The one option that begins with what was given, if it is one: "--capacity" of --capacity-pages.
 */
static const char *only_beginning(const char *given, const char *const names[], size_t n)
{
    const char *found = NULL;
    size_t length = strlen(given), hits = 0;
    for (size_t i = 0; i < n && length > 0; i++) {
        if (strncmp(names[i], given, length) == 0) {
            found = names[i];
            hits++;
        }
    }
    return hits == 1 ? found : NULL;
}

const char *cli_hint_for(const struct cli_command *command, const char *name)
{
    for (const struct cli_hint *hint = command->hints; hint != NULL && hint->name != NULL; hint++)
        if (strcmp(hint->name, name) == 0)
            return hint->advice;
    return NULL;
}

/* `given` is the word on the command line: "--capcity-pages=5" or "-x". */
static enum kvs_status unknown_option(const struct cli_command *command, const char *given,
                                      const struct option options[], struct kvs_error *error)
{
    const char *names[CLI_OPTIONS_MAX + 2] = {"help"};
    size_t n = 1;
    for (size_t i = 0; options[i].name != NULL; i++)
        names[n++] = options[i].name;
    char name[TEXT_NAME_MAX + 1], advice[2 * TEXT_NAME_MAX + 64];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(given, "="), given);
    const char *bare = name + strspn(name, "-"), *hint = cli_hint_for(command, bare);
    if (hint != NULL)
        return error_set(error, KVS_ERR_USAGE_OPTION, name, command->name, hint);
    const char *nearest = bare - name == 2 ? only_beginning(bare, names, n) : NULL;
    if (nearest == NULL)
        nearest = text_nearest(bare, names, n);
    if (nearest != NULL)
        snprintf(advice, sizeof(advice), "did you mean --%s?", nearest);
    else
        snprintf(advice, sizeof(advice), "see kvshelf help %s", command->name);
    return error_set(error, KVS_ERR_USAGE_OPTION, name, command->name, advice);
}

static enum kvs_status wrong_arguments(const struct cli_command *command, struct kvs_error *error,
                                       const char *problem_with, const char *word)
{
    char problem[256];
    snprintf(problem, sizeof(problem), "%s%s", problem_with, word);
    return error_set(error, KVS_ERR_USAGE_ARGUMENTS, command->name, problem);
}

static enum kvs_status check_arguments(const struct cli *cli, struct kvs_error *error)
{
    const struct cli_command *command = cli->command;
    if (cli->argument_count < command->arguments_min)
        return wrong_arguments(command, error, "it needs ", command->arguments);
    if (cli->argument_count > command->arguments_max)
        return wrong_arguments(command, error,
                               "one too many: ", cli->arguments[command->arguments_max]);
    return KVS_OK;
}

/* The words may hold --json or --help after the one that is wrong. */
static bool is_among(int argc, char *argv[], const char *word)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

/* getopt takes the beginning of a name for the name; a script that does so breaks when an option is
 * added, so only whole names count. */
static bool is_whole_name(const char *given, const char *name)
{
    size_t length = strlen(name);
    return strncmp(given, "--", 2) == 0 && strncmp(given + 2, name, length) == 0 &&
           (given[2 + length] == '\0' || given[2 + length] == '=');
}

/* What getopt could not take: an unknown option, or a flag with a value. There are no short
 * options. */
static enum kvs_status refuse_option(const struct cli *cli, const char *word,
                                     const struct option names[], struct kvs_error *error)
{
    if (optopt >= OPTION_FIRST || optopt == OPTION_JSON)
        return wrong_arguments(cli->command, error, "no value may follow the flag in ", word);
    char letter[] = {'-', (char)optopt, '\0'};
    return unknown_option(cli->command, optopt == 0 ? word : letter, names, error);
}

/* One call of getopt; *ret_done at the end of the options. */
static enum kvs_status read_option(struct cli *cli, int argc, char *argv[],
                                   const struct option names[], bool *ret_done,
                                   struct kvs_error *error)
{
    int at = 0;
    int found = getopt_long(argc, argv, ":", names, &at);
    if (found == -1) {
        *ret_done = true;
        return KVS_OK;
    }
    if (found == ':')
        return wrong_arguments(cli->command, error, "a value is missing after ", argv[optind - 1]);
    if (found == '?')
        return refuse_option(cli, argv[optind - 1], names, error);
    /* The option's word comes before its value if that is a word of its own. */
    const char *given =
        argv[optarg != NULL && optarg == argv[optind - 1] ? optind - 2 : optind - 1];
    if (!is_whole_name(given, names[at].name))
        return unknown_option(cli->command, given, names, error);
    if (found == OPTION_JSON)
        cli->json = true;
    else
        cli->values[found - OPTION_FIRST] = optarg == NULL ? "" : optarg;
    return KVS_OK;
}

enum kvs_status cli_parse(const struct cli_command *command, int argc, char *argv[],
                          struct cli *ret_cli, struct kvs_error *error)
{
    struct option names[CLI_OPTIONS_MAX + 2];
    *ret_cli = (struct cli){
        .command = command,
        .json = command->json && is_among(argc, argv, "--json"),
        .help = is_among(argc, argv, "--help") || is_among(argc, argv, "-h"),
    };
    if (ret_cli->help)
        return KVS_OK;
    fill_getopt(command, names);
    opterr = 0;
    optind = 0; /* starts anew, whatever was parsed before */
    for (bool done = false; !done;) {
        enum kvs_status status = read_option(ret_cli, argc, argv, names, &done, error);
        if (status != KVS_OK)
            return status;
    }
    ret_cli->arguments = argv + optind;
    ret_cli->argument_count = (size_t)(argc - optind);
    return check_arguments(ret_cli, error);
}

/* ---- What was given ---------------------------------------------------------------------------*/

bool cli_json(const struct cli *cli)
{
    return cli->json;
}

size_t cli_argument_count(const struct cli *cli)
{
    return cli->argument_count;
}

const char *cli_argument(const struct cli *cli, size_t i)
{
    assert(i < cli->argument_count);
    return cli->arguments[i];
}

static size_t place_of(const struct cli *cli, const char *name)
{
    const struct cli_option *options = cli->command->options;
    size_t i = 0;
    while (options[i].name != NULL && strcmp(options[i].name, name) != 0)
        i++;
    assert(options[i].name != NULL);
    return i;
}

const char *cli_text(const struct cli *cli, const char *name, const char *otherwise)
{
    size_t i = place_of(cli, name);
    return cli->values[i] == NULL ? otherwise : cli->values[i];
}

bool cli_has(const struct cli *cli, const char *name)
{
    return cli_text(cli, name, NULL) != NULL;
}

enum kvs_status cli_wrong_value(const struct cli *cli, const char *name, const char *value,
                                const char *problem, struct kvs_error *error)
{
    enum { ORIGIN_MAX = 512 };
    const char *origin = cli->origins[place_of(cli, name)];
    char option[TEXT_NAME_MAX + ORIGIN_MAX];
    snprintf(option, sizeof(option), "--%s%s%.*s%s", name, origin == NULL ? "" : " (",
             ORIGIN_MAX - 16, origin == NULL ? "" : origin, origin == NULL ? "" : ")");
    return error_set(error, KVS_ERR_USAGE_VALUE, option, value, problem);
}

enum kvs_status cli_count(const struct cli *cli, const char *name, uint64_t min, uint64_t max,
                          const char *unit, uint64_t *ret_value, struct kvs_error *error)
{
    const char *text = cli_text(cli, name, NULL);
    uint64_t value;
    char range[160];
    if (text == NULL)
        return KVS_OK;
    const char *problem = text_parse_uint64(text, &value);
    if (problem == NULL && (value < min || value > max)) {
        snprintf(range, sizeof(range), "it must be from %" PRIu64 " to %" PRIu64 "%s%s", min, max,
                 unit[0] == '\0' ? "" : " ", unit);
        problem = range;
    }
    if (problem != NULL)
        return cli_wrong_value(cli, name, text, problem, error);
    *ret_value = value;
    return KVS_OK;
}

enum kvs_status cli_bytes(const struct cli *cli, const char *name, uint64_t min, uint64_t max,
                          uint64_t *ret_bytes, struct kvs_error *error)
{
    const char *text = cli_text(cli, name, NULL);
    uint64_t value;
    char range[160];
    if (text == NULL)
        return KVS_OK;
    const char *problem = text_parse_bytes(text, &value);
    if (problem == NULL && (value < min || value > max)) {
        snprintf(range, sizeof(range), "it must be from %s to %s", BYTES(min), BYTES(max));
        problem = range;
    }
    if (problem != NULL)
        return cli_wrong_value(cli, name, text, problem, error);
    *ret_bytes = value;
    return KVS_OK;
}

enum kvs_status cli_seconds(const struct cli *cli, const char *name, uint64_t min_ms,
                            uint64_t max_ms, uint64_t *ret_ms, struct kvs_error *error)
{
    const char *text = cli_text(cli, name, NULL);
    uint64_t value;
    char range[160];
    if (text == NULL)
        return KVS_OK;
    const char *problem = text_parse_seconds(text, &value);
    if (problem == NULL && (value < min_ms || value > max_ms)) {
        snprintf(range, sizeof(range), "it must be from %g to %.10g s", (double)min_ms / 1e3,
                 (double)max_ms / 1e3);
        problem = range;
    }
    if (problem != NULL)
        return cli_wrong_value(cli, name, text, problem, error);
    *ret_ms = value;
    return KVS_OK;
}

enum kvs_status cli_choice(const struct cli *cli, const char *name, const char *const choices[],
                           size_t *ret_index, struct kvs_error *error)
{
    const char *text = cli_text(cli, name, NULL);
    if (text == NULL)
        return KVS_OK;
    for (size_t i = 0; choices[i] != NULL; i++) {
        if (strcmp(choices[i], text) == 0) {
            *ret_index = i;
            return KVS_OK;
        }
    }
    char problem[256];
    size_t length = (size_t)snprintf(problem, sizeof(problem), "it must be one of");
    for (size_t i = 0; choices[i] != NULL && length < sizeof(problem); i++)
        length += (size_t)snprintf(problem + length, sizeof(problem) - length, "%s %s",
                                   i == 0 ? "" : ",", choices[i]);
    return cli_wrong_value(cli, name, text, problem, error);
}

int cli_fail(const struct cli *cli, const struct kvs_error *error)
{
    output_error(cli->json ? stdout : stderr, cli->json, error);
    return cli_exit_code(error);
}

int cli_exit_code(const struct kvs_error *error)
{
    switch (error->status) {
    case KVS_ERR_USAGE_COMMAND:
    case KVS_ERR_USAGE_OPTION:
    case KVS_ERR_USAGE_VALUE:
    case KVS_ERR_USAGE_ARGUMENTS:
        return CLI_USAGE;
    default:
        return CLI_FAILED;
    }
}
