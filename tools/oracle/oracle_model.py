"""Builds one tiny model with transformers, redraws every parameter, and writes what an engine must reproduce.

A folder written here holds the model in Hugging Face form (config.json, model.safetensors) and
    ids.json        the test sequence (of an encoder-decoder: what its decoder reads)
    enc.json        what an encoder reads
    logits.npy      float32 [tokens, vocab], one forward over ids (of an encoder: oracle_encoders.py)
    hidden.npy      float32 [layers + 1, tokens, dim]; the last entry is taken after the final norm
    greedy.json     {"prompt": ids, "ids": 32 greedy tokens, "margin": smallest top-2 distance on the way}
    reference.json  sizes, tolerance and how it was found
    hub/            the same model with config.json as files on the hub have it: defaults left out, old rope keys

Why redraw: transformers initialises norms to 1, biases to 0 and everything else to 0.02, so that a forgotten bias, a
wrong eps or another GELU is invisible. Here each of them moves the logits by far more than the tolerance, and that is
checked for every parameter before a model is written.
"""
import copy
import json
import math
import os
import re
import warnings

import numpy as np
import safetensors.torch
import torch
import transformers

import oracle_encoders as encoders
from oracle_cases import FULL
from oracle_hub import hub_config
from oracle_table import CASES, vocab_of

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)        # the models are so small that threads only cost time

BAR = 3e-5            # of max |logit|
GREEDY_TOKENS = 32
MIN_MARGIN = 0.02     # greedy tokens are only compared where the winner leads by this much
FFN_IN = ("gate_proj", "up_proj", "gate_up_proj", "fc1", "fc_in", "c_fc", "dense_h_to_4h")
SCORES = ("q_proj", "k_proj", "qkv_proj", "query_key_value", "c_attn", "Wqkv", "q_attn")
INPUTS_FIRST = ("GptOssExperts", "Llama4TextExperts")     # matrices of experts that are stored transposed
HEADS = ("lm_head", "embed_out")
FROM_ONE = ("Qwen3NextRMSNorm", "Qwen3_5RMSNorm", "Qwen3_5MoeRMSNorm")    # norms that keep what they add to 1
DECODER_START = 0     # what the decoder of every encoder-decoder starts from, here


class Pair(list):
    """What the decoder of an encoder-decoder reads, with what its encoder reads."""

    def __init__(self, ids, enc):
        super().__init__(ids)
        self.enc = enc

    def prompt(self, n):
        return Pair(self[:n], self.enc)


def inputs_of(ids):
    """Keyword arguments of a forward pass."""
    if isinstance(ids, Pair):
        return dict(input_ids=torch.tensor([ids.enc]), decoder_input_ids=torch.tensor([list(ids)]))
    return dict(input_ids=torch.tensor([ids]))


def start_of(ids, n):
    return ids.prompt(n) if isinstance(ids, Pair) else ids[:n]


def gain(name):
    """How much larger than 1/sqrt(inputs) the weights of a linear layer are drawn: positions must matter, so scores
    spread; erf and tanh GELU must differ, so FFN inputs are large; logits must spread by several units."""
    last = name.split(".")[-1]
    return 3.0 if last in HEADS else 2.0 if last in FFN_IN else 1.5 if last in SCORES else 1.0


def computed(model):
    """Tables of sines that files leave out, by id: an engine computes them."""
    left_out = getattr(model, "_keys_to_ignore_on_save", None) or ()
    return {id(p) for name, p in model.named_parameters() if name in left_out}


def redraw(model, case, seed, tied):
    """Draws every parameter anew. The kind of a parameter is that of the module that owns it."""
    g = torch.Generator().manual_seed(seed)
    draw = lambda p, mean, std: p.data.copy_(mean + std * torch.randn(p.shape, generator=g))
    left, tables = {id(p): n for n, p in model.named_parameters()}, computed(model)
    for name, module in model.named_modules():
        kind = type(module).__name__
        for part, b in module.named_buffers(recurse=False):
            if part == "final_logits_bias":
                draw(b, 0.0, 0.3)
            if part == "layer_scalar":
                draw(b, 1.0, 0.2)
        for part, p in module.named_parameters(recurse=False):
            if id(p) not in left:
                continue
            del left[id(p)]
            if id(p) in tables:
                continue
            if part == "weight" and name.endswith("relative_attention_bias"):
                draw(p, 0.0, 1.0)
            elif "Norm" in kind:
                less_one = "Gemma" in kind and not kind.startswith(("Gemma3n", "Gemma4"))
                one = 0.0 if less_one or kind.endswith("1P") or kind in FROM_ONE else 1.0
                draw(p, one if part == "weight" else 0.0, 0.2 if part == "weight" else 0.1)
            elif "Embedding" in kind:
                head = tied and p.shape[0] == model.config.vocab_size
                draw(p, 0.0, case.embed * (4.0 / math.sqrt(p.shape[1]) if head else 0.7))
            elif part == "bias" or part.endswith("_bias"):
                draw(p, 0.0, 0.1)
            elif part in ("scale", "per_expert_scale", "correct_output_scale"):
                draw(p, 1.0, 0.3)
            elif part == "A_log":
                draw(p, -0.5, 0.8)
            elif part == "D":
                draw(p, 1.0, 0.4)
            elif part == "sinks":
                draw(p, 0.5, 1.0)
            elif kind.endswith("Experts"):
                inputs = p.shape[1] if kind in INPUTS_FIRST else p.shape[2]
                draw(p, 0.0, gain(part) / math.sqrt(inputs))
            elif kind == "XIELUActivation":
                draw(p, 0.0, 0.8)
            elif kind.endswith(("Router", "Gate")):
                draw(p, 0.0, 2.0 / math.sqrt(p.shape[1]))
            elif kind == "Conv1d":
                draw(p, 0.0, 1.0 / math.sqrt(p.shape[1] * p.shape[2]))
            elif kind.endswith(("Linear", "Conv1D")):
                draw(p, 0.0, gain(name) / math.sqrt(p.shape[0] if kind == "Conv1D" else p.shape[1]))
            else:
                raise SystemExit(f"oracle: no rule to draw {name}.{part} of {kind}")
    assert not left, left
    for name, p in model.named_buffers():
        if name.endswith("_bias"):      # picks experts, is trained otherwise
            draw(p, 0.0, 0.1)
    model.tie_weights()
    uneven_last_norm(model, 1 / case.embed, tied)


def uneven_last_norm(model, size, tied):
    """The last norm scales some columns much more than others: before a tied head an even one is nearly invisible.
    There every other column also changes sign, or each token would predict itself. `size` makes up for a tied head
    that was drawn small."""
    named = [(n, m) for n, m in model.named_modules() if "Norm" in type(m).__name__]
    norms = [m for n, m in named if not re.search(r"\.\d+\.|embedding|per_layer", n)]
    if not norms and model.config.is_encoder_decoder:       # BART: the norm that ends the last layer
        norms = [named[-2][1] if "embedding" in named[-1][0] else named[-1][1]]
    if not norms or getattr(norms[-1], "weight", None) is None:
        return
    columns = torch.arange(hidden_width(model))
    scale = size * (1 + 0.35 * torch.cos(columns.float()))
    if tied:
        scale[columns % 2 == 1] *= -1
    norms[-1].weight.data.add_(scale - 1)


def hidden_width(model):
    c = model.config
    return getattr(c, "hidden_size", None) or c.d_model


@torch.no_grad()
def forward(model, ids, hidden=False):
    out = model(**inputs_of(ids), use_cache=False, output_hidden_states=hidden)
    logits = out.logits[0]
    if not hidden:
        return logits
    states = out.decoder_hidden_states if isinstance(ids, Pair) else out.hidden_states
    same_width = [h[0] for h in states if h.shape[-1] == hidden_width(model)]  # OPT-350m projects the last
    return logits, torch.stack(same_width)


def compute(model, case, ids):
    """What is compared."""
    return encoders.outputs(model, case, ids) if case.auto else forward(model, ids)


def make_model(case, size, vocab, over):
    args = {**dict(vocab_size=vocab, bos_token_id=1, eos_token_id=2), **case.make(size), **over}
    config = getattr(transformers, case.config)(**args)
    model = auto_class(config, case).from_config(config, **how(case))
    if case.build:
        case.build(model)
    model.generation_config = transformers.GenerationConfig()       # no forced ends
    if case.own_head:       # as checkpoints have it whose configuration says that nothing is tied
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.data.clone())
        model._tied_weights_keys = {k: v for k, v in model._tied_weights_keys.items() if k != "lm_head.weight"}
        model.all_tied_weights_keys.pop("lm_head.weight")
    return model.float().eval()


def how(case):
    return dict(attn_implementation=case.attention, experts_implementation="eager")


def auto_class(config, case):
    seq2seq = getattr(config, "is_encoder_decoder", False)
    return getattr(transformers, case.auto or ("AutoModelForSeq2SeqLM" if seq2seq else "AutoModelForCausalLM"))


def greedy(model, prompt):
    """Tokens and the smallest lead of a winner, by transformers' own generate (its cache, its positions; with a limit
    of steps without cache, as single steps of transformers ignore it)."""
    inputs = inputs_of(prompt)
    out = model.generate(**inputs, attention_mask=torch.ones_like(inputs["input_ids"]),
                         generation_config=transformers.GenerationConfig(
                             max_new_tokens=GREEDY_TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0,
                             use_cache=not hasattr(model.config, "time_step_limit"),
                             decoder_start_token_id=DECODER_START if isinstance(prompt, Pair) else None,
                             output_logits=True, return_dict_in_generate=True))
    tops = torch.stack([x[0] for x in out.logits]).topk(2).values
    return out.sequences[0, len(prompt):].tolist(), float((tops[:, 0] - tops[:, 1]).min())


def choose_ids(model, case, size, vocab, rng):
    """A test sequence whose greedy continuation has no near-ties, no end token and some variety."""
    best = None
    for _ in range(40):
        ids = rng.integers(3, vocab, size.tokens).tolist()
        if model.config.is_encoder_decoder:
            ids = Pair([DECODER_START] + rng.integers(3, model.get_output_embeddings().out_features,
                                                      size.tokens - 1).tolist(),
                       rng.integers(3, model.get_encoder().embed_tokens.num_embeddings, size.source).tolist())
        tokens, margin = greedy(model, start_of(ids, case.prompt))
        if 2 in tokens or len(set(tokens)) < 6:
            continue
        if best is None or margin > best[2]:
            best = (ids, tokens, margin)
        if margin >= 2 * MIN_MARGIN:
            break
    return best if best and best[2] >= MIN_MARGIN else None


def parts_of(model):
    """(name, tensor) of everything that must matter: parameters, of experts each one's, and vectors that pick
    experts."""
    for name, p in model.named_parameters():
        if "experts." in name and p.dim() == 3:
            yield from ((f"{name}[{e}]", p[e]) for e in range(p.shape[0]))
        else:
            yield name, p
    yield from ((n, p) for n, p in model.named_buffers() if n.endswith(("_bias", "layer_scalar")))


@torch.no_grad()
def check_parameters(model, name, ids):
    """Fails if a parameter may be zeroed without the result moving by 30 tolerances: such a model would not notice an
    engine that forgets it."""
    case, weak = CASES[name], []
    result, _, f64 = reference(model, case, ids)
    for part, p in parts_of(model):
        if any(q in part for q in case.quiet):
            continue
        kept = p.data.clone()
        p.data.zero_()
        moved = float((compute(model, case, ids) - result).abs().max())
        p.data.copy_(kept)
        if moved < 30 * tolerance(result, f64):
            weak.append(f"{part} ({moved:.1e})")
    if weak:
        raise SystemExit(f"oracle: {name}: parameters that hardly matter: {', '.join(weak)}")


def wrong_eps_shift(model, case, ids):
    """How far the result moves when every eps grows by a tenth: small means that a wrong eps would pass."""
    other = copy.deepcopy(model)
    for m in other.modules():
        for key in ("variance_epsilon", "eps"):
            if isinstance(getattr(m, key, None), float):
                setattr(m, key, 1.1 * getattr(m, key))
    return float((compute(other, case, ids) - compute(model, case, ids)).abs().max())


def reference(model, case, ids):
    """(result, hidden states of a decoder, largest difference between the float32 and the float64 run of
    transformers)"""
    result, hidden = (compute(model, case, ids), None) if case.auto else forward(model, ids, hidden=True)
    wide = compute(copy.deepcopy(model).double(), case, ids)
    return result, hidden, float((wide - result.double()).abs().max())


def steady(model, case, ids):
    """False where float32 and float64 disagree by more than noise: rows went to other experts."""
    result, _, f64 = reference(model, case, ids)
    return f64 < BAR * float(result.abs().max())


def tolerance(logits, f64_diff):
    return max(BAR * float(logits.abs().max()), 4 * f64_diff)


def rounded(model, through):
    """The model with every parameter replaced by `through(parameter)`, still computed in float32."""
    if through is not None:
        tables = computed(model)
        stored = [p.data for p in model.parameters() if id(p) not in tables]
        for p in stored + [b for n, b in model.named_buffers() if n.endswith(("final_logits_bias", "layer_scalar"))]:
            p.copy_(through(p).float())
    return model


def draw_case(name, size=FULL, dtype=None, over=None, through=None):
    """Builds a case whose greedy tokens are free of near-ties: (model, ids, greedy tokens, smallest margin); an encoder
    has none. `over` replaces values of its configuration; `dtype` or `through` are what the weights are rounded to."""
    case = CASES[name]
    vocab = vocab_of(name, size)
    if dtype is not None:
        through = lambda p: p.to(dtype)
    if case.auto:
        model = make_model(case, size, vocab, over or {})
        encoders.redraw(model, 1000 + len(name))
        ids = np.random.default_rng(7).integers(3, vocab, size.tokens).tolist()
        if case.ended:
            ids[0] = ids[1] = ids[15] = ids[38] = model.config.eos_token_id
        if case.padded:
            ids[38:40] = [model.config.pad_token_id] * 2
        return rounded(model, through), ids, [], 0.0
    for seed in range(1000, 1012):
        model = make_model(case, size, vocab, over or {})
        redraw(model, case, seed, bool(getattr(model.config, "tie_word_embeddings", False)))
        rounded(model, through)
        found = choose_ids(model, case, size, vocab, np.random.default_rng(seed))
        if found and steady(model, case, found[0]):
            return (model, *found)
    raise SystemExit(f"oracle: {name}: no draw without near-ties in its greedy tokens")


def write_json(path, value, indent=None):
    with open(path, "w") as f:
        json.dump(value, f, indent=indent)


def read_json(folder, name):
    with open(os.path.join(folder, name)) as f:
        return json.load(f)


def write_expected(folder, case, model, ids, /, **more):
    """Everything but the model: what transformers computes of it. Returns the result and the facts."""
    result, hidden, f64 = reference(model, case, ids)
    facts = dict(name=os.path.basename(folder), spec=case.spec, what=case.auto, tokens=len(ids),
                 vocab=model.config.vocab_size, tolerance=tolerance(result, f64), max_logit=float(result.abs().max()),
                 f64_diff=f64, transformers=transformers.__version__, torch=torch.__version__, **more)
    np.save(os.path.join(folder, "logits.npy"), result.numpy().astype(np.float32))
    write_json(os.path.join(folder, "ids.json"), ids)
    if isinstance(ids, Pair):
        write_json(os.path.join(folder, "enc.json"), ids.enc)
    if case.auto:
        facts.update(lengths=encoders.LENGTHS, types=encoders.types_of(model, len(ids)), margin=0)
    else:
        np.save(os.path.join(folder, "hidden.npy"), hidden.numpy().astype(np.float32))
        tokens, facts["margin"] = greedy(model, start_of(ids, case.prompt))
        write_json(os.path.join(folder, "greedy.json"),
                   dict(prompt=ids[:case.prompt], ids=tokens, margin=facts["margin"]))
    write_json(os.path.join(folder, "reference.json"), facts)
    return result, facts


def generate(name, out):
    """Writes the case into `out`/`name` and returns its row of the summary table."""
    case, folder = CASES[name], os.path.join(out, name)
    model, ids, _, _ = draw_case(name)
    check_parameters(model, name, ids)
    os.makedirs(folder, exist_ok=True)
    save(model, folder, case)
    result, facts = write_expected(folder, case, model, ids, eps_shift=wrong_eps_shift(model, case, ids))
    write_hub_form(folder, model, ids, result, case)
    return facts


def save(model, folder, case):
    """Writes config.json and model.safetensors, in the family's own layout where transformers has no class for it."""
    model.save_pretrained(folder)
    if case.dense:
        encoders.write_modules(folder, case, hidden_width(model))
    if case.layout:
        weights = os.path.join(folder, "model.safetensors")
        config, state = case.layout(read_json(folder, "config.json"), safetensors.torch.load_file(weights))
        write_json(os.path.join(folder, "config.json"), config, indent=1)
        safetensors.torch.save_file({n: t.contiguous() for n, t in state.items()}, weights, metadata=dict(format="pt"))


def write_hub_form(folder, model, ids, result, case):
    """hub/: old-style config.json beside links to the same weights; transformers itself must read it the same way. A
    family without a class has no other form."""
    hub = os.path.join(folder, "hub")
    os.makedirs(hub, exist_ok=True)
    links = tuple(f for f in os.listdir(folder) if f[0].isdigit() or f == "modules.json")
    links += ("model.safetensors", "ids.json", "enc.json", "logits.npy", "greedy.json", "reference.json")
    for other in links + (("config.json",) if case.layout else ()):
        link = os.path.join(hub, other)
        if os.path.exists(os.path.join(folder, other)) and not os.path.lexists(link):
            os.symlink(os.path.join("..", other), link)
    if case.layout:
        return
    saved = read_json(folder, "config.json")
    write_json(os.path.join(hub, "config.json"), hub_config(saved, type(model.config), case))
    again = auto_class(model.config, case).from_pretrained(hub, **how(case)).float().eval()
    off = float((compute(again, case, ids) - result).abs().max())
    if off > (0.1 * tolerance(result, 0) if case.auto else 0):
        raise SystemExit(f"oracle: {folder}/hub: transformers reads the hub form differently (by {off:.1e})")
