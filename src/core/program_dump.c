/* program_dump.c - a program as text: one op per line, in the order of execution, with everything that its result depends on. */
#include "core/program.h"

#include <inttypes.h>

static const char *const rows_name[AXIS_COUNT] = {"", "tok, ", "out, ", "enc, ", "exp, ", "seq, "};
static const char *const by_name[] = {"token", "position", "type"};
static const char *const norm_name[] = {"rms", "layer", "l2"};
static const char *const pool_name[] = {"first", "mean", "last"};
static const char *const bias_name[] = {"", " alibi", " alibi.bf16", " buckets"};

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

static void dump_params(const program *p, const op *o, buf *out)
{
    switch ((op_kind)o->kind) {
    case OP_EMBED:
        buf_printf(out, " by=%s", by_name[o->u.embed.by]);
        if (o->u.embed.offset) buf_printf(out, " offset=%d", o->u.embed.offset);
        break;
    case OP_NORM:
        buf_printf(out, " %s eps=%g width=%d", norm_name[o->u.norm.kind], (double)o->u.norm.eps, o->u.norm.width);
        break;
    case OP_ROPE:
        buf_printf(out, " %s dims=%d of %d table=%d", o->u.rope.style == ROPE_HALVES ? "halves" : "neighbours",
                   o->u.rope.dims, o->u.rope.width, o->u.rope.table);
        break;
    case OP_ATTN:
        buf_printf(out, " heads=%d scale=%.9g%s", o->u.attn.heads, (double)o->u.attn.scale, bias_name[o->u.attn.bias]);
        if (o->u.attn.softcap != 0) buf_printf(out, " softcap=%g", (double)o->u.attn.softcap);
        if (o->u.attn.window) buf_printf(out, " window=%d", o->u.attn.window);
        if (o->u.attn.ahead == AHEAD_ALL) buf_str(out, " ahead=all");
        else if (o->u.attn.ahead) buf_printf(out, " ahead=%d", o->u.attn.ahead);
        if (o->u.attn.chunk) buf_printf(out, " chunk=%d", o->u.attn.chunk);
        break;
    case OP_ACT: buf_printf(out, " %s", act_name[o->u.act.fn]); break;
    case OP_SCALE: buf_printf(out, " factor=%.9g", (double)o->u.scale.factor); break;
    case OP_SOFTCAP: buf_printf(out, " cap=%g", (double)o->u.softcap.cap); break;
    case OP_CLAMP: buf_printf(out, " limit=%g%s", (double)o->u.clamp.limit, o->u.clamp.above ? " above" : ""); break;
    case OP_POOL: buf_printf(out, " %s", pool_name[o->u.pool.how]); break;
    case OP_ROUTE:
        buf_printf(out, " %s used=%d", score_name[o->u.route.score], o->u.route.used);
        if (o->u.route.groups)
            buf_printf(out, " groups=%d of %d by %d", o->u.route.groups_used, o->u.route.groups, o->u.route.group_best);
        if (o->u.route.renorm) buf_str(out, " renorm");
        if (o->u.route.factor != 1) buf_printf(out, " factor=%.9g", (double)o->u.route.factor);
        if (o->u.route.score == SCORE_MIXER) buf_printf(out, " near=%g", (double)o->u.route.near);
        break;
    case OP_JOIN: buf_printf(out, " heads=%d", o->u.join.heads); break;
    case OP_DISPATCH: buf_printf(out, " experts=%d used=%d", o->u.dispatch.experts, o->u.dispatch.used); break;
    case OP_QUANT:
        buf_printf(out, " blocks of %d%s", p->tensors[o->out].block, o->u.quant.residual ? ", what they leave" : "");
        break;
    case OP_MATMUL:
    case OP_GATHER:
    case OP_MATMUL_EXP:
    case OP_SCATTER:
    case OP_MATMUL_HEADS:
    case OP_KV_PUT:
    case OP_MUL:
    case OP_ADD:
    case OP_TAKE_OUT:
    case OP_COUNT: break;
    }
    if (o->state >= 0) {
        const state *s = &p->states[o->state];
        buf_printf(out, " state=%d (%s%d x %d+%d, group %d)", o->state, rows_name[s->axis], s->heads, s->k_dim,
                   s->v_dim, s->group);
    }
}

bool program_dump_head(const program *p, buf *out)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n_weight; i++) bytes += weight_file_bytes(&p->weights[i]);
    buf_printf(out, "program %016" PRIx64 ": %u ops, %d layers, dim %" PRId64 ", vocab %" PRId64 ", %u weights of ",
               p->hash, p->n_op, p->n_layer, p->dim, p->vocab, p->n_weight);
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

bool program_dump(const program *p, buf *out)
{
    program_dump_head(p, out);
    for (uint32_t i = 0; i < p->n_op; i++) program_dump_op(p, i, out);
    return !out->bad;
}
