#!/usr/bin/env python3
"""measure_reduce.py - what the sums of ranks cost in quality: perplexity of the built-in model on the book that it was
not trained on, with each codec of --reduce, each number of ranks, and groups of several sizes.

    tools/measure_reduce.py --books books.txt.xz [--binary build/inferflow] [--bytes 27000]

books.txt.xz: as tools/train_builtin.py reads it. Exits with 1 where a bar is missed: int8 +0.2 %, int6 +2.5 %, int4
+5 %, and for int4 a smaller group is better in the mean over ranks. Needs no packages.
"""
import argparse
import json
import lzma
import re
import subprocess
import sys
import tempfile

HELD_OUT = "The Strange Case of Dr. Jekyll and Mr. Hyde"
BARS = {"f32": 0.2, "f16": 0.2, "int8": 0.2, "int6": 2.5, "int4": 5}


def held_out(path, size):
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for part in file.read().split("<|endoftext|>"):
            head, _, body = part.partition("\n-------\n")
            if re.search(rf"^Title: *{re.escape(HELD_OUT)} *$", head, re.M):
                return body.strip()[:size]
    raise SystemExit(f"{path}: the book '{HELD_OUT}' is not there")


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--books", required=True)
    args.add_argument("--binary", default="build/inferflow")
    args.add_argument("--bytes", type=int, default=27000)
    args = args.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as text:
        text.write(held_out(args.books, args.bytes))
        text.flush()

        def perplexity(ranks, codec, group=128):
            command = [args.binary, "eval", "perplexity", "--model", "builtin", "--file", text.name, "--ctx", "1024",
                       "--stride", "512", "--devices", "&".join(["cpu:1"] * ranks), "--reduce", codec,
                       "--codec-group", str(group), "--json"]
            return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

        uncut = perplexity(1, "exact")
        missed = False
        print(f"uncut: {uncut['perplexity']:.4f} over {uncut['tokens']} tokens\n\ncodec  group" +
              "".join(f"{n:8} ranks" for n in (2, 3, 4)))

        def row(codec, group, bar):
            worse = [100 * (perplexity(n, codec, group)["perplexity"] / uncut["perplexity"] - 1) for n in (2, 3, 4)]
            print(f"{codec:6} {group:5} " + "".join(f"{x:+11.2f} % " for x in worse) + bar, flush=True)
            return worse

        for codec, bar in BARS.items():
            missed |= max(row(codec, 128, f"  (at most {bar} %)")) > bar
        means = [sum(row("int4", group, "")) / 3 for group in (64, 128, 256)]
        missed |= means != sorted(means)
    return missed


if __name__ == "__main__":
    sys.exit(main())
