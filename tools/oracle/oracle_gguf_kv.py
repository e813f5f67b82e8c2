"""What GGUF does to Gemma 3n and 4: numbers by layer, names of trained factors, divisors of frequencies."""
import numpy as np
import torch


def factors(name, w, c):
    """Tensors that are no matrices of a Linear have other names; the fused gate and up of experts stay one tensor."""
    if name.endswith("router.scale"):
        return [(name, w)]
    return [(name if name.endswith((".weight", ".bias")) else name + ".weight", w)]


def own_name(name):
    """The name of a tensor that the package's map does not know, or None."""
    layer = name.split(".")[2] if ".layers." in name else ""
    return {"router.scale": f"blk.{layer}.ffn_gate_inp.scale",
            "router.per_expert_scale.weight": f"blk.{layer}.ffn_down_exps.scale"}.get(".".join(name.split(".")[3:]))


def stacked_streams(tensors):
    """The projections between the streams of AltUp lie one below the other in one tensor."""
    for name in ("model.altup_projections", "model.altup_unembed_projections"):
        if name + ".0.weight" in tensors:
            tensors[name + ".weight"] = np.stack([tensors.pop(f"{name}.{k}.weight") for k in range(3)])


def write_gemma3n(w, c):
    local = [kind == "sliding_attention" for kind in c.layer_types]
    w.add_shared_kv_layers(c.num_kv_shared_layers)
    w.add_embedding_length_per_layer_input(c.hidden_size_per_layer_input)
    w.add_altup_active_idx(c.altup_active_idx)
    w.add_altup_num_inputs(c.altup_num_inputs)
    normal = torch.distributions.normal.Normal(0, 1)
    w.add_activation_sparsity_scale([normal.icdf(torch.tensor(s)).item() for s in c.activation_sparsity_pattern])
    w.add_sliding_window(c.sliding_window)
    w.add_sliding_window_pattern(local)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_rope_dimension_count(c.head_dim)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_rope_freq_base(c.rope_parameters["full_attention"]["rope_theta"])
    w.add_rope_freq_base_swa(c.rope_parameters["sliding_attention"]["rope_theta"])
    w.add_final_logit_softcapping(c.final_logit_softcapping)


def write_gemma4(w, c):
    """The keys that Gemma 4 has beside those of all."""
    local = [kind == "sliding_attention" for kind in c.layer_types]
    near, full = (c.per_layer_config[local.index(kind)] for kind in (True, False))
    shared = c.num_kv_shared_layers
    w.add_shared_kv_layers(shared)
    w.add_embedding_length_per_layer_input(c.hidden_size_per_layer_input or 0)
    w.add_sliding_window(c.sliding_window)
    w.add_sliding_window_pattern(local)
    for add, size in ((w.add_key_length, full.head_dim), (w.add_value_length, full.head_dim),
                      (w.add_key_length_swa, near.head_dim), (w.add_value_length_swa, near.head_dim),
                      (w.add_rope_dimension_count, full.head_dim), (w.add_rope_dimension_count_swa, near.head_dim)):
        add(size)
    if c.use_double_wide_mlp:
        w.add_feed_forward_length([c.intermediate_size * (1 + (i >= c.num_hidden_layers - shared))
                                   for i in range(c.num_hidden_layers)])
    else:
        w.add_feed_forward_length(c.intermediate_size)
    if full.num_key_value_heads != near.num_key_value_heads:
        w.add_head_count_kv([near.num_key_value_heads if x else full.num_key_value_heads for x in local])
    else:
        w.add_head_count_kv(near.num_key_value_heads)
    ropes = c.rope_parameters
    w.add_rope_freq_base(ropes["full_attention"]["rope_theta"])
    w.add_rope_freq_base_swa(ropes["sliding_attention"]["rope_theta"])
    turning = int(full.head_dim * ropes["full_attention"]["partial_rotary_factor"] / 2)
    by = [1.0] * turning + [1e30] * (full.head_dim // 2 - turning)
    w.add_tensor("rope_freqs.weight", np.array(by, np.float32))
    if c.final_logit_softcapping:
        w.add_final_logit_softcapping(c.final_logit_softcapping)
    if c.enable_moe_block:
        w.add_expert_count(c.num_experts)
        w.add_expert_used_count(c.top_k_experts)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
