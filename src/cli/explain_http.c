/* Which HTTP status a text names and what comes with it; see explain_http.h. */
#include "cli/explain_http.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 3, GENERAL = 1, CATALOG = 3, REQUEST = 5, CLIENT = 7 }; /* groups: see errors.def */

bool explain_is_number(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && text[digits] == '\0';
}

static bool follows(const char *text, const char *at, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(at - text) >= length && strncasecmp(at - length, word, length) == 0;
}

/* Says the text around three digits that they are a status? */
static bool is_status(const char *text, const char *at)
{
    static const char *const before[] = {"HTTP ", "HTTP/1.1 ", "HTTP/1.0 ", "status ", "code "};
    static const char *const after[] = {" Client Error", " Server Error", " error response"};
    const char *rest = at + DIGITS;
    if (at == text && (*rest == '\0' || (*rest == ' ' && isupper((unsigned char)rest[1]))))
        return true;
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
        if (follows(text, at, before[i]))
            return true;
    for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++)
        if (strncasecmp(rest, after[i], strlen(after[i])) == 0)
            return true;
    return false;
}

int explain_http_status(const char *text)
{
    text += strspn(text, " \t\n");
    for (const char *at = text; (at = strpbrk(at, "0123456789")) != NULL;) {
        size_t digits = strspn(at, "0123456789");
        bool alone =
            !isalnum((unsigned char)at[digits]) && (at == text || !isalnum((unsigned char)at[-1]));
        if (digits == DIGITS && alone && is_status(text, at))
            return (int)strtol(at, NULL, 10);
        at += digits;
    }
    return 0;
}

/* 500 stands also with what no server answers: only what can come over HTTP is meant. */
static bool comes_over_http(const struct error_info *info)
{
    int group = info->number / 100;
    return group == GENERAL || group == CATALOG || group == REQUEST || group == CLIENT ||
           info->status == KVS_ERR_NO_SPACE;
}

size_t explain_http_entries(int http_status, struct error_info entries[], size_t capacity)
{
    size_t n, found = 0;
    const struct error_info *errors = error_catalogue(&n);
    for (size_t i = 0; i < n && found < capacity; i++)
        if (errors[i].http_status == http_status && comes_over_http(&errors[i]))
            entries[found++] = errors[i];
    return found;
}
