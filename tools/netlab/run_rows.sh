#!/bin/sh
# run_rows.sh ROW... - runs scripts of the laboratory one after another and adds up their lines.
out=$(mktemp)
trap 'rm -f "$out"' EXIT
trap 'exit 130' INT TERM
for row in "$@"; do
    echo "== $row"
    status=0
    timeout --foreground "${ROW_TIMEOUT:-1800}" python3 "$row" || status=$?
    [ $status -eq 0 ] || [ $status -eq 3 ] || echo "$row: ended with status $status: not met" # 3: it said so itself
done | tee "$out"
met=$(grep -c ': met$' "$out")
not=$(grep -c ': not met$' "$out")
echo "$met met, $not not met, $(grep -c '^skipped: ' "$out") skipped"
[ "$not" -eq 0 ]
