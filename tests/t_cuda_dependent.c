/* t_cuda_dependent.c - kernels that begin while the one before runs (cuda/dependent.cuh), on a software GPU of
 * capability 9.0 that finds races: logits are the CPU's while many kernels begin early; a kernel of each sort that does
 * not wait is found. Older devices have none. */
#include "command.h"
#include "cuda_rig.h"

#include <sys/stat.h>

static char gpu[4096], work[256];

/* The hash of logits of `bench` over some tokens; *early: kernels that began before the last one had ended, of `of`. */
static int bench(const char *settings, const char *model, char hash[17], long long *early, long long *of, buf *said)
{
    char line[9000], path[512];
    buf counts = {0}, result = {0};
    said->n = 0;
    snprintf(line, sizeof line,
             "LD_LIBRARY_PATH=%s SOFT_GPU_COUNT=counts %s $P bench %s -p 4 -n 3 --batch 2 --reps 1 --json > result",
             gpu, settings, model);
    const int rc = command_shell(work, line, said);
    snprintf(path, sizeof path, "%s/counts", work);
    if (early && file_read(&counts, path, 1 << 16, NULL) == OK) {
        sscanf(strstr(buf_cstr(&counts), "\"early\": "), "\"early\": %lld", early);
        sscanf(strstr(buf_cstr(&counts), "\"kernels\": "), "\"kernels\": %lld", of);
    }
    snprintf(path, sizeof path, "%s/result", work);
    const char *at = file_read(&result, path, 1 << 20, NULL) ? NULL : strstr(buf_cstr(&result), "\"logits_hash\":\"");
    snprintf(hash, 17, "%s", at ? at + 15 : "");
    buf_free(&counts);
    buf_free(&result);
    return rc;
}

enum { DENSE, FLOATS, EXPERTS, SLOTS, HYBRID, MODELS };
static const char *const models[MODELS] = {[DENSE] = "-m $V/models/llama --weights q4_b64",
                                           [FLOATS] = "-m $V/models/llama --weights f16 --kv f32",
                                           [EXPERTS] = "-m $V/models/mixtral --weights q8_0",
                                           [SLOTS] = "-m $V/models/qwen3.5 --weights q4_b64",
                                           [HYBRID] = "-m $V/models/granite-hybrid"};

static void kernels_begin_early(void **unused)
{
    (void)unused;
    buf said = {0};
    for (int i = 0; i < MODELS; i++) {
        char shell[400], want[17], got[17];
        long long early = -1, of = -1;
        snprintf(shell, sizeof shell, "%s --devices cpu", models[i]);
        if (bench("", shell, want, NULL, NULL, &said)) fail_msg("%s: %s", shell, buf_cstr(&said));
        snprintf(shell, sizeof shell, "%s --devices cuda:0", models[i]);
        if (bench("SOFT_GPU_CAPABILITY=9.0", shell, got, &early, &of, &said))
            fail_msg("%s: %s", shell, buf_cstr(&said));
        assert_string_equal(got, want);
        if (early < of / 4) fail_msg("%s: %lld kernels of %lld begin early", models[i], early, of);
        if (bench("SOFT_GPU_CAPABILITY=8.0", shell, got, &early, &of, &said))
            fail_msg("%s: %s", shell, buf_cstr(&said));
        assert_string_equal(got, want);
        assert_int_equal(early, 0);
    }
    buf_free(&said);
}

/* The lines at which a kernel waits, as the driver is given them. */
static int waits_of(FILE *f, const char *kernel, int line[8])
{
    char *text = NULL;
    size_t room = 0;
    int n = 0;
    bool inside = false;
    rewind(f);
    for (int at = 1; getline(&text, &room, f) > 0; at++) {
        if (strstr(text, ".entry ") || strstr(text, ".func ")) inside = strstr(text, kernel) != NULL;
        if (inside && n < 8 && strstr(text, "// griddepcontrol.wait;")) line[n++] = at;
    }
    free(text);
    return n;
}

/* Whether the driver finds fault with a run in which this wait is left out; else it is right. */
static bool is_found(int line, const char *model, const char *want)
{
    char path[512], shell[400], got[17];
    buf said = {0};
    snprintf(path, sizeof path, "%s/fault", work);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%d\n\t   griddepcontrol.wait;\n\n", line);
    fclose(f);
    snprintf(shell, sizeof shell, "%s --devices cuda:0", model);
    bench("SOFT_GPU_CAPABILITY=9.0 SOFT_GPU_PLANT=fault", shell, got, NULL, NULL, &said);
    if (!strstr(buf_cstr(&said), "planted in line"))
        fail_msg("nothing was planted in line %d: %s", line, buf_cstr(&said));
    const bool found = strstr(buf_cstr(&said), "a race: it ") || strstr(buf_cstr(&said), "ends and has not waited");
    if (!found) assert_string_equal(got, want);
    buf_free(&said);
    return found;
}

/* Of a kernel with several waits, for rows that there are and for others, each model comes to one. */
static void kernels_that_do_not_wait_are_found(void **unused)
{
    (void)unused;
    static const struct {
        const char *kernel;
        int model;
    } rows[] = {{"cuda_qdecode_4_B64_BASE_8(", DENSE},
                {"cuda_rows(", DENSE},
                {"cuda_heads(", DENSE},
                {"cuda_attn_few_i16(", DENSE},
                {"cuda_attn_f32(", FLOATS},
                {"cuda_fmat_f16_8(", FLOATS},
                {"cuda_route(", EXPERTS},
                {"cuda_conv(", SLOTS}};
    char folder[1024], path[1100], shell[400], want[MODELS][17];
    buf said = {0};
    gpu_folder(folder);
    snprintf(path, sizeof path, "%s/../gen/fast.compute_80.ptx", folder);
    FILE *ptx = fopen(path, "r");
    assert_non_null(ptx);
    for (int i = 0; i < MODELS; i++) {
        snprintf(shell, sizeof shell, "%s --devices cpu", models[i]);
        if (bench("", shell, want[i], NULL, NULL, &said)) fail_msg("%s: %s", shell, buf_cstr(&said));
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int line[8], found = 0;
        const int n = waits_of(ptx, rows[i].kernel, line);
        for (int k = 0; k < n; k++) found += is_found(line[k], models[rows[i].model], want[rows[i].model]);
        if (!found) fail_msg("%s of %d waits none is missed where it is left out", rows[i].kernel, n);
    }
    fclose(ptx);
    buf_free(&said);
}

static int make_folder(void **unused)
{
    (void)unused;
    char folder[1024];
    gpu_folder(folder);
    snprintf(work, sizeof work, "%s", temp_path("dependent"));
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_begin_early),
        cmocka_unit_test(kernels_that_do_not_wait_are_found),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
