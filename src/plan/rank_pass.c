/* rank_pass.c - see rank_pass.h. */
#include "plan/rank_pass.h"

static int channel_of(const plan *l, uint64_t number, uint32_t k)
{
    return COLL_CHANNELS + (int)(number % (uint64_t)l->in_flight) * (int)l->n_cross + (int)k;
}

static uint64_t part_bytes(const plan *l, const plan_rank *from, uint64_t number, uint32_t k)
{
    const cut_part *part = &from->gives[k];
    const flight *f = &l->flights[number % (uint64_t)l->in_flight];
    const int64_t rows = f->st->n[l->p->tensors[l->cross[k].t].axis];
    return passed_bytes(l, part->columns.to - part->columns.from, rows);
}

int far_take(const plan *l, plan_rank *r, uint64_t number, uint32_t k, int from, const void **bytes, err *e)
{
    const uint64_t n = part_bytes(l, &l->ranks[from], number, k);
    int rc = OK;
    *bytes = NULL;
    while (!rc && n) {
        rc = r->end->kind->take(r->end, from, channel_of(l, number, k), n, bytes, e);
        if (rc || *bytes) break;
        rc = r->end->kind->wait(r->end, e);
    }
    return rc;
}

void far_release(const plan *l, plan_rank *r, uint64_t number, uint32_t k, int from)
{
    r->end->kind->release(r->end, from, channel_of(l, number, k));
}

/* Whether rank r sends crossing k to rank i. */
static bool sends(const plan *l, const plan_rank *r, int i, uint32_t k)
{
    return r->gives[k].t && !is_here(l, &l->ranks[i]) && l->ranks[i].takes[k];
}

int far_enter(const plan *l, plan_rank *r, uint64_t number, err *e)
{
    int rc = OK;
    for (uint32_t k = 0; k < l->n_cross && r->end; k++)
        for (int i = 0; i < l->n && !rc; i++)
            while (!rc && sends(l, r, i, k) && !r->end->kind->taken(r->end, i, channel_of(l, number, k)))
                rc = r->end->kind->wait(r->end, e);
    return rc;
}

int far_post(const plan *l, plan_rank *r, uint64_t number, uint32_t k, const void *bytes, err *e)
{
    const uint64_t n = part_bytes(l, r, number, k);
    int rc = OK;
    for (int i = 0; i < l->n && n && !rc && r->end; i++)
        if (sends(l, r, i, k)) rc = r->end->kind->post(r->end, i, channel_of(l, number, k), bytes, n, e);
    return rc;
}
