/* See lock_holder.h. */
#include "cli/lock_holder.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

uint64_t lock_holder(uint64_t device, uint64_t inode)
{
    char place[64];
    snprintf(place, sizeof place, "%02x:%02x:%llu", major(device), minor(device),
             (unsigned long long)inode);
    FILE *locks = fopen("/proc/locks", "re");
    if (locks == NULL)
        return 0;
    char line[256], kind[16], held[64];
    unsigned long long pid, holder = 0;
    while (holder == 0 && fgets(line, sizeof line, locks) != NULL)
        if (sscanf(line, "%*u: %15s %*s %*s %llu %63s", kind, &pid, held) == 3 &&
            strcmp(kind, "FLOCK") == 0 && strcmp(held, place) == 0)
            holder = pid;
    fclose(locks);
    return holder;
}
