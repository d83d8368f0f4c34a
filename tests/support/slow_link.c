/* The wire; see slow_link.h. */
#include "support/slow_link.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PACKET_BYTES_MAX = 2048, PACKETS_MAX = 8192, NEAR = 0, FAR = 1 };

struct packet {
    uint64_t due_ns, number;
    int to;
    size_t length;
    char bytes[PACKET_BYTES_MAX];
};

struct slow_link {
    int tun[2], ns[2], before_ns, wake;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    struct slow_link_weather weather;
    struct slow_link_counts counts;
    bool closing;
    /* Of the thread alone: */
    uint64_t chance, number, last_number[2];
    struct packet *heap[PACKETS_MAX]; /* by when they are due */
    size_t count;
};

/* ---- Packets under way ---------------------------------------------------------------------- */

static bool earlier(const struct packet *a, const struct packet *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void push(struct slow_link *link, struct packet *packet)
{
    size_t at = link->count++;
    for (; at > 0 && earlier(packet, link->heap[(at - 1) / 2]); at = (at - 1) / 2)
        link->heap[at] = link->heap[(at - 1) / 2];
    link->heap[at] = packet;
}

static struct packet *pop(struct slow_link *link)
{
    struct packet *first = link->heap[0], *last = link->heap[--link->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < link->count; at = child) {
        if (child + 1 < link->count && earlier(link->heap[child + 1], link->heap[child]))
            child++;
        if (!earlier(link->heap[child], last))
            break;
        link->heap[at] = link->heap[child];
    }
    link->heap[at] = last;
    return first;
}

static uint64_t draw(struct slow_link *link)
{
    uint64_t x = link->chance += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void send_later(struct slow_link *link, int to, const char *bytes, size_t length,
                       const struct slow_link_weather *weather)
{
    struct packet *packet = link->count < PACKETS_MAX ? malloc(sizeof(*packet)) : NULL;
    if (packet == NULL)
        return; /* the wire is full: lost */
    uint64_t jitter_us = weather->jitter_us > 0 ? draw(link) % weather->jitter_us : 0;
    packet->due_ns = clock_mono_ns() + (weather->delay_us + jitter_us) * 1000;
    packet->number = ++link->number;
    packet->to = to;
    packet->length = length;
    memcpy(packet->bytes, bytes, length);
    push(link, packet);
}

/* ---- The thread ----------------------------------------------------------------------------- */

static struct slow_link_weather weather_of(struct slow_link *link, bool *ret_closing)
{
    pthread_mutex_lock(&link->lock);
    struct slow_link_weather weather = link->weather;
    *ret_closing = link->closing;
    pthread_mutex_unlock(&link->lock);
    return weather;
}

static void count(struct slow_link *link, uint64_t *which)
{
    pthread_mutex_lock(&link->lock);
    ++*which;
    pthread_mutex_unlock(&link->lock);
}

static void take_from(struct slow_link *link, int side, const struct slow_link_weather *weather)
{
    char bytes[PACKET_BYTES_MAX];
    ssize_t length;
    while ((length = read(link->tun[side], bytes, sizeof(bytes))) > 0) {
        bool lost = draw(link) % 1000 < weather->loss_per_mille;
        bool doubled = draw(link) % 1000 < weather->double_per_mille;
        if (lost || weather->cut) {
            count(link, &link->counts.lost);
            continue;
        }
        send_later(link, 1 - side, bytes, (size_t)length, weather);
        if (doubled) {
            count(link, &link->counts.doubled);
            send_later(link, 1 - side, bytes, (size_t)length, weather);
        }
    }
}

static void give(struct slow_link *link, const struct slow_link_weather *weather)
{
    while (link->count > 0 && link->heap[0]->due_ns <= clock_mono_ns()) {
        struct packet *packet = pop(link);
        bool there = !weather->cut && write(link->tun[packet->to], packet->bytes, packet->length) ==
                                          (ssize_t)packet->length;
        count(link, there ? &link->counts.carried : &link->counts.lost);
        if (packet->number < link->last_number[packet->to])
            count(link, &link->counts.overtaken);
        else
            link->last_number[packet->to] = packet->number;
        free(packet);
    }
}

static void *carry(void *arg)
{
    struct slow_link *link = arg;
    for (;;) {
        bool closing;
        struct slow_link_weather weather = weather_of(link, &closing);
        if (closing)
            break;
        struct pollfd fds[] = {{.fd = link->tun[NEAR], .events = POLLIN},
                               {.fd = link->tun[FAR], .events = POLLIN},
                               {.fd = link->wake, .events = POLLIN}};
        uint64_t now_ns = clock_mono_ns(), due_ns = link->count > 0 ? link->heap[0]->due_ns : 0;
        uint64_t wait_ns = due_ns > now_ns ? due_ns - now_ns : 0;
        struct timespec wait = {(time_t)(wait_ns / 1000000000), (long)(wait_ns % 1000000000)};
        ppoll(fds, 3, link->count > 0 ? &wait : NULL, NULL);
        uint64_t woken;
        if (fds[2].revents != 0 && read(link->wake, &woken, sizeof(woken)) < 0)
            break;
        weather = weather_of(link, &closing);
        take_from(link, NEAR, &weather);
        take_from(link, FAR, &weather);
        give(link, &weather);
    }
    while (link->count > 0)
        free(pop(link));
    return NULL;
}

/* ---- Namespaces and devices ----------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        perror(path);
    if (fd >= 0)
        close(fd);
}

/* In a namespace of users where this one may make networks, as the same user. */
static bool become_able(void)
{
    char map[64];
    unsigned uid = getuid(), gid = getgid();
    if (unshare(CLONE_NEWUSER) != 0)
        return false;
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof(map), "%u %u 1", uid, uid);
    write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof(map), "%u %u 1", gid, gid);
    write_file("/proc/self/gid_map", map);
    return true;
}

static bool set_up(const char *name, const char *address)
{
    struct ifreq request = {0};
    struct sockaddr_in in = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(request.ifr_name, IFNAMSIZ, "%s", name);
    inet_pton(AF_INET, address, &in.sin_addr);
    memcpy(&request.ifr_addr, &in, sizeof(in));
    bool good = fd >= 0 && ioctl(fd, SIOCSIFADDR, &request) == 0;
    inet_pton(AF_INET, "255.255.255.0", &in.sin_addr);
    memcpy(&request.ifr_netmask, &in, sizeof(in));
    good = good && ioctl(fd, SIOCSIFNETMASK, &request) == 0;
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    good = good && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

/* A namespace with one device, where the calling thread is from now on. */
static const char *make_side(struct slow_link *link, int side)
{
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    if (unshare(CLONE_NEWNET) != 0)
        return "this user may not make network namespaces";
    link->ns[side] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    link->tun[side] = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (link->ns[side] < 0 || link->tun[side] < 0)
        return "/dev/net/tun cannot be opened";
    snprintf(request.ifr_name, IFNAMSIZ, "%s", side == NEAR ? "near" : "far");
    if (ioctl(link->tun[side], TUNSETIFF, &request) != 0)
        return "this user may not make TUN devices";
    if (!set_up(request.ifr_name, side == NEAR ? SLOW_LINK_NEAR : SLOW_LINK_FAR))
        return "a TUN device cannot be given an address";
    return NULL;
}

static void close_all(struct slow_link *link)
{
    const int fds[] = {link->tun[NEAR], link->tun[FAR],  link->ns[NEAR],
                       link->ns[FAR],   link->before_ns, link->wake};
    if (link->before_ns >= 0 && setns(link->before_ns, CLONE_NEWNET) != 0)
        errno = 0; /* not from a namespace of users: the process stays where it is */
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

const char *slow_link_open(uint64_t seed, struct slow_link **ret_link)
{
    struct slow_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return "there is no memory";
    link->tun[NEAR] = link->tun[FAR] = link->ns[NEAR] = link->ns[FAR] = -1;
    link->before_ns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    link->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    link->chance = seed;
    pthread_mutex_init(&link->lock, NULL);
    const char *problem = NULL;
    if (unshare(CLONE_NEWNET) != 0 && !become_able())
        problem = "this user may make neither network namespaces nor namespaces of users";
    if (problem == NULL)
        problem = make_side(link, FAR);
    if (problem == NULL)
        problem = make_side(link, NEAR);
    if (problem == NULL && pthread_create(&link->thread, NULL, carry, link) != 0)
        problem = "no thread can be started";
    if (problem != NULL)
        close_all(link);
    else
        *ret_link = link;
    return problem;
}

static void wake(struct slow_link *link)
{
    const uint64_t one = 1;
    if (write(link->wake, &one, sizeof(one)) < 0)
        perror("eventfd");
}

struct slow_link *slow_link_close(struct slow_link *link)
{
    if (link == NULL)
        return NULL;
    pthread_mutex_lock(&link->lock);
    link->closing = true;
    pthread_mutex_unlock(&link->lock);
    wake(link);
    pthread_join(link->thread, NULL);
    close_all(link);
    return NULL;
}

void slow_link_set(struct slow_link *link, struct slow_link_weather weather)
{
    pthread_mutex_lock(&link->lock);
    link->weather = weather;
    pthread_mutex_unlock(&link->lock);
    wake(link);
}

struct slow_link_counts slow_link_counts(struct slow_link *link)
{
    pthread_mutex_lock(&link->lock);
    struct slow_link_counts counts = link->counts;
    pthread_mutex_unlock(&link->lock);
    return counts;
}

void slow_link_go(struct slow_link *link, bool far)
{
    if (setns(link->ns[far ? FAR : NEAR], CLONE_NEWNET) != 0) {
        perror("setns");
        abort();
    }
}
