/* kv_rows.h - the body of KV_PUT: which tokens and heads a worker takes. The caller passes in how the keys or
 * values of one head and token are stored: the definition, or the same on vectors. */
#pragma once
#include "core/kv_codes.h"
#include "ops/run.h"

/* Stores `dim` elements of a token in a tile of type t; f: of a quantized cache. */
typedef void kv_put(dtype t, const kv_codes *f, bool values, uint8_t *tile, const float *x, int dim, int token);

/* Units are (head, row), rows fastest: neighbouring tokens share cache lines of the key tile. */
__attribute__((always_inline)) static inline void kv_put_rows(const run *r, const op *o, int worker, int workers,
                                                              kv_put *put)
{
    const step *st = r->st;
    const step_rows *of = step_rows_of(st, arg_info(r, o->in[0])->axis);
    const kv_store *s = &r->kv[o->state];
    const kv_codes kf = kv_codes_of(s->k_type, s->k_dim, false), vf = kv_codes_of(s->v_type, s->v_dim, true);
    int group = r->p->states[o->state].group;
    const float *k = arg_at(r, o->in[0]), *v = arg_at(r, o->in[1]);
    int64_t rows = arg_rows(r, o->in[0]), from, to;
    run_share(rows * s->heads, 1, worker, workers, &from, &to);
    for (int64_t u = from; u < to; u++) {
        int64_t row = u % rows, head = u / rows, at = row * s->heads + head;
        int32_t page = step_page(st, group, of->seq[row], of->pos[row] / PAGE_TOKENS);
        int token = of->pos[row] % PAGE_TOKENS;
        if (page < 0) continue;
        put(s->k_type, &kf, false, kv_tile(s, false, page, head), k + at * s->k_dim, s->k_dim, token);
        put(s->v_type, &vf, true, kv_tile(s, true, page, head), v + at * s->v_dim, s->v_dim, token);
    }
}
