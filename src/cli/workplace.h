/* Where a command puts files while it runs: a directory that was named, or a temporary one that is
 * gone afterwards, also when the command is interrupted. */
#ifndef KVSHELF_CLI_WORKPLACE_H
#define KVSHELF_CLI_WORKPLACE_H

#include "kvshelf/kvshelf.h"

struct workplace {
    char *path;
    bool temporary;
};

/* Takes `dir`, or makes a temporary directory when it is NULL, after checking that its file system
 * has room for `file` of `bytes` bytes; what that file already has counts. Of a `dir` that is
 * missing nothing is made yet. A zero workplace may be closed. Errors: KVS_ERR_FILE_DIRECTORY,
 * KVS_ERR_NO_SPACE, KVS_ERR_NO_MEMORY. */
enum kvs_status workplace_open(struct workplace *place, const char *dir, const char *file,
                               uint64_t bytes, struct kvs_error *error);
/* Removes a temporary directory and the files in it. */
void workplace_close(struct workplace *place);

/* From here on SIGINT and SIGTERM are only noted, for loops to end by; a second one ends the
 * process, but not without removing the temporary directory. */
void workplace_catch_signals(void);
int workplace_stop_signal(void); /* 0: none yet */

#endif
