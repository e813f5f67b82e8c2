"""config.json as it lies on the hub: keys of transformers 4, and nothing that equals the class's default.

transformers 5 saves `rope_parameters` and explicit `layer_types`; files made before it carry `rope_theta`,
`rope_scaling`, `rotary_pct`, `sliding_window_pattern` and leave defaults out. An engine must read both.
"""

ALWAYS = ("architectures", "model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
          "num_key_value_heads", "n_layer", "n_head", "n_embd")
PARTIAL = dict(gpt_neox="rotary_pct")       # elsewhere partial_rotary_factor
THETA = dict(gpt_neox="rotary_emb_base")    # elsewhere rope_theta
DERIVED = dict(                             # keys hub files never carry, computed from others
    qwen2=("layer_types",), qwen3=("layer_types",), gemma2=("layer_types",),
    smollm3=("layer_types", "no_rope_layers"),
    gemma3_text=("layer_types", "_sliding_window_pattern"), cohere2=("layer_types", "head_dim"),
    vaultgemma=("layer_types",), cwm=("layer_types",), granite_swa=("layer_types",),
    gpt_bigcode=("num_key_value_heads",), modernbert=("layer_types",), lfm2=("layer_types",))


# They have no files of version 4, or (OLMo 3) take rope_theta for one kind of layer only.
NEW = ("olmo3", "olmo_hybrid", "mellum")


def old_rope(config, family):
    """Replaces rope_parameters by the keys of version 4."""
    rope = dict(config.pop("rope_parameters", None) or {})
    if not rope:
        return
    if "full_attention" in rope:            # Gemma 3: one set for each kind of layer
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = dict(rope["full_attention"])
    config[THETA.get(family, "rope_theta")] = rope.pop("rope_theta")
    part = rope.pop("partial_rotary_factor", None)
    if part is not None:
        config[PARTIAL.get(family, "partial_rotary_factor")] = part
    kind = rope.pop("rope_type", "default")
    if kind != "default":
        if "original_max_position_embeddings" in config:    # Phi-3 keeps it outside
            rope.pop("original_max_position_embeddings", None)
        config["rope_scaling"] = dict(type=kind, **rope) if kind == "longrope" else dict(rope_type=kind, **rope)


def pattern_of(layer_types):
    return layer_types.index("full_attention") + 1


def hub_config(saved, config_class, case):
    """The saved configuration (a dict) of a case in the old form."""
    defaults = config_class().to_dict()
    config = {k: v for k, v in saved.items() if k in ALWAYS or k == "rope_parameters" or defaults.get(k, None) != v}
    family = saved["model_type"]
    if family == "modernbert":
        ropes = config.pop("rope_parameters")
        config.update(global_rope_theta=ropes["full_attention"]["rope_theta"],
                      local_rope_theta=ropes["sliding_attention"]["rope_theta"],
                      global_attn_every_n_layers=saved["layer_types"].index("full_attention", 1))
    if family in ("gemma3_text", "cohere2"):
        config["sliding_window_pattern"] = pattern_of(saved["layer_types"])
    if family == "mpt":
        usual = defaults["attn_config"]
        chosen = {k: v for k, v in saved["attn_config"].items() if k in usual and v != usual[k] and "label" not in k}
        config["attn_config"] = dict(chosen, alibi=True)
    if family == "falcon":
        if saved["ffn_hidden_size"] == 4 * saved["hidden_size"]:
            config.pop("ffn_hidden_size", None)
        if saved["num_kv_heads"] == saved["num_attention_heads"]:
            config.pop("num_kv_heads", None)
    for key in DERIVED.get(family, ()):
        config.pop(key, None)
    if family in ("gemma4_text", "gemma4_unified_text"):
        full = config.pop("per_layer_config")[str(saved["layer_types"].index("full_attention"))]
        config["global_head_dim"] = full["head_dim"]
        config["num_global_key_value_heads"] = full.get("num_key_value_heads")
    elif family not in NEW:
        old_rope(config, family)
    config.update(case.hub)
    for name, other in case.renamed.items():
        config[other] = config.pop(name)
    config["torch_dtype"] = config.pop("dtype", "float32")
    config["transformers_version"] = "4.40.0"
    return config
