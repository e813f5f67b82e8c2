"""What the configuration classes of transformers say where config.json says nothing.

For every class of the tables its whole configuration, made with odd sizes and nothing else, as config.json holds it
when it leaves nothing out; and the keys that may be left out of it, for the class then says the same. A test
(tests/t_models_class_defaults.c) takes them away, all at once and one by one, and demands that the family's spec gives
the same values. `oracle.py minimal` does so with models.
"""
import glob
import json
import os
import re

import transformers

from oracle_table import CASES

LAYERS, HEADS = 24, 6       # GPT-Neo's default is a list for 24 layers
SIZES = {                   # keys that every config.json has, a family some of them
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "dim"), 480),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "hidden_dim", "encoder_ffn_dim", "decoder_ffn_dim"), 704),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"),
                    LAYERS),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
                     "decoder_attention_heads"), HEADS),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len"), 5000),
    "vocab_size": 1003,
}
MORE = dict(Dots1Config=dict(num_hidden_layers=64),         # its windows begin at layer 62
            # widths of which these classes make whole heads
            GraniteMoeHybridConfig=dict(hidden_size=512, num_attention_heads=8),
            BambaConfig=dict(hidden_size=512, num_attention_heads=8), Mamba2Config=dict(head_dim=160))


def classes():
    """{class: spec} of all cases, in the order of the tables."""
    found = {}
    for case in CASES.values():
        if not case.layout:
            found.setdefault(case.config, case.spec)
    return found


def sizes_of(config_class, sizes):
    """Those of the sizes that the class has a key for; other names of a key are not meant."""
    own = config_class().to_dict()
    return {k: v for k, v in sizes.items() if k in own}


def without(config, path):
    """The configuration less one key; `path` has two parts when it lies in an object."""
    head, *rest = path
    return {k: without(v, rest) if rest and k == head else v for k, v in config.items() if rest or k != head}


def said(config_class, config, keys):
    """What the class makes of keys of config.json."""
    made = config_class.from_dict(config_class._decode_special_floats(dict(config))).to_dict()
    return {k: v for k, v in made.items() if k in keys}


def free_keys(config_class, config, sizes):
    """Dotted keys without which the class gives the same configuration."""
    paths = [(k,) for k in config if k not in sizes]
    paths += [(k, inner) for k, v in config.items() if isinstance(v, dict) for inner in v]
    whole = said(config_class, config, config)
    return [".".join(p) for p in paths if attempt(lambda: said(config_class, without(config, p), config)) == whole]


def attempt(job):
    try:
        return job()
    except Exception:       # the class refuses such a configuration
        return None


def words_of(specs):
    """Every word of the built-in specs: keys that none of them names are not written."""
    return set(re.findall(r"\w+", " ".join(open(f).read() for f in glob.glob(os.path.join(specs, "*.ini")))))


def write_defaults(specs, path):
    words = words_of(specs) | {"model_type"}
    rows = []
    for name, spec in classes().items():
        config_class = getattr(transformers, name)
        sizes = {**sizes_of(config_class, SIZES), **MORE.get(name, {})}
        config = config_class._encode_special_floats(config_class(**sizes).to_dict())
        config = {k: v for k, v in config.items() if k in words and k != "architectures"}
        free = free_keys(config_class, config, [*sizes, "model_type"])
        rows.append(json.dumps(dict(name=name, spec=spec, free=free, config=config)))
    with open(path, "w") as f:
        f.write("[" + ",\n ".join(rows) + "]\n")
    return len(rows)
