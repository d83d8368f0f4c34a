/* The error catalogue: every entry is complete, its messages are found again, and the sources use
 * it as it is: each error somewhere, each message with as many arguments as it has placeholders. */
#include "base/phrases.h"
#include "base/status.h"
#include "support/unit.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACEHOLDERS_MAX = 8 };

static const char *const WORDS[] = {"0", "kv", "/data/hicache.0.bin", "no such file", "17", "x",
                                    "y", "z"};

/* A message of an entry with its placeholders filled. */
static void fill(const struct error_info *info, struct kvs_error *ret_error)
{
    const char *args[PLACEHOLDERS_MAX + 1] = {0};
    size_t n = error_placeholders(info);
    assert_true(n <= PLACEHOLDERS_MAX);
    for (size_t i = 0; i < n; i++)
        args[i] = WORDS[i];
    assert_int_equal(error_set_args(ret_error, info->status, args), info->status);
    assert_null(strchr(ret_error->message, '{'));
}

/* ---- Each entry -------------------------------------------------------------------------------
 */

static void check_text(const struct error_info *info, const char *what, const char *text)
{
    if (text == NULL || text[0] == '\0')
        fail_msg("%s: %s is empty", info->symbol, what);
    for (const char *c = text; *c != '\0'; c++)
        if (((unsigned char)*c < 0x20 && *c != '\n') || (unsigned char)*c >= 0x7f)
            fail_msg("%s: %s holds byte %d", info->symbol, what, *c);
    if (text[0] == ' ' || text[strlen(text) - 1] == ' ' || strstr(text, "  ") != NULL)
        fail_msg("%s: %s holds a stray blank", info->symbol, what);
}

static void check_list(const struct error_info *info, const char *what, const char *const list[])
{
    if (list == NULL || list[0] == NULL)
        fail_msg("%s: %s is empty", info->symbol, what);
    for (; *list != NULL; list++)
        check_text(info, what, *list);
}

static void test_entries_are_complete(void **state)
{
    (void)state;
    size_t n;
    const struct error_info *errors = error_catalogue(&n);
    assert_true(n > 40);
    for (size_t i = 0; i < n; i++) {
        const struct error_info *info = &errors[i];
        check_text(info, "error_class", info->error_class);
        check_text(info, "message", info->message);
        check_text(info, "meaning", info->meaning);
        check_text(info, "when", info->when);
        check_text(info, "situations", info->situations);
        check_text(info, "example_fix", info->example_fix);
        check_list(info, "remedies", info->remedies);
        check_list(info, "prevention", info->prevention);
        check_list(info, "tags", info->tags);
        assert_int_equal(info->status, -info->number);
        assert_true(info->number > 100 && info->number < 1000);
        assert_true(info->http_status >= 400 && info->http_status < 600);
        assert_string_not_equal(error_type(info), "other");
        assert_ptr_equal(error_find(info->status), info);
        assert_string_equal(kvs_status_name(info->status), info->symbol);
    }
}

static void test_numbers_symbols_and_messages_are_unique(void **state)
{
    (void)state;
    size_t n;
    const struct error_info *errors = error_catalogue(&n);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(errors[i].number, errors[j].number);
            assert_string_not_equal(errors[i].symbol, errors[j].symbol);
            assert_string_not_equal(errors[i].message, errors[j].message);
        }
        /* Ascending within the list, so that a new one is put where it belongs. */
        if (i > 0 && errors[i].number < errors[i - 1].number)
            fail_msg("%s stands after %s", errors[i].symbol, errors[i - 1].symbol);
    }
}

static void test_python_classes(void **state)
{
    (void)state;
    static const char *const CLASSES[] = {"MemoryError",     "RuntimeError",    "ValueError",
                                          "OSError",         "TimeoutError",    "KeyError",
                                          "PermissionError", "ConnectionError", NULL};
    size_t n;
    const struct error_info *errors = error_catalogue(&n);
    for (size_t i = 0; i < n; i++) {
        size_t c = 0;
        while (CLASSES[c] != NULL && strcmp(CLASSES[c], errors[i].error_class) != 0)
            c++;
        if (CLASSES[c] == NULL)
            fail_msg("%s: %s is no built-in exception", errors[i].symbol, errors[i].error_class);
    }
}

/* Texts that users search for: these never change. */
static void test_exact_texts(void **state)
{
    (void)state;
    struct kvs_error error;
    error_set(&error, KVS_ERR_NOT_INITIALIZED, "kv", "3");
    assert_string_equal(error.message, "Namespace 'kv' for rank 3 not initialized");
    error_set(&error, KVS_ERR_NOT_INITIALIZED_SERVER, "77", "swa", "77");
    assert_string_equal(
        error.message,
        "Rank 77 namespace 'swa' not initialized. Please call /77/initialize first.");
    error_set(&error, KVS_ERR_MLA_NEEDS_SERVER);
    assert_string_equal(
        error.message, "MLA model is not supported without global metadata server, please refer to "
                       "https://github.com/kvshelf/kvshelf/blob/main/docs/mla.md");
    error_set(&error, KVS_ERR_CONFIG_LOAD, "/etc/x.json", "No such file or directory");
    assert_string_equal(error.message,
                        "Failed to load config from /etc/x.json: No such file or directory");
    error_set(&error, KVS_ERR_CONFIG_MISSING_KEYS, "entries, numjobs");
    assert_string_equal(error.message, "Missing required keys in config: entries, numjobs");
    static const struct {
        enum kvs_status status;
        const char *error_class;
        int http_status; /* 0: does not matter */
    } rest[] = {
        {KVS_ERR_NOT_INITIALIZED, "RuntimeError", 0},
        {KVS_ERR_NOT_INITIALIZED_SERVER, "RuntimeError", 404},
        {KVS_ERR_MLA_NEEDS_SERVER, "ValueError", 0},
        {KVS_ERR_CONFIG_LOAD, "RuntimeError", 0},
        {KVS_ERR_CONFIG_MISSING_KEYS, "ValueError", 0},
    };
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
        const struct error_info *info = error_find(rest[i].status);
        assert_string_equal(info->error_class, rest[i].error_class);
        if (rest[i].http_status != 0)
            assert_int_equal(info->http_status, rest[i].http_status);
    }
    assert_string_equal(error_match("bytes_per_page must be positive")->symbol,
                        "KVS_ERR_CONFIG_PAGE_BYTES");
}

/* ---- Messages ---------------------------------------------------------------------------------
 */

static void test_messages_match_their_pattern(void **state)
{
    (void)state;
    size_t n;
    const struct error_info *errors = error_catalogue(&n);
    for (size_t i = 0; i < n; i++) {
        struct kvs_error error;
        struct buffer pattern = {0};
        regex_t regex;
        regmatch_t groups[PLACEHOLDERS_MAX + 1];
        fill(&errors[i], &error);
        error_pattern(&errors[i], &pattern);
        if (regcomp(&regex, buffer_text(&pattern), REG_EXTENDED) != 0)
            fail_msg("%s: %s is no regular expression", errors[i].symbol, buffer_text(&pattern));
        assert_int_equal(regex.re_nsub, error_placeholders(&errors[i]));
        if (regexec(&regex, error.message, PLACEHOLDERS_MAX + 1, groups, 0) != 0)
            fail_msg("%s: '%s' does not match %s", errors[i].symbol, error.message,
                     buffer_text(&pattern));
        assert_int_equal(groups[0].rm_so, 0);
        assert_int_equal(groups[0].rm_eo, strlen(error.message));
        regfree(&regex);
        buffer_done(&pattern);
    }
}

static void check_finds(const char *text, const struct error_info *expected)
{
    const struct error_info *found = error_match(text);
    if (found != expected)
        fail_msg("'%s' finds %s, not %s", text, found == NULL ? "nothing" : found->symbol,
                 expected->symbol);
}

static void test_each_is_found(void **state)
{
    (void)state;
    size_t n;
    const struct error_info *errors = error_catalogue(&n);
    for (size_t i = 0; i < n; i++) {
        const struct error_info *info = &errors[i];
        struct kvs_error error;
        char text[2 * KVS_ERROR_MESSAGE_MAX], code[ERROR_CODE_MAX], id[ERROR_ID_MAX];
        fill(info, &error);
        check_finds(error.message, info);
        check_finds(info->message, info);
        check_finds(info->symbol, info);
        check_finds(error_id(info, id), info);
        check_finds(error_code(info, code), info);
        check_finds(code + strlen("KVS-"), info);
        snprintf(text, sizeof(text), "  see: kvshelf explain %s", code);
        check_finds(text, info);
        snprintf(text, sizeof(text),
                 "Traceback (most recent call last):\n  File \"x.py\", line 3\n"
                 "[2025-01-01 00:00:00 TP0] %s: %s (pid 7)\nnext line\n",
                 info->error_class, error.message);
        check_finds(text, info);
        snprintf(text, sizeof(text), "{\"detail\":\"%s\"}", error.message);
        check_finds(text, info);
    }
}

/* What an engine with SGLang's class, and a store, leave in a log without quoting the catalogue. */
static void test_lines_of_logs_are_found(void **state)
{
    (void)state;
#define POST(operation) "Failed to POST to 0/" operation " after retries: "
#define URL(operation)  "url: http://127.0.0.1:18000/0/" operation
#define POOL            "HTTPConnectionPool(host='127.0.0.1', port=18000): Max retries exceeded with "
    static const struct {
        const char *line;
        enum kvs_status status;
    } LINES[] = {
        {POST("exists") "404 Client Error: Not Found for " URL("exists"),
         KVS_ERR_NOT_INITIALIZED_SERVER},
        {"RuntimeError: Failed to connect to metadata server: 404 Client Error: Not Found for " URL(
             "reserve_and_allocate_page_indices"),
         KVS_ERR_NOT_INITIALIZED_SERVER},
        {POST("confirm_write") "404 Client Error: Not Found for " URL("confirm_write"),
         KVS_ERR_NOT_INITIALIZED_SERVER},
        {POST("get_page_indices") "404 Client Error: Not Found for " URL("get_page_indices"),
         KVS_ERR_NOT_INITIALIZED_SERVER},
        {POST("delete_keys") "404 Client Error: Not Found for " URL("delete_keys"),
         KVS_ERR_NOT_INITIALIZED_SERVER},
        {POST("clear") "404 Client Error: Not Found for " URL("clear"),
         KVS_ERR_NOT_INITIALIZED_SERVER},
        /* initialize needs no namespace: here the path is wrong. */
        {POST("initialize") "404 Client Error: Not Found for url: http://h:1/x/0/initialize",
         KVS_ERR_NOT_FOUND},
        {POST("initialize") "409 Client Error: Conflict for " URL("initialize"),
         KVS_ERR_GEOMETRY_DIFFERS},
        {POST("initialize") "401 Client Error: Unauthorized for " URL("initialize"),
         KVS_ERR_UNAUTHORIZED},
        {POST("exists") "413 Client Error: Content Too Large for " URL("exists"),
         KVS_ERR_REQUEST_TOO_LARGE},
        {POST("exists") "422 Client Error: Unprocessable Entity for url: http://h:1/x/exists",
         KVS_ERR_REQUEST_RANK},
        {POST("exists") POOL "url: /0/exists (Caused by NewConnectionError(\"HTTPConnection("
                             "host='127.0.0.1', port=18000): Failed to establish a new connection: "
                             "[Errno 111] Connection refused\"))",
         KVS_ERR_REMOTE_UNREACHABLE},
        {POST("exists") POOL
         "url: /0/exists (Caused by ProtocolError('Connection aborted.', "
         "RemoteDisconnected('Remote end closed connection without response')))",
         KVS_ERR_REMOTE_BROKEN},
        {POST("exists") POOL "url: /0/exists (Caused by ResponseError('too many 500 error "
                             "responses'))",
         KVS_ERR_REMOTE_ANSWER},
        {"ValueError: MLA model is not supported without global metadata server, please refer to "
         "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/mem_cache/storage/"
         "hf3fs/docs/deploy_sglang_3fs_multinode.md",
         KVS_ERR_MLA_NEEDS_SERVER},
        {"Pages of pool 'kv' could not be written to /data/hicache.0.bin: 1 (errors: 1: No space "
         "left on device, short: 0, not ended in time: 0). They count as not stored.",
         KVS_ERR_PAGES_NOT_WRITTEN},
        {"Writing to /data/hicache.0.bin failed repeatedly: it is left alone for 1000 ms.",
         KVS_ERR_PAGES_NOT_WRITTEN},
        {"Pages of pool 'kv' in /data/hicache.0.bin hold other bytes than were confirmed, read "
         "twice: 3, the first is page 7. They are misses and are dropped.",
         KVS_ERR_WRONG_BYTES},
        {"The index failed repeatedly: it is left alone for 1000 ms, during which every page is a "
         "miss.",
         KVS_ERR_REMOTE_UNREACHABLE},
        {"2026-01-01T00:00:00.000Z warning: Catalogs are in memory only: a restart forgets every "
         "page. --data-dir DIR keeps them",
         KVS_ERR_NOT_KEPT},
        {"An initialize was refused: Rank 0 namespace 'kv' holds 8 pages of 0 bytes and cannot "
         "become 9 pages of 0 bytes",
         KVS_ERR_GEOMETRY_DIFFERS},
        {"[Errno 111] Connection refused", KVS_ERR_REMOTE_UNREACHABLE},
        {"OSError: [Errno 98] Address already in use", KVS_ERR_LISTEN},
        {"('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))",
         KVS_ERR_REMOTE_BROKEN},
        {"ConnectionResetError: [Errno 104] Connection reset by peer", KVS_ERR_REMOTE_BROKEN},
        {"RemoteDisconnected('Remote end closed connection without response')",
         KVS_ERR_REMOTE_BROKEN},
        {"HTTPConnectionPool(host='127.0.0.1', port=18000): Read timed out. (read timeout=5.0)",
         KVS_ERR_REMOTE_DEADLINE},
        {POOL "url: /0/exists (Caused by ReadTimeoutError(\"HTTPConnectionPool(host='127.0.0.1', "
              "port=18000): Read timed out. (read timeout=5.0)\"))",
         KVS_ERR_REMOTE_DEADLINE},
        {"503 Server Error: Service Unavailable for url: http://h/0/exists", KVS_ERR_STARTING},
        {"503 Server Error: Service Unavailable for url", KVS_ERR_STARTING},
        {"too many 500 error responses", KVS_ERR_NO_SPACE},
        {POOL "url: /0/initialize (Caused by ResponseError('too many 500 error responses'))",
         KVS_ERR_NO_SPACE},
        {POOL "url: /0/exists (Caused by ResponseError('too many 503 error responses'))",
         KVS_ERR_STARTING},
    };
#undef POST
#undef URL
#undef POOL
    for (size_t i = 0; i < sizeof(LINES) / sizeof(LINES[0]); i++) {
        char text[1024];
        check_finds(LINES[i].line, error_find(LINES[i].status));
        snprintf(text, sizeof(text), "[2026-01-01 00:00:00 TP0] %s\nnext line\n", LINES[i].line);
        check_finds(text, error_find(LINES[i].status));
    }
    /* What a program goes by is the server's own words alone. */
    assert_null(error_match_message(LINES[7].line));
    assert_ptr_equal(error_match_message(LINES[0].line), error_find(KVS_ERR_NOT_FOUND));
    assert_null(error_match_message("KVS-302"));
}

/* A phrase in front of which a shorter one, or a message, always wins would never be used. */
static void test_each_phrase_is_found(void **state)
{
    (void)state;
    size_t n;
    const struct phrase *phrases = phrase_table(&n);
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++)
        check_finds(phrases[i].text, error_find(phrases[i].status));
}

static void test_nothing_is_found(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"",
                                        "x",
                                        "KVS-",
                                        "KVS-999",
                                        "KVS-2011",
                                        "999",
                                        "KVS_ERR_NOPE",
                                        "  ",
                                        "\n\n",
                                        "CUDA out of memory",
                                        "201x",
                                        "Failed to load config from",
                                        "Namespace"};
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++) {
        const struct error_info *found = error_match(TEXTS[i]);
        /* A part of exactly one message may find it; what is no part of any may not. */
        if (found != NULL && strcasestr(found->message, TEXTS[i]) == NULL)
            fail_msg("'%s' finds %s", TEXTS[i], found->symbol);
    }
    assert_null(error_match(""));
    assert_null(error_match("KVS-999"));
    assert_null(error_match("CUDA out of memory"));
}

static void test_success_and_unknown(void **state)
{
    (void)state;
    struct kvs_error error;
    assert_string_equal(kvs_status_name(KVS_OK), "KVS_OK");
    assert_string_equal(kvs_status_name((enum kvs_status) - 9999), "KVS_ERR_UNKNOWN");
    assert_int_equal(error_set(&error, (enum kvs_status) - 9999, "x"), -9999);
    assert_string_equal(error.message, "Unknown error");
    assert_int_equal(error_set(NULL, KVS_ERR_INTERNAL, "x"), KVS_ERR_INTERNAL);
    assert_string_equal(kvs_version(), KVS_VERSION);
}

static void test_long_messages_are_cut_at_a_character(void **state)
{
    (void)state;
    struct kvs_error error;
    char longer[4 * KVS_ERROR_MESSAGE_MAX];
    for (size_t shift = 0; shift < 4; shift++) {
        size_t length = 0;
        memset(longer, 'a', shift);
        for (length = shift; length + 3 < sizeof(longer); length += 3)
            memcpy(longer + length, "\xe2\x82\xac", 3);
        longer[length] = '\0';
        error_set(&error, KVS_ERR_INTERNAL, longer);
        size_t got = strlen(error.message);
        assert_true(got < KVS_ERROR_MESSAGE_MAX && got >= KVS_ERROR_MESSAGE_MAX - 4);
        assert_memory_equal(error.message + got - 3, "\xe2\x82\xac", 3);
    }
}

/* One failure put into the words of another. */
static void test_the_message_as_its_own_argument(void **state)
{
    (void)state;
    struct kvs_error error;
    error_set(&error, KVS_ERR_INTERNAL, "x");
    error_set(&error, KVS_ERR_CONFIG_LOAD, "f", error.message);
    assert_string_equal(error.message,
                        "Failed to load config from f: Internal error in kvshelf: x");
}

static void test_numbers_as_arguments(void **state)
{
    (void)state;
    struct kvs_error error;
    error_set(&error, KVS_ERR_CATALOG_GEOMETRY, NUM(-5), NUM(INT64_MAX));
    assert_non_null(strstr(error.message, "-5 pages"));
    assert_non_null(strstr(error.message, "9223372036854775807"));
}

/* ---- The sources ------------------------------------------------------------------------------
 */

/* Where the repository is: this file is tests/base/test_status.c. */
static void repository_path(char path[4096], const char *rest)
{
    const char *here = strstr(__FILE__, "tests/base/test_status.c");
    assert_non_null(here);
    snprintf(path, 4096, "%.*s%s", (int)(here - __FILE__), __FILE__, rest);
}

static void append_file(struct buffer *out, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return; /* gone since the directory was read */
    assert_int_equal(buffer_read_fd(out, fd, SIZE_MAX), 0);
    close(fd);
}

/* All C sources below src/, one after the other. */
static void read_sources(struct buffer *out)
{
    static const char *const FLOORS[] = {"base",  "catalog", "metadata", "pagefile",
                                         "store", "server",  "cli"};
    for (size_t i = 0; i < sizeof(FLOORS) / sizeof(FLOORS[0]); i++) {
        char folder[4096], rest[64];
        snprintf(rest, sizeof(rest), "src/%s", FLOORS[i]);
        repository_path(folder, rest);
        DIR *dir = opendir(folder);
        if (dir == NULL)
            continue;
        for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
            size_t length = strlen(entry->d_name);
            char path[8192];
            if (length < 2 || strcmp(entry->d_name + length - 2, ".c") != 0)
                continue;
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            append_file(out, path);
        }
        closedir(dir);
    }
    assert_true(out->length > 0);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool holds_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += length)
        if (!is_word(at[length]) && (at == text || !is_word(at[-1])))
            return true;
    return false;
}

static void test_every_error_is_used(void **state)
{
    (void)state;
    struct buffer sources = {0};
    read_sources(&sources);
    const char *text = buffer_text(&sources);
    size_t n, wrong = 0;
    const struct error_info *errors = error_catalogue(&n);
    for (size_t i = 0; i < n; i++) {
        if (holds_word(text, errors[i].symbol))
            continue;
        print_message("%s is in the catalogue and nothing uses it\n", errors[i].symbol);
        wrong++;
    }
    buffer_done(&sources);
    assert_int_equal(wrong, 0);
}

/* Past a string or character constant. */
static const char *skip_quoted(const char *at)
{
    char quote = *at++;
    for (; *at != '\0' && *at != quote; at++)
        if (*at == '\\' && at[1] != '\0')
            at++;
    return *at == '\0' ? at : at + 1;
}

/* The arguments of a call whose "(" `at` stands behind: how many, and the second one. */
static size_t count_arguments(const char *at, char second[64])
{
    size_t count = 1, length = 0;
    for (int depth = 1; *at != '\0';) {
        if (*at == '"' || *at == '\'') {
            at = skip_quoted(at);
            continue;
        }
        depth +=
            (*at == '(' || *at == '{' || *at == '[') - (*at == ')' || *at == '}' || *at == ']');
        if (depth == 0)
            break;
        if (depth == 1 && *at == ',')
            count++;
        else if (count == 2 && is_word(*at) && length < 63)
            second[length++] = *at;
        at++;
    }
    second[length] = '\0';
    return count;
}

/* Checks every call of `call` ("error_set(") whose error is written out; returns how many. */
static size_t check_calls(const char *text, const char *call)
{
    size_t n, checked = 0, wrong = 0;
    const struct error_info *errors = error_catalogue(&n);
    for (const char *at = text; (at = strstr(at, call)) != NULL;) {
        char symbol[64];
        bool whole = at == text || !is_word(at[-1]);
        at += strlen(call);
        size_t arguments = count_arguments(at, symbol);
        for (size_t i = 0; whole && i < n; i++) {
            if (strcmp(errors[i].symbol, symbol) != 0)
                continue;
            checked++;
            if (arguments != 2 + error_placeholders(&errors[i])) {
                print_message("%s%.60s: %zu arguments for '%s'\n", call, at, arguments - 2,
                              errors[i].message);
                wrong++;
            }
        }
    }
    assert_int_equal(wrong, 0);
    return checked;
}

static void test_messages_get_their_arguments(void **state)
{
    (void)state;
    struct buffer sources = {0};
    read_sources(&sources);
    const char *text = buffer_text(&sources);
    size_t checked = check_calls(text, "error_set(") + check_calls(text, "answer_failure(");
    buffer_done(&sources);
    print_message("%zu calls checked\n", checked);
    assert_true(checked > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_are_complete),
        cmocka_unit_test(test_numbers_symbols_and_messages_are_unique),
        cmocka_unit_test(test_python_classes),
        cmocka_unit_test(test_exact_texts),
        cmocka_unit_test(test_messages_match_their_pattern),
        cmocka_unit_test(test_each_is_found),
        cmocka_unit_test(test_lines_of_logs_are_found),
        cmocka_unit_test(test_each_phrase_is_found),
        cmocka_unit_test(test_nothing_is_found),
        cmocka_unit_test(test_success_and_unknown),
        cmocka_unit_test(test_long_messages_are_cut_at_a_character),
        cmocka_unit_test(test_the_message_as_its_own_argument),
        cmocka_unit_test(test_numbers_as_arguments),
        cmocka_unit_test(test_every_error_is_used),
        cmocka_unit_test(test_messages_get_their_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
