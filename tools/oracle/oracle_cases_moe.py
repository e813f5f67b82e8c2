"""Tiny models with experts, and with compressed keys and values."""
import oracle_remote_moe as remote
from oracle_cases import HD, SCALED, TIED, UNTIED, WINDOW, Table, granite, half_rope, headed, rms, rope, windowed, yarn


def narrow(s):
    """Experts are narrower than a dense layer."""
    return s.ffn // 2 + 3


def moe(s):
    """Three of seven or so experts: neither number is a default."""
    return dict(rms(s), num_experts_per_tok=3, tie_word_embeddings=False)


def small(s):
    return dict(moe(s), moe_intermediate_size=narrow(s), head_dim=s.hd, pad_token_id=0)


GROUPS = dict(num_experts_per_tok=4, n_group=4, topk_group=2, first_k_dense_replace=1, routed_scaling_factor=1.7)


def grouped(s):
    """Two of four groups of three."""
    return {**small(s), **GROUPS, **dict(n_routed_experts=12, n_shared_experts=2)}


def solar_open(s):
    """The same in every layer."""
    return {k: v for k, v in grouped(s).items() if k not in ("first_k_dense_replace", "intermediate_size")}


def mellum(s):
    """Windows, and positions that differ by the kind of layer."""
    return dict(small_windowed(s), num_experts=7,
                rope_parameters=dict(full_attention=yarn(s), sliding_attention=rope(150.0)))


def gpt_oss(s):
    return dict(moe(s), **windowed(s), num_local_experts=7, head_dim=s.hd, swiglu_limit=0.9,
                rope_parameters=yarn(s, truncate=False))


def latent(s):
    """Latent attention: every width differs from every other."""
    return dict(moe(s), q_lora_rank=s.dim // 2 + 3, kv_lora_rank=s.dim // 3 + 2, qk_nope_head_dim=s.hd - 2,
                qk_rope_head_dim=6, v_head_dim=s.hd - 3, num_key_value_heads=s.heads, moe_intermediate_size=narrow(s),
                pad_token_id=0)


def small_windowed(s):
    return dict(small(s), **windowed(s))


def ernie(s):
    return dict(rms(s), moe_intermediate_size=narrow(s))


def llama4(s):
    return dict(headed(s), num_local_experts=5, intermediate_size_mlp=s.ffn + 11, attention_chunk_size=s.window + 6,
                no_rope_layer_interval=2, tie_word_embeddings=False)


CASES = Table()
case, like = CASES.case, CASES.like
case("mixtral", "MixtralConfig", "mixtral", moe, num_local_experts=7, head_dim=HD, sliding_window=WINDOW)
case("mixtral-plain", "MixtralConfig", "mixtral", moe, num_local_experts=5, sliding_window=None, **TIED,
     rope_parameters=rope(10000.0))
case("qwen2-moe", "Qwen2MoeConfig", "qwen2_moe", moe, moe_intermediate_size=narrow, num_experts=7,
     shared_expert_intermediate_size=lambda s: s.ffn - 5, mlp_only_layers=[1])
case("qwen2-moe-every", "Qwen2MoeConfig", "qwen2_moe", moe, moe_intermediate_size=narrow, num_experts=6,
     shared_expert_intermediate_size=lambda s: s.ffn - 9, decoder_sparse_step=2, norm_topk_prob=True)
case("qwen3-moe", "Qwen3MoeConfig", "qwen3_moe", small, num_experts=7, mlp_only_layers=[0], attention_bias=True,
     renamed=dict(num_local_experts="num_experts"))
case("qwen3-moe-every", "Qwen3MoeConfig", "qwen3_moe", moe, moe_intermediate_size=narrow, num_experts=9,   # no head_dim
     decoder_sparse_step=2, norm_topk_prob=True, renamed=dict(num_local_experts="num_experts"))
case("olmoe", "OlmoeConfig", "olmoe", moe, num_experts=7)
like("olmoe-clip", "olmoe", num_experts=5, clip_qkv=1.2, norm_topk_prob=True, attention_bias=True)
case("granitemoe", "GraniteMoeConfig", "granitemoe", granite, num_local_experts=7, num_experts_per_tok=3, **TIED)
case("granitemoe-shared", "GraniteMoeSharedConfig", "granitemoe", granite, num_local_experts=5, num_experts_per_tok=2,
     shared_intermediate_size=lambda s: s.ffn - 7, attention_bias=True)
case("phimoe", "PhimoeConfig", "phimoe", moe, num_local_experts=7, num_experts_per_tok=2, router_jitter_noise=0.3,
     sliding_window=WINDOW, attention_bias=True, lm_head_bias=True)
case("phimoe-plain", "PhimoeConfig", "phimoe", moe, num_local_experts=5, num_experts_per_tok=2, router_jitter_noise=0.2)
case("gpt-oss", "GptOssConfig", "gpt_oss", gpt_oss)
like("gpt-oss-plain", "gpt-oss", attention_bias=False, rope_parameters=yarn)
case("dots1", "Dots1Config", "dots1", lambda s: dict(grouped(s), **windowed(s)), norm_topk_prob=True,
     max_window_layers=2, layer_types=lambda s: ["full_attention"] * (s.layers - 1) + ["sliding_attention"] * 2)
case("glm4-moe", "Glm4MoeConfig", "glm4_moe", grouped, head_dim=20, use_qk_norm=True, attention_bias=True,
     rope_parameters=half_rope())
case("glm4-moe-plain", "Glm4MoeConfig", "glm4_moe", grouped, head_dim=20, n_group=1, topk_group=1,
     first_k_dense_replace=2, norm_topk_prob=False, n_shared_experts=1, rope_parameters=rope(partial_rotary_factor=0.3))
case("solar-open", "SolarOpenConfig", "solar_open", solar_open)
like("solar-open-part", "solar-open", n_group=1, topk_group=1, norm_topk_prob=False, n_shared_experts=1,
     attention_bias=True)
case("mellum", "MellumConfig", "mellum", mellum, attention_bias=True)
like("mellum-dense", "mellum", mlp_layer_types=lambda s: ["dense"] + ["sparse"] * s.layers, layer_types=None,
     rope_parameters=None, norm_topk_prob=False)
case("ernie4.5-moe", "Ernie4_5_MoeConfig", "ernie4_5_moe", ernie, moe_num_experts=7, moe_k=3, moe_num_shared_experts=2,
     moe_layer_start_index=1, num_hidden_layers=lambda s: s.layers + 1, moe_layer_end_index=lambda s: s.layers - 1,
     **TIED)
case("ernie4.5-moe-bias", "Ernie4_5_MoeConfig", "ernie4_5_moe", ernie, moe_num_experts=5, moe_k=2,
     moe_num_shared_experts=0, moe_layer_start_index=0, moe_layer_interval=2, use_bias=True, **UNTIED)
case("hunyuan-moe", "HunYuanMoEV1Config", "hunyuan_moe", rms, num_experts=7, moe_topk=3, head_dim=HD, pad_token_id=0,
     **UNTIED)
case("flex-olmo", "FlexOlmoConfig", "flex_olmo", moe, num_experts=6, pad_token_id=0)
like("flex-olmo-norm", "flex-olmo", num_experts=5, norm_topk_prob=True)
case("minimax-m2", "MiniMaxM2Config", "minimax_m2", moe, num_local_experts=7, head_dim=20, rope_parameters=half_rope())
case("afmoe", "AfmoeConfig", "afmoe", small_windowed, num_experts=7, num_shared_experts=2, num_dense_layers=1,
     route_scale=1.6, mup_enabled=True, embed=SCALED)
case("afmoe-plain", "AfmoeConfig", "afmoe", small_windowed, num_experts=5, num_shared_experts=1, num_dense_layers=0)
case("exaone-moe", "ExaoneMoeConfig", "exaone_moe", small_windowed, num_experts=12, num_shared_experts=2, **GROUPS)
case("llama4", "Llama4TextConfig", "llama4", llama4, num_experts_per_tok=1, interleave_moe_layer_step=2,
     floor_scale=5, attn_scale=0.3, num_hidden_layers=lambda s: s.layers + 1)
case("llama4-plain", "Llama4TextConfig", "llama4", llama4, num_experts_per_tok=2, moe_layers=[0], use_qk_norm=False,
     attention_bias=True, attn_temperature_tuning=False, quiet=("layers.1.self_attn.k_proj.bias",))
case("deepseek2", "DeepseekV2Config", "deepseek2", latent, n_routed_experts=12, n_shared_experts=2, **GROUPS,
     topk_method="group_limited_greedy", rope_parameters=lambda s: yarn(s, mscale=0.8, mscale_all_dim=0.7))
case("deepseek2-lite", "DeepseekV2Config", "deepseek2", latent, q_lora_rank=None, n_routed_experts=6,
     n_shared_experts=1, attention_bias=True)
case("deepseek3", "DeepseekV3Config", "deepseek3", latent, n_routed_experts=12, n_shared_experts=2, **GROUPS,
     rope_parameters=lambda s: yarn(s, mscale=0.9, mscale_all_dim=0.9))
case("deepseek3-halves", "DeepseekV3Config", "deepseek3", latent, n_routed_experts=6, n_group=1, topk_group=1,
     first_k_dense_replace=0, q_lora_rank=None, norm_topk_prob=False, rope_interleave=False)
case("glm4-moe-lite", "Glm4MoeLiteConfig", "glm4_moe_lite", latent, n_routed_experts=6, n_group=1, topk_group=1,
     routed_scaling_factor=1.4, mlp_layer_types=lambda s: ["sparse", "dense", "sparse"][:s.layers],
     hub=dict(n_group=1, topk_group=1))
case("minicpm3", "MiniCPM3Config", "minicpm3", latent, scale_emb=3, scale_depth=0.9,
     dim_model_base=lambda s: s.dim // 2 + 1, **TIED, embed=0.3)
case("deepseek", "Qwen2MoeConfig", "deepseek", moe, num_experts=7, moe_intermediate_size=narrow, mlp_only_layers=[0],
     shared_expert_intermediate_size=lambda s: 2 * narrow(s), qkv_bias=False, build=remote.without_gates,
     layout=remote.deepseek)
case("bailing", "Qwen2MoeConfig", "bailing", moe, num_experts=6, moe_intermediate_size=narrow, norm_topk_prob=True,
     shared_expert_intermediate_size=lambda s: 2 * narrow(s), qkv_bias=False, build=remote.without_gates,
     layout=remote.bailing)
case("bailing2", "Glm4MoeConfig", "bailing", grouped, head_dim=20, use_qk_norm=True, rope_parameters=half_rope(),
     layout=remote.bailing2)
like("glm4-moe-lite-groups", "glm4-moe-lite", n_routed_experts=12, **GROUPS, hub={})
