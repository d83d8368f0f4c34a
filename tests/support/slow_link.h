/* Two network namespaces and a wire between them that is slow, loses, doubles and reorders packets,
 * or is cut. The kernel's TCP on both sides is real and does what it does on such wires: each side
 * has a TUN device, and a thread carries IP packets from one to the other. No privileges but those
 * of a user namespace are needed. */
#ifndef KVSHELF_TESTS_SUPPORT_SLOW_LINK_H
#define KVSHELF_TESTS_SUPPORT_SLOW_LINK_H

#include <stdbool.h>
#include <stdint.h>

#define SLOW_LINK_NEAR "10.213.0.2"
#define SLOW_LINK_FAR  "10.213.0.1"

struct slow_link;

struct slow_link_weather {
    uint32_t delay_us, jitter_us; /* each way; jitter lets packets overtake */
    uint32_t loss_per_mille, double_per_mille;
    bool cut;
};
struct slow_link_counts {
    uint64_t carried, lost, doubled, overtaken;
};

/* Takes the calling thread, and threads it starts from now on, to the near side. Only while the
 * process has one thread. Returns NULL, or why there is no link. */
const char *slow_link_open(uint64_t seed, struct slow_link **ret_link);
/* NULL allowed; returns NULL. */
struct slow_link *slow_link_close(struct slow_link *link);

void slow_link_set(struct slow_link *link, struct slow_link_weather weather);
struct slow_link_counts slow_link_counts(struct slow_link *link);
/* Takes the calling thread to the far side, to start a process there, and back. */
void slow_link_go(struct slow_link *link, bool far);

#endif
