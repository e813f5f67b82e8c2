/* cuda_codes.h - launches that end with codes of their results: ATTN with its QUANTs; two matrices of one input with
 * ACT, MUL, QUANT, as gate and up of a feed-forward block. */
#pragma once
#include "cuda/cuda_state.h"

struct codes_to;
struct gated_end;

/* How many ops from `first` on are such a launch; 0: none. */
uint32_t cuda_codes_length(const segment *s, uint32_t first);
/* Where n QUANTs from op `first` on write. */
void cuda_codes_take(const cuda_device *d, const cuda_segment *s, uint32_t first, int n, struct codes_to *to);
/* The end of two matrices; their outputs go to scratch space, y[part]. false: there is no room. */
bool cuda_codes_end(const cuda_device *d, const cuda_segment *s, const cuda_ops *of, int64_t rows, struct gated_end *to,
                    float *y[2]);
