/* program_hash.c - what a program is, as one SHA-256: two machines compare it instead of exchanging programs.
 *
 * Fields go in in a fixed order and width, texts with their length, kinds of ops and types by name: so the digest is
 * the same on every machine, and stays when a kind or a type is added. Where a tensor lies (file, order, entry) and
 * what its bytes are does not enter. */
#include "core/program.h"

#include <string.h>

static void add_int(sha256 *s, int64_t v)
{
    uint8_t b[8];
    for (int i = 0; i < 8; i++) b[i] = (uint8_t)((uint64_t)v >> 8 * i);
    sha256_add(s, b, sizeof b);
}

static void add_float(sha256 *s, double v)
{
    int64_t bits;
    memcpy(&bits, &v, sizeof bits);
    add_int(s, bits);
}

static void add_span(sha256 *s, span t)
{
    add_int(s, (int64_t)t.n);
    sha256_add(s, t.p, t.n);
}

static void add_text(sha256 *s, const char *t) { add_span(s, span_str(t ? t : "")); }

static void add_type(sha256 *s, dtype t) { add_text(s, dtype_info[t].name); }

static void add_op(sha256 *s, const op *o)
{
    add_text(s, op_info[o->kind].name);
    add_int(s, o->layer), add_int(s, o->state), add_int(s, o->out);
    for (int k = 0; k < 4; k++) add_int(s, o->in[k]);
    for (size_t at = offsetof(op, u); at < sizeof *o; at += sizeof(int32_t)) /* in the order of the fields */
        for (const op_param *row = op_params; row->label; row++) {
            if (row->kind != o->kind || row->offset != at) continue;
            if (row->silent && op_param_value(row, o) == (double)row->otherwise) continue;
            if (row->silent) add_text(s, row->label);
            if (row->type == OPP_FLOAT || row->type == OPP_EXACT) add_float(s, op_param_value(row, o));
            else add_int(s, (int64_t)op_param_value(row, o));
        }
}

static void add_tensor(sha256 *s, const tensor *t)
{
    int64_t f[] = {t->kind, t->axis, t->layer, t->block, t->weight, t->rank};
    for (size_t k = 0; k < sizeof f / sizeof *f; k++) add_int(s, f[k]);
    for (int k = 0; k < t->rank; k++) add_int(s, t->dim[k]);
    for (int64_t k = 0, n = t->kind == TENSOR_CONST ? tensor_count(t) : 0; k < n; k++) add_float(s, t->data[k]);
}

static void add_weight(sha256 *s, const weight *w)
{
    int64_t f[] = {w->rows, w->cols, w->vector, w->parts, w->n_piece};
    add_text(s, w->name);
    add_type(s, w->want);
    for (size_t k = 0; k < sizeof f / sizeof *f; k++) add_int(s, f[k]);
    for (uint32_t i = 0; i < w->n_piece; i++) {
        const piece *c = &w->pieces[i];
        int64_t g[] = {c->src_rows,
                       c->src_cols,
                       c->rows,
                       c->row0,
                       c->block,
                       c->stride,
                       c->col0,
                       c->pairs,
                       c->rotated,
                       c->transpose,
                       c->normalize_rows + 2 * c->exponential};
        add_text(s, c->name);
        add_type(s, c->type);
        for (size_t k = 0; k < sizeof g / sizeof *g; k++) add_int(s, g[k]);
        add_float(s, c->mul), add_float(s, c->add);
    }
}

static void add_rope(sha256 *s, const rope_params *r)
{
    int64_t f[] = {r->scaling, r->dims, r->original, r->max_positions, r->truncate};
    double g[] = {r->theta,     r->factor, r->low_freq,       r->high_freq,       r->beta_fast,
                  r->beta_slow, r->mscale, r->mscale_all_dim, r->attention_factor};
    const float *factors[] = {r->short_factor, r->long_factor};
    for (size_t k = 0; k < sizeof f / sizeof *f; k++) add_int(s, f[k]);
    for (size_t k = 0; k < sizeof g / sizeof *g; k++) add_float(s, g[k]);
    for (int k = 0; k < 2; k++) {
        add_int(s, factors[k] != NULL);
        for (int i = 0; factors[k] && i < r->dims / 2; i++) add_float(s, factors[k][i]);
    }
}

static void add_state(sha256 *s, const state *t)
{
    int64_t f[] = {t->kind, t->axis, t->layer, t->slot_floats, t->heads, t->k_dim, t->v_dim, t->window, t->scratch};
    for (size_t k = 0; k < sizeof f / sizeof *f; k++) add_int(s, f[k]);
}

void program_identity(const program *p, span spec, uint8_t out[SHA256_BYTES])
{
    sha256 s;
    int64_t counts[] = {p->n_op, p->n_tensor, p->n_weight, p->n_rope, p->n_state,
                        p->dim,  p->vocab,    p->n_layer,  p->n_enc,  p->n_used};
    sha256_init(&s);
    add_span(&s, spec);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) add_int(&s, counts[k]);
    for (int i = 0; i < ENTRY_COUNT; i++) {
        add_int(&s, p->entries[i].op0), add_int(&s, p->entries[i].op1);
        add_int(&s, p->entries[i].in), add_int(&s, p->entries[i].out);
    }
    for (uint32_t i = 0; i < p->n_op; i++) add_op(&s, &p->ops[i]);
    for (uint32_t i = 1; i < p->n_tensor; i++) add_tensor(&s, &p->tensors[i]);
    for (uint32_t i = 0; i < p->n_weight; i++) add_weight(&s, &p->weights[i]);
    for (uint32_t i = 0; i < p->n_rope; i++) add_rope(&s, &p->ropes[i].params);
    for (uint32_t i = 0; i < p->n_state; i++) add_state(&s, &p->states[i]);
    sha256_end(&s, out);
}

void program_identify(program *p, span spec) { program_identity(p, spec, p->hash); }

uint64_t program_op_hash(const program *p, uint32_t i)
{
    sha256 s;
    uint8_t digest[SHA256_BYTES];
    uint64_t first;
    sha256_init(&s);
    add_op(&s, &p->ops[i]);
    sha256_end(&s, digest);
    memcpy(&first, digest, sizeof first);
    return first;
}
