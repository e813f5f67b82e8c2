/* t_cuda_ptx.c - kernels for GPUs hold no instruction that rounds otherwise than the definitions: in the PTX that this
 * build embeds, nothing approximate, no flushing of small numbers, no product and sum that the driver may fuse, no
 * atomic sum of floats. */
#include "base/embed.h"
#include "base/mem.h"
#include "cuda/cuda_unpack.h"
#include "test.h"

#include <string.h>

static bool has(const char *line, const char *word) { return strstr(line, word) != NULL; }

/* Why an instruction may not be there; NULL: it may. `line` begins with it, after blanks and a predicate. */
static const char *fault_of(const char *line)
{
    const bool floats = has(line, ".f32") || has(line, ".f64");
    line += strspn(line, " \t");
    if (*line == '@') line += strcspn(line, " \t"), line += strspn(line, " \t");
    if (has(line, ".approx") || has(line, ".full.")) return "approximate";
    if (has(line, ".ftz")) return "flushes";
    const bool sums = !strncmp(line, "add.", 4) || !strncmp(line, "sub.", 4) || !strncmp(line, "mul.", 4) ||
                      !strncmp(line, "mad.", 4);
    if (sums && floats && !has(line, ".rn")) return "may be fused";
    if ((!strncmp(line, "atom.", 5) || !strncmp(line, "red.", 4)) && floats) return "sums floats in any order";
    return NULL;
}

static void faults_are_seen(void **unused)
{
    (void)unused;
    assert_non_null(fault_of("\tdiv.approx.f32 \t%f1, %f2, %f3;"));
    assert_non_null(fault_of("\tdiv.full.f32 \t%f1, %f2, %f3;"));
    assert_non_null(fault_of("\tfma.rn.ftz.f32 \t%f1, %f2, %f3, %f4;"));
    assert_non_null(fault_of("\tmul.f32 \t%f1, %f2, %f3;"));
    assert_non_null(fault_of("\t@%p1 add.f32 \t%f1, %f2, %f3;"));
    assert_non_null(fault_of("\tred.global.add.f32 \t[%rd1], %f3;"));
    assert_null(fault_of("\tmul.rn.f32 \t%f1, %f2, %f3;"));
    assert_null(fault_of("\tst.shared.f32 \t[%rd1], %f3;"));
    assert_null(fault_of("\tmad.lo.s32 \t%r1, %r2, %r3, %r4;"));
}

/* How many floats it computes with. */
static int check_image(const embedded_file *f)
{
    char *image;
    int floats = 0;
    assert_int_equal(cuda_unpack(span_of(f->p, f->n), &image, NULL), OK);
    const char *at = image;
    for (int number = 1; *at; number++) {
        char line[1024];
        const size_t n = strcspn(at, "\n"), kept = n < sizeof line - 1 ? n : sizeof line - 1;
        memcpy(line, at, kept);
        line[kept] = 0;
        const char *why = fault_of(line);
        if (why) fail_msg("%s:%d: %s: %s", f->name, number, why, line);
        floats += has(line, ".rn.f32");
        at += n + (at[n] == '\n');
    }
    mem_free(image);
    return floats;
}

static void no_kernel_has_one(void **unused)
{
    (void)unused;
    int images = 0, floats = 0;
    for (const embedded_file *f = embedded_files; f->name; f++)
        if (has(f->name, ".ptx")) images++, floats += check_image(f);
    assert_true(floats > 1000);
    assert_true(images >= 4); /* definitions, fast, join, prefill */
}

static void damage_is_seen(void **unused)
{
    (void)unused;
    const embedded_file *f = embedded_files;
    while (f->name && !has(f->name, ".ptx")) f++;
    assert_non_null(f->name);
    uint8_t *copy = mem_array(f->n, 1);
    const uint64_t places[] = {0, f->n / 2, f->n - 6, f->n - 3}; /* head, contents, checksum, length */
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *image = NULL;
        err e = {0};
        memcpy(copy, f->p, f->n);
        copy[places[i]] ^= 1;
        assert_int_equal(cuda_unpack(span_of(copy, f->n), &image, &e), ERR_FORMAT);
        assert_null(image);
    }
    assert_int_equal(cuda_unpack(span_of(copy, 3), &(char *){NULL}, NULL), ERR_FORMAT);
    mem_free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_seen),
#ifdef HAVE_CUDA
        cmocka_unit_test(no_kernel_has_one),
        cmocka_unit_test(damage_is_seen),
#endif
    };
#ifndef HAVE_CUDA
    (void)no_kernel_has_one;
    (void)damage_is_seen;
    skip_msg("this build has no CUDA backend");
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
