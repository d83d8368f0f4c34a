/* The breaker's states: closed (counting failures in a row), open (until the pause is over), and
 * open with one prober under way. */
#include "store/breaker.h"

static const uint64_t PAUSE_MIN_NS = 1000ull * 1000 * 1000;
static const uint64_t PAUSE_MAX_NS = 30ull * 1000 * 1000 * 1000;

void breaker_init(struct breaker *breaker, uint32_t limit)
{
    *breaker = (struct breaker){.limit = limit};
    pthread_mutex_init(&breaker->mutex, NULL);
}

void breaker_done(struct breaker *breaker)
{
    pthread_mutex_destroy(&breaker->mutex);
}

enum breaker_answer breaker_ask(struct breaker *breaker, uint64_t now_ns)
{
    enum breaker_answer answer = BREAKER_ALLOWS;
    pthread_mutex_lock(&breaker->mutex);
    if (breaker->open) {
        if (breaker->probing || now_ns < breaker->until_ns) {
            answer = BREAKER_REFUSES;
        } else {
            breaker->probing = true;
            answer = BREAKER_PROBES;
        }
    }
    pthread_mutex_unlock(&breaker->mutex);
    return answer;
}

bool breaker_closed(struct breaker *breaker)
{
    pthread_mutex_lock(&breaker->mutex);
    bool closed = !breaker->open;
    pthread_mutex_unlock(&breaker->mutex);
    return closed;
}

static void trip(struct breaker *breaker, uint64_t now_ns)
{
    if (breaker->pause_ns == 0)
        breaker->pause_ns = PAUSE_MIN_NS;
    else if (breaker->pause_ns < PAUSE_MAX_NS / 2)
        breaker->pause_ns *= 2;
    else
        breaker->pause_ns = PAUSE_MAX_NS;
    breaker->open = true;
    breaker->probing = false;
    breaker->until_ns = now_ns + breaker->pause_ns;
    breaker->changed_ns = now_ns;
    atomic_fetch_add_explicit(&breaker->trips, 1, memory_order_relaxed);
}

bool breaker_report(struct breaker *breaker, uint64_t began_ns, uint64_t now_ns, uint64_t successes,
                    uint64_t failures, bool at_once)
{
    bool tripped = false;
    pthread_mutex_lock(&breaker->mutex);
    if (successes == 0 && failures > 0 && began_ns < breaker->changed_ns) {
        pthread_mutex_unlock(&breaker->mutex);
        return false;
    }
    if (successes > 0)
        breaker->failures = 0;
    else if (failures >= UINT32_MAX - breaker->failures)
        breaker->failures = UINT32_MAX;
    else
        breaker->failures += (uint32_t)failures;

    bool bad = failures > 0 && (at_once || breaker->failures >= breaker->limit);
    if (breaker->probing) {
        if (failures > 0) {
            trip(breaker, now_ns);
            tripped = true;
        } else if (successes > 0) {
            breaker->open = breaker->probing = false;
            breaker->pause_ns = 0;
            breaker->changed_ns = now_ns;
        } else {
            breaker->probing = false;
        }
    } else if (!breaker->open && bad) {
        trip(breaker, now_ns);
        tripped = true;
    }
    pthread_mutex_unlock(&breaker->mutex);
    return tripped;
}

void breaker_cancel(struct breaker *breaker)
{
    pthread_mutex_lock(&breaker->mutex);
    breaker->probing = false;
    pthread_mutex_unlock(&breaker->mutex);
}

uint64_t breaker_trips(const struct breaker *breaker)
{
    return atomic_load_explicit(&breaker->trips, memory_order_relaxed);
}

uint64_t breaker_pause_ms(struct breaker *breaker)
{
    pthread_mutex_lock(&breaker->mutex);
    uint64_t pause_ms = breaker->open ? breaker->pause_ns / 1000000 : 0;
    pthread_mutex_unlock(&breaker->mutex);
    return pause_ms;
}
