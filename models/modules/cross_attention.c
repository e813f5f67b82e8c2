/* cross_attention.c - cross attention (arXiv 1706.03762): queries of the decoder, keys and values of the encoder's
 * result.
 *
 * Keys and values are computed in the step that runs the encoder and stay in pages of encoder positions for the life of
 * the query: steps without encoder rows only read them. */
#include "models/compile/builder.h"

#include <math.h>

typedef struct options {
    int64_t heads, head_dim;
    double scale;
    const char *bias, *bias_o;
} options;

static const param rows[] = {
    ROW(heads, PARAM_INT, .min = 1, .max = 1 << 16, .doc = "query heads, each with keys and values of its own"),
    ROW(head_dim, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 16, .doc = "width of a head; 0 = dim / heads"),
    ROW(scale, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6, .doc = "factor of scores; 0 = 1 / sqrt(head_dim)"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false",
        .doc = "biases of q, k, v; auto: when the checkpoint has them"),
    ROW(bias_o, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "bias of the output"),
};
static const module_weight weights[] = {
    {"q", "[heads * head_dim, dim]", "queries"},
    {"k", "[heads * head_dim, width of the encoder]", "keys"},
    {"v", "[heads * head_dim, width of the encoder]", "values"},
    {"o", "[dim, heads * head_dim]", "output"},
};

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    ref x = c->in[0];
    if (!b->memory)
        return err_set(b->e, ERR_SPEC, "%s: cross attention needs an encoder: type = encoder_decoder", c->where), 0;
    int64_t hd = builder_head_dim(b, c, o->heads, o->head_dim);
    if (!hd) return 0;
    linear_opt in = {.bias = o->bias}, out = {.bias = o->bias_o};
    ref k = builder_linear(b, c, "k", b->memory, o->heads * hd, in);
    ref v = k ? builder_linear(b, c, "v", b->memory, o->heads * hd, in) : 0;
    ref q = v ? builder_linear(b, c, "q", x, o->heads * hd, in) : 0;
    state s = {.axis = AXIS_ENC, .heads = (int32_t)o->heads, .k_dim = (int32_t)hd, .v_dim = (int32_t)hd};
    int index = q ? builder_state(b, s) : -1;
    op put = {.kind = OP_KV_PUT, .state = (int16_t)index, .in = {k, v}};
    if (index < 0 || !builder_op(b, put, c->path, NULL, 0, 0)) return 0;
    op a = {.kind = OP_ATTN,
            .state = (int16_t)index,
            .in = {q},
            .u.attn = {.scale = (float)(o->scale != 0 ? o->scale : 1 / sqrt((double)hd)),
                       .heads = (int32_t)o->heads,
                       .ahead = AHEAD_ALL}};
    ref mix = builder_op(b, a, c->path, "mix", q, o->heads * hd);
    return mix ? builder_linear(b, c, "o", mix, builder_width(b, x), out) : 0;
}

MODULE(cross, attention, 1, "cross attention: keys and values from the encoder's result (arXiv 1706.03762)");
