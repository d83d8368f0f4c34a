/* What doctor looks at, in the order in which an engine would meet it. */
#include "base/status.h"
#include "base/text.h"
#include "cli/doctor.h"
#include "cli/namespace_find.h"
#include "store/config.h"
#include "store/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { INDEX_BYTES_PER_PAGE = 90, FEW_PAGES = 1000 };

struct examination {
    struct doctor_report *report;
    const struct doctor_request *request;
    struct store_config config;
    uint64_t num_pages; /* 0: not known */
};

/* ---- Lines ---------------------------------------------------------------------------------- */

void doctor_report_done(struct doctor_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        free(report->lines[i].message);
        free(report->lines[i].remedy);
    }
    free(report->lines);
    *report = (struct doctor_report){0};
}

static void add_line(struct doctor_report *report, enum doctor_level level, const char *check,
                     const char *message, const char *remedy)
{
    struct doctor_line *lines =
        realloc(report->lines, (report->count + 1) * sizeof(*report->lines));
    struct doctor_line line = {.level = level, .check = check, .message = strdup(message)};
    if (remedy != NULL)
        line.remedy = strdup(remedy);
    if (lines != NULL)
        report->lines = lines;
    if (lines == NULL || line.message == NULL || (remedy != NULL && line.remedy == NULL)) {
        free(line.message);
        free(line.remedy);
        report->failed = true;
        return;
    }
    text_one_line(line.message);
    report->lines[report->count++] = line;
    report->warnings += level == DOCTOR_WARNING;
    report->errors += level == DOCTOR_ERROR;
}

void doctor_say(struct doctor_report *report, enum doctor_level level, const char *check,
                const char *remedy, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    add_line(report, level, check, message, remedy);
}
#define say(e, level, check, remedy, ...) doctor_say((e)->report, level, check, remedy, __VA_ARGS__)

void doctor_say_error(struct doctor_report *report, const char *check,
                      const struct kvs_error *error)
{
    const struct error_info *info = error_find(error->status);
    const char *remedy =
        info != NULL && info->remedies[0] != NULL ? info->remedies[0] : "See kvshelf explain.";
    add_line(report, DOCTOR_ERROR, check, error->message, remedy);
}

void doctor_say_refused(struct doctor_report *report, const char *check,
                        const struct kvs_store_options *options, const struct kvs_error *error)
{
    if (error->status != KVS_ERR_GEOMETRY_DIFFERS && error->status != KVS_ERR_FINGERPRINT_DIFFERS) {
        doctor_say_error(report, check, error);
        return;
    }
    struct buffer ns = {0}, remedy = {0};
    uint32_t rank = namespace_meant(options, &ns);
    const char *url = options->metadata_server_url, *token = options->metadata_token_file;
    char *shown = url == NULL ? NULL : config_shown_url(url);
    buffer_append_format(&remedy,
                         "Was a size or the model mistyped? If its pages are not needed: kvshelf "
                         "namespaces drop %s %" PRIu32 " '%s'%s%s. Else give this deployment "
                         "another %s.",
                         shown != NULL ? shown : options->metadata_dir, rank, buffer_text(&ns),
                         shown != NULL && token != NULL ? " --token-file " : "",
                         shown != NULL && token != NULL ? token : "",
                         url != NULL ? "server" : "metadata_dir");
    add_line(report, DOCTOR_ERROR, check, error->message, buffer_text(&remedy));
    report->failed = report->failed || remedy.failed || (url != NULL && shown == NULL);
    free(shown);
    buffer_done(&ns);
    buffer_done(&remedy);
}

static void say_error(struct examination *e, const char *check, const struct kvs_error *error)
{
    doctor_say_error(e->report, check, error);
}

/* ---- The configuration ---------------------------------------------------------------------- */

static void take_warning(void *arg, enum kvs_log_level level, const char *line)
{
    struct examination *e = arg;
    if (level >= KVS_LOG_WARNING)
        say(e, DOCTOR_WARNING, "keys", "Correct the key, or remove it.", "%s", line);
}

static void take_fault(void *arg, const struct kvs_error *fault)
{
    say_error(arg, "keys", fault);
}

static const char *examine_variable(struct examination *e)
{
    const char *path = getenv(CONFIG_PATH_VARIABLE), *wrong = getenv(CONFIG_WRONG_VARIABLE);
    bool set = path != NULL && path[0] != '\0';
    if (!set && wrong != NULL && wrong[0] != '\0')
        say(e, DOCTOR_WARNING, "variable",
            "export " CONFIG_PATH_VARIABLE "=\"$" CONFIG_WRONG_VARIABLE "\"",
            CONFIG_WRONG_VARIABLE
            " is set to %s, but an engine reads only the file that " CONFIG_PATH_VARIABLE
            " names, and that is not set.",
            wrong);
    if (e->request->config_path != NULL) {
        if (!set || strcmp(path, e->request->config_path) != 0)
            say(e, DOCTOR_WARNING, "variable",
                "Export " CONFIG_PATH_VARIABLE " where the engine starts.",
                "%s was given with --config; an engine reads what " CONFIG_PATH_VARIABLE
                " names, which is %s.",
                e->request->config_path[0] == '\0' ? "(empty)" : e->request->config_path,
                set ? path : "not set");
        return e->request->config_path;
    }
    if (!set) {
        say(e, DOCTOR_OK, "variable", NULL,
            CONFIG_PATH_VARIABLE
            " is not set: the defaults are used (/data/hicache, 1 TiB, numjobs "
            "16, entries 8, index in memory).");
        return NULL;
    }
    say(e, DOCTOR_OK, "variable", NULL, CONFIG_PATH_VARIABLE " names %s.", path);
    return path;
}

/* False when there is no configuration to go on with. */
static bool examine_file(struct examination *e, const char *path)
{
    struct kvs_error error = {0};
    if (path == NULL)
        return true;
    enum kvs_status status = config_read_file_all(&e->config, path, take_fault, e, &error);
    if (status == KVS_OK) {
        say(e, DOCTOR_OK, "file", NULL,
            "%s is readable, and holds every required key with a value of its type.", path);
        return true;
    }
    if (status == KVS_ERR_CONFIG_LOAD || status == KVS_ERR_NO_MEMORY)
        say_error(e, "file", &error);
    return false;
}

static void examine_keys(struct examination *e)
{
    const struct kvs_store_options *options = &e->config.options;
    struct kvs_error error = {0};
    size_t errors = e->report->errors;
    for (size_t i = 0; i < config_key_count(); i++)
        if (config_check_key(options, i, &error) != KVS_OK)
            say_error(e, "keys", &error);
    if (config_check_together(options, &error) != KVS_OK)
        say_error(e, "keys", &error);
    if (e->report->errors == errors)
        say(e, DOCTOR_OK, "keys", NULL,
            "%" PRIu32 " I/O thread%s with %" PRIu32 " I/O%s each, a call "
            "ends after %g s where it can.",
            options->numjobs, options->numjobs == 1 ? "" : "s", options->entries,
            options->entries == 1 ? "" : "s", options->client_timeout);
    if (config_check_ranks(options, &error) != KVS_OK)
        say_error(e, "ranks", &error);
    else
        say(e, DOCTOR_OK, "ranks", NULL,
            "tensor-parallel rank %" PRIu32 " of %" PRIu32 ", pipeline rank %" PRIu32 " of %" PRIu32
            ", context rank %" PRIu32 " of %" PRIu32 ", data rank %" PRIu32 " of %" PRIu32 ".",
            options->tp_rank, options->tp_size, options->pp_rank, options->pp_size,
            options->cp_rank, options->cp_size, options->dp_rank, options->dp_size);
}

/* ---- Places --------------------------------------------------------------------------------- */

/* Cuts `path` down to the nearest part that exists. False when not even "/" can be looked at. */
static bool nearest_existing(char *path, struct stat *ret_about)
{
    for (;;) {
        if (stat(path, ret_about) == 0)
            return true;
        if (errno != ENOENT && errno != ENOTDIR)
            return false;
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            snprintf(path, 2, ".");
        else if (slash == path)
            path[1] = '\0';
        else
            *slash = '\0';
    }
}

static void parent_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(path, 2, ".");
    else
        slash[slash == path] = '\0';
}

/* `place` is the part of `asked` that is there. When that is "/" alone, the path begins with what
 * would be a new directory beside /usr: rarely meant, and most often a disk that is not mounted. */
static void say_usable(struct examination *e, const char *check, const char *place,
                       const char *asked)
{
    if (strcmp(place, asked) == 0)
        say(e, DOCTOR_OK, check, NULL, "%s can be written to.", asked);
    else if (strcmp(place, "/") == 0)
        say(e, DOCTOR_WARNING, check, "If a disk belongs there, mount it first.",
            "%s will be created on the root file system, as there is no %.*s: a mount may be "
            "missing.",
            asked, (int)(1 + strcspn(asked + 1, "/")), asked);
    else
        say(e, DOCTOR_OK, check, NULL, "%s will be created.", asked);
}

/* Whether a directory can be used, or made: `place` becomes the part of it that exists. */
static bool examine_directory(struct examination *e, const char *check, char *place)
{
    char *asked = strdup(place);
    struct stat about;
    bool good = false;
    if (asked == NULL) {
        e->report->failed = true;
    } else if (!nearest_existing(place, &about)) {
        say(e, DOCTOR_ERROR, check, "Give this user the right to enter the directories above it.",
            "%s cannot be looked at: %s.", place, strerror(errno));
    } else if (!S_ISDIR(about.st_mode)) {
        say(e, DOCTOR_ERROR, check, "Choose another path.", "%s is not a directory.", place);
    } else if (faccessat(AT_FDCWD, place, W_OK | X_OK, AT_EACCESS) != 0) {
        say(e, DOCTOR_ERROR, check,
            "Give it to the user that runs the engine (chown, chmod), or mount it writable.",
            "Nothing can be created in %s: %s.", place, strerror(errno));
    } else {
        good = true;
        say_usable(e, check, place, asked);
    }
    free(asked);
    return good;
}

static void examine_existing_file(struct examination *e, const char *path)
{
    struct stat about;
    uint64_t file_size = e->config.options.file_size;
    if (stat(path, &about) != 0) {
        if (errno != ENOENT)
            return; /* said of the directory already */
        say(e, DOCTOR_OK, "page file", NULL, "%s will be created with %s.", path, BYTES(file_size));
    } else if (!S_ISREG(about.st_mode)) {
        say(e, DOCTOR_ERROR, "page file", "Choose another file_path_prefix.",
            "%s is not a regular file.", path);
    } else if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) != 0) {
        say(e, DOCTOR_ERROR, "page file", "Give it to the user that runs the engine.",
            "%s cannot be read and written: %s.", path, strerror(errno));
    } else if ((uint64_t)about.st_size > file_size) {
        say(e, DOCTOR_WARNING, "page file",
            "Raise file_size, or remove the file while no engine uses it.",
            "%s has %s, more than file_size (%s): files only grow, so the rest is unused.", path,
            BYTES(about.st_size), BYTES(file_size));
    } else {
        say(e, DOCTOR_OK, "page file", NULL, "%s is there with %s of %s.", path,
            BYTES(about.st_size), BYTES(file_size));
    }
}

static void examine_space(struct examination *e, const char *path, const char *place)
{
    uint64_t file_size = e->config.options.file_size;
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        file_size > limit.rlim_cur)
        say(e, DOCTOR_ERROR, "space", "Raise the limit (ulimit -f unlimited) or lower file_size.",
            "A process of this user may write files of at most %s, file_size is %s.",
            BYTES(limit.rlim_cur), BYTES(file_size));
    struct statvfs space;
    if (statvfs(place, &space) != 0) {
        say(e, DOCTOR_WARNING, "space", "Check it by hand: df -h.",
            "The free space of %s cannot be asked for: %s.", place, strerror(errno));
        return;
    }
    struct stat about;
    uint64_t held = stat(path, &about) == 0 ? (uint64_t)about.st_blocks * 512 : 0;
    uint64_t free_bytes = (uint64_t)space.f_bavail * space.f_frsize, usable = free_bytes + held;
    uint64_t page = e->request->options.bytes_per_page;
    if (held < file_size && free_bytes < (page > 0 ? page : 1))
        say(e, DOCTOR_ERROR, "space", "Make room, or choose another file_path_prefix.",
            "%s is full: beside the %s that the page file has already there is no room for a "
            "single "
            "page, of a file_size of %s.",
            place, BYTES(held), BYTES(file_size));
    else if (usable < file_size)
        say(e, DOCTOR_WARNING, "space", "Lower file_size, or make room.",
            "%s has %s free and the page file has %s already, file_size is %s: pages beyond that "
            "will not be stored.",
            place, BYTES(free_bytes), BYTES(held), BYTES(file_size));
    else
        say(e, DOCTOR_OK, "space", NULL,
            "%s has %s free and the page file has %s already, file_size is %s.", place,
            BYTES(free_bytes), BYTES(held), BYTES(file_size));
    uint64_t ranks = e->request->options.is_mla_model ? 1 : e->config.options.tp_size;
    if (usable >= file_size && ranks > 1 && usable / ranks < file_size)
        say(e, DOCTOR_WARNING, "space", "Lower file_size, or give ranks paths on other disks.",
            "Each of the %" PRIu64 " ranks has a file of its own: together they may need %s here.",
            ranks, BYTES(file_size * ranks));
}

static void examine_pages_place(struct examination *e)
{
    const struct kvs_store_options *options = &e->config.options;
    struct buffer path = {0};
    uint32_t rank = identity_rank(options, identity_replicated(options, true, false));
    identity_path(options, rank, NULL, &path);
    char *place = strdup(buffer_text(&path));
    if (place == NULL || path.failed) {
        e->report->failed = true;
    } else {
        parent_of(place);
        if (examine_directory(e, "path", place)) {
            const struct doctor_place io = {&e->config.options, buffer_text(&path), place,
                                            e->request->options.bytes_per_page};
            examine_existing_file(e, buffer_text(&path));
            doctor_examine_io(&io, e->report);
            examine_space(e, buffer_text(&path), place);
        }
    }
    free(place);
    buffer_done(&path);
}

/* ---- The index ------------------------------------------------------------------------------ */

static void examine_metadata_dir(struct examination *e)
{
    const char *dir = e->config.options.metadata_dir;
    if (dir == NULL) {
        say(e, DOCTOR_OK, "index", NULL,
            "The index is in memory: after a restart of the engine the pages are forgotten. Set "
            "metadata_dir to keep it.");
        return;
    }
    char *place = strdup(dir);
    if (place == NULL) {
        e->report->failed = true;
        return;
    }
    if (examine_directory(e, "index", place))
        doctor_examine_index(&e->config.options, place, e->num_pages, e->report);
    free(place);
}

static void examine_metadata(struct examination *e)
{
    struct kvs_error error = {0};
    if (config_check_metadata(&e->config.options, &error) != KVS_OK)
        say_error(e, "metadata", &error);
    else if (e->config.options.metadata_server_url != NULL)
        doctor_examine_server(&e->config.options, e->num_pages, e->report);
    else
        say(e, DOCTOR_OK, "metadata", NULL, "Local: this rank's pages are its own.");
}

/* ---- Pages ---------------------------------------------------------------------------------- */

static void examine_pages(struct examination *e)
{
    uint64_t bytes = e->request->options.bytes_per_page, file_size = e->config.options.file_size;
    struct kvs_error error = {0};
    if (bytes == 0) {
        say(e, DOCTOR_OK, "pages", NULL,
            "Not reckoned, and not compared with the index: give --bytes-per-page N (of SGLang's "
            "own "
            "class: file_size / num_pages, which the engine logs at start).");
        return;
    }
    if (config_check_geometry("kv", bytes, file_size, &e->num_pages, &error) != KVS_OK) {
        e->num_pages = 0;
        say_error(e, "pages", &error);
        return;
    }
    uint64_t tail = file_size % bytes;
    say(e, DOCTOR_OK, "pages", NULL,
        "%s page%s of %s (%s / %s), %s at the end unused, about %s of memory for the index.",
        COUNT(e->num_pages), e->num_pages == 1 ? "" : "s", BYTES(bytes), BYTES(file_size),
        BYTES(bytes), BYTES(tail), BYTES(e->num_pages * INDEX_BYTES_PER_PAGE));
    if (e->num_pages < FEW_PAGES)
        say(e, DOCTOR_WARNING, "pages", "Raise file_size: it is in bytes, 1 TiB is 1099511627776.",
            "The file holds few pages (%s): one long request needs hundreds.", COUNT(e->num_pages));
    if (bytes % 4096 != 0)
        say(e, DOCTOR_OK, "pages", NULL,
            "%" PRIu64 " bytes are no multiple of 4096: direct I/O (O_DIRECT) is not used.", bytes);
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
    uint64_t memory = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
    if (e->num_pages * INDEX_BYTES_PER_PAGE > memory / 4)
        say(e, DOCTOR_WARNING, "pages", "Lower file_size, or use larger pages.",
            "The index would take %s of this machine's %s.",
            BYTES(e->num_pages * INDEX_BYTES_PER_PAGE), BYTES(memory));
}

/* ---- All ------------------------------------------------------------------------------------ */

static enum kvs_status start_with_defaults(struct examination *e)
{
    struct kvs_store_options options = e->request->options;
    options.log = take_warning;
    options.log_arg = e;
    return config_copy(&e->config, &options, NULL);
}

void doctor_examine(const struct doctor_request *request, struct doctor_report *report)
{
    struct examination e = {.report = report, .request = request};
    if (start_with_defaults(&e) != KVS_OK) {
        report->failed = true;
        return;
    }
    if (examine_file(&e, examine_variable(&e))) {
        examine_keys(&e);
        examine_pages(&e);
        examine_metadata(&e);
        if (e.config.options.file_path_prefix[0] != '\0')
            examine_pages_place(&e);
        if (e.config.options.metadata_server_url == NULL)
            examine_metadata_dir(&e);
    }
    config_done(&e.config);
}
