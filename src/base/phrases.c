/* The phrases; see phrases.h. Of several that a line holds the one with the longest fixed part
 * counts, so an exception of a rule is simply a longer phrase. */
#include "base/phrases.h"

/* A 404 of an operation is a namespace that is not there: the path itself is right. */
#define NOT_FOUND "404 Client Error: Not Found for url: {url}"
#define NO_NAMESPACE(operation)                                                                    \
    {                                                                                              \
        NOT_FOUND "/" operation, KVS_ERR_NOT_INITIALIZED_SERVER                                    \
    }
#define NO_CONNECTION "Max retries exceeded with url: {path}"

static const struct phrase phrases[] = {
    /* Python's requests and urllib3, in "Failed to POST to ... after retries: ..." */
    {NOT_FOUND, KVS_ERR_NOT_FOUND},
    NO_NAMESPACE("reserve_and_allocate_page_indices"),
    NO_NAMESPACE("confirm_write"),
    NO_NAMESPACE("get_page_indices"),
    NO_NAMESPACE("exists"),
    NO_NAMESPACE("delete_keys"),
    NO_NAMESPACE("clear"),
    {"401 Client Error: Unauthorized for url: {url}", KVS_ERR_UNAUTHORIZED},
    {"409 Client Error: Conflict for url: {url}", KVS_ERR_GEOMETRY_DIFFERS},
    {"413 Client Error: {reason} for url: {url}", KVS_ERR_REQUEST_TOO_LARGE},
    {"422 Client Error: {reason} for url: {url}", KVS_ERR_REQUEST_RANK},
    {NO_CONNECTION, KVS_ERR_REMOTE_UNREACHABLE},
    {NO_CONNECTION "ProtocolError('Connection aborted.'", KVS_ERR_REMOTE_BROKEN},
    {NO_CONNECTION "Read timed out. (read timeout={seconds})", KVS_ERR_REMOTE_DEADLINE},
    {NO_CONNECTION "ResponseError('too many {status} error responses'", KVS_ERR_REMOTE_ANSWER},
    /* Of what SGLang's class asks, only initialize needs room on the server's disk. */
    {NO_CONNECTION "/initialize (Caused by ResponseError('too many 500 error responses'",
     KVS_ERR_NO_SPACE},
    {NO_CONNECTION "ResponseError('too many 503 error responses'", KVS_ERR_STARTING},

    /* The ends of such lines, alone */
    {"too many 500 error responses", KVS_ERR_NO_SPACE},
    {"too many 503 error responses", KVS_ERR_STARTING},
    {"503 Server Error: Service Unavailable for url", KVS_ERR_STARTING},
    {"Connection refused", KVS_ERR_REMOTE_UNREACHABLE},
    {"Connection aborted.", KVS_ERR_REMOTE_BROKEN},
    {"Connection reset by peer", KVS_ERR_REMOTE_BROKEN},
    {"Remote end closed connection without response", KVS_ERR_REMOTE_BROKEN},
    {"Read timed out.", KVS_ERR_REMOTE_DEADLINE},

    /* What any server that starts says of its port */
    {"Address already in use", KVS_ERR_LISTEN},

    /* SGLang's own texts, where they differ from kvshelf's */
    {"MLA model is not supported without global metadata server", KVS_ERR_MLA_NEEDS_SERVER},

    /* kvshelf's warnings */
    {"of pool '{pool}' could not be written to {path}", KVS_ERR_PAGES_NOT_WRITTEN},
    {"of pool '{pool}' in {path} hold other bytes than were confirmed", KVS_ERR_WRONG_BYTES},
    {"Writing to {path} failed repeatedly: it is left alone for", KVS_ERR_PAGES_NOT_WRITTEN},
    {"The index failed repeatedly: it is left alone for", KVS_ERR_REMOTE_UNREACHABLE},
};

const struct phrase *phrase_table(size_t *ret_count)
{
    *ret_count = sizeof(phrases) / sizeof(phrases[0]);
    return phrases;
}
