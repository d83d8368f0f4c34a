/* The bodies of questions; see remote_wire.h. */
#include "base/json.h"
#include "base/utf8.h"
#include "metadata/remote_wire.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    PART_KEYS_MAX = 32768,     /* half of what a server takes */
    PART_BYTES_MAX = 16 << 20, /* a quarter of what it takes */
    ENTRY_BYTES_MAX = 96,      /* of what stands around a key */
    ESCAPED_BYTES_MAX = 6,     /* of one byte of a key */
};

static const char hashed[] = "sha256:";

static bool is_utf8(const char *text, size_t length)
{
    const char *end = text + length;
    while (text < end) {
        if ((unsigned char)*text < 0x80) {
            text++;
            continue;
        }
        size_t sequence = utf8_sequence(text, end);
        if (sequence == 0)
            return false;
        text += sequence;
    }
    return true;
}

struct metadata_text wire_key(struct metadata_text key, char digest[WIRE_KEY_MAX])
{
    const size_t prefix = sizeof(hashed) - 1;
    if (key.length <= KEY_TEXT_MAX && is_utf8(key.text, key.length) &&
        (key.length < prefix || memcmp(key.text, hashed, prefix) != 0))
        return key;
    struct key packed;
    key_parse(&packed, key.text, key.length, "");
    return (struct metadata_text){digest, key_format(&packed, "", digest, WIRE_KEY_MAX)};
}

size_t wire_part(const struct metadata_text keys[], size_t n)
{
    size_t part = 0, bytes = 0;
    while (part < n && part < PART_KEYS_MAX) {
        size_t length = keys[part].length < KEY_TEXT_MAX ? keys[part].length : KEY_TEXT_MAX;
        bytes += ESCAPED_BYTES_MAX * length + ENTRY_BYTES_MAX;
        if (part > 1 && bytes > PART_BYTES_MAX)
            break;
        part++;
    }
    return part < n && part > 1 ? part & ~(size_t)1 : part;
}

/* ---- Members -------------------------------------------------------------------------------- */

static void write_key(struct json_writer *json, struct metadata_text key)
{
    char digest[WIRE_KEY_MAX];
    struct metadata_text text = wire_key(key, digest);
    json_write_string(json, text.text, text.length);
}

static void begin(struct json_writer *json, const struct metadata_scope *scope)
{
    json_write_object_begin(json);
    json_write_name(json, "namespace");
    json_write_text(json, scope->ns);
    json_write_name(json, "bytes_per_page");
    json_write_uint64(json, scope->bytes_per_page);
    if (scope->fingerprint != NULL) {
        json_write_name(json, "fingerprint");
        json_write_text(json, scope->fingerprint);
    }
}

static void write_true(struct json_writer *json, const char *name)
{
    json_write_name(json, name);
    json_write_bool(json, true);
}

/* ---- Bodies --------------------------------------------------------------------------------- */

void wire_write_keys(struct buffer *out, enum wire_keys kind, const struct metadata_scope *scope,
                     const struct metadata_text keys[], size_t n, bool verifying, uint64_t owner)
{
    struct json_writer json = {.out = out};
    begin(&json, scope);
    if (kind == WIRE_RESERVE) {
        write_true(&json, "generations");
        json_write_name(&json, "owner");
        json_write_uint64(&json, owner);
    } else if (kind != WIRE_DELETE && verifying) {
        write_true(&json, "checksums");
    }
    json_write_name(&json, "keys");
    json_write_array_begin(&json);
    for (size_t i = 0; i < n; i++) {
        if (kind == WIRE_RESERVE) {
            json_write_array_begin(&json);
            write_key(&json, keys[i]);
            json_write_text(&json, ""); /* the prefix, which no server uses */
            json_write_array_end(&json);
        } else {
            write_key(&json, keys[i]);
        }
    }
    json_write_array_end(&json);
    json_write_object_end(&json);
}

void wire_write_initialize(struct buffer *out, const struct metadata_scope *scope,
                           uint64_t num_pages)
{
    struct json_writer json = {.out = out};
    begin(&json, scope);
    json_write_name(&json, "num_pages");
    json_write_uint64(&json, num_pages);
    json_write_object_end(&json);
}

static void write_confirm(struct json_writer *json, const struct metadata_confirm *confirm)
{
    char checksum[2 + 16 + 1];
    json_write_array_begin(json);
    write_key(json, confirm->key);
    json_write_int64(json, confirm->page);
    if (confirm->generation != 0) {
        json_write_uint64(json, confirm->generation);
        snprintf(checksum, sizeof(checksum), "\"%016" PRIx64 "\"", confirm->checksum);
        json_write_raw(json, checksum, sizeof(checksum) - 1);
    }
    json_write_array_end(json);
}

static void write_release(struct json_writer *json, const struct metadata_release *release)
{
    if (release->generation == 0) {
        json_write_int64(json, release->page);
        return;
    }
    json_write_array_begin(json);
    write_key(json, release->key);
    json_write_int64(json, release->page);
    json_write_uint64(json, release->generation);
    json_write_array_end(json);
}

void wire_write_confirm(struct buffer *out, const struct metadata_scope *scope,
                        const struct metadata_confirm confirms[], size_t n_confirm,
                        const struct metadata_release releases[], size_t n_release)
{
    struct json_writer json = {.out = out};
    begin(&json, scope);
    json_write_name(&json, "written_keys_to_confirm");
    json_write_array_begin(&json);
    for (size_t i = 0; i < n_confirm; i++)
        write_confirm(&json, &confirms[i]);
    json_write_array_end(&json);
    json_write_name(&json, "pages_to_release");
    json_write_array_begin(&json);
    for (size_t i = 0; i < n_release; i++)
        write_release(&json, &releases[i]);
    json_write_array_end(&json);
    json_write_object_end(&json);
}

void wire_write_report(struct buffer *out, const struct metadata_scope *scope,
                       const struct metadata_release pages[], size_t n)
{
    struct json_writer json = {.out = out};
    begin(&json, scope);
    json_write_name(&json, "pages");
    json_write_array_begin(&json);
    for (size_t i = 0; i < n; i++)
        write_release(&json, &pages[i]);
    json_write_array_end(&json);
    json_write_object_end(&json);
}

void wire_write_clear(struct buffer *out, const struct metadata_scope *scope)
{
    struct json_writer json = {.out = out};
    begin(&json, scope);
    json_write_object_end(&json);
}
