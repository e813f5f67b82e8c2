#!/usr/bin/env python3
"""Arguments of tool calls, in every way in which models write them, judged by Python's jsonschema.

    oracle_calls.py --binary build/inferflow [--seeds 20] [--random 20] [--formats qwen3-coder,glm,…]

For each format a server of the built-in model answers with required calls at temperature 1.2. A call that ended by
itself must have arguments that satisfy the schema; one that max_tokens cut is counted only. Streamed pieces of
/v1/chat/completions and /v1/responses must give the arguments of the whole reply, those of /v1/messages valid ones.
Schemas made at random follow: each is bound or refused. Needs jsonschema (pip install jsonschema).
"""
import argparse
import concurrent.futures
import json
import random
import sys
import tempfile
import urllib.error
import urllib.request

import jsonschema
from oracle_schemas import any_schema, start

V = jsonschema.Draft202012Validator
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %}{% endif %}"
FORMATS = "qwen3-coder seed-oss glm glm-4.7 hermes mistral llama3"


def object_of(required=(), more=False, **properties):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": more}


def text(**keys):
    return {"type": "string", **keys}


SCHEMAS = [
    object_of(["a"], a=text(maxLength=6)), object_of(["a"], a=text(minLength=3, maxLength=3), b={"type": "integer"}),
    object_of(["a", "b"], a={"enum": ["5", "true", "null", "{}"]}, b={"const": "[1]"}),
    object_of(["a"], a=text(pattern="^[0-9]{1,4}$"), b={"type": "boolean"}),
    object_of(["a"], a=text(pattern="x.")), object_of(["a"], a=text(format="date-time")),
    object_of(["a"], a={"type": ["string", "null"], "maxLength": 5}),
    object_of(["a"], a={"type": ["string", "null"]}), object_of(["a"], a={}),
    object_of(["a"], a={"anyOf": [text(), {"type": "boolean"}]}), object_of(["a"], a=text(), b=text(minLength=2)),
    object_of(["a"], a={"anyOf": [text(maxLength=4), {"type": "integer"}]}),
    object_of(["a"], a={"anyOf": [text(maxLength=4), {"enum": ["1e5"]}]}),
    object_of(["a"], a={"allOf": [text(minLength=1), {"maxLength": 4}]}),
    object_of(["a"], a={"type": "array", "items": text(maxLength=3), "maxItems": 2}),
    object_of(["a"], a=object_of(["b"], b=text(maxLength=4))), object_of(a={"type": "number"}, b={"type": "null"}),
    object_of(["z"], {"type": "string", "maxLength": 4}, a={"type": "integer"}),
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/s"}}, "required": ["a"],
     "$defs": {"s": text(maxLength=3)}},
    {"$ref": "#/$defs/o", "$defs": {"o": object_of(["a"], a=text(maxLength=3))}},
]


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def events(reply):
    return [json.loads(line[6:]) for line in reply.split("\n") if line.startswith("data: ") and "[DONE]" not in line]


class Run:
    def __init__(self, args):
        self.seeds, self.failed, self.whole, self.cut, self.pieces = args.seeds, 0, 0, 0, 0

    def fail(self, *what):
        self.failed += 1
        print("FAILED", *what, flush=True)

    def ask(self, api, schema, seed, stream=False):
        message = [{"role": "user", "content": "Here is the answer: "}]
        body = {"temperature": 1.2, "stream": stream}
        if api == "chat/completions":
            body |= {"messages": message, "max_tokens": 160, "seed": seed, "tool_choice": "required",
                     "parallel_tool_calls": False,
                     "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}
        elif api == "responses":
            body |= {"input": message, "max_output_tokens": 160, "seed": seed, "tool_choice": "required",
                     "parallel_tool_calls": False, "tools": [{"type": "function", "name": "f", "parameters": schema}]}
        else:
            body |= {"messages": message, "max_tokens": 160, "tools": [{"name": "f", "input_schema": schema}],
                     "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
        return post(f"{self.url}/v1/{api}", body)

    def judge(self, schema, arguments):
        try:
            V(schema).validate(json.loads(arguments, parse_constant=lambda c: 1 / 0))
        except Exception as e:                                           # any complaint is one
            self.fail(self.format, json.dumps(schema), repr(arguments), str(e)[:200])

    def check_streams(self, schema, arguments):
        """The same seed in pieces; what was cut may be a part only."""
        chunks = [c for e in events(self.ask("chat/completions", schema, 0, True)[1]) for c in e["choices"]]
        pieces = [c["function"]["arguments"] for k in chunks for c in k["delta"].get("tool_calls", [])]
        self.pieces += len(pieces)
        if "".join(pieces) != arguments:
            self.fail(self.format, "chat in pieces", json.dumps(schema), repr(arguments), pieces)
        output = json.loads(self.ask("responses", schema, 0)[1])["output"]
        arguments = "".join(item.get("arguments", "") for item in output)
        found = events(self.ask("responses", schema, 0, True)[1])
        pieces = [e["delta"] for e in found if e["type"] == "response.function_call_arguments.delta"]
        done = [e["arguments"] for e in found if e["type"] == "response.function_call_arguments.done"]
        if "".join(pieces) != arguments or (done and done[0] != arguments):
            self.fail(self.format, "responses in pieces", json.dumps(schema), repr(arguments), pieces, done)
        found = events(self.ask("messages", schema, 0, True)[1])
        pieces = [e["delta"]["partial_json"] for e in found
                  if e["type"] == "content_block_delta" and e["delta"]["type"] == "input_json_delta"]
        if any(e.get("delta", {}).get("stop_reason") == "tool_use" for e in found):
            self.judge(schema, "".join(pieces) or "{}")

    def check(self, schema):
        """False: refused."""
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda s: self.ask("chat/completions", schema, s), range(self.seeds)))
        for seed, (status, reply) in enumerate(replies):
            if status == 400:
                self.message = json.loads(reply)["error"]["message"]
                return False
            if status != 200:
                self.fail(self.format, json.dumps(schema), status, reply[:300])
                return True
            choice = json.loads(reply)["choices"][0]
            calls = choice["message"].get("tool_calls", [])
            arguments = calls[0]["function"]["arguments"] if calls else ""
            if choice["finish_reason"] == "tool_calls":
                self.whole += 1
                self.judge(schema, arguments)
                if len(calls) != 1 or choice["message"]["content"]:
                    self.fail(self.format, json.dumps(schema), reply[:300])
            else:
                self.cut += 1
            if seed == 0:
                self.check_streams(schema, arguments)
        return True


def any_parameters(seed):
    chance = random.Random(seed)
    names = chance.sample(["a", "ab", "b", "c d", "\u00e9"], chance.randint(1, 4))
    return object_of([n for n in names if chance.random() < 0.6], chance.choice([False, {"type": "integer"}]),
                     **{n: any_schema(chance, 2) for n in names})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--random", type=int, default=20)
    parser.add_argument("--formats", default=FORMATS.replace(" ", ","))
    args = parser.parse_args()
    run, refused = Run(args), 0
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write(TEMPLATE)
        template.flush()
        for run.format in args.formats.split(","):
            process, run.url = start(args.binary, "--chat-template", template.name, "--chat-format", run.format)
            before = run.whole, run.cut
            try:
                for schema in SCHEMAS:
                    if not run.check(schema):
                        run.fail(run.format, json.dumps(schema), run.message)
                for seed in range(args.random):
                    if not run.check(any_parameters(seed)):
                        refused += 1
                        print("  refused:", run.message[:150])
            finally:
                process.terminate()
                process.wait()
            print(f"{run.format}: {run.whole - before[0]} whole, {run.cut - before[1]} cut", flush=True)
    print(f"{run.whole} whole calls, {run.cut} cut, {refused} random schemas refused, {run.pieces} pieces, "
          f"{run.failed} failures")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
