#!/bin/sh
# run_tests.sh BUILD TEST... - runs every test program in a process of its own, with a time limit, and adds up the
# results; two at a time where there are two processors (TEST_JOBS). A crash or a time-out counts as one failure and
# does not stop the others. RUN: what programs for another machine are run by. The limit, TEST_TIMEOUT seconds (300), is
# for a machine that does what `work` does in 50 ms; a slower or busier one gets more.
work() { head -c 30000000 /dev/zero | cksum >/dev/null; }
limit() {
    before=$(date +%s%N); work; after=$(date +%s%N)
    case $before in *N) before=0; after=0 ;; esac # no nanoseconds here
    took=$(((after - before) / 1000000))
    echo $((${TEST_TIMEOUT:-300} * (took > 50 ? took : 50) / 50))
}

# One test: its line, and its counts in a file beside its log.
run_one() {
    name=$(basename "$2")
    log="$1/tests/$name.log"
    began=$(date +%s)
    INFERFLOW_BIN="${RUN:+$RUN }$1/inferflow" timeout "$(limit)" $RUN "$2" >"$log" 2>&1
    rc=$?
    took=$(($(date +%s) - began))
    p=$(grep -c '^\[       OK \]' "$log"); s=$(grep -c '^skipped: ' "$log")
    f=$(grep '^\[  FAILED  \] [a-z0-9_]*$' "$log" | sort -u | wc -l)
    if [ $rc -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    echo "$p $f $s" >"$log.counts"
    if [ $rc -ne 0 ]; then
        said="FAILED $name (exit $rc), its output:
$(grep -v -e '^\[ RUN ' -e '^\[       OK ' "$log" | tail -40)"
    else
        said=$(printf 'ok %-28s %4d checks %4d s%s' "$name" "$p" "$took" "$([ "$s" -gt 0 ] && echo ", $s skipped")")
        [ "$s" -gt 0 ] && said="$said
$(grep '^skipped: ' "$log" | sort | uniq -c | sed 's/^ */   /' | head -3)"
    fi
    echo "$said"
}

if [ "$1" = --one ]; then
    run_one "$2" "$3"
    exit 0
fi
build=$1; shift
jobs=${TEST_JOBS:-$(nproc 2>/dev/null || echo 1)}
for t in "$@"; do rm -f "$build/tests/$(basename "$t").log.counts"; done
printf '%s\n' "$@" | xargs -P "$((jobs < 2 ? 1 : 2))" -I '{}' "$0" --one "$build" '{}'
passed=0; failed=0; skipped=0
for t in "$@"; do
    read -r p f s <"$build/tests/$(basename "$t").log.counts" || { p=0; f=1; s=0; }
    passed=$((passed + p)); failed=$((failed + f)); skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
