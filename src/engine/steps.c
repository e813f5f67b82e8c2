/* steps.c - see steps.h. */
#include "engine/steps.h"

#include "base/mem.h"

int steps_open(step_ring *r, const program *p, int in_flight, const batch_sizes *max, err *e)
{
    *r = (step_ring){.cap_copy = max->copies, .rows = mem_zero((size_t)in_flight, sizeof *r->rows)};
    if (r->rows) r->in_flight = in_flight;
    r->copies = mem_array((size_t)max->copies + 1, sizeof *r->copies);
    int rc = r->rows && r->copies ? OK : err_set(e, ERR_MEMORY, "out of memory for steps under way");
    for (int i = 0; i < in_flight && !rc; i++) rc = batch_open(&r->rows[i], p, max, e);
    return rc;
}

void steps_close(step_ring *r)
{
    for (int i = 0; i < r->in_flight; i++) batch_close(&r->rows[i]);
    mem_free(r->rows);
    mem_free(r->copies);
    *r = (step_ring){0};
}

static batch *batch_of(step_ring *r, uint64_t number) { return &r->rows[number % (uint64_t)r->in_flight]; }

batch *steps_next(step_ring *r)
{
    if (steps_under_way(r) == r->in_flight) return NULL;
    batch *b = batch_of(r, r->sent);
    batch_clear(b);
    return b;
}

bool steps_send(step_ring *r, const program *p, plan *to)
{
    batch *b = batch_of(r, r->sent);
    if (!b->st.n_seq) return false;
    const step *st = batch_finish(b, p, r->copies, r->n_copy);
    r->n_copy = 0;
    for (int32_t i = 0; i < st->n_seq; i++) {
        session *s = b->who[i];
        s->n_sent += st->tok.seq_row[i + 1] - st->tok.seq_row[i];
        s->slot_was = s->slot_now;
        s->slot_now = st->slot_write[i];
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

void steps_copy_page(step_ring *r, int group, int32_t from, int32_t to)
{
    r->copies[r->n_copy++] = (page_copy){group, from, to};
}

int32_t steps_forget_page(step_ring *r, int group, int32_t page)
{
    for (int32_t i = 0; i < r->n_copy; i++) {
        const page_copy c = r->copies[i];
        if (c.group != group || c.to != page) continue;
        r->copies[i] = r->copies[--r->n_copy];
        return c.from;
    }
    return -1;
}
