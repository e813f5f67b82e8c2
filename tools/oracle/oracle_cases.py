"""The table of tiny models that judge the engine: one row per family and form.

A case is a transformers configuration class with odd sizes, plus the few facts the generator cannot see in it. Sizes
are never multiples of anything convenient, windows and original lengths are shorter than the tested sequence, and
every constant a family can choose (theta, eps, scales, caps) differs from its default, so that an engine that falls
back to a default is seen.
"""
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Size:
    """Dimensions shared by the cases of one run; FULL for the live check, SMALL for vectors that are committed."""
    vocab: int     # which list of vocabulary sizes
    dim: int       # model width
    heads: int     # query heads; kv < heads
    kv: int        # key/value heads
    hd: int        # head size where a family lets it differ from dim / heads
    half: int      # width for families that rotate half of a head: heads are multiples of 4
    six: int       # width for six heads: alibi slopes of a count that is no power of two
    ffn: int       # inner width of the feed-forward block
    layers: int
    window: int    # sliding window
    orig: int      # original length of rope scalings, shorter than `tokens`
    ctx: int       # largest position
    tokens: int    # length of the test sequence
    source: int    # length of what an encoder reads beside it


FULL = Size(vocab=0, dim=56, heads=4, kv=2, hd=18, half=48, six=54, ffn=92, layers=3,
            window=11, orig=24, ctx=160, tokens=80, source=70)
SMALL = Size(vocab=1, dim=24, heads=4, kv=2, hd=10, half=32, six=30, ffn=28, layers=2,
             window=7, orig=20, ctx=128, tokens=72, source=66)


@dataclass(frozen=True)
class Case:
    """`make(size)` gives the keyword arguments of `config`; the rest has defaults that suit most families."""
    config: str                    # transformers configuration class
    spec: str                      # file of specs/ that serves the family
    make: object                   # Size -> dict
    prompt: int = 16               # tokens before greedy generation
    attention: str = "eager"       # implementation that defines the answer
    embed: float = 1.0             # factor on the drawn token embeddings, where the family itself scales them up
    own_head: bool = False         # the head is not the token table, whatever the configuration says
    quiet: tuple = ()              # parameter name parts that provably cannot change the logits
    hub: dict = field(default_factory=dict)    # keys hub files of the family also carry, though they change nothing
    renamed: dict = field(default_factory=dict)   # keys that have another name in some hub files
    build: object = None           # changes the model that transformers made into the family's (oracle_remote.py)
    # (configuration, tensors) -> the family's own, where transformers has no class for it
    layout: object = None


# ---------------------------------------------------------------- pieces of configurations

def hf(s, **more):
    """Names most families since Llama share. As in every function here, `more` replaces what was said before."""
    return {**dict(hidden_size=s.dim, intermediate_size=s.ffn, num_hidden_layers=s.layers,
                   num_attention_heads=s.heads, num_key_value_heads=s.kv, max_position_embeddings=s.ctx,
                   rope_parameters=rope()), **more}


def rope(theta=700.0, kind="default", **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


def half_rope():
    return rope(partial_rotary_factor=0.5)


def yarn(s, **more):
    """Frequencies near both ends of the correction range: so short a length has few rotations, so betas are small."""
    return rope(900.0, "yarn", **{**dict(factor=4.0, original_max_position_embeddings=s.orig, beta_fast=1.5,
                                         beta_slow=0.2), **more})


def llama3(s):
    return rope(900.0, "llama3", factor=8.0, low_freq_factor=0.5, high_freq_factor=2.5,
                original_max_position_embeddings=s.orig)


def pattern(n, every, usual, last):
    """Every `every`-th of n layers is `last`, the others `usual`."""
    return [last if (i + 1) % every == 0 else usual for i in range(n)]


def rms(s, **more):
    return hf(s, **{**dict(rms_norm_eps=3e-3), **more})


def ln(s, **more):
    return hf(s, **{**dict(layer_norm_eps=3e-3), **more})


def llama(s, **more):
    return rms(s, **{**dict(head_dim=s.hd, tie_word_embeddings=False), **more})


def gemma3(s, scaling):
    layers = s.layers + 1
    return rms(s, head_dim=s.hd, num_hidden_layers=layers, query_pre_attn_scalar=13, sliding_window=s.window,
               layer_types=pattern(layers, 2, "sliding_attention", "full_attention"),
               rope_parameters=dict(sliding_attention=rope(300.0), full_attention=dict(scaling, rope_theta=5000.0)))


def phi(s, **more):
    return ln(s, hidden_size=s.half, rope_parameters=half_rope(), tie_word_embeddings=False, **more)


def longrope(s, orig):
    pairs = s.dim // s.heads // 2
    return rms(s, original_max_position_embeddings=orig, pad_token_id=0, tie_word_embeddings=False,
               rope_parameters=rope(kind="longrope", short_factor=[1.0 + 0.07 * i for i in range(pairs)],
                                    long_factor=[1.3 + 0.6 * i for i in range(pairs)]))


def gpt(s, **more):
    """Names of the GPT-2 line."""
    return {**dict(n_embd=s.dim, n_layer=s.layers, n_head=s.heads, n_positions=s.ctx, n_inner=s.ffn,
                   layer_norm_epsilon=3e-3), **more}


def neox(s, **more):
    return {**dict(hidden_size=s.half, intermediate_size=s.ffn, num_hidden_layers=s.layers,
                   num_attention_heads=s.heads, max_position_embeddings=s.ctx, layer_norm_eps=3e-3,
                   rope_parameters=half_rope()), **more}


def falcon(s, **more):
    return {**dict(hidden_size=s.dim, num_hidden_layers=s.layers, num_attention_heads=s.heads,
                   layer_norm_epsilon=3e-3, max_position_embeddings=s.ctx, ffn_hidden_size=4 * s.dim,
                   rope_parameters=rope()), **more}


def bloom(s, **more):
    return {**dict(hidden_size=s.dim, n_layer=s.layers, n_head=s.heads, layer_norm_epsilon=3e-3), **more}


def opt(s, **more):
    return {**dict(hidden_size=s.dim, num_hidden_layers=s.layers, num_attention_heads=s.heads, ffn_dim=s.ffn,
                   max_position_embeddings=s.ctx, word_embed_proj_dim=s.dim), **more}


def mpt(s, dim, heads, **attn):
    return dict(d_model=dim, n_heads=heads, n_layers=s.layers, max_seq_len=s.ctx, layer_norm_epsilon=3e-3,
                expansion_ratio=4, attn_config=attn)


def stablelm(s, **more):
    return ln(s, **{**dict(hidden_size=s.half, rope_parameters=half_rope(), tie_word_embeddings=False), **more})


def cohere(s, **more):
    return ln(s, logit_scale=0.37, **more)


def granite(s, **more):
    return rms(s, embedding_multiplier=2.3, logits_scaling=0.8, residual_multiplier=0.61, attention_multiplier=0.19,
               **more)


def smollm3(s, **more):
    return rms(s, pad_token_id=0, num_hidden_layers=s.layers + 1, **more)


# ---------------------------------------------------------------- the table

# Without rotation a key bias adds one constant to all scores of a query, which softmax removes.
KEY_BIAS = ("k_proj.bias",)


def scaled(config, spec, make, **more):
    """A family that multiplies embeddings by sqrt(dim): drawn smaller, or the branches would be drowned."""
    return Case(config, spec, make, embed=0.25, **more)


CASES = {
    # first slice: the six families that between them need every feature of the block formula
    "llama":            Case("LlamaConfig", "llama", llama),
    "qwen2":            Case("Qwen2Config", "qwen2", lambda s: rms(s, tie_word_embeddings=False),
                             hub=dict(use_sliding_window=False, sliding_window=9, max_window_layers=1)),
    "qwen3":            Case("Qwen3Config", "qwen3", lambda s: rms(s, head_dim=s.hd, tie_word_embeddings=False)),
    "gemma2":           scaled("Gemma2Config", "gemma2", lambda s: rms(
        s, head_dim=s.hd, query_pre_attn_scalar=13, sliding_window=s.window, attn_logit_softcapping=3.0,
        final_logit_softcapping=6.0)),
    "gpt2":             Case("GPT2Config", "gpt2", gpt),
    "falcon-7b":        Case("FalconConfig", "falcon", falcon),

    "llama-bias":       Case("LlamaConfig", "llama", lambda s: llama(s, attention_bias=True, mlp_bias=True)),
    "llama-tied":       Case("LlamaConfig", "llama", lambda s: llama(s, tie_word_embeddings=True)),
    "llama-mha":        Case("LlamaConfig", "llama", lambda s: llama(
        s, head_dim=s.dim // s.heads, num_key_value_heads=s.heads, hidden_act="gelu_pytorch_tanh")),
    "llama-linear":     Case("LlamaConfig", "llama", lambda s: llama(
        s, rope_parameters=rope(900.0, "linear", factor=2.5))),
    "llama-dynamic":    Case("LlamaConfig", "llama", lambda s: llama(
        s, max_position_embeddings=56, rope_parameters=rope(900.0, "dynamic", factor=2.5))),
    "llama-yarn":       Case("LlamaConfig", "llama", lambda s: llama(s, rope_parameters=yarn(s))),
    "llama-yarn-mscale": Case("LlamaConfig", "llama", lambda s: llama(
        s, rope_parameters=yarn(s, mscale=0.9, mscale_all_dim=0.4, truncate=False))),
    "llama-llama3":     Case("LlamaConfig", "llama", lambda s: llama(s, rope_parameters=llama3(s))),
    "mistral":          Case("MistralConfig", "mistral", lambda s: rms(
        s, sliding_window=s.window, tie_word_embeddings=False)),
    "mistral-headdim":  Case("MistralConfig", "mistral", lambda s: rms(
        s, sliding_window=None, head_dim=s.hd, tie_word_embeddings=False)),
    "qwen2-window":     Case("Qwen2Config", "qwen2", lambda s: rms(
        s, use_sliding_window=True, sliding_window=s.window, max_window_layers=1, tie_word_embeddings=True)),
    "qwen2-yarn":       Case("Qwen2Config", "qwen2", lambda s: rms(
        s, tie_word_embeddings=False, rope_parameters=rope(     # the betas that are usual need a longer original length
            900.0, "yarn", factor=4.0, original_max_position_embeddings=2000))),
    "qwen3-window":     Case("Qwen3Config", "qwen3", lambda s: rms(
        s, head_dim=s.hd, attention_bias=True, use_sliding_window=True, sliding_window=s.window, max_window_layers=1,
        tie_word_embeddings=True)),
    "gemma":            scaled("GemmaConfig", "gemma", lambda s: rms(s, head_dim=s.hd), hub=dict(hidden_act="gelu")),
    "gemma-mqa":        scaled("GemmaConfig", "gemma", lambda s: rms(s, head_dim=s.hd, num_key_value_heads=1)),
    "gemma2-nocap":     scaled("Gemma2Config", "gemma2", lambda s: rms(
        s, head_dim=s.hd, query_pre_attn_scalar=13, sliding_window=s.window, attn_logit_softcapping=None,
        final_logit_softcapping=None, attention_bias=True)),
    "gemma3":           scaled("Gemma3TextConfig", "gemma3", lambda s: gemma3(
        s, dict(rope_type="linear", factor=3.0))),
    "gemma3-plain":     scaled("Gemma3TextConfig", "gemma3", lambda s: gemma3(s, dict(rope_type="default"))),
    "phi":              Case("PhiConfig", "phi", phi),
    "phi-qknorm":       Case("PhiConfig", "phi", lambda s: phi(s, qk_layernorm=True)),
    "phi3":             Case("Phi3Config", "phi3", lambda s: rms(s, pad_token_id=0, sliding_window=s.window)),
    "phi3-partial":     Case("Phi3Config", "phi3", lambda s: rms(
        s, hidden_size=s.half, pad_token_id=0, rope_parameters=half_rope(), tie_word_embeddings=True)),
    "phi3-short":       Case("Phi3Config", "phi3", lambda s: longrope(s, s.ctx - 40)),
    "phi3-long":        Case("Phi3Config", "phi3", lambda s: longrope(s, s.orig), prompt=32),
    "gpt2-scales":      Case("GPT2Config", "gpt2", lambda s: gpt(
        s, scale_attn_by_inverse_layer_idx=True, activation_function="relu", tie_word_embeddings=False)),
    "gptj":             Case("GPTJConfig", "gptj", lambda s: gpt(s, rotary_dim=s.dim // s.heads - 2)),
    "neox":             Case("GPTNeoXConfig", "gpt_neox", neox),
    "neox-sequential":  Case("GPTNeoXConfig", "gpt_neox", lambda s: neox(
        s, use_parallel_residual=False, attention_bias=False)),
    "bigcode":          Case("GPTBigCodeConfig", "gpt_bigcode", gpt),
    "bigcode-mha":      Case("GPTBigCodeConfig", "gpt_bigcode", lambda s: gpt(s, multi_query=False)),
    "falcon-40b":       Case("FalconConfig", "falcon", lambda s: falcon(
        s, new_decoder_architecture=True, num_kv_heads=s.kv)),
    "falcon-11b":       Case("FalconConfig", "falcon", lambda s: falcon(
        s, new_decoder_architecture=True, num_kv_heads=s.kv, num_ln_in_parallel_attn=1, ffn_hidden_size=s.ffn,
        tie_word_embeddings=False)),
    "falcon-rw":        Case("FalconConfig", "falcon", lambda s: falcon(
        s, alibi=True, multi_query=False, parallel_attn=False, bias=True), attention="sdpa"),
    "bloom":            Case("BloomConfig", "bloom", bloom),
    "bloom-heads":      Case("BloomConfig", "bloom", lambda s: bloom(s, hidden_size=s.six, n_head=6),
                             renamed=dict(hidden_size="n_embed", n_head="num_attention_heads")),
    "bloom-post":       Case("BloomConfig", "bloom", lambda s: bloom(s, apply_residual_connection_post_layernorm=True)),
    "opt-125m":         Case("OPTConfig", "opt", lambda s: opt(s), embed=0.03, quiet=KEY_BIAS),
    "opt-350m":         Case("OPTConfig", "opt", lambda s: opt(
        s, do_layer_norm_before=False, word_embed_proj_dim=s.dim // 2 + 3), quiet=KEY_BIAS),
    "opt-galactica":    Case("OPTConfig", "opt", lambda s: opt(
        s, enable_bias=False, layer_norm_elementwise_affine=False, activation_function="gelu")),
    "mpt":              Case("MptConfig", "mpt", lambda s: mpt(s, s.dim, s.heads)),
    "mpt-heads":        Case("MptConfig", "mpt", lambda s: mpt(s, s.six, 6, clip_qkv=1.1, softmax_scale=0.41)),
    "stablelm":         Case("StableLmConfig", "stablelm", stablelm),
    "stablelm-bias":    Case("StableLmConfig", "stablelm", lambda s: stablelm(s, use_qkv_bias=True)),
    "stablelm-parallel": Case("StableLmConfig", "stablelm", lambda s: stablelm(
        s, use_parallel_residual=True, qk_layernorm=True)),
    "stablelm-qknorm":  Case("StableLmConfig", "stablelm", lambda s: stablelm(
        s, qk_layernorm=True, tie_word_embeddings=True)),
    "starcoder2":       Case("Starcoder2Config", "starcoder2", lambda s: hf(
        s, norm_epsilon=3e-3, sliding_window=s.window)),
    "starcoder2-plain": Case("Starcoder2Config", "starcoder2", lambda s: hf(
        s, norm_epsilon=3e-3, use_bias=False, tie_word_embeddings=False)),
    "olmo":             Case("OlmoConfig", "olmo", lambda s: hf(s, pad_token_id=0), embed=0.03),
    "olmo-clip":        Case("OlmoConfig", "olmo", lambda s: hf(
        s, pad_token_id=0, clip_qkv=1.3, tie_word_embeddings=True)),
    "olmo2":            Case("Olmo2Config", "olmo2", lambda s: rms(s, pad_token_id=0)),
    "granite":          Case("GraniteConfig", "granite", lambda s: granite(s, tie_word_embeddings=True)),
    "granite-bias":     Case("GraniteConfig", "granite", lambda s: granite(s, attention_bias=True, mlp_bias=True)),
    "cohere":           Case("CohereConfig", "cohere", cohere),
    "cohere-qknorm":    Case("CohereConfig", "cohere", lambda s: cohere(s, use_qk_norm=True, attention_bias=True)),
    "cohere2":          Case("Cohere2Config", "cohere2", lambda s: cohere(
        s, sliding_window=s.window, num_hidden_layers=s.layers + 1,
        layer_types=pattern(s.layers + 1, 2, "sliding_attention", "full_attention"))),
    "smollm3":          Case("SmolLM3Config", "smollm3", lambda s: smollm3(s, no_rope_layer_interval=2)),
    "smollm3-window":   Case("SmolLM3Config", "smollm3", lambda s: smollm3(     # layer 2 has no rope
        s, no_rope_layer_interval=3, use_sliding_window=True, sliding_window=s.window, attention_bias=True,
        mlp_bias=True),
        quiet=("layers.2.self_attn.k_proj.bias",)),
    "gptj-tied":        Case("GPTJConfig", "gptj", lambda s: gpt(
        s, rotary_dim=s.dim // s.heads - 2, tie_word_embeddings=True)),
}

FIRST_SLICE = ("llama", "qwen2", "qwen3", "gemma2", "gpt2", "falcon-7b")
