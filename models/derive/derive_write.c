/* derive_write.c - recognised parts as a spec: numbers from shapes and configuration, the evidence above each line.
 *
 * A number from a shape is written as the key of config.json that has the same value, so that the spec serves the
 * family and not one size of it; without such a key, as the number. Values that neither a shape nor a key gives are
 * marked "guessed". */
#include "models/derive/derive_write.h"
#include "models/compile/spec_unread.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct sketch {
    parts p;
    const json *config; /* config.json, or NULL */
    bool own_keys;      /* the checkpoint describes itself: base llama reads its keys */
    int64_t dim, heads, kv_heads, head_dim, ffn_dim;
    int64_t expert_dim, shared_dim; /* 0: there are none */
    bool transposed, gated, offset_norms;
    buf *out;
} sketch;

/* ---- keys */

/* The first of the keys, split by blanks, that the configuration has with a number in it. NULL: none. */
static const char *key_with(const sketch *s, const char *keys, double *value)
{
    static char found[64];
    for (const char *k = keys; *k && s->config;) {
        size_t n = strcspn(k, " ");
        snprintf(found, sizeof found, "%.*s", (int)n, k);
        const json *j = json_get(s->config, found);
        if (j && json_type(j) == JSON_NUMBER) {
            *value = json_num(j, 0);
            return found;
        }
        k += n + (k[n] == ' ');
    }
    return NULL;
}

static bool key_says(const sketch *s, const char *keys, bool otherwise)
{
    for (const char *k = keys; *k && s->config;) {
        char key[64];
        size_t n = strcspn(k, " ");
        snprintf(key, sizeof key, "%.*s", (int)n, k);
        const json *j = json_get(s->config, key);
        if (j && json_type(j) == JSON_BOOL) return json_bool(j, otherwise);
        k += n + (k[n] == ' ');
    }
    return otherwise;
}

static const char head_keys[] = "num_attention_heads n_head n_heads num_heads attention_heads";

/* "name = key" where a key has the value of the shapes, else "name = value". */
static void write_number(sketch *s, const char *name, const char *keys, int64_t value, const char *evidence)
{
    double v;
    char one[64];
    if (s->own_keys) return;
    for (const char *k = keys; *k;) {
        size_t n = strcspn(k, " ");
        snprintf(one, sizeof one, "%.*s", (int)n, k);
        if (key_with(s, one, &v) && v == (double)value) {
            buf_printf(s->out, "# inferred: %lld, %s and %s\n%s = %s\n", (long long)value, evidence, one, name, one);
            return;
        }
        k += n + (k[n] == ' ');
    }
    buf_printf(s->out, "# inferred: %s; no key of the configuration has this number\n%s = %lld\n", evidence, name,
               (long long)value);
}

/* ---- shapes */

static int64_t rows(const sketch *s, part_role r)
{
    const part *g = s->p.of[r];
    return !g || g->first->dims.rank < 1 ? 0
           : g->first->dims.rank == 1    ? g->first->dims.dim[0]
                                         : g->first->dims.dim[s->transposed];
}

static int64_t columns_of(const sketch *s, part_role r)
{
    const part *g = s->p.of[r];
    return !g || g->first->dims.rank != 2 ? 0 : g->first->dims.dim[!s->transposed];
}

static int incomplete(const sketch *s, const char *what, err *e)
{
    return err_set(
        e, ERR_NOT_FOUND,
        "cannot derive a spec: %s among the names of %zu kinds of tensors (inferflow info --model PATH lists them)",
        what, s->p.n);
}

/* Heads need a key, or the length of a norm of queries; else their width is guessed. */
static int measure_heads(sketch *s, err *e)
{
    const parts *p = &s->p;
    double v;
    int64_t q_rows = columns_of(s, PART_O);
    bool by_head = p->of[PART_Q_NORM] && p->of[PART_Q_NORM]->first->dims.rank == 1 &&
                   q_rows % rows(s, PART_Q_NORM) == 0;
    if (key_with(s, head_keys, &v) && v >= 1 && v <= (double)q_rows) s->heads = (int64_t)v;
    else if (by_head) s->heads = q_rows / rows(s, PART_Q_NORM);
    else s->heads = q_rows % 128 == 0 ? q_rows / 128 : q_rows % 64 == 0 ? q_rows / 64 : 1;
    if (s->heads < 1 || q_rows % s->heads)
        return incomplete(s, "the number of heads does not divide the output of attention", e);
    s->head_dim = q_rows / s->heads;
    int64_t kv_rows = p->of[PART_QKV] ? (rows(s, PART_QKV) - q_rows) / 2 : rows(s, PART_K);
    s->kv_heads = kv_rows / s->head_dim;
    if (s->kv_heads < 1 || kv_rows % s->head_dim)
        return incomplete(s, "the rows of keys are no whole number of heads", e);
    return OK;
}

/* Widths and counts from shapes. */
static int measure_sketch(sketch *s, err *e)
{
    const parts *p = &s->p;
    if (!p->layers || !p->of[PART_TOKEN])
        return incomplete(s, p->layers ? "no token table is found" : "no layers are found", e);
    if (!p->of[PART_O] || !(p->of[PART_QKV] || (p->of[PART_Q] && p->of[PART_K] && p->of[PART_V])))
        return incomplete(s, "no attention (q, k, v, o) is found", e);
    bool dense = p->of[PART_DOWN] && (p->of[PART_UP] || p->of[PART_GATE_UP]), experts = p->of[PART_ROUTER] != NULL;
    if (!dense && !experts) return incomplete(s, "no feed-forward (up, down) is found", e);
    part_role ups = !dense ? PART_EXPERT_UP : p->of[PART_UP] ? PART_UP : PART_GATE_UP;
    part_role downs = dense ? PART_DOWN : PART_EXPERT_DOWN;
    const shape *up = &p->of[ups]->first->dims, *down = &p->of[downs]->first->dims;
    s->dim = p->of[PART_TOKEN]->first->dims.dim[1];
    s->transposed = up->dim[1] != s->dim && up->dim[0] == s->dim && down->dim[1] == s->dim;
    s->gated = p->of[PART_GATE_UP] || (p->of[PART_GATE] && p->of[PART_UP]) || (!dense && p->of[PART_EXPERT_GATE]);
    s->ffn_dim = columns_of(s, downs);
    if (experts) s->expert_dim = columns_of(s, PART_EXPERT_DOWN), s->shared_dim = columns_of(s, PART_SHARED_DOWN);
    return measure_heads(s, e);
}

/* A query_key_value is laid out by heads or groups of heads (NeoX, BLOOM, Falcon), others as all q, all k, all v. */
static bool fused_by_group(const sketch *s) { return strstr(s->p.of[PART_QKV]->name, "query_key_value") != NULL; }

/* ---- experts */

static void write_expert_numbers(sketch *s)
{
    static const char used[] =
        "num_experts_per_tok num_experts_per_token moe_top_k moe_topk num_selected_experts top_k";
    double v;
    if (!s->expert_dim) return;
    write_number(s, "experts", "num_local_experts n_routed_experts num_experts moe_num_experts",
                 s->p.of[PART_EXPERT_DOWN]->inner, "the numbers of experts in names");
    write_number(s, "expert_dim", "moe_intermediate_size expert_dim intermediate_size", s->expert_dim,
                 "the columns of an expert's down projection");
    if (s->shared_dim)
        write_number(s, "shared_dim", "shared_expert_intermediate_size moe_shared_expert_intermediate_size",
                     s->shared_dim, "the columns of the shared expert's down projection");
    const char *key = key_with(s, used, &v);
    if (key) buf_printf(s->out, "# inferred: the key %s\nused = %s\n", key, key);
    else buf_str(s->out, "# guessed: no key says how many experts a row goes to\nused = 2\n");
}

static void write_expert_slots(sketch *s)
{
    bool renorm = s->config && json_type(json_get(s->config, "norm_topk_prob")) == JSON_BOOL;
    const char *score = json_str(json_get(s->config, "scoring_func"),
                                 json_str(json_get(s->config, "score_func"), "softmax"));
    bool sigmoid = strcmp(score, "sigmoid") == 0;
    buf_printf(s->out, "# inferred: %s; %s: whether weights are divided by their sum\nffn = moe, renorm = %s%s%s\n",
               s->p.of[PART_ROUTER]->name, renorm ? "inferred, by the key norm_topk_prob" : "guessed",
               renorm ? "norm_topk_prob" : "true", sigmoid ? ", score = sigmoid" : "",
               s->p.of[PART_EXPERT_GATE] ? "" : ", gated = false");
    if (s->shared_dim)
        buf_printf(s->out, "# inferred: %s\nffn.shared = gated, ffn_dim = shared_dim\n",
                   s->p.of[PART_SHARED_DOWN]->name);
}

/* The first layers may have a plain feed-forward where the others have experts. */
static void write_dense_layers(sketch *s)
{
    const part *g = s->p.of[PART_DOWN];
    if (!s->expert_dim || !g) return;
    buf_printf(s->out, "\n# guessed: %s is in %u layers: the first ones\n[layer dense]\nwhere = i < %u\nffn = %s\n",
               g->name, g->count, g->count, s->gated ? "gated" : "plain");
    if (s->shared_dim) buf_str(s->out, "block = x = x + attn(norm.a(x)); x = x + ffn(norm.b(x))\n");
}

/* ---- [config] */

static void write_act(sketch *s)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation", "activation_function", "activation", "act_fn",
                                       "ffn_act"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && s->config; i++) {
        const char *word = json_str(json_get(s->config, keys[i]), NULL);
        if (!word) continue;
        buf_printf(s->out, "# inferred: the key %s\nact_name = %s\n", keys[i], keys[i]);
        return;
    }
    buf_printf(s->out, "# guessed: no key names the activation\nact_name = \"%s\"\n", s->gated ? "silu" : "gelu");
}

static void write_eps(sketch *s)
{
    for (const json *m = json_first(s->config); m; m = json_next(m)) {
        const char *key = json_key(m);
        bool plain = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(key);
        if (!plain || (!strstr(key, "eps") && !strstr(key, "epsilon")) || json_type(m) != JSON_NUMBER) continue;
        buf_printf(s->out, "# inferred: the key %s\neps = %s\n", key, key);
        return;
    }
    if (!s->own_keys) buf_str(s->out, "# guessed: no key gives eps\neps = 1e-5\n");
}

static void write_rope(sketch *s)
{
    double v;
    const char *key;
    if (s->own_keys) return;
    if (json_get(s->config, "rope_theta") || json_get(s->config, "rope_parameters") ||
        json_get(s->config, "rope_scaling"))
        buf_str(s->out,
                "# inferred: rotation by rope_parameters, rope_scaling or rope_theta, as base = llama reads them\n");
    else if ((key = key_with(s, "rotary_emb_base rope_base rotary_base", &v)))
        buf_printf(s->out, "# inferred: the key %s\ntheta = %s\n", key, key);
    else buf_str(s->out, "# guessed: rotation with base 10000, as no key says otherwise\n");
    if (json_path(s->config, "rope_scaling.long_factor") || json_path(s->config, "rope_parameters.long_factor"))
        buf_str(s->out, "# inferred: factors for long contexts in the scaling\nrope_short = scaling.short_factor\n"
                        "rope_long = scaling.long_factor\n");
    if ((key = key_with(s, "rotary_dim rope_dim qk_rope_head_dim", &v)))
        buf_printf(s->out, "# inferred: the key %s\nrope_dims = %s\n", key, key);
    else if ((key = key_with(s, "partial_rotary_factor rotary_pct rope_pct rotary_percent", &v)))
        buf_printf(s->out, "# inferred: the key %s\nrope_dims = floor(head_dim * %s)\n", key, key);
    else if (json_path(s->config, "rope_parameters.partial_rotary_factor"))
        buf_str(s->out, "# inferred: the key rope_parameters.partial_rotary_factor\n"
                        "rope_dims = floor(head_dim * scaling.partial_rotary_factor)\n");
    if (json_type(json_get(s->config, "sliding_window")) != JSON_NUMBER) return;
    if (json_get(s->config, "layer_types"))
        buf_str(s->out, "# inferred: the keys sliding_window and layer_types\n"
                        "window = layer_types[i] == \"sliding_attention\" ? sliding_window : 0\n");
    else
        buf_str(
            s->out,
            "# guessed: the key sliding_window, where use_sliding_window and max_window_layers do not say otherwise\n"
            "window = (use_sliding_window | true) and i >= (max_window_layers | 0) ? sliding_window : 0\n");
}

static void write_config(sketch *s, bool rope)
{
    char evidence[160];
    double v;
    buf_str(s->out, "\n[config]\n");
    write_number(s, "dim", "hidden_size d_model n_embd n_embed dim model_dim hidden_dim", s->dim,
                 "the columns of the token table");
    write_number(s, "layers", "num_hidden_layers n_layer n_layers num_layers", s->p.n_layer, "the numbers in names");
    write_number(s, "vocab", "vocab_size padded_vocab_size n_vocab", s->p.of[PART_TOKEN]->first->dims.dim[0],
                 "the rows of the token table");
    bool known = key_with(s, head_keys, &v) != NULL;
    if (!known && !s->own_keys && !s->p.of[PART_Q_NORM])
        buf_str(s->out, "# guessed: heads of 128 or 64, as no key says their number\n");
    snprintf(evidence, sizeof evidence, "attention gives %lld columns, %lld a head",
             (long long)(s->heads * s->head_dim), (long long)s->head_dim);
    write_number(s, "heads", head_keys, s->heads, evidence);
    snprintf(evidence, sizeof evidence, "%lld rows of keys", (long long)(s->kv_heads * s->head_dim));
    write_number(s, "kv_heads",
                 "num_key_value_heads num_kv_heads n_head_kv n_kv_heads multi_query_group_num num_attention_heads",
                 s->kv_heads, evidence);
    write_number(s, "head_dim", "head_dim kv_channels attention_head_dim d_kv", s->head_dim,
                 "columns of attention by heads");
    write_number(s, "ffn_dim", "intermediate_size ffn_dim n_inner ffn_hidden_size d_ff mlp_dim ffn_size inner_dim",
                 s->ffn_dim, "the columns of the down projection");
    write_expert_numbers(s);
    const char *key = key_with(
        s, "max_position_embeddings n_positions max_seq_len seq_length max_sequence_length n_ctx", &v);
    if (key) buf_printf(s->out, "trained = %s\n", key);
    write_eps(s);
    write_act(s);
    if (rope) write_rope(s);
    if (s->p.of[PART_QKV] && fused_by_group(s)) buf_str(s->out, "group = heads / kv_heads * head_dim\n");
    else if (s->p.of[PART_QKV]) buf_str(s->out, "q_rows = heads * head_dim\nkv_rows = kv_heads * head_dim\n");
    buf_printf(s->out, "# inferred: %s\ntied = %s\n",
               s->p.of[PART_HEAD] ? "there is a head" : "no tensor is the head, so the token table is",
               s->p.of[PART_HEAD] ? "false" : "true");
}

/* ---- [network] */

static void write_block(sketch *s)
{
    bool beside = key_says(s, "use_parallel_residual parallel_attn parallel_residual parallel_attention", false);
    switch (s->p.place) {
    case PLACE_NONE:
        buf_str(s->out, "# guessed: no norm of a layer has weights: layer norms before both branches\n"
                        "block = x = x + attn(norm.a(x)); x = x + ffn(norm.b(x))\n");
        return;
    case PLACE_ONE:
        buf_str(s->out, "# inferred: one norm in a layer: both branches start from it\nblock = a = norm.a(x); x = x + "
                        "attn(a) + ffn(a)\n");
        return;
    case PLACE_ON_BRANCH:
        buf_printf(s->out,
                   "# inferred: %s follows the feed-forward: norms of the outputs of branches\n"
                   "block = x = x + norm.a(attn(x)); x = x + norm.b(ffn(x))\n",
                   s->p.of[PART_NORM_B]->name);
        return;
    case PLACE_AROUND:
        buf_str(s->out, "# inferred: four norms in a layer, before and after each branch\n"
                        "block = x = x + norm.c(attn(norm.a(x))); x = x + norm.d(ffn(norm.b(x)))\n");
        return;
    case PLACE_UNKNOWN:
        buf_str(s->out, "# guessed: a layer has neither one, two nor four norms: correct their places\n"
                        "block = x = x + attn(norm.a(x)); x = x + ffn(norm.b(x))\n");
        return;
    case PLACE_BEFORE: break;
    }
    if (beside)
        buf_str(s->out, "# inferred: two norms in a layer, and a key that says parallel\nblock = x = x + "
                        "attn(norm.a(x)) + ffn(norm.b(x))\n");
    else if (!key_says(s, "do_layer_norm_before norm_first", true))
        buf_str(s->out, "# inferred: two norms in a layer, and a key that puts them after the branches\n"
                        "block = x = norm.a(x + attn(x)); x = norm.b(x + ffn(x))\n");
    else if (s->shared_dim)
        buf_str(s->out, "# inferred: experts, and a feed-forward beside them; guessed: norms before the branches\n"
                        "block = x = x + attn(norm.a(x)); b = norm.b(x); x = x + (ffn(b) + ffn.shared(b))\n");
    else
        buf_str(s->out, "# guessed: two norms in a layer: one before each branch\nblock = x = x + attn(norm.a(x)); x = "
                        "x + ffn(norm.b(x))\n");
}

static void write_norm(sketch *s)
{
    const part *g = s->p.of[PART_NORM_A] ? s->p.of[PART_NORM_A] : s->p.of[PART_LAST_NORM];
    bool says_layer = false, says_rms = false;
    for (const json *m = json_first(s->config); m; m = json_next(m)) {
        says_layer |= strncmp(json_key(m), "layer_norm_e", 12) == 0 || strncmp(json_key(m), "layernorm_e", 11) == 0;
        says_rms |= strncmp(json_key(m), "rms_norm_e", 10) == 0;
    }
    if (!g) buf_str(s->out, "# guessed: norms without weights\nnorm = layer, weight = false, bias = false\n");
    else if (g->biases)
        buf_printf(s->out, "# inferred: %s has a bias: layer norm\nnorm = layer, bias = auto\n", g->name);
    else if (says_layer && !says_rms)
        buf_str(s->out,
                "# inferred: the key of eps speaks of layer norm; there are no biases\nnorm = layer, bias = false\n");
    else
        buf_printf(s->out, "# %s: norms without biases\nnorm = rms\n",
                   says_rms ? "inferred, by the key rms_norm_eps" : "guessed");
}

static void write_attention(sketch *s, bool rope, bool alibi)
{
    const part *q = s->p.of[PART_Q_NORM];
    const part *first = s->p.of[s->p.of[PART_Q] ? PART_Q : PART_QKV], *o = s->p.of[PART_O];
    buf_printf(s->out, "# inferred: biases of q, k, v: %s; of the output: %s\n", first->biases ? "yes" : "no",
               o->biases ? "yes" : "no");
    if (q) buf_printf(s->out, "# inferred: %s normalises queries\n", q->name);
    if (rope) buf_str(s->out, "# guessed: rotation of halves; interleaved is the other kind\n");
    else if (alibi) buf_str(s->out, "# inferred: a key that says alibi, or heads of odd width, which cannot rotate\n");
    buf_printf(s->out, "attn = gqa, bias = %s, bias_o = %s, rope = %s%s", first->biases ? "true" : "false",
               o->biases ? "true" : "false", rope ? "neox" : "none", alibi ? ", alibi = true" : "");
    if (q)
        buf_printf(s->out, ", qk_norm = %s, qk_norm_kind = %s",
                   q->first->dims.rank == 2              ? "heads"
                   : rows(s, PART_Q_NORM) == s->head_dim ? "head"
                                                         : "whole",
                   q->biases ? "layer" : "rms");
    if (s->expert_dim) {
        buf_byte(s->out, '\n');
        write_expert_slots(s);
        return;
    }
    const part *up = s->p.of[s->p.of[PART_UP] ? PART_UP : PART_GATE_UP];
    buf_printf(s->out, "\n# inferred: %s\nffn = %s, bias = %s\n",
               s->p.of[PART_GATE_UP] ? "gate and up in one tensor"
               : s->gated            ? "a gate beside up and down"
                                     : "up and down, no gate",
               s->gated ? "gated" : "plain", up->biases || s->p.of[PART_DOWN]->biases ? "auto" : "false");
}

static void write_network(sketch *s, bool rope, bool alibi)
{
    const part *table = s->p.of[PART_POSITION];
    int64_t trained = 0;
    double v;
    if (key_with(s, "max_position_embeddings n_positions n_ctx", &v)) trained = (int64_t)v;
    int64_t more = table && trained > 0 ? table->first->dims.dim[0] - trained : 0;
    buf_str(s->out, "\n[network]\n");
    if (s->p.of[PART_EMBED_NORM]) buf_printf(s->out, "# inferred: %s\n", s->p.of[PART_EMBED_NORM]->name);
    buf_printf(s->out, "embed = %stoken%s%s\n", s->p.of[PART_EMBED_NORM] ? "norm.e(" : "", table ? " + position" : "",
               s->p.of[PART_EMBED_NORM] ? ")" : "");
    if (table)
        buf_printf(s->out,
                   "# inferred: %s is a table of positions with %lld rows more than positions\nposition = learned, "
                   "offset = %lld\n",
                   table->name, (long long)(more > 0 && more < 16 ? more : 0),
                   (long long)(more > 0 && more < 16 ? more : 0));
    write_block(s);
    if (s->p.of[PART_LAST_NORM] || s->p.place == PLACE_NONE) buf_str(s->out, "final = norm.f(x)\n");
    else buf_str(s->out, "# inferred: no norm after the last layer\nfinal = x\n");
    write_norm(s);
    write_attention(s, rope, alibi);
    write_dense_layers(s);
}

/* ---- [tensors] */

/* {j} counts experts. */
static void write_name(sketch *s, const part *g)
{
    const char *mark = strstr(g->name, "{j}");
    if (mark) buf_printf(s->out, "%.*s{0 .. experts}%s", (int)(mark - g->name), g->name, mark + 3);
    else buf_str(s->out, g->name);
}

static void line(sketch *s, part_role r, const char *key, const char *recipe)
{
    const part *g = s->p.of[r];
    bool layer = strstr(g->name, "{i}") != NULL,
         turned = s->transposed && g->first->dims.rank == 2 && r != PART_TOKEN && r != PART_HEAD && r != PART_POSITION;
    buf_printf(s->out, "%s%s = ", layer ? "{i}." : "", key);
    write_name(s, g);
    if (turned || *recipe)
        buf_printf(s->out, " (%s%s%s)", turned ? "transpose" : "", turned && *recipe ? ", " : "", recipe);
    part_role dense = r == PART_EXPERT_GATE   ? PART_GATE
                      : r == PART_EXPERT_UP   ? PART_UP
                      : r == PART_EXPERT_DOWN ? PART_DOWN
                                              : PART_NONE;
    if (dense && s->p.of[dense]) buf_printf(s->out, " | %s", s->p.of[dense]->name);
    buf_byte(s->out, '\n');
}

static void write_fused(sketch *s)
{
    static const char *const role[] = {"attn.q", "attn.k", "attn.v"};
    static const char *const turn[] = {"rows 0 .. q_rows", "rows q_rows .. q_rows + kv_rows",
                                       "rows q_rows + kv_rows .. q_rows + 2 * kv_rows"};
    static const char *const head[] = {"every group + 2 * head_dim take group at 0",
                                       "every group + 2 * head_dim take head_dim at group",
                                       "every group + 2 * head_dim take head_dim at group + head_dim"};
    bool by_group = fused_by_group(s);
    buf_printf(s->out, "# inferred: q, k and v in one tensor; guessed: %s\n",
               by_group ? "by groups of heads (the other way: rows 0 .. q_rows, ...)"
                        : "all q, then k, then v (the other way: every group + 2 * head_dim take ...)");
    for (int i = 0; i < 3; i++) line(s, PART_QKV, role[i], by_group ? head[i] : turn[i]);
}

static bool is_norm_role(part_role r) { return strstr(part_key(r), "norm") != NULL; }

static void write_tensors(sketch *s)
{
    int left = 0;
    buf_str(s->out, "\n[tensors]\n");
    if (s->offset_norms) buf_str(s->out, "# inferred from values: weights of norms lie around 0, so 1 is added\n");
    for (int r = PART_NONE + 1; r < PART_COUNT; r++) {
        bool dense = r == PART_GATE || r == PART_UP || r == PART_DOWN;
        if (!s->p.of[r] || (r == PART_GATE && !s->gated) || (dense && s->expert_dim)) continue;
        if (r == PART_QKV) write_fused(s);
        else if (r == PART_GATE_UP) {
            buf_str(s->out, "# guessed: the gate comes first\n");
            line(s, PART_GATE_UP, "ffn.gate", "rows 0 .. ffn_dim");
            line(s, PART_GATE_UP, "ffn.up", "rows ffn_dim .. 2 * ffn_dim");
        } else
            line(s, (part_role)r, part_key((part_role)r), s->offset_norms && is_norm_role((part_role)r) ? "+ 1" : "");
    }
    buf_str(s->out, "ignore = *.rotary_emb.inv_freq | *.attention.bias | *.attn.bias | *.masked_bias\n");
    for (size_t i = 0; i < s->p.n; i++) {
        const part *g = &s->p.at[i];
        if (g->role != PART_NONE) continue;
        char dims[80];
        buf_printf(s->out, "%s#   %s %s, %u of them\n", left++ ? "" : "# left over: no line above uses these\n",
                   g->name, g->first ? shape_text(&g->first->dims, dims, sizeof dims) : "(biases)",
                   g->first ? g->count : g->biases);
    }
    if (s->p.rivals)
        buf_str(
            s->out,
            "# more than one stack of layers: an encoder beside a decoder needs enc. lines (see the built-in specs)\n");
}

int derive_from_parts(ckpt *c, const parts *found, buf *out, err *e)
{
    sketch s = {.out = out, .own_keys = ckpt_describes_itself(c)};
    if (!s.own_keys) s.config = ckpt_config(c);
    s.offset_norms = !s.own_keys && derive_norms_are_offset(c);
    s.p = *found;
    int rc = measure_sketch(&s, e);
    if (!rc) {
        bool alibi = key_says(&s, "alibi use_alibi", s.head_dim % 2 != 0), rope = !alibi && !s.p.of[PART_POSITION];
        write_config(&s, rope);
        write_network(&s, rope, alibi);
        write_tensors(&s);
        if (out->bad) rc = err_memory(e, NULL);
    }
    return rc;
}

/* ---- keys that are not read */

void derive_plain(const char *text, size_t n, buf *out)
{
    for (size_t i = 0; i < n && text[i]; i++)
        buf_byte(out, (unsigned char)text[i] < 32 || text[i] == 127 ? '?' : (uint8_t)text[i]);
}

void derive_unread(const spec *s, const json *config, buf *keys)
{
    buf unread = {0};
    if (config && spec_unread_keys(s, config, &unread)) derive_plain(buf_cstr(&unread), unread.n, keys);
    keys->bad |= unread.bad;
    buf_free(&unread);
}
