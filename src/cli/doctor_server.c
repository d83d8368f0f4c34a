/* What doctor looks at in a metadata server: who answers, whether it lets this client in, what its
 * clock says, what the namespace of this rank holds, and how long a question takes. */
#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/doctor.h"
#include "cli/namespace_find.h"
#include "cli/namespaces.h"
#include "metadata/metadata.h"
#include "metadata/remote_transport.h"
#include "metadata/remote_wire.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ROUND_TRIPS = 21, ANSWER_MAX_BYTES = 16 << 20, LATENCY_PATH_BYTES = 64 };
static const uint64_t CLOCKS_APART_MS = 5000;
static const uint64_t SLOW_NS = 20 * 1000 * 1000; /* a tenth of what exists waits for */

struct visit {
    const struct kvs_store_options *options;
    struct doctor_report *report;
    uint64_t num_pages;
    struct remote_transport *transport;
    uint32_t rank;
    const char *ns;
    bool found;
};

/* ---- Who answers ---------------------------------------------------------------------------- */

static void say_original(struct visit *v, int http_status)
{
    bool verified = v->options->verify == KVS_VERIFY_REQUIRED;
    doctor_say(
        v->report, verified ? DOCTOR_ERROR : DOCTOR_WARNING, "server",
        verified ? "Use kvshelf serve; or set verify to if_known, with which a page that is "
                   "replaced while it is read goes unnoticed."
                 : "Use kvshelf serve, which keeps checksums.",
        "%s answers, but not as kvshelf serve (status %d to /api/status): it may be SGLang's "
        "own server, which keeps no checksums%s.",
        v->transport->url, http_status, verified ? ", so that every page would be a miss" : "");
}

/* The answer was made between `begin_ms` and `end_ms` of our clock: only what is outside is told.
 */
static void examine_clock(struct visit *v, uint64_t server_ms, uint64_t begin_ms, uint64_t end_ms)
{
    bool ahead = server_ms > end_ms;
    uint64_t apart_ms = ahead                  ? server_ms - end_ms
                        : server_ms < begin_ms ? begin_ms - server_ms
                                               : 0;
    if (server_ms == 0) /* it does not say */
        return;
    if (apart_ms > CLOCKS_APART_MS)
        doctor_say(v->report, DOCTOR_WARNING, "clock", "Let both machines follow a time server.",
                   "The server's clock is %s %s this machine's, so that lines of the two logs do "
                   "not line up. Nothing else depends on it: the server counts leases, "
                   "reservations and rests, and this side its deadlines, with clocks that nobody "
                   "sets.",
                   DURATION_NS(apart_ms * 1000000), ahead ? "ahead of" : "behind");
    else
        doctor_say(v->report, DOCTOR_OK, "clock", NULL,
                   "The server's clock and this machine's agree within %s.",
                   DURATION_NS(CLOCKS_APART_MS * 1000000));
}

/* False when there is nobody to ask further. */
static bool examine_status(struct visit *v, struct buffer *status)
{
    const struct remote_question question = {
        .path = "/api/status",
        .timeout_ms = (uint64_t)(v->options->client_timeout * 1000 + 0.5),
        .answer_max_bytes = ANSWER_MAX_BYTES,
        .repeatable = true,
    };
    struct kvs_error error;
    struct server_facts facts;
    int http_status = 0;
    uint64_t begin_ms = clock_wall_us() / 1000;
    if (v->transport->ask(v->transport, &question, &http_status, status, &error) != KVS_OK) {
        doctor_say_error(v->report, "server", &error);
        return false;
    }
    uint64_t end_ms = clock_wall_us() / 1000;
    if (http_status == 401 || http_status == 403) {
        char detail[KVS_ERROR_MESSAGE_MAX];
        wire_read_detail(status, detail);
        error_set(&error, KVS_ERR_REMOTE_AUTH, v->transport->url,
                  detail[0] == '\0' ? "no reason given" : detail);
        doctor_say_error(v->report, "server", &error);
        return false;
    }
    server_facts_read(status, &facts);
    if (http_status != 200 || facts.version[0] == '\0') {
        say_original(v, http_status);
        buffer_clear(status);
        return true;
    }
    if (strcmp(facts.version, KVS_VERSION) != 0) {
        doctor_say(v->report, DOCTOR_WARNING, "server", "Run the same release on both sides.",
                   "%s is kvshelf %s, this is %s.", v->transport->url, facts.version, KVS_VERSION);
    } else {
        doctor_say(v->report, DOCTOR_OK, "server", NULL, "%s is kvshelf %s%s.", v->transport->url,
                   facts.version,
                   v->options->metadata_token_file != NULL ? " and takes the token" : "");
    }
    if (facts.forgets)
        doctor_say(v->report, DOCTOR_WARNING, "server", "Start it with --data-dir DIR.",
                   "%s keeps its catalogs in memory only: when it is restarted every page is "
                   "forgotten.",
                   v->transport->url);
    examine_clock(v, facts.time_ms, begin_ms, end_ms);
    return true;
}

/* ---- What it holds -------------------------------------------------------------------------- */

static enum kvs_status examine_row(void *arg, const struct namespace_row *row,
                                   struct kvs_error *error)
{
    (void)error;
    struct visit *v = arg;
    struct kvs_error fault;
    if (row->rank != v->rank || !json_text_is(row->ns, v->ns))
        return KVS_OK;
    v->found = true;
    if (namespace_check(row, v->ns, v->options, v->num_pages, &fault) != KVS_OK)
        doctor_say_refused(v->report, "namespace", v->options, &fault);
    else
        doctor_say(v->report, DOCTOR_OK, "namespace", NULL,
                   "'%s' of rank %" PRIu32 " is there with %s page%s, %s of them with a key.",
                   v->ns, v->rank, COUNT(row->num_pages), row->num_pages == 1 ? "" : "s",
                   COUNT(row->pages.committed));
    return KVS_OK;
}

static void examine_namespace(struct visit *v, const struct buffer *status)
{
    struct kvs_error error;
    if (status->length == 0)
        return;
    if (namespaces_read(status, examine_row, v, &error) != KVS_OK)
        doctor_say_error(v->report, "namespace", &error);
    else if (!v->found)
        doctor_say(v->report, DOCTOR_OK, "namespace", NULL,
                   "'%s' of rank %" PRIu32 " will be created.", v->ns, v->rank);
}

/* ---- How long it takes ---------------------------------------------------------------------- */

static int compare_times(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* What is asked over one connection that is kept open. Of kvshelf something that it always grants:
 * to look must not count as refused requests, which people are alerted by. SGLang's server knows
 * the operations alone. */
static struct remote_question latency_question(const struct visit *v, bool is_kvshelf,
                                               char path[LATENCY_PATH_BYTES])
{
    static const char body[] = "{\"keys\":[]}";
    snprintf(path, LATENCY_PATH_BYTES, "/%" PRIu32 "/exists", v->rank);
    return (struct remote_question){
        .path = is_kvshelf ? "/health" : path,
        .body = is_kvshelf ? NULL : body,
        .body_bytes = is_kvshelf ? 0 : sizeof(body) - 1,
        .timeout_ms = (uint64_t)(v->options->client_timeout * 1000 + 0.5),
        .answer_max_bytes = 65536,
        .repeatable = true,
    };
}

static void examine_latency(struct visit *v, bool is_kvshelf)
{
    uint64_t times_ns[ROUND_TRIPS];
    struct buffer answer = {0};
    struct kvs_error error;
    char path[LATENCY_PATH_BYTES];
    int http_status;
    const struct remote_question question = latency_question(v, is_kvshelf, path);
    enum kvs_status status = KVS_OK;
    for (size_t i = 0; i < ROUND_TRIPS && status == KVS_OK; i++) {
        uint64_t begin_ns = clock_mono_ns();
        status = v->transport->ask(v->transport, &question, &http_status, &answer, &error);
        times_ns[i] = clock_mono_ns() - begin_ns;
    }
    buffer_done(&answer);
    if (status != KVS_OK) {
        doctor_say_error(v->report, "latency", &error);
        return;
    }
    qsort(times_ns, ROUND_TRIPS, sizeof(times_ns[0]), compare_times);
    uint64_t median_ns = times_ns[ROUND_TRIPS / 2];
    bool slow = median_ns > SLOW_NS;
    doctor_say(v->report, slow ? DOCTOR_WARNING : DOCTOR_OK, "latency",
               slow ? "Put the server nearer: each lookup of an engine waits for it, 200 ms at "
                      "most, and is a miss then."
                    : NULL,
               "A question takes %s (median of %d, the longest %s).", DURATION_NS(median_ns),
               ROUND_TRIPS, DURATION_NS(times_ns[ROUND_TRIPS - 1]));
}

void doctor_examine_server(const struct kvs_store_options *options, uint64_t num_pages,
                           struct doctor_report *report)
{
    struct kvs_error error;
    struct visit v = {.options = options, .report = report, .num_pages = num_pages};
    if (remote_http_open(options->metadata_server_url, options->metadata_token_file, &v.transport,
                         &error) != KVS_OK) {
        doctor_say_error(report, "server", &error);
        return;
    }
    struct buffer ns = {0}, status = {0};
    v.rank = namespace_meant(options, &ns);
    v.ns = buffer_text(&ns);
    report->failed = report->failed || ns.failed;
    if (examine_status(&v, &status)) {
        examine_namespace(&v, &status);
        examine_latency(&v, status.length > 0);
    }
    buffer_done(&ns);
    buffer_done(&status);
    v.transport->close(v.transport);
}
