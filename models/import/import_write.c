/* import_write.c - a model_spec.json of the original engine as the text of a spec: [model], [config], and errors for
 * what cannot be expressed. Decoders start from base = llama, encoders from bert, pairs from bart, for their names of
 * config keys. */
#include "models/import/import_write.h"

#include "models/import/import_state.h"

#include <stdio.h>
#include <string.h>

/* ---- [config] */

/* Their names for the same number, beside those of base = llama; files that carry their own numbers need none. */
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

/* Config keys whose numbers are exact where the spec's are rounded (MiniCPM). */
static void write_scales(const original *o, buf *out)
{
    char given[40];
    snprintf(given, sizeof given, "%.9g", o->embedding_linear_scale);
    if (o->has_embedding_linear_norm || (original_has_sines(o) && o->linear_norm_before_sinusoidal))
        buf_printf(out, "embed_scale = scale_emb | %s\n", o->embedding_linear_scale != 0 ? given : "sqrt(dim)");
    if (o->attn_out_scale != 1)
        buf_printf(out, "attn_scale = given(scale_depth) ? scale_depth / sqrt(layers) : %.9g\n", o->attn_out_scale);
    if (o->ffn_out_scale != 1)
        buf_printf(out, "ffn_scale = given(scale_depth) ? scale_depth / sqrt(layers) : %.9g\n", o->ffn_out_scale);
    if (o->out_scale != 1)
        buf_printf(out,
                   "# applied after the last norm: the original scales before it, which the norm undoes\n"
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
    buf_str(out, "# windows of the checkpoint, which the original ignores\n"
                 "window   = ((layer_types[i] == \"sliding_attention\") | (use_sliding_window | true) and i >= "
                 "(max_window_layers | 0))\n"
                 "           ? sliding_window | 0 : 0\n");
}

static bool carries_numbers(const original *o) { return strcmp(o->model_file_format, "gguf") == 0; }

/* The experts of a mixture. Where the original uses only some of them, tensors would be left unused. */
static void write_experts(const original *o, buf *out)
{
    if (!o->moe) return;
    buf_printf(out, "experts  = num_local_experts | n_routed_experts | num_experts | %lld\n",
               (long long)o->expert_count);
    buf_printf(out, "used     = num_experts_per_tok | %lld\n", (long long)o->moe_top_k);
    buf_str(out, "expert_dim = moe_intermediate_size | ffn_dim\n");
    if (o->has_shared_expert) buf_str(out, "shared_dim = (n_shared_experts | 1) * expert_dim\n");
}

/* bart's and bert's names say all but these. */
static void write_encoder_config(const original *o, buf *out)
{
    if (strcmp(o->activation_function, "gelu") != 0) buf_printf(out, "act      = \"%s\"\n", o->activation_function);
    if (o->type == ORIGINAL_ENCODER) {
        buf_str(out, "masked   = ");
        original_has(o, "output_transform.weight", out);
        buf_byte(out, '\n');
    }
    if (o->has_embedding_linear_norm || (original_has_sines(o) && o->linear_norm_before_sinusoidal))
        buf_str(out, "embed_scale = (scale_embedding | true) ? sqrt(dim) : 1\n");
}

static void write_config(const original *o, const original_shape *s, bool sure, buf *out)
{
    int64_t vocab = o->padded_vocab_size > o->vocab_size ? o->padded_vocab_size : o->vocab_size;
    if (vocab < o->input_vocab_size) vocab = o->input_vocab_size;
    buf_str(out, "\n[config]\n");
    if (o->type == ORIGINAL_ENCODER || o->type == ORIGINAL_PAIR) {
        write_encoder_config(o, out);
        return;
    }
    for (size_t i = 0; !carries_numbers(o) && i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i][0], "vocab") != 0 || vocab <= 0)
            buf_printf(out, "%-8s = %s\n", aliases[i][0], aliases[i][1]);
    if (vocab > 0) buf_printf(out, "vocab    = %lld\n", (long long)vocab);
    write_activation(o, s, out);
    if (!carries_numbers(o)) write_rope(o, out);
    write_scales(o, out);
    write_experts(o, out);
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

static int refuse_key(const original *o, const char *key, const char *value, const char *why, err *e)
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
        return refuse_key(o, "model_file_format", format, "the container before GGUF; convert the file to GGUF", e);
    if (!known)
        return refuse_key(o, "model_file_format", *format ? format : "(missing)", "no reader for it, there or here", e);
    if (strcmp(o->normalization_function, "linear") == 0)
        return refuse_key(o, "normalization_function", "linear",
                          "multiplies by sqrt(d) and norms nothing; write the formulas by hand", e);
    if (strcmp(act, "elu") == 0 || strcmp(act, "sigmoid") == 0)
        return refuse_key(o, "activation_function", act,
                          "the original names it but cannot run it, and no model uses it", e);
    if (*o->token_remap_file)
        return refuse_key(o, "token_remap_file", o->token_remap_file,
                          "a vocabulary with ids renumbered by a pickle: renumber the tokenizer's file", e);
    if (o->output_vocab_size > 0)
        return refuse_key(o, "output_vocab_size", "…", "a second vocabulary for the output", e);
    if (strcmp(format, "llama2.c") == 0 && o->type != ORIGINAL_LLAMA)
        return refuse_key(o, "type", o->network, "llama2.c files hold Llama", e);
    bool encodes = o->type == ORIGINAL_PAIR || o->type == ORIGINAL_ENCODER;
    if (encodes && strncmp(format, "gguf", 4) == 0)
        return refuse_key(o, "model_file_format", format, "the original reads no encoder from GGUF", e);
    if (encodes && (o->is_parallel_attn || o->mlp_attn_share_input))
        return refuse_key(o, "is_parallel_attn", "true", "no encoder of the original has it", e);
    static const char *const fused_parts[] = {"enc.{i}.self_attn.qkv.weight", "dec.{i}.self_attn.qkv.weight",
                                              "dec.{i}.cross_attn.qkv.weight"};
    for (int i = 0; encodes && i < 3; i++)
        if (original_maps(o, fused_parts[i]))
            return refuse_key(o, "tensor_name_mapping", fused_parts[i],
                              "q, k and v in one tensor, beside an encoder; no model has it", e);
    if (!o->moe) return OK;
    if (o->expert_count < 1 || o->moe_top_k < 1 || o->moe_top_k > o->expert_count)
        return refuse_key(o, "expert_count, moe_top_k", "…", "a mixture needs both, and no more used than there are",
                          e);
    if (o->using_expert_count && o->using_expert_count < o->expert_count)
        return refuse_key(o, "using_expert_count", "less than expert_count",
                          "a model without some of its experts is another model", e);
    if (o->has_shared_expert && (o->is_parallel_attn || o->mlp_attn_share_input))
        return refuse_key(o, "has_shared_expert", "true", "with attention and experts side by side; no model has both",
                          e);
    return OK;
}

static void write_model(const original *o, const import_place *p, buf *out)
{
    bool own = strcmp(o->model_file_format, "llama2.c") == 0;
    buf_printf(out, "[model]\nbase = %s\n",
               o->type == ORIGINAL_ENCODER ? "bert"
               : o->type == ORIGINAL_PAIR  ? "bart"
                                           : "llama");
    buf_str(out, "# what the file says of the network stands here\nunread = *\n");
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
                       "# left out: %s \"%.60s\"; [generate] bos and eos take ids (inferflow tokenize prints them)\n",
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
        import_network(o, sure, p->weights, out);
        rc = import_tensors(o, out, e);
    }
    if (*p->generate) buf_printf(out, "\n[generate]\n%s", p->generate);
    buf_str(out, p->settings);
    if (!rc && (out->bad || o->remarks.bad)) rc = err_memory(e, NULL);
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
