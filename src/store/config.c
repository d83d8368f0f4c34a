/* The table of keys, defaults, copies, and the rules on values. */
#include "store/config.h"

#include "base/status.h"
#include "base/text.h"
#include "catalog/catalog.h"
#include "store/identity.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t GIB = 1ull << 30, TIB = 1ull << 40;
#define EIB_LIMIT 1152921504606846976.0 /* 1 EiB: 2^60 */

static const char *const evictions[] = {"prefix", "lru", NULL};
static const char *const verifies[] = {"required", "if_known", NULL};
static const char *const engines[] = {"auto", "uring", "posix", "usrbio", NULL};
static const char *const directs[] = {"auto", "on", "off", NULL};

#define KEY(member, ...)                                                                           \
    {                                                                                              \
#member, .offset = offsetof(struct kvs_store_options, member), __VA_ARGS__                 \
    }
#define STRING_KEY(member)       KEY(member, .type = CONFIG_STRING)
#define CHOICE_KEY(member, list) KEY(member, .type = CONFIG_CHOICE, .choices = list)
#define NUMBER_KEY(member, kind, low, high, what)                                                  \
    KEY(member, .type = kind, .min = low, .max = high, .unit = what)

static const struct config_key keys[] = {
    KEY(file_path_prefix, .type = CONFIG_STRING, .required = true),
    KEY(file_size, .type = CONFIG_BYTES, .required = true, .min = 1, .max = EIB_LIMIT,
        .unit = "bytes"),
    KEY(numjobs, .type = CONFIG_COUNT, .required = true, .min = 1, .max = 1024, .unit = "threads"),
    KEY(entries, .type = CONFIG_COUNT, .required = true, .min = 1, .max = 4096,
        .unit = "I/Os per thread"),
    STRING_KEY(metadata_server_url),
    STRING_KEY(metadata_token_file),
    STRING_KEY(metadata_dir),
    NUMBER_KEY(client_timeout, CONFIG_SECONDS, 0.001, 3600, "seconds"),
    CHOICE_KEY(eviction, evictions),
    CHOICE_KEY(verify, verifies),
    NUMBER_KEY(reserve_ttl, CONFIG_SECONDS, 0.001, 86400, "seconds"),
    NUMBER_KEY(quarantine, CONFIG_SECONDS, 0, 86400, "seconds"),
    CHOICE_KEY(io_engine, engines),
    CHOICE_KEY(direct, directs),
    NUMBER_KEY(exists_cache_ms, CONFIG_COUNT, 0, 3600000, "milliseconds"),
    NUMBER_KEY(max_inflight_bytes, CONFIG_BYTES, 1, EIB_LIMIT, "bytes"),
    STRING_KEY(model),
    STRING_KEY(revision),
    STRING_KEY(dtype),
    STRING_KEY(layout),
    KEY(share_across_dp, .type = CONFIG_BOOL),
};

size_t config_key_count(void)
{
    return sizeof(keys) / sizeof(keys[0]);
}

const struct config_key *config_key(size_t key)
{
    return &keys[key];
}

void kvs_store_options_init(struct kvs_store_options *options)
{
    *options = (struct kvs_store_options){
        .size = sizeof(*options),
        .tp_size = 1,
        .pp_size = 1,
        .cp_size = 1,
        .dp_size = 1,
        .file_path_prefix = "/data/hicache",
        .file_size = TIB,
        .numjobs = 16,
        .entries = 8,
        .client_timeout = 5,
        .eviction = KVS_EVICTION_PREFIX,
        .verify = KVS_VERIFY_REQUIRED,
        .reserve_ttl = 60,
        .quarantine = 60,
        .io_engine = KVS_IO_AUTO,
        .direct = KVS_DIRECT_AUTO,
        .exists_cache_ms = 1000,
        .max_inflight_bytes = GIB,
    };
}

/* ---- Copies --------------------------------------------------------------------------------- */

static const char **string_option(struct kvs_store_options *options, const struct config_key *key)
{
    return (const char **)(void *)((char *)options + key->offset);
}

/* The place of a string key among the owned strings. */
static size_t string_place(const struct config_key *key)
{
    size_t place = 0;
    for (const struct config_key *k = keys; k != key; k++)
        place += k->type == CONFIG_STRING;
    return place;
}

bool config_set_string(struct store_config *config, const struct config_key *key, const char *text,
                       size_t length)
{
    char *copy = strndup(text, length);
    if (copy == NULL)
        return false;
    char **owned = &config->strings[string_place(key)];
    free(*owned);
    *owned = copy;
    *string_option(&config->options, key) = copy;
    return true;
}

static bool all_zero(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* A caller of an older header knows fewer fields: the rest has its defaults. One of a newer header
 * may set only fields that are known here. */
static enum kvs_status copy_known(struct kvs_store_options *to,
                                  const struct kvs_store_options *from, struct kvs_error *error)
{
    size_t known = sizeof(*to);
    if (from->size < offsetof(struct kvs_store_options, tp_rank))
        return error_set(error, KVS_ERR_CONFIG_VALUE, NUM(from->size), "options.size",
                         "fill the options with kvs_store_options_init() before changing them");
    if (from->size > known && !all_zero((const char *)from + known, from->size - known))
        return error_set(error, KVS_ERR_CONFIG_VALUE, NUM(from->size), "options.size",
                         "the options have fields that this older library does not know: install "
                         "the library that the header is of");
    kvs_store_options_init(to);
    memcpy(to, from, from->size < known ? from->size : known);
    to->size = known;
    return KVS_OK;
}

enum kvs_status config_copy(struct store_config *config, const struct kvs_store_options *options,
                            struct kvs_error *error)
{
    struct store_config copy = {0};
    enum kvs_status status = copy_known(&copy.options, options, error);
    if (status != KVS_OK)
        return status;
    for (size_t i = 0; i < config_key_count(); i++) {
        if (keys[i].type != CONFIG_STRING)
            continue;
        const char *text = *string_option(&copy.options, &keys[i]);
        if (text == NULL || config_set_string(&copy, &keys[i], text, strlen(text)))
            continue;
        config_done(&copy);
        return error_set(error, KVS_ERR_NO_MEMORY, "copying the options");
    }
    *config = copy;
    return KVS_OK;
}

void config_done(struct store_config *config)
{
    for (size_t i = 0; i < CONFIG_STRINGS; i++)
        free(config->strings[i]);
    *config = (struct store_config){0};
}

/* ---- Values as texts ------------------------------------------------------------------------ */

const char *config_value_text(const struct kvs_store_options *options, const struct config_key *key,
                              char text[CONFIG_TEXT_MAX])
{
    const char *value = (const char *)options + key->offset;
    const char *string = NULL;
    switch (key->type) {
    case CONFIG_STRING:
        string = *(const char *const *)(const void *)value;
        break;
    case CONFIG_BYTES:
        snprintf(text, CONFIG_TEXT_MAX, "%" PRIu64, *(const uint64_t *)(const void *)value);
        return text;
    case CONFIG_COUNT:
        snprintf(text, CONFIG_TEXT_MAX, "%" PRIu32, *(const uint32_t *)(const void *)value);
        return text;
    case CONFIG_SECONDS:
        snprintf(text, CONFIG_TEXT_MAX, "%g", *(const double *)(const void *)value);
        return text;
    case CONFIG_BOOL:
        string = *(const bool *)(const void *)value ? "true" : "false";
        break;
    case CONFIG_CHOICE: {
        size_t n = 0;
        while (key->choices[n] != NULL)
            n++;
        unsigned choice = *(const unsigned *)(const void *)value;
        if (choice >= n) {
            snprintf(text, CONFIG_TEXT_MAX, "%u", choice);
            return text;
        }
        string = key->choices[choice];
        break;
    }
    }
    bool secret = strcmp(key->name, "metadata_server_url") == 0;
    char *shown = secret && string != NULL ? config_shown_url(string) : NULL;
    if (string == NULL)
        snprintf(text, CONFIG_TEXT_MAX, "(none)");
    else if (secret)
        snprintf(text, CONFIG_TEXT_MAX, "%s", shown != NULL && shown[0] != '\0' ? shown : "\"\"");
    else
        snprintf(text, CONFIG_TEXT_MAX, "%s", string[0] == '\0' ? "\"\"" : string);
    free(shown);
    return text;
}

char *config_shown_url(const char *url)
{
    /* Whatever stands before the last '@' may be a secret: a password that was not encoded may hold
     * any of '/', '?', '#' and '@'. */
    const char *after = strrchr(url, '@');
    if (after == NULL)
        return strdup(url);
    char *shown = NULL;
    size_t scheme = strspn(url, "HTPShtps");
    scheme = strncmp(url + scheme, "://", 3) == 0 ? scheme + 3 : 0;
    return asprintf(&shown, "%.*s%s", (int)scheme, url, after + 1) < 0 ? NULL : shown;
}

/* ---- Rules ---------------------------------------------------------------------------------- */

static enum kvs_status bad(const struct kvs_store_options *options, const struct config_key *key,
                           struct kvs_error *error, const char *problem)
{
    char text[CONFIG_TEXT_MAX];
    return error_set(error, KVS_ERR_CONFIG_VALUE, config_value_text(options, key, text), key->name,
                     problem);
}

static enum kvs_status check_number(const struct kvs_store_options *options,
                                    const struct config_key *key, double value,
                                    struct kvs_error *error)
{
    if (value >= key->min && value <= key->max)
        return KVS_OK;
    char problem[160];
    if (key->max == EIB_LIMIT)
        snprintf(
            problem, sizeof(problem),
            "it must be from %.0f to 1152921504606846976 bytes (1 EiB); sizes are whole numbers "
            "of bytes, 1 TiB is 1099511627776",
            key->min);
    else
        snprintf(problem, sizeof(problem), "it must be from %g to %.10g %s", key->min, key->max,
                 key->unit);
    return bad(options, key, error, problem);
}

enum { IDENTITY_TEXT_MAX = 200, PATH_EXTRA = 64 + 3 * IDENTITY_POOL_NAME_MAX };

static enum kvs_status check_string(const struct kvs_store_options *options,
                                    const struct config_key *key, const char *text,
                                    struct kvs_error *error)
{
    if (text == NULL)
        return key->required ? bad(options, key, error,
                                   "it is needed: give a path such as /data/hicache, to which "
                                   ".{rank}.bin is added")
                             : KVS_OK;
    size_t length = strlen(text);
    bool identity = key->offset >= offsetof(struct kvs_store_options, model) &&
                    key->offset <= offsetof(struct kvs_store_options, layout);
    if (length == 0 && !identity)
        return bad(options, key, error, "it is empty: give a value, or leave the key out");
    if (identity && length > IDENTITY_TEXT_MAX)
        return bad(options, key, error, "it is longer than 200 bytes: use a shorter name");
    if (!identity && length > PATH_MAX - PATH_EXTRA)
        return bad(options, key, error, "it is too long for a path: use a shorter one");
    return KVS_OK;
}

enum kvs_status config_check_key(const struct kvs_store_options *options, size_t i,
                                 struct kvs_error *error)
{
    const struct config_key *key = &keys[i];
    const void *value = (const char *)options + key->offset;
    switch (key->type) {
    case CONFIG_STRING:
        return check_string(options, key, *(const char *const *)value, error);
    case CONFIG_BYTES:
        return check_number(options, key, (double)*(const uint64_t *)value, error);
    case CONFIG_COUNT:
        return check_number(options, key, *(const uint32_t *)value, error);
    case CONFIG_SECONDS:
        if (isnan(*(const double *)value))
            return bad(options, key, error, "it is not a number");
        return check_number(options, key, *(const double *)value, error);
    case CONFIG_BOOL:
        return KVS_OK;
    case CONFIG_CHOICE:
        break;
    }
    unsigned n = 0;
    while (key->choices[n] != NULL)
        n++;
    if (*(const unsigned *)value < n)
        return KVS_OK;
    return bad(options, key, error, "it is none of the choices: see enum kvs_* in kvshelf.h");
}

static enum kvs_status check_axis(const char *name, uint32_t rank, uint32_t size,
                                  struct kvs_error *error)
{
    char key[16], problem[120];
    if (size == 0) {
        snprintf(key, sizeof(key), "%s_size", name);
        return error_set(error, KVS_ERR_CONFIG_VALUE, "0", key,
                         "it must be at least 1: 1 means not split");
    }
    if (rank < size)
        return KVS_OK;
    snprintf(key, sizeof(key), "%s_rank", name);
    snprintf(problem, sizeof(problem),
             "%s_size is %" PRIu32 " and ranks count from 0, so it must be from 0 to %" PRIu32,
             name, size, size - 1);
    return error_set(error, KVS_ERR_CONFIG_VALUE, NUM(rank), key, problem);
}

enum kvs_status config_check_ranks(const struct kvs_store_options *options, struct kvs_error *error)
{
    enum kvs_status status = check_axis("tp", options->tp_rank, options->tp_size, error);
    if (status == KVS_OK)
        status = check_axis("pp", options->pp_rank, options->pp_size, error);
    if (status == KVS_OK)
        status = check_axis("cp", options->cp_rank, options->cp_size, error);
    if (status == KVS_OK)
        status = check_axis("dp", options->dp_rank, options->dp_size, error);
    return status;
}

enum kvs_status config_check_metadata(const struct kvs_store_options *options,
                                      struct kvs_error *error)
{
    if (options->metadata_server_url != NULL) {
        const char *url = options->metadata_server_url;
        if (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0)
            return KVS_OK;
        char *shown = config_shown_url(url);
        enum kvs_status status =
            error_set(error, KVS_ERR_CONFIG_VALUE,
                      shown == NULL      ? "the URL"
                      : shown[0] == '\0' ? "\"\""
                                         : shown,
                      "metadata_server_url",
                      "it must begin with http:// or https://, for example http://127.0.0.1:18000");
        free(shown);
        return status;
    }
    if (options->is_mla_model)
        return error_set(error, KVS_ERR_MLA_NEEDS_SERVER);
    return KVS_OK;
}

enum kvs_status config_check_geometry(const char *pool, uint64_t bytes_per_page, uint64_t file_size,
                                      uint64_t *ret_num_pages, struct kvs_error *error)
{
    char problem[160];
    if (bytes_per_page == 0)
        return error_set(error, KVS_ERR_CONFIG_PAGE_BYTES, pool, "0");
    if (bytes_per_page > GIB) {
        return error_set(
            error, KVS_ERR_CONFIG_VALUE, NUM(bytes_per_page), "bytes_per_page",
            "it must be from 1 to 1073741824 bytes (1 GiB): use a smaller page_size in "
            "the engine");
    }
    if ((double)file_size > EIB_LIMIT)
        return error_set(error, KVS_ERR_CONFIG_VALUE, NUM(file_size), "file_size",
                         "it must be at most 1152921504606846976 bytes (1 EiB)");
    uint64_t num_pages = file_size / bytes_per_page;
    if (num_pages == 0)
        return error_set(error, KVS_ERR_CONFIG_FILE_SIZE, NUM(file_size), NUM(bytes_per_page),
                         "it is smaller than one page");
    if (num_pages > CATALOG_PAGES_MAX) {
        snprintf(problem, sizeof(problem),
                 "that is %" PRIu64 " pages, and a catalog holds at most %d", num_pages,
                 CATALOG_PAGES_MAX);
        return error_set(error, KVS_ERR_CONFIG_FILE_SIZE, NUM(file_size), NUM(bytes_per_page),
                         problem);
    }
    if (ret_num_pages != NULL)
        *ret_num_pages = num_pages;
    return KVS_OK;
}

/* Values that are good alone and not together. */
enum kvs_status config_check_together(const struct kvs_store_options *options,
                                      struct kvs_error *error)
{
    if ((uint64_t)options->numjobs * options->entries > 65536)
        return error_set(
            error, KVS_ERR_CONFIG_VALUE, NUM(options->entries), "entries",
            "numjobs x entries must be at most 65536 I/Os in flight: lower one of them");
    if (options->use_mock_hf3fs_client && options->io_engine == KVS_IO_USRBIO)
        return error_set(error, KVS_ERR_CONFIG_VALUE, "usrbio", "io_engine",
                         "use_mock_hf3fs_client asks for plain files: drop one of the two");
    return KVS_OK;
}

enum kvs_status config_check(const struct kvs_store_options *options, bool has_index,
                             struct kvs_error *error)
{
    enum kvs_status status = KVS_OK;
    for (size_t i = 0; i < config_key_count() && status == KVS_OK; i++)
        status = config_check_key(options, i, error);
    if (status == KVS_OK)
        status = config_check_together(options, error);
    if (status == KVS_OK)
        status = config_check_ranks(options, error);
    if (status == KVS_OK && !has_index)
        status = config_check_metadata(options, error);
    if (status == KVS_OK)
        status =
            config_check_geometry("kv", options->bytes_per_page, options->file_size, NULL, error);
    return status;
}
