/* `kvshelf doctor`: what is found, line by line. The examination changes nothing: it creates no
 * file and no directory and takes no lock. */
#ifndef KVSHELF_CLI_DOCTOR_H
#define KVSHELF_CLI_DOCTOR_H

#include "kvshelf/kvshelf.h"

enum doctor_level { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_ERROR };

struct doctor_line {
    enum doctor_level level;
    const char *check; /* what was looked at: "variable", "file", "space"; static storage */
    char *message;     /* what was found */
    char *remedy;      /* what to do; NULL with DOCTOR_OK */
};

struct doctor_report {
    struct doctor_line *lines;
    size_t count, warnings, errors;
    bool failed; /* memory ran out: lines are missing */
};
void doctor_report_done(struct doctor_report *report);

struct doctor_request {
    const char *config_path; /* NULL: what the variable names */
    /* What an engine states itself, before the file is read; bytes_per_page 0: not told. */
    struct kvs_store_options options;
};
void doctor_examine(const struct doctor_request *request, struct doctor_report *report);

/* ---- For the parts of the examination */

void doctor_say(struct doctor_report *report, enum doctor_level level, const char *check,
                const char *remedy, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* An error of the catalogue, with its first remedy. */
void doctor_say_error(struct doctor_report *report, const char *check,
                      const struct kvs_error *error);

/* What keeps this configuration out of a namespace: another geometry or identity, with the command
 * that drops it. Other errors as doctor_say_error() does. */
void doctor_say_refused(struct doctor_report *report, const char *check,
                        const struct kvs_store_options *options, const struct kvs_error *error);

/* doctor_io.c: where pages are read and written. Makes nothing that has a name. */
struct doctor_place {
    const struct kvs_store_options *options;
    const char *path;        /* of the page file, there or not */
    const char *dir;         /* the nearest directory above it that is there */
    uint64_t bytes_per_page; /* 0: not told */
};
void doctor_examine_io(const struct doctor_place *place, struct doctor_report *report);

/* doctor_index.c: where metadata_dir keeps the index. `dir` is the nearest directory that is there;
 * `num_pages` 0: not known. */
void doctor_examine_index(const struct kvs_store_options *options, const char *dir,
                          uint64_t num_pages, struct doctor_report *report);

/* doctor_server.c: the server of metadata_server_url. `num_pages` 0: not known. */
void doctor_examine_server(const struct kvs_store_options *options, uint64_t num_pages,
                           struct doctor_report *report);

#endif
