/* Asking a running server; see server_client.h. libcurl does the HTTP. */
#include "cli/server_client.h"

#include "base/json.h"
#include "base/status.h"
#include "server/auth.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

struct server_client {
    CURL *curl;
    struct curl_slist *headers;
    char *url; /* without a slash at its end */
    char problem[CURL_ERROR_SIZE];
};

bool server_client_is_url(const char *argument)
{
    return strncmp(argument, "http://", 7) == 0 || strncmp(argument, "https://", 8) == 0;
}

static enum kvs_status no_memory(struct kvs_error *error)
{
    return error_set(error, KVS_ERR_NO_MEMORY, "asking a server");
}

static enum kvs_status add_header(struct server_client *client, const char *line,
                                  struct kvs_error *error)
{
    struct curl_slist *longer = curl_slist_append(client->headers, line);
    if (longer == NULL)
        return no_memory(error);
    client->headers = longer;
    return KVS_OK;
}

static enum kvs_status add_token(struct server_client *client, const char *token_file,
                                 struct kvs_error *error)
{
    struct auth auth;
    char line[AUTH_TOKEN_MAX + 32];
    enum kvs_status status = auth_load(token_file, &auth, error);
    if (status != KVS_OK)
        return status;
    snprintf(line, sizeof(line), "Authorization: Bearer %s", auth.token);
    status = add_header(client, line, error);
    explicit_bzero(line, sizeof(line));
    explicit_bzero(&auth, sizeof(auth));
    return status;
}

enum kvs_status server_client_open(const char *url, const char *token_file,
                                   struct server_client **ret_client, struct kvs_error *error)
{
    struct server_client *client = calloc(1, sizeof(*client));
    if (client == NULL)
        return no_memory(error);
    client->url = strdup(url);
    client->curl = curl_easy_init();
    enum kvs_status status = KVS_OK;
    if (client->url == NULL || client->curl == NULL)
        status = no_memory(error);
    if (status == KVS_OK)
        status = add_header(client, "Content-Type: application/json", error);
    if (status == KVS_OK && token_file != NULL)
        status = add_token(client, token_file, error);
    if (status != KVS_OK) {
        server_client_close(client);
        return status;
    }
    size_t length = strlen(client->url);
    while (length > 0 && client->url[length - 1] == '/')
        client->url[--length] = '\0';
    *ret_client = client;
    return KVS_OK;
}

struct server_client *server_client_close(struct server_client *client)
{
    if (client == NULL)
        return NULL;
    curl_slist_free_all(client->headers);
    curl_easy_cleanup(client->curl);
    free(client->url);
    free(client);
    return NULL;
}

static size_t take(char *bytes, size_t size, size_t n, void *arg)
{
    struct buffer *body = arg;
    buffer_append(body, bytes, size * n);
    return body->failed ? 0 : size * n;
}

/* A URL may carry a user and a password: they are not for messages. */
static const char *shown_url(const struct server_client *client)
{
    return strchr(client->url, '@') == NULL ? client->url : "(the URL with credentials)";
}

static enum kvs_status explain_transfer(const struct server_client *client, CURLcode code,
                                        struct kvs_error *error)
{
    const char *problem = client->problem[0] != '\0' ? client->problem : curl_easy_strerror(code);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return error_set(error, KVS_ERR_REMOTE_DEADLINE, shown_url(client),
                         NUM(SERVER_CLIENT_TIMEOUT_S));
    if (code == CURLE_OUT_OF_MEMORY || code == CURLE_WRITE_ERROR)
        return no_memory(error);
    return error_set(error, KVS_ERR_REMOTE_UNREACHABLE, shown_url(client), problem);
}

/* The words of {"detail": "..."}; false when it is something else. */
static bool find_detail(const struct buffer *body, char *detail, size_t capacity)
{
    struct buffer unescaped = {0};
    struct json_reader json;
    struct json_text name, text;
    bool found = false;
    json_reader_init(&json, body->data, body->length, &unescaped, JSON_DEPTH);
    bool going = json_object_begin(&json);
    while (going && json_object_next(&json, &name)) {
        if (json_text_is(name, "detail") && json_string(&json, &text)) {
            found = true;
            snprintf(detail, capacity, "%.*s", (int)text.length, text.text);
            going = true;
        } else {
            going = json_skip(&json);
        }
    }
    buffer_done(&unescaped);
    return found;
}

static enum kvs_status explain_status(const struct server_client *client, long code,
                                      const struct buffer *body, struct kvs_error *error)
{
    char detail[KVS_ERROR_MESSAGE_MAX], reason[KVS_ERROR_MESSAGE_MAX + 64];
    if (!find_detail(body, detail, sizeof(detail)))
        snprintf(detail, sizeof(detail), "no reason given");
    if (code == 401)
        return error_set(error, KVS_ERR_REMOTE_AUTH, shown_url(client), detail);
    snprintf(reason, sizeof(reason), "HTTP %ld: %s", code, detail);
    return error_set(error, KVS_ERR_REMOTE_ANSWER, shown_url(client), reason);
}

enum kvs_status server_client_ask(struct server_client *client, const char *path, const char *body,
                                  struct buffer *ret_body, struct kvs_error *error)
{
    struct buffer url = {0};
    buffer_append_format(&url, "%s%s", client->url, path);
    if (url.failed) {
        buffer_done(&url);
        return no_memory(error);
    }
    buffer_clear(ret_body);
    client->problem[0] = '\0';
    CURL *curl = client->curl;
    curl_easy_setopt(curl, CURLOPT_URL, buffer_text(&url));
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, client->problem);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, client->headers);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)SERVER_CLIENT_TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret_body);
    if (body == NULL)
        curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
    else
        curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, body);
    CURLcode code = curl_easy_perform(curl);
    buffer_done(&url);
    if (code != CURLE_OK)
        return explain_transfer(client, code, error);
    long http = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http);
    return http >= 200 && http < 300 ? KVS_OK : explain_status(client, http, ret_body, error);
}
