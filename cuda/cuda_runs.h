/* cuda_runs.h - runs of ops on rows as one launch. */
#pragma once
#include "cuda/cuda_state.h"

int cuda_run_load(cuda_weights *w, err *e); /* after the kernels */
/* How many ops from `first` on are such a run; 0: none. Starts one. */
uint32_t cuda_run_length(const segment *s, uint32_t first);
int cuda_run_start(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, err *e);
