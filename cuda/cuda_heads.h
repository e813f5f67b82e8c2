/* cuda_heads.h - heads of new rows as one launch: NORM of queries and keys, ROPE, KV_PUT. */
#pragma once
#include "cuda/cuda_state.h"

/* How many ops from `first` on are such a launch; 0: none. Starts one. */
uint32_t cuda_heads_length(const segment *s, uint32_t first);
int cuda_heads_start(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, err *e);
