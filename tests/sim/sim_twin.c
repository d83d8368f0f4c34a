/* The model beside the catalog; see sim_twin.h. */
#include "sim_twin.h"

#include "catalog/image.h"
#include "catalog/life.h"
#include "metadata/entry.h"
#include "support/catalog_model.h"

#include <inttypes.h>
#include <string.h>

enum { LOOK_EVERY = 8 };

static struct {
    struct catalog *catalog; /* NULL: none is open */
    bool valid;              /* the model is of a catalog that must not be forgotten */
    bool begun;              /* its process has begun to answer from it */
    struct model model;      /* of the last opening */
    struct model base;       /* of the last run that had begun: what must be found again */
    bool base_valid, base_lost, base_stopped;
    struct model pending; /* as a pass of writing behind began */
    struct model durable; /* as the last pass began that ended well */
    bool durable_valid;
    bool stop_went_well;
    uint64_t calls;
} twin;

struct truth_asker twin_asker;
struct network_answer_note *twin_note;
bool twin_without_model;

void twin_begin(void)
{
    memset(&twin, 0, sizeof(twin));
    twin_asker = (struct truth_asker){0};
    twin_note = NULL;
}

struct catalog *twin_catalog(void)
{
    return twin.catalog;
}

/* ---- What must be there after a restart ----------------------------------------------------- */

/* The run is over: it is what the next one has to find. */
static void keep_base(bool stopped)
{
    if (twin.valid && twin.begun) {
        twin.base = twin.model;
        twin.base_valid = true;
        twin.base_lost = false;
        twin.base_stopped = stopped;
    }
    twin.catalog = NULL;
    twin.begun = false;
}

void twin_stopped(void)
{
    keep_base(twin.stop_went_well);
}

void twin_killed(void)
{
    keep_base(false);
}

void twin_lost_shm(void)
{
    twin.base_lost = true;
}

void twin_begin_opening(void)
{
    twin.catalog = NULL;
    twin.begun = false;
}

static bool is_as_in(const struct model *model, const struct catalog_options *options,
                     const char **ret_wrong, uint32_t *ret_page)
{
    *ret_wrong = NULL;
    for (uint32_t page = 0; page < options->num_pages && *ret_wrong == NULL; page++) {
        *ret_wrong = model_judge_slot(model, page, &options->slots[page]);
        *ret_page = page;
    }
    return *ret_wrong == NULL;
}

/* Everything that was answered (P3): the process ended, its memory on /dev/shm or its image did
 * not. */
static void check_kept(const struct catalog_options *options)
{
    const char *wrong, *unused;
    uint32_t page, unused_page;
    if (is_as_in(&twin.base, options, &wrong, &page) ||
        is_as_in(&twin.model, options, &unused, &unused_page))
        return;
    sim_fail("after a %s page %u is not as it was: %s", twin.base_stopped ? "clean stop" : "kill",
             page, wrong);
}

/* What had been synced and not touched since (P3). */
static void check_synced(const struct catalog_options *options)
{
    for (uint32_t page = 0; twin.durable_valid && page < options->num_pages; page++) {
        const struct model_page *synced = &twin.durable.pages[page], *last = &twin.base.pages[page];
        const struct slot *slot = &options->slots[page];
        if (synced->state != MODEL_COMMITTED || last->state != MODEL_COMMITTED ||
            synced->generation != last->generation || !synced->has_checksum)
            continue;
        if (!slot_intact(slot, page) || slot_state(slot) != SLOT_COMMITTED ||
            slot->generation != last->generation || slot->value != synced->checksum ||
            slot->generation < options->state->floor)
            sim_fail("a power cut has lost page %u, which was synced before", page);
    }
}

static void judge_found(const struct catalog_options *options)
{
    if (options->origin == CATALOG_NEW) {
        if (twin.valid && sim_plan.kept)
            sim_fail("a kept catalog has been forgotten");
        return;
    }
    if (twin.base_valid && !twin_without_model) {
        if (!twin.base_lost || twin.base_stopped)
            check_kept(options);
        else
            check_synced(options);
    }
}

enum kvs_status __real_catalog_open(const struct catalog_options *options, uint64_t now_ms,
                                    struct catalog **ret_catalog, struct kvs_error *error);
enum kvs_status __wrap_catalog_open(const struct catalog_options *options, uint64_t now_ms,
                                    struct catalog **ret_catalog, struct kvs_error *error);
enum kvs_status __wrap_catalog_open(const struct catalog_options *options, uint64_t now_ms,
                                    struct catalog **ret_catalog, struct kvs_error *error)
{
    static const char *const origins[] = {"new", "clean", "killed", "power lost"};
    judge_found(options);
    if (options->origin == CATALOG_NEW)
        truth_forget();
    else
        truth_reopened(options->slots, options->num_pages, options->origin == CATALOG_POWER_LOST);
    if (!sim_plan.kept && options->origin == CATALOG_NEW)
        twin.durable_valid = false;
    model_open(&twin.model, options, now_ms);
    enum kvs_status status = __real_catalog_open(options, now_ms, ret_catalog, error);
    if (status != KVS_OK)
        return status;
    sim_trace("  a catalog of %u pages is opened: %s", options->num_pages,
              origins[options->origin]);
    twin.catalog = *ret_catalog;
    twin.begun = !sim_plan.kept;
    twin.valid = twin.begun || twin.valid;
    return status;
}

enum kvs_status __real_image_begin(struct image *image, uint64_t until_ms, struct kvs_error *error);
enum kvs_status __wrap_image_begin(struct image *image, uint64_t until_ms, struct kvs_error *error);
enum kvs_status __wrap_image_begin(struct image *image, uint64_t until_ms, struct kvs_error *error)
{
    enum kvs_status status = __real_image_begin(image, until_ms, error);
    if (status == KVS_OK)
        twin.valid = twin.begun = true;
    else
        twin.base_lost = true,
        twin.base_stopped = false; /* neither old nor new is known to count */
    return status;
}

bool __real_catalog_copy_changed(struct catalog *catalog, uint32_t *cursor,
                                 struct catalog_copy *ret_copy);
bool __wrap_catalog_copy_changed(struct catalog *catalog, uint32_t *cursor,
                                 struct catalog_copy *ret_copy);
bool __wrap_catalog_copy_changed(struct catalog *catalog, uint32_t *cursor,
                                 struct catalog_copy *ret_copy)
{
    if (*cursor == 0)
        twin.pending = twin.model;
    return __real_catalog_copy_changed(catalog, cursor, ret_copy);
}

enum kvs_status __real_image_commit(struct image *image, const struct catalog_state *state,
                                    struct kvs_error *error);
enum kvs_status __wrap_image_commit(struct image *image, const struct catalog_state *state,
                                    struct kvs_error *error);
enum kvs_status __wrap_image_commit(struct image *image, const struct catalog_state *state,
                                    struct kvs_error *error)
{
    enum kvs_status status = __real_image_commit(image, state, error);
    if (status == KVS_OK) {
        twin.durable = twin.pending;
        twin.durable_valid = true;
    }
    return status;
}

enum kvs_status __real_entry_drop(struct registry_entry *entry, struct kvs_error *error);
enum kvs_status __wrap_entry_drop(struct registry_entry *entry, struct kvs_error *error);
enum kvs_status __wrap_entry_drop(struct registry_entry *entry, struct kvs_error *error)
{
    enum kvs_status status = __real_entry_drop(entry, error);
    if (sim_plan.idle_reset_ms == 0)
        sim_fail("a namespace was given another geometry");
    if (status == KVS_OK) {
        twin.valid = twin.base_valid = twin.durable_valid = twin.begun = false;
        twin.catalog = NULL;
        sim_trace("  the catalog is dropped");
    }
    return status;
}

/* One that could not write the image leaves everything as a kill does. */
enum kvs_status __real_entry_stop(struct registry_entry *entry, struct kvs_error *error);
enum kvs_status __wrap_entry_stop(struct registry_entry *entry, struct kvs_error *error);
enum kvs_status __wrap_entry_stop(struct registry_entry *entry, struct kvs_error *error)
{
    enum kvs_status status = __real_entry_stop(entry, error);
    twin.stop_went_well = status == KVS_OK;
    return status;
}

struct catalog *__real_catalog_close(struct catalog *catalog);
struct catalog *__wrap_catalog_close(struct catalog *catalog);
struct catalog *__wrap_catalog_close(struct catalog *catalog)
{
    if (catalog != NULL && catalog == twin.catalog)
        twin.catalog = NULL;
    return __real_catalog_close(catalog);
}

/* ---- Looking -------------------------------------------------------------------------------- */

static void look_at_order(struct catalog *catalog)
{
    uint32_t expected[MODEL_PAGES_MAX], got[MODEL_PAGES_MAX];
    uint32_t n = model_recency(&twin.model, expected);
    if (catalog_recency(catalog, got) != n)
        sim_fail("the recency order has another length than the model's");
    for (uint32_t i = 0; i < n; i++)
        if (got[i] != expected[i])
            sim_fail("the recency order is not the model's: page %u", got[i]);
}

void twin_look(void)
{
    struct catalog *catalog = twin.catalog;
    if (catalog == NULL)
        return;
    const char *wrong = catalog_check(catalog);
    if (wrong != NULL)
        sim_fail("the catalog is broken: %s", wrong);
    if (twin_without_model)
        return;
    for (uint32_t page = 0; page < catalog_num_pages(catalog); page++) {
        wrong = model_judge_slot(&twin.model, page, catalog_slot(catalog, page));
        if (wrong != NULL)
            sim_fail("page %u is not as in the model: %s", page, wrong);
    }
    look_at_order(catalog);
    wrong = model_judge_totals(&twin.model, catalog_totals(catalog));
    if (wrong != NULL)
        sim_fail("the model disagrees: %s", wrong);
    if (catalog->state->next_generation != twin.model.next_generation ||
        catalog->state->floor != twin.model.floor ||
        catalog->state->verify_below != twin.model.verify_below)
        sim_fail("the model disagrees about the state beside the slots");
}

/* Time passes for a catalog that is only looked at, too. */
struct catalog_counts __real_catalog_counts(struct catalog *catalog, uint64_t now_ms);
struct catalog_counts __wrap_catalog_counts(struct catalog *catalog, uint64_t now_ms);
struct catalog_counts __wrap_catalog_counts(struct catalog *catalog, uint64_t now_ms)
{
    struct catalog_counts counts = __real_catalog_counts(catalog, now_ms);
    if (counts.free + counts.reserved + counts.committed + counts.retired !=
        catalog_num_pages(catalog))
        sim_fail("the four counts do not add up");
    const char *wrong =
        twin_without_model ? NULL : model_judge_counts(&twin.model, now_ms, &counts);
    if (wrong != NULL)
        sim_fail("%s", wrong);
    return counts;
}

bool __real_catalog_is_quiet(struct catalog *catalog, uint64_t now_ms);
bool __wrap_catalog_is_quiet(struct catalog *catalog, uint64_t now_ms);
bool __wrap_catalog_is_quiet(struct catalog *catalog, uint64_t now_ms)
{
    bool quiet = __real_catalog_is_quiet(catalog, now_ms);
    const char *wrong = twin_without_model ? NULL : model_judge_quiet(&twin.model, now_ms, quiet);
    if (wrong != NULL)
        sim_fail("%s", wrong);
    return quiet;
}

static void look_after(struct catalog *catalog, uint64_t now_ms)
{
    catalog_counts(catalog, now_ms);
    if (++twin.calls % LOOK_EVERY == 0)
        twin_look();
}

static void differs(const char *what, size_t at)
{
    if (!twin_without_model)
        sim_fail("%s does not answer as the model does (entry %zu)", what, at);
}

/* ---- Requests ------------------------------------------------------------------------------- */

enum kvs_status __real_catalog_reserve(struct catalog *catalog, uint64_t now_ms,
                                       const struct key keys[], size_t n, bool verifying,
                                       uint64_t owner, struct catalog_reserved ret_reserved[]);
enum kvs_status __wrap_catalog_reserve(struct catalog *catalog, uint64_t now_ms,
                                       const struct key keys[], size_t n, bool verifying,
                                       uint64_t owner, struct catalog_reserved ret_reserved[]);
enum kvs_status __wrap_catalog_reserve(struct catalog *catalog, uint64_t now_ms,
                                       const struct key keys[], size_t n, bool verifying,
                                       uint64_t owner, struct catalog_reserved ret_reserved[])
{
    static struct catalog_reserved expected[MODEL_BATCH_MAX];
    enum kvs_status status =
        __real_catalog_reserve(catalog, now_ms, keys, n, verifying, owner, ret_reserved);
    if (status != KVS_OK)
        return status;
    truth_asker = twin_asker;
    truth_reserved(keys, n, ret_reserved);
    model_reserve(&twin.model, now_ms, keys, n, verifying, owner, ret_reserved, expected);
    for (size_t i = 0; i < n; i++) {
        if (ret_reserved[i].present != expected[i].present ||
            ret_reserved[i].page != expected[i].page ||
            ret_reserved[i].generation != expected[i].generation)
            differs("reserve", i);
        if (twin_note != NULL) {
            twin_note->generations[i] = ret_reserved[i].generation;
            twin_note->granted[i] = ret_reserved[i].present ? -1 : ret_reserved[i].page;
            twin_note->reserved = n;
        }
        sim_trace("  reserve key %d for client %d: %s page %" PRId64 " generation %" PRIu64,
                  truth_key_of(&keys[i]), truth_asker.client,
                  ret_reserved[i].present ? "present," : "write", ret_reserved[i].page,
                  ret_reserved[i].generation);
    }
    look_after(catalog, now_ms);
    return status;
}

void __real_catalog_confirm(struct catalog *catalog, uint64_t now_ms,
                            const struct catalog_confirm entries[], size_t n,
                            enum catalog_rejection ret_reasons[]);
void __wrap_catalog_confirm(struct catalog *catalog, uint64_t now_ms,
                            const struct catalog_confirm entries[], size_t n,
                            enum catalog_rejection ret_reasons[]);
void __wrap_catalog_confirm(struct catalog *catalog, uint64_t now_ms,
                            const struct catalog_confirm entries[], size_t n,
                            enum catalog_rejection ret_reasons[])
{
    static enum catalog_rejection expected[MODEL_BATCH_MAX];
    __real_catalog_confirm(catalog, now_ms, entries, n, ret_reasons);
    truth_asker = twin_asker;
    truth_confirmed(entries, n, ret_reasons);
    model_confirm(&twin.model, now_ms, entries, n, expected);
    for (size_t i = 0; i < n; i++) {
        sim_trace("  confirm key %d at page %" PRId64 " by client %d: %s",
                  truth_key_of(&entries[i].key), entries[i].page, truth_asker.client,
                  catalog_rejection_text(ret_reasons[i]));
        if (ret_reasons[i] != expected[i])
            differs("confirm", i);
    }
    look_after(catalog, now_ms);
}

void __real_catalog_release(struct catalog *catalog, uint64_t now_ms,
                            const struct catalog_release entries[], size_t n,
                            enum catalog_rejection ret_reasons[]);
void __wrap_catalog_release(struct catalog *catalog, uint64_t now_ms,
                            const struct catalog_release entries[], size_t n,
                            enum catalog_rejection ret_reasons[]);
void __wrap_catalog_release(struct catalog *catalog, uint64_t now_ms,
                            const struct catalog_release entries[], size_t n,
                            enum catalog_rejection ret_reasons[])
{
    static enum catalog_rejection expected[MODEL_BATCH_MAX];
    __real_catalog_release(catalog, now_ms, entries, n, ret_reasons);
    truth_asker = twin_asker;
    truth_released(entries, n, ret_reasons);
    model_release(&twin.model, now_ms, entries, n, expected);
    for (size_t i = 0; i < n; i++) {
        sim_trace("  release page %" PRId64 " by client %d: %s", entries[i].page,
                  truth_asker.client, catalog_rejection_text(ret_reasons[i]));
        if (ret_reasons[i] != expected[i])
            differs("release", i);
    }
    look_after(catalog, now_ms);
}

void __real_catalog_get(struct catalog *catalog, uint64_t now_ms, const struct key keys[], size_t n,
                        bool verifying, struct catalog_found ret_found[]);
void __wrap_catalog_get(struct catalog *catalog, uint64_t now_ms, const struct key keys[], size_t n,
                        bool verifying, struct catalog_found ret_found[]);
void __wrap_catalog_get(struct catalog *catalog, uint64_t now_ms, const struct key keys[], size_t n,
                        bool verifying, struct catalog_found ret_found[])
{
    static struct catalog_found expected[MODEL_BATCH_MAX];
    __real_catalog_get(catalog, now_ms, keys, n, verifying, ret_found);
    truth_asker = twin_asker;
    truth_got(keys, n, verifying, ret_found);
    model_get(&twin.model, now_ms, keys, n, verifying, expected);
    for (size_t i = 0; i < n; i++) {
        if (ret_found[i].page != expected[i].page ||
            ret_found[i].has_checksum != expected[i].has_checksum ||
            ret_found[i].generation != expected[i].generation ||
            ret_found[i].checksum != expected[i].checksum)
            differs("get", i);
        if (twin_note != NULL)
            twin_note->generations[i] = ret_found[i].generation;
        sim_trace("  get key %d for client %d: page %" PRId64 " generation %" PRIu64,
                  truth_key_of(&keys[i]), truth_asker.client, ret_found[i].page,
                  ret_found[i].generation);
    }
    look_after(catalog, now_ms);
}

void __real_catalog_exists(struct catalog *catalog, uint64_t now_ms, const struct key keys[],
                           size_t n, bool verifying, bool ret_exists[]);
void __wrap_catalog_exists(struct catalog *catalog, uint64_t now_ms, const struct key keys[],
                           size_t n, bool verifying, bool ret_exists[]);
void __wrap_catalog_exists(struct catalog *catalog, uint64_t now_ms, const struct key keys[],
                           size_t n, bool verifying, bool ret_exists[])
{
    static bool expected[MODEL_BATCH_MAX];
    __real_catalog_exists(catalog, now_ms, keys, n, verifying, ret_exists);
    model_exists(&twin.model, now_ms, keys, n, verifying, expected);
    for (size_t i = 0; i < n; i++)
        if (ret_exists[i] != expected[i])
            differs("exists", i);
    look_after(catalog, now_ms);
}

size_t __real_catalog_delete(struct catalog *catalog, uint64_t now_ms, const struct key keys[],
                             size_t n);
size_t __wrap_catalog_delete(struct catalog *catalog, uint64_t now_ms, const struct key keys[],
                             size_t n);
size_t __wrap_catalog_delete(struct catalog *catalog, uint64_t now_ms, const struct key keys[],
                             size_t n)
{
    size_t deleted = __real_catalog_delete(catalog, now_ms, keys, n);
    for (size_t i = 0; i < n; i++)
        sim_trace("  delete key %d", truth_key_of(&keys[i]));
    truth_asker = twin_asker;
    truth_deleted(keys, n);
    if (model_delete(&twin.model, now_ms, keys, n) != deleted)
        differs("delete", n);
    look_after(catalog, now_ms);
    return deleted;
}

void __real_catalog_clear(struct catalog *catalog, uint64_t now_ms);
void __wrap_catalog_clear(struct catalog *catalog, uint64_t now_ms);
void __wrap_catalog_clear(struct catalog *catalog, uint64_t now_ms)
{
    __real_catalog_clear(catalog, now_ms);
    sim_trace("  clear");
    truth_asker = twin_asker;
    truth_cleared();
    model_clear(&twin.model, now_ms);
    look_after(catalog, now_ms);
}

bool __real_catalog_report_mismatch(struct catalog *catalog, uint64_t now_ms, const struct key *key,
                                    int64_t page, uint64_t generation);
bool __wrap_catalog_report_mismatch(struct catalog *catalog, uint64_t now_ms, const struct key *key,
                                    int64_t page, uint64_t generation);
bool __wrap_catalog_report_mismatch(struct catalog *catalog, uint64_t now_ms, const struct key *key,
                                    int64_t page, uint64_t generation)
{
    bool retired = __real_catalog_report_mismatch(catalog, now_ms, key, page, generation);
    sim_trace("  mismatch of key %d at page %" PRId64 " generation %" PRIu64 ": %s",
              truth_key_of(key), page, generation, retired ? "retired" : "ignored");
    truth_asker = twin_asker;
    truth_reported(key, page, generation, retired);
    if (model_report_mismatch(&twin.model, now_ms, key, page, generation) != retired)
        differs("report_mismatch", 0);
    look_after(catalog, now_ms);
    return retired;
}
