/* How engines over plain files are made from an open file. For pagefile_open() and the engines. */
#ifndef KVSHELF_PAGEFILE_ENGINES_H
#define KVSHELF_PAGEFILE_ENGINES_H

#include "pagefile/file.h"

/* On success the engine has taken `file` over, which may then be forgotten; on failure it is as
 * before. Errors: KVS_ERR_IO_ENGINE (the engine does not work here), KVS_ERR_NO_MEMORY. */
typedef enum kvs_status (*engine_take_fn)(struct page_file *file,
                                          const struct pagefile_options *options,
                                          struct pagefile **ret_file, struct kvs_error *error);
enum kvs_status posix_take(struct page_file *file, const struct pagefile_options *options,
                           struct pagefile **ret_file, struct kvs_error *error);
enum kvs_status uring_take(struct page_file *file, const struct pagefile_options *options,
                           struct pagefile **ret_file, struct kvs_error *error);

/* Opens the file and has the engine take it. */
enum kvs_status engine_open(engine_take_fn take, const struct pagefile_options *options,
                            struct pagefile **ret_file, struct kvs_error *error);

#endif
