/* The bucket. */
#include "store/limiter.h"

void limiter_init(struct limiter *limiter, uint64_t interval_ns, uint64_t burst)
{
    *limiter = (struct limiter){.interval_ns = interval_ns, .burst = burst, .tokens = burst};
    pthread_mutex_init(&limiter->mutex, NULL);
}

void limiter_done(struct limiter *limiter)
{
    pthread_mutex_destroy(&limiter->mutex);
}

uint64_t limiter_take(struct limiter *limiter, uint64_t now_ns, uint64_t n)
{
    pthread_mutex_lock(&limiter->mutex);
    if (limiter->tokens >= limiter->burst || now_ns < limiter->filled_ns) {
        limiter->filled_ns = now_ns;
    } else {
        uint64_t earned = (now_ns - limiter->filled_ns) / limiter->interval_ns;
        uint64_t room = limiter->burst - limiter->tokens;
        limiter->tokens += earned < room ? earned : room;
        limiter->filled_ns += earned * limiter->interval_ns;
    }
    uint64_t taken = n < limiter->tokens ? n : limiter->tokens;
    limiter->tokens -= taken;
    pthread_mutex_unlock(&limiter->mutex);
    return taken;
}
