/* v_elementwise.h - ACT, MUL, ADD, SCALE, SOFTCAP, CLAMP on sixteen lanes; definitions: def_act.c, def_elementwise.c.
 * Bound by the cache for the simple ones, by about 20 instructions per 16 elements for an exponential. */
#pragma once
#include "cpu/cpu.h"
#include "cpu/simd/v16.h"
#include "cpu/simd/vmath.h"

INLINE v16 v16_act(act_kind fn, v16 x)
{
    switch (fn) {
    case ACT_SILU: return v16_div(x, v16_add(v16_all(1), v16_exp(v16_neg(x))));
    case ACT_GELU: {
        v16 e = v16_erf(v16_mul(x, v16_all(0x1.6a09e6p-1f)));
        return v16_mul(v16_mul(v16_all(0.5f), x), v16_add(v16_all(1), e));
    }
    case ACT_GELU_TANH: {
        v16 t = v16_mul(v16_fma(v16_mul(v16_mul(x, x), x), v16_all(0.044715f), x), v16_all(0x1.988454p-1f));
        return v16_mul(v16_mul(v16_all(0.5f), x), v16_add(v16_all(1), v16_tanh(t)));
    }
    case ACT_GELU_QUICK: return v16_div(x, v16_add(v16_all(1), v16_exp(v16_mul(v16_all(-1.702f), x))));
    case ACT_RELU: return v16_max(x, v16_zero());
    case ACT_RELU2: {
        v16 m = v16_max(x, v16_zero());
        return v16_mul(m, m);
    }
    case ACT_EXP_REST: {
        v16 m = v16_min(x, v16_zero()), t = v16_tanh(v16_mul(v16_all(0.5f), m));
        return v16_sub(v16_div(v16_mul(v16_all(2), t), v16_sub(v16_all(1), t)), m);
    }
    case ACT_SIGMOID: return v16_div(v16_all(1), v16_add(v16_all(1), v16_exp(v16_neg(x))));
    case ACT_TANH: return v16_tanh(x);
    case ACT_SOFTPLUS: return v16_softplus(x);
    case ACT_NONE:
    case ACT_COUNT: break;
    }
    return x;
}

/* One loop over this worker's share per function of x: the loop stays small, the choice is made once. */
#define EACH(value)                                                                                                    \
    for (int64_t i = from; i < to; i += LANES) {                                                                       \
        int n = to - i < LANES ? (int)(to - i) : LANES;                                                                \
        v16 v = v16_load_part(x + i, n);                                                                               \
        v16_store_part(y + i, value, n);                                                                               \
    }
#define UNARY                                                                                                          \
    const float *x = arg_at(r, o->in[0]);                                                                              \
    float *y = arg_at(r, o->out);                                                                                      \
    int64_t from, to;                                                                                                  \
    run_share(arg_rows(r, o->out) * arg_dim(r, o->out), LANES, worker, workers, &from, &to)

static void v_act(const run *r, const op *o, int worker, int workers)
{
    UNARY;
    switch (o->u.act.fn) {
#define X(id, name, doc)                                                                                               \
    case ACT_##id: EACH(v16_act(ACT_##id, v)) break;
        ACT_LIST(X)
#undef X
    }
}

static void v_scale(const run *r, const op *o, int worker, int workers)
{
    UNARY;
    v16 factor = v16_all(o->u.scale.factor);
    EACH(v16_mul(v, factor))
}

static void v_softcap(const run *r, const op *o, int worker, int workers)
{
    UNARY;
    v16 cap = v16_all(o->u.softcap.cap);
    EACH(v16_mul(cap, v16_tanh(v16_div(v, cap))))
}

static void v_clamp(const run *r, const op *o, int worker, int workers)
{
    UNARY;
    v16 max = v16_all(o->u.clamp.limit), min = o->u.clamp.above ? v16_all(-INFINITY) : v16_neg(max);
    EACH(v16_max(min, v16_min(max, v)))
}

INLINE void v_pair(const run *r, const op *o, int worker, int workers, bool add)
{
    const float *x = arg_at(r, o->in[0]), *b = arg_at(r, o->in[1]);
    float *y = arg_at(r, o->out);
    int64_t dim = arg_dim(r, o->out), from, to;
    bool vector = arg_info(r, o->in[1])->kind != TENSOR_ACT, row = !vector && arg_dim(r, o->in[1]) < dim;
    run_share(arg_rows(r, o->out) * dim, LANES, worker, workers, &from, &to);
    for (int64_t i = from, n; i < to; i += n) {
        int64_t at = vector || row ? i % dim : i;
        n = to - i < LANES ? to - i : LANES;
        if ((vector || row) && dim - at < n) n = dim - at; /* a vector ends with its row */
        v16 v = v16_load_part(x + i, (int)n), w = row ? v16_all(b[i / dim]) : v16_load_part(b + at, (int)n);
        v16_store_part(y + i, add ? v16_add(v, w) : v16_mul(v, w), (int)n);
    }
}

static void v_mul(const run *r, const op *o, int worker, int workers) { v_pair(r, o, worker, workers, false); }
static void v_add(const run *r, const op *o, int worker, int workers) { v_pair(r, o, worker, workers, true); }
