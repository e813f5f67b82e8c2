/* steps.c - see steps.h. */
#include "engine/steps.h"

#include "base/mem.h"
#include "cache/text_slots.h"

int steps_open(step_ring *r, const program *p, int in_flight, const batch_sizes *max, err *e)
{
    *r = (step_ring){.rows = mem_zero((size_t)in_flight, sizeof *r->rows)};
    if (r->rows) r->in_flight = in_flight;
    int rc = r->rows ? OK : err_memory(e, "steps under way");
    for (int i = 0; i < in_flight && !rc; i++) rc = batch_open(&r->rows[i], p, max, e);
    return rc;
}

void steps_close(step_ring *r)
{
    for (int i = 0; i < r->in_flight; i++) batch_close(&r->rows[i]);
    mem_free(r->rows);
    *r = (step_ring){0};
}

void steps_limit(step_ring *r, const batch_sizes *max)
{
    for (int i = 0; i < r->in_flight; i++) {
        r->rows[i].rows_max = max->rows;
        r->rows[i].out_max = max->outs;
    }
}

static batch *batch_of(step_ring *r, uint64_t number) { return &r->rows[number % (uint64_t)r->in_flight]; }

batch *steps_next(step_ring *r)
{
    if (steps_under_way(r) == r->in_flight) return NULL;
    batch *b = batch_of(r, r->sent);
    batch_clear(b);
    return b;
}

bool steps_send(step_ring *r, kv_cache *kv, plan *to)
{
    batch *b = batch_of(r, r->sent);
    if (!b->st.n_seq) return false;
    const step *st = batch_finish(b, kv->p, kv->copies, kv->n_copy, kv->slot_rows, plan_best_most(to));
    kv->n_copy = 0;
    for (int32_t i = 0; i < st->n_seq; i++) {
        session *s = b->who[i];
        s->text.n_sent += st->tok.seq_row[i + 1] - st->tok.seq_row[i];
        s->text.slot_was = s->text.slot_now;
        s->text.slot_now = st->slot_write[i];
        s->text.taken = st->slot_apart[i];
        s->encoded = true;
        s->in_flight++;
    }
    r->sent++;
    plan_send(to, st);
    return true;
}

batch *steps_collect(step_ring *r, plan *from, int *rc, err *e)
{
    *rc = plan_collect(from, e);
    batch *b = batch_of(r, r->collected++);
    for (int32_t i = 0; i < b->st.n_seq; i++) b->who[i]->in_flight--;
    return b;
}

void steps_lose_slots(kv_cache *kv, const batch *b)
{
    for (int32_t i = 0; i < b->st.n_seq; i++) text_lose_slot(kv, &b->who[i]->text, b->slot_write[i]);
}
