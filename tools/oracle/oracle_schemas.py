#!/usr/bin/env python3
"""Constrained texts of a server, judged by Python's jsonschema, re and its own JSON reader.

    oracle_schemas.py [--binary build/inferflow | --url http://127.0.0.1:8080] [--seeds 20] [--random 40]

Every schema is asked for with many seeds at temperature 1.2: each text that ended by itself must be JSON that satisfies
it; one that max_tokens cut is counted only. Streamed pieces must give the same text. Schemas made at random follow, and
some that must be refused. With --binary a server of the built-in model is started. Needs jsonschema (pip install
jsonschema).
"""
import argparse
import concurrent.futures
import json
import random
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import jsonschema

V = jsonschema.Draft202012Validator
NODE = {"type": "object", "properties": {"value": {"type": "integer"}, "children": {"type": "array", "maxItems": 2,
        "items": {"$ref": "#/$defs/node"}}}, "required": ["value"], "additionalProperties": False}
SCHEMAS = [
    True, {}, {"type": "object"}, {"type": "array", "maxItems": 3}, {"type": ["integer", "null", "boolean"]},
    {"type": "string", "maxLength": 8}, {"type": "string", "minLength": 3, "maxLength": 3},
    {"type": "integer", "minimum": -17, "maximum": 1204}, {"type": "number", "exclusiveMinimum": 0, "maximum": 0.125},
    {"type": "number", "minimum": -1e-3, "exclusiveMaximum": 1e5}, {"type": "integer", "exclusiveMinimum": 9},
    {"type": "number", "maximum": -2.5}, {"type": "number"}, {"type": "integer"},
    {"enum": ["red", "green", 5, None, {"a": [1, "x"]}]}, {"const": {"k": [True, -0.5, "\u00e9\""]}},
    {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 9.5}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "string", "maxLength": 4}, {"type": "integer"}], "items": False},
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}, "age": {"type": "integer",
     "minimum": 0, "maximum": 150}, "mail": {"type": "string", "format": "email"}, "tags": {"type": "array",
     "items": {"enum": ["a", "b"]}, "maxItems": 3}}, "required": ["name", "age"], "additionalProperties": False},
    {"type": "object", "properties": {"ab": {"type": "null"}}, "additionalProperties": {"type": "integer"}},
    {"type": "object", "additionalProperties": {"type": "boolean"}, "maxProperties": 3, "minProperties": 1},
    {"patternProperties": {"^[a-z]{1,4}$": {"type": "boolean"}}, "additionalProperties": False, "maxProperties": 3},
    {"type": "object", "propertyNames": {"pattern": "^k\\d$"}, "maxProperties": 2},
    {"type": "object", "required": ["x", "y"], "properties": {"x": {"type": "integer"}}},
    {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "object", "properties": {"z": {"const": 1}},
     "required": ["z"]}]},
    {"oneOf": [{"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
     "required": ["kind"]}, {"type": "object", "properties": {"kind": {"const": "dog"}}, "required": ["kind"]}]},
    {"allOf": [{"properties": {"a": {"type": "number", "minimum": 1}}, "required": ["a"]}, {"$ref": "#/$defs/b"}],
     "type": "object", "$defs": {"b": {"properties": {"a": {"maximum": 3, "type": "integer"},
     "b": {"type": "string", "maxLength": 3}}, "required": ["b"]}}},
    {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
    {"type": "string", "pattern": "^[A-Z][a-z]{2,5}-\\d{3}$"}, {"type": "string", "pattern": "^(yes|no)\\.?$"},
    {"type": "string", "pattern": "x\\W"},
    {"type": "string", "pattern": "^[^a-z\\s]{1,4}$"}, {"type": "string", "pattern": "^[a-c]*$", "maxLength": 5},
] + [{"type": "string", "format": f} for f in ("date", "time", "date-time", "duration", "uuid", "email", "hostname",
                                               "ipv4", "ipv6", "uri")]
REFUSED = [
    (False, "false"), ({"type": "frob"}, "type"), ({"enum": []}, "enum"), ({"not": {}}, "not"),
    ({"type": "integer", "minimum": 2, "maximum": 1}, "minimum"), ({"$ref": "#/nowhere"}, "$ref"),
    ({"type": "string", "pattern": "("}, "pattern"), ({"patternProperties": {}}, "patternProperties"),
    ({"type": "string", "minLength": 2, "maxLength": 1}, "minLength"), ({"uniqueItems": True}, "uniqueItems"),
    ({"properties": {"a": False}, "required": ["a"]}, "nothing satisfies"), ({"type": "array", "minItems": 2,
     "maxItems": 1}, "minItems"), ({"if": {}}, "if"), ({"$ref": "#"}, "nothing satisfies"),
]
REGEXES = ["[a-f]{3}\\d+", "(foo|ba[rz])?!", "\\w+@\\w{2,4}", "[^\\d\\s]{4}"]
GRAMMARS = [('root ::= "(" item ("," item){0,3} ")"\nitem ::= [a-z]{1,4} | root', None),
            ('root ::= [0-9]{2} "-" ("\u00e9" | "\\u00e8"){1,3}', "[0-9]{2}-[\u00e8\u00e9]{1,3}")]


def post(url, body):
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def streamed(text):
    chunks = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ") and "[DONE]" not in line]
    return "".join(c["choices"][0]["text"] for c in chunks if c["choices"])


class Run:
    def __init__(self, args):
        self.url, self.seeds, self.failed, self.whole, self.cut = args.url, args.seeds, 0, 0, 0

    def fail(self, *what):
        self.failed += 1
        print("FAILED", *what, flush=True)

    def ask(self, fields, seed, stream=False):
        return post(self.url, {"prompt": "Here is the answer: ", "max_tokens": 160, "temperature": 1.2, "seed": seed,
                               "stream": stream, **fields})

    def texts(self, fields):
        """Texts that ended by themselves."""
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda s: self.ask(fields, s), range(self.seeds)))
        for seed, (status, text) in enumerate(replies):
            if status != 200:
                self.fail(json.dumps(fields)[:300], status, text[:300])
                return
            choice = json.loads(text)["choices"][0]
            if seed == 0:
                status, pieces = self.ask(fields, 0, True)
                if status != 200 or streamed(pieces) != choice["text"]:
                    self.fail("streamed", fields, choice["text"], pieces[:500])
            if choice["finish_reason"] == "stop":
                self.whole += 1
                yield choice["text"]
            else:
                self.cut += 1

    def check_schema(self, schema, fields=None):
        checker = V(schema, format_checker=V.FORMAT_CHECKER)
        before = self.whole
        for text in self.texts(fields or {"json_schema": schema}):
            try:
                checker.validate(json.loads(text, parse_constant=lambda c: 1 / 0))
            except Exception as e:                                       # any complaint is one
                self.fail(json.dumps(schema), repr(text), str(e)[:200])
        print(f"{self.whole - before:3d} whole  {json.dumps(schema)[:110]}", flush=True)


def any_schema(chance, depth):
    plain = ["integer", "number", "string", "enum", "boolean"]
    kind = chance.choice(plain + ["object", "array", "anyOf", "oneOf", "allOf"] if depth else plain)
    if kind in ("integer", "number"):
        low = chance.choice([chance.randint(-300, 300), round(chance.uniform(-20, 20), 3)])
        keys = {chance.choice(["minimum", "exclusiveMinimum"]): low,
                chance.choice(["maximum", "exclusiveMaximum"]): low + chance.choice([2, 9, 120.25])}
        return {"type": kind, **{k: v for k, v in keys.items() if chance.random() < 0.8}}
    if kind == "string":
        n = chance.randint(0, 5)
        return chance.choice([{"type": "string", "minLength": n, "maxLength": n + chance.randint(0, 4)},
                              {"type": "string", "pattern": "^[a-m]{%d,%d}$" % (n, n + 2)}])
    if kind == "enum":
        return {"enum": chance.sample([1, 2, "a", "b", None, 1.5, [], {"q": 1}], chance.randint(1, 4))}
    if kind == "object":
        names = chance.sample(["a", "ab", "b", "c d", "\u00e9", "x\"y"], chance.randint(0, 4))
        schema = {"type": "object", "properties": {n: any_schema(chance, depth - 1) for n in names},
                  "required": [n for n in names if chance.random() < 0.5]}
        if chance.random() < 0.5:
            schema["additionalProperties"] = chance.choice([False, {"type": "integer"}])
        return schema
    if kind == "array":
        n = chance.randint(0, 2)
        return {"type": "array", "items": any_schema(chance, depth - 1), "minItems": n,
                "maxItems": n + chance.randint(0, 2)}
    if kind in ("anyOf", "oneOf", "allOf"):
        return {kind: [any_schema(chance, depth - 1) for _ in range(2)]}
    return {"type": "boolean"}


def start(binary, *flags):
    """A server of the built-in model: its process and address."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{s.getsockname()[1]}"
    process = subprocess.Popen([binary, "serve", "--port", url.rsplit(":", 1)[1], *flags], stderr=subprocess.DEVNULL)
    for _ in range(300):
        try:
            urllib.request.urlopen(url + "/health").read()
            break
        except OSError:
            time.sleep(0.1)
    return process, url


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary")
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--random", type=int, default=40)
    args = parser.parse_args()
    process, args.url = start(args.binary) if args.binary else (None, args.url)
    try:
        return check(Run(args), args)
    finally:
        if process:
            process.terminate()


def check(run, args):
    for schema in SCHEMAS:
        run.check_schema(schema)
    run.check_schema({"type": "object"}, {"response_format": {"type": "json_object"}})
    run.check_schema(NODE | {"$defs": {"node": NODE}}, {"response_format": {"type": "json_schema", "json_schema": {
        "name": "node", "strict": True, "schema": NODE | {"$defs": {"node": NODE}}}}})
    for regex in REGEXES:
        for text in run.texts({"structured_outputs": {"regex": regex}}):
            if not re.fullmatch(regex, text):
                run.fail(regex, repr(text))
    for text in run.texts({"structured_outputs": {"choice": ["yes", "no", "may\u00e9"]}}):
        if text not in ("yes", "no", "may\u00e9"):
            run.fail("choice", repr(text))
    for grammar, regex in GRAMMARS:
        for text in run.texts({"grammar": grammar}):
            if regex and not re.fullmatch(regex, text):
                run.fail(grammar, repr(text))
    for schema, word in REFUSED:
        status, text = run.ask({"json_schema": schema}, 0)
        if status != 400 or word not in json.loads(text)["error"]["message"]:
            run.fail("should be refused with", word, schema, status, text[:300])
    refused = 0
    for seed in range(args.random):
        schema = any_schema(random.Random(seed), 3)
        status, text = run.ask({"json_schema": schema}, 0)
        if status == 400:
            refused += 1
            print("  refused:", json.loads(text)["error"]["message"][:120])
        else:
            run.check_schema(schema)
    print(f"{run.whole} whole texts, {run.cut} cut, {refused} of {args.random} random schemas refused, "
          f"{run.failed} failures")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
