/* t_cuda_calls.c - the executable where a CUDA driver is missing, broken or full, and where one of its calls fails: one
 * line that says why, exit status 1 or 2, and never another text. */
#include "command.h"
#include "cuda_rig.h"

#include <sys/stat.h>

#define MODEL "$P run -m $V/models/llama --ids 1,2,3 --output ids -n 6 --temperature 0 "

static char gpu[4096], work[256]; /* the folder of the software driver; of what is written here */

/* Runs a line with the driver of a folder; lines of errors are counted. */
static int run(const char *folder, const char *settings, const char *devices, buf *errors, int *lines)
{
    char shell[9000];
    snprintf(shell, sizeof shell, "LD_LIBRARY_PATH=%s SOFT_GPU_RACES=0 %s " MODEL "--devices %s > ids.out", folder,
             settings, devices);
    const int rc = command_shell(work, shell, errors);
    const char *text = buf_cstr(errors);
    *lines = 0;
    for (const char *at = text; (at = strstr(at, "inferflow: error: ")); at++) ++*lines;
    return rc;
}

static void refused(const char *folder, const char *settings, const char *devices, const char *why)
{
    buf errors = {0};
    int lines, rc = run(folder, settings, devices, &errors, &lines);
    if ((rc != 1 && rc != 2) || lines != 1 || !strstr(buf_cstr(&errors), why))
        fail_msg("%s %s: exit status %d, \"%s\" instead of \"%s\"", settings, devices, rc, buf_cstr(&errors), why);
    buf_free(&errors);
}

/* "auto" passes over devices that cannot be used. */
static void runs_on_the_cpu(const char *folder, const char *settings)
{
    buf errors = {0};
    int lines, rc = run(folder, settings, "auto", &errors, &lines);
    if (rc || lines) fail_msg("%s auto: exit status %d, %s", settings, rc, buf_cstr(&errors));
    buf_free(&errors);
}

static void says_what_is_missing(void **unused)
{
    (void)unused;
    buf errors = {0};
    assert_int_equal(command_shell(work,
                                   "mkdir -p none half && echo nothing > none/libcuda.so.1 && "
                                   "cc -shared -o half/libcuda.so.1 -x c /dev/null",
                                   &errors),
                     0);
    char none[4200], half[4200];
    snprintf(none, sizeof none, "%s/none", work);
    snprintf(half, sizeof half, "%s/half", work);
    refused(none, "", "cuda:0", "libcuda.so.1 cannot be opened");
    refused(half, "", "cuda:0", "libcuda.so.1 has no cuInit");
    refused(gpu, "", "cuda:4", "the NVIDIA driver has 4 devices");
    refused(gpu, "SOFT_GPU_DEVICES=0", "cuda:0", "NVIDIA driver");
    refused(gpu, "SOFT_GPU_VERSION=12080", "cuda:0", "the NVIDIA driver knows CUDA 12.8; 13.0 or later is needed");
    refused(gpu, "SOFT_GPU_CAPABILITY=7.5", "cuda:0", "no kernels for CUDA devices of capability 7.5");
    refused(gpu, "SOFT_GPU_MEMORY=16", "cuda:0", "of which 0 are free");
    runs_on_the_cpu(none, "");
    runs_on_the_cpu(half, "");
    runs_on_the_cpu(gpu, "SOFT_GPU_DEVICES=0");
    runs_on_the_cpu(gpu, "SOFT_GPU_VERSION=12080");
    runs_on_the_cpu(gpu, "SOFT_GPU_CAPABILITY=7.5");
    runs_on_the_cpu(gpu, "SOFT_GPU_FAIL=cuInit:1");
    buf_free(&errors);
}

/* `info`: the kinds that are embedded, and why a device is not used. */
static void info_says_what_there_is(void **unused)
{
    (void)unused;
    char shell[9000];
    buf errors = {0};
    snprintf(shell, sizeof shell,
             "LD_LIBRARY_PATH=%s SOFT_GPU_CAPABILITY=7.5 $P info --json >info && grep -o '\"cuda\": *\"[^\"]*\"' info "
             ">kinds; "
             "cat kinds info >&2; grep -Eqx '\"cuda\": *\"[0-9]+\\.[0-9]+( sm_[0-9]+[a-z]?)* ptx_80\"' kinds && "
             "grep -q 'no kernels for its kind' info",
             gpu);
    if (command_shell(work, shell, &errors)) fail_msg("%s", buf_cstr(&errors));
    buf_free(&errors);
}

/* Each allocation on the device, and each of host memory, is refused once: the line says that memory is out. */
static void memory_runs_out(void **unused)
{
    (void)unused;
    static const char *const calls[] = {"cuMemAlloc", "cuMemHostAlloc"};
    buf errors = {0};
    for (int c = 0; c < 2; c++)
        for (int k = 1, rc = 1; rc; k++) {
            char settings[64];
            int lines;
            snprintf(settings, sizeof settings, "SOFT_GPU_FAIL=%s:%d", calls[c], k);
            rc = run(gpu, settings, "cuda:0", &errors, &lines);
            if (rc != (lines == 1) || (rc && !strstr(buf_cstr(&errors), "memory")))
                fail_msg("%s: exit status %d, %s", settings, rc, buf_cstr(&errors));
            assert_true(rc || k > 3);
        }
    buf_free(&errors);
}

/* Every thirteenth of its calls fails once. */
static void one_call_fails(void **unused)
{
    (void)unused;
    enum { CALLS = 400, EACH = 13 };
    buf want = {0}, got = {0}, errors = {0};
    char path[4200];
    int lines, failed = 0;
    snprintf(path, sizeof path, "%s/ids.out", work);
    assert_int_equal(run(gpu, "", "cpu", &errors, &lines), 0);
    assert_int_equal(file_read(&want, path, 4096, NULL), OK);
    for (int k = 1; k <= CALLS; k += EACH) {
        char settings[64];
        snprintf(settings, sizeof settings, "SOFT_GPU_FAIL=%d", k);
        const int rc = run(gpu, settings, "cuda:0", &errors, &lines);
        got.n = 0;
        file_read(&got, path, 4096, NULL);
        failed += rc == 1;
        if (rc == 0 && got.n == want.n && !memcmp(got.p, want.p, got.n)) continue; /* nothing depends on that call */
        if (rc != 1 || lines != 1) fail_msg("call %d: exit status %d, %s", k, rc, buf_cstr(&errors));
    }
    if (failed < CALLS / EACH / 2) fail_msg("only %d of the calls that failed were noticed", failed);
    buf_free(&want);
    buf_free(&got);
    buf_free(&errors);
}

/* It ends its lease, and takes another one: the text goes on from its tokens to the CPU's. */
static void a_node_loses_its_device(void **unused)
{
    (void)unused;
    static const char node[] =
        "rm -f key at said; $P node --new-key key >key.said && "
        "{ SOFT_GPU_FAIL=cuGraphLaunch:3 $P node --listen 127.0.0.1:0 --key-file key --devices cuda:0 >at 2>said & } "
        "&& "
        "node=$! && while ! grep -q 127 at; do sleep 0.05; done && "
        "timeout -k 1 100 " MODEL
        "--devices \"$(grep -o '127.0.0.1:[0-9]*' at)/cuda:0\" --key-file key > ids.out; rc=$?; "
        "kill $node; wait $node; test $rc = 0 && grep -q 'has ended after .* cuda:0: the CUDA device' said";
    char shell[9000], path[4200];
    buf want = {0}, got = {0}, errors = {0};
    int lines;
    assert_int_equal(run(gpu, "", "cpu", &errors, &lines), 0);
    snprintf(path, sizeof path, "%s/ids.out", work);
    assert_int_equal(file_read(&want, path, 4096, NULL), OK);
    snprintf(shell, sizeof shell, "export LD_LIBRARY_PATH=%s SOFT_GPU_RACES=0; %s", gpu, node);
    if (command_shell(work, shell, &errors)) fail_msg("%s", buf_cstr(&errors));
    assert_int_equal(file_read(&got, path, 4096, NULL), OK);
    assert_string_equal(buf_cstr(&got), buf_cstr(&want));
    buf_free(&want);
    buf_free(&got);
    buf_free(&errors);
}

int main(void)
{
    if (!cuda_rig_open()) return 0;
    char folder[1024];
    gpu_folder(folder);
    assert_non_null(realpath(folder, gpu));
    snprintf(work, sizeof work, "%s", temp_path("calls"));
    if (mkdir(work, 0700)) return perror(work), 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_what_is_missing),
                                       cmocka_unit_test(info_says_what_there_is), cmocka_unit_test(memory_runs_out),
                                       cmocka_unit_test(one_call_fails), cmocka_unit_test(a_node_loses_its_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
