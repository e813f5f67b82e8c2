/* v_kv.h - KV_PUT on sixteen lanes; definition: cpu_kv.c. Keys are scattered (one cache line each), values are a run. */
#ifndef CPU_V_KV_H
#define CPU_V_KV_H
#include "cpu/cpu.h"
#include "cpu/v16.h"

#include <string.h>

/* n <= 16 values at x as they are stored. */
INLINE void kv_encode(dtype t, const float *x, int n, void *to)
{
    v16 v = v16_load_part(x, n);
    if (t == DTYPE_F16) v16_store_f16(to, v);
    else v16_store(to, v);
}

INLINE void kv_put_keys(dtype t, const float *x, int dim, uint8_t *tile, int at)
{
    for (int d = 0; d < dim; d += LANES) {
        int n = dim - d < LANES ? dim - d : LANES;
        float coded[LANES];
        kv_encode(t, x + d, n, coded);
        for (int i = 0; i < n; i++) {
            int64_t to = (int64_t)(d + i) * PAGE_TOKENS + at;
            if (t == DTYPE_F16) memcpy(tile + 2 * to, (uint8_t *)coded + 2 * i, 2);
            else memcpy(tile + 4 * to, coded + i, 4);
        }
    }
}

INLINE void kv_put_values(dtype t, const float *x, int dim, uint8_t *row)
{
    for (int d = 0; d < dim; d += LANES) {
        int n = dim - d < LANES ? dim - d : LANES, bytes = t == DTYPE_F16 ? 2 : 4;
        float coded[LANES];
        kv_encode(t, x + d, n, coded);
        memcpy(row + (int64_t)d * bytes, coded, (size_t)(n * bytes));
    }
}

static void v_kv_put(const run *r, const op *o, int worker, int workers)
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
        uint8_t *keys = kv_tile(s->k, s->k_page, s->heads, page, head),
                *values = kv_tile(s->v, s->v_page, s->heads, page, head);
        const float *kx = k + (row * s->heads + head) * s->k_dim, *vx = v + (row * s->heads + head) * s->v_dim;
        if (s->k_type == DTYPE_F16) kv_put_keys(DTYPE_F16, kx, s->k_dim, keys, at);
        else kv_put_keys(DTYPE_F32, kx, s->k_dim, keys, at);
        if (s->v_type == DTYPE_F16) kv_put_values(DTYPE_F16, vx, s->v_dim, values + 2 * (int64_t)at * s->v_dim);
        else kv_put_values(DTYPE_F32, vx, s->v_dim, values + 4 * (int64_t)at * s->v_dim);
    }
}

#endif
