#!/bin/sh
# demo.sh INFERFLOW - starts the server on the built-in model, asks it for one streamed completion, shows it as it
# comes, stops.
set -eu
inferflow=${1:-build/inferflow}
prompt=${PROMPT:-"It was a dark night, and the old man"}
log=$(mktemp)

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }

say "$ $inferflow serve --port 0 &"
"$inferflow" serve --port 0 >"$log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true; rm -f "$log"' EXIT INT TERM

url=""
for _ in $(seq 100); do
    url=$(sed -n 's/^inferflow serves at //p' "$log")
    [ -n "$url" ] && curl -sf "$url/health" >/dev/null && break
    kill -0 $server 2>/dev/null || { echo "demo: the server ended"; exit 1; }
    sleep 0.1
done
[ -n "$url" ] || { echo "demo: the server did not say where it listens"; exit 1; }
sed -n '/ready after/p' "$log"
sed -n '/serves at/p' "$log"

body="{\"prompt\": \"$prompt\", \"max_tokens\": 120, \"temperature\": 0.7, \"seed\": 7, \"stream\": true}"
say "$ curl -N $url/v1/completions -d '$body'"
printf '%s' "$prompt"
curl -sfN "$url/v1/completions" -d "$body" | python3 -u -c '
import json, sys
tokens = 0
for line in sys.stdin:
    if not line.startswith("data: {"):
        continue
    event = json.loads(line[6:])
    if "error" in event:
        sys.exit("demo: " + event["error"]["message"])
    tokens += 1
    sys.stdout.write(event["choices"][0]["text"])
    sys.stdout.flush()
print()
sys.exit(0 if tokens > 20 else "demo: only %d chunks came" % tokens)
'

say "$ kill -TERM $server"
kill -TERM $server
wait $server
trap 'rm -f "$log"' EXIT
echo "The server drained its streams and ended."
