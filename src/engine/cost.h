/* cost.h - what one step costs, from the program: what `bench` and predictions compare with the machine's bounds. */
#pragma once
#include "engine/engine.h"

typedef struct engine_cost {
    uint64_t weight_bytes, kv_bytes; /* read */
    double flops;                    /* of matrices and attention in floats; a multiply-add is two */
    double int8_ops;                 /* of matrices whose weights are packed */
} engine_cost;

/* A step of `rows` rows of one sequence of then `depth` tokens, `outs` with logits. Activations are not counted. */
engine_cost engine_cost_of(const engine *g, int64_t rows, int64_t outs, int64_t depth);
