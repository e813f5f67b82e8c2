/* import_tensors.c - canonical tensor names of the original engine as a [tensors] section.
 *
 * Names of norms: a before attention, b before the feed-forward, c and d after them, e on the embeddings, f at the end.
 * A bias gets a line only where its name is not the weight's with `.bias` ("LayerNorm.beta"). */
#include "models/import/import_state.h"

#include <stdio.h>
#include <string.h>

typedef struct writer {
    const original *o;
    const char *side; /* "dec" or "enc": in front of canonical names */
    const char *path; /* in front of our keys: "" or "enc." */
    buf *out;
} writer;

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* Whether some bias of the canonical name `stem` has a name that does not follow from its weight's. */
static bool bias_is_named(const original *o, const char *stem)
{
    char bias[180], weight[180];
    snprintf(bias, sizeof bias, "%s.bias", stem);
    snprintf(weight, sizeof weight, "%s.weight", stem);
    for (size_t i = 0; i < o->n_rule; i++) {
        const char *source = o->rules[i].source;
        if (strcmp(o->rules[i].target, bias) != 0) continue;
        bool beside = false;
        for (size_t k = 0; k < o->n_rule; k++) {
            const char *w = o->rules[k].source;
            beside |= strcmp(o->rules[k].target, weight) == 0 && ends_with(w, ".weight") &&
                      ends_with(source, ".bias") && strlen(source) + 2 == strlen(w) &&
                      memcmp(source, w, strlen(source) - 4) == 0;
        }
        if (!beside) return true;
    }
    return false;
}

static void line_of(writer *w, const char *key, const char *stem, const char *recipe)
{
    char weight[180], bias[180];
    buf names = {0};
    snprintf(weight, sizeof weight, "%s.weight", stem);
    snprintf(bias, sizeof bias, "%s.bias", stem);
    if (original_names(w->o, weight, recipe, &names, NULL)) buf_printf(w->out, "%s = %s\n", key, buf_cstr(&names));
    names.n = 0;
    if (bias_is_named(w->o, stem) && original_names(w->o, bias, "", &names, NULL))
        buf_printf(w->out, "%s.bias = %s\n", key, buf_cstr(&names));
    w->out->bad |= names.bad;
    buf_free(&names);
}

/* A tensor of a layer: `key` follows {i}., `part` follows the layer in canonical names. */
static void layer_line(writer *w, const char *key, const char *part, const char *recipe)
{
    char full[120], stem[160];
    snprintf(full, sizeof full, "%s{i}.%s", w->path, key);
    snprintf(stem, sizeof stem, "%s.{i}.%s", w->side, part);
    line_of(w, full, stem, recipe);
}

static void outer_line(writer *w, const char *key, const char *part, const char *recipe)
{
    char full[120], stem[160];
    snprintf(full, sizeof full, "%s%s", w->path, key);
    snprintf(stem, sizeof stem, "%s.%s", w->side, part);
    line_of(w, full, stem, recipe);
}

static const char *offset_text(double base, char text[40])
{
    if (base == 0) return "";
    snprintf(text, 40, "+ %.9g", base);
    return text;
}

/* q, k and v: three tensors, rows of one, or either. */
static void attention(writer *w, const char *slot, const char *part)
{
    static const struct {
        const char *role, *own, *by_group, *in_turn;
    } rows[] = {{"q", "wq", "every group + 2 * head_dim take group at 0", "rows 0 .. q_rows"},
                {"k", "wk", "every group + 2 * head_dim take head_dim at group", "rows q_rows .. q_rows + kv_rows"},
                {"v", "wv", "every group + 2 * head_dim take head_dim at group + head_dim",
                 "rows q_rows + kv_rows .. q_rows + 2 * kv_rows"}};
    char fused[120], one[120], key[40], stem[120];
    bool fused_given, one_given = false;
    snprintf(fused, sizeof fused, "%s.{i}.%s.qkv.weight", w->side, part);
    int has_fused = original_names(w->o, fused, "", NULL, &fused_given);
    for (int i = 0; i < 3; i++) {
        buf names = {0};
        snprintf(one, sizeof one, "%s.{i}.%s.%s.weight", w->side, part, rows[i].own);
        snprintf(key, sizeof key, "%s.%s", slot, rows[i].role);
        const char *recipe = w->o->qkv_format ? rows[i].in_turn : rows[i].by_group;
        int n = original_names(w->o, one, "", fused_given ? NULL : &names, &one_given);
        if (fused_given && !one_given) n = 0;
        if (has_fused && !one_given) {
            if (n) buf_str(&names, " | ");
            n += original_names(w->o, fused, recipe, &names, NULL);
        }
        if (n) buf_printf(w->out, "%s{i}.%s = %s\n", w->path, key, buf_cstr(&names));
        w->out->bad |= names.bad;
        buf_free(&names);
        snprintf(stem, sizeof stem, "%s.{i}.%s.%s", w->side, part, rows[i].own);
        if (one_given && bias_is_named(w->o, stem)) {
            char bias[130];
            buf list = {0};
            snprintf(bias, sizeof bias, "%s.bias", stem);
            if (original_names(w->o, bias, "", &list, NULL))
                buf_printf(w->out, "%s{i}.%s.bias = %s\n", w->path, key, buf_cstr(&list));
            buf_free(&list);
        }
    }
    snprintf(key, sizeof key, "%s.o", slot);
    snprintf(one, sizeof one, "%s.wo", part);
    layer_line(w, key, one, "");
}

/* Names of an expert's matrix, then of the plain one: layers with and without experts have one line. */
static void expert_line(writer *w, const char *key, const char *wi)
{
    char part[160];
    buf names = {0};
    snprintf(part, sizeof part, "dec.{i}.moe.expert.{j}.%s.weight", wi);
    int n = original_names(w->o, part, "", &names, NULL);
    snprintf(part, sizeof part, "dec.{i}.feed_forward.%s.weight", wi);
    bool dense = w->o->moe_layer_start > 0 || w->o->moe_layer_end >= 0;
    if (dense && original_names(w->o, part, "", NULL, NULL)) {
        buf_str(&names, n ? " | " : "");
        n += original_names(w->o, part, "", &names, NULL);
    }
    if (n) buf_printf(w->out, "{i}.%s = %s\n", key, buf_cstr(&names));
    w->out->bad |= names.bad;
    buf_free(&names);
}

static void experts(writer *w)
{
    layer_line(w, "ffn.router", "moe.gate", "");
    expert_line(w, "ffn.gate", "w1");
    expert_line(w, "ffn.up", "w3");
    expert_line(w, "ffn.down", "w2");
    if (!w->o->has_shared_expert) return;
    layer_line(w, "ffn.shared.gate", "moe.shared_expert.w1", "");
    layer_line(w, "ffn.shared.up", "moe.shared_expert.w3", "");
    layer_line(w, "ffn.shared.down", "moe.shared_expert.w2", "");
}

static void feed_forward(writer *w, const original_shape *s)
{
    if (w->o->moe) {
        experts(w);
        return;
    }
    if (s->fused_gate) {
        layer_line(w, "ffn.gate", "feed_forward.w1", "rows 0 .. ffn_dim");
        layer_line(w, "ffn.up", "feed_forward.w1", "rows ffn_dim .. 2 * ffn_dim");
    } else {
        layer_line(w, s->gated ? "ffn.gate" : "ffn.up", "feed_forward.w1", "");
        if (s->gated) layer_line(w, "ffn.up", "feed_forward.w3", "");
    }
    layer_line(w, "ffn.down", "feed_forward.w2", "");
}

static void layers(writer *w)
{
    const original *o = w->o;
    original_shape s = original_shape_of(o, w->side);
    char base[40];
    if (s.pre_attn && o->use_self_attn_pre_norm)
        layer_line(w, "norm.a", "self_attn.pre_norm", offset_text(o->attn_pre_norm_base, base));
    attention(w, "attn", "self_attn");
    bool moved = s.post_attn && !o->is_attn_post_as_residual && !s.pre_ffn;
    if (s.post_attn) layer_line(w, moved ? "norm.b" : "norm.c", "self_attn.post_norm", "");
    if (o->type == ORIGINAL_PAIR && strcmp(w->side, "dec") == 0) {
        layer_line(w, "norm.x", "cross_attn.pre_norm", "");
        attention(w, "cross", "cross_attn");
    }
    if (s.pre_ffn) layer_line(w, "norm.b", "feed_forward.pre_norm", offset_text(o->ffn_pre_norm_base, base));
    feed_forward(w, &s);
    if (s.post_ffn) layer_line(w, "norm.d", "feed_forward.post_norm", "");
}

/* One side of the network: its tables, layers and last norm. */
static void one_side(writer *w)
{
    char own[80], key[40], base[40];
    buf names = {0};
    snprintf(own, sizeof own, "%s.token_embeddings.weight", w->side);
    bool given = original_maps(w->o, own);
    int n = given ? 0 : original_names(w->o, "token_embeddings.weight", "", &names, NULL);
    if (n && original_names(w->o, own, "", NULL, NULL)) buf_str(&names, " | ");
    n += original_names(w->o, own, "", &names, NULL);
    snprintf(key, sizeof key, "%stoken", w->path);
    if (n) buf_printf(w->out, "%s = %s\n", key, buf_cstr(&names));
    w->out->bad |= names.bad;
    buf_free(&names);
    outer_line(w, "position", "pos_embeddings", "");
    outer_line(w, "type", "token_type_embeddings", "");
    outer_line(w, "norm.e", "input_norm", "");
    layers(w);
    outer_line(w, "norm.f", "output_norm", offset_text(w->o->output_norm_base, base));
}

static void head_of_encoder(writer *w)
{
    if (!original_maps(w->o, "output_transform.weight")) return;
    line_of(w, "linear.h", "output_transform", "");
    line_of(w, "norm.h", "output_transform.post_norm", "");
    buf names = {0};
    if (original_names(w->o, "enc.output.weight", "", &names, NULL))
        buf_printf(w->out, "head = %s\n", buf_cstr(&names));
    names.n = 0;
    if (original_names(w->o, "enc.output.bias", "", &names, NULL))
        buf_printf(w->out, "head.bias = %s\n", buf_cstr(&names));
    w->out->bad |= names.bad;
    buf_free(&names);
}

int import_tensors(const original *o, buf *out, err *e)
{
    writer dec = {o, "dec", "", out}, enc = {o, "enc", o->type == ORIGINAL_PAIR ? "enc." : "", out};
    buf prefixes = {0};
    original_prefixes(o, &prefixes);
    buf_printf(out, "\n[tensors]\nprefix = %s\n", buf_cstr(&prefixes));
    buf_free(&prefixes);
    if (o->type == ORIGINAL_ENCODER || o->type == ORIGINAL_PAIR) one_side(&enc);
    if (o->type == ORIGINAL_ENCODER) {
        head_of_encoder(&enc);
        buf_str(out, "ignore = *position_ids | *pooler.* | cls.*\n");
        return out->bad ? err_memory(e, NULL) : OK;
    }
    if (original_maps(o, "input_transform.weight")) line_of(&dec, "project.in", "input_transform", "");
    one_side(&dec);
    if (original_maps(o, "output_transform.weight")) line_of(&dec, "project.out", "output_transform", "");
    line_of(&dec, "head", "output", o->normalize_lm_head ? "unit" : "");
    buf_str(out, o->type == ORIGINAL_PAIR
                     ? "ignore = *coder.embed_tokens.weight | *.embed_positions.weights\n"
                     : "ignore = *.rotary_emb.inv_freq | *.attention.bias | *.attention.masked_bias\n");
    return out->bad ? err_memory(e, NULL) : OK;
}
