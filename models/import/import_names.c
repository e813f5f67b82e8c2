/* import_names.c - the tensors of a file that the original engine uses for a canonical name.
 *
 * Each network type has a default mapping, which the file's own tensor_name_mapping changes name by name. Source names
 * are tried as they stand and after tensor_name_prefix, as in our [tensors] lines; `.weight` may be left out. The facts
 * are those of BuildTensorNameMap in the original's src/transformer/network_structure.cc. */
#include "models/import/import_state.h"

#include "base/span.h"

#include <string.h>

typedef struct default_name {
    const char *target, *source; /* without .weight: a bias lies beside its weight */
} default_name;

static const default_name decoder_names[] = {
    {"dec.token_embeddings", "embed_tokens"},
    {"output", "lm_head"},
    {"output", "output"},
    {"dec.{i}.self_attn.qkv", "layers.{i}.self_attn.qkv"},
    {"dec.{i}.self_attn.wq", "layers.{i}.self_attn.q_proj"},
    {"dec.{i}.self_attn.wk", "layers.{i}.self_attn.k_proj"},
    {"dec.{i}.self_attn.wv", "layers.{i}.self_attn.v_proj"},
    {"dec.{i}.self_attn.wo", "layers.{i}.self_attn.o_proj"},
    {"dec.{i}.self_attn.wo", "layers.{i}.self_attn.out_proj"},
    {"dec.{i}.feed_forward.w1", "layers.{i}.mlp.gate_proj"},
    {"dec.{i}.feed_forward.w2", "layers.{i}.mlp.down_proj"},
    {"dec.{i}.feed_forward.w3", "layers.{i}.mlp.up_proj"},
    {"dec.{i}.self_attn.pre_norm", "layers.{i}.input_layernorm"},
    {"dec.{i}.feed_forward.pre_norm", "layers.{i}.post_attention_layernorm"},
    {NULL, NULL},
};
static const default_name llama_names[] = {
    {"token_embeddings", "embed_tokens"},
    {"token_embeddings", "tok_embeddings"},
    {"output", "lm_head"},
    {"output", "output"},
    {"dec.output_norm", "norm"},
    {"dec.{i}.self_attn.wq", "layers.{i}.self_attn.q_proj"},
    {"dec.{i}.self_attn.wk", "layers.{i}.self_attn.k_proj"},
    {"dec.{i}.self_attn.wv", "layers.{i}.self_attn.v_proj"},
    {"dec.{i}.self_attn.wo", "layers.{i}.self_attn.o_proj"},
    {"dec.{i}.self_attn.wq", "layers.{i}.attention.wq"},
    {"dec.{i}.self_attn.wk", "layers.{i}.attention.wk"},
    {"dec.{i}.self_attn.wv", "layers.{i}.attention.wv"},
    {"dec.{i}.self_attn.wo", "layers.{i}.attention.wo"},
    {"dec.{i}.self_attn.qkv", "layers.{i}.self_attn.W_pack"},
    {"dec.{i}.feed_forward.w1", "layers.{i}.mlp.gate_proj"},
    {"dec.{i}.feed_forward.w2", "layers.{i}.mlp.down_proj"},
    {"dec.{i}.feed_forward.w3", "layers.{i}.mlp.up_proj"},
    {"dec.{i}.feed_forward.w1", "layers.{i}.feed_forward.w1"},
    {"dec.{i}.feed_forward.w2", "layers.{i}.feed_forward.w2"},
    {"dec.{i}.feed_forward.w3", "layers.{i}.feed_forward.w3"},
    {"dec.{i}.self_attn.pre_norm", "layers.{i}.input_layernorm"},
    {"dec.{i}.self_attn.pre_norm", "layers.{i}.attention_norm"},
    {"dec.{i}.feed_forward.pre_norm", "layers.{i}.post_attention_layernorm"},
    {"dec.{i}.feed_forward.pre_norm", "layers.{i}.ffn_norm"},
    {NULL, NULL},
};
/* the same type in a GGUF file */
static const default_name gguf_names[] = {
    {"token_embeddings", "token_embd"},
    {"output", "output"},
    {"dec.output_norm", "output_norm"},
    {"dec.{i}.self_attn.wq", "{i}.attn_q"},
    {"dec.{i}.self_attn.wk", "{i}.attn_k"},
    {"dec.{i}.self_attn.wv", "{i}.attn_v"},
    {"dec.{i}.self_attn.wo", "{i}.attn_output"},
    {"dec.{i}.feed_forward.w1", "{i}.ffn_gate"},
    {"dec.{i}.feed_forward.w2", "{i}.ffn_down"},
    {"dec.{i}.feed_forward.w3", "{i}.ffn_up"},
    {"dec.{i}.self_attn.pre_norm", "{i}.attn_norm"},
    {"dec.{i}.feed_forward.pre_norm", "{i}.ffn_norm"},
    {NULL, NULL},
};
static const default_name bloom_names[] = {
    {"token_embeddings", "word_embeddings"},
    {"token_embeddings", "tok_embeddings"},
    {"dec.input_norm", "word_embeddings_layernorm"},
    {"dec.input_norm", "norm"},
    {"output", "lm_head"},
    {"output", "output"},
    {"dec.output_norm", "ln_f"},
    {"dec.output_norm", "output_norm"},
    {"dec.{i}.self_attn.qkv", "h.{i}.self_attention.query_key_value"},
    {"dec.{i}.self_attn.qkv", "layers.{i}.attention.query_key_value"},
    {"dec.{i}.self_attn.wo", "h.{i}.self_attention.dense"},
    {"dec.{i}.self_attn.wo", "layers.{i}.attention.wo"},
    {"dec.{i}.feed_forward.w1", "h.{i}.mlp.dense_h_to_4h"},
    {"dec.{i}.feed_forward.w1", "layers.{i}.feed_forward.w1"},
    {"dec.{i}.feed_forward.w2", "h.{i}.mlp.dense_4h_to_h"},
    {"dec.{i}.feed_forward.w2", "layers.{i}.feed_forward.w2"},
    {"dec.{i}.self_attn.pre_norm", "h.{i}.input_layernorm"},
    {"dec.{i}.self_attn.pre_norm", "layers.{i}.attention_norm"},
    {"dec.{i}.feed_forward.pre_norm", "h.{i}.post_attention_layernorm"},
    {"dec.{i}.feed_forward.pre_norm", "layers.{i}.ffn_norm"},
    {NULL, NULL},
};
/* encoder-only and encoder-decoder */
static const default_name pair_names[] = {
    {"token_embeddings", "shared"},
    {"enc.token_embeddings", "encoder.embed_tokens"},
    {"enc.{i}.self_attn.pre_norm", "encoder.layers.{i}.self_attn_layer_norm"},
    {"enc.{i}.self_attn.wq", "encoder.layers.{i}.self_attn.q_proj"},
    {"enc.{i}.self_attn.wk", "encoder.layers.{i}.self_attn.k_proj"},
    {"enc.{i}.self_attn.wv", "encoder.layers.{i}.self_attn.v_proj"},
    {"enc.{i}.self_attn.wo", "encoder.layers.{i}.self_attn.out_proj"},
    {"dec.token_embeddings", "decoder.embed_tokens"},
    {"output", "lm_head"},
    {"output", "output"},
    {"dec.{i}.self_attn.pre_norm", "decoder.layers.{i}.self_attn_layer_norm"},
    {"dec.{i}.self_attn.wq", "decoder.layers.{i}.self_attn.q_proj"},
    {"dec.{i}.self_attn.wk", "decoder.layers.{i}.self_attn.k_proj"},
    {"dec.{i}.self_attn.wv", "decoder.layers.{i}.self_attn.v_proj"},
    {"dec.{i}.self_attn.wo", "decoder.layers.{i}.self_attn.out_proj"},
    {"dec.{i}.cross_attn.pre_norm", "decoder.layers.{i}.encoder_attn_layer_norm"},
    {"dec.{i}.cross_attn.wq", "decoder.layers.{i}.encoder_attn.q_proj"},
    {"dec.{i}.cross_attn.wk", "decoder.layers.{i}.encoder_attn.k_proj"},
    {"dec.{i}.cross_attn.wv", "decoder.layers.{i}.encoder_attn.v_proj"},
    {"dec.{i}.cross_attn.wo", "decoder.layers.{i}.encoder_attn.out_proj"},
    {NULL, NULL},
};

static const default_name *names_of_type(const original *o)
{
    switch (o->type) {
    case ORIGINAL_LLAMA: return strcmp(o->model_file_format, "gguf") == 0 ? gguf_names : llama_names;
    case ORIGINAL_BLOOM: return bloom_names;
    case ORIGINAL_DECODER: return decoder_names;
    default: return pair_names;
    }
}

static size_t stem_length(const char *s) { return strlen(s) - (str_ends(s, ".weight") ? strlen(".weight") : 0); }

/* A weight cannot come from a bias: Gemma's spec has such a line, which never hits. */
static bool rule_hits(const name_rule *r) { return !(str_ends(r->source, ".bias") && str_ends(r->target, ".weight")); }

static void put_name(buf *out, int n, const char *name, size_t length, const char *recipe)
{
    if (!out) return;
    const char *expert = strstr(name, "{j}");
    if (n) buf_str(out, " | ");
    if (expert && expert + 3 <= name + length)
        buf_printf(out, "%.*s{0 .. experts}%.*s", (int)(expert - name), name,
                   (int)(length - (size_t)(expert - name) - 3), expert + 3);
    else buf_add(out, name, length);
    if (*recipe) buf_printf(out, " (%s)", recipe);
}

/* Whether the file's own mapping gives this source another meaning than the default one. */
static bool is_taken(const original *o, const char *source)
{
    size_t n = strlen(source);
    for (size_t i = 0; i < o->n_rule; i++)
        if (rule_hits(&o->rules[i]) && stem_length(o->rules[i].source) == n &&
            memcmp(o->rules[i].source, source, n) == 0)
            return true;
    return false;
}

int original_names(const original *o, const char *canonical, const char *recipe, buf *out, bool *given)
{
    int n = 0;
    for (size_t i = 0; i < o->n_rule; i++) {
        const name_rule *r = &o->rules[i];
        if (strcmp(r->target, canonical) != 0 || !rule_hits(r)) continue;
        put_name(out, n++, r->source, stem_length(r->source), recipe);
    }
    if (given) *given = n > 0;
    size_t stem = stem_length(canonical);
    if (n || stem == strlen(canonical)) return n;
    for (const default_name *d = names_of_type(o); d->target; d++)
        if (strlen(d->target) == stem && memcmp(d->target, canonical, stem) == 0 && !is_taken(o, d->source))
            put_name(out, n++, d->source, strlen(d->source), recipe);
    return n;
}

bool original_maps(const original *o, const char *canonical)
{
    bool given;
    original_names(o, canonical, "", NULL, &given);
    return given;
}

/* Prefixes of source names: the prefix, that of the inner model in a file saved with its head, none. */
static const char *const outer[] = {"", "model.", "transformer."};
enum { N_OUTER = sizeof outer / sizeof *outer };

static bool has_outer(const char *prefix)
{
    for (int i = 1; i < N_OUTER; i++)
        if (strncmp(prefix, outer[i], strlen(outer[i])) == 0) return true;
    return strcmp(prefix, "blk.") == 0;
}

void original_prefixes(const original *o, buf *out)
{
    const char *p = o->tensor_name_prefix;
    int n = 0;
    for (int i = 0; i < (has_outer(p) ? 1 : N_OUTER); i++)
        if (*outer[i] || *p) buf_printf(out, "%s%s%s", n++ ? " | " : "", outer[i], p);
}

void original_has(const original *o, const char *canonical, buf *out)
{
    const char *p = o->tensor_name_prefix;
    int n = 0;
    for (size_t r = 0; r < o->n_rule; r++) {
        const name_rule *rule = &o->rules[r];
        if (strcmp(rule->target, canonical) != 0 || !rule_hits(rule)) continue;
        for (int i = 0; i < (has_outer(p) ? 1 : N_OUTER); i++)
            buf_printf(out, "%shas(\"%s%s%s\")", n++ ? "\n         or " : "", outer[i], p, rule->source);
        if (*p) buf_printf(out, "\n         or has(\"%s\")", rule->source);
    }
    if (!n) buf_str(out, "false");
}
