/* step_cost.h - what ops read and compute in one step: what bounds, predictions and slowed devices start from. */
#pragma once
#include "core/step.h"

typedef struct step_cost {
    double weight_bytes, kv_bytes; /* read */
    double flops;                  /* of matrices and attention in floats; a multiply-add is two */
    double int8_ops;               /* of matrices whose weights are packed */
} step_cost;

/* Bytes of a weight as a device reads it. */
uint64_t weight_read_bytes(const weight *w);
/* Bytes of weights that ops op0 … op1 - 1 read in a step of `rows` token rows (without rows of embedding tables).
 * Experts: the expected number touched, assuming rows pick uniformly and independently. Adds to *numbers, unless NULL,
 * the weights that multiply one row. */
double step_cost_weights(const program *p, uint32_t op0, uint32_t op1, double rows, double *numbers);

/* Adds what ops op0 … op1 - 1 cost, with a cache of these types. Of the step: counts of rows, and of each sequence
 * seq_row and seq_len. Activations are not counted. */
void step_cost_add(step_cost *c, const program *p, uint32_t op0, uint32_t op1, const step *st, dtype k_type,
                   dtype v_type);
