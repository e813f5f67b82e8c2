/* fetch.c - see fetch.h. The channel of GET and PIECE is the number of the piece. */
#include "net/fetch.h"

#include "base/log.h"
#include "base/mem.h"
#include "net/msg.h"

#include <pthread.h>
#include <string.h>

enum { AHEAD = 2 };

typedef struct asked {
    piece_ask ask;
    uint8_t room[SHA256_BYTES + PIECE_BYTES]; /* digest, bytes */
    bool open, coming, there;
} asked;

struct fetch {
    peer *leader;
    asked *slot; /* [AHEAD] piece k is in slot k % AHEAD */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
    err why;
};

int fetch_open(fetch **out, peer *leader, err *e)
{
    fetch *f = *out = mem_zero(1, sizeof *f);
    if (f) f->slot = mem_map(AHEAD * sizeof *f->slot); /* nothing of it exists before a piece is asked for */
    if (!f || !f->slot) {
        mem_free(f);
        *out = NULL;
        return err_set(e, ERR_MEMORY, "out of memory for weights from the leader");
    }
    f->leader = leader;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    return OK;
}

/* The next piece of a list, from byte *done of run *at on; false: there is none. */
static bool next_piece(piece_ask *a, const byte_runs *missing, size_t *at, uint64_t *done)
{
    a->n = a->bytes = 0;
    while (*at < missing->n && a->n < PIECE_RUNS && a->bytes < PIECE_BYTES) {
        const byte_run *r = &missing->run[*at];
        const uint64_t left = r->n - *done, n = left < PIECE_BYTES - a->bytes ? left : PIECE_BYTES - a->bytes;
        a->run[a->n++] = (byte_run){r->entry, r->at + *done, n};
        a->bytes += (uint32_t)n;
        *done = n < left ? *done + n : 0;
        *at += n == left;
    }
    return a->n > 0;
}

static int ask_piece(fetch *f, asked *to, uint64_t number, err *e)
{
    buf message = {0};
    pthread_mutex_lock(&f->lock);
    to->open = true;
    to->coming = to->there = false;
    pthread_mutex_unlock(&f->lock);
    int rc = piece_ask_write(&message, &to->ask) ? OK : err_set(e, ERR_MEMORY, "out of memory for a message");
    const frame_head head = {(uint32_t)message.n, MSG_GET, number};
    if (!rc) rc = peer_send(f->leader, PEER_CONTROL, &head, message.p, e);
    buf_free(&message);
    return rc;
}

static int await_piece(fetch *f, const asked *x, err *e)
{
    uint8_t digest[SHA256_BYTES];
    int rc = OK;
    pthread_mutex_lock(&f->lock);
    while (!x->there && !f->over) pthread_cond_wait(&f->changed, &f->lock);
    if (!x->there) rc = err_copy(e, &f->why);
    pthread_mutex_unlock(&f->lock);
    if (rc) return rc;
    sha256_of(x->room + SHA256_BYTES, x->ask.bytes, digest);
    return memcmp(digest, x->room, sizeof digest)
               ? err_set(e, ERR_FORMAT, "a piece of the leader's weights has another digest")
               : OK;
}

int fetch_run(fetch *f, store *s, const byte_runs *missing, err *e)
{
    const uint64_t total = byte_runs_bytes(missing);
    uint64_t sent = 0, taken = 0, bytes = 0, done = 0;
    size_t at = 0;
    int rc = OK;
    if (total) log_line(LOG_INFO, "fetching %.1f MiB of weights from %s", (double)total / 0x1p20, peer_name(f->leader));
    for (bool more = true; !rc && (more || taken < sent);) {
        asked *next = &f->slot[sent % AHEAD];
        if (more && sent < taken + AHEAD) {
            more = next_piece(&next->ask, missing, &at, &done);
            if (more) rc = ask_piece(f, next, sent++, e);
            continue;
        }
        asked *x = &f->slot[taken++ % AHEAD];
        rc = await_piece(f, x, e);
        if (!rc) rc = store_put(s, &x->ask, x->room, x->room + SHA256_BYTES, e);
        bytes += x->ask.bytes;
        log_progress("fetch", bytes, total);
    }
    return rc;
}

/* The slot of a frame; NULL: it was not asked for. */
static asked *slot_of(fetch *f, const frame_head *h)
{
    asked *x = &f->slot[h->channel % AHEAD];
    return x->open && h->bytes == SHA256_BYTES + x->ask.bytes ? x : NULL;
}

int fetch_admit(fetch *f, const frame_head *h, uint8_t **room, err *e)
{
    pthread_mutex_lock(&f->lock);
    asked *x = slot_of(f, h);
    if (x && x->coming) x = NULL;
    if (x) x->coming = true;
    pthread_mutex_unlock(&f->lock);
    if (!x) return err_set(e, ERR_FORMAT, "a piece of weights that was not asked for");
    if (h->bytes > FRAME_SMALL) *room = x->room;
    return OK;
}

int fetch_take(fetch *f, const frame_head *h, const uint8_t *payload, err *e)
{
    (void)e;
    asked *x = &f->slot[h->channel % AHEAD];
    if (payload != x->room) memcpy(x->room, payload, h->bytes);
    pthread_mutex_lock(&f->lock);
    x->open = false;
    x->there = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return OK;
}

void fetch_end(fetch *f, const err *why)
{
    pthread_mutex_lock(&f->lock);
    if (!f->over) f->why = *why;
    f->over = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

void fetch_close(fetch *f)
{
    if (!f) return;
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->changed);
    mem_unmap(f->slot, AHEAD * sizeof *f->slot);
    mem_free(f);
}
