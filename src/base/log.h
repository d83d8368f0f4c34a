/* Where lines of the library go: the callback of the options, or nowhere. */
#ifndef KVSHELF_BASE_LOG_H
#define KVSHELF_BASE_LOG_H

#include "kvshelf/kvshelf.h"

struct logger {
    kvs_log_fn fn;
    void *arg;
};

void log_line(const struct logger *logger, enum kvs_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
