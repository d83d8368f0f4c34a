/* The program as a whole: help, version, what it says to a wrong command line, exit codes. */
#include "cli/commands.h"
#include "support/program.h"
#include "support/unit.h"

#include <string.h>

static const struct {
    const char *arguments[6];
    int exit_code;
    const char *out, *err; /* parts of the outputs; NULL: nothing may be printed there */
} lines[] = {
    {{NULL}, 2, NULL, "Usage: kvshelf COMMAND"},
    {{"--help"}, 0, "Usage: kvshelf COMMAND", NULL},
    {{"-h"}, 0, "Usage: kvshelf COMMAND", NULL},
    {{"help"}, 0, "Usage: kvshelf COMMAND", NULL},
    {{"--version"}, 0, "kvshelf 0.", NULL},
    {{"version"}, 0, "kvshelf 0.", NULL},
    {{"help", "explain"}, 0, "Usage: kvshelf explain [CODE|TEXT] [OPTIONS]", NULL},
    {{"explain", "--help"}, 0, "Usage: kvshelf explain [CODE|TEXT] [OPTIONS]", NULL},
    {{"explain", "-h"}, 0, "Usage: kvshelf explain [CODE|TEXT] [OPTIONS]", NULL},
    {{"explain", "--nonsense", "--help"}, 0, "Usage: kvshelf explain", NULL},
    {{"help", "explian"}, 2, NULL, "Unknown command 'explian': did you mean explain?"},
    {{"explian"}, 2, NULL, "Unknown command 'explian': did you mean explain?"},
    {{"xyzzy"}, 2, NULL, "Unknown command 'xyzzy': see kvshelf --help"},
    {{""}, 2, NULL, "Unknown command '(empty)'"},
    {{"--nonsense"}, 2, NULL, "Unknown command '--nonsense': options follow the command"},
    {{"explain", "--marcdown"},
     2,
     NULL,
     "Unknown option '--marcdown' for kvshelf explain: did you mean --markdown?"},
    {{"explain", "--marcdown=3"},
     2,
     NULL,
     "Unknown option '--marcdown' for kvshelf explain: did you mean --markdown?"},
    {{"explain", "-x"},
     2,
     NULL,
     "Unknown option '-x' for kvshelf explain: see kvshelf help explain"},
    {{"explain", "--json", "--marcdown"}, 2, "{\"error\":{\"code\":\"KVS-902\",", NULL},
    {{"explain", "--", "--markdown"}, 1, NULL, "No error in the catalogue matches '--markdown'"},
    {{"explain", "KVS-201", "--json"}, 0, "[{\"id\":\"config-load\"", NULL},
    {{"explain", "--json", "KVS-201"}, 0, "[{\"id\":\"config-load\"", NULL},
    {{"explain", "a\nkvshelf: forged"}, 1, NULL, "matches 'a?kvshelf: forged'"},
};

static bool is_as_expected(const struct buffer *output, const char *part)
{
    if (part == NULL)
        return output->length == 0;
    return strstr(output->data, part) != NULL;
}

static void test_command_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct program_result result = program_run(lines[i].arguments);
        if (result.exit_code != lines[i].exit_code || !is_as_expected(&result.out, lines[i].out) ||
            !is_as_expected(&result.err, lines[i].err))
            fail_msg("line %zu: exit code %d\nstdout: %s\nstderr: %s", i, result.exit_code,
                     result.out.data, result.err.data);
        program_done(&result);
    }
}

/* Every command teaches: what it does, each option, an example that begins with the program's name,
 * exit codes; and no line is wider than a terminal. */
static void test_help_of_each_command(void **state)
{
    (void)state;
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        const struct cli_command *command = cli_commands[i];
        struct program_result result = PROGRAM("help", command->name);
        const char *text = result.out.data;
        assert_int_equal(result.exit_code, 0);
        assert_non_null(strstr(text, command->summary));
        assert_non_null(strstr(text, "\nExamples:\n"));
        assert_non_null(strstr(text, "\nExit codes:\n"));
        for (size_t j = 0; command->options != NULL && command->options[j].name != NULL; j++) {
            assert_non_null(strstr(text, command->options[j].name));
            size_t length = strlen(command->options[j].help);
            if (length == 0 || command->options[j].help[length - 1] != '.')
                fail_msg("%s --%s: the help is no sentence", command->name,
                         command->options[j].name);
        }
        for (const char *line = text; *line != '\0';) {
            size_t length = strcspn(line, "\n");
            if (length > 100)
                fail_msg("help %s: %.*s", command->name, (int)length, line);
            line += length;
            line += *line == '\n';
        }
        program_done(&result);
    }
}

/* A result that cannot be written is a failure, not silence. */
static void test_full_output(void **state)
{
    (void)state;
    struct program_result result =
        program_run_to("/dev/full", (const char *const[]){"explain", NULL});
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(result.err.data, "Cannot write the output: No space left on device"));
    program_done(&result);
    result = program_run_to("/dev/full", (const char *const[]){"explain", "--json", NULL});
    assert_int_equal(result.exit_code, 1);
    program_done(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command_lines),
        cmocka_unit_test(test_help_of_each_command),
        cmocka_unit_test(test_full_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
