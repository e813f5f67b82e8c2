"""netlab.py - what scripts of the laboratory share: a laboratory around a command, nodes in it, judged lines."""
import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

TOOLS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("LAB_BUILD") or os.path.join(os.path.dirname(os.path.dirname(TOOLS)), "build")
BINARY = os.environ.get("INFERFLOW_BIN") or os.path.join(BUILD, "inferflow")
LAB = os.path.join(TOOLS, "lab.sh")
INSIDE = "LAB" in os.environ  # this is a command of a laboratory
not_met = []
for number in signal.SIGINT, signal.SIGTERM:  # ends the laboratory too
    signal.signal(number, lambda *_: sys.exit(130))


def skip(why):
    print(f"skipped: {why}", flush=True)
    sys.exit(0)


def judge(name, measured, bar, unit="", least=True):
    """Prints the line of one comparison; with `least` the bar is a lower bound."""
    met = measured >= bar if least else measured <= bar
    if not met:
        not_met.append(name)
    print(f"{name}: measured {measured:.4g}{unit}, bar {'>=' if least else '<='} {bar:.4g}{unit}: "
          f"{'met' if met else 'not met'}", flush=True)


def finish():
    """Ends with status 3 where a bar was not met."""
    sys.exit(3 if not_met and not INSIDE else 0)


def need(command, *words):
    """Skips the script where the program has no such command, or its help lacks one of the words."""
    if not os.access(BINARY, os.X_OK):
        skip(f"{BINARY} is not there (make)")
    text = subprocess.run([BINARY, command, "--help-all"], capture_output=True, text=True)
    for word in (command,) + words:
        if text.returncode or word not in text.stdout:
            skip(f"this build has no `{command if word == command else command + ' ' + word}`")


def lab(command, show=False, **options):
    """Runs the command as leader of a laboratory (nodes=4, rate="100mbit", delay=5, …: lab.sh); its standard output."""
    flags = [part for name, value in options.items() if value is not None for part in ("--" + name, str(value))]
    text = ""
    with subprocess.Popen([LAB, *flags, "--", *command], stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL) as box:
        try:
            for line in box.stdout:
                text += line
                if show or line.startswith("skipped: "):
                    print(line, end="", flush=True)
        except BaseException:
            box.terminate()
            raise
    if text.startswith("skipped: "):
        sys.exit(0)
    if box.returncode:
        sys.exit(f"netlab: {' '.join(command[:3])} … ended with status {box.returncode}: {text}")
    return text


def inside(*words, **options):
    """Runs this script once more, with other words, as leader of a laboratory; its judgements count here."""
    text = lab([sys.executable, sys.argv[0], *map(str, words)], show=True, **options)
    not_met.extend(line for line in text.split("\n") if line.endswith(": not met"))


def tell(*words):
    """Inside: lab.sh's commands, as tell("kill", 3), tell("link", "cut", 3)."""
    return subprocess.run([LAB, *map(str, words)], check=True, capture_output=True, text=True).stdout


def model(name, **shape):
    """The folder of a model of random weights of that shape (tools/make_llama.c), which is kept."""
    folder = os.path.join(BUILD, "netlab", name)
    if not os.path.exists(os.path.join(folder, "config.json")):
        words = [f"{key}={value}" for key, value in shape.items()]
        subprocess.run([os.path.join(BUILD, "make_llama"), folder, *words], check=True)
    return folder


def host(node):
    return f"10.77.0.{100 + node}"


def all_to_all(nodes, bytes_each, rounds):
    """Inside: results of `probe all` on nodes 1 … `nodes` at once, plain sockets."""
    hosts = [host(n) for n in range(1, nodes + 1)]
    runs = [subprocess.Popen([LAB, "on", str(n + 1), "probe", "all", str(bytes_each), str(rounds), str(n), *hosts],
                             stdout=subprocess.PIPE, text=True) for n in range(nodes)]
    return [json.loads(run.communicate()[0]) for run in runs]


def devices(nodes, join):
    """The notation of nodes 1 … `nodes` joined by "&" or ";"."""
    return join.join(f"{host(n)}:7071/cpu" for n in range(1, nodes + 1))


def nodes_of(count, model_path, *words):
    """Options of `lab` for nodes of this program that hold the model and share a new key, and the key file."""
    folder = tempfile.mkdtemp(prefix="netlab-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    key = os.path.join(folder, "key")
    subprocess.run([BINARY, "node", "--new-key", key], check=True, stdout=subprocess.DEVNULL)
    command = f"'{BINARY}' node --listen $LAB_ADDRESS:7071 --key-file '{key}' --model '{model_path}' " + " ".join(words)
    return {"nodes": count, "node": command, "ready": "listening on"}, key


def program(words, key, **options):
    """Output of `inferflow WORDS --json` on the leader, read as JSON."""
    return json.loads(lab([BINARY, *map(str, words), "--key-file", key, "--json"], **options))


def bench(words, key, **options):
    """Tokens/s of `inferflow bench WORDS`: {("prefill" or "decode", batch): rate}."""
    rows = program(["bench", *words], key, **options)["rows"]
    return {(row["test"], row["batch"]): row["tokens_per_s"] for row in rows}
