/* t_gpu_forms.c - the software GPU answers as a card does, instruction by instruction.
 *
 * tests/vectors/gpu_forms.txt has a hash of what an H200 (driver 580.159, which compiled the PTX) gave for each form of
 * gpu_forms.h and gpu_forms90.h; any NaN stands for any other. */
#include "gpu_rig.h"
#include "gpu_forms90.h"

enum { ROOM = 64 << 10 };
static char said[ROOM];
static const char *expected;
static int n_judged, n_wrong;

static uint64_t words[FORM_THREADS * FORM_WORDS], results[FORM_THREADS * FORM_RESULTS];

/* What was expected of a form, or 0. */
static uint64_t expected_hash(const char *name)
{
    char key[128];
    snprintf(key, sizeof key, "\n%s ", name);
    const char *at = strstr(expected, key);
    return at ? strtoull(at + strlen(key), NULL, 16) : 0;
}

static int run_form(const form *f, CUdeviceptr in, CUdeviceptr out)
{
    CUmodule m;
    CUfunction fn;
    WANT(!gpu.cuModuleLoadData(&m, f->text) && !gpu.cuModuleGetFunction(&fn, m, "form"));
    WANT(!gpu.launch(fn, FORM_THREADS / (unsigned)f->block, 1, 1, (unsigned)f->block, 1, 1, 0, NULL, PARAMS(&in, &out),
                     NULL));
    WANT(!gpu.cuMemcpyDtoH_v2(results, out, sizeof results) && !gpu.cuModuleUnload(m));
    return 0;
}

static void judge(const form *f, void *user)
{
    const CUdeviceptr *memory = user;
    const int bad = run_form(f, memory[0], memory[1]);
    const uint64_t want = expected_hash(f->name), got = bad ? 0 : form_hash(f, results);
    n_judged++;
    if (!bad && want == got) return;
    n_wrong++;
    fprintf(stderr, "%s: expected %016llx, got %016llx (line %d)\n", f->name, (unsigned long long)want,
            (unsigned long long)got, bad);
}

static int judge_all(void (*forms)(form_fn *, void *))
{
    CUdeviceptr memory[2];
    expected = gpu_text("tests/vectors/gpu_forms.txt");
    WANT(expected);
    form_operands(words);
    WANT(!gpu.cuMemAlloc_v2(&memory[0], sizeof words) && !gpu.cuMemAlloc_v2(&memory[1], sizeof results));
    WANT(!gpu.cuMemcpyHtoD_v2(memory[0], words, sizeof words));
    forms(judge, memory);
    fprintf(stderr, "%d forms, %d wrong\n", n_judged, n_wrong);
    return n_wrong;
}

static int ampere_case(void) { return judge_all(forms_of_ampere); }
static int hopper_case(void) { return judge_all(forms_of_hopper); }

static void every_form_has_the_bits_of_a_card(void **state)
{
    (void)state;
    gpu_case(ampere_case, "", said, ROOM);
    assert_string_equal(said, "443 forms, 0 wrong\n");
    gpu_case(hopper_case, "SOFT_GPU_CAPABILITY=9.0", said, ROOM);
    assert_string_equal(said, "96 forms, 0 wrong\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_form_has_the_bits_of_a_card)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
