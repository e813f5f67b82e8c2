#!/usr/bin/env python3
"""unicode_tables.py - writes src/text/tk_unicode_table.c: where the Unicode tables of utf8proc 2.8 (Unicode 15) and
PCRE2 10.42 (Unicode 14) differ from those that the tokenizer libraries were built with.

Nothing is copied from Unicode's files: every code point is asked of the library itself (tokenizers 0.23: Oniguruma for
patterns, unicode_categories for BERT, unicode-normalization-alignments for NFC and its like), and of utf8proc through
ctypes.

  tools/unicode_tables.py > src/text/tk_unicode_table.c        (needs: tokenizers; a Python whose unicodedata is 14.0)
"""
import ctypes
import unicodedata

from tokenizers import Regex
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P

assert unicodedata.unidata_version == "14.0.0", "PCRE2 10.42 has Unicode 14; compare with that"
u = ctypes.CDLL("libutf8proc.so.2")
u.utf8proc_category_string.restype = ctypes.c_char_p
libc = ctypes.CDLL(None)
CPS = [c for c in range(1, 0x110000) if not 0xd800 <= c < 0xe000]
ALL = "".join(map(chr, CPS))
CATS = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
OURS = {c: u.utf8proc_category_string(c).decode() for c in CPS}


def runs(chars, value=lambda c: None):
    out = []
    for c in sorted(chars):
        if out and out[-1][1] == c - 1 and value(c) == out[-1][2]:
            out[-1][1] = c
        else:
            out.append([c, c, value(c)])
    return out


def table(name, doc, chars):
    emit("uc_range", name, doc, [f"{{0x{a:x}, 0x{b:x}}}" for a, b, _ in runs(chars)] + ["{0, 0}"])


def emit(kind, name, doc, cells):
    print(f"\n/* {doc} */\nconst {kind} {name}[] = {{")
    line = "   "
    for cell in cells:
        if len(line) + len(cell) > 116:
            print(line)
            line = "   "
        line += " " + cell + ","
    print(line.rstrip(",") + "};")


def kept(normalizer):
    return {c for c in CPS if normalizer.normalize_str("x" + chr(c) + "y") == "xy"}


def utf8proc(form, s):
    fn = getattr(u, "utf8proc_" + form)
    fn.restype, fn.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    p = fn(s.encode())
    out = ctypes.string_at(p).decode()
    libc.free(ctypes.c_void_p(p))
    return out


def normalization():
    differ = set()
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        n = getattr(N, form)()
        for t in ("%s", "a%s\u0334", "a\u0301%s", "%s\u0301"):
            differ |= {c for c in CPS if n.normalize_str(t.replace("%s", chr(c))) != utf8proc(form,
                                                                                              t.replace("%s", chr(c)))}
    return differ


def scripts():
    """Numbers of scripts, as far as pieces tell: 0 fits every script."""
    pre = P.UnicodeScripts()
    same = lambda a, b: len(pre.pre_tokenize_str(chr(a) + chr(b))) == 1
    any_script = {c for c in CPS if not pre.pre_tokenize_str(chr(c))}
    reps, number, last = [], {}, None
    for c in CPS:
        if c in any_script:
            number[c], last = 0, None
            continue
        if last is None or not same(last, c):
            for i, r in enumerate(reps):
                if same(r, c):
                    k = i + 1
                    break
            else:
                reps.append(c)
                k = len(reps)
        number[c] = k
        last = c
    return number


print("/* tk_unicode_table.c - see tk_unicode_table.h. Written by tools/unicode_tables.py; do not edit. */")
print('#include "text/tk_unicode_table.h"\n\n/* clang-format off */')

lib = {}
for cat in CATS:
    for ch in N.Replace(Regex(r"\P{%s}" % cat), "").normalize_str(ALL):
        lib[ord(ch)] = cat
new = [c for c in CPS if unicodedata.category(chr(c)) == "Cn" and c in lib]
emit("uc_category_range", "uc_newer",
     "General categories that PCRE2's tables lack: letters and others that came after Unicode 14.",
     [f'{{0x{a:x}, 0x{b:x}, "{v}"}}' for a, b, v in runs(new, lambda c: lib[c])] + ['{0, 0, ""}'])
han = {ord(c) for c in N.Replace(Regex(r"\P{Han}"), "").normalize_str(ALL)}
table("uc_newer_han", "Script Han after Unicode 14.", {c for c in han if unicodedata.category(chr(c)) == "Cn"})

punct = {c for c in CPS if len(P.BertPreTokenizer().pre_tokenize_str("x" + chr(c) + "y")) == 3}
ours = {c for c in CPS if OURS[c][0] == "P" or (c < 128 and chr(c) in "$+<=>^`|~")}
table("uc_not_bert_punctuation", "P* in utf8proc, not so for BERT.", ours - punct)
table("uc_only_bert_punctuation", "The other way round.", punct - ours)
mn = kept(N.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False))
ours = {c for c in CPS if OURS[c] == "Mn"}
table("uc_not_bert_nonspacing", "Mn in utf8proc, not so for BERT.", ours - mn)
table("uc_only_bert_nonspacing", "The other way round.", mn - ours)
clean = kept(N.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False))
ours = {c for c in CPS if OURS[c] in ("Cc", "Cf", "Co") and c not in (9, 10, 13)} | {0xfffd}
assert not clean - ours
table("uc_not_bert_control", "Cf in utf8proc, kept by BERT.", ours - clean)
accents = kept(N.StripAccents())
ours = {c for c in CPS if OURS[c][0] == "M"}
table("uc_not_mark", "M* in utf8proc, kept by StripAccents.", ours - accents)
table("uc_only_mark", "The other way round.", accents - ours)
numeric = {c for c in CPS if len(P.Digits(individual_digits=True).pre_tokenize_str("x" + chr(c) + "y")) == 3}
assert not {c for c in CPS if OURS[c][0] == "N"} - numeric
table("uc_newer_numeric", "N* after Unicode 15.", {c for c in numeric if OURS[c][0] != "N"})
table("uc_unnormalized", "Characters whose decomposition, composition or combining class the library does not know: "
                         "they stay.",
      normalization())

u.utf8proc_tolower.restype = ctypes.c_int32
low = {c: N.Lowercase().normalize_str(chr(c)) for c in CPS}
low = {c: ord(s) - c for c, s in low.items() if len(s) == 1 and ord(s) != u.utf8proc_tolower(c)}
emit("uc_shift_range", "uc_newer_lower", "Lower case after Unicode 15: what to add.",
     [f"{{0x{a:x}, 0x{b:x}, {v}}}" for a, b, v in runs(low, lambda c: low[c])] + ["{0, 0, 0}"])

number = scripts()
emit("uc_shift_range", "uc_script",
     "Scripts as UnicodeScripts sees them; 0 (and what is in no row): fits every script.",
     [f"{{0x{a:x}, 0x{b:x}, {v}}}" for a, b, v in runs([c for c in number if number[c]], lambda c: number[c])]
     + ["{0, 0, 0}"])
