/* lower_int8.c - see lower_int8.h. The definition of the codes is tensor/act_q8.h, that of the packed layout and of the
 * block of codes which a format takes tensor/panel.h. */
#include "core/lower_int8.h"

#include "base/mem.h"
#include "tensor/act_q8.h"
#include "tensor/panel.h"

#include <stdio.h>
#include <string.h>

/* The int8 forms of a tensor; 0: not made yet. */
typedef struct coded {
    ref form[2][2]; /* [blocks of 64][residual] */
} coded;

typedef struct lowering {
    program *to;
    coded *made; /* [n_tensor of the whole program] */
    err *e;
} lowering;

static ref named_like(lowering *l, ref like, const char *more, uint8_t block, int16_t layer)
{
    char name[256];
    tensor t = l->to->tensors[like];
    snprintf(name, sizeof name, "%s.%s", t.name, more);
    t.name = name;
    t.block = block;
    t.layer = layer;
    return program_tensor(l->to, &t, l->e);
}

/* x of `for_op` as codes, or the residual of these. Rows of experts are coded in the order of their dispatch. */
static ref quantized(lowering *l, const op *for_op, int block, bool residual)
{
    static const char *const more[2][2] = {{"q32", "q32.rest"}, {"q64", "q64.rest"}};
    const ref x = for_op->in[0], table = for_op->kind == OP_MATMUL_EXP ? for_op->in[3]
                                         : for_op->kind == OP_COLL     ? for_op->in[1]
                                                                       : 0;
    ref *known = &l->made[x].form[block == 64][residual];
    if (*known) return *known;
    ref out = named_like(l, x, more[block == 64][residual], (uint8_t)block, for_op->layer);
    op o = {.kind = OP_QUANT, .layer = for_op->layer, .state = -1, .in = {x, table}, .out = out, .u.quant = {residual}};
    return *known = out && program_op(l->to, &o, l->e) == OK ? out : 0;
}

/* The parts of a stack are multiplied one by one, so each must be whole panels, and its columns whole tiles. A window
 * is packed if the whole is, as its results have the same bits. */
const panel_format *lower_format(const program *p, const op *o, bool (*takes)(dtype type))
{
    if (!takes || !op_is(o, OPF_MATRIX) || p->tensors[o->in[0]].block) return NULL;
    const weight *w = weight_whole(&p->weights[p->tensors[o->in[1]].weight]);
    const dtype type = weight_held_type(w);
    const panel_format *f = takes(type) ? panel_format_of(type) : NULL;
    const bool divided = o->kind == OP_MATMUL_HEADS && w->cols % PANEL_K;
    return f && panel_holds(w->rows, w->parts) && !divided ? f : NULL;
}

/* Columns of all ranks side by side, as codes. */
static int add_gather(lowering *l, op o)
{
    const int block = o.u.coll.codes;
    ref *known = &l->made[o.out].form[block == 64][false];
    if (o.in[0] && !(o.in[0] = quantized(l, &o, block, false))) return l->e->code;
    *known = o.out = named_like(l, o.out, block == 64 ? "q64" : "q32", (uint8_t)block, o.layer);
    return o.out ? program_op(l->to, &o, l->e) : l->e->code;
}

static int add_matrix(lowering *l, op o, const panel_format *f)
{
    program *p = l->to;
    const ref x = o.in[0], y = o.out;
    const bool narrow = tensor_whole(&p->tensors[x]) <= ACT_NARROW;
    p->weights[p->tensors[o.in[1]].weight].packed = true;
    op codes = o, rest = o;
    codes.in[0] = quantized(l, &o, f->act, false);
    if (!codes.in[0]) return l->e->code;
    if (!narrow) return program_op(p, &codes, l->e);
    codes.out = named_like(l, y, "codes", 0, o.layer);
    int rc = codes.out ? program_op(p, &codes, l->e) : l->e->code;
    if (rc) return rc;
    rest.in[0] = quantized(l, &o, f->act, true);
    rest.in[2] = 0; /* the bias is in `codes` */
    rest.out = rest.in[0] ? named_like(l, y, "rest", 0, o.layer) : 0;
    rc = rest.out ? program_op(p, &rest, l->e) : l->e->code;
    op sum = {.kind = OP_ADD, .layer = o.layer, .state = -1, .in = {codes.out, rest.out}, .out = y};
    return rc ? rc : program_op(p, &sum, l->e);
}

program *lower_int8(const program *p, uint32_t op0, uint32_t op1, bool (*takes)(dtype type), err *e)
{
    err own = {0};
    lowering l = {.to = program_slice(p, &own), .e = &own};
    l.made = mem_zero(p->n_tensor, sizeof *l.made);
    int rc = l.to && !l.made ? err_memory(&own, "a segment") : own.code;
    for (uint32_t i = op0; i < op1 && !rc; i++) {
        program_slice_mark(l.to, p, i);
        const op *o = &p->ops[i];
        const panel_format *f = lower_format(l.to, o, takes);
        rc = f                                                ? add_matrix(&l, *o, f)
             : o->kind == OP_COLL && o->u.coll.codes && takes ? add_gather(&l, *o)
                                                              : program_op(l.to, o, &own);
    }
    if (!rc) program_slice_mark(l.to, p, op1);
    mem_free(l.made);
    if (!rc) return l.to;
    program_free(l.to);
    return err_set(e, rc, "%s", own.msg), NULL;
}
