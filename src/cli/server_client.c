/* Asking a running server; see server_client.h. The HTTP is the remote metadata client's. */
#include "cli/server_client.h"

#include "base/status.h"
#include "cli/waiting.h"
#include "metadata/remote_transport.h"
#include "metadata/remote_wire.h"

#include <stdlib.h>
#include <string.h>

enum {
    ANSWER_MAX_BYTES = 256 << 20
}; /* thousands of namespaces, and the keys of one page of a list */

struct server_client {
    struct remote_transport *transport;
    uint64_t timeout_ms;
    bool says_waiting;
    int http_status; /* of the last answer; 0: none */
};

bool server_client_is_url(const char *argument)
{
    return strncmp(argument, "http://", 7) == 0 || strncmp(argument, "https://", 8) == 0;
}

enum kvs_status server_client_open(const char *url, const char *token_file,
                                   struct server_client **ret_client, struct kvs_error *error)
{
    struct server_client *client = calloc(1, sizeof(*client));
    if (client == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "asking a server");
    enum kvs_status status = remote_http_open(url, token_file, &client->transport, error);
    if (status != KVS_OK) {
        free(client);
        return status;
    }
    client->timeout_ms = SERVER_CLIENT_TIMEOUT_S * 1000;
    *ret_client = client;
    return KVS_OK;
}

void server_client_limit(struct server_client *client, uint64_t timeout_ms)
{
    client->timeout_ms = timeout_ms;
}

void server_client_say_waiting(struct server_client *client)
{
    client->says_waiting = true;
}

int server_client_http_status(const struct server_client *client)
{
    return client->http_status;
}

const char *server_client_url(const struct server_client *client)
{
    return client->transport->url;
}

struct server_client *server_client_close(struct server_client *client)
{
    if (client == NULL)
        return NULL;
    client->transport->close(client->transport);
    free(client);
    return NULL;
}

static enum kvs_status ask(struct server_client *client, const struct remote_question *question,
                           struct buffer *ret_body, struct kvs_error *error)
{
    struct buffer line = {0};
    struct waiting waiting;
    if (client->says_waiting)
        buffer_append_format(&line, "waiting for metadata server %s, %g s at most",
                             client->transport->url, (double)client->timeout_ms / 1000);
    waiting_begin(&waiting, line.length == 0 ? NULL : buffer_text(&line));
    client->http_status = 0;
    enum kvs_status status =
        client->transport->ask(client->transport, question, &client->http_status, ret_body, error);
    waiting_end(&waiting);
    client->says_waiting = client->says_waiting && !waiting.said;
    buffer_done(&line);
    return status;
}

enum kvs_status server_client_ask(struct server_client *client, const char *path, const char *body,
                                  struct buffer *ret_body, struct kvs_error *error)
{
    const struct remote_question question = {
        .path = path,
        .body = body,
        .body_bytes = body == NULL ? 0 : strlen(body),
        .timeout_ms = client->timeout_ms,
        .answer_max_bytes = ANSWER_MAX_BYTES,
    };
    enum kvs_status status = ask(client, &question, ret_body, error);
    int http_status = client->http_status;
    if (status != KVS_OK || (http_status >= 200 && http_status < 300))
        return status;
    char detail[KVS_ERROR_MESSAGE_MAX], reason[KVS_ERROR_MESSAGE_MAX + 64];
    wire_read_detail(ret_body, detail);
    /* These words stand for a path that the server does not know, so it is not the server meant. */
    bool refused = http_status >= 400 && http_status < 500 && detail[0] != '\0' &&
                   strcmp(detail, "Not Found") != 0 && strcmp(detail, "Method Not Allowed") != 0;
    if (detail[0] == '\0')
        snprintf(detail, sizeof(detail), "no reason given");
    if (http_status == 401)
        return error_set(error, KVS_ERR_REMOTE_AUTH, client->transport->url, detail);
    snprintf(reason, sizeof(reason), "HTTP %d: %s", http_status, detail);
    return error_set(error, refused ? KVS_ERR_REMOTE_REFUSED : KVS_ERR_REMOTE_ANSWER,
                     client->transport->url, reason);
}
