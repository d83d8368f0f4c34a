/* What the parts of the JSON reader share; for json_*.c only. */
#ifndef KVSHELF_BASE_JSON_INTERNAL_H
#define KVSHELF_BASE_JSON_INTERNAL_H

#include "base/json.h"

static inline bool json_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Record the first fault, at `at`; return false. */
bool json_fault_at(struct json_reader *reader, const char *at, const char *fault);
/* The same at the reader's place, where the input may just have ended. */
bool json_expected(struct json_reader *reader, const char *fault);

/* Moves to the next value; false after a fault. */
bool json_value_starts(struct json_reader *reader);

/* At a quote. `ret_text` NULL: checked, not unescaped. */
bool json_scan_string(struct json_reader *reader, struct json_text *ret_text);

/* At a digit or a minus. */
bool json_skip_number(struct json_reader *reader);

#endif
