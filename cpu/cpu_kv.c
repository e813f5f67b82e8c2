/* cpu_kv.c - reference of KV_PUT, and the layout of keys and values inside a page (see kv_store in cpu.h). */
#include "cpu/kv_codes.h"

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

static void put_keys(uint8_t *tile, const kv_store *s, const float *x, int at)
{
    if (kv_is_codes(s->k_type)) {
        kv_codes f = kv_codes_of(s->k_type, s->k_dim, false);
        kv_token_put(&f, tile, false, x, s->k_dim, at);
        return;
    }
    for (int d = 0; d < s->k_dim; d++) put(tile, s->k_type, (int64_t)d * PAGE_TOKENS + at, x[d]);
}

static void put_values(uint8_t *tile, const kv_store *s, const float *x, int at)
{
    if (kv_is_codes(s->v_type)) {
        kv_codes f = kv_codes_of(s->v_type, s->v_dim, true);
        kv_token_put(&f, tile, true, x, s->v_dim, at);
        return;
    }
    for (int d = 0; d < s->v_dim; d++) put(tile, s->v_type, (int64_t)at * s->v_dim + d, x[d]);
}

/* Units are (head, row), rows fastest: neighbouring tokens share cache lines of the key tile. */
void cpu_kv_put(const run *r, const op *o, int worker, int workers)
{
    const step *st = r->st;
    const step_rows *of = step_rows_of(st, arg_info(r, o->in[0])->axis);
    const kv_store *s = &r->seg->on->kv[o->state];
    int group = r->seg->p->states[o->state].group;
    const float *k = arg_at(r, o->in[0]), *v = arg_at(r, o->in[1]);
    int64_t rows = arg_rows(r, o->in[0]), from, to;
    cpu_share(rows * s->heads, 1, worker, workers, &from, &to);
    for (int64_t u = from; u < to; u++) {
        int64_t row = u % rows, head = u / rows;
        int32_t page = step_page(st, group, of->seq[row], of->pos[row] / PAGE_TOKENS), at = of->pos[row] % PAGE_TOKENS;
        if (page < 0) continue;
        put_keys(kv_tile(s, false, page, head), s, k + (row * s->heads + head) * s->k_dim, at);
        put_values(kv_tile(s, true, page, head), s, v + (row * s->heads + head) * s->v_dim, at);
    }
}
