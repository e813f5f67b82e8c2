#!/bin/sh
# run_tests.sh BUILD TEST... - runs every test program in a process of its own, with a time limit, and adds up the
# results. A crash or a time-out counts as one failure and does not stop the others. RUN: what programs for another
# machine are run by. The limit, TEST_TIMEOUT seconds (300), is for a machine that does what `work` does in 50 ms; a
# slower or busier one gets more.
build=$1; shift
passed=0; failed=0; skipped=0

work() { head -c 30000000 /dev/zero | cksum >/dev/null; }
limit() {
    before=$(date +%s%N); work; after=$(date +%s%N)
    case $before in *N) before=0; after=0 ;; esac # no nanoseconds here
    took=$(((after - before) / 1000000))
    echo $((${TEST_TIMEOUT:-300} * (took > 50 ? took : 50) / 50))
}

for t in "$@"; do
    name=$(basename "$t")
    log="$build/tests/$name.log"
    began=$(date +%s)
    INFERFLOW_BIN="${RUN:+$RUN }$build/inferflow" timeout "$(limit)" $RUN "$t" >"$log" 2>&1
    rc=$?
    took=$(($(date +%s) - began))
    p=$(grep -c '^\[       OK \]' "$log"); s=$(grep -c '^skipped: ' "$log")
    f=$(grep '^\[  FAILED  \] [a-z0-9_]*$' "$log" | sort -u | wc -l)
    if [ $rc -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    passed=$((passed + p)); failed=$((failed + f)); skipped=$((skipped + s))
    if [ $rc -ne 0 ]; then
        echo "FAILED $name (exit $rc), its output:"; grep -v -e '^\[ RUN ' -e '^\[       OK ' "$log" | tail -40
    else
        printf 'ok %-28s %4d checks %4d s%s\n' "$name" "$p" "$took" "$([ "$s" -gt 0 ] && echo ", $s skipped")"
        grep '^skipped: ' "$log" | sort | uniq -c | sed 's/^ */   /' | head -3
    fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
