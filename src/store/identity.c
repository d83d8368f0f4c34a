/* Names of shards, paths, namespaces and fingerprints as texts. */
#include "store/identity.h"

#include "base/text.h"

#include <string.h>

bool identity_replicated(const struct kvs_store_options *options, bool is_kv, bool pool_replicated)
{
    return options->is_mla_model && (is_kv || pool_replicated);
}

uint32_t identity_rank(const struct kvs_store_options *options, bool replicated)
{
    return replicated ? 0 : options->tp_rank;
}

static void append_axis(struct buffer *out, size_t start, const char *axis, uint32_t rank,
                        uint32_t size)
{
    if (size > 1)
        buffer_append_format(out, "%s%s%uof%u", out->length > start ? "." : "", axis, rank, size);
}

void identity_shard(const struct kvs_store_options *options, struct buffer *out)
{
    size_t start = out->length;
    append_axis(out, start, "pp", options->pp_rank, options->pp_size);
    append_axis(out, start, "cp", options->cp_rank, options->cp_size);
    if (!options->share_across_dp)
        append_axis(out, start, "dp", options->dp_rank, options->dp_size);
}

/* {prefix}.[{shard}.]{rank}.bin[.{pool}] */
static void append_path(struct buffer *out, const char *prefix, const char *shard, uint32_t rank,
                        const char *pool, size_t pool_length)
{
    buffer_append_format(out, "%s.%s%s%u.bin", prefix, shard, shard[0] != '\0' ? "." : "", rank);
    if (pool == NULL)
        return;
    buffer_append_char(out, '.');
    text_percent_encode(out, pool, pool_length);
}

void identity_path(const struct kvs_store_options *options, uint32_t rank, const char *pool,
                   struct buffer *out)
{
    struct buffer shard = {0};
    identity_shard(options, &shard);
    append_path(out, options->file_path_prefix, buffer_text(&shard), rank, pool,
                pool == NULL ? 0 : strlen(pool));
    out->failed = out->failed || shard.failed;
    buffer_done(&shard);
}

void identity_path_of(const char *prefix, uint32_t rank, const char *ns, struct buffer *out)
{
    const char *at = strchr(ns, '@');
    size_t length = at == NULL ? strlen(ns) : (size_t)(at - ns);
    bool is_kv = length == 2 && memcmp(ns, "kv", 2) == 0;
    append_path(out, prefix, at == NULL ? "" : at + 1, rank, is_kv ? NULL : ns, length);
}

void identity_namespace(const struct kvs_store_options *options, const char *pool,
                        struct buffer *out)
{
    buffer_append_text(out, pool == NULL ? "kv" : pool);
    size_t at = out->length;
    buffer_append_char(out, '@');
    identity_shard(options, out);
    if (!out->failed && out->length == at + 1)
        out->length = at;
}

/* Texts come from outside: what separates members is written as %xx. */
static void append_member(struct buffer *out, const char *name, const char *value)
{
    if (value == NULL || value[0] == '\0')
        return;
    buffer_append_format(out, "%s=", name);
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == ';' || *c == '%' || (unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
            buffer_append_format(out, "%%%02x", (unsigned char)*c);
        else
            buffer_append_char(out, *c);
    }
    buffer_append_char(out, ';');
}

struct stated {
    const char *name, *value;
};
#define STATED_TEXTS 4

static void list_stated(const struct kvs_store_options *options, struct stated stated[STATED_TEXTS])
{
    stated[0] = (struct stated){"model", options->model};
    stated[1] = (struct stated){"revision", options->revision};
    stated[2] = (struct stated){"dtype", options->dtype};
    stated[3] = (struct stated){"layout", options->layout};
}

void identity_fingerprint(const struct kvs_store_options *options, bool pairs,
                          uint64_t bytes_per_page, struct buffer *out)
{
    size_t start = out->length;
    struct stated stated[STATED_TEXTS];
    list_stated(options, stated);
    for (size_t i = 0; i < STATED_TEXTS; i++)
        append_member(out, stated[i].name, stated[i].value);
    if (options->page_size != 0)
        buffer_append_format(out, "page_size=%u;", options->page_size);
    if (out->length > start)
        buffer_append_format(out, "pairs=%d;bytes_per_page=%llu", pairs,
                             (unsigned long long)bytes_per_page);
}

/* Whether a member of this name is in the fingerprint with another value. `member` is
 * "name=value;".
 */
static bool contradicts(const char *fingerprint, size_t length, const char *member,
                        size_t name_length)
{
    for (size_t at = 0, end; at < length; at = end + 1) {
        const char *semicolon = memchr(fingerprint + at, ';', length - at);
        end = semicolon == NULL ? length : (size_t)(semicolon - fingerprint);
        if (end - at < name_length || memcmp(fingerprint + at, member, name_length) != 0)
            continue;
        return strlen(member) - 1 != end - at || memcmp(fingerprint + at, member, end - at) != 0;
    }
    return false;
}

bool identity_agrees(const struct kvs_store_options *options, const char *fingerprint,
                     size_t length, struct buffer *out)
{
    struct stated stated[STATED_TEXTS];
    struct buffer member = {0}, all = {0};
    bool agrees = true;
    list_stated(options, stated);
    for (size_t i = 0; i < STATED_TEXTS; i++) {
        buffer_clear(&member);
        append_member(&member, stated[i].name, stated[i].value);
        buffer_append(&all, member.data, member.length);
        if (member.length > 0 &&
            contradicts(fingerprint, length, buffer_text(&member), strlen(stated[i].name) + 1))
            agrees = false;
    }
    if (!agrees && all.length > 0)
        buffer_append(out, all.data, all.length - 1); /* without the last ; */
    out->failed = out->failed || member.failed || all.failed;
    buffer_done(&member);
    buffer_done(&all);
    return agrees;
}
