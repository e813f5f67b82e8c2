/* act_value.h - the scalar definition of every activation function. GELU: Hendrycks & Gimpel 2016,
 * arXiv 1606.08415; SiLU: Elfwing et al. 2017, arXiv 1702.03118; squared ReLU: So et al. 2021, arXiv 2109.08668;
 * exp.rest is the part of xIELU below zero without its linear term: Huang et al. 2024, arXiv 2411.13010. */
#pragma once
#include "base/fmath.h"
#include "core/op.h"

static inline float act_value(int fn, float x)
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
    case ACT_SOFTPLUS: return fm_softplus(x);
    case ACT_NONE:
    case ACT_COUNT: break;
    }
    return x;
}
