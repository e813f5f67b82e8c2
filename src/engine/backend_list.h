/* backend_list.h - the backends of this build, the preferred first: "auto" is the first device that can be used. The
 * last one can always be used. X(backend, member of own_options) */
#pragma once
#include "cpu/cpu_backend.h"
#include "cuda/cuda_backend.h"
#ifdef HAVE_CUDA
#define CUDA_BACKEND(X) X(cuda_backend, cuda)
#else
#define CUDA_BACKEND(X)
#endif

/* What backends have of their own: weight_options.own points to a member. */
typedef struct own_options {
    cpu_options cpu;
    cuda_options cuda;
} own_options;

enum { BACKENDS_MAX = 16 };
#define BACKEND_LIST(X) CUDA_BACKEND(X) X(cpu_backend, cpu)
