/* The page file, shared by all clients: an array in memory whose I/O takes virtual time. Bytes land
 * one half after the other; I/O may fail, be short, take as long as a reservation, or outlive the
 * call that made it. What was not synced may be lost by a power cut. */
#ifndef KVSHELF_TESTS_SIM_SIM_DISK_H
#define KVSHELF_TESTS_SIM_SIM_DISK_H

#include "pagefile/pagefile.h"
#include "sim_truth.h"

/* How long a store reserves nothing after a batch of writes has failed as a whole. */
enum { DISK_RESTRAINT_US = 1000000 };

void disk_begin(struct chance *chance);

/* Whose I/O it is, and which life a write to a page belongs to. */
struct disk_user {
    struct sim_process *process;
    uint64_t generations[SIM_PAGES_MAX]; /* granted to it last */
    uint32_t under_way;
    uint64_t failed_us; /* on its clock: when a whole batch of writes had failed; 0: the last one
                           did not */
};

/* An engine over the disk for a store of this user; frees itself at close. */
enum kvs_status disk_open(void *user, enum kvs_io_engine engine,
                          const struct pagefile_options *options, struct pagefile **ret_file,
                          struct kvs_error *error);

/* For an original client, in its task: waits until the I/O has ended. *ret_wild: the conditions of
 * P1 do not hold for bytes that were read. Returns bytes moved or -errno. */
int64_t disk_transfer(struct disk_user *user, enum page_direction direction, int64_t page,
                      void *buffer, bool *ret_wild);

/* The user's process has died: what it has under way goes on without it. */
void disk_user_died(struct disk_user *user);

void disk_power_cut(void);
void disk_flush(void);
void disk_rot(void);

#endif
