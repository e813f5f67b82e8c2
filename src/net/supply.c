/* supply.c - see supply.h. */
#include "net/supply.h"

#include "base/file.h"
#include "base/mem.h"
#include "net/msg.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { WAITING = 4 }; /* a node asks for two, perhaps before the sender has counted those that arrived */

typedef struct order {
    piece_ask ask;
    peer *to;
    uint64_t channel;
} order;

struct supply {
    const ckpt *c;
    order order[WAITING]; /* piece k is in order[k % WAITING]: the sender's from `taken` to `sent`, else the reader's */
    unsigned taken, sent; /* pieces */
    uint8_t room[SHA256_BYTES + PIECE_BYTES];
    pthread_t sender;
    bool sends, stop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static _Atomic uint64_t supplied;

uint64_t supply_bytes(void) { return atomic_load(&supplied); }

int supply_open(supply **out, const ckpt *c, err *e)
{
    supply *s = *out = mem_zero(1, sizeof *s);
    if (!s) return err_set(e, ERR_MEMORY, "out of memory for a node that may need weights");
    s->c = c;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    return OK;
}

/* What was sent leaves memory: the leader may read little of these tensors itself. */
static void release(const ckpt *c, const piece_ask *a)
{
    for (uint32_t i = 0, next; i < a->n; i = next) {
        const byte_run *first = &a->run[i];
        for (next = i + 1; next < a->n && a->run[next].entry == first->entry;) next++;
        const uint64_t end = a->run[next - 1].at + a->run[next - 1].n;
        if (end > first->at) file_release(ckpt_at(c, first->entry)->data + first->at, end - first->at);
    }
}

static int send_piece(supply *s, const order *o)
{
    err e = {0};
    const piece_ask *a = &o->ask;
    uint8_t *to = s->room + SHA256_BYTES;
    for (uint32_t i = 0; i < a->n; to += a->run[i++].n)
        memcpy(to, ckpt_at(s->c, a->run[i].entry)->data + a->run[i].at, a->run[i].n);
    int rc = ckpt_check_torn(s->c, &e);
    release(s->c, a);
    sha256_of(s->room + SHA256_BYTES, a->bytes, s->room);
    const frame_head head = {SHA256_BYTES + a->bytes, MSG_PIECE, o->channel};
    if (!rc) rc = peer_send(o->to, PEER_BULK, &head, s->room, &e);
    if (rc) peer_drop(o->to, &e);
    else atomic_fetch_add(&supplied, head.bytes);
    return rc;
}

static void *send_pieces(void *arg)
{
    supply *s = arg;
    int rc = OK;
    pthread_mutex_lock(&s->lock);
    while (!s->stop && !rc) {
        if (s->sent == s->taken) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        const order *next = &s->order[s->sent % WAITING];
        pthread_mutex_unlock(&s->lock);
        rc = send_piece(s, next);
        pthread_mutex_lock(&s->lock);
        s->sent++;
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static uint64_t entry_bytes(const void *c, uint32_t i) { return ckpt_at(c, i)->bytes; }

int supply_take(supply *s, peer *to, const frame_head *h, const uint8_t *payload, err *e)
{
    cursor c = cursor_of(span_of(payload, h->bytes));
    int rc = OK;
    pthread_mutex_lock(&s->lock);
    order *o = &s->order[s->taken % WAITING]; /* under way itself where all are */
    if (s->stop) rc = err_set(e, ERR_CANCELLED, "the plan is being closed");
    else if (s->taken - s->sent == WAITING)
        rc = err_set(e, ERR_FORMAT, "it asks for more than %d pieces at once", WAITING);
    if (!rc) rc = piece_ask_read(&o->ask, &c, ckpt_count(s->c), entry_bytes, s->c, e);
    if (!rc && cursor_left(&c)) rc = err_set(e, ERR_FORMAT, "its request for weights is malformed");
    if (!rc) {
        o->to = to;
        o->channel = h->channel;
    }
    if (!rc && !s->sends) {
        s->sends = pthread_create(&s->sender, NULL, send_pieces, s) == 0;
        if (!s->sends) rc = err_set(e, ERR_MEMORY, "a thread could not be started");
    }
    if (!rc) s->taken++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void supply_stop(supply *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    peer *to = s->taken != s->sent ? s->order[s->sent % WAITING].to : NULL;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (to) peer_drop(to, &(err){.code = ERR_CANCELLED, .msg = "the plan was closed"});
    if (s->sends) pthread_join(s->sender, NULL);
}

void supply_close(supply *s)
{
    if (!s) return;
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    mem_free(s);
}
