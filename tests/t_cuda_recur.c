/* t_cuda_recur.c - RECUR on devices that are programs here (tests/gpu): rows and slots in the bits of the definition,
 * for recurrences of published models and odd shapes, with rows that are kept apart and then taken, launched and
 * replayed; and how many instructions a number of the state takes (SHARES=1 prints it). */
#include "recur_rig.h"

#ifdef HAVE_CUDA
#include "cuda_slot_rig.h"

static void equals_the_definition(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const recur_case *c = &cases[i];
        static rig g;
        rig_open(&g, 1 << 20);
        rig_sequences(&g, c->n_seq, c->seq_rows, c->last);
        rig_slots(&g, floats_of(c), row_floats(c), SLOTS);
        const op o = recur_op(&g, c);
        slot_device_check(&g, &o, c->what);
        rig_close(&g);
    }
}

/* Lane-instructions for each number of a state and token, of a prompt and of one token. Bars are what was reached. */
static void takes_few_instructions(void **unused)
{
    (void)unused;
    static const struct {
        recur_case of;
        double most;
    } rows[] = {
        {{"gated delta", 128, 1, 128, 1, 1, 1, RECUR_OWN, true, .n_seq = 1, .seq_rows = {40}, .last = {39}}, 6.8},
        {{"gated delta, one token", 128, 1, 128, 1, 1, 1, RECUR_OWN, true, .n_seq = 1, .seq_rows = {1}, .last = {39}},
         12.9},
        {{"KDA", 128, 1, 128, 1, 128, 1, RECUR_OWN, true, .n_seq = 1, .seq_rows = {40}, .last = {39}}, 8.1},
        {{"Mamba 2", 128, 2, 64, 1, 1, 1, RECUR_STEP, false, .n_seq = 1, .seq_rows = {40}, .last = {39}}, 5.8},
        {{"Mamba 1", 16, 128, 1, 1, 1, 16, RECUR_STEP, false, .n_seq = 1, .seq_rows = {40}, .last = {39}}, 58},
    };
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const uint64_t *done = lib ? dlsym(lib, "machine_warp_instructions") : NULL;
    assert_non_null(done);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const recur_case *c = &rows[i].of;
        static rig g;
        cuda_op_rig r;
        rig_open(&g, 1 << 20);
        rig_sequences(&g, c->n_seq, c->seq_rows, c->last);
        rig_slots(&g, floats_of(c), row_floats(c), SLOTS);
        const op o = recur_op(&g, c);
        slot_device_open(&r, &g, &o);
        const uint64_t before = *done;
        slot_device_compare(&r, &g, c->what, 1);
        const double each = 32 * (double)(*done - before) / ((double)floats_of(c) * c->seq_rows[0]);
        if (getenv("SHARES")) print_message("%s: %.2f\n", c->what, each);
        if (each > rows[i].most) fail_msg("%s: %.2f lane-instructions, more than %.2f", c->what, each, rows[i].most);
        cuda_op_close(&r, &g);
        rig_close(&g);
    }
}

int main(void)
{
    if (!cuda_rig_open()) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_the_definition),
                                       cmocka_unit_test(takes_few_instructions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    skip_msg("this build has no CUDA backend");
    return 0;
}
#endif
