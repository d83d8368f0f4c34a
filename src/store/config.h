/* The configuration of a store: defaults, what values may be, and the JSON file.
 *
 * The file, its variable, its required keys and the texts of its faults are the original's;
 * kvshelf's own keys are all optional. One table holds every key: reading, checking and `kvshelf
 * doctor` go through it. Nothing here touches the page file or the catalogs. */
#ifndef KVSHELF_STORE_CONFIG_H
#define KVSHELF_STORE_CONFIG_H

#include "base/log.h"
#include "kvshelf/kvshelf.h"

#define CONFIG_PATH_VARIABLE  "SGLANG_HICACHE_HF3FS_CONFIG_PATH"
#define CONFIG_WRONG_VARIABLE "SGLANG_HF3FS_CONFIG" /* named in old guides, never read */

enum {
    CONFIG_STRINGS = 8,
    CONFIG_FILE_BYTES_MAX = 1 << 20,
    CONFIG_TEXT_MAX = 64, /* a value shown in an error is cut at this, bytes */
};

/* Options whose strings are owned. All zero is an empty one. */
struct store_config {
    struct kvs_store_options options;
    char *strings[CONFIG_STRINGS];
};

/* Takes a copy of the caller's options, who may have been compiled against an older or a newer
 * header (their `size` tells). Checks nothing else. Errors: KVS_ERR_CONFIG_VALUE (size),
 * KVS_ERR_NO_MEMORY. */
enum kvs_status config_copy(struct store_config *config, const struct kvs_store_options *options,
                            struct kvs_error *error);
void config_done(struct store_config *config);

/* ---- The file (config_file.c) ----------------------------------------------------------------*/

/* Reads the file over the configuration, which stays as it was on failure. Unknown keys are
 * warnings that name the nearest known one. Errors: KVS_ERR_CONFIG_LOAD (missing, unreadable,
 * empty, no JSON object, too large), KVS_ERR_CONFIG_VALUE (of the wrong type),
 * KVS_ERR_CONFIG_MISSING_KEYS, KVS_ERR_NO_MEMORY. */
enum kvs_status config_read_file(struct store_config *config, const char *path,
                                 struct kvs_error *error);

/* Called for every fault of a value or of missing keys, when there may be more than one. */
typedef void (*config_fault_fn)(void *arg, const struct kvs_error *fault);
/* The same, telling all that is wrong with the values instead of stopping at the first; that one is
 * the result. */
enum kvs_status config_read_file_all(struct store_config *config, const char *path,
                                     config_fault_fn tell, void *arg, struct kvs_error *error);

/* Reads the file that the variable names, if it is set and not empty; *ret_path is then its path,
 * otherwise NULL. A variable of a similar name that is never read is pointed out. */
enum kvs_status config_read_env(struct store_config *config, const char **ret_path,
                                struct kvs_error *error);

/* ---- What values may be ----------------------------------------------------------------------*/

/* Every rule, the first fault wins. `has_index`: the caller brings a metadata client, so that
 * neither a server nor its absence matters. Errors: KVS_ERR_CONFIG_VALUE,
 * KVS_ERR_CONFIG_PAGE_BYTES, KVS_ERR_CONFIG_FILE_SIZE, KVS_ERR_MLA_NEEDS_SERVER. */
enum kvs_status config_check(const struct kvs_store_options *options, bool has_index,
                             struct kvs_error *error);

/* The parts of config_check(), for who wants to tell all that is wrong at once. */
size_t config_key_count(void);
enum kvs_status config_check_key(const struct kvs_store_options *options, size_t key,
                                 struct kvs_error *error);
enum kvs_status config_check_ranks(const struct kvs_store_options *options,
                                   struct kvs_error *error);
enum kvs_status config_check_together(const struct kvs_store_options *options,
                                      struct kvs_error *error);
enum kvs_status config_check_metadata(const struct kvs_store_options *options,
                                      struct kvs_error *error);
/* bytes_per_page in range, at least one page in the file, not more than a catalog can hold. `pool`
 * names it in the error ("kv"). */
enum kvs_status config_check_geometry(const char *pool, uint64_t bytes_per_page, uint64_t file_size,
                                      uint64_t *ret_num_pages, struct kvs_error *error);

/* ---- The table -------------------------------------------------------------------------------*/

enum config_type {
    CONFIG_STRING,
    CONFIG_BYTES,   /* uint64_t */
    CONFIG_COUNT,   /* uint32_t */
    CONFIG_SECONDS, /* double */
    CONFIG_BOOL,
    CONFIG_CHOICE, /* an enum */
};

struct config_key {
    const char *name;
    enum config_type type;
    size_t offset; /* in struct kvs_store_options */
    bool required; /* in a file */
    double min, max;
    const char *unit;
    const char *const *choices; /* NULL-terminated, in the order of the enum */
};
const struct config_key *config_key(size_t key);

/* The value as a text for people, "(none)" where there is none. Returns `text`. */
const char *config_value_text(const struct kvs_store_options *options, const struct config_key *key,
                              char text[CONFIG_TEXT_MAX]);

/* A server's address for messages, without the credentials that may be in it; also of what is no
 * URL. NULL on lack of memory; the caller frees it. */
char *config_shown_url(const char *url);

/* Sets a string option to a copy of the text. False on lack of memory. */
bool config_set_string(struct store_config *config, const struct config_key *key, const char *text,
                       size_t length);

#endif
