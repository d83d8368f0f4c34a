/* What follows from the kind of file system that pages or catalogs are on, in words. The decision
 * is that of pagefile/filesystem.h, by statfs(2); `doctor` and `stat` state it. */
#ifndef KVSHELF_CLI_FILESYSTEM_TEXT_H
#define KVSHELF_CLI_FILESYSTEM_TEXT_H

#include "pagefile/filesystem.h"

/* Of page files: who sees what was written, and when calls end. Sentences; static storage. */
const char *filesystem_visibility(const struct filesystem *filesystem);
/* Of kept catalogs, which only one process has. A clause; static storage. */
const char *filesystem_catalog_visibility(const struct filesystem *filesystem);

#endif
