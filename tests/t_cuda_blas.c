/* t_cuda_blas.c - --exact off on the CUDA backend, whose devices and cuBLAS are programs here (tests/gpu): prompts
 * of 64 rows and more have other bits and nearly the same logits; fewer rows, and no library, the CPU's bits. */
#include "command.h"
#include "gpu_path.h"

#include <math.h>
#include <sys/stat.h>

static char gpu[4096], work[256]; /* the folder of the software driver; of what is written here */

/* Logits of a text of `n` tokens, and what was said. */
static void logits(const char *folder, const char *model, const char *flags, int n, buf *to, buf *said)
{
    char shell[9000], path[4200], text[64] = "";
    snprintf(shell, sizeof shell,
             "LD_LIBRARY_PATH=%s SOFT_GPU_RACES=0 $P eval logits -m $V/models/%s %s --output out.npy --ids "
             "$(for i in $(seq 1 %d); do printf '%%d,' $((3 + i * 7 %% 40)); done)5",
             folder, model, flags, n - 1);
    to->n = said->n = 0;
    if (command_shell(work, shell, said)) fail_msg("%s %s: %s", model, flags, buf_cstr(said));
    snprintf(path, sizeof path, "%s/out.npy", work);
    assert_int_equal(file_read(to, path, 1 << 26, NULL), OK);
    memcpy(text, to->p, 10);
    const size_t head = 10u + (uint8_t)text[8] + 256u * (uint8_t)text[9];
    memmove(to->p, to->p + head, to->n - head);
    to->n -= head;
}

/* The greatest difference as a share of the greatest logit. */
static double distance(const buf *a, const buf *b)
{
    const float *x = (const float *)(const void *)a->p, *y = (const float *)(const void *)b->p;
    double most = 0, apart = 0;
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n / sizeof *x; i++) {
        if (!isfinite(y[i])) return INFINITY;
        most = fmax(most, fabs(x[i]));
        apart = fmax(apart, fabs(x[i] - y[i]));
    }
    return apart / most;
}

static bool equal(const buf *a, const buf *b) { return a->n == b->n && !memcmp(a->p, b->p, a->n); }

static void many_rows_are_close(void **unused)
{
    (void)unused;
    static const struct {
        const char *model, *flags;
        double most; /* float32 loses nothing here; a bfloat16 has 8 bits */
    } rows[] = {{"llama", "--weights f32 --act f32", 1e-5},
                {"llama", "--weights f16", 5e-3},
                {"llama", "--weights bf16", 3e-2},
                {"llama", "--weights q4_b64", 5e-2},
                {"llama", "--weights q8_0", 4e-2},
                {"bloom", "--weights q6_k", 8e-2},
                {"phi", "--weights f16", 5e-3}};
    buf want = {0}, off = {0}, said = {0};
    char flags[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int n = 63; n <= 100; n += 37) {
            snprintf(flags, sizeof flags, "%s --devices cpu", rows[i].flags);
            logits(gpu, rows[i].model, flags, n, &want, &said);
            snprintf(flags, sizeof flags, "%s --devices cuda:0 --exact off", rows[i].flags);
            logits(gpu, rows[i].model, flags, n, &off, &said);
            const double apart = distance(&want, &off);
            if (n < 64 ? apart != 0 : !(apart > 0 && apart < rows[i].most))
                fail_msg("%s %s: %d rows: logits are %g apart", rows[i].model, rows[i].flags, n, apart);
            if (strstr(buf_cstr(&said), "exact")) fail_msg("%s", buf_cstr(&said));
        }
    }
    buf_free(&want);
    buf_free(&off);
    buf_free(&said);
}

/* A float model says what --exact off would gain; --exact off says why it changes nothing. */
static void says_what_it_does(void **unused)
{
    (void)unused;
    buf want = {0}, got = {0}, said = {0};
    char none[4200];
    assert_int_equal(command_shell(work, "mkdir -p none && cp $(dirname $P)/gpu/libcuda.so.1 none", &said), 0);
    snprintf(none, sizeof none, "%s/none", work);
    logits(gpu, "llama", "--weights f16 --devices cuda:0", 100, &want, &said);
    assert_non_null(strstr(buf_cstr(&said), "--exact off cuBLAS would"));
    logits(gpu, "llama", "--weights f16 --devices cpu --isa c", 100, &got, &said);
    assert_true(equal(&want, &got) && !said.n);
    logits(none, "llama", "--weights f16 --devices cuda:0 --exact off", 100, &got, &said);
    assert_non_null(strstr(buf_cstr(&said), "results stay exact"));
    assert_true(equal(&want, &got));
    static const char *const refused[][2] = {
        {"--devices cuda:0 --cublas libcuda.so.1", "--cublas goes with --exact off"},
        {"--devices cuda:0 --exact off --cublas none/nothing.so", "--cublas: none/nothing.so: cannot open"},
        {"--devices cuda:0 --exact off --cublas libcuda.so.1", "libcuda.so.1 has no cublasCreate_v2"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char shell[9000];
        said.n = 0;
        snprintf(shell, sizeof shell, "LD_LIBRARY_PATH=%s $P run -m $V/models/llama --ids 3 -n 1 %s", gpu,
                 refused[i][0]);
        const int rc = command_shell(work, shell, &said);
        if ((rc != 1 && rc != 2) || !strstr(buf_cstr(&said), refused[i][1]))
            fail_msg("%s: exit status %d: %s", refused[i][0], rc, buf_cstr(&said));
    }
    buf_free(&want);
    buf_free(&got);
    buf_free(&said);
}

int main(void)
{
#ifdef HAVE_CUDA
    char folder[1024];
    gpu_folder(folder);
    if (!realpath(folder, gpu)) return fprintf(stderr, "there is no %s\n", folder), 1;
    snprintf(work, sizeof work, "%s", temp_path("blas"));
    if (mkdir(work, 0700)) return perror(work), 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_rows_are_close), cmocka_unit_test(says_what_it_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    (void)many_rows_are_close, (void)says_what_it_does;
    skip_msg("this build has no CUDA backend");
    return 0;
#endif
}
