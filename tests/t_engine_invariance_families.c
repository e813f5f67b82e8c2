/* t_engine_invariance_families.c - the logits of a token are the same bits whatever shares its step, in every family:
 * the committed models, of which t_models_families compares the numbers. */
#include "cpu/cpu.h"
#include "models/model.h"
#include "random_model.h"

#include <dirent.h>

enum { SEQS = 16 };

/* Every family: the committed models (tests/vectors/models) on every instruction set, in some batch, chunk, number of
 * threads and cut each, a quarter of them with each kind of cache; t_models_families compares them with transformers.
 * */
static void check_family(const char *path, dtype kv)
{
    enum { SHORT = 20, RUNS = 4 };
    static const trace_options runs[RUNS] = {{.isa = "c", .threads = 2, .batch = 16, .chunk = 5},
                                             {.isa = "avx2", .threads = 1, .batch = 7, .chunk = 64},
                                             {.isa = "avx512", .threads = 2, .batch = 16, .chunk = 1},
                                             {.devices = "cpu:2;cpu:1", .batch = 2, .chunk = 7}};
    err e = {0};
    model *m;
    assert_ok(model_open(&m, &(model_options){.model_path = path}, &e), &e);
    size_t bytes = (size_t)SEQS * SHORT * (size_t)m->prog->vocab * sizeof(float);
    float *want = mem_alloc(bytes), *got = mem_alloc(bytes);
    trace_options base = {.isa = "c", .threads = 1, .batch = 1, .chunk = 64, .kv = kv};
    trace(m->prog, &base, SEQS, SHORT, want);
    for (int i = 0; i < RUNS; i++) {
        trace_options o = runs[i];
        if (o.isa && !cpu_kernels_named(o.isa)) continue;
        o.kv = kv;
        trace(m->prog, &o, SEQS, SHORT, got);
        if (memcmp(want, got, bytes))
            fail_msg("%s: other bits on %s, batch %d, chunk %d", path, o.isa ? o.isa : o.devices, o.batch, o.chunk);
    }
    mem_free(want);
    mem_free(got);
    model_close(m);
}

static void families(void **unused)
{
    (void)unused;
    static const dtype kinds[] = {DTYPE_F32, DTYPE_Q8_B64, DTYPE_Q4_B32, DTYPE_I16};
    int n = 0;
    DIR *d = opendir("tests/vectors/models");
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        char path[512];
        snprintf(path, sizeof path, "tests/vectors/models/%s/config.json", f->d_name);
        if (f->d_name[0] == '.' || access(path, R_OK)) continue;
        snprintf(path, sizeof path, "tests/vectors/models/%s", f->d_name);
        check_family(path, kinds[strlen(f->d_name) % 3]);
        n++;
    }
    closedir(d);
    assert_true(n > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(families)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
