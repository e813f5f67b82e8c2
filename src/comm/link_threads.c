/* link_threads.c - see link_threads.h.
 *
 * A box for each sender, receiver and channel holds the address of a message; NULL is an empty box. An end has a number
 * that moves when a message comes for it, and when one of its own was taken if it has asked. `wait` waits for that
 * number to differ from what it was before the rank last looked at its boxes, so nothing is missed in between.
 *
 * Looking at the number for a while before sleeping pays only where each rank has a core: else the rank that is waited
 * for may need this one. So a group of more ranks than cores hardly looks; in others an end looks half as long after it
 * had to sleep, twice as long after it had not, and now and then as long as possible. */
#include "comm/link_threads.h"

#include "base/mem.h"
#include "base/pool.h"

#include <stdatomic.h>

enum { SPINS_LEAST = 16, TRY_AGAIN = 256 };
#define WAIT_MOST 0.5 /* seconds: a wait ends now and then, and shows that its thread can run */

typedef struct message_box {
    _Alignas(64) const void *_Atomic bytes;
    uint64_t n;
} message_box;

typedef struct thread_end {
    link_end base; /* first */
    link_group *of;
    signal_word changed;
    unsigned seen;      /* of `changed`, before boxes were looked at */
    unsigned waits;     /* so far */
    int spins;          /* of the next wait */
    atomic_bool drains; /* it waits for one of its messages to be taken */
} thread_end;

struct link_group {
    int ranks, channels, spins_most;
    thread_end *ends;   /* [ranks] */
    message_box *boxes; /* [to][from][channel] */
    uint64_t ends_bytes, boxes_bytes;
    atomic_int given_up; /* 0 no; 1 `why` is being written; 2 yes */
    err why;
};

static thread_end *end_of(link_end *l) { return (thread_end *)l; }

static message_box *box_of(const link_group *g, int from, int to, int channel)
{
    return &g->boxes[((int64_t)to * g->ranks + from) * g->channels + channel];
}

static int threads_post(link_end *l, int to, int channel, const void *bytes, uint64_t n, err *e)
{
    link_group *g = end_of(l)->of;
    message_box *b = box_of(g, l->rank, to, channel);
    if (atomic_load_explicit(&b->bytes, memory_order_acquire))
        return err_set(e, ERR_BUSY, "channel %d from rank %d to rank %d is not free", channel, l->rank, to);
    b->n = n;
    atomic_store_explicit(&b->bytes, bytes, memory_order_release);
    l->posted += n;
    signal_move(&g->ends[to].changed);
    return OK;
}

/* The receiver empties the box, then looks whether the sender waits; the sender looks at the box again after it has
 * said so. */
static bool threads_taken(link_end *l, int to, int channel)
{
    message_box *b = box_of(end_of(l)->of, l->rank, to, channel);
    if (!atomic_load_explicit(&b->bytes, memory_order_acquire)) return true;
    atomic_store(&end_of(l)->drains, true);
    return !atomic_load(&b->bytes);
}

static int threads_take(link_end *l, int from, int channel, uint64_t n, const void **bytes, err *e)
{
    message_box *b = box_of(end_of(l)->of, from, l->rank, channel);
    *bytes = atomic_load_explicit(&b->bytes, memory_order_acquire);
    if (*bytes && b->n != n)
        return err_set(e, ERR_FORMAT, "rank %d sent %llu bytes where rank %d expects %llu", from,
                       (unsigned long long)b->n, l->rank, (unsigned long long)n);
    return OK;
}

static void threads_release(link_end *l, int from, int channel)
{
    link_group *g = end_of(l)->of;
    atomic_store(&box_of(g, from, l->rank, channel)->bytes, NULL);
    if (atomic_load(&g->ends[from].drains)) signal_move(&g->ends[from].changed);
}

static int threads_wait(link_end *l, err *e)
{
    thread_end *end = end_of(l);
    link_group *g = end->of;
    const bool most = end->waits++ % TRY_AGAIN == 0;
    const bool slept = signal_wait_for(&end->changed, end->seen, most ? g->spins_most : end->spins, WAIT_MOST);
    if (slept) end->spins = end->spins / 2 > SPINS_LEAST ? end->spins / 2 : SPINS_LEAST;
    else end->spins = most || end->spins * 2 > g->spins_most ? g->spins_most : end->spins * 2;
    end->seen = signal_now(&end->changed);
    atomic_store(&end->drains, false);
    return atomic_load(&g->given_up) == 2 ? err_copy(e, &g->why) : OK;
}

static void threads_give_up(link_end *l, int code, const char *why)
{
    link_group *g = end_of(l)->of;
    int no = 0;
    if (!atomic_compare_exchange_strong(&g->given_up, &no, 1)) return;
    g->why = (err){0};
    err_set(&g->why, code, "rank %d of %d: %s", l->rank, g->ranks, why);
    atomic_store(&g->given_up, 2);
    for (int i = 0; i < g->ranks; i++) signal_move(&g->ends[i].changed);
}

static const link_kind threads_kind = {
    .name = "threads",
    .post = threads_post,
    .taken = threads_taken,
    .take = threads_take,
    .release = threads_release,
    .wait = threads_wait,
    .give_up = threads_give_up,
};

int link_threads_open(link_group **out, int ranks, int channels, err *e)
{
    *out = NULL;
    if (ranks < 1 || ranks > LINK_RANKS_MAX)
        return err_set(e, ERR_LIMIT, "a group of %d ranks: 1 to %d are possible", ranks, LINK_RANKS_MAX);
    link_group *g = mem_zero(1, sizeof *g);
    if (!g) return err_set(e, ERR_MEMORY, "out of memory for a group of %d ranks", ranks);
    g->ranks = ranks;
    g->channels = channels;
    g->spins_most = ranks > pool_default_threads() ? SPINS_LEAST : SIGNAL_SPINS;
    g->ends_bytes = (uint64_t)ranks * sizeof *g->ends;
    g->boxes_bytes = (uint64_t)ranks * (uint64_t)ranks * (uint64_t)channels * sizeof *g->boxes;
    g->ends = mem_map(g->ends_bytes);
    g->boxes = mem_map(g->boxes_bytes);
    if (!g->ends || !g->boxes) {
        link_threads_close(g);
        return err_set(e, ERR_MEMORY, "out of memory for a group of %d ranks", ranks);
    }
    for (int i = 0; i < ranks; i++) {
        g->ends[i].base = (link_end){.kind = &threads_kind, .rank = i, .ranks = ranks};
        g->ends[i].of = g;
    }
    *out = g;
    return OK;
}

link_end *link_threads_end(link_group *g, int rank) { return &g->ends[rank].base; }
signal_word *link_threads_word(link_group *g, int rank) { return &g->ends[rank].changed; }

void link_threads_close(link_group *g)
{
    if (!g) return;
    mem_unmap(g->ends, g->ends_bytes);
    mem_unmap(g->boxes, g->boxes_bytes);
    mem_free(g);
}
