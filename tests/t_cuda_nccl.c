/* t_cuda_nccl.c - NCCL's sums beside ours in `bench allreduce`, on devices and a library that are programs here
 * (tests/gpu): its rows, the order of its calls, and one line where it is missing or one of its calls fails. */
#include "command.h"
#include "gpu_path.h"

#include "base/json.h"

#include <sys/stat.h>

#define BENCH "$P bench allreduce --reps 2 "

static char gpu[4096], none[4200], work[256]; /* folders: of the software driver, without libnccl; of what is written */

/* Runs `bench allreduce` with the libraries of a folder; its exit status, what it printed and what it said. */
static int bench(const char *folder, const char *settings, const char *flags, buf *out, buf *said)
{
    char shell[9000], path[512];
    snprintf(shell, sizeof shell,
             "rm -f out trace; LD_LIBRARY_PATH=%s SOFT_GPU_RACES=0 SOFT_NCCL_TRACE=trace %s " BENCH "%s > out", folder,
             settings, flags);
    out->n = said->n = 0;
    const int rc = command_shell(work, shell, said);
    snprintf(path, sizeof path, "%s/out", work);
    assert_int_equal(file_read(out, path, 1 << 20, NULL), OK);
    return rc;
}

/* The same with --json, where it succeeds. */
static json *rows_of(const char *folder, const char *settings, const char *flags)
{
    buf out = {0}, said = {0};
    char all[600];
    err e = {0};
    snprintf(all, sizeof all, "--json %s", flags);
    if (bench(folder, settings, all, &out, &said)) fail_msg("%s %s: %s", settings, flags, buf_cstr(&said));
    json *root;
    if (json_parse(&root, span_of(out.p, out.n), "rows", &e)) fail_msg("%s: %s", flags, e.msg);
    buf_free(&out);
    buf_free(&said);
    return root;
}

static bool is_nccl(const json *row) { return !strcmp(json_str(json_get(row, "algorithm"), ""), "nccl"); }

static int count_nccl(const json *root)
{
    int n = 0;
    for (const json *r = json_first(json_get(root, "rows")); r; r = json_next(r)) n += is_nccl(r);
    return n;
}

/* How often a line of what libnccl has seen is `name`. */
static int traced(const char *name)
{
    char path[512];
    buf b = {0};
    int n = 0;
    snprintf(path, sizeof path, "%s/trace", work);
    file_read(&b, path, 1 << 20, NULL);
    for (const char *at = buf_cstr(&b); *at; at += strcspn(at, "\n") + 1)
        n += !strncmp(at, name, strlen(name)) && at[strlen(name)] == '\n';
    buf_free(&b);
    return n;
}

static const char *why_of(const json *root) { return json_str(json_get(json_get(root, "nccl"), "why"), ""); }

/* Sums of floats and of halves, near ours; rows of our own have the bits that they have without it. */
static void its_rows_are_sums(void **unused)
{
    (void)unused;
    static const struct {
        const char *devices, *bytes;
        int ranks, sizes;
    } cases[] = {{"cuda:0&cuda:1", "2,600,160K", 2, 3},
                 {"cuda:2&cuda:0&cuda:1", "14,8206", 3, 2},
                 {"cuda:3&cuda:2&cuda:0&cuda:1", "2K", 4, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char flags[300], own[400];
        snprintf(flags, sizeof flags, "--devices '%s' --bytes %s --codec f32,f16,int8", cases[i].devices,
                 cases[i].bytes);
        snprintf(own, sizeof own, "%s --algorithm two_step,one_shot", flags);
        json *with = rows_of(gpu, "", flags), *without = rows_of(gpu, "", own);
        assert_int_equal(count_nccl(without), 0);
        assert_int_equal(count_nccl(with), 2 * cases[i].sizes);
        assert_string_equal(json_str(json_get(json_get(with, "nccl"), "version"), ""), "2.28.9");
        const json *same = json_first(json_get(without, "rows"));
        for (const json *r = json_first(json_get(with, "rows")); r; r = json_next(r)) {
            const bool half = !strcmp(json_str(json_get(r, "codec"), ""), "f16");
            const double error = json_num(json_get(r, "error"), 1);
            assert_true(json_bool(json_get(r, "equal_on_all_ranks"), false));
            assert_true(json_num(json_get(r, "seconds"), 0) > 0);
            if (is_nccl(r) && error > (half ? 1e-3 : 1e-6)) fail_msg("%s: error %g", flags, error);
            if (is_nccl(r)) continue;
            assert_string_equal(json_str(json_get(r, "hash"), ""), json_str(json_get(same, "hash"), "-"));
            same = json_next(same);
        }
        assert_null(same);
        json_free(with);
        json_free(without);
    }
}

static void calls_are_of_a_group(void **unused)
{
    (void)unused;
    json *root = rows_of(gpu, "", "--devices 'cuda:0&cuda:1&cuda:2' --bytes 600 --codec f16 --algorithm nccl");
    const int sums = 2 + 2; /* from the third time on it is measured */
    assert_int_equal(count_nccl(root), 1);
    assert_int_equal(traced("ncclCommInitAll"), 1);
    assert_int_equal(traced("ncclGroupStart"), sums);
    assert_int_equal(traced("ncclAllReduce"), 3 * sums);
    assert_int_equal(traced("ncclGroupEnd"), sums);
    assert_int_equal(traced("ncclCommDestroy"), 3);
    assert_int_equal(traced("ncclCommAbort"), 0);
    assert_int_equal(traced("left 0"), 1);
    const json *row = json_first(json_get(root, "rows"));
    assert_null(json_get(row, "payload_bytes"));
    json_free(root);
    root = rows_of(gpu, "SOFT_NCCL_WRONG=1",
                   "--devices 'cuda:0&cuda:1&cuda:2' --bytes 600 --codec f16 --algorithm nccl");
    row = json_first(json_get(root, "rows"));
    assert_false(json_bool(json_get(row, "equal_on_all_ranks"), true));
    json_free(root);
}

/* One line, and the rows of our own. */
static void it_may_be_missing(void **unused)
{
    (void)unused;
    const char *flags = "--devices 'cuda:0&cuda:1' --bytes 600,2K --codec f32,f16 --algorithm two_step,nccl";
    buf out = {0}, said = {0};
    json *root = rows_of(none, "", flags);
    assert_int_equal(count_nccl(root), 0);
    assert_int_equal(json_count(json_get(root, "rows")), 4);
    assert_non_null(strstr(why_of(root), "libnccl.so.2"));
    json_free(root);
    assert_int_equal(bench(none, "", flags, &out, &said), 0);
    const char *line = strstr(buf_cstr(&out), "no row of NCCL: ");
    if (!line || strstr(line + 1, "no row of NCCL: ") || said.n) fail_msg("%s%s", buf_cstr(&out), buf_cstr(&said));
    root = rows_of(gpu, "", "--devices 'cuda:0&cuda:0' --bytes 600,2K --codec f16");
    assert_non_null(strstr(why_of(root), "invalid usage")); /* a device twice */
    assert_int_equal(count_nccl(root), 0);
    json_free(root);
    root = rows_of(gpu, "", "--devices 'cpu&cpu' --bytes 600 --codec f16");
    assert_int_equal(count_nccl(root), 0);
    assert_null(json_get(root, "nccl"));
    json_free(root);
    buf_free(&out);
    buf_free(&said);
}

static void wrong_flags_are_refused(void **unused)
{
    (void)unused;
    static const char *const refused[][2] = {
        {"--devices 'cuda:0&cuda:1' --nccl none/nothing.so", "--nccl: none/nothing.so: cannot open"},
        {"--devices 'cuda:0&cuda:1' --nccl libcuda.so.1", "libcuda.so.1 has no ncclGetVersion"},
        {"--devices 'cuda:0&cuda:1' --codec int8 --nccl libnccl.so.2", "--nccl: there is nothing to measure"},
        {"--devices 'cpu&cpu' --nccl libnccl.so.2", "--nccl: there is nothing to measure"},
        {"--devices 'cpu&cpu' --algorithm nccl", "between these devices there are ring, two_step, one_shot, gather"},
        {"--devices 'cuda:0&cuda:1' --algorithm ring", "between these devices there are two_step, one_shot"}};
    buf out = {0}, said = {0};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const int rc = bench(gpu, "", refused[i][0], &out, &said);
        if ((rc != 1 && rc != 2) || !strstr(buf_cstr(&said), refused[i][1]))
            fail_msg("%s: exit status %d: %s", refused[i][0], rc, buf_cstr(&said));
    }
    assert_int_equal(
        bench(none, "", "--devices 'cuda:0&cuda:1' --bytes 600 --nccl $(dirname $P)/gpu/libnccl.so.2", &out, &said), 0);
    assert_non_null(strstr(buf_cstr(&out), "NCCL 2.28.9"));
    buf_free(&out);
    buf_free(&said);
}

/* Its row is left out, and it is not asked again; communicators end. */
static void each_call_may_fail(void **unused)
{
    (void)unused;
    static const char *const calls[] = {"ncclGetVersion", "ncclCommInitAll", "ncclGroupStart", "ncclAllReduce",
                                        "ncclGroupEnd"};
    const char *flags = "--devices 'cuda:0&cuda:1' --bytes 600,2K --codec f16 --algorithm nccl,two_step";
    char settings[80];
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        snprintf(settings, sizeof settings, "SOFT_NCCL_FAIL=%s", calls[i]);
        json *root = rows_of(gpu, settings, flags);
        assert_int_equal(count_nccl(root), 0);
        assert_int_equal(json_count(json_get(root, "rows")), 2);
        if (!strstr(why_of(root), "unhandled system error")) fail_msg("%s: \"%s\"", settings, why_of(root));
        assert_int_equal(traced(calls[i]), 1);
        assert_int_equal(traced("left 0"), 1);
        assert_int_equal(traced("ncclCommAbort"), i < 2 ? 0 : 2);
        assert_int_equal(traced("ncclCommDestroy"), 0);
        assert_int_equal(traced("ncclGroupStart"), traced("ncclGroupEnd") + (i == 2));
        json_free(root);
    }
    json *root = rows_of(gpu, "SOFT_NCCL_FAIL=ncclCommDestroy", flags); /* after its rows are measured */
    assert_int_equal(count_nccl(root), 2);
    assert_int_equal(traced("left 0"), 1);
    json_free(root);
}

int main(void)
{
#ifdef HAVE_CUDA
    char folder[1024];
    buf errors = {0};
    gpu_folder(folder);
    if (!realpath(folder, gpu)) return fprintf(stderr, "there is no %s\n", folder), 1;
    snprintf(work, sizeof work, "%s", temp_path("nccl"));
    snprintf(none, sizeof none, "%s/none", work);
    if (mkdir(work, 0700)) return perror(work), 1;
    assert_int_equal(
        command_shell(work, "mkdir none && cp $(dirname $P)/gpu/libcuda.so.1 none && echo no > none/libnccl.so.2",
                      &errors),
        0);
    buf_free(&errors);
    const struct CMUnitTest tests[] = {cmocka_unit_test(its_rows_are_sums), cmocka_unit_test(calls_are_of_a_group),
                                       cmocka_unit_test(it_may_be_missing), cmocka_unit_test(wrong_flags_are_refused),
                                       cmocka_unit_test(each_call_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    (void)its_rows_are_sums, (void)calls_are_of_a_group, (void)it_may_be_missing, (void)wrong_flags_are_refused,
        (void)each_call_may_fail;
    skip_msg("this build has no CUDA backend");
    return 0;
#endif
}
