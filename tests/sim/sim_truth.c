/* What is true of every page; see sim_truth.h. */
#include "sim_truth.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { VERSIONS_MAX = 1 << 17, LIVES_MAX = 1 << 16 };

struct version {
    int key, life;
};

struct life {
    uint64_t generation;
    int64_t page;
    int key, client, version;
    uint64_t client_life;
    uint64_t reserved_ms, released_ms, leased_until_ms;
    uint64_t question;    /* by which it was reserved; 0: of an original client */
    uint64_t dead_us;     /* deleted, cleared or reported at; UINT64_MAX: not */
    uint64_t replaced_us; /* its page was given to another life at; UINT64_MAX: not */
    uint64_t told_us;     /* who deleted it was told so at; UINT64_MAX: not */
    int killer;           /* the client that deleted it */
    uint64_t killer_life;
    bool committed, released; /* the latter by its owner */
    bool was_committed;       /* even if a power cut has undone it */
    bool written;             /* whole */
    unsigned writing;         /* I/Os of its writer under way */
    bool confused;            /* somebody who meant another life has confirmed or released it */
    bool forgotten;
};

static struct version versions[VERSIONS_MAX];
static struct life lives[LIVES_MAX];
static int version_count, life_count;
static int current[SIM_PAGES_MAX]; /* the life of each page, as the catalog has it */
static int latest[SIM_PAGES_MAX];  /* the last life handed out, whatever the catalog remembers */
static char texts[SIM_KEYS_MAX][TRUTH_KEY_TEXT], page_texts[SIM_KEYS_MAX][TRUTH_KEY_TEXT];
static struct key packed[SIM_KEYS_MAX];
static uint32_t key_count;
static uint64_t power_cut_us;
static struct sim_machine *server;

struct truth_asker truth_asker;
struct truth_counts truth_counts;
uint64_t *truth_local_grants;

uint64_t truth_now_ms(void)
{
    return sim_machine_us(server) / 1000;
}

/* ---- Keys ----------------------------------------------------------------------------------- */

/* Most are digests; every seventh is a text that is held as its hash. */
static void make_keys(void)
{
    key_count = sim_plan.pairs ? 2 * sim_plan.num_keys : sim_plan.num_keys;
    for (uint32_t i = 0; i < sim_plan.num_keys; i++) {
        if (i % 7 == 6)
            snprintf(page_texts[i], TRUTH_KEY_TEXT, "a key that is no digest, %u", i);
        else
            snprintf(page_texts[i], TRUTH_KEY_TEXT, "%064x", i + 1);
    }
    for (uint32_t i = 0; i < key_count; i++) {
        if (sim_plan.pairs)
            snprintf(texts[i], TRUTH_KEY_TEXT, "%.70s-%c", page_texts[i / 2], "kv"[i % 2]);
        else
            snprintf(texts[i], TRUTH_KEY_TEXT, "%.75s", page_texts[i]);
        key_parse(&packed[i], texts[i], strlen(texts[i]), "kv");
    }
}

uint32_t truth_key_count(void)
{
    return key_count;
}

const char *truth_key_text(int key)
{
    return texts[key];
}

const char *truth_page_key(int page_key)
{
    return page_texts[page_key];
}

const struct key *truth_packed(int key)
{
    return &packed[key];
}

int truth_key_of(const struct key *key)
{
    for (uint32_t i = 0; i < key_count; i++)
        if (key_equal(&packed[i], key))
            return (int)i;
    return TRUTH_NONE;
}

void truth_begin(struct sim_machine *of_server)
{
    server = of_server;
    version_count = life_count = 0;
    power_cut_us = 0;
    for (size_t i = 0; i < SIM_PAGES_MAX; i++)
        current[i] = latest[i] = TRUTH_NONE;
    truth_asker = (struct truth_asker){0};
    truth_local_grants = NULL;
    make_keys();
}

/* ---- Versions ------------------------------------------------------------------------------- */

int truth_version_new(int key)
{
    if (version_count == VERSIONS_MAX) {
        sim_fail("the simulation has no room for more versions");
        return 0;
    }
    versions[version_count] = (struct version){key, TRUTH_NONE};
    return version_count++;
}

int truth_version_key(int version)
{
    return versions[version].key;
}

bool truth_version_was_written(int version)
{
    return versions[version].life != TRUTH_NONE;
}

/* The first word of each half names the version, the others follow from it. */
static uint64_t word_of(int version, size_t half, size_t word)
{
    uint64_t name = (uint64_t)version << 8 | half;
    struct chance c = {name * 0x9e3779b97f4a7c15u + word};
    return word == 0 ? name ^ 0x5ca1ab1e00000000u : draw(&c);
}

void truth_fill(int version, uint8_t *bytes)
{
    size_t words = sim_plan.page_bytes / 16;
    for (size_t half = 0; half < 2; half++)
        for (size_t i = 0; i < words; i++) {
            uint64_t word = word_of(version, half, i);
            memcpy(bytes + (half * words + i) * 8, &word, 8);
        }
}

int truth_identify(const uint8_t *bytes)
{
    uint8_t expected[SIM_PAGE_BYTES_MAX];
    uint64_t word;
    memcpy(&word, bytes, 8);
    word = (word ^ 0x5ca1ab1e00000000u) >> 8;
    if (word >= (uint64_t)version_count)
        return TRUTH_NONE;
    truth_fill((int)word, expected);
    return memcmp(expected, bytes, sim_plan.page_bytes) == 0 ? (int)word : TRUTH_NONE;
}

/* ---- Lives ---------------------------------------------------------------------------------- */

int truth_life(int64_t page, uint64_t generation)
{
    for (int i = life_count - 1; i >= 0; i--)
        if (lives[i].page == page && lives[i].generation == generation)
            return i;
    return TRUTH_NONE;
}

uint64_t truth_generation(int64_t page)
{
    if (page < 0 || page >= SIM_PAGES_MAX || current[page] == TRUTH_NONE)
        return 0;
    return lives[current[page]].generation;
}

bool truth_is_committed(int64_t page, int *ret_key)
{
    if (truth_generation(page) == 0 || !lives[current[page]].committed)
        return false;
    *ret_key = lives[current[page]].key;
    return true;
}

static const char *name_of(int key)
{
    static char names[4][32];
    static unsigned next;
    char *name = names[next++ % 4];
    if (key == TRUTH_NONE)
        snprintf(name, sizeof(names[0]), "an unknown key");
    else if (sim_plan.pairs)
        snprintf(name, sizeof(names[0]), "key %d%c", key / 2, "kv"[key % 2]);
    else
        snprintf(name, sizeof(names[0]), "key %d", key);
    return name;
}

/* When the page of a life may be handed out again at the earliest. */
static uint64_t protected_until_ms(const struct life *life)
{
    if (life->forgotten || life->confused)
        return 0;
    if (life->committed)
        return life->leased_until_ms;
    if (life->released)
        return life->released_ms + sim_plan.quarantine_ms;
    return life->reserved_ms + sim_plan.reserve_ttl_ms + sim_plan.quarantine_ms;
}

/* Nobody else may be writing or reading a page that is handed out: P1's time. */
static void check_hand_out(int64_t page)
{
    const struct life *before = latest[page] == TRUTH_NONE ? NULL : &lives[latest[page]];
    if (before == NULL || truth_now_ms() >= protected_until_ms(before))
        return;
    if (sim_plan.local && before->client_life != truth_asker.life)
        return; /* its writer died with the process that had the catalog */
    sim_fail("page %" PRId64 " is handed out again %" PRIu64 " ms too early: %s of client %d, "
             "reserved %" PRIu64 " ms ago, %s",
             page, protected_until_ms(before) - truth_now_ms(), name_of(before->key),
             before->client, truth_now_ms() - before->reserved_ms,
             before->committed  ? "is leased to a reader"
             : before->released ? "was released a moment ago"
                                : "may be being written still");
}

static void new_life(int key, int64_t page, uint64_t generation)
{
    if (life_count == LIVES_MAX) {
        sim_fail("the simulation has no room for more lives");
        return;
    }
    check_hand_out(page);
    if (current[page] != TRUTH_NONE)
        lives[current[page]].replaced_us = sim_now_us();
    lives[life_count] = (struct life){
        .generation = generation,
        .page = page,
        .key = key,
        .client = truth_asker.client,
        .client_life = truth_asker.life,
        .version = TRUTH_NONE,
        .reserved_ms = truth_now_ms(),
        .question = truth_asker.question,
        .dead_us = UINT64_MAX,
        .replaced_us = UINT64_MAX,
        .told_us = UINT64_MAX,
    };
    current[page] = latest[page] = life_count++;
}

/* A page handed out again under the same generation: only to the same call of the same client. */
static void check_repeat(int64_t page, int key)
{
    const struct life *life = &lives[current[page]];
    if (life->key != key)
        sim_fail("page %" PRId64 " has two keys under one generation: %s and %s", page,
                 name_of(life->key), name_of(key));
    if (life->client != truth_asker.client || life->client_life != truth_asker.life ||
        life->question != truth_asker.question)
        sim_fail("page %" PRId64 " (%s) has two owners: clients %d and %d", page, name_of(key),
                 life->client, truth_asker.client);
}

/* Who asks again is told of the pages it was given before, not that somebody else is writing them.
 */
static void check_present(const struct key keys[], size_t i, int64_t page)
{
    for (size_t before = 0; before < i; before++)
        if (key_equal(&keys[before], &keys[i]))
            return;
    if (truth_asker.question == 0 || truth_generation(page) == 0)
        return;
    const struct life *life = &lives[current[page]];
    if (!life->committed && life->question == truth_asker.question)
        sim_fail("client %d asks again for %s and is told that its own page %" PRId64
                 " is on the way from another",
                 truth_asker.client, name_of(life->key), page);
}

void truth_reserved(const struct key keys[], size_t n, const struct catalog_reserved answers[])
{
    for (size_t i = 0; i < n; i++) {
        if (answers[i].present)
            check_present(keys, i, answers[i].page);
        if (answers[i].present || answers[i].page < 0)
            continue;
        if (answers[i].page >= SIM_PAGES_MAX) {
            sim_fail("page %" PRId64 " does not exist", answers[i].page);
            return;
        }
        int key = truth_key_of(&keys[i]);
        int64_t page = answers[i].page;
        if (truth_local_grants != NULL)
            truth_local_grants[page] = answers[i].generation;
        if (truth_generation(page) == answers[i].generation)
            check_repeat(page, key);
        else
            new_life(key, page, answers[i].generation);
    }
}

/* Did the asker mean this life? Those that name the generation always do. */
static bool meant(const struct life *life, bool has_generation, uint64_t generation,
                  const uint64_t *believed, size_t count, size_t i)
{
    if (has_generation) {
        if (generation != life->generation)
            sim_fail("page %" PRId64 ": generation %" PRIu64 " was taken for %" PRIu64, life->page,
                     generation, life->generation);
        return true;
    }
    if (truth_asker.question != 0)
        sim_fail("client %d, a native one, names no generation of page %" PRId64,
                 truth_asker.client, life->page);
    return i < count && believed[i] == life->generation && life->client == truth_asker.client;
}

static void confuse(struct life *life)
{
    life->confused = true;
    truth_counts.confused++;
}

void truth_confirmed(const struct catalog_confirm entries[], size_t n,
                     const enum catalog_rejection reasons[])
{
    for (size_t i = 0; i < n; i++) {
        if (reasons[i] != CATALOG_ACCEPTED)
            continue;
        if (entries[i].page < 0 || entries[i].page >= SIM_PAGES_MAX ||
            current[entries[i].page] == TRUTH_NONE) {
            sim_fail("page %" PRId64 " was confirmed and never reserved", entries[i].page);
            return;
        }
        struct life *life = &lives[current[entries[i].page]];
        if (life->key != truth_key_of(&entries[i].key))
            sim_fail("page %" PRId64 " of %s was confirmed for %s", life->page, name_of(life->key),
                     name_of(truth_key_of(&entries[i].key)));
        if (entries[i].has_generation && !life->written && !life->was_committed)
            sim_fail("page %" PRId64 " of %s is confirmed and was not written whole", life->page,
                     name_of(life->key));
        if (!meant(life, entries[i].has_generation, entries[i].generation,
                   truth_asker.confirm_generations, truth_asker.confirms, i) &&
            !life->committed)
            confuse(life);
        life->committed = life->was_committed = true;
    }
}

void truth_released(const struct catalog_release entries[], size_t n,
                    const enum catalog_rejection reasons[])
{
    for (size_t i = 0; i < n; i++) {
        if (reasons[i] != CATALOG_ACCEPTED)
            continue;
        if (entries[i].page < 0 || entries[i].page >= SIM_PAGES_MAX ||
            current[entries[i].page] == TRUTH_NONE) {
            sim_fail("page %" PRId64 " was released and never reserved", entries[i].page);
            return;
        }
        struct life *life = &lives[current[entries[i].page]];
        if (life->committed && !life->confused)
            sim_fail("page %" PRId64 " of %s was confirmed and then released", life->page,
                     name_of(life->key));
        if (entries[i].has_generation && life->writing > 0)
            sim_fail("page %" PRId64 " of %s is released while it is being written", life->page,
                     name_of(life->key));
        if (meant(life, entries[i].has_generation, entries[i].generation,
                  truth_asker.release_generations, truth_asker.releases, i)) {
            life->released = true;
            life->released_ms = truth_now_ms();
        } else {
            confuse(life);
        }
    }
}

void truth_got(const struct key keys[], size_t n, bool verifying,
               const struct catalog_found found[])
{
    for (size_t i = 0; i < n; i++) {
        if (found[i].page < 0)
            continue;
        int at = found[i].page < SIM_PAGES_MAX ? current[found[i].page] : TRUTH_NONE;
        struct life *life = at == TRUTH_NONE ? NULL : &lives[at];
        if (life == NULL || life->generation != found[i].generation ||
            life->key != truth_key_of(&keys[i]) || !life->committed) {
            sim_fail("a get says that %s is at page %" PRId64 ", which holds %s",
                     name_of(truth_key_of(&keys[i])), found[i].page,
                     life == NULL ? "nothing" : name_of(life->key));
            return;
        }
        uint64_t until_ms = truth_now_ms() + sim_plan.lease_ms;
        if (!verifying && life->leased_until_ms < until_ms)
            life->leased_until_ms = until_ms;
    }
}

static void die(struct life *life)
{
    if (life->dead_us != UINT64_MAX)
        return;
    life->dead_us = sim_now_us();
    life->killer = truth_asker.client;
    life->killer_life = truth_asker.life;
}

void truth_deleted(const struct key keys[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t page = 0; page < SIM_PAGES_MAX; page++)
            if (current[page] != TRUTH_NONE && lives[current[page]].key == truth_key_of(&keys[i]))
                die(&lives[current[page]]);
}

void truth_cleared(void)
{
    for (size_t page = 0; page < SIM_PAGES_MAX; page++)
        if (current[page] != TRUTH_NONE)
            die(&lives[current[page]]);
}

void truth_was_told_of_delete(const int keys[], size_t n, int client, uint64_t client_life)
{
    for (int i = 0; i < life_count; i++) {
        struct life *life = &lives[i];
        bool named = keys == NULL;
        for (size_t k = 0; k < n && !named; k++)
            named = keys[k] == life->key;
        if (named && life->dead_us != UINT64_MAX && life->told_us == UINT64_MAX &&
            life->killer == client && life->killer_life == client_life)
            life->told_us = sim_now_us();
    }
}

/* Whoever reports damage has asked the index again after it read: of what had come to its end
 * before the call began it must have heard. */
static void check_report(const struct key *key, int64_t page, uint64_t generation)
{
    int at = truth_life(page, generation);
    if (truth_asker.question == 0 || at == TRUTH_NONE)
        return;
    const struct life *life = &lives[at];
    bool dead = life->dead_us < truth_asker.began_us && power_cut_us <= life->dead_us;
    if (dead || life->replaced_us < truth_asker.began_us)
        sim_fail("client %d reports damage of %s, whose page %" PRId64
                 " had been given away before the call began",
                 truth_asker.client, name_of(truth_key_of(key)), page);
}

void truth_reported(const struct key *key, int64_t page, uint64_t generation, bool retired)
{
    check_report(key, page, generation);
    if (!retired)
        return;
    struct life *life = &lives[current[page]];
    if (life->key != truth_key_of(key) || life->generation != generation)
        sim_fail("a report about %s retired a page of %s", name_of(truth_key_of(key)),
                 name_of(life->key));
    die(life);
}

void truth_forget(void)
{
    for (int i = 0; i < life_count; i++)
        lives[i].forgotten = true;
    for (size_t page = 0; page < SIM_PAGES_MAX; page++)
        current[page] = TRUTH_NONE;
    power_cut_us = sim_now_us();
}

void truth_reopened(const struct slot slots[], uint32_t num_pages, bool power_lost)
{
    if (power_lost)
        power_cut_us = sim_now_us();
    for (uint32_t page = 0; page < num_pages; page++) {
        if (!slot_intact(&slots[page], page) || slots[page].generation == 0)
            continue;
        int life = truth_life(page, slots[page].generation);
        if (life == TRUTH_NONE) {
            sim_fail("page %u holds a generation that was never given", page);
            return;
        }
        if (lives[life].forgotten)
            continue;
        current[page] = life;
        lives[life].replaced_us = UINT64_MAX; /* a power cut has brought it back */
        if (slot_state(&slots[page]) == SLOT_RESERVED)
            lives[life].committed = false; /* its confirm was in the tail that is missing */
    }
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

void truth_writes(int life, int version)
{
    if (lives[life].key != versions[version].key)
        sim_fail("bytes of %s are written to page %" PRId64 ", reserved for %s",
                 name_of(versions[version].key), lives[life].page, name_of(lives[life].key));
    lives[life].version = version;
    lives[life].writing++;
    versions[version].life = life;
}

void truth_has_written(int life, bool whole)
{
    lives[life].writing--;
    lives[life].written |= whole;
}

void truth_check_stored(int version, const char *who)
{
    int life = versions[version].life;
    if (life != TRUTH_NONE && !lives[life].was_committed)
        sim_fail("%s was told that %s is stored, and no confirm was accepted", who,
                 name_of(versions[version].key));
}

bool truth_may_land(int life)
{
    const struct life *l = &lives[life];
    uint64_t until_ms = l->reserved_ms + sim_plan.reserve_ttl_ms + sim_plan.quarantine_ms;
    if (l->released && until_ms > l->released_ms + sim_plan.quarantine_ms)
        until_ms = l->released_ms + sim_plan.quarantine_ms;
    bool may = !l->forgotten && !l->confused && sim_machine_us(server) < until_ms * 1000;
    truth_counts.wild_writes += !may;
    return may;
}

/* A delete counts at once for who was told of it, and for others when what they may have been told
 * before is too old. */
static bool was_deleted(const struct life *life, uint64_t began_us, uint64_t cache_us, int client,
                        uint64_t client_life)
{
    if (life->dead_us == UINT64_MAX || power_cut_us > life->dead_us)
        return false;
    bool own = life->killer == client && life->killer_life == client_life;
    return life->dead_us + cache_us < began_us || (own && life->told_us < began_us);
}

void truth_check_native(int key, const uint8_t *bytes, uint64_t began_us, uint64_t cache_us,
                        int client, uint64_t client_life, const char *who)
{
    truth_counts.native_reads++;
    int version = truth_identify(bytes);
    if (version == TRUTH_NONE || versions[version].key != key) {
        sim_fail("%s read %s as %s", who,
                 version == TRUTH_NONE ? "damaged or mixed bytes" : name_of(versions[version].key),
                 name_of(key));
        return;
    }
    int life = versions[version].life;
    if (life == TRUTH_NONE || !lives[life].was_committed) {
        sim_fail("%s read bytes of %s that were never confirmed", who, name_of(key));
        return;
    }
    if (was_deleted(&lives[life], began_us, cache_us, client, client_life))
        sim_fail("%s read bytes of %s that were deleted before the call", who, name_of(key));
}

void truth_check_original(int key, int64_t page, uint64_t generation, uint64_t got_ms, bool wild,
                          const uint8_t *bytes, const char *who)
{
    truth_counts.original_reads++;
    int life = truth_life(page, generation);
    bool in_time = sim_machine_us(server) < (got_ms + sim_plan.lease_ms) * 1000;
    if (wild || !in_time || lives[life].confused || lives[life].forgotten) {
        truth_counts.excused_reads++;
        return;
    }
    int version = truth_identify(bytes);
    if (version != TRUTH_NONE && versions[version].life == life && versions[version].key == key)
        return;
    sim_fail("%s read %s from page %" PRId64 " as %s, within its lease", who,
             version == TRUTH_NONE ? "damaged or mixed bytes" : name_of(versions[version].key),
             page, name_of(key));
}
