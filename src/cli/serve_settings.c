/* What kvshelf serve is told; see serve_settings.h. One table of options serves all three sources:
 * the environment variable of --data-dir is KVSHELF_DATA_DIR, its member in the file data_dir. */
#include "cli/serve_settings.h"

#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { NAME_BYTES = 64, FILE_BYTES_MAX = 1 << 20, SECONDS_MAX = 30 * 24 * 3600 };

const struct cli_option serve_options[] = {
    {"host", "ADDRESS",
     "Address or name to listen on. Another than loopback needs --token-file or --insecure. "
     "Default "
     "127.0.0.1."},
    {"port", "N", "TCP port; 0 takes a free one, which the log names. Default 18000."},
    {"data-dir", "DIR",
     "Keep the catalogs in this directory (created, locked, files readable by the owner only), so "
     "that a restart finds them. Default: none, in memory only."},
    {"threads", "N", "Event loops, each with its own connections. Default: the CPUs, at most 4."},
    {"lease", "S",
     "Seconds for which a page is not given away after its index was handed to a client that "
     "cannot "
     "verify what it reads; decimals allowed. Default 10."},
    {"quarantine", "S",
     "Seconds a page rests after it was released or its reservation expired, because its writer "
     "may "
     "still be writing; decimals allowed. Default 60 (use 120 for pages on 3FS)."},
    {"reserve-ttl", "S",
     "Seconds a writer has between reserve and confirm; decimals allowed. Default 60."},
    {"idle-reset", "S",
     "Let initialize with another geometry reset a namespace that nothing has used for this many "
     "seconds; decimals allowed. Default 0: never, such an initialize is refused."},
    {"eviction", "ORDER",
     "What is given up first: 'prefix' (the ends of prefixes before their beginnings) or 'lru' "
     "(the "
     "original's order). Default prefix."},
    {"max-body", "BYTES", "Longest request body; larger ones get 413. Default 64MiB."},
    {"max-connections", "N",
     "Connections at once; further ones wait to be accepted, the oldest idle one makes room. "
     "Default "
     "10000."},
    {"token-file", "FILE",
     "A file with one line, the token that every request must carry (as Bearer, or as the password "
     "of Basic) except for /health and /ready. Default: none."},
    {"insecure", NULL,
     "Listen on an address other than loopback without a token: whoever reaches the port can read "
     "which prompts were seen, and clear the cache."},
    {"log-format", "FORMAT", "Log lines on stderr as 'text' or 'json'. Default text."},
    {"log-level", "LEVEL", "From which level on: debug, info, warning, error. Default info."},
    {"config", "FILE",
     "A JSON object with these options, underscores for dashes: {\"data_dir\": "
     "\"/var/lib/kvshelf\"}. Flags go before the environment (KVSHELF_DATA_DIR and so on), the "
     "environment before the file. Default: none."},
    {0},
};

static void name_of(const char *prefix, const char *option, bool upper, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%s%s", prefix, option);
    for (char *at = name; *at != '\0'; at++)
        *at = *at == '-' ? '_' : upper ? (char)toupper((unsigned char)*at) : *at;
}

/* ---- Environment -----------------------------------------------------------------------------*/

static bool is_yes(const char *text)
{
    return strcmp(text, "1") == 0 || strcmp(text, "true") == 0 || strcmp(text, "yes") == 0;
}

static void read_environment(struct serve_settings *settings)
{
    for (size_t i = 0; serve_options[i].name != NULL; i++) {
        char name[NAME_BYTES];
        name_of("KVSHELF_", serve_options[i].name, true, name);
        const char *value = getenv(name);
        if (value == NULL || settings->cli.values[i] != NULL)
            continue;
        if (serve_options[i].value != NULL || is_yes(value))
            settings->cli.values[i] = value;
    }
}

/* ---- File ------------------------------------------------------------------------------------*/

/* The value of one member as the text a flag would have. */
static bool read_value(struct json_reader *json, const struct cli_option *option,
                       struct buffer *out, bool *ret_set)
{
    struct json_text text;
    *ret_set = true;
    if (option->value == NULL)
        return json_bool(json, ret_set);
    if (json_peek(json) == JSON_NUMBER) {
        if (!json_raw(json, &text))
            return false;
    } else if (!json_string(json, &text)) {
        return false;
    }
    if (memchr(text.text, '\0', text.length) != NULL)
        return json_fail(json, "a text holds a NUL");
    buffer_append(out, text.text, text.length);
    return true;
}

static size_t find_option(struct json_text member)
{
    size_t i = 0;
    for (; serve_options[i].name != NULL; i++) {
        char name[NAME_BYTES];
        name_of("", serve_options[i].name, false, name);
        if (json_text_is(member, name) && strcmp(serve_options[i].name, "config") != 0)
            break;
    }
    return i;
}

/* Names the member that is not in the table, and the one that was probably meant. */
static void say_unknown(struct buffer *out, struct json_text member)
{
    char names[CLI_OPTIONS_MAX][NAME_BYTES], given[NAME_BYTES];
    const char *candidates[CLI_OPTIONS_MAX];
    size_t n = 0;
    for (; serve_options[n].name != NULL; n++) {
        name_of("", serve_options[n].name, false, names[n]);
        candidates[n] = names[n];
    }
    snprintf(given, sizeof(given), "%.*s",
             (int)(member.length < NAME_BYTES ? member.length : NAME_BYTES), member.text);
    text_one_line(given);
    const char *nearest = text_nearest(given, candidates, n);
    buffer_append_format(out, "'%s' is no option of kvshelf serve; ", given);
    if (nearest != NULL)
        buffer_append_format(out, "did you mean '%s'?", nearest);
    else
        buffer_append_format(out, "see kvshelf help serve");
}

/* False on a fault: `ret_unknown` has the reason when it is not empty, else the reader. */
static bool read_members(struct serve_settings *settings, struct json_reader *json,
                         struct buffer *ret_unknown)
{
    struct json_text member;
    if (!json_object_begin(json))
        return false;
    while (json_object_next(json, &member)) {
        size_t i = find_option(member);
        bool set;
        if (serve_options[i].name == NULL) {
            say_unknown(ret_unknown, member);
            return false;
        }
        buffer_clear(&settings->texts[i]);
        if (!read_value(json, &serve_options[i], &settings->texts[i], &set))
            return false;
        if (set && settings->cli.values[i] == NULL)
            settings->cli.values[i] = ""; /* its text is looked up when the reading is over */
    }
    return json_end(json);
}

static enum kvs_status read_file(struct serve_settings *settings, const char *path,
                                 struct kvs_error *error)
{
    struct buffer content = {0}, unescaped = {0}, unknown = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int failed = fd < 0 ? errno : buffer_read_fd(&content, fd, FILE_BYTES_MAX);
    if (fd >= 0)
        close(fd);
    struct cli flags = settings->cli;
    struct json_reader json;
    json_reader_init(&json, content.data, content.length, &unescaped, JSON_DEPTH);
    char reason[JSON_ERROR_TEXT_MAX];
    enum kvs_status status = KVS_OK;
    if (failed != 0)
        status = error_set(error, KVS_ERR_CONFIG_LOAD, path, strerror(failed));
    else if (!read_members(settings, &json, &unknown))
        status =
            error_set(error, KVS_ERR_CONFIG_LOAD, path,
                      unknown.length > 0 ? buffer_text(&unknown) : json_error_text(&json, reason));
    for (size_t i = 0; status == KVS_OK && serve_options[i].name != NULL; i++)
        if (flags.values[i] == NULL && settings->cli.values[i] != NULL)
            settings->cli.values[i] = buffer_text(&settings->texts[i]);
    buffer_done(&content);
    buffer_done(&unescaped);
    buffer_done(&unknown);
    return status;
}

/* ---- Values ----------------------------------------------------------------------------------*/

static enum kvs_status read_values(struct serve_settings *s, struct kvs_error *error)
{
    static const char *const evictions[] = {"prefix", "lru", NULL};
    static const char *const formats[] = {"text", "json", NULL};
    static const char *const levels[] = {"debug", "info", "warning", "error", NULL};
    const uint64_t longest_ms = UINT64_C(1000) * SECONDS_MAX;
    const struct cli *cli = &s->cli;
    size_t eviction = KVS_EVICTION_PREFIX, format = SERVE_LOG_TEXT, level = KVS_LOG_INFO;
    enum kvs_status status = cli_count(cli, "port", 0, UINT16_MAX, "", &s->port, error);
    if (status == KVS_OK)
        status = cli_count(cli, "threads", 1, 256, "threads", &s->threads, error);
    if (status == KVS_OK)
        status =
            cli_count(cli, "max-connections", 1, 1000000, "connections", &s->connections, error);
    if (status == KVS_OK)
        status = cli_bytes(cli, "max-body", 1024, UINT64_C(1) << 30, &s->max_body_bytes, error);
    if (status == KVS_OK)
        status = cli_seconds(cli, "lease", 0, longest_ms, &s->lease_ms, error);
    if (status == KVS_OK)
        status = cli_seconds(cli, "quarantine", 0, longest_ms, &s->quarantine_ms, error);
    if (status == KVS_OK)
        status = cli_seconds(cli, "reserve-ttl", 1, longest_ms, &s->reserve_ttl_ms, error);
    if (status == KVS_OK)
        status = cli_seconds(cli, "idle-reset", 0, longest_ms, &s->idle_reset_ms, error);
    if (status == KVS_OK)
        status = cli_choice(cli, "eviction", evictions, &eviction, error);
    if (status == KVS_OK)
        status = cli_choice(cli, "log-format", formats, &format, error);
    if (status == KVS_OK)
        status = cli_choice(cli, "log-level", levels, &level, error);
    s->eviction = (enum kvs_eviction)eviction;
    s->log_format = (enum serve_log_format)format;
    s->log_level = (enum kvs_log_level)level;
    s->host = cli_text(cli, "host", "127.0.0.1");
    s->data_dir = cli_text(cli, "data-dir", NULL);
    s->token_file = cli_text(cli, "token-file", NULL);
    s->insecure = cli_has(cli, "insecure");
    return status;
}

static uint64_t default_threads(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return cpus < 1 ? 1 : cpus > 4 ? 4 : (uint64_t)cpus;
}

enum kvs_status serve_settings_read(struct serve_settings *settings, const struct cli *cli,
                                    struct kvs_error *error)
{
    *settings = (struct serve_settings){
        .port = 18000,
        .threads = default_threads(),
        .connections = 10000,
        .max_body_bytes = UINT64_C(64) << 20,
        .lease_ms = 10000,
        .quarantine_ms = 60000,
        .reserve_ttl_ms = 60000,
        .cli = *cli,
    };
    settings->texts = calloc(CLI_OPTIONS_MAX, sizeof(*settings->texts));
    if (settings->texts == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "reading the options");
    read_environment(settings);
    const char *path = cli_text(&settings->cli, "config", NULL);
    if (path != NULL) {
        enum kvs_status status = read_file(settings, path, error);
        if (status != KVS_OK)
            return status;
    }
    return read_values(settings, error);
}

void serve_settings_done(struct serve_settings *settings)
{
    for (size_t i = 0; settings->texts != NULL && i < CLI_OPTIONS_MAX; i++)
        buffer_done(&settings->texts[i]);
    free(settings->texts);
    settings->texts = NULL;
}
