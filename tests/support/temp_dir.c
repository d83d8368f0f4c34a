/* Temporary directories by mkdtemp, removed by nftw. */
#include "support/temp_dir.h"

#include "support/unit.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

const char *temp_dir_make(char path[TEMP_DIR_MAX])
{
    snprintf(path, TEMP_DIR_MAX, "/tmp/kvshelf-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about, (void)kind, (void)place;
    return remove(path);
}

void temp_dir_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
