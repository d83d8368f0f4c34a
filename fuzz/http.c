/* Fuzzes HTTP framing. The first byte says how long the pieces are in which the rest is fed a
 * second time: the same requests must come out, and the same fault. Each piece ends at the end of
 * an allocation and is freed once fed, so that the address sanitizer sees a read beyond it or after
 * it. */
#include "server/http.h"

#include <stdlib.h>

enum { BODY_MAX = 4096 };

/* What came out, as one text. */
static int feed(struct http_parser *parser, const uint8_t *bytes, size_t length, struct buffer *out)
{
    char *piece = malloc(length > 0 ? length : 1);
    if (piece == NULL)
        abort();
    memcpy(piece, bytes, length);
    const char *at = piece, *end = piece + length;
    enum http_event event;
    do {
        event = http_next(parser, &at, end);
        const struct http_request *request = &parser->request;
        if (event == HTTP_NEXT_WHOLE)
            buffer_append_format(out, "%d %d %.*s %.*s|%.*s|%.*s\n", (int)request->method,
                                 (int)request->keep_alive, (int)request->target.length,
                                 request->target.text, (int)request->authorization.length,
                                 request->authorization.text, (int)request->origin.length,
                                 request->origin.text, (int)request->body.length,
                                 request->body.text);
        if (at > end || (event == HTTP_NEXT_MORE && at != end))
            abort();
    } while (event == HTTP_NEXT_HEAD || event == HTTP_NEXT_WHOLE);
    free(piece);
    if (event == HTTP_NEXT_FAULT)
        buffer_append_format(out, "fault %d\n", parser->fault_status);
    return event == HTTP_NEXT_MORE;
}

static struct buffer play(const uint8_t *bytes, size_t length, size_t piece_bytes)
{
    struct buffer out = {0};
    struct http_parser parser;
    http_parser_init(&parser, BODY_MAX);
    for (size_t done = 0; done < length;) {
        size_t n = length - done < piece_bytes ? length - done : piece_bytes;
        if (!feed(&parser, bytes + done, n, &out))
            break;
        done += n;
    }
    http_parser_done(&parser);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct buffer whole = play(data + 1, size - 1, size);
    struct buffer pieces = play(data + 1, size - 1, 1 + data[0] % 64);
    if (strcmp(buffer_text(&whole), buffer_text(&pieces)) != 0)
        abort();
    buffer_done(&whole);
    buffer_done(&pieces);
    return 0;
}
