/* The remote metadata client: the operations of a store as questions to a server, kvshelf's or the
 * original. What goes over the wire is in remote_wire.h, how in remote_transport.h.
 *
 * Whether a server is native shows in its answers: one of the original protocol leaves out
 * generations and checksums. With such a server reserve and confirm are never repeated, because a
 * repetition would reserve further pages, and there is nothing to verify reads with. */
#include "base/clock.h"
#include "base/status.h"
#include "metadata/metadata.h"
#include "metadata/remote_cache.h"
#include "metadata/remote_transport.h"
#include "metadata/remote_wire.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

enum {
    PATH_MAX_BYTES = 64,
    PATIENCE_STEP_MS = 50, /* between attempts to reach a server that is starting */
};

enum server_kind { SERVER_UNKNOWN, SERVER_NATIVE, SERVER_ORIGINAL };

struct remote {
    struct metadata_client client;
    struct metadata_remote_options options;
    struct remote_transport *transport;
    struct remote_cache *cache; /* NULL: none */
    _Atomic int kind;           /* enum server_kind */
    atomic_bool said;           /* what a server of the original protocol lacks */
    uint64_t owner_seed;
    _Atomic uint64_t owners;
};

static struct remote *remote_of(struct metadata_client *client)
{
    return (struct remote *)client;
}

static uint64_t now_ns(const struct remote *remote)
{
    return remote->options.now_ns != NULL ? remote->options.now_ns(remote->options.now_arg)
                                          : clock_mono_ns();
}

/* A token that no other call, of whichever client, has: reserving under it again gives the same
 * pages. Never 0. */
static uint64_t new_owner(struct remote *remote)
{
    uint64_t x = remote->owner_seed +
                 UINT64_C(0x9e3779b97f4a7c15) * (atomic_fetch_add(&remote->owners, 1) + 1);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x == 0 ? 1 : x;
}

static void note_kind(struct remote *remote, bool native)
{
    atomic_store(&remote->kind, native ? SERVER_NATIVE : SERVER_ORIGINAL);
    if (native || atomic_exchange(&remote->said, true))
        return;
    log_line(
        &remote->options.log, KVS_LOG_WARNING,
        remote->options.verified_only
            ? "Metadata server %s keeps no checksums, so that no page read can be verified and "
              "every page is a miss. Use kvshelf serve, or set verify to if_known, with which "
              "a page that is replaced while it is read goes unnoticed."
            : "Metadata server %s keeps no checksums and no generations: a page that is "
              "replaced while it is read goes unnoticed (verify is if_known), and calls whose "
              "answer was lost are not repeated. Use kvshelf serve to have both.",
        remote->transport->url);
}

/* ---- One call ------------------------------------------------------------------------------- */

struct call {
    struct remote *remote;
    const struct metadata_scope *scope;
    struct kvs_error *error;
    uint64_t timeout_ms, until_ns;
    struct buffer body, answer;
    int http_status;
};

static void begin(struct call *call, struct remote *remote, const struct metadata_scope *scope,
                  bool quick, struct kvs_error *error)
{
    const struct metadata_remote_options *options = &remote->options;
    uint64_t timeout_ms = options->timeout_ms;
    uint64_t quick_ms =
        options->exists_timeout_ms != 0 ? options->exists_timeout_ms : METADATA_EXISTS_TIMEOUT_MS;
    if (quick && timeout_ms > quick_ms)
        timeout_ms = quick_ms;
    if (scope->left_ns != 0 && timeout_ms > scope->left_ns / 1000000)
        timeout_ms = scope->left_ns / 1000000;
    *call = (struct call){.remote = remote,
                          .scope = scope,
                          .error = error,
                          .timeout_ms = timeout_ms,
                          .until_ns = now_ns(remote) + timeout_ms * 1000000};
}

static void end(struct call *call)
{
    buffer_done(&call->body);
    buffer_done(&call->answer);
}

static const char *url_of(const struct call *call)
{
    return call->remote->transport->url;
}

/* An answer of status 400 and more as the failure it tells of. Those that say something of the
 * namespace keep their meaning; the others come with the server's words. */
static enum kvs_status explain(struct call *call, const char *operation)
{
    char detail[KVS_ERROR_MESSAGE_MAX], reason[KVS_ERROR_MESSAGE_MAX + 64];
    wire_read_detail(&call->answer, detail);
    snprintf(reason, sizeof(reason), "HTTP status %d to %s%s%s", call->http_status, operation,
             detail[0] == '\0' ? "" : ": ", detail);
    if (call->http_status == 401 || call->http_status == 403)
        return error_set(call->error, KVS_ERR_REMOTE_AUTH, url_of(call), reason);
    const struct error_info *info = detail[0] == '\0' ? NULL : error_match_message(detail);
    if (info != NULL && info->http_status == call->http_status &&
        (info->status == KVS_ERR_NOT_INITIALIZED_SERVER ||
         info->status == KVS_ERR_GEOMETRY_DIFFERS || info->status == KVS_ERR_FINGERPRINT_DIFFERS)) {
        if (call->error != NULL) {
            call->error->status = info->status;
            snprintf(call->error->message, sizeof(call->error->message), "%s", detail);
        }
        return info->status;
    }
    return error_set(call->error, KVS_ERR_REMOTE_ANSWER, url_of(call), reason);
}

static enum kvs_status bad_answer(struct call *call, const char *operation, const char *fault)
{
    char reason[WIRE_FAULT_MAX + 64];
    snprintf(reason, sizeof(reason), "to %s: %s", operation, fault);
    return error_set(call->error, KVS_ERR_REMOTE_ANSWER, url_of(call), reason);
}

/* How a body is asked. */
struct manner {
    const char *operation;
    size_t answer_max_bytes;
    bool repeatable, patient;
};

static uint64_t left_ms(const struct call *call)
{
    uint64_t now = now_ns(call->remote);
    return call->until_ns > now ? (call->until_ns - now + 999999) / 1000000 : 0;
}

static void pause_ms(uint64_t ms)
{
    struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

/* Asks, and asks again: once when the connection broke and that is harmless; as long as there is
 * time while a server that is starting cannot be reached. */
static enum kvs_status ask_in_time(struct call *call, struct remote_question *question,
                                   bool patient)
{
    struct remote_transport *transport = call->remote->transport;
    for (bool repeated = false;;) {
        buffer_clear(&call->answer);
        question->timeout_ms = left_ms(call);
        enum kvs_status status =
            transport->ask(transport, question, &call->http_status, &call->answer, call->error);
        if (status == KVS_ERR_REMOTE_BROKEN && question->repeatable && !repeated) {
            repeated = true;
        } else if (status == KVS_ERR_REMOTE_UNREACHABLE && patient &&
                   left_ms(call) > PATIENCE_STEP_MS) {
            pause_ms(PATIENCE_STEP_MS);
            if (left_ms(call) == 0)
                return status;
        } else if (status == KVS_ERR_REMOTE_DEADLINE) {
            char seconds[32];
            snprintf(seconds, sizeof(seconds), "%g", (double)call->timeout_ms / 1000);
            return error_set(call->error, status, url_of(call), seconds);
        } else {
            return status;
        }
    }
}

/* Sends call->body, which is then empty again; the answer is in call->answer. Succeeds with 200 and
 * 204 only. */
static enum kvs_status ask(struct call *call, const struct manner *manner)
{
    char path[PATH_MAX_BYTES];
    snprintf(path, sizeof(path), "/%" PRIu32 "/%s", call->scope->rank, manner->operation);
    if (call->body.failed)
        return error_set(call->error, KVS_ERR_NO_MEMORY, "asking the metadata server");
    struct remote_question question = {
        .path = path,
        .body = call->body.data,
        .body_bytes = call->body.length,
        .answer_max_bytes = manner->answer_max_bytes,
        .repeatable = manner->repeatable,
    };
    enum kvs_status status = ask_in_time(call, &question, manner->patient);
    buffer_clear(&call->body);
    if (status != KVS_OK)
        return status;
    if (call->http_status == 200 || call->http_status == 204)
        return KVS_OK;
    return explain(call, manner->operation);
}

/* A question without an answer but that it was done. */
static enum kvs_status tell(struct call *call, const char *operation, bool repeatable)
{
    const struct manner manner = {
        .operation = operation, .answer_max_bytes = WIRE_ANSWER_MIN, .repeatable = repeatable};
    return ask(call, &manner);
}

/* The parts of a long list from the last to the first, as a catalog goes through one batch: the
 * head of a prefix ends up the youngest. `at` counts down from n. */
static bool next_part(const struct metadata_text keys[], size_t *at, size_t *ret_n)
{
    if (*at == 0)
        return false;
    size_t from = 0, part;
    while ((part = wire_part(keys + from, *at - from)) < *at - from)
        from += part;
    *at = from;
    *ret_n = part;
    return true;
}

/* ---- initialize ----------------------------------------------------------------------------- */

/* An empty get tells what kind of server it is. */
static enum kvs_status find_kind(struct call *call)
{
    static const struct manner manner = {
        .operation = "get_page_indices", .answer_max_bytes = WIRE_ANSWER_MIN, .repeatable = true};
    char fault[WIRE_FAULT_MAX];
    bool native;
    wire_write_keys(&call->body, WIRE_GET, call->scope, NULL, 0, true, 0);
    enum kvs_status status = ask(call, &manner);
    if (status != KVS_OK)
        return status;
    if (!wire_read_found(&call->answer, 0, NULL, &native, fault))
        return bad_answer(call, manner.operation, fault);
    note_kind(call->remote, native);
    return KVS_OK;
}

static enum kvs_status remote_initialize(struct metadata_client *client,
                                         const struct metadata_scope *scope, uint64_t num_pages,
                                         struct kvs_error *error)
{
    static const struct manner manner = {.operation = "initialize",
                                         .answer_max_bytes = WIRE_ANSWER_MIN,
                                         .repeatable = true,
                                         .patient = true};
    struct call call;
    begin(&call, remote_of(client), scope, false, error);
    wire_write_initialize(&call.body, scope, num_pages);
    enum kvs_status status = ask(&call, &manner);
    if (status == KVS_OK)
        status = find_kind(&call);
    end(&call);
    return status;
}

/* ---- reserve -------------------------------------------------------------------------------- */

static enum kvs_status remote_reserve(struct metadata_client *client,
                                      const struct metadata_scope *scope,
                                      const struct metadata_text keys[], size_t n,
                                      struct catalog_reserved ret_reserved[],
                                      struct kvs_error *error)
{
    struct remote *remote = remote_of(client);
    struct call call;
    begin(&call, remote, scope, false, error);
    enum kvs_status status = KVS_OK;
    for (size_t at = n, part; status == KVS_OK && next_part(keys, &at, &part);) {
        char fault[WIRE_FAULT_MAX];
        bool native;
        const struct manner manner = {
            .operation = "reserve_and_allocate_page_indices",
            .answer_max_bytes = WIRE_ANSWER_MIN + part * WIRE_ANSWER_EACH,
            .repeatable = atomic_load(&remote->kind) == SERVER_NATIVE,
        };
        wire_write_keys(&call.body, WIRE_RESERVE, scope, keys + at, part, true, new_owner(remote));
        status = ask(&call, &manner); /* parts that succeeded before a failure expire */
        if (status != KVS_OK)
            break;
        if (wire_read_reserved(&call.answer, part, ret_reserved + at, &native, fault))
            note_kind(remote, native);
        else
            status = bad_answer(&call, manner.operation, fault);
    }
    end(&call);
    return status;
}

/* ---- confirm -------------------------------------------------------------------------------- */

static enum kvs_status confirm_part(struct call *call, const struct metadata_confirm confirms[],
                                    size_t n_confirm, const struct metadata_release releases[],
                                    size_t n_release, enum catalog_rejection ret_reasons[])
{
    struct manner manner = {.operation = "confirm_write", .repeatable = true};
    size_t key_bytes = 0;
    for (size_t i = 0; i < n_confirm; i++) {
        ret_reasons[i] = CATALOG_ACCEPTED;
        key_bytes += confirms[i].key.length;
        manner.repeatable = manner.repeatable && confirms[i].generation != 0;
    }
    for (size_t i = 0; i < n_release; i++) {
        key_bytes += releases[i].key.length;
        manner.repeatable = manner.repeatable && releases[i].generation != 0;
    }
    manner.answer_max_bytes =
        WIRE_ANSWER_MIN + (n_confirm + n_release) * WIRE_REJECTED_EACH + 6 * key_bytes;
    wire_write_confirm(&call->body, call->scope, confirms, n_confirm, releases, n_release);
    enum kvs_status status = ask(call, &manner);
    if (status != KVS_OK || call->http_status == 204)
        return status;
    char fault[WIRE_FAULT_MAX];
    if (wire_read_rejected(&call->answer, confirms, n_confirm, releases, n_release, ret_reasons,
                           fault))
        return KVS_OK;
    return bad_answer(call, manner.operation, fault);
}

enum { CONFIRMS_MAX = 2048 }; /* of one question, and as many releases */

static enum kvs_status remote_confirm(struct metadata_client *client,
                                      const struct metadata_scope *scope,
                                      const struct metadata_confirm confirms[], size_t n_confirm,
                                      const struct metadata_release releases[], size_t n_release,
                                      enum catalog_rejection ret_reasons[], struct kvs_error *error)
{
    struct call call;
    enum catalog_rejection unwanted[CONFIRMS_MAX];
    begin(&call, remote_of(client), scope, false, error);
    enum kvs_status status = KVS_OK;
    while (status == KVS_OK && (n_confirm > 0 || n_release > 0)) {
        size_t confirm = n_confirm < CONFIRMS_MAX ? n_confirm : CONFIRMS_MAX;
        size_t release = n_release < CONFIRMS_MAX ? n_release : CONFIRMS_MAX;
        n_confirm -= confirm;
        n_release -= release;
        status = confirm_part(&call, confirms + n_confirm, confirm, releases + n_release, release,
                              ret_reasons != NULL ? ret_reasons + n_confirm : unwanted);
    }
    end(&call);
    return status;
}

/* ---- get ------------------------------------------------------------------------------------ */

/* Asks for all the keys, whatever their number. */
static enum kvs_status ask_found(struct call *call, const struct metadata_text keys[], size_t n,
                                 bool verifying, struct catalog_found ret_found[], bool *ret_native)
{
    for (size_t at = n, part; next_part(keys, &at, &part);) {
        char fault[WIRE_FAULT_MAX];
        const struct manner manner = {.operation = "get_page_indices",
                                      .answer_max_bytes = WIRE_ANSWER_MIN + part * WIRE_ANSWER_EACH,
                                      .repeatable = true};
        wire_write_keys(&call->body, WIRE_GET, call->scope, keys + at, part, verifying, 0);
        enum kvs_status status = ask(call, &manner);
        if (status != KVS_OK)
            return status;
        if (!wire_read_found(&call->answer, part, ret_found + at, ret_native, fault))
            return bad_answer(call, manner.operation, fault);
    }
    return KVS_OK;
}

/* The keys that have no answer yet, as a list of its own. */
struct rest {
    struct metadata_text *keys;
    struct catalog_found *found;
    size_t *from;
    size_t n;
    void *memory;
};

static bool rest_init(struct rest *rest, size_t n)
{
    rest->memory = malloc(n * (sizeof(*rest->keys) + sizeof(*rest->found) + sizeof(*rest->from)));
    rest->found = rest->memory;
    rest->keys = (struct metadata_text *)(void *)(rest->found + n);
    rest->from = (size_t *)(void *)(rest->keys + n);
    rest->n = 0;
    return rest->memory != NULL;
}

static void rest_add(struct rest *rest, const struct metadata_text keys[], size_t i)
{
    rest->keys[rest->n] = keys[i];
    rest->from[rest->n++] = i;
}

/* Pages without a checksum are absent to who asks for checksums: asked for again, plainly. The
 * server then leases them. */
static enum kvs_status ask_unverified(struct call *call, const struct metadata_text keys[],
                                      size_t n, struct catalog_found found[])
{
    struct rest rest;
    bool native;
    if (!rest_init(&rest, n))
        return error_set(call->error, KVS_ERR_NO_MEMORY, "asking the metadata server");
    for (size_t i = 0; i < n; i++)
        if (found[i].page < 0)
            rest_add(&rest, keys, i);
    enum kvs_status status = ask_found(call, rest.keys, rest.n, false, rest.found, &native);
    for (size_t i = 0; status == KVS_OK && i < rest.n; i++)
        found[rest.from[i]] = rest.found[i];
    free(rest.memory);
    return status;
}

static enum kvs_status find(struct call *call, const struct metadata_text keys[], size_t n,
                            struct catalog_found ret_found[])
{
    struct remote *remote = call->remote;
    bool native = true;
    enum kvs_status status = ask_found(call, keys, n, true, ret_found, &native);
    if (status != KVS_OK || n == 0)
        return status;
    note_kind(remote, native);
    if (!native || remote->options.verified_only)
        return KVS_OK;
    return ask_unverified(call, keys, n, ret_found);
}

static enum kvs_status remote_get(struct metadata_client *client,
                                  const struct metadata_scope *scope,
                                  const struct metadata_text keys[], size_t n,
                                  struct catalog_found ret_found[], struct kvs_error *error)
{
    struct remote *remote = remote_of(client);
    struct call call;
    if (remote->cache != NULL &&
        remote_cache_take(remote->cache, scope, keys, n, now_ns(remote), ret_found))
        return KVS_OK;
    begin(&call, remote, scope, false, error);
    enum kvs_status status = find(&call, keys, n, ret_found);
    end(&call);
    return status;
}

/* ---- exists --------------------------------------------------------------------------------- */

static enum kvs_status ask_exists(struct call *call, const struct metadata_text keys[], size_t n,
                                  bool ret_exists[])
{
    struct remote *remote = call->remote;
    size_t at = n, part = 0;
    do {
        char fault[WIRE_FAULT_MAX];
        const struct manner manner = {.operation = "exists",
                                      .answer_max_bytes = WIRE_ANSWER_MIN + n * WIRE_ANSWER_EACH,
                                      .repeatable = true};
        next_part(keys, &at, &part); /* no keys are asked, too: it is the probe of a server */
        wire_write_keys(&call->body, WIRE_EXISTS, call->scope, keys == NULL ? NULL : keys + at,
                        part, remote->options.verified_only, 0);
        enum kvs_status status = ask(call, &manner);
        if (status != KVS_OK)
            return status;
        if (!wire_read_exists(&call->answer, part, ret_exists == NULL ? NULL : ret_exists + at,
                              fault))
            return bad_answer(call, manner.operation, fault);
    } while (at > 0);
    bool believed = atomic_load(&remote->kind) != SERVER_ORIGINAL || !remote->options.verified_only;
    for (size_t i = 0; i < n && !believed; i++)
        ret_exists[i] = false; /* it could not be verified */
    return KVS_OK;
}

/* The same by asking for the pages, which are then remembered for the get that follows. */
static enum kvs_status look_ahead(struct call *call, const struct metadata_text keys[], size_t n,
                                  bool ret_exists[])
{
    struct remote *remote = call->remote;
    struct catalog_found *found = malloc(n * sizeof(*found));
    if (found == NULL)
        return error_set(call->error, KVS_ERR_NO_MEMORY, "asking the metadata server");
    /* As old as the question: what the server does after it has answered is not in the answer. */
    uint64_t epoch = remote_cache_epoch(remote->cache, call->scope), asked_ns = now_ns(remote);
    enum kvs_status status = find(call, keys, n, found);
    if (status == KVS_OK) {
        remote_cache_put(remote->cache, call->scope, epoch, keys, found, n, asked_ns);
        for (size_t i = 0; i < n; i++)
            ret_exists[i] =
                found[i].page >= 0 && (found[i].has_checksum || !remote->options.verified_only);
    }
    free(found);
    return status;
}

static enum kvs_status remote_exists(struct metadata_client *client,
                                     const struct metadata_scope *scope,
                                     const struct metadata_text keys[], size_t n, bool ret_exists[],
                                     struct kvs_error *error)
{
    struct remote *remote = remote_of(client);
    struct call call;
    begin(&call, remote, scope, n > 0, error); /* without keys it has to find the server */
    bool ahead = remote->cache != NULL && n > 0 && atomic_load(&remote->kind) != SERVER_ORIGINAL;
    enum kvs_status status =
        ahead ? look_ahead(&call, keys, n, ret_exists) : ask_exists(&call, keys, n, ret_exists);
    end(&call);
    return status;
}

/* ---- delete, clear, report ------------------------------------------------------------------ */

static void forget(struct remote *remote, const struct metadata_scope *scope)
{
    if (remote->cache != NULL)
        remote_cache_drop(remote->cache, scope);
}

static enum kvs_status remote_delete(struct metadata_client *client,
                                     const struct metadata_scope *scope,
                                     const struct metadata_text keys[], size_t n,
                                     struct kvs_error *error)
{
    struct call call;
    begin(&call, remote_of(client), scope, false, error);
    enum kvs_status status = KVS_OK;
    for (size_t at = n, part; status == KVS_OK && next_part(keys, &at, &part);) {
        wire_write_keys(&call.body, WIRE_DELETE, scope, keys + at, part, false, 0);
        status = tell(&call, "delete_keys", true);
    }
    forget(call.remote, scope);
    end(&call);
    return status;
}

static enum kvs_status remote_clear(struct metadata_client *client,
                                    const struct metadata_scope *scope, struct kvs_error *error)
{
    struct call call;
    begin(&call, remote_of(client), scope, false, error);
    wire_write_clear(&call.body, scope);
    enum kvs_status status = tell(&call, "clear", false);
    forget(call.remote, scope);
    end(&call);
    return status;
}

/* A server of the original protocol has no checksums that could be wrong. */
static enum kvs_status remote_report(struct metadata_client *client,
                                     const struct metadata_scope *scope,
                                     const struct metadata_release pages[], size_t n,
                                     struct kvs_error *error)
{
    struct remote *remote = remote_of(client);
    struct call call;
    if (atomic_load(&remote->kind) == SERVER_ORIGINAL)
        return KVS_OK;
    begin(&call, remote, scope, false, error);
    enum kvs_status status = KVS_OK;
    while (status == KVS_OK && n > 0) {
        size_t part = n < CONFIRMS_MAX ? n : CONFIRMS_MAX;
        n -= part;
        wire_write_report(&call.body, scope, pages + n, part);
        status = tell(&call, "report_mismatch", true);
    }
    end(&call);
    return status;
}

/* ---- Opening and closing -------------------------------------------------------------------- */

static struct metadata_client *remote_close(struct metadata_client *client)
{
    struct remote *remote = remote_of(client);
    if (client == NULL)
        return NULL;
    remote->transport->close(remote->transport);
    remote_cache_free(remote->cache);
    free(remote);
    return NULL;
}

static const struct metadata_ops remote_ops = {
    .initialize = remote_initialize,
    .reserve_and_allocate_page_indices = remote_reserve,
    .confirm_write = remote_confirm,
    .get_page_indices = remote_get,
    .exists = remote_exists,
    .delete_keys = remote_delete,
    .clear = remote_clear,
    .report_mismatch = remote_report,
    .close = remote_close,
};

enum kvs_status metadata_remote_open(const struct metadata_remote_options *options,
                                     struct metadata_client **ret_client, struct kvs_error *error)
{
    struct remote_transport *transport = options->transport;
    enum kvs_status status = KVS_OK;
    if (transport == NULL)
        status = remote_http_open(options->url, options->token_file, &transport, error);
    if (status != KVS_OK)
        return status;
    struct remote *remote = calloc(1, sizeof(*remote));
    if (remote != NULL && options->cache_ms > 0) {
        remote->cache = remote_cache_new(options->cache_ms * 1000000);
        if (remote->cache == NULL) {
            free(remote);
            remote = NULL;
        }
    }
    if (remote == NULL) {
        transport->close(transport);
        return error_set(error, KVS_ERR_NO_MEMORY, "opening a metadata client");
    }
    remote->client.ops = &remote_ops;
    remote->options = *options;
    remote->transport = transport;
    if (getrandom(&remote->owner_seed, sizeof(remote->owner_seed), 0) < 0)
        remote->owner_seed = clock_wall_us() ^ (uint64_t)(uintptr_t)remote;
    *ret_client = &remote->client;
    return KVS_OK;
}
