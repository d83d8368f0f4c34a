/* What is read out of answers; see remote_wire.h. Answers come from outside: their shape is checked
 * to the last element, and numbers are taken only where they can be pages. */
#include "base/json.h"
#include "base/text.h"
#include "metadata/remote_wire.h"

#include <stdio.h>

struct reading {
    struct json_reader json;
    struct buffer scratch;
};

static void begin(struct reading *r, const struct buffer *answer)
{
    *r = (struct reading){0};
    json_reader_init(&r->json, answer->data, answer->length, &r->scratch, JSON_DEPTH);
}

/* The end of an answer: whether all of it was good and `missing`, a member, was there. */
static bool end(struct reading *r, bool found, const char *missing, char fault[WIRE_FAULT_MAX])
{
    char text[JSON_ERROR_TEXT_MAX];
    json_end(&r->json);
    bool good = !json_failed(&r->json) && !r->scratch.failed;
    if (!good)
        snprintf(fault, WIRE_FAULT_MAX, "%s", json_error_text(&r->json, text));
    else if (!found)
        snprintf(fault, WIRE_FAULT_MAX, "it has no member \"%s\"", missing);
    buffer_done(&r->scratch);
    return good && found;
}

/* Goes through a list that must have n elements. */
static bool next_of(struct reading *r, size_t n, size_t *i)
{
    bool more = json_array_next(&r->json);
    if (!more && !json_failed(&r->json) && *i < n)
        return json_fail(&r->json, "the list has fewer elements than were asked for");
    if (more && *i == n)
        return json_fail(&r->json, "the list has more elements than were asked for");
    return more;
}

/* null is nothing; so is a negative page, which SGLang's server lets any client confirm. */
static bool read_page(struct reading *r, int64_t *ret_page)
{
    *ret_page = -1;
    if (json_peek(&r->json) == JSON_NULL)
        return json_null(&r->json);
    if (!json_int64(&r->json, ret_page))
        return false;
    if (*ret_page < 0)
        *ret_page = -1;
    return true;
}

static bool read_generation(struct reading *r, uint64_t *ret_generation)
{
    *ret_generation = 0;
    if (json_peek(&r->json) == JSON_NULL)
        return json_null(&r->json);
    return json_uint64(&r->json, ret_generation);
}

static bool read_checksum(struct reading *r, struct catalog_found *found)
{
    struct json_text text;
    uint64_t value = 0;
    found->has_checksum = false;
    if (json_peek(&r->json) == JSON_NULL)
        return json_null(&r->json);
    if (!json_string(&r->json, &text))
        return false;
    bool good = text.length == 16;
    for (size_t i = 0; good && i < text.length; i++) {
        char c = text.text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        good = digit >= 0;
        value = value << 4 | (uint64_t)(digit & 15);
    }
    if (!good)
        return json_fail(&r->json, "a checksum is not 16 hex digits");
    found->has_checksum = true;
    found->checksum = value;
    return true;
}

/* ---- reserve -------------------------------------------------------------------------------- */

static bool read_pairs(struct reading *r, size_t n, struct catalog_reserved ret[])
{
    size_t i = 0;
    if (!json_array_begin(&r->json))
        return false;
    for (; next_of(r, n, &i); i++)
        if (!json_array_begin(&r->json) || !json_array_next(&r->json) ||
            !json_bool(&r->json, &ret[i].present) || !json_array_next(&r->json) ||
            !read_page(r, &ret[i].page) || json_array_next(&r->json))
            return json_fail(&r->json, "an entry is not [true or false, page]");
    return !json_failed(&r->json);
}

bool wire_read_reserved(const struct buffer *answer, size_t n, struct catalog_reserved ret[],
                        bool *ret_native, char fault[WIRE_FAULT_MAX])
{
    struct reading r;
    struct json_text name;
    bool found = false, native = false;
    begin(&r, answer);
    for (size_t i = 0; i < n; i++)
        ret[i].generation = 0;
    bool going = json_object_begin(&r.json);
    while (going && json_object_next(&r.json, &name)) {
        if (json_text_is(name, "indices")) {
            found = going = read_pairs(&r, n, ret);
        } else if (json_text_is(name, "generations")) {
            size_t i = 0;
            native = going = json_array_begin(&r.json);
            for (; going && next_of(&r, n, &i); i++)
                going = read_generation(&r, &ret[i].generation);
        } else {
            going = json_skip(&r.json);
        }
    }
    *ret_native = native;
    return end(&r, found, "indices", fault);
}

/* ---- get ------------------------------------------------------------------------------------ */

static bool read_found_list(struct reading *r, struct json_text name, size_t n,
                            struct catalog_found ret[])
{
    size_t i = 0;
    if (!json_array_begin(&r->json))
        return false;
    for (bool good = true; good && next_of(r, n, &i); i++)
        good = json_text_is(name, "indices")     ? read_page(r, &ret[i].page)
               : json_text_is(name, "checksums") ? read_checksum(r, &ret[i])
                                                 : read_generation(r, &ret[i].generation);
    return !json_failed(&r->json);
}

bool wire_read_found(const struct buffer *answer, size_t n, struct catalog_found ret[],
                     bool *ret_native, char fault[WIRE_FAULT_MAX])
{
    struct reading r;
    struct json_text name;
    bool found = false, checksums = false, generations = false;
    begin(&r, answer);
    for (size_t i = 0; i < n; i++)
        ret[i] = (struct catalog_found){.page = -1};
    bool going = json_object_begin(&r.json);
    while (going && json_object_next(&r.json, &name)) {
        bool indices = json_text_is(name, "indices");
        bool checksum = json_text_is(name, "checksums");
        bool generation = json_text_is(name, "generations");
        going = indices || checksum || generation ? read_found_list(&r, name, n, ret)
                                                  : json_skip(&r.json);
        found = found || indices;
        checksums = checksums || checksum;
        generations = generations || generation;
    }
    *ret_native = checksums && generations;
    return end(&r, found, "indices", fault);
}

/* ---- exists --------------------------------------------------------------------------------- */

bool wire_read_exists(const struct buffer *answer, size_t n, bool ret[], char fault[WIRE_FAULT_MAX])
{
    struct reading r;
    struct json_text name;
    bool found = false;
    begin(&r, answer);
    bool going = json_object_begin(&r.json);
    while (going && json_object_next(&r.json, &name)) {
        if (!json_text_is(name, "exists")) {
            going = json_skip(&r.json);
            continue;
        }
        size_t i = 0;
        found = going = json_array_begin(&r.json);
        for (; going && next_of(&r, n, &i); i++)
            going = json_bool(&r.json, &ret[i]);
    }
    return end(&r, found, "exists", fault);
}

/* ---- confirm -------------------------------------------------------------------------------- */

struct rejected {
    struct json_text key, reason;
    int64_t page;
};

static bool read_one_rejected(struct reading *r, struct rejected *ret)
{
    struct json_text name;
    *ret = (struct rejected){.page = -1};
    if (!json_object_begin(&r->json))
        return false;
    while (json_object_next(&r->json, &name)) {
        if (json_text_is(name, "key") && json_peek(&r->json) == JSON_STRING)
            json_string(&r->json, &ret->key);
        else if (json_text_is(name, "reason"))
            json_string(&r->json, &ret->reason);
        else if (json_text_is(name, "page_index"))
            json_int64(&r->json, &ret->page);
        else
            json_skip(&r->json);
    }
    return !json_failed(&r->json);
}

/* A reason that is not known is a rejection all the same. */
static enum catalog_rejection reason_of(struct json_text text)
{
    for (int reason = CATALOG_ACCEPTED + 1; reason < CATALOG_REJECTIONS; reason++)
        if (json_text_is(text, catalog_rejection_text((enum catalog_rejection)reason)))
            return (enum catalog_rejection)reason;
    return CATALOG_NOT_RESERVED;
}

static bool same_key(struct json_text got, struct metadata_text sent)
{
    char digest[WIRE_KEY_MAX];
    struct metadata_text text = wire_key(sent, digest);
    return got.length == text.length && memcmp(got.text, text.text, text.length) == 0;
}

static bool is_release(const struct rejected *rejected, const struct metadata_release releases[],
                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (releases[i].page == rejected->page)
            return true;
    return false;
}

bool wire_read_rejected(const struct buffer *answer, const struct metadata_confirm confirms[],
                        size_t n_confirm, const struct metadata_release releases[],
                        size_t n_release, enum catalog_rejection ret_reasons[],
                        char fault[WIRE_FAULT_MAX])
{
    struct reading r;
    struct json_text name;
    struct rejected rejected;
    bool found = false;
    size_t at = 0; /* they are listed in the order they were sent in, confirms first */
    begin(&r, answer);
    bool going = json_object_begin(&r.json);
    while (going && json_object_next(&r.json, &name)) {
        if (!json_text_is(name, "rejected")) {
            going = json_skip(&r.json);
            continue;
        }
        found = going = json_array_begin(&r.json);
        while (going && json_array_next(&r.json)) {
            going = read_one_rejected(&r, &rejected);
            size_t i = at;
            while (going && i < n_confirm &&
                   (confirms[i].page != rejected.page || !same_key(rejected.key, confirms[i].key)))
                i++;
            if (going && i < n_confirm) {
                ret_reasons[i] = reason_of(rejected.reason);
                at = i + 1;
            } else if (going && !is_release(&rejected, releases, n_release)) {
                going = json_fail(&r.json, "an entry was rejected that was not sent");
            }
        }
    }
    return end(&r, found, "rejected", fault);
}

/* ---- failures ------------------------------------------------------------------------------- */

void wire_read_detail(const struct buffer *answer, char detail[KVS_ERROR_MESSAGE_MAX])
{
    struct reading r;
    struct json_text name, text;
    detail[0] = '\0';
    begin(&r, answer);
    if (json_object_begin(&r.json))
        while (json_object_next(&r.json, &name)) {
            if (!json_text_is(name, "detail") || json_peek(&r.json) != JSON_STRING) {
                json_skip(&r.json);
            } else if (json_string(&r.json, &text)) {
                size_t length = text.length < KVS_ERROR_MESSAGE_MAX - 1 ? text.length
                                                                        : KVS_ERROR_MESSAGE_MAX - 1;
                memcpy(detail, text.text, length);
                detail[length] = '\0';
            }
        }
    buffer_done(&r.scratch);
    text_one_line(detail);
}
