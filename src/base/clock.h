/* The clocks kvshelf uses. Floors 0 to 2 take the time as an argument; only owners of threads ask.
 */
#ifndef KVSHELF_BASE_CLOCK_H
#define KVSHELF_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_boot_ms(void); /* CLOCK_BOOTTIME, milliseconds: deadlines of pages and leases */
uint64_t clock_mono_ns(void); /* CLOCK_MONOTONIC, nanoseconds: measuring durations */
uint64_t clock_wall_us(void); /* CLOCK_REALTIME, microseconds: where generations start */

#endif
