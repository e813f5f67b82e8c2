/* import_network.c - [network] of an imported spec: formulas and slots from the flags of the original engine.
 *
 * What a layer computes there (ProcessGpuLayer in its src/transformer/inference_worker.cc), with p parallel, s "share
 * input":
 *     a = attn(pre_norm(x)) * scale; unless p or s: a = x + a; res = a
 *     post_norm: a = post_norm(a), res = a unless is_attn_post_as_residual is false
 *     in a decoder beside an encoder: a = a + cross(pre_norm(a)); res = a
 *     f = ffn(pre_norm(p ? normed x : s ? x : a)) * scale; y = f + res; p or s: y += x; post_norm: y = post_norm(y)
 * so that residuals and norms come out as one statement a branch, or one where both branches start from x. */
#include "models/import/import_state.h"

#include <stdio.h>
#include <string.h>

static int names(const original *o, const char *side, const char *part, bool *given)
{
    char canonical[120];
    snprintf(canonical, sizeof canonical, "%s.%s.weight", side, part);
    return original_names(o, canonical, "", NULL, given);
}

original_shape original_shape_of(const original *o, const char *side)
{
    bool w1, w3 = false, given;
    original_shape s = {0};
    char up[60];
    snprintf(up, sizeof up, "%s.{i}.feed_forward.w3.weight", side);
    for (size_t i = 0; i < o->n_rule; i++) w3 |= strcmp(o->rules[i].target, up) == 0; /* meant, even where misspelt */
    names(o, side, "{i}.feed_forward.w1", &w1);
    s.gated = names(o, side, "{i}.feed_forward.w3", NULL) && (w3 || !w1);
    s.fused_gate = strcmp(o->activation_function, "glu_silu") == 0;
    s.gated |= s.fused_gate;
    s.post_attn = names(o, side, "{i}.self_attn.post_norm", NULL);
    s.post_ffn = names(o, side, "{i}.feed_forward.post_norm", NULL);
    /* a default name that a post norm makes superfluous is of no model: BERT, OPT-350m */
    bool after = s.post_attn && o->is_attn_post_as_residual;
    s.pre_attn = names(o, side, "{i}.self_attn.pre_norm", &given) && (given || !after);
    s.pre_ffn = names(o, side, "{i}.feed_forward.pre_norm", &given) &&
                (given || !(after || s.post_ffn || o->is_parallel_attn));
    s.pre_cross = names(o, side, "{i}.cross_attn.pre_norm", NULL);
    s.embed_norm = names(o, side, "input_norm", NULL);
    s.last_norm = names(o, side, "output_norm", NULL);
    s.learned = names(o, side, "pos_embeddings", NULL);
    s.types = original_maps(o, "enc.token_type_embeddings.weight") && strcmp(side, "enc") == 0;
    s.project_in = original_maps(o, "input_transform.weight");
    s.project_out = original_maps(o, "output_transform.weight");
    return s;
}

bool original_has_sines(const original *o) { return strncmp(o->position_embedding, "sinusoidal", 10) == 0; }

/* ---- formulas */

static const char *factor(double scale, const char *name) { return scale != 1 ? name : ""; }

/* The feed-forward, plus the shared experts. */
static void write_forward(const original *o, const char *row, bool shared, buf *out)
{
    buf_str(out, factor(o->ffn_out_scale, "ffn_scale * "));
    if (shared) buf_printf(out, "(ffn(%s) + ffn.shared(%s))", row, row);
    else buf_printf(out, "ffn(%s)", row);
}

/* Both branches start from x. */
static void write_beside(const original *o, const original_shape *s, buf *out)
{
    bool one = o->is_parallel_attn && s->pre_attn, norm = s->post_attn && o->is_attn_post_as_residual;
    const char *normed = one ? "a" : s->pre_attn ? "norm.a(x)" : "x", *into = o->is_parallel_attn ? normed : "x";
    char row[40];
    snprintf(row, sizeof row, s->pre_ffn ? "norm.b(%s)" : "%s", into);
    buf_printf(out, "%s%s", one ? "a = norm.a(x); " : "", s->post_ffn ? "x = norm.d(x + " : "x = x + ");
    buf_printf(out, "%s%sattn(%s)%s + ", norm ? "norm.c(" : "", factor(o->attn_out_scale, "attn_scale * "), normed,
               norm ? ")" : "");
    write_forward(o, row, false, out);
    buf_str(out, s->post_ffn ? ")\n" : "\n");
}

static void write_block(const original *o, const original_shape *s, bool cross, bool shared, buf *out)
{
    if (o->is_parallel_attn || o->mlp_attn_share_input) {
        write_beside(o, s, out);
        return;
    }
    bool residual = s->post_attn && o->is_attn_post_as_residual, moved = s->post_attn && !residual;
    const char *row = moved && s->pre_ffn ? "norm.b(norm.c(x))" : moved || s->pre_ffn ? "norm.b(x)" : "x";
    buf_printf(out, "%sx + %sattn(%s)%s; ",
               residual ? "x = norm.c(" : "x = ", factor(o->attn_out_scale, "attn_scale * "),
               s->pre_attn ? "norm.a(x)" : "x", residual ? ")" : "");
    if (cross) buf_printf(out, "x = x + cross(%s); ", s->pre_cross ? "norm.x(x)" : "x");
    if (shared) buf_printf(out, "b = %s; ", row);
    buf_str(out, s->post_ffn ? "x = norm.d(x + " : "x = x + ");
    write_forward(o, shared ? "b" : row, shared, out);
    buf_str(out, s->post_ffn ? ")\n" : "\n");
}

static void write_embed(const original *o, const original_shape *s, buf *out)
{
    bool scale = o->has_embedding_linear_norm || (original_has_sines(o) && o->linear_norm_before_sinusoidal);
    buf_printf(out, "%s%s%s%s%s%s\n", s->embed_norm ? "norm.e(" : "",
               s->project_in ? "(has_in ? project.in(token) : token)" : "token", scale ? " * embed_scale" : "",
               s->types ? " + type" : "", s->learned || original_has_sines(o) ? " + position" : "",
               s->embed_norm ? ")" : "");
}

static void write_final(const original *o, const original_shape *s, bool sure, buf *out)
{
    const char *normed = sure ? "norm.f(x)" : "(has_norm ? norm.f(x) : x)";
    buf_str(out, "final  = ");
    if (s->project_out) buf_printf(out, "has_out ? project.out(%s) : %s", normed, normed);
    else buf_str(out, sure ? "norm.f(x)" : "has_norm ? norm.f(x) : x");
    if (o->out_scale != 1) buf_str(out, " * out_scale");
    buf_str(out, "\n");
}

/* ---- slots */

static void write_norm(const original *o, const ckpt *c, buf *out)
{
    bool rms = strcmp(o->normalization_function, "rms") == 0, biased = false;
    for (uint32_t i = 0; rms && c && i < ckpt_count(c); i++) biased |= strstr(ckpt_at(c, i)->name, "norm.bias") != NULL;
    if (biased) buf_str(out, "# the original says rms; norms with a bias are layer norms\n");
    buf_printf(out, "norm   = %s\n", rms && !biased ? "rms" : "layer, bias = auto");
    if (!o->use_self_attn_pre_norm) buf_str(out, "norm.a = weight = false, bias = false\n");
}

static void write_position(const original *o, const original_shape *s, buf *out)
{
    if (s->learned) buf_printf(out, "position = learned, offset = %d\n", (int)o->pos_embedding_offset);
    else if (original_has_sines(o))
        buf_str(
            out,
            "# the original counts from 0 with the paper's frequencies, as Marian does; fairseq's models count on from "
            "padding\n"
            "position = sinusoid, layout = halves, spacing = (static_position_embeddings | false) ? paper : fairseq,\n"
            "           offset = (static_position_embeddings | false) ? 0 : (pad_token_id | 1) + 1\n");
}

static void write_parts(const original *o, const original_shape *s, buf *out)
{
    bool rope = strcmp(o->position_embedding, "rope") == 0;
    buf_str(out, "attn   = gqa, bias = auto, bias_o = auto");
    buf_printf(out, ", rope = %s", !rope ? "none" : o->qk_column_order == 2 ? "neox" : "interleaved");
    if (strcmp(o->position_embedding, "alibi") == 0) buf_str(out, ", alibi = true");
    if (o->moe) buf_printf(out, "\nffn    = moe, renorm = %s", o->moe_norm_top_k_prob ? "true" : "false");
    else buf_printf(out, "\nffn    = %s, bias = auto", s->gated ? "gated" : "plain");
    if (o->moe && o->has_shared_expert) buf_str(out, "\nffn.shared = gated, ffn_dim = shared_dim");
    buf_byte(out, '\n');
}

/* Layers outside [start, end) have no experts. */
static void write_dense_layers(const original *o, const original_shape *s, buf *out)
{
    bool starts = o->moe_layer_start > 0, ends = o->moe_layer_end >= 0;
    if (!o->moe || (!starts && !ends)) return;
    buf_str(out, "\n[layer dense]\nwhere  = ");
    if (starts) buf_printf(out, "i < (first_k_dense_replace | %lld)", (long long)o->moe_layer_start);
    if (ends) buf_printf(out, "%si >= %lld", starts ? " or " : "", (long long)o->moe_layer_end);
    buf_printf(out, "\nffn    = %s, bias = auto\n", s->gated ? "gated" : "plain");
    if (!o->has_shared_expert) return;
    buf_str(out, "block  = ");
    write_block(o, s, false, false, out);
}

/* ---- the types of network */

static void write_encoder(const original *o, const ckpt *c, buf *out)
{
    original_shape s = original_shape_of(o, "enc");
    buf_str(out, "embed  = ");
    write_embed(o, &s, out);
    buf_str(out, "block  = ");
    write_block(o, &s, false, false, out);
    if (s.last_norm) buf_str(out, "final  = norm.f(x)\n");
    if (s.project_out) buf_str(out, "logits = masked ? head(norm.h(linear.h(x))) : 0\nlinear.h = activation = act\n");
    write_norm(o, c, out);
    write_position(o, &s, out);
    write_parts(o, &s, out);
}

static void write_pair(const original *o, const ckpt *c, buf *out)
{
    original_shape enc = original_shape_of(o, "enc"), dec = original_shape_of(o, "dec");
    buf_str(out, "enc.embed = ");
    write_embed(o, &enc, out);
    buf_str(out, "enc.block = ");
    write_block(o, &enc, false, false, out);
    if (enc.last_norm) buf_str(out, "enc.final = norm.f(x)\n");
    buf_str(out, "embed  = ");
    write_embed(o, &dec, out);
    buf_str(out, "block  = ");
    write_block(o, &dec, true, false, out);
    if (dec.last_norm) buf_str(out, "final  = norm.f(x)\n");
    write_norm(o, c, out);
    write_position(o, &dec, out);
    write_parts(o, &dec, out);
    buf_printf(out, "cross  = bias = auto, bias_o = auto\nenc.ffn = %s, ffn_dim = enc_ffn_dim\n",
               enc.gated ? "gated" : "plain");
}

static void write_decoder(const original *o, bool sure, const ckpt *c, buf *out)
{
    original_shape s = original_shape_of(o, "dec");
    bool shared = o->moe && o->has_shared_expert;
    buf_str(out, "embed  = ");
    write_embed(o, &s, out);
    buf_str(out, "block  = ");
    write_block(o, &s, false, shared, out);
    write_final(o, &s, sure, out);
    write_norm(o, c, out);
    write_position(o, &s, out);
    if (s.project_in) buf_str(out, "token  = table, width = narrow\nproject = linear.plain\n");
    if (s.project_out) buf_str(out, "project.out = out = narrow\n");
    write_parts(o, &s, out);
    write_dense_layers(o, &s, out);
}

void import_network(const original *o, bool sure, const ckpt *c, buf *out)
{
    buf_str(out, "\n[network]\n");
    if (o->type == ORIGINAL_ENCODER) write_encoder(o, c, out);
    else if (o->type == ORIGINAL_PAIR) write_pair(o, c, out);
    else write_decoder(o, sure, c, out);
}
