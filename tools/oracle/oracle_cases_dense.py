"""More families of decoders without experts: a table like that of oracle_cases.py, and made of the same pieces."""
from oracle_cases import (BIASES, HALF, HD, SCALED, TIED, UNTIED, WINDOW, Table, gemma2, granite, half_rope, headed, hf,
                          ln, llama, llama3, pattern, rms, rope, yarn)


def windows(every):
    """Layers with a window, every `every`-th and the last without; the last two differ."""
    return lambda s: dict(rms(s), num_hidden_layers=every + 1, sliding_window=s.window,
                          layer_types=pattern(every + 1, every))


def gpt_neo(s):
    return dict(hidden_size=s.dim, num_layers=3, num_heads=s.heads, max_position_embeddings=s.ctx,
                intermediate_size=s.ffn, layer_norm_epsilon=3e-3, window_size=s.window,
                attention_types=[[["global", "local", "local"], 1]])


def glm(s):
    return dict(rms(s), hidden_size=s.half, head_dim=s.half // s.heads + 4, pad_token_id=0, rope_parameters=half_rope(),
                tie_word_embeddings=False)


def codegen(s):
    """Four parts of whole heads."""
    return dict(n_embd=s.half, n_layer=s.layers, n_head=s.heads, n_positions=s.ctx, n_ctx=s.ctx, n_inner=s.ffn,
                rotary_dim=s.half // s.heads - 4, layer_norm_epsilon=3e-3)


def persimmon(s):
    return dict(hidden_size=s.half, intermediate_size=s.ffn, num_hidden_layers=s.layers, num_attention_heads=s.heads,
                max_position_embeddings=s.ctx, layer_norm_eps=3e-3, rope_parameters=rope(partial_rotary_factor=0.34),
                tie_word_embeddings=False)


def helium(s):
    return dict(rms(s), head_dim=s.dim // s.heads, pad_token_id=0)


CASES = Table()
case, like = CASES.case, CASES.like
case("ministral", "MinistralConfig", "ministral", windows(2), head_dim=HD, **UNTIED)
case("ministral-all", "MinistralConfig", "ministral", headed, sliding_window=WINDOW, **TIED)
case("gpt-neo", "GPTNeoConfig", "gpt_neo", gpt_neo)
like("gpt-neo-untied", "gpt-neo", num_layers=4, intermediate_size=None, attention_types=[[["global", "local"], 2]],
     activation_function="gelu", **UNTIED)
case("codegen", "CodeGenConfig", "codegen", codegen)
case("glm", "GlmConfig", "glm", glm)
like("glm-nobias", "glm", attention_bias=False)
case("glm4", "Glm4Config", "glm4", glm)
case("olmo3", "Olmo3Config", "olmo3", windows(4), pad_token_id=0,
     rope_parameters=lambda s: dict(sliding_attention=rope(300.0), full_attention=yarn(s)))
case("olmo3-plain", "Olmo3Config", "olmo3", windows(2), pad_token_id=0, **TIED,
     rope_parameters=dict(sliding_attention=rope(500.0), full_attention=rope(9000.0)))
case("exaone4", "Exaone4Config", "exaone4", windows(3), sliding_window_pattern=3, **UNTIED)
case("exaone4-full", "Exaone4Config", "exaone4", rms, sliding_window=None, rope_parameters=llama3, **TIED,
     layer_types=lambda s: ["full_attention"] * s.layers)
case("nemotron", "NemotronConfig", "nemotron", hf, hidden_size=HALF, norm_eps=3e-3, **UNTIED,
     rope_parameters=rope(partial_rotary_factor=0.34))
like("nemotron-bias", "nemotron", head_dim=24, hidden_act="gelu", **BIASES)
case("persimmon", "PersimmonConfig", "persimmon", persimmon)
like("persimmon-plain", "persimmon", qk_layernorm=False, hidden_act="gelu")
case("helium", "HeliumConfig", "helium", helium, **UNTIED)
like("helium-bias", "helium", **BIASES, **TIED)
case("ernie45", "Ernie4_5Config", "ernie4_5", headed)
like("ernie45-bias", "ernie45", use_bias=True, **UNTIED)
case("seed-oss", "SeedOssConfig", "seed_oss", llama)
like("seed-oss-bias", "seed-oss", attention_bias=False, attention_out_bias=True, mlp_bias=True, **TIED)
case("arcee", "ArceeConfig", "arcee", llama)
like("arcee-bias", "arcee", hidden_act="gelu", **BIASES, **TIED)
case("jais2", "Jais2Config", "jais2", ln, head_dim=HD, **UNTIED)
like("jais2-nobias", "jais2", attention_bias=False, mlp_bias=False, hidden_act="silu", **TIED)
case("internlm3", "InternLM3Config", "internlm3", llama)
like("internlm3-bias", "internlm3", **BIASES, **TIED, renamed=dict(attention_bias="qkv_bias", mlp_bias="bias"))
case("apertus", "ApertusConfig", "apertus", rms, pad_token_id=0, rope_parameters=llama3, **UNTIED)
like("apertus-bias", "apertus", attention_bias=True, **TIED)
case("hunyuan", "HunYuanDenseV1Config", "hunyuan_v1_dense", headed, pad_token_id=0, **TIED,
     rope_parameters=rope(700.0, "dynamic", alpha=50.0, factor=1.0))
case("hunyuan-plain", "HunYuanDenseV1Config", "hunyuan_v1_dense", llama, pad_token_id=0, attention_bias=True)

# families that nobody had asked for
case("vaultgemma", "VaultGemmaConfig", "vaultgemma", gemma2, embed=SCALED)
case("hyperclovax", "HyperCLOVAXConfig", "hyperclovax", granite, head_dim=HD, logits_scaling=1.3, **UNTIED)
like("hyperclovax-pre", "hyperclovax", logits_scaling=0.8, use_post_norm=False, **TIED)
case("cwm", "CwmConfig", "cwm", llama, num_hidden_layers=5, sliding_window=WINDOW, rope_parameters=llama3)
case("granite-swa", "GraniteSWAConfig", "granite_swa", granite, num_hidden_layers=5, sliding_window=WINDOW,
     layer_rope_theta=[700.0, 0, 300.0, 700.0, 900.0], pad_token_id=0, **TIED)
case("ministral3", "Ministral3Config", "ministral3", llama, rope_parameters=lambda s: yarn(
    s, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.3))
