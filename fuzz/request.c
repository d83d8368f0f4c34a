/* Fuzzes the operations: each line of the input is a request, its first byte the operation, the
 * rest the body. Whatever is asked, the answer is 2xx or 4xx, and the catalog's invariants hold. */
#include "server/request.h"

#include <stdlib.h>

enum { PAGES = 8 };

static uint64_t now_ms = 1000;

static uint64_t fuzz_clock(void)
{
    return now_ms;
}

static void check(void *arg, const struct registry_info *info, struct catalog *catalog)
{
    (void)arg;
    const struct catalog_counts *c = &info->counts;
    if (c->free + c->reserved + c->committed + c->retired != info->num_pages ||
        catalog_check(catalog) != NULL)
        abort();
}

static void ask(struct service *service, struct worker *worker, const char *line, size_t length)
{
    static const char *const targets[] = {
        "/0/exists",        "/0/get_page_indices", "/0/reserve_and_allocate_page_indices",
        "/0/confirm_write", "/0/delete_keys",      "/0/clear",
        "/0/initialize",    "/0/report_mismatch",  "/0/list_keys",
    };
    enum { TARGETS = sizeof(targets) / sizeof(targets[0]) };
    const char *target = targets[(uint8_t)line[0] % TARGETS];
    char *body = malloc(length);
    if (body == NULL)
        abort();
    memcpy(body, line + 1, length - 1);
    struct request_peer peer = {0};
    struct answer answer;
    const struct http_request request = {
        .method = METHOD_POST,
        .target = {target, strlen(target)},
        .body = {body, length - 1},
    };
    now_ms += 500;
    request_answer(service, worker, &peer, &request, now_ms, &answer);
    if (answer.status >= 500 || answer.status < 200)
        abort();
    free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct worker *worker;
    const struct registry_options options = {
        .reserve_ttl_ms = 2000,
        .quarantine_ms = 1000,
        .lease_ms = 1000,
        .foreign_writers = true,
        .max_total_pages = 64,
        .boot_ms = fuzz_clock,
    };
    struct registry *registry;
    struct service service;
    if (worker == NULL && (worker = worker_new()) == NULL)
        abort();
    if (registry_open(&options, &registry, NULL) != KVS_OK ||
        registry_initialize(registry, 0, "kv", PAGES, 0, NULL, NULL) != KVS_OK)
        abort();
    service_init(&service, registry, now_ms);
    const char *at = (const char *)data, *end = at + size;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (line_end == NULL)
            line_end = end;
        if (line_end > at)
            ask(&service, worker, at, (size_t)(line_end - at));
        at = line_end + 1;
    }
    registry_visit(registry, check, NULL);
    service_done(&service);
    registry_close(registry);
    return 0;
}
