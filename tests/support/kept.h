/* A place for kept catalogs in tests: a directory, a directory that stands for /dev/shm, a clock
 * that is set, and system calls that fail when told to. One place at a time; state is global. */
#ifndef KVSHELF_TESTS_SUPPORT_KEPT_H
#define KVSHELF_TESTS_SUPPORT_KEPT_H

#include "catalog/image_os.h"
#include "kvshelf/kvshelf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEPT_PATH_BYTES = 256, KEPT_LOG_BYTES = 1 << 16 };

struct kept_place {
    char root[KEPT_PATH_BYTES];
    char dir[KEPT_PATH_BYTES]; /* not made yet */
    char shm[KEPT_PATH_BYTES];
    struct image_os os;
};

/* What the system calls of the place do. kept_make() sets all to "no fault". */
struct kept_faults {
    int writes_left;   /* -1: no limit; every pwrite and fdatasync after that many pwrites fails */
    bool syncs_work;   /* ... but fdatasync goes on to work */
    size_t torn_bytes; /* the first write that fails leaves this many bytes of itself */
    int failure;       /* errno of what fails; 0 stands for EIO */
    bool shm_full, disk_full;
    long filesystem;  /* 0: the true one; else the magic number statfs() gives */
    bool tiny_writes; /* each pwrite moves at most 7 bytes, every other one is interrupted */
    bool slow_writes; /* each pwrite takes a millisecond */
};
extern struct kept_faults kept_faults;
/* Called before a directory is synced; kept_make() sets it to NULL. */
extern void (*kept_on_fsync)(void);
extern int kept_writes;        /* pwrites done so far */
extern atomic_int kept_pauses; /* times the processor was left to others; no time passes */

void kept_make(struct kept_place *place);
/* Removes everything. */
void kept_remove(struct kept_place *place);

/* Files in the directory that stands for /dev/shm. */
size_t kept_shm_files(const struct kept_place *place);
/* A power cut, as far as /dev/shm is concerned. */
void kept_lose_shm(const struct kept_place *place);
/* A power cut, as far as the disk is concerned: of everything written to the last image since its
 * last sync, each sector of 512 bytes is there or not. The seed decides which. */
void kept_tear(const char *path, uint64_t seed);

/* A whole file, allocated. */
uint8_t *kept_read_file(const char *path, size_t *ret_length);
void kept_write_file(const char *path, const void *bytes, size_t length);

extern uint64_t kept_clock_ms;
uint64_t kept_boot_ms(void);

extern char kept_log_text[KEPT_LOG_BYTES];
void kept_log(void *arg, enum kvs_log_level level, const char *line);
void kept_log_clear(void);

uint64_t kept_random(uint64_t *seed);

#endif
