/* HTTP/1.1 framing: bytes in, requests out. No sockets, no clock, no answers but their head.
 *
 * llhttp parses the request line, the connection options and chunked bodies; the header block is
 * checked by our own scan first, because two parties that read one block differently is how
 * requests are smuggled: only CR LF ends a line, no bare CR or NUL, no space before a colon, no
 * folded lines, one Content-Length or one `Transfer-Encoding: chunked` and never both, no trailers.
 */
#ifndef KVSHELF_SERVER_HTTP_H
#define KVSHELF_SERVER_HTTP_H

#include "base/buffer.h"

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP_HEAD_MAX = 64 * 1024,  /* bytes of request line and headers: 431 beyond */
    HTTP_TARGET_MAX = 8 * 1024, /* bytes of the URL: 414 beyond */
    HTTP_KEPT_MAX = 16 * 1024,  /* a buffer that grew beyond is freed between requests */
};

enum http_method { METHOD_GET, METHOD_HEAD, METHOD_POST, METHOD_OTHER };

struct http_text {
    const char *text; /* NULL: absent. Not NUL-terminated */
    size_t length;    /* bytes */
};

struct http_request {
    enum http_method method;
    bool keep_alive, version_1_0, expects_continue, chunked;
    uint64_t content_length; /* bytes */
    struct http_text target; /* as sent */
    struct http_text authorization, origin, host;
    struct http_text body; /* complete when HTTP_NEXT_WHOLE is returned */
};

enum http_event {
    HTTP_NEXT_MORE,  /* every byte was taken */
    HTTP_NEXT_HEAD,  /* the head is complete and its body is not: it may be refused now */
    HTTP_NEXT_WHOLE, /* a whole request; its views are valid until the next call */
    HTTP_NEXT_FAULT, /* `fault_status` and `fault` say what; nothing after it can be trusted */
};

struct http_parser {
    struct http_request request;
    const char *fault; /* static storage */
    int fault_status;

    /* The rest is this file's own. */
    llhttp_t llhttp;
    enum { HTTP_IN_HEAD, HTTP_IN_BODY, HTTP_IN_CHUNKS, HTTP_DONE, HTTP_DEAD } phase;
    uint64_t body_max;  /* bytes */
    size_t scanned;     /* bytes of the head known to hold no end */
    const char *start;  /* of the head, in the input or in `head` */
    size_t start_bytes; /* its length */
    uint64_t framing;   /* bytes of a chunked body that were not content */
    struct buffer head, body;
};

/* `body_max`: 413 for bodies beyond, bytes. */
void http_parser_init(struct http_parser *parser, uint64_t body_max);
void http_parser_done(struct http_parser *parser);

/* Takes bytes from *at on, up to `end`, and moves *at past what it took. */
enum http_event http_next(struct http_parser *parser, const char **at, const char *end);

/* How much of a body is still to come, bytes; of a chunked one nobody knows: UINT64_MAX. */
uint64_t http_body_left(const struct http_parser *parser);

/* How long the body is; of a chunked one, how much of it has come. Bytes. */
uint64_t http_body_length(const struct http_parser *parser);

/* Nothing of a request has come yet. */
bool http_is_between(const struct http_parser *parser);

/* Moves the views of a whole request into the parser's own memory, where they stay valid until the
 * next call of http_next(); false on lack of memory. */
bool http_keep(struct http_parser *parser);

/* Gives the body of a request that was kept away, and its memory with it. Views stay valid until
 * the caller has freed it. */
struct buffer http_take_body(struct http_parser *parser);

/* The request has been answered: its memory is not waited with until the next one comes. */
void http_forget(struct http_parser *parser);

/* Appends an answer: status line, headers, body. A body of 204 is left out. */
struct http_answer_head {
    int status;
    const char *date;         /* an HTTP date */
    const char *content_type; /* NULL: none */
    const char *extra;        /* further header lines, each with its line end, or NULL */
    bool close, version_1_0, head_only;
};
void http_write_answer(struct buffer *out, const struct http_answer_head *head, const char *body,
                       size_t length);

const char *http_reason(int status);

#endif
