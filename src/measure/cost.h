/* cost.h - what a step of one sequence costs, from the program: what `bench` compares with the machine's bounds. */
#pragma once
#include "engine/engine.h"
#include "plan/step_cost.h"

/* A step of `rows` rows of one sequence of then `depth` tokens, `outs` with logits; without what devices of other
 * processes compute. */
step_cost engine_cost_of(const engine *g, int64_t rows, int64_t outs, int64_t depth);
