"""What GGUF does to experts and to latent attention: stacks of gate, up and down; keys and values by head; their
keys."""
import gguf
import numpy as np


def halves(name, w):
    """Gate and up of a fused tensor, all gate first in each matrix."""
    gate, up = np.split(w, 2, axis=w.ndim - 2)
    return [(name.replace("gate_up_proj", "gate_proj"), gate), (name.replace("gate_up_proj", "up_proj"), up)]


def interleaved(name, w):
    """The same where columns alternate and matrices are stored [in, out] (gpt-oss)."""
    parts = [(name.replace("gate_up_proj", part), w[..., i::2]) for i, part in enumerate(("gate_proj", "up_proj"))]
    return parts if name.endswith("_bias") else [(n, p.swapaxes(1, 2)) for n, p in parts]


def experts(change):
    """Splits what transformers keeps fused, under the names of the map; other tensors by `change`."""
    def split(name, w, c):
        turned = c.model_type in ("gpt_oss", "llama4_text")
        if ".experts.gate_up_proj" in name and c.model_type == "llama4_text":
            return [named(n, p) for n, p in halves(name, w.swapaxes(1, 2))]
        if ".experts.gate_up_proj" in name:
            return [named(n, p) for n, p in (interleaved if turned else halves)(name, w)]
        if ".experts.down_proj" in name:
            return [named(name, w.swapaxes(1, 2) if turned and w.ndim == 3 else w)]
        if "shared_mlp.input_linear" in name:
            return halves(name.replace("shared_mlp.input_linear", "mlp.shared_experts.gate_up_proj"), w)
        if "kv_b_proj" in name:
            return by_head(name, w, c)
        name = name.replace("shared_mlp.output_linear", "mlp.shared_experts.down_proj")
        name = name.replace("block_sparse_moe.router.weight", "block_sparse_moe.router.layer.weight")
        name = name.replace("e_score_correction_bias", "e_score_correction.bias")
        name = name.replace("expert_bias", "expert_bias.bias")
        if "shared_expert_gate" in name:
            w = w[0]        # converters leave axes of one out
        return [(name if name.endswith((".weight", ".bias")) else name + ".weight", change(name, w, c))]
    return split


def named(name, w):
    """`mlp.experts.up_proj_bias` as `mlp.experts.up_proj.bias`, and what has no ending as a weight."""
    name = name.replace("block_sparse_moe.experts", "mlp.experts")
    return (name[:-5] + ".bias", w) if name.endswith("_bias") else (name + ".weight", w)


def by_head(name, w, c):
    """kv_b_proj as the matrices of the absorbed form: keys transposed, both [heads, ...]."""
    heads = w.reshape(c.num_attention_heads, -1, w.shape[1])
    keys, values = heads[:, :c.qk_nope_head_dim], heads[:, c.qk_nope_head_dim:]
    return [(name.replace("kv_b_proj", "k_b_proj"), keys.swapaxes(1, 2)),
            (name.replace("kv_b_proj", "v_b_proj"), values)]


def first(c, *names):
    """The first configuration value that exists and is not None."""
    return next((v for v in (getattr(c, n, None) for n in names) if v is not None), None)


def write_expert_keys(w, c):
    """Keys of a configuration that has experts."""
    count = first(c, "n_routed_experts", "num_local_experts", "num_experts")
    if count is None:
        return
    w.add_expert_count(count)
    w.add_expert_used_count(c.moe_topk if c.model_type == "hunyuan_v1_moe" else c.num_experts_per_tok)
    if first(c, "moe_intermediate_size"):
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
    elif c.model_type == "gpt_oss":
        w.add_expert_feed_forward_length(c.intermediate_size)
        w.add_sliding_window(c.sliding_window)
    shared = first(c, "shared_expert_intermediate_size", "shared_intermediate_size")
    if shared:
        w.add_expert_shared_feed_forward_length(shared)
    if first(c, "n_shared_experts"):
        w.add_expert_shared_count(c.n_shared_experts)
        w.add_leading_dense_block_count(c.first_k_dense_replace)
        w.add_expert_weights_scale(c.routed_scaling_factor)
        w.add_expert_weights_norm(bool(c.norm_topk_prob))
        sigmoid = c.model_type != "deepseek_v2"
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if sigmoid else gguf.ExpertGatingFuncType.SOFTMAX)
    if c.model_type in ("minimax_m2", "llama4_text", "hunyuan_v1_moe"):
        w.add_expert_feed_forward_length(c.intermediate_size)
    if c.model_type in ("minimax_m2", "afmoe", "exaone_moe"):
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if c.model_type == "llama4_text":
        w.add_interleave_moe_layer_step(c.interleave_moe_layer_step)
    if c.model_type == "hunyuan_v1_moe":
        w.add_expert_shared_count(1)
    if c.model_type in ("afmoe", "exaone_moe"):
        w.add_expert_shared_count(c.num_shared_experts)
        w.add_leading_dense_block_count(first(c, "num_dense_layers", "first_k_dense_replace"))
        w.add_expert_weights_scale(first(c, "route_scale", "routed_scaling_factor"))
        w.add_expert_weights_norm(bool(first(c, "route_norm", "norm_topk_prob")))
    if c.model_type == "lfm2_moe":
        w.add_leading_dense_block_count(c.num_dense_layers)
        w.add_expert_weights_scale(c.routed_scaling_factor)
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if (first(c, "n_group") or 1) > 1:
        w.add_expert_group_count(c.n_group)
        w.add_expert_group_used_count(c.topk_group)


def write_latent_keys(w, c):
    """Keys of latent attention, as files of the absorbed form have them."""
    if first(c, "kv_lora_rank") is None:
        return
    if c.q_lora_rank is not None:
        w.add_q_lora_rank(c.q_lora_rank)
    w.add_kv_lora_rank(c.kv_lora_rank)
    w.add_key_length(c.kv_lora_rank + c.qk_rope_head_dim)
    w.add_value_length(c.kv_lora_rank)
    w.add_key_length_mla(c.qk_nope_head_dim + c.qk_rope_head_dim)
    w.add_value_length_mla(c.v_head_dim)
    rope = c.rope_parameters
    if rope.get("mscale_all_dim"):
        w.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])


def buffers_of(model):
    """Vectors that pick experts, and factors of layers: saved, but no parameters."""
    return {n: p for n, p in model.named_buffers() if n.endswith(("_bias", "layer_scalar"))}
