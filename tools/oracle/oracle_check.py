"""Runs the engine on the generated models and compares it with what transformers computed.

For each folder: logits of the test sequence (largest absolute difference within the folder's tolerance) and the greedy
tokens; for each case also the old form of its config.json, a spec file that names its family, and the same logits bit
for bit on two devices in one process and with another chunk size and thread count.
"""
import json
import os
import subprocess
import tempfile

import numpy as np

TIMEOUT = 120
CONTEXT = "100"     # more than any test needs; a dynamic rotation says less


class Failure(Exception):
    """What the engine said, or how far off it was."""


def run(binary, *args):
    try:
        done = subprocess.run([binary, *args], capture_output=True, text=True, timeout=TIMEOUT)
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


def logits_of(binary, folder, *model, flags=()):
    """Logits the engine computes for the folder's test sequence; `model` is --model or --spec with its value."""
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "logits.npy")
        ids, enc = ("@" + os.path.join(folder, f) for f in ("ids.json", "enc.json"))
        given = ("--ids", enc, "--decoder-ids", ids) if has_encoder(folder) else ("--ids", ids)
        run(binary, "eval", "logits", *model, "--ctx", CONTEXT, "--act", "f32", *given, "-o", out, *flags)
        return np.load(out)


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
    return 0.0


def same_bits(got, want, flags):
    if got.tobytes() != want.tobytes():
        raise Failure(f"other bits with {flags} (by {np.abs(got - want).max():.1e})")
    return 0.0


def model_path(folder):
    """What --model is given: the folder, or the one file its results are for."""
    return os.path.join(folder, read(folder, "reference.json").get("model", ""))


def spec_file(tmp, base, path):
    """A two-line spec: a family and where the model is."""
    name = os.path.join(tmp, "test.ini")
    with open(name, "w") as f:
        f.write(f"[model]\nbase = {base}\npath = {os.path.abspath(path)}\n")
    return name


def check_folder(binary, folder):
    """[(check, share of the tolerance or None, failure text or None)] of one folder."""
    results = []

    def check(name, job):
        try:
            results.append((name, job(), None))
        except Failure as e:
            results.append((name, None, str(e)))

    path = model_path(folder)
    base = []
    check("logits", lambda: within(base.append(logits_of(binary, folder, "--model", path)) or base[0], folder))
    check("greedy", lambda: greedy_equal(binary, folder, "--model", path))
    if "@" not in os.path.basename(folder):
        hub = os.path.join(folder, "hub")
        check("hub", lambda: within(logits_of(binary, hub, "--model", hub), folder))
        check("spec", lambda: check_spec(binary, folder, path))
    if base:
        again = lambda *flags: same_bits(logits_of(binary, folder, "--model", path, flags=flags), base[0],
                                         " ".join(flags))
        check("cpu;cpu", lambda: again("--devices", "cpu;cpu"))
        check("chunks", lambda: again("--chunk", "7", "--threads", "2"))
    return results


def check_spec(binary, folder, path):
    with tempfile.TemporaryDirectory() as tmp:
        name = spec_file(tmp, read(folder, "reference.json")["spec"], path)
        return within(logits_of(binary, folder, "--spec", name), folder)


COLUMNS = ("logits", "greedy", "hub", "spec", "cpu;cpu", "chunks")


def report(binary, folders):
    """Prints the table; returns how many checks failed. A number is the difference as a share of what is allowed."""
    print(f"{'model':24s}" + "".join(f"{c:>9s}" for c in COLUMNS))
    failures = []
    for folder in folders:
        name = os.path.basename(folder)
        row = {c: "-" for c in COLUMNS}
        for check, share, text in check_folder(binary, folder):
            row[check] = "FAIL" if text else "ok" if share == 0 else f"{share:.3f}"
            if text:
                failures.append(f"{name}: {check}: {text}")
        print(f"{name:24s}" + "".join(f"{row[c]:>9s}" for c in COLUMNS), flush=True)
    for line in failures:
        print("FAIL " + line)
    print(f"{len(folders)} models, {len(failures)} failures")
    return len(failures)


def folders_of(out, names):
    """Generated folders of the cases: the case itself, then its variants."""
    found = sorted(os.listdir(out)) if os.path.isdir(out) else []
    return [os.path.join(out, f) for n in names for f in [n] + [x for x in found if x.startswith(n + "@")]]


def missing(out, names):
    return [n for n in names if not os.path.exists(os.path.join(out, n, "hub", "reference.json"))]
