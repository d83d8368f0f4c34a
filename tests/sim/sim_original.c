/* Original clients: SGLang's own HF3FS backend as it is. No generations, no checksums, no time-out:
 * when a connection breaks the request is sent again, three times, whatever it was. What the index
 * says is read and believed. */
#include "base/json.h"
#include "sim_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, ATTEMPTS = 4, RETRY_MS = 20 };

struct request {
    struct buffer body;
    struct json_writer json;
    struct network_note note;
};

static void begin(struct request *request)
{
    request->body = (struct buffer){0};
    request->json = (struct json_writer){.out = &request->body};
    request->note = (struct network_note){0};
    json_write_object_begin(&request->json);
    json_write_name(&request->json, "namespace");
    json_write_text(&request->json, "kv");
}

/* Once; NULL: the connection broke, or there was none. */
static struct network_call *post_once(struct client *client, const char *operation,
                                      const struct buffer *body, const struct network_note *note)
{
    char path[64];
    struct network_call *call;
    snprintf(path, sizeof(path), "/0/%s", operation);
    if (body->failed)
        abort();
    return network_post(&client->network, path, body->data, body->length, note, SIM_FOREVER,
                        &call) == NETWORK_ANSWERED
               ? call
               : NULL;
}

/* The answer, for network_done(); NULL: it has raised. */
static struct network_call *post(struct client *client, const char *operation,
                                 struct request *request)
{
    struct network_call *call = NULL;
    json_write_object_end(&request->json);
    for (unsigned i = 0; i < ATTEMPTS && call == NULL; i++) {
        if (i > 0)
            sim_sleep((uint64_t)RETRY_MS * 1000 << i);
        call = post_once(client, operation, &request->body, &request->note);
        if (call != NULL && call->status >= 500 && i + 1 < ATTEMPTS) {
            network_done(call);
            call = NULL;
        }
    }
    buffer_done(&request->body);
    if (call != NULL && call->status >= 400) {
        sim_trace("%s: %s answers %d", client->name, operation, call->status);
        network_done(call);
        call = NULL;
    }
    return call;
}

static void initialize(struct client *client)
{
    struct request request;
    begin(&request);
    json_write_name(&request.json, "num_pages");
    json_write_uint64(&request.json, sim_plan.num_pages);
    struct network_call *call = post(client, "initialize", &request);
    if (call != NULL)
        network_done(call);
}

/* ---- Writing -------------------------------------------------------------------------------- */

struct written {
    int key;
    int64_t page;
    uint64_t generation; /* known to the truth alone */
    bool present, good;
};

static bool read_indices(const struct network_call *call, struct written pages[], size_t n)
{
    struct json_reader json;
    struct json_text name;
    json_reader_init(&json, call->answer, call->answer_bytes, NULL, JSON_DEPTH);
    if (!json_object_begin(&json) || !json_object_next(&json, &name) || !json_array_begin(&json))
        return false;
    for (size_t i = 0; json_array_next(&json); i++)
        if (i == n || !json_array_begin(&json) || !json_array_next(&json) ||
            !json_bool(&json, &pages[i].present) || !json_array_next(&json) ||
            !json_int64(&json, &pages[i].page) || json_array_next(&json))
            return false;
    return !json_failed(&json);
}

static bool reserve(struct client *client, struct written pages[], size_t n)
{
    struct request request;
    begin(&request);
    json_write_name(&request.json, "keys");
    json_write_array_begin(&request.json);
    for (size_t i = 0; i < n; i++) {
        json_write_array_begin(&request.json);
        json_write_text(&request.json, truth_key_text(pages[i].key));
        json_write_text(&request.json, i == 0 ? "" : truth_key_text(pages[i - 1].key));
        json_write_array_end(&request.json);
    }
    json_write_array_end(&request.json);
    struct network_call *call = post(client, "reserve_and_allocate_page_indices", &request);
    if (call == NULL)
        return false;
    if (!read_indices(call, pages, n))
        sim_fail("an original client cannot read the answer to its reserve");
    for (size_t i = 0; i < n; i++)
        pages[i].generation = call->answer_note.generations[i];
    network_done(call);
    return true;
}

static void write_pages(struct client *client, struct written pages[], size_t n)
{
    uint8_t bytes[SIM_PAGE_BYTES_MAX];
    bool unused;
    for (size_t i = 0; i < n; i++) {
        if (pages[i].present || pages[i].page < 0)
            continue;
        truth_fill(truth_version_new(pages[i].key), bytes);
        client->disk.generations[pages[i].page] = pages[i].generation;
        pages[i].good = disk_transfer(&client->disk, PAGE_WRITE, pages[i].page, bytes, &unused) ==
                        (int64_t)sim_plan.page_bytes;
    }
}

static void confirm(struct client *client, const struct written pages[], size_t n)
{
    struct request request;
    begin(&request);
    struct network_note *note = &request.note;
    json_write_name(&request.json, "written_keys_to_confirm");
    json_write_array_begin(&request.json);
    for (size_t i = 0; i < n; i++) {
        if (!pages[i].good)
            continue;
        json_write_array_begin(&request.json);
        json_write_text(&request.json, truth_key_text(pages[i].key));
        json_write_int64(&request.json, pages[i].page);
        json_write_array_end(&request.json);
        note->confirm_generations[note->confirms++] = pages[i].generation;
    }
    json_write_array_end(&request.json);
    json_write_name(&request.json, "pages_to_release");
    json_write_array_begin(&request.json);
    for (size_t i = 0; i < n; i++) {
        if (pages[i].present || pages[i].page < 0 || pages[i].good)
            continue;
        json_write_int64(&request.json, pages[i].page);
        note->release_generations[note->releases++] = pages[i].generation;
    }
    json_write_array_end(&request.json);
    struct network_call *call = post(client, "confirm_write", &request);
    if (call != NULL)
        network_done(call);
}

static void set(struct client *client)
{
    struct written pages[BATCH] = {0};
    size_t n = 1 + below(&client->chance, BATCH);
    uint64_t at = below(&client->chance, truth_key_count());
    for (size_t i = 0; i < n; i++)
        pages[i].key = (int)((at + i) % truth_key_count());
    if (!reserve(client, pages, n))
        return;
    write_pages(client, pages, n);
    if (sim_fault(&client->chance, FAULT_DEAD_WRITER))
        return;
    if (sim_fault(&client->chance, FAULT_LATE_CONFIRM))
        sim_sleep(below(&client->chance, 2 * (uint64_t)sim_plan.slow_ms) * 1000);
    confirm(client, pages, n);
}

/* ---- Reading -------------------------------------------------------------------------------- */

static bool read_pages(const struct network_call *call, int64_t pages[], size_t n)
{
    struct json_reader json;
    struct json_text name;
    json_reader_init(&json, call->answer, call->answer_bytes, NULL, JSON_DEPTH);
    if (!json_object_begin(&json) || !json_object_next(&json, &name) || !json_array_begin(&json))
        return false;
    for (size_t i = 0; json_array_next(&json); i++) {
        pages[i < n ? i : 0] = -1;
        if (i == n ||
            !(json_peek(&json) == JSON_NULL ? json_null(&json) : json_int64(&json, &pages[i])))
            return false;
    }
    return !json_failed(&json);
}

static void write_keys(struct request *request, const int keys[], size_t n)
{
    json_write_name(&request->json, "keys");
    json_write_array_begin(&request->json);
    for (size_t i = 0; i < n; i++)
        json_write_text(&request->json, truth_key_text(keys[i]));
    json_write_array_end(&request->json);
}

static void draw_keys(struct client *client, int keys[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        keys[i] = (int)below(&client->chance, truth_key_count());
}

static void get(struct client *client)
{
    int keys[BATCH];
    int64_t pages[BATCH];
    uint64_t generations[BATCH];
    uint8_t bytes[SIM_PAGE_BYTES_MAX];
    struct request request;
    size_t n = 1 + below(&client->chance, BATCH);
    draw_keys(client, keys, n);
    begin(&request);
    write_keys(&request, keys, n);
    struct network_call *call = post(client, "get_page_indices", &request);
    if (call == NULL)
        return;
    if (!read_pages(call, pages, n))
        sim_fail("an original client cannot read the answer to its get");
    uint64_t got_ms = call->answer_note.answered_ms;
    for (size_t i = 0; i < n; i++)
        generations[i] = call->answer_note.generations[i];
    network_done(call);
    for (size_t i = 0; i < n; i++) {
        bool wild;
        if (pages[i] < 0 || disk_transfer(&client->disk, PAGE_READ, pages[i], bytes, &wild) !=
                                (int64_t)sim_plan.page_bytes)
            continue;
        truth_check_original(keys[i], pages[i], generations[i], got_ms, wild, bytes, client->name);
    }
}

static void with_keys(struct client *client, const char *operation)
{
    int keys[BATCH];
    struct request request;
    size_t n = 1 + below(&client->chance, BATCH);
    draw_keys(client, keys, n);
    begin(&request);
    write_keys(&request, keys, n);
    struct network_call *call = post(client, operation, &request);
    if (call != NULL)
        network_done(call);
}

/* ---- Rare requests -------------------------------------------------------------------------- */

static void clear(struct client *client)
{
    struct request request;
    begin(&request);
    struct network_call *call = post(client, "clear", &request);
    if (call != NULL)
        network_done(call);
}

/* Refused, unless the namespace has been idle for long enough to be given away. */
static void other_geometry(struct client *client)
{
    struct request request;
    begin(&request);
    json_write_name(&request.json, "num_pages");
    json_write_uint64(&request.json, 1 + below(&client->chance, SIM_PAGES_MAX));
    struct network_call *call = post(client, "initialize", &request);
    if (call != NULL)
        network_done(call);
}

static void false_report(struct client *client)
{
    struct request request;
    int64_t page = (int64_t)below(&client->chance, SIM_PAGES_MAX + 2) - 1;
    uint64_t generation = truth_generation(page);
    begin(&request);
    json_write_name(&request.json, "pages");
    json_write_array_begin(&request.json);
    json_write_array_begin(&request.json);
    json_write_text(&request.json, truth_key_text((int)below(&client->chance, truth_key_count())));
    json_write_int64(&request.json, page);
    json_write_uint64(&request.json, one_in(&client->chance, 3)
                                         ? generation
                                         : generation - below(&client->chance, 3));
    json_write_array_end(&request.json);
    json_write_array_end(&request.json);
    struct network_call *call = post(client, "report_mismatch", &request);
    if (call != NULL)
        network_done(call);
}

/* Refused: the page has a checksum already. A page without one takes it, and is then damaged in the
 * eyes of those who verify. */
static void false_confirm(struct client *client)
{
    struct request request;
    int key;
    int64_t page = (int64_t)below(&client->chance, sim_plan.num_pages);
    if (!truth_is_committed(page, &key))
        return;
    begin(&request);
    json_write_name(&request.json, "written_keys_to_confirm");
    json_write_array_begin(&request.json);
    json_write_array_begin(&request.json);
    json_write_text(&request.json, truth_key_text(key));
    json_write_int64(&request.json, page);
    json_write_uint64(&request.json, truth_generation(page));
    json_write_text(&request.json, "0123456789abcdef");
    json_write_array_end(&request.json);
    json_write_array_end(&request.json);
    struct network_call *call = post(client, "confirm_write", &request);
    if (call != NULL)
        network_done(call);
}

/* A 4xx, and nothing has changed: the model was not told. */
static void malformed(struct client *client)
{
    static const struct {
        const char *operation, *body;
    } cases[] = {
        {"clear", "{\"namespace\":7}"},
        {"delete_keys", "{\"namespace\":\"kv\",\"keys\":[\"a\",5]}"},
        {"confirm_write", "{\"namespace\":\"kv\",\"written_keys_to_confirm\":[[\"a\",0],[\"b\"]]}"},
        {"reserve_and_allocate_page_indices",
         "{\"namespace\":\"kv\",\"keys\":[[\"a\",\"\"],[\"b\"]]}"},
        {"exists", "{\"keys\":[\"a\"],\"namespace\":\"kv\""},
        {"initialize", "{\"namespace\":\"kv\",\"num_pages\":0}"},
    };
    struct buffer body = {0};
    size_t at = below(&client->chance, sizeof(cases) / sizeof(cases[0]));
    buffer_append_text(&body, cases[at].body);
    struct network_call *call = post_once(client, cases[at].operation, &body, NULL);
    buffer_done(&body);
    if (call == NULL)
        return;
    if (call->status < 400 || call->status >= 500)
        sim_fail("a malformed %s was answered with %d", cases[at].operation, call->status);
    network_done(call);
}

/* ---- The process ---------------------------------------------------------------------------- */

static void do_one(struct client *client)
{
    struct chance *c = &client->chance;
    uint64_t what = below(c, 100);
    if (what < 40)
        set(client);
    else if (what < 80)
        get(client);
    else if (what < 85)
        with_keys(client, "exists");
    else if (sim_fault(c, FAULT_DELETE))
        with_keys(client, "delete_keys");
    else if (sim_fault(c, FAULT_CLEAR))
        clear(client);
    else if (sim_fault(c, FAULT_OTHER_GEOMETRY))
        other_geometry(client);
    else if (sim_fault(c, FAULT_FALSE_REPORT))
        false_report(client);
    else if (sim_fault(c, FAULT_MALFORMED))
        malformed(client);
    else if (sim_fault(c, FAULT_FALSE_CONFIRM))
        false_confirm(client);
    else if (one_in(c, 8))
        initialize(client);
}

static void run(void *arg)
{
    struct client *client = arg;
    initialize(client);
    while (!client->leaving) {
        sim_sleep(below(&client->chance, sim_plan.think_us));
        do_one(client);
    }
    sim_process_exit(&client->process);
    client->gone = true;
    sim_trace("%s has ended", client->name);
}

void original_start(struct client *client)
{
    client->network.patient = true;
    client->leaving = client->gone = false;
    sim_process_start(&client->process);
    sim_spawn(&client->process, run, client);
}
