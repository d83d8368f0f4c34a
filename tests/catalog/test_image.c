/* Images and live arrays: which of the two is the truth after a clean stop, a kill and a power cut,
 * and that a bad file is refused and left as it is. The catalogs opened over them are real ones. */
#include "catalog/image.h"
#include "catalog/live.h"
#include "support/kept.h"
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGES = 64, KEYS = 48, TTL_MS = 60000 };

static struct kept_place place;
static struct image_dir dir;
static char image_path_text[KEPT_PATH_BYTES + 32];

/* One open catalog. */
struct run {
    struct image *image;
    struct catalog *catalog;
    enum catalog_origin origin;
};

static int set_up(void **state)
{
    (void)state;
    kept_make(&place);
    assert_int_equal(mkdir(place.dir, 0700), 0);
    struct stat stat;
    int fd = open(place.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &stat) == 0);
    dir = (struct image_dir){.path = place.dir,
                             .fd = fd,
                             .device = (uint64_t)stat.st_dev,
                             .inode = (uint64_t)stat.st_ino,
                             .os = &place.os,
                             .log = {kept_log, NULL}};
    snprintf(image_path_text, sizeof(image_path_text), "%s/3.kv.kvc", place.dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(dir.fd);
    kept_remove(&place);
    return 0;
}

static void create(void)
{
    struct image_identity identity = {3, "kv", PAGES, 4096, "model"};
    struct kvs_error error = {0};
    assert_int_equal(image_create(&dir, &identity, &error), KVS_OK);
}

/* Opens image and catalog, without beginning the run. */
static enum kvs_status prepare(struct run *run, struct kvs_error *error)
{
    enum kvs_status status = image_open(&dir, "3.kv.kvc", kept_clock_ms, &run->image, error);
    if (status != KVS_OK)
        return status;
    struct catalog_options options = {
        .reserve_ttl_ms = TTL_MS, .quarantine_ms = TTL_MS, .lease_ms = 10000, .wall_us = 1000};
    image_fill_options(run->image, &options);
    run->origin = options.origin;
    assert_int_equal(catalog_open(&options, kept_clock_ms, &run->catalog, error), KVS_OK);
    assert_null(catalog_check(run->catalog));
    return KVS_OK;
}

static void reopen_unsettled(struct run *run, enum catalog_origin origin, uint64_t until_ms)
{
    struct kvs_error error = {0};
    assert_int_equal(prepare(run, &error), KVS_OK);
    assert_int_equal(run->origin, origin);
    assert_int_equal(image_begin(run->image, until_ms, &error), KVS_OK);
    if (origin == CATALOG_KILLED)
        catalog_mark_all_changed(run->catalog);
}

static void reopen(struct run *run, enum catalog_origin origin)
{
    reopen_unsettled(run, origin, 0);
}

/* As SIGKILL does: the files stay as they are. */
static void kill_run(struct run *run)
{
    run->catalog = catalog_close(run->catalog);
    run->image = image_close(run->image);
}

static enum kvs_status write_behind(struct run *run)
{
    static struct catalog_copy copy;
    uint32_t cursor = 0;
    bool more = true;
    while (more) {
        more = catalog_copy_changed(run->catalog, &cursor, &copy);
        enum kvs_status status = image_write(run->image, &copy, NULL);
        if (status != KVS_OK)
            return status;
    }
    return image_commit(run->image, image_state(run->image), NULL);
}

static void stop_run(struct run *run)
{
    uint32_t recency[PAGES];
    assert_int_equal(write_behind(run), KVS_OK);
    uint32_t n = catalog_recency(run->catalog, recency);
    assert_int_equal(image_stop(run->image, recency, n, NULL), KVS_OK);
    kill_run(run);
}

static struct key key_of(unsigned number)
{
    char text[80];
    struct key key;
    int length = snprintf(text, sizeof(text), "%064x", number);
    key_parse(&key, text, (size_t)length, "kv");
    return key;
}

/* Checksums tell which life of a key it was: `salt` changes from one to the next. */
static uint64_t checksum_of(unsigned number, unsigned salt)
{
    return (uint64_t)number << 32 | salt;
}

static bool store(struct run *run, unsigned number, unsigned salt)
{
    struct key key = key_of(number);
    struct catalog_reserved reserved;
    enum catalog_rejection reason;
    assert_int_equal(catalog_reserve(run->catalog, kept_clock_ms, &key, 1, true, 0, &reserved),
                     KVS_OK);
    if (reserved.present || reserved.page < 0)
        return false;
    struct catalog_confirm confirm = {.key = key,
                                      .page = reserved.page,
                                      .has_generation = true,
                                      .has_checksum = true,
                                      .generation = reserved.generation,
                                      .checksum = checksum_of(number, salt)};
    catalog_confirm(run->catalog, kept_clock_ms, &confirm, 1, &reason);
    assert_int_equal(reason, CATALOG_ACCEPTED);
    return true;
}

static bool find(struct run *run, unsigned number, struct catalog_found *ret_found)
{
    struct key key = key_of(number);
    catalog_get(run->catalog, kept_clock_ms, &key, 1, true, ret_found);
    return ret_found->page >= 0;
}

static void assert_there(struct run *run, unsigned number, unsigned salt)
{
    struct catalog_found found;
    assert_true(find(run, number, &found));
    assert_true(found.has_checksum);
    assert_int_equal(found.checksum, checksum_of(number, salt));
}

static void assert_absent(struct run *run, unsigned number)
{
    struct catalog_found found;
    assert_false(find(run, number, &found));
}

static void delete (struct run *run, unsigned number)
{
    struct key key = key_of(number);
    catalog_delete(run->catalog, kept_clock_ms, &key, 1);
}

/* ---- How most of them begin: a new catalog, key 1 in it, and that in the image ----*/

static void begin(struct run *run)
{
    create();
    reopen(run, CATALOG_NEW);
}

static void begin_with_key(struct run *run)
{
    begin(run);
    store(run, 1, 1);
}

static void begin_with_written_key(struct run *run)
{
    begin_with_key(run);
    assert_int_equal(write_behind(run), KVS_OK);
}

static void leave_killed_with_key(struct run *run)
{
    begin_with_key(run);
    kill_run(run);
}

/* ---- Ways to end ----*/

static void a_new_image_is_new(void **state)
{
    (void)state;
    struct run run;
    struct stat stat_buffer;
    create();
    assert_int_equal(stat(image_path_text, &stat_buffer), 0);
    assert_int_equal(stat_buffer.st_mode & 0777, 0600);
    assert_int_equal(stat_buffer.st_size, image_base_bytes(PAGES));
    reopen(&run, CATALOG_NEW);
    struct image_identity identity = image_identity(run.image);
    assert_int_equal(identity.rank, 3);
    assert_string_equal(identity.ns, "kv");
    assert_int_equal(identity.num_pages, PAGES);
    assert_int_equal(identity.bytes_per_page, 4096);
    assert_string_equal(identity.fingerprint, "model");
    kill_run(&run);
}

static void a_clean_stop_keeps_everything(void **state)
{
    (void)state;
    struct run run;
    uint32_t before[PAGES], after[PAGES];
    begin(&run);
    for (unsigned i = 0; i < KEYS; i++)
        store(&run, i, 1);
    struct catalog_found found;
    for (unsigned i = 0; i < KEYS; i += 5) /* an order that generations do not tell */
        find(&run, i, &found);
    uint32_t n = catalog_recency(run.catalog, before);
    assert_int_equal(kept_shm_files(&place), 1);
    stop_run(&run);
    assert_int_equal(kept_shm_files(&place), 0);

    reopen(&run, CATALOG_CLEAN);
    assert_int_equal(catalog_recency(run.catalog, after), n);
    assert_memory_equal(before, after, n * sizeof(before[0]));
    for (unsigned i = 0; i < KEYS; i++)
        assert_there(&run, i, 1);
    struct stat stat_buffer;
    assert_int_equal(stat(image_path_text, &stat_buffer), 0);
    assert_int_equal(stat_buffer.st_size, image_base_bytes(PAGES)); /* the order is gone from it */
    kill_run(&run);
}

static void a_kill_loses_nothing(void **state)
{
    (void)state;
    struct run run;
    begin_with_written_key(&run);
    store(&run, 2, 1);
    delete (&run, 1);
    kill_run(&run);
    for (unsigned i = 0; i < 3; i++) { /* again and again, nothing written behind */
        reopen(&run, CATALOG_KILLED);
        assert_there(&run, 2, 1);
        assert_absent(&run, 1);
        assert_true(store(&run, 10 + i, 1));
        kill_run(&run);
    }
    reopen(&run, CATALOG_KILLED);
    for (unsigned i = 0; i < 3; i++)
        assert_there(&run, 10 + i, 1);
    stop_run(&run);
    reopen(&run, CATALOG_CLEAN);
    assert_there(&run, 2, 1);
    kill_run(&run);
}

static void a_power_cut_loses_only_what_was_not_written(void **state)
{
    (void)state;
    struct run run;
    begin_with_written_key(&run);
    store(&run, 2, 1);
    uint64_t generation = image_state(run.image)->next_generation;
    kill_run(&run);
    kept_lose_shm(&place);
    reopen(&run, CATALOG_POWER_LOST);
    assert_there(&run, 1, 1);
    assert_absent(&run, 2);
    assert_true(image_state(run.image)->next_generation > generation);
    kill_run(&run);
}

/* ---- Dying while opening ----*/

static void die_opening_twice(enum catalog_origin origin)
{
    for (unsigned i = 0; i < 2; i++) {
        struct run run;
        struct kvs_error error;
        assert_int_equal(prepare(&run, &error), KVS_OK);
        assert_int_equal(run.origin, origin);
        kill_run(&run);
    }
}

static void dying_before_the_run_begins_changes_nothing(void **state)
{
    (void)state;
    struct run run;
    create();
    die_opening_twice(CATALOG_NEW);
    reopen(&run, CATALOG_NEW);
    store(&run, 1, 1);
    kill_run(&run);
    die_opening_twice(CATALOG_KILLED);
    reopen(&run, CATALOG_KILLED);
    assert_there(&run, 1, 1);
    stop_run(&run);
    die_opening_twice(CATALOG_CLEAN);
    reopen(&run, CATALOG_CLEAN);
    kill_run(&run);
    kept_lose_shm(&place);
    die_opening_twice(CATALOG_POWER_LOST);
    assert_int_equal(kept_shm_files(&place), 0);
}

static struct live_block *live_block_of(struct run *run)
{
    return (struct live_block *)((char *)image_state(run->image) -
                                 offsetof(struct live_block, state));
}

/* The token is in the live array first, then in the image, then in the live array again. */
static void dying_while_the_run_begins_loses_nothing(void **state)
{
    (void)state;
    for (size_t torn = 0; torn <= IMAGE_BLOCK_BYTES; torn += 512) {
        struct run run;
        struct kvs_error error;
        unlink(image_path_text);
        leave_killed_with_key(&run);

        assert_int_equal(prepare(&run, &error), KVS_OK);
        kept_faults.writes_left = 0;
        kept_faults.torn_bytes = torn;
        assert_int_equal(image_begin(run.image, 0, &error), KVS_ERR_CATALOG_IO);
        kill_run(&run);
        kept_faults.writes_left = -1;
        reopen(&run, CATALOG_KILLED);
        assert_there(&run, 1, 1);
        kill_run(&run);

        /* Written, but the process did not come to know. */
        assert_int_equal(prepare(&run, &error), KVS_OK);
        uint64_t token = live_block_of(&run)->token;
        assert_int_equal(image_begin(run.image, 0, &error), KVS_OK);
        live_block_of(&run)->token = token;
        kill_run(&run);
        reopen(&run, CATALOG_KILLED);
        assert_there(&run, 1, 1);
        kill_run(&run);
        kept_lose_shm(&place);
    }
}

static void no_copy_of_the_header_stays_clean(void **state)
{
    (void)state;
    struct run run;
    begin(&run);
    stop_run(&run);
    reopen(&run, CATALOG_CLEAN);
    store(&run, 1, 1);
    kill_run(&run);
    kept_lose_shm(&place);
    size_t length;
    uint8_t *bytes = kept_read_file(image_path_text, &length);
    for (unsigned copy = 0; copy < IMAGE_COPIES; copy++) {
        bytes[copy * IMAGE_BLOCK_BYTES + 100] ^= 1; /* only this copy is bad */
        kept_write_file(image_path_text, bytes, length);
        bytes[copy * IMAGE_BLOCK_BYTES + 100] ^= 1;
        reopen(&run, CATALOG_POWER_LOST);
        kill_run(&run);
        kept_lose_shm(&place);
    }
    free(bytes);
}

/* ---- A live array that is not the right one ----*/

/* The second one dies before its own token is in the image, which holds that of the first. */
static void dying_twice_while_the_run_begins_loses_nothing(void **state)
{
    (void)state;
    for (size_t torn = 0; torn <= IMAGE_BLOCK_BYTES; torn += 512) {
        struct run run;
        struct kvs_error error;
        unlink(image_path_text);
        leave_killed_with_key(&run);

        assert_int_equal(prepare(&run, &error), KVS_OK);
        uint64_t token = live_block_of(&run)->token;
        assert_int_equal(image_begin(run.image, 0, &error), KVS_OK);
        live_block_of(&run)->token = token;
        kill_run(&run);

        assert_int_equal(prepare(&run, &error), KVS_OK);
        kept_faults.writes_left = 1; /* the copy that was found is made safe */
        kept_faults.syncs_work = true;
        kept_faults.torn_bytes = torn;
        assert_int_equal(image_begin(run.image, 0, &error), KVS_ERR_CATALOG_IO);
        kill_run(&run);
        kept_faults.writes_left = -1;
        reopen(&run, CATALOG_KILLED);
        assert_there(&run, 1, 1);
        kill_run(&run);
        kept_lose_shm(&place);
    }
}

/* The image was mapped; now there is room for a live array, and the header that names it is written
 * but not synced. */
static void a_failing_move_to_shm_loses_nothing(void **state)
{
    (void)state;
    struct run run;
    struct kvs_error error;
    create();
    kept_faults.shm_full = true;
    reopen(&run, CATALOG_NEW);
    store(&run, 1, 1);
    kill_run(&run);
    kept_faults.shm_full = false;
    assert_int_equal(prepare(&run, &error), KVS_OK);
    assert_int_equal(run.origin, CATALOG_KILLED);
    kept_faults.writes_left = 2; /* the copy that was found, and the new one */
    assert_int_equal(image_begin(run.image, 0, &error), KVS_ERR_CATALOG_IO);
    kill_run(&run);
    kept_faults.writes_left = -1;
    reopen(&run, CATALOG_KILLED);
    assert_there(&run, 1, 1);
    stop_run(&run);
    assert_int_equal(kept_shm_files(&place), 0);
}

/* Out of descriptors, say: a live array that cannot be looked at is not a lost one. */
static void what_cannot_be_looked_at_is_not_lost(void **state)
{
    (void)state;
    struct run run;
    leave_killed_with_key(&run);

    int lowest = dup(STDERR_FILENO);
    close(lowest);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    enum kvs_status status = KVS_ERR_CATALOG_IO;
    int spare = 0;
    for (; status != KVS_OK; spare++) {
        struct rlimit few = {(rlim_t)(lowest + spare), before.rlim_max};
        struct kvs_error error = {0};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        status = prepare(&run, &error);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (status != KVS_OK)
            assert_int_equal(status, KVS_ERR_CATALOG_IO);
    }
    assert_true(spare >= 2);
    assert_int_equal(run.origin, CATALOG_KILLED);
    assert_int_equal(image_begin(run.image, 0, NULL), KVS_OK);
    assert_there(&run, 1, 1);
    kill_run(&run);
}

static void copy_file(const char *from, const char *to)
{
    size_t length;
    uint8_t *bytes = kept_read_file(from, &length);
    kept_write_file(to, bytes, length);
    free(bytes);
}

static void find_shm_file(char *ret_path, size_t capacity)
{
    struct image_header header;
    char hex[2 * IMAGE_ID_BYTES + 1];
    assert_int_equal(image_check(&dir, "3.kv.kvc", &header, NULL), KVS_OK);
    for (size_t i = 0; i < IMAGE_ID_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", header.id[i]);
    snprintf(ret_path, capacity, "%s/kvshelf-%u-%s", place.shm, (unsigned)geteuid(), hex);
}

static void an_old_live_array_never_meets_a_newer_image(void **state)
{
    (void)state;
    struct run run;
    char shm[KEPT_PATH_BYTES + 64], saved[KEPT_PATH_BYTES + 64];
    leave_killed_with_key(&run);
    find_shm_file(shm, sizeof(shm));
    snprintf(saved, sizeof(saved), "%s/saved", place.root);
    copy_file(shm, saved);

    kept_lose_shm(&place);
    reopen(&run, CATALOG_POWER_LOST);
    store(&run, 2, 1);
    assert_int_equal(write_behind(&run), KVS_OK);
    kill_run(&run);
    copy_file(saved, shm);
    reopen(&run, CATALOG_POWER_LOST);
    assert_there(&run, 2, 1);
    assert_absent(&run, 1);

    stop_run(&run); /* nor one that was stopped since */
    copy_file(saved, shm);
    reopen(&run, CATALOG_CLEAN);
    assert_there(&run, 2, 1);
    assert_absent(&run, 1);
    kill_run(&run);
}

/* Killed after the image was marked clean and before its live array was unlinked. */
static void a_clean_image_needs_no_live_array(void **state)
{
    (void)state;
    struct run run;
    char shm[KEPT_PATH_BYTES + 64], saved[KEPT_PATH_BYTES + 64];
    begin_with_key(&run);
    find_shm_file(shm, sizeof(shm));
    snprintf(saved, sizeof(saved), "%s/saved", place.root);
    copy_file(shm, saved);
    stop_run(&run);
    copy_file(saved, shm);
    reopen(&run, CATALOG_CLEAN);
    assert_there(&run, 1, 1);
    kill_run(&run);
    assert_int_equal(kept_shm_files(&place), 1);
}

/* Each change of the file on /dev/shm makes it one that counts as lost. */
static void a_live_array_of_something_else_is_not_used(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        size_t at;
    } changes[] = {
        {"magic", offsetof(struct live_block, magic)},
        {"version", offsetof(struct live_block, version)},
        {"id", offsetof(struct live_block, id)},
        {"boot id", offsetof(struct live_block, boot_id)},
        {"number of pages", offsetof(struct live_block, num_pages)},
    };
    struct run run;
    begin(&run);
    kill_run(&run);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        char shm[KEPT_PATH_BYTES + 64];
        size_t length;
        find_shm_file(shm, sizeof(shm));
        uint8_t *bytes = kept_read_file(shm, &length);
        bytes[changes[i].at] ^= 4;
        kept_write_file(shm, bytes, length);
        free(bytes);
        reopen(&run, CATALOG_POWER_LOST);
        kill_run(&run);
    }
    char shm[KEPT_PATH_BYTES + 64];
    find_shm_file(shm, sizeof(shm));
    assert_int_equal(truncate(shm, 4096), 0);
    reopen(&run, CATALOG_POWER_LOST);
    kill_run(&run);
    assert_int_equal(kept_shm_files(&place), 1);
}

static void a_copied_directory_becomes_a_catalog_of_its_own(void **state)
{
    (void)state;
    struct run run, other;
    char copied[KEPT_PATH_BYTES + 32];
    begin_with_written_key(&run);
    store(&run, 2, 1);

    snprintf(copied, sizeof(copied), "%s/copy", place.root);
    assert_int_equal(mkdir(copied, 0700), 0);
    char file[2 * KEPT_PATH_BYTES];
    snprintf(file, sizeof(file), "%s/3.kv.kvc", copied);
    copy_file(image_path_text, file);
    struct image_dir first = dir;
    dir.path = copied;
    dir.fd = open(copied, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    reopen(&other, CATALOG_POWER_LOST);
    assert_int_equal(kept_shm_files(&place), 2);
    assert_there(&other, 1, 1);
    store(&other, 5, 1);
    stop_run(&other);
    close(dir.fd);
    dir = first;

    assert_int_equal(kept_shm_files(&place), 1);
    assert_absent(&run, 5);
    kill_run(&run);
    reopen(&run, CATALOG_KILLED);
    assert_there(&run, 2, 1);
    kill_run(&run);
}

/* Makes `dir` a directory beside the first one, with a copy of its image. */
static void go_to_copy(const char *name)
{
    static char path[KEPT_PATH_BYTES + 32];
    char file[2 * KEPT_PATH_BYTES];
    struct stat stat;
    snprintf(path, sizeof(path), "%s/%s", place.root, name);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(file, sizeof(file), "%s/3.kv.kvc", path);
    copy_file(image_path_text, file);
    dir.path = path;
    dir.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir.fd >= 0 && fstat(dir.fd, &stat) == 0);
    dir.device = (uint64_t)stat.st_dev;
    dir.inode = (uint64_t)stat.st_ino;
}

/* The original was killed, and its live array is what it has answered for. */
static void opening_a_copy_takes_nothing_from_the_original(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool older; /* the original has run once more since the copy was made */
        bool stopped;
    } cases[] = {
        {"same", false, false},
        {"same-stopped", false, true},
        {"older", true, false},
        {"older-stopped", true, true},
    };
    struct image_dir first = dir;
    struct run run;
    begin_with_written_key(&run);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        store(&run, 10 + i, 1);
        kill_run(&run);
        go_to_copy(cases[i].name);
        struct image_dir copy = dir;
        dir = first;
        if (cases[i].older) {
            reopen(&run, CATALOG_KILLED);
            kill_run(&run);
        }
        dir = copy;
        reopen(&run, CATALOG_POWER_LOST);
        assert_there(&run, 1, 1);
        if (cases[i].stopped)
            stop_run(&run);
        else
            kill_run(&run);
        close(dir.fd);
        dir = first;
        reopen(&run, CATALOG_KILLED);
        for (unsigned k = 0; k <= i; k++)
            assert_there(&run, 10 + k, 1);
    }
    kill_run(&run);
}

/* By copying, to another disk: the live array goes along, and nothing that is done later to the old
 * place reaches it. */
static void a_moved_directory_keeps_its_live_array(void **state)
{
    (void)state;
    struct image_dir first = dir;
    struct run run;
    leave_killed_with_key(&run);
    go_to_copy("moved");
    assert_int_equal(unlink(image_path_text), 0);
    reopen(&run, CATALOG_KILLED);
    assert_there(&run, 1, 1);
    store(&run, 2, 1);
    kill_run(&run);
    const uint8_t none[1][IMAGE_ID_BYTES] = {{0}};
    assert_int_equal(live_sweep(&place.os, first.device, first.inode, none, 0), 0);
    reopen(&run, CATALOG_KILLED);
    assert_there(&run, 2, 1);
    kill_run(&run);
    close(dir.fd);
    dir = first;
}

static void orphans_of_a_directory_are_swept(void **state)
{
    (void)state;
    struct run run;
    struct image_header header;
    begin(&run);
    assert_int_equal(image_check(&dir, "3.kv.kvc", &header, NULL), KVS_OK);
    const uint8_t(*ids)[IMAGE_ID_BYTES] = (const uint8_t(*)[IMAGE_ID_BYTES])header.id;
    assert_int_equal(live_sweep(&place.os, dir.device, dir.inode, ids, 0), 0); /* in use */
    kill_run(&run);
    assert_int_equal(live_sweep(&place.os, dir.device, dir.inode, ids, 1), 0);     /* wanted */
    assert_int_equal(live_sweep(&place.os, dir.device, dir.inode + 1, ids, 0), 0); /* not ours */
    assert_int_equal(kept_shm_files(&place), 1);
    assert_int_equal(live_sweep(&place.os, dir.device, dir.inode, ids, 0), 1);
    assert_int_equal(kept_shm_files(&place), 0);
}

static atomic_bool sweep_stop;
static atomic_uint sweeps;

static void *sweep_elsewhere(void *arg)
{
    const uint8_t none[1][IMAGE_ID_BYTES] = {{0}};
    (void)arg;
    while (!atomic_load(&sweep_stop)) {
        live_sweep(&place.os, dir.device, dir.inode + 1, none, 0);
        atomic_fetch_add(&sweeps, 1);
    }
    return NULL;
}

/* Processes of several directories start at the same time; the sweep of one must not make another
 * believe that its live array is in use. */
static void a_sweep_disturbs_no_other_directory(void **state)
{
    (void)state;
    struct run run;
    struct kvs_error error;
    pthread_t thread;
    leave_killed_with_key(&run);
    atomic_store(&sweep_stop, false);
    atomic_store(&sweeps, 0);
    assert_int_equal(pthread_create(&thread, NULL, sweep_elsewhere, NULL), 0);
    unsigned killed = 0, rounds = 0;
    for (; rounds < 500 || atomic_load(&sweeps) < 10000; rounds++) {
        assert_int_equal(prepare(&run, &error), KVS_OK);
        killed += run.origin == CATALOG_KILLED;
        kill_run(&run);
    }
    atomic_store(&sweep_stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(killed, rounds);
}

static void removing_leaves_nothing(void **state)
{
    (void)state;
    struct run run;
    struct kvs_error error;
    begin(&run);
    assert_int_equal(image_remove(run.image, &error), KVS_OK);
    kill_run(&run);
    assert_int_equal(kept_shm_files(&place), 0);
    assert_int_equal(access(image_path_text, F_OK), -1);
}

/* ---- No room on /dev/shm ----*/

static void without_room_on_shm_the_image_is_mapped(void **state)
{
    (void)state;
    struct run run;
    create();
    kept_faults.shm_full = true;
    reopen(&run, CATALOG_NEW);
    assert_true(image_is_mapped(run.image));
    assert_non_null(strstr(kept_log_text, "has no room"));
    assert_int_equal(kept_shm_files(&place), 0);
    store(&run, 1, 1);
    assert_int_equal(write_behind(&run), KVS_OK);
    store(&run, 2, 1);
    kill_run(&run);
    reopen(&run, CATALOG_KILLED);
    assert_there(&run, 1, 1);
    assert_there(&run, 2, 1);
    store(&run, 3, 1);
    kill_run(&run);

    reopen(&run, CATALOG_KILLED);
    store(&run, 9, 1);
    assert_int_equal(write_behind(&run), KVS_OK);
    catalog_clear(run.catalog, kept_clock_ms); /* only the state tells of it */
    store(&run, 3, 1);
    kill_run(&run);

    kept_faults.shm_full = false; /* there is room again: what the image holds moves over */
    reopen(&run, CATALOG_KILLED);
    assert_false(image_is_mapped(run.image));
    assert_there(&run, 3, 1);
    assert_absent(&run, 9);
    store(&run, 4, 1);
    kill_run(&run);
    reopen(&run, CATALOG_KILLED);
    assert_there(&run, 4, 1);
    kill_run(&run);

    kept_faults.shm_full = true; /* a live array that is there needs no room */
    reopen(&run, CATALOG_KILLED);
    assert_false(image_is_mapped(run.image));
    stop_run(&run);
    reopen(&run, CATALOG_CLEAN);
    assert_true(image_is_mapped(run.image));
    assert_there(&run, 4, 1);
    stop_run(&run);
    reopen(&run, CATALOG_CLEAN);
    kill_run(&run);
}

static void a_mapped_image_after_a_power_cut(void **state)
{
    (void)state;
    struct run run;
    create();
    kept_faults.shm_full = true;
    reopen(&run, CATALOG_NEW);
    store(&run, 1, 1);
    kill_run(&run);
    size_t length;
    uint8_t *bytes = kept_read_file(image_path_text, &length);
    bytes[IMAGE_LIVE_OFFSET + offsetof(struct live_block, boot_id)] ^= 1; /* another boot */
    kept_write_file(image_path_text, bytes, length);
    free(bytes);
    reopen(&run, CATALOG_POWER_LOST);
    assert_there(&run, 1, 1); /* it has reached the image all the same */
    kill_run(&run);
}

/* ---- Caution ----*/

static void caution_outlives_further_starts(void **state)
{
    (void)state;
    struct run run;
    begin(&run);
    kill_run(&run);
    kept_lose_shm(&place);
    reopen_unsettled(&run, CATALOG_POWER_LOST, kept_clock_ms + 2 * TTL_MS);
    kill_run(&run);
    kept_clock_ms += TTL_MS;
    reopen_unsettled(&run, CATALOG_POWER_LOST, kept_clock_ms + 2 * TTL_MS);
    stop_run(&run);
    kept_clock_ms += TTL_MS;
    reopen_unsettled(&run, CATALOG_POWER_LOST, kept_clock_ms + 2 * TTL_MS);
    kill_run(&run);
    kept_clock_ms += 2 * TTL_MS;
    reopen_unsettled(&run, CATALOG_KILLED, kept_clock_ms + 2 * TTL_MS);
    stop_run(&run);
    reopen_unsettled(&run, CATALOG_KILLED, kept_clock_ms + 2 * TTL_MS);
    stop_run(&run);
    kept_clock_ms += 2 * TTL_MS;
    reopen(&run, CATALOG_CLEAN);
    kill_run(&run);
}

static void to_another_boot(void)
{
    size_t length;
    uint8_t *bytes = kept_read_file(image_path_text, &length);
    for (unsigned copy = 0; copy < IMAGE_COPIES; copy++) {
        struct image_header header;
        memcpy(&header, bytes + copy * IMAGE_BLOCK_BYTES, sizeof(header));
        header.boot_id[0] ^= 1;
        image_header_seal(&header);
        memcpy(bytes + copy * IMAGE_BLOCK_BYTES, &header, sizeof(header));
    }
    kept_write_file(image_path_text, bytes, length);
    free(bytes);
}

/* The clock of another boot does not tell how long ago that was, unless it was over at the stop. */
static void caution_outlives_a_boot(void **state)
{
    (void)state;
    for (int settled = 0; settled < 2; settled++) {
        struct run run;
        unlink(image_path_text);
        begin(&run);
        kill_run(&run);
        kept_lose_shm(&place);
        reopen_unsettled(&run, CATALOG_POWER_LOST, kept_clock_ms + 2 * TTL_MS);
        if (settled)
            image_settled(run.image);
        stop_run(&run);
        to_another_boot();
        reopen(&run, settled ? CATALOG_CLEAN : CATALOG_POWER_LOST);
        kill_run(&run);
        kept_lose_shm(&place);
    }
}

/* A start whose sync failed, or that was killed before it, has left the newer copy in the page
 * cache alone. The next one must not write over the other, the only one on the disk, before it is
 * safe. */
static void a_copy_that_was_never_synced_is_made_safe_first(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct run run;
        struct kvs_error error;
        unlink(image_path_text);
        begin_with_written_key(&run);
        kill_run(&run);
        for (int starts = 0; starts < 2; starts++) {
            assert_int_equal(prepare(&run, &error), KVS_OK);
            kept_faults.writes_left = 2 - starts;
            assert_int_equal(image_begin(run.image, 0, &error), KVS_ERR_CATALOG_IO);
            kept_faults.writes_left = -1;
            kill_run(&run);
        }
        kept_lose_shm(&place);
        kept_tear(image_path_text, seed);
        reopen(&run, CATALOG_POWER_LOST);
        assert_there(&run, 1, 1);
        kill_run(&run);
        kept_lose_shm(&place);
    }
}

/* ---- Bad files ----*/

static void assert_refused(const uint8_t *bytes, size_t length, enum kvs_status expected,
                           const char *words)
{
    struct run run;
    struct kvs_error error = {0};
    size_t after_length;
    kept_write_file(image_path_text, bytes, length);
    enum kvs_status status = prepare(&run, &error);
    if (status != expected)
        fail_msg("%s instead of %s: %s", kvs_status_name(status), kvs_status_name(expected),
                 error.message);
    assert_non_null(strstr(error.message, "3.kv.kvc"));
    assert_non_null(strstr(error.message, words));
    uint8_t *after = kept_read_file(image_path_text, &after_length);
    assert_int_equal(after_length, length);
    assert_memory_equal(after, bytes, length);
    free(after);
    assert_int_equal(kept_shm_files(&place), 0);
}

static void reseal(uint8_t *bytes, unsigned copy, void (*change)(struct image_header *header))
{
    struct image_header header;
    memcpy(&header, bytes + copy * IMAGE_BLOCK_BYTES, sizeof(header));
    change(&header);
    image_header_seal(&header);
    memcpy(bytes + copy * IMAGE_BLOCK_BYTES, &header, sizeof(header));
}

static void too_many_pages(struct image_header *header)
{
    header->num_pages = UINT64_C(1) << 60;
}
static void no_pages(struct image_header *header)
{
    header->num_pages = 0;
}
static void long_name(struct image_header *header)
{
    header->ns_length = 4000;
}
static void other_name(struct image_header *header)
{
    header->rank = 4;
}
static void more_recency(struct image_header *header)
{
    header->clean = 1;
    header->recency_count = PAGES;
}

static void bad_files_are_refused_and_left_alone(void **state)
{
    (void)state;
    struct run run;
    size_t length;
    begin_with_key(&run);
    stop_run(&run);
    uint8_t *good = kept_read_file(image_path_text, &length);
    uint8_t *bad = malloc(length);
    assert_non_null(bad);

    assert_refused(good, 0, KVS_ERR_CATALOG_TRUNCATED, "0 bytes");
    assert_refused(good, 5, KVS_ERR_CATALOG_FOREIGN, "not a kvshelf catalog");
    assert_refused(good, 100, KVS_ERR_CATALOG_TRUNCATED, "100 bytes");
    assert_refused(good, IMAGE_BLOCK_BYTES, KVS_ERR_CATALOG_TRUNCATED, "4096 bytes");
    assert_refused(good, IMAGE_SLOTS_OFFSET, KVS_ERR_CATALOG_TRUNCATED, "12288 bytes");
    assert_refused(good, length - 5, KVS_ERR_CATALOG_TRUNCATED, "cut short");

    memset(bad, 0, length);
    assert_refused(bad, length, KVS_ERR_CATALOG_FOREIGN, "not a kvshelf catalog");
    memset(bad, 'x', length);
    assert_refused(bad, length, KVS_ERR_CATALOG_FOREIGN, "not a kvshelf catalog");

    memcpy(bad, good, length);
    bad[8] = bad[IMAGE_BLOCK_BYTES + 8] = 9;
    assert_refused(bad, length, KVS_ERR_CATALOG_VERSION, "version 9");

    memcpy(bad, good, length);
    bad[200] ^= 1;
    bad[IMAGE_BLOCK_BYTES + 4000] ^= 0x80;
    assert_refused(bad, length, KVS_ERR_CATALOG_DAMAGED, "checksum");

    static const struct {
        void (*change)(struct image_header *);
        enum kvs_status status;
        const char *words;
    } nonsense[] = {
        {too_many_pages, KVS_ERR_CATALOG_DAMAGED, "header"},
        {no_pages, KVS_ERR_CATALOG_DAMAGED, "header"},
        {long_name, KVS_ERR_CATALOG_DAMAGED, "header"},
        {other_name, KVS_ERR_CATALOG_FOREIGN, "4.kv.kvc"},
        {more_recency, KVS_ERR_CATALOG_TRUNCATED, "cut short"},
    };
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        memcpy(bad, good, length);
        for (unsigned copy = 0; copy < IMAGE_COPIES; copy++)
            reseal(bad, copy, nonsense[i].change);
        assert_refused(bad, length, nonsense[i].status, nonsense[i].words);
    }

    kept_write_file(image_path_text, good, length);
    reopen(&run, CATALOG_CLEAN);
    assert_there(&run, 1, 1);
    kill_run(&run);
    free(bad);
    free(good);
}

static void a_fifo_and_a_link_are_refused(void **state)
{
    (void)state;
    struct run run;
    struct kvs_error error;
    assert_int_equal(mkfifo(image_path_text, 0600), 0);
    assert_int_equal(prepare(&run, &error), KVS_ERR_CATALOG_FOREIGN);
    assert_int_equal(unlink(image_path_text), 0);
    assert_int_equal(symlink("/etc/passwd", image_path_text), 0);
    assert_int_equal(prepare(&run, &error), KVS_ERR_CATALOG_IO);
}

/* Any single flipped bit of the two header copies leaves an image that opens as before. */
static void one_flipped_bit_of_a_header_is_survived(void **state)
{
    (void)state;
    struct run run;
    size_t length;
    begin_with_written_key(&run);
    kill_run(&run);
    kept_lose_shm(&place);
    uint8_t *bytes = kept_read_file(image_path_text, &length);
    for (size_t at = 0; at < IMAGE_LIVE_OFFSET; at += 37) {
        bytes[at] ^= (uint8_t)(1u << at % 8);
        kept_write_file(image_path_text, bytes, length);
        bytes[at] ^= (uint8_t)(1u << at % 8);
        reopen(&run, CATALOG_POWER_LOST);
        assert_there(&run, 1, 1);
        kill_run(&run);
        kept_lose_shm(&place);
    }
    free(bytes);
}

/* A flipped bit of a slot costs at most its page, whatever the way of ending was. */
static void a_flipped_bit_of_a_slot_costs_one_page(void **state)
{
    (void)state;
    struct run run;
    size_t length;
    uint64_t seed = 7;
    begin(&run);
    for (unsigned i = 0; i < KEYS; i++)
        store(&run, i, 1);
    stop_run(&run);
    uint8_t *bytes = kept_read_file(image_path_text, &length);
    for (unsigned round = 0; round < 100; round++) {
        size_t at = IMAGE_SLOTS_OFFSET + kept_random(&seed) % (PAGES * sizeof(struct slot));
        uint8_t bit = (uint8_t)(1u << kept_random(&seed) % 8);
        bytes[at] ^= bit;
        kept_write_file(image_path_text, bytes, length);
        bytes[at] ^= bit;
        reopen(&run, CATALOG_CLEAN);
        assert_null(catalog_check(run.catalog));
        unsigned missing = 0;
        for (unsigned i = 0; i < KEYS; i++) {
            struct catalog_found found;
            if (!find(&run, i, &found))
                missing++;
            else
                assert_int_equal(found.checksum, checksum_of(i, 1));
        }
        assert_true(missing <= 1);
        kill_run(&run);
        kept_lose_shm(&place);
    }
    free(bytes);
}

static void a_damaged_recency_order_is_left_out(void **state)
{
    (void)state;
    struct run run;
    size_t length;
    begin_with_key(&run);
    store(&run, 2, 1);
    stop_run(&run);
    uint8_t *bytes = kept_read_file(image_path_text, &length);
    assert_int_equal(length, image_base_bytes(PAGES) + 2 * sizeof(uint32_t));
    bytes[length - 1] ^= 1;
    kept_write_file(image_path_text, bytes, length);
    free(bytes);
    kept_log_clear();
    reopen(&run, CATALOG_CLEAN);
    assert_non_null(strstr(kept_log_text, "recency order"));
    assert_there(&run, 1, 1);
    assert_there(&run, 2, 1);
    kill_run(&run);
}

/* ---- Power cuts at every write ----*/

/* What was ever confirmed, and what the last commit that succeeded held for certain. */
struct history {
    uint32_t confirmed[KEYS]; /* salts of a key, one bit each */
    int committed[KEYS];      /* salt, or -1 */
    bool changed[KEYS];       /* since that commit */
};

/* The same changes for the same seed, a commit after every few. Ends when writing fails. */
static void play(struct run *run, uint64_t seed, struct history *history)
{
    int current[KEYS];
    bool dirty[KEYS];
    memset(history, 0, sizeof(*history));
    for (unsigned i = 0; i < KEYS; i++)
        history->committed[i] = current[i] = -1;
    for (unsigned step = 0; step < 20; step++) {
        memset(dirty, 0, sizeof(dirty));
        for (unsigned change = 0; change < 6; change++) {
            unsigned key = (unsigned)(kept_random(&seed) % KEYS);
            dirty[key] = history->changed[key] = true;
            if (current[key] >= 0) {
                delete (run, key);
                current[key] = -1;
            } else if (store(run, key, step)) {
                current[key] = (int)step;
                history->confirmed[key] |= 1u << step;
            }
        }
        if (step == 12) {
            catalog_clear(run->catalog, kept_clock_ms);
            for (unsigned i = 0; i < KEYS; i++) {
                history->changed[i] = true;
                current[i] = -1;
            }
        }
        if (write_behind(run) != KVS_OK)
            return;
        memcpy(history->committed, current, sizeof(current));
        memset(history->changed, 0, sizeof(history->changed));
    }
}

static void assert_plausible(struct run *run, const struct history *history)
{
    for (unsigned i = 0; i < KEYS; i++) {
        struct catalog_found found;
        bool there = find(run, i, &found);
        if (there) {
            uint64_t salt = found.checksum & 0xffffffff;
            assert_int_equal(found.checksum, checksum_of(i, (unsigned)salt));
            assert_true(salt < 32 && (history->confirmed[i] >> salt & 1) != 0);
        }
        if (!history->changed[i]) {
            assert_int_equal(there, history->committed[i] >= 0);
            if (there)
                assert_int_equal(found.checksum & 0xffffffff, history->committed[i]);
        }
    }
}

/* One power cut after `writes` writes of the run; false when the run had no more of them. */
static bool cut_after(int writes, size_t torn, uint64_t tear_seed)
{
    struct run run;
    struct history history;
    unlink(image_path_text);
    begin(&run);
    kept_faults.writes_left = writes;
    kept_faults.torn_bytes = torn;
    play(&run, 42, &history);
    bool reached = kept_faults.writes_left == 0;
    kill_run(&run);
    kept_faults.writes_left = -1;
    if (tear_seed != 0)
        kept_tear(image_path_text, tear_seed);
    kept_lose_shm(&place);
    reopen(&run, CATALOG_POWER_LOST);
    assert_null(catalog_check(run.catalog));
    assert_plausible(&run, &history);
    /* It goes on as a catalog does. */
    kept_clock_ms += 10 * TTL_MS;
    for (unsigned i = 0; i < KEYS; i++)
        store(&run, i, 31);
    assert_null(catalog_check(run.catalog));
    stop_run(&run);
    reopen(&run, CATALOG_CLEAN);
    assert_null(catalog_check(run.catalog));
    kill_run(&run);
    kept_lose_shm(&place);
    return reached;
}

static void a_power_cut_at_every_write_leaves_a_usable_image(void **state)
{
    (void)state;
    int writes = 0;
    while (cut_after(writes, 0, 0))
        writes++;
    print_message("%d writes, a power cut after each\n", writes);
    assert_true(writes > 40);
    for (int i = 0; i < writes; i++)
        for (size_t torn = 8; torn <= 2048; torn *= 4)
            cut_after(i, torn, 0);
}

static void unsynced_sectors_may_be_lost_in_any_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint64_t random = seed;
        cut_after((int)(kept_random(&random) % 60), 0, seed);
    }
}

/* ---- Failing writes ----*/

static void a_full_disk_creates_nothing(void **state)
{
    (void)state;
    struct image_identity identity = {3, "kv", PAGES, 4096, ""};
    struct kvs_error error;
    char temporary[KEPT_PATH_BYTES + 64];
    snprintf(temporary, sizeof(temporary), "%s.tmp", image_path_text);
    kept_faults.disk_full = true;
    assert_int_equal(image_create(&dir, &identity, &error), KVS_ERR_NO_SPACE);
    assert_non_null(strstr(error.message, "3.kv.kvc"));
    kept_faults.disk_full = false;
    for (int writes = 0; writes < 2; writes++) {
        kept_faults.writes_left = writes;
        assert_int_equal(image_create(&dir, &identity, &error), KVS_ERR_CATALOG_IO);
    }
    assert_int_equal(access(image_path_text, F_OK), -1);
    assert_int_equal(access(temporary, F_OK), -1);
    kept_faults.writes_left = -1;
    create();
    assert_int_equal(image_create(&dir, &identity, &error), KVS_ERR_CATALOG_IO); /* is there */
}

/* The kernel sends SIGXFSZ to who goes beyond it, which ends the process. */
static void a_limit_on_file_sizes_is_no_signal(void **state)
{
    (void)state;
    struct image_identity large = {4, "kv", 4096, 4096, ""};
    struct run run;
    struct kvs_error error;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit limit = {IMAGE_SLOTS_OFFSET + 512, before.rlim_max};
    begin(&run);
    for (unsigned number = 0; number < PAGES; number++)
        store(&run, number, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    enum kvs_status created = image_create(&dir, &large, &error);
    enum kvs_status written = write_behind(&run);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(created, KVS_ERR_CATALOG_IO);
    assert_non_null(strstr(error.message, "ulimit -f"));
    assert_int_equal(written, KVS_ERR_CATALOG_IO);
    kill_run(&run);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    enum kvs_status opened = prepare(&run, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(opened, KVS_OK);
    assert_int_equal(run.origin, CATALOG_KILLED);
    assert_int_equal(image_begin(run.image, 0, NULL), KVS_OK);
    for (unsigned number = 0; number < PAGES; number++)
        assert_there(&run, number, 1);
    stop_run(&run);
}

static void a_failed_stop_stays_a_kill(void **state)
{
    (void)state;
    struct run run;
    begin_with_written_key(&run);
    kept_faults.writes_left = 0;
    assert_int_equal(image_stop(run.image, NULL, 0, NULL), KVS_ERR_CATALOG_IO);
    kill_run(&run);
    kept_faults.writes_left = -1;
    reopen(&run, CATALOG_KILLED);
    assert_there(&run, 1, 1);

    /* Without the recency order it is still a clean stop. */
    uint32_t recency[PAGES];
    assert_int_equal(write_behind(&run), KVS_OK);
    uint32_t n = catalog_recency(run.catalog, recency);
    kept_log_clear();
    kept_faults.writes_left = 0;
    kept_faults.failure = ENOSPC;
    assert_int_equal(image_stop(run.image, recency, n, NULL), KVS_ERR_NO_SPACE);
    assert_non_null(strstr(kept_log_text, "recency order"));
    kept_faults.writes_left = -1;
    kill_run(&run);
}

static void short_and_interrupted_writes_are_finished(void **state)
{
    (void)state;
    struct run run;
    kept_faults.tiny_writes = true;
    begin(&run);
    for (unsigned i = 0; i < KEYS; i++)
        store(&run, i, 1);
    stop_run(&run);
    reopen(&run, CATALOG_CLEAN);
    for (unsigned i = 0; i < KEYS; i++)
        assert_there(&run, i, 1);
    kill_run(&run);
}

static void identity_is_kept(void **state)
{
    (void)state;
    struct run run;
    begin(&run);
    image_set_identity(run.image, 8192, "another");
    assert_int_equal(write_behind(&run), KVS_OK);
    kill_run(&run);
    reopen(&run, CATALOG_KILLED);
    assert_int_equal(image_identity(run.image).bytes_per_page, 8192);
    assert_string_equal(image_identity(run.image).fingerprint, "another");
    kill_run(&run);
}

static void names_become_file_names(void **state)
{
    (void)state;
    static const struct {
        uint32_t rank;
        const char *ns, *name;
    } cases[] = {
        {0, "kv", "0.kv.kvc"},
        {7, "kv@pp1of2", "7.kv@pp1of2.kvc"},
        {4294967295, "", "4294967295..kvc"},
        {1, "../../etc/passwd", "1.%2E%2E%2F%2E%2E%2Fetc%2Fpasswd.kvc"},
        {1, "a b\n", "1.a%20b%0A.kvc"},
        {1, "\xc3\xa9", "1.%C3%A9.kvc"},
    };
    char name[IMAGE_NAME_BYTES], other[IMAGE_NAME_BYTES], ns[IMAGE_NS_MAX + 1];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(image_file_name(cases[i].rank, cases[i].ns, name));
        assert_string_equal(name, cases[i].name);
    }
    memset(ns, '/', IMAGE_NS_MAX);
    ns[IMAGE_NS_MAX] = 0;
    assert_true(image_file_name(4294967295, ns, name));
    assert_true(strlen(name) + strlen(".tmp") <= 255);
    ns[IMAGE_NS_MAX - 1] = '.';
    assert_true(image_file_name(4294967295, ns, other));
    assert_string_not_equal(name, other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_new_image_is_new),
        TEST(a_clean_stop_keeps_everything),
        TEST(a_kill_loses_nothing),
        TEST(a_power_cut_loses_only_what_was_not_written),
        TEST(dying_before_the_run_begins_changes_nothing),
        TEST(dying_while_the_run_begins_loses_nothing),
        TEST(dying_twice_while_the_run_begins_loses_nothing),
        TEST(a_failing_move_to_shm_loses_nothing),
        TEST(what_cannot_be_looked_at_is_not_lost),
        TEST(no_copy_of_the_header_stays_clean),
        TEST(an_old_live_array_never_meets_a_newer_image),
        TEST(a_clean_image_needs_no_live_array),
        TEST(a_live_array_of_something_else_is_not_used),
        TEST(a_copied_directory_becomes_a_catalog_of_its_own),
        TEST(opening_a_copy_takes_nothing_from_the_original),
        TEST(a_moved_directory_keeps_its_live_array),
        TEST(orphans_of_a_directory_are_swept),
        TEST(a_sweep_disturbs_no_other_directory),
        TEST(removing_leaves_nothing),
        TEST(without_room_on_shm_the_image_is_mapped),
        TEST(a_mapped_image_after_a_power_cut),
        TEST(caution_outlives_further_starts),
        TEST(caution_outlives_a_boot),
        TEST(a_copy_that_was_never_synced_is_made_safe_first),
        TEST(bad_files_are_refused_and_left_alone),
        TEST(a_fifo_and_a_link_are_refused),
        TEST(one_flipped_bit_of_a_header_is_survived),
        TEST(a_flipped_bit_of_a_slot_costs_one_page),
        TEST(a_damaged_recency_order_is_left_out),
        TEST(a_power_cut_at_every_write_leaves_a_usable_image),
        TEST(unsynced_sectors_may_be_lost_in_any_order),
        TEST(a_full_disk_creates_nothing),
        TEST(a_limit_on_file_sizes_is_no_signal),
        TEST(a_failed_stop_stays_a_kill),
        TEST(short_and_interrupted_writes_are_finished),
        TEST(identity_is_kept),
        TEST(names_become_file_names),
    };
    return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
