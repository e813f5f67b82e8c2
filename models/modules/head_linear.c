/* head_linear.c - hidden state to logits, with a matrix of its own or the token table (tied; arXiv 1608.05859).
 *
 * A head in the checkpoint is used whatever the configuration says about tying, as transformers does since 5.0: where
 * it differs from the token table, the configuration is wrong. */
#include "models/compile/builder.h"

#include <string.h>

typedef struct options {
    const char *tied, *bias;
    int64_t vocab;
} options;

static const param rows[] = {
    ROW(tied, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false",
        .doc = "true, auto: the token table serves as head where the checkpoint has none; false: it must have one"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "adds a bias vector"),
    ROW(vocab, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 26,
        .doc = "logits; 0 = as many as the matrix has rows"),
};
static const module_weight weights[] = {{"", "[vocab, dim]", "the matrix, unless tied; .bias beside it"}};

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    bool own;
    if (bind_has(b->bind, c->path, b->layer, &own, b->e)) return 0;
    bool tied = !own && strcmp(o->tied, "false") != 0;
    bind_want want = {.slot = tied ? "token" : c->path,
                      .for_whom = c->where,
                      .layer = b->layer,
                      .rows = o->vocab,
                      .cols = builder_width(b, c->in[0]),
                      .output_scale = !tied && !b->act_f32,
                      .order = !tied && !b->written};
    ref w, bias = 0;
    if (bind_weight(b->bind, &want, &w, b->e)) return 0;
    if (strcmp(o->bias, "false") != 0) {
        bind_want add = {.slot = c->path,
                         .for_whom = c->where,
                         .layer = b->layer,
                         .rows = b->prog->tensors[w].dim[0],
                         .bias = true,
                         .optional = strcmp(o->bias, "auto") == 0};
        if (bind_weight(b->bind, &add, &bias, b->e)) return 0;
    }
    return builder_matmul(b, c, w, bias, c->in[0], NULL);
}

MODULE(head, linear, 1, "hidden state to logits, tied to the token table or not (arXiv 1608.05859)");
