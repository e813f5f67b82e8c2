/* t_cuda_many.c - a prompt longer than the kernels of few rows take, whole: the built-in model's logits on software
 * GPUs of capability 8.0 and 9.0 are the CPU's, and on the latter warpgroups multiply. CUDA_TESTS=all: more types. */
#include "base/json.h"
#include "command.h"
#include "cuda_rig.h"

#include <sys/stat.h>

static char gpu[4096], work[256];

/* The hash of logits of `bench`, whose sequences have a prompt of 131 tokens; *wgmma: how many instructions so. */
static void bench(const char *settings, const char *devices, const char *weights, char hash[17], double *wgmma)
{
    buf said = {0};
    char shell[9000], path[512];
    snprintf(shell, sizeof shell,
             "LD_LIBRARY_PATH=%s SOFT_GPU_RACES=0 SOFT_GPU_COUNT=counts %s $P bench -m builtin --weights %s --devices "
             "'%s' -p 131 -n 1 --chunk 256 --reps 1 --json > result",
             gpu, settings, weights, devices);
    if (command_shell(work, shell, &said)) fail_msg("%s: %s", shell, buf_cstr(&said));
    buf_free(&said);
    json *j;
    err e = {0};
    snprintf(path, sizeof path, "%s/result", work);
    assert_ok(json_read(&j, path, 1 << 20, &e), &e);
    snprintf(hash, 17, "%s", json_str(json_get(j, "logits_hash"), ""));
    json_free(j);
    assert_int_equal(strlen(hash), 16);
    if (!wgmma) return;
    snprintf(path, sizeof path, "%s/counts", work);
    assert_ok(json_read(&j, path, 1 << 16, &e), &e);
    *wgmma = json_num(json_get(j, "wgmma"), -1);
    json_free(j);
}

static void prompts_of_many_rows(void **unused)
{
    (void)unused;
    static const char *const types[] = {"q4_b64", "q8_0", "q4_k", "q3h_b64"};
    for (int i = 0; i < (getenv("CUDA_TESTS") ? 4 : 1); i++) {
        char want[17], got[17];
        double wgmma;
        bench("", "cpu", types[i], want, NULL);
        bench("SOFT_GPU_CAPABILITY=8.0", "cuda:0", types[i], got, &wgmma);
        assert_string_equal(got, want);
        assert_true(wgmma == 0);
        bench("SOFT_GPU_CAPABILITY=9.0", "cuda:0", types[i], got, &wgmma);
        assert_string_equal(got, want);
        assert_true(wgmma > 0);
    }
}

static int make_folder(void **unused)
{
    (void)unused;
    char folder[1024];
    gpu_folder(folder);
    snprintf(work, sizeof work, "%s", temp_path("many"));
    return !realpath(folder, gpu) || mkdir(work, 0700);
}

static int remove_folder(void **unused)
{
    (void)unused;
    char line[300];
    snprintf(line, sizeof line, "rm -rf %s", work);
    return system(line);
}

int main(void)
{
    if (!cuda_rig_open()) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(prompts_of_many_rows)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
