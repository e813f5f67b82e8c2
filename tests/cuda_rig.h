/* cuda_rig.h - for tests: the CUDA backend on devices that are programs (tests/gpu). */
#pragma once
#include "gpu_path.h"
#include "test.h"

#include <dlfcn.h>

/* Whether case number i is computed: each with CUDA_TESTS=all (make test-cuda), else one in n, for minutes less. */
static inline bool cuda_takes_case(int i, int n) { return getenv("CUDA_TESTS") || i % n == 0; }

/* The backend opens the driver by its name, and is given the software one; without that the process ends. False: this
 * build has no CUDA backend, and the runner is told. */
static inline bool cuda_rig_open(void)
{
#ifdef HAVE_CUDA
    char folder[1024], path[1100];
    gpu_folder(folder);
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    if (dlopen(path, RTLD_NOW)) return true;
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
#else
    skip_msg("this build has no CUDA backend");
    return false;
#endif
}
