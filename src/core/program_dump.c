/* program_dump.c - a program as text: one op per line, with everything that its result depends on. */
#include "core/program.h"

#include <inttypes.h>

static const char *const rows_name[AXIS_COUNT] = {"", "tok, ", "out, ", "enc, ", "exp, ", "seq, "};

static void dump_shape(const tensor *t, buf *out)
{
    buf_printf(out, "[%s", rows_name[t->axis]);
    for (int i = 0; i < t->rank; i++) buf_printf(out, "%s%" PRId64, i ? ", " : "", t->dim[i]);
    buf_str(out, "]");
}

static void dump_bytes(uint64_t n, buf *out)
{
    if (n < 10240) buf_printf(out, "%" PRIu64 " B", n);
    else if (n < (uint64_t)10 << 20) buf_printf(out, "%.1f KiB", (double)n / 1024);
    else buf_printf(out, "%.1f MiB", (double)n / (1 << 20));
}

/* "dec.0.attn.q.w f16 [64, 64] 8.0 KiB": an operand with what it costs to read. */
static void dump_operand(const program *p, ref r, buf *out)
{
    const tensor *t = &p->tensors[r];
    buf_printf(out, " %s", t->name);
    if (t->kind == TENSOR_CONST) {
        buf_str(out, " const ");
        dump_shape(t, out);
    } else if (t->kind == TENSOR_WEIGHT) {
        const weight *w = &p->weights[t->weight];
        bool kept = w->want == DTYPE_NONE || w->want == w->pieces[0].type;
        buf_printf(out, " %s%s%s ", dtype_info[w->pieces[0].type].name, kept ? "" : "->",
                   kept ? "" : dtype_info[w->want].name);
        dump_shape(t, out);
        buf_str(out, " ");
        dump_bytes(weight_file_bytes(w), out);
        if (w->packed) buf_str(out, " packed");
        if (w->n_piece > 1) buf_printf(out, " in %u pieces", w->n_piece);
        if (w->parts) buf_printf(out, " of %d parts", w->parts);
    }
}

static void dump_param(const op_param *row, const op *o, buf *out)
{
    double v = op_param_value(row, o);
    if ((row->optional && v == (double)row->otherwise) || (row->shown && !row->shown(o))) return;
    buf_str(out, row->label);
    if (row->type == OPP_WORD) buf_str(out, v >= 0 && v < row->n_word ? row->words[(int)v] : "?");
    else if (row->type == OPP_FLOAT) buf_printf(out, "%g", v);
    else if (row->type == OPP_EXACT) buf_printf(out, "%.9g", v);
    else if (v == INT32_MAX) buf_str(out, "all");
    else buf_printf(out, "%d", (int)v);
}

static void dump_params(const program *p, const op *o, buf *out)
{
    if (p->tensors[o->out].block) buf_printf(out, " blocks of %d", p->tensors[o->out].block);
    for (const op_param *row = op_params; row->label; row++)
        if (row->kind == o->kind) dump_param(row, o, out);
    if (o->state >= 0) {
        const state *s = &p->states[o->state];
        if (s->kind == STATE_SLOT) buf_printf(out, " state=%d (slot of %" PRId64 " floats)", o->state, s->slot_floats);
        else
            buf_printf(out, " state=%d (%s%d x %d+%d, group %d)", o->state, rows_name[s->axis], s->heads, s->k_dim,
                       s->v_dim, s->group);
    }
}

bool program_dump_head(const program *p, buf *out)
{
    uint64_t bytes = 0;
    char hash[17];
    for (uint32_t i = 0; i < p->n_weight; i++) bytes += weight_file_bytes(&p->weights[i]);
    sha256_hex(p->hash, 8, hash);
    buf_printf(out, "program %s: %u ops, %d layers, dim %" PRId64 ", vocab %" PRId64 ", %u weights of ", hash, p->n_op,
               p->n_layer, p->dim, p->vocab, p->n_weight);
    dump_bytes(bytes, out);
    return buf_printf(out, ", %u states in %u page groups, %u cut points\n", p->n_state, p->n_group, p->n_cut);
}

bool program_dump_op(const program *p, uint32_t i, buf *out)
{
    static const char *const entry_name[ENTRY_COUNT] = {"encoder", "decoder", "head", "pool", "scores"};
    const op *o = &p->ops[i];
    bool cut = false;
    for (uint32_t k = 0; k < p->n_cut; k++) cut = cut || p->cuts[k] == i;
    buf_printf(out, "%5u %c %-8s", i, cut ? '|' : ' ', op_info[o->kind].name);
    if (o->out) {
        buf_printf(out, " %s ", p->tensors[o->out].name);
        dump_shape(&p->tensors[o->out], out);
        buf_str(out, " =");
    }
    for (int k = 0; k < 4; k++)
        if (o->in[k]) dump_operand(p, o->in[k], out);
    dump_params(p, o, out);
    for (int k = 0; k < ENTRY_COUNT; k++)
        if (p->entries[k].op0 == i && p->entries[k].op1 > i) buf_printf(out, "   (%s begins)", entry_name[k]);
    return buf_byte(out, '\n');
}
