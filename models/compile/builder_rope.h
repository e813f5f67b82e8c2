/* builder_rope.h - rotary positions (arXiv 2104.09864) for modules: options as part of theirs, their rows, the ops. */
#pragma once
#include "models/compile/builder.h"

typedef struct rope_options {
    const char *rope;
    int64_t rope_dims, rope_original, rope_positions;
    double theta, rope_share, rope_factor, rope_low_freq, rope_high_freq, rope_beta_fast, rope_beta_slow, rope_mscale,
        rope_mscale_all, rope_attention_factor;
    bool rope_truncate;
    const char *rope_type, *rope_short, *rope_long, *rope_freqs;
} rope_options;

/* Rows for the rope_options that are member `at` of struct type_. */
#define ROPE_ROWS(type_, at)                                                                                           \
    MODULE_ROW_IN(type_, at, rope, PARAM_WORD, .otherwise = "none", .words = "none|neox|interleaved",                  \
                  .doc = "rotary positions: pairs (i, i + n/2), or neighbours (2i, 2i + 1)"),                          \
        MODULE_ROW_IN(type_, at, rope_dims, PARAM_INT, .otherwise = "-1", .min = -1, .max = ROPE_DIMS_MAX,             \
                      .doc = "rotated dimensions of a head, the first ones; -1 = all"),                                \
        MODULE_ROW_IN(type_, at, rope_share, PARAM_FLOAT, .otherwise = "1", .min = 0, .max = 1,                        \
                      .doc = "share of the pairs that rotate, the fastest ones, at the frequencies of all"),           \
        MODULE_ROW_IN(type_, at, theta, PARAM_FLOAT, .otherwise = "10000", .min = 1e-3, .max = 1e15,                   \
                      .doc = "base of the frequencies"),                                                               \
        MODULE_ROW_IN(type_, at, rope_type, PARAM_WORD, .otherwise = "none", .words = ROPE_SCALING_WORDS,              \
                      .doc = "scaling of the frequencies (src/core/rope.h)"),                                          \
        MODULE_ROW_IN(type_, at, rope_factor, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6,                     \
                      .doc = "all but none; 0: of yarn and longrope, rope_positions / rope_original"),                 \
        MODULE_ROW_IN(type_, at, rope_original, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 30,                 \
                      .doc = "positions before scaling: dynamic, yarn, llama3, longrope"),                             \
        MODULE_ROW_IN(type_, at, rope_positions, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 30,                \
                      .doc = "positions after scaling: longrope, dynamic"),                                            \
        MODULE_ROW_IN(type_, at, rope_low_freq, PARAM_FLOAT, .otherwise = "1", .min = 0, .max = 1e6, .doc = "llama3"), \
        MODULE_ROW_IN(type_, at, rope_high_freq, PARAM_FLOAT, .otherwise = "4", .min = 0, .max = 1e6,                  \
                      .doc = "llama3"),                                                                                \
        MODULE_ROW_IN(type_, at, rope_beta_fast, PARAM_FLOAT, .otherwise = "32", .min = 0, .max = 1e6, .doc = "yarn"), \
        MODULE_ROW_IN(type_, at, rope_beta_slow, PARAM_FLOAT, .otherwise = "1", .min = 0, .max = 1e6, .doc = "yarn"),  \
        MODULE_ROW_IN(type_, at, rope_mscale, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6,                     \
                      .doc = "yarn; 0 = absent"),                                                                      \
        MODULE_ROW_IN(type_, at, rope_mscale_all, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6,                 \
                      .doc = "yarn, mscale_all_dim; 0 = absent"),                                                      \
        MODULE_ROW_IN(type_, at, rope_attention_factor, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6,           \
                      .doc = "yarn, longrope; 0 = computed"),                                                          \
        MODULE_ROW_IN(type_, at, rope_truncate, PARAM_BOOL, .otherwise = "true",                                       \
                      .doc = "yarn: the correction range is whole dimensions"),                                        \
        MODULE_ROW_IN(type_, at, rope_short, PARAM_TEXT, .words = MODULE_LIST_OPTION,                                  \
                      .doc = "longrope: a factor per frequency for short texts"),                                      \
        MODULE_ROW_IN(type_, at, rope_long, PARAM_TEXT, .words = MODULE_LIST_OPTION,                                   \
                      .doc = "longrope: and for long ones"),                                                           \
        MODULE_ROW_IN(type_, at, rope_freqs, PARAM_TEXT, .words = MODULE_LIST_OPTION,                                  \
                      .doc = "a divisor per frequency, instead of a scaling (GGUF's rope_freqs); false: not even if "  \
                             "there is such a tensor")

/* Index of the table of cosines and sines for `dims` rotated dimensions (options not "none"); negative: failed. */
int builder_rope_table(builder *b, const call *c, const rope_options *o, int dims);
/* x with the first dimensions of every head of `head_dim` rotated by a table. */
ref builder_rotate(builder *b, const call *c, const rope_options *o, const char *part, ref x, int table, int head_dim);
