/* kvshelf stat of a directory of live arrays, which is /dev/shm: what lies there and whose it is.
 */
#ifndef KVSHELF_CLI_STAT_LIVE_H
#define KVSHELF_CLI_STAT_LIVE_H

#include <stdbool.h>

struct cli;

/* /dev/shm, or another directory that holds live arrays. */
bool stat_live_is_meant(const char *path);
/* Prints the list. Returns an exit code. */
int stat_live(const struct cli *cli, const char *path);

#endif
