/* Strings of the JSON reader. */
#include "base/json_internal.h"
#include "base/json_scan.h"
#include "base/utf8.h"

/* Moves past bytes that stand for themselves; stops at a quote or a backslash. */
static bool skip_plain(struct json_reader *reader)
{
    for (;;) {
        const char *at = json_scan_plain(reader->at, reader->end);
        reader->at = at;
        if (at == reader->end)
            return json_fail(reader, "unexpected end of the document in a string");
        if (*at == '"' || *at == '\\')
            return true;
        if ((unsigned char)*at < 0x20)
            return json_fail(reader, "a control character in a string must be escaped");
        size_t length = utf8_sequence(at, reader->end);
        if (length == 0)
            return json_fail(reader, "a string is not UTF-8");
        reader->at += length;
    }
}

static bool hex4(struct json_reader *reader, unsigned *ret_code)
{
    unsigned code = 0;
    for (int i = 0; i < 4; i++, reader->at++) {
        if (reader->at == reader->end)
            return json_fail(reader, "unexpected end of the document in a string");
        char c = *reader->at;
        unsigned digit;
        if (json_is_digit(c))
            digit = (unsigned)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (unsigned)((c | 0x20) - 'a') + 10;
        else
            return json_fail(reader, "\\u needs four hexadecimal digits");
        code = code * 16 + digit;
    }
    *ret_code = code;
    return true;
}

static size_t put_utf8(char *out, unsigned code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00u >> length & 0xf0u) | code);
    return length;
}

/* After "\u". A character beyond U+FFFF comes as two escapes, a high and a low surrogate. Returns
 * the length of what the escape stands for; 0 is a fault. */
static size_t unicode(struct json_reader *reader, const char *escape, char out[4])
{
    unsigned code = 0, low = 0;
    if (!hex4(reader, &code))
        return 0;
    if (code >= 0xdc00 && code <= 0xdfff)
        return json_fault_at(reader, escape, "a low surrogate without a high one before it");
    if (code >= 0xd800 && code <= 0xdbff) {
        if (reader->end - reader->at < 2 || reader->at[0] != '\\' || reader->at[1] != 'u')
            return json_fault_at(reader, escape, "a high surrogate without a low one after it");
        reader->at += 2;
        if (!hex4(reader, &low))
            return 0;
        if (low < 0xdc00 || low > 0xdfff)
            return json_fault_at(reader, escape, "a high surrogate without a low one after it");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    return put_utf8(out, code);
}

/* At a backslash. As unicode(). */
static size_t escape_sequence(struct json_reader *reader, char out[4])
{
    static const char NAMES[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";
    const char *escape = reader->at++;
    if (reader->at == reader->end)
        return json_fail(reader, "unexpected end of the document in a string");
    char c = *reader->at++;
    if (c == 'u')
        return unicode(reader, escape, out);
    const char *name = memchr(NAMES, c, sizeof(NAMES) - 1);
    if (name == NULL)
        return json_fault_at(reader, escape, "unknown escape in a string");
    out[0] = MEANT[name - NAMES];
    return 1;
}

/* Text never gets longer by unescaping. Room for the whole range is made once, so that what is
 * there does not move while strings of this range are added. */
static bool make_room(struct json_reader *reader, const char *string)
{
    struct buffer *scratch = reader->scratch;
    if (scratch == NULL)
        return json_fail(reader, "an escape is not allowed here");
    if (scratch->capacity - scratch->length < (size_t)(reader->end - string) &&
        !buffer_reserve(scratch, (size_t)(reader->end - reader->start)))
        return json_fail(reader, "out of memory");
    return true;
}

static bool scan_escaped(struct json_reader *reader, const char *string, struct json_text *ret_text)
{
    if (ret_text != NULL && !make_room(reader, string))
        return false;
    struct buffer *out = ret_text != NULL ? reader->scratch : NULL;
    size_t out_start = out != NULL ? out->length : 0;
    const char *run = string;
    while (*reader->at == '\\') {
        char escaped[4];
        if (out != NULL)
            buffer_append(out, run, (size_t)(reader->at - run));
        size_t length = escape_sequence(reader, escaped);
        if (length == 0)
            return false;
        if (out != NULL)
            buffer_append(out, escaped, length);
        run = reader->at;
        if (!skip_plain(reader))
            return false;
    }
    if (out != NULL) {
        buffer_append(out, run, (size_t)(reader->at - run));
        *ret_text = (struct json_text){out->data + out_start, out->length - out_start};
    }
    reader->at++;
    return true;
}

bool json_scan_string(struct json_reader *reader, struct json_text *ret_text)
{
    const char *string = ++reader->at;
    if (!skip_plain(reader))
        return false;
    if (*reader->at == '\\')
        return scan_escaped(reader, string, ret_text);
    if (ret_text != NULL)
        *ret_text = (struct json_text){string, (size_t)(reader->at - string)};
    reader->at++;
    return true;
}

bool json_string(struct json_reader *reader, struct json_text *ret_text)
{
    if (!json_value_starts(reader))
        return false;
    if (reader->at == reader->end || *reader->at != '"')
        return json_expected(reader, "expected a string");
    return json_scan_string(reader, ret_text);
}
