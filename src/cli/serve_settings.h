/* What kvshelf serve is told: flags over environment variables over a JSON file. */
#ifndef KVSHELF_CLI_SERVE_SETTINGS_H
#define KVSHELF_CLI_SERVE_SETTINGS_H

#include "base/buffer.h"
#include "cli/options.h"
#include "metadata/registry.h"

enum serve_log_format { SERVE_LOG_TEXT, SERVE_LOG_JSON };

struct serve_settings {
    const char *host, *data_dir, *token_file; /* data_dir and token_file may be NULL */
    bool insecure;
    uint64_t port, threads, connections, max_body_bytes;
    uint64_t lease_ms, quarantine_ms, reserve_ttl_ms, idle_reset_ms;
    enum kvs_eviction eviction;
    enum serve_log_format log_format;
    enum kvs_log_level log_level;

    struct cli cli; /* every option with its value, from wherever it came */
    /* CLI_OPTIONS_MAX values of the file, and as many names of where values came from. */
    struct buffer *texts;
};

extern const struct cli_option serve_options[];

/* The settings hold views into the environment and themselves: end them with
 * serve_settings_done(), on failure, too; what was said of the log holds then as well. Errors:
 * KVS_ERR_USAGE_VALUE, KVS_ERR_USAGE_OPTION, KVS_ERR_CONFIG_LOAD, KVS_ERR_NO_MEMORY. */
enum kvs_status serve_settings_read(struct serve_settings *settings, const struct cli *cli,
                                    struct kvs_error *error);
void serve_settings_done(struct serve_settings *settings);

/* Warns of variables whose names are nearly those of options, or those of hints. (Not of all that
 * begin with KVSHELF_: orchestrators set such variables for a service of this name.) */
void serve_settings_warn(const struct serve_settings *settings, const struct logger *log);

#endif
