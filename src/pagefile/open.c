/* Which engine a page file is opened with. */
#include "pagefile/pagefile.h"

enum kvs_status pagefile_open(enum kvs_io_engine engine, const struct pagefile_options *options,
                              struct pagefile **ret_file, struct kvs_error *error)
{
    (void)engine;
    return pagefile_posix.open(options, ret_file, error);
}
