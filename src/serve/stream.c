/* stream.c - see stream.h. */
#include "serve/stream.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct stream {
    pthread_mutex_t lock; /* of everything below */
    int refs;
    stream_owner owner;
    stream_waiter waiter;
    buf out;
    size_t taken; /* bytes of `out` that were read */
    int status;
    const char *content_type;
    double last_write;
    atomic_int_fast64_t prompt, generated; /* tokens */
    _Atomic double first;
    const char *_Atomic ended_by;
    bool live, started, ended, full, gone, asleep, failed;
};

int stream_open(stream **out, const stream_owner *owner, err *e)
{
    stream *s = *out = mem_zero(1, sizeof *s);
    if (!s) return err_memory(e, NULL);
    pthread_mutex_init(&s->lock, NULL);
    s->refs = 1;
    s->owner = *owner;
    return OK;
}

void stream_keep(stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->refs++;
    pthread_mutex_unlock(&s->lock);
}

void stream_drop(stream *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    bool last = --s->refs == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last) return;
    if (s->owner.free) s->owner.free(s->owner.ctx);
    pthread_mutex_destroy(&s->lock);
    buf_free(&s->out);
    mem_free(s);
}

static void wake_stream(stream *s)
{
    if (!s->asleep) return;
    s->asleep = false;
    s->waiter.resume(s->waiter.ctx);
}

void stream_start(stream *s, int status, const char *content_type, bool live)
{
    pthread_mutex_lock(&s->lock);
    if (!s->started) {
        s->started = true;
        s->status = status;
        s->content_type = content_type;
        s->live = live;
        s->last_write = clock_now();
        if (live) wake_stream(s);
    }
    pthread_mutex_unlock(&s->lock);
}

bool stream_is_started(stream *s)
{
    pthread_mutex_lock(&s->lock);
    bool yes = s->started;
    pthread_mutex_unlock(&s->lock);
    return yes;
}

bool stream_write(stream *s, const void *p, size_t n)
{
    pthread_mutex_lock(&s->lock);
    bool alive = !s->gone && !s->ended && !s->failed;
    if (alive && n) {
        if (s->taken == s->out.n) s->taken = s->out.n = 0;
        if (!buf_add(&s->out, p, n)) s->failed = true;
        s->last_write = clock_now();
        if (s->live && s->out.n - s->taken >= STREAM_FULL) s->full = true;
        if (s->live) wake_stream(s);
    }
    alive = alive && !s->failed;
    pthread_mutex_unlock(&s->lock);
    return alive;
}

void stream_end(stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    wake_stream(s);
    pthread_mutex_unlock(&s->lock);
}

bool stream_is_full(stream *s)
{
    pthread_mutex_lock(&s->lock);
    bool yes = s->full && !s->gone;
    pthread_mutex_unlock(&s->lock);
    return yes;
}

void stream_count(stream *s, int64_t prompt, int64_t generated)
{
    atomic_fetch_add_explicit(&s->prompt, prompt, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->generated, generated, memory_order_relaxed);
}

void stream_counts(stream *s, int64_t *prompt, int64_t *generated)
{
    *prompt = atomic_load_explicit(&s->prompt, memory_order_relaxed);
    *generated = atomic_load_explicit(&s->generated, memory_order_relaxed);
}

void stream_note_first(stream *s, double when) { atomic_store(&s->first, when); }
void stream_note_end(stream *s, const char *why) { atomic_store(&s->ended_by, why); }
double stream_first(stream *s) { return atomic_load(&s->first); }
const char *stream_end_reason(stream *s) { return atomic_load(&s->ended_by); }

bool stream_is_gone(stream *s)
{
    pthread_mutex_lock(&s->lock);
    bool yes = s->gone;
    pthread_mutex_unlock(&s->lock);
    return yes;
}

void stream_attach(stream *s, const stream_waiter *w)
{
    pthread_mutex_lock(&s->lock);
    s->waiter = *w;
    pthread_mutex_unlock(&s->lock);
}

static void sleep_now(stream *s)
{
    s->asleep = true;
    s->waiter.suspend(s->waiter.ctx);
}

bool stream_ready(stream *s, int *status, const char **content_type, bool *live)
{
    pthread_mutex_lock(&s->lock);
    bool ready = s->ended || s->gone || (s->started && s->live);
    if (ready) {
        bool whole = s->started && !s->failed;
        *status = whole ? s->status : 500;
        *content_type = whole ? s->content_type : "text/plain";
        *live = s->live;
    } else if (!s->asleep) {
        sleep_now(s);
    }
    pthread_mutex_unlock(&s->lock);
    return ready;
}

ssize_t stream_read(stream *s, void *p, size_t max)
{
    pthread_mutex_lock(&s->lock);
    size_t n = s->out.n - s->taken;
    ssize_t got = 0;
    bool drained = false;
    if (n > max) n = max;
    if (n) {
        memcpy(p, s->out.p + s->taken, n);
        s->taken += n;
        got = (ssize_t)n;
        if (s->taken >= STREAM_LOW && s->taken * 2 >= s->out.n) { /* keep the buffer short: the rest to the front */
            memmove(s->out.p, s->out.p + s->taken, s->out.n - s->taken);
            s->out.n -= s->taken;
            s->taken = 0;
        }
        drained = s->full && s->out.n - s->taken < STREAM_LOW;
        if (drained) s->full = false;
    } else if (s->ended || s->gone || s->failed) {
        got = -1;
    } else if (!s->asleep) {
        sleep_now(s);
    }
    pthread_mutex_unlock(&s->lock);
    if (drained && s->owner.drained) s->owner.drained(s->owner.ctx);
    return got;
}

size_t stream_waiting(stream *s)
{
    pthread_mutex_lock(&s->lock);
    size_t n = s->out.n - s->taken;
    pthread_mutex_unlock(&s->lock);
    return n;
}

void stream_leave(stream *s)
{
    pthread_mutex_lock(&s->lock);
    bool first = !s->gone && !s->ended;
    s->gone |= !s->ended; /* what has ended can still be read */
    wake_stream(s);
    pthread_mutex_unlock(&s->lock);
    if (first && s->owner.gone) s->owner.gone(s->owner.ctx);
}

void stream_ping(stream *s, double now, double seconds)
{
    static const char comment[] = ": waiting\n\n";
    pthread_mutex_lock(&s->lock);
    bool idle = s->live && s->started && !s->ended && !s->gone && s->out.n == s->taken && now - s->last_write > seconds;
    pthread_mutex_unlock(&s->lock);
    if (idle) stream_write(s, comment, sizeof comment - 1);
}
