#!/usr/bin/env python3
"""fold_forms.py INDEX ANSWERS ... - a hash a form of what a card answered, for tests/vectors/gpu_forms.txt.

INDEX has a line a form: name, type of the results, results a thread. ANSWERS has for each 8 bytes that are not zero
where the card took the form, then the results of 1024 threads as words of 64 bits. The hash is form_hash of
gpu_forms.h.
"""
import struct
import sys

THREADS = 1024


def is_nan(kind, value):
    if kind == "f32":
        return value & 0x7fffffff > 0x7f800000
    if kind == "f64":
        return value & (1 << 63) - 1 > 0x7ff << 52
    return value & 0x7fff > (0x7f80 if kind[0] == "b" else 0x7c00)


def folded(kind, value):
    if kind.endswith("x2"):
        for shift in (0, 16):
            if is_nan(kind, value >> shift):
                value |= 0xffff << shift
        return value
    return (1 << 64) - 1 if kind != "x" and is_nan(kind, value) else value


def fold(index, answers):
    at = 0
    for line in open(index, encoding="utf-8"):
        name, kind, n = line.split()[:3]
        count = int(n) * THREADS
        taken = any(answers[at:at + 8])
        words = struct.unpack_from(f"<{count}Q", answers, at + 8)
        at += 8 + 8 * count
        value = 0xcbf29ce484222325
        for word in words:
            for byte in struct.pack("<Q", folded(kind, word)):
                value = (value ^ byte) * 0x100000001b3 & (1 << 64) - 1
        if taken:
            print(f"{name} {value:016x}")


print("# by tests/gpu/fold_forms.py from the answers of an H200, driver 580.159")
for i in range(1, len(sys.argv), 2):
    fold(sys.argv[i], open(sys.argv[i + 1], "rb").read())
