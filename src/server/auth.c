/* Who may ask; see auth.h. */
#include "server/auth.h"

#include <arpa/inet.h>
#include <strings.h>

enum kvs_status auth_load(const char *path, struct auth *ret_auth, struct kvs_error *error)
{
    return token_read(path, ret_auth->token, &ret_auth->length, error);
}

/* The time depends on the lengths alone. */
static bool equals_token(const struct auth *auth, const char *text, size_t length)
{
    unsigned different = (unsigned)(length != auth->length);
    for (size_t i = 0; i < length; i++)
        different |= (unsigned)(uint8_t)(text[i] ^ auth->token[i % auth->length]);
    return different == 0;
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

/* Returns the length, or 0 when it is not base64 or too long. */
static size_t base64_decode(struct http_text text, char *decoded, size_t capacity)
{
    size_t n = 0;
    uint32_t bits = 0;
    unsigned have = 0;
    while (text.length > 0 && text.text[text.length - 1] == '=')
        text.length--;
    for (size_t i = 0; i < text.length; i++) {
        int value = base64_value(text.text[i]);
        if (value < 0)
            return 0;
        bits = bits << 6 | (uint32_t)value;
        have += 6;
        if (have >= 8) {
            have -= 8;
            if (n == capacity)
                return 0;
            decoded[n++] = (char)(bits >> have);
        }
    }
    return n;
}

static bool take_scheme(struct http_text *text, const char *scheme)
{
    size_t length = strlen(scheme);
    if (text->length <= length || strncasecmp(text->text, scheme, length) != 0 ||
        text->text[length] != ' ')
        return false;
    while (length < text->length && text->text[length] == ' ')
        length++;
    text->text += length;
    text->length -= length;
    return true;
}

bool auth_allows(const struct auth *auth, struct http_text authorization)
{
    if (auth->length == 0)
        return true;
    if (authorization.text == NULL)
        return false;
    if (take_scheme(&authorization, "Bearer"))
        return equals_token(auth, authorization.text, authorization.length);
    if (!take_scheme(&authorization, "Basic"))
        return false;
    char decoded[2 * AUTH_TOKEN_MAX];
    size_t length = base64_decode(authorization, decoded, sizeof(decoded));
    const char *colon = memchr(decoded, ':', length);
    bool allowed =
        colon != NULL && equals_token(auth, colon + 1, length - (size_t)(colon + 1 - decoded));
    explicit_bzero(decoded, sizeof(decoded));
    return allowed;
}

/* "127.0.0.1:18000", "[::1]:18000", "localhost": an address or this machine, not a name. */
static bool is_address(struct http_text host)
{
    char name[64];
    const char *start = host.text;
    size_t length = host.length;
    if (length > 0 && start[0] == '[') {
        const char *close = memchr(start, ']', length);
        if (close == NULL)
            return false;
        start++;
        length = (size_t)(close - start);
    } else {
        const char *colon = memchr(start, ':', length);
        length = colon == NULL ? length : (size_t)(colon - start);
    }
    if (length == 0 || length >= sizeof(name))
        return false;
    memcpy(name, start, length);
    name[length] = '\0';
    struct in6_addr address;
    return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &address) == 1 ||
           inet_pton(AF_INET6, name, &address) == 1;
}

bool auth_origin_is_own(const struct auth *auth, struct http_text origin, struct http_text host)
{
    if (origin.text == NULL)
        return true;
    size_t scheme = 0;
    if (origin.length > 7 && strncasecmp(origin.text, "http://", 7) == 0)
        scheme = 7;
    else if (origin.length > 8 && strncasecmp(origin.text, "https://", 8) == 0)
        scheme = 8;
    if (scheme == 0 || host.text == NULL || origin.length - scheme != host.length ||
        strncasecmp(origin.text + scheme, host.text, host.length) != 0)
        return false;
    return auth->length > 0 || is_address(host);
}
