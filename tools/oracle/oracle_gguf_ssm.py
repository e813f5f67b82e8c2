"""What GGUF does to Mamba 2: rates in place of their logarithms, vectors with an axis of one, norms by groups; factors
of Falcon-H1 inside its tensors; their keys."""
import re

import numpy as np

from oracle_gguf_moe import experts, first

ARCHS = ("mamba2", "granitehybrid", "nemotron_h", "nemotron_h_moe", "falcon-h1")


def ssm(change):
    """What all of these files do to a mixer; other tensors by `change`."""
    def stored(name, w, c):
        if c.model_type == "nemotron_h":
            name = re.sub(r"^model\.", "backbone.", name)
        if name.endswith(".conv1d.weight"):
            return [(name, w[:, 0])]
        if name.endswith(".A_log"):
            return [(name, -np.exp(w)[:, None])]
        if name.endswith(".D"):
            return [(name, w[:, None])]
        if name.endswith((".mamba.norm.weight", ".mixer.norm.weight")):
            return [(name, w.reshape(first(c, "n_groups", "mamba_n_groups"), -1))]
        if name.endswith(".dt_bias"):
            return [(name.replace(".dt_bias", ".dt_proj.bias"), w)]
        made = change(name, w, c)
        return made if isinstance(made, list) else [(name, made)]
    return stored


def named_experts(name, w, c):
    """Nemotron-H's experts under the names of the map."""
    name = re.sub(r"^backbone\.(.*)\.mixer\.experts\.(.*)$", r"model.\1.mlp.experts.\2.weight", name)
    return [(name.replace("e_score_correction_bias", "e_score_correction.bias"), w)]


def shared_alone(change):
    """Granite 4 without experts: its part for all rows is a feed-forward part."""
    def stored(name, w, c):
        made = experts(change)(name, w, c)
        return [(n.replace(".mlp.shared_experts.", ".mlp."), x) for n, x in made]
    return stored


def multiplied(name, w, c):
    """Falcon-H1: each factor of its configuration is in a tensor."""
    made = ssm(lambda n, x, _: [(n, x)])(name, w, c)
    by = {"down_proj.": c.mlp_multipliers[1], "gate_proj.": c.mlp_multipliers[0],
          "k_proj.": c.key_multiplier * c.attention_in_multiplier, "q_proj.": c.attention_in_multiplier,
          "v_proj.": c.attention_in_multiplier, "o_proj.": c.attention_out_multiplier,
          "mamba.out_proj.": c.ssm_out_multiplier, "lm_head.": c.lm_head_multiplier,
          "embed_tokens.": c.embedding_multiplier, "mamba.in_proj.": in_factors(c)}
    factor = next((f for part, f in by.items() if re.search(rf"(^|\.){re.escape(part)}", name)), 1.0)
    return [(n, x * factor) for n, x in made]


def in_factors(c):
    """Of the rows of in_proj: gate, x, b, c, steps."""
    shared = c.mamba_n_groups * c.mamba_d_state
    rows = (c.mamba_d_ssm, c.mamba_d_ssm, shared, shared, c.mamba_n_heads)
    return np.repeat(np.array(c.ssm_multipliers) * c.ssm_in_multiplier, rows)[:, None]


def write_ssm_keys(w, model, arch):
    """All keys of such a file but those of experts and of the family (oracle_gguf.py)."""
    c = model.config
    heads = first(c, "mamba_n_heads", "mamba_num_heads", "num_heads")
    width = first(c, "mamba_d_head", "mamba_head_dim", "head_dim")
    attends = [kind == "full_attention" for kind in c.layer_types]
    w.add_embedding_length(c.hidden_size)
    w.add_block_count(c.num_hidden_layers)
    w.add_vocab_size(c.vocab_size)
    w.add_context_length(first(c, "max_position_embeddings") or 2**20)
    w.add_layer_norm_rms_eps(first(c, "rms_norm_eps", "layer_norm_epsilon"))
    w.add_ssm_conv_kernel(first(c, "mamba_d_conv", "conv_kernel"))
    w.add_ssm_state_size(first(c, "mamba_d_state", "ssm_state_size", "state_size"))
    w.add_ssm_group_count(first(c, "mamba_n_groups", "n_groups"))
    w.add_ssm_inner_size(heads * width)
    w.add_ssm_time_step_rank(heads)
    w.add_head_count(first(c, "num_attention_heads") or 0)
    if arch == "mamba2":
        w.add_feed_forward_length(0)
        return
    w.add_head_count_kv(c.num_key_value_heads if arch == "falcon-h1" else [c.num_key_value_heads * x for x in attends])
    if arch != "granitehybrid" or first(c, "head_dim"):
        w.add_key_length(c.head_dim)
        w.add_value_length(c.head_dim)
    if arch.startswith("nemotron"):
        w.add_feed_forward_length([dict(mlp=c.intermediate_size, moe=c.moe_intermediate_size).get(kind, 0)
                                   for kind in c.layer_types])
    else:
        w.add_feed_forward_length(c.intermediate_size)
        w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    if c.model_type == "bamba":     # the rows of its heads lie as if they rotated whole
        w.add_rope_dimension_count(int(c.head_dim * c.rope_parameters["partial_rotary_factor"]))
        w.add_rope_scaling_finetuned(True)
    elif arch == "granitehybrid":
        w.add_rope_dimension_count(c.hidden_size // c.num_attention_heads)
        w.add_rope_scaling_finetuned(c.position_embedding_type == "rope")
    if arch == "nemotron_h_moe":
        write_pick_keys(w, c)


def write_pick_keys(w, c):
    w.add_expert_count(c.n_routed_experts)
    w.add_expert_used_count(c.num_experts_per_tok)
    w.add_expert_feed_forward_length(c.moe_intermediate_size)
    w.add_expert_shared_feed_forward_length(c.moe_shared_expert_intermediate_size)
    w.add_expert_shared_count(c.n_shared_experts)
    w.add_expert_weights_norm(c.norm_topk_prob)
    w.add_expert_weights_scale(c.routed_scaling_factor)
    w.add_expert_group_count(c.n_group)
    if c.moe_latent_size is not None:
        w.add_moe_latent_size(c.moe_latent_size)
