/* Which endpoint a request's path names; see route.h. */
#include "server/route.h"

#include <strings.h>

enum { PATH_MAX_BYTES = 256 }; /* no endpoint's path is longer, even written as %XX */

static const char *const names[ENDPOINTS] = {
    [ENDPOINT_INITIALIZE] = "initialize",
    [ENDPOINT_RESERVE] = "reserve_and_allocate_page_indices",
    [ENDPOINT_CONFIRM] = "confirm_write",
    [ENDPOINT_GET] = "get_page_indices",
    [ENDPOINT_EXISTS] = "exists",
    [ENDPOINT_DELETE] = "delete_keys",
    [ENDPOINT_CLEAR] = "clear",
    [ENDPOINT_REPORT_MISMATCH] = "report_mismatch",
    [ENDPOINT_LIST_KEYS] = "list_keys",
    [ENDPOINT_DROP] = "drop",
    [ENDPOINT_HEALTH] = "health",
    [ENDPOINT_READY] = "ready",
    [ENDPOINT_METRICS] = "metrics",
    [ENDPOINT_STATUS] = "api/status",
    [ENDPOINT_ROOT] = "",
    [ENDPOINT_NONE] = "unknown",
};

const char *route_endpoint_name(enum endpoint endpoint)
{
    return names[endpoint];
}

static bool is_name(const char *text, size_t length, enum endpoint endpoint)
{
    return strlen(names[endpoint]) == length && memcmp(names[endpoint], text, length) == 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decodes %XX into `decoded`; false when it is malformed or longer than any path served. */
static bool decode(struct http_text *path, char decoded[PATH_MAX_BYTES])
{
    size_t n = 0;
    for (size_t i = 0; i < path->length; i++) {
        char c = path->text[i];
        if (c == '%') {
            if (i + 2 >= path->length)
                return false;
            int high = hex_digit(path->text[i + 1]), low = hex_digit(path->text[i + 2]);
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (n == PATH_MAX_BYTES)
            return false;
        decoded[n++] = c;
    }
    *path = (struct http_text){decoded, n};
    return true;
}

/* The path of a target: without its query, and without scheme and host where a proxy put them. */
static struct http_text path_of(struct http_text target)
{
    for (const char *scheme = "http://";; scheme = "https://") {
        size_t length = strlen(scheme);
        if (target.length > length && strncasecmp(target.text, scheme, length) == 0) {
            const char *host = target.text + length;
            const char *slash = memchr(host, '/', target.length - length);
            if (slash == NULL)
                return (struct http_text){"/", 1};
            target.length -= (size_t)(slash - target.text);
            target.text = slash;
            break;
        }
        if (length == 8)
            break;
    }
    const char *query = memchr(target.text, '?', target.length);
    if (query != NULL)
        target.length = (size_t)(query - target.text);
    return target;
}

/* Digits only: a rank is a non-negative integer. */
static bool parse_rank(const char *text, size_t length, uint32_t *ret_rank)
{
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
        if (value > UINT32_MAX)
            return false;
    }
    *ret_rank = (uint32_t)value;
    return length > 0;
}

struct route route_find(struct http_text target)
{
    const struct route none = {.endpoint = ENDPOINT_NONE};
    struct http_text path = path_of(target);
    char decoded[PATH_MAX_BYTES];
    if (memchr(path.text, '%', path.length) != NULL && !decode(&path, decoded))
        return none;
    if (path.length == 0 || path.text[0] != '/')
        return none;
    const char *first = path.text + 1;
    size_t length = path.length - 1;
    for (enum endpoint e = ENDPOINT_HEALTH; e <= ENDPOINT_ROOT; e++)
        if (is_name(first, length, e))
            return (struct route){.endpoint = e};
    const char *slash = memchr(first, '/', length);
    if (slash == NULL || slash == first)
        return none;
    size_t rank_length = (size_t)(slash - first);
    for (enum endpoint e = 0; e <= ENDPOINT_RANK_LAST; e++) {
        if (is_name(slash + 1, length - rank_length - 1, e)) {
            struct route route = {.endpoint = e};
            route.bad_rank = !parse_rank(first, rank_length, &route.rank);
            return route;
        }
    }
    return none;
}
