"""Tiny models with experts, and with compressed keys and values."""
import oracle_remote_moe as remote
from oracle_cases import Case, granite, half_rope, pattern, rms, rope, yarn


def moe(s, **more):
    """Three of seven experts: neither number is a default."""
    return rms(s, **{**dict(num_experts_per_tok=3, tie_word_embeddings=False), **more})


def small(s, **more):
    """Experts narrower than the dense layer in front of them."""
    return moe(s, **{**dict(moe_intermediate_size=s.ffn // 2 + 3, head_dim=s.hd, pad_token_id=0), **more})


def grouped(s, **more):
    """Two of four groups of three."""
    return small(s, **{**dict(n_routed_experts=12, num_experts_per_tok=4, n_group=4, topk_group=2, n_shared_experts=2,
                              first_k_dense_replace=1, routed_scaling_factor=1.7), **more})


def full_and_local(s):
    return pattern(s.layers + 1, 2, "sliding_attention", "full_attention")


def gpt_oss(s, **more):
    return moe(s, **{**dict(num_local_experts=7, head_dim=s.hd, sliding_window=s.window, swiglu_limit=0.9,
                            layer_types=full_and_local(s), num_hidden_layers=s.layers + 1,
                            rope_parameters=yarn(s, truncate=False)), **more})


def latent(s, **more):
    """Latent attention: every width differs from every other."""
    return moe(s, **{**dict(q_lora_rank=s.dim // 2 + 3, kv_lora_rank=s.dim // 3 + 2, qk_nope_head_dim=s.hd - 2,
                            qk_rope_head_dim=6, v_head_dim=s.hd - 3, num_key_value_heads=s.heads,
                            moe_intermediate_size=s.ffn // 2 + 3, pad_token_id=0), **more})


CASES = {
    "mixtral":          Case("MixtralConfig", "mixtral", lambda s: moe(
        s, num_local_experts=7, head_dim=s.hd, sliding_window=s.window)),
    "mixtral-plain":    Case("MixtralConfig", "mixtral", lambda s: moe(
        s, num_local_experts=5, sliding_window=None, tie_word_embeddings=True, rope_parameters=rope(10000.0))),
    "qwen2-moe":        Case("Qwen2MoeConfig", "qwen2_moe", lambda s: moe(
        s, moe_intermediate_size=s.ffn // 2 + 3, num_experts=7, shared_expert_intermediate_size=s.ffn - 5,
        mlp_only_layers=[1])),
    "qwen2-moe-every":  Case("Qwen2MoeConfig", "qwen2_moe", lambda s: moe(
        s, moe_intermediate_size=s.ffn // 2 + 3, num_experts=6, shared_expert_intermediate_size=s.ffn - 9,
        decoder_sparse_step=2,
        norm_topk_prob=True)),
    "qwen3-moe":        Case("Qwen3MoeConfig", "qwen3_moe", lambda s: small(
        s, num_experts=7, mlp_only_layers=[0], attention_bias=True), renamed=dict(num_local_experts="num_experts")),
    "qwen3-moe-every":  Case("Qwen3MoeConfig", "qwen3_moe", lambda s: moe(  # no head_dim
        s, moe_intermediate_size=s.ffn // 2 + 3, num_experts=9, decoder_sparse_step=2, norm_topk_prob=True),
        renamed=dict(num_local_experts="num_experts")),
    "olmoe":            Case("OlmoeConfig", "olmoe", lambda s: moe(s, num_experts=7)),
    "olmoe-clip":       Case("OlmoeConfig", "olmoe", lambda s: moe(
        s, num_experts=5, clip_qkv=1.2, norm_topk_prob=True, attention_bias=True)),
    "granitemoe":       Case("GraniteMoeConfig", "granitemoe", lambda s: granite(
        s, num_local_experts=7, num_experts_per_tok=3, tie_word_embeddings=True)),
    "granitemoe-shared": Case("GraniteMoeSharedConfig", "granitemoe", lambda s: granite(
        s, num_local_experts=5, num_experts_per_tok=2, shared_intermediate_size=s.ffn - 7, attention_bias=True)),
    "phimoe":           Case("PhimoeConfig", "phimoe", lambda s: moe(
        s, num_local_experts=7, num_experts_per_tok=2, router_jitter_noise=0.3, sliding_window=s.window,
        attention_bias=True, lm_head_bias=True)),
    "phimoe-plain":     Case("PhimoeConfig", "phimoe", lambda s: moe(
        s, num_local_experts=5, num_experts_per_tok=2, router_jitter_noise=0.2)),
    "gpt-oss":          Case("GptOssConfig", "gpt_oss", gpt_oss),
    "gpt-oss-plain":    Case("GptOssConfig", "gpt_oss", lambda s: gpt_oss(
        s, attention_bias=False, rope_parameters=yarn(s))),
    "dots1":            Case("Dots1Config", "dots1", lambda s: grouped(
        s, norm_topk_prob=True, sliding_window=s.window, max_window_layers=2, num_hidden_layers=s.layers + 1,
        layer_types=["full_attention"] * (s.layers - 1) + ["sliding_attention"] * 2)),
    "glm4-moe":         Case("Glm4MoeConfig", "glm4_moe", lambda s: grouped(
        s, head_dim=20, use_qk_norm=True, attention_bias=True, rope_parameters=half_rope())),
    "glm4-moe-plain":   Case("Glm4MoeConfig", "glm4_moe", lambda s: grouped(
        s, head_dim=20, n_group=1, topk_group=1, first_k_dense_replace=2, norm_topk_prob=False, n_shared_experts=1,
        rope_parameters=rope(partial_rotary_factor=0.3))),
    "ernie4.5-moe":     Case("Ernie4_5_MoeConfig", "ernie4_5_moe", lambda s: rms(
        s, moe_num_experts=7, moe_k=3, moe_intermediate_size=s.ffn // 2 + 3, moe_num_shared_experts=2,
        moe_layer_start_index=1, num_hidden_layers=s.layers + 1, moe_layer_end_index=s.layers - 1,
        tie_word_embeddings=True)),
    "ernie4.5-moe-bias": Case("Ernie4_5_MoeConfig", "ernie4_5_moe", lambda s: rms(
        s, moe_num_experts=5, moe_k=2, moe_intermediate_size=s.ffn // 2 + 3, moe_num_shared_experts=0,
        moe_layer_start_index=0, moe_layer_interval=2, use_bias=True, tie_word_embeddings=False)),
    "hunyuan-moe":      Case("HunYuanMoEV1Config", "hunyuan_moe", lambda s: rms(
        s, num_experts=7, moe_topk=3, head_dim=s.hd, pad_token_id=0, tie_word_embeddings=False)),
    "flex-olmo":        Case("FlexOlmoConfig", "flex_olmo", lambda s: moe(s, num_experts=6, pad_token_id=0)),
    "flex-olmo-norm":   Case("FlexOlmoConfig", "flex_olmo", lambda s: moe(
        s, num_experts=5, norm_topk_prob=True, pad_token_id=0)),
    "minimax-m2":       Case("MiniMaxM2Config", "minimax_m2", lambda s: moe(
        s, num_local_experts=7, head_dim=20, rope_parameters=half_rope())),
    "afmoe":            Case("AfmoeConfig", "afmoe", lambda s: small(
        s, num_experts=7, num_shared_experts=2, num_dense_layers=1, route_scale=1.6, sliding_window=s.window,
        num_hidden_layers=s.layers + 1, layer_types=full_and_local(s), mup_enabled=True), embed=0.25),
    "afmoe-plain":      Case("AfmoeConfig", "afmoe", lambda s: small(
        s, num_experts=5, num_shared_experts=1, num_dense_layers=0, sliding_window=s.window,
        num_hidden_layers=s.layers + 1, layer_types=full_and_local(s))),
    "exaone-moe":       Case("ExaoneMoeConfig", "exaone_moe", lambda s: small(
        s, num_experts=12, num_experts_per_tok=4, n_group=4, topk_group=2, num_shared_experts=2,
        first_k_dense_replace=1, routed_scaling_factor=1.7, sliding_window=s.window,
        num_hidden_layers=s.layers + 1, layer_types=full_and_local(s))),
    "llama4":           Case("Llama4TextConfig", "llama4", lambda s: rms(
        s, num_local_experts=5, num_experts_per_tok=1, intermediate_size_mlp=s.ffn + 11, head_dim=s.hd,
        interleave_moe_layer_step=2, attention_chunk_size=s.window + 6, no_rope_layer_interval=2, floor_scale=5,
        attn_scale=0.3, num_hidden_layers=s.layers + 1, tie_word_embeddings=False)),
    "llama4-plain":     Case("Llama4TextConfig", "llama4", lambda s: rms(
        s, num_local_experts=5, num_experts_per_tok=2, intermediate_size_mlp=s.ffn + 11, head_dim=s.hd,
        moe_layers=[0], use_qk_norm=False, attention_bias=True, attn_temperature_tuning=False,
        attention_chunk_size=s.window + 6, no_rope_layer_interval=2, tie_word_embeddings=False),
        quiet=("layers.1.self_attn.k_proj.bias",)),
    "deepseek2":        Case("DeepseekV2Config", "deepseek2", lambda s: latent(
        s, n_routed_experts=12, num_experts_per_tok=4, topk_method="group_limited_greedy", n_group=4, topk_group=2,
        n_shared_experts=2, first_k_dense_replace=1, routed_scaling_factor=1.7,
        rope_parameters=yarn(s, mscale=0.8, mscale_all_dim=0.7))),
    "deepseek2-lite":   Case("DeepseekV2Config", "deepseek2", lambda s: latent(
        s, q_lora_rank=None, n_routed_experts=6, num_experts_per_tok=3, n_shared_experts=1, attention_bias=True)),
    "deepseek3":        Case("DeepseekV3Config", "deepseek3", lambda s: latent(
        s, n_routed_experts=12, num_experts_per_tok=4, n_group=4, topk_group=2, n_shared_experts=2,
        first_k_dense_replace=1, routed_scaling_factor=1.7,
        rope_parameters=yarn(s, mscale=0.9, mscale_all_dim=0.9))),
    "deepseek3-halves": Case("DeepseekV3Config", "deepseek3", lambda s: latent(
        s, n_routed_experts=6, num_experts_per_tok=3, n_group=1, topk_group=1, first_k_dense_replace=0,
        q_lora_rank=None, norm_topk_prob=False, rope_interleave=False)),
    "glm4-moe-lite":    Case("Glm4MoeLiteConfig", "glm4_moe_lite", lambda s: latent(
        s, n_routed_experts=6, num_experts_per_tok=3, n_group=1, topk_group=1, routed_scaling_factor=1.4,
        mlp_layer_types=["sparse", "dense", "sparse"][:s.layers]), hub=dict(n_group=1, topk_group=1)),
    "minicpm3":         Case("MiniCPM3Config", "minicpm3", lambda s: latent(
        s, scale_emb=3, scale_depth=0.9, dim_model_base=s.dim // 2 + 1, tie_word_embeddings=True), embed=0.3),
    "deepseek":         Case("Qwen2MoeConfig", "deepseek", lambda s: moe(
        s, num_experts=7, moe_intermediate_size=s.ffn // 2 + 3, shared_expert_intermediate_size=2 * (s.ffn // 2 + 3),
        mlp_only_layers=[0], qkv_bias=False), build=remote.without_gates, layout=remote.deepseek),
    "bailing":          Case("Qwen2MoeConfig", "bailing", lambda s: moe(
        s, num_experts=6, moe_intermediate_size=s.ffn // 2 + 3, shared_expert_intermediate_size=2 * (s.ffn // 2 + 3),
        qkv_bias=False, norm_topk_prob=True), build=remote.without_gates, layout=remote.bailing),
    "bailing2":         Case("Glm4MoeConfig", "bailing", lambda s: grouped(
        s, head_dim=20, use_qk_norm=True, rope_parameters=half_rope()), layout=remote.bailing2),
}
