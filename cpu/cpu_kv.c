/* cpu_kv.c - reference of KV_PUT, and the layout of keys and values inside a page (see kv_store in cpu.h). */
#include "cpu/cpu.h"

#include "base/half.h"
#include "tensor/dtype.h"

void kv_layout(kv_store *s, const state *of, dtype k_type, dtype v_type)
{
    *s = (kv_store){.k_type = k_type, .v_type = v_type, .heads = of->heads, .k_dim = of->k_dim, .v_dim = of->v_dim};
    s->k_page = (uint64_t)of->heads * (uint64_t)of->k_dim * PAGE_TOKENS * dtype_info[k_type].bytes;
    s->v_page = (uint64_t)of->heads * (uint64_t)of->v_dim * PAGE_TOKENS * dtype_info[v_type].bytes;
}

static void put(uint8_t *to, dtype type, int64_t at, float value)
{
    if (type == DTYPE_F16) ((uint16_t *)to)[at] = f32_to_f16(value);
    else ((float *)to)[at] = value;
}

/* Units are (head, row), rows fastest: neighbouring tokens share cache lines of the key tile. */
void cpu_kv_put(const run *r, const op *o, int worker, int workers)
{
    const step *st = r->st;
    const step_rows *of = step_rows_of(st, arg_info(r, o->in[0])->rows);
    const kv_store *s = &r->seg->on->kv[o->state];
    int group = r->seg->p->states[o->state].group;
    const float *k = arg_at(r, o->in[0]), *v = arg_at(r, o->in[1]);
    int64_t rows = arg_rows(r, o->in[0]), from, to;
    cpu_share(rows * s->heads, 1, worker, workers, &from, &to);
    for (int64_t u = from; u < to; u++) {
        int64_t row = u % rows, head = u / rows;
        int32_t page = step_page(st, group, of->seq[row], of->pos[row] / PAGE_TOKENS), at = of->pos[row] % PAGE_TOKENS;
        if (page < 0) continue;
        uint8_t *keys = s->k + (uint64_t)page * s->k_page, *values = s->v + (uint64_t)page * s->v_page;
        for (int d = 0; d < s->k_dim; d++)
            put(keys, s->k_type, (head * s->k_dim + d) * PAGE_TOKENS + at, k[(row * s->heads + head) * s->k_dim + d]);
        for (int d = 0; d < s->v_dim; d++)
            put(values, s->v_type, (head * PAGE_TOKENS + at) * s->v_dim + d, v[(row * s->heads + head) * s->v_dim + d]);
    }
}
