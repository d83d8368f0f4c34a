/* HTTP/1.1 framing; see http.h. A request whose bytes lie in one piece of input is never copied:
 * its views point into the input. Otherwise head and body are gathered in the parser's own buffers.
 */
#include "server/http.h"

#include "server/put.h"

#include <stdio.h>
#include <strings.h>

static enum http_event fail(struct http_parser *parser, int status, const char *fault)
{
    parser->phase = HTTP_DEAD;
    parser->fault_status = status;
    parser->fault = fault;
    return HTTP_NEXT_FAULT;
}

/* ---- The scan of the header block ------------------------------------------------------------*/

/* Of a field name: RFC 9110's token. Bit 0: token. Bit 1: allowed in a value. */
static const uint8_t char_class[256] = {
    ['\t'] = 2,        [' '] = 2,         ['!'] = 3,         ['"'] = 2,         ['#' ... '\''] = 3,
    ['(' ... ')'] = 2, ['*' ... '+'] = 3, [','] = 2,         ['-' ... '.'] = 3, ['/'] = 2,
    ['0' ... '9'] = 3, [':' ... '@'] = 2, ['A' ... 'Z'] = 3, ['[' ... ']'] = 2, ['^' ... 'z'] = 3,
    ['{'] = 2,         ['|'] = 3,         ['}'] = 2,         ['~'] = 3,         [0x80 ... 0xff] = 2,
};

struct fields {
    bool has_length, has_coding;
};

static bool name_is(const char *name, size_t length, const char *expected)
{
    return length == strlen(expected) && strncasecmp(name, expected, length) == 0;
}

static const char *keep_once(struct http_text *field, struct http_text value)
{
    if (field->text != NULL)
        return "a header that may be there once (Host, Origin, Authorization) is there twice";
    *field = value;
    return NULL;
}

static const char *take_length(struct fields *fields, struct http_text value)
{
    if (fields->has_length)
        return "there are two Content-Length headers";
    if (value.length == 0 || value.length > 18)
        return "the Content-Length is not a number of bytes";
    for (size_t i = 0; i < value.length; i++)
        if (value.text[i] < '0' || value.text[i] > '9')
            return "the Content-Length is not a number of bytes";
    fields->has_length = true;
    return NULL;
}

static const char *take_coding(struct fields *fields, struct http_text value)
{
    if (fields->has_coding)
        return "there are two Transfer-Encoding headers";
    if (!name_is(value.text, value.length, "chunked"))
        return "the only Transfer-Encoding served is chunked";
    fields->has_coding = true;
    return NULL;
}

/* One header line that matters here; the others are only checked. */
static const char *take_field(struct http_request *request, struct fields *fields, const char *name,
                              size_t name_length, struct http_text value)
{
    switch (name_length) {
    case 4:
        if (name_is(name, 4, "host"))
            return keep_once(&request->host, value);
        break;
    case 6:
        if (name_is(name, 6, "origin"))
            return keep_once(&request->origin, value);
        if (name_is(name, 6, "expect"))
            request->expects_continue = name_is(value.text, value.length, "100-continue");
        break;
    case 13:
        if (name_is(name, 13, "authorization"))
            return keep_once(&request->authorization, value);
        break;
    case 14:
        if (name_is(name, 14, "content-length"))
            return take_length(fields, value);
        break;
    case 17:
        if (name_is(name, 17, "transfer-encoding"))
            return take_coding(fields, value);
        break;
    default:
        break;
    }
    return NULL;
}

static const char *scan_field(struct http_request *request, struct fields *fields, const char *line,
                              const char *end)
{
    const char *at = line;
    while (at < end && (char_class[(uint8_t)*at] & 1) != 0)
        at++;
    if (at == line)
        return "a header line is folded or has no name";
    if (at == end || *at != ':')
        return "a header name is not followed by a colon";
    size_t name_length = (size_t)(at - line);
    at++;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    const char *value = at;
    for (; at < end; at++)
        if ((char_class[(uint8_t)*at] & 2) == 0)
            return "a header holds a control character";
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return take_field(request, fields, line, name_length,
                      (struct http_text){value, (size_t)(end - value)});
}

/* Checks every line of a whole head (which ends with an empty line). Returns what is wrong, or
 * NULL. */
static const char *scan_head(struct http_request *request, const char *head, size_t length)
{
    struct fields fields = {0};
    const char *end = head + length, *line = head;
    bool first = true;
    while (line < end) {
        const char *lf = memchr(line, '\n', (size_t)(end - line));
        if (lf == NULL || lf == line || lf[-1] != '\r')
            return "a line does not end with CR LF";
        const char *line_end = lf - 1;
        if (first && memchr(line, '\r', (size_t)(line_end - line)) != NULL)
            return "the request line holds a bare CR";
        if (!first && line_end > line) {
            const char *fault = scan_field(request, &fields, line, line_end);
            if (fault != NULL)
                return fault;
        }
        first = false;
        line = lf + 1;
    }
    if (fields.has_length && fields.has_coding)
        return "Content-Length and Transfer-Encoding are both there";
    request->chunked = fields.has_coding;
    return NULL;
}

/* ---- The head --------------------------------------------------------------------------------*/

static int on_url(llhttp_t *llhttp, const char *at, size_t length)
{
    struct http_parser *parser = llhttp->data;
    if (parser->request.target.text == NULL)
        parser->request.target.text = at;
    parser->request.target.length += length;
    return 0;
}

static int on_header_field(llhttp_t *llhttp, const char *at, size_t length)
{
    (void)at;
    (void)length;
    const struct http_parser *parser = llhttp->data;
    return parser->phase == HTTP_IN_CHUNKS ? HPE_USER : HPE_OK; /* a trailer */
}

static int on_headers_complete(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

static int on_body(llhttp_t *llhttp, const char *at, size_t length)
{
    struct http_parser *parser = llhttp->data;
    if (length > parser->body_max - parser->body.length) {
        parser->fault_status = 413;
        return HPE_USER;
    }
    buffer_append(&parser->body, at, length);
    if (parser->body.failed) {
        parser->fault_status = 500;
        return HPE_USER;
    }
    return 0;
}

static int on_message_complete(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

static const llhttp_settings_t llhttp_callbacks = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

static enum http_method method_of(uint8_t method)
{
    switch (method) {
    case HTTP_GET:
        return METHOD_GET;
    case HTTP_HEAD:
        return METHOD_HEAD;
    case HTTP_POST:
        return METHOD_POST;
    default:
        return METHOD_OTHER;
    }
}

/* Parses a whole head, whose bytes stay where they are as long as the views are used. */
static enum http_event parse_head(struct http_parser *parser, const char *head, size_t length)
{
    struct http_request *request = &parser->request;
    parser->start = head;
    parser->start_bytes = length;
    const char *fault = scan_head(request, head, length);
    if (fault != NULL)
        return fail(parser, 400, fault);
    llhttp_t *llhttp = &parser->llhttp;
    llhttp_init(llhttp, HTTP_REQUEST, &llhttp_callbacks);
    llhttp->data = parser;
    llhttp_errno_t status = llhttp_execute(llhttp, head, length);
    if (status != HPE_PAUSED || llhttp->http_major != 1 || llhttp->method == HTTP_CONNECT)
        return fail(parser, 400, "this is not an HTTP/1.1 request");
    if (request->target.length > HTTP_TARGET_MAX)
        return fail(parser, 414, "the URL is longer than 8,192 bytes");
    request->method = method_of(llhttp->method);
    request->version_1_0 = llhttp->http_minor == 0;
    request->keep_alive = llhttp_should_keep_alive(llhttp) != 0;
    request->content_length = request->chunked ? 0 : llhttp->content_length;
    if (request->chunked && request->version_1_0)
        return fail(parser, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (request->content_length > parser->body_max)
        return fail(parser, 413, "the body is longer than the server takes");
    parser->phase = request->chunked ? HTTP_IN_CHUNKS : HTTP_IN_BODY;
    return HTTP_NEXT_HEAD;
}

/* Where the head that starts at `head` ends, or 0: right after its empty line. `from` bytes are
 * known to hold no end. A head whose lines end in LF alone ends at two of them: it is whole, and
 * refused. */
static size_t find_head_end(const char *head, size_t length, size_t from)
{
    const char *end = head + length;
    const char *at = head + (from > 3 ? from - 3 : 0);
    while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        at++;
        if (end - at >= 1 && at[0] == '\n')
            return (size_t)(at + 1 - head);
        if (end - at >= 2 && at[0] == '\r' && at[1] == '\n')
            return (size_t)(at + 2 - head);
    }
    return 0;
}

static enum http_event too_long(struct http_parser *parser, const char *head, size_t length)
{
    size_t line = length < HTTP_TARGET_MAX + 64 ? length : HTTP_TARGET_MAX + 64;
    if (length >= HTTP_TARGET_MAX + 64 && memchr(head, '\n', line) == NULL)
        return fail(parser, 414, "the URL is longer than 8,192 bytes");
    return fail(parser, 431, "the request line and headers are longer than 65,536 bytes");
}

/* No head starts with what is there: it need not come to its end to be refused. */
static bool is_hopeless(const char *head, size_t length)
{
    for (size_t i = 0; i < length && i < 8; i++) {
        if (head[i] == ' ')
            return i == 0;
        if (head[i] < 'A' || head[i] > 'Z')
            return head[i] != '-' || i == 0;
    }
    return false;
}

static enum http_event take_head(struct http_parser *parser, const char **at, const char *end)
{
    struct buffer *kept = &parser->head;
    if (kept->length == 0) /* an empty line before a request line is harmless */
        while (*at < end && (**at == '\r' || **at == '\n'))
            (*at)++;
    if (*at == end)
        return HTTP_NEXT_MORE;
    const char *head = *at;
    size_t length = (size_t)(end - *at), before = kept->length;
    if (before > 0) {
        size_t room = HTTP_HEAD_MAX + 1 - before;
        buffer_append(kept, *at, length < room ? length : room);
        if (kept->failed)
            return fail(parser, 500, "the server is out of memory");
        head = kept->data;
        length = kept->length;
    }
    if (is_hopeless(head, length))
        return fail(parser, 400, "this is not an HTTP/1.1 request");
    size_t whole = find_head_end(head, length, parser->scanned);
    if (whole > HTTP_HEAD_MAX || (whole == 0 && length > HTTP_HEAD_MAX))
        return too_long(parser, head, length);
    if (whole == 0) {
        if (length >= HTTP_TARGET_MAX + 64 && memchr(head, '\n', HTTP_TARGET_MAX + 64) == NULL)
            return too_long(parser, head, length);
        if (before == 0)
            buffer_append(kept, head, length);
        parser->scanned = length;
        *at = end;
        return kept->failed ? fail(parser, 500, "the server is out of memory") : HTTP_NEXT_MORE;
    }
    if (before > 0)
        kept->length = whole; /* what follows is still in the input */
    *at += whole - before;
    return parse_head(parser, head, whole);
}

static void move_text(struct http_text *text, const char *from, const char *to)
{
    if (text->text != NULL)
        text->text = to + (text->text - from);
}

/* The input ends before the request is served: its head moves to the parser's own memory. */
static bool keep_head(struct http_parser *parser)
{
    struct buffer *kept = &parser->head;
    if (kept->length > 0)
        return true;
    buffer_append(kept, parser->start, parser->start_bytes);
    if (kept->failed)
        return false;
    struct http_request *request = &parser->request;
    move_text(&request->target, parser->start, kept->data);
    move_text(&request->authorization, parser->start, kept->data);
    move_text(&request->origin, parser->start, kept->data);
    move_text(&request->host, parser->start, kept->data);
    return true;
}

/* ---- The body --------------------------------------------------------------------------------*/

static enum http_event finish(struct http_parser *parser, const char *body, size_t length)
{
    parser->request.body = (struct http_text){body, length};
    parser->phase = HTTP_DONE;
    return HTTP_NEXT_WHOLE;
}

static enum http_event take_body(struct http_parser *parser, const char **at, const char *end)
{
    struct buffer *kept = &parser->body;
    size_t want = (size_t)parser->request.content_length - kept->length;
    size_t there = (size_t)(end - *at);
    if (kept->length == 0 && there >= want) {
        const char *body = *at;
        *at += want;
        return finish(parser, body, want);
    }
    if (kept->capacity < parser->request.content_length && there > 0)
        (void)buffer_reserve(kept, want);
    size_t take = there < want ? there : want;
    buffer_append(kept, *at, take);
    if (kept->failed)
        return fail(parser, 500, "the server is out of memory");
    *at += take;
    return take == want ? finish(parser, kept->data, kept->length) : HTTP_NEXT_MORE;
}

/* Chunk sizes, extensions and line ends must stay in proportion to what they carry. */
static bool framing_is_fair(const struct http_parser *parser)
{
    return parser->framing <= HTTP_HEAD_MAX + 8 * (uint64_t)parser->body.length;
}

static enum http_event take_chunks(struct http_parser *parser, const char **at, const char *end)
{
    llhttp_t *llhttp = &parser->llhttp;
    size_t before = parser->body.length;
    parser->fault_status = 0;
    llhttp_errno_t status = llhttp_execute(llhttp, *at, (size_t)(end - *at));
    const char *stop = status == HPE_OK ? end : llhttp_get_error_pos(llhttp);
    if (status == HPE_USER || parser->fault_status != 0) {
        if (parser->fault_status == 413)
            return fail(parser, 413, "the body is longer than the server takes");
        if (parser->fault_status == 500)
            return fail(parser, 500, "the server is out of memory");
        return fail(parser, 400, "trailers after a chunked body are not served");
    }
    if (status != HPE_OK && status != HPE_PAUSED)
        return fail(parser, 400, "the chunked body is damaged");
    parser->framing += (uint64_t)(stop - *at) - (parser->body.length - before);
    *at = stop;
    if (!framing_is_fair(parser))
        return fail(parser, 400, "the chunks of the body are mostly framing");
    if (status == HPE_OK)
        return HTTP_NEXT_MORE;
    return finish(parser, parser->body.data, parser->body.length);
}

/* ---- The whole -------------------------------------------------------------------------------*/

void http_parser_init(struct http_parser *parser, uint64_t body_max)
{
    *parser = (struct http_parser){.body_max = body_max, .phase = HTTP_IN_HEAD};
}

void http_parser_done(struct http_parser *parser)
{
    buffer_done(&parser->head);
    buffer_done(&parser->body);
}

static void forget(struct buffer *buffer)
{
    if (buffer->capacity > HTTP_KEPT_MAX)
        buffer_done(buffer);
    else
        buffer_clear(buffer);
}

static void start_over(struct http_parser *parser)
{
    forget(&parser->head);
    forget(&parser->body);
    parser->request = (struct http_request){0};
    parser->scanned = 0;
    parser->framing = 0;
    parser->phase = HTTP_IN_HEAD;
}

void http_forget(struct http_parser *parser)
{
    if (parser->phase == HTTP_DONE)
        start_over(parser);
}

uint64_t http_body_left(const struct http_parser *parser)
{
    if (parser->request.chunked)
        return UINT64_MAX;
    return parser->request.content_length - parser->body.length;
}

uint64_t http_body_length(const struct http_parser *parser)
{
    return parser->request.chunked ? parser->body.length : parser->request.content_length;
}

bool http_is_between(const struct http_parser *parser)
{
    return parser->phase == HTTP_DONE ||
           (parser->phase == HTTP_IN_HEAD && parser->head.length == 0);
}

/* A new head has been taken. Without its whole body the caller gets to see it first. */
static enum http_event after_head(struct http_parser *parser, const char **at, const char *end)
{
    struct http_request *request = &parser->request;
    if (!request->chunked && (uint64_t)(end - *at) >= request->content_length)
        return take_body(parser, at, end);
    if (!keep_head(parser))
        return fail(parser, 500, "the server is out of memory");
    if (request->chunked)
        llhttp_resume(&parser->llhttp);
    return HTTP_NEXT_HEAD;
}

bool http_keep(struct http_parser *parser)
{
    struct http_text *body = &parser->request.body;
    if (!keep_head(parser))
        return false;
    if (parser->body.length > 0 || body->length == 0)
        return true;
    buffer_append(&parser->body, body->text, body->length);
    body->text = parser->body.data;
    return !parser->body.failed;
}

struct buffer http_take_body(struct http_parser *parser)
{
    struct buffer body = parser->body;
    parser->body = (struct buffer){0};
    return body;
}

enum http_event http_next(struct http_parser *parser, const char **at, const char *end)
{
    switch (parser->phase) {
    case HTTP_DONE:
        start_over(parser);
        break;
    case HTTP_IN_BODY:
        return *at == end ? HTTP_NEXT_MORE : take_body(parser, at, end);
    case HTTP_IN_CHUNKS:
        return *at == end ? HTTP_NEXT_MORE : take_chunks(parser, at, end);
    case HTTP_DEAD:
        return HTTP_NEXT_FAULT;
    case HTTP_IN_HEAD:
        break;
    }
    enum http_event event = take_head(parser, at, end);
    return event == HTTP_NEXT_HEAD ? after_head(parser, at, end) : event;
}

/* ---- Answers ---------------------------------------------------------------------------------*/

const char *http_reason(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 204:
        return "No Content";
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 408:
        return "Request Timeout";
    case 409:
        return "Conflict";
    case 413:
        return "Content Too Large";
    case 414:
        return "URI Too Long";
    case 422:
        return "Unprocessable Content";
    case 431:
        return "Request Header Fields Too Large";
    case 503:
        return "Service Unavailable";
    case 507:
        return "Insufficient Storage";
    default:
        return "Internal Server Error";
    }
}

enum { ANSWER_HEAD_MAX = 512 }; /* bytes, without `extra` */

void http_write_answer(struct buffer *out, const struct http_answer_head *head, const char *body,
                       size_t length)
{
    size_t extra = head->extra == NULL ? 0 : strlen(head->extra);
    if (!buffer_reserve(out, ANSWER_HEAD_MAX + extra + length))
        return;
    char *at = out->data + out->length;
    at = put_text(at, "HTTP/1.1 ");
    at = put_number(at, (uint64_t)head->status);
    *at++ = ' ';
    at = put_text(at, http_reason(head->status));
    at = put_text(at, "\r\ndate: ");
    at = put_text(at, head->date);
    at = put_text(at, "\r\nserver: kvshelf\r\n");
    if (head->status != 204) {
        at = put_text(at, "content-length: ");
        at = put_number(at, length);
        at = put_text(at, "\r\n");
        if (head->content_type != NULL) {
            at = put_text(at, "content-type: ");
            at = put_text(at, head->content_type);
            at = put_text(at, "\r\n");
        }
    }
    if (head->extra != NULL)
        at = put_text(at, head->extra);
    if (head->close)
        at = put_text(at, "connection: close\r\n");
    else if (head->version_1_0)
        at = put_text(at, "connection: keep-alive\r\n");
    at = put_text(at, "\r\n");
    if (!head->head_only && head->status != 204 && length > 0) {
        memcpy(at, body, length);
        at += length;
    }
    out->length = (size_t)(at - out->data);
}
