/* One catalog of a registry; see entry.h. */
#include "metadata/entry.h"

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "metadata/namespace_row.h"

#include <stdlib.h>
#include <string.h>

enum {
    COMPLAIN_MS = 60 * 1000, /* between two log lines about one failing image */
    WORK_NS = 200 * 1000,    /* of writing slots, before others have the core for as long */
};

static uint64_t entry_now(const struct registry_entry *entry)
{
    return entry->options->boot_ms();
}

/* ---- Coming and going ----*/

static struct registry_entry *entry_new(const struct registry_options *options,
                                        const struct image_identity *identity)
{
    struct registry_entry *entry = calloc(1, sizeof(*entry));
    if (entry == NULL)
        return NULL;
    entry->options = options;
    atomic_init(&entry->references, 1);
    entry->rank = identity->rank;
    entry->ns = strdup(identity->ns);
    entry->ns_length = strlen(identity->ns);
    entry->num_pages = identity->num_pages;
    entry->bytes_per_page = identity->bytes_per_page;
    entry->fingerprint = strdup(identity->fingerprint);
    entry->last_busy_ms = entry->written_ms = entry_now(entry);
    pthread_mutex_init(&entry->lock, NULL);
    pthread_mutex_init(&entry->image_lock, NULL);
    if (entry->ns == NULL || entry->fingerprint == NULL)
        return entry_release(entry);
    return entry;
}

struct registry_entry *entry_release(struct registry_entry *entry)
{
    if (entry == NULL || atomic_fetch_sub(&entry->references, 1) > 1)
        return NULL;
    catalog_close(entry->catalog);
    image_close(entry->image);
    pthread_mutex_destroy(&entry->lock);
    pthread_mutex_destroy(&entry->image_lock);
    free(entry->ns);
    free(entry->fingerprint);
    free(entry);
    return NULL;
}

static enum kvs_status open_catalog(struct registry_entry *entry, enum catalog_origin *ret_origin,
                                    struct kvs_error *error)
{
    const struct registry_options *options = entry->options;
    struct catalog_options catalog_options = {
        .num_pages = (uint32_t)entry->num_pages,
        .eviction = options->eviction,
        .reserve_ttl_ms = options->reserve_ttl_ms,
        .quarantine_ms = options->quarantine_ms,
        .lease_ms = options->lease_ms,
        .foreign_writers = options->foreign_writers,
        .wall_us = clock_wall_us(),
        .origin = CATALOG_NEW,
    };
    if (image_os_random(&catalog_options.hash_seed, sizeof(catalog_options.hash_seed)) != 0)
        return error_set(error, KVS_ERR_INTERNAL, "the kernel gives no random numbers");
    if (entry->image != NULL)
        image_fill_options(entry->image, &catalog_options);
    *ret_origin = catalog_options.origin;
    return catalog_open(&catalog_options, entry_now(entry), &entry->catalog, error);
}

static void say_opened(struct registry_entry *entry, enum catalog_origin origin)
{
    static const char *const how[] = {
        [CATALOG_NEW] = "new",
        [CATALOG_CLEAN] = "after a clean stop",
        [CATALOG_KILLED] = "after its process was killed; nothing is missing",
        [CATALOG_POWER_LOST] =
            "after a power cut or the loss of /dev/shm: its last second may be missing",
    };
    struct catalog_counts counts = catalog_counts(entry->catalog, entry_now(entry));
    log_line(&entry->options->log, origin == CATALOG_POWER_LOST ? KVS_LOG_WARNING : KVS_LOG_INFO,
             "Opened %s: rank %u namespace '%s', %s page%s, %s of them committed; %s.",
             image_path(entry->image), entry->rank, entry->ns, COUNT(entry->num_pages),
             entry->num_pages == 1 ? "" : "s", COUNT(counts.committed), how[origin]);
}

static enum kvs_status begin(struct registry_entry *entry, enum catalog_origin origin,
                             struct kvs_error *error)
{
    enum kvs_status status =
        image_begin(entry->image, catalog_unsettled_until_ms(entry->catalog), error);
    if (status != KVS_OK)
        return status;
    /* What a process that was killed had not written yet is not known. That its live array is used
     * does not show in the origin, which may be an earlier start's. */
    if (origin >= CATALOG_KILLED)
        catalog_mark_all_changed(entry->catalog);
    entry->written_state = *image_state(entry->image);
    say_opened(entry, origin);
    return KVS_OK;
}

enum kvs_status entry_open(const struct registry_options *options, const struct image_dir *dir,
                           const char *name, struct registry_entry **ret_entry,
                           struct kvs_error *error)
{
    struct image *image;
    enum kvs_status status = image_open(dir, name, options->boot_ms(), &image, error);
    if (status != KVS_OK)
        return status;
    struct image_identity identity = image_identity(image);
    struct registry_entry *entry = entry_new(options, &identity);
    if (entry == NULL) {
        image_close(image);
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a kept catalog");
    }
    entry->image = image;
    enum catalog_origin origin;
    status = open_catalog(entry, &origin, error);
    if (status == KVS_OK)
        status = begin(entry, origin, error);
    if (status != KVS_OK) {
        entry_release(entry);
        return status;
    }
    *ret_entry = entry;
    return KVS_OK;
}

static enum kvs_status create_in_memory(const struct registry_options *options,
                                        const struct image_identity *identity,
                                        struct registry_entry **ret_entry, struct kvs_error *error)
{
    struct registry_entry *entry = entry_new(options, identity);
    if (entry == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "creating a catalog");
    enum catalog_origin origin;
    enum kvs_status status = open_catalog(entry, &origin, error);
    if (status != KVS_OK) {
        entry_release(entry);
        return status;
    }
    *ret_entry = entry;
    return KVS_OK;
}

enum kvs_status entry_create(const struct registry_options *options, const struct image_dir *dir,
                             const struct image_identity *identity,
                             struct registry_entry **ret_entry, struct kvs_error *error)
{
    if (dir == NULL)
        return create_in_memory(options, identity, ret_entry, error);
    char name[IMAGE_NAME_BYTES];
    if (!image_file_name(identity->rank, identity->ns, name))
        return error_set(error, KVS_ERR_NO_MEMORY, "creating a catalog");
    enum kvs_status status = image_create(dir, identity, error);
    if (status != KVS_OK)
        return status;
    status = entry_open(options, dir, name, ret_entry, error);
    if (status != KVS_OK)
        image_discard(dir, name); /* nobody has it, and it would be in the way of a second try */
    return status;
}

/* ---- Identity ----*/

enum kvs_status entry_match(const struct registry_entry *entry, uint64_t num_pages,
                            uint64_t bytes_per_page, const char *fingerprint,
                            struct kvs_error *error)
{
    const struct namespace_row held = {.rank = entry->rank,
                                       .num_pages = entry->num_pages,
                                       .bytes_per_page = entry->bytes_per_page};
    enum kvs_status status =
        namespace_row_match(&held, entry->ns, num_pages, bytes_per_page, error);
    if (status != KVS_OK)
        return status;
    if (fingerprint != NULL && fingerprint[0] != 0 && entry->fingerprint[0] != 0 &&
        strcmp(fingerprint, entry->fingerprint) != 0)
        return error_set(error, KVS_ERR_FINGERPRINT_DIFFERS, NUM(entry->rank), entry->ns,
                         entry->fingerprint, fingerprint);
    return KVS_OK;
}

enum kvs_status entry_adopt(struct registry_entry *entry, uint64_t bytes_per_page,
                            const char *fingerprint, struct kvs_error *error)
{
    bool adopt_bytes = bytes_per_page != 0 && entry->bytes_per_page == 0;
    bool adopt_fingerprint =
        fingerprint != NULL && fingerprint[0] != 0 && entry->fingerprint[0] == 0;
    if (adopt_fingerprint) {
        char *copy = strdup(fingerprint);
        if (copy == NULL)
            return error_set(error, KVS_ERR_NO_MEMORY, "initializing a namespace");
        free(entry->fingerprint);
        entry->fingerprint = copy;
    }
    if (adopt_bytes)
        entry->bytes_per_page = bytes_per_page;
    entry->identity_changed |= adopt_bytes || adopt_fingerprint;
    return KVS_OK;
}

void entry_look_for_life(struct registry_entry *entry)
{
    pthread_mutex_lock(&entry->lock);
    uint64_t now_ms = entry_now(entry);
    if (entry->catalog != NULL && !catalog_is_quiet(entry->catalog, now_ms))
        entry->last_busy_ms = now_ms;
    pthread_mutex_unlock(&entry->lock);
}

/* ---- Writing behind ----*/

/* A thread that works as long as it may has its core until the scheduler's next tick, 4 ms with 250
 * of them a second, and a request may be waiting for that core. One that sleeps after a little work
 * loses it at once to whoever wants it, and is never starved, as one of low priority would be. */
static void give_way(const struct registry_entry *entry, uint64_t *since_ns)
{
    if (clock_mono_ns() - *since_ns < WORK_NS)
        return;
    entry->options->os->pause(WORK_NS);
    *since_ns = clock_mono_ns();
}

/* Copies and writes every changed slot, without the lock: a thread that loses the processor with it
 * in its hand holds all requests up. The catalog stays, as image_lock is held. */
static enum kvs_status write_slots(struct registry_entry *entry, enum entry_manner manner,
                                   bool *ret_wrote, struct kvs_error *error)
{
    struct catalog_copy copy;
    uint64_t since_ns = clock_mono_ns();
    uint32_t cursor = 0;
    bool more = true;
    *ret_wrote = false;
    while (more) {
        if (manner == ENTRY_GIVES_WAY)
            give_way(entry, &since_ns);
        more = catalog_copy_changed(entry->catalog, &cursor, &copy);
        *ret_wrote |= copy.count > 0;
        enum kvs_status status = image_write(entry->image, &copy, error);
        if (status != KVS_OK)
            return status;
    }
    return KVS_OK;
}

/* What goes into the header: the state as it is now, which is later than every slot written, and
 * the identity. */
static enum kvs_status commit(struct registry_entry *entry, bool wrote, struct kvs_error *error)
{
    pthread_mutex_lock(&entry->lock);
    struct catalog_state state = *image_state(entry->image);
    bool identity_changed = entry->identity_changed;
    if (identity_changed)
        image_set_identity(entry->image, entry->bytes_per_page, entry->fingerprint);
    entry->identity_changed = false;
    pthread_mutex_unlock(&entry->lock);

    bool same = memcmp(&state, &entry->written_state, sizeof(state)) == 0;
    if (!wrote && same && !identity_changed && !entry->failing)
        return KVS_OK;
    enum kvs_status status = image_commit(entry->image, &state, error);
    if (status == KVS_OK)
        entry->written_state = state;
    return status;
}

/* After a failure nobody knows what reached the disk, so everything is written again. */
static void note_result(struct registry_entry *entry, enum kvs_status status, uint64_t started_ms,
                        const struct kvs_error *error)
{
    pthread_mutex_lock(&entry->lock);
    bool failed_before = entry->failing;
    entry->failing = status != KVS_OK;
    entry->displaced = status == KVS_ERR_CATALOG_DISPLACED;
    if (status == KVS_OK)
        entry->written_ms = started_ms;
    else
        catalog_mark_all_changed(entry->catalog);
    pthread_mutex_unlock(&entry->lock);

    const struct logger *log = &entry->options->log;
    if (status == KVS_OK && failed_before) {
        log_line(log, KVS_LOG_INFO, "%s is written again.", image_path(entry->image));
    } else if (status != KVS_OK &&
               (!failed_before || started_ms - entry->complained_ms >= COMPLAIN_MS)) {
        entry->complained_ms = started_ms;
        log_line(log, KVS_LOG_ERROR, "%s. %s; the write is tried again every second.",
                 error->message,
                 status == KVS_ERR_CATALOG_DISPLACED
                     ? "Nothing is kept from now on"
                     : "The catalog is safe against a crash of this process, not against a power "
                       "cut");
    }
}

/* Under image_lock. A file that was removed or cut has been made anew: all slots go into it. */
static enum kvs_status look_after_image(struct registry_entry *entry, struct kvs_error *error)
{
    enum image_loss loss = IMAGE_KEPT;
    enum kvs_status status = image_look_after(entry->image, &loss, error);
    if (status != KVS_OK || loss == IMAGE_KEPT)
        return status;
    pthread_mutex_lock(&entry->lock);
    catalog_mark_all_changed(entry->catalog);
    pthread_mutex_unlock(&entry->lock);
    log_line(&entry->options->log, KVS_LOG_WARNING,
             "%s was %s while it was in use, and is written anew from memory.",
             image_path(entry->image), loss == IMAGE_CUT ? "cut" : "removed");
    return status;
}

/* Under image_lock. */
static enum kvs_status write_locked(struct registry_entry *entry, enum entry_manner manner,
                                    struct kvs_error *error)
{
    struct kvs_error own;
    error = error != NULL ? error : &own;
    uint64_t started_ms = entry_now(entry);
    bool wrote = false;
    enum kvs_status status = look_after_image(entry, error);
    if (status == KVS_OK)
        status = write_slots(entry, manner, &wrote, error);
    if (status == KVS_OK)
        status = commit(entry, wrote, error);
    note_result(entry, status, started_ms, error);
    return status;
}

enum kvs_status entry_write(struct registry_entry *entry, enum entry_manner manner,
                            struct kvs_error *error)
{
    enum kvs_status status = KVS_OK;
    pthread_mutex_lock(&entry->image_lock);
    if (entry->image != NULL)
        status = write_locked(entry, manner, error);
    pthread_mutex_unlock(&entry->image_lock);
    return status;
}

/* ---- Ending ----*/

static enum kvs_status stop_kept(struct registry_entry *entry, struct kvs_error *error)
{
    enum kvs_status status = write_locked(entry, ENTRY_HURRIES, error);
    if (status != KVS_OK)
        return status;
    if (catalog_unsettled_until_ms(entry->catalog) <= entry_now(entry))
        image_settled(entry->image);
    uint32_t count = (uint32_t)catalog_counts(entry->catalog, entry_now(entry)).committed;
    uint32_t *recency = count == 0 ? NULL : malloc(count * sizeof(*recency));
    if (recency != NULL)
        count = catalog_recency(entry->catalog, recency);
    else
        count = 0; /* the order of generations stands in */
    /* The counting may have let deadlines pass. */
    status = write_locked(entry, ENTRY_HURRIES, error);
    if (status == KVS_OK)
        status = image_stop(entry->image, recency, count, error);
    free(recency);
    return status;
}

enum kvs_status entry_stop(struct registry_entry *entry, struct kvs_error *error)
{
    enum kvs_status status = KVS_OK;
    pthread_mutex_lock(&entry->image_lock);
    if (entry->image != NULL)
        status = stop_kept(entry, error);
    pthread_mutex_lock(&entry->lock);
    entry->catalog = catalog_close(entry->catalog);
    pthread_mutex_unlock(&entry->lock);
    entry->image = image_close(entry->image);
    pthread_mutex_unlock(&entry->image_lock);
    return status;
}

/* Closed to whoever is not in it yet, or open again. */
static void set_going(struct registry_entry *entry, bool going)
{
    pthread_mutex_lock(&entry->lock);
    entry->going = going;
    pthread_mutex_unlock(&entry->lock);
}

/* Removing waits for the disk, which requests must not do: they find the namespace gone before. */
enum kvs_status entry_drop(struct registry_entry *entry, struct kvs_error *error)
{
    enum kvs_status status = KVS_OK;
    pthread_mutex_lock(&entry->image_lock);
    set_going(entry, true);
    if (entry->image != NULL)
        status = image_remove(entry->image, error);
    if (status == KVS_OK) {
        pthread_mutex_lock(&entry->lock);
        entry->catalog = catalog_close(entry->catalog);
        pthread_mutex_unlock(&entry->lock);
        entry->image = image_close(entry->image);
    } else {
        set_going(entry, false);
    }
    pthread_mutex_unlock(&entry->image_lock);
    return status;
}
