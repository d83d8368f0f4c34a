/* kvshelf's server, real, in the process of a test: on loopback, with catalogs in memory or kept.
 */
#ifndef KVSHELF_TESTS_SUPPORT_LIVE_SERVER_H
#define KVSHELF_TESTS_SUPPORT_LIVE_SERVER_H

#include "server/server.h"

struct live_server {
    const char *dir;   /* NULL: in memory */
    const char *token; /* NULL: none */
    uint64_t reserve_ttl_ms, quarantine_ms, lease_ms;
    uint16_t port; /* 0 before the first start; kept over stops */
    char url[64];

    struct registry *registry;
    struct service service;
    struct server *server; /* NULL: stopped */
};

/* Set the members above first, or leave them 0: 60 s, 60 s, 10 s. Fails the test if it fails. */
void live_server_start(struct live_server *live);
/* Stops; catalogs in memory are gone. */
void live_server_stop(struct live_server *live);

/* Requests answered so far since the start, of an endpoint. */
uint64_t live_server_requests(struct live_server *live, enum endpoint endpoint);
/* The catalog's counts; fails the test when its invariants do not hold. */
struct catalog_counts live_server_counts(struct live_server *live, uint32_t rank, const char *ns);

#endif
