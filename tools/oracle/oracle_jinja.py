#!/usr/bin/env python3
"""oracle_jinja.py - renders the templates of tests/vectors/jinja.json with jinja2, as transformers sets it up.

Each case is a template; "expected" is its rendering, "error" the exception that rendering ends in. New cases are added
with the template alone.

  tools/oracle/oracle_jinja.py            # writes the file anew
  tools/oracle/oracle_jinja.py --check    # says which cases differ

Needs: jinja2 3.1.6.
"""
import argparse
import datetime
import json
import os

import jinja2.exceptions
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock
from jinja2.sandbox import ImmutableSandboxedEnvironment

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "vectors", "jinja.json")


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return CallBlock(self.call_method("content"), [], [], body).set_lineno(line)

    def content(self, caller):
        return caller()


def environment(now):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = now.strftime
    return env


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="write nothing")
    check = options.parse_args().check
    with open(FILE) as f:
        data = json.load(f)
    env = environment(datetime.datetime.fromisoformat(data["now"] + "T12:00:00"))
    for case in data["cases"]:
        before = dict(case)
        case.pop("expected", None), case.pop("error", None)
        try:
            case["expected"] = env.from_string(case["template"]).render(**json.loads(data["context"]))
        except Exception as e:
            case["error"] = f"{type(e).__name__}: {e}"
        if check and case != before:
            print("differs:", case["template"])
    if not check:
        rows = ",\n".join("  " + json.dumps(c, ensure_ascii=False) for c in data["cases"])
        head = f'{{"now": {json.dumps(data["now"])},\n "context": {json.dumps(data["context"])},\n "cases": [\n'
        with open(FILE, "w") as f:
            f.write(head + rows + "\n]}\n")


if __name__ == "__main__":
    main()
