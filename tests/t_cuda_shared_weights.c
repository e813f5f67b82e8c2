/* t_cuda_shared_weights.c - plans over one set of weights on the CUDA backend, whose devices are programs here
 * (tests/gpu): steps at once, each in a stream of its own. */
#include "cuda/cuda_backend.h"
#include "gpu_path.h"
#include "shared_rig.h"

#include <dlfcn.h>

#ifdef HAVE_CUDA
static void texts_at_once(void **unused)
{
    (void)unused;
    const backend_use list[] = {{&cpu_backend, NULL}, {&cuda_backend, NULL}, {0}};
    shared_texts("cuda:0", list);
}
#endif

int main(void)
{
#ifdef HAVE_CUDA
    /* The backend opens the library by its name, and is given the one that is there. */
    char folder[1024], path[1100];
    gpu_folder(folder);
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    if (!dlopen(path, RTLD_NOW)) return fprintf(stderr, "%s\n", dlerror()), 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    skip_msg("this build has no CUDA backend");
    return 0;
#endif
}
