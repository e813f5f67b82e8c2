/* ffn_plain.c - feed-forward without gate, down(act(up x)) (arXiv 1706.03762). */
#include "models/compile/builder.h"

typedef struct options {
    int64_t ffn_dim;
    const char *act, *bias;
} options;

static const param rows[] = {
    ROW(ffn_dim, PARAM_INT, .min = 1, .max = 1 << 24, .doc = "inner width"),
    ROW(act, PARAM_WORD, .otherwise = "gelu", .words = ACT_WORDS, .doc = "activation between the two"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "biases of both"),
};
static const module_weight weights[] = {
    {"up", "[ffn_dim, dim]", "to the inner width"},
    {"down", "[dim, ffn_dim]", "back to the hidden state"},
};

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    linear_opt in = {.bias = o->bias}, out = {.bias = o->bias};
    ref up = builder_linear(b, c, "up", c->in[0], o->ffn_dim, in);
    ref act = up ? builder_act_fn(b, c->path, "act", up, builder_act_kind(o->act)) : 0;
    return act ? builder_linear(b, c, "down", act, builder_width(b, c->in[0]), out) : 0;
}

MODULE(ffn, plain, 1, "feed-forward without gate: down(act(up x)) (arXiv 1706.03762)");
