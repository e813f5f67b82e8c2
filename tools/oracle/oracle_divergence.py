"""The divergence of two models by numpy: what `eval divergence` must give, as tests/vectors/divergence.json.

Run `python tools/oracle/oracle_divergence.py > tests/vectors/divergence.json` in the repository root. Both models'
logits come from `inferflow eval logits`, window by window; softmax, KL(reference || tested), percentile and
perplexities are numpy's, in float64 over whole matrices. Windows are as in llama.cpp (second half scored) or, with a
stride, as in transformers; an encoder's rows all count.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy

BINARY = os.environ.get("INFERFLOW_BIN", "build/inferflow")
# tested model, reference, is an encoder, tokens, window, stride
CASES = (("models/qwen2", "models/qwen2-yarn", False, 150, 60, 0),
         ("models/qwen2", "models/qwen2-yarn", False, 150, 60, 25),
         ("models/qwen2-yarn", "models/qwen2", False, 40, 40, 0),
         ("encoders/albert-groups", "encoders/gte", True, 24, 24, 0))


def log_softmax(model, ids):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "logits.npy")
        subprocess.run([BINARY, "eval", "logits", "--model", "tests/vectors/" + model, "--ids", ",".join(map(str, ids)),
                        "-o", path], check=True)
        x = numpy.load(path).astype(numpy.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - numpy.log(numpy.exp(x).sum(axis=1, keepdims=True))


def windows(n, window, stride, encoder):
    """(begin, end, first row, end of rows) of each window"""
    if encoder:
        return [(0, n, 0, n)]
    if not stride:
        return [(b, b + window, window // 2, window - 1) for b in range(0, n - window + 1, window)]
    found, scored = [], 1
    for b in range(0, n, stride):
        e = min(b + window, n)
        found.append((b, e, scored - 1 - b, e - b - 1))
        scored = e
        if e == n:
            return found


def case(tested, reference, encoder, n, window, stride):
    ids = [(i * i + 3) % 53 for i in range(n)]
    kl, same, losses = [], [], [[], []]
    for begin, end, first, last in windows(n, window, stride, encoder):
        part = ids[begin:end]
        q, p = (log_softmax(m, part)[first:last] for m in (tested, reference))
        kl.append((numpy.exp(p) * (p - q)).sum(axis=1))
        same.append(p.argmax(axis=1) == q.argmax(axis=1))
        for rows, loss in zip((q, p), losses):
            if not encoder:
                loss.append(-rows[numpy.arange(last - first), part[first + 1:last + 1]])
    kl, same = numpy.concatenate(kl), numpy.concatenate(same)
    perplexity = [None if encoder else float(numpy.exp(numpy.concatenate(loss).mean())) for loss in losses]
    return {"model": tested, "against": reference, "ids": ids, "window": window, "stride": stride,
            "expect": {"kl_mean": float(kl.mean()), "kl_p99": float(numpy.percentile(kl, 99)),
                       "top1_agreement": float(same.mean()), "perplexity": perplexity[0],
                       "perplexity_reference": perplexity[1], "tokens": len(kl)}}


json.dump([case(*c) for c in CASES], sys.stdout)
print()
