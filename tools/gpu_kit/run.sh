#!/bin/sh
# run.sh [STAGE...] - checks and measures the CUDA backend on this machine. A command takes eight minutes at most and
# writes what it finds into results/; a stage that was cut off goes on where it was, one that has ended is not begun
# again. Stages:
#   facts     peaks of the card                  forms     every form of instruction, against a card's stored answers
#   models    all tiny models, bit for bit       hashes    logits of twelve weight types against the CPU's
#   memory    compute-sanitizer, where it is     speed     1.1 B parameters
#   speed7    7 B parameters                     experts   some layers of 8 x 7 B
set -u
cd "$(dirname "$0")"
LD_LIBRARY_PATH=$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH INFERFLOW_BIN=build/inferflow
: "${GPU:=cuda:0}" "${SECONDS_EACH:=480}" "${WORK:=work}"
mkdir -p results "$WORK" build/gpu
failed=0

# Tests look for the driver beside the executable; here it is the system's.
if [ ! -e build/gpu/libcuda.so.1 ]; then
    for at in "${LIBCUDA:-}" /usr/lib/x86_64-linux-gnu/libcuda.so.1 /usr/lib64/libcuda.so.1 \
        /usr/lib/wsl/lib/libcuda.so.1; do
        [ -n "$at" ] && [ -e "$at" ] && ln -sf "$at" build/gpu/libcuda.so.1 && break
    done
fi

within() { timeout "$SECONDS_EACH" "$@"; }

# The first line of what an equal run gives is kept, and compared: cpu, then the GPU. Prompts of more than 128 tokens go
# through the kernels of many rows.
bench_hash() { # MODEL TYPE DEVICES
    within build/inferflow bench -m "$1" --weights "$2" --devices "$3" -p 300 -n 4 --batch 1,3 --reps 1 --json |
        grep -o '"logits_hash":"[0-9a-f]*"' | tr '\n' ' '
}

facts() { within build/gpu_facts ${SMALL:+1} >results/facts.json.new && mv results/facts.json.new results/facts.json; }
forms() { within build/tests/t_gpu_forms >results/forms.txt 2>&1; }
models() {
    within build/tests/t_cuda_models >results/models.txt 2>&1 &&
        WAY=$GPU within build/tests/t_plan_devices >>results/models.txt 2>&1 &&
        WAY="$GPU&cpu" within build/tests/t_plan_devices >>results/models.txt 2>&1
}
hashes() {
    wrong=0
    for type in f32 f16 bf16 q8_0 q8_b64 q6_k q5_b64 q4_b64 q4_k q4_t q3h_b64 q2_k; do
        grep -q "^$type equal" results/hashes.txt 2>/dev/null && continue
        cpu=$(bench_hash builtin $type cpu) gpu=$(bench_hash builtin $type "$GPU")
        if [ -n "$cpu" ] && [ "$cpu" = "$gpu" ]; then echo "$type equal $cpu"; else
            wrong=1
            echo "$type DIFFERS: cpu $cpu, $GPU $gpu; to replay: inferflow eval logits -m builtin --weights $type"
        fi >>results/hashes.txt
    done
    return $wrong
}
memory() {
    check=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
        { echo "compute-sanitizer is not here" >results/memory.txt; return 0; }
    for tool in memcheck racecheck; do
        within "$check" --tool $tool --error-exitcode 9 build/inferflow bench -m builtin --devices "$GPU" -p 300 -n 4 \
            --batch 1 --reps 1 >results/memory-$tool.txt 2>&1 || return 1
    done
}

# A model of random weights, once.
model() { # NAME SIZES...
    name=$1
    shift
    [ -e "$WORK/$name/config.json" ] || within build/make_llama "$WORK/$name" "$@" >/dev/null
}
measure() { # NAME TYPE EXACT PROMPT
    out=results/bench-$1-$2-$3-$4.json
    [ ! -e "$out" ] || return 0
    file=$WORK/$1
    if [ "$2" != f16 ]; then
        file=$file-$2.safetensors
        [ -e "$file" ] || within build/inferflow quantize -m "$WORK/$1" --format "$2" -o "$file" || return 1
    fi
    within build/inferflow bench -m "$file" --exact "$3" --devices "$GPU" -p "$4" -n 64 --batch 1,8,64 --reps 3 \
        --json >"$out.new" && mv "$out.new" "$out"
}
measure_all() { # NAME TYPES
    for type in $2; do
        measure "$1" "$type" on 512 && measure "$1" "$type" on 2048 || return 1
        case $type in q4_b64 | f16) measure "$1" "$type" off 2048 || return 1 ;; esac
    done
}
speed() { model llama-1b && measure_all llama-1b "q4_b64 q8_0 f16 q4_k q4_t q3h_b64 q6_b64"; }
speed7() {
    model llama-7b layers=32 dim=4096 heads=32 kv_heads=32 ffn=11008 vocab=32000 &&
        measure_all llama-7b "q4_b64 q8_0 f16"
}
experts() {
    model experts layers=8 dim=4096 heads=32 kv_heads=8 ffn=14336 experts=8 used=2 vocab=32000 &&
        measure_all experts "q4_b64 q8_0"
}

for stage in ${*:-facts forms models hashes memory speed speed7 experts}; do
    [ -e "results/$stage.done" ] && { echo "$stage: done before"; continue; }
    from=$(date +%s)
    if $stage; then touch "results/$stage.done"; word=passed; else failed=1 word=FAILED; fi
    echo "$stage: $word, $(($(date +%s) - from)) s" | tee -a results/log.txt
done
exit $failed
