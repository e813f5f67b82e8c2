#!/bin/sh
# run_rows.sh ROW... - runs scripts of the laboratory one after another and adds up their lines.
out=$(mktemp)
trap 'rm -f "$out"' EXIT
trap 'exit 130' INT TERM
for row in "$@"; do
    echo "== $row"
    timeout --foreground "${ROW_TIMEOUT:-1800}" python3 "$row" || echo "$row: ended with status $?: not met"
done | tee "$out"
met=$(grep -c ': met$' "$out")
not=$(grep -c ': not met$' "$out")
echo "$met met, $not not met, $(grep -c '^skipped: ' "$out") skipped"
[ "$not" -eq 0 ]
