/* JSON as RFC 8259 has it, for the wire, configuration files and imports: a pull reader over the
 * caller's bytes and a writer into a buffer. No document tree is built.
 *
 * Reader. The caller asks for what it expects, in order:
 *
 *     json_reader_init(&r, bytes, length, &scratch, JSON_DEPTH);
 *     if (json_object_begin(&r))
 *         while (json_object_next(&r, &name))
 *             if (json_text_is(name, "keys") && json_array_begin(&r))
 *                 while (json_array_next(&r))
 *                     json_string(&r, &key);
 *             else
 *                 json_skip(&r);
 *     json_end(&r);
 *     if (json_failed(&r)) ...
 *
 * The first fault is kept (what, and at which byte) and makes every later call return false and
 * every loop end, so that it is checked once. Strict: UTF-8 without surrogates, no byte order mark,
 * no control characters in strings, no lone surrogates in escapes, numbers that a double cannot
 * hold are faults. Duplicate members are all given to the caller, in order. A reader may be copied
 * to come back to a place. It reads no byte outside the range it was given.
 *
 * Strings are views: into the input, or, when they hold escapes, into `scratch`, where they stay
 * valid until the scratch buffer is cleared or done. They are not NUL-terminated and may hold NUL.
 */
#ifndef KVSHELF_BASE_JSON_H
#define KVSHELF_BASE_JSON_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    JSON_DEPTH = 128,         /* the usual limit of nesting */
    JSON_DEPTH_LIMIT = 1024,  /* the highest limit a reader takes */
    JSON_NUMBER_MAX = 1024,   /* longest number accepted, characters */
    JSON_ERROR_TEXT_MAX = 160 /* what json_error_text() needs, bytes */
};

struct json_text {
    const char *text;
    size_t length; /* bytes */
};

enum json_type {
    JSON_INVALID, /* the end of the input, or no value starts here */
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

struct json_reader {
    const char *start, *at, *end;
    struct buffer *scratch;
    const char *fault; /* NULL: none. Static storage */
    size_t fault_at;   /* bytes from the start */
    uint32_t depth, depth_max;
    bool first; /* no comma is due before the next member or element */
};

/* `scratch` may be NULL only if no string or name with an escape is asked for (it is a fault then).
 * Views already in it stay valid: at the first escape it gets room for all that can follow. */
void json_reader_init(struct json_reader *reader, const char *bytes, size_t length,
                      struct buffer *scratch, uint32_t depth_max);

/* The type of the value that is next; JSON_INVALID is not yet a fault. */
enum json_type json_peek(struct json_reader *reader);

bool json_object_begin(struct json_reader *reader);
/* Moves to the next member; false at the end of the object (which is consumed) and on a fault. The
 * caller then takes or skips the value. */
bool json_object_next(struct json_reader *reader, struct json_text *ret_name);
bool json_array_begin(struct json_reader *reader);
bool json_array_next(struct json_reader *reader);

bool json_string(struct json_reader *reader, struct json_text *ret_text);
/* Integers are exact: a fraction, an exponent or a number out of range is a fault. */
bool json_int64(struct json_reader *reader, int64_t *ret_value);
bool json_uint64(struct json_reader *reader, uint64_t *ret_value);
bool json_double(struct json_reader *reader, double *ret_value);
bool json_bool(struct json_reader *reader, bool *ret_value);
bool json_null(struct json_reader *reader);

/* Any value, checked as strictly as if it were read. */
bool json_skip(struct json_reader *reader);
/* As json_skip(), and gives the value's bytes, a view into the input. */
bool json_raw(struct json_reader *reader, struct json_text *ret_bytes);

/* Only white space may follow. */
bool json_end(struct json_reader *reader);

/* Records a fault of the caller's at the reader's place (the first one stays); returns false. */
bool json_fail(struct json_reader *reader, const char *fault);

static inline bool json_failed(const struct json_reader *reader)
{
    return reader->fault != NULL;
}

/* Where the fault is, both counted from 1; the column in bytes. */
void json_fault_place(const struct json_reader *reader, size_t *ret_line, size_t *ret_column);
/* "unexpected character at line 3, column 7 (byte 42)"; returns `text`. */
const char *json_error_text(const struct json_reader *reader, char text[JSON_ERROR_TEXT_MAX]);

static inline bool json_text_is(struct json_text text, const char *expected)
{
    return text.length == strlen(expected) && memcmp(text.text, expected, text.length) == 0;
}

/* Writer: compact output. `struct json_writer w = {.out = &buffer};` Lack of memory shows in
 * `out->failed`. The caller nests begin and end rightly. */
struct json_writer {
    struct buffer *out;
    bool comma; /* one is due before the next value or name */
};

void json_write_object_begin(struct json_writer *writer);
void json_write_object_end(struct json_writer *writer);
void json_write_array_begin(struct json_writer *writer);
void json_write_array_end(struct json_writer *writer);
void json_write_name(struct json_writer *writer, const char *name);
/* Escapes what must be; bytes that are not UTF-8 become U+FFFD. */
void json_write_string(struct json_writer *writer, const char *text, size_t length);
void json_write_text(struct json_writer *writer, const char *text);
void json_write_int64(struct json_writer *writer, int64_t value);
void json_write_uint64(struct json_writer *writer, uint64_t value);
/* The shortest text that reads back as the same double, whatever the locale; null when the value is
 * not finite, JSON having no such numbers. */
void json_write_double(struct json_writer *writer, double value);
void json_write_bool(struct json_writer *writer, bool value);
void json_write_null(struct json_writer *writer);
/* A value that is JSON already, copied as it is. */
void json_write_raw(struct json_writer *writer, const char *json, size_t length);

/* A name and its value. */
void json_member_uint64(struct json_writer *writer, const char *name, uint64_t value);
void json_member_double(struct json_writer *writer, const char *name, double value);
void json_member_bool(struct json_writer *writer, const char *name, bool value);
void json_member_text(struct json_writer *writer, const char *name, const char *text); /* or null */

#endif
