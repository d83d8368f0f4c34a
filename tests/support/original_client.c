/* See original_client.h. */
#include "support/original_client.h"

#include "base/json.h"
#include "metadata/remote_transport.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { REPETITIONS = 3, BACKOFF_MS = 300, PATIENCE_MS = 60000, ANSWER_MAX_BYTES = 1 << 20 };

struct original_client {
    struct remote_transport *transport;
    int fd;
    uint64_t page_bytes;
    struct buffer question, answer;
};

/* ---- Questions ------------------------------------------------------------------------------ */

static bool may_pass(enum kvs_status status, int http_status)
{
    return status != KVS_OK || http_status == 500 || http_status == 502 || http_status == 503 ||
           http_status == 504;
}

/* Sends what is in `question`; the answer is in `answer`. */
static bool ask(struct original_client *c, const char *path)
{
    const struct remote_question question = {
        .path = path,
        .body = c->question.data,
        .body_bytes = c->question.length,
        .timeout_ms = PATIENCE_MS,
        .answer_max_bytes = ANSWER_MAX_BYTES,
        .repeatable = true,
    };
    int http_status = 0;
    for (int i = 0; i <= REPETITIONS; i++) {
        struct kvs_error error;
        buffer_clear(&c->answer);
        enum kvs_status status =
            c->transport->ask(c->transport, &question, &http_status, &c->answer, &error);
        if (!may_pass(status, http_status))
            return http_status < 400;
        if (i > 0 && i < REPETITIONS) /* its first repetition comes at once */
            poll(NULL, 0, BACKOFF_MS << i);
    }
    return false;
}

static struct json_writer begin(struct original_client *c)
{
    struct json_writer w = {.out = &c->question};
    buffer_clear(&c->question);
    json_write_object_begin(&w);
    json_write_name(&w, "namespace");
    json_write_text(&w, "kv");
    return w;
}

static bool ask_about(struct original_client *c, const char *path, size_t n,
                      const char *const keys[], bool with_prefix)
{
    struct json_writer w = begin(c);
    json_write_name(&w, "keys");
    json_write_array_begin(&w);
    for (size_t i = 0; i < n; i++) {
        if (with_prefix)
            json_write_array_begin(&w);
        json_write_text(&w, keys[i]);
        if (with_prefix) {
            json_write_text(&w, "");
            json_write_array_end(&w);
        }
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
    return ask(c, path);
}

/* Finds the list of this name in the answer. */
static bool find_list(struct original_client *c, struct json_reader *r, const char *list)
{
    struct json_text name;
    json_reader_init(r, c->answer.data, c->answer.length, NULL, JSON_DEPTH);
    if (!json_object_begin(r))
        return false;
    while (json_object_next(r, &name)) {
        if (json_text_is(name, list))
            return json_array_begin(r);
        json_skip(r);
    }
    return false;
}

/* ---- What a rank does ----------------------------------------------------------------------- */

struct original_client *original_client_open(const char *url, const char *path, uint64_t num_pages,
                                             uint64_t page_bytes)
{
    struct kvs_error error;
    struct original_client *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->page_bytes = page_bytes;
    c->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c->fd < 0 || ftruncate(c->fd, (off_t)(num_pages * page_bytes)) != 0 ||
        remote_http_open(url, NULL, &c->transport, &error) != KVS_OK)
        return original_client_close(c);
    struct json_writer w = begin(c);
    json_write_name(&w, "num_pages");
    json_write_uint64(&w, num_pages);
    json_write_object_end(&w);
    return ask(c, "/0/initialize") ? c : original_client_close(c);
}

struct original_client *original_client_close(struct original_client *c)
{
    if (c == NULL)
        return NULL;
    if (c->transport != NULL)
        c->transport->close(c->transport);
    if (c->fd >= 0)
        close(c->fd);
    buffer_done(&c->question);
    buffer_done(&c->answer);
    free(c);
    return NULL;
}

bool original_client_exists(struct original_client *c, size_t n, const char *const keys[],
                            size_t *ret_run)
{
    struct json_reader r;
    bool present = true;
    size_t run = 0;
    if (!ask_about(c, "/0/exists", n, keys, false) || !find_list(c, &r, "exists"))
        return false;
    while (run < n && present && json_array_next(&r) && json_bool(&r, &present))
        run += present;
    *ret_run = run;
    return !json_failed(&r);
}

/* The original hands the pages that are there to the buffers from the first one on, so that after a
 * gap they are in the wrong ones; its caller goes no further than the gap. */
bool original_client_get(struct original_client *c, size_t n, const char *const keys[],
                         void *const buffers[], size_t *ret_run)
{
    struct json_reader r;
    size_t run = 0, there = 0;
    bool unbroken = true;
    if (!ask_about(c, "/0/get_page_indices", n, keys, false) || !find_list(c, &r, "indices"))
        return false;
    for (size_t i = 0; i < n && json_array_next(&r); i++) {
        uint64_t page;
        if (json_peek(&r) == JSON_NULL) {
            json_null(&r);
            unbroken = false;
        } else if (json_uint64(&r, &page)) {
            ssize_t got =
                pread(c->fd, buffers[there++], c->page_bytes, (off_t)(page * c->page_bytes));
            unbroken = unbroken && got == (ssize_t)c->page_bytes;
            run += unbroken;
        }
    }
    *ret_run = run;
    return !json_failed(&r);
}

bool original_client_set(struct original_client *c, size_t n, const char *const keys[],
                         const void *const pages[], size_t *ret_stored)
{
    struct json_reader r;
    size_t stored = 0;
    if (!ask_about(c, "/0/reserve_and_allocate_page_indices", n, keys, true) ||
        !find_list(c, &r, "indices"))
        return false;
    struct json_writer w = begin(c);
    json_write_name(&w, "written_keys_to_confirm");
    json_write_array_begin(&w);
    for (size_t i = 0; i < n && json_array_next(&r); i++) {
        bool present;
        int64_t page;
        if (!json_array_begin(&r) || !json_array_next(&r) || !json_bool(&r, &present) ||
            !json_array_next(&r) || !json_int64(&r, &page) || json_array_next(&r))
            break;
        stored += present;
        if (present || page == -1)
            continue;
        if (pwrite(c->fd, pages[i], c->page_bytes, page * (off_t)c->page_bytes) !=
            (ssize_t)c->page_bytes)
            return false; /* no test fills the disk */
        json_write_array_begin(&w);
        json_write_text(&w, keys[i]);
        json_write_int64(&w, page);
        json_write_array_end(&w);
        stored++;
    }
    json_write_array_end(&w);
    json_write_name(&w, "pages_to_release");
    json_write_array_begin(&w);
    json_write_array_end(&w);
    json_write_object_end(&w);
    *ret_stored = stored;
    return !json_failed(&r) && ask(c, "/0/confirm_write");
}
