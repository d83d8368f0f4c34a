/* Fuzzes the JSON reader and writer. Oracle for what is JSON: json-c in its strict mode. What both
 * read is written again, and must read the same. The input ends at the end of an allocation, so
 * that the address sanitizer sees a read beyond it.
 *
 * Where json-c is known to judge differently from RFC 8259 and this project, only its "yes" or only
 * its "no" counts; see known_difference(). */
/* clang-format off */
/* The two libraries share two names. */
#define json_bool json_c_bool
#define json_type json_c_type
#include <json-c/json.h>
#undef json_bool
#undef json_type
/* clang-format on */

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEPTH = 32 };

/* Copies a value from the reader to the writer. */
static void copy_value(struct json_reader *r, struct json_writer *w)
{
    struct json_text text;
    double number;
    int64_t integer;
    bool flag;
    struct json_reader here = *r;
    switch (json_peek(r)) {
    case JSON_OBJECT:
        json_write_object_begin(w);
        for (json_object_begin(r); json_object_next(r, &text);) {
            json_write_string(w, text.text, text.length);
            buffer_append_char(w->out, ':');
            w->comma = false;
            copy_value(r, w);
        }
        json_write_object_end(w);
        break;
    case JSON_ARRAY:
        json_write_array_begin(w);
        for (json_array_begin(r); json_array_next(r);)
            copy_value(r, w);
        json_write_array_end(w);
        break;
    case JSON_STRING:
        if (json_string(r, &text))
            json_write_string(w, text.text, text.length);
        break;
    case JSON_NUMBER:
        if (json_int64(&here, &integer) && integer != 0) { /* "-0" is a double */
            json_write_int64(w, integer);
            json_skip(r);
        } else if (json_double(r, &number)) {
            json_write_double(w, number);
        }
        break;
    case JSON_BOOL:
        if (json_bool(r, &flag))
            json_write_bool(w, flag);
        break;
    case JSON_NULL:
        if (json_null(r))
            json_write_null(w);
        break;
    case JSON_INVALID:
        json_skip(r);
        break;
    }
}

/* Reads and writes; false when the input was refused. */
static bool copy(const char *bytes, size_t length, struct buffer *out)
{
    struct json_reader r;
    struct buffer scratch = {0};
    struct json_writer w = {.out = out};
    json_reader_init(&r, bytes, length, &scratch, DEPTH);
    copy_value(&r, &w);
    json_end(&r);
    if (json_failed(&r) && r.fault_at > length)
        abort();
    buffer_done(&scratch);
    return !json_failed(&r);
}

static struct json_reader skip(const char *bytes, size_t length)
{
    struct json_reader r;
    json_reader_init(&r, bytes, length, NULL, DEPTH);
    json_skip(&r);
    json_end(&r);
    return r;
}

/* The character at `at` by arithmetic, a second way: its length, 0 when it is not UTF-8 (json-c
 * lets surrogates and others pass). */
static size_t character(const unsigned char *at, size_t length)
{
    static const unsigned long LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = at[0] < 0x80       ? 1
               : at[0] >> 5 == 6  ? 2
               : at[0] >> 4 == 14 ? 3
               : at[0] >> 3 == 30 ? 4
                                  : 0;
    if (n == 0 || n > length)
        return 0;
    unsigned long code = n == 1 ? at[0] : at[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if (at[i] >> 6 != 2)
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return n > 1 && (code < LEAST[n] || code > 0x10ffff || surrogate) ? 0 : n;
}

static bool is_utf8(const uint8_t *data, size_t size)
{
    for (size_t i = 0, n; i < size; i += n)
        if ((n = character(data + i, size - i)) == 0)
            return false;
    return true;
}

static bool oracle(const char *bytes, size_t length)
{
    struct json_tokener *tokener = json_tokener_new_ex(DEPTH + 1);
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *value = json_tokener_parse_ex(tokener, bytes, (int)length);
    enum json_tokener_error error = json_tokener_get_error(tokener);
    if (error == json_tokener_continue) {
        /* A number or a literal at the end is only complete once something ends it. */
        value = json_tokener_parse_ex(tokener, " ", 1);
        error = json_tokener_get_error(tokener);
    }
    size_t used = json_tokener_get_parse_end(tokener);
    bool accepted = error == json_tokener_success && used <= length + 1;
    json_object_put(value);
    json_tokener_free(tokener);
    return accepted;
}

/* What json-c accepts although RFC 8259 does not, and the limits of this reader. */
static bool known_difference(const char *bytes, size_t length, const char *fault)
{
    static const char *const FAULTS[] = {
        "surrogate",         "control character", "out of range",  "too long",
        "nested too deeply", "begin with a zero", "needs a digit",
    };
    for (size_t i = 0; i < sizeof(FAULTS) / sizeof(FAULTS[0]); i++)
        if (strstr(fault, FAULTS[i]) != NULL)
            return true;
    return memmem(bytes, length, "NaN", 3) != NULL || memmem(bytes, length, "Infinity", 8) != NULL;
}

static void check_refused(const char *bytes, size_t size, const struct json_reader *r)
{
    bool wrong = false;
    if (strstr(r->fault, "not UTF-8") != NULL)
        wrong = character((const unsigned char *)bytes + r->fault_at, size - r->fault_at) != 0;
    else if (memchr(bytes, 0, size) == NULL && !known_difference(bytes, size, r->fault))
        wrong = oracle(bytes, size);
    if (wrong) {
        fprintf(stderr, "refused: %s\n", r->fault);
        abort();
    }
}

static void check_accepted(const char *bytes, size_t size, const struct buffer *first)
{
    struct buffer second = {0};
    if (!is_utf8((const uint8_t *)bytes, size) || !oracle(bytes, size))
        abort();
    if (!copy(first->data, first->length, &second) || second.length != first->length ||
        memcmp(first->data, second.data, first->length) != 0)
        abort();
    buffer_done(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer out = {0};
    char *bytes = malloc(size == 0 ? 1 : size);
    if (bytes == NULL)
        return 0;
    memcpy(bytes, data, size);
    bool accepted = copy(bytes, size, &out);
    struct json_reader skipped = skip(bytes, size);
    if (accepted == json_failed(&skipped))
        abort();
    if (accepted)
        check_accepted(bytes, size, &out);
    else
        check_refused(bytes, size, &skipped);
    buffer_done(&out);
    free(bytes);
    return 0;
}
