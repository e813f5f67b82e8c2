/* score_bias.h - biases of attention scores by distance, for modules: options that their struct contains, rows of
 * these, the weight, and the operands of OP_ATTN. */
#pragma once
#include "models/compile/builder.h"

typedef struct score_bias_options {
    bool alibi;
    const char *alibi_round;
    int64_t buckets, bucket_distance;
} score_bias_options;

/* Rows for the score_bias_options that are member `at` of struct type_. */
#define SCORE_BIAS_ROWS(type_, at)                                                                                     \
    MODULE_ROW_IN(type_, at, alibi, PARAM_BOOL, .otherwise = "false",                                                  \
                  .doc = "linear biases (arXiv 2108.12409): slopes 2^(-8 k / n) for the power of two n below the "     \
                         "number of heads, then every other one of 2 n"),                                              \
        MODULE_ROW_IN(type_, at, alibi_round, PARAM_WORD, .otherwise = "none", .words = "none|bf16",                   \
                      .doc = "bf16: slope * position rounded to bfloat16 and added before scaling"),                   \
        MODULE_ROW_IN(type_, at, buckets, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 16,                       \
                      .doc = "learned biases for this many buckets of distances (arXiv 1910.10683); 0 = none"),        \
        MODULE_ROW_IN(type_, at, bucket_distance, PARAM_INT, .otherwise = "128", .min = 1, .max = 1 << 20,             \
                      .doc = "farther keys are all in the last bucket")
/* And the weight that they may need. */
#define SCORE_BIAS_WEIGHT                                                                                              \
    {                                                                                                                  \
        "buckets", "[buckets, heads]", "biases of distances"                                                           \
    }

typedef struct score_bias {
    int kind;          /* BIAS_… */
    ref values, table; /* ATTN_BIAS, ATTN_TABLE; 0: none */
} score_bias;

/* both_ways: queries see later keys too. False: failed. */
bool builder_score_bias(builder *b, const call *c, const score_bias_options *o, int heads, bool both_ways,
                        score_bias *out);
