/* t_cuda_models.c - models on the CUDA backend, whose devices are programs here (tests/gpu): the bits of the CPU, for
 * every kind of op, every type of cache, several types of packed weights, alone and together with other devices. */
#include "gpu_path.h"
#include "ways_rig.h"

#include <dlfcn.h>
#include <stdio.h>

/* One model, computed in one way on software GPUs. */
typedef struct row {
    const char *model, *kv, *weights; /* weights: NULL: as stored */
    way how;
} row;

static const row rows[] = {
    {"llama", "i16", "q4_b64", {"cuda:0", 1, 7}},
    {"llama", "f32", NULL, {"cuda:0;cpu", 4, 128}},
    {"llama", "q8", "q8_0", {"cpu;cuda:1", 2, 1}},
    {"llama", "f16", "q4_k", {"cuda:0&cpu", 1, 7}},
    {"llama", "q4", "q4_t", {"cuda:0;cuda:1", 2, 7}},
    {"llama", "i16", "q3h_b64", {"cuda:0&cuda:1", 2, 128}},
    {"mixtral", "i16", "q6_k", {"cuda:0", 2, 7}},
    {"deepseek2-lite", "f16", NULL, {"cuda:0", 1, 7}},
    {"bloom", "i16", "q5_b64", {"cuda:0", 1, 7}},
    {"gpt-oss", "q8", "iq4_nl", {"cuda:0", 1, 7}},
    {"gemma2", "f32", NULL, {"cuda:0", 1, 7}},
    {"lfm2", "f16", NULL, {"cuda:0", 2, 7}},
    {"t5", "f32", NULL, {"cuda:0", 1, 7}},
    {"../encoders/albert", "f32", "q8_b64", {"cuda:0", 1, 128}},
};

static void devices_of_software(void **unused)
{
    (void)unused;
    char folder[128];
    int wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(folder, sizeof folder, "%s/%s", vectors, rows[i].model);
        const inputs x = inputs_read(folder);
        const int before = compared;
        wrong += compare(folder, &x, rows[i].kv, rows[i].weights, &rows[i].how, 1);
        if (compared != before + 1) fail_msg("%s was not computed on %s", folder, rows[i].how.devices);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
#ifdef HAVE_CUDA
    /* The backend opens the library by its name, and is given the one that is there. */
    char folder[1024], path[1100];
    gpu_folder(folder);
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    if (!dlopen(path, RTLD_NOW)) return fprintf(stderr, "%s\n", dlerror()), 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(devices_of_software)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    (void)devices_of_software;
    skip_msg("this build has no CUDA backend");
    return 0;
#endif
}
