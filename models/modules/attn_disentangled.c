/* attn_disentangled.c - disentangled attention (DeBERTa: He et al. 2020, arXiv 2006.03654): a score is
 *
 *     scale * (query . key + query . place of the key [own_places] + key . place of the query [key_places])
 *
 * where a place is a vector of the head for a distance: each distance up to `span` its own, or logarithmic buckets.
 * What a query or key has for every place is one product by head (MATMUL_HEADS) with matrices that never change: in
 * files they are a table of embeddings and a projection of it, which the recipe `through` multiplies at load. ATTN adds
 * what the distance picks. */
#include "base/mem.h"
#include "models/compile/builder.h"
#include "models/compile/distance_buckets.h"

#include <math.h>

typedef struct options {
    int64_t heads, head_dim, span, buckets, farthest;
    double scale;
    const char *bias, *bias_o;
    bool own_places, key_places;
} options;

static const param rows[] = {
    ROW(heads, PARAM_INT, .min = 1, .max = 1 << 16, .doc = "heads"),
    ROW(head_dim, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 16, .doc = "width of a head; 0 = dim / heads"),
    ROW(scale, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6,
        .doc = "factor of scores; 0 = 1 / sqrt(head_dim * parts of a score)"),
    ROW(own_places, PARAM_BOOL, .otherwise = "false", .doc = "queries are multiplied with places"),
    ROW(key_places, PARAM_BOOL, .otherwise = "false", .doc = "keys are multiplied with places"),
    ROW(span, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 16,
        .doc = "places before a token, and after it; farther keys have the last"),
    ROW(buckets, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 16,
        .doc = "places up to buckets / 2 are distances, later ones logarithms; 0 = all are distances"),
    ROW(farthest, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 20,
        .doc = "with buckets: the distance that has about the last"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false",
        .doc = "biases of q, k, v; auto: when the checkpoint has them"),
    ROW(bias_o, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "bias of the output"),
};
static const module_weight weights[] = {
    {"q", "[heads * head_dim, dim]", "queries"},
    {"k", "[heads * head_dim, dim]", "keys"},
    {"v", "[heads * head_dim, dim]", "values"},
    {"o", "[dim, heads * head_dim]", "output"},
    {"own_places", "[heads][2 * span, head_dim]", "what queries are multiplied with for each place"},
    {"key_places", "[heads][2 * span, head_dim]", "what keys are multiplied with for each place"},
};

/* The place of a key `distance` after the query. */
static int place_of(const options *o, int distance)
{
    const int places = 2 * (int)o->span,
              by = o->buckets ? log_place_of(distance, (int)o->buckets, (int)o->farthest) : distance;
    const int at = places / 2 - by;
    return at < 0 ? 0 : at < places ? at : places - 1;
}

/* The places of all distances, up to the last of the context or the first from which on nothing changes. */
static ref distances(builder *b, const call *c)
{
    const options *o = c->options;
    const int last = 2 * (int)o->span - 1;
    int reach = 1;
    while (reach < b->ctx && !(place_of(o, reach) == 0 && place_of(o, -reach) == last)) reach++;
    float *of = mem_array((size_t)reach * 2 + 1, sizeof *of);
    if (!of) return err_memory(b->e, c->where), 0;
    for (int d = -reach; d <= reach; d++) of[d + reach] = (float)place_of(o, d);
    const ref table = builder_const(b, c->path, "distances", of, 2 * (int64_t)reach + 1, 0);
    mem_free(of);
    return table;
}

/* The operands of ATTN that are about places. */
static bool add_places(builder *b, const call *c, ref q, ref k, op *attn)
{
    const options *o = c->options;
    const int heads = (int)o->heads;
    if (!o->own_places && !o->key_places) return true;
    const char *wrong = o->span == 0 ? "places need a span"
                        : o->buckets ? log_places_check((int)o->buckets, (int)o->farthest)
                                     : NULL;
    if (wrong) return err_set(b->e, ERR_SPEC, "%s: %s", c->where, wrong), false;
    attn->u.attn.bias = BIAS_PLACES;
    if (o->own_places && !(attn->in[ATTN_OWN_PLACES] = builder_linear_heads(b, c, "own_places", q, heads, 2 * o->span)))
        return false;
    if (o->key_places && !(attn->in[ATTN_KEY_PLACES] = builder_linear_heads(b, c, "key_places", k, heads, 2 * o->span)))
        return false;
    return (attn->in[ATTN_TABLE] = distances(b, c)) != 0;
}

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    const ref x = c->in[0];
    const int64_t hd = builder_head_dim(b, c, o->heads, o->head_dim);
    if (!hd) return 0;
    if (!b->bidirectional && !b->encoding)
        return err_set(b->e, ERR_SPEC, "%s: places are of tokens that see all others: encoders", c->where), 0;
    const linear_opt in = {.bias = o->bias}, out = {.bias = o->bias_o};
    const ref q = builder_linear(b, c, "q", x, o->heads * hd, in);
    const ref k = q ? builder_linear(b, c, "k", x, o->heads * hd, in) : 0;
    const ref v = k ? builder_linear(b, c, "v", x, o->heads * hd, in) : 0;
    if (!v) return 0;
    const state s = {.axis = b->prog->tensors[q].axis,
                     .heads = (int32_t)o->heads,
                     .k_dim = (int32_t)hd,
                     .v_dim = (int32_t)hd,
                     .scratch = true};
    const int index = builder_state(b, s), parts = 1 + o->own_places + o->key_places;
    const op put = {.kind = OP_KV_PUT, .state = (int16_t)index, .in = {k, v}};
    op a = {.kind = OP_ATTN,
            .state = (int16_t)index,
            .in = {q},
            .u.attn = {.scale = (float)(o->scale != 0 ? o->scale : 1 / sqrt((double)hd * parts)),
                       .heads = (int32_t)o->heads,
                       .ahead = AHEAD_ALL}};
    if (index < 0 || !builder_op(b, put, c->path, NULL, 0, 0) || !add_places(b, c, q, k, &a)) return 0;
    const ref mix = builder_op(b, a, c->path, "mix", q, o->heads * hd);
    return mix ? builder_linear(b, c, "o", mix, builder_width(b, x), out) : 0;
}

MODULE(attn, disentangled, 1, "self attention with vectors for distances (DeBERTa, arXiv 2006.03654)");
