/* cuda_rig.h - for tests: the CUDA backend on devices that are programs (tests/gpu). */
#pragma once
#include "gpu_path.h"
#include "test.h"

#include <dlfcn.h>

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
