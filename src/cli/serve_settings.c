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

#define VARIABLE_PREFIX "KVSHELF_"

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

static bool is_among(const char *text, const char *const words[])
{
    size_t i = 0;
    while (words[i] != NULL && strcmp(words[i], text) != 0)
        i++;
    return words[i] != NULL;
}

static void set_origin(struct serve_settings *settings, size_t option, const char *name,
                       const char *path)
{
    struct buffer *origin = &settings->texts[CLI_OPTIONS_MAX + option];
    buffer_clear(origin);
    buffer_append_format(origin, path == NULL ? "%s" : "%s in %s", name, path);
    settings->cli.origins[option] = buffer_text(origin);
}

/* Kubernetes sets KVSHELF_PORT=tcp://ADDRESS:PORT in every container beside a service named
 * kvshelf. */
static bool is_of_kubernetes(const char *name, const char *value)
{
    return strcmp(name, "KVSHELF_PORT") == 0 && strncmp(value, "tcp://", strlen("tcp://")) == 0;
}

static enum kvs_status read_environment(struct serve_settings *settings, struct kvs_error *error)
{
    static const char *const yes[] = {"1", "true", "yes", NULL};
    static const char *const no[] = {"0", "false", "no", "", NULL};
    for (size_t i = 0; serve_options[i].name != NULL; i++) {
        char name[NAME_BYTES];
        name_of(VARIABLE_PREFIX, serve_options[i].name, true, name);
        const char *value = getenv(name);
        if (value == NULL || settings->cli.values[i] != NULL || is_of_kubernetes(name, value))
            continue;
        bool flag = serve_options[i].value == NULL;
        if (flag && is_among(value, no))
            continue;
        set_origin(settings, i, name, NULL);
        if (flag && !is_among(value, yes))
            return cli_wrong_value(&settings->cli, serve_options[i].name, value,
                                   "it must be 1 or 0, true or false, yes or no", error);
        settings->cli.values[i] = value;
    }
    return KVS_OK;
}

extern char **environ;

/* KVSHELF_PERSISTENCE_PATH and the member persistence_path are --persistence-path; in any case. */
static const char *hint_for(const struct serve_settings *settings, const char *name)
{
    char option[NAME_BYTES];
    snprintf(option, sizeof(option), "%s", name);
    for (char *at = option; *at != '\0'; at++)
        *at = *at == '_' ? '-' : (char)tolower((unsigned char)*at);
    return cli_hint_for(settings->cli.command, option);
}

/* `rest` is what follows the prefix of a variable. */
static void warn_of_variable(const struct serve_settings *settings, const struct logger *log,
                             const char *prefix, const char *rest)
{
    char names[CLI_OPTIONS_MAX][NAME_BYTES], upper[NAME_BYTES];
    const char *candidates[CLI_OPTIONS_MAX];
    size_t n = 0;
    for (; serve_options[n].name != NULL; n++) {
        name_of("", serve_options[n].name, true, names[n]);
        candidates[n] = names[n];
    }
    candidates[n] = NULL;
    name_of("", rest, true, upper);
    bool exact = is_among(rest, candidates) && strcmp(prefix, VARIABLE_PREFIX) == 0;
    const char *hint = hint_for(settings, rest);
    const char *nearest = exact                         ? NULL
                          : is_among(upper, candidates) ? upper
                                                        : text_nearest(upper, candidates, n);
    if (hint != NULL)
        log_line(log, KVS_LOG_WARNING, "Unknown variable '%s%s' is ignored: %s", prefix, rest,
                 hint);
    else if (nearest != NULL)
        log_line(log, KVS_LOG_WARNING,
                 "Unknown variable '%s%s' is ignored; did you mean '" VARIABLE_PREFIX "%s'?",
                 prefix, rest, nearest);
}

void serve_settings_warn(const struct serve_settings *settings, const struct logger *log)
{
    for (char **variable = environ; *variable != NULL; variable++) {
        char prefix[sizeof(VARIABLE_PREFIX)], rest[NAME_BYTES];
        size_t length = strcspn(*variable, "="), prefix_length = sizeof(prefix) - 1;
        if (strncasecmp(*variable, VARIABLE_PREFIX, prefix_length) != 0 ||
            length - prefix_length >= sizeof(rest))
            continue;
        snprintf(prefix, sizeof(prefix), "%s", *variable);
        snprintf(rest, sizeof(rest), "%.*s", (int)(length - prefix_length),
                 *variable + prefix_length);
        warn_of_variable(settings, log, prefix, rest);
    }
}

/* ---- File ------------------------------------------------------------------------------------*/

struct settings_file {
    struct serve_settings *settings;
    const char *path;
    struct json_reader json;
    bool in_file[CLI_OPTIONS_MAX]; /* options whose value comes from here */
};

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
static enum kvs_status unknown_member(const struct settings_file *file, struct json_text member,
                                      struct kvs_error *error)
{
    char names[CLI_OPTIONS_MAX][NAME_BYTES], given[NAME_BYTES], advice[4 * NAME_BYTES];
    const char *candidates[CLI_OPTIONS_MAX];
    size_t n = 0;
    for (; serve_options[n].name != NULL; n++) {
        name_of("", serve_options[n].name, false, names[n]);
        candidates[n] = names[n];
    }
    snprintf(given, sizeof(given), "%.*s",
             (int)(member.length < NAME_BYTES ? member.length : NAME_BYTES), member.text);
    text_one_line(given);
    const char *hint = hint_for(file->settings, given);
    const char *nearest = text_nearest(given, candidates, n);
    if (hint != NULL)
        snprintf(advice, sizeof(advice), "%s", hint);
    else if (nearest != NULL)
        snprintf(advice, sizeof(advice), "did you mean '%s'?", nearest);
    else
        snprintf(advice, sizeof(advice), "see kvshelf help serve");
    struct buffer shown = {0};
    buffer_append_format(&shown, "%s' in '%s", given, file->path); /* within the message's quotes */
    enum kvs_status status =
        error_set(error, KVS_ERR_USAGE_OPTION, buffer_text(&shown), "serve", advice);
    buffer_done(&shown);
    return status;
}

static void come_from_file(const struct settings_file *file, size_t option)
{
    char name[NAME_BYTES];
    name_of("", serve_options[option].name, false, name);
    set_origin(file->settings, option, name, file->path);
}

static enum kvs_status wrong_type(struct settings_file *file, size_t option, const char *problem,
                                  struct kvs_error *error)
{
    static const char *const kinds[] = {
        [JSON_NULL] = "null",     [JSON_BOOL] = "true or false", [JSON_NUMBER] = "a number",
        [JSON_STRING] = "a text", [JSON_ARRAY] = "a list",       [JSON_OBJECT] = "an object",
    };
    come_from_file(file, option);
    return cli_wrong_value(&file->settings->cli, serve_options[option].name,
                           kinds[json_peek(&file->json)], problem, error);
}

/* The value of one member as the text a flag would have. KVS_OK also for a fault of the JSON, which
 * the reader knows. */
static enum kvs_status read_value(struct settings_file *file, size_t option,
                                  struct kvs_error *error)
{
    struct json_reader *json = &file->json;
    struct buffer *out = &file->settings->texts[option];
    enum json_type type = json_peek(json);
    struct json_text text;
    bool set = true, read;
    buffer_clear(out);
    if (type == JSON_INVALID) {
        json_skip(json);
        return KVS_OK;
    }
    if (serve_options[option].value == NULL) {
        if (type != JSON_BOOL)
            return wrong_type(file, option, "it must be true or false", error);
        json_bool(json, &set);
        file->in_file[option] = set;
        return KVS_OK;
    }
    if (type != JSON_NUMBER && type != JSON_STRING)
        return wrong_type(file, option, "it must be a number or a text", error);
    read = type == JSON_NUMBER ? json_raw(json, &text) : json_string(json, &text);
    if (!read)
        return KVS_OK;
    if (memchr(text.text, '\0', text.length) != NULL) {
        json_fail(json, "a text holds a NUL");
        return KVS_OK;
    }
    buffer_append(out, text.text, text.length);
    file->in_file[option] = true;
    return KVS_OK;
}

static enum kvs_status read_members(struct settings_file *file, struct kvs_error *error)
{
    struct json_text member;
    enum kvs_status status = KVS_OK;
    if (!json_object_begin(&file->json))
        return KVS_OK;
    while (status == KVS_OK && json_object_next(&file->json, &member)) {
        size_t i = find_option(member);
        if (serve_options[i].name == NULL)
            return unknown_member(file, member, error);
        status = read_value(file, i, error);
    }
    if (status == KVS_OK)
        json_end(&file->json);
    return status;
}

static enum kvs_status read_file(struct serve_settings *settings, const char *path,
                                 struct kvs_error *error)
{
    struct buffer content = {0}, unescaped = {0};
    struct settings_file file = {.settings = settings, .path = path};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int failed = fd < 0 ? errno : buffer_read_fd(&content, fd, FILE_BYTES_MAX);
    if (fd >= 0)
        close(fd);
    char reason[JSON_ERROR_TEXT_MAX];
    json_reader_init(&file.json, content.data, content.length, &unescaped, JSON_DEPTH);
    enum kvs_status status = failed != 0
                                 ? error_set(error, KVS_ERR_CONFIG_LOAD, path, strerror(failed))
                                 : read_members(&file, error);
    if (status == KVS_OK && json_failed(&file.json))
        status = error_set(error, KVS_ERR_CONFIG_LOAD, path, json_error_text(&file.json, reason));
    for (size_t i = 0; status == KVS_OK && serve_options[i].name != NULL; i++) {
        if (settings->cli.values[i] == NULL && file.in_file[i]) {
            settings->cli.values[i] = buffer_text(&settings->texts[i]);
            come_from_file(&file, i);
        }
    }
    buffer_done(&content);
    buffer_done(&unescaped);
    return status;
}

/* ---- Values ----------------------------------------------------------------------------------*/

/* Before all others, so that what is wrong with them is said in the format that was asked for. */
static enum kvs_status read_log_values(struct serve_settings *s, struct kvs_error *error)
{
    static const char *const formats[] = {"text", "json", NULL};
    static const char *const levels[] = {"debug", "info", "warning", "error", NULL};
    size_t format = SERVE_LOG_TEXT, level = KVS_LOG_INFO;
    enum kvs_status status = cli_choice(&s->cli, "log-format", formats, &format, error);
    if (status == KVS_OK)
        status = cli_choice(&s->cli, "log-level", levels, &level, error);
    s->log_format = (enum serve_log_format)format;
    s->log_level = (enum kvs_log_level)level;
    return status;
}

static enum kvs_status read_values(struct serve_settings *s, struct kvs_error *error)
{
    static const char *const evictions[] = {"prefix", "lru", NULL};
    const uint64_t longest_ms = UINT64_C(1000) * SECONDS_MAX;
    const struct cli *cli = &s->cli;
    size_t eviction = KVS_EVICTION_PREFIX;
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
    s->eviction = (enum kvs_eviction)eviction;
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
    settings->texts = calloc(2 * CLI_OPTIONS_MAX, sizeof(*settings->texts));
    if (settings->texts == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "reading the options");
    enum kvs_status status = read_environment(settings, error);
    const char *path = cli_text(&settings->cli, "config", NULL);
    if (status == KVS_OK && path != NULL)
        status = read_file(settings, path, error);
    enum kvs_status of_log = read_log_values(settings, status == KVS_OK ? error : NULL);
    if (status == KVS_OK)
        status = of_log;
    return status == KVS_OK ? read_values(settings, error) : status;
}

void serve_settings_done(struct serve_settings *settings)
{
    for (size_t i = 0; settings->texts != NULL && i < 2 * CLI_OPTIONS_MAX; i++)
        buffer_done(&settings->texts[i]);
    free(settings->texts);
    settings->texts = NULL;
}
