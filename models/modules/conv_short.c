/* conv_short.c - gated short convolution (LFM2, arXiv 2511.23404): o(c * conv(b * x)), where b, c and x are projections
 * of the row and conv is causal, with a few weights of its own for each column.
 *
 * In files the projections are one tensor: three slots with `rows` recipes on its name. Its kernel is that of a Conv1d:
 * recipe `conv1d`. What it needs of the rows before is a slot of the sequence, not pages. */
#include "models/compile/builder.h"

typedef struct options {
    int64_t taps;
    const char *bias;
} options;

static const param rows[] = {
    ROW(taps, PARAM_INT, .min = 2, .max = 1 << 10, .doc = "rows that a result is made of: its own and those before"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "biases of all"),
};
static const module_weight weights[] = {
    {"b", "[dim, dim]", "what x is multiplied with"},
    {"c", "[dim, dim]", "what the result of the convolution is multiplied with"},
    {"x", "[dim, dim]", "what the convolution is about"},
    {"kernel", "[taps, dim]", "the convolution: for each column, the oldest row's weight first"},
    {"o", "[dim, dim]", "output"},
};

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    const int64_t dim = builder_width(b, c->in[0]);
    const linear_opt with = {.bias = o->bias};
    ref before = builder_linear(b, c, "b", c->in[0], dim, with);
    ref after = before ? builder_linear(b, c, "c", c->in[0], dim, with) : 0;
    ref x = after ? builder_linear(b, c, "x", c->in[0], dim, with) : 0;
    ref in = x ? builder_mul(b, c->path, "in", before, x) : 0;
    ref mixed = in ? builder_conv(b, c, "kernel", "mix", in, o->taps, o->bias) : 0;
    ref y = mixed ? builder_mul(b, c->path, "out", after, mixed) : 0;
    return y ? builder_linear(b, c, "o", y, dim, with) : 0;
}

MODULE(conv, short, 1, "gated causal convolution of a few rows, column by column (arXiv 2511.23404)");
