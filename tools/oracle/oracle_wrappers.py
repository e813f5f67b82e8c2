"""Models that wrap a text model (LLaVA, Gemma 3, Qwen3-VL ...): the text alone, against transformers in double.

For every type whose configuration has a `text_config`: the wrapper's own class with a tiny text model in it, every
parameter of that redrawn. Towers are built without memory; of each of their tensors the file has a crumb under its
name, which an engine must leave alone. Each model is judged under two sets of names: as the class has them (but for
experts, which no file has so), and as save_pretrained writes them, which for many types are those of older files.
"""
import json
import os
import re
import shutil
import subprocess
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers
from transformers import CONFIG_MAPPING
from transformers.core_model_loading import revert_weight_conversion
from transformers.models.auto import modeling_auto

import oracle_model
from oracle_cases import FULL, SMALL, rope
from oracle_check import Failure
from oracle_table import CASES
from oracle_vectors import ROWS, number, values

TEXTS = {       # model_type of a text model: the case that has its sizes
    "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "mistral": "mistral", "gemma": "gemma", "gemma2": "gemma2",
    "gemma3_text": "gemma3", "cohere2": "cohere2", "opt": "opt-125m", "granite": "granite-bias", "exaone4": "exaone4",
    "hyperclovax": "hyperclovax", "lfm2": "lfm2", "deepseek_v3": "deepseek3", "persimmon": "persimmon",
    "llama4_text": "llama4", "bart": "bart", "phi3": "phi3", "ministral3": "ministral3",
    "qwen3_moe": "qwen3-moe", "gpt_oss": "gpt-oss", "gemma4_text": "gemma4", "gemma3n_text": "gemma3n",
    "qwen3_5_text": "qwen3.5", "qwen3_5_moe_text": "qwen3.5-moe",
    "gemma4_unified_text": "gemma4-unified",
    "qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3-moe",
    "qwen2_5_omni_text": "qwen2", "qwen3_omni_moe_text": "qwen3-moe",
}
# the specs of texts whose positions have three parts
MROPE = {"qwen2_vl_text": "qwen2_vl", "qwen2_5_vl_text": "qwen2_vl", "qwen3_vl_text": "qwen3_vl",
         "qwen3_vl_moe_text": "qwen3_vl_moe",
         "qwen2_5_omni_text": "qwen2_5_omni", "qwen3_omni_moe_text": "qwen3_omni_moe"}
# no text goes in and comes out: detection, speech synthesis, pairs of vectors, or a package that is not there
OTHERS = {"grounding-dino", "mm-grounding-dino", "modernvbert", "pe_audio", "pe_audio_video", "pe_video",
          "vision-text-dual-encoder", "vibevoice", "omniasr", "qwen2_5_omni", "qwen3_omni_moe",
          "gemma4_assistant", "gemma4_unified_assistant"}     # read keys of another model
MORE = {"mistral3/ministral3": ("mistral3", "ministral3"), "llava/mistral": ("llava", "mistral"),
        "llava/gemma": ("llava", "gemma"), "llava/phi3": ("llava", "phi3"),
        "internvl/gpt_oss": ("internvl", "gpt_oss"), "internvl/qwen3-moe": ("internvl", "qwen3_moe"),
        "internvl/qwen3": ("internvl", "qwen3"), "paligemma/gemma2": ("paligemma", "gemma2"),
        "llava_next/qwen2": ("llava_next", "qwen2"), "llava_next_video/mistral": ("llava_next_video", "mistral")}
# types whose names save_pretrained gets wrong, or that have names of their own: judged under those of published files
PUBLISHED = ("kimi_k25", "qianfan_ocr", "cosmos3_omni")
# with the class's own numbers of heads, and a configuration that leaves out all that is default in its class
MINIMAL = {"gemma3/minimal": ("gemma3", "gemma3_text", dict(num_attention_heads=8, num_key_value_heads=4,
                                                               head_dim=256)),
           "llava/minimal": ("llava", "llama", dict(hidden_size=64, num_attention_heads=32, num_key_value_heads=32,
                                                    head_dim=2)),
           "mistral3/minimal": ("mistral3", "mistral", dict(hidden_size=64, num_attention_heads=32,
                                                            num_key_value_heads=8, head_dim=2)),
           "internvl/minimal": ("internvl", "qwen2", dict(hidden_size=64, num_attention_heads=32,
                                                          num_key_value_heads=32)),
           "qwen2_vl/minimal": ("qwen2_vl", "qwen2_vl_text", dict(hidden_size=128, num_attention_heads=64,
                                                                  num_key_value_heads=8)),
           "voxtral/minimal": ("voxtral", "llama", dict(hidden_size=64, num_attention_heads=32, num_key_value_heads=8,
                                                        head_dim=128, rms_norm_eps=1e-5, rope_parameters=rope(1e8))),
           "glmasr/minimal": ("glmasr", "llama", dict(hidden_size=64, num_attention_heads=16, num_key_value_heads=4,
                                                      head_dim=4, rms_norm_eps=1e-5, rope_parameters=rope(1e4)))}
COMMITTED = ("llava", "gemma3", "qwen2_vl", "qwen3_vl_moe", "mistral3", "idefics3", "llama4", "blip-2",
             "cohere2_vision", "granite_speech")
SAVED = ("llava", "qwen2_vl", "qwen3_vl_moe", "llama4", "blip-2")   # the others as the class has them
# parts that must agree with the text or with each other; words are keys of the text's configuration
PARTS = {"aya_vision": dict(vision_config=dict(hidden_size=1152, num_attention_heads=16,
                                              model_type="siglip_vision_model")),
         "fun_asr_nano": dict(adaptor_config=dict(hidden_size="hidden_size", intermediate_size=FULL.dim // 4)),
         "perception_lm": dict(vision_config=dict(model_type="timm_wrapper", model_args=dict(embed_dim=8)))}
TIMM = ("timm_wrapper", "gemma3n_vision")
SOURCES = ("MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
           "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")
PROMPTS = (5, 20, 70)


def text_type(config):
    return getattr(getattr(config, "text_config", None), "model_type", None)


def wrappers():
    """{name: (type, model_type of its text)} of all that have a text model of TEXTS."""
    found = {}
    for kind in CONFIG_MAPPING:
        if "text_config" not in (CONFIG_MAPPING[kind].sub_configs or {}) or kind in OTHERS:
            continue
        try:
            text = text_type(CONFIG_MAPPING[kind]())
        except Exception:       # needs more than its defaults
            continue
        if text in TEXTS and head_of(kind):       # without a head it gives no logits
            found[kind] = (kind, text)
    return {**found, **MORE, **{name: row[:2] for name, row in MINIMAL.items()}}


def head_of(kind):
    """The name of its class with a head, or None."""
    return next((n for n in (getattr(modeling_auto, source, {}).get(kind) for source in SOURCES) if n), None)


def class_of(kind):
    name = head_of(kind)
    if not name:
        raise SystemExit(f"oracle: no class with a head for {kind}")
    return getattr(transformers, name if isinstance(name, str) else name[0])


def text_args(text, size, over):
    """Keyword arguments of the text model's configuration."""
    case = CASES[TEXTS[text]]
    args = {**dict(vocab_size=101, bos_token_id=1, eos_token_id=2), **case.make(size), **over}
    if text in MROPE:
        half = args.get("head_dim", args["hidden_size"] // args["num_attention_heads"]) // 2
        sections = [half - 2 * (half // 3), half // 3, half // 3]
        args["rope_parameters"] = dict(args["rope_parameters"], rope_type="default", mrope_section=sections)
    return dict(args, model_type=text)


def text_parts(model):
    """Names of the modules that are the text model and its head: the largest that are built of the text's
    configuration."""
    config = model.config.text_config
    body = [n for n, m in model.named_modules() if n and getattr(m, "config", None) is config]
    body = [n for n in body if not any(n.startswith(o + ".") for o in body)]
    return body + [n for n, _ in model.named_children() if n == "lm_head"]


def configuration(kind, text, size, over):
    args = text_args(text, size, over)
    more = {part: dict(values) for part, values in PARTS.get(kind, {}).items()}
    for part in more:
        more[part] = {k: args[v] if isinstance(v, str) and v in args else v for k, v in more[part].items()}
    config = CONFIG_MAPPING[kind](text_config=args, **more)
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if getattr(config, key, None) is not None:
            setattr(config, key, args.get(key, 0))
    return config


class Tower(torch.nn.Module):
    """In place of a tower whose package is not there."""

    def __init__(self):
        super().__init__()
        self.crumb = torch.nn.Parameter(torch.zeros(2, 3))


def without_packages(make):
    """Calls it with towers of timm replaced."""
    usual = transformers.AutoModel.from_config
    replaced = lambda config, **more: Tower() if config.model_type in TIMM else usual(config, **more)
    transformers.AutoModel.from_config = replaced
    try:
        return make()
    finally:
        transformers.AutoModel.from_config = usual


def build(kind, text, size, over):
    """The wrapper with a text model on the CPU and everything else on no device."""
    torch.manual_seed(1)
    config = configuration(kind, text, size, over)
    for c in (config, config.text_config):
        c._attn_implementation = "eager"
    with torch.device("meta"):
        model = without_packages(lambda: class_of(kind)(config))
    for name in text_parts(model):
        part = model.get_submodule(name)
        own = (torch.nn.Linear(part.in_features, part.out_features, bias=part.bias is not None) if name == "lm_head"
               else type(part)._from_config(config.text_config, attn_implementation="eager",
                                            experts_implementation="eager"))
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, own)
    model.tie_weights()
    return model.eval()


class Text(torch.nn.Module):
    """The text model and its head, so that parameters can be drawn by oracle_model."""

    def __init__(self, model):
        super().__init__()
        for i, name in enumerate(text_parts(model)):
            setattr(self, "lm_head" if name == "lm_head" else f"text{i}", model.get_submodule(name))
        self.config, self.whole = model.config.text_config, [model]

    def tie_weights(self):
        self.whole[0].tie_weights()


def draw(model, text, seed):
    case, inner = CASES[TEXTS[text]], Text(model)
    tied = "lm_head.weight" not in dict(inner.named_parameters(remove_duplicate=True)) or bool(
        getattr(model.config, "tie_word_embeddings", False))
    oracle_model.redraw(inner, case, seed, tied)


@torch.no_grad()
def logits(model, ids, pair):
    """By the wrapper; where it wants a picture, by the text model with a head that it holds."""
    given = dict(decoder_input_ids=torch.tensor([ids])) if pair else {}
    if hasattr(model, "language_model") and hasattr(model.language_model, "lm_head"):
        model = model.language_model
    if next(model.parameters()).is_meta and text_parts(model)[0].endswith("text_model"):    # its inputs go there
        body, head = map(model.get_submodule, text_parts(model))
        return head(body(input_ids=torch.tensor([ids])).last_hidden_state)[0].double().numpy()
    if model.config.model_type == "gemma3n":        # which asks its towers for the embeddings of some ids
        body, head = map(model.get_submodule, text_parts(model))
        cap = model.config.text_config.final_logit_softcapping
        return (cap * torch.tanh(head(body(input_ids=torch.tensor([ids])).last_hidden_state)[0] / cap)).double().numpy()
    return model(input_ids=torch.tensor([pair or ids]), **given, use_cache=False).logits[0].double().numpy()


def greedy(model, ids, pair):
    """Tokens, and the smallest lead of a winner."""
    ids, lead = list(ids), np.inf
    for _ in range(oracle_model.GREEDY_TOKENS):
        last = logits(model, ids, pair)[-1]
        top = np.sort(last)[-2:]
        lead = min(lead, top[1] - top[0])
        ids.append(int(last.argmax()))
    return ids, float(lead)


def without_defaults(config):
    """What a text model's configuration has beside what the class of the whole has by default."""
    text = config.text_config
    usual = type(config)(text_config=dict(model_type=text.model_type)).text_config.to_dict()
    return {k: v for k, v in text.to_dict().items() if k == "model_type" or usual.get(k, config) != v}


def is_crumb(t):
    return t.shape == (2, 3) and bool((t == 7).all())


def named(model, as_saved, folder, few=False, dtype=torch.float32, minimal=False):
    """Writes the file: tensors of the text, and crumbs of the others, under the names of the class or as saved."""
    state = {n: t.float().contiguous() for n, t in model.state_dict().items() if not t.is_meta}
    tied = getattr(model, "_tied_weights_keys", None) if getattr(model.config, "tie_word_embeddings", False) else None
    for n in tied or {}:
        state.pop(n, None)
    crumbs = {n: torch.full((2, 3), 7.0) for n, t in model.state_dict().items() if t.is_meta}
    if as_saved and model.config.model_type in PUBLISHED:
        body, head = map(model.get_submodule, text_parts(model))
        inner = revert_weight_conversion(body, body.state_dict())
        state = {**{f"language_model.model.{n}": t for n, t in inner.items()},
                 **{f"language_model.lm_head.{n}": t for n, t in head.state_dict().items() if not tied}}
    elif as_saved:
        try:
            state, crumbs = revert_weight_conversion(model, {**state, **crumbs}), {}
        except RuntimeError:        # a conversion that looks at shapes
            state = revert_weight_conversion(model, state)
    seen, unique = set(), {}
    for n, t in state.items():
        if t.data_ptr() not in seen:
            unique[n] = t.clone().contiguous()
        seen.add(t.data_ptr())
    unique = {n: t.to(dtype) for n, t in {**unique, **crumbs}.items()}
    if few:
        kinds = {re.sub(r"\d+", "", ".".join(n.split(".")[:4])): n for n, t in unique.items() if is_crumb(t)}
        unique = {n: t for n, t in unique.items() if not is_crumb(t) or n in kinds.values()}
    safetensors.torch.save_file(unique, os.path.join(folder, "model.safetensors"), metadata=dict(format="pt"))
    config = json.loads(model.config.to_json_string(use_diff=True))
    if minimal:
        config["text_config"] = without_defaults(model.config)
    config["architectures"] = [type(model).__name__]
    oracle_model.write_json(os.path.join(folder, "config.json"), config, indent=1)


def ask(binary, *args):
    """stdout of the engine; nothing may be on stderr."""
    done = subprocess.run([binary, *args], capture_output=True, text=True, timeout=120)
    if done.returncode or done.stderr:
        raise Failure((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    return done.stdout


def judge(binary, folder, model, pair, rng):
    """The largest difference as a share of what is allowed."""
    worst, vocab = 0.0, model.config.text_config.vocab_size
    draw_ids = lambda n: ([0] if pair else []) + rng.integers(3, vocab, n - bool(pair)).tolist()
    given = lambda ids: (("--ids", ",".join(map(str, pair)), "--decoder-ids") if pair else ("--ids",)) + (
        ",".join(map(str, ids)),)
    exact = ("-m", folder, "--ctx", "110", "--kv", "f32", "--act", "f32")
    for n in PROMPTS:
        ids, out = draw_ids(n), os.path.join(folder, "out.npy")
        ask(binary, "eval", "logits", *exact, *given(ids), "-o", out)
        want, got = logits(model, ids, pair), np.load(out)
        if want.shape != got.shape:
            raise Failure(f"logits are {got.shape}, not {want.shape}")
        worst = max(worst, float(np.abs(want - got).max() / np.abs(want).max()) / oracle_model.BAR)
    if worst > 1:
        raise Failure(f"off by {worst:.3g} of what is allowed")
    for _ in range(20):
        ids = draw_ids(16)
        want, lead = greedy(model, ids, pair)
        if lead > 0.002:
            break
    text = ask(binary, "run", *exact, *given(ids), "-n", str(oracle_model.GREEDY_TOKENS), "--temp", "0",
               "--ignore-eos", "--output", "ids")
    if json.loads(text) != want[16:]:
        raise Failure("other greedy tokens")
    return worst


def make(name, size):
    kind, text, over = MINIMAL.get(name, (*wrappers()[name], {}))
    model = build(kind, text, size, over).float()
    draw(model, text, 1000)
    for p in Text(model).parameters():
        p.data.copy_(p.data.to(torch.bfloat16).float())
    return model


def wrong_sizes():
    """Lines of specs that say of a class what it does not have: [model] absent."""
    wrong = []
    for text, case in TEXTS.items():
        with open(f"specs/{CASES[case].spec}.ini" if text not in MROPE else f"specs/{MROPE[text]}.ini") as f:
            spec = f.read()
        line = re.search(r"^absent = (.*(?:\n .*)*)", spec, re.M)
        usual = CONFIG_MAPPING[text]().to_dict()
        for key, value in (item.split() for item in line.group(1).split(",")):
            has = usual.get(key)
            if (has[0] if isinstance(has, list) else has) != int(value):
                wrong.append(f"specs of {text}: {key} is {usual.get(key)}, not {value}")
    return wrong


def report(binary, names):
    """Prints a line for every type; returns how many failed."""
    wrong = wrong_sizes()
    print("\n".join(wrong), end="\n" if wrong else "")
    failures = len(wrong)
    for name in names:
        line = [f"{name:26s}"]
        try:
            model = make(name, FULL)
            pair = list(range(3, 40)) if getattr(model.config.text_config, "is_encoder_decoder", False) else None
            for as_saved in (False, True)[any("experts." in n for n in model.state_dict()):]:
                with tempfile.TemporaryDirectory() as folder:
                    named(model, as_saved, folder, minimal=name in MINIMAL)
                    try:
                        worst = judge(binary, folder, model.double(), pair, np.random.default_rng(7))
                        line.append(f"{worst:6.3f}")
                    except Failure as e:
                        failures += 1
                        line.append(f"FAIL {e}")
                model.float()
        except Exception as e:
            failures += 1
            line.append(f"FAIL to make: {type(e).__name__}: {str(e)[:200]}")
        print("  ".join(line), flush=True)
    print(f"{len(names)} types, {failures} failures")
    return failures


def write_vectors(out):
    """The models that are committed, in the form of oracle_vectors.py. Returns their bytes."""
    total = 0
    for name in COMMITTED:
        folder = os.path.join(out, "models", "wrapped-" + name.replace("/", "-"))
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        model = make(name, SMALL)
        named(model, name in SAVED, folder, few=True, dtype=torch.bfloat16)
        model, rng = model.double(), np.random.default_rng(7)
        for _ in range(40):
            ids = rng.integers(3, model.config.text_config.vocab_size, SMALL.tokens).tolist()
            want, lead = greedy(model, ids[:16], None)
            if lead > oracle_model.MIN_MARGIN and 2 not in want[16:]:
                break
        result = logits(model, ids, None)
        expect = dict(ids=ids, rows=ROWS, tolerance=number(oracle_model.BAR * np.abs(result).max()), prompt=16,
                      greedy=want[16:], logits=values(result, ROWS))
        with open(os.path.join(folder, "expect.json"), "w") as f:
            f.write("{" + ",\n ".join(f'"{k}": {json.dumps(v)}' for k, v in expect.items()) + "}\n")
        size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
        print(f"{name:20s} {size:7d} bytes, smallest greedy margin {lead:.3f}", flush=True)
        total += size
    return total
