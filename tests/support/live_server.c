/* See live_server.h. */
#include "support/live_server.h"

#include "base/clock.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

static uint64_t or_else(uint64_t value, uint64_t otherwise)
{
    return value != 0 ? value : otherwise;
}

void live_server_start(struct live_server *live)
{
    const struct registry_options catalogs = {
        .dir = live->dir,
        .reserve_ttl_ms = or_else(live->reserve_ttl_ms, 60000),
        .quarantine_ms = or_else(live->quarantine_ms, 60000),
        .lease_ms = or_else(live->lease_ms, 10000),
        .foreign_writers = true,
    };
    const struct server_options options = {
        .host = "127.0.0.1",
        .port = live->port,
        .threads = 2,
        .body_max_bytes = 64 << 20,
        .connections_max = 200,
        .idle_ms = 60000,
        .head_ms = 60000,
    };
    struct kvs_error error = {0};
    if (registry_open(&catalogs, &live->registry, &error) != KVS_OK)
        fail_msg("%s", error.message);
    service_init(&live->service, NULL, clock_boot_ms());
    if (live->token != NULL) {
        live->service.auth.length = strlen(live->token);
        memcpy(live->service.auth.token, live->token, live->service.auth.length + 1);
    }
    if (server_start(&options, &live->service, &live->server, &error) != KVS_OK)
        fail_msg("%s", error.message);
    server_ready(live->server, live->registry);
    live->port = server_port(live->server);
    snprintf(live->url, sizeof(live->url), "http://127.0.0.1:%u", live->port);
}

void live_server_stop(struct live_server *live)
{
    if (live->server == NULL)
        return;
    live->server = server_stop(live->server, 0);
    live->registry = registry_close(live->registry);
    service_done(&live->service);
}

uint64_t live_server_requests(struct live_server *live, enum endpoint endpoint)
{
    uint64_t requests = 0;
    struct metrics_sum sum = {0};
    for (size_t i = 0; i < live->service.worker_count; i++)
        metrics_sum_add(&sum, &live->service.workers[i]->metrics);
    for (size_t i = 0; i < OUTCOMES; i++)
        requests += sum.requests[endpoint][i];
    return requests;
}

struct catalog_counts live_server_counts(struct live_server *live, uint32_t rank, const char *ns)
{
    struct registry_entry *entry = registry_lock(live->registry, rank, ns, strlen(ns));
    assert_non_null(entry);
    struct catalog *catalog = registry_catalog(entry);
    const char *broken = catalog_check(catalog);
    struct catalog_counts counts = catalog_counts(catalog, clock_boot_ms());
    registry_unlock(entry);
    if (broken != NULL)
        fail_msg("%s", broken);
    return counts;
}
