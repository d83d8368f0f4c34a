/* `kvshelf doctor`: each thing that can be wrong is a line of its own with what to do, nothing is
 * changed, and the exit code says whether an engine can start. */
#include "base/clock.h"
#include "support/bad_server.h"
#include "support/live_server.h"
#include "support/mounted.h"
#include "support/program.h"
#include "support/temp_dir.h"
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char dir[TEMP_DIR_MAX], config[TEMP_DIR_MAX + 32];

static int set_up(void **state)
{
    (void)state;
    temp_dir_make(dir);
    snprintf(config, sizeof(config), "%s/config.json", dir);
    unsetenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH");
    unsetenv("SGLANG_HF3FS_CONFIG");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unsetenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH");
    unsetenv("SGLANG_HF3FS_CONFIG");
    temp_dir_remove(dir);
    return 0;
}

/* `@` in the text stands for the directory. */
static void write_config(const char *text)
{
    FILE *file = fopen(config, "w");
    assert_non_null(file);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '@')
            fputs(dir, file);
        else
            fputc(*c, file);
    }
    assert_int_equal(fclose(file), 0);
}

static void expect(struct program_result result, int exit_code, const char *const parts[])
{
    const char *out = result.out.data == NULL ? "" : result.out.data;
    if (result.exit_code != exit_code)
        fail_msg("exit code %d, not %d:\n%s", result.exit_code, exit_code, out);
    for (size_t i = 0; parts[i] != NULL; i++)
        if (strstr(out, parts[i]) == NULL)
            fail_msg("'%s' is not in:\n%s", parts[i], out);
    program_done(&result);
}
#define EXPECT(result, code, ...) expect(result, code, (const char *const[]){__VA_ARGS__, NULL})

#define GOOD                                                                                       \
    "\"file_path_prefix\": \"@/pages\", \"file_size\": 1048576000, \"numjobs\": 4, \"entries\": 2"

static void test_all_is_well(void **state)
{
    (void)state;
    write_config("{" GOOD ", \"metadata_dir\": \"@/index\"}");
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "65536"), 0, "ok       variable", "ok       file",
           "16,000 pages of 64 KiB", "ok       path", "ok       page file", "ok       index",
           "index will be created", "An engine can start with this");
    struct stat about;
    char path[TEMP_DIR_MAX + 32];
    snprintf(path, sizeof(path), "%s/pages.0.bin", dir);
    assert_int_equal(stat(path, &about), -1); /* nothing is created */
    snprintf(path, sizeof(path), "%s/index", dir);
    assert_int_equal(stat(path, &about), -1);
}

static void test_the_wrong_variable(void **state)
{
    (void)state;
    write_config("{" GOOD "}");
    setenv("SGLANG_HF3FS_CONFIG", config, 1);
    EXPECT(PROGRAM("doctor"), 0, "warning  variable", "SGLANG_HF3FS_CONFIG is set",
           "export SGLANG_HICACHE_HF3FS_CONFIG_PATH=", "the defaults are used");
}

static void test_a_file_the_engine_does_not_read(void **state)
{
    (void)state;
    write_config("{" GOOD "}");
    EXPECT(PROGRAM("doctor", "--config", config), 0, "warning  variable", "not set");
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", "/elsewhere.json", 1);
    EXPECT(PROGRAM("doctor", "--config", config), 0, "warning  variable", "/elsewhere.json");
    EXPECT(PROGRAM("doctor", "--config", ""), 1, "(empty) was given with --config");
}

static void test_what_is_wrong_with_a_file(void **state)
{
    (void)state;
    static const struct {
        const char *text, *parts[4];
    } cases[] = {
        {"", {"error    file", "it is empty", "-> "}},
        {"{\"a\":", {"error    file", "line 1", "-> "}},
        {"[]", {"error    file", "no JSON object"}},
        {"{}", {"error    keys", "Missing required keys in config: file_path_prefix, file_size"}},
        {"{\"file_path_prefix\": \"@/p\", \"file_size\": -1, \"numjobs\": \"16\", \"entrys\": 3}",
         {"Invalid config value -1 for file_size", "Invalid config value \"16\" for numjobs",
          "did you mean 'entries'", "Missing required keys in config: entries"}},
        {"{" GOOD ", \"file_path_prefix\": \"\"}", {"error    keys", "file_path_prefix", "empty"}},
        {"{" GOOD ", \"metadata_server_url\": \"localhost:1\"}",
         {"error    metadata", "must begin with http://"}},
        {"{" GOOD ", \"metadata_server_url\": \"http://127.0.0.1:1\"}",
         {"error    server", "Metadata server http://127.0.0.1:1 cannot be reached", "->"}},
        {"{" GOOD ", \"metadata_server_url\": \"http://127.0.0.1:1\","
         " \"metadata_token_file\": \"@/none\"}",
         {"error    server", "There is no token file", "/none", "-> Correct the path"}},
        {"{" GOOD ", \"file_path_prefix\": \"@/config.json/p\"}",
         {"error    path", "is not a directory"}},
        {"{" GOOD ", \"file_path_prefix\": \"/proc/nothing/p\"}", {"error    ", "/proc", "->"}},
        {"{" GOOD ", \"metadata_dir\": \"@/config.json\"}", {"error    index", "not a directory"}},
    };
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        write_config(cases[c].text);
        EXPECT(PROGRAM("doctor"), 1, "An engine cannot start with this", cases[c].parts[0],
               cases[c].parts[1], cases[c].parts[2], cases[c].parts[3]);
    }
    unlink(config);
    EXPECT(PROGRAM("doctor"), 1, "error    file", "No such file or directory");
}

/* root may write everywhere, so be somebody else */
static void test_no_permission(void **state)
{
    (void)state;
    bool root = geteuid() == 0;
    write_config("{" GOOD ", \"metadata_dir\": \"@/index\"}");
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    assert_int_equal(chmod(config, 0644), 0);
    assert_int_equal(chmod(dir, 0555), 0);
    assert_true(!root || seteuid(65534) == 0);
    struct program_result result = PROGRAM("doctor");
    assert_true(!root || seteuid(0) == 0);
    assert_int_equal(chmod(dir, 0755), 0);
    EXPECT(result, 1, "error    path", "Nothing can be created in /tmp/", "Permission denied",
           "error    index", "chown");
}

static void test_mla_and_ranks(void **state)
{
    (void)state;
    write_config("{" GOOD "}");
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    EXPECT(PROGRAM("doctor", "--mla"), 1, "error    metadata",
           "MLA model is not supported without global metadata server, please refer to ",
           "-> Start kvshelf serve");
    EXPECT(PROGRAM("doctor", "--tp-rank", "2", "--tp-size", "4"), 0, "pages.2.bin");
    EXPECT(PROGRAM("doctor", "--pp-rank", "1", "--pp-size", "2"), 0, "pages.pp1of2.0.bin");
    EXPECT(PROGRAM("doctor", "--tp-rank", "4", "--tp-size", "4"), 1, "error    ranks", "0 to 3");
    EXPECT(
        PROGRAM("doctor", "--cp-rank", "1", "--cp-size", "2", "--dp-rank", "2", "--dp-size", "3"),
        0, "pages.cp1of2.dp2of3.0.bin", "context rank 1 of 2, data rank 2 of 3");
    EXPECT(PROGRAM("doctor", "--dp-rank", "4", "--dp-size", "4"), 1, "error    ranks", "0 to 3");
}

static void test_a_mount_that_is_missing(void **state)
{
    (void)state;
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    write_config("{" GOOD ", \"file_path_prefix\": \"/no-such-mount/a/p\", \"metadata_dir\": "
                 "\"/no-such-mount\"}");
    if (access("/", W_OK) == 0)
        EXPECT(PROGRAM("doctor"), 0,
               "warning  path          /no-such-mount/a will be created on the root",
               "as there is no /no-such-mount:", "warning  index", "mount it first");
    else
        EXPECT(PROGRAM("doctor"), 1, "Nothing can be created in /");
}

static void write_server_config(const char *url, const char *more)
{
    char text[512];
    snprintf(text, sizeof(text), "{" GOOD ", \"metadata_server_url\": \"%s\"%s}", url, more);
    write_config(text);
}

static void test_a_server(void **state)
{
    (void)state;
    char drop[160];
    struct live_server server = {0};
    live_server_start(&server);
    snprintf(drop, sizeof(drop), "kvshelf namespaces drop %s 3 'kv@pp1of2'.", server.url);
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    write_server_config(server.url, "");
    EXPECT(PROGRAM("doctor", "--mla", "--tp-rank", "3", "--tp-size", "4"), 0,
           "ok       server        http://127.0.0.1:", "is kvshelf " KVS_VERSION,
           "keeps its catalogs in memory only", "-> Start it with --data-dir DIR",
           "ok       clock         The server's clock and this machine's agree",
           "'kv' of rank 0 will be created", "ok       latency", "pages.0.bin");
    /* Nothing is asked that is refused, which somebody would be alerted by. */
    assert_int_equal(live_server_requests(&server, ENDPOINT_EXISTS), 0);
    assert_true(live_server_requests(&server, ENDPOINT_HEALTH) > 1);
    struct kvs_error error;
    assert_int_equal(
        registry_initialize(server.registry, 3, "kv@pp1of2", 1000, 1 << 20, NULL, &error), KVS_OK);
    EXPECT(
        PROGRAM("doctor", "--tp-rank", "3", "--tp-size", "4", "--pp-rank", "1", "--pp-size", "2"),
        0, "'kv@pp1of2' of rank 3 is there with 1,000 pages, 0 of them with a key");
    EXPECT(PROGRAM("doctor", "--tp-rank", "3", "--tp-size", "4", "--pp-rank", "1", "--pp-size", "2",
                   "--bytes-per-page", "2MiB"),
           1, "error    namespace",
           "holds 1000 pages of 1048576 bytes and cannot become 500 pages of 2097152 bytes", drop);
    live_server_stop(&server);
}

/* What a store states, and refuses, when it is opened. */
static void test_a_namespace_of_another_model(void **state)
{
    (void)state;
    static const char LINE[] =
        "error    namespace     Rank 0 namespace 'kv' holds pages of 'model=m;dtype=bf16;pairs=0', "
        "not of 'model=m;dtype=fp8'";
    struct kvs_error error;
    struct live_server server = {.dir = dir};
    live_server_start(&server);
    assert_int_equal(registry_initialize(server.registry, 0, "kv", 1000, 0,
                                         "model=m;dtype=bf16;pairs=0", &error),
                     KVS_OK);
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    write_server_config(server.url, ", \"model\": \"m\", \"dtype\": \"fp8\"");
    EXPECT(PROGRAM("doctor"), 1, LINE, "drop http://127.0.0.1:", "0 'kv'. Else give");
    write_server_config(server.url, ", \"model\": \"m\", \"layout\": \"page_first\"");
    EXPECT(PROGRAM("doctor"), 0, "'kv' of rank 0 is there");
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "65536"), 1,
           "holds 1000 pages of an unstated number of bytes and cannot become 16000 pages");
    live_server_stop(&server);
}

/* The same of what a directory keeps, which is left as it is. */
static void test_a_kept_index_of_another(void **state)
{
    (void)state;
    char index[TEMP_DIR_MAX + 16], file[TEMP_DIR_MAX + 32], drop[TEMP_DIR_MAX + 160];
    snprintf(index, sizeof(index), "%s/index", dir);
    snprintf(drop, sizeof(drop),
             "kvshelf namespaces drop %s 0 'kv'. Else give this deployment "
             "another metadata_dir.",
             index);
    const struct registry_options options = {.dir = index};
    struct registry *registry;
    struct kvs_error error;
    assert_int_equal(registry_open(&options, &registry, &error), KVS_OK);
    assert_int_equal(registry_initialize(registry, 0, "kv", 1000, 1 << 20, "model=m;", &error),
                     KVS_OK);
    registry_close(registry);
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    write_config("{" GOOD ", \"metadata_dir\": \"@/index\", \"model\": \"m\"}");
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "1MiB"), 0,
           "ok       index         'kv' of rank 0 is kept there, with as many pages");
    EXPECT(PROGRAM("doctor"), 0, "'kv' of rank 0 is kept there.");
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "2MiB"), 1,
           "error    index         Rank 0 namespace 'kv' holds 1000 pages of 1048576 bytes", drop);
    write_config("{" GOOD ", \"metadata_dir\": \"@/index\", \"model\": \"other\"}");
    EXPECT(PROGRAM("doctor"), 1, "holds pages of 'model=m;', not of 'model=other'", drop);
    snprintf(file, sizeof(file), "%s/1.kv.kvc", index); /* no store opens beside it */
    FILE *foreign = fopen(file, "w");
    assert_non_null(foreign);
    assert_int_equal(fclose(foreign), 0);
    write_config("{" GOOD ", \"metadata_dir\": \"@/index\"}");
    EXPECT(PROGRAM("doctor"), 1, "error    index         ", "1.kv.kvc");
}

/* What the page file has already is no room for more. */
static void test_a_full_disk(void **state)
{
    (void)state;
    static char bytes[1 << 16];
    char reason[160], path[TEMP_DIR_MAX + 32], place[TEMP_DIR_MAX + 16];
    snprintf(place, sizeof(place), "%s/disk", dir);
    assert_int_equal(mkdir(place, 0700), 0);
    if (!mounted_tmpfs(place, 1 << 20, reason, sizeof(reason))) {
        print_message("skipped: %s\n", reason);
        skip();
    }
    write_config("{\"file_path_prefix\": \"@/disk/pages\", \"file_size\": 4194304, \"numjobs\": 1, "
                 "\"entries\": 1}");
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    snprintf(path, sizeof(path), "%s/pages.0.bin", place);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, sizeof(bytes), file), sizeof(bytes));
    assert_int_equal(fclose(file), 0);
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "4096"), 0, "warning  space",
           " has 960 KiB free and the page file has 64 KiB already, file_size is 4 MiB");
    snprintf(path, sizeof(path), "%s/other", place);
    int other = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(other >= 0);
    while (write(other, bytes, sizeof(bytes)) > 0)
        continue;
    assert_int_equal(close(other), 0);
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "4096"), 1, "error    space",
           "is full: beside the 64 KiB that the page file has already");
    mounted_undo(place);
}

/* A catalog is allocated whole when it is created: without room for it no store opens. */
static void test_no_room_for_the_index(void **state)
{
    (void)state;
    static char bytes[1 << 16];
    char reason[160], path[TEMP_DIR_MAX + 32], place[TEMP_DIR_MAX + 16];
    snprintf(place, sizeof(place), "%s/disk", dir);
    assert_int_equal(mkdir(place, 0700), 0);
    if (!mounted_tmpfs(place, 1 << 20, reason, sizeof(reason))) {
        print_message("skipped: %s\n", reason);
        skip();
    }
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    write_config("{" GOOD ", \"metadata_dir\": \"@/disk/index\"}");
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "65536"), 0, "warning  index",
           "/disk is on tmpfs (memory: seen at once");
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "131072"), 0, "ok       index",
           "/disk has 1 MiB free, the catalog of this rank takes 512 KiB there");
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "4096"), 1, "error    index",
           "/disk has 1 MiB free, and the catalog of this rank takes 15.6 MiB there",
           "-> Make room, or choose another metadata_dir");
    snprintf(path, sizeof(path), "%s/other", place);
    int other = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(other >= 0);
    while (write(other, bytes, sizeof(bytes)) > 0)
        continue;
    assert_int_equal(close(other), 0);
    EXPECT(PROGRAM("doctor"), 1, "error    index", "/disk has 0 B free, and the catalog",
           "takes at least ");
    mounted_undo(place);
}

static void test_a_server_with_a_token(void **state)
{
    (void)state;
    char path[TEMP_DIR_MAX + 32];
    struct live_server server = {.token = "open-sesame-open-sesame"};
    live_server_start(&server);
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    write_server_config(server.url, "");
    EXPECT(PROGRAM("doctor"), 1, "error    server", "lets nobody in without its token",
           "-> A store, and kvshelf doctor: name the token file of the server as "
           "metadata_token_file");
    snprintf(path, sizeof(path), "%s/token", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("open-sesame-open-sesame\n", file);
    assert_int_equal(fclose(file), 0);
    write_server_config(server.url, ", \"metadata_token_file\": \"@/token\"");
    EXPECT(PROGRAM("doctor"), 0, "ok       server", "and takes the token");
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("open-barley-open-barley\n", file);
    assert_int_equal(fclose(file), 0);
    struct program_result said = PROGRAM("doctor"),
                          stat_said = PROGRAM("stat", server.url, "--token-file", path);
    assert_int_equal(said.exit_code, 1);
    *strchr(buffer_text(&stat_said.err), '\n') = '\0'; /* the same sentence */
    if (strstr(buffer_text(&said.out), stat_said.err.data + strlen("kvshelf: ")) == NULL)
        fail_msg("'%s' is not in:\n%s", stat_said.err.data, said.out.data);
    program_done(&said);
    program_done(&stat_said);
    live_server_stop(&server);
}

/* Another server than kvshelf's (a stand-in that knows the operations but no /api/status). */
static void test_another_server(void **state)
{
    (void)state;
    static struct bad_server other;
    const struct bad_step step = {bad_answer(404, "{\"detail\":\"Not Found\"}"), BAD_KEEPS};
    bad_server_start(&other, &step, 1);
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    write_server_config(other.url, "");
    EXPECT(PROGRAM("doctor"), 1, "error    server", "SGLang's own server",
           "every page would be a miss", "set verify to if_known");
    write_server_config(other.url, ", \"verify\": \"if_known\"");
    EXPECT(PROGRAM("doctor"), 0, "warning  server", "SGLang's own server", "ok       latency");
    bad_server_stop(&other);
}

/* A stand-in that says another time. */
static void test_a_server_with_another_clock(void **state)
{
    (void)state;
    static const struct {
        int64_t apart_s;
        const char *says;
    } cases[] = {
        {37800, "warning  clock         The server's clock is 10 h"},
        {-37800, "min behind this machine's, so that lines of the two logs"},
    };
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static struct bad_server other;
        char body[128];
        snprintf(body, sizeof(body),
                 "{\"version\":\"" KVS_VERSION "\",\"time_ms\":%" PRId64 ",\"namespaces\":[]}",
                 (int64_t)(clock_wall_us() / 1000) + cases[i].apart_s * 1000);
        const struct bad_step step = {bad_answer(200, body), BAD_KEEPS};
        bad_server_start(&other, &step, 1);
        write_server_config(other.url, "");
        EXPECT(PROGRAM("doctor"), 0, "ok       server", cases[i].says);
        bad_server_stop(&other);
    }
}

static void test_page_arithmetic(void **state)
{
    (void)state;
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    write_config("{" GOOD "}");
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "1048577"), 0, "999 pages",
           "holds few pages (999)", "1023 KiB at the end unused", "no multiple of 4096");
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "1001M"), 1, "error    pages",
           "smaller than one page");
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "2G"), 1, "error    pages", "bytes_per_page");
    write_config(
        "{\"file_path_prefix\": \"@/p\", \"file_size\": 1152921504606846976, \"numjobs\": 1, "
        "\"entries\": 1}");
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "1K"), 1, "error    pages", "1073741824");
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "1M"), 1, "error    pages");
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "1G"), 0, "warning  pages", "warning  space");
    struct program_result result = PROGRAM("doctor", "--bytes-per-page", "0");
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(result.err.data, "bytes_per_page must be positive"));
    program_done(&result);
}

static void test_existing_files(void **state)
{
    (void)state;
    char path[TEMP_DIR_MAX + 32];
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    write_config("{" GOOD "}");
    snprintf(path, sizeof(path), "%s/pages.0.bin", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    EXPECT(PROGRAM("doctor"), 1, "error    page file", "not a regular file");
    assert_int_equal(rmdir(path), 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(truncate(path, 2000000000), 0);
    EXPECT(PROGRAM("doctor"), 0, "warning  page file", "only grow");
    assert_int_equal(truncate(path, 100), 0);
    EXPECT(PROGRAM("doctor"), 0, "ok       page file", "is there with 100 B");
}

/* ---- Where pages are read and written --------------------------------------------------------*/

static void test_how_pages_are_moved(void **state)
{
    (void)state;
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    write_config("{" GOOD "}");
    EXPECT(PROGRAM("doctor"), 0, "file system", "this machine", "direct I/O", "io_uring",
           "ok       limits");
    write_config("{" GOOD ", \"direct\": \"off\"}");
    EXPECT(PROGRAM("doctor"), 0, "ok       direct I/O    Not used (direct: off)");
    write_config("{" GOOD ", \"direct\": \"on\"}");
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "65537"), 0, "direct I/O", "65537 is none");
    char path[TEMP_DIR_MAX + 32]; /* the same with a page file, which is left as it is */
    snprintf(path, sizeof(path), "%s/pages.0.bin", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs("page", file), 1);
    fclose(file);
    EXPECT(PROGRAM("doctor", "--bytes-per-page", "65537"), 0, "direct I/O", "65537 is none");
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_size, 4);
}

static void test_few_files(void **state)
{
    (void)state;
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 100;
    write_config("{" GOOD "}");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct program_result result = PROGRAM("doctor");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT(result, 0, "warning  limits        A process of this user may open 100 files",
           "-> Raise it: ulimit -n 65536");
}

/* As in a container: what io_uring_setup would do, a filter forbids. */
static bool forbid_io_uring(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* The last test: the filter stays. */
static void test_io_uring_is_forbidden(void **state)
{
    (void)state;
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    if (!forbid_io_uring()) {
        print_message("skipped: no seccomp here\n");
        skip();
    }
    write_config("{" GOOD "}");
    EXPECT(PROGRAM("doctor"), 0, "ok       io_uring      Not available (", "engine posix");
    write_config("{" GOOD ", \"io_engine\": \"uring\"}");
    EXPECT(PROGRAM("doctor"), 0, "warning  io_uring      Not available (",
           "or leave io_engine at auto");
}

static void test_json(void **state)
{
    (void)state;
    write_config("{" GOOD ", \"numjob\": 1}");
    setenv("SGLANG_HICACHE_HF3FS_CONFIG_PATH", config, 1);
    EXPECT(PROGRAM("doctor", "--json", "--mla"), 1, "{\"errors\":1,\"warnings\":1,\"checks\":[",
           "{\"level\":\"warning\",\"check\":\"keys\",\"message\":\"Unknown key 'numjob'",
           "{\"level\":\"error\",\"check\":\"metadata\",", "\"remedy\":null");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_all_is_well),
        TEST(test_the_wrong_variable),
        TEST(test_a_file_the_engine_does_not_read),
        TEST(test_what_is_wrong_with_a_file),
        TEST(test_no_permission),
        TEST(test_mla_and_ranks),
        TEST(test_a_mount_that_is_missing),
        TEST(test_a_server),
        TEST(test_a_namespace_of_another_model),
        TEST(test_a_kept_index_of_another),
        TEST(test_a_full_disk),
        TEST(test_no_room_for_the_index),
        TEST(test_a_server_with_a_token),
        TEST(test_another_server),
        TEST(test_a_server_with_another_clock),
        TEST(test_page_arithmetic),
        TEST(test_existing_files),
        TEST(test_json),
        TEST(test_how_pages_are_moved),
        TEST(test_few_files),
        TEST(test_io_uring_is_forbidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
