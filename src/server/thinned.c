/* Lines that are written at a bounded rate; see thinned.h. */
#include "server/thinned.h"

#include "base/text.h"

void thinned_init(struct thinned *thinned, uint64_t now_ms)
{
    *thinned = (struct thinned){.left = THINNED_BURST, .filled_ms = now_ms};
    pthread_mutex_init(&thinned->mutex, NULL);
}

void thinned_done(struct thinned *thinned)
{
    pthread_mutex_destroy(&thinned->mutex);
}

static void gain(struct thinned *thinned, uint64_t now_ms)
{
    uint64_t gained =
        now_ms > thinned->filled_ms ? (now_ms - thinned->filled_ms) / THINNED_INTERVAL_MS : 0;
    thinned->filled_ms += gained * THINNED_INTERVAL_MS;
    thinned->left =
        gained > THINNED_BURST - thinned->left ? THINNED_BURST : thinned->left + (unsigned)gained;
}

/* *ret_unsaid: how many were left out since the last line. */
static bool may_write(struct thinned *thinned, uint64_t now_ms, uint64_t *ret_unsaid)
{
    pthread_mutex_lock(&thinned->mutex);
    gain(thinned, now_ms);
    bool may = thinned->left > 0;
    *ret_unsaid = thinned->unsaid;
    thinned->unsaid = may ? 0 : thinned->unsaid + 1;
    thinned->left -= may;
    pthread_mutex_unlock(&thinned->mutex);
    return may;
}

void thinned_log(struct thinned *thinned, const struct logger *log, uint64_t now_ms,
                 const char *line)
{
    uint64_t unsaid;
    if (!may_write(thinned, now_ms, &unsaid))
        return;
    if (unsaid == 0)
        log_line(log, KVS_LOG_WARNING, "%s", line);
    else
        log_line(log, KVS_LOG_WARNING, "%s (and %s more since the last such line)", line,
                 text_count(unsaid).text);
}
