/* cuda_library.c - see cuda_library.h. */
#include "cuda/cuda_library.h"

#include <dlfcn.h>

const char *cuda_library_find(void *from, const char *const *names, size_t n, void **found)
{
    for (size_t i = 0; i < n; i++)
        if (!(found[i] = dlsym(from, names[i]))) return names[i];
    return NULL;
}
