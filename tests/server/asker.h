/* Asks the request function, without sockets and with a clock of the test's own. For tests of this
 * folder. */
#ifndef KVSHELF_TESTS_SERVER_ASKER_H
#define KVSHELF_TESTS_SERVER_ASKER_H

#include "server/request.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t asker_now_ms = 1000000;

static uint64_t asker_clock(void)
{
    return asker_now_ms;
}

struct asker {
    struct registry *registry;
    struct service service;
    struct worker *worker;
    struct request_peer peer;
    struct answer answer;
};

/* Seconds as the scenarios are written for: lease 2, quarantine 2, reserve-ttl 4, idle-reset 3. */
static inline void asker_begin(struct asker *asker, uint64_t max_pages, uint32_t max_namespaces)
{
    const struct registry_options options = {
        .reserve_ttl_ms = 4000,
        .quarantine_ms = 2000,
        .lease_ms = 2000,
        .idle_reset_ms = 3000,
        .foreign_writers = true,
        .max_total_pages = max_pages,
        .max_namespaces = max_namespaces,
        .boot_ms = asker_clock,
    };
    *asker = (struct asker){0};
    assert_int_equal(registry_open(&options, &asker->registry, NULL), KVS_OK);
    service_init(&asker->service, asker->registry, asker_now_ms);
    asker->worker = worker_new();
    assert_non_null(asker->worker);
    asker->service.workers = &asker->worker;
    asker->service.worker_count = 1;
}

static inline void asker_end(struct asker *asker)
{
    asker->worker = worker_free(asker->worker);
    service_done(&asker->service);
    asker->registry = registry_close(asker->registry);
}

static inline struct http_text asker_text(const char *text)
{
    return (struct http_text){text, text == NULL ? 0 : strlen(text)};
}

/* Returns the status; the rest is in asker->answer. The body is copied into memory of its exact
 * size, so that a sanitizer sees a read beyond it. */
static inline int asker_ask_bytes(struct asker *asker, enum http_method method, const char *target,
                                  const char *body, size_t length)
{
    char *exact = malloc(length > 0 ? length : 1);
    assert_non_null(exact);
    if (length > 0)
        memcpy(exact, body, length);
    const struct http_request request = {
        .method = method,
        .keep_alive = true,
        .target = asker_text(target),
        .body = {exact, length},
    };
    request_answer(&asker->service, asker->worker, &asker->peer, &request, asker_now_ms,
                   &asker->answer);
    free(exact);
    return asker->answer.status;
}

static inline int asker_post(struct asker *asker, const char *target, const char *body)
{
    return asker_ask_bytes(asker, METHOD_POST, target, body, strlen(body));
}

static inline int asker_get(struct asker *asker, const char *target)
{
    return asker_ask_bytes(asker, METHOD_GET, target, "", 0);
}

/* The body as a text; valid until the next question. */
static inline const char *asker_body(struct asker *asker)
{
    return asker->answer.length == 0 ? "" : buffer_text(&asker->worker->answer);
}

static inline bool asker_says(struct asker *asker, const char *part)
{
    return strstr(asker_body(asker), part) != NULL;
}

#endif
