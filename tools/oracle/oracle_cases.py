"""The table of tiny models that judge the engine: one row per family and form.

A case is a transformers configuration class with odd sizes, plus the few facts the generator cannot see in it. Sizes
are never multiples of anything convenient, windows and original lengths are shorter than the tested sequence, and
every constant a family can choose (theta, eps, scales, caps) differs from its default, so that an engine that falls
back to a default is seen.
"""
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter


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
    auto: str = ""                 # class that makes an encoder and so says what is compared (oracle_encoders.py)
    pool: str = "mean"             # of a model without a head: which rows make the vector of a text
    dense: tuple = ()              # (width, activation) of Dense modules behind the pooling
    ended: bool = False            # each text has an end token; not its last
    padded: bool = False           # the text of 40 tokens ends with two of padding
    embed: float = 1.0             # factor on the drawn token embeddings, where the family itself scales them up
    own_head: bool = False         # the head is not the token table, whatever the configuration says
    quiet: tuple = ()              # parameter name parts that provably cannot change the logits
    hub: dict = field(default_factory=dict)    # keys hub files of the family also carry, though they change nothing
    renamed: dict = field(default_factory=dict)   # keys that have another name in some hub files
    build: object = None           # changes the model that transformers made into the family's (oracle_remote.py)
    # (configuration, tensors) -> the family's own, where transformers has no class for it
    layout: object = None


class Table(dict):
    """Cases by name. `more` of a row are fields of Case and values of the configuration, which replace those before
    them; such a value may be a function of the size."""

    def case(self, name, config, spec, make, **more):
        self[name] = changed(Case(config, spec, make), more)

    def like(self, name, base, **more):
        """What differs from another case of the table."""
        self[name] = changed(self[base], more)


def changed(case, more):
    own = {f.name: more.pop(f.name) for f in fields(Case) if f.name in more}
    values = lambda s: {k: v(s) if callable(v) else v for k, v in more.items()}
    return replace(case, make=lambda s: {**case.make(s), **values(s)}, **own)


# ---------------------------------------------------------------- pieces of configurations

HD, HALF, HEADS, SIX, WINDOW = map(attrgetter, ("hd", "half", "heads", "six", "window"))


def hf(s):
    """Names most families since Llama share."""
    return dict(hidden_size=s.dim, intermediate_size=s.ffn, num_hidden_layers=s.layers, num_attention_heads=s.heads,
                num_key_value_heads=s.kv, max_position_embeddings=s.ctx, rope_parameters=rope())


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


def pattern(n, every, usual="sliding_attention", last="full_attention"):
    """Every `every`-th of n layers is `last`, the others `usual`."""
    return [last if (i + 1) % every == 0 else usual for i in range(n)]


def windowed(s):
    """Every other layer with a window."""
    return dict(num_hidden_layers=s.layers + 1, sliding_window=s.window, layer_types=pattern(s.layers + 1, 2))


def rms(s):
    return dict(hf(s), rms_norm_eps=3e-3)


def ln(s):
    return dict(hf(s), layer_norm_eps=3e-3)


def headed(s):
    return dict(rms(s), head_dim=s.hd)


def llama(s):
    return dict(headed(s), tie_word_embeddings=False)


def gemma2(s):
    return dict(headed(s), query_pre_attn_scalar=13, sliding_window=s.window, attn_logit_softcapping=3.0,
                final_logit_softcapping=6.0)


def gemma3(s):
    ropes = dict(sliding_attention=rope(300.0), full_attention=rope(5000.0, "linear", factor=3.0))
    return dict(headed(s), **windowed(s), query_pre_attn_scalar=13, rope_parameters=ropes)


def phi(s):
    return dict(ln(s), hidden_size=s.half, rope_parameters=half_rope(), tie_word_embeddings=False)


def longrope(s):
    pairs = s.dim // s.heads // 2
    return dict(rms(s), original_max_position_embeddings=s.ctx - 40, pad_token_id=0, tie_word_embeddings=False,
                rope_parameters=rope(kind="longrope", short_factor=[1.0 + 0.07 * i for i in range(pairs)],
                                     long_factor=[1.3 + 0.6 * i for i in range(pairs)]))


def gpt(s):
    """Names of the GPT-2 line."""
    return dict(n_embd=s.dim, n_layer=s.layers, n_head=s.heads, n_positions=s.ctx, n_inner=s.ffn,
                layer_norm_epsilon=3e-3)


def neox(s):
    return dict(hidden_size=s.half, intermediate_size=s.ffn, num_hidden_layers=s.layers, num_attention_heads=s.heads,
                max_position_embeddings=s.ctx, layer_norm_eps=3e-3, rope_parameters=half_rope())


def falcon(s):
    return dict(hidden_size=s.dim, num_hidden_layers=s.layers, num_attention_heads=s.heads, layer_norm_epsilon=3e-3,
                max_position_embeddings=s.ctx, ffn_hidden_size=4 * s.dim, rope_parameters=rope())


def bloom(s):
    return dict(hidden_size=s.dim, n_layer=s.layers, n_head=s.heads, layer_norm_epsilon=3e-3)


def opt(s):
    return dict(hidden_size=s.dim, num_hidden_layers=s.layers, num_attention_heads=s.heads, ffn_dim=s.ffn,
                max_position_embeddings=s.ctx, word_embed_proj_dim=s.dim)


def mpt(s):
    return dict(d_model=s.dim, n_heads=s.heads, n_layers=s.layers, max_seq_len=s.ctx, layer_norm_epsilon=3e-3,
                expansion_ratio=4, attn_config={})


def cohere(s):
    return dict(ln(s), logit_scale=0.37)


def granite(s):
    return dict(rms(s), embedding_multiplier=2.3, logits_scaling=0.8, residual_multiplier=0.61,
                attention_multiplier=0.19)


def smollm3(s):
    return dict(rms(s), pad_token_id=0, num_hidden_layers=s.layers + 1)


# ---------------------------------------------------------------- the table

# Without rotation a key bias adds one constant to all scores of a query, which softmax removes.
KEY_BIAS = ("k_proj.bias",)
SCALED = 0.25       # of a family that multiplies embeddings by sqrt(dim): drawn larger, they would drown the branches
TIED, UNTIED = dict(tie_word_embeddings=True), dict(tie_word_embeddings=False)
BIASES = dict(attention_bias=True, mlp_bias=True)
CASES = Table()
case, like = CASES.case, CASES.like

# first slice: the six families that between them need every feature of the block formula
case("llama", "LlamaConfig", "llama", llama)
case("qwen2", "Qwen2Config", "qwen2", rms, **UNTIED,
     hub=dict(use_sliding_window=False, sliding_window=9, max_window_layers=1))
case("qwen3", "Qwen3Config", "qwen3", llama)
case("gemma2", "Gemma2Config", "gemma2", gemma2, embed=SCALED)
case("gpt2", "GPT2Config", "gpt2", gpt)
case("falcon-7b", "FalconConfig", "falcon", falcon)

like("llama-bias", "llama", **BIASES)
like("llama-tied", "llama", **TIED)
like("llama-mha", "llama", head_dim=lambda s: s.dim // s.heads, num_key_value_heads=HEADS,
     hidden_act="gelu_pytorch_tanh")
like("llama-linear", "llama", rope_parameters=rope(900.0, "linear", factor=2.5))
like("llama-dynamic", "llama", max_position_embeddings=56, rope_parameters=rope(900.0, "dynamic", factor=2.5))
like("llama-yarn", "llama", rope_parameters=yarn)
like("llama-yarn-mscale", "llama", rope_parameters=lambda s: yarn(s, mscale=0.9, mscale_all_dim=0.4, truncate=False))
like("llama-llama3", "llama", rope_parameters=llama3)
case("mistral", "MistralConfig", "mistral", rms, sliding_window=WINDOW, **UNTIED)
like("mistral-headdim", "mistral", sliding_window=None, head_dim=HD)
case("qwen2-window", "Qwen2Config", "qwen2", rms, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1,
     **TIED)
# the betas that are usual need a longer original length
case("qwen2-yarn", "Qwen2Config", "qwen2", rms, **UNTIED,
     rope_parameters=rope(900.0, "yarn", factor=4.0, original_max_position_embeddings=2000))
like("qwen3-window", "qwen3", attention_bias=True, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1,
     **TIED)
case("gemma", "GemmaConfig", "gemma", headed, embed=SCALED, hub=dict(hidden_act="gelu"))
like("gemma-mqa", "gemma", num_key_value_heads=1, hub={})
like("gemma2-nocap", "gemma2", attn_logit_softcapping=None, final_logit_softcapping=None, attention_bias=True)
case("gemma3", "Gemma3TextConfig", "gemma3", gemma3, embed=SCALED)
like("gemma3-plain", "gemma3", rope_parameters=dict(sliding_attention=rope(300.0), full_attention=rope(5000.0)))
case("phi", "PhiConfig", "phi", phi)
like("phi-qknorm", "phi", qk_layernorm=True)
case("phi3", "Phi3Config", "phi3", rms, pad_token_id=0, sliding_window=WINDOW)
case("phi3-partial", "Phi3Config", "phi3", rms, hidden_size=HALF, pad_token_id=0, rope_parameters=half_rope(), **TIED)
case("phi3-short", "Phi3Config", "phi3", longrope)
like("phi3-long", "phi3-short", original_max_position_embeddings=attrgetter("orig"), prompt=32)
like("gpt2-scales", "gpt2", scale_attn_by_inverse_layer_idx=True, activation_function="relu", **UNTIED)
case("gptj", "GPTJConfig", "gptj", gpt, rotary_dim=lambda s: s.dim // s.heads - 2)
case("neox", "GPTNeoXConfig", "gpt_neox", neox)
like("neox-sequential", "neox", use_parallel_residual=False, attention_bias=False)
case("bigcode", "GPTBigCodeConfig", "gpt_bigcode", gpt)
like("bigcode-mha", "bigcode", multi_query=False)
like("falcon-40b", "falcon-7b", new_decoder_architecture=True, num_kv_heads=attrgetter("kv"))
like("falcon-11b", "falcon-40b", num_ln_in_parallel_attn=1, ffn_hidden_size=attrgetter("ffn"), **UNTIED)
like("falcon-rw", "falcon-7b", alibi=True, multi_query=False, parallel_attn=False, bias=True, attention="sdpa")
case("bloom", "BloomConfig", "bloom", bloom)
like("bloom-heads", "bloom", hidden_size=SIX, n_head=6,
     renamed=dict(hidden_size="n_embed", n_head="num_attention_heads"))
like("bloom-post", "bloom", apply_residual_connection_post_layernorm=True)
case("opt-125m", "OPTConfig", "opt", opt, embed=0.03, quiet=KEY_BIAS)
case("opt-350m", "OPTConfig", "opt", opt, do_layer_norm_before=False, word_embed_proj_dim=lambda s: s.dim // 2 + 3,
     quiet=KEY_BIAS)
case("opt-galactica", "OPTConfig", "opt", opt, enable_bias=False, layer_norm_elementwise_affine=False,
     activation_function="gelu")
case("mpt", "MptConfig", "mpt", mpt)
like("mpt-heads", "mpt", d_model=SIX, n_heads=6, attn_config=dict(clip_qkv=1.1, softmax_scale=0.41))
case("stablelm", "StableLmConfig", "stablelm", phi)
like("stablelm-bias", "stablelm", use_qkv_bias=True)
like("stablelm-parallel", "stablelm", use_parallel_residual=True, qk_layernorm=True)
like("stablelm-qknorm", "stablelm", qk_layernorm=True, **TIED)
case("starcoder2", "Starcoder2Config", "starcoder2", hf, norm_epsilon=3e-3, sliding_window=WINDOW)
case("starcoder2-plain", "Starcoder2Config", "starcoder2", hf, norm_epsilon=3e-3, use_bias=False, **UNTIED)
case("olmo", "OlmoConfig", "olmo", hf, pad_token_id=0, embed=0.03)
case("olmo-clip", "OlmoConfig", "olmo", hf, pad_token_id=0, clip_qkv=1.3, **TIED)
case("olmo2", "Olmo2Config", "olmo2", rms, pad_token_id=0)
case("granite", "GraniteConfig", "granite", granite, **TIED)
case("granite-bias", "GraniteConfig", "granite", granite, **BIASES)
case("cohere", "CohereConfig", "cohere", cohere)
like("cohere-qknorm", "cohere", use_qk_norm=True, attention_bias=True)
case("cohere2", "Cohere2Config", "cohere2", lambda s: dict(cohere(s), **windowed(s)))
case("smollm3", "SmolLM3Config", "smollm3", smollm3, no_rope_layer_interval=2)
like("smollm3-window", "smollm3", no_rope_layer_interval=3, use_sliding_window=True, sliding_window=WINDOW, **BIASES,
     quiet=("layers.2.self_attn.k_proj.bias",))     # layer 2 has no rope
like("gptj-tied", "gptj", **TIED)

FIRST_SLICE = ("llama", "qwen2", "qwen3", "gemma2", "gpt2", "falcon-7b")
