/* t_cuda_between.c - what passes between devices of the CUDA backend, counted by the driver whose devices are programs
 * (tests/gpu): of two texts of different lengths the difference is what decode steps do. */
#include "base/clock.h"
#include "command.h"
#include "gpu_path.h"

#include <math.h>
#include <sys/stat.h>

static char gpu[4096], work[256]; /* the folder of the software driver; of what is written here */

enum { SHORT = 6, LONG = 14 };

/* Draws so many tokens on these devices; the text is left in file `ids`, the driver's counts in `counts`. */
static void run(const char *model, const char *devices, const char *options, int tokens, buf *ids, buf *counts)
{
    buf errors = {0};
    char shell[9000], path[512];
    snprintf(
        shell, sizeof shell,
        "LD_LIBRARY_PATH=%s SOFT_GPU_RACES=0 SOFT_GPU_COUNT=counts $P run -m $V/models/%s --ids 1,2,3 --output ids "
        "-n %d --ignore-eos --devices '%s' %s > ids",
        gpu, model, tokens, devices, options);
    if (command_shell(work, shell, &errors)) fail_msg("%s: %s", shell, buf_cstr(&errors));
    ids->n = counts->n = 0;
    snprintf(path, sizeof path, "%s/ids", work);
    assert_int_equal(file_read(ids, path, 4096, NULL), OK);
    snprintf(path, sizeof path, "%s/counts", work);
    file_read(counts, path, 4096, NULL);
    buf_free(&errors);
}

static long long count_of(const buf *counts, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(buf_cstr((buf *)counts), key);
    if (!at) fail_msg("no \"%s\" among the counts", name);
    return strtoll(at + strlen(key), NULL, 10);
}

/* What the steps after the first ones did. */
static long long per_run(const char *model, const char *devices, const char *options, const char *name)
{
    buf ids = {0}, less = {0}, more = {0};
    run(model, devices, options, SHORT, &ids, &less);
    run(model, devices, options, LONG, &ids, &more);
    const long long n = count_of(&more, name) - count_of(&less, name);
    buf_free(&ids);
    buf_free(&less);
    buf_free(&more);
    return n;
}

/* Rows between devices and for the caller lie in pinned memory. */
static void copies_are_of_pinned_memory(void **unused)
{
    (void)unused;
    static const char *const devices[] = {"cuda:0", "cuda:0;cpu", "cpu;cuda:0", "cuda:0;cuda:1", "cuda:0&cpu"};
    static const char *const options[] = {"--temperature 0", "--temperature 0.7 --seed 1",
                                          "--temperature 0 --wire f16"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            const long long n = per_run("llama", devices[i], options[k], "copies_of_pageable");
            if (n) fail_msg("%s %s: %lld copies of pageable memory", devices[i], options[k], n);
        }
}

/* Between devices that the backend has, rows pass without the host: of a greedy step it gets the best logit. */
static void rows_pass_from_device_to_device(void **unused)
{
    (void)unused;
    static const char *const devices[] = {"cuda:0;cuda:1", "cuda:0;cuda:0"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        const long long n = per_run("gemma2", devices[i], "--temperature 0", "bytes_to_host");
        if (n > 16 * (LONG - SHORT)) fail_msg("%s: %lld bytes to the host", devices[i], n);
    }
}

/* Logits of a bench on these devices, as it tells them. */
static void hash_of(const char *model, const char *devices, const char *options, char hash[64])
{
    buf errors = {0}, out = {0};
    char shell[9000], path[512];
    snprintf(shell, sizeof shell,
             "LD_LIBRARY_PATH=%s SOFT_GPU_SEED=%d $P bench -m $V/models/%s -p 9 -n 3 --batch 1,3 "
             "--reps 1 --threads 1 --json --devices '%s' %s > bench",
             gpu, (int)strlen(options), model, devices, options);
    if (command_shell(work, shell, &errors)) fail_msg("%s: %s", shell, buf_cstr(&errors));
    snprintf(path, sizeof path, "%s/bench", work);
    assert_int_equal(file_read(&out, path, 1 << 16, NULL), OK);
    const char *at = strstr(buf_cstr(&out), "\"logits_hash\"");
    assert_non_null(at);
    snprintf(hash, 64, "%.40s", at);
    buf_free(&errors);
    buf_free(&out);
}

static const char *const sums[] = {"",
                                   "--reduce f32",
                                   "--reduce f16 --collective two_step",
                                   "--reduce int8 --collective one_shot",
                                   "--reduce int6 --codec-group 32",
                                   "--reduce int4 --collective two_step",
                                   "--reduce int8 --codec-group 64"};
enum { SUMS = sizeof sums / sizeof *sums };

/* Joined ranks hand rows over on the devices: the host gets the best logit of each rank, and whether rows were odd. */
static void joined_ranks_pass_nothing_through_the_host(void **unused)
{
    (void)unused;
    for (int i = 0; i < SUMS; i += 2) {
        char options[200];
        snprintf(options, sizeof options, "--temperature 0 %s", sums[i]);
        const long long n = per_run("llama", "cuda:0&cuda:1", options, "bytes_to_host");
        if (n > 2 * 24 * (LONG - SHORT)) fail_msg("%s: %lld bytes to the host", sums[i], n);
    }
}

static void joined_ranks_have_the_bits_of_the_cpu(void **unused)
{
    (void)unused;
    static const char *const models[] = {"llama", "mixtral"};
    static const char *const on[] = {"cuda:0&cuda:1", "cuda:0&cuda:0", "cuda:0&cuda:1&cuda:2*2&cuda:3"},
                             *const cpu[] = {"cpu&cpu", "cpu&cpu", "cpu&cpu&cpu*2&cpu"};
    for (int m = 0; m < 2; m++)
        for (int i = 0; i < SUMS; i += m ? 3 : 1) {
            char want[64], got[64];
            const int d = (i + m) % 3;
            hash_of(models[m], cpu[d], sums[i], want);
            hash_of(models[m], on[d], sums[i], got);
            if (strcmp(want, got)) fail_msg("%s on %s %s: %s, not %s", models[m], on[d], sums[i], got, want);
        }
}

/* The hashes of sums between these devices, as `bench allreduce` prints them. */
static void sums_of(const char *settings, const char *devices, const char *options, buf *hashes)
{
    buf errors = {0};
    char shell[9000], path[512];
    snprintf(shell, sizeof shell,
             "LD_LIBRARY_PATH=%s SOFT_GPU_DEVICES=8 %s $P bench allreduce --reps 1 --devices '%s' %s | "
             "awk 'NR > 2 { print $1, $2, $3, $(NF - 1), $NF }' > hashes",
             gpu, settings, devices, options);
    if (command_shell(work, shell, &errors)) fail_msg("%s: %s", shell, buf_cstr(&errors));
    snprintf(path, sizeof path, "%s/hashes", work);
    hashes->n = 0;
    assert_int_equal(file_read(hashes, path, 1 << 16, NULL), OK);
    if (!hashes->n) fail_msg("%s: %s", shell, buf_cstr(&errors));
    buf_free(&errors);
}

/* From one element on, of rows that are no whole number of groups; CUDA_TESTS=all: a large one. */
static void sums_have_the_bits_of_the_cpu(void **unused)
{
    (void)unused;
    static const char *const cases[][4] = {
        {"SOFT_GPU_SEED=1", "cpu&cpu", "cuda:0&cuda:1", "--bytes 2,2K,160K --codec int6,f16"},
        {"SOFT_GPU_SEED=2", "cpu&cpu&cpu", "cuda:2&cuda:0&cuda:1", "--bytes 14,8206 --codec f32,int8 --codec-group 33"},
        {"SOFT_GPU_SEED=3", "cpu&cpu&cpu&cpu&cpu&cpu&cpu&cpu",
         "cuda:0&cuda:1&cuda:2&cuda:3&cuda:4&cuda:5&cuda:6&cuda:7", "--bytes 1K --codec int4"},
        {"SOFT_GPU_SEED=4", "cpu&cpu&cpu", "cuda:0&cuda:1&cuda:0",
         "--bytes 600,18002 --codec int8,int4s --codec-group 4096"},
        {"SOFT_GPU_SEED=5", "cpu&cpu", "cuda:0&cuda:1", "--bytes 20M --codec int4"}, /* 10 million elements */
    };
    enum { CASES = sizeof cases / sizeof *cases };
    buf want = {0}, got = {0};
    for (size_t i = 0; i < CASES - !getenv("CUDA_TESTS"); i++) {
        char options[200];
        snprintf(options, sizeof options, "%s --algorithm two_step,one_shot", cases[i][3]);
        sums_of("", cases[i][1], options, &want);
        sums_of(cases[i][0], cases[i][2], options, &got);
        if (strcmp(buf_cstr(&want), buf_cstr(&got)))
            fail_msg("%s %s:\n%s\nnot\n%s", cases[i][2], options, buf_cstr(&got), buf_cstr(&want));
    }
    buf_free(&want);
    buf_free(&got);
}

/* Runs a text during which a device stops, or a call of the driver fails; what it says. Its time in seconds. */
static double stop(const char *settings, const char *options, buf *said)
{
    char shell[9000];
    snprintf(shell, sizeof shell,
             "LD_LIBRARY_PATH=%s %s $P run -m $V/models/llama --ids 1,2,3 --output ids -n %d --ignore-eos "
             "--temperature 0 --devices 'cuda:0&cuda:1' %s > ids",
             gpu, settings, SHORT, options);
    const double start = clock_now();
    const int status = command_shell(work, shell, said);
    if (!*settings == !!status) fail_msg("%s %s: status %d: %s", settings, options, status, buf_cstr(said));
    return clock_now() - start;
}

/* Such a run ends soon, beside whole ones before and after it; a machine that others use gets five tries. */
static void stop_soon(const char *settings, const char *options, buf *said)
{
    buf ignored = {0};
    double seconds = INFINITY, whole = 0;
    for (int i = 0; i < 5 && seconds > 5 * whole + 5; i++) {
        const double before = stop("", "", &ignored);
        said->n = 0;
        seconds = stop(settings, options, said);
        const double after = stop("", "", &ignored);
        whole = fmax(before, after);
    }
    if (seconds > 5 * whole + 5) fail_msg("%s: %.1f s, a whole run %.1f s", settings, seconds, whole);
    buf_free(&ignored);
}

/* The ranks that go on wait for it a time that is limited; kernels of the rest of the step do not wait again. */
static void a_rank_that_stops_ends_the_step(void **unused)
{
    (void)unused;
    static const char *const stops[][2] = {{"SOFT_GPU_STOP=join_reduce:1", "--reduce int8 --collective two_step"},
                                           {"SOFT_GPU_STOP=join_reduce:14", "--reduce f16 --collective one_shot"},
                                           {"SOFT_GPU_STOP=join_columns:5", ""},
                                           {"SOFT_GPU_STOP=join_rows:2", ""}};
    buf said = {0};
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        stop_soon(stops[i][0], stops[i][1], &said);
        if (!strstr(buf_cstr(&said), "a device of a group has not done its part of a step"))
            fail_msg("%s: %s", stops[i][0], buf_cstr(&said));
    }
    stop_soon("SOFT_GPU_FAIL=cuLaunchKernel:90", "--reduce int8", &said);
    buf_free(&said);
}

int main(void)
{
#ifdef HAVE_CUDA
    char folder[1024];
    gpu_folder(folder);
    if (!realpath(folder, gpu)) return fprintf(stderr, "there is no %s\n", folder), 1;
    snprintf(work, sizeof work, "%s", temp_path("between"));
    if (mkdir(work, 0700)) return perror(work), 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_are_of_pinned_memory),
                                       cmocka_unit_test(rows_pass_from_device_to_device),
                                       cmocka_unit_test(joined_ranks_pass_nothing_through_the_host),
                                       cmocka_unit_test(joined_ranks_have_the_bits_of_the_cpu),
                                       cmocka_unit_test(sums_have_the_bits_of_the_cpu),
                                       cmocka_unit_test(a_rank_that_stops_ends_the_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    (void)copies_are_of_pinned_memory, (void)rows_pass_from_device_to_device,
        (void)joined_ranks_pass_nothing_through_the_host, (void)joined_ranks_have_the_bits_of_the_cpu,
        (void)sums_have_the_bits_of_the_cpu, (void)a_rank_that_stops_ends_the_step;
    skip_msg("this build has no CUDA backend");
    return 0;
#endif
}
