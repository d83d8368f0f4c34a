/* Which engine it is about: the options with which `doctor`, `get`, `set` and `delete` are told
 * what an engine tells its store. */
#ifndef KVSHELF_CLI_ENGINE_OPTIONS_H
#define KVSHELF_CLI_ENGINE_OPTIONS_H

#include "cli/cli.h"
#include "kvshelf/kvshelf.h"

/* Rows of a command's table. */
/* clang-format off */
#define ENGINE_OPTIONS                                                                             \
    {"config", "F",                                                                                \
     "The configuration file; default: what SGLANG_HICACHE_HF3FS_CONFIG_PATH names."},             \
    {"mla", NULL, "The model is MLA: its pages are those of rank 0, the same on every "            \
                  "tensor-parallel rank."},                                                        \
    {"tp-rank", "N", "The tensor-parallel rank whose pages they are; default 0."},                 \
    {"tp-size", "N", "The number of tensor-parallel ranks; default 1."},                           \
    {"pp-rank", "N", "The pipeline-parallel rank; default 0."},                                    \
    {"pp-size", "N", "The number of pipeline-parallel ranks; default 1."},                         \
    {"cp-rank", "N", "The context-parallel rank; default 0."},                                     \
    {"cp-size", "N", "The number of context-parallel ranks; default 1."},                          \
    {"dp-rank", "N", "The data-parallel rank; default 0."},                                        \
    {"dp-size", "N", "The number of data-parallel ranks; default 1."}
/* clang-format on */

/* The defaults, with the model and the ranks of the command line; the file is not read. Errors:
 * KVS_ERR_USAGE_VALUE. */
enum kvs_status engine_options_read(const struct cli *cli, struct kvs_store_options *ret_options,
                                    struct kvs_error *error);

#endif
