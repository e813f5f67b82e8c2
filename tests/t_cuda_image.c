/* t_cuda_image.c - which kernels a device gets: of all targets that the Makefile knows, for devices of all
 * capabilities. */
#include "cuda/cuda_image.h"
#include "test.h"

static void each_device_has_its_image(void **unused)
{
    (void)unused;
    static const char *const all[] = {"sm_80.cubin.xz",    "sm_86.cubin.xz",    "sm_89.cubin.xz",  "sm_90a.cubin.xz",
                                      "sm_100.cubin.xz",   "sm_103.cubin.xz",   "sm_120.cubin.xz", "sm_200.fatbin.xz",
                                      "compute_80.ptx.xz", "compute_90a.ptx.xz"};
    static const struct {
        int capability;
        const char *first, *second; /* the best one; what a driver gets that refuses it */
    } device[] = {{75, NULL, NULL},
                  {80, "sm_80.cubin.xz", "compute_80.ptx.xz"},
                  {86, "sm_86.cubin.xz", "sm_80.cubin.xz"},
                  {87, "sm_86.cubin.xz", "sm_80.cubin.xz"},
                  {89, "sm_89.cubin.xz", "sm_86.cubin.xz"},
                  {90, "sm_90a.cubin.xz", "compute_90a.ptx.xz"},
                  {100, "sm_100.cubin.xz", "compute_80.ptx.xz"},
                  {103, "sm_103.cubin.xz", "sm_100.cubin.xz"},
                  {110, "compute_80.ptx.xz", NULL},
                  {120, "sm_120.cubin.xz", "compute_80.ptx.xz"},
                  {121, "sm_120.cubin.xz", "compute_80.ptx.xz"}};
    for (size_t d = 0; d < sizeof device / sizeof *device; d++) {
        const char *best = NULL, *next = NULL;
        int first = 0, second = 0;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            const int merit = cuda_image_merit(all[i], device[d].capability);
            if (merit > first) second = first, next = best, first = merit, best = all[i];
            else if (merit > second) second = merit, next = all[i];
        }
        const bool good = best == device[d].first || (best && device[d].first && !strcmp(best, device[d].first));
        const bool then = next == device[d].second || (next && device[d].second && !strcmp(next, device[d].second));
        if (!good || !then)
            fail_msg("a device of capability %d gets %s, then %s", device[d].capability, best ? best : "nothing",
                     next ? next : "nothing");
    }
}
int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_device_has_its_image)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
