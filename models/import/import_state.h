/* import_state.h - a model_spec.json of the original engine, read, and the functions that its translation shares. */
#pragma once
#include "base/arena.h"
#include "io/ckpt.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum { ORIGINAL_DECODER, ORIGINAL_LLAMA, ORIGINAL_BLOOM, ORIGINAL_ENCODER, ORIGINAL_PAIR } original_type;

/* A line of a tensor_name_mapping: the file's name to the canonical one, both with {i} (layer) and {j} (expert). */
typedef struct name_rule {
    const char *source, *target;
} name_rule;

/* A member for each key that a model file of the original may have. */
typedef struct original {
    const char *what; /* names the file in messages */
    arena mem;
    original_type type;
    bool moe;
    /* keys of the file, under their names there */
    const char *config_file, *model_file_format, *token_remap_file, *unk_token, *pad_token, *bos_token, *eos_token,
        *tokenizer_file, *tokenization_algorithm, *generation_config;
    int64_t vocab_size, input_vocab_size, padded_vocab_size, output_vocab_size, token_bytes_mapping;
    const char *model_file, *tokenizer; /* first of model_files, of tokenizer_files */
    /* keys of network_structure */
    const char *network, *normalization_function, *activation_function, *position_embedding, *tensor_name_prefix;
    int64_t pos_embedding_offset, rope_dim, qk_column_order, qkv_format, expert_count, using_expert_count, moe_top_k,
        moe_layer_start, moe_layer_end;
    double rope_theta, partial_rotary_factor, kq_scale, attn_pre_norm_base, ffn_pre_norm_base, output_norm_base,
        embedding_linear_scale, attn_out_scale, ffn_out_scale, out_scale;
    bool normalize_lm_head, use_self_attn_pre_norm, is_attn_post_as_residual, is_parallel_attn, mlp_attn_share_input,
        has_embedding_linear_norm, linear_norm_before_sinusoidal, moe_norm_top_k_prob, has_shared_expert;
    name_rule *rules;
    size_t n_rule, cap_rule;
    buf remarks; /* comment lines: what was left out and why */
} original;

/* Reads and checks the file (import_read.c). The caller frees with original_free, after an error too. */
int original_read(original *o, span text, const char *what, err *e);
void original_free(original *o);

/* ---- import_names.c */

/* Writes the possible names of a canonical one in our notation: alternatives split by " | ", each followed by `recipe`
 * (may be ""). A name of the file's own mapping hides those of the type's default mapping. Returns their number;
 * *given: they are the file's own. out may be NULL. */
int original_names(const original *o, const char *canonical, const char *recipe, buf *out, bool *given);
bool original_maps(const original *o, const char *canonical); /* by the file's own mapping */
/* Appends `has("…") or has("…")`: whether the checkpoint has a tensor for a canonical name that is in no layer. */
void original_has(const original *o, const char *canonical, buf *out);
/* The prefixes that names may have in front, as a [tensors] prefix line says them; "" when there is none. */
void original_prefixes(const original *o, buf *out);

/* ---- import_tensors.c: the [tensors] section */
int import_tensors(const original *o, buf *out, err *e);

/* The structure by type, flags and mapped names together. */
typedef struct original_shape {
    bool gated, fused_gate; /* feed-forward */
    bool pre_attn, post_attn, pre_ffn, post_ffn;
    bool pre_cross, embed_norm, last_norm, learned, types, project_in, project_out;
} original_shape;
bool original_has_sines(const original *o); /* positions are computed */
/* [network] (import_network.c) and the [layer] sections after it. `sure`: there is a last norm; c may be NULL. */
void import_network(const original *o, bool sure, const ckpt *c, buf *out);
original_shape original_shape_of(const original *o, const char *side);
