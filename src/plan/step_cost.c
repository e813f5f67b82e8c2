/* step_cost.c - see step_cost.h. */
#include "plan/step_cost.h"

#include "core/kv_type.h"

#include <math.h>

uint64_t weight_read_bytes(const weight *w)
{
    uint64_t n = 0, file = weight_file_bytes(w);
    dtype type = w->vector ? DTYPE_F32 : w->want;
    if (type == DTYPE_NONE || !dtype_bytes(type, (uint64_t)w->cols, &n)) return file;
    return n * (uint64_t)w->rows;
}

/* The share of an operand that so many token rows use: 1 but for experts. */
static double used_share(const program *p, const op *o, int k, double rows)
{
    if (o->kind != OP_MATMUL_EXP || (k != 1 && k != 2)) return 1;
    const int32_t parts = weight_whole(&p->weights[p->tensors[o->in[1]].weight])->parts;
    return 1 - pow(1 - (double)p->n_used / parts, rows);
}

/* Whether one of the few ops before multiplied by the same weight: narrow rows are multiplied twice, as codes and as
 * what is left of them (core/lower_int8.h), and the second time it is in the cache. */
static bool read_before(const program *p, uint32_t op0, uint32_t i, uint32_t which)
{
    enum { FEW = 4 };
    for (uint32_t k = i > op0 + FEW ? i - FEW : op0; k < i; k++) {
        const tensor *t = &p->tensors[p->ops[k].in[1]];
        if (op_is(&p->ops[k], OPF_MATRIX) && t->weight == which) return true;
    }
    return false;
}

double step_cost_weights(const program *p, uint32_t op0, uint32_t op1, double rows, double *numbers)
{
    double sum = 0;
    for (uint32_t i = op0; i < op1; i++) {
        const op *o = &p->ops[i];
        for (int k = 0; k < 4 && o->kind != OP_EMBED; k++) {
            const tensor *t = &p->tensors[o->in[k]];
            if (!o->in[k] || t->kind != TENSOR_WEIGHT || (k == 1 && read_before(p, op0, i, t->weight))) continue;
            sum += used_share(p, o, k, rows) * (double)weight_read_bytes(&p->weights[t->weight]);
            if (numbers) *numbers += used_share(p, o, k, 1) * (double)tensor_count(t);
        }
    }
    return sum;
}

/* Of each sequence: its keys once, and for every row two products with all that it sees. */
static void add_attention(step_cost *c, const program *p, const op *o, const step *st, double token_bytes)
{
    const state *s = &p->states[o->state];
    const step_rows *own = step_rows_of(st, p->tensors[o->out].axis), *keys = step_rows_of(st, s->axis);
    const double products = 2.0 * o->u.attn.heads * (s->k_dim + s->v_dim);
    for (int32_t i = 0; i < st->n_seq; i++) {
        const int32_t window = o->u.attn.window;
        const double n = own->seq_row[i + 1] - own->seq_row[i], held = keys->seq_len[i];
        const bool slides = window && window < held;
        if (n == 0) continue;
        c->kv_bytes += (slides ? window : held) * token_bytes;
        c->flops += n * products * (slides ? window : held - (n - 1) / 2); /* on average: later rows see more */
    }
}

/* A slot is read and written; of a recurrence, each row multiplies all of it by four numbers, or by three. */
static void add_slot(step_cost *c, const program *p, const op *o, const step *st)
{
    const double floats = (double)p->states[o->state].slot_floats;
    c->kv_bytes += 2.0 * sizeof(float) * floats * st->n_seq;
    if (o->kind == OP_RECUR) c->flops += (o->u.recur.delta ? 8 : 6) * floats * st->n[AXIS_TOK];
}

void step_cost_add(step_cost *c, const program *p, uint32_t op0, uint32_t op1, const step *st, dtype k_type,
                   dtype v_type)
{
    c->weight_bytes += step_cost_weights(p, op0, op1, st->n[AXIS_TOK], NULL);
    for (uint32_t i = op0; i < op1; i++) {
        const op *o = &p->ops[i];
        const double rows = st->n[p->tensors[o->out].axis];
        if (op_is(o, OPF_MATRIX))
            *(p->tensors[o->in[0]].block ? &c->int8_ops : &c->flops) += 2 * rows * (double)program_row_products(p, o);
        else if (op_is(o, OPF_SLOT)) add_slot(c, p, o, st);
        else if (o->kind == OP_ATTN)
            add_attention(c, p, o, st, (double)kv_page_bytes(&p->states[o->state], k_type, v_type) / PAGE_TOKENS);
    }
}
