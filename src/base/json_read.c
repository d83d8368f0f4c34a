/* The pull reader: see json.h. Strings are in json_string.c, numbers in json_number.c. */
#include "base/json_internal.h"

#include <stdio.h>

bool json_fault_at(struct json_reader *reader, const char *at, const char *fault)
{
    if (reader->fault == NULL) {
        reader->fault = fault;
        reader->fault_at = (size_t)(at - reader->start);
    }
    return false;
}

bool json_expected(struct json_reader *reader, const char *fault)
{
    return json_fault_at(reader, reader->at,
                         reader->at == reader->end ? "unexpected end of the document" : fault);
}

bool json_fail(struct json_reader *reader, const char *fault)
{
    return json_fault_at(reader, reader->at, fault);
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

bool json_value_starts(struct json_reader *reader)
{
    if (reader->fault != NULL)
        return false;
    reader->at = skip_space(reader->at, reader->end);
    return true;
}

void json_reader_init(struct json_reader *reader, const char *bytes, size_t length,
                      struct buffer *scratch, uint32_t depth_max)
{
    static const char MARK[] = {'\xef', '\xbb', '\xbf'};
    *reader = (struct json_reader){
        .start = bytes,
        .at = bytes,
        .end = bytes + length,
        .scratch = scratch,
        .depth_max = depth_max < JSON_DEPTH_LIMIT ? depth_max : JSON_DEPTH_LIMIT,
    };
    if (length >= sizeof(MARK) && memcmp(bytes, MARK, sizeof(MARK)) == 0)
        json_fail(reader, "a byte order mark is not allowed");
}

enum json_type json_peek(struct json_reader *reader)
{
    if (!json_value_starts(reader) || reader->at == reader->end)
        return JSON_INVALID;
    switch (*reader->at) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
    case 'f':
        return JSON_BOOL;
    case 'n':
        return JSON_NULL;
    default:
        return *reader->at == '-' || json_is_digit(*reader->at) ? JSON_NUMBER : JSON_INVALID;
    }
}

static bool begin(struct json_reader *reader, char open, const char *fault)
{
    if (!json_value_starts(reader))
        return false;
    if (reader->at == reader->end || *reader->at != open)
        return json_expected(reader, fault);
    if (reader->depth == reader->depth_max)
        return json_fail(reader, "nested too deeply");
    reader->at++;
    reader->depth++;
    reader->first = true;
    return true;
}

bool json_object_begin(struct json_reader *reader)
{
    return begin(reader, '{', "expected an object");
}

bool json_array_begin(struct json_reader *reader)
{
    return begin(reader, '[', "expected an array");
}

/* Moves to where the next member or element starts; false at the end of the container. */
static bool next(struct json_reader *reader, char close, const char *fault)
{
    if (!json_value_starts(reader))
        return false;
    const char *end = reader->end;
    if (reader->at < end && *reader->at == close) {
        reader->at++;
        reader->depth--;
        reader->first = false;
        return false;
    }
    if (!reader->first) {
        if (reader->at == end || *reader->at != ',')
            return json_expected(reader, fault);
        reader->at = skip_space(reader->at + 1, end);
        if (reader->at < end && *reader->at == close)
            return json_fail(reader, "a trailing comma is not allowed");
    }
    reader->first = false;
    return reader->at < end || json_expected(reader, NULL);
}

bool json_array_next(struct json_reader *reader)
{
    return next(reader, ']', "expected ',' or ']'");
}

/* `ret_name` NULL: the name is checked only. */
static bool object_next(struct json_reader *reader, struct json_text *ret_name)
{
    if (!next(reader, '}', "expected ',' or '}'"))
        return false;
    if (*reader->at != '"')
        return json_fail(reader, "expected a member name in double quotes");
    struct json_text name;
    if (!json_scan_string(reader, ret_name == NULL ? NULL : &name))
        return false;
    reader->at = skip_space(reader->at, reader->end);
    if (reader->at == reader->end || *reader->at != ':')
        return json_expected(reader, "expected ':' after the member name");
    reader->at++;
    if (ret_name != NULL)
        *ret_name = name;
    return true;
}

bool json_object_next(struct json_reader *reader, struct json_text *ret_name)
{
    return object_next(reader, ret_name);
}

static bool literal(struct json_reader *reader, const char *text, size_t length)
{
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, text, length) != 0)
        return json_expected(reader, "expected a value");
    reader->at += length;
    return true;
}

bool json_bool(struct json_reader *reader, bool *ret_value)
{
    if (!json_value_starts(reader))
        return false;
    bool value = reader->at < reader->end && *reader->at == 't';
    if (json_peek(reader) != JSON_BOOL)
        return json_expected(reader, "expected true or false");
    if (!(value ? literal(reader, "true", 4) : literal(reader, "false", 5)))
        return false;
    *ret_value = value;
    return true;
}

bool json_null(struct json_reader *reader)
{
    if (json_peek(reader) != JSON_NULL)
        return reader->fault == NULL && json_expected(reader, "expected null");
    return literal(reader, "null", 4);
}

/* Recursive; the depth is bounded by JSON_DEPTH_LIMIT. */
bool json_skip(struct json_reader *reader)
{
    bool flag;
    switch (json_peek(reader)) {
    case JSON_OBJECT:
        for (json_object_begin(reader); object_next(reader, NULL);)
            if (!json_skip(reader))
                return false;
        return reader->fault == NULL;
    case JSON_ARRAY:
        for (json_array_begin(reader); json_array_next(reader);)
            if (!json_skip(reader))
                return false;
        return reader->fault == NULL;
    case JSON_STRING:
        return json_scan_string(reader, NULL);
    case JSON_NUMBER:
        return json_skip_number(reader);
    case JSON_BOOL:
        return json_bool(reader, &flag);
    case JSON_NULL:
        return json_null(reader);
    case JSON_INVALID:
        break;
    }
    return reader->fault == NULL && json_expected(reader, "expected a value");
}

bool json_raw(struct json_reader *reader, struct json_text *ret_bytes)
{
    if (!json_value_starts(reader))
        return false;
    const char *start = reader->at;
    if (!json_skip(reader))
        return false;
    *ret_bytes = (struct json_text){start, (size_t)(reader->at - start)};
    return true;
}

bool json_end(struct json_reader *reader)
{
    if (!json_value_starts(reader))
        return false;
    return reader->at == reader->end || json_fail(reader, "unexpected text after the document");
}

void json_fault_place(const struct json_reader *reader, size_t *ret_line, size_t *ret_column)
{
    size_t line = 1, line_start = 0;
    for (size_t i = 0; i < reader->fault_at; i++) {
        if (reader->start[i] == '\n') {
            line++;
            line_start = i + 1;
        }
    }
    *ret_line = line;
    *ret_column = reader->fault_at - line_start + 1;
}

const char *json_error_text(const struct json_reader *reader, char text[JSON_ERROR_TEXT_MAX])
{
    size_t line, column;
    json_fault_place(reader, &line, &column);
    snprintf(text, JSON_ERROR_TEXT_MAX, "%s at line %zu, column %zu (byte %zu)",
             reader->fault == NULL ? "no fault" : reader->fault, line, column, reader->fault_at);
    return text;
}
