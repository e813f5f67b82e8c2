/* cuda_prefill.h - packed weights times many rows: the kernels of prefill.cu. */
#pragma once
#include "cuda/cuda_args.h"
#include "cuda/cuda_state.h"

int cuda_prefill_load(cuda_weights *w, err *e);
/* Whether there are rows enough for the kernel of the weights w, and heads that it takes; then starts it. */
bool cuda_prefill_pays(const held_weight *w, const product_args *of);
int cuda_prefill_start(cuda_device *d, const held_weight *w, const qmat_args *a, err *e);
