#!/usr/bin/env python3
"""oracle_encoders.py - tiny encoders from transformers, and the comparison of the engine with them.

    oracle_encoders.py make [NAME...]       generate models and expected results (default: all) into --out
    oracle_encoders.py check [NAME...]      the engine against all of them (made first where they are missing)
    oracle_encoders.py exports [NAME...]    GGUF files exported to Hugging Face's form, read by transformers
    oracle_encoders.py mutate [NAME...]     changes each key of each spec once; lists what no model notices
    oracle_encoders.py vectors [NAME...]    the small models committed in tests/vectors/encoders (default: COMMITTED)

The cases are oracle_cases_enc.py; other containers and spellings of some are oracle_encoder_files.py. A folder holds
the model in Hugging Face form and
    ids.json         the test sequence
    logits.npy       what is compared: logits of the masked-language head [tokens, vocab]; or the scores of a classifier
                     for texts that are the first 1, 2, ... ids, of token types 0 and 1 by turns [texts, labels]; or, of
                     a bare model, mean-pooled states of unit length of the same texts, computed by transformers as one
                     padded batch, then the last hidden states of the whole sequence [texts + tokens, dim]
    reference.json   which of the three, sizes, tolerance
    hub/             the same model with config.json as files on the hub have it
Every parameter is redrawn, as in oracle_model.py, and must matter. Needs torch, transformers 5, safetensors, numpy.
"""
import argparse
import copy
import fnmatch
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

import oracle_mutate
from oracle_cases import FULL
from oracle_cases_enc import BARE, CASES, MASKED, SCORED
from oracle_check import Failure, model_path, read, spec_file, within
from oracle_hub import hub_config
from oracle_model import tolerance, wrong_eps_shift, write_json
from oracle_table import VOCABS

LENGTHS = (1, 2, 3, 17, 40, 66)
FFN_IN = ("intermediate.dense", "lin1", ".ffn", "mlp.gate_proj", "mlp.up_proj", "fc1", "Wi")
SCORES = ("query", "key", "q_lin", "k_lin", "attn.q", "attn.k", "q_proj", "k_proj", "Wqkv")
CONTEXT = "100"


def vocab_of(name, size):
    return VOCABS[size.vocab][list(CASES).index(name) % 8]


# ---------------------------------------------------------------- models and what they compute

def gain(name):
    return 2.0 if name.endswith(FFN_IN) else 1.5 if name.endswith(SCORES) else 1.0


def redraw(model, seed):
    """Draws every parameter anew; the last norm before a head is uneven, or a tied head would hide it."""
    g = torch.Generator().manual_seed(seed)
    draw = lambda p, mean, std: p.data.copy_(mean + std * torch.randn(p.shape, generator=g))
    seen, norms = set(), []
    for name, module in model.named_modules():
        kind = type(module).__name__
        for part, p in module.named_parameters(recurse=False):
            if id(p) in seen:
                continue
            seen.add(id(p))
            if "Norm" in kind:
                draw(p, 1.0 if part == "weight" else 0.0, 0.2 if part == "weight" else 0.1)
                norms.append(module)
            elif "Embedding" in kind:
                draw(p, 0.0, 0.7)
            elif part == "bias":
                draw(p, 0.0, 0.3)
            else:
                draw(p, 0.0, gain(name) / p.shape[1] ** 0.5)
    assert all(id(p) in seen for p in model.parameters())
    model.tie_weights()
    norms[-1].weight.data.add_(0.35 * torch.cos(torch.arange(len(norms[-1].weight)).float()))


def make_model(name, size, over=None):
    case = CASES[name]
    args = {**dict(vocab_size=vocab_of(name, size), bos_token_id=1, eos_token_id=2), **case.make(size), **(over or {})}
    config = getattr(transformers, case.config)(**args)
    auto = getattr(transformers, case.auto)
    return auto.from_config(config, attn_implementation=case.attention).float().eval()


def types_of(model, n):
    return [i % 2 if (getattr(model.config, "type_vocab_size", 0) or 0) > 1 else 0 for i in range(n)]


def call(model, ids, types, mask=None):
    """One forward of a batch; token types only where the model takes them."""
    more = dict(token_type_ids=torch.tensor(types)) if any(map(any, types)) else {}
    if mask is not None:
        more["attention_mask"] = torch.tensor(mask)
    return model(torch.tensor(ids), **more)


@torch.no_grad()
def outputs(model, case, ids):
    """What is compared; see the head of this file."""
    types = types_of(model, len(ids))
    if case.auto == MASKED:
        return call(model, [ids], [[0] * len(ids)]).logits[0]
    if case.auto == SCORED:
        return torch.stack([call(model, [ids[:n]], [types[:n]]).logits[0] for n in LENGTHS])
    pad, longest = model.config.pad_token_id, max(LENGTHS)
    fill = lambda row, n, with_: row[:n] + [with_] * (longest - n)
    batch = call(model, [fill(ids, n, pad) for n in LENGTHS], [fill(types, n, 0) for n in LENGTHS],
                 [fill([1] * longest, n, 0) for n in LENGTHS]).last_hidden_state
    means = torch.stack([batch[i, :n].mean(0) for i, n in enumerate(LENGTHS)])
    whole = call(model, [ids], [[0] * len(ids)]).last_hidden_state[0]
    return torch.cat([means / means.norm(dim=1, keepdim=True), whole])


@torch.no_grad()
def weak_parameters(model, case, ids, result, tol):
    """Parameters that may be zeroed without the result moving by 30 tolerances."""
    weak = []
    for name, p in model.named_parameters():
        if any(q in name for q in case.quiet):
            continue
        kept = p.data.clone()
        p.data.zero_()
        moved = float((outputs(model, case, ids) - result).abs().max())
        p.data.copy_(kept)
        if moved < 30 * tol:
            weak.append(f"{name} ({moved:.1e})")
    return weak


def draw_case(name, size=FULL, over=None, through=None):
    """(model, ids, result, facts) of a case; `through` rounds every parameter."""
    case = CASES[name]
    model = make_model(name, size, over)
    redraw(model, 1000 + len(name))
    for p in model.parameters():
        if through is not None:
            p.data.copy_(through(p.data).float())
    vocab = model.config.vocab_size
    ids = np.random.default_rng(7).integers(3, vocab, size.tokens).tolist()
    result = outputs(model, case, ids)
    wide = outputs(copy.deepcopy(model).double(), case, ids)
    f64 = float((wide - result.double()).abs().max())
    tol = tolerance(result, f64)
    weak = weak_parameters(model, case, ids, result, tol)
    if weak:
        raise SystemExit(f"oracle: {name}: parameters that hardly matter: {', '.join(weak)}")
    facts = dict(name=name, spec=case.spec, what=case.auto, lengths=LENGTHS, types=types_of(model, len(ids)),
                 tokens=len(ids), vocab=vocab, tolerance=tol, f64_diff=f64, max=float(result.abs().max()),
                 transformers=transformers.__version__, torch=torch.__version__)
    return model, ids, result, facts


def write_expected(folder, ids, result, facts):
    np.save(os.path.join(folder, "logits.npy"), result.numpy().astype(np.float32))
    write_json(os.path.join(folder, "ids.json"), ids)
    write_json(os.path.join(folder, "reference.json"), facts)


def hub_form(folder, model, case):
    """config.json with the keys of version 4."""
    with open(os.path.join(folder, "config.json")) as f:
        saved = json.load(f)
    if saved["model_type"] != "modernbert":
        return hub_config(saved, type(model.config), case)
    ropes = saved.pop("rope_parameters")
    every = saved.pop("layer_types").index("full_attention", 1)
    hub = hub_config(saved, type(model.config), case)
    return dict(hub, global_rope_theta=ropes["full_attention"]["rope_theta"], global_attn_every_n_layers=every,
                local_rope_theta=ropes["sliding_attention"]["rope_theta"])


def generate(name, out):
    case = CASES[name]
    model, ids, result, facts = draw_case(name)
    folder = os.path.join(out, name)
    os.makedirs(os.path.join(folder, "hub"), exist_ok=True)
    model.save_pretrained(folder)
    write_expected(folder, ids, result, facts)
    write_json(os.path.join(folder, "hub", "config.json"), hub_form(folder, model, case))
    for other in ("model.safetensors", "ids.json", "logits.npy", "reference.json"):
        link = os.path.join(folder, "hub", other)
        if not os.path.lexists(link):
            os.symlink(os.path.join("..", other), link)
    auto = getattr(transformers, case.auto)
    again = auto.from_pretrained(os.path.join(folder, "hub"), attn_implementation=case.attention).float().eval()
    off = float((outputs(again, case, ids) - result).abs().max())
    if off > 0.1 * facts["tolerance"]:
        raise SystemExit(f"oracle: {folder}/hub: transformers reads the hub form differently (by {off:.1e})")
    return dict(facts, eps_shift=eps_shift(model, case, ids, result))


def eps_shift(model, case, ids, result):
    """How far the result moves when every eps grows by a tenth."""
    other = copy.deepcopy(model)
    for m in other.modules():
        for key in ("variance_epsilon", "eps"):
            if isinstance(getattr(m, key, None), float):
                setattr(m, key, 1.1 * getattr(m, key))
    return float((outputs(other, case, ids) - result).abs().max())


# ---------------------------------------------------------------- the engine

def run(binary, args, text=""):
    try:
        done = subprocess.run([binary, *args], input=text, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        raise Failure("no answer in 120 s")
    if done.returncode:
        raise Failure((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    return done.stdout


def texts_of(folder):
    ids, facts = read(folder, "ids.json"), read(folder, "reference.json")
    return "".join(json.dumps(dict(ids=ids[:n], types=facts["types"][:n])) + "\n" for n in facts["lengths"])


def result_of(binary, folder, *model, flags=()):
    """The engine's result for a folder; the same form as logits.npy."""
    what = read(folder, "reference.json")["what"]
    common = [*model, "--ctx", CONTEXT, "--kv", "f32", *flags]
    ids = "@" + os.path.join(folder, "ids.json")
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "out.npy")
        if what == MASKED:
            run(binary, ["eval", "logits", *common, "--ids", ids, "-o", out])
            return np.load(out)
        scores = ["--scores"] if what == SCORED else []
        run(binary, ["embed", *common, "--jsonl", *scores, "-o", out], texts_of(folder))
        vectors = np.load(out)
        if what == SCORED:
            return vectors
        run(binary, ["eval", "hidden", *common, "--ids", ids, "-o", out])
        return np.concatenate([vectors, np.load(out)])


COLUMNS = ("result", "hub", "spec", "shown", "cpu;cpu", "alone")


def check_folder(binary, folder):
    """{column: "0.012" or "FAIL ..."}; the number is the difference as a share of what is allowed."""
    row, path = {}, model_path(folder)

    def check(column, job):
        try:
            share = job()
            row[column] = "ok" if share is None else f"{share:.3f}"
        except Failure as e:
            row[column] = f"FAIL {e}"

    def same(*model, flags=()):
        if result_of(binary, folder, *model, flags=flags).tobytes() != base.tobytes():
            raise Failure(f"other bits with {' '.join(flags) or model[0]}")

    def shown(spec=None):
        with tempfile.TemporaryDirectory() as tmp:
            if spec:
                return within(result_of(binary, folder, "--spec", spec_file(tmp, spec, path)), folder)
            name = os.path.join(tmp, "shown.ini")
            with open(name, "w") as f:
                f.write(run(binary, ["spec", "show", "--model", path]))
            same("--spec", name)

    try:
        base = result_of(binary, folder, "--model", path)
    except Failure as e:
        return dict(result=f"FAIL {e}")
    check("result", lambda: within(base, folder))
    if os.path.isdir(os.path.join(folder, "hub")):
        hub = os.path.join(folder, "hub")
        check("hub", lambda: within(result_of(binary, hub, "--model", hub), folder))
    check("spec", lambda: shown(read(folder, "reference.json")["spec"]))
    check("shown", shown)
    check("cpu;cpu", lambda: same("--model", path, flags=("--devices", "cpu;cpu")))
    check("alone", lambda: same("--model", path, flags=("--max-batch", "1", "--threads", "2")))
    return row


def folders_of(out, names):
    found = sorted(os.listdir(out)) if os.path.isdir(out) else []
    return [os.path.join(out, f) for n in names for f in [n] + [x for x in found if x.startswith(n + "@")]]


def made(args):
    names = chosen(args.names)
    missing = [n for n in names if not os.path.exists(os.path.join(args.out, n, "hub", "reference.json"))]
    if missing:
        cmd_make(argparse.Namespace(**{**vars(args), "names": missing}))
    return names


# ---------------------------------------------------------------- commands

def chosen(names):
    found = [c for c in CASES if not names or any(fnmatch.fnmatch(c, n) for n in names)]
    if not found:
        raise SystemExit(f"oracle: no case matches {' '.join(names)}")
    return found


def cmd_make(args):
    from oracle_encoder_files import variants
    os.makedirs(args.out, exist_ok=True)
    print(f"{'case':22s} " + " ".join(f"{t:>10s}" for t in ("max", "f64 diff", "tolerance", "eps+10%")))
    for name in chosen(args.names):
        f = generate(name, args.out)
        variants(args.out, name)
        print(f"{name:22s} {f['max']:10.2f} {f['f64_diff']:10.1e} {f['tolerance']:10.1e} {f['eps_shift']:10.1e}",
              flush=True)


def cmd_check(args):
    print(f"{'model':26s}" + "".join(f"{c:>9s}" for c in COLUMNS))
    failures, folders = [], folders_of(args.out, made(args))
    for folder in folders:
        name = os.path.basename(folder)
        row = check_folder(args.binary, folder)
        failures += [f"{name}: {c}: {text}" for c, text in row.items() if text.startswith("FAIL")]
        print(f"{name:26s}" + "".join(f"{row.get(c, '-')[:8]:>9s}" for c in COLUMNS), flush=True)
    for line in failures:
        print(line)
    print(f"{len(folders)} models, {len(failures)} failures")
    return 1 if failures else 0


def cmd_exports(args):
    from oracle_export import loaded, near, report

    def judge(binary, exported, folder):
        case = CASES[os.path.basename(folder).split("@")[0]]
        model = loaded(getattr(transformers, case.auto), exported, attn_implementation=case.attention)
        if model.config.pad_token_id is None:
            model.config.pad_token_id = 0       # only fills up rows that a mask hides
        return max(near(outputs(model, case, read(folder, "ids.json")).numpy(), folder),
                   within(result_of(binary, folder, "--model", exported), folder))

    folders = [f for f in folders_of(args.out, made(args)) if "@gguf" in f]
    return 1 if report(args.binary, folders, judge) else 0


def cmd_mutate(args):
    oracle_mutate.logits_of = result_of
    names, survivors = made(args), 0
    for spec in dict.fromkeys(CASES[n].spec for n in names):
        survivors += len(oracle_mutate.mutate(args.binary, args.specs, spec, folders_of(
            args.out, [n for n in names if CASES[n].spec == spec])))
    print(f"{survivors} survivors")
    return 1 if survivors else 0


def cmd_vectors(args):
    from oracle_encoder_files import COMMITTED, write_vector
    for name in chosen(args.names or COMMITTED):
        print(f"{name:22s} {write_vector(name, args.vectors):7d} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("make", "check", "exports", "mutate", "vectors"))
    parser.add_argument("names", nargs="*", help="case names or patterns")
    parser.add_argument("--out", default="build/oracle-encoders", help="folder of the generated models")
    parser.add_argument("--vectors", default="tests/vectors/encoders", help="folder of committed models")
    parser.add_argument("--binary", default="build/inferflow", help="the engine")
    parser.add_argument("--specs", default="specs", help="folder of the built-in specs")
    args = parser.parse_args()
    return dict(make=cmd_make, check=cmd_check, exports=cmd_exports, mutate=cmd_mutate,
                vectors=cmd_vectors)[args.command](args)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main())
