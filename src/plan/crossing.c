/* crossing.c - which activations cross from one group of devices to others, or to the caller, and who has what of
 * them. */
#include "plan/plan_state.h"

#include "base/mem.h"

/* The group that op i belongs to. */
int group_at(const plan *l, uint32_t i)
{
    int k = 0;
    while (i >= l->groups[k].op1) k++;
    return k;
}

/* The entry whose result, for the caller, is t; -1: none. */
static int result_entry(const program *p, ref t)
{
    for (int i = ENTRY_HEAD; i < ENTRY_COUNT; i++)
        if (p->entries[i].out == t) return i;
    return -1;
}

/* Whether an op from op0 on reads t. */
static bool read_after(const program *p, uint32_t op0, ref t)
{
    for (uint32_t i = op0; i < p->n_op; i++)
        for (int k = 0; k < 4; k++)
            if (p->ops[i].in[k] == t) return true;
    return false;
}

/* Finds what crosses from one group to others, or to the caller. */
int find_crossings(plan *l, err *e)
{
    const program *p = l->p;
    l->cross = mem_array((size_t)p->n_op + 1, sizeof *l->cross);
    if (!l->cross) return err_memory(e, "the plan");
    for (uint32_t i = 0; i < p->n_op; i++) {
        crossing c = {.t = p->ops[i].out, .from = group_at(l, i)};
        const plan_group *g = &l->groups[c.from];
        if (!c.t) continue;
        c.entry = result_entry(p, c.t);
        c.read_by_device = read_after(p, g->op1, c.t);
        int givers = 0;
        for (int r = 0; r < g->ranks && g->by_columns; r++) givers += cut_gives(g->by_columns, r, c.t).t != 0;
        c.divided = givers > 1;
        if (c.read_by_device || c.entry >= 0) l->cross[l->n_cross++] = c;
    }
    return OK;
}

/* What a rank has of a crossing that its group writes. */
static cut_part given(const plan *l, const plan_rank *r, uint32_t k)
{
    const plan_group *g = group_of(l, r);
    const ref t = l->cross[k].t;
    if (l->cross[k].from != r->group) return (cut_part){0};
    return g->by_columns ? cut_gives(g->by_columns, r->index, t) : (cut_part){t, {0, tensor_count(&l->p->tensors[t])}};
}

/* Whether some rank of a group is on a node. */
static bool is_on_nodes(const plan *l, const plan_group *g)
{
    bool any = false;
    for (int i = g->rank0; i < g->rank0 + g->ranks; i++) any = any || l->ranks[i].node[0];
    return any;
}

/* Whether an op of the rank reads a crossing of a group before. */
static bool reads(const plan *l, const plan_rank *r, uint32_t k)
{
    const plan_group *g = group_of(l, r);
    const program *p = g->by_columns ? cut_program(g->by_columns, r->index) : l->p;
    const uint32_t op0 = g->by_columns ? 0 : g->op0, op1 = g->by_columns ? p->n_op : g->op1;
    if (l->cross[k].from >= r->group) return false;
    for (uint32_t i = op0; i < op1; i++)
        for (int n = 0; n < 4; n++)
            if (p->ops[i].in[n] == l->cross[k].t) return true;
    return false;
}

int list_parts(plan *l, err *e)
{
    for (int i = 0; i < l->n; i++) {
        plan_rank *r = &l->ranks[i];
        r->sends = mem_array((size_t)l->n_cross + 1, sizeof *r->sends);
        r->receives = mem_array((size_t)l->n_cross + 1, sizeof *r->receives);
        if (!r->sends || !r->receives) return err_memory(e, "the plan");
        for (uint32_t k = 0; k < l->n_cross; k++) {
            r->sends[k] = given(l, r, k);
            r->receives[k] = i == l->results_to ? l->cross[k].entry >= 0 && is_on_nodes(l, &l->groups[l->cross[k].from])
                                                : reads(l, r, k);
        }
    }
    return OK;
}

/* The lists of what a rank takes and gives. */
int list_edges(const plan *l, plan_rank *r, err *e)
{
    segment *s = &r->seg;
    s->in = arena_array(&s->p->mem, (size_t)l->n_cross + 1, sizeof *s->in);
    s->out = arena_array(&s->p->mem, (size_t)l->n_cross + 1, sizeof *s->out);
    if (!s->in || !s->out) return err_memory(e, "the plan");
    for (uint32_t k = 0; k < l->n_cross; k++) {
        const crossing *c = &l->cross[k];
        if (r->receives[k]) s->in[s->n_in++] = (edge){c->t, c->from};
        if (r->sends[k].t) s->out[s->n_out++] = r->sends[k].t;
    }
    return OK;
}
