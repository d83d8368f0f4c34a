/* Reads the committed pages of every catalog and compares checksums; see scrub.h. */
#include "base/clock.h"
#include "base/status.h"
#include "cli/scrub.h"
#include "cli/stat_read.h"
#include "metadata/registry.h"
#include "pagefile/pagefile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_BYTES = 64 << 20,
    BATCH_PAGES_MAX = 4096,
    ENTRIES = 4, /* reads under way for each thread */
    REST_MS = 60000,
    PAGE_ALIGNMENT = 4096,
};

struct target {
    uint32_t page;
    uint64_t generation, checksum;
};

struct run {
    const struct scrub_request *request;
    struct registry *registry;
    scrub_progress_fn progress;
    void *progress_arg;
    uint64_t pages, total, bytes; /* over all catalogs */
    bool stopped;
};

/* One catalog under way. */
struct pass {
    struct run *run;
    struct scrub_catalog *catalog;
    struct pagefile *file;
    uint8_t *memory;
    uint64_t stride;
    size_t batch_pages;
    struct target *targets; /* batch_pages */
    size_t found_capacity;
};

/* ---- What there is ---------------------------------------------------------------------------*/

static void count_catalog(void *arg, const struct registry_info *info, struct catalog *catalog)
{
    (void)info, (void)catalog;
    ++*(size_t *)arg;
}

struct listing {
    struct run *run;
    struct scrub_report *report;
    size_t capacity;
    bool failed;
};

static void list_catalog(void *arg, const struct registry_info *info, struct catalog *catalog)
{
    (void)catalog;
    struct listing *listing = arg;
    if (listing->report->count == listing->capacity)
        return;
    struct scrub_catalog *out = &listing->report->catalogs[listing->report->count++];
    *out = (struct scrub_catalog){.rank = info->rank,
                                  .ns = strdup(info->ns),
                                  .bytes_per_page = info->bytes_per_page,
                                  .committed = info->counts.committed};
    listing->failed = listing->failed || out->ns == NULL;
    listing->run->total += info->counts.committed;
}

static enum kvs_status list(struct run *run, struct scrub_report *report, struct kvs_error *error)
{
    struct listing listing = {.run = run, .report = report};
    registry_visit(run->registry, count_catalog, &listing.capacity);
    report->catalogs = calloc(listing.capacity + 1, sizeof *report->catalogs);
    if (report->catalogs != NULL)
        registry_visit(run->registry, list_catalog, &listing);
    if (report->catalogs == NULL || listing.failed)
        return error_set(error, KVS_ERR_NO_MEMORY, "listing catalogs");
    return KVS_OK;
}

/* The next pages with a checksum, from *cursor on; 0 at the end. Nobody else changes the catalog:
 * the directory is locked. */
static size_t take_targets(struct pass *pass, uint32_t *cursor)
{
    struct scrub_catalog *catalog = pass->catalog;
    struct registry_entry *entry =
        registry_lock(pass->run->registry, catalog->rank, catalog->ns, strlen(catalog->ns));
    if (entry == NULL)
        return 0;
    const struct catalog *pages = registry_catalog(entry);
    uint32_t num_pages = catalog_num_pages(pages);
    size_t n = 0;
    for (; *cursor < num_pages && n < pass->batch_pages; ++*cursor) {
        const struct slot *slot = catalog_slot(pages, *cursor);
        if (!catalog_holds_key(pages, *cursor))
            continue;
        if (slot_has_checksum(slot) && catalog->bytes_per_page != 0) {
            pass->targets[n++] = (struct target){*cursor, slot->generation, slot->value};
        } else {
            catalog->unchecked++;
            pass->run->pages++;
        }
    }
    registry_unlock(entry);
    return n;
}

/* ---- Reading ---------------------------------------------------------------------------------*/

enum verdict { HOLDS, WRONG, UNREADABLE };

static enum verdict judge(const struct page_io *io, const struct target *target)
{
    if (io->result < 0)
        return UNREADABLE;
    return (uint64_t)io->result == io->length && io->checksum == target->checksum ? HOLDS : WRONG;
}

static enum kvs_status note(struct pass *pass, const struct target *target, enum verdict verdict,
                            int failure, struct kvs_error *error)
{
    struct scrub_catalog *catalog = pass->catalog;
    if (verdict == UNREADABLE) {
        if (catalog->unreadable++ == 0)
            catalog->read_errno = failure;
        return KVS_OK;
    }
    if (catalog->wrong == pass->found_capacity) {
        size_t capacity = pass->found_capacity == 0 ? 64 : 2 * pass->found_capacity;
        struct scrub_page *more = realloc(catalog->found, capacity * sizeof *more);
        if (more == NULL)
            return error_set(error, KVS_ERR_NO_MEMORY, "noting wrong pages");
        catalog->found = more;
        pass->found_capacity = capacity;
    }
    catalog->found[catalog->wrong++] = (struct scrub_page){target->page, target->generation};
    return KVS_OK;
}

static void read_all(const struct pass *pass, struct page_batch *batch, size_t n)
{
    struct page_io *ios = page_batch_ios(batch);
    uint64_t length = pass->catalog->bytes_per_page;
    for (size_t i = 0; i < n; i++)
        ios[i] = (struct page_io){.tag = i,
                                  .offset = pass->targets[i].page * length,
                                  .buffer = pass->memory + i * pass->stride,
                                  .length = length,
                                  .want_checksum = true,
                                  .uncached = true};
    pass->file->ops->run(pass->file, batch, 0);
}

/* Reads n pages. Those that do not hold are moved to the front of the targets; how many. */
static enum kvs_status read_once(struct pass *pass, size_t n, bool last, size_t *ret_left,
                                 struct kvs_error *error)
{
    struct page_batch *batch = page_batch_new(PAGE_READ, n, NULL, NULL);
    if (batch == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "reading pages");
    read_all(pass, batch, n);
    enum kvs_status status = KVS_OK;
    const struct page_io *ios = page_batch_ios(batch);
    size_t left = 0;
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        enum verdict verdict = judge(&ios[i], &pass->targets[i]);
        if (ios[i].result > 0)
            pass->catalog->bytes += (uint64_t)ios[i].result;
        if (verdict == HOLDS)
            pass->catalog->verified++;
        else if (last)
            status = note(pass, &pass->targets[i], verdict, (int)-ios[i].result, error);
        else
            pass->targets[left++] = pass->targets[i];
    }
    page_batch_abandon(batch);
    *ret_left = left;
    return status;
}

static enum kvs_status read_pages(struct pass *pass, struct kvs_error *error)
{
    struct run *run = pass->run;
    uint32_t cursor = 0;
    size_t n;
    enum kvs_status status = KVS_OK;
    while (status == KVS_OK && !run->stopped && (n = take_targets(pass, &cursor)) > 0) {
        uint64_t before = pass->catalog->bytes;
        size_t left;
        status = read_once(pass, n, false, &left, error);
        if (status == KVS_OK && left > 0)
            status = read_once(pass, left, true, &left, error);
        run->pages += n;
        run->bytes += pass->catalog->bytes - before;
        run->stopped = !run->progress(run->progress_arg, run->pages, run->total, run->bytes);
    }
    return status;
}

/* ---- One catalog -----------------------------------------------------------------------------*/

static enum kvs_status prepare(struct pass *pass, uint64_t bytes_per_page, struct kvs_error *error)
{
    uint64_t page = bytes_per_page == 0 ? 1 : bytes_per_page;
    pass->stride = (page + PAGE_ALIGNMENT - 1) / PAGE_ALIGNMENT * PAGE_ALIGNMENT;
    pass->batch_pages = BATCH_BYTES / pass->stride;
    if (pass->batch_pages < 2)
        pass->batch_pages = 2;
    if (pass->batch_pages > BATCH_PAGES_MAX)
        pass->batch_pages = BATCH_PAGES_MAX;
    pass->targets = calloc(pass->batch_pages, sizeof *pass->targets);
    pass->memory = aligned_alloc(PAGE_ALIGNMENT, pass->batch_pages * pass->stride);
    if (pass->targets == NULL || pass->memory == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "reading pages");
    return KVS_OK;
}

static enum kvs_status open_file(struct pass *pass, struct kvs_error *error)
{
    struct scrub_catalog *catalog = pass->catalog;
    uint64_t file_bytes = 0;
    enum kvs_status status = scrub_find_file(pass->run->request, catalog->rank, catalog->ns,
                                             &catalog->path, &file_bytes, error);
    if (status != KVS_OK)
        return status;
    /* The size it has: it is not to grow. */
    const struct pagefile_options options = {.path = catalog->path,
                                             .file_size = file_bytes,
                                             .bytes_per_page = catalog->bytes_per_page,
                                             .threads = pass->run->request->threads,
                                             .entries = ENTRIES,
                                             .direct = KVS_DIRECT_AUTO,
                                             .log = pass->run->request->log};
    status = pagefile_open(KVS_IO_AUTO, &options, &pass->file, error);
    if (status != KVS_OK)
        return status;
    struct pagefile_info info = pass->file->ops->info(pass->file);
    snprintf(catalog->engine, sizeof catalog->engine, "%s", info.engine);
    snprintf(catalog->filesystem, sizeof catalog->filesystem, "%s", info.filesystem);
    catalog->direct = info.direct;
    /* Only clean pages of the cache can be dropped, to read what is at rest. */
    return pass->file->ops->sync(pass->file, error);
}

static enum kvs_status repair(struct pass *pass, struct kvs_error *error)
{
    struct scrub_catalog *catalog = pass->catalog;
    if (catalog->verified == 0 && catalog->wrong > 1)
        return error_set(error, KVS_ERR_SCRUB_ALL_WRONG, NUM(catalog->wrong), catalog->path);
    struct registry *registry = pass->run->registry;
    struct registry_entry *entry =
        registry_lock(registry, catalog->rank, catalog->ns, strlen(catalog->ns));
    if (entry == NULL)
        return error_set(error, KVS_ERR_NOT_INITIALIZED_SERVER, NUM(catalog->rank), catalog->ns,
                         NUM(catalog->rank));
    struct catalog *pages = registry_catalog(entry);
    for (uint64_t i = 0; i < catalog->wrong; i++) {
        const struct slot *slot = catalog_slot(pages, catalog->found[i].page);
        struct key key = {.suffix = slot_suffix(slot)};
        memcpy(key.digest, slot->digest, sizeof key.digest);
        catalog->dropped +=
            catalog_report_mismatch(pages, registry_now_ms(registry), &key, catalog->found[i].page,
                                    catalog->found[i].generation);
    }
    registry_unlock(entry);
    return registry_sync(registry, error);
}

static enum kvs_status scrub_one(struct run *run, struct scrub_catalog *catalog,
                                 struct kvs_error *error)
{
    struct pass pass = {.run = run, .catalog = catalog};
    uint64_t begin_ns = clock_mono_ns();
    enum kvs_status status = prepare(&pass, catalog->bytes_per_page, error);
    /* An empty catalog may be without a file: its engine has been started, and stored nothing. */
    if (status == KVS_OK && catalog->committed > 0)
        status = open_file(&pass, error);
    if (status == KVS_OK && catalog->committed > 0)
        status = read_pages(&pass, error);
    catalog->duration_ns = clock_mono_ns() - begin_ns;
    if (status == KVS_OK && run->request->repair && catalog->wrong > 0)
        status = repair(&pass, error);
    if (pass.file != NULL)
        pass.file->ops->close(pass.file);
    free(pass.memory);
    free(pass.targets);
    return status;
}

/* ---- All -------------------------------------------------------------------------------------*/

void scrub_report_done(struct scrub_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        free(report->catalogs[i].ns);
        free(report->catalogs[i].path);
        free(report->catalogs[i].found);
    }
    free(report->catalogs);
    *report = (struct scrub_report){0};
}

/* Looked at first, because opening a registry makes what is missing. */
static enum kvs_status check_dir(const char *path, struct kvs_error *error)
{
    struct stat_dir dir;
    enum kvs_status status = stat_dir_read(path, &dir, error);
    stat_dir_done(&dir);
    return status;
}

enum kvs_status scrub_run(const struct scrub_request *request, scrub_progress_fn progress,
                          void *progress_arg, struct scrub_report *ret_report,
                          struct kvs_error *error)
{
    struct run run = {.request = request, .progress = progress, .progress_arg = progress_arg};
    *ret_report = (struct scrub_report){0};
    enum kvs_status status = check_dir(request->dir, error);
    if (status != KVS_OK)
        return status;
    /* Whether writers outside the process that kept the catalogs still write is not known here: the
     * caution a server would need is kept for the start after this one. */
    const struct registry_options options = {.dir = request->dir,
                                             .reserve_ttl_ms = REST_MS,
                                             .quarantine_ms = REST_MS,
                                             .foreign_writers = true,
                                             .log = request->log};
    status = registry_open(&options, &run.registry, error);
    if (status != KVS_OK)
        return status;
    status = list(&run, ret_report, error);
    for (size_t i = 0; status == KVS_OK && i < ret_report->count && !run.stopped; i++) {
        struct scrub_catalog *catalog = &ret_report->catalogs[i];
        struct kvs_error failure = {0};
        if (scrub_one(&run, catalog, &failure) != KVS_OK)
            catalog->error = failure;
    }
    ret_report->stopped = run.stopped;
    registry_close(run.registry);
    return status;
}
