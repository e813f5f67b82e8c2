/* cuda_backend.h - NVIDIA GPUs as devices. The number of the notation, "cuda:1", is a device of the driver; without one
 * it is the first. */
#pragma once
#include "core/backend.h"

/* weight_options.own */
typedef struct cuda_options {
    const char *cublas; /* the library of --exact off; NULL: as cuda/blas.h looks for it */
    double timeout;     /* seconds for a device's part of a step: cuda_state.h; 0: CUDA_TIMEOUT */
} cuda_options;

extern const backend cuda_backend;
