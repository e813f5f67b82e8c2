/* mailboxes.c - see mailboxes.h.
 *
 * The channel of a DATA frame: bits 0 to 14 its mailbox, bit 15 which of the two buffers of that it takes; then the
 * numbers plus one of up to two mailboxes whose buffers the sender frees (0: none); then the mark, by which mailboxes
 * that share a peer are told apart. Buffers are taken in turn, so the order of messages is known though a small one may
 * overtake a large one on the other connection. */
#include "net/mailboxes.h"

#include "base/mem.h"
#include "net/msg.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { EMPTY, COMING, FULL };                                              /* of a place */
enum { PLACE = 1 << 15, TOLD = 16, TOLD_BITS = 16, MARK = 48, LINE = 64 }; /* in channels; alignment of memory */

typedef struct mailbox {
    signal_word *word; /* NULL: nobody waits */
    uint64_t bytes;    /* of a place */
    uint8_t *place[2];
    uint64_t n[2];          /* of the messages that are there */
    atomic_int in[2];       /* EMPTY; COMING and FULL by readers; EMPTY again by the owner */
    unsigned taken, posted; /* messages so far */
    bool untold;            /* one was released and the other side does not know */
    atomic_int unreleased;  /* of those posted */
    atomic_bool unsent;     /* the last one posted */
    frame_head head;        /* of that */
    const void *from;
} mailbox;

struct mailboxes {
    int n;
    mailbox *all;
    uint8_t *memory;
    uint64_t memory_bytes;
    peer *p;
    uint64_t mark; /* in the channel of a message */
    char name[TCP_NAME_MAX];
    int first_untold, n_untold;
    uint16_t *untold; /* [n] ring: mailboxes of which one message was released and the other side does not know */
    pthread_t sender;
    bool sends;
    pthread_mutex_t lock; /* of both rings, of box.untold and of `why` */
    pthread_cond_t more;
    bool stop;
    int first, n_waiting;
    uint16_t *waiting; /* [n] ring: mailboxes whose messages the sender has to send */
    atomic_bool failed;
    err why;
};

int mailboxes_open(mailboxes **out, int n, const uint64_t *bytes, const char *name, err *e)
{
    mailboxes *b = *out = NULL;
    uint64_t total = 0;
    if (n < 1 || n > MAILBOXES_MAX) return err_set(e, ERR_LIMIT, "%d boxes: 1 to %d are possible", n, MAILBOXES_MAX);
    for (int i = 0; i < n; i++)
        if (bytes[i] > UINT32_MAX || !mem_add(total, (bytes[i] + LINE - 1) / LINE * LINE * 2, &total))
            return err_set(e, ERR_LIMIT, "a message of %llu bytes: at most 4 GiB", (unsigned long long)bytes[i]);
    b = mem_zero(1, sizeof *b);
    if (!b) return err_memory(e, NULL);
    b->n = n;
    snprintf(b->name, sizeof b->name, "%s", name);
    b->memory_bytes = total ? total : 1;
    b->all = mem_zero((size_t)n, sizeof *b->all);
    b->waiting = mem_zero((size_t)n, sizeof *b->waiting);
    b->untold = mem_zero((size_t)n, sizeof *b->untold);
    b->memory = mem_map(b->memory_bytes);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->more, NULL);
    if (!b->all || !b->waiting || !b->untold || !b->memory) {
        mailboxes_close(b);
        return err_set(e, ERR_MEMORY, "out of memory for messages of %llu bytes", (unsigned long long)total);
    }
    uint8_t *at = b->memory;
    for (int i = 0; i < n; i++) {
        uint64_t room = (bytes[i] + LINE - 1) / LINE * LINE;
        b->all[i].bytes = bytes[i];
        b->all[i].place[0] = at;
        b->all[i].place[1] = at + room;
        at += 2 * room;
    }
    *out = b;
    return OK;
}

void mailboxes_watch(mailboxes *b, int first, int n, signal_word *word)
{
    for (int i = first; i < first + n; i++) b->all[i].word = word;
}

static void wake(const mailbox *x)
{
    if (x->word) signal_move(x->word);
}

static void fail(mailboxes *b, int code, const char *why)
{
    pthread_mutex_lock(&b->lock);
    bool first = !atomic_load(&b->failed);
    if (first) err_set(&b->why, code, "%s: %s", b->name, why);
    atomic_store(&b->failed, true);
    pthread_cond_broadcast(&b->more);
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < b->n && first; i++)
        if (i == 0 || b->all[i].word != b->all[i - 1].word) wake(&b->all[i]);
}

void mailboxes_lost(mailboxes *b, const err *why) { fail(b, why->code, why->msg); }

int mailboxes_check(const mailboxes *b, err *e) { return atomic_load(&b->failed) ? err_copy(e, &b->why) : OK; }

/* ---- out */

static void note_sent(mailbox *x)
{
    atomic_store(&x->unsent, false);
    wake(x);
}

static void *send_waiting(void *arg)
{
    mailboxes *b = arg;
    err e = {0};
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (!b->n_waiting && !b->stop && !atomic_load(&b->failed)) pthread_cond_wait(&b->more, &b->lock);
        if (b->stop || atomic_load(&b->failed)) break;
        mailbox *x = &b->all[b->waiting[b->first]];
        b->first = (b->first + 1) % b->n;
        b->n_waiting--;
        pthread_mutex_unlock(&b->lock);
        int rc = peer_send(b->p, x->head.bytes > FRAME_SMALL ? PEER_BULK : PEER_CONTROL, &x->head, x->from, &e);
        if (rc) fail(b, rc, e.msg);
        else note_sent(x);
        pthread_mutex_lock(&b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

int mailboxes_mark(const frame_head *h) { return (int)(h->channel >> MARK); }

int mailboxes_join(mailboxes *b, peer *p, int mark, err *e)
{
    b->p = p;
    if (mark) b->mark = (uint64_t)mark << MARK; /* where there is none the first message may be here already */
    peer_hold(p);
    b->sends = pthread_create(&b->sender, NULL, send_waiting, b) == 0;
    return b->sends ? OK : err_set(e, ERR_IO, "cannot start a thread");
}

/* The mark, and up to two releases that the other side does not know of, for the channel of a frame; under the lock. */
static uint64_t tell(mailboxes *b)
{
    uint64_t channel = b->mark;
    for (int k = 0; k < 2 && b->n_untold; k++, b->n_untold--) {
        uint16_t i = b->untold[b->first_untold];
        b->first_untold = (b->first_untold + 1) % b->n;
        b->all[i].untold = false;
        channel |= (uint64_t)(i + 1) << (TOLD + k * TOLD_BITS);
    }
    return channel;
}

int mailboxes_post(mailboxes *b, int i, const void *bytes, uint64_t n, err *e)
{
    mailbox *x = &b->all[i];
    if (!mailboxes_taken(b, i)) return err_set(e, ERR_BUSY, "box %d of %s is not free", i, b->name);
    if (n == 0 || n > x->bytes)
        return err_set(e, ERR_LIMIT, "%llu bytes for box %d of %s, which takes %llu", (unsigned long long)n, i, b->name,
                       (unsigned long long)x->bytes);
    if (atomic_load(&b->failed)) return OK; /* mailboxes_check says why */
    uint64_t place = x->posted++ % 2 ? PLACE : 0;
    pthread_mutex_lock(&b->lock);
    x->head = (frame_head){(uint32_t)n, MSG_DATA, (uint64_t)i | place | tell(b)};
    pthread_mutex_unlock(&b->lock);
    x->from = bytes;
    atomic_fetch_add(&x->unreleased, 1);
    atomic_store(&x->unsent, true);
    if (n <= FRAME_SMALL && peer_offer(b->p, PEER_CONTROL, &x->head, bytes)) {
        atomic_store(&x->unsent, false);
        return OK;
    }
    pthread_mutex_lock(&b->lock);
    b->waiting[(b->first + b->n_waiting++) % b->n] = (uint16_t)i;
    pthread_cond_signal(&b->more);
    pthread_mutex_unlock(&b->lock);
    return OK;
}

bool mailboxes_taken(mailboxes *b, int i)
{
    return !atomic_load(&b->all[i].unsent) && atomic_load(&b->all[i].unreleased) < 2;
}

void mailboxes_give_up(mailboxes *b, int code, const char *why)
{
    uint8_t text[ERR_MSG_MAX];
    size_t n = strnlen(why, sizeof text - 4);
    uint32_t number = (uint32_t)code;
    memcpy(text, &number, 4);
    memcpy(text + 4, why, n);
    peer_send(b->p, PEER_CONTROL, &(frame_head){(uint32_t)n + 4, MSG_GIVE_UP, b->mark}, text, NULL);
}

/* ---- in */

int mailboxes_take(mailboxes *b, int i, uint64_t n, const void **bytes, err *e)
{
    mailbox *x = &b->all[i];
    unsigned k = x->taken % 2;
    *bytes = NULL;
    if (atomic_load_explicit(&x->in[k], memory_order_acquire) != FULL) return OK;
    if (x->n[k] != n)
        return err_set(e, ERR_FORMAT, "%s sent %llu bytes where %llu are expected", b->name,
                       (unsigned long long)x->n[k], (unsigned long long)n);
    *bytes = x->place[k];
    return OK;
}

void mailboxes_release(mailboxes *b, int i)
{
    mailbox *x = &b->all[i];
    atomic_store_explicit(&x->in[x->taken++ % 2], EMPTY, memory_order_release);
    pthread_mutex_lock(&b->lock);
    const bool waits = !x->untold; /* the next message will say it; the mailbox has another place yet */
    if (waits) {
        x->untold = true;
        b->untold[(b->first_untold + b->n_untold++) % b->n] = (uint16_t)i;
    }
    pthread_mutex_unlock(&b->lock);
    if (waits) return;
    frame_head h = {0, MSG_TAKEN, b->mark | (uint64_t)(i + 1) << TOLD};
    do {
        if (!peer_offer(b->p, PEER_CONTROL, &h, NULL) && !atomic_load(&b->failed))
            peer_send(b->p, PEER_CONTROL, &h, NULL, NULL);
        pthread_mutex_lock(&b->lock);
        h.channel = tell(b);
        pthread_mutex_unlock(&b->lock);
    } while (h.channel != b->mark);
}

/* The other side has released messages of these mailboxes. */
static int free_places(mailboxes *b, const frame_head *h, err *e)
{
    for (int k = 0; k < 2; k++) {
        uint16_t told = (uint16_t)(h->channel >> (TOLD + k * TOLD_BITS));
        if (!told) continue;
        mailbox *x = told <= b->n ? &b->all[told - 1] : NULL;
        if (!x || atomic_load(&x->unreleased) < 1)
            return err_set(e, ERR_FORMAT, "box %u was released without a message", told - 1u);
        atomic_fetch_sub(&x->unreleased, 1);
        wake(x);
    }
    return OK;
}

static int check_mark(const mailboxes *b, const frame_head *h, err *e)
{
    return h->channel >> MARK == b->mark >> MARK ? OK : err_set(e, ERR_FORMAT, "a message with a malformed channel");
}

static int admit_sign(void *to, peer *p, const frame_head *h, uint8_t **room, err *e)
{
    (void)p, (void)room;
    return check_mark(to, h, e);
}

static int admit_data(void *to, peer *p, const frame_head *h, uint8_t **room, err *e)
{
    mailboxes *b = to;
    unsigned i = h->channel % PLACE, k = (h->channel & PLACE) != 0;
    int rc = check_mark(b, h, e), empty = EMPTY;
    (void)p;
    if (rc) return rc;
    if (i >= (unsigned)b->n || h->bytes > b->all[i].bytes || h->bytes == 0)
        return err_set(e, ERR_FORMAT, "a message of %u bytes for box %u, which takes %llu", h->bytes, i,
                       i < (unsigned)b->n ? (unsigned long long)b->all[i].bytes : 0);
    if (!atomic_compare_exchange_strong(&b->all[i].in[k], &empty, COMING))
        return err_set(e, ERR_FORMAT, "a message for box %u, which is full", i);
    *room = b->all[i].place[k];
    return OK;
}

static int take_data(void *to, peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    mailboxes *b = to;
    int rc = free_places(b, h, e);
    (void)p;
    if (rc) return rc;
    mailbox *x = &b->all[h->channel % PLACE];
    unsigned k = (h->channel & PLACE) != 0;
    if (payload != x->place[k]) memcpy(x->place[k], payload, h->bytes);
    x->n[k] = h->bytes;
    atomic_store_explicit(&x->in[k], FULL, memory_order_release);
    wake(x);
    return OK;
}

static int take_taken(void *to, peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    (void)p, (void)payload;
    return free_places(to, h, e);
}

static int take_give_up(void *to, peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    char text[ERR_MSG_MAX];
    cursor c = cursor_of(span_of(payload, h->bytes));
    int code = (int)cursor_u32(&c);
    size_t n = cursor_left(&c);
    (void)p;
    if (c.bad || code >= OK || n >= sizeof text) return err_set(e, ERR_FORMAT, "a malformed GIVE_UP");
    memcpy(text, c.p + c.at, n);
    text[n] = 0;
    fail(to, code, text);
    return OK;
}

const msg_handler on_DATA = {admit_data, take_data};
const msg_handler on_TAKEN = {admit_sign, take_taken};
const msg_handler on_GIVE_UP = {admit_sign, take_give_up};

void mailboxes_stop(mailboxes *b)
{
    pthread_mutex_lock(&b->lock);
    b->stop = true;
    pthread_cond_broadcast(&b->more);
    pthread_mutex_unlock(&b->lock);
    if (b->sends) pthread_join(b->sender, NULL);
    b->sends = false;
}

void mailboxes_close(mailboxes *b)
{
    if (!b) return;
    mailboxes_stop(b);
    if (b->p) peer_let_go(b->p);
    pthread_cond_destroy(&b->more);
    pthread_mutex_destroy(&b->lock);
    if (b->memory) mem_unmap(b->memory, b->memory_bytes);
    mem_free(b->all);
    mem_free(b->waiting);
    mem_free(b->untold);
    mem_free(b);
}
