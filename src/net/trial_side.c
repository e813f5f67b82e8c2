/* trial_side.c - see trial_side.h. */
#include "net/trial_side.h"

#include "base/mem.h"

static uint64_t layout_bytes(const void *of, int a, int b, int channel)
{
    (void)a, (void)b, (void)channel;
    return ((const trial_layout *)of)->bytes;
}

static const char *layout_node(const void *of, int rank)
{
    const char *node = device_at(&((const trial_layout *)of)->devices, rank)->node;
    return *node ? node : NULL;
}

rank_links_shape trial_shape(const trial_layout *l)
{
    return (rank_links_shape){l->devices.n, 1, COLL_CHANNELS, l, layout_bytes, layout_node};
}

/* What is posted lies in a half of a rank's memory. */
uint64_t trial_message_bytes(const coll_test *t, int ranks)
{
    uint64_t most = 0;
    for (int r = 0; r < ranks; r++) {
        const uint64_t half = coll_measure_bytes(t, r, ranks) / 2;
        most = half > most ? half : most;
    }
    return most;
}

static uint64_t side_sent(const void *of)
{
    const trial_side *s = of;
    return rank_links_sent(s->w, s->rank);
}

static bool side_ends(const void *of) { return rank_links_failed(((const trial_side *)of)->w); }

uint64_t trial_side_bytes(const trial_side *s, const coll_test *t)
{
    const int ranks = rank_links_end(s->w, s->rank, 0)->ranks;
    return coll_measure_bytes(t, s->rank, ranks) + (uint64_t)(t->rows * t->cols) * sizeof(float);
}

int trial_side_run(trial_side *s, const coll_test *t, coll_score *to, err *e)
{
    link_end *l = rank_links_end(s->w, s->rank, 0);
    coll_test own = *t;
    own.wire = s->wire;
    own.sent = side_sent;
    own.ends = side_ends;
    own.of = s;
    s->memory_bytes = coll_measure_bytes(t, s->rank, l->ranks);
    s->memory = mem_map(s->memory_bytes);
    int rc = s->memory ? coll_measure(l, 0, &own, s->memory, to, e)
                       : err_set(e, ERR_MEMORY, "out of memory for rank %d of %d", s->rank, l->ranks);
    if (rc) {
        l->kind->give_up(l, rc, e->msg);
        return rc;
    }
    trial_side_close(s);
    return OK;
}

void trial_side_close(trial_side *s)
{
    mem_unmap(s->memory, s->memory_bytes);
    s->memory = NULL;
}
