/* Questions by HTTP: a pool of libcurl handles, each with a connection that is kept open, and what
 * their failures mean. It knows nothing of the protocol above it.
 *
 * It lives in somebody else's process: no signal handlers, no descriptors left to children that are
 * executed, no wait beyond a question's time, and in a child of fork() no touch of what belongs to
 * the parent. */
#include "base/status.h"
#include "base/token.h"
#include "metadata/remote_transport.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    IDLE_HANDLES_MAX = 64,    /* more than that many threads at once connect anew */
    IDLE_SECONDS_MAX = 4,     /* SGLang's server closes what was idle for 5 s */
    CONNECT_MS_MAX = 2000,    /* and at most three quarters of a question's time */
    HEADER_BYTES_MAX = 65536, /* of one answer */
    ADDRESS_BYTES_MAX = 1024, /* of a URL without a question's path */
    TOO_LARGE = 100,          /* CURLE_TOO_LARGE, which the headers before 8.6 lack */
};

struct http {
    struct remote_transport transport;
    pid_t owner;
    char *base; /* the URL as given, credentials included, without slashes at its end */
    char *shown;
    bool tls;
    char *authorities; /* a file of certificates to trust; NULL: the system's */
    struct curl_slist *headers;
    pthread_mutex_t mutex;
    CURL *idle[IDLE_HANDLES_MAX];
    size_t idle_count;
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

/* Never undone: the process may use libcurl for itself. */
static void start_curl(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- Handles -------------------------------------------------------------------------------- */

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)arg;
    (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* Options that not every libcurl has. */
static void set_if_known(CURL *curl, const char *name, long value)
{
    const struct curl_easyoption *option = curl_easy_option_by_name(name);
    if (option != NULL)
        curl_easy_setopt(curl, option->id, value);
}

static CURL *new_handle(struct http *http)
{
    CURL *curl = curl_easy_init();
    if (curl == NULL)
        return NULL;
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, http->headers);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "kvshelf/" KVS_VERSION);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXCONNECTS, 1L);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    if (http->authorities != NULL)
        curl_easy_setopt(curl, CURLOPT_CAINFO, http->authorities);
    set_if_known(curl, "MAXAGE_CONN", IDLE_SECONDS_MAX);
    set_if_known(curl, "QUICK_EXIT", 1); /* do not wait for a name server after a timeout */
    return curl;
}

static CURL *take_handle(struct http *http)
{
    CURL *curl = NULL;
    pthread_mutex_lock(&http->mutex);
    if (http->idle_count > 0)
        curl = http->idle[--http->idle_count];
    pthread_mutex_unlock(&http->mutex);
    return curl != NULL ? curl : new_handle(http);
}

static void give_handle(struct http *http, CURL *curl)
{
    pthread_mutex_lock(&http->mutex);
    bool kept = http->idle_count < IDLE_HANDLES_MAX;
    if (kept)
        http->idle[http->idle_count++] = curl;
    pthread_mutex_unlock(&http->mutex);
    if (!kept)
        curl_easy_cleanup(curl);
}

/* ---- One question ---------------------------------------------------------------------------- */

struct attempt {
    const struct remote_question *question;
    struct buffer *answer;
    size_t header_bytes;
    bool too_long;
    char reason[CURL_ERROR_SIZE];
};

static size_t take_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct attempt *attempt = arg;
    size_t length = size * n;
    if (length > attempt->question->answer_max_bytes - attempt->answer->length) {
        attempt->too_long = true;
        return 0;
    }
    buffer_append(attempt->answer, bytes, length);
    return attempt->answer->failed ? 0 : length;
}

static size_t take_header(char *bytes, size_t size, size_t n, void *arg)
{
    (void)bytes;
    struct attempt *attempt = arg;
    attempt->header_bytes += size * n;
    attempt->too_long = attempt->too_long || attempt->header_bytes > HEADER_BYTES_MAX;
    return attempt->too_long ? 0 : size * n;
}

/* OpenSSL writes to sockets without MSG_NOSIGNAL: a SIGPIPE of ours is taken back before anybody
 * sees it. Without TLS libcurl suppresses it by itself. */
static CURLcode perform_quietly(CURL *curl)
{
    sigset_t pipe_only, before, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    CURLcode code = curl_easy_perform(curl);
    const struct timespec now = {0};
    if (!was_pending)
        while (sigtimedwait(&pipe_only, NULL, &now) == SIGPIPE)
            continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

/* Whether the connection that was kept, if any, waits for a question. What lies there already was
 * not asked for (a proxy's word before it closes, an answer that was sent twice), and libcurls
 * before 8.1 would take it for the next answer. */
static bool is_quiet(CURL *curl)
{
    char byte;
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (curl_easy_getinfo(curl, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD)
        return true;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

static CURLcode attempt_once(struct http *http, CURL *curl, struct attempt *attempt)
{
    const struct remote_question *question = attempt->question;
    uint64_t left_ms = question->timeout_ms;
    if (left_ms == 0)
        return CURLE_OPERATION_TIMEDOUT;
    uint64_t connect_ms = left_ms - left_ms / 4;
    if (connect_ms > CONNECT_MS_MAX)
        connect_ms = CONNECT_MS_MAX;
    attempt->header_bytes = 0;
    attempt->too_long = false;
    attempt->reason[0] = '\0';
    buffer_clear(attempt->answer);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)left_ms);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect_ms > 0 ? connect_ms : 1));
    /* libcurl itself asks again when a connection it kept turns out to be dead. */
    curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, question->repeatable && is_quiet(curl) ? 0L : 1L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, attempt->reason);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, attempt);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, attempt);
    if (question->body == NULL) {
        curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
    } else {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, question->body);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)question->body_bytes);
    }
    CURLcode code = http->tls ? perform_quietly(curl) : curl_easy_perform(curl);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, NULL);
    if (code != CURLE_OK && attempt->reason[0] == '\0')
        snprintf(attempt->reason, sizeof(attempt->reason), "%s", curl_easy_strerror(code));
    return code;
}

/* ---- What became of it ---------------------------------------------------------------------- */

/* The connection was made and ended before the answer did. */
static bool is_broken(CURLcode code)
{
    return code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING ||
           code == CURLE_PARTIAL_FILE;
}

/* Without a connection nothing was sent. */
static bool is_connected(CURL *curl)
{
    curl_off_t begun_us = 0;
    return curl_easy_getinfo(curl, CURLINFO_PRETRANSFER_TIME_T, &begun_us) == CURLE_OK &&
           begun_us > 0;
}

static bool is_unreachable(CURL *curl, CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_PROXY:
        return true;
    case CURLE_OPERATION_TIMEDOUT:
        return !is_connected(curl);
    default:
        return false;
    }
}

static enum kvs_status explain(const struct http *http, CURL *curl, const struct attempt *attempt,
                               CURLcode code, struct kvs_error *error)
{
    char text[64];
    const struct remote_question *question = attempt->question;
    if (attempt->too_long) {
        snprintf(text, sizeof(text), "it is longer than %zu bytes", question->answer_max_bytes);
        return error_set(error, KVS_ERR_REMOTE_ANSWER, http->shown, text);
    }
    if (attempt->answer->failed)
        return error_set(error, KVS_ERR_NO_MEMORY, "asking the metadata server");
    /* What libcurl says of an endless header line, before and since 8.6. */
    if (code == CURLE_OUT_OF_MEMORY || (unsigned)code == TOO_LARGE)
        return error_set(error, KVS_ERR_REMOTE_ANSWER, http->shown,
                         "its headers are longer than libcurl takes, or memory ran out");
    if (question->timeout_ms > 0 && is_unreachable(curl, code))
        return error_set(error, KVS_ERR_REMOTE_UNREACHABLE, http->shown, attempt->reason);
    if (code == CURLE_OPERATION_TIMEDOUT) {
        snprintf(text, sizeof(text), "%g", (double)question->timeout_ms / 1000);
        return error_set(error, KVS_ERR_REMOTE_DEADLINE, http->shown, text);
    }
    if (is_broken(code))
        return error_set(error, KVS_ERR_REMOTE_BROKEN, http->shown, attempt->reason);
    return error_set(error, KVS_ERR_REMOTE_ANSWER, http->shown, attempt->reason);
}

static enum kvs_status ask(struct remote_transport *transport,
                           const struct remote_question *question, int *ret_http_status,
                           struct buffer *ret_answer, struct kvs_error *error)
{
    struct http *http = (struct http *)transport;
    if (getpid() != http->owner)
        return error_set(error, KVS_ERR_STORE_UNUSABLE, "it was opened before fork()");
    char url[2 * ADDRESS_BYTES_MAX];
    CURL *curl = take_handle(http);
    if (curl == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "asking the metadata server");
    snprintf(url, sizeof(url), "%s%s", http->base, question->path);
    enum kvs_status status = KVS_OK;
    struct attempt attempt = {.question = question, .answer = ret_answer};
    CURLcode code = curl_easy_setopt(curl, CURLOPT_URL, url);
    if (code == CURLE_OK)
        code = attempt_once(http, curl, &attempt);
    long http_status = 0;
    if (code != CURLE_OK)
        status = explain(http, curl, &attempt, code, error);
    else
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http_status);
    give_handle(http, curl);
    if (status == KVS_OK)
        *ret_http_status = (int)http_status;
    return status;
}

/* ---- Opening and closing -------------------------------------------------------------------- */

static struct remote_transport *close_http(struct remote_transport *transport)
{
    struct http *http = (struct http *)transport;
    if (http == NULL || getpid() != http->owner)
        return NULL;
    for (size_t i = 0; i < http->idle_count; i++)
        curl_easy_cleanup(http->idle[i]);
    for (struct curl_slist *header = http->headers; header != NULL; header = header->next)
        explicit_bzero(header->data, strlen(header->data)); /* the token */
    curl_slist_free_all(http->headers);
    pthread_mutex_destroy(&http->mutex);
    if (http->base != NULL)
        explicit_bzero(http->base, strlen(http->base)); /* the credentials */
    free(http->base);
    free(http->shown);
    free(http->authorities);
    free(http);
    return NULL;
}

/* An '@' behind the first of these is most likely the end of credentials that hold one of them, so
 * that what is taken for the host is part of a secret. */
static bool has_bare_credentials(const char *url)
{
    const char *authority = strstr(url, "://") + 3;
    return strchr(authority + strcspn(authority, "/?#"), '@') != NULL;
}

/* The URL of messages. NULL when it cannot be one of a server. */
static char *shown_url(const char *url, const char **ret_problem)
{
    char *shown = NULL, *part = NULL;
    CURLU *parts = curl_url();
    if (parts == NULL)
        return NULL;
    *ret_problem = "it must begin with http:// or https://, for example http://127.0.0.1:18000";
    bool good = strlen(url) < ADDRESS_BYTES_MAX &&
                (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0);
    if (good && has_bare_credentials(url)) {
        *ret_problem = "percent-encode the password (/ is %2F) or use --token-file "
                       "(metadata_token_file in a configuration)";
        good = false;
    } else if (good) {
        *ret_problem =
            "it must be the whole address of a server, for example http://127.0.0.1:18000";
    }
    good = good && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK;
    if (good && (curl_url_get(parts, CURLUPART_QUERY, &part, 0) == CURLUE_OK ||
                 curl_url_get(parts, CURLUPART_FRAGMENT, &part, 0) == CURLUE_OK)) {
        *ret_problem = "it must end before '?' and '#': give the address of the server alone";
        good = false;
    }
    curl_free(part);
    if (good) {
        curl_url_set(parts, CURLUPART_USER, NULL, 0);
        curl_url_set(parts, CURLUPART_PASSWORD, NULL, 0);
        good = curl_url_get(parts, CURLUPART_URL, &part, 0) == CURLUE_OK;
        shown = good ? strdup(part) : NULL;
        if (good)
            curl_free(part);
    }
    curl_url_cleanup(parts);
    return shown;
}

/* What may be a secret is not shown. */
static enum kvs_status refuse_url(const char *url, const char *problem, struct kvs_error *error)
{
    char shown[256] = "(a URL with credentials)";
    if (strchr(url, '@') == NULL)
        snprintf(shown, sizeof(shown), "%.*s", (int)strcspn(url, "?#"), url);
    return error_set(error, KVS_ERR_CONFIG_VALUE, shown, "metadata_server_url", problem);
}

static void strip_slashes(char *url)
{
    for (size_t length = strlen(url); length > 0 && url[length - 1] == '/'; length--)
        url[length - 1] = '\0';
}

/* Which certificates are trusted, by the variables that the curl program and OpenSSL go by. */
static char *find_authorities(void)
{
    static const char *const variables[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE"};
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *path = getenv(variables[i]);
        if (path != NULL && path[0] != '\0')
            return strdup(path);
    }
    return NULL;
}

static bool add_header(struct http *http, const char *line)
{
    struct curl_slist *longer = curl_slist_append(http->headers, line);
    if (longer != NULL)
        http->headers = longer;
    return longer != NULL;
}

static enum kvs_status add_headers(struct http *http, const char *token_file,
                                   struct kvs_error *error)
{
    static const char bearer[] = "Authorization: Bearer ";
    char line[sizeof(bearer) + TOKEN_MAX], token[TOKEN_MAX + 1];
    size_t length;
    /* Without "Expect:" libcurl waits for a 100 before a long body. */
    bool good = add_header(http, "Content-Type: application/json") && add_header(http, "Expect:");
    if (good && token_file != NULL) {
        enum kvs_status status = token_read(token_file, token, &length, error);
        if (status != KVS_OK)
            return status;
        snprintf(line, sizeof(line), "%s%s", bearer, token);
        good = add_header(http, line);
        explicit_bzero(token, sizeof(token));
        explicit_bzero(line, sizeof(line));
    }
    return good ? KVS_OK : error_set(error, KVS_ERR_NO_MEMORY, "opening a metadata client");
}

enum kvs_status remote_http_open(const char *url, const char *token_file,
                                 struct remote_transport **ret_transport, struct kvs_error *error)
{
    pthread_once(&curl_once, start_curl);
    struct http *http = curl_ready == CURLE_OK ? calloc(1, sizeof(*http)) : NULL;
    if (http == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "starting libcurl");
    http->owner = getpid();
    http->transport = (struct remote_transport){.ask = ask, .close = close_http};
    pthread_mutex_init(&http->mutex, NULL);
    const char *problem = NULL;
    enum kvs_status status = KVS_OK;
    http->tls = strncmp(url, "https://", 8) == 0;
    http->base = strdup(url);
    http->authorities = http->tls ? find_authorities() : NULL;
    http->shown = shown_url(url, &problem);
    if (http->shown == NULL && problem != NULL)
        status = refuse_url(url, problem, error);
    else if (http->base == NULL || http->shown == NULL)
        status = error_set(error, KVS_ERR_NO_MEMORY, "opening a metadata client");
    else
        status = add_headers(http, token_file, error);
    if (status != KVS_OK) {
        close_http(&http->transport);
        return status;
    }
    strip_slashes(http->base);
    strip_slashes(http->shown);
    http->transport.url = http->shown;
    *ret_transport = &http->transport;
    return KVS_OK;
}
