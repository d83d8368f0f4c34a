/* The error catalogue as a table, and messages made from it and found in it. */
#include "base/status.h"

#include "base/phrases.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KVS_LIST(...)                                                                              \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static const struct error_info CATALOGUE[] = {
#define KVS_ERROR(symbol_, number_, http_, class_, severity_, retry_, message_, meaning_, when_,   \
                  situations_, remedies_, example_, prevention_, tags_)                            \
    {                                                                                              \
        .status = symbol_,                                                                         \
        .symbol = #symbol_,                                                                        \
        .number = number_,                                                                         \
        .http_status = http_,                                                                      \
        .error_class = class_,                                                                     \
        .severity = SEVERITY_##severity_,                                                          \
        .retry_helps = retry_,                                                                     \
        .message = message_,                                                                       \
        .meaning = meaning_,                                                                       \
        .when = when_,                                                                             \
        .situations = situations_,                                                                 \
        .remedies = remedies_,                                                                     \
        .example_fix = example_,                                                                   \
        .prevention = prevention_,                                                                 \
        .tags = tags_,                                                                             \
    },
#include "kvshelf/errors.def"
#undef KVS_ERROR
};
enum { ERRORS = sizeof(CATALOGUE) / sizeof(CATALOGUE[0]) };

const char *kvs_version(void)
{
    return KVS_VERSION;
}

const char *kvs_status_name(enum kvs_status status)
{
    if (status == KVS_OK)
        return "KVS_OK";
    const struct error_info *info = error_find(status);
    return info == NULL ? "KVS_ERR_UNKNOWN" : info->symbol;
}

const struct error_info *error_catalogue(size_t *ret_count)
{
    *ret_count = ERRORS;
    return CATALOGUE;
}

const struct error_info *error_find(enum kvs_status status)
{
    for (size_t i = 0; i < ERRORS; i++)
        if (CATALOGUE[i].status == status)
            return &CATALOGUE[i];
    return NULL;
}

const char *error_code(const struct error_info *info, char text[ERROR_CODE_MAX])
{
    snprintf(text, ERROR_CODE_MAX, "KVS-%d", info->number);
    return text;
}

const char *error_id(const struct error_info *info, char text[ERROR_ID_MAX])
{
    const char *name = info->symbol + strlen("KVS_ERR_");
    size_t i = 0;
    for (; name[i] != '\0' && i < ERROR_ID_MAX - 1; i++)
        text[i] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
    text[i] = '\0';
    return text;
}

const char *error_type(const struct error_info *info)
{
    static const char *const TYPES[] = {"other",      "general",      "configuration", "catalog",
                                        "page file",  "request",      "server start",  "client",
                                        "trace data", "command line", "other"};
    int group = info->number / 100;
    return TYPES[group < 0 || group > 10 ? 0 : group];
}

/* ---- Templates: literal runs with placeholders between them -----------------------------------*/

/* Moves *at past the next piece of a template and gives it; false at the end. */
struct piece {
    const char *text;
    size_t length;
    bool placeholder; /* `text` then holds the braces too */
};
static bool next_piece(const char **at, struct piece *ret_piece)
{
    const char *start = *at;
    if (*start == '\0')
        return false;
    const char *close = *start == '{' ? strchr(start, '}') : NULL;
    size_t length = close != NULL ? (size_t)(close - start) + 1 : 1 + strcspn(start + 1, "{");
    *ret_piece = (struct piece){start, length, close != NULL};
    *at = start + length;
    return true;
}

size_t error_placeholders(const struct error_info *info)
{
    size_t count = 0;
    struct piece piece;
    for (const char *at = info->message; next_piece(&at, &piece);)
        count += piece.placeholder;
    return count;
}

void error_pattern(const struct error_info *info, struct buffer *out)
{
    struct piece piece;
    for (const char *at = info->message; next_piece(&at, &piece);) {
        if (piece.placeholder) {
            buffer_append_text(out, "(.+)");
            continue;
        }
        for (size_t i = 0; i < piece.length; i++) {
            if (strchr("\\^$.|?*+()[]{}", piece.text[i]) != NULL)
                buffer_append_char(out, '\\');
            buffer_append_char(out, piece.text[i]);
        }
    }
}

/* ---- Filling ----------------------------------------------------------------------------------*/

/* Appends as much as fits, ending at a whole UTF-8 character; false when the text was cut. */
static bool append_cut(char message[KVS_ERROR_MESSAGE_MAX], size_t *length, const char *text,
                       size_t text_length)
{
    size_t room = KVS_ERROR_MESSAGE_MAX - 1 - *length;
    bool fits = text_length <= room;
    size_t take = fits ? text_length : room;
    while (!fits && take > 0 && ((unsigned char)text[take] & 0xc0) == 0x80)
        take--;
    memcpy(message + *length, text, take);
    *length += take;
    return fits;
}

enum kvs_status error_set_args(struct kvs_error *error, enum kvs_status status,
                               const char *const args[])
{
    if (error == NULL)
        return status;
    const struct error_info *info = error_find(status);
    const char *at = info == NULL ? "Unknown error" : info->message;
    /* Apart from *error, whose message may be one of the arguments. */
    char message[KVS_ERROR_MESSAGE_MAX];
    size_t length = 0, used = 0;
    struct piece piece;
    bool fits = true;
    while (fits && next_piece(&at, &piece)) {
        /* A missing argument leaves its placeholder to be seen; a test counts arguments. */
        if (piece.placeholder && args[used] != NULL) {
            const char *arg = args[used][0] == '\0' ? "(empty)" : args[used]; /* no hole */
            used++;
            fits = append_cut(message, &length, arg, strlen(arg));
        } else {
            fits = append_cut(message, &length, piece.text, piece.length);
        }
    }
    message[length] = '\0';
    memcpy(error->message, message, length + 1);
    error->status = status;
    return status;
}

struct number_text number_text_of(long long value)
{
    struct number_text number;
    snprintf(number.text, sizeof(number.text), "%lld", value);
    return number;
}

/* ---- Finding ----------------------------------------------------------------------------------*/

/* Does one line hold a message made from the template? The pattern is literals with `.+` between,
 * so the leftmost place of each literal is the best one. Gives the length of the literals. */
static bool line_matches(const char *line, size_t line_length, const char *template,
                         size_t *ret_literal)
{
    const char *at = line, *end = line + line_length;
    size_t literal = 0;
    bool gap = true; /* the next literal may begin later */
    struct piece piece;
    while (next_piece(&template, &piece)) {
        if (piece.placeholder) {
            if (at == end)
                return false;
            at++; /* at least one character */
            gap = true;
            continue;
        }
        const char *found = gap ? memmem(at, (size_t)(end - at), piece.text, piece.length) : NULL;
        if (found == NULL)
            return false;
        at = found + piece.length;
        literal += piece.length;
        gap = false;
    }
    *ret_literal = literal;
    return true;
}

/* The best match so far. */
struct best {
    const struct error_info *info;
    size_t literal;
};

static void match_messages(const char *line, size_t length, struct best *best)
{
    size_t literal;
    for (size_t i = 0; i < ERRORS; i++)
        if (line_matches(line, length, CATALOGUE[i].message, &literal) && literal > best->literal)
            *best = (struct best){&CATALOGUE[i], literal};
}

static void match_phrases(const char *line, size_t length, struct best *best)
{
    size_t n, literal;
    const struct phrase *phrases = phrase_table(&n);
    for (size_t i = 0; i < n; i++)
        if (line_matches(line, length, phrases[i].text, &literal) && literal > best->literal)
            *best = (struct best){error_find(phrases[i].status), literal};
}

static const struct error_info *match_lines(const char *text, bool with_phrases)
{
    struct best best = {0};
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        match_messages(line, length, &best);
        if (with_phrases)
            match_phrases(line, length, &best);
        line += length;
        line += *line == '\n';
    }
    return best.info;
}

const struct error_info *error_match_message(const char *text)
{
    return match_lines(text, false);
}

static const struct error_info *match_number(const char *digits)
{
    char *end;
    long number = strtol(digits, &end, 10);
    if (end == digits || isalnum((unsigned char)*end))
        return NULL;
    for (size_t i = 0; i < ERRORS; i++)
        if (CATALOGUE[i].number == number)
            return &CATALOGUE[i];
    return NULL;
}

static const struct error_info *match_name(const char *text)
{
    char id[ERROR_ID_MAX];
    for (size_t i = 0; i < ERRORS; i++)
        if (strcasecmp(text, CATALOGUE[i].symbol) == 0 ||
            strcasecmp(text, error_id(&CATALOGUE[i], id)) == 0)
            return &CATALOGUE[i];
    return NULL;
}

/* The one entry whose template holds the text; NULL when there is none or more than one. */
static const struct error_info *match_part(const char *text)
{
    enum { SHORTEST = 4 }; /* below this nearly any text is a part of something */
    const struct error_info *found = NULL;
    if (strlen(text) < SHORTEST)
        return NULL;
    for (size_t i = 0; i < ERRORS; i++) {
        if (strcasestr(CATALOGUE[i].message, text) == NULL)
            continue;
        if (found != NULL)
            return NULL;
        found = &CATALOGUE[i];
    }
    return found;
}

const struct error_info *error_match(const char *text)
{
    const struct error_info *found = match_name(text);
    if (found == NULL && isdigit((unsigned char)text[0]) &&
        text[strspn(text, "0123456789")] == '\0')
        found = match_number(text);
    for (const char *at = text; found == NULL && (at = strcasestr(at, "KVS-")) != NULL; at++)
        found = match_number(at + strlen("KVS-"));
    if (found == NULL)
        found = match_lines(text, true);
    if (found == NULL)
        found = match_part(text);
    return found;
}
