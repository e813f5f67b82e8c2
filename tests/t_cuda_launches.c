/* t_cuda_launches.c - how few launches, copies and graphs decode takes on the CUDA backend, counted by the driver whose
 * devices are programs (tests/gpu): of two texts of different lengths the difference is what steps do, of two models
 * that of a layer. */
#include "command.h"
#include "gpu_path.h"

#include <sys/stat.h>

static char gpu[4096], work[256]; /* the folder of the software driver; of what is written here */

static void shell(const char *line)
{
    buf errors = {0};
    if (command_shell(work, line, &errors)) fail_msg("%s: %s", line, buf_cstr(&errors));
    buf_free(&errors);
}

/* Runs a command, and reads what the driver has counted. */
static void count(const char *command, buf *counts)
{
    char line[6000], path[512];
    snprintf(line, sizeof line,
             "LD_LIBRARY_PATH=%s SOFT_GPU_RACES=0 SOFT_GPU_COUNT=counts $P %s --devices cuda:0 > said", gpu, command);
    shell(line);
    snprintf(path, sizeof path, "%s/counts", work);
    counts->n = 0;
    assert_int_equal(file_read(counts, path, 1 << 16, NULL), OK);
}

static long long count_of(buf *counts, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(buf_cstr(counts), key);
    if (!at) fail_msg("no \"%s\" among the counts", name);
    return strtoll(at + strlen(key), NULL, 10);
}

/* Draws so many tokens. weights: NULL as they are. */
static void draw(const char *model, const char *weights, int tokens, buf *counts)
{
    char command[4096];
    snprintf(command, sizeof command, "run -m %s --ids 1,2,3 --output ids -n %d --ignore-eos --temperature 0 %s%s",
             model, tokens, weights ? "--weights " : "", weights ? weights : "");
    count(command, counts);
}

/* Wider than 256 columns, as activations are coded twice below. */
static void make_wide(int layers, const char *more)
{
    char line[4096];
    snprintf(line, sizeof line,
             "rm -rf wide && $(dirname $P)/make_llama wide layers=%d dim=320 heads=5 kv_heads=1 head_dim=64 ffn=384 "
             "vocab=96 %s",
             layers, more);
    shell(line);
}

/* Kernels of a layer in a decode step. */
static long long layer_kernels(const char *weights, const char *more)
{
    buf less = {0}, counts = {0};
    long long n[2];
    for (int layers = 1; layers <= 2; layers++) {
        make_wide(layers, more);
        draw("wide", weights, 4, &less);
        draw("wide", weights, 6, &counts);
        n[layers - 1] = count_of(&counts, "kernels") - count_of(&less, "kernels");
    }
    assert_int_equal((n[1] - n[0]) % 2, 0);
    buf_free(&less);
    buf_free(&counts);
    return (n[1] - n[0]) / 2;
}

/* The logits of all rows of a prompt are the CPU's, to the bit, and the driver finds no race. */
static void compare_logits(const char *weights, int prompt)
{
    char line[6000], eval[400];
    snprintf(eval, sizeof eval,
             "$P eval logits -m wide --weights %s --ids $(seq %d | awk '{print $1 * 7 %% 96}' | paste -sd, -)", weights,
             prompt);
    snprintf(line, sizeof line,
             "%s --devices cpu -o of_cpu.npy && LD_LIBRARY_PATH=%s %s --devices cuda:0 -o of_gpu.npy && "
             "cmp of_cpu.npy of_gpu.npy",
             eval, gpu, eval);
    shell(line);
}

static void launches_of_a_layer(void **unused)
{
    (void)unused;
    static const struct {
        const char *shape;
        int most;
        const char *weights;
    } rows[] = {{"", 8, "q4_b64"}, {"experts=4 used=2", 12, "q4_b64"}, {"", 9, "f16"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const long long n = layer_kernels(rows[i].weights, rows[i].shape);
        compare_logits(rows[i].weights, 9);
        if (n > rows[i].most)
            fail_msg("a layer of %s \"%s\" has %lld launches, not %d", rows[i].weights, rows[i].shape, n, rows[i].most);
    }
}

/* More rows than two matrices, ACT, MUL and QUANT are one kernel for, also of experts: then codes are not to lie where
 * MUL still reads rows of the second matrix. */
static void gated_layers_of_many_rows(void **unused)
{
    (void)unused;
    static const struct {
        const char *shape, *weights;
    } rows[] = {{"dim=512 ffn=1024", "q4_b64"}, {"dim=512 ffn=512 experts=4 used=2", "q8_0"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_wide(1, rows[i].shape);
        compare_logits(rows[i].weights, 140);
    }
}

/* Of a hundred steps, in which a text comes to its second page. */
static void costs_of_a_step(void **unused)
{
    (void)unused;
    enum { STEPS = 100 };
    static const struct {
        const char *name;
        long long most;
    } rows[] = {{"graph_launches", STEPS},   {"launches", 2},
                {"copies_to_device", STEPS}, {"bytes_to_device", STEPS * (4096 + 64)},
                {"copies_to_host", STEPS},   {"bytes_to_host", STEPS * 16},
                {"synchronizations", STEPS}, {"allocations", 0},
                {"host_allocations", 0},     {"graphs", 0}};
    buf less = {0}, counts = {0};
    draw("$V/models/llama", NULL, 12, &less);
    draw("$V/models/llama", NULL, 12 + STEPS, &counts);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const long long n = count_of(&counts, rows[i].name) - count_of(&less, rows[i].name);
        if (n > rows[i].most) fail_msg("%s: %lld in %d steps, not %lld", rows[i].name, n, STEPS, rows[i].most);
    }
    buf_free(&less);
    buf_free(&counts);
}

/* Batches of eight sizes share the graphs of four, but for some mixed steps. */
static void graphs_of_batches(void **unused)
{
    (void)unused;
    const char *command = "bench -m $V/models/llama -p 2 -n 6 --reps 1 --batch ";
    char few[256], many[256];
    snprintf(few, sizeof few, "%s1,2,4,8", command);
    snprintf(many, sizeof many, "%s1,2,4,8,3,5,6,7", command);
    buf counts = {0};
    count(few, &counts);
    const long long of_few = count_of(&counts, "graphs");
    count(many, &counts);
    const long long of_many = count_of(&counts, "graphs");
    assert_true(of_few > 0);
    if (of_many > of_few + 3) fail_msg("%lld graphs; four sizes have %lld", of_many, of_few);
    buf_free(&counts);
}

int main(void)
{
#ifdef HAVE_CUDA
    char folder[1024];
    gpu_folder(folder);
    if (!realpath(folder, gpu)) return fprintf(stderr, "there is no %s\n", folder), 1;
    snprintf(work, sizeof work, "%s", temp_path("launches"));
    if (mkdir(work, 0700)) return perror(work), 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(launches_of_a_layer),
                                       cmocka_unit_test(gated_layers_of_many_rows), cmocka_unit_test(costs_of_a_step),
                                       cmocka_unit_test(graphs_of_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    (void)launches_of_a_layer, (void)costs_of_a_step, (void)graphs_of_batches;
    skip_msg("this build has no CUDA backend");
    return 0;
#endif
}
