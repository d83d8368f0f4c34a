/* Verifying every committed page at rest: catalogs of a directory against their page files. The
 * work without a command line; scrub.c has that.
 *
 * The directory is locked and its catalogs are opened as a start of an engine would, so that what a
 * killed process has left is what is verified. Pages are read from the storage (what lies in this
 * machine's page cache is dropped first, or passed by), twice before one is called wrong. Page
 * files are not written to. */
#ifndef KVSHELF_CLI_SCRUB_H
#define KVSHELF_CLI_SCRUB_H

#include "base/log.h"
#include "kvshelf/kvshelf.h"

struct scrub_request {
    const char *dir;    /* of the catalogs */
    const char *prefix; /* of the page files; NULL: they are looked for in `dir` */
    uint32_t threads;
    bool repair; /* drops the pages that are wrong */
    struct logger log;
};

struct scrub_page {
    uint32_t page;
    uint64_t generation;
};

struct scrub_catalog {
    uint32_t rank;
    char *ns, *path; /* path: of the page file, NULL when it was not found */
    char engine[16], filesystem[16];
    bool direct;
    uint64_t bytes_per_page, committed;
    /* Pages; after a whole run the first four add up to `committed`. */
    uint64_t verified, unchecked, wrong, unreadable;
    uint64_t dropped; /* of the wrong ones */
    uint64_t bytes, duration_ns;
    struct scrub_page *found; /* the wrong ones, ascending */
    int read_errno;           /* of the first unreadable page */
    struct kvs_error error;   /* status KVS_OK, or why it was not verified or repaired */
};

struct scrub_report {
    struct scrub_catalog *catalogs; /* by rank, then namespace */
    size_t count;
    bool stopped; /* by the caller */
};
void scrub_report_done(struct scrub_report *report);

/* Pages and bytes looked at so far; false stops. */
typedef bool (*scrub_progress_fn)(void *arg, uint64_t pages, uint64_t total, uint64_t bytes);

/* One that cannot be verified has its error; the others are verified all the same. Errors, before
 * anything is read: KVS_ERR_CATALOG_NONE, those of registry_open(), KVS_ERR_NO_MEMORY.
 * `*ret_report` is ended with scrub_report_done(), on failure too. */
enum kvs_status scrub_run(const struct scrub_request *request, scrub_progress_fn progress,
                          void *progress_arg, struct scrub_report *ret_report,
                          struct kvs_error *error);

/* ---- scrub_file.c */
/* The path of the page file of (rank, ns), which is there and a regular file; the caller frees it.
 * Errors: KVS_ERR_SCRUB_FILE, KVS_ERR_FILE_OPEN, KVS_ERR_NO_MEMORY. */
enum kvs_status scrub_find_file(const struct scrub_request *request, uint32_t rank, const char *ns,
                                char **ret_path, uint64_t *ret_bytes, struct kvs_error *error);

#endif
