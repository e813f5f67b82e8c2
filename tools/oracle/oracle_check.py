"""Runs the engine on the generated models and compares it with what transformers computed.

For each folder: logits of the test sequence, or what an encoder gives (largest absolute difference within the folder's
tolerance), and the greedy tokens; a spec file that names the family; for each case also the old form of its
config.json; and the same result bit for bit by the spec that `spec show` prints, on two devices in one process, and in
other parts: chunks or batches, and another number of threads.
"""
import json
import os
import subprocess
import tempfile

import numpy as np

from oracle_cases_enc import BARE, ENCODER, SCORED

TIMEOUT = 120
CONTEXT = "100"     # more than any test needs; a dynamic rotation says less


class Failure(Exception):
    """What the engine said, or how far off it was."""


def run(binary, *args, text=""):
    try:
        done = subprocess.run([binary, *args], input=text, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise Failure(f"no answer in {TIMEOUT} s")
    if done.returncode < 0:
        raise Failure(f"killed by signal {-done.returncode}")
    if done.returncode:
        raise Failure((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    return done.stdout


def read(folder, name):
    with open(os.path.join(folder, name)) as f:
        return json.load(f)


def result_of(binary, folder, *model, flags=()):
    """What the engine computes for the folder's ids, in the form of logits.npy; `model` is --model or --spec with its
    value."""
    facts = read(folder, "reference.json")
    common = (*model, "--ctx", CONTEXT, "--kv", "f32", "--act", "f32", *flags)
    ids, enc = ("@" + os.path.join(folder, f) for f in ("ids.json", "enc.json"))
    given = ("--ids", enc, "--decoder-ids", ids) if has_encoder(folder) else ("--ids", ids)
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "out.npy")
        if facts["what"] not in (SCORED, BARE, ENCODER):
            run(binary, "eval", "logits", *common, *given, "-o", out)
            return np.load(out)
        all_ids, scores = read(folder, "ids.json"), ["--scores"] if facts["what"] == SCORED else []
        texts = (dict(ids=all_ids[:n], types=facts["types"][:n]) for n in facts["lengths"])
        run(binary, "embed", *common, "--jsonl", *scores, "-o", out, text="".join(json.dumps(t) + "\n" for t in texts))
        vectors = np.load(out)
        if facts["what"] == SCORED:
            return vectors
        run(binary, "eval", "hidden", *common, *given, "-o", out)
        return np.concatenate([vectors, np.load(out)])


def has_encoder(folder):
    return os.path.exists(os.path.join(folder, "enc.json"))


def distance(got, folder):
    """Largest absolute difference from the folder's logits."""
    want = np.load(os.path.join(folder, "logits.npy"))
    if got.shape != want.shape or got.dtype != np.float32:
        raise Failure(f"logits are {got.dtype} {got.shape}, not float32 {want.shape}")
    if not np.isfinite(got).all():
        raise Failure("logits are not finite")
    return float(np.abs(got - want).max())


def within(got, folder):
    """The distance, as a share of what is allowed; more than 1 is a failure."""
    off, bar = distance(got, folder), read(folder, "reference.json")["tolerance"]
    if off > bar:
        raise Failure(f"off by {off:.1e}, {off / bar:.0f} times what is allowed")
    return off / bar


def greedy_equal(binary, folder, *model):
    """That greedy generation gives the tokens transformers gives; fails naming the first other one."""
    want = read(folder, "greedy.json")
    prompt = ",".join(map(str, want["prompt"]))
    enc = "@" + os.path.join(folder, "enc.json")
    given = ("--ids", enc, "--decoder-ids", prompt) if has_encoder(folder) else ("--ids", prompt)
    got = json.loads(run(binary, "run", *model, "--ctx", CONTEXT, *given, "-n", str(len(want["ids"])),
                         "--temp", "0", "--kv", "f32", "--act", "f32", "--ignore-eos", "--output", "ids"))
    for i, (a, b) in enumerate(zip(got, want["ids"])):
        if a != b:
            raise Failure(f"greedy token {i} is {a}, not {b}")
    if len(got) != len(want["ids"]):
        raise Failure(f"{len(got)} greedy tokens, not {len(want['ids'])}")


def model_path(folder):
    """What --model is given: the folder, or the one file its results are for."""
    return os.path.join(folder, read(folder, "reference.json").get("model", ""))


def check_folder(binary, folder):
    """{column: share of the tolerance or "ok" or "FAIL ..."} of one folder."""
    row, path, facts = {}, model_path(folder), read(folder, "reference.json")

    def check(column, job):
        try:
            share = job()
            row[column] = "ok" if share is None else f"{share:.3f}"
        except Failure as e:
            row[column] = f"FAIL {e}"

    def same(*model, flags=()):
        got = result_of(binary, folder, *model, flags=flags)
        if got.tobytes() != base.tobytes():
            raise Failure(f"other bits with {' '.join(flags) or model[0]} (by {np.abs(got - base).max():.1e})")

    def by_spec(text, judge):
        with tempfile.NamedTemporaryFile("w", suffix=".ini") as f:
            f.write(text)
            f.flush()
            return judge(f.name)

    try:
        base = result_of(binary, folder, "--model", path)
    except Failure as e:
        return dict(result=f"FAIL {e}")
    check("result", lambda: within(base, folder))
    if not facts["what"]:
        check("greedy", lambda: greedy_equal(binary, folder, "--model", path))
    hub = os.path.join(folder, "hub")
    if os.path.isdir(hub):
        check("hub", lambda: within(result_of(binary, hub, "--model", hub), folder))
    check("spec", lambda: by_spec(f"[model]\nbase = {facts['spec']}\npath = {os.path.abspath(path)}\n",
                                  lambda spec: within(result_of(binary, folder, "--spec", spec), folder)))
    check("shown", lambda: by_spec(run(binary, "spec", "show", "--model", path), lambda spec: same("--spec", spec)))
    check("cpu;cpu", lambda: same("--model", path, flags=("--devices", "cpu;cpu")))
    parts = ("--max-batch", "1") if facts["what"] else ("--chunk", "7")
    check("parts", lambda: same("--model", path, flags=(*parts, "--threads", "2")))
    return row


COLUMNS = ("result", "greedy", "hub", "spec", "shown", "cpu;cpu", "parts")


def report(binary, folders):
    """Prints the table; returns how many checks failed. A number is the difference as a share of what is allowed."""
    print(f"{'model':26s}" + "".join(f"{c:>9s}" for c in COLUMNS))
    failures = []
    for folder in folders:
        name = os.path.basename(folder)
        row = check_folder(binary, folder)
        failures += [f"{name}: {c}: {text}" for c, text in row.items() if text.startswith("FAIL")]
        print(f"{name:26s}" + "".join(f"{row.get(c, '-')[:8]:>9s}" for c in COLUMNS), flush=True)
    for line in failures:
        print(line)
    print(f"{len(folders)} models, {len(failures)} failures")
    return len(failures)


def folders_of(out, names):
    """Generated folders of the cases: the case itself, then its variants."""
    found = sorted(os.listdir(out)) if os.path.isdir(out) else []
    return [os.path.join(out, f) for n in names for f in [n] + [x for x in found if x.startswith(n + "@")]]


def missing(out, names):
    return [n for n in names if not os.path.exists(os.path.join(out, n, "hub", "reference.json"))]
