/* The words. */
#include "cli/filesystem_text.h"

#include <string.h>

const char *filesystem_visibility(const struct filesystem *filesystem)
{
    if (filesystem->network)
        return "Other machines may have the page file open: a write is on the storage before its "
               "page is confirmed, reads go past this machine's cache where they can, and a call "
               "ends after client_timeout, whether its I/O has ended or not.";
    if (filesystem->in_memory)
        return "Pages take memory, are seen at once by every process of this machine, and are gone "
               "after a restart of it.";
    if (strcmp(filesystem->name, "unknown") == 0)
        return "It is not known to kvshelf and counts as local: for this machine's processes only, "
               "and a call ends when its I/O has ended.";
    return "What is written is seen at once by every process of this machine, and by no other "
           "machine; a call ends when its I/O has ended.";
}

const char *filesystem_catalog_visibility(const struct filesystem *filesystem)
{
    if (filesystem->network)
        return "network or user space: other machines see changes late, locks and syncs cannot be "
               "trusted; kvshelf keeps no catalogs there";
    if (filesystem->in_memory)
        return "memory: seen at once by every process of this machine, gone after a restart of it";
    return "local: what is written is seen at once by every process of this machine, and by no "
           "other machine";
}
