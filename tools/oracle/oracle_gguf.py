"""Writes tiny models as GGUF files, the way the common converters lay them out, with the `gguf` package.

What the layout does to a family is in the table FILES: its architecture name, what the file cannot say and must
therefore be at the value readers assume (theta 10000, a query scale of 1/sqrt(head size), no window), and how q, k, v
are re-ordered. Tensor names come from the package's own name map.
"""
import math

import gguf
import numpy as np
import torch

from oracle_cases import FULL, pattern, rope, yarn
from oracle_gguf_delta import blocks, delta, write_delta_keys
from oracle_gguf_kv import factors, own_name, stacked_streams, write_gemma3n, write_gemma4
from oracle_gguf_moe import buffers_of, experts, first, write_expert_keys, write_latent_keys
from oracle_gguf_ssm import ARCHS, multiplied, named_experts, shared_alone, ssm, write_ssm_keys
from oracle_remote import OPENELM_FFN, OPENELM_HEADS, OPENELM_KV, ScaledEmbedding, ScaledLinear, divisible
from oracle_table import CASES


def rotated_as_neighbours(heads_of):
    """q and k rows from half order (i, i + n/2) to neighbour order (2i, 2i + 1), head by head."""
    def change(name, w, c):
        for part in ("q_proj.", "k_proj."):
            if part in name:
                heads = heads_of(c, part)
                return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
        return w
    return change


def heads_in(c, part):
    return c.num_attention_heads if part == "q_proj." else c.num_key_value_heads


LLAMA = rotated_as_neighbours(heads_in)


def plain(name, w, c):
    return w


def one_plus(name, w, c):
    """The norms of Gemma and Nemotron are stored as 1 + w."""
    return w + 1 if name.endswith("norm.weight") else w


def per_head_qkv(name, w, c):
    """[head][q, k, v] rows to all q, all k, all v."""
    if "query_key_value" not in name:
        return w
    heads = c.num_attention_heads
    return w.reshape(heads, 3, w.shape[0] // heads // 3, *w.shape[1:]).swapaxes(0, 1).reshape(w.shape)


def per_group_qkv(name, w, c):
    """[group][its queries, k, v] rows to all q, all k, all v."""
    if "query_key_value" not in name:
        return w
    size = c.hidden_size // c.num_attention_heads
    groups = c.num_kv_heads if c.new_decoder_architecture else 1
    parts = w.reshape(groups, -1, size, w.shape[1])
    return np.concatenate([parts[:, :-2].reshape(-1, w.shape[1]), parts[:, -2].reshape(-1, w.shape[1]),
                           parts[:, -1].reshape(-1, w.shape[1])])


def conv1d(name, w, c):
    """GPT-2 keeps its projections transposed."""
    return w.T if w.ndim == 2 and any(p in name for p in ("c_attn", "c_proj", "c_fc")) else w


def scaled_ends(name, w, c):
    """Jais: the factors of embeddings and logits go into the tensors, so a tied head becomes one of its own."""
    if name == "transformer.wte.weight":
        return [(name, w * ScaledEmbedding.scale), ("lm_head.weight", w * ScaledLinear.scale)]
    return conv1d(name, w, c)


def gate_and_up(name, w, c):
    """OpenELM: the fused gate and up are two tensors, q, k and v remain one."""
    if ".ffn.proj_1." not in name:
        return w
    layer = f"model.layers.{name.split('.')[2]}.mlp."
    return list(zip((layer + "gate_proj.weight", layer + "up_proj.weight"), np.split(w, 2)))


def kernels(name, w, c):
    """LFM2's kernels of convolutions [channels, 1, taps] lose the middle axis."""
    return w[:, 0] if name.endswith("conv.conv.weight") else w


def apart(name, w, c):
    """Ling 1 has q, k, v in one tensor, its files three."""
    if "query_key_value" not in name:
        return experts(plain)(name, w, c)
    size = c.hidden_size // c.num_attention_heads
    rows = np.cumsum([c.num_attention_heads * size, c.num_key_value_heads * size])
    layer = f"model.layers.{name.split('.')[2]}.self_attn."
    return [(f"{layer}{part}_proj.weight", LLAMA(f"{part}_proj.weight", x, c))
            for part, x in zip("qkv", np.split(w, rows))]


def theta(value=10000.0, **more):
    return lambda s: dict(rope_parameters=rope(value, **more))


HALF = theta(partial_rotary_factor=0.5)

def unlimited(**more):
    """Mamba 2 whose steps have no limits."""
    return lambda s: dict(time_step_limit=(0.0, math.inf), **more)


def mixed(s):
    return dict(time_step_min=0.001, layers_block_type=["linear_attention", "moe", "full_attention", "moe"])


# case: (architecture, values the file implies or llama.cpp takes for granted, change of each tensor)
FILES = {
    "llama":            ("llama", None, LLAMA),
    "llama-bias":       ("llama", lambda s: dict(mlp_bias=False), LLAMA),
    "llama-tied":       ("llama", None, LLAMA),
    "llama-linear":     ("llama", None, LLAMA),
    "llama-llama3":     ("llama", None, LLAMA),
    "mistral-headdim":  ("llama", None, LLAMA),
    "qwen2":            ("qwen2", None, plain),
    "qwen2-yarn":       ("qwen2", None, plain),
    "qwen3":            ("qwen3", None, plain),
    "gemma":            ("gemma", theta(), one_plus),
    "gemma2":           ("gemma2", lambda s: dict(theta()(s), query_pre_attn_scalar=s.hd), one_plus),
    "gemma3-plain":     ("gemma3", lambda s: dict(
        query_pre_attn_scalar=s.hd, num_hidden_layers=7, layer_types=pattern(7, 6),
        rope_parameters=dict(sliding_attention=rope(10000.0), full_attention=rope(5000.0))), one_plus),
    "gpt2":             ("gpt2", None, conv1d),
    "falcon-7b":        ("falcon", theta(), per_group_qkv),
    "falcon-40b":       ("falcon", theta(), per_group_qkv),
    "phi":              ("phi2", lambda s: dict(HALF(s), intermediate_size=4 * s.half), plain),
    "phi3":             ("phi3", None, plain),
    "phi3-long":        ("phi3", None, plain),
    "neox":             ("gptneox", HALF, per_head_qkv),
    "neox-sequential":  ("gptneox", lambda s: dict(HALF(s), attention_bias=True), per_head_qkv),
    "bigcode":          ("starcoder", None, plain),
    "bloom":            ("bloom", None, per_head_qkv),
    "mpt":              ("mpt", None, plain),
    "stablelm-bias":    ("stablelm", HALF, plain),
    "stablelm-parallel": ("stablelm", HALF, plain),
    "starcoder2":       ("starcoder2", lambda s: dict(sliding_window=None), plain),
    "olmo-clip":        ("olmo", None, LLAMA),
    "olmo2":            ("olmo2", None, plain),
    "granite":          ("granite", None, LLAMA),
    "cohere":           ("command-r", None, plain),
    "cohere2":          ("cohere2", lambda s: dict(num_hidden_layers=5, layer_types=pattern(5, 4)), plain),
    "smollm3":          ("smollm3", lambda s: dict(no_rope_layer_interval=4, num_hidden_layers=5), LLAMA),
    "glm4":             ("glm4", None, plain),
    "olmo3":            ("olmo2", lambda s: dict(
        rope_parameters=dict(sliding_attention=rope(5000.0), full_attention=dict(yarn(s), rope_theta=5000.0))), plain),
    "exaone4":          ("exaone4", None, plain),
    "exaone4-full":     ("exaone4", None, plain),
    "nemotron":         ("nemotron", None, one_plus),
    "nemotron-bias":    ("nemotron", lambda s: dict(hidden_act="relu2", head_dim=s.half // s.heads), one_plus),
    "ernie45":          ("ernie4_5", None, plain),
    "seed-oss":         ("seed_oss", None, plain),
    "arcee":            ("arcee", None, LLAMA),
    "jais2":            ("jais2", lambda s: dict(head_dim=s.dim // s.heads, num_key_value_heads=s.heads), plain),
    "apertus":          ("apertus", None, plain),
    "hunyuan-plain":    ("hunyuan-dense", lambda s: dict(attention_bias=False), plain),
    "baichuan":         ("baichuan", None, LLAMA),
    "internlm2":        ("internlm2", None, LLAMA),
    "xverse":           ("xverse", None, LLAMA),
    "orion":            ("orion", None, plain),
    "chatglm":          ("chatglm", lambda s: dict(head_dim=s.half // s.heads), plain),
    "minicpm":          ("minicpm", None, LLAMA),
    "exaone":           ("exaone", None, plain),
    "jais":             ("jais", None, scaled_ends),
    "openelm":          ("openelm", None, gate_and_up),
    "t5":               ("t5", lambda s: dict(relative_attention_max_distance=128), plain),
    "t5-gated":         ("t5", lambda s: dict(relative_attention_max_distance=128), plain),
    "mixtral":          ("llama", lambda s: dict(sliding_window=None), experts(LLAMA)),
    "qwen2-moe":        ("qwen2moe", lambda s: dict(mlp_only_layers=[]), experts(plain)),
    "qwen3-moe":        ("qwen3moe", lambda s: dict(
        mlp_only_layers=[], attention_bias=False, norm_topk_prob=True), experts(plain)),
    "olmoe":            ("olmoe", lambda s: dict(num_key_value_heads=s.heads), experts(plain)),
    "granitemoe":       ("granitemoe", None, experts(LLAMA)),
    "granitemoe-shared": ("granitemoe", None, experts(LLAMA)),
    "gpt-oss":          ("gpt-oss", lambda s: dict(swiglu_limit=7.0), experts(plain)),
    "dots1":            ("dots1", lambda s: dict(
        sliding_window=None, layer_types=None, num_key_value_heads=s.heads, n_group=1, topk_group=1), experts(plain)),
    "glm4-moe":         ("glm4moe", lambda s: dict(n_group=1, topk_group=1), experts(plain)),
    "deepseek2":        ("deepseek2", lambda s: dict(
        rope_parameters=yarn(s, mscale=0.7, mscale_all_dim=0.7)), experts(plain)),
    "deepseek2-lite":   ("deepseek2", lambda s: dict(first_k_dense_replace=1, attention_bias=False), experts(plain)),
    "deepseek3":        ("deepseek2", None, experts(plain)),
    "ministral3":       ("mistral3", None, LLAMA),
    "llama4":           ("llama4", lambda s: dict(
        num_local_experts=16, attention_chunk_size=8192, no_rope_layer_interval=4, num_hidden_layers=4,
        floor_scale=8192, attn_scale=0.1), experts(plain)),
    "minimax-m2":       ("minimax-m2", None, experts(plain)),
    "afmoe":            ("afmoe", lambda s: dict(num_hidden_layers=5, layer_types=pattern(5, 4)), experts(plain)),
    "exaone-moe":       ("exaone-moe", None, experts(plain)),
    "phimoe":           ("phimoe", lambda s: dict(sliding_window=None, router_jitter_noise=0.01), experts(plain)),
    "hunyuan-moe":      ("hunyuan-moe", None, experts(plain)),
    "bailing":          ("bailingmoe", None, apart),
    "bailing2":         ("bailingmoe2", None, experts(plain)),
    "lfm2":             ("lfm2", None, kernels),
    "lfm2-moe":         ("lfm2moe", None, experts(kernels)),
    "gemma3n":          ("gemma3n", None, factors),
    "gemma4":           ("gemma4", None, factors),
    "gemma4-narrow":    ("gemma4", lambda s: dict(attention_bias=False), factors),
    "gemma4-values":    ("gemma4", None, factors),
    "gemma4-moe":       ("gemma4", None, factors),
    "qwen3.5":          ("qwen35", None, delta(True)),
    "qwen3.5-tied":     ("qwen35", lambda s: dict(hidden_act="silu"), delta(True)),
    "qwen3.5-moe":      ("qwen35moe", lambda s: dict(
        layer_types=pattern(s.layers + 1, 2, "linear_attention")), delta(True)),
    "qwen3-next":       ("qwen3next", lambda s: dict(
        layer_types=pattern(s.layers + 1, 3, "linear_attention"), mlp_only_layers=[]), delta(False)),
    "mamba2":           ("mamba2", unlimited(), ssm(plain)),
    "mamba2-tied":      ("mamba2", unlimited(use_bias=False, hidden_act="silu"), ssm(plain)),
    "granite-hybrid":   ("granitehybrid", unlimited(), ssm(experts(LLAMA))),
    "granite-hybrid-dense": ("granitehybrid", unlimited(mamba_proj_bias=False, attention_bias=False),
                             ssm(shared_alone(LLAMA))),
    "bamba":            ("granitehybrid", unlimited(), ssm(LLAMA)),
    "bamba-bias":       ("granitehybrid", unlimited(mamba_proj_bias=False, attention_bias=False, mlp_bias=False),
                         ssm(LLAMA)),
    "nemotron-h":       ("nemotron_h_moe", mixed, ssm(named_experts)),
    "nemotron-h-latent": ("nemotron_h_moe", lambda s: dict(mixed(s), n_group=1, use_bias=False, mlp_bias=False,
                                                           mamba_hidden_act="silu"), ssm(named_experts)),
    "nemotron-h-dense": ("nemotron_h", lambda s: dict(time_step_min=0.001), ssm(plain)),
    "falcon-h1":        ("falcon-h1", unlimited(), multiplied),
    "falcon-h1-norm":   ("falcon-h1", unlimited(mamba_norm_before_gate=False, mamba_proj_bias=False, mlp_bias=False,
                                                projectors_bias=False, attention_bias=False, mamba_d_ssm=66,
                                                mamba_expand=2), multiplied),
}
OTHER_SPECS = {"bamba": "granitemoehybrid", "bamba-bias": "granitemoehybrid"}  # stored as another family
# converted from the family's own tensors, others from transformers' class
AS_PUBLISHED = ("chatglm", "jais", "openelm", "bailing", "bailing2")


def kv_heads(c, arch):
    if arch == "falcon":
        return c.num_kv_heads if c.new_decoder_architecture else 1
    return 1 if arch in ("starcoder", "deepseek2") else first(c, "num_key_value_heads", "num_attention_heads", "n_head",
                                                              "n_heads")


def write_keys(w, model, arch):
    """The hyper-parameters of a model, under the keys of `arch`."""
    c = model.config
    if arch in ARCHS:
        write_ssm_keys(w, model, arch)
        write_extras(w, model, arch)
        if c.model_type == "granitemoehybrid":
            write_expert_keys(w, c)
        return
    dim = first(c, "hidden_size", "n_embd", "d_model")
    heads = first(c, "num_attention_heads", "n_head", "n_heads")
    w.add_context_length(first(c, "max_position_embeddings", "n_positions", "max_seq_len") or 2048)
    w.add_embedding_length(dim)
    layers = first(c, "num_hidden_layers", "n_layer", "n_layers")
    w.add_block_count(blocks(c, arch, layers))
    if arch == "openelm":
        w.add_feed_forward_length([divisible(x * dim, 16) for x in OPENELM_FFN[:layers]])
        w.add_head_count(OPENELM_HEADS[:layers])
        w.add_head_count_kv(OPENELM_KV[:layers])
    elif arch.startswith("lfm2"):
        w.add_feed_forward_length(model.model.layers[0].feed_forward.w1.out_features)   # config.json says another
        w.add_head_count(heads)
        w.add_head_count_kv([0 if kind == "conv" else c.num_key_value_heads for kind in c.layer_types])
        w.add_shortconv_l_cache(c.conv_L_cache)
    elif arch in ("gemma3n", "gemma4"):
        w.add_head_count(heads)
        (write_gemma4 if arch == "gemma4" else write_gemma3n)(w, c)
    else:
        w.add_feed_forward_length(first(c, "intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_hidden_size",
                                        "d_ff") or 4 * dim)
        w.add_head_count(heads)
        w.add_head_count_kv(kv_heads(c, arch))
    w.add_vocab_size(c.vocab_size)
    if arch.startswith("lfm2"):
        w.add_layer_norm_rms_eps(c.norm_eps)
    elif isinstance(first(c, "rms_norm_eps"), float) and arch != "jais":
        w.add_layer_norm_rms_eps(c.rms_norm_eps)
    else:
        w.add_layer_norm_eps(first(c, "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps",
                                   "rms_norm_eps" if arch == "jais" else "") or 1e-5)
    size = arch not in ("gemma3n", "gemma4") and first(c, "head_dim") or dim // heads
    if arch not in ("deepseek2", "gemma3n", "gemma4") and (size != dim // heads or arch.startswith("gemma")):
        w.add_key_length(size)
        w.add_value_length(size)
    write_rope(w, c, arch, size)
    write_extras(w, model, arch)
    if arch not in ("gemma3n", "gemma4"):
        write_expert_keys(w, c)
    write_latent_keys(w, c)
    write_delta_keys(w, c, arch)


def write_rope(w, c, arch, size):
    rope_set = getattr(c, "rope_parameters", None)
    if not rope_set or arch in ("gemma3n", "gemma4", "bloom", "mpt", "gpt2", "starcoder", "jais"):
        return
    rope_set = rope_set.get("full_attention", rope_set)
    if arch not in ("gemma", "gemma2", "falcon", "phi2", "gptneox", "stablelm", "baichuan"):
        w.add_rope_freq_base(rope_set["rope_theta"])
    if arch not in ("gemma", "gemma2", "gemma3", "falcon"):
        w.add_rope_dimension_count(int(size * rope_set.get("partial_rotary_factor", 1.0)))
    kind = rope_set["rope_type"]
    if kind in ("linear", "yarn"):
        w.add_rope_scaling_type(gguf.RopeScalingType(kind))
        w.add_rope_scaling_factor(rope_set["factor"])
    if "beta_fast" in rope_set:
        w.add_rope_scaling_yarn_beta_fast(rope_set["beta_fast"])
        w.add_rope_scaling_yarn_beta_slow(rope_set["beta_slow"])
    if arch == "mistral3":
        w.add_rope_scaling_yarn_log_mul(rope_set["mscale_all_dim"])
        w.add_attn_temperature_scale(rope_set["llama_4_scaling_beta"])
    if kind in ("yarn", "longrope"):
        w.add_rope_scaling_orig_ctx_len(rope_set["original_max_position_embeddings"])
    if kind == "longrope":
        scale = c.max_position_embeddings / c.original_max_position_embeddings
        w.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(c.original_max_position_embeddings)))
        w.add_tensor("rope_factors_long.weight", np.array(rope_set["long_factor"], np.float32))
        w.add_tensor("rope_factors_short.weight", np.array(rope_set["short_factor"], np.float32))
    if kind == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_factors(rope_set, size))


def llama3_factors(r, size):
    """What every frequency is divided by, as transformers computes it."""
    freqs = 1.0 / r["rope_theta"] ** (torch.arange(0, size, 2).float() / size)
    wave, length = 2 * math.pi / freqs, r["original_max_position_embeddings"]
    smooth = (length / wave - r["low_freq_factor"]) / (r["high_freq_factor"] - r["low_freq_factor"])
    middle = 1 / ((1 - smooth) / r["factor"] + smooth)
    low, high = length / r["low_freq_factor"], length / r["high_freq_factor"]
    factors = torch.where(wave < high, 1.0, torch.where(wave > low, float(r["factor"]), middle))
    return factors.numpy().astype(np.float32)


# (architectures, what is written, its value or the configuration's key)
EXTRAS = (
    ("gemma2 gemma3 cohere2 phi3", "sliding_window", lambda c: c.sliding_window or 0),
    ("gemma2", "attn_logit_softcapping", "attn_logit_softcapping"),
    ("gemma2", "final_logit_softcapping", "final_logit_softcapping"),
    ("gptneox stablelm", "parallel_residual", "use_parallel_residual"),
    ("olmo", "clamp_kqv", "clip_qkv"),
    ("mpt", "clamp_kqv", lambda c: c.attn_config.clip_qkv),
    ("mpt jais", "max_alibi_bias", lambda c: 8.0),
    ("falcon", "tensor_data_layout", lambda c: "jploski"),
    ("granite granitemoe granitehybrid", "attention_scale", "attention_multiplier"),
    ("granite granitemoe minicpm granitehybrid", "embedding_scale", "embedding_multiplier"),
    ("granite granitemoe minicpm granitehybrid", "residual_scale", "residual_multiplier"),
    ("granite granitemoe minicpm granitehybrid", "logit_scale", "logits_scaling"),
    ("t5", "decoder_block_count", "num_decoder_layers"),
    ("t5", "relative_attn_buckets_count", "relative_attention_num_buckets"),
    ("t5", "decoder_start_token_id", "decoder_start_token_id"),
    ("command-r cohere2", "logit_scale", "logit_scale"),
    ("command-r cohere2", "rope_scaling_type", lambda c: gguf.RopeScalingType.NONE),
)


def write_extras(w, model, arch):
    c = model.config
    for archs, key, value in EXTRAS:
        if arch in archs.split():
            value = value(c) if callable(value) else first(c, value)
            if value is not None:
                getattr(w, "add_" + key)(value)
    if arch in ("olmo2", "exaone4", "exaone-moe", "afmoe") and getattr(c, "sliding_window", None):
        w.add_sliding_window(c.sliding_window)
        w.add_sliding_window_pattern([kind == "sliding_attention" for kind in c.layer_types])
    if arch == "bailingmoe":
        w.add_expert_shared_count(2)
        w.add_leading_dense_block_count(0)
        w.add_expert_weights_norm(True)
        w.add_expert_weights_scale(1.0)
    if arch == "apertus":
        w.add_xielu_alpha_p([p.item() for n, p in model.named_parameters() if n.endswith("act_fn.alpha_p")])
        w.add_xielu_alpha_n([p.item() for n, p in model.named_parameters() if n.endswith("act_fn.alpha_n")])
        w.add_xielu_beta([0.5] * c.num_hidden_layers)
        w.add_xielu_eps([-1e-6] * c.num_hidden_layers)


def stacked_head_norms(tensors):
    """StableLM's norm per head lies in one tensor per head; GGUF stacks them [heads, size]."""
    found = {}
    for name in [n for n in tensors if "layernorm.norms." in n]:
        stem, head = name.replace(".weight", "").rsplit(".norms.", 1)
        found.setdefault(stem + ".weight", {})[int(head)] = tensors.pop(name)
    for name, heads in found.items():
        tensors[name] = np.stack([heads[h] for h in sorted(heads)])


def write_gguf(path, model, name, to_type=None):
    """Writes `model` (case `name`). Matrices are stored as `to_type` (a GGMLQuantizationType) where given, vectors as
    float32."""
    arch_name, _, change = FILES[name]
    c = model.config
    arch = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch_name)
    layers = first(c, "num_hidden_layers", "n_layer", "n_layers")
    names = gguf.get_tensor_name_map(arch, layers)
    w = gguf.GGUFWriter(path, arch_name)
    write_keys(w, model, arch_name)
    params = {n: p.detach() for n, p in (*model.named_parameters(), *buffers_of(model).items()) if ".act_fn." not in n}
    if name in AS_PUBLISHED:
        params = CASES[name].layout(c.to_dict(), params)[1]
    params = {n: p.numpy() for n, p in params.items()}
    stacked_head_norms(params)
    stacked_streams(params)
    for whole, stored in params.items():
        parts = change(whole, stored, c)
        for n, values in parts if isinstance(parts, list) else [(whole, parts)]:
            ends = (".weight", ".bias")
            to = own_name(n) or names.get_name(n, ends) or names.get_name(n.replace("transformer.", ""), ends)
            if to is None:
                raise SystemExit(f"oracle: {name}: {arch_name} has no tensor for {n}")
            values = np.ascontiguousarray(values, dtype=np.float32)
            if to_type is not None and values.ndim == 2 and "norm" not in n:
                w.add_tensor(to, gguf.quants.quantize(values, to_type), raw_dtype=to_type)
            else:
                w.add_tensor(to, values)
    close(w)


def close(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def implied(name, size=FULL):
    """What a GGUF file of this case must assume: overrides of the case's configuration."""
    more = FILES[name][1]
    return more(size) if more else {}
