/* kvshelf serve as a child process; see serving.h. */
#include "support/serving.h"

#include "support/unit.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 16 };

static void run_child(int log, const char *const arguments[], const char *const environment[])
{
    const char *argv[ARGUMENTS_MAX] = {"./kvshelf", "serve"};
    size_t n = 2;
    for (; *arguments != NULL && n < ARGUMENTS_MAX - 1; arguments++)
        argv[n++] = *arguments;
    for (; environment != NULL && *environment != NULL; environment++)
        putenv((char *)(uintptr_t)*environment);
    dup2(log, STDERR_FILENO);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

/* Reads its log until it holds `text`; false at the end of the log. */
bool serving_wait_for(struct serving *serving, const char *text)
{
    char piece[512];
    while (strstr(buffer_text(&serving->said), text) == NULL) {
        ssize_t n = read(serving->log, piece, sizeof(piece));
        if (n <= 0)
            return false;
        buffer_append(&serving->said, piece, (size_t)n);
    }
    return true;
}

struct serving serving_spawn(const char *const arguments[], const char *const environment[])
{
    int ends[2];
    struct serving serving = {0};
    assert_int_equal(pipe(ends), 0);
    serving.pid = fork();
    assert_true(serving.pid >= 0);
    if (serving.pid == 0) {
        alarm(SERVING_HANG_S);
        run_child(ends[1], arguments, environment);
    }
    close(ends[1]);
    serving.log = ends[0];
    return serving;
}

/* Until it listens. */
struct serving serving_start(const char *const arguments[], const char *const environment[])
{
    struct serving serving = serving_spawn(arguments, environment);
    if (!serving_wait_for(&serving, "listens on http://127.0.0.1:") ||
        !serving_wait_for(&serving, " thread"))
        fail_msg("it did not start: %s", buffer_text(&serving.said));
    const char *port = strstr(buffer_text(&serving.said), "127.0.0.1:") + strlen("127.0.0.1:");
    serving.port = (unsigned)strtoul(port, NULL, 10);
    assert_true(serving.port > 0);
    return serving;
}

/* Its exit code; 1000 + the signal that ended it. */
int serving_wait_end(struct serving *serving)
{
    int status;
    assert_int_equal(waitpid(serving->pid, &status, 0), serving->pid);
    while (serving_wait_for(serving, "(there is no such text)"))
        continue;
    close(serving->log);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void serving_done(struct serving *serving)
{
    buffer_done(&serving->said);
}

int serving_open_connection(const struct serving *serving)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)serving->port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval hang = {.tv_sec = SERVING_HANG_S};
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &hang, sizeof(hang));
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* One request on a connection of its own. Returns the whole answer; valid until the next call. */
const char *serving_ask(const struct serving *serving, const char *head, const char *body)
{
    static char answer[1 << 16];
    char request[1024];
    int fd = serving_open_connection(serving);
    snprintf(request, sizeof(request), "%s\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
             head, strlen(body), body);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    size_t length = 0;
    ssize_t n;
    while ((n = recv(fd, answer + length, sizeof(answer) - 1 - length, 0)) > 0)
        length += (size_t)n;
    answer[length] = '\0';
    close(fd);
    return answer;
}

const char *serving_post(const struct serving *serving, const char *path, const char *body)
{
    char head[256];
    snprintf(head, sizeof(head), "POST %s HTTP/1.1", path);
    return serving_ask(serving, head, body);
}
