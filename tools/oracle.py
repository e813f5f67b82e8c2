#!/usr/bin/env python3
"""oracle.py - tiny models from transformers, and the comparison of the engine with them.

    oracle.py list                      names of all cases
    oracle.py make [NAME...]            generate models and expected results (default: all) into --out
    oracle.py files [NAME...]           the same models in other containers: pickle, shards, f16, bf16, GGUF

The table of cases is oracle_cases.py, the way they are built oracle_model.py. Needs torch, transformers, safetensors.
"""
import argparse
import fnmatch
import os
import sys
import time

from oracle_cases import CASES, FIRST_SLICE


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
    print(f"{'case':20s} {'max|logit|':>10s} {'f64 diff':>9s} {'tolerance':>9s} {'eps+10%':>9s} {'margin':>7s} {'s':>5s}")
    for name in chosen(args.names):
        start = time.time()
        f = generate(name, args.out)
        print(f"{name:20s} {f['max_logit']:10.2f} {f['f64_diff']:9.1e} {f['tolerance']:9.1e} {f['eps_shift']:9.1e} "
              f"{f['margin']:7.3f} {time.time() - start:5.1f}", flush=True)


def cmd_files(args):
    from oracle_files import variants
    for name in chosen(args.names):
        for folder in variants(args.out, name):
            print(folder, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="build/oracle", help="folder of the generated models (build/oracle)")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run, text in (("list", cmd_list, "print the cases"), ("make", cmd_make, "generate models and results"),
                            ("files", cmd_files, "write the models in other containers")):
        sub = commands.add_parser(name, help=text)
        sub.add_argument("names", nargs="*", help="case names or patterns; `first` is the first slice")
        sub.set_defaults(run=run)
    args = parser.parse_args()
    return args.run(args)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main())
