/* kvshelf serve as a child process of a test: started on a free port, asked, signalled, waited for.
 */
#ifndef KVSHELF_TESTS_SUPPORT_SERVING_H
#define KVSHELF_TESTS_SUPPORT_SERVING_H

#include "base/buffer.h"

#include <sys/types.h>

enum { SERVING_HANG_S = 20 }; /* a test that takes longer hangs: its server ends, its reads fail */

struct serving {
    pid_t pid;
    int log; /* what it says on stderr */
    struct buffer said;
    unsigned port;
};

/* `arguments` after "serve", `environment` ("NAME=VALUE", may be NULL), both NULL-terminated.
 * serving_start() waits until it listens on 127.0.0.1; the test fails when it does not. */
struct serving serving_spawn(const char *const arguments[], const char *const environment[]);
struct serving serving_start(const char *const arguments[], const char *const environment[]);
#define SERVING_START(...)                                                                         \
    serving_start((const char *const[]){"--port", "0", ##__VA_ARGS__, NULL}, NULL)

/* Reads its log until it holds `text`; false at the end of the log. */
bool serving_wait_for(struct serving *serving, const char *text);

/* Its exit code; 1000 + the signal that ended it. */
int serving_wait_end(struct serving *serving);
void serving_done(struct serving *serving);

int serving_open_connection(const struct serving *serving);

/* One request on a connection of its own: `head` is the request line and headers without their last
 * line end. Returns the whole answer; valid until the next call. */
const char *serving_ask(const struct serving *serving, const char *head, const char *body);
const char *serving_post(const struct serving *serving, const char *path, const char *body);

#endif
