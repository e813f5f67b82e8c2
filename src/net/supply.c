/* supply.c - see supply.h. */
#include "net/supply.h"

#include "base/file.h"
#include "base/mem.h"
#include "net/msg.h"
#include "net/piece_proof.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { WAITING = 4 }; /* a node asks for two, perhaps before the sender has counted those that arrived */

typedef struct wanted {
    piece_ask ask; /* n 0: the list */
    peer *to;
    uint64_t channel;
    bool proves; /* protocol 3 */
} wanted;

struct supply {
    const ckpt *c;
    const own_list *list;
    wanted wanted
        [WAITING]; /* number k is in wanted[k % WAITING]: the sender's from `taken` to `sent`, else the reader's */
    unsigned taken, sent;
    uint8_t *room; /* PROOF_MAX */
    pthread_t sender;
    bool sends, stop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static _Atomic uint64_t supplied;

uint64_t supply_bytes(void) { return atomic_load(&supplied); }

int supply_open(supply **out, const ckpt *c, const own_list *list, err *e)
{
    supply *s = *out = mem_zero(1, sizeof *s);
    if (s) s->room = mem_map(PROOF_MAX); /* nothing of it exists before it is used */
    if (!s || !s->room) {
        mem_free(s);
        *out = NULL;
        return err_memory(e, "a node that may need weights");
    }
    s->c = c;
    s->list = list;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    return OK;
}

static uint64_t flat_bytes(const void *ctx, uint32_t i) { return ckpt_at(((const supply *)ctx)->c, i)->bytes; }

static uint64_t listed_bytes(const void *ctx, uint32_t i)
{
    const supply *s = ctx;
    return ckpt_at(s->c, s->list->order[i])->bytes;
}

/* What was sent leaves memory: the leader may read little of these tensors itself. */
static void release(const supply *s, const wanted *o)
{
    const piece_ask *a = &o->ask;
    for (uint32_t i = 0, next; i < a->n; i = next) {
        const byte_run *first = &a->run[i];
        for (next = i + 1; next < a->n && a->run[next].entry == first->entry;) next++;
        const uint64_t end = a->run[next - 1].at + a->run[next - 1].n;
        const uint32_t t = o->proves ? s->list->order[first->entry] : first->entry;
        if (end > first->at) file_release(ckpt_at(s->c, t)->data + first->at, end - first->at);
    }
}

/* Bytes of a piece as protocol 2 has it. */
static uint32_t copy_piece(const supply *s, const piece_ask *a)
{
    uint8_t *to = s->room + SHA256_BYTES;
    for (uint32_t i = 0; i < a->n; to += a->run[i++].n)
        memcpy(to, ckpt_at(s->c, a->run[i].entry)->data + a->run[i].at, a->run[i].n);
    sha256_of(s->room + SHA256_BYTES, a->bytes, s->room);
    return SHA256_BYTES + a->bytes;
}

static int send_wanted(supply *s, const wanted *o)
{
    err e = {0};
    const buf *list = &s->list->text;
    const bool is_list = !o->ask.n;
    int rc = OK;
    frame_head head = {(uint32_t)list->n, MSG_LIST, o->channel};
    if (!is_list) {
        head = (frame_head){0, MSG_PIECE, o->channel};
        head.bytes = o->proves ? piece_proof_bytes(&o->ask, listed_bytes, s) : copy_piece(s, &o->ask);
        if (o->proves) piece_prove(&o->ask, s->c, s->list->order, s->room);
        rc = ckpt_check_torn(s->c, &e);
        release(s, o);
    }
    if (!rc) rc = peer_send(o->to, PEER_BULK, &head, is_list ? list->p : s->room, &e);
    if (rc) peer_drop(o->to, &e);
    else if (!is_list) atomic_fetch_add(&supplied, head.bytes);
    return rc;
}

static void *send_all(void *arg)
{
    supply *s = arg;
    int rc = OK;
    pthread_mutex_lock(&s->lock);
    while (!s->stop && !rc) {
        if (s->sent == s->taken) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        const wanted *next = &s->wanted[s->sent % WAITING];
        pthread_mutex_unlock(&s->lock);
        rc = send_wanted(s, next);
        pthread_mutex_lock(&s->lock);
        s->sent++;
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int read_wanted(const supply *s, wanted *o, const frame_head *h, const uint8_t *payload, err *e)
{
    const span said = span_of(payload, h->bytes);
    cursor c = cursor_of(said);
    if (h->kind == MSG_GET_LIST) {
        o->ask.n = 0;
        return o->proves && span_eq(said, span_of(s->list->digest, SHA256_BYTES))
                   ? OK
                   : err_set(e, ERR_FORMAT, "it asks for another list of tensors than it was told of");
    }
    int rc = piece_ask_read(&o->ask, &c, ckpt_count(s->c), o->proves ? listed_bytes : flat_bytes, s, e);
    if (!rc && (cursor_left(&c) || (o->proves && !piece_proof_fits(&o->ask))))
        rc = err_set(e, ERR_FORMAT, "its request for weights is malformed");
    return rc;
}

int supply_take(supply *s, peer *to, const frame_head *h, const uint8_t *payload, err *e)
{
    int rc = OK;
    pthread_mutex_lock(&s->lock);
    wanted *o = &s->wanted[s->taken % WAITING]; /* under way itself where all are */
    if (s->stop) rc = err_set(e, ERR_CANCELLED, "the plan is being closed");
    else if (s->taken - s->sent == WAITING)
        rc = err_set(e, ERR_FORMAT, "it asks for more than %d pieces at once", WAITING);
    if (!rc) {
        o->to = to;
        o->channel = h->channel;
        o->proves = peer_protocol(to) >= PROTOCOL_LISTS;
        rc = read_wanted(s, o, h, payload, e);
    }
    if (!rc && !s->sends) {
        s->sends = pthread_create(&s->sender, NULL, send_all, s) == 0;
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
    peer *to = s->taken != s->sent ? s->wanted[s->sent % WAITING].to : NULL;
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
    mem_unmap(s->room, PROOF_MAX);
    mem_free(s);
}
