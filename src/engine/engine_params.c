/* engine_params.c - the flags of every command that takes a model, as rows of engine_options. */
#include "engine/engine_params.h"
#include "engine/session.h"

#define ROW(field, kind, ...)                                                                                          \
    {                                                                                                                  \
        .key = #field, .type = kind, .offset = offsetof(engine_options, field), __VA_ARGS__                            \
    }

const param engine_param_rows[] = {
    ROW(model, PARAM_TEXT, .words = "PATH", .alias = "m", .path = PATH_MODEL,
        .doc = "Hugging Face folder or hub cache root, .safetensors, .bin/.pt, .gguf or llama2.c file; \"builtin\": "
               "the built-in model"),
    ROW(spec, PARAM_TEXT, .words = "FILE", .path = PATH_SPEC,
        .doc = "spec file (INI or JSON) instead of, or besides, --model"),
    ROW(tokenizer, PARAM_TEXT, .words = "PATH", .path = PATH_MODEL,
        .doc = "tokenizer, for a model without one or instead of its own"),
    ROW(pre, PARAM_TEXT, .rare = true, .words = "NAME", .doc = "pattern of a tiktoken rank file: llama3, cl100k, ..."),
    ROW(weights, PARAM_TEXT, .words = "TYPE",
        .doc = "type of the weights in memory: f32, f16, bf16, q8, ... (default: as stored)"),
    ROW(act, PARAM_WORD, .rare = true, .otherwise = "q8", .words = "f32|q8",
        .doc = "inputs of quantized matrices: q8 rounds them to 8 bits and is fast, f32 keeps them exact"),
    ROW(ctx, PARAM_INT, .max = 1 << 24, .alias = "c", .doc = "context in tokens (default: the model's, at most 8192)"),
    ROW(devices, PARAM_TEXT, .keeps_bits = true, .words = "LIST",
        .doc = "groups of devices with consecutive layers, \"cpu;cpu\" (pipeline parallel); in a group '&' divides "
               "matrices and heads (tensor parallel), "
               "\"cpu:1&cpu:1\" (cpu:N: N threads; cuda:N: an NVIDIA GPU); shares: \"cpu*3;cpu*1\"; of a node: "
               "\"host:7071/cpu\""),
    ROW(peers, PARAM_TEXT, .rare = true, .keeps_bits = true, .words = "HOST:PORT,...",
        .doc =
            "nodes that may take part: without --devices, or with \"auto\", those that make a token fastest are used"),
    PLAN_ROWS_OF_DIVISION(engine_options, choices.),
    ROW(key_file, PARAM_TEXT, .rare = true, .keeps_bits = true, .words = "FILE", .path = PATH_FILE,
        .doc = "the key that nodes share, made by `inferflow node --new-key`"),
    ROW(peer_timeout, PARAM_FLOAT, .rare = true, .keeps_bits = true, .otherwise = "3", .min = 0.1, .max = 3600,
        .doc = "seconds of silence after which a node counts as dead"),
    ROW(peer_wait, PARAM_FLOAT, .rare = true, .keeps_bits = true, .otherwise = "30", .max = 1e6,
        .doc = "seconds that queries wait for a node that is lost, or not there yet"),
    ROW(kv, PARAM_WORD, .rare = true, .words = "f32|f16|i16|q8|q4",
        .doc = "type of the KV cache; attention over i16, q8 and q4 computes with integers (default: f32 for f32 "
               "weights, i16 for matrices with int8 activations, else f16)"),
    PLAN_ROW_OF_KERNELS(engine_options, choices.),
    ROW(isa, PARAM_WORD, .rare = true, .keeps_bits = true, .words = "c|avx2|avxvnni|avx512|avx512bf16|neon|dotprod",
        .doc = "instruction set of the kernels (default: the best here); only avx512bf16, which needs --exact off, "
               "changes results"),
    ROW(threads, PARAM_INT, .keeps_bits = true, .min = 1, .max = 1024, .alias = "t",
        .doc = "compute threads (default: the cores this process may use)"),
    ROW(chunk, PARAM_INT, .rare = true, .keeps_bits = true, .min = 1, .max = 1 << 16,
        .doc = "prefill rows per step, at most (default: chosen for the machine)"),
    ROW(max_batch, PARAM_INT, .keeps_bits = true, .min = 1, .max = 4096, .alias = "slots",
        .doc = "sequences that run at once, by continuous batching (default: 256, as memory allows)"),
    PLAN_ROW_OF_STEPS(engine_options, choices.),
    ROW(step_sequences, PARAM_INT, .rare = true, .keeps_bits = true, .min = 1, .max = 4096,
        .doc = "sequences that generate in one step (default: all; with several devices, by what a step costs)"),
    ROW(draft, PARAM_TEXT, .keeps_bits = true, .words = "PATH|ngram", .path = PATH_MODEL,
        .doc = "speculative decoding: guess next tokens and check several in one step, which changes no text: by a "
               "small model of the same "
               "vocabulary; ngram: by what followed the last tokens where they stood before"),
    ROW(draft_accept, PARAM_WORD, .rare = true, .otherwise = "same", .words = "same|exact|pool",
        .doc = "a guess holds when it is what is drawn, so texts stay the same; by rejection sampling, so chances stay "
               "the same; or when it is among the tokens that top-k, top-p, ... leave"),
    ROW(verify, PARAM_BOOL, .rare = true, .keeps_bits = true,
        .doc = "first reads the model's files from the disk and compares them with the digests that were kept of them: "
               "a disk may change what nobody wrote to"),
    ROW(draft_max, PARAM_INT, .rare = true, .keeps_bits = true, .otherwise = "16", .min = 1, .max = DRAFT_MAX,
        .doc = "guesses of a sequence in a step; fewer are made where they rarely hold or cost time"),
};
const size_t engine_param_count = sizeof engine_param_rows / sizeof *engine_param_rows;
const size_t engine_source_param_count = 4, engine_program_param_count = 7;
