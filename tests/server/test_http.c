/* HTTP framing over bytes: every case whole, cut in two at every place, and byte by byte, with the
 * input at the end of readable memory. */
#include "server/http.h"
#include "support/page_end.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

enum { BODY_MAX = 1000 };

/* What came out: requests as "METHOD target body[ close]", one a line, then the fault. */
struct seen {
    char text[16384];
    size_t length;
    int fault_status;
};

static void see(struct seen *seen, const struct http_request *request)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "OTHER"};
    int n =
        snprintf(seen->text + seen->length, sizeof(seen->text) - seen->length, "%s %.*s %.*s%s\n",
                 methods[request->method], (int)request->target.length, request->target.text,
                 (int)request->body.length, request->body.text == NULL ? "" : request->body.text,
                 request->keep_alive ? "" : " close");
    assert_true(n > 0 && (size_t)n < sizeof(seen->text) - seen->length);
    seen->length += (size_t)n;
}

/* Feeds one piece, which is unreadable afterwards; false when the connection is over. */
static bool feed(struct http_parser *parser, const char *bytes, size_t length, struct seen *seen)
{
    struct page_end piece = page_end_new(bytes, length);
    const char *at = piece.bytes, *end = at + length;
    enum http_event event;
    do {
        event = http_next(parser, &at, end);
        assert_true(at <= end);
        if (event == HTTP_NEXT_WHOLE)
            see(seen, &parser->request);
        if (event == HTTP_NEXT_MORE)
            assert_ptr_equal(at, end);
    } while (event == HTTP_NEXT_HEAD || event == HTTP_NEXT_WHOLE);
    page_end_done(&piece);
    if (event == HTTP_NEXT_FAULT) {
        assert_non_null(parser->fault);
        seen->fault_status = parser->fault_status;
    }
    return event == HTTP_NEXT_MORE;
}

static const struct {
    const char *name, *input, *requests;
    int fault; /* 0: none */
} cases[] = {
    {"one with a body", "POST /0/exists HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
     "POST /0/exists abc\n", 0},
    {"without host", "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "POST / \n", 0},
    {"pipelined",
     "GET /a HTTP/1.1\r\n\r\nPOST /b HTTP/1.1\r\ncontent-length: 2\r\n\r\nhiHEAD /c "
     "HTTP/1.1\r\n\r\n",
     "GET /a \nPOST /b hi\nHEAD /c \n", 0},
    {"empty lines before", "\r\n\r\nGET /a HTTP/1.1\r\n\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
     "GET /a \nGET /b \n", 0},
    {"HTTP/1.0 closes", "GET /a HTTP/1.0\r\n\r\n", "GET /a  close\n", 0},
    {"HTTP/1.0 keeps alive on request", "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
     "GET /a \n", 0},
    {"Connection: close", "GET /a HTTP/1.1\r\nConnection: close\r\n\r\n", "GET /a  close\n", 0},
    {"an upgrade is not taken up",
     "GET /a HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: "
     "AAMAAABk\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
     "GET /a \nGET /b \n", 0},
    {"chunked",
     "POST /a HTTP/1.1\r\nTransfer-Encoding: "
     "chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"
     "GET /b HTTP/1.1\r\n\r\n",
     "POST /a abc0123456789\nGET /b \n", 0},
    {"chunked and empty", "POST /a HTTP/1.1\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
     "POST /a \n", 0},
    {"a chunk extension is skipped",
     "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\n\r\n", "POST /a x\n",
     0},
    {"other methods", "DELETE /a HTTP/1.1\r\n\r\nM-SEARCH /b HTTP/1.1\r\n\r\n",
     "OTHER /a \nOTHER /b \n", 0},
    {"a value with bytes beyond ASCII", "GET /a HTTP/1.1\r\nX: \xc3\xa9\t y\r\n\r\n", "GET /a \n",
     0},
    {"a body that looks like a request",
     "POST /a HTTP/1.1\r\nContent-Length: 18\r\n\r\nGET /b HTTP/1.1\r\n\r",
     "POST /a GET /b "
     "HTTP/1.1\r\n\r\n",
     0},

    {"LF alone", "GET /a HTTP/1.1\nHost: x\n\n", "", 400},
    {"LF alone at the end", "GET /a HTTP/1.1\r\nHost: x\r\n\n", "", 400},
    {"LF alone in a line", "GET /a HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", "", 400},
    {"bare CR in a value", "GET /a HTTP/1.1\r\nX: \rTransfer-Encoding: chunked\r\n\r\n", "", 400},
    {"bare CR in a name", "GET /a HTTP/1.1\r\nX\rY: z\r\n\r\n", "", 400},
    {"bare CR in the request line", "GET /a\r HTTP/1.1\r\nX: y\r\n\r\n", "", 400},
    {"space before the colon", "POST /a HTTP/1.1\r\nContent-Length : 3\r\n\r\nabc", "", 400},
    {"tab before the colon", "POST /a HTTP/1.1\r\nContent-Length\t: 3\r\n\r\nabc", "", 400},
    {"a folded line", "GET /a HTTP/1.1\r\nX: y\r\n z\r\n\r\n", "", 400},
    {"a folded first line", "GET /a HTTP/1.1\r\n X: y\r\n\r\n", "", 400},
    {"no name", "GET /a HTTP/1.1\r\n: y\r\n\r\n", "", 400},
    {"no colon", "GET /a HTTP/1.1\r\nHost\r\n\r\n", "", 400},
    {"a control character", "GET /a HTTP/1.1\r\nX: a\x01\r\n\r\n", "", 400},
    {"two lengths", "POST /a HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "",
     400},
    {"two equal lengths", "POST /a HTTP/1.1\r\nContent-Length: 3\r\ncontent-length: 3\r\n\r\nabc",
     "", 400},
    {"a list of lengths", "POST /a HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\nabc", "", 400},
    {"a length with a sign", "POST /a HTTP/1.1\r\nContent-Length: +3\r\n\r\nabc", "", 400},
    {"a negative length", "POST /a HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "", 400},
    {"no length", "POST /a HTTP/1.1\r\nContent-Length:\r\n\r\n", "", 400},
    {"a length in hex", "POST /a HTTP/1.1\r\nContent-Length: 0x3\r\n\r\nabc", "", 400},
    {"a length beyond 2^63", "POST /a HTTP/1.1\r\nContent-Length: 9223372036854775808\r\n\r\n", "",
     400},
    {"a length and chunks",
     "POST /a HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "",
     400},
    {"chunks and a length",
     "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "",
     400},
    {"two codings",
     "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
     "chunked\r\n\r\n0\r\n\r\n",
     "", 400},
    {"another coding", "POST /a HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "",
     400},
    {"identity", "POST /a HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n", "", 400},
    {"chunks in HTTP/1.0", "POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "",
     400},
    {"a chunk size that is none",
     "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\na\r\n0\r\n\r\n", "", 400},
    {"a chunk size with a prefix",
     "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", "", 400},
    {"a chunk size that overflows",
     "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000001\r\na\r\n0\r\n\r\n",
     "", 400},
    {"a chunk size line that ends with LF",
     "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n", "", 400},
    {"a chunk that ends with LF",
     "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n", "", 400},
    {"a chunk longer than its size",
     "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", "", 400},
    {"a trailer", "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n", "",
     400},
    {"two hosts", "GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "", 400},
    {"two origins", "GET /a HTTP/1.1\r\nOrigin: x\r\nOrigin: y\r\n\r\n", "", 400},
    {"two authorizations", "GET /a HTTP/1.1\r\nAuthorization: x\r\nauthorization: y\r\n\r\n", "",
     400},
    {"TLS", "\x16\x03\x01\x02", "", 400},
    {"lower case", "get /a HTTP/1.1\r\n\r\n", "", 400},
    {"a space first", " GET /a HTTP/1.1\r\n\r\n", "", 400},
    {"an unknown method", "BREW /a HTTP/1.1\r\n\r\n", "", 400},
    {"HTTP/2's preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", 400},
    {"HTTP/2.0", "GET /a HTTP/2.0\r\n\r\n", "", 400},
    {"HTTP/0.9", "GET /a\r\n\r\n", "", 400},
    {"CONNECT", "CONNECT x:1 HTTP/1.1\r\n\r\n", "", 400},
    {"good, then bad", "GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\nX: y\n\n", "GET /a \n", 400},
    {"a body beyond the limit", "POST /a HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", "", 413},
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

/* Feeds the input in two pieces, cut at `cut`, or byte by byte when it is SIZE_MAX. */
static void play(size_t index, size_t cut)
{
    const char *input = cases[index].input;
    size_t length = strlen(input);
    struct http_parser parser;
    struct seen seen = {0};
    http_parser_init(&parser, BODY_MAX);
    if (cut == SIZE_MAX) {
        for (size_t i = 0; i < length && feed(&parser, input + i, 1, &seen); i++)
            continue;
    } else if (feed(&parser, input, cut, &seen)) {
        feed(&parser, input + cut, length - cut, &seen);
    }
    http_parser_done(&parser);
    seen.text[seen.length] = '\0';
    if (strcmp(seen.text, cases[index].requests) != 0 || seen.fault_status != cases[index].fault)
        fail_msg("%s, cut at %zd: got fault %d after '%s', not %d after '%s'", cases[index].name,
                 (ssize_t)cut, seen.fault_status, seen.text, cases[index].fault,
                 cases[index].requests);
}

static void requests_are_found_however_they_come(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        for (size_t cut = 0; cut <= strlen(cases[i].input); cut++)
            play(i, cut);
        play(i, SIZE_MAX);
    }
}

/* ---- Limits ----------------------------------------------------------------------------------*/

/* Feeds `each` n times after `before`; returns the fault, or 0. */
static int feed_many(const char *before, const char *each, size_t n, const char *after,
                     struct seen *seen)
{
    struct http_parser parser;
    http_parser_init(&parser, BODY_MAX);
    bool open = feed(&parser, before, strlen(before), seen);
    for (size_t i = 0; i < n && open; i++)
        open = feed(&parser, each, strlen(each), seen);
    if (open)
        feed(&parser, after, strlen(after), seen);
    http_parser_done(&parser);
    return seen->fault_status;
}

static void limits_hold_for_what_never_ends(void **state)
{
    (void)state;
    struct seen seen = {0};
    /* Headers without an end; a URL without an end; both just within their limits. */
    assert_int_equal(feed_many("GET / HTTP/1.1\r\n", "X: 3456789\r\n", 6000, "", &seen), 431);
    seen = (struct seen){0};
    assert_int_equal(feed_many("GET /", "x", 9000, "", &seen), 414);
    seen = (struct seen){0};
    assert_int_equal(feed_many("GET / HTTP/1.1\r\n", "X: 3456789\r\n", 5400, "\r\n", &seen), 0);
    assert_string_equal(seen.text, "GET / \n");
    seen = (struct seen){0};
    assert_int_equal(feed_many("GET /", "xxxxxxxxxx", 818, " HTTP/1.1\r\n\r\n", &seen), 0);
    seen = (struct seen){0};
    assert_int_equal(feed_many("GET /", "xxxxxxxxxx", 820, " HTTP/1.1\r\n\r\n", &seen), 414);
    /* Chunks beyond the limit, at it, and framing without content. */
    const char *chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    seen = (struct seen){0};
    assert_int_equal(feed_many(chunked, "a\r\n0123456789\r\n", 101, "0\r\n\r\n", &seen), 413);
    seen = (struct seen){0};
    assert_int_equal(feed_many(chunked, "a\r\n0123456789\r\n", 100, "0\r\n\r\n", &seen), 0);
    seen = (struct seen){0};
    assert_int_equal(feed_many("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;",
                               "extension-that-goes-on-and-on", 3000, "", &seen),
                     400);
}

/* A head of many lines in one piece, whose end lies beyond the limit. */
static void a_long_head_in_one_piece_is_refused(void **state)
{
    (void)state;
    struct buffer head = {0};
    struct seen seen = {0};
    buffer_append_text(&head, "GET / HTTP/1.1\r\n");
    for (int i = 0; i < 10000; i++)
        buffer_append_text(&head, "X: 3456789\r\n");
    buffer_append_text(&head, "\r\n");
    assert_int_equal(feed_many(buffer_text(&head), "", 0, "", &seen), 431);
    buffer_done(&head);
}

/* ---- What the caller is told -----------------------------------------------------------------*/

static void a_head_is_shown_before_its_body(void **state)
{
    (void)state;
    static const char head[] =
        "POST /a HTTP/1.1\r\nExpect: 100-continue\r\nAuthorization: Bearer t\r\n"
        "Origin: http://o\r\nHost: h\r\nContent-Length: 2\r\n\r\n";
    struct http_parser parser;
    http_parser_init(&parser, BODY_MAX);
    assert_true(http_is_between(&parser));
    struct page_end piece = page_end_new(head, strlen(head));
    const char *at = piece.bytes;
    assert_int_equal(http_next(&parser, &at, piece.bytes + piece.length), HTTP_NEXT_HEAD);
    assert_ptr_equal(at, piece.bytes + piece.length);
    page_end_done(&piece);
    const struct http_request *request = &parser.request;
    assert_true(request->expects_continue);
    assert_memory_equal(request->authorization.text, "Bearer t", request->authorization.length);
    assert_memory_equal(request->origin.text, "http://o", request->origin.length);
    assert_memory_equal(request->host.text, "h", request->host.length);
    assert_false(http_is_between(&parser));
    const char *body = "hi", *next = body;
    assert_int_equal(http_next(&parser, &next, body + 2), HTTP_NEXT_WHOLE);
    assert_true(http_is_between(&parser));
    http_parser_done(&parser);
}

static void a_kept_request_outlives_its_input(void **state)
{
    (void)state;
    static const char input[] = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi";
    struct http_parser parser;
    http_parser_init(&parser, BODY_MAX);
    struct page_end piece = page_end_new(input, strlen(input));
    const char *at = piece.bytes;
    assert_int_equal(http_next(&parser, &at, piece.bytes + piece.length), HTTP_NEXT_WHOLE);
    assert_true(http_keep(&parser));
    page_end_done(&piece);
    assert_memory_equal(parser.request.target.text, "/a", 2);
    assert_memory_equal(parser.request.host.text, "h", 1);
    assert_memory_equal(parser.request.body.text, "hi", 2);
    http_parser_done(&parser);
}

static void answers_are_written(void **state)
{
    (void)state;
    struct buffer out = {0};
    struct http_answer_head head = {.status = 200, .date = "D", .content_type = "application/json"};
    http_write_answer(&out, &head, "{}", 2);
    assert_string_equal(buffer_text(&out), "HTTP/1.1 200 OK\r\ndate: D\r\nserver: kvshelf\r\n"
                                           "content-length: 2\r\ncontent-type: application/json\r\n"
                                           "\r\n{}");
    buffer_clear(&out);
    head = (struct http_answer_head){.status = 204, .date = "D"};
    http_write_answer(&out, &head, NULL, 0);
    assert_string_equal(buffer_text(&out),
                        "HTTP/1.1 204 No Content\r\ndate: D\r\nserver: kvshelf\r\n\r\n");
    buffer_clear(&out);
    head = (struct http_answer_head){
        .status = 405, .date = "D", .extra = "allow: POST\r\n", .close = true, .head_only = true};
    http_write_answer(&out, &head, "12345", 5);
    assert_string_equal(buffer_text(&out),
                        "HTTP/1.1 405 Method Not Allowed\r\ndate: D\r\nserver: kvshelf\r\n"
                        "content-length: 5\r\nallow: POST\r\nconnection: close\r\n\r\n");
    buffer_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_found_however_they_come),
        cmocka_unit_test(limits_hold_for_what_never_ends),
        cmocka_unit_test(a_long_head_in_one_piece_is_refused),
        cmocka_unit_test(a_head_is_shown_before_its_body),
        cmocka_unit_test(a_kept_request_outlives_its_input),
        cmocka_unit_test(answers_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
