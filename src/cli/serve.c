/* kvshelf serve: the metadata server as a process. Settings, log lines, signals and the order of
 * starting and stopping; what it answers is in server/. */
#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "base/token.h"
#include "cli/commands.h"
#include "cli/serve_settings.h"
#include "server/server.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    STOP_GRACE_MS = 700, /* for requests in flight: the images must be written within 2 s as well */
    IDLE_MS = 60000,
    HEAD_MS = 10000,
    SPARE_FILES = 64,   /* descriptors for anything but connections */
    BYTES_A_PAGE = 100, /* of the index, for the limit on all pages together */
};

/* ---- Log -------------------------------------------------------------------------------------*/

/* One line on stderr, written at once so that threads do not mix theirs. */
static void log_sink(void *arg, enum kvs_log_level level, const char *line)
{
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    const struct serve_settings *settings = arg;
    if (level < settings->log_level)
        return;
    struct timespec now;
    struct tm parts;
    char time_text[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t length = strftime(time_text, sizeof(time_text), "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(time_text + length, sizeof(time_text) - length, ".%03ldZ", now.tv_nsec / 1000000);
    struct buffer out = {0};
    if (settings->log_format == SERVE_LOG_JSON) {
        struct json_writer json = {.out = &out};
        json_write_object_begin(&json);
        json_member_text(&json, "time", time_text);
        json_member_text(&json, "level", levels[level]);
        json_member_text(&json, "message", line);
        json_write_object_end(&json);
    } else {
        buffer_append_format(&out, "%s %s: %s", time_text, levels[level], line);
    }
    buffer_append_char(&out, '\n');
    if (write(STDERR_FILENO, out.data, out.length) < 0)
        errno = 0; /* nobody is left to be told */
    buffer_done(&out);
}

/* ---- The service manager ---------------------------------------------------------------------*/

/* sd_notify's datagram, where a service manager asks for it. */
static void notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || (path[0] != '/' && path[0] != '@') ||
        strlen(path) >= sizeof(address.sun_path))
        return;
    size_t length = strlen(path);
    memcpy(address.sun_path, path, length);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    close(fd);
}

/* ---- Signals ---------------------------------------------------------------------------------*/

/* Before any thread starts: all of them inherit it, and only wait_for_signal() gets the two. */
static void block_signals(sigset_t *ret_set)
{
    sigemptyset(ret_set);
    sigaddset(ret_set, SIGTERM);
    sigaddset(ret_set, SIGINT);
    pthread_sigmask(SIG_BLOCK, ret_set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void end_at_once(int number)
{
    _exit(128 + number);
}

static int wait_for_signal(const sigset_t *set)
{
    int number;
    while (sigwait(set, &number) != 0)
        continue;
    /* A second one ends the process wherever it is. */
    struct sigaction action = {.sa_handler = end_at_once};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    pthread_sigmask(SIG_UNBLOCK, set, NULL);
    return number;
}

/* ---- Limits ----------------------------------------------------------------------------------*/

/* Connections need descriptors: as many as the hard limit allows. */
static void fit_open_files(struct serve_settings *settings, const struct logger *log)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    rlim_t wanted = settings->connections + SPARE_FILES;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= wanted)
        return;
    settings->connections =
        limit.rlim_cur > 2 * SPARE_FILES ? limit.rlim_cur - SPARE_FILES : limit.rlim_cur / 2;
    log_line(log, KVS_LOG_WARNING,
             "At most %s connection%s at once, because this process may open %s files; "
             "raise ulimit -n or LimitNOFILE=",
             text_count(settings->connections).text,
             settings->connections == 1 ? " is served" : "s are served",
             text_count(limit.rlim_cur).text);
}

/* As many pages as half of this machine's memory can index. */
static uint64_t pages_of_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || bytes <= 0)
        return REGISTRY_TOTAL_PAGES_MAX;
    uint64_t fit = (uint64_t)pages * (uint64_t)bytes / 2 / BYTES_A_PAGE;
    return fit < REGISTRY_TOTAL_PAGES_MAX ? fit : REGISTRY_TOTAL_PAGES_MAX;
}

/* ---- Start and stop --------------------------------------------------------------------------*/

static enum kvs_status check_access(const struct serve_settings *settings, const struct logger *log,
                                    struct auth *ret_auth, struct kvs_error *error)
{
    if (settings->token_file != NULL) {
        enum kvs_status status = auth_load(settings->token_file, ret_auth, error);
        if (status == KVS_OK)
            token_warn(settings->token_file, ret_auth->length, log);
        return status;
    }
    if (server_host_is_loopback(settings->host))
        return KVS_OK;
    if (!settings->insecure)
        return error_set(error, KVS_ERR_NEEDS_TOKEN, settings->host);
    log_line(
        log, KVS_LOG_WARNING,
        "--insecure: whoever reaches %s port %" PRIu64
        " can read which prompts were seen, and clear the cache; --token-file would prevent it",
        settings->host, settings->port);
    return KVS_OK;
}

static void announce(const struct serve_settings *settings, const struct logger *log, uint16_t port)
{
    bool v6 = strchr(settings->host, ':') != NULL;
    log_line(log, KVS_LOG_INFO, "kvshelf %s listens on http://%s%s%s:%u with %" PRIu64 " thread%s",
             kvs_version(), v6 ? "[" : "", settings->host, v6 ? "]" : "", (unsigned)port,
             settings->threads, settings->threads == 1 ? "" : "s");
    struct kvs_error notice;
    if (settings->data_dir == NULL && error_set(&notice, KVS_ERR_NOT_KEPT) != KVS_OK)
        log_line(log, KVS_LOG_WARNING, "%s", notice.message);
}

static enum kvs_status load(const struct serve_settings *settings, const struct logger *log,
                            struct registry **ret_registry, struct kvs_error *error)
{
    const struct registry_options options = {
        .dir = settings->data_dir,
        .eviction = settings->eviction,
        .reserve_ttl_ms = settings->reserve_ttl_ms,
        .quarantine_ms = settings->quarantine_ms,
        .lease_ms = settings->lease_ms,
        .idle_reset_ms = settings->idle_reset_ms,
        .foreign_writers = true,
        .log = *log,
        .max_total_pages = pages_of_memory(),
    };
    uint64_t start_ns = clock_mono_ns();
    enum kvs_status status = registry_open(&options, ret_registry, error);
    if (status != KVS_OK || settings->data_dir == NULL)
        return status;
    log_line(log, KVS_LOG_INFO, "The catalogs in %s were loaded in %s", settings->data_dir,
             text_duration_ns(clock_mono_ns() - start_ns).text);
    return KVS_OK;
}

/* From the first socket to the last byte of the images. */
static enum kvs_status serve(const struct serve_settings *settings, const struct logger *log,
                             struct service *service, const sigset_t *signals,
                             struct kvs_error *error)
{
    const struct server_options options = {
        .host = settings->host,
        .port = (uint16_t)settings->port,
        .threads = (unsigned)settings->threads,
        .body_max_bytes = settings->max_body_bytes,
        .connections_max = settings->connections,
        .idle_ms = IDLE_MS,
        .head_ms = HEAD_MS,
        .log = *log,
    };
    struct server *server;
    struct registry *registry;
    enum kvs_status status = server_start(&options, service, &server, error);
    if (status != KVS_OK)
        return status;
    status = load(settings, log, &registry, error);
    if (status != KVS_OK) {
        server_stop(server, 0);
        return status;
    }
    server_ready(server, registry);
    announce(settings, log, server_port(server));
    notify("READY=1");
    int number = wait_for_signal(signals);
    notify("STOPPING=1");
    log_line(log, KVS_LOG_INFO, "Stopping: %s", strsignal(number));
    server_stop(server, STOP_GRACE_MS);
    registry_close(registry);
    log_line(log, KVS_LOG_INFO, "Stopped");
    return KVS_OK;
}

/* As cli_fail(), but whoever asked for JSON reads the reason of a failed start as JSON, too. */
static int fail(const struct cli *cli, const struct logger *log, enum serve_log_format format,
                const struct kvs_error *error)
{
    const struct error_info *info = error_find(error->status);
    char code[ERROR_CODE_MAX];
    if (format != SERVE_LOG_JSON || info == NULL)
        return cli_fail(cli, error);
    log_line(log, KVS_LOG_ERROR, "%s (see: kvshelf explain %s)", error->message,
             error_code(info, code));
    return cli_exit_code(error);
}

static int run(const struct cli *cli)
{
    struct serve_settings settings;
    struct service service;
    struct kvs_error error;
    sigset_t signals;
    struct logger log = {log_sink, &settings};
    enum kvs_status status = serve_settings_read(&settings, cli, &error);
    service_init(&service, NULL, clock_boot_ms());
    if (status == KVS_OK) {
        serve_settings_warn(&settings, &log);
        status = check_access(&settings, &log, &service.auth, &error);
    }
    if (status == KVS_OK) {
        block_signals(&signals);
        fit_open_files(&settings, &log);
        status = serve(&settings, &log, &service, &signals, &error);
    }
    service_done(&service);
    serve_settings_done(&settings);
    return status == KVS_OK ? CLI_OK : fail(cli, &log, settings.log_format, &error);
}

/* Of mini_3fs_metadata_server, and what is nearly an option. */
static const struct cli_hint hints[] = {
    {"token",
     "--token-file FILE names a file with the token, which is then in no list of processes "
     "and no environment"},
    {"persistence-path", "--data-dir DIR keeps the catalogs here (a directory; what a file of the "
                         "other server holds is "
                         "not taken over)"},
    {"save-interval", "--data-dir DIR keeps the catalogs here, every change as it is made"},
    {0},
};

const struct cli_command cli_serve = {
    .name = "serve",
    .arguments = "",
    .summary = "the metadata server that SGLang's HF3FS backend talks to",
    .about =
        "Answers the HTTP protocol of SGLang's mini_3fs_metadata_server, so that engines need no "
        "change but the program behind metadata_server_url (and a restart). It holds the index "
        "(which key is on "
        "which page of the shared file), never the pages themselves.\n"
        "\n"
        "SIGTERM and SIGINT stop it: requests in flight end, the images of the catalogs are "
        "written, "
        "and it exits with 0 within 2 s. A second signal ends it at once; what was confirmed is "
        "still there after the next start with --data-dir.\n"
        "\n"
        "For people and tools: GET / is a page of figures, /api/status the same as JSON, /metrics "
        "for "
        "Prometheus, /health and /ready for orchestrators.",
    .examples = "kvshelf serve --data-dir /var/lib/kvshelf\n"
                "kvshelf serve --host 0.0.0.0 --token-file /etc/kvshelf/token\n"
                "curl http://127.0.0.1:18000/api/status",
    .exit_codes = "0  stopped by a signal, everything was written\n"
                  "1  it could not start: port in use, unusable directory, no token\n"
                  "2  wrong arguments, or a wrong value or key in the environment or the file\n"
                  "130, 143  ended at once by a second signal",
    .options = serve_options,
    .hints = hints,
    .run = run,
};
