"""The same as oracle_remote.py for families with experts."""
import torch
from torch import nn

from oracle_remote import QKV, fused, named, old_rope, renamed


class OpenGate(nn.Module):
    """A gate whose sigmoid is 1: a shared expert without a gate."""

    def forward(self, x):
        return torch.full((*x.shape[:-1], 1), 100.0, dtype=x.dtype)


def without_gates(model):
    for layer in model.model.layers:
        if hasattr(layer.mlp, "shared_expert_gate"):
            layer.mlp.shared_expert_gate = OpenGate()


def counts(c):
    """What both families say about experts."""
    return dict(num_experts_per_tok=c["num_experts_per_tok"], moe_intermediate_size=c["moe_intermediate_size"],
                norm_topk_prob=c["norm_topk_prob"], num_key_value_heads=c["num_key_value_heads"],
                max_position_embeddings=c["max_position_embeddings"], **old_rope(c))


def shared_of(c):
    return c["shared_expert_intermediate_size"] // c["moe_intermediate_size"]


def deepseek(c, state):
    config = named(c, "DeepseekForCausalLM", "deepseek", n_routed_experts=c["num_experts"],
                   n_shared_experts=shared_of(c), first_k_dense_replace=len(c["mlp_only_layers"]), moe_layer_freq=1,
                   scoring_func="softmax", **counts(c))
    return config, renamed(state, (r"shared_expert\.", "shared_experts."))


BAILING = ((r"self_attn\.o_proj", "attention.dense"), (r"self_attn\.", "attention."),
           (r"embed_tokens", "word_embeddings"))


def bailing(c, state):
    config = named(c, "BailingMoeForCausalLM", "bailing_moe", num_experts=c["num_experts"],
                   num_shared_experts=shared_of(c), first_k_dense_replace=len(c["mlp_only_layers"]), **counts(c))
    state = fused(state, QKV, "query_key_value")
    return config, renamed(state, (r"shared_expert\.", "shared_experts."), *BAILING)


def bailing2(c, state):
    config = named(c, "BailingMoeV2ForCausalLM", "bailing_moe_v2", num_experts=c["n_routed_experts"],
                   num_shared_experts=c["n_shared_experts"], first_k_dense_replace=c["first_k_dense_replace"],
                   n_group=c["n_group"], topk_group=c["topk_group"], head_dim=c["head_dim"], use_qk_norm=True,
                   routed_scaling_factor=c["routed_scaling_factor"], score_function="sigmoid",
                   partial_rotary_factor=c["rope_parameters"]["partial_rotary_factor"], **counts(c))
    state = fused(state, QKV, "query_key_value")
    return config, renamed(state, *BAILING, (r"q_norm", "query_layernorm"), (r"k_norm", "key_layernorm"),
                           (r"e_score_correction_bias", "expert_bias"))
