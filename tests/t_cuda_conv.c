/* t_cuda_conv.c - CONV on devices that are programs here (tests/gpu): rows and slots in the bits of the definition,
 * with rows that are kept apart and then taken, launched and replayed. */
#include "conv_rig.h"

#ifdef HAVE_CUDA
#include "cuda_slot_rig.h"

static void equals_the_definition(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const conv_case *c = &cases[i];
        char what[80];
        static rig g;
        rig_open(&g, 700000);
        rig_sequences(&g, c->n_seq, c->rows, c->last);
        rig_slots(&g, (c->taps - 1) * c->dim, c->dim, SLOTS);
        const op o = conv_op(&g, c);
        piece taps = {.data = g.held[0].data,
                      .type = DTYPE_F32,
                      .src_rows = c->taps,
                      .src_cols = c->dim,
                      .rows = c->taps,
                      .block = c->taps,
                      .stride = c->taps,
                      .mul = 1};
        g.w[0].pieces = &taps;
        g.w[0].n_piece = 1;
        snprintf(what, sizeof what, "%d taps, %d columns", c->taps, c->dim);
        slot_device_check(&g, &o, what);
        rig_close(&g);
    }
}

int main(void)
{
    if (!cuda_rig_open()) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_the_definition)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    skip_msg("this build has no CUDA backend");
    return 0;
}
#endif
