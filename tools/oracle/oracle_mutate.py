"""The mutation test: changes every key of every built-in spec once and demands that something fails.

For each generated model `inferflow spec show` gives the resolved spec, which must load again to the same bits. Then one
value at a time is replaced by another valid one; the engine must refuse it, or give other logits. A key counts as seen
when one of the models of its family sees it. What no model sees is a survivor: a key that does nothing, or a model that
cannot show what it does.
"""
import os
import re
import tempfile

import numpy as np

from oracle_check import Failure, model_path, read, result_of, run

WORDS = {                                   # other valid words of options, by option; the first that differs is taken
    "rope": ("neox", "interleaved"), "alibi_round": ("bf16", "none"),
    "qk_norm": ("none", "head", "heads"), "qk_norm_kind": ("rms", "layer"), "act": ("silu", "relu"),
    "rope_type": ("none", "linear"), "scaling": ("none",), "pooling": ("cls", "mean"), "activation": ("gelu", "tanh"),
    "act_head": ("gelu", "tanh"), "layout": ("halves", "pairs"), "spacing": ("paper", "fairseq"),
}
MODULES = {"rms": "layer", "layer": "rms", "gated": "plain", "plain": "gated", "gqa": "none", "learned": "sinusoid",
           "sinusoid": "learned", "linear.plain": "learned", "table": "learned"}
# Keys that say nothing about the logits of a short text, or only repeat what the tensors say.
SILENT = {("config", "vocab"), ("config", "positions"), ("config", "rope_positions"), ("config", "edge"),
          ("tensors", "{i}.ffn.edge")}
# keys of [config] that only exports to GGUF read, only families that build on the spec, or only `where`
EXPORTED = {"deberta": ("taps",), "deepseek2": ("kv_heads", "head_dim"), "nemotron_h": ("mixed",),
            "mamba2": ("head_dim",)}
FORMULAS = ("embed", "block", "final", "logits", "pooled", "scores", "enc.embed", "enc.block", "enc.final")
SKIPPED = ("model", "generate", "tokenizer", "runtime", "serve", "config.json", "gguf")


def sections(text):
    """[(section, [(key, value)])] of what `spec show` prints: one line per key."""
    found = []
    for line in text.splitlines():
        if line.startswith("["):
            found.append((line.strip("[]"), []))
        elif line.strip():
            key, value = line.split(" = ", 1)
            found[-1][1].append((key, value))
    return found


def split_outside(text, separator):
    """Splits at separators that lie outside brackets and quotes."""
    parts, depth, quoted = [""], 0, False
    for c in text:
        quoted ^= c == '"'
        depth += (c in "([{") - (c in ")]}")
        if c == separator and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def other_number(text):
    v = float(text)
    if v == 0:
        return "3"
    if abs(v) < 1e-9:       # an eps so small that half of it more is nothing
        return "0.001"
    return str(int(v) + 1) if re.fullmatch(r"-?\d+", text) else repr(v * 1.5)


def other_values(text, key):
    """Other valid values of the same kind. Of a list by layers each distinct element changes alone."""
    by_layer = re.fullmatch(r"\[(.*)\]\[i\] \| (.*)", text.strip())
    if not by_layer:
        new = other_value(text, key)
        return [new] if new else []
    items = split_outside(by_layer[1], ",")
    found = []
    for kind in dict.fromkeys(items):
        new = other_value(kind, key)
        if new:
            changed = ", ".join(new if x == kind else x for x in items)
            found.append(f"[{changed}][i] | {by_layer[2]}")
    return found


def other_value(text, key):
    """Another valid value of the same kind; None where there is none."""
    text = text.strip()
    if text in ("true", "false"):
        return "false" if text == "true" else "true"
    if re.fullmatch(r"-?[\d.]+(e-?\d+)?", text):
        return other_number(text)
    word = text.strip('"')
    if re.fullmatch(r"[\w.]+", word):
        if word == "auto":
            return None
        others = [w for w in WORDS.get(key, ()) if w != word]
        return (f'"{others[0]}"' if text.startswith('"') else others[0]) if others else None
    if text.startswith("["):
        items = [other_value(x, key) or x for x in split_outside(text[1:-1], ",")]
        return "[" + ", ".join(items) + "]"
    return None


def other_formula(key, text):
    """A formula that leaves a part out or scales its result."""
    if key in ("block", "enc.block"):
        parts = text.split(";")
        shorter = ";".join(parts[:-1])
        return shorter if re.search(r"\bx =", shorter) else text + "; x = 1.5 * x"
    return f"({text}) * 1.5"


def slot_changes(value):
    """[(option or "module", changed line)] of `module, option = value, ...`."""
    parts = split_outside(value, ",")
    changes = []
    for n, part in enumerate(parts):
        if " = " in part:
            option, text = part.split(" = ", 1)
            others = [f"{option} = {new}" for new in other_values(text, option)]
        else:
            option, others = "module", [MODULES[part]] if part in MODULES else []
        changes += [(option, ", ".join(parts[:n] + [new] + parts[n + 1:])) for new in others]
    return changes


def line_changes(key, value):
    """Changes of a line of [tensors]: other names, then other recipes."""
    if key in ("prefix", "ignore"):
        return [("name", "other." + value)] if key == "prefix" else []
    names = " | ".join(re.sub(r"^([^ ]+)", r"\1_other", part) for part in split_outside(value, "|"))
    # of recipes, these are for exports
    read = re.sub(r" \((bare|flat|lines \w+)(, (bare|flat|lines \w+))*\)", "", value)
    plain = re.sub(r" \([^)]*\)", "", read)
    return [("name", names)] + ([("recipe", plain)] if plain != read else [])


def changes_of(section, key, value):
    """[(what, changed value)] of one key."""
    if section == "tensors":
        return line_changes(key, value)
    if section == "config":
        return [(f"value {n + 1}", new) for n, new in enumerate(other_values(value, key))]
    if key == "where":
        items = ", ".join("1" if x.strip() == "0" else "0" for x in value[1:value.index("]")].split(","))
        return [("value", f"[{items}][i]")]
    if key in FORMULAS:
        return [("formula", other_formula(key, value))]
    return [] if key == "type" else slot_changes(value)


def text_with(parts, section, key, value):
    return "\n".join(f"[{s}]\n" + "".join(f"{k} = {value if (s, k) == (section, key) else v}\n" for k, v in rows)
                     for s, rows in parts)


def own_keys(specs, name):
    """{(section, key)} that the spec file itself says, options of slots as (section, slot.option)."""
    found, section, last = set(), "", None
    with open(os.path.join(specs, name + ".ini")) as f:
        for line in f:
            if line.startswith("["):
                section = line.strip().strip("[]")
            elif line.startswith((" ", "\t")) and last and last not in FORMULAS:
                found |= {(section, f"{last}.{o}") for o in re.findall(r"(\w+) = ", line)}
            elif "=" in line and not line.startswith("#"):
                last, value = (x.strip() for x in line.split("=", 1))
                found.add((section, last))
                if last not in FORMULAS:
                    found |= {(section, f"{last}.{o}") for o in re.findall(r"(\w+) = ", "," + value)}
    # names that a class of layers gives are lists in [config] once resolved, and `where` is in those lists
    return found | {("config", key) for s, key in found if s.startswith("layer ")}


def mutate_model(binary, folder, own, parts):
    """{(section, key, what): seen} for the keys in `own`; `parts` is the resolved spec."""
    path = model_path(folder)
    seen = {}
    with tempfile.TemporaryDirectory() as tmp:
        name = os.path.join(tmp, "changed.ini")

        def logits(text):
            with open(name, "w") as f:
                f.write(text)
            return result_of(binary, folder, "--spec", name)

        base = logits(text_with(parts, None, None, None))
        if base.tobytes() != result_of(binary, folder, "--model", path).tobytes():
            raise Failure("the spec that `spec show` prints gives other bits")
        bar = read(folder, "reference.json")["tolerance"]
        for section, rows in parts:
            for key, value in rows:
                if section in SKIPPED or (section, key) in SILENT or (section, key) not in own:
                    continue
                for what, changed in changes_of(section, key, value):
                    option = what not in ("module", "formula")
                    if section == "network" and option and (section, f"{key}.{what}") not in own:
                        continue
                    try:
                        got = logits(text_with(parts, section, key, changed))
                        # a NaN is a change as well
                        seen[section, key, what] = not np.abs(got - base).max() <= bar
                    except Failure:
                        seen[section, key, what] = True
    return seen


def mutate(binary, specs, spec, folders):
    """Prints how many changes of a spec were seen and which were not; returns the survivors."""
    own = own_keys(specs, spec) - {("config", key) for key in EXPORTED.get(spec, ())}
    total, shown = {}, set()
    for folder in folders:
        parts = sections(run(binary, "spec", "show", "--model", model_path(folder)))
        shown |= {(section, key) for section, rows in parts for key, _ in rows}
        for change, seen in mutate_model(binary, folder, own, parts).items():
            total[change] = total.get(change, False) or seen
    survivors = [c for c, seen in total.items() if not seen]
    untried = sorted(k for k in own & shown if not tried(k, total))
    print(f"{spec:14s} {len(total) - len(survivors):4d} of {len(total):4d} changes seen in {len(folders)} models",
          flush=True)
    for section, key, what in survivors:
        print(f"    survives: [{section}] {key} ({what})")
    if untried:
        print("    not tried: " + ", ".join(f"[{s}] {k}" for s, k in untried))
    return survivors


def tried(own, total):
    section, key = own
    if section in SKIPPED or own in SILENT or key in ("type", "ignore", "where"):
        return True
    return any((s, k) == own for s, k, _ in total)
