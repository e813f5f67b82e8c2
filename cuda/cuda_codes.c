/* cuda_codes.c - see cuda_codes.h (kernels: attn.cuh, gated.cuh). */
#include "cuda/cuda_codes.h"
#include "cuda/cuda_args.h"
#include "cuda/cuda_launches.h"
#include "tensor/act_q8.h"

enum { GATED_OPS = 4 }; /* before the QUANTs: two matrices, ACT, MUL */

/* QUANTs from op i on of all of t, in order of its rows. */
static uint32_t count_quants(const program *p, uint32_t i, ref t)
{
    uint32_t n = 0;
    while (n < CODES_MOST && i + n < p->n_op && p->ops[i + n].kind == OP_QUANT && p->ops[i + n].in[0] == t &&
           !p->ops[i + n].in[1])
        n++;
    return n;
}

/* Heads of whole blocks of codes, and no zeros behind the last one. */
static uint32_t find_attention(const segment *s, uint32_t first)
{
    const program *p = s->p;
    const op *o = &p->ops[first];
    const uint32_t n = count_quants(p, first + 1, o->out);
    const int64_t dim = tensor_count(&p->tensors[o->out]), width = dim / o->u.attn.heads;
    for (uint32_t i = first + 1; i <= first + n; i++)
        if (width % p->tensors[p->ops[i].out].block || dim != act_padded(dim)) return 0;
    return n && !cuda_read_elsewhere(s, o->out, first, n + 1) ? n + 1 : 0;
}

/* Two matrices, ACT and MUL from `o` on: the number, 0 or 1, of the matrix whose result is the input of ACT, where MUL
 * multiplies the output of ACT by the result of the other matrix. -1: the ops are joined in another way. */
static int gate_of(const op *o)
{
    const op *act = o + 2, *mul = o + 3;
    const int gate = act->in[0] == o[1].out;
    const ref other = o[1 - gate].out;
    if (act->kind != OP_ACT || mul->kind != OP_MUL || act->in[0] != o[gate].out) return -1;
    const bool multiplies = (mul->in[0] == act->out && mul->in[1] == other) ||
                            (mul->in[1] == act->out && mul->in[0] == other);
    return multiplies ? gate : -1;
}

static uint32_t find_gated(const segment *s, uint32_t first)
{
    const program *p = s->p;
    const op *o = &p->ops[first];
    if (first + GATED_OPS >= p->n_op || !op_is(o, OPF_MATRIX) || o->kind == OP_MATMUL_HEADS) return 0;
    if (o[1].kind != o->kind || o[1].in[0] != o->in[0] || o[1].in[3] != o->in[3] || gate_of(o) < 0) return 0;
    const uint32_t n = count_quants(p, first + GATED_OPS, o[3].out);
    const int64_t dim = tensor_count(&p->tensors[o->out]);
    if (!n || !p->tensors[o->in[0]].block || dim % GATED_COLUMNS || tensor_count(&p->tensors[o[1].out]) != dim)
        return 0;
    for (int i = 0; i < GATED_OPS; i++)
        if (cuda_read_elsewhere(s, o[i].out, first, GATED_OPS + n)) return 0;
    return GATED_OPS + n;
}

uint32_t cuda_codes_length(const segment *s, uint32_t first)
{
    return s->p->ops[first].kind == OP_ATTN ? find_attention(s, first) : find_gated(s, first);
}

void cuda_codes_take(const cuda_device *d, const cuda_segment *s, uint32_t first, int n, codes_to *to)
{
    for (int i = 0; i < n; i++) {
        const op *o = &d->p->ops[first + (uint32_t)i];
        to[i] = (codes_to){
            .y = cuda_at(d, s, o->out), .block = d->p->tensors[o->out].block, .residual = o->u.quant.residual};
    }
}

bool cuda_codes_end(const cuda_device *d, const cuda_segment *s, const cuda_ops *of, int64_t rows, gated_end *to,
                    float *y[2])
{
    const op *o = &d->p->ops[of->first];
    const int64_t floats = rows * tensor_count(&d->p->tensors[o->out]);
    const uint64_t there = d->scratch_floats * (uint64_t)d->scratch_workers;
    if (2 * (uint64_t)floats > there || floats / GATED_COLUMNS > CUDA_TURNS) return false;
    y[0] = (float *)(uintptr_t)d->scratch;
    y[1] = y[0] + floats;
    *to = (gated_end){
        .turns = (uint32_t *)(uintptr_t)d->turns, .n = of->n - GATED_OPS, .act = o[2].u.act.fn, .gate = gate_of(o)};
    cuda_codes_take(d, s, of->first + GATED_OPS, to->n, to->codes);
    return true;
}
