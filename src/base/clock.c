/* The clocks of Linux in the units kvshelf uses. These clocks cannot fail on any kernel that runs
 * the rest of the program. */
#include "base/clock.h"

#include <time.h>

static uint64_t read_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_boot_ms(void)
{
    return read_ns(CLOCK_BOOTTIME) / 1000000u;
}
uint64_t clock_mono_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}
uint64_t clock_wall_us(void)
{
    return read_ns(CLOCK_REALTIME) / 1000u;
}
