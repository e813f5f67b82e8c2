#!/usr/bin/env python3
"""oracle.py - tiny models from transformers, and the comparison of the engine with them.

    oracle.py list                      names of all cases
    oracle.py make [NAME...]            generate models and expected results (default: all) into --out
    oracle.py files [NAME...]           the same models in other containers: pickle, shards, f16, bf16, GGUF
    oracle.py vectors [NAME...]         the small models committed in tests/vectors
    oracle.py wrappers [NAME...]        text models inside others: LLaVA, Gemma 3, Qwen3-VL and all of their form
    oracle.py beams                     beam search on some of those, into tests/vectors/beams.json
    oracle.py check [NAME...]           the engine against all of them (made first where they are missing)
    oracle.py exports [NAME...]         GGUF files exported to Hugging Face's form, read by transformers
    oracle.py mutate [NAME...]          changes each key of each spec once; lists what no model notices
    oracle.py minimal [NAME...]         models of defaults, with a config.json that leaves these out
    oracle.py keys [NAME...]            other values of each key of config.json, in the committed models
    oracle.py defaults                  what each configuration class means by default, into tests/vectors

Cases are decoders, encoder-decoders and encoders: the tables oracle_cases*.py, joined in oracle_table.py. The way they
are built is oracle_model.py. Needs torch, transformers 5, safetensors, numpy and gguf (pip install torch transformers
safetensors numpy gguf).
"""
import argparse
import fnmatch
import os
import sys

from oracle_cases import FIRST_SLICE
from oracle_table import CASES

PACKAGES = "torch, transformers 5, safetensors, numpy and gguf"


def chosen(names):
    """Case names matching the given patterns, in table order; all if there are none, `first` is the first slice."""
    if not names:
        return list(CASES)
    wanted = [n for name in names for n in (FIRST_SLICE if name == "first" else (name,))]
    found = [c for c in CASES if any(fnmatch.fnmatch(c, w) for w in wanted)]
    if not found:
        raise SystemExit(f"oracle: no case matches {' '.join(names)}")
    return found


def cmd_list(args):
    for name in chosen(args.names):
        print(f"{name:20s} {CASES[name].config:20s} specs/{CASES[name].spec}.ini")


def cmd_make(args):
    from oracle_model import generate
    os.makedirs(args.out, exist_ok=True)
    titles = ("max|logit|", "f64 diff", "tolerance", "eps+10%", "margin")
    print(f"{'case':22s} " + " ".join(f"{t:>10s}" for t in titles))
    for name in chosen(args.names):
        f = generate(name, args.out)
        print(f"{name:22s} {f['max_logit']:10.2f} {f['f64_diff']:10.1e} {f['tolerance']:10.1e} {f['eps_shift']:10.1e} "
              f"{f['margin']:10.3f}", flush=True)


def cmd_files(args):
    from oracle_files import variants
    for name in chosen(args.names):
        for folder in variants(args.out, name):
            print(folder, flush=True)


def cmd_vectors(args):
    from oracle_vectors import ENCODERS, write_vector, write_readme
    from oracle_wrappers import write_vectors
    total = 0 if args.names else write_vectors(args.vectors)
    for name in chosen(args.names or [n for n in CASES if not CASES[n].auto or n in ENCODERS]):
        size, margin = write_vector(name, args.vectors)
        total += size
        print(f"{name:20s} {size:7d} bytes, smallest greedy margin {margin:.3f}", flush=True)
    write_readme(args.vectors)
    print(f"{total} bytes")


def cmd_wrappers(args):
    from oracle_wrappers import report, wrappers
    names = [n for n in wrappers() if not args.names or any(fnmatch.fnmatch(n, w) for w in args.names)]
    return 1 if report(args.binary, names) else 0


def cmd_beams(args):
    from oracle_beams import write_beams
    cases = write_beams(os.path.join(args.vectors, "models"), os.path.join(args.vectors, "beams.json"))
    print(f"{len(cases)} searches, {sum(c['ended'] for c in cases)} of them ended by an end token")


def cmd_minimal(args):
    from oracle_minimal import report
    return 1 if report(args.binary, chosen(args.names)) else 0


def cmd_keys(args):
    from oracle_keys import report
    attention = {n: "sdpa" if CASES[n].config == "FalconConfig" else CASES[n].attention for n in chosen(args.names)}
    return 1 if report(args.binary, args.vectors, attention) else 0


def cmd_defaults(args):
    import transformers
    from oracle_defaults import write_defaults
    transformers.logging.set_verbosity_error()
    path = os.path.join(args.vectors, "class_defaults.json")
    print(f"{write_defaults(args.specs, path)} classes of transformers {transformers.__version__}")


def generated(args):
    """The chosen cases; those whose folders are missing are made first."""
    from oracle_check import missing
    names = chosen(args.names)
    if missing(args.out, names):
        from oracle_files import variants
        from oracle_model import generate
        os.makedirs(args.out, exist_ok=True)
        for name in missing(args.out, names):
            generate(name, args.out)
            list(variants(args.out, name))
    return names


def cmd_check(args):
    from oracle_check import folders_of, report
    return 1 if report(args.binary, folders_of(args.out, generated(args))) else 0


def cmd_exports(args):
    from oracle_check import folders_of
    from oracle_export import report
    return 1 if report(args.binary, [f for f in folders_of(args.out, generated(args)) if "@gguf" in f]) else 0


def cmd_mutate(args):
    from oracle_check import folders_of, read
    from oracle_mutate import mutate
    by_spec = {}
    for f in folders_of(args.out, generated(args)):
        if "@" not in f or "@gguf" in f or CASES[os.path.basename(f).split("@")[0]].auto:
            by_spec.setdefault(read(f, "reference.json")["spec"], []).append(f)
    survivors = sum(len(mutate(args.binary, args.specs, spec, folders)) for spec, folders in by_spec.items())
    print(f"{survivors} survivors")
    return 1 if survivors else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="build/oracle", help="folder of the generated models (build/oracle)")
    parser.add_argument("--vectors", default="tests/vectors", help="folder of committed results")
    parser.add_argument("--binary", default="build/inferflow", help="the engine (build/inferflow)")
    parser.add_argument("--specs", default="specs", help="folder of the built-in specs (specs)")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run, text in (("list", cmd_list, "print the cases"), ("make", cmd_make, "generate models and results"),
                            ("files", cmd_files, "write the models in other containers"),
                            ("vectors", cmd_vectors, "write the models that are committed"),
                            ("wrappers", cmd_wrappers, "compare text models inside others"),
                            ("beams", cmd_beams, "write what beam search gives on committed models"),
                            ("check", cmd_check, "compare the engine with them"),
                            ("exports", cmd_exports, "export GGUF files, read the result with transformers"),
                            ("mutate", cmd_mutate, "change each key of each spec"),
                            ("minimal", cmd_minimal, "compare models of defaults that say nothing of them"),
                            ("keys", cmd_keys, "change each key of config.json"),
                            ("defaults", cmd_defaults, "write what configuration classes mean by default")):
        sub = commands.add_parser(name, help=text)
        sub.add_argument("names", nargs="*", help="case names or patterns; `first` is the first slice")
        for flag in ("--out", "--binary", "--vectors", "--specs"):
            sub.add_argument(flag, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        sub.set_defaults(run=run)
    args = parser.parse_args()
    try:
        return args.run(args)
    except ModuleNotFoundError as e:
        print(f"oracle: the Python package {e.name} is missing: it needs {PACKAGES} (make oracle PYTHON=... names "
              "a Python that has them)", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main())
