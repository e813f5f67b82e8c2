/* import_write.c - a model_spec.json of the original engine, read, as the text of a spec of ours.
 *
 * What a layer computes there (ProcessGpuLayer in its src/transformer/inference_worker.cc), with p parallel, s "share input":
 *     a = attn(pre_norm(x)) * scale; unless p or s: a = x + a; res = a
 *     post_norm: a = post_norm(a), res = a unless is_attn_post_as_residual is false
 *     f = ffn(pre_norm(p ? normed x : s ? x : a)) * scale; y = f + res; with p or s: y += x; post_norm: y = post_norm(y)
 * so that residuals and norms come out as two statements, or one where both branches start from x. */
#include "models/import_state.h"

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
    s.embed_norm = names(o, side, "input_norm", NULL);
    s.learned = names(o, side, "pos_embeddings", NULL);
    s.project_in = original_maps(o, "input_transform.weight");
    s.project_out = original_maps(o, "output_transform.weight");
    return s;
}

/* ---- [network] */

static void scaled(buf *out, double factor, const char *name)
{
    if (factor != 1) buf_printf(out, "%s * ", name);
}

static void write_block(const original *o, const original_shape *s, buf *out)
{
    bool beside = o->is_parallel_attn || o->mlp_attn_share_input, one = o->is_parallel_attn && s->pre_attn;
    const char *normed = one ? "a" : s->pre_attn ? "norm.a(x)" : "x", *into = o->is_parallel_attn ? normed : "x";
    bool moved = s->post_attn && !o->is_attn_post_as_residual && !beside;
    buf_str(out, "block  = ");
    if (one) buf_str(out, "a = norm.a(x); ");
    buf_str(out, s->post_attn && !beside && !moved ? "x = norm.c(x + "
                 : s->post_ffn && beside           ? "x = norm.d(x + "
                                                   : "x = x + ");
    if (beside && s->post_attn && o->is_attn_post_as_residual) buf_str(out, "norm.c(");
    scaled(out, o->attn_out_scale, "attn_scale");
    buf_printf(out, "attn(%s)", normed);
    if (beside && s->post_attn && o->is_attn_post_as_residual) buf_str(out, ")");
    if (s->post_attn && !beside && !moved) buf_str(out, ")");
    buf_str(out, beside ? " + " : s->post_ffn ? "; x = norm.d(x + " : "; x = x + ");
    scaled(out, o->ffn_out_scale, "ffn_scale");
    if (moved && s->pre_ffn) buf_str(out, "ffn(norm.b(norm.c(x)))");
    else if (moved || s->pre_ffn) buf_printf(out, "ffn(norm.b(%s))", into);
    else buf_printf(out, "ffn(%s)", into);
    buf_str(out, s->post_ffn ? ")\n" : "\n");
}

static bool sines(const original *o) { return strncmp(o->position_embedding, "sinusoidal", 10) == 0; }

static void write_embed(const original *o, const original_shape *s, buf *out)
{
    const char *token = s->project_in ? "(has_in ? project.in(token) : token)" : "token";
    bool scale = o->has_embedding_linear_norm || (sines(o) && o->linear_norm_before_sinusoidal);
    buf_str(out, "embed  = ");
    if (s->embed_norm) buf_str(out, "norm.e(");
    buf_printf(out, "%s%s%s", token, scale ? " * embed_scale" : "", s->learned || sines(o) ? " + position" : "");
    buf_str(out, s->embed_norm ? ")\n" : "\n");
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

static void write_slots(const original *o, const original_shape *s, const ckpt *c, buf *out)
{
    bool rms = strcmp(o->normalization_function, "rms") == 0, rope = strcmp(o->position_embedding, "rope") == 0;
    bool biased = false;
    for (uint32_t i = 0; rms && c && i < ckpt_count(c); i++) {
        const char *name = ckpt_at(c, i)->name;
        biased |= strstr(name, "norm.bias") != NULL;
    }
    if (biased) buf_str(out, "# the original says rms; norms with a bias are layer norms\n");
    buf_printf(out, "norm   = %s\n", rms && !biased ? "rms" : "layer, bias = auto");
    if (!o->use_self_attn_pre_norm) buf_str(out, "norm.a = weight = false, bias = false\n");
    if (s->learned) buf_printf(out, "position = learned, offset = %d\n", (int)o->pos_embedding_offset);
    if (s->project_in) buf_str(out, "token  = table, width = narrow\nproject = linear.plain\n");
    if (s->project_out) buf_str(out, "project.out = out = narrow\n");
    buf_str(out, "attn   = gqa, bias = auto, bias_o = auto");
    buf_printf(out, ", rope = %s", !rope ? "none" : o->qk_column_order == 2 ? "neox" : "interleaved");
    if (strcmp(o->position_embedding, "alibi") == 0) buf_str(out, ", alibi = true");
    buf_printf(out, "\nffn    = %s, bias = auto\n", s->gated ? "gated" : "plain");
}

/* ---- [config] */

/* Their reader's names for the same number, beside those of base = llama; files that carry their own numbers need none. */
static const char *const aliases[][2] = {
    {"dim", "hidden_size | d_model | n_embed | n_embd"},
    {"layers", "num_hidden_layers | n_layer | num_layers | decoder_layers"},
    {"vocab", "padded_vocab_size | vocab_size"},
    {"trained", "max_position_embeddings | seq_length | n_positions"},
    {"heads", "num_attention_heads | n_head | num_heads | decoder_attention_heads"},
    {"kv_heads", "(multi_query | false) and not (new_decoder_architecture | false) ? 1\n"
                 "         : num_key_value_heads | num_kv_heads | n_head_kv | multi_query_group_num | heads"},
    {"head_dim", "head_dim | kv_channels | dim / heads"},
    {"ffn_dim", "intermediate_size | ffn_hidden_size | ffn_dim | n_inner | 4 * dim"},
    {"eps", "rms_norm_eps | layer_norm_epsilon | layer_norm_eps | layernorm_epsilon | norm_epsilon | 1e-5"},
};

static void write_activation(const original *o, const original_shape *s, buf *out)
{
    const char *act = o->activation_function;
    if (strcmp(act, "glu_silu") == 0) act = "silu";
    if (strcmp(act, "gelu") != 0) {
        buf_printf(out, "act      = \"%s\"\n", act);
        return;
    }
    buf_str(out, "# the original has one GELU, by tanh\n");
    if (s->gated) buf_str(out, "act_name = hidden_activation {gelu: gelu.tanh} | \"gelu.tanh\"\n");
    else
        buf_str(out, "act_name = hidden_act | activation_function | activation | (given(parallel_attn) ? \"gelu\" : "
                     "\"gelu.tanh\")\n");
}

static bool fused(const original *o)
{
    return original_names(o, "dec.{i}.self_attn.qkv.weight", "", NULL, NULL) &&
           !original_maps(o, "dec.{i}.self_attn.wq.weight");
}

/* Numbers that say more than the spec's rounded ones where the configuration has them (MiniCPM). */
static void write_scales(const original *o, buf *out)
{
    char given[40];
    snprintf(given, sizeof given, "%.9g", o->embedding_linear_scale);
    if (o->has_embedding_linear_norm || (sines(o) && o->linear_norm_before_sinusoidal))
        buf_printf(out, "embed_scale = scale_emb | %s\n", o->embedding_linear_scale != 0 ? given : "sqrt(dim)");
    if (o->attn_out_scale != 1)
        buf_printf(out, "attn_scale = given(scale_depth) ? scale_depth / sqrt(layers) : %.9g\n", o->attn_out_scale);
    if (o->ffn_out_scale != 1)
        buf_printf(out, "ffn_scale = given(scale_depth) ? scale_depth / sqrt(layers) : %.9g\n", o->ffn_out_scale);
    if (o->out_scale != 1)
        buf_printf(out,
                   "# behind the last norm: in front of it, where the original scales, the norm undoes it\n"
                   "out_scale = given(dim_model_base) ? dim_model_base / dim : %.9g\n",
                   o->out_scale);
}

static void write_rope(const original *o, buf *out)
{
    if (strcmp(o->position_embedding, "rope") != 0) return;
    if (o->rope_theta > 0 && o->rope_theta != 10000)
        buf_printf(out, "theta    = scaling.rope_theta | rope_theta | %.9g\n", o->rope_theta);
    if (o->rope_dim > 0) buf_printf(out, "rope_dims = %d\n", (int)o->rope_dim);
    else
        buf_printf(out,
                   "rope_dims = floor(head_dim * (scaling.partial_rotary_factor | partial_rotary_factor | %.9g))\n",
                   o->partial_rotary_factor);
    buf_str(out, "# what the original leaves out of a model that has it\n"
                 "window   = ((layer_types[i] == \"sliding_attention\") | (use_sliding_window | true) and i >= "
                 "(max_window_layers | 0))\n"
                 "           ? sliding_window | 0 : 0\n");
}

static bool carries_numbers(const original *o) { return strcmp(o->model_file_format, "gguf") == 0; }

static void write_config(const original *o, const original_shape *s, bool sure, buf *out)
{
    int64_t vocab = o->padded_vocab_size > o->vocab_size ? o->padded_vocab_size : o->vocab_size;
    if (vocab < o->input_vocab_size) vocab = o->input_vocab_size;
    buf_str(out, "\n[config]\n");
    for (size_t i = 0; !carries_numbers(o) && i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i][0], "vocab") != 0 || vocab <= 0)
            buf_printf(out, "%-8s = %s\n", aliases[i][0], aliases[i][1]);
    if (vocab > 0) buf_printf(out, "vocab    = %lld\n", (long long)vocab);
    write_activation(o, s, out);
    if (!carries_numbers(o)) write_rope(o, out);
    write_scales(o, out);
    buf_str(out, "tied     = auto\n");
    if (fused(o) && !o->qkv_format) buf_str(out, "group    = heads / kv_heads * head_dim\n");
    if (fused(o) && o->qkv_format) buf_str(out, "q_rows   = heads * head_dim\nkv_rows  = kv_heads * head_dim\n");
    if (s->project_in || s->project_out) buf_str(out, "narrow   = word_embed_proj_dim | dim\n");
    static const char *const maybe[][2] = {{"has_in", "input_transform.weight"},
                                           {"has_out", "output_transform.weight"}};
    for (int i = 0; i < 2; i++) {
        if (!(i ? s->project_out : s->project_in)) continue;
        buf_printf(out, "%-8s = ", maybe[i][0]);
        original_has(o, maybe[i][1], out);
        buf_str(out, "\n");
    }
    if (sure) return;
    buf_str(out, "has_norm = ");
    original_has(o, "dec.output_norm.weight", out);
    buf_str(out, "\n");
}

/* ---- what cannot be said */

static int refuse(const original *o, const char *key, const char *value, const char *why, err *e)
{
    return err_set(e, ERR_SPEC, "%s: %s = %s: %s", o->what, key, value, why);
}

static int check_expressible(const original *o, err *e)
{
    const char *format = o->model_file_format, *act = o->activation_function;
    static const char *const readable[] = {"pickle", "safetensors", "gguf", "llama2.c"};
    bool known = false;
    for (size_t i = 0; i < sizeof readable / sizeof *readable; i++) known |= strcmp(format, readable[i]) == 0;
    if (strcmp(format, "ggml") == 0)
        return refuse(o, "model_file_format", format, "the container before GGUF; convert the file to GGUF", e);
    if (!known)
        return refuse(o, "model_file_format", *format ? format : "(missing)", "no reader for it, there or here", e);
    if (strcmp(o->normalization_function, "linear") == 0)
        return refuse(o, "normalization_function", "linear",
                      "multiplies by sqrt(d) and norms nothing; write the formulas by hand", e);
    if (strcmp(act, "elu") == 0 || strcmp(act, "sigmoid") == 0)
        return refuse(o, "activation_function", act, "the original names it but cannot run it, and no model uses it",
                      e);
    if (*o->token_remap_file)
        return refuse(o, "token_remap_file", o->token_remap_file,
                      "a vocabulary with ids renumbered by a pickle: renumber the tokenizer's file", e);
    if (o->output_vocab_size > 0) return refuse(o, "output_vocab_size", "…", "a second vocabulary for the output", e);
    if (strcmp(format, "llama2.c") == 0 && o->type != ORIGINAL_LLAMA)
        return refuse(o, "type", o->network, "llama2.c files hold Llama", e);
    if (o->type == ORIGINAL_PAIR || o->type == ORIGINAL_ENCODER)
        return refuse(o, "type", o->network, "networks with an encoder are not built here yet", e);
    if (o->moe) return refuse(o, "type", o->network, "mixtures of experts are not built here yet", e);
    return OK;
}

static void write_model(const original *o, const import_place *p, buf *out)
{
    bool own = strcmp(o->model_file_format, "llama2.c") == 0;
    buf_printf(out, "[model]\nbase = llama\n");
    if (p->name) buf_printf(out, "name = %s\n", p->name);
    if (p->model) buf_printf(out, "path = %s\n", p->model);
    else if (*o->model_file)
        buf_printf(out, "path = %s%s%s\n", *o->model_file == '/' ? "" : p->dir, *o->model_file == '/' ? "" : "/",
                   o->model_file);
    else buf_printf(out, "path = %s\n", p->dir);
    if (!p->model) buf_printf(out, "format = %s\n", own ? "llama2c" : o->model_file_format);
    if (*o->config_file && strcmp(o->config_file, "config.json") != 0)
        buf_printf(out, "config = %s/%s\n", p->dir, o->config_file);
    if (own && *o->tokenizer) buf_printf(out, "\n[tokenizer]\npath = %s/%s\n", p->dir, o->tokenizer);
}

/* Keys that have no counterpart because nothing depends on them here. */
static void write_remarks(const original *o, const char *more, buf *out)
{
    buf_str(out, more);
    buf_str(out, buf_cstr((buf *)&o->remarks));
    if (o->kq_scale != 1)
        buf_printf(out,
                   "# left out: kq_scale %.9g, which keeps half-precision scores in range; scores are float32 here\n",
                   o->kq_scale);
    if (strncmp(o->tokenization_algorithm, "fmm", 3) == 0 || strcmp(o->tokenization_algorithm, "ulm") == 0)
        buf_printf(out, "# left out: tokenization_algorithm %s; the tokenizer's own file says what it is\n",
                   o->tokenization_algorithm);
    const char *const tokens[][2] = {{"unk_token", o->unk_token},
                                     {"pad_token", o->pad_token},
                                     {"bos_token", o->bos_token},
                                     {"eos_token", o->eos_token}};
    for (int i = 0; i < 4; i++)
        if (*tokens[i][1])
            buf_printf(out,
                       "# left out: %s \"%.60s\"; [generate] bos and eos take ids (inferflow tokenize gives them)\n",
                       tokens[i][0], tokens[i][1]);
}

static int write_all(const original *o, const import_place *p, buf *out, err *e)
{
    original_shape s = original_shape_of(o, "dec");
    bool sure = !(s.post_attn && s.post_ffn);
    int rc = OK;
    write_remarks(o, p->remarks, out);
    write_model(o, p, out);
    if (strcmp(o->model_file_format, "llama2.c") != 0) {
        write_config(o, &s, sure, out);
        buf_str(out, "\n[network]\n");
        write_embed(o, &s, out);
        write_block(o, &s, out);
        write_final(o, &s, sure, out);
        write_slots(o, &s, p->weights, out);
        rc = import_tensors(o, out, e);
    }
    if (*p->generate) buf_printf(out, "\n[generate]\n%s", p->generate);
    buf_str(out, p->settings);
    if (!rc && (out->bad || o->remarks.bad)) rc = err_set(e, ERR_MEMORY, "out of memory");
    return rc;
}

int import_model_spec(span text, const char *what, const import_place *place, buf *out, err *e)
{
    original o;
    int rc = original_read(&o, text, what, e);
    if (!rc) rc = check_expressible(&o, e);
    if (!rc) rc = write_all(&o, place, out, e);
    original_free(&o);
    return rc;
}
