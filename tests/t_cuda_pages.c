/* t_cuda_pages.c - pages between the CPU and the CUDA backend (programs here, tests/gpu), both ways in mid-text;
 * activations that cross; plans of one program at the same time. */
#include "cuda_rig.h"
#include "pages_rig.h"

#ifdef HAVE_CUDA
#include "cuda/cuda_backend.h"

static const backend_use cuda = {&cuda_backend, NULL};

static void pages_of_cuda(void **unused)
{
    (void)unused;
    pages_move("cuda:0", cuda);
}

static void streams_of_cuda(void **unused)
{
    (void)unused;
    static const char *const devices[] = {"cuda:0;cpu", "cpu;cuda:0;cpu", "cuda:0;cuda:1;cuda:0"};
    streams_cross(devices, 3, cuda);
}

static void plans_of_cuda(void **unused)
{
    (void)unused;
    plans_at_once((const char *[]){"cpu:1", "cuda:0", "cuda:0;cpu:1"}, cuda);
}
#endif

int main(void)
{
    if (!cuda_rig_open()) return 0;
#ifdef HAVE_CUDA
    const struct CMUnitTest tests[] = {cmocka_unit_test(pages_of_cuda), cmocka_unit_test(streams_of_cuda),
                                       cmocka_unit_test(plans_of_cuda)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#endif
}
