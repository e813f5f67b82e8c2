/* program_finish.c - checks and facts of a whole program: single assignment, cut points, hash.
 *
 * A cut point is found by liveness: an op before which exactly one activation is alive, and no state is between its
 * write and its read. Only there can layers be divided, because only there the rest of the model depends on a single
 * tensor (the result of an encoder apart, which every layer of a decoder reads). */
#include "base/map.h"
#include "base/mem.h"
#include "core/program.h"

#include <string.h>

/* Last op that reads each tensor, UINT32_MAX when none does. */
static void find_last_use(const program *p, uint32_t *last)
{
    memset(last, 0xff, p->n_tensor * sizeof *last);
    for (uint32_t i = 0; i < p->n_op; i++)
        for (int k = 0; k < 4; k++)
            if (p->ops[i].in[k]) last[p->ops[i].in[k]] = i;
}

static int check_assignment(const program *p, uint8_t *written, err *e)
{
    for (uint32_t i = 0; i < p->n_op; i++) {
        const op *o = &p->ops[i];
        for (int k = 0; k < 4; k++) {
            const tensor *t = &p->tensors[o->in[k]];
            if (o->in[k] && t->kind == TENSOR_ACT && !written[o->in[k]])
                return err_set(e, ERR_SPEC, "op %u %s reads %s before it is written", i, op_info[o->kind].name,
                               t->name);
        }
        if (o->out && written[o->out]++)
            return err_set(e, ERR_SPEC, "op %u %s writes %s a second time", i, op_info[o->kind].name,
                           p->tensors[o->out].name);
    }
    return 0;
}

static int check_entries(const program *p, err *e)
{
    if (p->dim < 1 || p->n_layer < 0 || !p->hidden) return err_set(e, ERR_SPEC, "a program without hidden states");
    for (int32_t l = 0; l <= p->n_layer; l++)
        if (!p->hidden[l] || p->hidden[l] >= p->n_tensor || p->tensors[p->hidden[l]].kind != TENSOR_ACT)
            return err_set(e, ERR_SPEC, "no hidden state for layer %d", l);
    for (int i = 0; i < ENTRY_COUNT; i++)
        if (p->entries[i].op0 > p->entries[i].op1 || p->entries[i].op1 > p->n_op)
            return err_set(e, ERR_SPEC, "entry %d is not inside the program", i);
    return 0;
}

/* Marks in open[i] that op i lies after a KV_PUT and not after the last ATTN that reads what it wrote. */
static void mark_open_states(const program *p, uint8_t *open)
{
    for (uint32_t i = 0; i < p->n_op; i++) {
        if (p->ops[i].kind != OP_KV_PUT) continue;
        uint32_t end = i;
        for (uint32_t k = i + 1; k < p->n_op; k++) {
            if (p->ops[k].state != p->ops[i].state) continue;
            if (p->ops[k].kind == OP_KV_PUT) break;
            end = k;
        }
        for (uint32_t k = i + 1; k <= end; k++) open[k] = 1;
    }
}

static void find_cuts(program *p, const uint32_t *last, const uint8_t *open)
{
    int32_t live = 0;
    ref memory = p->entries[ENTRY_ENC].out; /* beside whatever else is handed over */
    p->n_cut = 0;
    uint32_t *die = p->cuts + p->n_op; /* how many activations die after op i: second half of the array, as scratch */
    memset(die, 0, p->n_op * sizeof *die);
    for (uint32_t t = 1; t < p->n_tensor; t++)
        if (t != memory && p->tensors[t].kind == TENSOR_ACT && last[t] != UINT32_MAX) die[last[t]]++;
    for (uint32_t i = 0; i < p->n_op; i++) {
        if (live == 1 && !open[i]) p->cuts[p->n_cut++] = i;
        live += p->ops[i].out && p->ops[i].out != memory && last[p->ops[i].out] != UINT32_MAX;
        live -= (int32_t)die[i];
    }
}

/* ---- hash: fields in a fixed order and width, so that it is the same on every machine */

typedef struct hasher {
    uint64_t h;
} hasher;

static void add_bytes(hasher *s, const void *p, size_t n) { s->h = hash_bytes(p, n, s->h); }

static void add_int(hasher *s, int64_t v)
{
    uint8_t b[8];
    for (int i = 0; i < 8; i++) b[i] = (uint8_t)((uint64_t)v >> 8 * i);
    add_bytes(s, b, 8);
}

static void add_float(hasher *s, double v) { add_bytes(s, &v, sizeof v); }

static void add_text(hasher *s, const char *t) { add_bytes(s, t ? t : "", t ? strlen(t) : 0); }

static void hash_op(hasher *s, const op *o)
{
    add_int(s, o->kind);
    add_int(s, o->layer);
    add_int(s, o->state);
    add_int(s, o->out);
    for (int k = 0; k < 4; k++) add_int(s, o->in[k]);
    for (size_t at = offsetof(op, u); at < sizeof *o; at += sizeof(int32_t)) /* in the order of the fields */
        for (const op_param *row = op_params; row->label; row++) {
            if (row->op != o->kind || row->offset != at) continue;
            if (row->type == OPP_FLOAT || row->type == OPP_EXACT) add_float(s, op_param_value(row, o));
            else add_int(s, (int64_t)op_param_value(row, o));
        }
}

uint64_t program_op_hash(const program *p, uint32_t i)
{
    hasher s = {0};
    hash_op(&s, &p->ops[i]);
    return s.h;
}

static void hash_weight(hasher *s, const weight *w)
{
    add_text(s, w->name);
    add_int(s, w->rows), add_int(s, w->cols), add_int(s, w->want), add_int(s, w->vector), add_int(s, w->parts);
    for (uint32_t i = 0; i < w->n_piece; i++) {
        const piece *c = &w->pieces[i];
        int64_t f[] = {c->entry, c->type,   c->src_rows, c->src_cols, c->rows,      c->row0,
                       c->block, c->stride, c->pairs,    c->rotated,  c->transpose, c->col0};
        for (size_t k = 0; k < sizeof f / sizeof *f; k++) add_int(s, f[k]);
        add_float(s, c->mul), add_float(s, c->add), add_int(s, c->normalize_rows);
    }
}

static void hash_rope(hasher *s, const rope_params *r)
{
    add_int(s, r->scaling), add_int(s, r->dims), add_int(s, r->original), add_int(s, r->max_positions),
        add_int(s, r->truncate);
    double f[] = {r->theta,     r->factor, r->low_freq,       r->high_freq,       r->beta_fast,
                  r->beta_slow, r->mscale, r->mscale_all_dim, r->attention_factor};
    for (size_t k = 0; k < sizeof f / sizeof *f; k++) add_float(s, f[k]);
    const float *factors[] = {r->short_factor, r->long_factor};
    for (int k = 0; k < 2; k++)
        for (int i = 0; factors[k] && i < r->dims / 2; i++) add_float(s, factors[k][i]);
}

static uint64_t hash_program(const program *p)
{
    hasher s = {0};
    for (uint32_t i = 0; i < p->n_op; i++) hash_op(&s, &p->ops[i]);
    for (uint32_t i = 1; i < p->n_tensor; i++) {
        const tensor *t = &p->tensors[i];
        add_int(&s, t->kind), add_int(&s, t->axis), add_int(&s, t->rank), add_int(&s, t->layer), add_int(&s, t->weight);
        add_int(&s, t->block);
        for (int k = 0; k < t->rank; k++) add_int(&s, t->dim[k]);
        if (t->kind == TENSOR_CONST)
            for (int64_t k = 0, n = tensor_count(t); k < n; k++) add_float(&s, t->data[k]);
    }
    for (uint32_t i = 0; i < p->n_weight; i++) hash_weight(&s, &p->weights[i]);
    for (uint32_t i = 0; i < p->n_rope; i++) hash_rope(&s, &p->ropes[i].params);
    for (uint32_t i = 0; i < p->n_state; i++) {
        const state *t = &p->states[i];
        add_int(&s, t->axis), add_int(&s, t->heads), add_int(&s, t->k_dim), add_int(&s, t->v_dim),
            add_int(&s, t->window), add_int(&s, t->scratch);
    }
    return s.h;
}

int program_finish(program *p, err *e)
{
    int rc = check_entries(p, e);
    if (rc) return rc;
    uint32_t *last = mem_array(p->n_tensor, sizeof *last);
    uint8_t *flags = mem_zero((size_t)p->n_tensor + p->n_op, 1);
    p->cuts = arena_array(&p->mem, (size_t)p->n_op * 2 + 1, sizeof *p->cuts);
    if (!last || !flags || !p->cuts) rc = err_set(e, ERR_MEMORY, "out of memory while building the program");
    if (!rc) rc = check_assignment(p, flags, e);
    if (!rc) {
        find_last_use(p, last);
        mark_open_states(p, flags + p->n_tensor);
        find_cuts(p, last, flags + p->n_tensor);
        p->hash = hash_program(p);
    }
    mem_free(last);
    mem_free(flags);
    return rc;
}
