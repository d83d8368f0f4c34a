/* The registry: initialize and its refusals, idle reset, limits, keeping, dropping while in use,
 * and images that cannot be written. */
#include "catalog/image.h"
#include "metadata/registry.h"
#include "support/kept.h"
#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TTL_MS = 60000, LEASE_MS = 10000 };

static struct kept_place place;
static struct kvs_error error;

static int set_up(void **state)
{
    (void)state;
    kept_make(&place);
    memset(&error, 0, sizeof(error));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kept_remove(&place);
    return 0;
}

static bool foreign_writers;

static struct registry_options options_of(const char *dir)
{
    return (struct registry_options){.dir = dir,
                                     .reserve_ttl_ms = TTL_MS,
                                     .quarantine_ms = TTL_MS,
                                     .lease_ms = LEASE_MS,
                                     .foreign_writers = foreign_writers,
                                     .log = {kept_log, NULL},
                                     .boot_ms = kept_boot_ms,
                                     .os = &place.os};
}

static struct registry *open_with(const struct registry_options *options)
{
    struct registry *registry = NULL;
    if (registry_open(options, &registry, &error) != KVS_OK)
        fail_msg("%s", error.message);
    return registry;
}

static struct registry *open_kept(void)
{
    struct registry_options options = options_of(place.dir);
    return open_with(&options);
}

static struct registry *open_in_memory(void)
{
    struct registry_options options = options_of(NULL);
    return open_with(&options);
}

static enum kvs_status initialize(struct registry *registry, uint32_t rank, const char *ns,
                                  uint64_t pages)
{
    return registry_initialize(registry, rank, ns, pages, 0, NULL, &error);
}

static struct key key_of(unsigned number)
{
    char text[80];
    struct key key;
    int length = snprintf(text, sizeof(text), "%064x", number);
    key_parse(&key, text, (size_t)length, "kv");
    return key;
}

static int64_t reserve(struct registry *registry, unsigned number, uint64_t *ret_generation)
{
    struct key key = key_of(number);
    struct catalog_reserved reserved;
    struct registry_entry *entry = registry_lock(registry, 0, "kv", 2);
    assert_non_null(entry);
    assert_int_equal(catalog_reserve(registry_catalog(entry), registry_now_ms(registry), &key, 1,
                                     true, 0, &reserved),
                     KVS_OK);
    registry_unlock(entry);
    *ret_generation = reserved.generation;
    return reserved.present ? -1 : reserved.page;
}

static void confirm(struct registry *registry, unsigned number, int64_t page, uint64_t generation)
{
    enum catalog_rejection reason;
    struct catalog_confirm confirms = {.key = key_of(number),
                                       .page = page,
                                       .has_generation = true,
                                       .has_checksum = true,
                                       .generation = generation,
                                       .checksum = number};
    struct registry_entry *entry = registry_lock(registry, 0, "kv", 2);
    assert_non_null(entry);
    catalog_confirm(registry_catalog(entry), registry_now_ms(registry), &confirms, 1, &reason);
    registry_unlock(entry);
    assert_int_equal(reason, CATALOG_ACCEPTED);
}

static void store(struct registry *registry, unsigned number)
{
    uint64_t generation;
    int64_t page = reserve(registry, number, &generation);
    assert_true(page >= 0);
    confirm(registry, number, page, generation);
}

static bool is_there(struct registry *registry, unsigned number)
{
    struct key key = key_of(number);
    bool there;
    struct registry_entry *entry = registry_lock(registry, 0, "kv", 2);
    assert_non_null(entry);
    catalog_exists(registry_catalog(entry), registry_now_ms(registry), &key, 1, true, &there);
    registry_unlock(entry);
    return there;
}

/* ---- Looking ----*/

struct seen {
    size_t n;
    struct registry_info info[8];
    char ns[8][32], fingerprint[8][32];
};

static void see(void *arg, const struct registry_info *info, struct catalog *catalog)
{
    struct seen *seen = arg;
    assert_true(seen->n < 8);
    assert_null(catalog_check(catalog));
    snprintf(seen->ns[seen->n], sizeof(seen->ns[0]), "%s", info->ns);
    snprintf(seen->fingerprint[seen->n], sizeof(seen->fingerprint[0]), "%s", info->fingerprint);
    seen->info[seen->n++] = *info;
}

static struct seen look(struct registry *registry)
{
    struct seen seen = {0};
    registry_visit(registry, see, &seen);
    return seen;
}

/* ---- Initialize ----*/

static void namespaces_are_visited_in_order(void **state)
{
    (void)state;
    struct registry *registry = open_in_memory();
    assert_int_equal(initialize(registry, 2, "kv", 3), KVS_OK);
    assert_int_equal(initialize(registry, 0, "swa", 4), KVS_OK);
    assert_int_equal(initialize(registry, 10, "", 5), KVS_OK);
    assert_int_equal(initialize(registry, 0, "kv", 6), KVS_OK);
    assert_int_equal(initialize(registry, 0, "kv2", 7), KVS_OK);
    struct seen seen = look(registry);
    static const struct {
        uint32_t rank;
        const char *ns;
        uint64_t pages;
    } expected[] = {{0, "kv", 6}, {0, "kv2", 7}, {0, "swa", 4}, {2, "kv", 3}, {10, "", 5}};
    assert_int_equal(seen.n, 5);
    for (size_t i = 0; i < seen.n; i++) {
        assert_int_equal(seen.info[i].rank, expected[i].rank);
        assert_string_equal(seen.ns[i], expected[i].ns);
        assert_int_equal(seen.info[i].num_pages, expected[i].pages);
        assert_int_equal(seen.info[i].counts.free, expected[i].pages);
        assert_false(seen.info[i].kept);
        assert_int_equal(seen.info[i].image_age_ms, 0);
    }
    assert_null(registry_lock(registry, 0, "kv3", 3));
    assert_null(registry_lock(registry, 1, "kv", 2));
    assert_null(registry_lock(registry, 0, "kv2x", 4));
    struct registry_entry *entry = registry_lock(registry, 0, "kv2x", 3);
    assert_non_null(entry);
    registry_unlock(entry);
    assert_null(registry_close(registry));
    assert_null(registry_close(NULL));
}

static void geometry_and_fingerprint(void **state)
{
    (void)state;
    static const struct {
        uint64_t pages, bytes;
        const char *fingerprint;
        enum kvs_status status;
        const char *words[3];
    } steps[] = {
        {8, 0, NULL, KVS_OK, {NULL}},
        {8, 0, NULL, KVS_OK, {NULL}},
        {9,
         0,
         NULL,
         KVS_ERR_GEOMETRY_DIFFERS,
         {"Rank 3 namespace 'kv'", "8 pages of an unstated number of", "9 pages"}},
        {8, 4096, NULL, KVS_OK, {NULL}}, /* adopted */
        {8, 0, "", KVS_OK, {NULL}},
        {8, 4097, NULL, KVS_ERR_GEOMETRY_DIFFERS, {"8 pages of 4096 bytes", "4097", NULL}},
        {8, 4096, "model a", KVS_OK, {NULL}}, /* adopted */
        {8, 4096, "model b", KVS_ERR_FINGERPRINT_DIFFERS, {"'model a'", "'model b'", NULL}},
        {8, 4096, NULL, KVS_OK, {NULL}},
        {0, 4096, NULL, KVS_ERR_CATALOG_GEOMETRY, {" 0 pages", NULL}},
        {UINT64_C(1) << 40, 4096, NULL, KVS_ERR_CATALOG_GEOMETRY, {"1099511627776", NULL}},
    };
    struct registry *registry = open_in_memory();
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        assert_int_equal(registry_initialize(registry, 3, "kv", steps[i].pages, steps[i].bytes,
                                             steps[i].fingerprint, &error),
                         steps[i].status);
        for (size_t w = 0; w < 3 && steps[i].words[w] != NULL; w++)
            if (strstr(error.message, steps[i].words[w]) == NULL)
                fail_msg("'%s' is not in '%s'", steps[i].words[w], error.message);
    }
    struct seen seen = look(registry);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.info[0].num_pages, 8);
    assert_int_equal(seen.info[0].bytes_per_page, 4096);
    assert_string_equal(seen.fingerprint[0], "model a");

    struct registry_entry *entry = registry_lock(registry, 3, "kv", 2);
    assert_int_equal(registry_check(entry, 0, NULL, &error), KVS_OK);
    assert_int_equal(registry_check(entry, 4096, "model a", &error), KVS_OK);
    assert_int_equal(registry_check(entry, 1, "model a", &error), KVS_ERR_GEOMETRY_DIFFERS);
    assert_non_null(strstr(error.message, "become an unstated number of pages of 1 bytes"));
    assert_int_equal(registry_check(entry, 0, "model c", &error), KVS_ERR_FINGERPRINT_DIFFERS);
    registry_unlock(entry);
    registry_close(registry);
}

static void limits_hold(void **state)
{
    (void)state;
    char ns[IMAGE_NS_MAX + 2], fingerprint[IMAGE_FINGERPRINT_MAX + 2];
    struct registry_options options = options_of(NULL);
    options.max_namespaces = 3;
    options.max_total_pages = 100;
    struct registry *registry = open_with(&options);
    memset(ns, 'n', sizeof(ns));
    ns[IMAGE_NS_MAX + 1] = 0;
    memset(fingerprint, 'f', sizeof(fingerprint));
    fingerprint[IMAGE_FINGERPRINT_MAX + 1] = 0;
    assert_int_equal(initialize(registry, 0, ns, 1), KVS_ERR_NAME_TOO_LONG);
    assert_int_equal(registry_initialize(registry, 0, "kv", 1, 0, fingerprint, &error),
                     KVS_ERR_NAME_TOO_LONG);
    assert_int_equal(look(registry).n, 0);
    ns[IMAGE_NS_MAX] = fingerprint[IMAGE_FINGERPRINT_MAX] = 0;
    assert_int_equal(registry_initialize(registry, 0, ns, 40, 0, fingerprint, &error), KVS_OK);
    assert_int_equal(initialize(registry, 0, "b", 61), KVS_ERR_TOO_MANY_PAGES);
    assert_int_equal(initialize(registry, 0, "b", 50), KVS_OK);
    assert_int_equal(initialize(registry, 0, "c", 10), KVS_OK);
    assert_int_equal(initialize(registry, 0, "d", 1), KVS_ERR_TOO_MANY_NAMESPACES);
    assert_int_equal(initialize(registry, 0, "c", 10), KVS_OK); /* is there */
    assert_int_equal(registry_drop(registry, 0, "c", &error), KVS_OK);
    assert_int_equal(initialize(registry, 0, "d", 10), KVS_OK);
    registry_close(registry);
}

/* ---- Idle reset ----*/

static void an_idle_namespace_takes_another_geometry(void **state)
{
    (void)state;
    struct registry_options options = options_of(NULL);
    options.idle_reset_ms = 5000;
    struct registry *registry = open_with(&options);
    assert_int_equal(initialize(registry, 0, "kv", 8), KVS_OK);
    store(registry, 1);
    for (unsigned i = 0; i < 4; i++) { /* refused ones do not count as requests */
        kept_clock_ms += 1000;
        assert_int_equal(initialize(registry, 0, "kv", 9), KVS_ERR_GEOMETRY_DIFFERS);
    }
    kept_clock_ms += 999;
    assert_int_equal(initialize(registry, 0, "kv", 9), KVS_ERR_GEOMETRY_DIFFERS);
    assert_int_equal(initialize(registry, 0, "kv", 8), KVS_OK); /* this one does */
    kept_clock_ms += 4999;
    assert_int_equal(initialize(registry, 0, "kv", 9), KVS_ERR_GEOMETRY_DIFFERS);
    kept_clock_ms += 1;
    assert_int_equal(initialize(registry, 0, "kv", 9), KVS_OK);
    assert_false(is_there(registry, 1));
    assert_int_equal(look(registry).info[0].num_pages, 9);

    /* A reservation is alive until its deadline, its page rests, and only then idleness begins. */
    uint64_t generation;
    reserve(registry, 2, &generation);
    for (uint64_t waited = 0; waited < 2 * TTL_MS; waited += 4000) {
        assert_int_equal(initialize(registry, 0, "kv", 10), KVS_ERR_GEOMETRY_DIFFERS);
        kept_clock_ms += 4000;
    }
    assert_int_equal(initialize(registry, 0, "kv", 10), KVS_ERR_GEOMETRY_DIFFERS);
    kept_clock_ms += 5000;
    assert_int_equal(initialize(registry, 0, "kv", 10), KVS_OK);
    registry_close(registry);
}

static struct registry *being_reset;
static bool was_locked;

/* A request that comes between the decision to reset and the end of it. */
static void lock_while_resetting(void *arg, enum kvs_log_level level, const char *line)
{
    kept_log(arg, level, line);
    if (strstr(line, "Resetting") == NULL)
        return;
    struct registry_entry *entry = registry_lock(being_reset, 0, "kv", 2);
    was_locked = entry != NULL;
    if (was_locked)
        registry_unlock(entry);
}

static void a_reset_forgets_nothing_it_has_answered(void **state)
{
    (void)state;
    struct registry_options options = options_of(place.dir);
    options.idle_reset_ms = 5000;
    options.log.fn = lock_while_resetting;
    being_reset = open_with(&options);
    assert_int_equal(initialize(being_reset, 0, "kv", 10), KVS_OK);
    kept_clock_ms += 5000;
    assert_int_equal(initialize(being_reset, 0, "kv", 20), KVS_OK);
    assert_non_null(strstr(kept_log_text, "Resetting"));
    assert_false(was_locked);
    struct registry_entry *entry = registry_lock(being_reset, 0, "kv", 2);
    assert_non_null(entry);
    registry_unlock(entry);
    registry_close(being_reset);
}

static void a_reset_beyond_a_limit_changes_nothing(void **state)
{
    (void)state;
    struct registry_options options = options_of(NULL);
    options.idle_reset_ms = 5000;
    options.max_total_pages = 100;
    options.max_namespaces = 2;
    struct registry *registry = open_with(&options);
    assert_int_equal(initialize(registry, 0, "kv", 60), KVS_OK);
    assert_int_equal(initialize(registry, 1, "kv", 20), KVS_OK);
    store(registry, 1);
    kept_clock_ms += 6000;
    assert_int_equal(initialize(registry, 0, "kv", 81), KVS_ERR_TOO_MANY_PAGES);
    assert_true(is_there(registry, 1));
    kept_clock_ms += 6000;
    assert_int_equal(initialize(registry, 0, "kv", 80), KVS_OK);
    assert_false(is_there(registry, 1));
    registry_close(registry);
}

static void without_idle_reset_nothing_is_reset(void **state)
{
    (void)state;
    struct registry *registry = open_in_memory();
    assert_int_equal(initialize(registry, 0, "kv", 8), KVS_OK);
    kept_clock_ms += UINT64_C(1) << 40;
    assert_int_equal(initialize(registry, 0, "kv", 9), KVS_ERR_GEOMETRY_DIFFERS);
    registry_close(registry);
}

static void an_idle_reset_replaces_the_files(void **state)
{
    (void)state;
    struct registry_options options = options_of(place.dir);
    options.idle_reset_ms = 5000;
    struct registry *registry = open_with(&options);
    assert_int_equal(initialize(registry, 0, "kv", 8), KVS_OK);
    store(registry, 1);
    kept_clock_ms += 6000;
    assert_int_equal(initialize(registry, 0, "kv", 16), KVS_OK);
    store(registry, 2);
    assert_int_equal(kept_shm_files(&place), 1);
    registry_close(registry);
    registry = open_kept();
    assert_int_equal(look(registry).info[0].num_pages, 16);
    assert_false(is_there(registry, 1));
    assert_true(is_there(registry, 2));
    registry_close(registry);
}

/* ---- Kept ----*/

static void everything_is_there_after_a_clean_stop(void **state)
{
    (void)state;
    struct registry *registry = open_kept();
    assert_int_equal(registry_initialize(registry, 0, "kv", 64, 4096, "model", &error), KVS_OK);
    assert_int_equal(initialize(registry, 1, "a/b", 5), KVS_OK);
    store(registry, 1);
    registry_close(registry);
    assert_int_equal(kept_shm_files(&place), 0);

    registry = open_kept();
    struct seen seen = look(registry);
    assert_int_equal(seen.n, 2);
    assert_true(seen.info[0].kept);
    assert_false(seen.info[0].mapped);
    assert_int_equal(seen.info[0].bytes_per_page, 4096);
    assert_string_equal(seen.fingerprint[0], "model");
    assert_string_equal(seen.ns[1], "a/b");
    assert_int_equal(seen.info[1].num_pages, 5);
    assert_true(is_there(registry, 1));
    assert_int_equal(registry_initialize(registry, 0, "kv", 64, 4096, "model", &error), KVS_OK);
    assert_int_equal(registry_initialize(registry, 0, "kv", 65, 4096, "model", &error),
                     KVS_ERR_GEOMETRY_DIFFERS);
    registry_close(registry);
}

/* Runs `work` on a registry of the place in a process of its own that then dies without a word. */
static void killed_after(void (*work)(struct registry *registry))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct registry *registry = open_kept();
        work(registry);
        _exit(0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

static void store_three(struct registry *registry)
{
    if (initialize(registry, 0, "kv", 64) != KVS_OK)
        _exit(1);
    for (unsigned i = 0; i < 3; i++)
        store(registry, i);
}

static void nothing(struct registry *registry)
{
    (void)registry;
}

static void adopt(struct registry *registry)
{
    if (registry_initialize(registry, 0, "kv", 64, 4096, "model", &error) != KVS_OK)
        _exit(1);
}

static void drop_it(struct registry *registry)
{
    if (registry_drop(registry, 0, "kv", &error) != KVS_OK)
        _exit(1);
}

static void a_killed_process_loses_nothing(void **state)
{
    (void)state;
    killed_after(store_three);
    killed_after(nothing);
    killed_after(adopt);
    struct registry *registry = open_kept();
    assert_non_null(strstr(kept_log_text, "was killed; nothing is missing"));
    struct seen seen = look(registry);
    assert_int_equal(seen.info[0].bytes_per_page, 4096);
    assert_string_equal(seen.fingerprint[0], "model");
    for (unsigned i = 0; i < 3; i++)
        assert_true(is_there(registry, i));
    registry_close(registry);
}

static void forget_one(struct registry *registry)
{
    struct key key = key_of(0);
    struct registry_entry *entry = registry_lock(registry, 0, "kv", 2);
    catalog_delete(registry_catalog(entry), registry_now_ms(registry), &key, 1);
    registry_unlock(entry);
}

/* A kill while the caution of an earlier start is kept is a kill all the same: what the process had
 * not written is in the live array alone, and has to reach the image. */
static void a_kill_within_an_earlier_starts_caution_is_written(void **state)
{
    (void)state;
    foreign_writers = true;
    struct registry *registry = open_kept();
    store_three(registry);
    registry_close(registry);
    killed_after(nothing);
    kept_lose_shm(&place);
    killed_after(forget_one);
    registry_close(open_kept());
    kept_lose_shm(&place);
    registry = open_kept();
    assert_false(is_there(registry, 0));
    assert_true(is_there(registry, 1));
    registry_close(registry);
    foreign_writers = false;
}

/* The leases of before count for caution, too: another start within them is as cautious. */
static void caution_lasts_as_long_as_leases(void **state)
{
    (void)state;
    foreign_writers = true;
    registry_close(open_kept());
    struct registry_options options = options_of(place.dir);
    options.lease_ms = 10 * (uint64_t)TTL_MS;
    struct registry *registry = open_with(&options);
    store_three(registry);
    registry_close(registry);
    killed_after(nothing);
    kept_lose_shm(&place);
    registry_close(open_with(&options));
    kept_clock_ms += 3 * TTL_MS; /* beyond reserve_ttl + quarantine */
    registry = open_with(&options);
    uint64_t generation;
    assert_int_equal(reserve(registry, 9, &generation), -1);
    registry_close(registry);
    foreign_writers = false;
}

/* Whatever fails on the way, nothing is left that would be in the way of a second try. */
static void a_creation_that_failed_can_be_tried_again(void **state)
{
    (void)state;
    struct registry *registry = open_kept();
    bool failed = true;
    for (int writes = 0; failed; writes++) {
        kept_faults.writes_left = writes;
        failed = initialize(registry, 0, "kv", 64) != KVS_OK;
        kept_faults.writes_left = -1;
        assert_int_equal(initialize(registry, 0, "kv", 64), KVS_OK);
        assert_int_equal(registry_drop(registry, 0, "kv", &error), KVS_OK);
        assert_true(writes < 20);
    }
    registry_close(registry);
}

static void drop_leaves_nothing_behind(void **state)
{
    (void)state;
    char image[KEPT_PATH_BYTES + 32];
    snprintf(image, sizeof(image), "%s/0.kv.kvc", place.dir);
    killed_after(store_three);
    assert_int_equal(kept_shm_files(&place), 1);
    killed_after(drop_it);
    assert_int_equal(kept_shm_files(&place), 0);
    assert_int_equal(access(image, F_OK), -1);

    /* An image that somebody removed by hand: its live array goes with the next opening. */
    killed_after(store_three);
    assert_int_equal(unlink(image), 0);
    struct registry *registry = open_kept();
    assert_int_equal(kept_shm_files(&place), 0);
    assert_int_equal(look(registry).n, 0);
    assert_int_equal(registry_drop(registry, 0, "kv", &error), KVS_ERR_NOT_INITIALIZED_SERVER);
    assert_string_equal(error.message, "Rank 0 namespace 'kv' not initialized. Please call "
                                       "/0/initialize first.");
    registry_close(registry);
}

static void a_second_process_is_refused(void **state)
{
    (void)state;
    struct registry *second = NULL;
    struct registry *registry = open_kept();
    struct registry_options options = options_of(place.dir);
    assert_int_equal(registry_open(&options, &second, &error), KVS_ERR_CATALOG_IN_USE);
    assert_null(second);
    registry_close(registry);
}

static void one_bad_file_disturbs_nothing(void **state)
{
    (void)state;
    char good[KEPT_PATH_BYTES + 32], bad[KEPT_PATH_BYTES + 32];
    size_t before_length, after_length;
    struct registry *registry = open_kept();
    assert_int_equal(initialize(registry, 0, "kv", 64), KVS_OK);
    store(registry, 1);
    registry_close(registry);
    snprintf(good, sizeof(good), "%s/0.kv.kvc", place.dir);
    snprintf(bad, sizeof(bad), "%s/9.kv.kvc", place.dir);
    kept_write_file(bad, "not a catalog", 13);
    uint8_t *before = kept_read_file(good, &before_length);
    struct registry_options options = options_of(place.dir);
    assert_int_equal(registry_open(&options, &registry, &error), KVS_ERR_CATALOG_FOREIGN);
    assert_non_null(strstr(error.message, "9.kv.kvc"));
    uint8_t *after = kept_read_file(good, &after_length);
    assert_int_equal(before_length, after_length);
    assert_memory_equal(before, after, before_length);
    free(before);
    free(after);
    assert_int_equal(unlink(bad), 0);
    registry = open_kept();
    assert_true(is_there(registry, 1));
    registry_close(registry);
}

/* In a child made by fork() closing must not take the parent's catalogs away. */
static void a_forked_child_leaves_files_alone(void **state)
{
    (void)state;
    struct registry *registry = open_kept();
    assert_int_equal(initialize(registry, 0, "kv", 64), KVS_OK);
    store(registry, 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        registry_close(registry);
        _exit(0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(kept_shm_files(&place), 1);
    store(registry, 2);
    registry_close(registry);
    registry = open_kept();
    assert_non_null(strstr(kept_log_text, "after a clean stop"));
    assert_true(is_there(registry, 2));
    registry_close(registry);
}

static void one_page_is_one_page(void **state)
{
    (void)state;
    struct registry *registry = open_kept();
    assert_int_equal(initialize(registry, 0, "kv", 1), KVS_OK);
    registry_close(registry);
    registry = open_kept();
    assert_non_null(strstr(kept_log_text, "namespace 'kv', 1 page, 0 of them committed; after a "));
    registry_close(registry);
}

/* ---- Images that cannot be written ----*/

static void a_failing_image_is_seen_and_written_again(void **state)
{
    (void)state;
    struct registry *registry = open_kept();
    assert_int_equal(initialize(registry, 0, "kv", 64), KVS_OK);
    store(registry, 1);
    assert_int_equal(registry_sync(registry, &error), KVS_OK);
    kept_faults.writes_left = 0;
    kept_faults.failure = ENOSPC;
    store(registry, 2);
    kept_clock_ms += 7000;
    assert_int_equal(registry_sync(registry, &error), KVS_ERR_NO_SPACE);
    assert_int_equal(registry_sync(registry, &error), KVS_ERR_NO_SPACE);
    struct seen seen = look(registry);
    assert_true(seen.info[0].image_failing);
    assert_int_equal(seen.info[0].image_age_ms, 7000);
    const char *first = strstr(kept_log_text, "tried again");
    assert_non_null(first);
    assert_null(strstr(first + 1, "tried again")); /* said once a minute */
    kept_clock_ms += 60000;
    assert_int_equal(registry_sync(registry, &error), KVS_ERR_NO_SPACE);
    assert_non_null(strstr(first + 1, "tried again"));

    kept_faults.writes_left = -1;
    assert_int_equal(registry_sync(registry, &error), KVS_OK);
    assert_non_null(strstr(kept_log_text, "is written again"));
    seen = look(registry);
    assert_false(seen.info[0].image_failing);
    assert_int_equal(seen.info[0].image_age_ms, 0);
    kept_lose_shm(&place); /* what failed is in the image now */
    registry_close(registry);
    registry = open_kept();
    assert_true(is_there(registry, 1));
    assert_true(is_there(registry, 2));

    kept_faults.writes_left = 0; /* no clean stop then: the live array stays */
    store(registry, 3);
    registry_close(registry);
    assert_non_null(strstr(kept_log_text, "No clean stop"));
    kept_faults.writes_left = -1;
    registry = open_kept();
    assert_true(is_there(registry, 3));
    registry_close(registry);
}

static void image_of(char path[KEPT_PATH_BYTES + 32])
{
    snprintf(path, KEPT_PATH_BYTES + 32, "%s/0.kv.kvc", place.dir);
}

static void remove_the_image(struct registry *registry)
{
    char image[KEPT_PATH_BYTES + 32];
    image_of(image);
    store_three(registry);
    assert_int_equal(registry_sync(registry, &error), KVS_OK);
    assert_int_equal(unlink(image), 0);
    assert_int_equal(registry_sync(registry, &error), KVS_OK);
}

static void cut_the_image(struct registry *registry)
{
    char image[KEPT_PATH_BYTES + 32];
    image_of(image);
    store_three(registry);
    assert_int_equal(registry_sync(registry, &error), KVS_OK);
    assert_int_equal(truncate(image, 0), 0);
    assert_int_equal(registry_sync(registry, &error), KVS_OK);
}

static void is_made_anew(void (*lose)(struct registry *), const char *said)
{
    struct registry *registry = open_kept();
    assert_int_equal(initialize(registry, 0, "kv", 64), KVS_OK);
    lose(registry);
    const char *line = strstr(kept_log_text, said);
    assert_non_null(line);
    store(registry, 10);
    assert_int_equal(registry_sync(registry, &error), KVS_OK);
    assert_null(strstr(line + 1, said));
    kept_lose_shm(&place); /* all of it is in the new file */
    registry_close(registry);
    registry = open_kept();
    assert_true(is_there(registry, 1) && is_there(registry, 10));
    assert_int_equal(registry_drop(registry, 0, "kv", &error), KVS_OK);
    registry_close(registry);

    killed_after(lose); /* the live array goes on belonging to it */
    registry = open_kept();
    assert_true(is_there(registry, 0) && is_there(registry, 1) && is_there(registry, 2));
    registry_close(registry);
}

static void a_removed_image_is_made_anew(void **state)
{
    (void)state;
    is_made_anew(remove_the_image, "was removed while it was in use");
}

static void a_cut_image_is_made_anew(void **state)
{
    (void)state;
    is_made_anew(cut_the_image, "was cut while it was in use");
}

static void another_file_in_the_images_place_is_left_alone(void **state)
{
    (void)state;
    char image[KEPT_PATH_BYTES + 32], aside[KEPT_PATH_BYTES + 32];
    image_of(image);
    snprintf(aside, sizeof(aside), "%s/aside", place.dir);
    struct registry *registry = open_kept();
    assert_int_equal(initialize(registry, 0, "kv", 64), KVS_OK);
    store(registry, 1);
    assert_int_equal(registry_sync(registry, &error), KVS_OK);
    assert_int_equal(rename(image, aside), 0);
    kept_write_file(image, "other", 5);
    store(registry, 2);
    assert_int_equal(registry_sync(registry, &error), KVS_ERR_CATALOG_DISPLACED);
    assert_non_null(strstr(kept_log_text, "Nothing is kept from now on"));
    assert_true(look(registry).info[0].image_failing);
    size_t length;
    uint8_t *bytes = kept_read_file(image, &length);
    assert_true(length == 5 && memcmp(bytes, "other", 5) == 0);
    free(bytes);

    assert_int_equal(rename(aside, image), 0); /* put back */
    assert_int_equal(registry_sync(registry, &error), KVS_OK);
    assert_int_equal(rename(image, aside), 0);
    kept_write_file(image, "other", 5);
    registry_close(registry);
    assert_non_null(strstr(kept_log_text, "What it held is not kept."));
    assert_int_equal(rename(aside, image), 0);
    registry = open_kept();
    assert_true(is_there(registry, 1) && is_there(registry, 2));
    registry_close(registry);
}

/* Then nothing leads to the live array, and a crash or a stop does lose something. */
static void an_image_that_cannot_be_made_anew_is_not_kept(void **state)
{
    (void)state;
    char image[KEPT_PATH_BYTES + 32];
    image_of(image);
    struct registry *registry = open_kept();
    assert_int_equal(initialize(registry, 0, "kv", 64), KVS_OK);
    store(registry, 1);
    assert_int_equal(registry_sync(registry, &error), KVS_OK);
    assert_int_equal(unlink(image), 0);
    kept_faults.writes_left = 0;
    kept_faults.failure = ENOSPC;
    assert_int_equal(registry_sync(registry, &error), KVS_ERR_CATALOG_DISPLACED);
    assert_non_null(strstr(kept_log_text, "No space left on device"));
    assert_non_null(strstr(kept_log_text, "Nothing is kept from now on"));
    kept_faults.writes_left = -1; /* there is room again */
    assert_int_equal(registry_sync(registry, &error), KVS_OK);
    assert_int_equal(unlink(image), 0);
    kept_faults.writes_left = 0;
    registry_close(registry);
    assert_non_null(strstr(kept_log_text, "What it held is not kept."));
    kept_faults.writes_left = -1;
}

static struct registry *being_dropped;
static bool found_while_dropped;

static void ask_while_dropped(void)
{
    struct registry_entry *entry = registry_lock(being_dropped, 0, "kv", 2);
    found_while_dropped = entry != NULL;
    if (entry != NULL)
        registry_unlock(entry);
}

/* Removing files waits for the disk: a request in between is answered at once. */
static void a_drop_holds_no_request_up(void **state)
{
    (void)state;
    being_dropped = open_kept();
    assert_int_equal(initialize(being_dropped, 0, "kv", 10), KVS_OK);
    found_while_dropped = true;
    kept_on_fsync = ask_while_dropped;
    assert_int_equal(registry_drop(being_dropped, 0, "kv", &error), KVS_OK);
    assert_false(found_while_dropped);
    registry_close(being_dropped);
}

static void a_drop_that_failed_changes_nothing(void **state)
{
    (void)state;
    char image[KEPT_PATH_BYTES + 32];
    image_of(image);
    struct registry *registry = open_kept();
    assert_int_equal(initialize(registry, 0, "kv", 10), KVS_OK);
    store(registry, 1);
    assert_int_equal(unlink(image), 0);
    assert_int_equal(mkdir(image, 0700), 0); /* which unlink() does not remove */
    assert_int_equal(registry_drop(registry, 0, "kv", &error), KVS_ERR_CATALOG_IO);
    assert_true(is_there(registry, 1));
    assert_int_equal(rmdir(image), 0);
    registry_close(registry);
}

static void without_space_nothing_is_created(void **state)
{
    (void)state;
    struct registry *registry = open_kept();
    kept_faults.disk_full = true;
    assert_int_equal(initialize(registry, 0, "kv", 64), KVS_ERR_NO_SPACE);
    assert_int_equal(look(registry).n, 0);
    assert_int_equal(kept_shm_files(&place), 0);
    kept_faults.disk_full = false;
    kept_faults.shm_full = true;
    assert_int_equal(initialize(registry, 0, "kv", 64), KVS_OK);
    assert_true(look(registry).info[0].mapped);
    store(registry, 1);
    registry_close(registry);
    registry = open_kept();
    assert_true(is_there(registry, 1));
    registry_close(registry);
}

/* Refused by statfs() before anything is written. */
static void a_network_directory_is_refused(void **state)
{
    (void)state;
    struct registry *registry;
    struct registry_options options = options_of(place.dir);
    kept_faults.filesystem = 0x6969;
    assert_int_equal(registry_open(&options, &registry, &error), KVS_ERR_CATALOG_DIR);
    assert_non_null(strstr(error.message, "NFS"));
}

/* ---- Threads ----*/

struct hammer {
    struct registry *registry;
    unsigned number;
    atomic_bool *stop;
    uint64_t rounds;
};

static void *hammer_run(void *arg)
{
    struct hammer *hammer = arg;
    uint64_t seed = hammer->number;
    while (!atomic_load(hammer->stop)) {
        struct registry_entry *entry = registry_lock(hammer->registry, 0, "kv", 2);
        if (entry == NULL)
            continue;
        struct key key = key_of((unsigned)(kept_random(&seed) % 100));
        struct catalog_reserved reserved;
        uint64_t now_ms = registry_now_ms(hammer->registry);
        if (catalog_reserve(registry_catalog(entry), now_ms, &key, 1, true, 0, &reserved) ==
                KVS_OK &&
            !reserved.present && reserved.page >= 0) {
            enum catalog_rejection reason;
            struct catalog_confirm confirms = {.key = key, .page = reserved.page};
            catalog_confirm(registry_catalog(entry), now_ms, &confirms, 1, &reason);
        }
        registry_unlock(entry);
        hammer->rounds++;
    }
    return NULL;
}

static void ignore(void *arg, const struct registry_info *info, struct catalog *catalog)
{
    (void)catalog;
    *(uint64_t *)arg += info->num_pages;
}

static void dropping_while_others_use_it(void **state)
{
    (void)state;
    enum { THREADS = 3, DROPS = 60 };
    struct registry *registry = open_kept();
    atomic_bool stop = false;
    pthread_t threads[THREADS];
    struct hammer hammers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        hammers[i] = (struct hammer){registry, i, &stop, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, hammer_run, &hammers[i]), 0);
    }
    uint64_t pages = 0;
    for (unsigned i = 0; i < DROPS; i++) {
        assert_int_equal(initialize(registry, 0, "kv", 64), KVS_OK);
        if (i % 2 == 0)
            assert_int_equal(registry_sync(registry, &error), KVS_OK);
        registry_visit(registry, ignore, &pages);
        assert_int_equal(registry_drop(registry, 0, "kv", &error), KVS_OK);
    }
    assert_int_equal(initialize(registry, 0, "kv", 64), KVS_OK);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(pages, 64 * DROPS);
    assert_int_equal(look(registry).n, 1); /* checks the catalog */
    registry_close(registry);
}

static void *initialize_run(void *arg)
{
    struct registry *registry = arg;
    struct kvs_error own;
    for (uint32_t i = 0; i < 20; i++)
        if (registry_initialize(registry, i, "kv", 4, 0, NULL, &own) != KVS_OK)
            return "an initialize failed";
    return NULL;
}

static void many_initialize_the_same_at_once(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    struct registry *registry = open_kept();
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, initialize_run, registry), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    uint64_t pages = 0;
    registry_visit(registry, ignore, &pages);
    assert_int_equal(pages, 20 * 4);
    assert_int_equal(kept_shm_files(&place), 20);
    registry_close(registry);
}

/* The thread that writes images behind leaves the processor to whoever answers requests after each
 * piece of work; here each of 16 pieces takes long enough. */
static void the_writer_of_images_gives_way(void **state)
{
    (void)state;
    enum { PIECES = 16, PAGES = PIECES * CATALOG_COPY_MAX };
    struct registry *registry = open_kept();
    assert_int_equal(initialize(registry, 0, "kv", PAGES), KVS_OK);
    kept_faults.slow_writes = true;
    for (unsigned number = 0; number < PAGES; number++)
        store(registry, number);
    for (int waited = 0; atomic_load(&kept_pauses) < PIECES / 2 && waited < 1000; waited++)
        usleep(10 * 1000);
    assert_true(atomic_load(&kept_pauses) >= PIECES / 2);
    registry_close(registry);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(one_page_is_one_page),
        TEST(namespaces_are_visited_in_order),
        TEST(geometry_and_fingerprint),
        TEST(limits_hold),
        TEST(an_idle_namespace_takes_another_geometry),
        TEST(a_reset_forgets_nothing_it_has_answered),
        TEST(a_reset_beyond_a_limit_changes_nothing),
        TEST(without_idle_reset_nothing_is_reset),
        TEST(an_idle_reset_replaces_the_files),
        TEST(everything_is_there_after_a_clean_stop),
        TEST(a_killed_process_loses_nothing),
        TEST(a_kill_within_an_earlier_starts_caution_is_written),
        TEST(caution_lasts_as_long_as_leases),
        TEST(a_creation_that_failed_can_be_tried_again),
        TEST(drop_leaves_nothing_behind),
        TEST(a_second_process_is_refused),
        TEST(one_bad_file_disturbs_nothing),
        TEST(a_forked_child_leaves_files_alone),
        TEST(a_failing_image_is_seen_and_written_again),
        TEST(a_removed_image_is_made_anew),
        TEST(a_cut_image_is_made_anew),
        TEST(another_file_in_the_images_place_is_left_alone),
        TEST(an_image_that_cannot_be_made_anew_is_not_kept),
        TEST(a_drop_holds_no_request_up),
        TEST(a_drop_that_failed_changes_nothing),
        TEST(without_space_nothing_is_created),
        TEST(a_network_directory_is_refused),
        TEST(dropping_while_others_use_it),
        TEST(many_initialize_the_same_at_once),
        TEST(the_writer_of_images_gives_way),
    };
    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
