/* The server as threads and sockets; see server.h. */
#include "server/server.h"

#include "base/clock.h"
#include "base/status.h"
#include "server/loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADDRESSES_MAX = 8, BACKLOG = 4096 };

/* ---- Addresses -------------------------------------------------------------------------------*/

static int resolve(const char *host, uint16_t port, struct addrinfo **ret_addresses)
{
    char service[8];
    snprintf(service, sizeof(service), "%u", (unsigned)port);
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    return getaddrinfo(host, service, &hints, ret_addresses);
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

bool server_host_is_loopback(const char *host)
{
    struct addrinfo *addresses;
    if (resolve(host, 0, &addresses) != 0)
        return false;
    bool loopback = true;
    for (const struct addrinfo *a = addresses; a != NULL; a = a->ai_next)
        loopback = loopback && is_loopback(a->ai_addr);
    freeaddrinfo(addresses);
    return loopback;
}

/* Returns the socket, or -errno. */
static int listen_to(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    const int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int failed = errno;
    close(fd);
    return -failed;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)(const void *)&address)->sin6_port);
    return ntohs(((const struct sockaddr_in *)(const void *)&address)->sin_port);
}

static enum kvs_status cannot_listen(const struct server_options *options, const char *reason,
                                     struct kvs_error *error)
{
    return error_set(error, KVS_ERR_LISTEN, options->host, NUM(options->port), reason);
}

/* Opens one socket for each address of the host. */
static enum kvs_status open_sockets(struct server *server, struct kvs_error *error)
{
    const struct server_options *options = &server->options;
    struct addrinfo *addresses;
    int failed = resolve(options->host, options->port, &addresses);
    if (failed != 0)
        return cannot_listen(options, gai_strerror(failed), error);
    server->sockets = calloc(ADDRESSES_MAX, sizeof(*server->sockets));
    enum kvs_status status = KVS_OK;
    if (server->sockets == NULL)
        status = error_set(error, KVS_ERR_NO_MEMORY, "listening");
    for (const struct addrinfo *a = addresses;
         status == KVS_OK && a != NULL && server->socket_count < ADDRESSES_MAX; a = a->ai_next) {
        int fd = listen_to(a);
        if (fd >= 0)
            server->sockets[server->socket_count++] = fd;
        else if (fd != -EAFNOSUPPORT || a->ai_next == NULL)
            status = cannot_listen(options, strerror(-fd), error);
        if (options->port == 0 && fd >= 0)
            break; /* a free port is free for one address */
    }
    freeaddrinfo(addresses);
    if (status == KVS_OK)
        server->port = port_of(server->sockets[0]);
    return status;
}

/* ---- Start and stop --------------------------------------------------------------------------*/

static enum kvs_status make_workers(struct server *server, struct kvs_error *error)
{
    size_t count = server->options.threads + 2;
    server->workers = calloc(count, sizeof(struct worker *));
    for (size_t i = 0; server->workers != NULL && i < count; i++)
        if ((server->workers[i] = worker_new()) == NULL)
            return error_set(error, KVS_ERR_NO_MEMORY, "starting the server");
    if (server->workers == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "starting the server");
    server->service->workers = server->workers;
    server->service->worker_count = count;
    return KVS_OK;
}

/* Threads are started last, when nothing else can fail but they. */
static enum kvs_status start_loops(struct server *server, struct kvs_error *error)
{
    size_t threads = server->options.threads;
    server->loops = calloc(threads, sizeof(*server->loops));
    if (server->loops == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "starting the server");
    enum kvs_status status = KVS_OK;
    for (size_t i = 0; i < threads; i++) {
        enum kvs_status made = loop_init(&server->loops[i], server, server->workers[i], error);
        status = status == KVS_OK ? made : status;
    }
    size_t running = 0;
    /* The first loop hands connections to the others: it starts when they run. */
    for (size_t i = threads; status == KVS_OK && i > 0; i--, running++)
        status = loop_start(&server->loops[i - 1], error);
    if (status == KVS_OK)
        return KVS_OK;
    atomic_store(&server->stopping, true);
    for (size_t i = threads - (running > 0 ? running - 1 : 0); i < threads; i++) {
        uv_async_send(&server->loops[i].wake);
        pthread_join(server->loops[i].thread, NULL);
    }
    return status;
}

static struct server *release(struct server *server)
{
    for (size_t i = 0; server->loops != NULL && i < server->options.threads; i++)
        loop_done(&server->loops[i]);
    free(server->loops);
    for (size_t i = 0; i < server->socket_count; i++)
        close(server->sockets[i]);
    free(server->sockets);
    for (size_t i = 0; server->workers != NULL && i < server->options.threads + 2; i++)
        worker_free(server->workers[i]);
    free(server->workers);
    server->service->workers = NULL;
    server->service->worker_count = 0;
    pthread_mutex_destroy(&server->slow);
    pthread_mutex_destroy(&server->lane.mutex);
    free(server);
    return NULL;
}

enum kvs_status server_start(const struct server_options *options, struct service *service,
                             struct server **ret_server, struct kvs_error *error)
{
    struct server *server = calloc(1, sizeof(*server));
    if (server == NULL)
        return error_set(error, KVS_ERR_NO_MEMORY, "starting the server");
    server->options = *options;
    server->service = service;
    service->log = options->log;
    pthread_mutex_init(&server->slow, NULL);
    pthread_mutex_init(&server->lane.mutex, NULL);
    enum kvs_status status = open_sockets(server, error);
    if (status == KVS_OK)
        status = make_workers(server, error);
    if (status == KVS_OK)
        status = start_loops(server, error);
    if (status != KVS_OK) {
        release(server);
        return status;
    }
    *ret_server = server;
    return KVS_OK;
}

static void wake_all(struct server *server)
{
    for (size_t i = 0; i < server->options.threads; i++)
        uv_async_send(&server->loops[i].wake);
}

void server_ready(struct server *server, struct registry *registry)
{
    atomic_store_explicit(&server->service->registry, registry, memory_order_release);
    wake_all(server);
}

uint16_t server_port(const struct server *server)
{
    return server->port;
}

struct server *server_stop(struct server *server, uint64_t grace_ms)
{
    if (server == NULL)
        return NULL;
    server->grace_ms = grace_ms;
    atomic_store(&server->stopping, true);
    wake_all(server);
    for (size_t i = 0; i < server->options.threads; i++)
        pthread_join(server->loops[i].thread, NULL);
    return release(server);
}
