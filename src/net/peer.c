/* peer.c - see peer.h. */
#include "net/peer.h"

#include "base/cond.h"
#include "base/mem.h"
#include "net/at_once.h"
#include "net/msg.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const double IN_TIME = 0.98; /* of the silence allowed: so that it is told, and waiting ended, when it is over */
static const double BEAT_MOST = 1;  /* seconds between signs of life, however long a silence is allowed */
static const double GREET_SECONDS = 5; /* for everything until both sides have said hello, at most */

typedef struct line {
    peer *of;
    frames *f;
    pthread_t reader;
    bool reads;
} line;

struct peer {
    line way[2];
    char name[TCP_NAME_MAX];
    bool dialled; /* by this process: it is the leader of the two */
    hello theirs;
    int protocol;
    peer_use use;
    double silence, beat, asks; /* seconds until it counts as dead; between signs of life; between PINGs at work */
    _Atomic double rtt, active; /* when a message of others than this file left last */
    _Atomic double measured;    /* when a PING with a number came last */
    atomic_ullong signs;        /* bytes that signs of life put into sockets */
    atomic_ullong sent[USE_COUNT], received[USE_COUNT]; /* as peer_bytes */
    atomic_bool over;                                   /* lost, or closed */
    atomic_bool left;                                   /* it has ended the connection */
    atomic_int holders;                                 /* and its owner, until peer_close */
    pthread_mutex_t lock;
    pthread_cond_t ponged;
    uint64_t ping, pong; /* numbers of the last of each */
    double asked_at;     /* when a PING that measures left last; of the thread that reads control */
    double pong_at;
};

/* ---- hello */

int peer_self_open(peer_self *s, const char *key_file, err *e)
{
    *s = (peer_self){.patience = 0};
    int rc = key_file_read(s->key, key_file, e);
    return rc ? rc : hello_init(&s->me, e);
}

static int admit_hello(void *ctx, const frame_head *h, uint8_t **room, err *e)
{
    (void)ctx;
    (void)room;
    if (h->kind == MSG_HELLO && h->bytes <= msg_find(MSG_HELLO)->bytes_max) return OK;
    return err_set(e, ERR_FORMAT, "what it says first is no hello");
}

static int take_hello(void *ctx, const frame_head *h, const uint8_t *payload, err *e)
{
    return hello_read(ctx, span_of(payload, h->bytes), e);
}

frame_sink peer_greeting(hello *theirs) { return (frame_sink){theirs, admit_hello, take_hello}; }

int peer_greet(frames *f, const hello *mine, err *e)
{
    buf b = {0};
    bool ok = hello_write(&b, mine);
    int rc = OK;
    if (!ok) rc = err_memory(e, NULL);
    else if (!frame_offer(f, &(frame_head){.bytes = (uint32_t)b.n, .kind = MSG_HELLO}, b.p))
        rc = err_set(e, ERR_IO, "the connection ended");
    buf_free(&b);
    return rc;
}

/* The two connections of a pair, on their way: each a tls, then frames. */
typedef struct dialling {
    const address *to;
    const peer_self *self;
    double seconds, until;
    tls *way[2];
    frames *f[2];
} dialling;

/* One of them, up to the end of the handshake. */
static int reach(void *ctx, int i, err *e)
{
    dialling *d = ctx;
    tls *c;
    const int fd = tcp_dial(d->to, d->seconds, e);
    if (fd < 0) return fd;
    int rc = tls_open(&c, fd, false, d->self->key, hello_name(&d->self->me), e);
    if (rc) return rc;
    while ((rc = tls_shake(c, e)) > 0)
        if (!tcp_wait(tls_socket(c), rc == TLS_WAIT_WRITE, d->until))
            err_set(e, ERR_IO, "no reply within %.1f s", d->seconds), tls_cut(c);
    if (rc) tls_close(c);
    else d->way[i] = c;
    return rc;
}

/* The hello of one of them. */
static int say_hello(dialling *d, peer_way i, hello *mine, err *e)
{
    d->f[i] = frames_open(d->way[i]);
    d->way[i] = NULL;
    mine->role = i == PEER_CONTROL ? HELLO_CONTROL : HELLO_BULK;
    return d->f[i] ? peer_greet(d->f[i], mine, e) : err_memory(e, NULL);
}

static int hear_hello(const dialling *d, peer_way i, const hello *mine, hello *theirs, err *e)
{
    frame_sink sink = peer_greeting(theirs);
    int rc = frame_take(d->f[i], &sink, d->until, e);
    if (rc == FRAME_NONE) rc = err_set(e, ERR_IO, "no hello within %.1f s", d->seconds);
    if (rc == FRAME_END) rc = err_set(e, ERR_IO, "it ended the connection instead of a hello");
    return rc ? rc : hello_check(mine, theirs, true, e);
}

/* Where both sides know how, the side that dials makes up the token and says all that it has to say at once. Else the
 * token comes with the reply on control, and the hello on bulk has to wait for that. */
static int greet(dialling *d, const peer_use *use, hello theirs[2], err *e)
{
    const bool quick = tls_named(d->way[PEER_CONTROL]) && tls_named(d->way[PEER_BULK]);
    hello mine = d->self->me;
    if (use->wanted && !use->wanted(use->ctx, quick)) return err_set(e, ERR_CANCELLED, "it is not wanted any more");
    int rc = quick ? hello_random(mine.token, HELLO_TOKEN, e) : OK;
    if (!rc) rc = say_hello(d, PEER_CONTROL, &mine, e);
    if (!rc && quick) rc = say_hello(d, PEER_BULK, &mine, e);
    if (!rc && quick && use->first) {
        use->first->said = true;
        rc = frame_send(d->f[PEER_CONTROL], &use->first->head, use->first->payload, e);
    }
    if (!rc) rc = hear_hello(d, PEER_CONTROL, &mine, &theirs[PEER_CONTROL], e);
    if (!rc && !quick) {
        memcpy(mine.token, theirs[PEER_CONTROL].token, HELLO_TOKEN);
        rc = say_hello(d, PEER_BULK, &mine, e);
    }
    return rc ? rc : hear_hello(d, PEER_BULK, &mine, &theirs[PEER_BULK], e);
}

/* Both connections are made at the same time: three round trips in all, and the answer to the first message comes with
 * the third. */
int peer_dial(peer **out, const address *to, const peer_self *self, const peer_use *use, err *e)
{
    char name[TCP_NAME_MAX];
    hello theirs[2];
    err local = {0};
    dialling d = {.to = to, .self = self};
    d.seconds = self->patience > 0 && self->patience < GREET_SECONDS ? self->patience : GREET_SECONDS;
    d.until = clock_now() + d.seconds;
    *out = NULL;
    address_print(to, name);
    int rc = at_once(2, reach, &d, &local);
    if (use->first) use->first->said = false;
    if (!rc) rc = greet(&d, use, theirs, &local);
    for (int i = 0; i < 2 && rc; i++) {
        if (d.way[i]) tls_bye(d.way[i]);
        tls_close(d.way[i]);
        frames_close(d.f[i]);
    }
    if (!rc) {
        *out = peer_join(d.f[PEER_CONTROL], d.f[PEER_BULK], name, true, &self->me, &theirs[PEER_CONTROL]);
        if (!*out) rc = err_memory(&local, NULL);
    }
    if (!rc && theirs[0].node != theirs[1].node) rc = err_set(&local, ERR_IO, "two processes answer there");
    if (!rc) rc = peer_start(*out, use, &local);
    if (!rc) return OK;
    peer_close(*out);
    *out = NULL;
    if (!err_is_of(&local, name)) err_of(&local, name);
    return err_copy(e, &local);
}

int peer_look(hello *out, const address *to, const peer_self *self, err *e)
{
    peer *p;
    int rc = peer_dial(&p, to, self, &(peer_use){.ctx = NULL}, e);
    if (!rc) *out = p->theirs;
    peer_close(p);
    return rc;
}

peer *peer_join(frames *control, frames *bulk, const char *name, bool dialled, const hello *mine, const hello *theirs)
{
    peer *p = mem_zero(1, sizeof *p);
    if (!p) {
        frames_close(control);
        frames_close(bulk);
        return NULL;
    }
    const uint32_t longer = mine->silence_ms > theirs->silence_ms ? mine->silence_ms : theirs->silence_ms;
    p->way[PEER_CONTROL] = (line){.of = p, .f = control};
    p->way[PEER_BULK] = (line){.of = p, .f = bulk};
    snprintf(p->name, sizeof p->name, "%s", name);
    p->dialled = dialled;
    atomic_store(&p->holders, 1);
    p->theirs = *theirs;
    p->protocol = mine->protocol_max < theirs->protocol_max ? mine->protocol_max : theirs->protocol_max;
    p->silence = longer * 1e-3 * IN_TIME;
    p->beat = longer * 1e-3 / 4 < BEAT_MOST ? longer * 1e-3 / 4 : BEAT_MOST;
    p->asks = p->silence < 1 ? p->silence : 1;
    p->asked_at = clock_now();
    pthread_mutex_init(&p->lock, NULL);
    cond_open(&p->ponged);
    for (int i = 0; i < 2; i++) tcp_limit(tls_socket(frames_tls(p->way[i].f)), p->silence);
    return p;
}

/* ---- reading */

/* What takes a message; NULL: nothing does. */
static void *find_receiver(line *l, const msg_row *row, const frame_head *h)
{
    const peer_use *use = &l->of->use;
    if (row->receiver == FOR_PEER) return l;
    return use->receiver ? use->receiver(use->ctx, l->of, h, row->receiver) : NULL;
}

static int admit_message(void *ctx, const frame_head *h, uint8_t **room, err *e)
{
    line *l = ctx;
    const peer *p = l->of;
    const msg_row *row = msg_find(h->kind);
    const bool fits = row && row->direction & (p->dialled ? MSG_TO_LEADER : MSG_TO_NODE);
    void *to = fits ? find_receiver(l, row, h) : NULL;
    if (!to || !row->on->take) return err_set(e, ERR_FORMAT, "a message of kind %u, which has no place here", h->kind);
    if (row->direction & MSG_IN_ORDER && l == &p->way[PEER_BULK])
        return err_set(e, ERR_FORMAT, "a %s on the bulk connection", row->name);
    if (h->bytes > row->bytes_max)
        return err_set(e, ERR_FORMAT, "a %s of %u bytes: at most %u", row->name, h->bytes, row->bytes_max);
    return row->on->admit ? row->on->admit(to, l->of, h, room, e) : OK;
}

static void note_pong(peer *p, const frame_head *h)
{
    pthread_mutex_lock(&p->lock);
    if (h->channel == p->ping) {
        p->pong = h->channel;
        p->pong_at = clock_now();
        pthread_cond_broadcast(&p->ponged);
    }
    pthread_mutex_unlock(&p->lock);
}

/* A message that the clock asks for, or the other side's clock. */
static void send_sign(line *l, const frame_head *h, const void *payload)
{
    const unsigned long long n = TLS_AROUND + FRAME_HEAD + h->bytes;
    atomic_fetch_add(&l->of->signs, n);
    if (!frame_offer(l->f, h, payload)) atomic_fetch_sub(&l->of->signs, n);
}

static void count(atomic_ullong *by_use, const frame_head *h)
{
    const msg_row *row = msg_find(h->kind);
    if (row) atomic_fetch_add_explicit(&by_use[row->use], FRAME_HEAD + (uint64_t)h->bytes, memory_order_relaxed);
}

/* To a sign of life: the time at which it left there, and how the work goes on here. */
static void answer_sign(line *l, const uint8_t *payload)
{
    uint8_t message[sizeof(double) + PROGRESS_BYTES];
    if (l->of->protocol < 2) {
        send_sign(l, &(frame_head){sizeof(double), MSG_PONG, 0}, payload);
        return;
    }
    progress mine = {.waits = PROGRESS_WAITS_NOT};
    if (l->of->use.tell) l->of->use.tell(l->of->use.ctx, &mine);
    memcpy(message, payload, sizeof(double));
    progress_write(message + sizeof(double), &mine);
    send_sign(l, &(frame_head){sizeof message, MSG_PONG, 0}, message);
}

static int take_sign(peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    double sent;
    progress said;
    if (h->bytes < sizeof sent) return err_set(e, ERR_FORMAT, "a malformed PONG");
    memcpy(&sent, payload, sizeof sent);
    const double took = clock_now() - sent;
    if (took >= 0 && took < 3600) atomic_store(&p->rtt, took);
    if (h->bytes == sizeof sent) return OK; /* it does nothing for this process */
    int rc = progress_read(&said, span_of(payload + sizeof sent, h->bytes - sizeof sent), e);
    if (!rc && p->use.hear) p->use.hear(p->use.ctx, &said);
    return rc;
}

static int take_probe(void *to, peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    (void)to, (void)p, (void)h, (void)payload, (void)e;
    return OK;
}

static int take_ping(void *to, peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    line *l = to;
    (void)e;
    if (h->channel) atomic_store(&p->measured, clock_now());
    if (!h->channel && h->bytes == sizeof(double)) answer_sign(l, payload);
    else send_sign(l, &(frame_head){h->bytes, MSG_PONG, h->channel}, payload);
    return OK;
}

static int take_pong(void *to, peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    (void)to;
    if (!h->channel) return take_sign(p, h, payload, e);
    note_pong(p, h);
    return OK;
}

const msg_handler on_HELLO = {.take = NULL}; /* peer_greeting takes it, and no other comes */
const msg_handler on_PING = {.take = take_ping};
const msg_handler on_PONG = {.take = take_pong};
const msg_handler on_PROBE = {.take = take_probe};

static int take_message(void *ctx, const frame_head *h, const uint8_t *payload, err *e)
{
    line *l = ctx;
    const msg_row *row = msg_find(h->kind);
    void *to = find_receiver(l, row, h);
    count(l->of->received, h);
    return to ? row->on->take(to, l->of, h, payload, e) : err_set(e, ERR_CANCELLED, "what it was for has ended");
}

/* Says something where nothing was said for a while, and now and then to learn how long the way is, for the PINGs of
 * the other side and what answers them may leave no such while; notices a silence of the other side. */
static int keep_alive(peer *p, err *e)
{
    line *l = &p->way[PEER_CONTROL];
    double now = clock_now(), quiet = now - frames_taken_at(l->f);
    if (quiet >= p->silence) return err_set(e, ERR_IO, "silent for %.1f s", quiet);
    if (now - frames_sent_at(l->f) >= p->beat || now - p->asked_at >= p->asks) {
        send_sign(l, &(frame_head){sizeof now, MSG_PING, 0}, &now);
        p->asked_at = now;
    }
    return p->use.look ? p->use.look(p->use.ctx, e) : OK;
}

/* Where a connection is silent for longer than its retransmission timer (200 ms at least), TCP forgets how much the way
 * takes at once, and a message of more than ten segments needs a round trip more (RFC 5681, section 4.1). So both
 * connections are kept warm while work goes on. */
#define WARM_EVERY 0.12
#define WARM_FOR   5.0

static bool keep_warm(line *l)
{
    peer *p = l->of;
    const double now = clock_now();
    if (now - atomic_load(&p->active) > WARM_FOR) return false;
    if (now - frames_sent_at(l->f) >= WARM_EVERY) send_sign(l, &(frame_head){0, MSG_PROBE, 0}, NULL);
    return true;
}

void peer_drop(peer *p, const err *why)
{
    if (atomic_exchange(&p->over, true)) return;
    for (int i = 0; i < 2; i++) frames_cut(p->way[i].f);
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->ponged);
    pthread_mutex_unlock(&p->lock);
    if (p->use.lost) p->use.lost(p->use.ctx, p, why);
}

static void *read_line(void *arg)
{
    line *l = arg;
    peer *p = l->of;
    frame_sink to = {l, admit_message, take_message};
    err e = {0};
    int rc = OK;
    while (!rc) {
        const double dead = frames_taken_at(p->way[PEER_CONTROL].f) + p->silence;
        const double look = clock_now() + (keep_warm(l) && p->beat > WARM_EVERY ? WARM_EVERY / 2 : p->beat / 2);
        rc = frame_take(l->f, &to, dead < look ? dead : look, &e);
        if (rc == FRAME_NONE) rc = OK;
        if (rc == FRAME_END) {
            rc = err_set(&e, ERR_IO, "it ended the connection");
            atomic_store(&p->left, true);
        }
        if (!rc && l == &p->way[PEER_CONTROL]) rc = keep_alive(p, &e);
    }
    peer_drop(p, &e);
    return NULL;
}

int peer_start(peer *p, const peer_use *use, err *e)
{
    pthread_attr_t small;
    p->use = *use;
    if (use->first && use->first->said) count(p->sent, &use->first->head);
    p->use.first = NULL;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    pthread_mutex_lock(&p->lock); /* a reader may lose the peer at once, and another thread close it */
    for (int i = 0; i < 2; i++) p->way[i].reads = pthread_create(&p->way[i].reader, &small, read_line, &p->way[i]) == 0;
    const bool all = p->way[0].reads && p->way[1].reads;
    pthread_mutex_unlock(&p->lock);
    pthread_attr_destroy(&small);
    return all ? OK : err_set(e, ERR_IO, "cannot start a thread");
}

void peer_close(peer *p)
{
    if (!p) return;
    bool was_over = atomic_exchange(&p->over, true);
    pthread_mutex_lock(&p->lock); /* peer_start may not be over */
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < 2; i++) {
        if (!was_over) frames_end(p->way[i].f);
        frames_cut(p->way[i].f);
        if (p->way[i].reads) pthread_join(p->way[i].reader, NULL);
    }
    peer_let_go(p);
}

void peer_hold(peer *p) { atomic_fetch_add(&p->holders, 1); }

void peer_let_go(peer *p)
{
    if (atomic_fetch_sub(&p->holders, 1) > 1) return;
    for (int i = 0; i < 2; i++) frames_close(p->way[i].f);
    pthread_cond_destroy(&p->ponged);
    pthread_mutex_destroy(&p->lock);
    mem_free(p);
}

/* ---- sending */

int peer_send(peer *p, peer_way way, const frame_head *h, const void *payload, err *e)
{
    atomic_store(&p->active, clock_now());
    const int rc = frame_send(p->way[way].f, h, payload, e);
    if (!rc) count(p->sent, h);
    return rc;
}

bool peer_offer(peer *p, peer_way way, const frame_head *h, const void *payload)
{
    atomic_store(&p->active, clock_now());
    const bool sent = frame_offer(p->way[way].f, h, payload);
    if (sent) count(p->sent, h);
    return sent;
}

int peer_ping(peer *p, peer_way way, uint32_t bytes, double *seconds, err *e)
{
    static const uint8_t zeros[FRAME_SMALL];
    if (bytes > FRAME_SMALL) return err_set(e, ERR_LIMIT, "a PING of %u bytes: at most %d", bytes, FRAME_SMALL);
    pthread_mutex_lock(&p->lock);
    frame_head h = {bytes, MSG_PING, ++p->ping};
    pthread_mutex_unlock(&p->lock);
    double sent = clock_now(), until = sent + p->silence;
    int rc = frame_send(p->way[way].f, &h, zeros, e);
    bool in_time = true;
    pthread_mutex_lock(&p->lock);
    while (!rc && p->pong != h.channel && !atomic_load(&p->over) && in_time)
        in_time = cond_wait(&p->ponged, &p->lock, until);
    if (!rc && p->pong != h.channel) {
        rc = err_set(e, ERR_IO, in_time ? "the connection ended" : "a PING got no reply");
        err_of(e, p->name);
    }
    *seconds = p->pong_at - sent;
    pthread_mutex_unlock(&p->lock);
    return rc;
}

const char *peer_name(const peer *p) { return p->name; }
bool peer_left(const peer *p) { return atomic_load(&p->left); }
const hello *peer_hello(const peer *p) { return &p->theirs; }
int peer_protocol(const peer *p) { return p->protocol; }
uint64_t peer_bulk_taken(const peer *p) { return frames_taken(p->way[PEER_BULK].f); }
double peer_measured_at(const peer *p) { return atomic_load(&p->measured); }
double peer_rtt(const peer *p) { return atomic_load(&p->rtt); }

uint64_t peer_sent(const peer *p)
{
    uint64_t n = 0;
    for (int i = 0; i < 2; i++) n += tls_bytes_out(frames_tls(p->way[i].f));
    return n - atomic_load(&p->signs);
}

void peer_count(const peer *p, peer_bytes *to)
{
    for (int i = 0; i < USE_COUNT; i++) {
        to->sent[i] += atomic_load_explicit(&p->sent[i], memory_order_relaxed);
        to->received[i] += atomic_load_explicit(&p->received[i], memory_order_relaxed);
    }
}
