/* A metadata client for tests of the store: real catalogs in memory behind one lock, and a script
 * of what goes wrong. It outlives the store that closes it, so that its accounts can be looked at.
 */
#ifndef KVSHELF_TESTS_SUPPORT_FAKE_METADATA_H
#define KVSHELF_TESTS_SUPPORT_FAKE_METADATA_H

#include "metadata/metadata.h"

#include <pthread.h>

enum fake_call {
    FAKE_INITIALIZE,
    FAKE_RESERVE,
    FAKE_CONFIRM,
    FAKE_GET,
    FAKE_EXISTS,
    FAKE_DELETE,
    FAKE_CLEAR,
    FAKE_REPORT,
    FAKE_CALLS,
};

enum { FAKE_CATALOGS_MAX = 16 };

struct fake_metadata {
    struct metadata_client client;
    pthread_mutex_t lock;
    struct fake_catalog {
        uint32_t rank;
        char ns[128], fingerprint[512];
        uint64_t bytes_per_page;
        struct catalog *catalog;
    } catalogs[FAKE_CATALOGS_MAX];
    size_t catalog_count;
    uint64_t now_ms;
    uint64_t reserve_ttl_ms, quarantine_ms;

    /* The script. Set it only while no call is under way. */
    uint64_t fail_nth; /* the nth call from now fails (counted down); 0: none */
    bool failing[FAKE_CALLS];
    int64_t page_offset; /* added to every page that is answered */
    bool drop_checksums; /* get answers pages as if they had none */
    bool no_page_for_v;  /* reserve has none for the V halves of pairs */
    /* Called with no lock held, before the call is made. */
    void (*before)(void *arg, enum fake_call call);
    void *before_arg;

    uint64_t calls[FAKE_CALLS]; /* under the lock */
    uint64_t keys[FAKE_CALLS];
    uint64_t confirmed, released;
    uint32_t closed;
};

void fake_metadata_init(struct fake_metadata *fake);
void fake_metadata_done(struct fake_metadata *fake);
/* Forgets every namespace, as a server that was restarted without its data. */
void fake_metadata_forget(struct fake_metadata *fake);
/* The counts of a namespace; fails the test when the catalog's invariants do not hold. */
struct catalog_counts fake_metadata_counts(struct fake_metadata *fake, uint32_t rank,
                                           const char *ns);
/* The page of a key, -1 when absent. */
int64_t fake_metadata_page(struct fake_metadata *fake, uint32_t rank, const char *ns,
                           const char *key);

#endif
