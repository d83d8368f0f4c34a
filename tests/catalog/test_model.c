/* The catalog against the model of its rules: both play the same random operations with a random
 * clock, and must give the same answers and the same counts after each.
 *
 * A run is a row of games. A game has its own small catalog, keys and durations, all drawn from the
 * game's seed; game i of a run with seed S is the first game of a run with seed S + i.
 *
 *     catalog_test_model [--seed N] [--operations N] [--trace]
 *
 * The environment says the same: KVSHELF_MODEL_SEED, KVSHELF_MODEL_OPERATIONS. */
#include "support/catalog_model.h"
#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    KEYS_MAX = 160,
    TICKETS = 64,   /* reservations remembered for later confirms and releases */
    LOOK_EVERY = 8, /* operations between two looks at everything */
};

static uint64_t run_seed = 1;
static uint64_t run_operations = 300000;
static bool tracing;

/* ---- Chance --------------------------------------------------------------------------------- */

struct chance {
    uint64_t state;
};

static uint64_t draw(struct chance *c) /* splitmix64 */
{
    uint64_t z = (c->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t below(struct chance *c, uint64_t bound)
{
    return draw(c) % bound;
}

static bool one_in(struct chance *c, uint64_t n)
{
    return below(c, n) == 0;
}

#define PICK(c, table) ((table)[below((c), sizeof(table) / sizeof((table)[0]))])

/* ---- A game --------------------------------------------------------------------------------- */

struct ticket {
    struct key key;
    int64_t page;
    uint64_t generation;
};

struct game {
    struct chance chance;
    uint64_t seed, operation;
    uint64_t now;
    bool clears, reopens; /* without them the model foretells every page number */
    struct catalog_options options;
    struct catalog *catalog;
    struct model model;

    struct slot slots[MODEL_PAGES_MAX];
    struct catalog_state state;
    struct slot image[MODEL_PAGES_MAX]; /* what a power cut leaves */
    struct catalog_state image_state;

    struct key keys[KEYS_MAX];
    size_t num_keys;
    struct ticket tickets[TICKETS];

    /* The last reserve, for a caller that repeats it. */
    struct key again[MODEL_BATCH_MAX];
    size_t again_n;
    bool again_verifying;
    uint64_t again_owner;
};

static uint64_t operations_played, reserves_played, pages_reserved, pages_evicted, reopened;

static void trace(const struct game *g, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void trace(const struct game *g, const char *format, ...)
{
    if (!tracing)
        return;
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%6" PRIu64 " t=%" PRIu64 " ", g->operation, g->now);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

static void fault(const struct game *g, const char *what, long long where)
{
    fail_msg("seed %" PRIu64 ", operation %" PRIu64 ": %s (%lld); replay: --seed %" PRIu64
             " --operations %" PRIu64 " --trace",
             g->seed, g->operation, what, where, g->seed, g->operation + 1);
}

static void look_at_counts(struct game *g)
{
    struct catalog_counts counts = catalog_counts(g->catalog, g->now);
    const char *wrong = model_judge_counts(&g->model, g->now, &counts);
    if (wrong != NULL)
        fault(g, wrong, (long long)counts.free);
}

static void look_at_everything(struct game *g)
{
    const char *broken = catalog_check(g->catalog);
    if (broken != NULL)
        fault(g, broken, -1);
    for (uint32_t i = 0; i < g->options.num_pages; i++) {
        const char *wrong = model_judge_slot(&g->model, i, catalog_slot(g->catalog, i));
        if (wrong != NULL)
            fault(g, wrong, i);
    }
    uint32_t expected[MODEL_PAGES_MAX], got[MODEL_PAGES_MAX];
    uint32_t n = model_recency(&g->model, expected);
    if (catalog_recency(g->catalog, got) != n)
        fault(g, "the recency order has another length", n);
    for (uint32_t i = 0; i < n; i++)
        if (got[i] != expected[i])
            fault(g, "the recency order differs", i);
    const char *wrong = model_judge_totals(&g->model, catalog_totals(g->catalog));
    if (wrong != NULL)
        fault(g, wrong, -1);
    if (g->state.next_generation != g->model.next_generation || g->state.floor != g->model.floor ||
        g->state.verify_below != g->model.verify_below)
        fault(g, "the state kept beside the slots is wrong", -1);
}

/* ---- Setting up ----------------------------------------------------------------------------- */

/* Pairs first (neighbours are halves of one digest), then other kinds. */
static void make_keys(struct game *g)
{
    static const char *const suffixes[] = {"", "_kv", "_other", "-x"};
    bool pairs = !one_in(&g->chance, 3);
    g->num_keys = 2 + below(&g->chance, 2 * (uint64_t)g->options.num_pages + 6);
    for (size_t i = 0; i < g->num_keys; i++) {
        char text[128];
        size_t digest = pairs ? i / 2 : i;
        int length = snprintf(text, sizeof(text), "%064zx%s", digest,
                              pairs && i < g->num_keys * 3 / 4 ? (i % 2 == 0 ? "-k" : "-v")
                              : pairs                          ? suffixes[i % 4]
                                                               : "");
        key_parse(&g->keys[i], text, (size_t)length, "kv");
    }
}

static void open_both(struct game *g)
{
    model_open(&g->model, &g->options, g->now);
    enum kvs_status status = catalog_open(&g->options, g->now, &g->catalog, NULL);
    if (status != KVS_OK)
        fault(g, "the catalog does not open", status);
}

static void start_game(struct game *g, uint64_t seed)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 33, 64};
    static const uint64_t durations[] = {0, 1, 3, 10, 10, 50, 50, 200, 1000};
    memset(g, 0, sizeof(*g));
    g->seed = seed;
    g->chance.state = seed * 0x2545f4914f6cdd1du;
    g->now = one_in(&g->chance, 4) ? 0 : below(&g->chance, 1000000);
    g->options = (struct catalog_options){
        .num_pages = PICK(&g->chance, sizes),
        .eviction = one_in(&g->chance, 2) ? KVS_EVICTION_PREFIX : KVS_EVICTION_LRU,
        .reserve_ttl_ms = PICK(&g->chance, durations),
        .quarantine_ms = PICK(&g->chance, durations),
        .lease_ms = PICK(&g->chance, durations),
        .foreign_writers = one_in(&g->chance, 2),
        .wall_us = 1 + below(&g->chance, 1000),
        .slots = g->slots,
        .state = &g->state,
        .origin = CATALOG_NEW,
    };
    g->clears = one_in(&g->chance, 2);
    g->reopens = one_in(&g->chance, 2);
    make_keys(g);
    open_both(g);
    for (size_t i = 0; i < TICKETS; i++)
        g->tickets[i] = (struct ticket){.key = g->keys[0], .page = (int64_t)i - 2};
}

/* ---- Drawing arguments ---------------------------------------------------------------------- */

static void pass_time(struct game *g)
{
    uint64_t what = below(&g->chance, 100);
    if (what < 60)
        return;
    if (what < 90)
        g->now += 1 + below(&g->chance, 4);
    else if (what < 97)
        g->now += below(&g->chance, 60);
    else if (what < 98)
        g->now += below(&g->chance, 3000);
    else
        g->now -= below(&g->chance, g->now < 20 ? g->now + 1 : 20);
}

static size_t draw_count(struct game *g)
{
    uint64_t what = below(&g->chance, 100);
    if (what < 40)
        return 1 + below(&g->chance, 2);
    if (what < 98)
        return 1 + below(&g->chance, 10);
    return below(&g->chance, one_in(&g->chance, 8) ? MODEL_BATCH_MAX : 100);
}

/* A run of neighbours, as of a prefix, or any keys, some of them repeated. */
static size_t draw_keys(struct game *g, struct key ret_keys[])
{
    size_t n = draw_count(g), at = below(&g->chance, g->num_keys);
    bool run = !one_in(&g->chance, 4);
    for (size_t i = 0; i < n; i++) {
        if (!run || one_in(&g->chance, 20))
            at = below(&g->chance, g->num_keys);
        ret_keys[i] = g->keys[at];
        at = (at + 1) % g->num_keys;
    }
    return n;
}

static const struct ticket *draw_ticket(struct game *g)
{
    return &g->tickets[below(&g->chance, TICKETS)];
}

static int64_t draw_page(struct game *g)
{
    static const int64_t strange[] = {-1, -2, INT64_MIN, INT64_MAX, 1ll << 32, 1ll << 31};
    if (one_in(&g->chance, 4))
        return one_in(&g->chance, 3) ? (int64_t)g->options.num_pages : PICK(&g->chance, strange);
    return (int64_t)below(&g->chance, g->options.num_pages);
}

static struct catalog_confirm draw_confirm(struct game *g)
{
    const struct ticket *ticket = draw_ticket(g);
    struct catalog_confirm e = {
        .key = ticket->key,
        .page = ticket->page,
        .has_generation = !one_in(&g->chance, 3),
        .generation = ticket->generation,
        .has_checksum = !one_in(&g->chance, 3),
        .checksum = one_in(&g->chance, 30) ? draw(&g->chance) : ticket->generation * 3,
    };
    if (one_in(&g->chance, 20))
        e.key = PICK(&g->chance, g->keys);
    if (one_in(&g->chance, 20))
        e.page = draw_page(g);
    if (one_in(&g->chance, 20))
        e.generation += 1 - 2 * below(&g->chance, 2);
    return e;
}

static struct catalog_release draw_release(struct game *g)
{
    struct catalog_confirm c = draw_confirm(g);
    return (struct catalog_release){.page = c.page,
                                    .has_generation = c.has_generation,
                                    .has_key = one_in(&g->chance, 2),
                                    .generation = c.generation,
                                    .key = c.key};
}

/* ---- Operations ----------------------------------------------------------------------------- */

static void keep_tickets(struct game *g, const struct key keys[],
                         const struct catalog_reserved answers[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!answers[i].present || one_in(&g->chance, 10))
            g->tickets[below(&g->chance, TICKETS)] = (struct ticket){
                .key = keys[i], .page = answers[i].page, .generation = answers[i].generation};
}

/* Most writers are done soon: their confirm is the next call. */
static void confirm_at_once(struct game *g, const struct key keys[],
                            const struct catalog_reserved answers[], size_t n)
{
    static struct catalog_confirm entries[MODEL_BATCH_MAX];
    static enum catalog_rejection expected[MODEL_BATCH_MAX], got[MODEL_BATCH_MAX];
    bool checksums = !one_in(&g->chance, 4);
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (!answers[i].present && answers[i].page >= 0)
            entries[m++] = (struct catalog_confirm){.key = keys[i],
                                                    .page = answers[i].page,
                                                    .has_generation = true,
                                                    .generation = answers[i].generation,
                                                    .has_checksum = checksums,
                                                    .checksum = answers[i].generation * 3};
    catalog_confirm(g->catalog, g->now, entries, m, got);
    model_confirm(&g->model, g->now, entries, m, expected);
    trace(g, "confirm %zu at once", m);
    for (size_t i = 0; i < m; i++)
        if (got[i] != expected[i])
            fault(g, "confirm of what was just reserved answers otherwise", (long long)i);
}

static void play_reserve(struct game *g)
{
    static struct key keys[MODEL_BATCH_MAX];
    static struct catalog_reserved expected[MODEL_BATCH_MAX], got[MODEL_BATCH_MAX];
    bool verifying = !one_in(&g->chance, 3);
    uint64_t owner = one_in(&g->chance, 3) ? 1 + below(&g->chance, 3) : 0;
    size_t n;
    if (one_in(&g->chance, 8) && g->again_n > 0) {
        n = g->again_n;
        memcpy(keys, g->again, n * sizeof(keys[0]));
        verifying = g->again_verifying;
        owner = g->again_owner;
    } else {
        n = draw_keys(g, keys);
    }
    enum kvs_status status = catalog_reserve(g->catalog, g->now, keys, n, verifying, owner, got);
    if (status != KVS_OK)
        fault(g, "reserve fails", status);
    model_reserve(&g->model, g->now, keys, n, verifying, owner, got, expected);
    trace(g, "reserve %zu%s owner %" PRIu64, n, verifying ? " verifying" : "", owner);
    for (size_t i = 0; i < n; i++) {
        trace(g, "  %02x%02x.%u -> %d %" PRId64 " g%" PRIu64 ", expected %d %" PRId64 " g%" PRIu64,
              keys[i].digest[30], keys[i].digest[31], keys[i].suffix, got[i].present, got[i].page,
              got[i].generation, expected[i].present, expected[i].page, expected[i].generation);
        if (got[i].present != expected[i].present || got[i].page != expected[i].page ||
            got[i].generation != expected[i].generation)
            fault(g, "reserve answers otherwise", (long long)i);
        pages_reserved += !got[i].present && got[i].page >= 0;
    }
    reserves_played++;
    memcpy(g->again, keys, n * sizeof(keys[0]));
    g->again_n = n;
    g->again_verifying = verifying;
    g->again_owner = owner;
    keep_tickets(g, keys, got, n);
    if (!one_in(&g->chance, 3))
        confirm_at_once(g, keys, got, n);
}

static void play_confirm(struct game *g)
{
    static struct catalog_confirm entries[MODEL_BATCH_MAX];
    static enum catalog_rejection expected[MODEL_BATCH_MAX], got[MODEL_BATCH_MAX];
    size_t n = draw_count(g);
    for (size_t i = 0; i < n; i++)
        entries[i] = i > 0 && one_in(&g->chance, 10) ? entries[i - 1] : draw_confirm(g);
    catalog_confirm(g->catalog, g->now, entries, n, got);
    model_confirm(&g->model, g->now, entries, n, expected);
    trace(g, "confirm %zu", n);
    for (size_t i = 0; i < n; i++) {
        trace(g, "  page %" PRId64 " -> %d, expected %d", entries[i].page, got[i], expected[i]);
        if (got[i] != expected[i])
            fault(g, "confirm answers otherwise", (long long)i);
    }
}

static void play_release(struct game *g)
{
    static struct catalog_release entries[MODEL_BATCH_MAX];
    static enum catalog_rejection expected[MODEL_BATCH_MAX], got[MODEL_BATCH_MAX];
    size_t n = draw_count(g);
    for (size_t i = 0; i < n; i++)
        entries[i] = i > 0 && one_in(&g->chance, 10) ? entries[i - 1] : draw_release(g);
    catalog_release(g->catalog, g->now, entries, n, got);
    model_release(&g->model, g->now, entries, n, expected);
    trace(g, "release %zu", n);
    for (size_t i = 0; i < n; i++) {
        trace(g, "  page %" PRId64 " -> %d, expected %d", entries[i].page, got[i], expected[i]);
        if (got[i] != expected[i])
            fault(g, "release answers otherwise", (long long)i);
    }
}

static void play_get(struct game *g)
{
    static struct key keys[MODEL_BATCH_MAX];
    static struct catalog_found expected[MODEL_BATCH_MAX], got[MODEL_BATCH_MAX];
    bool verifying = one_in(&g->chance, 2);
    size_t n = draw_keys(g, keys);
    catalog_get(g->catalog, g->now, keys, n, verifying, got);
    model_get(&g->model, g->now, keys, n, verifying, expected);
    trace(g, "get %zu%s", n, verifying ? " verifying" : "");
    for (size_t i = 0; i < n; i++) {
        if (got[i].page != expected[i].page || got[i].generation != expected[i].generation ||
            got[i].has_checksum != expected[i].has_checksum ||
            (got[i].has_checksum && got[i].checksum != expected[i].checksum))
            fault(g, "get answers otherwise", (long long)i);
    }
}

static void play_exists(struct game *g)
{
    static struct key keys[MODEL_BATCH_MAX];
    static bool expected[MODEL_BATCH_MAX], got[MODEL_BATCH_MAX];
    bool verifying = one_in(&g->chance, 2);
    size_t n = draw_keys(g, keys);
    catalog_exists(g->catalog, g->now, keys, n, verifying, got);
    model_exists(&g->model, g->now, keys, n, verifying, expected);
    trace(g, "exists %zu%s", n, verifying ? " verifying" : "");
    for (size_t i = 0; i < n; i++)
        if (got[i] != expected[i])
            fault(g, "exists answers otherwise", (long long)i);
}

static void play_delete(struct game *g)
{
    static struct key keys[MODEL_BATCH_MAX];
    size_t n = draw_keys(g, keys);
    size_t got = catalog_delete(g->catalog, g->now, keys, n);
    trace(g, "delete %zu -> %zu", n, got);
    if (got != model_delete(&g->model, g->now, keys, n))
        fault(g, "delete answers otherwise", (long long)got);
}

static void play_mismatch(struct game *g)
{
    const struct ticket *ticket = draw_ticket(g);
    int64_t page = one_in(&g->chance, 10) ? draw_page(g) : ticket->page;
    uint64_t generation = ticket->generation + one_in(&g->chance, 10);
    bool got = catalog_report_mismatch(g->catalog, g->now, &ticket->key, page, generation);
    trace(g, "mismatch page %" PRId64 " -> %d", page, got);
    if (got != model_report_mismatch(&g->model, g->now, &ticket->key, page, generation))
        fault(g, "report_mismatch answers otherwise", page);
}

static void play_quiet(struct game *g)
{
    const char *wrong = model_judge_quiet(&g->model, g->now, catalog_is_quiet(g->catalog, g->now));
    if (wrong != NULL)
        fault(g, wrong, -1);
}

/* One pass of the helper that writes the image. `torn`: the power is cut while it writes, and of
 * the slots of that moment only some arrive. */
static void play_copy(struct game *g, bool torn)
{
    static struct catalog_copy copy;
    uint32_t cursor = 0;
    bool more = true;
    trace(g, "copy%s", torn ? ", cut off" : "");
    while (more) {
        more = catalog_copy_changed(g->catalog, &cursor, &copy);
        for (size_t i = 0; i < copy.count; i++) {
            if (copy.pages[i] >= g->options.num_pages ||
                (i > 0 && copy.pages[i] <= copy.pages[i - 1]))
                fault(g, "copied pages are not ascending", (long long)i);
            if (!torn || one_in(&g->chance, 2))
                g->image[copy.pages[i]] = copy.slots[i];
        }
        if (!torn || one_in(&g->chance, 2))
            g->image_state = g->state;
    }
    if (!torn && memcmp(g->image, g->slots, g->options.num_pages * sizeof(struct slot)) != 0)
        fault(g, "a full pass leaves the image different from the slots", -1);
}

static void draw_durations(struct game *g)
{
    static const uint64_t durations[] = {0, 1, 10, 50, 200};
    if (one_in(&g->chance, 2))
        return;
    g->options.reserve_ttl_ms = PICK(&g->chance, durations);
    g->options.quarantine_ms = PICK(&g->chance, durations);
    g->options.lease_ms = PICK(&g->chance, durations);
    g->options.foreign_writers = one_in(&g->chance, 2);
    g->options.eviction = one_in(&g->chance, 2) ? KVS_EVICTION_PREFIX : KVS_EVICTION_LRU;
}

/* The process ends, in one of the ways it can, and another one opens what it left. */
static void play_reopen(struct game *g)
{
    static struct slot kept[MODEL_PAGES_MAX];
    static uint32_t recency[MODEL_PAGES_MAX];
    enum catalog_origin origin = (enum catalog_origin)(CATALOG_CLEAN + below(&g->chance, 3));
    if (origin == CATALOG_POWER_LOST)
        play_copy(g, true);

    pages_evicted += g->model.totals.evicted;
    struct catalog_state kept_state = g->state;
    memcpy(kept, g->slots, sizeof(kept));
    g->options.recency_count = catalog_recency(g->catalog, recency);
    uint64_t wall = g->model.next_generation + 1000;
    g->catalog = catalog_close(g->catalog);
    if (origin == CATALOG_KILLED) { /* what closing stored was not stored */
        memcpy(g->slots, kept, sizeof(kept));
        g->state = kept_state;
        if (one_in(&g->chance, 4))
            g->slots[below(&g->chance, g->options.num_pages)].generation ^= 1;
    } else if (origin == CATALOG_POWER_LOST) {
        memcpy(g->slots, g->image, sizeof(g->slots));
        g->state = g->image_state;
    }
    bool in_order = origin == CATALOG_CLEAN && !one_in(&g->chance, 3);
    g->options.recency = in_order ? recency : NULL;
    if (!in_order)
        g->options.recency_count = 0;
    g->options.origin = origin;
    if (origin == CATALOG_POWER_LOST || one_in(&g->chance, 2))
        g->options.wall_us = wall;
    if (one_in(&g->chance, 3))
        g->now = below(&g->chance, 1000); /* the clock of another boot */
    draw_durations(g);
    static const char *const names[] = {"new", "clean", "killed", "power lost"};
    trace(g, "reopen %s%s ttl %" PRIu64 " quarantine %" PRIu64 " lease %" PRIu64, names[origin],
          g->options.foreign_writers ? " foreign" : "", g->options.reserve_ttl_ms,
          g->options.quarantine_ms, g->options.lease_ms);
    open_both(g);
    if (origin != CATALOG_POWER_LOST)
        catalog_mark_all_changed(g->catalog); /* the marks were in the memory of the process */
    reopened++;
}

static void play_clear(struct game *g)
{
    trace(g, "clear");
    catalog_clear(g->catalog, g->now);
    model_clear(&g->model, g->now);
}

static void play_one(struct game *g)
{
    uint64_t what = below(&g->chance, 1000);
    if (what < 380)
        play_reserve(g);
    else if (what < 520)
        play_confirm(g);
    else if (what < 600)
        play_release(g);
    else if (what < 760)
        play_get(g);
    else if (what < 820)
        play_exists(g);
    else if (what < 890)
        play_delete(g);
    else if (what < 920)
        play_mismatch(g);
    else if (what < 950)
        play_quiet(g);
    else if (what < 990)
        play_copy(g, false);
    else if (what < 995 && g->clears)
        play_clear(g);
    else if (what >= 995 && g->reopens)
        play_reopen(g);
}

static uint64_t play_game(uint64_t seed, uint64_t operations)
{
    static struct game g;
    start_game(&g, seed);
    uint64_t length = 50 + below(&g.chance, 2000);
    if (length > operations)
        length = operations;
    for (g.operation = 0; g.operation < length; g.operation++) {
        pass_time(&g);
        play_one(&g);
        look_at_counts(&g);
        if (g.operation % LOOK_EVERY == 0 || tracing)
            look_at_everything(&g);
    }
    look_at_everything(&g);
    pages_evicted += g.model.totals.evicted;
    g.catalog = catalog_close(g.catalog);
    return length;
}

static void the_catalog_does_what_the_model_says(void **state)
{
    (void)state;
    uint64_t games = 0;
    clock_t start = clock();
    while (operations_played < run_operations)
        operations_played += play_game(run_seed + games++, run_operations - operations_played);
    print_message("model test: seed %" PRIu64 ", %" PRIu64 " operations in %" PRIu64
                  " games: %" PRIu64 " reserves, %" PRIu64 " pages handed out, %" PRIu64
                  " evicted, %" PRIu64 " reopenings; %.1f s CPU; no difference\n",
                  run_seed, operations_played, games, reserves_played, pages_reserved,
                  pages_evicted, reopened, (double)(clock() - start) / CLOCKS_PER_SEC);
}

static uint64_t number_or_exit(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0') {
        fprintf(stderr, "not a number: %s\n", text);
        exit(2);
    }
    return value;
}

int main(int argc, char *argv[])
{
    const char *seed = getenv("KVSHELF_MODEL_SEED");
    const char *operations = getenv("KVSHELF_MODEL_OPERATIONS");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            tracing = true;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = argv[++i];
        } else if (strcmp(argv[i], "--operations") == 0 && i + 1 < argc) {
            operations = argv[++i];
        } else {
            fprintf(stderr, "usage: %s [--seed N] [--operations N] [--trace]\n", argv[0]);
            return 2;
        }
    }
    if (seed != NULL)
        run_seed = number_or_exit(seed);
    if (operations != NULL)
        run_operations = number_or_exit(operations);
    print_message("model test: seed %" PRIu64 "\n", run_seed);
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_catalog_does_what_the_model_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
