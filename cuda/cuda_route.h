/* cuda_route.h - ROUTE and DISPATCH: one launch for few rows. */
#pragma once
#include "cuda/cuda_state.h"

/* How many ops from `first` on are such a launch; 0: none. Starts one. */
uint32_t cuda_route_length(const segment *s, uint32_t first);
int cuda_route_start(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, err *e);
