"""More families of decoders without experts: a table like that of oracle_cases.py, and made of the same pieces."""
from oracle_cases import Case, granite, half_rope, hf, ln, llama3, pattern, rms, rope, yarn


def windows(s, every, **more):
    """Layers with a window, every `every`-th and the last without; the last two differ."""
    layers = every + 1
    return rms(s, num_hidden_layers=layers, sliding_window=s.window,
               layer_types=pattern(layers, every, "sliding_attention", "full_attention"), **more)


def gpt_neo(s, **more):
    return {**dict(hidden_size=s.dim, num_layers=3, num_heads=s.heads, max_position_embeddings=s.ctx,
                   intermediate_size=s.ffn, layer_norm_epsilon=3e-3, window_size=s.window,
                   attention_types=[[["global", "local", "local"], 1]]), **more}


def glm(s, **more):
    return rms(s, hidden_size=s.half, head_dim=s.half // s.heads + 4, pad_token_id=0, rope_parameters=half_rope(),
               tie_word_embeddings=False, **more)


def codegen(s, **more):
    """Four parts of whole heads."""
    return {**dict(n_embd=s.half, n_layer=s.layers, n_head=s.heads, n_positions=s.ctx, n_ctx=s.ctx, n_inner=s.ffn,
                   rotary_dim=s.half // s.heads - 4, layer_norm_epsilon=3e-3), **more}


def exaone4(s, **more):
    return windows(s, 3, **{**dict(tie_word_embeddings=False, sliding_window_pattern=3), **more})


def nemotron(s, **more):
    return hf(s, hidden_size=s.half, norm_eps=3e-3, rope_parameters=rope(partial_rotary_factor=0.34),
              tie_word_embeddings=False, **more)


def persimmon(s, **more):
    return {**dict(hidden_size=s.half, intermediate_size=s.ffn, num_hidden_layers=s.layers,
                   num_attention_heads=s.heads, max_position_embeddings=s.ctx, layer_norm_eps=3e-3,
                   rope_parameters=rope(partial_rotary_factor=0.34), tie_word_embeddings=False), **more}


def headed(s, **more):
    return rms(s, head_dim=s.hd, **more)


CASES = {
    "ministral":        Case("MinistralConfig", "ministral", lambda s: windows(s, 2, head_dim=s.hd,
                                                                               tie_word_embeddings=False)),
    "ministral-all":    Case("MinistralConfig", "ministral", lambda s: headed(
        s, sliding_window=s.window, tie_word_embeddings=True)),
    "gpt-neo":          Case("GPTNeoConfig", "gpt_neo", gpt_neo),
    "gpt-neo-untied":   Case("GPTNeoConfig", "gpt_neo", lambda s: gpt_neo(
        s, num_layers=4, intermediate_size=None, attention_types=[[["global", "local"], 2]],
        activation_function="gelu", tie_word_embeddings=False)),
    "codegen":          Case("CodeGenConfig", "codegen", codegen),
    "glm":              Case("GlmConfig", "glm", glm),
    "glm-nobias":       Case("GlmConfig", "glm", lambda s: glm(s, attention_bias=False)),
    "glm4":             Case("Glm4Config", "glm4", glm),
    "olmo3":            Case("Olmo3Config", "olmo3", lambda s: windows(
        s, 4, pad_token_id=0, rope_parameters=dict(sliding_attention=rope(300.0), full_attention=yarn(s)))),
    "olmo3-plain":      Case("Olmo3Config", "olmo3", lambda s: windows(
        s, 2, pad_token_id=0, tie_word_embeddings=True,
        rope_parameters=dict(sliding_attention=rope(500.0), full_attention=rope(9000.0)))),
    "exaone4":          Case("Exaone4Config", "exaone4", exaone4),
    "exaone4-full":     Case("Exaone4Config", "exaone4", lambda s: rms(
        s, sliding_window=None, layer_types=["full_attention"] * s.layers, tie_word_embeddings=True,
        rope_parameters=llama3(s))),
    "nemotron":         Case("NemotronConfig", "nemotron", nemotron),
    "nemotron-bias":    Case("NemotronConfig", "nemotron", lambda s: nemotron(
        s, head_dim=24, hidden_act="gelu", attention_bias=True, mlp_bias=True)),
    "persimmon":        Case("PersimmonConfig", "persimmon", persimmon),
    "persimmon-plain":  Case("PersimmonConfig", "persimmon", lambda s: persimmon(
        s, qk_layernorm=False, hidden_act="gelu")),
    "helium":           Case("HeliumConfig", "helium", lambda s: rms(
        s, head_dim=s.dim // s.heads, pad_token_id=0, tie_word_embeddings=False)),
    "helium-bias":      Case("HeliumConfig", "helium", lambda s: rms(
        s, head_dim=s.dim // s.heads, pad_token_id=0, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "ernie45":          Case("Ernie4_5Config", "ernie4_5", headed),
    "ernie45-bias":     Case("Ernie4_5Config", "ernie4_5", lambda s: headed(
        s, use_bias=True, tie_word_embeddings=False)),
    "seed-oss":         Case("SeedOssConfig", "seed_oss", lambda s: headed(s, tie_word_embeddings=False)),
    "seed-oss-bias":    Case("SeedOssConfig", "seed_oss", lambda s: headed(
        s, attention_bias=False, attention_out_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "arcee":            Case("ArceeConfig", "arcee", lambda s: headed(s, tie_word_embeddings=False)),
    "arcee-bias":       Case("ArceeConfig", "arcee", lambda s: headed(
        s, attention_bias=True, mlp_bias=True, hidden_act="gelu", tie_word_embeddings=True)),
    "jais2":            Case("Jais2Config", "jais2", lambda s: ln(s, head_dim=s.hd, tie_word_embeddings=False)),
    "jais2-nobias":     Case("Jais2Config", "jais2", lambda s: ln(
        s, head_dim=s.hd, attention_bias=False, mlp_bias=False, hidden_act="silu", tie_word_embeddings=True)),
    "internlm3":        Case("InternLM3Config", "internlm3", lambda s: headed(s, tie_word_embeddings=False)),
    "internlm3-bias":   Case("InternLM3Config", "internlm3", lambda s: headed(
        s, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
        renamed=dict(attention_bias="qkv_bias", mlp_bias="bias")),
    "apertus":          Case("ApertusConfig", "apertus", lambda s: rms(
        s, pad_token_id=0, tie_word_embeddings=False, rope_parameters=llama3(s))),
    "apertus-bias":     Case("ApertusConfig", "apertus", lambda s: rms(
        s, pad_token_id=0, attention_bias=True, tie_word_embeddings=True, rope_parameters=llama3(s))),
    "hunyuan":          Case("HunYuanDenseV1Config", "hunyuan_v1_dense", lambda s: headed(
        s, pad_token_id=0, tie_word_embeddings=True, rope_parameters=rope(700.0, "dynamic", alpha=50.0, factor=1.0))),
    "hunyuan-plain":    Case("HunYuanDenseV1Config", "hunyuan_v1_dense", lambda s: headed(
        s, pad_token_id=0, attention_bias=True, tie_word_embeddings=False)),
    # families that nobody had asked for
    "vaultgemma":       Case("VaultGemmaConfig", "vaultgemma", lambda s: rms(
        s, head_dim=s.hd, query_pre_attn_scalar=13, sliding_window=s.window, attn_logit_softcapping=3.0,
        final_logit_softcapping=6.0), embed=0.25),
    "hyperclovax":      Case("HyperCLOVAXConfig", "hyperclovax", lambda s: headed(
        s, embedding_multiplier=2.3, logits_scaling=1.3, residual_multiplier=0.61, attention_multiplier=0.19,
        tie_word_embeddings=False)),
    "hyperclovax-pre":  Case("HyperCLOVAXConfig", "hyperclovax", lambda s: headed(
        s, embedding_multiplier=2.3, logits_scaling=0.8, residual_multiplier=0.61, attention_multiplier=0.19,
        use_post_norm=False, tie_word_embeddings=True)),
    "cwm":              Case("CwmConfig", "cwm", lambda s: headed(
        s, num_hidden_layers=5, sliding_window=s.window, tie_word_embeddings=False, rope_parameters=llama3(s))),
    "granite-swa":      Case("GraniteSWAConfig", "granite_swa", lambda s: granite(
        s, num_hidden_layers=5, sliding_window=s.window, layer_rope_theta=[700.0, 0, 300.0, 700.0, 900.0],
        pad_token_id=0, tie_word_embeddings=True)),
}
