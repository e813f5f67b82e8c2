/* t_cuda_lists.c - models on lists of devices of which some are the CUDA backend's (programs here, tests/gpu): the bits
 * of the CPU, in chunks of 1, 7 and all rows, with 1 to 4 steps in flight, over every type of cache, with beams.
 * CUDA_TESTS=all: every row, not one in three. ROW=2: the third row alone. */
#include "cuda_rig.h"
#include "ways_rig.h"

/* One model, computed in one way. */
typedef struct row {
    const char *model, *kv, *weights; /* weights: NULL: as stored */
    way how;
} row;

static const row rows[] = {
    {"llama", "i16", "q4_b64", {"cuda:0", 4, 7}},
    {"llama", "f32", NULL, {"cuda:0;cpu", 4, 2048}},
    {"llama", "q8", "q8_0", {"cpu;cuda:1", 2, 1}},
    {"llama", "f16", "q4_k", {"cuda:0&cpu", 1, 7}},
    {"llama", "q4", "q4_t", {"cuda:0;cuda:1", 2, 7}},
    {"llama", "i16", "q3h_b64", {"cuda:0&cuda:1", 2, 2048}},
    {"llama", "q8", "q6_b64", {"cuda:0;cuda:0", 3, 7}},
    {"llama", "f16", "q8_b64", {"cuda:0&cuda:0", 1, 1}},
    {"mixtral", "i16", "q6_k", {"cuda:0;cuda:1", 3, 7}},
    {"mixtral", "q8", "q4_b64", {"cuda:0&cuda:1", 2, 7}},
    {"qwen2-moe", "f16", "q8_0", {"cpu&cuda:0", 1, 2048}},
    {"deepseek2-lite", "f16", NULL, {"cuda:0;cuda:0", 2, 7}},
    {"bloom", "i16", "q5_b64", {"cpu&cuda:1", 3, 7}},
    {"gpt-oss", "q8", "iq4_nl", {"cpu;cuda:0", 4, 7}},
    {"gemma2", "f32", NULL, {"cuda:0;cpu", 2, 1}},
    {"gemma3", "i16", "q4_b32", {"cuda:0&cpu;cuda:1", 4, 7}},
    {"lfm2", "f16", NULL, {"cuda:0;cuda:1", 4, 7}},
    {"lfm2", "f32", "q8_0", {"cuda:0&cuda:1", 1, 1}},
    {"qwen3.5", "f32", NULL, {"cuda:0;cpu", 3, 7}},
    {"qwen3.5", "f16", "q8_0", {"cuda:0&cpu", 2, 1}},
    {"qwen3-next", "q8", NULL, {"cuda:0&cuda:1", 2, 7}},
    {"gemma4", "f32", NULL, {"cuda:0;cpu", 2, 7}},
    {"gemma4-moe", "q8", "q8_0", {"cuda:0&cuda:1", 2, 7}},
    {"gemma3n", "f16", "q8_0", {"cuda:0&cpu;cuda:1", 2, 7}},
    {"granite-hybrid", "q8", "q4_b64", {"cuda:0&cpu;cuda:1", 2, 7}},
    {"nemotron-h", "f16", NULL, {"cuda:0;cuda:1", 3, 7}},
    {"falcon-h1", "i16", "q8_0", {"cuda:0&cuda:1", 2, 7}},
    {"t5", "f32", NULL, {"cuda:0;cpu", 2, 7}},
    {"t5", "f16", "q8_b64", {"cpu&cuda:0", 1, 2048}},
    {"../encoders/albert", "f32", "q8_b64", {"cuda:0;cuda:1", 1, 128}},
    {"llama", "i16", "q4_b64", {"a:1/cuda:0", 1, 7}},
    {"llama", "f32", "q8_0", {"a:1/cuda:0;cuda:1", 4, 7}},
    {"llama", "q8", NULL, {"cuda:0&a:1/cuda:1&cpu", 2, 7}},
    {"mixtral", "i16", "q4_b64", {"cuda:0*1,0&cpu*0,1", 2, 7}},
    {"qwen2-moe", "q8", NULL, {"cpu*0,1&cuda:0*1,0;cuda:1", 4, 7}},
    {"gpt-oss", "f16", "q8_0", {"cuda:0*1,1&cuda:1*1,0&cpu*0,3", 1, 2048}},
    {"mixtral", "i16", "q8_0", {"cuda:0*0,1&cuda:1*1,0", 2, 7}},
};

static void as_on_the_cpu(void **unused)
{
    (void)unused;
    char folder[128];
    int wrong = 0;
    const char *only = getenv("ROW");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (only ? (size_t)atoi(only) != i : !cuda_takes_case((int)i, 3)) continue;
        snprintf(folder, sizeof folder, "%s/%s", vectors, rows[i].model);
        const inputs x = inputs_read(folder);
        const int before = compared;
        way how = rows[i].how;
        how.brief = i % 3 > 0;
        wrong += compare(folder, &x, rows[i].kv, rows[i].weights, &how, 1);
        if (compared != before + 1) fail_msg("%s was not computed on %s", folder, rows[i].how.devices);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    if (!cuda_rig_open()) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_on_the_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
