/* rank_pass.c - see rank_pass.h. */
#include "plan/rank_pass.h"

/* Also of a rank with one lane: others may have more. */
static link_end *end_of(const rank_lane *a) { return a->of->end[a->next % (uint64_t)a->of->of->lanes]; }

static int channel_of(const rank_lane *a, uint32_t k)
{
    const plan *l = a->of->of;
    const uint64_t turn = a->next / (uint64_t)l->lanes % (uint64_t)steps_of_lane(l);
    return COLL_CHANNELS + (int)turn * (int)l->n_cross + (int)k;
}

static uint64_t part_bytes(const rank_lane *a, uint32_t k)
{
    const plan *l = a->of->of;
    const cut_part *part = &a->of->sends[k];
    const flight *f = &l->flights[a->next % (uint64_t)l->in_flight];
    const int64_t rows = f->st->n[l->p->tensors[l->cross[k].t].axis];
    return passed_bytes(l, part->columns.to - part->columns.from, rows);
}

int remote_take(const rank_lane *a, uint32_t k, int from, uint64_t n, const void **bytes, err *e)
{
    link_end *end = end_of(a);
    int rc = OK;
    *bytes = NULL;
    while (!rc && n) {
        rc = end->kind->take(end, from, channel_of(a, k), n, bytes, e);
        if (rc || *bytes) break;
        rc = end->kind->wait(end, e);
    }
    return rc;
}

void remote_release(const rank_lane *a, uint32_t k, int from)
{
    link_end *end = end_of(a);
    end->kind->release(end, from, channel_of(a, k));
}

/* Whether rank r sends crossing k to rank i. */
static bool sends(const plan_rank *r, int i, uint32_t k)
{
    const plan *l = r->of;
    return r->sends[k].t && !is_here(l, &l->ranks[i]) && l->ranks[i].receives[k];
}

int remote_enter(const rank_lane *a, err *e)
{
    const plan *l = a->of->of;
    link_end *end = end_of(a);
    int rc = OK;
    for (uint32_t k = 0; k < l->n_cross && end; k++)
        for (int i = 0; i < l->n && !rc; i++)
            while (!rc && sends(a->of, i, k) && !end->kind->taken(end, i, channel_of(a, k)))
                rc = end->kind->wait(end, e);
    return rc;
}

int remote_post(const rank_lane *a, int to, uint32_t k, const void *bytes, uint64_t n, err *e)
{
    link_end *end = end_of(a);
    return n ? end->kind->post(end, to, channel_of(a, k), bytes, n, e) : OK;
}

int remote_post_readers(const rank_lane *a, uint32_t k, const void *bytes, err *e)
{
    const plan *l = a->of->of;
    const uint64_t n = part_bytes(a, k);
    int rc = OK;
    for (int i = 0; i < l->n && !rc && end_of(a); i++)
        if (i != l->results_to && sends(a->of, i, k)) rc = remote_post(a, i, k, bytes, n, e);
    return rc;
}
