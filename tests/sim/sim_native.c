/* Native clients: processes around a real store, with two threads that set and get at once, as an
 * engine has. Every page that a get gives is judged. */
#include "base/status.h"
#include "kvshelf/kvshelf.h"
#include "metadata/remote_cache.h"
#include "sim_client.h"
#include "sim_server.h"
#include "sim_transport.h"
#include "sim_twin.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    THREADS = 2,
    BATCH = 5,
    CLIENT_BYTES_MAX = (2 << 20) + REMOTE_CACHE_KEYS * 96,
    SCRIBBLE = 0xEE,
    TIME_SLACK_MS = 20, /* the time of each question is rounded up to a millisecond */
    BREAKER_PAUSE_MAX_MS = 31000,
};

/* ---- Opening -------------------------------------------------------------------------------- */

static uint64_t store_clock_ns(void *arg)
{
    return sim_machine_boot_us(((struct client *)arg)->process.machine) * 1000;
}

/* Of a store with catalogs of its own. */
static enum kvs_status open_catalogs(struct client *client, struct metadata_client **ret,
                                     struct kvs_error *error)
{
    struct registry_options options = sim_server_registry_options();
    options.foreign_writers = false;
    options.idle_reset_ms = 0;
    options.lease_ms = 0;
    twin_begin_opening();
    twin_asker =
        (struct truth_asker){.client = client->network.number, .life = client->process.lives};
    truth_local_grants = client->disk.generations;
    return metadata_local_open(&options, true, ret, error);
}

static enum kvs_status open_store(struct client *client, uint32_t num_pages,
                                  struct kvs_error *error)
{
    struct kvs_store_options options;
    client->disk.failed_us = 0;
    kvs_store_options_init(&options);
    options.bytes_per_page = sim_plan.page_bytes;
    options.file_size = (uint64_t)sim_plan.page_bytes * num_pages;
    options.pairs = sim_plan.pairs;
    options.file_path_prefix = "/simulated/pages";
    options.client_timeout = sim_plan.client_timeout_ms / 1000.0;
    options.max_inflight_bytes = 1 << 20;
    options.model = "simulated";
    options.log = sim_server_log;
    options.exists_cache_ms = sim_plan.exists_cache_ms;
    if (!client->local)
        options.metadata_server_url = "http://simulated";
    if (sim_plan.mla) {
        options.is_mla_model = true;
        options.tp_rank = client->rank;
        options.tp_size = SIM_NATIVES_MAX;
    }
    struct store_parts parts = {
        .open_file = disk_open,
        .open_file_arg = &client->disk,
        .now_ns = store_clock_ns,
        .now_arg = client,
    };
    enum kvs_status status = KVS_OK;
    if (client->local)
        status = open_catalogs(client, &parts.metadata, error);
    else
        parts.transport = transport_new(&client->network, &client->disk);
    if (status == KVS_OK)
        status = store_open(&options, &parts, &client->store, error);
    return status;
}

/* An engine is started again when its store does not open. */
static bool open_patiently(struct client *client)
{
    struct kvs_error error = {0};
    while (open_store(client, sim_plan.num_pages, &error) != KVS_OK) {
        sim_trace("%s does not open: %s", client->name, error.message);
        if (client->leaving)
            return false;
        sim_sleep(between(&client->chance, 10, 50) * 1000);
    }
    return true;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

struct batch {
    size_t n, halves;
    int page_keys[BATCH];
    const char *keys[BATCH];
    uint8_t *memory;
    void *buffers[2 * BATCH];
    bool results[BATCH];
    uint64_t began_us;
};

static void begin_call(struct batch *batch)
{
    batch->began_us = sim_now_us();
    transport_call_began(batch->began_us);
}

/* Neighbours, as of a prefix, or any pages; some of them twice. */
static void draw_batch(struct client *client, struct batch *batch, size_t n)
{
    struct chance *c = &client->chance;
    *batch = (struct batch){.n = n, .halves = sim_plan.pairs ? 2 : 1};
    size_t bytes = n * batch->halves * sim_plan.page_bytes;
    batch->memory = malloc(bytes);
    if (batch->memory == NULL)
        abort();
    memset(batch->memory, SCRIBBLE, bytes);
    uint64_t at = below(c, sim_plan.num_keys);
    for (size_t i = 0; i < n; i++, at++) {
        if (one_in(c, 6))
            at = below(c, sim_plan.num_keys);
        batch->page_keys[i] = (int)(at % sim_plan.num_keys);
        batch->keys[i] = truth_page_key(batch->page_keys[i]);
    }
    for (size_t i = 0; i < n * batch->halves; i++)
        batch->buffers[i] = batch->memory + i * sim_plan.page_bytes;
    begin_call(batch);
}

static int key_of(const struct batch *batch, size_t page, size_t half)
{
    return batch->page_keys[page] * (int)batch->halves + (int)half;
}

/* No call outlives its bound: that of all its questions together, and of its I/O. */
static void check_time(struct client *client, const struct batch *batch, const char *what,
                       uint64_t index_ms, bool moves)
{
    uint64_t took_ms = (sim_now_us() - batch->began_us) / 1000;
    uint64_t io_ms =
        sim_plan.deadlines ? sim_plan.client_timeout_ms : 8 * ((uint64_t)sim_plan.slow_ms + 3);
    uint64_t bound_ms = index_ms + (moves ? io_ms : 0);
    if (took_ms > bound_ms + TIME_SLACK_MS)
        sim_fail("a %s of %s took %" PRIu64 " ms, its bound is %" PRIu64 " ms", what, client->name,
                 took_ms, bound_ms);
}

/* The caller goes on with its memory: nobody else may touch it any more. */
static void end_batch(struct client *client, struct batch *batch)
{
    size_t bytes = batch->n * batch->halves * sim_plan.page_bytes;
    memset(batch->memory, SCRIBBLE, bytes);
    sim_sleep(below(&client->chance, sim_plan.think_us));
    for (size_t i = 0; i < bytes; i++)
        if (batch->memory[i] != SCRIBBLE)
            sim_fail("memory of %s was written to after the call had returned", client->name);
    free(batch->memory);
}

/* After a batch of writes failed as a whole, nothing is reserved for a while: a reservation costs a
 * page that is good. */
static void check_restraint(struct client *client, uint64_t failed_us, int version)
{
    uint64_t now_us = sim_machine_us(client->process.machine);
    if (failed_us != 0 && now_us - failed_us < DISK_RESTRAINT_US &&
        truth_version_was_written(version))
        sim_fail("%s goes on reserving pages although writing has just failed", client->name);
}

static void set(struct client *client, size_t n)
{
    struct batch batch;
    draw_batch(client, &batch, n);
    uint64_t failed_us = client->disk.failed_us;
    int versions[2 * BATCH];
    for (size_t i = 0; i < n * batch.halves; i++) {
        versions[i] = truth_version_new(key_of(&batch, i / batch.halves, i % batch.halves));
        truth_fill(versions[i], batch.buffers[i]);
    }
    kvs_store_batch_set(client->store, 0, n, batch.keys,
                        (const void *const *)(const void *)batch.buffers, batch.results);
    for (size_t i = 0; i < n; i++)
        sim_trace("%s set page key %d: %s", client->name, batch.page_keys[i],
                  batch.results[i] ? "stored" : "not stored");
    for (size_t i = 0; i < n * batch.halves; i++)
        if (batch.results[i / batch.halves])
            truth_check_stored(versions[i], client->name);
    for (size_t i = 0; i < n * batch.halves && client->rank > 0; i++)
        if (truth_version_was_written(versions[i]))
            sim_fail("%s, rank %u of an MLA model, writes what rank 0 writes for all", client->name,
                     client->rank);
    for (size_t i = 0; i < n * batch.halves; i++)
        check_restraint(client, failed_us, versions[i]);
    check_time(client, &batch, "set", sim_plan.client_timeout_ms, true);
    end_batch(client, &batch);
}

static void judge_read(struct client *client, const struct batch *batch, size_t i)
{
    for (size_t half = 0; batch->results[i] && half < batch->halves; half++)
        truth_check_native(key_of(batch, i, half), batch->buffers[i * batch->halves + half],
                           batch->began_us, (uint64_t)sim_plan.exists_cache_ms * 1000,
                           client->network.number, client->process.lives, client->name);
}

static void get_batch(struct client *client, struct batch *batch)
{
    begin_call(batch);
    kvs_store_batch_get(client->store, 0, batch->n, batch->keys, batch->buffers, batch->results);
    for (size_t i = 0; i < batch->n; i++) {
        sim_trace("%s get page key %d: %s", client->name, batch->page_keys[i],
                  batch->results[i] ? "loaded" : "missed");
        judge_read(client, batch, i);
    }
    check_time(client, batch, "get", sim_plan.client_timeout_ms, true);
}

/* Leaves in results which of the pages an engine would now ask for. */
static void look_up_batch(struct client *client, struct batch *batch)
{
    uint64_t bound_ms = sim_plan.client_timeout_ms < METADATA_EXISTS_TIMEOUT_MS
                            ? sim_plan.client_timeout_ms
                            : METADATA_EXISTS_TIMEOUT_MS;
    size_t run = SIZE_MAX;
    begin_call(batch);
    if (one_in(&client->chance, 2))
        kvs_store_batch_contains(client->store, 0, batch->n, batch->keys, batch->results);
    else
        run = kvs_store_batch_exists(client->store, 0, batch->n, batch->keys);
    for (size_t i = 0; i < batch->n && run <= batch->n; i++)
        batch->results[i] = i < run;
    check_time(client, batch, "look-up", bound_ms, false);
}

static void keep_found(struct batch *batch)
{
    size_t found = 0;
    for (size_t i = 0; i < batch->n; i++) {
        if (!batch->results[i])
            continue;
        batch->page_keys[found] = batch->page_keys[i];
        batch->keys[found++] = batch->keys[i];
    }
    batch->n = found;
}

/* As engines do: first whether it is there, then, at once or somewhat later, the bytes. */
static void get(struct client *client, size_t n)
{
    struct batch batch;
    draw_batch(client, &batch, n);
    if (one_in(&client->chance, 2)) {
        look_up_batch(client, &batch);
        keep_found(&batch);
        if (one_in(&client->chance, 2))
            sim_sleep(below(&client->chance, sim_plan.think_us));
    }
    get_batch(client, &batch);
    end_batch(client, &batch);
}

static void look_up(struct client *client)
{
    struct batch batch;
    draw_batch(client, &batch, BATCH);
    look_up_batch(client, &batch);
    end_batch(client, &batch);
}

/* What was known of the keys before counts no more. */
static void erase(struct client *client)
{
    struct batch batch;
    int keys[2 * BATCH];
    draw_batch(client, &batch, 1 + below(&client->chance, 2));
    for (size_t i = 0; i < batch.n * batch.halves; i++)
        keys[i] = key_of(&batch, i / batch.halves, i % batch.halves);
    look_up_batch(client, &batch);
    begin_call(&batch);
    if (kvs_store_delete(client->store, 0, batch.n, batch.keys, NULL) == KVS_OK)
        truth_was_told_of_delete(keys, batch.n * batch.halves, client->network.number,
                                 client->process.lives);
    check_time(client, &batch, "delete", sim_plan.client_timeout_ms, false);
    sim_sleep(1); /* so that the get begins after what was told */
    get_batch(client, &batch);
    end_batch(client, &batch);
}

static void clear(struct client *client)
{
    struct batch batch;
    draw_batch(client, &batch, 1 + below(&client->chance, 2));
    look_up_batch(client, &batch);
    begin_call(&batch);
    if (kvs_store_clear(client->store, NULL) == KVS_OK)
        truth_was_told_of_delete(NULL, 0, client->network.number, client->process.lives);
    check_time(client, &batch, "clear", sim_plan.client_timeout_ms, false);
    sim_sleep(1); /* so that the get begins after what was told */
    get_batch(client, &batch);
    end_batch(client, &batch);
}

static void do_one(struct client *client)
{
    struct chance *c = &client->chance;
    uint64_t what = below(c, 100);
    if (what < 40)
        set(client, 1 + below(c, BATCH));
    else if (what < 75)
        get(client, 1 + below(c, BATCH));
    else if (what < 83)
        look_up(client);
    else if (sim_fault(c, FAULT_DELETE))
        erase(client);
    else if (sim_fault(c, FAULT_CLEAR))
        clear(client);
}

/* ---- The process ---------------------------------------------------------------------------- */

static void work(void *arg)
{
    struct client *client = arg;
    while (!client->leaving) {
        sim_sleep(below(&client->chance, sim_plan.think_us));
        do_one(client);
    }
    client->busy--;
    sim_wake_all(&client->busy);
}

static void end_process(struct client *client)
{
    client->store = kvs_store_close(client->store);
    if (client->local)
        twin_stopped();
    if (client->process.peak_bytes > CLIENT_BYTES_MAX && !client->local)
        sim_fail("%s held %zu bytes of memory", client->name, client->process.peak_bytes);
    sim_process_exit(&client->process);
    client->gone = true;
    sim_trace("%s has ended", client->name);
}

/* ---- The last look -------------------------------------------------------------------------- */

/* Until every reservation, rest and lease is over. */
static void rest(void)
{
    uint64_t ms = 2 * (sim_plan.reserve_ttl_ms + sim_plan.quarantine_ms + sim_plan.lease_ms);
    sim_sleep((ms + 4 * (uint64_t)sim_plan.slow_ms + 1000) * 1000);
}

/* Nothing fails any more and every rest is over: a page can be stored and read again. */
static void store_and_read(struct client *client)
{
    struct batch batch;
    draw_batch(client, &batch, 1);
    kvs_store_delete(client->store, 0, 1, batch.keys, NULL);
    for (size_t half = 0; half < batch.halves; half++)
        truth_fill(truth_version_new(key_of(&batch, 0, half)), batch.buffers[half]);
    kvs_store_batch_set(client->store, 0, 1, batch.keys,
                        (const void *const *)(const void *)batch.buffers, batch.results);
    bool fits = twin_catalog() == NULL || catalog_num_pages(twin_catalog()) >= batch.halves;
    if (!batch.results[0] && fits)
        sim_fail("after everything has settled a page cannot be stored");
    kvs_store_batch_get(client->store, 0, 1, batch.keys, batch.buffers, batch.results);
    if (!batch.results[0] && fits)
        sim_fail("after everything has settled a page that was stored cannot be read");
    for (size_t half = 0; batch.results[0] && half < batch.halves; half++)
        judge_read(client, &batch, 0);
    end_batch(client, &batch);
}

/* A store that was there all the time, whatever it went through, works like a new one. */
static void look_again(struct client *client)
{
    static const void *turn; /* two at once would delete each other's page */
    client->idle = true;
    while (!client->may_look)
        sim_sleep(20000);
    sim_sleep(BREAKER_PAUSE_MAX_MS * UINT64_C(1000));
    rest();
    while (turn != NULL)
        sim_wait(&turn, SIM_FOREVER);
    turn = client;
    bool other = twin_catalog() != NULL && catalog_num_pages(twin_catalog()) != sim_plan.num_pages;
    if (!other && client->rank == 0)
        store_and_read(client);
    turn = NULL;
    sim_wake_all(&turn);
}

static void last_look(void *arg)
{
    struct client *client = arg;
    struct kvs_error error = {0};
    uint32_t num_pages =
        twin_catalog() == NULL ? sim_plan.num_pages : catalog_num_pages(twin_catalog());
    if (open_store(client, num_pages, &error) != KVS_OK)
        sim_fail("after everything has settled a store does not open: %s", error.message);
    rest();
    if (twin_catalog() != NULL)
        store_and_read(client);
    if (twin_catalog() == NULL)
        sim_fail("after everything has settled there is no catalog");
    twin_look();
    end_process(client);
}

static void run(void *arg)
{
    struct client *client = arg;
    if (open_patiently(client)) {
        client->busy = THREADS;
        for (size_t i = 0; i < THREADS; i++)
            sim_spawn(&client->process, work, client);
        while (client->busy > 0)
            sim_wait(&client->busy, SIM_FOREVER);
        if (sim_settling)
            look_again(client);
    }
    end_process(client);
}

void native_start(struct client *client)
{
    client->leaving = client->gone = client->idle = client->may_look = false;
    client->store = NULL;
    sim_process_start(&client->process);
    sim_spawn(&client->process, run, client);
}

void native_last_look(struct client *client)
{
    client->leaving = client->gone = false;
    client->store = NULL;
    sim_process_start(&client->process);
    sim_spawn(&client->process, last_look, client);
}

/* ---- Any client ----------------------------------------------------------------------------- */

void client_init(struct client *client, const char *kind, int number, uint64_t seed)
{
    memset(client, 0, sizeof(*client));
    snprintf(client->name, sizeof(client->name), "%s %d", kind, number);
    client->chance.state = seed * 31 + (uint64_t)number;
    client->machine.wall_us = UINT64_C(1700000000000000);
    client->process = (struct sim_process){.name = client->name, .machine = &client->machine};
    client->network = (struct network_client){.number = number, .process = &client->process};
    client->disk.process = &client->process;
    client->gone = true;
    client->rank = sim_plan.mla && (uint32_t)number <= sim_plan.natives ? (uint32_t)number - 1 : 0;
}

void client_kill(struct client *client)
{
    disk_user_died(&client->disk);
    client->store = NULL;
    sim_process_kill(&client->process);
}
