/* backend_list.h - the backends of this build, the preferred first: "auto" is the first device that can be used. The
 * last one can always be used. X(backend, what points to its own options in engine.c, or NULL) */
#pragma once
#include "cpu/cpu_backend.h"
#ifdef HAVE_CUDA
#include "cuda/cuda_backend.h"
#define CUDA_BACKEND(X) X(cuda_backend, NULL)
#else
#define CUDA_BACKEND(X)
#endif

enum { BACKENDS_MAX = 16 };
#define BACKEND_LIST(X) CUDA_BACKEND(X) X(cpu_backend, cpu)
