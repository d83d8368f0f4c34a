/* What is true of every page, known to nobody in the simulation: who may write it, who may be
 * reading it, which bytes it may show. The promises are judged by this, not by what the product
 * believes.
 *
 * A version is the bytes of one attempt to write a page of a key: no two are alike. A life is one
 * reservation of a page and what became of it. Times are milliseconds of the server's machine that
 * never go back, whatever is restarted (sim_machine_us() / 1000). */
#ifndef KVSHELF_TESTS_SIM_SIM_TRUTH_H
#define KVSHELF_TESTS_SIM_SIM_TRUTH_H

#include "catalog/catalog.h"
#include "sim_plan.h"

enum { TRUTH_NONE = -1, TRUTH_KEY_TEXT = 80, SIM_PAGE_BYTES_MAX = 64 };

void truth_begin(struct sim_machine *server);

/* ---- Keys: numbers. With pairs, 2n and 2n + 1 are the halves of one page. */
uint32_t truth_key_count(void);
const char *truth_key_text(int key);        /* as the index knows it */
const char *truth_page_key(int page_key);   /* as a store's caller says it */
int truth_key_of(const struct key *packed); /* TRUTH_NONE: not one of ours */
const struct key *truth_packed(int key);

/* ---- Versions */
int truth_version_new(int key);
int truth_version_key(int version);
bool truth_version_was_written(int version); /* or began to be */
void truth_fill(int version, uint8_t *bytes);
/* The version that these bytes are, TRUTH_NONE for anything else: damage, or a mix. */
int truth_identify(const uint8_t *bytes);

/* ---- Lives */
/* Who asks: a client and its life (0: a stranger). Set while a request is answered. */
struct truth_asker {
    int client;
    uint64_t life;
    /* Of an original client's confirms and releases: the generations it believes in. */
    const uint64_t *confirm_generations, *release_generations;
    size_t confirms, releases;
    /* Of a native client's: which question it is, the same when it is asked again, and when the
     * call of its store began. */
    uint64_t question, began_us;
};
extern struct truth_asker truth_asker;
/* Where generations granted to a store with catalogs of its own are noted by page; NULL: a server's
 * answers carry them. */
extern uint64_t *truth_local_grants;

/* What the catalog answered and did, told by its hooks (sim_twin.c). `now_ms` is its clock. */
void truth_reserved(const struct key keys[], size_t n, const struct catalog_reserved answers[]);
void truth_confirmed(const struct catalog_confirm entries[], size_t n,
                     const enum catalog_rejection reasons[]);
void truth_released(const struct catalog_release entries[], size_t n,
                    const enum catalog_rejection reasons[]);
void truth_got(const struct key keys[], size_t n, bool verifying,
               const struct catalog_found found[]);
void truth_deleted(const struct key keys[], size_t n);
void truth_cleared(void);
void truth_reported(const struct key *key, int64_t page, uint64_t generation, bool retired);
/* A client was told that its delete of these keys, or of all (NULL), is done. */
void truth_was_told_of_delete(const int keys[], size_t n, int client, uint64_t client_life);
/* The catalog has been dropped, or lost with a server that keeps nothing: who was writing or
 * reading is not protected any more. */
void truth_forget(void);
/* After a power cut: which lives the catalog goes on with. */
void truth_reopened(const struct slot slots[], uint32_t num_pages, bool power_lost);

/* The life of a page with this generation, TRUTH_NONE if there never was one. */
int truth_life(int64_t page, uint64_t generation);
/* The generation of the page's life now, 0 if none; as its catalog has it. */
uint64_t truth_generation(int64_t page);
/* Whether the page holds a confirmed key, and which. */
bool truth_is_committed(int64_t page, int *ret_key);
/* A write of this version to the page of this life begins, and has ended, whole or not. */
void truth_writes(int life, int version);
void truth_has_written(int life, bool whole);
/* May the bytes of this life's writer land now? Beyond that the conditions of P1 do not hold. */
bool truth_may_land(int life);

/* A store says that this version, or its key, is stored. */
void truth_check_stored(int version, const char *who);
/* A store says that these bytes were found under the key by a call begun at `began_us`. It may have
 * heard of the page `cache_us` before that. */
void truth_check_native(int key, const uint8_t *bytes, uint64_t began_us, uint64_t cache_us,
                        int client, uint64_t client_life, const char *who);
/* An original client has read them from the page it was told of by a get answered at `got_ms`;
 * `wild`: the conditions did not hold for what it read. */
void truth_check_original(int key, int64_t page, uint64_t generation, uint64_t got_ms, bool wild,
                          const uint8_t *bytes, const char *who);

uint64_t truth_now_ms(void);

/* How often a read was judged, and how often the conditions did not hold. */
struct truth_counts {
    uint64_t native_reads, original_reads, excused_reads, confused, wild_writes;
};
extern struct truth_counts truth_counts;

#endif
