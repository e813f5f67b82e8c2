/* cpu_fuse.c - see cpu_fuse.h. */
#include "cpu/cpu_fuse.h"

#include "tensor/panel.h"

const fuse_row fuse_rows[FUSE_COUNT] = {
#define X(id, kernel, name, n, ...) [FUSE_##id] = {name, n, {__VA_ARGS__}},
    CPU_FUSE_LIST(X)
#undef X
};

static bool takes_shape(const program *p, const op *o)
{
    const tensor *out = &p->tensors[o->out], *a = &p->tensors[o->in[0]], *b = &p->tensors[o->in[1]];
    switch (o->kind) {
    case OP_NORM: return o->u.norm.width == tensor_count(out);
    case OP_MUL: return b->kind == TENSOR_ACT && b->axis == out->axis && tensor_count(b) == tensor_count(out);
    case OP_MATMUL: return a->block && tensor_count(out) % PANEL_K == 0; /* whole blocks of the next activations */
    case OP_QUANT: return !o->u.quant.residual;
    default: return true;
    }
}

const fuse_table cpu_fuse = {.rows = fuse_rows, .n = FUSE_COUNT, .fits = takes_shape};
