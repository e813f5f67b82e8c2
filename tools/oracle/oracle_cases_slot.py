"""Tiny models in which a sequence has a state of fixed size: short convolutions, recurrences."""
from oracle_cases import UNTIED, Table, headed, hf, pattern, rms, rope
from oracle_cases_moe import narrow


def lfm2(s):
    """Attention in the second layer alone; old files say so by full_attn_idxs."""
    return dict(hf(s), norm_eps=3e-3, num_hidden_layers=s.layers + 1, full_attn_idxs=[1], pad_token_id=0)


def lfm2_moe(s):
    layers = s.layers + 1
    return dict(hf(s), norm_eps=3e-3, num_hidden_layers=layers, moe_intermediate_size=s.ffn // 2 + 3, num_experts=7,
                num_experts_per_tok=3, num_dense_layers=1, routed_scaling_factor=1.7, pad_token_id=0,
                layer_types=["full_attention" if i == 1 else "conv" for i in range(layers)])


def delta(s, **more):
    """Three value heads for each of two key heads; every width differs from every other. The third layer attends, as
    the last but one of published models does."""
    return dict(headed(s), num_hidden_layers=s.layers + 1, tie_word_embeddings=False, pad_token_id=0,
                layer_types=pattern(s.layers + 1, 3, "linear_attention"),
                rope_parameters=rope(partial_rotary_factor=0.45),
                linear_conv_kernel_dim=3, linear_key_head_dim=10, linear_value_head_dim=7, linear_num_key_heads=2,
                linear_num_value_heads=6, **more)


def delta_moe(s):
    return delta(s, num_experts=7, num_experts_per_tok=3, moe_intermediate_size=narrow(s),
                 shared_expert_intermediate_size=s.ffn - 5)


def olmo_hybrid(s):
    """Queries, keys and values are equally wide together, as transformers saves thirds of their convolution."""
    return dict(rms(s), num_hidden_layers=s.layers + 1, tie_word_embeddings=False, pad_token_id=0,
                layer_types=pattern(s.layers + 1, 3, "linear_attention"), linear_conv_kernel_dim=3,
                linear_key_head_dim=12, linear_value_head_dim=6, linear_num_key_heads=2, linear_num_value_heads=4)


CASES = Table()
case, like = CASES.case, CASES.like
case("lfm2", "Lfm2Config", "lfm2", lfm2, conv_L_cache=4, block_multiple_of=6, block_ffn_dim_multiplier=1.3,
     renamed=dict(intermediate_size="block_ff_dim"))
case("lfm2-bias", "Lfm2Config", "lfm2", lfm2, conv_bias=True, block_auto_adjust_ff_dim=False, **UNTIED,
     renamed=dict(tie_word_embeddings="tie_embedding"))
case("lfm2-moe", "Lfm2MoeConfig", "lfm2_moe", lfm2_moe)
like("lfm2-moe-plain", "lfm2-moe", num_dense_layers=0, num_experts=5, num_experts_per_tok=2, use_expert_bias=False,
     norm_topk_prob=False, conv_bias=True, conv_L_cache=4, **UNTIED)
case("qwen3.5", "Qwen3_5TextConfig", "qwen3_5", delta)
like("qwen3.5-tied", "qwen3.5", tie_word_embeddings=True, attention_bias=True, hidden_act="gelu", head_dim=24,
     linear_num_value_heads=2, linear_conv_kernel_dim=5, layer_types=None, num_hidden_layers=5,
     full_attention_interval=2)
case("qwen3.5-moe", "Qwen3_5MoeTextConfig", "qwen3_5_moe", delta_moe)
like("qwen3.5-moe-apart", "qwen3.5-moe", num_experts=5, num_experts_per_tok=2, linear_value_head_dim=16,
     linear_key_head_dim=16)
case("qwen3-next", "Qwen3NextConfig", "qwen3_next", delta_moe, norm_topk_prob=True)
like("qwen3-next-every", "qwen3-next", num_experts=5, num_experts_per_tok=2, decoder_sparse_step=2, mlp_only_layers=[1],
     norm_topk_prob=False, attention_bias=True, linear_num_key_heads=3, linear_num_value_heads=3)
case("olmo-hybrid", "OlmoHybridConfig", "olmo_hybrid", olmo_hybrid)
like("olmo-hybrid-unplaced", "olmo-hybrid", linear_allow_neg_eigval=False, rope_parameters=rope(None))
