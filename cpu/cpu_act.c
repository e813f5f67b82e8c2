/* cpu_act.c - reference of ACT: the scalar definition of every activation function. GELU: Hendrycks & Gimpel 2016,
 * arXiv 1606.08415; SiLU: Elfwing et al. 2017, arXiv 1702.03118; squared ReLU: So et al. 2021, arXiv 2109.08668;
 * exp.rest is the part of xIELU below zero without its linear term: Huang et al. 2024, arXiv 2411.13010. */
#include "cpu/cpu.h"

#include "base/fmath.h"

static float act_value(int fn, float x)
{
    switch ((act_kind)fn) {
    case ACT_SILU: return x / (1.0f + fm_exp(-x));
    case ACT_GELU: return 0.5f * x * (1.0f + fm_erf(x * 0x1.6a09e6p-1f));
    case ACT_GELU_TANH: {
        float t = fmaf(x * x * x, 0.044715f, x) * 0x1.988454p-1f; /* sqrt(2 / pi) */
        return 0.5f * x * (1.0f + fm_tanh(t));
    }
    case ACT_GELU_QUICK: return x / (1.0f + fm_exp(-1.702f * x));
    case ACT_RELU: return fm_max(x, 0);
    case ACT_RELU2: {
        float m = fm_max(x, 0);
        return m * m;
    }
    case ACT_EXP_REST: {
        float m = fm_min(x, 0), t = fm_tanh(0.5f * m); /* exp(m) - 1 = 2 t / (1 - t), exact where m is small */
        return 2.0f * t / (1.0f - t) - m;
    }
    case ACT_SIGMOID: return fm_sigmoid(x);
    case ACT_TANH: return fm_tanh(x);
    case ACT_NONE:
    case ACT_COUNT: break;
    }
    return x;
}

void cpu_act(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]);
    float *y = arg_at(r, o->out);
    int64_t from, to;
    cpu_share(arg_rows(r, o->out) * arg_dim(r, o->out), LANES, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) y[i] = act_value(o->u.act.fn, x[i]);
}
