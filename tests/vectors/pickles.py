#!/usr/bin/env python3
"""pickles.py - writes tests/vectors/pickles: hostile and damaged files of the torch.save kind, and a few good ones.

    python3 tests/vectors/pickles.py        (needs torch for the good ones)

EXPECT lists "file <tab> what the error message must hold", or "file <tab> ok". The payloads would create the file RAN in the
working folder if anything ran them; the test looks for it.
"""
import io
import os
import struct
import zipfile

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pickles")
expect = []


# ---- assembling pickles

def u(s):  # a text
    b = s.encode()
    return b"X" + struct.pack("<I", len(b)) + b


def n(v):  # an integer
    if 0 <= v < 256:
        return b"K" + bytes([v])
    if -2**31 <= v < 2**31:
        return b"J" + struct.pack("<i", v)
    b = v.to_bytes(9, "little", signed=True)
    return b"\x8a" + bytes([8]) + b[:8] if -2**63 <= v < 2**63 else b"\x8a\x09" + b


def g(module, name):
    return f"c{module}\n{name}\n".encode()


def tup(*items):
    return b"(" + b"".join(items) + b"t"


def storage(key="0", kind=g("torch", "FloatStorage"), numel=6, extra=b""):
    return tup(u("storage"), kind, u(key) if isinstance(key, str) else key, u("cpu"), n(numel), extra) + b"Q"


def tensor(shape=(2, 3), stride=(3, 1), offset=0, st=None, maker="_rebuild_tensor_v2", more=b""):
    return g("torch._utils", maker) + tup(st if st is not None else storage(), n(offset), tup(*map(n, shape)), tup(*map(n, stride)),
                                          b"\x89", g("collections", "OrderedDict") + b")R", more) + b"R"


def top(*pairs, proto=2):
    return bytes([0x80, proto]) + b"}(" + b"".join(pairs) + b"u."


def weights(*args, **kw):
    return top(u("w"), tensor(*args, **kw))


# ---- containers

def zip_of(files, compress=zipfile.ZIP_STORED):
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w", compress) as z:
        for name, data in files:
            z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, compress)
    return b.getvalue()


DATA = struct.pack("<6f", *range(6))


def archive(pickle, data=DATA, extra=()):
    return zip_of([("a/data.pkl", pickle), ("a/data/0", data), *extra])


def legacy(pickle, keys=b"\x80\x02](X\x01\x00\x00\x000e.", tail=struct.pack("<q", 6) + DATA, order=b"\x88", version=1001):
    return (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19." + b"\x80\x02" + n(version) + b"." +
            b"\x80\x02}(" + u("little_endian") + order + b"u." + pickle + keys + tail)


def put(name, data, says):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data)
    expect.append(f"{name}\t{says}")


def hostile(name, pickle, says):
    put(name + ".pt", archive(pickle), says)


def main():
    os.makedirs(OUT, exist_ok=True)
    for f in os.listdir(OUT):
        os.remove(os.path.join(OUT, f))

    run = tup(u("touch RAN"))
    # calls, through every opcode that can name or call something
    for module, name in [("os", "system"), ("posix", "system"), ("builtins", "eval"), ("builtins", "exec"), ("__builtin__", "eval"),
                         ("builtins", "getattr"), ("builtins", "__import__"), ("subprocess", "Popen"), ("importlib", "import_module"),
                         ("runpy", "_run_code"), ("torch", "load"), ("torch.storage", "_load_from_bytes"), ("torch.hub", "load"),
                         ("torch._utils", "_rebuild_wrapper_subclass"), ("numpy", "load"), ("webbrowser", "open"),
                         ("collections", "OrderedDict.fromkeys"), ("torch", "Size.__reduce__"), ("argparse", "Namespace")]:
        hostile(f"call-{module}.{name}", top(u("w"), g(module, name) + run + b"R"), f"{module}.{name}")
    hostile("call-stack-global", top(u("w"), u("os") + u("system") + b"\x93" + run + b"R", proto=4), "os.system")
    hostile("call-stack-global-int", top(u("w"), n(1) + u("system") + b"\x93" + run + b"R", proto=4), "not a text")
    hostile("call-inst", top(u("w"), b"(" + u("touch RAN") + b"ios\nsystem\n"), "os.system")
    hostile("call-obj", top(u("w"), b"(" + g("os", "system") + u("touch RAN") + b"o"), "os.system")
    hostile("call-newobj", top(u("w"), g("os", "system") + run + b"\x81"), "os.system")
    hostile("call-newobj-ex", top(u("w"), g("os", "system") + run + b"}\x92", proto=4), "os.system")
    hostile("call-text-0", b"cos\nsystem\n(S'touch RAN'\ntR.", "os.system")
    hostile("call-unused", top(u("w"), g("os", "system") + b"0" + tensor()), "os.system")
    hostile("call-in-hooks", top(u("w"), tensor(more=g("os", "system"))), "os.system")
    hostile("call-strange-name", top(u("w"), b"cos\x01\x1b[31m\nsys\xfftem\n"), "which a state dict does not need")
    hostile("call-storage-class", top(u("w"), g("torch", "FloatStorage") + tup(n(1 << 40)) + b"R"), "not a function")
    hostile("call-text", top(u("w"), u("os.system") + run + b"R"), "not a global")
    hostile("call-with-list", top(u("w"), g("collections", "OrderedDict") + b"]R"), "not a tuple")
    hostile("call-keywords", top(u("w"), g("collections", "OrderedDict") + b")}(" + u("a") + n(1) + b"u\x92", proto=4), "keyword")
    hostile("extension", top(u("w"), b"\x82\x01" + b")R"), "extension")
    hostile("buffer", top(u("w"), b"\x97", proto=5), "outside the pickle")
    hostile("build-on-global", top(u("w"), g("torch", "Size") + b"}(" + u("__setstate__") + n(1) + b"ub"), "state for something")
    hostile("build-on-storage", top(u("w"), storage() + b"}b"), "state for something")
    hostile("typed-by-system", top(u("w"), g("torch._tensor", "_rebuild_from_type_v2") + tup(g("torch", "Size"), g("torch", "Tensor"), b")", b"}")
                                   + b"R"), "unexpected")
    hostile("ordered-dict-of-text", top(u("w"), g("collections", "OrderedDict") + tup(u("ab")) + b"R"), "unexpected")
    hostile("persistent-text", b"Phello\n.", "persistent id")
    hostile("persistent-module", top(u("w"), tup(u("module"), g("torch", "Tensor"), b"N", b"N") + b"Q"), "persistent id")

    # memo and stack
    hostile("memo-unset", b"\x80\x02h\x07.", "never set")
    hostile("memo-huge", b"\x80\x02}r\xff\xff\xff\xff.", "memo number")
    hostile("memo-text-negative", b"}p-1\n.", "negative memo")
    hostile("memo-text-huge", b"}p99999999999999999999\n.", "not an integer")
    hostile("memo-empty-stack", b"\x80\x02q\x00.", "empty")
    for name, body in [("stop", b""), ("pop", b"0"), ("dup", b"2"), ("append", b"]a"), ("setitem", b"}Ns"), ("tuple3", b"NN\x87"),
                       ("reduce", b"NR"), ("build", b"Nb"), ("persid", b"Q"), ("behind-mark", b"N(R"), ("append-behind-mark", b"](Na"),
                       ("extend-nothing", b"(e")]:
        hostile("stack-" + name, b"\x80\x02" + body + b".", "the stack is empty")
    for name, body in [("tuple", b"t"), ("list", b"l"), ("items", b"}u"), ("pop-mark", b"1"), ("obj", b"o"), ("inst", b"icollections\nOrderedDict\n")]:
        hostile("mark-" + name, b"\x80\x02" + body + b".", "mark")
    hostile("append-to-dict", b"\x80\x02}Na.", "not a list")
    hostile("items-of-list", b"\x80\x02](NNu.", "not a dict")
    hostile("items-odd", b"\x80\x02}(Nu.", "no value")
    hostile("add-to-list", b"\x80\x04](N\x90.", "not a set")
    hostile("opcode-unknown", b"\x80\x02\xff.", "unknown opcode")
    hostile("protocol-9", b"\x80\x09}.", "protocol")
    hostile("no-stop", b"\x80\x02}", "too early")
    hostile("text-huge", b"\x80\x04\x8d" + struct.pack("<Q", 2**63) + b"a.", "too early")
    hostile("bytes-huge", b"\x80\x05\x96" + struct.pack("<Q", 2**64 - 1) + b"a.", "too early")
    hostile("text-not-utf8", b"\x80\x02X\x01\x00\x00\x00\xff.", "UTF-8")
    hostile("long-negative", b"\x80\x02\x8b\xff\xff\xff\xff.", "negative length")
    hostile("frame-huge", b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b"}.", "too early")
    hostile("int-letters", b"Iabc\n.", "not an integer")
    hostile("float-letters", b"Fabc\n.", "not a number")
    hostile("string-unquoted", b"Sabc\n.", "quotes")
    hostile("unicode-escape", b"V\\u12\n.", "escape")
    hostile("unicode-surrogate", b"V\\ud800\n.", "escape")
    hostile("line-without-end", b"cos", "too early")

    # bombs
    def laughs(levels, width):  # a dict that holds a dict `width` times, and so on
        return (b"\x80\x02}q\x00(" + u("w") + tensor() + b"u0" + b"".join(
            b"}(" + b"".join(u(chr(97 + k)) + b"h" + bytes([i]) for k in range(width)) + b"uq" + bytes([i + 1]) + b"0" for i in range(levels)) +
                b"h" + bytes([levels]) + b".")

    hostile("bomb-laughs", laughs(12, 4), "in two places")
    hostile("bomb-laughs-deep", laughs(30, 2), "too deeply")
    lists = b"]q\x50" + b"".join(b"0](" + (b"h" + bytes([80 + i])) * 4 + b"eq" + bytes([81 + i]) for i in range(12))
    hostile("bomb-laughs-plain", top(u("model"), b"}(" + u("w") + tensor() + b"u", u("x"), lists), "too many values")
    hostile("bomb-deep", b"\x80\x02}(" + u("a") + b"]" * 40 + tensor() + b"a" * 40 + b"u.", "too deeply")
    hostile("bomb-self", b"\x80\x02}q\x00(" + u("me") + b"h\x00" + u("w") + tensor() + b"u.", "in itself")
    hostile("expand-huge", weights((1 << 40,), (0,)), "need more than")

    # tensors and storages
    hostile("offset-negative", weights(offset=-1), "offset")
    hostile("offset-beyond", weights(offset=1), "beyond its storage")
    hostile("offset-huge", weights(offset=2**62), "beyond its storage")
    hostile("offset-big", weights(offset=2**70), "offset")
    hostile("shape-beyond", weights((2, 4), (4, 1)), "beyond its storage")
    hostile("shape-negative", weights((2, -3), (3, 1)), "shape")
    hostile("shape-overflow", weights((2**62, 2**62), (0, 0)), "beyond its storage")
    hostile("shape-rank-9", weights((1,) * 9, (1,) * 9), "shape")
    hostile("shape-of-text", top(u("w"), g("torch._utils", "_rebuild_tensor") + tup(storage(), n(0), u("ab"), tup(n(1))) + b"R"), "shape")
    hostile("stride-beyond", weights((2, 3), (4, 1)), "beyond its storage")
    hostile("stride-overflow", weights((3, 3), (2**62, 1)), "beyond its storage")
    hostile("stride-negative", weights((2, 3), (-3, 1)), "strides")
    hostile("stride-missing", weights((2, 3), (1,)), "strides")
    hostile("arguments-few", top(u("w"), g("torch._utils", "_rebuild_tensor_v2") + tup(storage()) + b"R"), "arguments")
    hostile("storage-is-text", weights(st=u("x")), "storage")
    hostile("storage-larger", weights((7,), (1,), st=storage(numel=7)), "larger than it is")
    hostile("storage-huge", weights((1,), (1,), st=storage(numel=2**62)), "larger than it is")
    hostile("storage-negative", weights(st=storage(numel=-1)), "impossible arguments")
    hostile("storage-absent", weights(st=storage("7")), "does not hold")
    hostile("storage-key-path", weights(st=storage("../data.pkl")), "does not hold")
    hostile("storage-key-number", weights(st=storage(key=n(0))), "impossible arguments")
    hostile("storage-class-system", weights(st=storage(kind=g("os", "system"))), "os.system")
    hostile("storage-class-dict", weights(st=storage(kind=g("collections", "OrderedDict"))), "impossible arguments")
    hostile("view-beyond", weights((2,), (1,), st=storage(extra=tup(u("v"), n(5), n(2)))), "beyond it")
    hostile("v3-without-type", weights(maker="_rebuild_tensor_v3", st=storage(kind=g("torch", "UntypedStorage"), numel=24), more=n(1)), "without a type")
    hostile("v3-beyond", weights((2, 4), (4, 1), maker="_rebuild_tensor_v3", st=storage(kind=g("torch", "UntypedStorage"), numel=24),
                                 more=g("torch", "float32")), "beyond its storage")
    hostile("parameter-of-text", top(u("w"), g("torch._utils", "_rebuild_parameter") + tup(u("a"), b"\x88", b"N") + b"R"), "not a tensor")
    hostile("top-list", b"\x80\x02](" + tensor() + b"e.", "not a dict")
    hostile("top-empty", top(), "no tensors")
    hostile("key-is-none", top(u("a"), b"}(N" + tensor() + b"u"), "neither text nor a number")
    hostile("name-nul", top(u("a\0b"), tensor()), "zero byte")
    hostile("name-long", top(u("n" * 2000), tensor()), "too long")

    # the ZIP around it
    good = weights()
    put("zip-no-pickle.pt", zip_of([("a/other", b"x")]), "no data.pkl")
    put("zip-two-pickles.pt", zip_of([("a/data.pkl", good), ("b/data.pkl", good), ("a/data/0", DATA)]), "two files data.pkl")
    put("zip-compressed.pt", zip_of([("a/data.pkl", good), ("a/data/0", DATA)], zipfile.ZIP_DEFLATED), "compressed")
    put("zip-big-endian.pt", archive(good, extra=[("a/byteorder", b"big")]), "little-endian")
    put("zip-leaves.pt", archive(good, extra=[("a/../../x", b"x")]), "leaves the folder")
    put("zip-absolute.pt", archive(good, extra=[("/x", b"x")]), "leaves the folder")
    put("zip-short.pt", archive(good)[:-30], "no central directory")
    put("zip-storage-short.pt", archive(good, data=DATA[:20]), "larger than it is")

    def patched(says, name, signature, at, value, which=0):
        z = bytearray(archive(good))
        i = -1
        for _ in range(which + 1):
            i = z.index(signature, i + 1)
        z[i + at:i + at + len(value)] = value
        put(name + ".pt", bytes(z), says)

    patched("encrypted", "zip-encrypted", b"PK\x01\x02", 8, b"\x01\x00")
    patched("two sizes", "zip-two-sizes", b"PK\x01\x02", 20, b"\x01\x00\x00\x00")
    patched("outside the file", "zip-offset", b"PK\x01\x02", 42, b"\xf0\xff\xff\x7f")
    patched("local header", "zip-local", b"PK\x03\x04", 0, b"PK\x03\x05", 1)
    patched("local header", "zip-local-name", b"PK\x03\x04", 30, b"b")
    patched("several disks", "zip-disks", b"PK\x05\x06", 4, b"\x01\x00")
    patched("more entries", "zip-count", b"PK\x05\x06", 8, b"\xff\xff\xff\xff")
    patched("outside the file", "zip-directory", b"PK\x05\x06", 16, b"\xff\xff\xff\x7f")
    patched("damaged", "zip-directory-at-0", b"PK\x05\x06", 16, b"\x00\x00\x00\x00")
    overlap = bytearray(archive(good))
    first, second = overlap.index(b"PK\x01\x02"), overlap.rindex(b"PK\x01\x02")
    big = struct.pack("<I", struct.unpack_from("<I", overlap, first + 24)[0] + 40)
    overlap[first + 20:first + 24] = overlap[first + 24:first + 28] = big
    put("zip-overlap.pt", bytes(overlap), "overlap")
    z64 = archive(good)
    end = z64.rindex(b"PK\x05\x06")
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, 2**63, 1)
    put("zip64-locator-wild.pt", z64[:end] + locator + z64[end:], "zip64")
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, 0, 1)
    put("zip64-no-record.pt", z64[:end] + locator + z64[end:], "zip64")

    # the form before ZIP
    put("legacy-good.pt", legacy(good), "ok")
    put("legacy-call.pt", legacy(top(u("w"), g("os", "system") + run + b"R")), "os.system")
    put("legacy-magic.pt", b"\x80\x02K\x01.", "not one that torch.save wrote")
    put("legacy-version.pt", legacy(good, version=7), "version of torch.save")
    put("legacy-big-endian.pt", legacy(good, order=b"\x89"), "little-endian")
    put("legacy-no-keys.pt", legacy(good, keys=b"\x80\x02]."), "does not hold")
    put("legacy-keys-text.pt", legacy(good, keys=b"\x80\x02X\x01\x00\x00\x000."), "no list of storages")
    put("legacy-key-unknown.pt", legacy(good, keys=b"\x80\x02](X\x01\x00\x00\x007e."), "names one that no tensor uses")
    put("legacy-key-twice.pt", legacy(good, keys=b"\x80\x02](X\x01\x00\x00\x000X\x01\x00\x00\x000e."), "or one twice")
    put("legacy-count.pt", legacy(good, tail=struct.pack("<q", 5) + DATA), "not the one that was said")
    put("legacy-negative.pt", legacy(good, tail=struct.pack("<q", -6) + DATA), "not the one that was said")
    put("legacy-short.pt", legacy(good, tail=struct.pack("<q", 6) + DATA[:-1]), "inside a storage")

    put("good-plain.pt", archive(good), "ok")
    put("good-view.pt", legacy(weights((2,), (1,), st=storage(extra=tup(u("v"), n(4), n(2))))), "ok")
    import torch
    base = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    for proto in (2, 3, 4, 5):
        for new in (True, False):
            name = f"good-torch-{'zip' if new else 'legacy'}-{proto}.pt"
            torch.save({"w": base, "t": base.t(), "row": base[1], "h": base.half(), "p": torch.nn.Parameter(base)}, os.path.join(OUT, name),
                       _use_new_zipfile_serialization=new, pickle_protocol=proto)
            expect.append(f"{name}\tok")
    with open(os.path.join(OUT, "EXPECT"), "w") as f:
        f.write("\n".join(expect) + "\n")


main()
