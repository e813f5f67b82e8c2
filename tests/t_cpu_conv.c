/* t_cpu_conv.c - CONV: every instruction set against the reference, bit for bit, slots included; the reference against
 * double precision; a sequence in any chunks, and with guesses that fail, gives the same rows and the same slot. */
#include "conv_rig.h"

#include "base/rng.h"

/* What row `row` of column `col` should be; `was`: the slot that its sequence read. */
static double conv_double(const rig *g, const conv_case *c, const op *o, int row, int col, const float *was)
{
    double sum = c->bias ? g->t[o->in[2]].data[col] : 0;
    float *w = mem_array((size_t)c->dim, sizeof *w);
    assert_non_null(w);
    for (int t = 0; t < c->taps; t++) {
        int back = c->taps - 1 - t, first = g->seq_row[g->seq[row]];
        bool begins = g->pos[first] == 0; /* the slot holds noise, which is not read */
        held_row(&g->held[0], t, w);
        if (begins && row - back < first) continue;
        const float *x = row - back >= first ? rig_at((rig *)g, o->in[0]) + (row - back) * c->dim
                                             : was + (c->taps - 1 + (row - back - first)) * c->dim;
        sum += (double)w[col] * x[col];
    }
    mem_free(w);
    return sum;
}

static void equals_the_reference(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const conv_case *c = &cases[i];
        char what[80];
        rig g;
        rig_open(&g, 700000);
        rig_sequences(&g, c->n_seq, c->rows, c->last);
        rig_slots(&g, (c->taps - 1) * c->dim, c->dim, 8);
        op o = conv_op(&g, c);
        snprintf(what, sizeof what, "conv case %d", (int)i);
        rig_same(&g, &o, what);
        rig_run(&g, cpu_kernels_named("c"), 1, &o); /* a second time: nothing that it reads has changed */
        for (int row = 0; row < g.st.n[AXIS_TOK]; row++)
            for (int col = 0; col < c->dim; col++) {
                double want = conv_double(&g, c, &o, row, col, slot_at(g.slots, g.slot_read[g.seq[row]]));
                float got = rig_at(&g, o.out)[row * c->dim + col];
                if (fabs(got - want) > 3e-6 * (1 + fabs(want)))
                    fail_msg("%s: row %d, column %d: %g, not %g", what, row, col, (double)got, want);
            }
        rig_close(&g);
    }
}

/* A sequence of LENGTH rows in chunks, the slots of noise at first and alternating: its rows, then the last slot. */
enum { LENGTH = 23, DIM = 45, TAPS = 4, RESULT = (LENGTH + TAPS - 1) * DIM };

static void in_chunks(int chunk, float result[RESULT])
{
    rig g;
    const conv_case c = {.taps = TAPS, .dim = DIM, .bias = true};
    static float x[LENGTH * DIM];
    rig_seed = 7;
    rig_open(&g, 100000);
    rig_sequences(&g, 1, (int[]){LENGTH}, (int[]){LENGTH - 1});
    rig_slots(&g, (TAPS - 1) * DIM, DIM, 2);
    op o = conv_op(&g, &c);
    memcpy(x, rig_at(&g, o.in[0]), sizeof x);
    for (int from = 0; from < LENGTH; from += chunk) {
        int n = LENGTH - from < chunk ? LENGTH - from : chunk;
        rig_sequences(&g, 1, &n, (int[]){from + n - 1});
        memcpy(rig_at(&g, o.in[0]), x + from * DIM, (size_t)(n * DIM) * sizeof *x);
        rig_run(&g, cpu_kernels(cpu_features(), false), 2, &o);
        memcpy(result + from * DIM, rig_at(&g, o.out), (size_t)(n * DIM) * sizeof *result);
        rig_turn_slots(&g);
    }
    memcpy(result + LENGTH * DIM, slot_at(g.slots, g.slot_read[0]), (TAPS - 1) * DIM * sizeof *result);
    rig_close(&g);
}

static void chunks_change_nothing(void **unused)
{
    (void)unused;
    static float want[RESULT], got[RESULT];
    in_chunks(LENGTH, want);
    for (int chunk = 1; chunk < LENGTH; chunk++) {
        in_chunks(chunk, got);
        if (memcmp(want, got, sizeof want)) fail_msg("other bits in chunks of %d", chunk);
    }
}

/* The same sequence in steps with guesses: rows that are sure, then some that hold, then some that are noise; how many
 * hold the next step says. Its last row is sure. How a model that guesses reads its own guesses, one row a step: a
 * slot keeps more rows apart than the step had. */
static void with_guesses(uint64_t seed, bool one_by_one, float result[RESULT])
{
    rig g;
    const conv_case c = {.taps = TAPS, .dim = DIM, .bias = true};
    static float x[LENGTH * DIM];
    int32_t taken = 0, apart;
    rig_seed = 7;
    rig_open(&g, 100000);
    rig_sequences(&g, 1, (int[]){LENGTH}, (int[]){LENGTH - 1});
    rig_slots(&g, (TAPS - 1) * DIM, DIM, 2);
    op o = conv_op(&g, &c);
    memcpy(x, rig_at(&g, o.in[0]), sizeof x);
    g.st.slot_taken = &taken;
    g.st.slot_apart = &apart;
    for (int from = 0, k = 0; from < LENGTH; k++) {
        const int left = LENGTH - from, room = left - 2 < SLOT_ROWS_MAX / 2 ? left - 2 : SLOT_ROWS_MAX / 2;
        const int hold = left > 1 ? (int)(rng_bits(seed, 1, (uint64_t)k) % ((uint64_t)room + 1)) : 0;
        const int wrong = (int)(rng_bits(seed, 2, (uint64_t)k) % (SLOT_ROWS_MAX / 2));
        const int rows = left == 1 ? 1 : 1 + hold + wrong;
        for (int done = 0; done < rows;) {
            const int n = one_by_one ? 1 : rows - done;
            rig_sequences(&g, 1, &n, (int[]){from + done + n - 1});
            for (int i = 0; i < n; i++)
                for (int64_t j = 0; j < DIM; j++)
                    rig_at(&g, o.in[0])[i * DIM + j] = done + i <= hold ? x[(from + done + i) * DIM + j] : rig_normal();
            apart = done + n - 1;
            rig_run(&g, cpu_kernels(cpu_features(), false), 2, &o);
            const int good = done + n <= hold + 1 ? n : hold + 1 - done;
            if (good > 0)
                memcpy(result + (from + done) * DIM, rig_at(&g, o.out), (size_t)(good * DIM) * sizeof *result);
            rig_turn_slots(&g);
            taken = apart;
            done += n;
        }
        taken = hold;
        from += 1 + hold;
    }
    memcpy(result + LENGTH * DIM, slot_at(g.slots, g.slot_read[0]), (TAPS - 1) * DIM * sizeof *result);
    rig_close(&g);
}

static void guesses_change_nothing(void **unused)
{
    (void)unused;
    static float want[RESULT], got[RESULT];
    in_chunks(LENGTH, want);
    for (uint64_t seed = 0; seed < 400; seed++) {
        with_guesses(seed, seed % 2, got);
        if (memcmp(want, got, sizeof want)) fail_msg("other bits with guesses of seed %d", (int)seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_the_reference), cmocka_unit_test(chunks_change_nothing),
                                       cmocka_unit_test(guesses_change_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
