"""What GGUF does to gated delta rules: value heads tiled over key heads (Qwen3.5) or projections taken apart
(Qwen3-Next), rates in place of their logarithms, norms that are kept as 1 + w, and blocks behind the layers."""
import numpy as np

from oracle_gguf_moe import experts, first


def tiled(w, c, width, axis=0):
    """Value heads of `width` numbers from [key head][its value heads] to [value head][key heads]."""
    shape, keys = w.shape, c.linear_num_key_heads
    heads = (keys, c.linear_num_value_heads // keys, width)
    return w.reshape(*shape[:axis], *heads, *shape[axis + 1:]).swapaxes(axis, axis + 1).reshape(shape)


def behind_keys(w, c, change):
    """The rows of values, which follow those of queries and keys, changed."""
    at = 2 * c.linear_num_key_heads * c.linear_key_head_dim
    return np.concatenate([w[:at], change(w[at:])])


def tile(name, w, c):
    width = c.linear_value_head_dim
    if ".in_proj_qkv." in name or ".conv1d." in name:
        return behind_keys(w, c, lambda v: tiled(v, c, width))
    if ".in_proj_z." in name:
        return tiled(w, c, width)
    if ".out_proj." in name:
        return tiled(w, c, width, axis=1)
    return w if ".norm." in name else tiled(w, c, 1)


def apart(w, c):
    """Rows by key head, each q, k, v, z: all q, k, v, and all z."""
    per_key = c.linear_num_value_heads // c.linear_num_key_heads * c.linear_value_head_dim
    cuts = np.cumsum([c.linear_key_head_dim, c.linear_key_head_dim, per_key])
    q, k, v, z = (p.reshape(-1, w.shape[1]) for p in np.split(w.reshape(c.linear_num_key_heads, -1, w.shape[1]), cuts,
                                                               axis=1))
    return np.concatenate([q, k, v]), z


def delta(tiles):
    def change(name, w, c):
        if ".linear_attn." not in name:
            return experts(one_plus)(name, w, c)
        if name.endswith(".conv1d.weight"):
            w = w[:, 0]
        if name.endswith(".A_log"):
            w = -np.exp(w)
        if tiles:
            w = tile(name, w, c)
        if ".in_proj_qkvz." in name:
            return list(zip((name.replace("qkvz", "qkv"), name.replace("qkvz", "z")), apart(w, c)))
        return [(name.replace(".dt_bias", ".dt_proj.bias"), w)]
    return change


def one_plus(name, w, c):
    return w + 1 if name.endswith("norm.weight") else w


def write_delta_keys(w, c, arch):
    if first(c, "linear_num_key_heads") is None:
        return
    w.add_ssm_conv_kernel(c.linear_conv_kernel_dim)
    w.add_ssm_state_size(c.linear_key_head_dim)
    w.add_ssm_group_count(c.linear_num_key_heads)
    w.add_ssm_time_step_rank(c.linear_num_value_heads)
    w.add_ssm_inner_size(c.linear_num_value_heads * c.linear_value_head_dim)
    if arch == "qwen35":
        w.add_array(f"{arch}.attention.recurrent_layers", [kind != "full_attention" for kind in c.layer_types])
    else:
        w.add_full_attention_interval(c.layer_types.index("full_attention") + 1)
    if arch == "qwen35moe":     # a block that predicts one token more
        w.add_nextn_predict_layers(1)
        for part in ("nextn.eh_proj", "nextn.enorm", "attn_norm", "attn_q"):
            w.add_tensor(f"blk.{c.num_hidden_layers}.{part}.weight", np.ones((3, 5), np.float32))


def blocks(c, arch, layers):
    """What block_count says."""
    return layers + (arch == "qwen35moe")
