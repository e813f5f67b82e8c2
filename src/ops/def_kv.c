/* def_kv.c - reference of KV_PUT. */
#include "ops/kv_rows.h"

GPU_CODE static void put(uint8_t *to, dtype type, int64_t at, float value)
{
    if (type == DTYPE_F16) ((uint16_t *)(void *)to)[at] = f32_to_f16(value);
    else ((float *)(void *)to)[at] = value;
}

GPU_CODE static void put_plain(dtype t, const kv_codes *f, bool values, uint8_t *tile, const float *x, int dim,
                               int token)
{
    if (kv_is_codes(t)) kv_token_put(f, tile, values, x, dim, token);
    else
        for (int d = 0; d < dim; d++)
            put(tile, t, values ? (int64_t)token * dim + d : (int64_t)d * PAGE_TOKENS + token, x[d]);
}

GPU_CODE void def_kv_put(const run *r, const op *o, int worker, int workers)
{
    kv_put_rows(r, o, worker, workers, put_plain);
}
