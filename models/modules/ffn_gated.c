/* ffn_gated.c - gated feed-forward, down(act(gate x) * up x): SwiGLU, GEGLU and relatives (arXiv 2002.05202). Fused
 * gate_up tensors are two slots with `rows` recipes on one name. */
#include "models/compile/builder.h"

typedef struct options {
    int64_t ffn_dim;
    const char *act, *bias;
    double above, gate_factor;
} options;
enum { ALL = -1000000000 };

static const param rows[] = {
    ROW(ffn_dim, PARAM_INT, .min = 1, .max = 1 << 24, .doc = "inner width"),
    ROW(act, PARAM_WORD, .otherwise = "silu", .words = ACT_WORDS, .doc = "activation of the gate"),
    ROW(above, PARAM_FLOAT, .otherwise = "-1e9", .min = ALL, .max = 1e9,
        .doc = "of the gate only what is more than so many standard deviations above its mean, less that bound; "
               "-1e9 = all as it is (Gemma 3n)"),
    ROW(gate_factor, PARAM_FLOAT, .otherwise = "1", .min = -1e6, .max = 1e6, .doc = "factor of the gate"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "biases of all three"),
};
static const module_weight weights[] = {
    {"gate", "[ffn_dim, dim]", "what the activation is applied to"},
    {"up", "[ffn_dim, dim]", "what the gate multiplies"},
    {"down", "[dim, ffn_dim]", "back to the hidden state"},
};

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    linear_opt in = {.bias = o->bias}, out = {.bias = o->bias};
    ref gate = builder_linear(b, c, "gate", c->in[0], o->ffn_dim, in);
    if (gate) gate = builder_scale(b, c->path, "gate_scaled", gate, o->gate_factor);
    if (gate && o->above > ALL) {
        gate = builder_row(b, c->path, "above", gate, NORM_ABOVE, o->above);
        if (gate) gate = builder_act_fn(b, c->path, "kept", gate, ACT_RELU);
    }
    ref up = gate ? builder_linear(b, c, "up", c->in[0], o->ffn_dim, in) : 0;
    ref act = up ? builder_act_fn(b, c->path, "act", gate, builder_act_kind(o->act)) : 0;
    ref both = act ? builder_mul(b, c->path, "mul", act, up) : 0;
    return both ? builder_linear(b, c, "down", both, builder_width(b, c->in[0]), out) : 0;
}

MODULE(ffn, gated, 1, "gated feed-forward: down(act(gate x) * up x) (arXiv 2002.05202)");
