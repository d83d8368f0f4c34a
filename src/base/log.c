/* Lines of the library on their way to the callback. */
#include "base/log.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE_MAX_BYTES = 2048 };

void log_line(const struct logger *logger, enum kvs_log_level level, const char *format, ...)
{
    if (logger == NULL || logger->fn == NULL)
        return;
    char line[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (length < 0)
        return;
    text_one_line(line); /* names from outside are in it: they must not make lines of their own */
    logger->fn(logger->arg, level, line);
}
