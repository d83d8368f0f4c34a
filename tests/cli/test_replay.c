/* Replays over the index alone, against a small and obviously right model of both eviction orders,
 * and where the public conversation trace lies beside the checkout, against its known hit ratios.
 */
#include "base/json.h"
#include "cli/replay.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A model ---------------------------------------------------------------------------------
 * Time of last use by id; 0: absent. Everything is found by looking at everything. */
enum { IDS = 600 };

struct model {
    bool lru; /* the order of uses within a batch: first to last, else last to first */
    size_t capacity, present;
    uint64_t clock, used[IDS];
};

static size_t position(const struct model *model, size_t i, size_t n)
{
    return model->lru ? i : n - 1 - i;
}

static void use_present(struct model *model, const uint64_t ids[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t id = ids[position(model, i, n)];
        if (model->used[id] != 0)
            model->used[id] = ++model->clock;
    }
}

static bool contains(const uint64_t ids[], size_t n, uint64_t id)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static void evict_oldest(struct model *model, const uint64_t ids[], size_t n)
{
    uint64_t oldest = IDS;
    for (uint64_t id = 0; id < IDS; id++)
        if (model->used[id] != 0 && !contains(ids, n, id) &&
            (oldest == IDS || model->used[id] < model->used[oldest]))
            oldest = id;
    assert_true(oldest < IDS);
    model->used[oldest] = 0;
    model->present--;
}

/* The leading run. */
static size_t model_get(struct model *model, const uint64_t ids[], size_t n)
{
    size_t run = 0;
    while (run < n && model->used[ids[run]] != 0)
        run++;
    use_present(model, ids, n);
    return run;
}

/* Pages written. */
static size_t model_set(struct model *model, const uint64_t ids[], size_t n)
{
    bool missing[IDS] = {false};
    size_t written = 0;
    use_present(model, ids, n);
    for (size_t i = 0; i < n; i++)
        missing[i] = model->used[ids[i]] == 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = position(model, i, n);
        if (!missing[at])
            continue;
        if (model->present == model->capacity)
            evict_oldest(model, ids, n);
        model->used[ids[at]] = ++model->clock;
        model->present++;
        written++;
    }
    return written;
}

static void model_request(struct model *model, const uint64_t ids[], size_t n, size_t batch,
                          size_t *ret_run, size_t *ret_written)
{
    size_t run = 0, written = 0;
    for (size_t at = 0; at < n && run == at; at += batch)
        run += model_get(model, ids + at, at + batch < n ? batch : n - at);
    for (size_t at = 0; at < n; at += batch)
        written += model_set(model, ids + at, at + batch < n ? batch : n - at);
    *ret_run = run;
    *ret_written = written;
}

/* ---- Traces ----------------------------------------------------------------------------------*/

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

enum { REQUESTS = 400, LARGEST = 24 };

/* Chains of ids that share beginnings: a request takes one of the chains up to some length. No id
 * twice in a request. */
static struct trace make_trace(uint64_t seed)
{
    struct trace trace = {
        .num_requests = REQUESTS,
        .first = calloc(REQUESTS + 1, sizeof(size_t)),
        .ids = calloc((size_t)REQUESTS * LARGEST, sizeof(uint64_t)),
        .largest = LARGEST,
    };
    assert_non_null(trace.first);
    assert_non_null(trace.ids);
    for (size_t r = 0; r < REQUESTS; r++) {
        trace.first[r] = trace.num_ids;
        uint64_t shared = next_random(&seed) % 4, chain = next_random(&seed) % 25;
        size_t n = (size_t)(next_random(&seed) % (LARGEST + 1));
        for (size_t i = 0; i < n; i++)
            trace.ids[trace.num_ids++] = i < shared ? i : 4 + (chain * 23 + i) % (IDS - 4);
    }
    trace.first[REQUESTS] = trace.num_ids;
    return trace;
}

static bool go_on(void *arg, size_t done, size_t requests)
{
    size_t *stop_after = arg;
    assert_true(done <= requests);
    return done != *stop_after;
}

static void replay_memory(const struct trace *trace, uint32_t capacity_pages,
                          enum kvs_eviction eviction, size_t batch, size_t stop_after,
                          struct replay_result *ret_result)
{
    struct replay_target_options options = {
        .capacity_pages = capacity_pages,
        .page_bytes = 4096,
        .batch_max = trace->largest,
        .eviction = eviction,
    };
    struct replay_target *target;
    struct kvs_error error;
    if (replay_memory_open(&options, &target, &error) != KVS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(replay_run(trace, target, batch, go_on, &stop_after, ret_result, &error),
                     KVS_OK);
    assert_null(target->ops->close(target));
}

/* ---- Tests -----------------------------------------------------------------------------------*/

static void compare_with_model(const struct trace *trace, size_t capacity, bool lru, size_t batch)
{
    struct replay_result result;
    replay_memory(trace, (uint32_t)capacity, lru ? KVS_EVICTION_LRU : KVS_EVICTION_PREFIX, batch, 0,
                  &result);
    struct model model = {.lru = lru, .capacity = capacity};
    uint64_t hit = 0, written = 0;
    for (size_t r = 0; r < trace->num_requests; r++) {
        size_t run, wrote;
        model_request(&model, trace->ids + trace->first[r], trace_count(trace, r),
                      batch == 0 ? LARGEST : batch, &run, &wrote);
        if (result.hit_of_request[r] != run)
            fail_msg("request %zu, capacity %zu, lru %d, batch %zu: hit %u, the model's is %zu", r,
                     capacity, lru, batch, result.hit_of_request[r], run);
        hit += run;
        written += wrote;
    }
    assert_int_equal(result.requests, trace->num_requests);
    assert_int_equal(result.pages_asked, trace->num_ids);
    assert_int_equal(result.pages_hit, hit);
    assert_int_equal(result.pages_written, written);
    assert_int_equal(result.pages_not_stored, 0);
    assert_true(hit > 0 && written > capacity);
    replay_result_done(&result);
}

static void hits_are_those_of_the_model(void **state)
{
    (void)state;
    const uint64_t seed = 20250117;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct trace trace = make_trace(seed);
    static const struct {
        size_t capacity, batch;
    } cases[] = {{60, 0}, {60, 1}, {100, 0}, {100, 5}, {100, 24}, {100, 1000}, {200, 0}, {200, 7}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int lru = 0; lru < 2; lru++)
            compare_with_model(&trace, cases[i].capacity, lru, cases[i].batch);
    trace_done(&trace);
}

/* Sanitizers make the whole table take minutes: there one row does, since only the arithmetic
 * differs. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROWS_MAX = 1, ORDERS_MAX = 1 };
#else
enum { ROWS_MAX = 5, ORDERS_MAX = 2 };
#endif

/* tests/cli/test_replay.c is three steps below the root of the repository. */
static bool conversation_trace(char *path, size_t capacity)
{
    static const char here[] = __FILE__;
    static const char tail[] = "tests/cli/test_replay.c";
    if (sizeof here < sizeof tail)
        return false;
    snprintf(path, capacity, "%.*s../shared/traces/conversation_trace.jsonl",
             (int)(sizeof here - sizeof tail), here);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    fclose(file);
    return true;
}

static void hits_of_the_conversation_trace_are_the_known_ones(void **state)
{
    (void)state;
    static const struct {
        uint32_t capacity_pages;
        double lru, prefix;
    } known[] = {
        {5000, 0.1104, 0.1117},  {1000, 0.0445, 0.0445},  {10000, 0.2112, 0.2116},
        {20000, 0.2875, 0.2878}, {50000, 0.3546, 0.3546},
    };
    char path[4096];
    if (!conversation_trace(path, sizeof path)) {
        print_message("no conversation_trace.jsonl beside the checkout\n");
        skip();
    }
    struct trace trace;
    struct kvs_error error;
    if (trace_read(path, 0, &trace, &error) != KVS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(trace.num_requests, 12031);
    assert_int_equal(trace.num_ids, 288500);
    for (size_t i = 0; i < ROWS_MAX; i++) {
        for (int lru = 0; lru < ORDERS_MAX; lru++) {
            struct replay_result result;
            replay_memory(&trace, known[i].capacity_pages,
                          lru ? KVS_EVICTION_LRU : KVS_EVICTION_PREFIX, 0, 0, &result);
            double ratio = replay_hit_ratio(&result),
                   expected = lru ? known[i].lru : known[i].prefix;
            print_message("%s at %u pages: %.4f\n", lru ? "lru" : "prefix", known[i].capacity_pages,
                          ratio);
            assert_true(fabs(ratio - expected) <= 0.0005);
            replay_result_done(&result);
        }
    }
    trace_done(&trace);
}

static void stops_when_told(void **state)
{
    (void)state;
    struct trace trace = make_trace(7);
    struct replay_result result;
    replay_memory(&trace, 100, KVS_EVICTION_PREFIX, 0, 10, &result);
    assert_int_equal(result.requests, 10);
    assert_int_equal(result.pages_asked, trace.first[10]);
    assert_true(result.interrupted);
    replay_result_done(&result);
    replay_memory(&trace, 100, KVS_EVICTION_PREFIX, 0, REQUESTS, &result);
    assert_int_equal(result.requests, REQUESTS);
    assert_false(result.interrupted);
    replay_result_done(&result);
    trace_done(&trace);
}

/* A target that is there in full, loads wrong bytes on request 3 and answers late on none. */
static enum kvs_status all_there(struct replay_target *target, const uint64_t ids[], size_t n,
                                 struct replay_got *ret_got, struct kvs_error *error)
{
    (void)target;
    (void)error;
    *ret_got = (struct replay_got){.run = n, .loaded = n, .bytes = n * 100, .duration_ns = n};
    if (ids[0] == 3) {
        ret_got->wrong_bytes = 17;
        ret_got->wrong_pages = 2;
    }
    return KVS_OK;
}

static enum kvs_status takes_all(struct replay_target *target, const uint64_t ids[], size_t n,
                                 struct replay_put *ret_put, struct kvs_error *error)
{
    (void)target;
    (void)ids;
    (void)error;
    *ret_put =
        (struct replay_put){.written = n, .not_stored = 1, .bytes = n * 100, .duration_ns = 2 * n};
    return KVS_OK;
}

static const struct replay_target_ops stub_ops = {all_there, takes_all, NULL};

static void adds_up_what_targets_say(void **state)
{
    (void)state;
    struct replay_target stub = {&stub_ops};
    size_t first[] = {0, 2, 5, 6};
    uint64_t ids[] = {1, 2, 3, 4, 5, 6};
    struct trace trace = {3, first, ids, 6, 3};
    size_t stop_after = 0;
    struct replay_result result;
    assert_int_equal(replay_run(&trace, &stub, 0, go_on, &stop_after, &result, NULL), KVS_OK);
    assert_int_equal(result.pages_hit, 6);
    assert_int_equal(result.wrong_bytes, 17);
    assert_int_equal(result.wrong_pages, 2);
    assert_int_equal(result.pages_not_stored, 3);
    assert_int_equal(result.bytes_in, 600);
    assert_int_equal(result.bytes_out, 600);
    assert_int_equal(result.get_times.count, 3);
    assert_int_equal(result.set_times.total_ns, 12);
    assert_int_equal(replay_percentile_ns(&result.get_times, 50), 2);
    assert_int_equal(replay_percentile_ns(&result.get_times, 99), 3);
    assert_int_equal(replay_percentile_ns(&result.get_times, 0), 1);

    struct buffer json = {0};
    replay_write_json(&json, &result, true);
    assert_non_null(strstr(buffer_text(&json), "\"hit_ratio\":1"));
    assert_non_null(strstr(buffer_text(&json), "\"wrong_bytes\":17"));
    buffer_done(&json);
    replay_result_done(&result);
}

static void draws_the_hit_ratio_over_time(void **state)
{
    (void)state;
    size_t first[] = {0, 10, 20, 30, 40};
    uint32_t hits[] = {0, 1, 4, 8};
    struct trace trace = {4, first, NULL, 40, 10};
    struct replay_result result = {.requests = 4, .hit_of_request = hits};
    static const struct {
        size_t width;
        double highest;
        const char *picture;
    } cases[] = {{60, 0.8, " ▁▄█"}, {4, 0.8, " ▁▄█"}, {2, 0.6, "▁█"}, {1, 0.325, "█"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer picture = {0};
        double highest = replay_picture(&picture, &trace, &result, cases[i].width);
        assert_true(fabs(highest - cases[i].highest) < 1e-9);
        assert_string_equal(buffer_text(&picture), cases[i].picture);
        buffer_done(&picture);
    }
}

static void keys_are_the_digest_of_the_digits(void **state)
{
    (void)state;
    static const struct {
        uint64_t id;
        const char *key;
    } cases[] = {
        {0, "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"},
        {182789, "7ddb0c03d3ba20b301875262aba53ecc4608dd0cb4f44a134fefaa4eda12ece2"},
        {UINT64_MAX, "2cdb26265b4dc65e3b44d694f121fd6de99b9e4b8ae7f08d84bfa9537635ae43"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct replay_key key;
        replay_key_make(&key, cases[i].id);
        assert_string_equal(key.text, cases[i].key);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_are_those_of_the_model),
        cmocka_unit_test(hits_of_the_conversation_trace_are_the_known_ones),
        cmocka_unit_test(stops_when_told),
        cmocka_unit_test(adds_up_what_targets_say),
        cmocka_unit_test(draws_the_hit_ratio_over_time),
        cmocka_unit_test(keys_are_the_digest_of_the_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
