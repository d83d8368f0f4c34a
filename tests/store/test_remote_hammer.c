/* A reader process and a writer process on the same few pages of one page file, with one index, a
 * server, between them, and constant eviction: pages are written while they are read, all the time.
 * Then the same with a third process whose own store writes other pages over them. No byte that a
 * read gives out may be wrong.
 *
 * That such a load does tear pages is shown by a reader that goes without checksums: it must read
 * wrong bytes. `store_test_remote_hammer --reads N` reads N pages from the file in the first, a
 * tenth of it in the second, and reports. */
#include "base/clock.h"
#include "metadata/metadata.h"
#include "store/store.h"
#include "support/live_server.h"
#include "support/page_load.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    PAGES = 12,
    KEYS = 40,
    READ_BATCH = 32,
    WRITE_BATCH = 6,
    READS_AT_ONCE = 4000,
    URL_BYTES = 64
};

/* The others are slower: each read that meets other bytes is made twice, and the index asked. */
static uint64_t reads_asked = 30000, reads_overwritten = 5000;
enum { MOST_ROUNDS = 50 };
static bool reporting;

enum role { READER, WRITER, INTRUDER, ROLES };

/* What a process did. */
struct deed {
    bool ended;
    uint64_t wrong_pages, wrong_bytes, loaded;
    struct kvs_store_stats stats;
};

struct hammer {
    char dir[TEMP_DIR_MAX], prefix[TEMP_DIR_MAX + 16], url[URL_BYTES];
    bool intruded, blind, reporting;
    uint64_t reads; /* from the file */
    struct deed deeds[ROLES];
};

/* In memory that the processes share, under this descriptor. */
enum { HAMMER_FD = 200 };
static struct hammer *hammer;
static pid_t pids[ROLES];
static int until_closed[ROLES]; /* pipes: when one is closed, its process stops */

/* ---- A reader without checksums --------------------------------------------------------------*/

static struct metadata_ops blind_ops;
static enum kvs_status (*seeing_get)(struct metadata_client *, const struct metadata_scope *,
                                     const struct metadata_text[], size_t, struct catalog_found[],
                                     struct kvs_error *);

static enum kvs_status blind_get(struct metadata_client *client, const struct metadata_scope *scope,
                                 const struct metadata_text keys[], size_t n,
                                 struct catalog_found ret_found[], struct kvs_error *error)
{
    enum kvs_status status = seeing_get(client, scope, keys, n, ret_found, error);
    for (size_t i = 0; status == KVS_OK && i < n; i++)
        ret_found[i].has_checksum = false;
    return status;
}

static bool open_blind(const struct kvs_store_options *options, struct kvs_store **ret_store,
                       struct kvs_error *error)
{
    const struct metadata_remote_options remote = {.url = options->metadata_server_url,
                                                   .timeout_ms = 5000};
    struct store_parts parts = {0};
    if (metadata_remote_open(&remote, &parts.metadata, error) != KVS_OK)
        return false;
    blind_ops = *parts.metadata->ops;
    seeing_get = blind_ops.get_page_indices;
    blind_ops.get_page_indices = blind_get;
    parts.metadata->ops = &blind_ops;
    return store_open(options, &parts, ret_store, error) == KVS_OK;
}

/* ---- The processes ---------------------------------------------------------------------------*/

static struct kvs_store *open_store(enum role role)
{
    struct kvs_store_options options;
    struct kvs_store *store = NULL;
    struct kvs_error error = {0};
    kvs_store_options_init(&options);
    options.bytes_per_page = PAGE;
    options.file_size = PAGE * PAGES;
    options.file_path_prefix = hammer->prefix;
    options.metadata_server_url = role == INTRUDER ? NULL : hammer->url;
    options.verify = hammer->blind ? KVS_VERIFY_IF_KNOWN : KVS_VERIFY_REQUIRED;
    options.numjobs = 2;
    bool opened = hammer->blind && role == READER
                      ? open_blind(&options, &store, &error)
                      : kvs_store_open(&options, &store, &error) == KVS_OK;
    if (!opened)
        fprintf(stderr, "process %d: %s\n", (int)role, error.message);
    return store;
}

/* Until enough pages have been read from the file, and for as long as nothing has happened yet that
 * the run is about: how soon that is depends on how the processes interleave. Blind, until wrong
 * bytes have been read. */
static bool enough(const struct page_load *load)
{
    struct kvs_store_stats stats;
    kvs_store_get_stats(load->store, &stats);
    if (stats.pages_hit >= MOST_ROUNDS * hammer->reads)
        return true;
    if (hammer->blind)
        return load->wrong_pages > 0;
    return stats.pages_hit >= hammer->reads && load->loaded > hammer->reads / 20 &&
           (hammer->intruded ? stats.checksum_mismatches > 0 : stats.missed_replaced > 0);
}

static void be_reader(struct page_load *load)
{
    uint64_t begin_ns = clock_mono_ns(), shown_ns = begin_ns;
    load->readers = 2;
    while (!enough(load)) {
        load->reads_wanted = load->asked + READS_AT_ONCE;
        page_load_start(load);
        page_load_finish(load);
        if (hammer->reporting && clock_mono_ns() - shown_ns > UINT64_C(20000000000)) {
            shown_ns = clock_mono_ns();
            printf("  %" PRIu64 " asked, %" PRIu64 " loaded, %" PRIu64 " wrong, %" PRIu64 " s\n",
                   load->asked, load->loaded, load->wrong_pages,
                   (shown_ns - begin_ns) / 1000000000);
            fflush(stdout);
        }
    }
}

static void be_writer(struct page_load *load)
{
    char byte;
    load->writers = 2;
    page_load_start(load);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    page_load_stop(load);
}

static struct hammer *map_hammer(int fd)
{
    void *memory = mmap(NULL, sizeof(struct hammer), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int run_process(enum role role)
{
    hammer = map_hammer(HAMMER_FD);
    if (hammer == NULL)
        return 1;
    struct deed *deed = &hammer->deeds[role];
    struct page_load load = {.store = open_store(role),
                             .page_bytes = PAGE,
                             .first_key = role == INTRUDER ? 1000 : 0,
                             .keys = KEYS,
                             .batch = role == READER ? READ_BATCH : WRITE_BATCH,
                             .seed = 20261130 + role};
    if (load.store == NULL)
        return 1;
    if (role == READER)
        be_reader(&load);
    else
        be_writer(&load);
    kvs_store_get_stats(load.store, &deed->stats);
    deed->wrong_pages = load.wrong_pages;
    deed->wrong_bytes = load.wrong_bytes;
    deed->loaded = load.loaded;
    kvs_store_close(load.store);
    deed->ended = true;
    return 0;
}

/* This program again: a fork would take the threads of the server along in an undefined state. */
static void start_process(enum role role, int hammer_fd)
{
    int ends[2];
    char name[] = "hammer", flag[] = "--role", number[] = {(char)('0' + role), '\0'};
    char *argv[] = {name, flag, number, NULL};
    posix_spawn_file_actions_t actions;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, hammer_fd, HAMMER_FD);
    assert_int_equal(posix_spawn(&pids[role], "/proc/self/exe", &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    until_closed[role] = ends[1];
}

static void end_process(enum role role)
{
    int status;
    if (role != READER)
        close(until_closed[role]);
    assert_int_equal(waitpid(pids[role], &status, 0), pids[role]);
    if (role == READER)
        close(until_closed[role]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(hammer->deeds[role].ended);
}

/* ---- The runs --------------------------------------------------------------------------------*/

static void report(uint64_t ns)
{
    const struct deed *reader = &hammer->deeds[READER], *writer = &hammer->deeds[WRITER];
    printf("%s: %" PRIu64 " reads of pages of %d bytes in %.1f s, %" PRIu64 " wrong bytes\n"
           "  %d pages for %d keys; %" PRIu64 " pages written by the other process\n"
           "  reads that met another page's bytes: %" PRIu64 " given out again meanwhile, %" PRIu64
           " overwritten\n",
           hammer->blind      ? "one index, a reader without checksums"
           : hammer->intruded ? "one index, and a third process that overwrites"
                              : "one index",
           reader->stats.pages_hit, PAGE, (double)ns / 1e9, reader->wrong_bytes, PAGES, KEYS,
           writer->stats.pages_written, reader->stats.missed_replaced,
           reader->stats.missed_mismatch);
    fflush(stdout);
}

static void run(const struct hammer *kind)
{
    int fd = memfd_create("hammer", MFD_CLOEXEC);
    assert_true(fd >= 0 && fd != HAMMER_FD);
    assert_int_equal(ftruncate(fd, sizeof(*hammer)), 0);
    hammer = map_hammer(fd);
    assert_non_null(hammer);
    *hammer = *kind;
    hammer->reporting = reporting;
    temp_dir_make(hammer->dir);
    snprintf(hammer->prefix, sizeof(hammer->prefix), "%s/pages", hammer->dir);
    struct live_server server = {0};
    live_server_start(&server);
    snprintf(hammer->url, sizeof(hammer->url), "%s", server.url);
    uint64_t begin_ns = clock_mono_ns();
    enum role roles = hammer->intruded ? ROLES : INTRUDER;
    for (enum role role = 0; role < roles; role++)
        start_process(role, fd);
    for (enum role role = 0; role < roles; role++)
        end_process(role);
    live_server_stop(&server);
    if (reporting)
        report(clock_mono_ns() - begin_ns);
    for (enum role role = 0; role < roles; role++) {
        const struct kvs_store_stats *s = &hammer->deeds[role].stats;
        assert_int_equal(s->pages_asked, s->pages_loaded + s->pages_missed);
        assert_int_equal(s->pages_set, s->pages_written + s->pages_present + s->pages_not_stored);
        assert_int_equal(s->io_errors + s->metadata_errors, 0);
    }
    temp_dir_remove(hammer->dir);
    close(fd);
}

static void done(void)
{
    munmap(hammer, sizeof(*hammer));
    hammer = NULL;
}

static void test_reader_and_writer(void **state)
{
    (void)state;
    run(&(struct hammer){.reads = reads_asked});
    const struct deed *reader = &hammer->deeds[READER];
    assert_int_equal(reader->wrong_bytes, 0);
    assert_true(reader->stats.pages_hit >= reads_asked);
    assert_true(reader->loaded > reads_asked / 20);
    assert_true(reader->stats.missed_replaced > 0);         /* pages did change while being read */
    assert_int_equal(reader->stats.checksum_mismatches, 0); /* and never within one life */
    assert_true(hammer->deeds[WRITER].stats.pages_written > PAGES);
    done();
}

static void test_overwritten_by_another_store(void **state)
{
    (void)state;
    run(&(struct hammer){.intruded = true, .reads = reads_overwritten});
    const struct deed *reader = &hammer->deeds[READER];
    assert_int_equal(reader->wrong_bytes, 0);
    assert_true(reader->loaded > 0);
    assert_true(reader->stats.checksum_mismatches > 0);
    assert_true(hammer->deeds[INTRUDER].stats.pages_written > PAGES);
    done();
}

static void test_without_checksums_the_load_reads_wrong_bytes(void **state)
{
    (void)state;
    run(&(struct hammer){.blind = true, .reads = reads_asked});
    assert_true(hammer->deeds[READER].wrong_bytes > 0);
    done();
}

int main(int argc, char *argv[])
{
    if (argc == 3 && strcmp(argv[1], "--role") == 0)
        return run_process((enum role)(argv[2][0] - '0'));
    if (argc == 3 && strcmp(argv[1], "--reads") == 0) {
        reads_asked = strtoull(argv[2], NULL, 10);
        reads_overwritten = reads_asked / 10;
        reporting = true;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader_and_writer),
        cmocka_unit_test(test_overwritten_by_another_store),
        cmocka_unit_test(test_without_checksums_the_load_reads_wrong_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
