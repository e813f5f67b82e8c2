/* plan_part.c - see plan_part.h. */
#include "plan/plan_part.h"

#include "base/mem.h"
#include "core/kv_type.h"
#include "plan/step_cost.h"

/* ---- bytes */

/* The ops of a device. */
typedef struct own_ops {
    const program *p;
    uint32_t op0, op1, host_from; /* the first state whose pages lie in memory of the host */
} own_ops;

static own_ops ops_of(const plan *l, const plan_rank *r)
{
    const plan_group *g = group_of(l, r);
    const program *p = r->seg.p ? r->seg.p : g->by_columns ? cut_program(g->by_columns, r->index) : NULL;
    return p ? (own_ops){p, 0, p->n_op, r->seg.p ? rank_host_from(r) : p->n_state}
             : (own_ops){l->p, g->op0, g->op1, l->p->n_state};
}

static void add_weights(own_ops own, const op *o, bool *counted, plan_part *to)
{
    for (int k = 0; k < 4; k++) {
        const tensor *t = &own.p->tensors[o->in[k]];
        if (!o->in[k] || t->kind != TENSOR_WEIGHT || counted[t->weight]) continue;
        counted[t->weight] = true;
        to->weight_bytes += weight_read_bytes(&own.p->weights[t->weight]);
    }
}

/* Pages or slots of the state that an op writes. */
static void add_state(const cache_options *cache, own_ops own, const op *o, bool *counted, plan_part *to)
{
    if ((o->kind != OP_KV_PUT && !op_is(o, OPF_SLOT)) || counted[o->state]) return;
    const state *s = &own.p->states[o->state];
    counted[o->state] = true;
    if (s->kind == STATE_SLOT) {
        const int64_t floats = s->slot_floats + cache->slot_rows * program_slot_row(own.p, o);
        to->kv_bytes += (uint64_t)floats * sizeof(float) * (uint64_t)cache->n_slot;
        return;
    }
    const uint64_t page = kv_page_bytes(s, cache->k_type, cache->v_type);
    to->page_bytes += page;
    *(o->state < (int)own.host_from ? &to->kv_bytes : &to->host_bytes) += page * (uint64_t)cache->n_page[s->group];
}

static int add_bytes(const plan *l, own_ops own, plan_part *to, err *e)
{
    bool *counted = mem_zero((size_t)own.p->n_weight + own.p->n_state + 1, sizeof *counted);
    if (!counted) return err_memory(e, "what devices have");
    for (uint32_t i = own.op0; i < own.op1; i++) {
        add_weights(own, &own.p->ops[i], counted, to);
        add_state(&l->cache, own, &own.p->ops[i], counted + own.p->n_weight, to);
    }
    mem_free(counted);
    return OK;
}

/* ---- runs */

static bool is_matrix(const program *p, const op *o) { return cut_rule_of(p, o).result == CUT_ROWS; }

/* Whether activations that are cut like `t` go into a matrix of the group, and into no state or attention. */
static bool is_between(const cut_borders *b, const cut_shape *s, ref t)
{
    bool read = false;
    for (uint32_t i = s->op0; i < s->op1; i++) {
        const op *o = &s->p->ops[i];
        read = read || (is_matrix(s->p, o) && cut_one_class(b, o->in[0], t));
        if (o->state < 0) continue;
        if (cut_one_class(b, o->out, t)) return false;
        for (int k = 0; k < 4; k++)
            if (o->in[k] && cut_one_class(b, o->in[k], t)) return false;
    }
    return read;
}

/* The widest activation of layers between two matrices of which a rank has columns; 0: there is none. */
static ref hidden_of(const cut_borders *b, const cut_shape *s, int rank)
{
    ref widest = 0;
    for (uint32_t i = s->op0; i < s->op1; i++) {
        const op *o = &s->p->ops[i];
        const cut_range c = cut_columns(b, rank, o->out);
        if (!s->experts && !cut_is_cut(b, o->out)) continue; /* with them one rank may have all */
        if (o->layer < 0 || !is_matrix(s->p, o) || c.from == c.to) continue;
        if (widest && cut_width(s->p, o->out) <= cut_width(s->p, widest)) continue;
        if (is_between(b, s, o->out)) widest = o->out;
    }
    return widest;
}

/* The first op of the group of a kind; NULL: there is none. */
static const op *first_of_kind(const cut_shape *s, int kind)
{
    for (uint32_t i = s->op0; i < s->op1; i++) {
        const op *o = &s->p->ops[i];
        if (o->kind == kind && (kind != OP_EMBED || o->u.embed.by == EMBED_BY_TOKEN)) return o;
    }
    return NULL;
}

static bool has_head(const cut_shape *s)
{
    const ref head = s->p->entries[ENTRY_HEAD].out;
    for (uint32_t i = s->op0; i < s->op1; i++)
        if (head && s->p->ops[i].out == head) return true;
    return false;
}

static void set_runs(const cut_borders *b, const cut_shape *s, plan_part *parts)
{
    const program *p = s->p;
    const op *attn = first_of_kind(s, OP_ATTN), *table = first_of_kind(s, OP_EMBED);
    const ref head = has_head(s) ? p->entries[ENTRY_HEAD].out : 0;
    for (int r = 0; r < s->ranks; r++) {
        const ref hidden = hidden_of(b, s, r);
        plan_part *to = &parts[r];
        if (attn) {
            const cut_range c = cut_columns(b, r, attn->out);
            const int64_t heads = attn->u.attn.heads, width = cut_width(p, attn->out);
            to->heads = (cut_range){c.from * heads / width, c.to * heads / width};
            to->kv_heads = c.from == c.to ? c : cut_state_heads(b, r, attn->state);
        }
        if (hidden && s->whole_experts && p->tensors[hidden].axis == AXIS_EXP)
            to->ffn = (cut_range){0, cut_width(p, hidden)}; /* of its experts */
        else if (hidden) to->ffn = cut_columns(b, r, hidden);
        if (head) to->vocab = cut_columns(b, r, head);
        else if (table) to->vocab = cut_table_rows(b, r, table);
    }
}

int plan_parts(const plan *l, plan_part **out, err *e)
{
    plan_part *parts = *out = mem_zero((size_t)l->n, sizeof *parts);
    int rc = parts ? OK : err_memory(e, "what devices have");
    for (int i = 0; i < l->n && !rc; i++) rc = add_bytes(l, ops_of(l, &l->ranks[i]), &parts[i], e);
    for (int i = 0; i < plan_groups(l) && !rc; i++) {
        const plan_group *g = &l->groups[i];
        cut_borders *b;
        rc = cut_borders_open(&b, &g->shape, e);
        if (!rc) set_runs(b, &g->shape, parts + g->rank0);
        cut_borders_close(b);
    }
    if (rc) mem_free(parts), *out = NULL;
    return rc;
}
