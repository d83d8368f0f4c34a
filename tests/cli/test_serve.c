/* kvshelf serve as a process: how it starts, says what it does, stops, and what it refuses. */
#include "support/program.h"
#include "support/serving.h"
#include "support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PATH_BYTES = 128 };

static char place[PATH_BYTES];

static int set_up(void **state)
{
    (void)state;
    snprintf(place, sizeof(place), "/tmp/kvshelf-serve-XXXXXX");
    return mkdtemp(place) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    char command[PATH_BYTES + 16];
    snprintf(command, sizeof(command), "rm -rf %s", place);
    return system(command);
}

static const char *in_place(const char *name)
{
    static char path[2 * PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s", place, name);
    return path;
}

static void write_file(const char *name, const char *content)
{
    FILE *file = fopen(in_place(name), "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#define RESERVE_A "/0/reserve_and_allocate_page_indices"

/* ---- Start and stop --------------------------------------------------------------------------*/

static void a_signal_stops_it_and_nothing_is_forgotten(void **state)
{
    (void)state;
    static const int signals[] = {SIGTERM, SIGINT};
    char dir[2 * PATH_BYTES];
    snprintf(dir, sizeof(dir), "%s", in_place("kept"));
    for (size_t i = 0; i < 2; i++) {
        struct serving running = SERVING_START("--data-dir", dir, "--threads", "2");
        if (i == 0) {
            assert_non_null(
                strstr(serving_post(&running, "/0/initialize", "{\"num_pages\":1}"), " 204 "));
            assert_non_null(strstr(serving_post(&running, RESERVE_A, "{\"keys\":[[\"a\",\"\"]]}"),
                                   "[[false,0]]"));
            assert_non_null(strstr(serving_post(&running, "/0/confirm_write",
                                                "{\"written_keys_to_confirm\":[[\"a\",0]]}"),
                                   " 204 "));
        }
        assert_non_null(
            strstr(serving_post(&running, "/0/exists", "{\"keys\":[\"a\"]}"), "[true]"));
        kill(running.pid, signals[i]);
        assert_int_equal(serving_wait_end(&running), 0);
        assert_non_null(strstr(buffer_text(&running.said), "Stopped"));
        assert_null(strstr(buffer_text(&running.said), "in memory only"));
        serving_done(&running);
    }
}

/* Confirmed is confirmed, at whatever moment the process is killed. (After a kill free pages wait
 * for writers that may still live; the lease keeps what is confirmed from being evicted instead.)
 */
static void what_was_answered_outlives_a_kill(void **state)
{
    (void)state;
    enum { ROUNDS = 5, KEYS = 40 };
    char dir[2 * PATH_BYTES], body[256];
    snprintf(dir, sizeof(dir), "%s", in_place("killed"));
    for (int round = 0; round <= ROUNDS; round++) {
        struct serving running = SERVING_START("--data-dir", dir, "--lease", "0.3", "--quarantine",
                                               "0", "--reserve-ttl", "0.2");
        serving_post(&running, "/0/initialize", "{\"num_pages\":1000}");
        for (int i = 0; i < round * KEYS; i++) {
            snprintf(body, sizeof(body), "{\"keys\":[\"k%d\"]}", i);
            assert_non_null(strstr(serving_post(&running, "/0/exists", body), "[true]"));
        }
        for (int i = round * KEYS; i < (round + 1) * KEYS;) {
            snprintf(body, sizeof(body), "{\"keys\":[[\"k%d\",\"\"]]}", i);
            const char *page = strstr(serving_post(&running, RESERVE_A, body), "[[false,");
            assert_non_null(page);
            snprintf(body, sizeof(body), "{\"written_keys_to_confirm\":[[\"k%d\",%ld]]}", i,
                     strtol(page + 8, NULL, 10));
            i += strstr(serving_post(&running, "/0/confirm_write", body), " 204 ") != NULL;
        }
        /* The last end is a clean one, which leaves nothing on /dev/shm. */
        kill(running.pid, round < ROUNDS ? SIGKILL : SIGTERM);
        assert_int_equal(serving_wait_end(&running), round < ROUNDS ? 1000 + SIGKILL : 0);
        serving_done(&running);
    }
}

/* Engines keep their errors to themselves: who looks after the server reads its log. */
static void what_is_refused_or_dropped_is_logged(void **state)
{
    (void)state;
    struct serving running = SERVING_START("--lease", "0");
    assert_non_null(
        strstr(serving_post(&running, "/0/initialize", "{\"num_pages\":1000}"), " 204 "));
    assert_non_null(
        strstr(serving_post(&running, "/0/initialize", "{\"num_pages\":999}"), " 409 "));
    assert_true(
        serving_wait_for(&running, "An initialize was refused: Rank 0 namespace 'kv' holds 1000"));
    assert_non_null(strstr(serving_post(&running, "/0/drop", "{}"), " 204 "));
    assert_true(serving_wait_for(&running, "Dropped rank 0 namespace 'kv'"));
    kill(running.pid, SIGTERM);
    assert_int_equal(serving_wait_end(&running), 0);
    serving_done(&running);
}

static void a_client_without_the_token_is_logged(void **state)
{
    (void)state;
    char token[2 * PATH_BYTES];
    write_file("token", "0123456789abcdef0123456789abcdef\n");
    snprintf(token, sizeof(token), "%s", in_place("token"));
    struct serving running = SERVING_START("--token-file", token);
    assert_non_null(strstr(serving_post(&running, "/0/initialize", "{\"num_pages\":1}"), " 401 "));
    assert_true(serving_wait_for(&running,
                                 "A request (/0/initialize) from 127.0.0.1 was refused: "
                                 "Authentication required: the request carries no token"));
    kill(running.pid, SIGTERM);
    assert_int_equal(serving_wait_end(&running), 0);
    serving_done(&running);
}

static void a_second_signal_ends_it_at_once(void **state)
{
    (void)state;
    /* A process that ends at once joins no thread, which the thread sanitizer would report. */
    struct serving running =
        serving_start((const char *const[]){"--port", "0", "--threads", "1", NULL},
                      (const char *const[]){"TSAN_OPTIONS=report_thread_leaks=0", NULL});
    int fd = serving_open_connection(&running);
    const char head[] =
        "POST /0/exists HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n";
    char answer[64];
    assert_int_equal(send(fd, head, strlen(head), MSG_NOSIGNAL), strlen(head));
    assert_true(recv(fd, answer, sizeof(answer), 0) > 0); /* in flight from here on */
    kill(running.pid, SIGTERM);
    assert_true(serving_wait_for(&running, "Stopping"));
    kill(running.pid, SIGINT);
    int code = serving_wait_end(&running);
    /* On a slow machine the first stop may have ended before the second signal came. */
    assert_true(code == 128 + SIGINT || code == 0);
    close(fd);
    serving_done(&running);
}

static void the_service_manager_is_told(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char variable[2 * PATH_BYTES], datagram[64] = "";
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const struct timeval hang = {.tv_sec = SERVING_HANG_S};
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &hang, sizeof(hang));
    snprintf(address.sun_path, sizeof(address.sun_path), "%.90s", in_place("notify"));
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    snprintf(variable, sizeof(variable), "NOTIFY_SOCKET=%s", address.sun_path);
    struct serving running = serving_start((const char *const[]){"--port", "0", NULL},
                                           (const char *const[]){variable, NULL});
    assert_true(recv(fd, datagram, sizeof(datagram) - 1, 0) > 0);
    assert_string_equal(datagram, "READY=1");
    kill(running.pid, SIGTERM);
    assert_int_equal(serving_wait_end(&running), 0);
    ssize_t n = recv(fd, datagram, sizeof(datagram) - 1, 0);
    assert_true(n > 0);
    datagram[n] = '\0';
    assert_string_equal(datagram, "STOPPING=1");
    close(fd);
    serving_done(&running);
}

/* ---- What it refuses -------------------------------------------------------------------------*/

static void wrong_starts_are_one_sentence(void **state)
{
    (void)state;
    struct serving holder = SERVING_START();
    char port[16], file[2 * PATH_BYTES];
    snprintf(port, sizeof(port), "%u", holder.port);
    write_file("a-file", "x");
    write_file("bad.json", "{\"prot\": 1}");
    write_file("of-other.json", "{\"persistence_path\": \"/x\"}");
    write_file("bad-value.json", "{\"lease\": \"soon\"}");
    write_file("bad-type.json", "{\"max_body\": [1]}");
    write_file("bad-flag.json", "{\"insecure\": \"yes\"}");
    write_file("bad-syntax.json", "{\"lease\": }");
    write_file("empty-token", "\n");
    const struct {
        const char *flag, *value, *says;
        int code;
    } cases[] = {
        {"--port", port, "in use", 1},
        {"--port", "65536", "it must be from 0 to 65535\n", 2},
        {"--port", "x", "--port", 2},
        {"--host", "0.0.0.0", "--token-file FILE, or --insecure", 1},
        {"--host", "no.such.host.invalid", "no.such.host.invalid", 1},
        {"--token-file", "/nonexistent", "/nonexistent", 1},
        {"--token-file", "@empty-token", "empty", 1},
        {"--data-dir", "@a-file", "a-file", 1},
        {"--config", "/nonexistent", "Failed to load config from /nonexistent", 1},
        {"--config", "@bad.json", "Unknown option 'prot' in '", 2},
        {"--config", "@bad.json", "bad.json' for kvshelf serve: did you mean 'port'?", 2},
        {"--config", "@of-other.json", "of-other.json' for kvshelf serve: --data-dir DIR keeps", 2},
        {"--token", "x", "'--token' for kvshelf serve: --token-file FILE names a file", 2},
        {"--data-dir", "", "Cannot use (empty) as a directory", 1},
        {"--token-file", "", "There is no token file (empty)", 1},
        {"--host", "", "Listening on (empty) needs a token", 1},
        {"--config", "", "Failed to load config from (empty): ", 1},
        {"--persistence-path", "/x", "'--persistence-path' for kvshelf serve: --data-dir DIR", 2},
        {"--save-interval", "60", "'--save-interval' for kvshelf serve: --data-dir DIR", 2},
        {"--config", "@bad-value.json", "Option --lease (lease in ", 2},
        {"--config", "@bad-value.json", "bad-value.json) cannot be 'soon'", 2},
        {"--config", "@bad-type.json", "bad-type.json) cannot be 'a list'", 2},
        {"--config", "@bad-flag.json", "bad-flag.json) cannot be 'a text': it must be true", 2},
        {"--config", "@bad-syntax.json", "bad-syntax.json", 1},
        {"--lease", "-1", "--lease", 2},
        {"--lease", "1e3", "--lease", 2},
        {"--eviction", "random", "prefix, lru", 2},
        {"--log-level", "loud", "debug, info", 2},
        {"--max-body", "1", "--max-body", 2},
        {"--threads", "0", "--threads", 2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *value = cases[i].value;
        if (value[0] == '@') {
            snprintf(file, sizeof(file), "%s", in_place(value + 1));
            value = file;
        }
        bool is_port = strcmp(cases[i].flag, "--port") == 0;
        struct program_result result = is_port
                                           ? PROGRAM("serve", cases[i].flag, value)
                                           : PROGRAM("serve", "--port", "0", cases[i].flag, value);
        if (result.exit_code != cases[i].code ||
            strstr(buffer_text(&result.err), cases[i].says) == NULL)
            fail_msg("%s %s: exit %d, %s", cases[i].flag, value, result.exit_code,
                     buffer_text(&result.err));
        program_done(&result);
    }
    kill(holder.pid, SIGTERM);
    assert_int_equal(serving_wait_end(&holder), 0);
    assert_non_null(strstr(buffer_text(&holder.said), "in memory only"));
    serving_done(&holder);
}

static void a_wrong_variable_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *says;
    } cases[] = {
        {"KVSHELF_PORT", "ten", "Option --port (KVSHELF_PORT) cannot be 'ten'"},
        {"KVSHELF_LEASE", "", "Option --lease (KVSHELF_LEASE) cannot be '(empty)'"},
        {"KVSHELF_INSECURE", "maybe", "Option --insecure (KVSHELF_INSECURE) cannot be 'maybe'"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(setenv(cases[i].name, cases[i].value, 1), 0);
        struct program_result result = PROGRAM("serve");
        unsetenv(cases[i].name);
        assert_int_equal(result.exit_code, 2);
        if (strstr(buffer_text(&result.err), cases[i].says) == NULL)
            fail_msg("'%s' is not in %s", cases[i].says, buffer_text(&result.err));
        program_done(&result);
    }
}

static void a_variable_that_is_nearly_one_of_its_own_is_named(void **state)
{
    (void)state;
    /* Kubernetes sets the last two for a service of this name. */
    struct serving running =
        serving_start((const char *const[]){"--port", "0", NULL},
                      (const char *const[]){"KVSHELF_DATADIR=/x", "KVSHELF_THREADS=1",
                                            "KVSHELF_SERVICE_HOST=10.0.0.1",
                                            "KVSHELF_PORT_18000_TCP=tcp://10.0.0.1:18000", NULL});
    kill(running.pid, SIGTERM);
    assert_int_equal(serving_wait_end(&running), 0);
    const char *said = strstr(buffer_text(&running.said), "Unknown variable");
    assert_non_null(said);
    assert_non_null(strstr(said, "Unknown variable 'KVSHELF_DATADIR' is ignored; did you mean "
                                 "'KVSHELF_DATA_DIR'?\n"));
    assert_null(strstr(said + 1, "Unknown variable"));
    serving_done(&running);
}

static void variables_that_mean_something_else_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *says;
    } cases[] = {
        {"KVSHELF_TOKEN=0123456789abcdef", "Unknown variable 'KVSHELF_TOKEN' is ignored: "
                                           "--token-file FILE names a file with the token"},
        {"KVSHELF_PERSISTENCE_PATH=/x", "Unknown variable 'KVSHELF_PERSISTENCE_PATH' is ignored: "
                                        "--data-dir DIR keeps the catalogs here"},
        {"kvshelf_data_dir=/x", "Unknown variable 'kvshelf_data_dir' is ignored; did you mean "
                                "'KVSHELF_DATA_DIR'?"},
        {"KVSHELF_Data_Dir=/x", "Unknown variable 'KVSHELF_Data_Dir' is ignored; did you mean "
                                "'KVSHELF_DATA_DIR'?"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct serving running = serving_start((const char *const[]){"--port", "0", NULL},
                                               (const char *const[]){cases[i].variable, NULL});
        kill(running.pid, SIGTERM);
        assert_int_equal(serving_wait_end(&running), 0);
        if (strstr(buffer_text(&running.said), cases[i].says) == NULL)
            fail_msg("'%s' is not in %s", cases[i].says, buffer_text(&running.said));
        assert_null(strstr(buffer_text(&running.said), "0123456789abcdef"));
        serving_done(&running);
    }
    /* Also where the start fails for want of it. */
    assert_int_equal(setenv("KVSHELF_TOKEN", "x", 1), 0);
    struct program_result result = PROGRAM("serve", "--port", "0", "--host", "0.0.0.0");
    unsetenv("KVSHELF_TOKEN");
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(buffer_text(&result.err), "Unknown variable 'KVSHELF_TOKEN'"));
    program_done(&result);
}

/* Beside a service named kvshelf Kubernetes sets KVSHELF_PORT to a URL. */
static void the_port_of_a_kubernetes_service_is_not_a_setting(void **state)
{
    (void)state;
    assert_int_equal(setenv("KVSHELF_PORT", "tcp://10.0.0.1:18000", 1), 0);
    struct program_result result = PROGRAM("serve", "--host", "0.0.0.0");
    unsetenv("KVSHELF_PORT");
    assert_int_equal(result.exit_code, 1); /* it needs a token: beyond reading its settings */
    assert_non_null(strstr(buffer_text(&result.err), "needs a token"));
    program_done(&result);
}

/* Whoever reads the log as JSON finds there why the server is not up. */
static void a_failed_start_is_said_in_the_format_asked_for(void **state)
{
    (void)state;
    struct program_result result =
        PROGRAM("serve", "--port", "0", "--log-format", "json", "--host", "0.0.0.0");
    assert_int_equal(result.exit_code, 1);
    assert_memory_equal(buffer_text(&result.err), "{\"time\":\"", 9);
    assert_non_null(strstr(buffer_text(&result.err),
                           "\"level\":\"error\",\"message\":\"Listening on 0.0.0.0 needs a token"));
    assert_non_null(strstr(buffer_text(&result.err), "(see: kvshelf explain KVS-602)\"}\n"));
    program_done(&result);
    result = PROGRAM("serve", "--log-format", "json", "--port", "x");
    assert_int_equal(result.exit_code, 2);
    assert_memory_equal(buffer_text(&result.err), "{\"time\":\"", 9);
    program_done(&result);
    write_file("bad-syntax.json", "{");
    result = PROGRAM("serve", "--log-format", "json", "--config", in_place("bad-syntax.json"));
    assert_int_equal(result.exit_code, 1);
    assert_memory_equal(buffer_text(&result.err), "{\"time\":\"", 9);
    program_done(&result);
}

static void another_address_needs_a_token_or_a_decision(void **state)
{
    (void)state;
    struct serving open = serving_spawn(
        (const char *const[]){"--port", "0", "--host", "0.0.0.0", "--insecure", NULL}, NULL);
    assert_true(serving_wait_for(&open, "listens on http://0.0.0.0:"));
    assert_true(serving_wait_for(&open, "--insecure: whoever reaches"));
    kill(open.pid, SIGTERM);
    assert_int_equal(serving_wait_end(&open), 0);
    serving_done(&open);

    write_file("token", "s3cret-token\n");
    struct serving closed =
        SERVING_START("--token-file", in_place("token"), "--log-level", "debug");
    assert_non_null(strstr(serving_ask(&closed, "GET /health HTTP/1.1", ""), " 200 "));
    assert_non_null(strstr(serving_ask(&closed, "GET /metrics HTTP/1.1", ""), " 401 "));
    assert_non_null(strstr(
        serving_ask(&closed, "GET /metrics HTTP/1.1\r\nAuthorization: Bearer s3cret-token", ""),
        " 200 "));
    kill(closed.pid, SIGTERM);
    assert_int_equal(serving_wait_end(&closed), 0);
    assert_null(strstr(buffer_text(&closed.said), "s3cret"));
    assert_non_null(strstr(buffer_text(&closed.said), "has 12 characters and may be guessed"));
    serving_done(&closed);
}

/* ---- Settings --------------------------------------------------------------------------------*/

static void flags_go_before_the_environment_before_the_file(void **state)
{
    (void)state;
    char file[3 * PATH_BYTES];
    write_file("serve.json",
               "{\"log_format\": \"json\", \"threads\": 3, \"port\": 1, \"lease\": 0.5,"
               " \"max_body\": \"1MiB\", \"insecure\": true}");
    snprintf(file, sizeof(file), "KVSHELF_CONFIG=%s", in_place("serve.json"));
    struct serving running =
        serving_start((const char *const[]){"--port", "0", NULL},
                      (const char *const[]){file, "KVSHELF_THREADS=2", "KVSHELF_PORT=2", NULL});
    const char *said = buffer_text(&running.said);
    assert_non_null(strstr(said, "{\"time\":\""));
    assert_non_null(strstr(said, "\"level\":\"info\",\"message\":\"kvshelf "));
    assert_non_null(strstr(said, "with 2 threads"));
    assert_non_null(strstr(serving_ask(&running, "GET /health HTTP/1.1", ""), " 200 "));
    kill(running.pid, SIGTERM);
    assert_int_equal(serving_wait_end(&running), 0);
    serving_done(&running);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_stops_it_and_nothing_is_forgotten),
        cmocka_unit_test(what_was_answered_outlives_a_kill),
        cmocka_unit_test(what_is_refused_or_dropped_is_logged),
        cmocka_unit_test(a_client_without_the_token_is_logged),
        cmocka_unit_test(a_second_signal_ends_it_at_once),
        cmocka_unit_test(the_service_manager_is_told),
        cmocka_unit_test(wrong_starts_are_one_sentence),
        cmocka_unit_test(a_wrong_variable_is_named),
        cmocka_unit_test(a_variable_that_is_nearly_one_of_its_own_is_named),
        cmocka_unit_test(variables_that_mean_something_else_are_named),
        cmocka_unit_test(the_port_of_a_kubernetes_service_is_not_a_setting),
        cmocka_unit_test(a_failed_start_is_said_in_the_format_asked_for),
        cmocka_unit_test(another_address_needs_a_token_or_a_decision),
        cmocka_unit_test(flags_go_before_the_environment_before_the_file),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
