/* cuda_launches.c - see cuda_launches.h. */
#include "cuda/cuda_launches.h"
#include "cuda/cuda_codes.h"
#include "cuda/cuda_heads.h"
#include "cuda/cuda_route.h"
#include "cuda/cuda_runs.h"

#include "base/mem.h"

bool cuda_read_elsewhere(const segment *s, ref t, uint32_t first, uint32_t n)
{
    const program *p = s->p;
    for (uint32_t i = 0; i < s->n_out; i++)
        if (s->out[i] == t) return true;
    for (uint32_t i = 0; i < p->n_op; i++)
        for (int k = 0; k < 4 && (i < first || i >= first + n); k++)
            if (p->ops[i].in[k] == t) return true;
    return false;
}

/* How many matrices from op i on multiply one input, and of experts by one table. */
static uint8_t count_products(const program *p, uint32_t i)
{
    const op *o = &p->ops[i];
    uint8_t n = 1;
    while (op_is(o, OPF_MATRIX) && n < CUDA_SIBLINGS && i + n < p->n_op && p->ops[i + n].kind == o->kind &&
           p->ops[i + n].in[0] == o->in[0] && p->ops[i + n].in[3] == o->in[3])
        n++;
    return n;
}

/* The launch that begins with op i. */
static cuda_ops find_launch(const segment *s, uint32_t i)
{
    const uint32_t heads = cuda_heads_length(s, i), rows = heads ? 0 : cuda_run_length(s, i);
    const uint32_t route = cuda_route_length(s, i), codes = cuda_codes_length(s, i);
    if (route) return (cuda_ops){.first = i, .n = (uint8_t)route, .way = CUDA_ROUTE};
    if (heads) return (cuda_ops){.first = i, .n = (uint8_t)heads, .way = CUDA_HEADS};
    if (rows) return (cuda_ops){.first = i, .n = (uint8_t)rows, .way = CUDA_ROWS};
    if (codes) return (cuda_ops){.first = i, .n = (uint8_t)codes, .way = CUDA_CODES};
    return (cuda_ops){.first = i, .n = count_products(s->p, i), .way = CUDA_OP};
}

cuda_ops cuda_launch_alone(const segment *s, uint32_t i)
{
    const uint8_t kind = s->p->ops[i].kind;
    if (kind == OP_ROPE || kind == OP_KV_PUT) return (cuda_ops){.first = i, .n = 1, .way = CUDA_HEADS};
    if (kind == OP_ROUTE || kind == OP_DISPATCH) return (cuda_ops){.first = i, .n = 1, .way = CUDA_ROUTE};
    return (cuda_ops){.first = i, .n = 1, .way = cuda_run_length(s, i) ? CUDA_ROWS : CUDA_OP};
}

static uint32_t find_length(const segment *s, uint32_t i) { return find_launch(s, i).n; }

const fuse_table cuda_fuse = {.together = find_length};

int cuda_launches_make(cuda_segment *c, const segment *s, err *e)
{
    const program *p = s->p;
    c->launches = mem_zero(p->n_op + 1, sizeof *c->launches);
    c->kept = mem_zero(p->n_op + 1, sizeof *c->kept);
    if (!c->launches || !c->kept) return err_memory(e, "a segment");
    for (uint32_t i = 0; i < p->n_op;) {
        cuda_ops *to = &c->launches[c->n_launch++];
        *to = find_launch(s, i);
        to->kept = c->kept;
        for (; i < to->first + to->n; i++) c->kept[i] = cuda_read_elsewhere(s, p->ops[i].out, to->first, to->n);
    }
    return OK;
}

void cuda_launches_free(cuda_segment *c)
{
    mem_free(c->launches);
    mem_free(c->kept);
}

const char *cuda_fused(const segment *s, uint32_t i, uint32_t *n)
{
    static const char *const names[] = {"products", "rows", "heads", "route", "codes"};
    const cuda_ops of = find_launch(s, i);
    *n = of.n;
    return of.n > 1 ? names[of.way] : NULL;
}
