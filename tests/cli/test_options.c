/* Typed values of options, and reading a command line by a table. */
#include "cli/options.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

static int never(const struct cli *cli)
{
    (void)cli;
    return CLI_FAILED;
}

static const struct cli_option options[] = {
    {"pages", "N", "Pages."},    {"size", "BYTES", "Bytes."}, {"ttl", "S", "Seconds."},
    {"order", "WORD", "Order."}, {"quick", NULL, "A flag."},  {0},
};

static const struct cli_command command = {
    .name = "try",
    .arguments = "FILE [DIR]",
    .summary = "s",
    .about = "a",
    .examples = "kvshelf try",
    .options = options,
    .arguments_min = 1,
    .arguments_max = 2,
    .json = true,
    .run = never,
};

enum { WORDS_MAX = 12 };

static enum kvs_status parse(const char *const words[], struct cli *ret_cli,
                             struct kvs_error *error)
{
    static char *argv[WORDS_MAX + 2];
    int argc = 1;
    argv[0] = (char *)(uintptr_t) "try";
    for (; words[argc - 1] != NULL && argc <= WORDS_MAX; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    argv[argc] = NULL;
    return cli_parse(&command, argc, argv, ret_cli, error);
}
#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL}, &cli, &error)

static void test_values(void **state)
{
    (void)state;
    struct cli cli;
    struct kvs_error error;
    uint64_t pages = 7, bytes = 8, ms = 9;
    size_t order = 1;
    static const char *const ORDERS[] = {"prefix", "lru", NULL};
    assert_int_equal(PARSE("file", "--pages=12", "--size", "4KiB", "dir", "--ttl", "0.5", "--quick",
                           "--order", "prefix"),
                     KVS_OK);
    assert_int_equal(cli_argument_count(&cli), 2);
    assert_string_equal(cli_argument(&cli, 0), "file");
    assert_string_equal(cli_argument(&cli, 1), "dir");
    assert_true(cli_has(&cli, "quick"));
    assert_false(cli_json(&cli));
    assert_int_equal(cli_count(&cli, "pages", 1, 12, "pages", &pages, &error), KVS_OK);
    assert_int_equal(cli_bytes(&cli, "size", 1, 4096, &bytes, &error), KVS_OK);
    assert_int_equal(cli_seconds(&cli, "ttl", 500, 1000, &ms, &error), KVS_OK);
    assert_int_equal(cli_choice(&cli, "order", ORDERS, &order, &error), KVS_OK);
    assert_true(pages == 12 && bytes == 4096 && ms == 500 && order == 0);
}

static void test_defaults_stay(void **state)
{
    (void)state;
    struct cli cli;
    struct kvs_error error;
    uint64_t pages = 7, bytes = 8, ms = 9;
    size_t order = 1;
    static const char *const ORDERS[] = {"prefix", "lru", NULL};
    assert_int_equal(PARSE("file"), KVS_OK);
    assert_int_equal(cli_count(&cli, "pages", 100, 200, "pages", &pages, &error), KVS_OK);
    assert_int_equal(cli_bytes(&cli, "size", 100, 200, &bytes, &error), KVS_OK);
    assert_int_equal(cli_seconds(&cli, "ttl", 100, 200, &ms, &error), KVS_OK);
    assert_int_equal(cli_choice(&cli, "order", ORDERS, &order, &error), KVS_OK);
    assert_true(pages == 7 && bytes == 8 && ms == 9 && order == 1);
    assert_string_equal(cli_text(&cli, "order", "none"), "none");
    assert_false(cli_has(&cli, "quick"));
}

static void test_last_one_counts(void **state)
{
    (void)state;
    struct cli cli;
    struct kvs_error error;
    assert_int_equal(PARSE("--order", "a", "file", "--order=b"), KVS_OK);
    assert_string_equal(cli_text(&cli, "order", NULL), "b");
}

/* Each wrong value names the option, the value and what is wrong, and leaves the output alone. */
static void test_wrong_values(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *message;
    } cases[] = {
        {"pages", "0", "Option --pages cannot be '0': it must be from 1 to 100 pages"},
        {"pages", "101", "Option --pages cannot be '101': it must be from 1 to 100 pages"},
        {"pages", "-1", "Option --pages cannot be '-1': it must not be negative"},
        {"pages", "1e1", "Option --pages cannot be '1e1': it is not a whole number"},
        {"pages", "2.5", "Option --pages cannot be '2.5': it is not a whole number"},
        {"pages", "", "Option --pages cannot be '(empty)': it is not a whole number"},
        {"pages", "99999999999999999999",
         "Option --pages cannot be '99999999999999999999': it is too large"},
        {"size", "1KB",
         "Option --size cannot be '1KB': it is not a whole number of bytes, KiB, MiB, GiB, TiB or "
         "PiB (as "
         "in 256KiB)"},
        {"size", "512", "Option --size cannot be '512': it must be from 1 KiB to 1 MiB"},
        {"size", "2MiB", "Option --size cannot be '2MiB': it must be from 1 KiB to 1 MiB"},
        {"ttl", "0", "Option --ttl cannot be '0': it must be from 0.25 to 60 s"},
        {"ttl", "61", "Option --ttl cannot be '61': it must be from 0.25 to 60 s"},
        {"ttl", "soon",
         "Option --ttl cannot be 'soon': it is not a number of seconds with at most three "
         "decimals"},
        {"order", "fifo", "Option --order cannot be 'fifo': it must be one of prefix, lru"},
    };
    static const char *const ORDERS[] = {"prefix", "lru", NULL};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cli cli;
        struct kvs_error error;
        char word[128];
        uint64_t value = 42;
        size_t order = 42;
        enum kvs_status status;
        snprintf(word, sizeof(word), "--%s=%s", cases[i].name, cases[i].value);
        assert_int_equal(PARSE("file", word), KVS_OK);
        if (strcmp(cases[i].name, "pages") == 0)
            status = cli_count(&cli, "pages", 1, 100, "pages", &value, &error);
        else if (strcmp(cases[i].name, "size") == 0)
            status = cli_bytes(&cli, "size", 1024, 1 << 20, &value, &error);
        else if (strcmp(cases[i].name, "ttl") == 0)
            status = cli_seconds(&cli, "ttl", 250, 60000, &value, &error);
        else
            status = cli_choice(&cli, "order", ORDERS, &order, &error);
        assert_int_equal(status, KVS_ERR_USAGE_VALUE);
        assert_string_equal(error.message, cases[i].message);
        assert_true(value == 42 && order == 42);
    }
}

static void test_wrong_lines(void **state)
{
    (void)state;
    struct cli cli;
    struct kvs_error error;
    assert_int_equal(PARSE("--quick"), KVS_ERR_USAGE_ARGUMENTS);
    assert_string_equal(error.message, "Wrong arguments for kvshelf try: it needs FILE [DIR]");
    assert_int_equal(PARSE("a", "b", "c"), KVS_ERR_USAGE_ARGUMENTS);
    assert_string_equal(error.message, "Wrong arguments for kvshelf try: one too many: c");
    assert_int_equal(PARSE("a", "--pages"), KVS_ERR_USAGE_ARGUMENTS);
    assert_string_equal(error.message,
                        "Wrong arguments for kvshelf try: a value is missing after --pages");
    assert_int_equal(PARSE("a", "--quick=yes"), KVS_ERR_USAGE_ARGUMENTS);
    assert_string_equal(
        error.message,
        "Wrong arguments for kvshelf try: no value may follow the flag in --quick=yes");
    assert_int_equal(PARSE("a", "--page", "3"), KVS_ERR_USAGE_OPTION);
    assert_string_equal(error.message,
                        "Unknown option '--page' for kvshelf try: did you mean --pages?");
    assert_int_equal(PARSE("a", "-q"), KVS_ERR_USAGE_OPTION);
    assert_string_equal(error.message, "Unknown option '-q' for kvshelf try: see kvshelf help try");
    assert_int_equal(PARSE("a", "-qz", "b"), KVS_ERR_USAGE_OPTION);
    assert_string_equal(error.message, "Unknown option '-q' for kvshelf try: see kvshelf help try");
    assert_int_equal(PARSE("a", "--page=3", "b"), KVS_ERR_USAGE_OPTION);
    assert_string_equal(error.message,
                        "Unknown option '--page' for kvshelf try: did you mean --pages?");
    assert_int_equal(PARSE("a", "--qui"), KVS_ERR_USAGE_OPTION); /* the beginning of one name */
    assert_string_equal(error.message,
                        "Unknown option '--qui' for kvshelf try: did you mean --quick?");
    assert_int_equal(PARSE("a", "--hepl"), KVS_ERR_USAGE_OPTION);
    assert_string_equal(error.message,
                        "Unknown option '--hepl' for kvshelf try: did you mean --help?");
    assert_int_equal(PARSE("a", "--json=1"), KVS_ERR_USAGE_ARGUMENTS);
    assert_int_equal(PARSE("a", "-"), KVS_OK);
    assert_string_equal(cli_argument(&cli, 1), "-");
    assert_int_equal(PARSE("a", "--pages", "--quick"), KVS_OK);
    assert_string_equal(cli_text(&cli, "pages", NULL), "--quick");
}

static void test_json_and_help_are_seen_whatever_is_wrong(void **state)
{
    (void)state;
    struct cli cli;
    struct kvs_error error;
    assert_int_equal(PARSE("a", "--nonsense", "--json"), KVS_ERR_USAGE_OPTION);
    assert_true(cli_json(&cli));
    assert_int_equal(PARSE("--nonsense", "--help"), KVS_OK);
    assert_true(cli.help);
    assert_int_equal(PARSE("a", "--", "--help"), KVS_OK);
    assert_false(cli.help);
    assert_string_equal(cli_argument(&cli, 1), "--help");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_defaults_stay),
        cmocka_unit_test(test_last_one_counts),
        cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_wrong_lines),
        cmocka_unit_test(test_json_and_help_are_seen_whatever_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
