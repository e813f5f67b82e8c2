/* formula.h - a formula becomes ops. */
#pragma once
#include "models/compile/builder.h"

/* Runs a formula with variables that start as x (0 = none) and those that `embed` has left; returns the last value of
 * `result`. 0 without an error: a lone expression that is the number 0. `embed` may be statements that set x: the other
 * variables go on from layer to layer. */
ref formula_build(builder *b, const char *text, const char *where, ref x, const char *result);
