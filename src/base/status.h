/* Errors of the catalogue: one table made from errors.def, and how a failure is put into words.
 *
 * A message template holds placeholders in braces. error_set() fills them in order, all arguments
 * being strings; the number of arguments must be the number of placeholders. */
#ifndef KVSHELF_BASE_STATUS_H
#define KVSHELF_BASE_STATUS_H

#include "base/buffer.h"
#include "kvshelf/kvshelf.h"

enum error_severity { SEVERITY_WARNING, SEVERITY_ERROR, SEVERITY_FATAL };

struct error_info {
    enum kvs_status status;
    const char *symbol;      /* "KVS_ERR_CONFIG_LOAD" */
    int number;              /* 201; shown as "KVS-201" */
    int http_status;         /* what the server answers with; 500 where it never does */
    const char *error_class; /* Python exception class */
    enum error_severity severity;
    bool retry_helps;
    const char *message; /* template */
    const char *meaning;
    const char *when;              /* when it happens */
    const char *situations;        /* common situations */
    const char *const *remedies;   /* NULL-terminated */
    const char *example_fix;       /* a command or a config snippet */
    const char *const *prevention; /* NULL-terminated */
    const char *const *tags;       /* NULL-terminated */
};

/* The whole catalogue in the order of errors.def. Static storage. */
const struct error_info *error_catalogue(size_t *ret_count);

/* NULL when the status is not in the catalogue. */
const struct error_info *error_find(enum kvs_status status);

/* The entry that a text is about: a code ("KVS-201", "201"), a symbol, an id, or a text that holds
 * one whole message or phrase (phrases.h) with anything around it (of several the one with the
 * longest fixed part), or else the one message template that holds the text. NULL when there is
 * none. */
const struct error_info *error_match(const char *text);

/* The entry whose whole message a text holds, and nothing else that error_match() goes by: for what
 * a program decides. */
const struct error_info *error_match_message(const char *text);

/* "KVS-201"; and the id, "config-load". Both return `text`. */
enum { ERROR_CODE_MAX = 16, ERROR_ID_MAX = 64 };
const char *error_code(const struct error_info *info, char text[ERROR_CODE_MAX]);
const char *error_id(const struct error_info *info, char text[ERROR_ID_MAX]);

/* The group an entry belongs to, by the hundreds of its number: "configuration". */
const char *error_type(const struct error_info *info);

/* Appends the regular expression that the entry's messages match (ECMAScript, PCRE and POSIX
 * extended read it alike); not anchored. */
void error_pattern(const struct error_info *info, struct buffer *out);

/* How many arguments the entry's message takes. */
size_t error_placeholders(const struct error_info *info);

/* Puts the failure into `error` (NULL: only the status matters) and returns the status, so that
 * `return error_set(error, KVS_ERR_X, a, b);` is the one way to fail with words. */
#define error_set(error, status, ...)                                                              \
    error_set_args(error, status, (const char *const[]){"", ##__VA_ARGS__, NULL} + 1)
enum kvs_status error_set_args(struct kvs_error *error, enum kvs_status status,
                               const char *const args[]);

/* A short-lived text for a number as an argument of error_set(): `error_set(e, S, NUM(n))`. */
struct number_text {
    char text[32];
};
struct number_text number_text_of(long long value);
#define NUM(value) (number_text_of((long long)(value)).text)

#endif
