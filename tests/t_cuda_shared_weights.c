/* t_cuda_shared_weights.c - plans over one set of weights on the CUDA backend, whose devices are programs here
 * (tests/gpu): steps at once, each in a stream of its own. */
#include "cuda/cuda_backend.h"
#include "cuda_rig.h"
#include "shared_rig.h"

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
    if (!cuda_rig_open()) return 0;
#ifdef HAVE_CUDA
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#endif
}
