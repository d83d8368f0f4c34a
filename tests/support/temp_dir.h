/* A directory of a test's own, and its removal with all that is in it. */
#ifndef KVSHELF_TESTS_SUPPORT_TEMP_DIR_H
#define KVSHELF_TESTS_SUPPORT_TEMP_DIR_H

enum { TEMP_DIR_MAX = 64 };

/* Makes one under /tmp; returns `path`. */
const char *temp_dir_make(char path[TEMP_DIR_MAX]);
void temp_dir_remove(const char *path);

#endif
