/* The catalogs of one process; see registry.h. Finding entries, creating and dropping them, and the
 * thread that writes images behind. What one entry does is in entry.c.
 *
 * Locks, in this order: `admin` (one creation or drop at a time), an entry's two, `table`. The
 * table is locked for a look-up only, never while waiting for an entry: an entry is referenced
 * instead. */
#include "metadata/registry.h"

#include "base/clock.h"
#include "base/status.h"
#include "catalog/live.h"
#include "metadata/directory.h"
#include "metadata/entry.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WRITE_EVERY_S = 1 };

struct registry {
    struct registry_options options;
    struct directory dir;
    bool kept;
    pid_t pid; /* children made by fork() have no thread and must not touch files */

    pthread_mutex_t admin;
    pthread_rwlock_t table;
    struct registry_entry **entries; /* ordered by rank, then namespace */
    size_t count, capacity;

    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t wake_lock;
    pthread_cond_t wake;
    bool stopping;
};

bool registry_is_kept(const struct registry *registry)
{
    return registry->kept;
}

uint64_t registry_now_ms(const struct registry *registry)
{
    return registry->options.boot_ms();
}

/* ---- The table ----*/

static int compare(const struct registry_entry *entry, uint32_t rank, const char *ns,
                   size_t ns_length)
{
    if (entry->rank != rank)
        return entry->rank < rank ? -1 : 1;
    size_t common = entry->ns_length < ns_length ? entry->ns_length : ns_length;
    int order = memcmp(entry->ns, ns, common);
    if (order != 0)
        return order;
    return (entry->ns_length > ns_length) - (entry->ns_length < ns_length);
}

/* The first entry that is not before (rank, ns). */
static size_t table_position(const struct registry *registry, uint32_t rank, const char *ns,
                             size_t ns_length, bool *ret_found)
{
    size_t low = 0, high = registry->count;
    *ret_found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(registry->entries[middle], rank, ns, ns_length);
        *ret_found |= order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The entry with a reference, or NULL. */
static struct registry_entry *table_find(struct registry *registry, uint32_t rank, const char *ns,
                                         size_t ns_length)
{
    struct registry_entry *entry = NULL;
    bool found;
    pthread_rwlock_rdlock(&registry->table);
    size_t at = table_position(registry, rank, ns, ns_length, &found);
    if (found) {
        entry = registry->entries[at];
        atomic_fetch_add(&entry->references, 1);
    }
    pthread_rwlock_unlock(&registry->table);
    return entry;
}

/* Room for one more entry, so that inserting cannot fail. Under `admin`. */
static bool table_reserve(struct registry *registry)
{
    bool room = true;
    pthread_rwlock_wrlock(&registry->table);
    if (registry->count == registry->capacity) {
        size_t capacity = registry->capacity == 0 ? 16 : 2 * registry->capacity;
        struct registry_entry **more =
            realloc(registry->entries, capacity * sizeof(struct registry_entry *));
        room = more != NULL;
        if (room) {
            registry->entries = more;
            registry->capacity = capacity;
        }
    }
    pthread_rwlock_unlock(&registry->table);
    return room;
}

/* Takes over the caller's reference. */
static void table_insert(struct registry *registry, struct registry_entry *entry)
{
    bool found;
    pthread_rwlock_wrlock(&registry->table);
    size_t at = table_position(registry, entry->rank, entry->ns, entry->ns_length, &found);
    memmove(registry->entries + at + 1, registry->entries + at,
            (registry->count - at) * sizeof(struct registry_entry *));
    registry->entries[at] = entry;
    registry->count++;
    pthread_rwlock_unlock(&registry->table);
}

/* Ends the table's reference. */
static void table_remove(struct registry *registry, struct registry_entry *entry)
{
    bool found;
    pthread_rwlock_wrlock(&registry->table);
    size_t at = table_position(registry, entry->rank, entry->ns, entry->ns_length, &found);
    registry->count--;
    memmove(registry->entries + at, registry->entries + at + 1,
            (registry->count - at) * sizeof(struct registry_entry *));
    pthread_rwlock_unlock(&registry->table);
    entry_release(entry);
}

/* Calls `each` for every entry there is at this moment, in order, with no lock held. Entries may be
 * dropped meanwhile. */
static bool for_each(struct registry *registry,
                     void (*each)(struct registry_entry *entry, void *arg), void *arg)
{
    pthread_rwlock_rdlock(&registry->table);
    size_t n = registry->count;
    struct registry_entry **entries = malloc(n * sizeof(struct registry_entry *) + 1);
    if (entries != NULL && n > 0)
        memcpy(entries, registry->entries, n * sizeof(struct registry_entry *));
    for (size_t i = 0; entries != NULL && i < n; i++)
        atomic_fetch_add(&entries[i]->references, 1);
    pthread_rwlock_unlock(&registry->table);
    if (entries == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        each(entries[i], arg);
        entry_release(entries[i]);
    }
    free(entries);
    return true;
}

/* ---- Writing behind ----*/

static void tick(struct registry_entry *entry, void *arg)
{
    (void)arg;
    if (entry->options->idle_reset_ms > 0)
        entry_look_for_life(entry);
    entry_write(entry, ENTRY_GIVES_WAY, NULL); /* a failure is logged there */
}

/* Waits for the next second; false when the registry is closing. */
static bool wait_for_tick(struct registry *registry)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WRITE_EVERY_S;
    pthread_mutex_lock(&registry->wake_lock);
    int woken = 0;
    while (!registry->stopping && woken == 0)
        woken = pthread_cond_timedwait(&registry->wake, &registry->wake_lock, &until);
    bool go_on = !registry->stopping;
    pthread_mutex_unlock(&registry->wake_lock);
    return go_on;
}

static void *write_behind(void *arg)
{
    struct registry *registry = arg;
    pthread_setname_np(pthread_self(), "kvshelf-image");
    while (wait_for_tick(registry))
        for_each(registry, tick, NULL);
    return NULL;
}

static enum kvs_status start_thread(struct registry *registry, struct kvs_error *error)
{
    if (!registry->kept && registry->options.idle_reset_ms == 0)
        return KVS_OK;
    /* The host's signals are not for our threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    registry->thread_runs = pthread_create(&registry->thread, NULL, write_behind, registry) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!registry->thread_runs)
        return error_set(error, KVS_ERR_NO_MEMORY, "starting the thread that writes images");
    return KVS_OK;
}

static void stop_thread(struct registry *registry)
{
    if (!registry->thread_runs)
        return;
    pthread_mutex_lock(&registry->wake_lock);
    registry->stopping = true;
    pthread_cond_signal(&registry->wake);
    pthread_mutex_unlock(&registry->wake_lock);
    pthread_join(registry->thread, NULL);
    registry->thread_runs = false;
}

struct sync_result {
    enum kvs_status status;
    struct kvs_error *error;
};

static void sync_one(struct registry_entry *entry, void *arg)
{
    struct sync_result *result = arg;
    struct kvs_error error;
    if (entry->options->idle_reset_ms > 0)
        entry_look_for_life(entry);
    enum kvs_status status = entry_write(entry, ENTRY_HURRIES, &error);
    if (status == KVS_OK || result->status != KVS_OK)
        return;
    result->status = status;
    if (result->error != NULL)
        *result->error = error;
}

enum kvs_status registry_sync(struct registry *registry, struct kvs_error *error)
{
    struct sync_result result = {KVS_OK, error};
    if (!for_each(registry, sync_one, &result))
        return error_set(error, KVS_ERR_NO_MEMORY, "writing images");
    return result.status;
}

/* ---- Opening and closing ----*/

static struct registry *registry_new(const struct registry_options *options)
{
    struct registry *registry = calloc(1, sizeof(*registry));
    if (registry == NULL)
        return NULL;
    registry->options = *options;
    registry->options.dir = NULL; /* the caller's string; registry->dir has its own */
    if (registry->options.boot_ms == NULL)
        registry->options.boot_ms = clock_boot_ms;
    if (registry->options.os == NULL)
        registry->options.os = &image_os_linux;
    if (registry->options.max_namespaces == 0)
        registry->options.max_namespaces = REGISTRY_NAMESPACES_MAX;
    if (registry->options.max_total_pages == 0)
        registry->options.max_total_pages = REGISTRY_TOTAL_PAGES_MAX;
    registry->pid = getpid();
    pthread_mutex_init(&registry->admin, NULL);
    pthread_rwlock_init(&registry->table, NULL);
    pthread_mutex_init(&registry->wake_lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&registry->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    return registry;
}

/* Looks at every header before anything is opened: one bad file must not disturb the others. */
static enum kvs_status check_all(struct registry *registry, char **names, size_t n,
                                 struct kvs_error *error)
{
    struct image_header header;
    uint8_t(*ids)[IMAGE_ID_BYTES] = calloc(n + 1, sizeof(*ids));
    enum kvs_status status = KVS_OK;
    if (ids == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "opening kept catalogs");
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = image_check(&registry->dir.images, names[i], &header, error);
        if (status == KVS_OK)
            memcpy(ids[i], header.id, sizeof(ids[i]));
    }
    if (status == KVS_OK) {
        const struct image_dir *images = &registry->dir.images;
        size_t swept = live_sweep(images->os, images->device, images->inode,
                                  (const uint8_t(*)[IMAGE_ID_BYTES])ids, n);
        if (swept > 0)
            log_line(&registry->options.log, KVS_LOG_INFO,
                     "Removed live arrays whose catalogs are not in %s any more: %zu.",
                     registry->dir.path, swept);
    }
    free(ids);
    return status;
}

static enum kvs_status open_all(struct registry *registry, char **names, size_t n,
                                struct kvs_error *error)
{
    enum kvs_status status = check_all(registry, names, n, error);
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        struct registry_entry *entry;
        status = entry_open(&registry->options, &registry->dir.images, names[i], &entry, error);
        if (status != KVS_OK)
            break;
        if (table_reserve(registry)) {
            table_insert(registry, entry);
        } else {
            entry_release(entry);
            status = error_set(error, KVS_ERR_NO_MEMORY, "opening kept catalogs");
        }
    }
    return status;
}

static enum kvs_status open_directory(struct registry *registry, const char *path,
                                      struct kvs_error *error)
{
    char **names;
    size_t n;
    enum kvs_status status =
        directory_open(&registry->dir, path, registry->options.os, &registry->options.log, error);
    if (status != KVS_OK)
        return status;
    registry->kept = true;
    status = directory_names(&registry->dir, &names, &n, error);
    if (status != KVS_OK)
        return status;
    status = open_all(registry, names, n, error);
    directory_free_names(names, n);
    return status;
}

enum kvs_status registry_open(const struct registry_options *options,
                              struct registry **ret_registry, struct kvs_error *error)
{
    struct registry *registry = registry_new(options);
    if (registry == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "opening catalogs");
    enum kvs_status status = KVS_OK;
    if (options->dir != NULL)
        status = open_directory(registry, options->dir, error);
    if (status == KVS_OK)
        status = start_thread(registry, error);
    if (status != KVS_OK) {
        registry_close(registry);
        return status;
    }
    *ret_registry = registry;
    return KVS_OK;
}

struct registry *registry_close(struct registry *registry)
{
    if (registry == NULL || registry->pid != getpid())
        return NULL;
    stop_thread(registry);
    for (size_t i = 0; i < registry->count; i++) {
        struct kvs_error error;
        if (entry_stop(registry->entries[i], &error) != KVS_OK)
            log_line(&registry->options.log, KVS_LOG_ERROR,
                     "No clean stop of rank %u namespace '%s': %s. %s", registry->entries[i]->rank,
                     registry->entries[i]->ns, error.message,
                     registry->entries[i]->displaced
                         ? "What it held is not kept."
                         : "Nothing is lost unless the machine restarts before the next start.");
        entry_release(registry->entries[i]);
    }
    directory_close(&registry->dir);
    free(registry->entries);
    pthread_cond_destroy(&registry->wake);
    pthread_mutex_destroy(&registry->wake_lock);
    pthread_rwlock_destroy(&registry->table);
    pthread_mutex_destroy(&registry->admin);
    free(registry);
    return NULL;
}

/* ---- Initialize and drop ----*/

/* `replaced`: the entry whose place the new one takes, or NULL. */
static enum kvs_status check_limits(const struct registry *registry,
                                    const struct image_identity *identity,
                                    const struct registry_entry *replaced, struct kvs_error *error)
{
    uint64_t held = 0;
    size_t count = 0;
    for (size_t i = 0; i < registry->count; i++) {
        if (registry->entries[i] == replaced)
            continue;
        held += registry->entries[i]->num_pages;
        count++;
    }
    if (count >= registry->options.max_namespaces)
        return error_set(error, KVS_ERR_TOO_MANY_NAMESPACES, identity->ns, NUM(identity->rank),
                         NUM(registry->options.max_namespaces));
    if (held + identity->num_pages > registry->options.max_total_pages)
        return error_set(error, KVS_ERR_TOO_MANY_PAGES, NUM(identity->num_pages), NUM(held),
                         NUM(registry->options.max_total_pages));
    return KVS_OK;
}

static enum kvs_status create(struct registry *registry, const struct image_identity *identity,
                              struct kvs_error *error)
{
    struct registry_entry *entry;
    enum kvs_status status = check_limits(registry, identity, NULL, error);
    if (status == KVS_OK && !table_reserve(registry))
        status = error_set(error, KVS_ERR_NO_MEMORY, "creating a catalog");
    if (status == KVS_OK)
        status = entry_create(&registry->options, registry->kept ? &registry->dir.images : NULL,
                              identity, &entry, error);
    if (status == KVS_OK)
        table_insert(registry, entry);
    return status;
}

/* Has the entry been idle for so long that it may be given another geometry? Then it is closed to
 * requests, so that none is answered and forgotten while the files are removed. */
static bool begin_reset(struct registry_entry *entry)
{
    uint64_t idle_reset_ms = entry->options->idle_reset_ms;
    if (idle_reset_ms == 0)
        return false;
    entry_look_for_life(entry);
    pthread_mutex_lock(&entry->lock);
    entry->going = entry->options->boot_ms() >= entry->last_busy_ms + idle_reset_ms;
    bool begun = entry->going;
    pthread_mutex_unlock(&entry->lock);
    return begun;
}

static void cancel_reset(struct registry_entry *entry)
{
    pthread_mutex_lock(&entry->lock);
    entry->going = false;
    pthread_mutex_unlock(&entry->lock);
}

static enum kvs_status reset(struct registry *registry, struct registry_entry *entry,
                             const struct image_identity *identity, struct kvs_error *error)
{
    enum kvs_status status = check_limits(registry, identity, entry, error);
    if (status == KVS_OK) {
        log_line(&registry->options.log, KVS_LOG_WARNING,
                 "Resetting rank %u namespace '%s', idle for %llu s, from %llu to %llu pages.",
                 entry->rank, entry->ns,
                 (unsigned long long)(registry->options.idle_reset_ms / 1000),
                 (unsigned long long)entry->num_pages, (unsigned long long)identity->num_pages);
        status = entry_drop(entry, error);
    }
    if (status != KVS_OK) {
        cancel_reset(entry);
        return status;
    }
    table_remove(registry, entry);
    return create(registry, identity, error);
}

/* `entry` is there already. */
static enum kvs_status initialize_again(struct registry *registry, struct registry_entry *entry,
                                        const struct image_identity *identity,
                                        struct kvs_error *error)
{
    pthread_mutex_lock(&entry->lock);
    enum kvs_status status = entry_match(entry, identity->num_pages, identity->bytes_per_page,
                                         identity->fingerprint, error);
    if (status == KVS_OK)
        status = entry_adopt(entry, identity->bytes_per_page, identity->fingerprint, error);
    if (status == KVS_OK)
        entry->last_busy_ms = registry_now_ms(registry);
    bool write = status == KVS_OK && entry->identity_changed;
    pthread_mutex_unlock(&entry->lock);
    if ((status == KVS_ERR_GEOMETRY_DIFFERS || status == KVS_ERR_FINGERPRINT_DIFFERS) &&
        begin_reset(entry))
        return reset(registry, entry, identity, error);
    if (write)
        entry_write(entry, ENTRY_HURRIES,
                    NULL); /* a failure is logged, and tried again every second */
    return status;
}

enum kvs_status registry_initialize(struct registry *registry, uint32_t rank, const char *ns,
                                    uint64_t num_pages, uint64_t bytes_per_page,
                                    const char *fingerprint, struct kvs_error *error)
{
    struct image_identity identity = {rank, ns, num_pages, bytes_per_page,
                                      fingerprint != NULL ? fingerprint : ""};
    if (num_pages == 0 || num_pages > CATALOG_PAGES_MAX)
        return error_set(error, KVS_ERR_CATALOG_GEOMETRY, NUM(num_pages), NUM(CATALOG_PAGES_MAX));
    if (strlen(ns) > IMAGE_NS_MAX)
        return error_set(error, KVS_ERR_NAME_TOO_LONG, "namespace", NUM(strlen(ns)),
                         NUM(IMAGE_NS_MAX));
    if (strlen(identity.fingerprint) > IMAGE_FINGERPRINT_MAX)
        return error_set(error, KVS_ERR_NAME_TOO_LONG, "fingerprint",
                         NUM(strlen(identity.fingerprint)), NUM(IMAGE_FINGERPRINT_MAX));

    pthread_mutex_lock(&registry->admin);
    struct registry_entry *entry = table_find(registry, rank, ns, strlen(ns));
    enum kvs_status status = entry == NULL ? create(registry, &identity, error)
                                           : initialize_again(registry, entry, &identity, error);
    pthread_mutex_unlock(&registry->admin);
    entry_release(entry);
    return status;
}

enum kvs_status registry_drop(struct registry *registry, uint32_t rank, const char *ns,
                              struct kvs_error *error)
{
    pthread_mutex_lock(&registry->admin);
    struct registry_entry *entry = table_find(registry, rank, ns, strlen(ns));
    enum kvs_status status;
    if (entry == NULL)
        status = error_set(error, KVS_ERR_NOT_INITIALIZED_SERVER, NUM(rank), ns, NUM(rank));
    else
        status = entry_drop(entry, error);
    if (entry != NULL && status == KVS_OK)
        table_remove(registry, entry);
    pthread_mutex_unlock(&registry->admin);
    entry_release(entry);
    if (status == KVS_OK)
        log_line(&registry->options.log, KVS_LOG_INFO,
                 "Dropped rank %u namespace '%s': all its keys are forgotten.", rank, ns);
    return status;
}

/* ---- Using entries ----*/

struct registry_entry *registry_lock(struct registry *registry, uint32_t rank, const char *ns,
                                     size_t ns_length)
{
    struct registry_entry *entry = table_find(registry, rank, ns, ns_length);
    if (entry == NULL)
        return NULL;
    pthread_mutex_lock(&entry->lock);
    if (entry->catalog == NULL || entry->going) { /* dropped while we waited, or about to be */
        registry_unlock(entry);
        return NULL;
    }
    entry->last_busy_ms = registry_now_ms(registry);
    return entry;
}

struct catalog *registry_catalog(struct registry_entry *entry)
{
    return entry->catalog;
}

void registry_unlock(struct registry_entry *entry)
{
    pthread_mutex_unlock(&entry->lock);
    entry_release(entry);
}

enum kvs_status registry_check(const struct registry_entry *entry, uint64_t bytes_per_page,
                               const char *fingerprint, struct kvs_error *error)
{
    return entry_match(entry, 0, bytes_per_page, fingerprint, error);
}

struct visit {
    registry_visit_fn fn;
    void *arg;
};

static void visit_one(struct registry_entry *entry, void *arg)
{
    const struct visit *visit = arg;
    pthread_mutex_lock(&entry->lock);
    if (entry->catalog != NULL) {
        uint64_t now_ms = entry->options->boot_ms();
        struct registry_info info = {
            .rank = entry->rank,
            .ns = entry->ns,
            .num_pages = entry->num_pages,
            .bytes_per_page = entry->bytes_per_page,
            .fingerprint = entry->fingerprint,
            .kept = entry->image != NULL,
            .mapped = entry->image != NULL && image_is_mapped(entry->image),
            .image_failing = entry->failing,
            .image_age_ms = entry->image != NULL ? now_ms - entry->written_ms : 0,
            .counts = catalog_counts(entry->catalog, now_ms),
            .totals = *catalog_totals(entry->catalog),
            .memory_bytes = catalog_memory_bytes(entry->catalog),
        };
        visit->fn(visit->arg, &info, entry->catalog);
    }
    pthread_mutex_unlock(&entry->lock);
}

void registry_visit(struct registry *registry, registry_visit_fn visit, void *arg)
{
    struct visit both = {visit, arg};
    if (!for_each(registry, visit_one, &both))
        log_line(&registry->options.log, KVS_LOG_ERROR, "Out of memory while listing namespaces.");
}
