/* frame.c - see frame.h. */
#include "net/frame.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/tcp.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct frames {
    tls *c;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    bool busy, large; /* a record is being sent; a large frame is under way */
    int n_small;      /* small frames that wait for their turn */
    bool dead;        /* a record was not sent whole */
    uint8_t record[TLS_RECORD];
    _Atomic double sent_at, taken_at;
    atomic_ullong taken; /* bytes of payloads */
    frame_head in;       /* the large frame that comes in */
    uint8_t *room;       /* its payload; NULL: none is under way */
    uint32_t in_at;
};

frames *frames_open(tls *c)
{
    frames *f = mem_zero(1, sizeof *f);
    if (!f) {
        tls_close(c);
        return NULL;
    }
    f->c = c;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->turn, NULL);
    atomic_store(&f->sent_at, clock_now());
    atomic_store(&f->taken_at, clock_now());
    return f;
}

tls *frames_tls(frames *f) { return f->c; }
void frames_cut(frames *f) { tls_cut(f->c); }
double frames_sent_at(const frames *f) { return atomic_load(&f->sent_at); }
double frames_taken_at(const frames *f) { return atomic_load(&f->taken_at); }

void frames_close(frames *f)
{
    if (!f) return;
    tls_close(f->c);
    pthread_cond_destroy(&f->turn);
    pthread_mutex_destroy(&f->lock);
    mem_free(f);
}

/* ---- out */

static void put_number(uint8_t *to, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(v >> 8 * i);
}

/* The calling thread has the turn (busy). */
static int send_record(frames *f, const frame_head *h, const uint8_t *part, uint32_t n, bool further, err *e)
{
    put_number(f->record, h->bytes, 4);
    put_number(f->record + 4, h->kind, 2);
    put_number(f->record + 6, further, 2);
    put_number(f->record + 8, h->channel, 8);
    if (n) memcpy(f->record + FRAME_HEAD, part, n);
    int rc;
    while ((rc = tls_send(f->c, f->record, FRAME_HEAD + n, e)) > 0)
        if (!tcp_wait(tls_socket(f->c), true, clock_now() + FRAME_STALL))
            return err_set(e, ERR_IO, "the other side took nothing for %d s", FRAME_STALL);
    atomic_store_explicit(&f->sent_at, clock_now(), memory_order_relaxed);
    return rc;
}

/* One record in its turn; the lock is held before and after. */
static int take_turn(frames *f, const frame_head *h, const uint8_t *payload, uint32_t at, err *e)
{
    uint32_t n = h->bytes - at < FRAME_SMALL ? h->bytes - at : FRAME_SMALL;
    f->busy = true;
    int rc = f->dead ? err_set(e, ERR_IO, "the connection ended") : OK;
    pthread_mutex_unlock(&f->lock);
    if (!rc) rc = send_record(f, h, n ? payload + at : NULL, n, at > 0, e);
    pthread_mutex_lock(&f->lock);
    f->busy = false;
    f->dead = f->dead || rc;
    pthread_cond_broadcast(&f->turn);
    return rc;
}

int frame_send(frames *f, const frame_head *h, const void *payload, err *e)
{
    int rc = OK;
    pthread_mutex_lock(&f->lock);
    if (h->bytes <= FRAME_SMALL) {
        f->n_small++;
        while (f->busy) pthread_cond_wait(&f->turn, &f->lock);
        f->n_small--;
        rc = take_turn(f, h, payload, 0, e);
    } else {
        while (f->large) pthread_cond_wait(&f->turn, &f->lock);
        f->large = true;
        for (uint64_t at = 0; at < h->bytes && !rc; at += FRAME_SMALL) {
            while (f->busy || f->n_small) pthread_cond_wait(&f->turn, &f->lock);
            rc = take_turn(f, h, payload, (uint32_t)at, e);
        }
        f->large = false;
        pthread_cond_broadcast(&f->turn);
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

bool frame_offer(frames *f, const frame_head *h, const void *payload)
{
    pthread_mutex_lock(&f->lock);
    bool sent = !f->busy && !f->n_small && !f->dead && tcp_wait(tls_socket(f->c), true, 0);
    if (sent) sent = take_turn(f, h, payload, 0, NULL) == OK;
    pthread_mutex_unlock(&f->lock);
    return sent;
}

void frames_end(frames *f)
{
    pthread_mutex_lock(&f->lock);
    if (!f->busy && !f->dead) tls_bye(f->c);
    f->dead = true;
    pthread_mutex_unlock(&f->lock);
}

/* ---- in */

static int begin_large(frames *f, const frame_head *h, const frame_sink *to, err *e)
{
    if (f->room) return err_set(e, ERR_FORMAT, "a large frame begins inside another");
    int rc = to->admit(to->ctx, h, &f->room, e);
    f->in = *h;
    f->in_at = 0;
    return rc;
}

int frame_record(frames *f, span record, const frame_sink *to, err *e)
{
    cursor c = cursor_of(record);
    frame_head h = {.bytes = cursor_u32(&c), .kind = cursor_u16(&c)};
    uint16_t further = cursor_u16(&c);
    h.channel = cursor_u64(&c);
    if (c.bad || further > 1) return err_set(e, ERR_FORMAT, "a record without the head of a frame");
    size_t n = cursor_left(&c);
    if (!further && h.bytes <= FRAME_SMALL) {
        uint8_t *none = NULL;
        if (n != h.bytes) return err_set(e, ERR_FORMAT, "a frame of %u bytes has %zu", h.bytes, n);
        int rc = to->admit(to->ctx, &h, &none, e);
        return rc ? rc : to->take(to->ctx, &h, c.p + c.at, e);
    }
    int rc = further ? OK : begin_large(f, &h, to, e);
    if (rc) return rc;
    if (!f->room || h.bytes != f->in.bytes || h.kind != f->in.kind || h.channel != f->in.channel)
        return err_set(e, ERR_FORMAT, "a record of a frame that is not under way");
    uint32_t left = h.bytes - f->in_at;
    if (n != (left < FRAME_SMALL ? left : FRAME_SMALL))
        return err_set(e, ERR_FORMAT, "%zu bytes of a frame where %u are left", n, left);
    memcpy(f->room + f->in_at, c.p + c.at, n);
    f->in_at += (uint32_t)n;
    if (n < left) return OK;
    const uint8_t *payload = f->room;
    f->room = NULL;
    return to->take(to->ctx, &f->in, payload, e);
}

int frame_take(frames *f, const frame_sink *to, double until, err *e)
{
    span record;
    int rc;
    while ((rc = tls_recv(f->c, &record, e)) > 0)
        if (!tcp_wait(tls_socket(f->c), false, until)) return FRAME_NONE;
    if (rc) return rc;
    atomic_store_explicit(&f->taken_at, clock_now(), memory_order_relaxed);
    if (record.n > FRAME_HEAD) atomic_fetch_add_explicit(&f->taken, record.n - FRAME_HEAD, memory_order_relaxed);
    return record.n ? frame_record(f, record, to, e) : FRAME_END;
}

uint64_t frames_taken(const frames *f) { return atomic_load(&f->taken); }
