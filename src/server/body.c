/* The JSON bodies of operations; see body.h. Duplicate members: the last one counts, as it does for
 * the original. Members that are not known are skipped, but must be JSON. */
#include "server/body.h"

#include "base/json_scan.h"
#include "base/status.h"

#include <stdlib.h>

/* Reading stops at the first fault: `member` and `expected` say more about it than JSON's grammar.
 */
struct reading {
    struct json_reader json;
    struct body *body;
    const char *member, *expected; /* of the member being read; static storage */
    const char *limit, *of_what;   /* set when a limit was the fault */
    bool has_keys, has_pages, has_num_pages;
};

bool body_init(struct body *body)
{
    *body = (struct body){0};
    body->texts = malloc(2 * BODY_KEYS_MAX * sizeof(*body->texts));
    body->packed = malloc(BODY_KEYS_MAX * sizeof(*body->packed));
    body->confirm = malloc(BODY_KEYS_MAX * sizeof(*body->confirm));
    body->release = malloc(BODY_KEYS_MAX * sizeof(*body->release));
    if (body->texts != NULL && body->packed != NULL && body->confirm != NULL &&
        body->release != NULL)
        return true;
    body_done(body);
    return false;
}

void body_done(struct body *body)
{
    free(body->texts);
    free(body->packed);
    free(body->confirm);
    free(body->release);
    buffer_done(&body->unescaped);
    *body = (struct body){0};
}

/* ---- Parts -----------------------------------------------------------------------------------*/

static bool over_limit(struct reading *r, const char *limit, const char *of_what)
{
    if (!json_failed(&r->json)) {
        r->limit = limit;
        r->of_what = of_what;
    }
    return json_fail(&r->json, "a limit is exceeded");
}

/* The usual key, 64 hex digits and perhaps -k or -v, is packed where it is read; what its
 * characters are is thereby known, so the reader need not look at them again. Anything else waits
 * for the namespace, which may come later in the body. */
enum { NOT_PACKED = UINT16_MAX };

static bool take_usual_key(struct json_reader *json, struct json_text *ret_text,
                           struct key *ret_key)
{
    enum { DIGITS = 2 * KEY_DIGEST_BYTES };
    const char *text = json->at + 1;
    if (json->end - json->at < DIGITS + 4 || json->at[0] != '"')
        return false;
    const char *suffix = text + DIGITS;
    if (suffix[0] == '"')
        ret_key->suffix = KEY_PLAIN;
    else if (suffix[0] == '-' && (suffix[1] == 'k' || suffix[1] == 'v') && suffix[2] == '"')
        ret_key->suffix = suffix[1] == 'k' ? KEY_K : KEY_V;
    else
        return false;
    if (!key_decode_digest(ret_key->digest, text))
        return false;
    *ret_text = (struct json_text){text, ret_key->suffix == KEY_PLAIN ? DIGITS : DIGITS + 2};
    json->at = text + ret_text->length + 1;
    return true;
}

/* ---- What is usual, in one go ----
 * Entries as engines write them are taken without the reader's steps. Nothing is taken where an
 * entry is anything else: then the reader takes it, or says what is wrong with it. */

static bool take_char(struct json_reader *json, char c)
{
    if (json->at == json->end || *json->at != c)
        return false;
    json->at++;
    return true;
}

static bool take_comma(struct json_reader *json)
{
    if (!take_char(json, ','))
        return false;
    (void)take_char(json, ' ');
    return true;
}

/* As many usual keys as follow each other, at most n. */
static size_t take_usual_keys(struct json_reader *json, struct json_text *ret_texts,
                              struct key *ret_keys, size_t n)
{
    size_t taken = 0;
    const char *before = json->at; /* of the comma, or of the first key */
    while (taken < n && take_usual_key(json, &ret_texts[taken], &ret_keys[taken])) {
        taken++;
        before = json->at;
        if (!take_comma(json))
            break;
    }
    json->at = before;
    return taken;
}

/* [key, prefix] */
static bool take_usual_pair(struct json_reader *json, struct json_text *ret_text,
                            struct key *ret_key)
{
    const char *start = json->at;
    if (take_char(json, '[') && take_usual_key(json, ret_text, ret_key) && take_comma(json) &&
        take_char(json, '"')) {
        json->at = json_scan_plain(json->at, json->end);
        if (take_char(json, '"') && take_char(json, ']'))
            return true;
    }
    json->at = start;
    return false;
}

static bool take_digits(struct json_reader *json, uint64_t *ret_value)
{
    enum { DIGITS = 18 }; /* of any number that fits */
    const char *first = json->at;
    uint64_t value = 0;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++)
        value = value * 10 + (uint64_t)(*json->at - '0');
    size_t digits = (size_t)(json->at - first);
    *ret_value = value;
    return digits > 0 && digits <= DIGITS && (*first != '0' || digits == 1);
}

static bool decode_checksum(const char *text, size_t length, uint64_t *ret_checksum)
{
    enum { DIGITS = 16 };
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0 || i == DIGITS)
            return false;
        value = value << 4 | (uint64_t)digit;
    }
    *ret_checksum = value;
    return length == DIGITS;
}

static bool take_checksum(struct json_reader *json, uint64_t *ret_checksum)
{
    if (!take_char(json, '"'))
        return false;
    const char *text = json->at;
    json->at = json_scan_plain(text, json->end);
    return decode_checksum(text, (size_t)(json->at - text), ret_checksum) && take_char(json, '"');
}

/* [key, page], [key, page, generation] or [key, page, generation, checksum] */
static bool take_usual_confirm(struct json_reader *json, struct json_text *ret_text,
                               struct catalog_confirm *entry)
{
    const char *start = json->at;
    uint64_t page;
    if (take_char(json, '[') && take_usual_key(json, ret_text, &entry->key) && take_comma(json) &&
        take_digits(json, &page)) {
        entry->page = (int64_t)page;
        if (take_char(json, ']'))
            return true;
        entry->has_generation = take_comma(json) && take_digits(json, &entry->generation);
        if (entry->has_generation && take_char(json, ']'))
            return true;
        entry->has_checksum =
            entry->has_generation && take_comma(json) && take_checksum(json, &entry->checksum);
        if (entry->has_checksum && take_char(json, ']'))
            return true;
    }
    json->at = start;
    *entry = (struct catalog_confirm){0};
    return false;
}

/* ---- One value ---- */

static bool read_key(struct reading *r, struct json_text *ret_text, struct key *ret_key)
{
    if (take_usual_key(&r->json, ret_text, ret_key))
        return true;
    ret_key->suffix = NOT_PACKED;
    if (!json_string(&r->json, ret_text))
        return false;
    return ret_text->length <= KEY_TEXT_MAX || over_limit(r, "4,096", "bytes of a key");
}

/* The end of a list of fixed length. */
static bool end_of_entry(struct reading *r)
{
    if (json_array_next(&r->json))
        return json_fail(&r->json, "an entry is too long");
    return !json_failed(&r->json);
}

/* A further element of an entry must be there. */
static bool next_of_entry(struct reading *r)
{
    return json_array_next(&r->json) || json_fail(&r->json, "an entry is too short");
}

static bool read_checksum(struct reading *r, uint64_t *ret_checksum)
{
    struct json_text text;
    if (!json_string(&r->json, &text))
        return false;
    return decode_checksum(text.text, text.length, ret_checksum) ||
           json_fail(&r->json, "a checksum is not 16 hex digits");
}

/* ---- Lists -----------------------------------------------------------------------------------*/

static bool read_keys(struct reading *r)
{
    struct body *body = r->body;
    body->keys = 0;
    r->has_keys = true;
    if (!json_array_begin(&r->json))
        return false;
    while (json_array_next(&r->json)) {
        if (body->keys == BODY_KEYS_MAX)
            return over_limit(r, "65,536", "keys in one request");
        size_t taken = take_usual_keys(&r->json, &body->texts[body->keys],
                                       &body->packed[body->keys], BODY_KEYS_MAX - body->keys);
        if (taken == 0 && !read_key(r, &body->texts[body->keys], &body->packed[body->keys]))
            return false;
        body->keys += taken > 0 ? taken : 1;
    }
    return !json_failed(&r->json);
}

/* [key, prefix]: the prefix is the original's and means nothing here. */
static bool read_pairs(struct reading *r)
{
    struct body *body = r->body;
    struct json_text prefix;
    body->keys = 0;
    r->has_keys = true;
    if (!json_array_begin(&r->json))
        return false;
    while (json_array_next(&r->json)) {
        if (body->keys == BODY_KEYS_MAX)
            return over_limit(r, "65,536", "keys in one request");
        if (take_usual_pair(&r->json, &body->texts[body->keys], &body->packed[body->keys])) {
            body->keys++;
            continue;
        }
        if (!json_array_begin(&r->json) || !next_of_entry(r) ||
            !read_key(r, &body->texts[body->keys], &body->packed[body->keys]) || !next_of_entry(r))
            return false;
        if (!(json_peek(&r->json) == JSON_NULL ? json_null(&r->json)
                                               : json_string(&r->json, &prefix)) ||
            !end_of_entry(r))
            return false;
        body->keys++;
    }
    return !json_failed(&r->json);
}

/* [key, page], [key, page, generation] or [key, page, generation, checksum]. */
static bool read_confirm(struct reading *r, struct json_text *ret_key,
                         struct catalog_confirm *entry)
{
    *entry = (struct catalog_confirm){0};
    if (take_usual_confirm(&r->json, ret_key, entry))
        return true;
    if (!json_array_begin(&r->json) || !next_of_entry(r) || !read_key(r, ret_key, &entry->key) ||
        !next_of_entry(r) || !json_int64(&r->json, &entry->page))
        return false;
    if (!json_array_next(&r->json))
        return !json_failed(&r->json);
    if (!json_uint64(&r->json, &entry->generation))
        return false;
    entry->has_generation = true;
    if (!json_array_next(&r->json))
        return !json_failed(&r->json);
    entry->has_checksum = true;
    return read_checksum(r, &entry->checksum) && end_of_entry(r);
}

static bool read_confirms(struct reading *r)
{
    struct body *body = r->body;
    body->confirms = 0;
    if (!json_array_begin(&r->json))
        return false;
    while (json_array_next(&r->json)) {
        if (body->confirms == BODY_KEYS_MAX)
            return over_limit(r, "65,536", "keys in one request");
        if (!read_confirm(r, &body->texts[body->confirms], &body->confirm[body->confirms]))
            return false;
        body->confirms++;
    }
    return !json_failed(&r->json);
}

/* [key, page, generation]. */
static bool read_release_entry(struct reading *r, struct json_text *ret_key,
                               struct catalog_release *entry)
{
    *entry = (struct catalog_release){.has_generation = true, .has_key = true};
    return json_array_begin(&r->json) && next_of_entry(r) && read_key(r, ret_key, &entry->key) &&
           next_of_entry(r) && json_int64(&r->json, &entry->page) && next_of_entry(r) &&
           json_uint64(&r->json, &entry->generation) && end_of_entry(r);
}

/* Pages, or with `full` only [key, page, generation]. */
static bool read_releases(struct reading *r, bool full)
{
    struct body *body = r->body;
    body->releases = 0;
    r->has_pages = true;
    if (!json_array_begin(&r->json))
        return false;
    while (json_array_next(&r->json)) {
        if (body->releases == BODY_KEYS_MAX)
            return over_limit(r, "65,536", "pages in one request");
        struct json_text *text = &body->texts[BODY_KEYS_MAX + body->releases];
        struct catalog_release *entry = &body->release[body->releases];
        if (full || json_peek(&r->json) == JSON_ARRAY) {
            if (!read_release_entry(r, text, entry))
                return false;
        } else {
            *entry = (struct catalog_release){0};
            *text = (struct json_text){0};
            if (!json_int64(&r->json, &entry->page))
                return false;
        }
        body->releases++;
    }
    return !json_failed(&r->json);
}

/* ---- Single members --------------------------------------------------------------------------*/

static bool copy_text(struct reading *r, char *to, size_t limit, size_t *ret_length)
{
    struct json_text text;
    if (!json_string(&r->json, &text))
        return false;
    if (text.length > limit || memchr(text.text, '\0', text.length) != NULL)
        return json_fail(&r->json, "the text is too long or holds a NUL");
    memcpy(to, text.text, text.length);
    to[text.length] = '\0';
    *ret_length = text.length;
    return true;
}

/* An optional number: null states nothing. */
static bool read_number(struct reading *r, uint64_t *ret_value)
{
    if (json_peek(&r->json) == JSON_NULL) {
        *ret_value = 0;
        return json_null(&r->json);
    }
    return json_uint64(&r->json, ret_value);
}

/* A whole number, or any text, of which the digest stands for it. Never 0. */
static bool read_owner(struct reading *r, uint64_t *ret_owner)
{
    if (json_peek(&r->json) != JSON_STRING)
        return read_number(r, ret_owner);
    struct json_text text;
    if (!json_string(&r->json, &text))
        return false;
    struct key key;
    key_parse(&key, text.text, text.length, "");
    uint64_t value;
    memcpy(&value, key.digest, sizeof(value));
    *ret_owner = value == 0 ? 1 : value;
    return true;
}

static bool read_flag(struct reading *r, bool *ret_flag)
{
    if (json_peek(&r->json) == JSON_NULL) {
        *ret_flag = false;
        return json_null(&r->json);
    }
    return json_bool(&r->json, ret_flag);
}

static bool expect(struct reading *r, const char *member, const char *expected)
{
    r->member = member;
    r->expected = expected;
    return true;
}

/* Members that any request may have. Sets *ret_taken when the member was one. */
static bool read_common(struct reading *r, struct json_text name, bool *ret_taken)
{
    struct body *body = r->body;
    *ret_taken = true;
    if (json_text_is(name, "namespace"))
        return expect(r, "namespace", "a string of 1 to 80 bytes without NUL") &&
               copy_text(r, body->ns, BODY_NAMESPACE_MAX, &body->ns_length) &&
               (body->ns_length > 0 || json_fail(&r->json, "the text is empty"));
    if (json_text_is(name, "bytes_per_page"))
        return expect(r, "bytes_per_page", "a whole number of bytes") &&
               read_number(r, &body->bytes_per_page);
    if (json_text_is(name, "fingerprint")) {
        expect(r, "fingerprint", "a string of at most 2,047 bytes without NUL, or null");
        size_t length;
        body->has_fingerprint = json_peek(&r->json) != JSON_NULL;
        return body->has_fingerprint
                   ? copy_text(r, body->fingerprint, BODY_FINGERPRINT_MAX, &length)
                   : json_null(&r->json);
    }
    *ret_taken = false;
    return true;
}

static bool read_operation(struct reading *r, enum endpoint endpoint, struct json_text name)
{
    struct body *body = r->body;
    switch (endpoint) {
    case ENDPOINT_INITIALIZE:
        if (json_text_is(name, "num_pages")) {
            r->has_num_pages = true;
            return expect(r, "num_pages", "a whole number from 1 to 1,073,741,824") &&
                   json_uint64(&r->json, &body->num_pages);
        }
        break;
    case ENDPOINT_RESERVE:
        if (json_text_is(name, "keys"))
            return expect(r, "keys", "a list of [key, prefix], both strings") && read_pairs(r);
        if (json_text_is(name, "generations"))
            return expect(r, "generations", "true or false") && read_flag(r, &body->generations);
        if (json_text_is(name, "owner"))
            return expect(r, "owner", "a string, or a whole number from 1 to 2^64 - 1") &&
                   read_owner(r, &body->owner);
        break;
    case ENDPOINT_GET:
    case ENDPOINT_EXISTS:
        if (json_text_is(name, "checksums"))
            return expect(r, "checksums", "true or false") && read_flag(r, &body->checksums);
        if (json_text_is(name, "keys"))
            return expect(r, "keys", "a list of strings") && read_keys(r);
        break;
    case ENDPOINT_DELETE:
        if (json_text_is(name, "keys"))
            return expect(r, "keys", "a list of strings") && read_keys(r);
        break;
    case ENDPOINT_CONFIRM:
        if (json_text_is(name, "written_keys_to_confirm"))
            return expect(r, "written_keys_to_confirm",
                          "a list of [key, page], [key, page, generation] or [key, page, "
                          "generation, checksum], pages and generations whole numbers, checksums "
                          "16 hex digits") &&
                   read_confirms(r);
        if (json_text_is(name, "pages_to_release"))
            return expect(r, "pages_to_release",
                          "a list of pages, whole numbers, or of [key, page, generation]") &&
                   read_releases(r, false);
        break;
    case ENDPOINT_REPORT_MISMATCH:
        if (json_text_is(name, "pages"))
            return expect(r, "pages", "a list of [key, page, generation]") &&
                   read_releases(r, true);
        break;
    case ENDPOINT_LIST_KEYS:
        if (json_text_is(name, "start"))
            return expect(r, "start", "a whole number, a page") && read_number(r, &body->start);
        if (json_text_is(name, "limit"))
            return expect(r, "limit", "a whole number of keys") && read_number(r, &body->limit);
        break;
    default:
        break;
    }
    expect(r, NULL, NULL);
    return json_skip(&r->json);
}

/* ---- The whole -------------------------------------------------------------------------------*/

static enum kvs_status explain_fault(const struct reading *r, struct kvs_error *error)
{
    char place[JSON_ERROR_TEXT_MAX];
    json_error_text(&r->json, place);
    if (r->limit != NULL)
        return error_set(error, KVS_ERR_REQUEST_LIMIT, r->limit, r->of_what);
    if (r->member == NULL)
        return error_set(error, KVS_ERR_REQUEST_JSON, place);
    struct buffer expected = {0};
    buffer_append_format(&expected, "%s (%s)", r->expected, place);
    enum kvs_status status =
        error_set(error, KVS_ERR_REQUEST_MEMBER, r->member, buffer_text(&expected));
    buffer_done(&expected);
    return status;
}

static enum kvs_status check_missing(const struct reading *r, enum endpoint endpoint,
                                     struct kvs_error *error)
{
    const struct body *body = r->body;
    bool needs_keys = endpoint == ENDPOINT_RESERVE || endpoint == ENDPOINT_GET ||
                      endpoint == ENDPOINT_EXISTS || endpoint == ENDPOINT_DELETE;
    if (needs_keys && !r->has_keys)
        return error_set(error, KVS_ERR_REQUEST_MISSING, "keys");
    if (endpoint == ENDPOINT_REPORT_MISMATCH && !r->has_pages)
        return error_set(error, KVS_ERR_REQUEST_MISSING, "pages");
    if (endpoint != ENDPOINT_INITIALIZE)
        return KVS_OK;
    if (!r->has_num_pages)
        return error_set(error, KVS_ERR_REQUEST_MISSING, "num_pages");
    if (body->num_pages < 1 || body->num_pages > CATALOG_PAGES_MAX)
        return error_set(error, KVS_ERR_REQUEST_MEMBER, "num_pages",
                         "a whole number from 1 to 1,073,741,824");
    return KVS_OK;
}

static void pack_one(const struct body *body, struct key *key, const struct json_text *text)
{
    if (key->suffix == NOT_PACKED)
        key_parse(key, text->text, text->length, body->ns);
}

static void pack(struct body *body)
{
    for (size_t i = 0; i < body->keys; i++)
        pack_one(body, &body->packed[i], &body->texts[i]);
    for (size_t i = 0; i < body->confirms; i++)
        pack_one(body, &body->confirm[i].key, &body->texts[i]);
    for (size_t i = 0; i < body->releases; i++)
        if (body->release[i].has_key)
            pack_one(body, &body->release[i].key, &body->texts[BODY_KEYS_MAX + i]);
}

static void forget(struct body *body)
{
    body->ns[0] = 'k'; /* clients older than the hybrid pools send none */
    body->ns[1] = 'v';
    body->ns[2] = '\0';
    body->ns_length = 2;
    body->bytes_per_page = body->num_pages = body->owner = body->start = body->limit = 0;
    body->has_fingerprint = body->generations = body->checksums = false;
    body->keys = body->confirms = body->releases = 0;
    if (body->unescaped.capacity > HTTP_KEPT_MAX)
        buffer_done(&body->unescaped);
    else
        buffer_clear(&body->unescaped);
}

enum kvs_status body_read(struct body *body, enum endpoint endpoint, struct http_text bytes,
                          struct kvs_error *error)
{
    forget(body);
    struct reading r = {.body = body};
    json_reader_init(&r.json, bytes.text, bytes.length, &body->unescaped, JSON_DEPTH);
    struct json_text name;
    bool taken, going = json_object_begin(&r.json);
    while (going && json_object_next(&r.json, &name))
        going = read_common(&r, name, &taken) && (taken || read_operation(&r, endpoint, name)) &&
                expect(&r, NULL, NULL);
    json_end(&r.json);
    if (body->unescaped.failed)
        return error_set(error, KVS_ERR_NO_MEMORY, "reading the request");
    if (json_failed(&r.json))
        return explain_fault(&r, error);
    enum kvs_status status = check_missing(&r, endpoint, error);
    if (status == KVS_OK)
        pack(body);
    return status;
}
