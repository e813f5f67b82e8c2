/* cpu_kv.c - reference of KV_PUT, and the layout of keys and values inside a page (see kv_store in cpu.h). */
#include "cpu/cpu_kv_body.h"

void kv_layout(kv_store *s, const state *of, dtype k_type, dtype v_type)
{
    *s = (kv_store){.k_type = k_type, .v_type = v_type, .heads = of->heads, .k_dim = of->k_dim, .v_dim = of->v_dim};
    s->k_page = (uint64_t)of->heads * kv_tile_bytes(k_type, of->k_dim, false);
    s->v_page = (uint64_t)of->heads * kv_tile_bytes(v_type, of->v_dim, true);
}

static void put(uint8_t *to, dtype type, int64_t at, float value)
{
    if (type == DTYPE_F16) ((uint16_t *)(void *)to)[at] = f32_to_f16(value);
    else ((float *)(void *)to)[at] = value;
}

static void put_plain(dtype t, const kv_codes *f, bool values, uint8_t *tile, const float *x, int dim, int token)
{
    if (kv_is_codes(t)) kv_token_put(f, tile, values, x, dim, token);
    else
        for (int d = 0; d < dim; d++)
            put(tile, t, values ? (int64_t)token * dim + d : (int64_t)d * PAGE_TOKENS + token, x[d]);
}

void cpu_kv_put(const run *r, const op *o, int worker, int workers) { kv_put_rows(r, o, worker, workers, put_plain); }
