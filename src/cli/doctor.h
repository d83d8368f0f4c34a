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
    bool mla;
    uint32_t tp_rank, tp_size, pp_rank, pp_size;
    uint64_t bytes_per_page; /* 0: not told */
};
void doctor_examine(const struct doctor_request *request, struct doctor_report *report);

#endif
