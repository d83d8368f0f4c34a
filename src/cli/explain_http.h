/* `kvshelf explain` of an HTTP status: the number that the log of an engine with SGLang's class has
 * of a refusal, as the answer's text is not logged. */
#ifndef KVSHELF_CLI_EXPLAIN_HTTP_H
#define KVSHELF_CLI_EXPLAIN_HTTP_H

#include "base/status.h"

/* The status that a text names: "404" alone, "HTTP 404", "404 Client Error", "404 Not Found",
 * "status code 404". 0 when there is none. */
int explain_http_status(const char *text);

/* A text that is nothing but a number. */
bool explain_is_number(const char *text);

/* The entries that come with a status, from a server or in a client of one; at most `capacity`.
 * Returns how many. */
size_t explain_http_entries(int http_status, struct error_info entries[], size_t capacity);

#endif
