/* joined.c - see joined.h. */
#include "plan/joined.h"

#include "base/mem.h"
#include "comm/coll_list.h"

bool group_may_join(const plan *l, const plan_group *g)
{
    const plan_rank *first = &l->ranks[g->rank0];
    const backend *be = first->seg.be;
    bool may = g->ranks > 1 && !l->n_remote && l->self < 0 && be && be->ways && be->ways->join;
    for (int i = 1; i < g->ranks; i++) may = may && first[i].seg.be == be;
    return may && l->asked.pretended_speed.bytes_per_s <= 0 && l->reduction.kind != &coll_ring;
}

int joined_open(plan *l, plan_group *g, err *e)
{
    dev *on[DEVICES_MAX];
    const segment *of[DEVICES_MAX];
    const wire_pair plain = {NULL, WIRE_F32, WIRE_F32};
    const reduction *r = &l->reduction;
    if (!group_may_join(l, g)) return OK;
    g->handed = mem_array((size_t)g->n_coll + 1, sizeof *g->handed);
    if (!g->handed) return err_memory(e, "the plan");
    for (uint32_t k = 0; k < g->n_coll; k++)
        g->handed[k] = (join_coll){.how = g->colls[k].how, .of = g->colls[k].of, .offset = g->colls[k].offset};
    for (int i = 0; i < g->ranks; i++) {
        on[i] = l->ranks[g->rank0 + i].seg.on;
        of[i] = &l->ranks[g->rank0 + i].lane[0].seg;
    }
    const join_group group = {.ranks = g->ranks,
                              .on = on,
                              .of = of,
                              .colls = g->handed,
                              .n_coll = g->n_coll,
                              .max_rows = l->max_rows,
                              .codec = r->codec ? *r->codec : plain,
                              .group = r->group,
                              .steps = !r->kind                    ? 0
                                       : r->kind == &coll_one_shot ? 1
                                                                   : 2};
    g->ways = l->ranks[g->rank0].seg.be->ways->join;
    return g->ways->open(&g->joined, &group, e);
}

void joined_close(plan_group *g)
{
    if (g->joined) g->ways->close(g->joined);
    mem_free(g->handed);
}

/* Whether all ranks of a group have done the steps before this one; under the lock. */
static bool all_came(const plan *l, const plan_group *g, uint64_t number)
{
    bool all = true;
    for (int i = g->rank0; i < g->rank0 + g->ranks; i++) all = all && l->ranks[i].lane[0].next >= number;
    return all;
}

bool joined_enter(const rank_lane *a, flight *f, bool *leads)
{
    plan *l = a->of->of;
    const plan_group *g = group_of(l, a->of);
    const rank_lane *first = &l->ranks[g->rank0].lane[0];
    bool alone = true;
    *leads = false;
    if (!g->joined || f->st->n_tap) return true;
    pthread_mutex_lock(&l->lock);
    if (a == first) {
        while (!all_came(l, g, a->next)) pthread_cond_wait(&l->changed, &l->lock);
        *leads = true;
    } else {
        while (first->next <= a->next && !f->apart) pthread_cond_wait(&l->changed, &l->lock);
        alone = f->apart;
    }
    pthread_mutex_unlock(&l->lock);
    return alone;
}

void joined_leave(const rank_lane *a, flight *f)
{
    plan *l = a->of->of;
    pthread_mutex_lock(&l->lock);
    f->apart = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}
