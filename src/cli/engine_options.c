/* See engine_options.h. */
#include "cli/engine_options.h"

enum kvs_status engine_options_read(const struct cli *cli, struct kvs_store_options *ret_options,
                                    struct kvs_error *error)
{
    enum { RANKS_MAX = 65536 };
    struct kvs_store_options options;
    kvs_store_options_init(&options);
    const struct {
        const char *name;
        uint64_t min;
        uint32_t *value;
    } numbers[] = {
        {"tp-rank", 0, &options.tp_rank}, {"tp-size", 1, &options.tp_size},
        {"pp-rank", 0, &options.pp_rank}, {"pp-size", 1, &options.pp_size},
        {"cp-rank", 0, &options.cp_rank}, {"cp-size", 1, &options.cp_size},
        {"dp-rank", 0, &options.dp_rank}, {"dp-size", 1, &options.dp_size},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint64_t value = *numbers[i].value;
        enum kvs_status status =
            cli_count(cli, numbers[i].name, numbers[i].min, RANKS_MAX, "ranks", &value, error);
        if (status != KVS_OK)
            return status;
        *numbers[i].value = (uint32_t)value;
    }
    options.is_mla_model = cli_has(cli, "mla");
    *ret_options = options;
    return KVS_OK;
}
