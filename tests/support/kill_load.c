/* The load of the kill test and its check; see kill_load.h. */
#include "support/kill_load.h"

#include "support/kept.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char *const names[] = {"roomy", "tight", "brief"};
static const uint32_t num_pages[] = {KILL_ROOMY_PAGES, KILL_TIGHT_PAGES, KILL_BRIEF_PAGES};
enum { TIGHT = 1, BRIEF = 2, BATCH = 8 };

struct worker {
    struct kill_shared *shared;
    struct registry *registry;
    pthread_rwlock_t *clear_lock; /* one a namespace: clear is alone */
    atomic_ullong *left;
    unsigned number;
    uint64_t seed;
    bool failed;
};

struct kill_shared *kill_shared_new(void)
{
    void *shared = mmap(NULL, sizeof(struct kill_shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? NULL : shared;
}

static bool complain(struct kill_shared *shared, const char *what, const char *ns, unsigned number)
{
    if (shared->wrong[0] == 0)
        snprintf(shared->wrong, sizeof(shared->wrong), "%s: namespace %s, key or page %u", what, ns,
                 number);
    return false;
}

static uint64_t value_of(unsigned number, unsigned attempt)
{
    return (uint64_t)(number + 1) << 32 | (attempt + 2);
}

static struct key key_of(unsigned ns, unsigned number)
{
    char text[80];
    struct key key;
    int length = snprintf(text, sizeof(text), "%060x%04x", number * 2654435761u, number);
    key_parse(&key, text, (size_t)length, names[ns]);
    return key;
}

static struct registry_entry *lock(struct registry *registry, unsigned ns)
{
    return registry_lock(registry, 0, names[ns], strlen(names[ns]));
}

/* ---- Operations. A key belongs to one thread. ----*/

struct batch {
    unsigned ns, n;
    unsigned numbers[BATCH];
    struct key keys[BATCH];
    struct catalog_reserved reserved[BATCH];
};

static void choose(struct worker *worker, unsigned ns, struct batch *batch)
{
    unsigned mine = KILL_KEYS / KILL_THREADS;
    unsigned first = (unsigned)(kept_random(&worker->seed) % (mine - BATCH));
    batch->ns = ns;
    batch->n = 1 + (unsigned)(kept_random(&worker->seed) % BATCH);
    for (unsigned i = 0; i < batch->n; i++) {
        batch->numbers[i] = (first + i) * KILL_THREADS + worker->number;
        batch->keys[i] = key_of(ns, batch->numbers[i]);
    }
}

static struct kill_record *record_of(struct worker *worker, const struct batch *batch, unsigned i)
{
    return &worker->shared->records[batch->ns][batch->numbers[i]];
}

static bool reserve(struct worker *worker, struct batch *batch)
{
    struct registry_entry *entry = lock(worker->registry, batch->ns);
    if (entry == NULL)
        return false;
    enum kvs_status status =
        catalog_reserve(registry_catalog(entry), registry_now_ms(worker->registry), batch->keys,
                        batch->n, true, 0, batch->reserved);
    registry_unlock(entry);
    for (unsigned i = 0; status == KVS_OK && i < batch->n; i++) {
        struct kill_record *record = record_of(worker, batch, i);
        bool given = !batch->reserved[i].present && batch->reserved[i].page >= 0;
        if (given && atomic_load(&record->answered) != 0 && batch->ns != TIGHT)
            return complain(worker->shared, "an answered key is written again", names[batch->ns],
                            batch->numbers[i]);
        if (given)
            atomic_store(&record->answered, 0); /* evicted, as we learn now */
    }
    return status == KVS_OK;
}

/* Writes a page, unless its reservation has expired meanwhile: a writer that comes too late is
 * another test's matter. */
static void write_page(struct worker *worker, unsigned ns, const struct catalog_reserved *reserved,
                       uint64_t value)
{
    struct registry_entry *entry = lock(worker->registry, ns);
    if (entry == NULL)
        return;
    const struct slot *slot = catalog_slot(registry_catalog(entry), (uint32_t)reserved->page);
    if (slot_state(slot) == SLOT_RESERVED && slot->generation == reserved->generation)
        atomic_store(&worker->shared->pages[ns][reserved->page], value);
    registry_unlock(entry);
}

/* Writes the pages of a reserved batch and fills its confirms; returns how many. */
static size_t write_pages(struct worker *worker, const struct batch *batch,
                          struct catalog_confirm confirms[], unsigned which[])
{
    size_t n = 0;
    for (unsigned i = 0; i < batch->n; i++) {
        const struct catalog_reserved *reserved = &batch->reserved[i];
        if (reserved->present || reserved->page < 0)
            continue;
        struct kill_record *record = record_of(worker, batch, i);
        uint64_t value = value_of(batch->numbers[i], atomic_fetch_add(&record->attempts, 1));
        write_page(worker, batch->ns, reserved, value);
        confirms[n] = (struct catalog_confirm){.key = batch->keys[i],
                                               .page = reserved->page,
                                               .has_generation = true,
                                               .has_checksum = true,
                                               .generation = reserved->generation,
                                               .checksum = value};
        which[n++] = i;
    }
    return n;
}

static bool store(struct worker *worker, struct batch *batch)
{
    struct catalog_confirm confirms[BATCH];
    enum catalog_rejection reasons[BATCH];
    unsigned which[BATCH];
    if (!reserve(worker, batch))
        return false;
    size_t n = write_pages(worker, batch, confirms, which);
    struct registry_entry *entry = lock(worker->registry, batch->ns);
    if (entry == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        atomic_store(&record_of(worker, batch, which[i])->pending, confirms[i].checksum);
    catalog_confirm(registry_catalog(entry), registry_now_ms(worker->registry), confirms, n,
                    reasons);
    registry_unlock(entry);
    for (size_t i = 0; i < n; i++) {
        struct kill_record *record = record_of(worker, batch, which[i]);
        if (reasons[i] == CATALOG_ACCEPTED) /* an expired one is not */
            atomic_store(&record->answered, confirms[i].checksum);
        atomic_store(&record->pending, 0);
    }
    atomic_fetch_add(&worker->shared->confirms, n);
    return true;
}

static bool reserve_and_release(struct worker *worker, struct batch *batch)
{
    struct catalog_release releases[BATCH];
    enum catalog_rejection reasons[BATCH];
    size_t n = 0;
    if (!reserve(worker, batch))
        return false;
    for (unsigned i = 0; i < batch->n; i++)
        if (!batch->reserved[i].present && batch->reserved[i].page >= 0)
            releases[n++] = (struct catalog_release){.page = batch->reserved[i].page,
                                                     .has_generation = true,
                                                     .generation = batch->reserved[i].generation};
    struct registry_entry *entry = lock(worker->registry, batch->ns);
    if (entry == NULL)
        return false;
    catalog_release(registry_catalog(entry), registry_now_ms(worker->registry), releases, n,
                    reasons);
    registry_unlock(entry);
    return true;
}

/* By delete, or by reports of a mismatch. */
static bool removal(struct worker *worker, struct batch *batch, bool by_report)
{
    struct catalog_found found[BATCH];
    for (unsigned i = 0; i < batch->n; i++)
        atomic_store(&record_of(worker, batch, i)->pending, KILL_REMOVING);
    struct registry_entry *entry = lock(worker->registry, batch->ns);
    if (entry == NULL)
        return false;
    uint64_t now_ms = registry_now_ms(worker->registry);
    struct catalog *catalog = registry_catalog(entry);
    if (by_report) {
        catalog_get(catalog, now_ms, batch->keys, batch->n, true, found);
        for (unsigned i = 0; i < batch->n; i++)
            if (found[i].page >= 0)
                catalog_report_mismatch(catalog, now_ms, &batch->keys[i], found[i].page,
                                        found[i].generation);
    } else {
        catalog_delete(catalog, now_ms, batch->keys, batch->n);
    }
    registry_unlock(entry);
    for (unsigned i = 0; i < batch->n; i++) {
        atomic_store(&record_of(worker, batch, i)->answered, 0);
        atomic_store(&record_of(worker, batch, i)->pending, 0);
    }
    return true;
}

static bool get(struct worker *worker, struct batch *batch)
{
    struct catalog_found found[BATCH];
    struct registry_entry *entry = lock(worker->registry, batch->ns);
    if (entry == NULL)
        return false;
    catalog_get(registry_catalog(entry), registry_now_ms(worker->registry), batch->keys, batch->n,
                true, found);
    registry_unlock(entry);
    for (unsigned i = 0; i < batch->n; i++) {
        uint64_t answered = atomic_load(&record_of(worker, batch, i)->answered);
        bool there = found[i].page >= 0;
        if ((there && found[i].checksum != answered) ||
            (!there && answered != 0 && batch->ns != TIGHT))
            return complain(worker->shared, "a get contradicts what was answered", names[batch->ns],
                            batch->numbers[i]);
    }
    return true;
}

static bool clear(struct worker *worker, unsigned ns)
{
    struct kill_shared *shared = worker->shared;
    atomic_store(&shared->clearing[ns], true);
    struct registry_entry *entry = lock(worker->registry, ns);
    if (entry == NULL)
        return false;
    catalog_clear(registry_catalog(entry), registry_now_ms(worker->registry));
    registry_unlock(entry);
    for (unsigned i = 0; i < KILL_KEYS; i++)
        atomic_store(&shared->records[ns][i].answered, 0);
    atomic_store(&shared->clearing[ns], false);
    return true;
}

static bool toggle_brief(struct worker *worker)
{
    struct kill_shared *shared = worker->shared;
    bool there = atomic_load(&shared->brief_there);
    atomic_store(&shared->brief_pending, true);
    enum kvs_status status = there ? registry_drop(worker->registry, 0, names[BRIEF], NULL)
                                   : registry_initialize(worker->registry, 0, names[BRIEF],
                                                         KILL_BRIEF_PAGES, 0, NULL, NULL);
    if (status != KVS_OK)
        return complain(shared, there ? "drop fails" : "initialize fails", names[BRIEF], 0);
    atomic_store(&shared->brief_there, !there);
    atomic_store(&shared->brief_pending, false);
    return true;
}

static bool operate(struct worker *worker, unsigned ns)
{
    struct batch batch;
    unsigned what = (unsigned)(kept_random(&worker->seed) % 100);
    choose(worker, ns, &batch);
    if (what < 45)
        return store(worker, &batch);
    if (what < 65)
        return get(worker, &batch);
    if (what < 80)
        return removal(worker, &batch, what < 68);
    if (what < 86)
        return reserve_and_release(worker, &batch);
    if (what < 90)
        return reserve(worker, &batch); /* and never confirmed: expires */
    return registry_sync(worker->registry, NULL) == KVS_OK;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    while (!worker->failed && atomic_load(worker->left) > 0) {
        unsigned ns = (unsigned)(kept_random(&worker->seed) % KILL_NAMESPACES);
        unsigned rare = (unsigned)(kept_random(&worker->seed) % 400);
        bool alone = rare == 0;
        if (alone)
            pthread_rwlock_wrlock(&worker->clear_lock[ns]);
        else
            pthread_rwlock_rdlock(&worker->clear_lock[ns]);
        worker->failed = alone ? !clear(worker, ns) : !operate(worker, ns);
        pthread_rwlock_unlock(&worker->clear_lock[ns]);
        if (worker->number == 0 && rare < 8 && !worker->failed)
            worker->failed = !toggle_brief(worker);
        atomic_fetch_add(&worker->shared->operations, 1);
        if (atomic_load(worker->left) > 0)
            atomic_fetch_sub(worker->left, 1);
    }
    return NULL;
}

static bool open_registry(struct kill_shared *shared, const struct registry_options *options,
                          struct registry **ret_registry)
{
    struct kvs_error error = {0};
    enum kvs_status status = registry_open(options, ret_registry, &error);
    for (unsigned ns = 0; ns < KILL_NAMESPACES && status == KVS_OK; ns++)
        status = registry_initialize(*ret_registry, 0, names[ns], num_pages[ns], 0, NULL, &error);
    if (status != KVS_OK)
        return complain(shared, error.message, "-", 0);
    return true;
}

bool kill_load_run(struct kill_shared *shared, const struct registry_options *options,
                   uint64_t seed, uint64_t operations)
{
    struct registry *registry;
    pthread_rwlock_t clear_lock[KILL_NAMESPACES];
    pthread_t threads[KILL_THREADS];
    struct worker workers[KILL_THREADS];
    atomic_ullong left = operations;
    if (!open_registry(shared, options, &registry))
        return false;
    for (unsigned ns = 0; ns < KILL_NAMESPACES; ns++)
        pthread_rwlock_init(&clear_lock[ns], NULL);
    for (unsigned i = 0; i < KILL_THREADS; i++) {
        workers[i] = (struct worker){.shared = shared,
                                     .registry = registry,
                                     .clear_lock = clear_lock,
                                     .left = &left,
                                     .number = i,
                                     .seed = seed * KILL_THREADS + i};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            abort();
    }
    bool good = true;
    for (unsigned i = 0; i < KILL_THREADS; i++) {
        pthread_join(threads[i], NULL);
        good = good && !workers[i].failed;
    }
    registry_close(registry);
    return good;
}

/* ---- The check ----*/

struct check {
    struct kill_shared *shared;
    enum kill_end end;
    bool good, brief_seen;
};

/* May this key be found with this value (0: not found)? */
static bool is_possible(const struct check *check, unsigned ns, unsigned number, uint64_t value)
{
    struct kill_record *record = &check->shared->records[ns][number];
    uint64_t answered = atomic_load(&record->answered), pending = atomic_load(&record->pending);
    if (check->end == KILL_POWER_LOST) /* the tail may be missing, but nothing is made up */
        return value == 0 || (value >> 32 == number + 1 &&
                              (value & 0xffffffff) < atomic_load(&record->attempts) + 2);
    if (value == 0)
        return answered == 0 || pending == KILL_REMOVING || ns == TIGHT ||
               atomic_load(&check->shared->clearing[ns]);
    return value == answered || (value == pending && pending != KILL_REMOVING);
}

static bool check_key(struct check *check, struct catalog *catalog, uint64_t now_ms, unsigned ns,
                      unsigned number)
{
    struct kill_shared *shared = check->shared;
    struct kill_record *record = &shared->records[ns][number];
    struct key key = key_of(ns, number);
    struct catalog_found found;
    catalog_get(catalog, now_ms, &key, 1, true, &found);
    uint64_t value = found.page >= 0 ? found.checksum : 0;
    atomic_fetch_add(&shared->checked, 1);
    if (!is_possible(check, ns, number, value))
        return complain(shared,
                        value == 0 ? "an answered confirm is missing"
                                   : "a key has a value that was never answered",
                        names[ns], number);
    /* A reader verifies its page: after a power cut an older life may be gone, which is a miss. */
    bool right = value == 0 || atomic_load(&shared->pages[ns][found.page]) == value;
    if (!right && check->end != KILL_POWER_LOST)
        return complain(shared, "a page holds another key's bytes", names[ns], number);
    if (!right) {
        catalog_report_mismatch(catalog, now_ms, &key, found.page, found.generation);
        value = 0;
    }
    atomic_fetch_add(&shared->found, value != 0);
    atomic_store(&record->answered, value);
    atomic_store(&record->pending, 0);
    return true;
}

/* Two slots that claim one key, whatever the index says. */
static bool check_owners(struct check *check, struct catalog *catalog, const char *ns)
{
    uint32_t n = catalog_num_pages(catalog);
    for (uint32_t a = 0; a < n; a++) {
        const struct slot *slot = catalog_slot(catalog, a);
        if (slot_state(slot) != SLOT_COMMITTED && slot_state(slot) != SLOT_RESERVED)
            continue;
        struct key key = {.suffix = slot_suffix(slot)};
        memcpy(key.digest, slot->digest, sizeof(key.digest));
        struct catalog_found found;
        catalog_get(catalog, 0, &key, 1, true, &found);
        /* A page that clear() has killed is not found; any other is the one that its key finds. */
        if (found.page >= 0 && found.generation < slot->generation)
            return complain(check->shared, "a key finds an older page", ns, a);
        if (found.page >= 0 && found.page != a && found.generation == slot->generation)
            return complain(check->shared, "two pages have one life", ns, a);
    }
    return true;
}

static void check_namespace(void *arg, const struct registry_info *info, struct catalog *catalog)
{
    struct check *check = arg;
    const char *wrong = catalog_check(catalog);
    if (wrong != NULL)
        check->good = complain(check->shared, wrong, info->ns, 0);
    uint64_t sum =
        info->counts.free + info->counts.reserved + info->counts.committed + info->counts.retired;
    if (sum != info->num_pages)
        check->good = complain(check->shared, "the counts do not add up", info->ns, 0);
    check->brief_seen |= strcmp(info->ns, names[BRIEF]) == 0;
    check->good = check->good && check_owners(check, catalog, info->ns);
}

bool kill_check(struct kill_shared *shared, const struct registry_options *options,
                enum kill_end end, struct registry **ret_registry)
{
    struct check check = {shared, end, true, false};
    if (!open_registry(shared, options, ret_registry))
        return false;
    registry_visit(*ret_registry, check_namespace, &check);
    if (!atomic_load(&shared->brief_pending) &&
        check.brief_seen != atomic_load(&shared->brief_there))
        check.good = complain(shared, "initialize or drop was forgotten", names[BRIEF], 0);
    atomic_store(&shared->brief_there, check.brief_seen);
    atomic_store(&shared->brief_pending, false);
    for (unsigned ns = 0; ns < KILL_NAMESPACES; ns++) {
        struct registry_entry *entry = lock(*ret_registry, ns);
        uint64_t now_ms = registry_now_ms(*ret_registry);
        for (unsigned i = 0; i < KILL_KEYS && check.good; i++)
            check.good = check_key(&check, registry_catalog(entry), now_ms, ns, i);
        atomic_store(&shared->clearing[ns], false);
        registry_unlock(entry);
    }
    return check.good;
}
