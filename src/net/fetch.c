/* fetch.c - see fetch.h. The channel of GET and PIECE is the number of the piece. */
#include "net/fetch.h"

#include "base/hash_tree.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/msg.h"
#include "net/piece_proof.h"

#include <pthread.h>
#include <string.h>

enum { AHEAD = 2 };

typedef struct asked {
    piece_ask ask;
    uint32_t comes;             /* bytes of the message */
    uint8_t room[PROOF_MAX];    /* it: digest and bytes, or their proof */
    uint8_t bytes[PIECE_BYTES]; /* what was proved */
    bool open, coming, there;
} asked;

struct fetch {
    peer *leader;
    asked *slot;   /* [AHEAD] piece k is in slot k % AHEAD */
    uint8_t *tree; /* TREE_BYTES */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    buf list; /* it comes, of n bytes; p NULL: none is asked for */
    bool list_coming, list_there;
    bool over;
    err why;
};

int fetch_open(fetch **out, peer *leader, err *e)
{
    fetch *f = *out = mem_zero(1, sizeof *f);
    if (f) f->slot = mem_map(AHEAD * sizeof *f->slot); /* nothing of it exists before a piece is asked for */
    if (f) f->tree = mem_map(TREE_BYTES);
    if (!f || !f->slot || !f->tree) {
        if (f && f->slot) mem_unmap(f->slot, AHEAD * sizeof *f->slot);
        if (f && f->tree) mem_unmap(f->tree, TREE_BYTES);
        mem_free(f);
        *out = NULL;
        return err_memory(e, "weights from the leader");
    }
    f->leader = leader;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    return OK;
}

int fetch_list(fetch *f, const uint8_t digest[SHA256_BYTES], uint32_t bytes, buf *to, err *e)
{
    uint8_t got[SHA256_BYTES];
    uint8_t *room = bytes && bytes <= LIST_BYTES_MAX ? mem_alloc(bytes) : NULL;
    if (!room) return err_set(e, ERR_MEMORY, "out of memory for a list of tensors of %u bytes", bytes);
    pthread_mutex_lock(&f->lock);
    f->list = (buf){.p = room, .n = bytes, .cap = bytes};
    f->list_coming = f->list_there = false;
    pthread_mutex_unlock(&f->lock);
    const frame_head head = {SHA256_BYTES, MSG_GET_LIST, 0};
    int rc = peer_send(f->leader, PEER_CONTROL, &head, digest, e);
    pthread_mutex_lock(&f->lock);
    while (!rc && !f->list_there && !f->over) pthread_cond_wait(&f->changed, &f->lock);
    if (!rc && !f->list_there) rc = err_copy(e, &f->why);
    pthread_mutex_unlock(&f->lock);
    if (rc) return rc; /* the connection may still write to the room: fetch_close */
    sha256_of(room, bytes, got);
    if (memcmp(got, digest, sizeof got) != 0)
        return err_set(e, ERR_FORMAT, "the leader's list of tensors has another digest than it said");
    pthread_mutex_lock(&f->lock);
    *to = f->list;
    f->list = (buf){0};
    pthread_mutex_unlock(&f->lock);
    return OK;
}

/* The next piece of a list, from byte *done of run *at on; false: there is none. Those that are proved keep to trees:
 * what of one does not fit begins the next piece. */
static bool next_piece(piece_ask *a, const byte_runs *missing, bool trees, size_t *at, uint64_t *done)
{
    a->n = a->bytes = 0;
    while (*at < missing->n && a->n < PIECE_RUNS && a->bytes < PIECE_BYTES) {
        const byte_run *r = &missing->run[*at];
        const uint64_t from = r->at + *done, left = r->n - *done, room = PIECE_BYTES - a->bytes;
        const uint64_t in_tree = trees ? TREE_BYTES - from % TREE_BYTES : left;
        const uint64_t whole = left < in_tree ? left : in_tree;
        if (trees && whole > room) return true;
        const uint64_t n = whole < room ? whole : room;
        a->run[a->n++] = (byte_run){r->entry, from, n};
        a->bytes += (uint32_t)n;
        *done = n < left ? *done + n : 0;
        *at += n == left;
    }
    return a->n > 0;
}

static uint64_t listed_bytes(const void *ctx, uint32_t i) { return ((const catalogue *)ctx)->tensor[i].t.bytes; }

static int ask_piece(fetch *f, asked *to, const catalogue *told, uint64_t number, err *e)
{
    buf message = {0};
    const uint32_t comes = told->has_trees ? piece_proof_bytes(&to->ask, listed_bytes, told)
                                           : SHA256_BYTES + to->ask.bytes;
    pthread_mutex_lock(&f->lock);
    to->open = true;
    to->coming = to->there = false;
    to->comes = comes;
    pthread_mutex_unlock(&f->lock);
    int rc = piece_ask_write(&message, &to->ask) ? OK : err_memory(e, "a message");
    const frame_head head = {(uint32_t)message.n, MSG_GET, number};
    if (!rc) rc = peer_send(f->leader, PEER_CONTROL, &head, message.p, e);
    buf_free(&message);
    return rc;
}

/* *bytes: of the runs, which are the leader's; of protocol 2: at least came as they were sent. */
static int await_piece(fetch *f, asked *x, const catalogue *told, const uint8_t **bytes, err *e)
{
    uint8_t digest[SHA256_BYTES];
    int rc = OK;
    pthread_mutex_lock(&f->lock);
    while (!x->there && !f->over) pthread_cond_wait(&f->changed, &f->lock);
    if (!x->there) rc = err_copy(e, &f->why);
    pthread_mutex_unlock(&f->lock);
    if (rc) return rc;
    *bytes = told->has_trees ? x->bytes : x->room + SHA256_BYTES;
    if (told->has_trees) return piece_proof_check(&x->ask, told, span_of(x->room, x->comes), f->tree, x->bytes, e);
    sha256_of(x->room + SHA256_BYTES, x->ask.bytes, digest);
    return memcmp(digest, x->room, sizeof digest)
               ? err_set(e, ERR_FORMAT, "a piece of the leader's weights has another digest")
               : OK;
}

int fetch_run(fetch *f, store *s, const catalogue *told, const byte_runs *missing, err *e)
{
    const uint64_t total = byte_runs_bytes(missing);
    uint64_t sent = 0, taken = 0, bytes = 0, done = 0;
    size_t at = 0;
    int rc = OK;
    if (total) log_line(LOG_INFO, "fetching %.1f MiB of weights from %s", (double)total / 0x1p20, peer_name(f->leader));
    for (bool more = true; !rc && (more || taken < sent);) {
        asked *next = &f->slot[sent % AHEAD];
        if (more && sent < taken + AHEAD) {
            more = next_piece(&next->ask, missing, told->has_trees, &at, &done);
            if (more) rc = ask_piece(f, next, told, sent++, e);
            continue;
        }
        asked *x = &f->slot[taken++ % AHEAD];
        const uint8_t *got;
        rc = await_piece(f, x, told, &got, e);
        if (!rc) rc = store_put(s, &x->ask, got, e);
        bytes += x->ask.bytes;
        log_progress("fetch", "bytes", bytes, total);
    }
    return rc;
}

/* The slot of a frame; NULL: it was not asked for. */
static asked *slot_of(fetch *f, const frame_head *h)
{
    asked *x = &f->slot[h->channel % AHEAD];
    return x->open && h->bytes == x->comes ? x : NULL;
}

static int admit_list(void *to, peer *from, const frame_head *h, uint8_t **room, err *e)
{
    fetch *f = to;
    (void)from;
    pthread_mutex_lock(&f->lock);
    const bool ok = f->list.p && !f->list_coming && h->bytes == f->list.n;
    f->list_coming |= ok;
    if (ok && h->bytes > FRAME_SMALL) *room = f->list.p;
    pthread_mutex_unlock(&f->lock);
    return ok ? OK : err_set(e, ERR_FORMAT, "a list of tensors that was not asked for");
}

static int take_list(void *to, peer *from, const frame_head *h, const uint8_t *payload, err *e)
{
    fetch *f = to;
    (void)from, (void)e;
    pthread_mutex_lock(&f->lock);
    if (payload != f->list.p) memcpy(f->list.p, payload, h->bytes);
    f->list_there = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return OK;
}

const msg_handler on_LIST = {admit_list, take_list};

static int admit_piece(void *to, peer *from, const frame_head *h, uint8_t **room, err *e)
{
    fetch *f = to;
    (void)from;
    pthread_mutex_lock(&f->lock);
    asked *x = slot_of(f, h);
    if (x && x->coming) x = NULL;
    if (x) x->coming = true;
    pthread_mutex_unlock(&f->lock);
    if (!x) return err_set(e, ERR_FORMAT, "a piece of weights that was not asked for");
    if (h->bytes > FRAME_SMALL) *room = x->room;
    return OK;
}

static int take_piece(void *to, peer *from, const frame_head *h, const uint8_t *payload, err *e)
{
    fetch *f = to;
    asked *x = &f->slot[h->channel % AHEAD];
    (void)from, (void)e;
    if (payload != x->room) memcpy(x->room, payload, h->bytes);
    pthread_mutex_lock(&f->lock);
    x->open = false;
    x->there = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return OK;
}

const msg_handler on_PIECE = {admit_piece, take_piece};

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
    mem_unmap(f->tree, TREE_BYTES);
    buf_free(&f->list);
    mem_free(f);
}
