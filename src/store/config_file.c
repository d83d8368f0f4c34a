/* The JSON file over the options. */
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "store/config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEYS_MAX = 32, NAME_MAX_BYTES = 64 };

/* One file while it is read. */
struct reading {
    struct store_config *config; /* a copy; it replaces the caller's when all went well */
    const char *path;
    struct json_reader json;
    struct logger log;
    bool seen[KEYS_MAX];
    struct kvs_error *error;
    config_fault_fn tell; /* NULL: stop at the first fault */
    void *tell_arg;
    enum kvs_status first; /* of the faults that were told */
    struct kvs_error first_error;
};

/* Keys that belong elsewhere, and where. */
static const struct {
    const char *name, *hint;
} misplaced[] = {
    {"use_mock_hf3fs_client", "it is read from extra_config of the engine, not from this file"},
    {"bytes_per_page", "the engine tells the page size"},
    {"is_mla_model", "the engine tells what the model is"},
    {"tp_rank", "the engine tells the rank"},
    {"tp_size", "the engine tells the number of ranks"},
};

static const struct config_key *find_key(struct json_text name, size_t *ret_place)
{
    for (size_t i = 0; i < config_key_count(); i++) {
        if (json_text_is(name, config_key(i)->name)) {
            *ret_place = i;
            return config_key(i);
        }
    }
    return NULL;
}

static void warn_unknown(const struct reading *reading, struct json_text name)
{
    char text[NAME_MAX_BYTES + 1];
    const char *names[KEYS_MAX];
    int length = name.length < NAME_MAX_BYTES ? (int)name.length : NAME_MAX_BYTES;
    snprintf(text, sizeof(text), "%.*s", length, name.text);
    text_one_line(text);
    for (size_t i = 0; i < sizeof(misplaced) / sizeof(misplaced[0]); i++) {
        if (strcmp(misplaced[i].name, text) == 0) {
            log_line(&reading->log, KVS_LOG_WARNING, "Key '%s' in %s is ignored: %s.", text,
                     reading->path, misplaced[i].hint);
            return;
        }
    }
    for (size_t i = 0; i < config_key_count(); i++)
        names[i] = config_key(i)->name;
    const char *nearest = text_nearest(text, names, config_key_count());
    if (nearest != NULL)
        log_line(&reading->log, KVS_LOG_WARNING,
                 "Unknown key '%s' in %s is ignored; did you mean '%s'?", text, reading->path,
                 nearest);
    else
        log_line(&reading->log, KVS_LOG_WARNING,
                 "Unknown key '%s' in %s is ignored; docs/configuration.md lists the keys.", text,
                 reading->path);
}

/* ---- Values --------------------------------------------------------------------------------- */

/* The value as it stands in the file, for an error. */
static enum kvs_status bad_value(struct reading *reading, const struct config_key *key,
                                 struct json_reader at, const char *problem)
{
    struct json_text raw = {"?", 1};
    char text[CONFIG_TEXT_MAX];
    json_raw(&at, &raw);
    bool cut = raw.length >= CONFIG_TEXT_MAX - 4;
    snprintf(text, sizeof(text), "%.*s%s", cut ? CONFIG_TEXT_MAX - 5 : (int)raw.length, raw.text,
             cut ? "..." : "");
    text_one_line(text);
    return error_set(reading->error, KVS_ERR_CONFIG_VALUE, text, key->name, problem);
}

static void allowed(const struct config_key *key, char *text, size_t capacity, const char *kind)
{
    snprintf(text, capacity, "it must be %s from %.10g to %.20g %s", kind, key->min, key->max,
             key->unit);
}

/* Whole numbers, also when they are written as 1e12 or 1024.0. */
static enum kvs_status read_whole(struct reading *reading, const struct config_key *key,
                                  uint64_t *ret_value)
{
    char problem[200];
    struct json_reader at = reading->json;
    allowed(key, problem, sizeof(problem), "a whole number");
    enum json_type type = json_peek(&reading->json);
    if (type == JSON_STRING) {
        snprintf(problem, sizeof(problem),
                 "it must be a whole number, not a string: write it without quotes%s",
                 key->type == CONFIG_BYTES ? ", in bytes; 1 TiB is 1099511627776" : "");
        return bad_value(reading, key, at, problem);
    }
    if (type != JSON_NUMBER)
        return bad_value(reading, key, at, problem);
    uint64_t value;
    struct json_reader exact = reading->json;
    if (json_uint64(&exact, &value)) {
        reading->json = exact;
    } else {
        double number;
        if (!json_double(&reading->json, &number) || number < 0 || number >= 18446744073709549568.0)
            return bad_value(reading, key, at, problem);
        value = (uint64_t)number;
        if ((double)value != number)
            return bad_value(reading, key, at, problem);
    }
    if ((double)value < key->min || (double)value > key->max)
        return bad_value(reading, key, at, problem);
    *ret_value = value;
    return KVS_OK;
}

static enum kvs_status read_seconds(struct reading *reading, const struct config_key *key,
                                    double *ret_value)
{
    char problem[200];
    struct json_reader at = reading->json;
    allowed(key, problem, sizeof(problem), "a number");
    double number;
    if (json_peek(&reading->json) != JSON_NUMBER || !json_double(&reading->json, &number) ||
        number < key->min || number > key->max)
        return bad_value(reading, key, at, problem);
    *ret_value = number;
    return KVS_OK;
}

static enum kvs_status read_text(struct reading *reading, const struct config_key *key,
                                 struct json_text *ret_text)
{
    struct json_reader at = reading->json;
    if (json_peek(&reading->json) != JSON_STRING || !json_string(&reading->json, ret_text))
        return bad_value(reading, key, at, "it must be a string");
    if (memchr(ret_text->text, '\0', ret_text->length) != NULL)
        return bad_value(reading, key, at, "it must not hold a NUL character");
    return KVS_OK;
}

static enum kvs_status read_choice(struct reading *reading, const struct config_key *key,
                                   unsigned *ret_value)
{
    struct json_reader at = reading->json;
    struct json_text text;
    enum kvs_status status = read_text(reading, key, &text);
    if (status != KVS_OK)
        return status;
    unsigned n = 0;
    for (; key->choices[n] != NULL; n++) {
        if (json_text_is(text, key->choices[n])) {
            *ret_value = n;
            return KVS_OK;
        }
    }
    char problem[160] = "it must be one of ", word[NAME_MAX_BYTES + 1];
    size_t used = strlen(problem);
    for (unsigned i = 0; i < n && used < sizeof(problem); i++)
        used += (size_t)snprintf(problem + used, sizeof(problem) - used, "%s\"%s\"",
                                 i > 0 ? ", " : "", key->choices[i]);
    snprintf(word, sizeof(word), "%.*s", (int)(text.length < 64 ? text.length : 64), text.text);
    const char *nearest = text_nearest(word, key->choices, n);
    if (nearest != NULL && used < sizeof(problem))
        snprintf(problem + used, sizeof(problem) - used, "; did you mean \"%s\"?", nearest);
    return bad_value(reading, key, at, problem);
}

static enum kvs_status read_string(struct reading *reading, const struct config_key *key)
{
    struct json_text text;
    enum kvs_status status = read_text(reading, key, &text);
    if (status == KVS_OK && !config_set_string(reading->config, key, text.text, text.length))
        status = error_set(reading->error, KVS_ERR_NO_MEMORY, "reading the configuration");
    return status;
}

static enum kvs_status read_value(struct reading *reading, const struct config_key *key)
{
    char *field = (char *)&reading->config->options + key->offset;
    struct json_reader at = reading->json;
    uint64_t whole;
    enum kvs_status status;
    /* null is as good as leaving an optional key out */
    if (!key->required && json_peek(&reading->json) == JSON_NULL && json_null(&reading->json))
        return KVS_OK;
    switch (key->type) {
    case CONFIG_STRING:
        return read_string(reading, key);
    case CONFIG_BYTES:
        return read_whole(reading, key, (uint64_t *)(void *)field);
    case CONFIG_COUNT:
        status = read_whole(reading, key, &whole);
        if (status == KVS_OK)
            *(uint32_t *)(void *)field = (uint32_t)whole;
        return status;
    case CONFIG_SECONDS:
        return read_seconds(reading, key, (double *)(void *)field);
    case CONFIG_CHOICE:
        return read_choice(reading, key, (unsigned *)(void *)field);
    case CONFIG_BOOL:
        break;
    }
    if (json_peek(&reading->json) == JSON_BOOL && json_bool(&reading->json, (bool *)field))
        return KVS_OK;
    return bad_value(reading, key, at, "it must be true or false");
}

/* ---- The file ------------------------------------------------------------------------------- */

static enum kvs_status load_failed(const struct reading *reading, const char *reason)
{
    return error_set(reading->error, KVS_ERR_CONFIG_LOAD, reading->path, reason);
}

/* Where all faults are to be told, one fault of a value is no reason to stop. */
static enum kvs_status go_on(struct reading *reading, enum kvs_status status)
{
    if (status == KVS_OK || status == KVS_ERR_NO_MEMORY || reading->tell == NULL)
        return status;
    reading->tell(reading->tell_arg, reading->error);
    if (reading->first == KVS_OK) {
        reading->first = status;
        reading->first_error = *reading->error;
    }
    return KVS_OK;
}

static enum kvs_status read_members(struct reading *reading)
{
    struct json_text name;
    enum kvs_status status = KVS_OK;
    if (json_peek(&reading->json) != JSON_OBJECT)
        return json_skip(&reading->json) ? load_failed(reading, "it holds no JSON object: the keys "
                                                                "stand between { and }")
                                         : KVS_OK;
    json_object_begin(&reading->json);
    while (status == KVS_OK && json_object_next(&reading->json, &name)) {
        size_t place;
        const struct config_key *key = find_key(name, &place);
        if (key == NULL) {
            warn_unknown(reading, name);
            json_skip(&reading->json);
            continue;
        }
        if (reading->seen[place])
            log_line(&reading->log, KVS_LOG_WARNING,
                     "Key '%s' stands in %s more than once; the last one counts.", key->name,
                     reading->path);
        reading->seen[place] = true;
        struct json_reader at = reading->json;
        status = read_value(reading, key);
        if (status != KVS_OK) {
            reading->json = at;
            json_skip(&reading->json);
            status = go_on(reading, status);
        }
    }
    if (status == KVS_OK)
        json_end(&reading->json);
    return status;
}

static enum kvs_status missing_keys(const struct reading *reading)
{
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < config_key_count(); i++)
        if (config_key(i)->required && !reading->seen[i])
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                     used > 0 ? ", " : "", config_key(i)->name);
    return used == 0 ? KVS_OK : error_set(reading->error, KVS_ERR_CONFIG_MISSING_KEYS, names);
}

/* A syntax fault anywhere is told before what is wrong with a value: a value may be cut by it. */
static enum kvs_status check_syntax(const struct reading *reading)
{
    char text[JSON_ERROR_TEXT_MAX];
    struct json_reader whole = reading->json;
    if (json_skip(&whole) && json_end(&whole))
        return KVS_OK;
    return load_failed(reading, json_error_text(&whole, text));
}

static enum kvs_status read_bytes(struct reading *reading, struct buffer *bytes)
{
    int fd = open(reading->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return load_failed(reading, strerrordesc_np(errno));
    struct stat about;
    int fault = fstat(fd, &about) != 0 ? errno : 0;
    if (fault == 0 && !S_ISREG(about.st_mode))
        fault = S_ISDIR(about.st_mode) ? EISDIR : EINVAL;
    if (fault == 0)
        fault = buffer_read_fd(bytes, fd, CONFIG_FILE_BYTES_MAX);
    close(fd);
    if (fault == EFBIG)
        return load_failed(reading, "it is larger than 1 MiB, which no configuration is");
    if (fault == EINVAL)
        return load_failed(reading, "it is not a regular file");
    if (fault != 0)
        return load_failed(reading, strerrordesc_np(fault));
    for (size_t i = 0; i < bytes->length; i++)
        if (strchr(" \t\r\n", bytes->data[i]) == NULL || bytes->data[i] == '\0')
            return KVS_OK;
    return load_failed(reading, "it is empty");
}

enum kvs_status config_read_file_all(struct store_config *config, const char *path,
                                     config_fault_fn tell, void *arg, struct kvs_error *error)
{
    struct store_config copy = {0};
    struct kvs_error unasked;
    if (error == NULL)
        error = &unasked;
    struct buffer bytes = {0}, scratch = {0};
    struct reading reading = {
        .config = &copy,
        .path = path[0] == '\0' ? "\"\"" : path,
        .log = {config->options.log, config->options.log_arg},
        .error = error,
        .tell = tell,
        .tell_arg = arg,
    };
    enum kvs_status status = config_copy(&copy, &config->options, error);
    if (status == KVS_OK)
        status = read_bytes(&reading, &bytes);
    if (status == KVS_OK) {
        json_reader_init(&reading.json, bytes.data, bytes.length, &scratch, JSON_DEPTH);
        status = check_syntax(&reading);
    }
    if (status == KVS_OK)
        status = read_members(&reading);
    if (status == KVS_OK && json_failed(&reading.json)) {
        char text[JSON_ERROR_TEXT_MAX];
        status = load_failed(&reading, json_error_text(&reading.json, text));
    }
    if (status == KVS_OK)
        status = go_on(&reading, missing_keys(&reading));
    if (status == KVS_OK && reading.first != KVS_OK) {
        status = reading.first;
        *error = reading.first_error;
    }
    buffer_done(&bytes);
    buffer_done(&scratch);
    if (status != KVS_OK) {
        config_done(&copy);
        return status;
    }
    config_done(config);
    *config = copy;
    return KVS_OK;
}

enum kvs_status config_read_file(struct store_config *config, const char *path,
                                 struct kvs_error *error)
{
    return config_read_file_all(config, path, NULL, NULL, error);
}

enum kvs_status config_read_env(struct store_config *config, const char **ret_path,
                                struct kvs_error *error)
{
    const char *path = getenv(CONFIG_PATH_VARIABLE);
    const char *wrong = getenv(CONFIG_WRONG_VARIABLE);
    if (path != NULL && path[0] == '\0')
        path = NULL;
    if (path == NULL) {
        const struct logger log = {config->options.log, config->options.log_arg};
        if (wrong != NULL && wrong[0] != '\0')
            log_line(&log, KVS_LOG_WARNING,
                     CONFIG_WRONG_VARIABLE " is set, but the configuration is read only from the "
                                           "file that " CONFIG_PATH_VARIABLE
                                           " names; that is not set, so the defaults are used.");
        *ret_path = NULL;
        return KVS_OK;
    }
    enum kvs_status status = config_read_file(config, path, error);
    if (status == KVS_OK)
        *ret_path = path;
    return status;
}
