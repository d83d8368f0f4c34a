/* The JSON writer: see json.h. */
#include "base/json.h"
#include "base/json_scan.h"
#include "base/utf8.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Before a value or a name: the comma that is due, and room for `length` bytes. False: no memory.
 */
static bool start_value(struct json_writer *writer, size_t length)
{
    struct buffer *out = writer->out;
    if (!buffer_reserve(out, length + 1))
        return false;
    if (writer->comma)
        out->data[out->length++] = ',';
    writer->comma = true;
    return true;
}

static void write_plain(struct json_writer *writer, const char *text, size_t length)
{
    if (!start_value(writer, length))
        return;
    memcpy(writer->out->data + writer->out->length, text, length);
    writer->out->length += length;
}

void json_write_object_begin(struct json_writer *writer)
{
    write_plain(writer, "{", 1);
    writer->comma = false;
}

void json_write_object_end(struct json_writer *writer)
{
    buffer_append_char(writer->out, '}');
    writer->comma = true;
}

void json_write_array_begin(struct json_writer *writer)
{
    write_plain(writer, "[", 1);
    writer->comma = false;
}

void json_write_array_end(struct json_writer *writer)
{
    buffer_append_char(writer->out, ']');
    writer->comma = true;
}

void json_write_name(struct json_writer *writer, const char *name)
{
    json_write_string(writer, name, strlen(name));
    buffer_append_char(writer->out, ':');
    writer->comma = false;
}

/* Appends one special byte, or the whole UTF-8 character that it begins; returns its length in the
 * text. */
static size_t append_special(struct buffer *out, const char *at, const char *end)
{
    static const char NAMED[] = "\"\\\b\f\n\r\t", NAMES[] = "\"\\bfnrt";
    const char *named = memchr(NAMED, *at, sizeof(NAMED) - 1);
    if (named != NULL) {
        buffer_append_char(out, '\\');
        buffer_append_char(out, NAMES[named - NAMED]);
        return 1;
    }
    if ((unsigned char)*at < 0x20) {
        buffer_append_format(out, "\\u%04x", (unsigned)(unsigned char)*at);
        return 1;
    }
    size_t length = utf8_sequence(at, end);
    if (length == 0) {
        buffer_append_text(out, "\xef\xbf\xbd");
        return 1;
    }
    buffer_append(out, at, length);
    return length;
}

void json_write_string(struct json_writer *writer, const char *text, size_t length)
{
    struct buffer *out = writer->out;
    if (!start_value(writer, length + 2))
        return;
    out->data[out->length++] = '"';
    for (const char *at = text, *end = text + length; at < end;) {
        const char *special = json_scan_plain(at, end);
        buffer_append(out, at, (size_t)(special - at));
        at = special;
        if (at < end)
            at += append_special(out, at, end);
    }
    buffer_append_char(out, '"');
}

void json_write_text(struct json_writer *writer, const char *text)
{
    json_write_string(writer, text, strlen(text));
}

/* The digits of a number, right-aligned before `end`. */
static char *digits_before(char *end, uint64_t value)
{
    do {
        *--end = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    return end;
}

void json_write_uint64(struct json_writer *writer, uint64_t value)
{
    char text[24], *end = text + sizeof(text);
    char *start = digits_before(end, value);
    write_plain(writer, start, (size_t)(end - start));
}

void json_write_int64(struct json_writer *writer, int64_t value)
{
    char text[24], *end = text + sizeof(text);
    char *start = digits_before(end, value < 0 ? -(uint64_t)value : (uint64_t)value);
    if (value < 0)
        *--start = '-';
    write_plain(writer, start, (size_t)(end - start));
}

void json_write_double(struct json_writer *writer, double value)
{
    enum { EXACT_DIGITS = 17 }; /* enough for every double */
    if (!isfinite(value)) {
        json_write_null(writer);
        return;
    }
    char text[32];
    int length = 0;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = uselocale(c_locale);
    for (int precision = 1; precision <= EXACT_DIGITS; precision++) {
        length = snprintf(text, sizeof(text), "%.*g", precision, value);
        double back = strtod(text, NULL);
        if (!(back < value) && !(back > value))
            break;
    }
    uselocale(before);
    freelocale(c_locale);
    write_plain(writer, text, (size_t)length);
}

void json_write_bool(struct json_writer *writer, bool value)
{
    if (value)
        write_plain(writer, "true", 4);
    else
        write_plain(writer, "false", 5);
}

void json_write_null(struct json_writer *writer)
{
    write_plain(writer, "null", 4);
}

void json_write_raw(struct json_writer *writer, const char *json, size_t length)
{
    write_plain(writer, json, length);
}

void json_member_uint64(struct json_writer *writer, const char *name, uint64_t value)
{
    json_write_name(writer, name);
    json_write_uint64(writer, value);
}

void json_member_double(struct json_writer *writer, const char *name, double value)
{
    json_write_name(writer, name);
    json_write_double(writer, value);
}

void json_member_bool(struct json_writer *writer, const char *name, bool value)
{
    json_write_name(writer, name);
    json_write_bool(writer, value);
}

void json_member_text(struct json_writer *writer, const char *name, const char *text)
{
    json_write_name(writer, name);
    if (text != NULL)
        json_write_text(writer, text);
    else
        json_write_null(writer);
}
