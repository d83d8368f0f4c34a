/* The fault loop over real parts: a session of open, set, get, exists, delete, add a pool, clear,
 * close over the catalogs of this process and each engine, where in run n the nth I/O or the nth
 * allocation fails, once or from then on, until a run passes without meeting one. No crash, no
 * leak; what is said to be stored is there unless the storage lied about it; no byte is ever wrong;
 * the accounts add up, and kept catalogs are whole.
 *
 * test_faults.c does the same over parts that are made up, and lets each call of the index fail. */
#include "metadata/registry.h"
#include "store/store.h"
#include "support/engine_fault.h"
#include "support/engine_mem.h"
#include "support/fail_allocation.h"
#include "support/page_load.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, PAGES = 24, KEYS = 5, FILES = 2, PATH_BYTES = TEMP_DIR_MAX + 32 };

enum engine { MEM, POSIX, URING, ENGINES };
static const char *const engine_names[] = {"mem", "posix", "uring, direct"};

struct world {
    enum engine engine;
    bool kept, pairs, breakable; /* breakable: I/O goes through an engine that fails as told */
    char dir[TEMP_DIR_MAX], prefix[PATH_BYTES], catalogs[PATH_BYTES];
    struct kvs_store_options options;
    struct mem_disk *disks[FILES];
    struct pagefile *files[FILES]; /* of the store that is open */
    size_t opened;
    struct fault_rule rule;
    _Atomic uint64_t now_ns;
    struct page_load load;
    bool said[KEYS]; /* stored, when asked */
};

/* ---- The world -------------------------------------------------------------------------------*/

static enum kvs_status open_file(void *arg, enum kvs_io_engine engine,
                                 const struct pagefile_options *options, struct pagefile **ret_file,
                                 struct kvs_error *error)
{
    struct world *world = arg;
    struct pagefile *file;
    size_t number = world->opened++ % FILES;
    if (world->engine == MEM) {
        if (world->disks[number] == NULL)
            world->disks[number] = mem_disk_new(options->file_size);
        file = engine_mem_new(world->disks[number]);
    } else {
        enum kvs_status status = pagefile_open(engine, options, &file, error);
        if (status != KVS_OK)
            return status;
    }
    if (world->breakable) {
        file = engine_fault_new(file, 1);
        engine_fault_set(file, &world->rule);
        world->files[number] = file;
    }
    *ret_file = file;
    return KVS_OK;
}

static uint64_t now_of(void *arg)
{
    return atomic_load(&((struct world *)arg)->now_ns);
}

static void world_make(struct world *world)
{
    temp_dir_make(world->dir);
    snprintf(world->prefix, sizeof(world->prefix), "%s/pages", world->dir);
    /* In memory: hundreds of runs would wait for their syncs. */
    snprintf(world->catalogs, sizeof(world->catalogs), "/dev/shm/%s", strrchr(world->dir, '/') + 1);
    atomic_init(&world->now_ns, 1000000000);
    struct kvs_store_options *options = &world->options;
    kvs_store_options_init(options);
    options->bytes_per_page = PAGE;
    options->file_size = PAGE * PAGES;
    options->file_path_prefix = world->prefix;
    options->metadata_dir = world->kept ? world->catalogs : NULL;
    options->numjobs = 1;
    options->entries = 4;
    options->quarantine = 0;
    options->pairs = world->pairs;
    options->io_engine = world->engine == URING ? KVS_IO_URING : KVS_IO_POSIX;
    options->direct = world->engine == URING ? KVS_DIRECT_ON : KVS_DIRECT_OFF;
}

static void world_done(struct world *world)
{
    for (size_t i = 0; i < FILES; i++)
        mem_disk_free(world->disks[i]);
    temp_dir_remove(world->dir);
    temp_dir_remove(world->catalogs);
}

static enum kvs_status world_open(struct world *world, struct kvs_error *error)
{
    const struct store_parts parts = {
        .open_file = open_file, .open_file_arg = world, .now_ns = now_of, .now_arg = world};
    world->opened = 0;
    return store_open(&world->options, &parts, &world->load.store, error);
}

/* ---- Calls, every byte checked ---------------------------------------------------------------*/

static uint8_t memory[2 * KEYS][PAGE] __attribute__((aligned(4096)));
static char texts[KEYS][PAGE_LOAD_KEY_BYTES];
static const char *keys[KEYS];
static void *buffers[2 * KEYS];
static bool results[KEYS];

static size_t halves_of(const struct world *world, uint32_t pool)
{
    return world->pairs && pool == KVS_POOL_KV ? 2 : 1;
}

static void name_keys(uint64_t first)
{
    for (size_t i = 0; i < KEYS; i++) {
        page_load_key(first + i, texts[i]);
        keys[i] = texts[i];
    }
    for (size_t i = 0; i < 2 * KEYS; i++)
        buffers[i] = memory[i];
}

static void set(struct world *world, uint32_t pool, uint64_t first)
{
    size_t halves = halves_of(world, pool);
    name_keys(first);
    for (size_t i = 0; i < KEYS * halves; i++)
        page_load_fill(memory[i], PAGE, first * 2 + i);
    kvs_store_batch_set(world->load.store, pool, KEYS, keys, (const void *const *)buffers, results);
}

static size_t get(struct world *world, uint32_t pool, uint64_t first)
{
    size_t halves = halves_of(world, pool), loaded = 0;
    name_keys(first);
    memset(memory, 0, sizeof(memory));
    kvs_store_batch_get(world->load.store, pool, KEYS, keys, buffers, results);
    for (size_t i = 0; i < KEYS; i++) {
        loaded += results[i];
        for (size_t half = 0; results[i] && half < halves; half++)
            assert_int_equal(
                page_load_wrong(memory[i * halves + half], PAGE, first * 2 + i * halves + half), 0);
    }
    return loaded;
}

/* What was never said to be stored is not there; with `whole`, the rest is. */
static void check(struct world *world, uint64_t first, bool whole)
{
    get(world, KVS_POOL_KV, first);
    for (size_t i = 0; i < KEYS; i++) {
        assert_true(!results[i] || world->said[i]);
        assert_true(!whole || results[i] == world->said[i]);
    }
    size_t run = kvs_store_batch_exists(world->load.store, KVS_POOL_KV, KEYS, keys);
    for (size_t i = 0; i < run; i++)
        assert_true(world->said[i]);
}

static void set_and_remember(struct world *world, uint64_t first)
{
    set(world, KVS_POOL_KV, first);
    memcpy(world->said, results, sizeof(world->said));
}

/* ---- The session -----------------------------------------------------------------------------*/

static void use_pool(struct world *world)
{
    const struct kvs_pool_options pool = {
        .size = sizeof(pool), .name = "mamba", .bytes_per_page = PAGE, .file_size = PAGE * PAGES};
    uint32_t number;
    struct kvs_error error = {0};
    if (kvs_store_add_pool(world->load.store, &pool, &number, &error) != KVS_OK) {
        assert_true(error.message[0] != '\0');
        return;
    }
    set(world, number, 300);
    get(world, number, 300);
}

static void use(struct world *world)
{
    set_and_remember(world, 100);
    check(world, 100, false);
    name_keys(100);
    if (kvs_store_delete(world->load.store, KVS_POOL_KV, 2, keys, NULL) == KVS_OK)
        world->said[0] = world->said[1] = false;
    check(world, 100, false);
    use_pool(world);
    if (kvs_store_clear(world->load.store, NULL) == KVS_OK)
        memset(world->said, 0, sizeof(world->said));
    check(world, 100, false);
    set_and_remember(world, 200);
    check(world, 200, false);
}

/* The storage says the truth again, and every pause has passed. */
static void settle(struct world *world, bool lied)
{
    atomic_fetch_add(&world->now_ns, UINT64_C(3600000000000));
    check(world, 200, !lied);
    struct kvs_store_stats s;
    kvs_store_get_stats(world->load.store, &s);
    assert_int_equal(s.inflight_bytes, 0);
    assert_int_equal(s.pages_asked, s.pages_loaded + s.pages_missed);
    assert_int_equal(s.pages_set, s.pages_written + s.pages_present + s.pages_not_stored);
    assert_int_equal(s.pages_missed, s.missed_absent + s.missed_replaced + s.missed_mismatch +
                                         s.missed_read_error + s.missed_overdue +
                                         s.missed_metadata + s.missed_refused);
}

static void look_at_catalogs(const struct world *world)
{
    const struct registry_options options = {
        .dir = world->catalogs, .reserve_ttl_ms = 1000, .quarantine_ms = 0};
    struct registry *registry;
    assert_int_equal(registry_open(&options, &registry, NULL), KVS_OK);
    struct registry_entry *entry = registry_lock(registry, 0, "kv", 2);
    assert_non_null(entry);
    const char *broken = catalog_check(registry_catalog(entry));
    struct catalog_counts counts =
        catalog_counts(registry_catalog(entry), registry_now_ms(registry));
    registry_unlock(entry);
    registry_close(registry);
    if (broken != NULL)
        fail_msg("%s", broken);
    assert_int_equal(counts.reserved, 0);
}

/* What is kept is there after a restart. */
static void reopen(struct world *world, bool lied)
{
    kvs_store_close(world->load.store);
    if (!world->kept)
        return;
    look_at_catalogs(world);
    struct kvs_error error = {0};
    if (world_open(world, &error) != KVS_OK)
        fail_msg("%s", error.message);
    check(world, 200, !lied);
    kvs_store_close(world->load.store);
}

/* ---- I/O -------------------------------------------------------------------------------------*/

static bool io_run(const struct world *kind, const struct fault_rule *rule)
{
    struct world world = *kind;
    struct kvs_error error = {0};
    world_make(&world);
    world.rule = *rule;
    if (world_open(&world, &error) != KVS_OK)
        fail_msg("%s", error.message);
    use(&world);
    bool clean = true;
    for (size_t i = 0; i < FILES; i++) {
        clean = clean && engine_fault_fired(world.files[i]) == 0;
        engine_fault_set(world.files[i], &(struct fault_rule){.kind = FAULT_NONE});
    }
    world.rule = (struct fault_rule){.kind = FAULT_NONE};
    /* Lost or flipped writes are said to be done, and a read that fails twice drops a page. */
    bool lied = rule->kind == FAULT_LOST || rule->kind == FAULT_FLIP;
    settle(&world, lied);
    reopen(&world, lied);
    world_done(&world);
    return clean;
}

static void test_every_io_fails(void **state)
{
    (void)state;
    static const struct {
        enum fault_kind kind;
        int error_number;
        bool from_then_on;
    } faults[] = {{FAULT_ERROR, EIO, false}, {FAULT_ERROR, EIO, true}, {FAULT_ERROR, ENOSPC, true},
                  {FAULT_SHORT, 0, false},   {FAULT_LONG, 0, false},   {FAULT_TORN, EIO, false},
                  {FAULT_LOST, 0, true},     {FAULT_FLIP, 0, false},   {FAULT_FLIP, 0, true}};
    for (enum engine engine = MEM; engine < ENGINES; engine++)
        for (size_t f = 0; f < sizeof(faults) / sizeof(faults[0]); f++) {
            struct world world = {
                .engine = engine, .breakable = true, .kept = engine == POSIX && f % 4 == 0};
            uint64_t nth = 0;
            for (bool clean = false; !clean;) {
                assert_true(++nth < 1000);
                struct fault_rule rule = {.kind = faults[f].kind,
                                          .error_number = faults[f].error_number,
                                          .reads = faults[f].kind != FAULT_LOST,
                                          .writes = true,
                                          .nth = nth,
                                          .from_then_on = faults[f].from_then_on};
                world.pairs = f % 2 == 1;
                clean = io_run(&world, &rule);
            }
            if (nth < 10)
                fail_msg("%s: clean after %d runs", engine_names[engine], (int)nth);
        }
}

/* ---- Allocations -----------------------------------------------------------------------------*/

#if CAN_FAIL_ALLOCATIONS
/* True when none failed. */
static bool allocation_run(const struct world *kind, uint64_t nth)
{
    struct world world = *kind;
    struct kvs_error error = {0};
    world_make(&world);
    fail_allocation_arm(nth);
    enum kvs_status status = world_open(&world, &error);
    if (status == KVS_OK)
        use(&world);
    bool clean = !fail_allocation_fired();
    fail_allocation_arm(0);
    assert_true(status == KVS_OK || (!clean && error.message[0] != '\0'));
    if (status == KVS_OK) {
        settle(&world, false);
        reopen(&world, false);
    }
    world_done(&world);
    return clean;
}

static void test_every_allocation_fails(void **state)
{
    (void)state;
    for (int kept = 0; kept < 2; kept++)
        for (enum engine engine = POSIX; engine < ENGINES; engine++) {
            struct world world = {
                .engine = engine, .kept = kept == 1, .pairs = (engine == POSIX) == (kept == 1)};
            allocation_run(&world, 0); /* what the C library allocates once */
            int64_t before = fail_allocation_blocks();
            uint64_t nth = 1;
            while (!allocation_run(&world, nth))
                assert_true(++nth < 10000);
            assert_true(nth > 40);
            if (fail_allocation_blocks() != before)
                fail_msg("%s: %d blocks are left after %d runs", engine_names[engine],
                         (int)(fail_allocation_blocks() - before), (int)nth);
        }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_io_fails),
#if CAN_FAIL_ALLOCATIONS
        cmocka_unit_test(test_every_allocation_fails),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
