"""Tiny models in which a sequence has a state of fixed size: short convolutions, recurrences."""
from oracle_cases import TIED, UNTIED, Table, granite, headed, hf, pattern, rms, rope
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


def granite_hybrid(s):
    """The third layer attends, without positions; two groups of three heads, whose widths are no multiple of
    anything."""
    return dict(granite(s), num_hidden_layers=s.layers + 1, pad_token_id=0, num_local_experts=5, num_experts_per_tok=2,
                shared_intermediate_size=s.ffn - 7, layer_types=pattern(s.layers + 1, 3, "linear_attention"),
                mamba_n_heads=6, mamba_d_head="auto", mamba_expand=3, mamba_n_groups=2, mamba_d_state=10,
                mamba_d_conv=3, mamba_chunk_size=16, time_step_limit=(0.3, 1.1))


def mamba2(s):
    """Six heads in three groups."""
    return dict(hidden_size=s.dim, num_hidden_layers=s.layers + 1, expand=3, num_heads=6, head_dim=s.dim // 2,
                n_groups=3, state_size=10, conv_kernel=3, chunk_size=16, layer_norm_epsilon=3e-3,
                time_step_limit=(0.3, 1.1))


def bamba(s):
    return dict(rms(s), num_hidden_layers=s.layers + 1, attn_layer_indices=[1], head_dim=12, mamba_n_heads=6,
                mamba_expand=3, mamba_n_groups=2, mamba_d_state=10, mamba_d_conv=3, mamba_chunk_size=16,
                time_step_limit=(0.3, 1.1))


def falcon_h1(s):
    """Each factor differs from each other."""
    return dict(headed(s), mamba_d_ssm=66, mamba_n_heads=6, mamba_n_groups=2, mamba_d_state=10, mamba_d_conv=3,
                mamba_chunk_size=16, time_step_limit=(0.3, 1.1), lm_head_multiplier=0.7, embedding_multiplier=2.3,
                mlp_multipliers=[0.8, 1.3], key_multiplier=0.6, attention_out_multiplier=1.2,
                attention_in_multiplier=0.9, ssm_multipliers=[1.1, 0.85, 1.4, 0.75, 1.25], ssm_in_multiplier=1.15,
                ssm_out_multiplier=0.95)


def nemotron_h(s):
    """A layer of each kind."""
    return dict(hidden_size=s.dim, intermediate_size=s.ffn, num_attention_heads=s.heads, num_key_value_heads=s.kv,
                head_dim=s.hd, max_position_embeddings=s.ctx, layer_norm_epsilon=3e-3, tie_word_embeddings=False,
                layers_block_type=["linear_attention", "moe", "full_attention", "mlp", "linear_attention"],
                mamba_num_heads=6, mamba_head_dim=11, n_groups=2, ssm_state_size=10, conv_kernel=3, chunk_size=16,
                time_step_min=0.4, n_routed_experts=7, num_experts_per_tok=3, moe_intermediate_size=narrow(s),
                moe_shared_expert_intermediate_size=s.ffn - 5, routed_scaling_factor=1.7)


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
case("granite-hybrid", "GraniteMoeHybridConfig", "granitemoehybrid", granite_hybrid, **UNTIED)
like("granite-hybrid-dense", "granite-hybrid", num_local_experts=0, position_embedding_type="rope", mamba_n_groups=1,
     mamba_conv_bias=False, mamba_proj_bias=True, attention_bias=True, mamba_n_heads=2, mamba_d_conv=4, **TIED)
case("nemotron-h", "NemotronHConfig", "nemotron_h", nemotron_h)
like("nemotron-h-latent", "nemotron-h", moe_latent_size=lambda s: s.dim - 7, n_group=2, topk_group=1,
     n_routed_experts=8, norm_topk_prob=False, use_bias=True, use_conv_bias=False, mlp_bias=True,
     mamba_hidden_act="gelu", n_groups=1,
     layers_block_type=["mlp", "moe", "linear_attention", "full_attention"])
like("nemotron-h-dense", "nemotron-h",
     layers_block_type=["linear_attention", "full_attention", "mlp", "linear_attention"])
case("falcon-h1", "FalconH1Config", "falcon_h1", falcon_h1, **UNTIED)
like("falcon-h1-norm", "falcon-h1", mamba_rms_norm=True, mamba_proj_bias=True, projectors_bias=True, mlp_bias=True,
     attention_bias=True, mamba_d_ssm=None, mamba_expand=3, mamba_n_groups=3)
like("falcon-h1-gated", "falcon-h1", mamba_rms_norm=True, mamba_norm_before_gate=False, mamba_conv_bias=False, **TIED)
case("bamba", "BambaConfig", "bamba", bamba, **UNTIED)
like("bamba-bias", "bamba", mamba_proj_bias=True, attention_bias=True, mlp_bias=True, attn_layer_indices=[0, 2],
     mamba_n_groups=1, **TIED)
case("mamba2", "Mamba2Config", "mamba2", mamba2)
like("mamba2-tied", "mamba2", use_bias=True, use_conv_bias=False, hidden_act="gelu", n_groups=1, **TIED)
like("mamba2-free", "mamba2", time_step_limit=(0.0, float("inf")), n_groups=2)
