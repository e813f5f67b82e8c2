/* engine_params.c - the flags of every command that takes a model, as rows of engine_options. */
#include "engine/engine_params.h"
#include "engine/session.h"

#define ROW(field, kind, ...)                                                                                          \
    {                                                                                                                  \
        .key = #field, .type = kind, .offset = offsetof(engine_options, field), __VA_ARGS__                            \
    }

const param engine_param_rows[] = {
    ROW(model, PARAM_TEXT, .words = "PATH", .alias = "m", .path = PATH_MODEL,
        .doc = "Hugging Face folder, .safetensors, .bin/.pt, .gguf or llama2.c file; ORG/NAME[:TYPE][@REV]: what "
               "the hub's cache has; \"builtin\": the built-in model"),
    ROW(spec, PARAM_TEXT, .words = "FILE", .path = PATH_SPEC,
        .doc = "spec file (INI or JSON) instead of, or besides, --model"),
    ROW(tokenizer, PARAM_TEXT, .words = "PATH", .path = PATH_MODEL,
        .doc = "tokenizer, for a model without one or instead of its own"),
    ROW(pre, PARAM_TEXT, .rare = true, .words = "NAME", .doc = "pattern of a tiktoken rank file: llama3, cl100k, ..."),
    ROW(ignore_key, PARAM_TEXT, .rare = true, .keeps_bits = true, .words = "NAME,...",
        .doc = "keys of the model's configuration that its spec need not read: a message names them"),
    ROW(weights, PARAM_TEXT, .words = "TYPE",
        .doc = "type of the weights in memory: f32, f16, bf16, q8, ... (default: as stored)"),
    ROW(act, PARAM_WORD, .rare = true, .otherwise = "q8", .words = "f32|q8",
        .doc = "inputs of quantized matrices: q8 rounds them to 8 bits and is fast, f32 keeps them exact"),
    ROW(ctx, PARAM_INT, .max = 1 << 24, .alias = "c", .doc = "context in tokens (default: the model's, at most 8192)"),
    ROW(verify, PARAM_BOOL, .rare = true, .keeps_bits = true,
        .doc = "first read the model's files from the disk and compare them with the digests of an earlier start: a "
               "disk may change a file that nobody wrote to"),
    ROW(threads, PARAM_INT, .heading = "Speed and memory", .keeps_bits = true, .min = 1, .max = 1024, .alias = "t",
        .doc = "compute threads (default: the cores this process may use)"),
    ROW(max_batch, PARAM_INT, .keeps_bits = true, .min = 1, .max = 4096, .alias = "slots",
        .doc = "sequences that run at once, by continuous batching (default: 256, as memory allows)"),
    ROW(step_sequences, PARAM_INT, .rare = true, .keeps_bits = true, .min = 1, .max = 4096,
        .doc = "sequences that decode in one step (default: all; with several devices, by what a step costs)"),
    ROW(chunk, PARAM_INT, .rare = true, .keeps_bits = true, .min = 1, .max = 1 << 16,
        .doc = "prefill rows in one step, at most (default: by the machine)"),
    ROW(kv, PARAM_WORD, .rare = true, .words = "f32|f16|i16|q8|q4",
        .doc = "type of the KV cache; attention over i16, q8 and q4 computes with integers (default: f32 for f32 "
               "weights, i16 for matrices with int8 activations, else f16)"),
    PLAN_ROW_OF_KERNELS(engine_options, choices.),
    ROW(isa, PARAM_WORD, .rare = true, .keeps_bits = true, .words = "c|avx2|avxvnni|avx512|avx512bf16|neon|dotprod",
        .doc = "instruction set of the kernels (default: the best here); only avx512bf16, which needs --exact off, "
               "changes results"),
    ROW(cublas, PARAM_TEXT, .rare = true, .words = "FILE", .path = PATH_FILE,
        .doc = "the library by which --exact off multiplies on NVIDIA GPUs (default: libcublas.so.13 or .12, where the "
               "loader or the toolkit has it)"),
    ROW(device_timeout, PARAM_FLOAT, .rare = true, .keeps_bits = true, .otherwise = "600", .min = 0.1, .max = 1e6,
        .doc = "seconds that an NVIDIA GPU may take for its part of a step of up to 512 rows, of more in proportion; "
               "then it counts as lost"),
    ROW(devices, PARAM_TEXT, .heading = "Several devices", .keeps_bits = true, .words = "LIST",
        .doc = "';' stands between pipeline stages, each of which has some of the layers: \"cpu;cpu\"; '&' between "
               "tensor-parallel ranks, which share every layer: \"cpu:1&cpu:1\"; cpu:N: N threads; cuda:N: an NVIDIA "
               "GPU; \"cpu*3;cpu*1\": shares; \"cpu*0;cuda:0\": the embedding on the CPU, all layers on the GPU; "
               "\"cuda:0*1,0&cpu*0,1\": shares of experts after a comma: these on the CPU, all else on the GPU; "
               "\"host:7071/cpu\": on a node"),
    ROW(gpu_layers, PARAM_TEXT, .keeps_bits = true, .words = "N", .alias = "ngl",
        .doc = "without --devices: the last N layers and the output head on the GPUs, by what memory these have, the "
               "others on the CPU; \"all\" (default: as many as fit)"),
    ROW(cpu_moe, PARAM_BOOL, .rare = true, .keeps_bits = true, .alias = "cmoe",
        .doc = "without --devices: the experts of all layers on the CPU, all else of the GPUs' layers on them"),
    ROW(n_cpu_moe, PARAM_INT, .rare = true, .keeps_bits = true, .words = "N", .max = 1 << 16, .alias = "ncmoe",
        .doc = "without --devices: the same for the first N layers of the model"),
    ROW(no_gpu, PARAM_BOOL, .rare = true, .keeps_bits = true, .doc = "without --devices: the CPU alone"),
    ROW(kv_host, PARAM_INT, .rare = true, .keeps_bits = true, .max = 100,
        .doc = "percent of the layers that a GPU of this machine has whose cache lies in host memory, where the GPU "
               "reads it over "
               "the bus: the last ones"),
    ROW(no_kv_offload, PARAM_BOOL, .rare = true, .keeps_bits = true, .alias = "nkvo", .doc = "--kv-host 100"),
    ROW(peers, PARAM_TEXT, .rare = true, .keeps_bits = true, .words = "HOST:PORT,...",
        .doc = "nodes that may take part: without --devices, or with \"auto\", the fastest layout over them is taken"),
    PLAN_ROWS_OF_DIVISION(engine_options, choices.),
    PLAN_ROW_OF_STEPS(engine_options, choices.),
    ROW(key_file, PARAM_TEXT, .rare = true, .keeps_bits = true, .words = "FILE", .path = PATH_FILE,
        .doc = "the key that nodes share, made by `inferflow node --new-key`"),
    ROW(peer_timeout, PARAM_FLOAT, .rare = true, .keeps_bits = true, .otherwise = "3", .min = 0.1, .max = 3600,
        .doc = "seconds of silence after which a node counts as lost"),
    ROW(peer_wait, PARAM_FLOAT, .rare = true, .keeps_bits = true, .otherwise = "30", .max = 1e6,
        .doc = "seconds that requests wait for a node that is lost, or not there yet"),
    ROW(draft, PARAM_TEXT, .heading = "Speculative decoding", .keeps_bits = true, .words = "PATH|ngram",
        .path = PATH_MODEL,
        .doc = "draft tokens come from a small model of the same vocabulary, or (ngram) from earlier text, and are "
               "checked in one step: faster, and no text changes"),
    ROW(draft_accept, PARAM_WORD, .rare = true, .otherwise = "same", .words = "same|exact|pool",
        .doc = "a draft token is accepted, same: where sampling draws it, so that texts stay the same; exact: by "
               "rejection sampling, which keeps the distribution; pool: where top-k, top-p, ... leave it"),
    ROW(draft_max, PARAM_INT, .rare = true, .keeps_bits = true, .otherwise = "16", .min = 1, .max = DRAFT_MAX,
        .doc = "draft tokens of a sequence in one step; fewer where they are rarely accepted or cost time"),
};
const size_t engine_param_count = sizeof engine_param_rows / sizeof *engine_param_rows;
const size_t engine_source_param_count = 5, engine_program_param_count = 8;
