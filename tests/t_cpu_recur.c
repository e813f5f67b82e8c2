/* t_cpu_recur.c - RECUR: every instruction set against the reference, bit for bit, slots included; the reference
 * against double precision, written as papers do, for five recurrences; a sequence in any chunks, and with
 * guesses that fail, gives the same rows and the same slot. */
#include "recur_rig.h"

#include "base/rng.h"

static const float *row_of(rig *g, ref t, int row) { return rig_at(g, t) + row * tensor_count(&g->t[t]); }

/* One column of one sequence in double precision: its outputs, and the state that is left. was: NULL, it begins. */
static void recur_double(rig *g, const recur_case *c, const op *o, int seq, int col, const float *was, double *y,
                         double *kept)
{
    const int head = col / c->width, per = c->heads / c->key_heads;
    const int key = c->tiled ? (head + c->head0) % c->key_heads : head / per;
    const float *rate = g->t[o->in[3]].data + head * c->rate;
    for (int r = 0; r < c->rows; r++)
        kept[r] = was ? was[recur_place((int64_t)c->heads * c->width, c->rows, r, col)] : 0;
    for (int i = 0; i < c->seq_rows[seq]; i++) {
        const int row = g->seq_row[seq] + i;
        const float *q = row_of(g, o->in[1], row) + key * 2 * c->rows, *k = q + c->rows;
        const float *by = o->in[2] ? row_of(g, o->in[2], row) + head * of_head(c) : NULL;
        double v = row_of(g, o->in[0], row)[col], seen = 0, sum = 0;
        for (int r = 0; r < c->rows; r++) {
            const double times = c->step ? by[c->step > 1 ? r : 0] : 1;
            kept[r] *= exp(times * rate[c->rate > 1 ? r : 0]);
            seen += kept[r] * k[r];
        }
        if (c->delta) v -= seen;
        v *= c->strength == RECUR_OWN ? by[c->step] : c->strength == RECUR_STEP ? by[0] : 1;
        for (int r = 0; r < c->rows; r++) {
            kept[r] += k[r] * v;
            sum += kept[r] * q[r];
        }
        y[i] = sum;
    }
}

static void equals_double(rig *g, const recur_case *c, const op *o)
{
    const int dim = c->heads * c->width;
    double *y = mem_array(RIG_ROWS, sizeof *y), *kept = mem_array((size_t)c->rows, sizeof *kept);
    assert_true(y && kept);
    for (int s = 0; s < c->n_seq; s++)
        for (int col = 0; col < dim; col++) {
            const bool begins = g->seq_len[s] == c->seq_rows[s];
            recur_double(g, c, o, s, col, begins ? NULL : slot_at(g->slots, g->slot_read[s]), y, kept);
            for (int i = 0; i < c->seq_rows[s]; i++) {
                const float got = row_of(g, o->out, g->seq_row[s] + i)[col];
                if (!(fabs(got - y[i]) <= 2e-5 * (1 + fabs(y[i]))))
                    fail_msg("%s: sequence %d, row %d, column %d: %g, not %g", c->what, s, i, col, (double)got, y[i]);
            }
            for (int r = 0; r < c->rows; r++) {
                const float got = slot_at(g->slots, g->slot_write[s])[recur_place(dim, c->rows, r, col)];
                if (!(fabs(got - kept[r]) <= 2e-5 * (1 + fabs(kept[r]))))
                    fail_msg("%s: slot of sequence %d, row %d, column %d: %g, not %g", c->what, s, r, col, (double)got,
                             kept[r]);
            }
        }
    mem_free(y);
    mem_free(kept);
}

static void equals_the_reference(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const recur_case *c = &cases[i];
        rig g;
        rig_open(&g, 1 << 20);
        rig_sequences(&g, c->n_seq, c->seq_rows, c->last);
        rig_slots(&g, floats_of(c), row_floats(c), 8);
        op o = recur_op(&g, c);
        rig_same(&g, &o, c->what);
        rig_run(&g, cpu_kernels_named("c"), 1, &o); /* a second time: nothing that it reads has changed */
        equals_double(&g, c, &o);
        rig_close(&g);
    }
}

/* A sequence of LENGTH rows in chunks, the slots of noise at first and alternating: its rows, then the last slot. */
enum { LENGTH = 23, RESULT = LENGTH * 400 + 40000 };

static void in_chunks(const recur_case *c, int chunk, float result[RESULT])
{
    rig g;
    const int dim = c->heads * c->width;
    int n = LENGTH;
    float *from[3];
    rig_seed = 7;
    rig_open(&g, 400000);
    rig_sequences(&g, 1, &n, (int[]){LENGTH - 1});
    rig_slots(&g, floats_of(c), row_floats(c), 2);
    op o = recur_op(&g, c);
    assert_true(LENGTH * dim + floats_of(c) <= RESULT);
    for (int k = 0; k < 3; k++) {
        const size_t floats = (size_t)LENGTH * (size_t)tensor_count(&g.t[o.in[k]]);
        from[k] = mem_array(floats + 1, sizeof *from[k]);
        assert_non_null(from[k]);
        if (o.in[k]) memcpy(from[k], rig_at(&g, o.in[k]), floats * sizeof *from[k]);
    }
    for (int at = 0; at < LENGTH; at += n) {
        n = LENGTH - at < chunk ? LENGTH - at : chunk;
        rig_sequences(&g, 1, &n, (int[]){at + n - 1});
        for (int k = 0; k < 3; k++) {
            const int64_t width = tensor_count(&g.t[o.in[k]]);
            if (o.in[k]) memcpy(rig_at(&g, o.in[k]), from[k] + at * width, (size_t)(n * width) * sizeof *from[k]);
        }
        rig_run(&g, cpu_kernels(cpu_features(), false), 2, &o);
        memcpy(result + at * dim, rig_at(&g, o.out), (size_t)(n * dim) * sizeof *result);
        rig_turn_slots(&g);
    }
    memcpy(result + LENGTH * dim, slot_at(g.slots, g.slot_read[0]), (size_t)floats_of(c) * sizeof *result);
    for (int k = 0; k < 3; k++) mem_free(from[k]);
    rig_close(&g);
}

/* The same sequence with guesses. Rows of a step: one that is sure, `hold` guesses that hold, and noise; the next step
 * says how many hold. Or one row a step, as a model reads its own guesses. */
static void with_guesses(const recur_case *c, uint64_t seed, bool one_by_one, float result[RESULT])
{
    rig g;
    const int dim = c->heads * c->width;
    int32_t taken = 0, apart, n = LENGTH;
    float *from[3];
    rig_seed = 7;
    rig_open(&g, 400000);
    rig_sequences(&g, 1, &n, (int[]){LENGTH - 1});
    rig_slots(&g, floats_of(c), row_floats(c), 2);
    op o = recur_op(&g, c);
    for (int k = 0; k < 3; k++) {
        const size_t floats = (size_t)LENGTH * (size_t)tensor_count(&g.t[o.in[k]]);
        from[k] = mem_array(floats + 1, sizeof *from[k]);
        assert_non_null(from[k]);
        if (o.in[k]) memcpy(from[k], rig_at(&g, o.in[k]), floats * sizeof *from[k]);
    }
    g.st.slot_taken = &taken;
    g.st.slot_apart = &apart;
    for (int at = 0, turn = 0, hold; at < LENGTH; at += 1 + hold, turn++) {
        const int left = LENGTH - at, room = left - 2 < SLOT_ROWS_MAX / 2 ? left - 2 : SLOT_ROWS_MAX / 2;
        const int wrong = left > 1 ? (int)(rng_bits(seed, 2, (uint64_t)turn) % (SLOT_ROWS_MAX / 2)) : 0;
        hold = left > 1 ? (int)(rng_bits(seed, 1, (uint64_t)turn) % ((uint64_t)room + 1)) : 0;
        for (int done = 0; done < 1 + hold + wrong; done += n) {
            n = one_by_one ? 1 : 1 + hold + wrong;
            rig_sequences(&g, 1, &n, (int[]){at + done + n - 1});
            for (int k = 0; k < 3; k++) {
                const int64_t width = tensor_count(&g.t[o.in[k]]);
                for (int64_t i = 0; o.in[k] && i < n * width; i++) {
                    const int64_t row = done + i / width;
                    rig_at(&g, o.in[k])[i] = row <= hold ? from[k][(at + row) * width + i % width] : rig_normal();
                }
            }
            apart = done + n - 1;
            rig_run(&g, seed % 3 ? cpu_kernels(cpu_features(), false) : cpu_kernels_named("c"), 2, &o);
            const int good = done + n <= hold + 1 ? n : hold + 1 - done;
            if (good > 0) memcpy(result + (at + done) * dim, rig_at(&g, o.out), (size_t)(good * dim) * sizeof *result);
            rig_turn_slots(&g);
            taken = apart;
        }
        taken = hold;
    }
    memcpy(result + LENGTH * dim, slot_at(g.slots, g.slot_read[0]), (size_t)floats_of(c) * sizeof *result);
    for (int k = 0; k < 3; k++) mem_free(from[k]);
    rig_close(&g);
}

static void chunks_and_guesses_change_nothing(void **unused)
{
    (void)unused;
    static const recur_case chunked[] = {
        {"gated delta", 64, 4, 64, 2, 1, 1, RECUR_OWN, true, TEXT},
        {"KDA", 32, 3, 48, 3, 32, 1, RECUR_OWN, true, TEXT},
        {"lightning", 64, 3, 64, 3, 0, 1, RECUR_ONE, false, TEXT},
        {"Mamba 2", 128, 4, 64, 1, 1, 1, RECUR_STEP, false, TEXT},
        {"Mamba 1", 16, 100, 1, 1, 1, 16, RECUR_STEP, false, TEXT},
        {"odd widths", 11, 6, 13, 3, 1, 1, RECUR_OWN, true, TEXT},
    };
    static float want[RESULT], got[RESULT];
    for (size_t i = 0; i < sizeof chunked / sizeof *chunked; i++) {
        in_chunks(&chunked[i], LENGTH, want);
        for (int chunk = 1; chunk < LENGTH; chunk++) {
            in_chunks(&chunked[i], chunk, got);
            if (memcmp(want, got, sizeof want)) fail_msg("%s: other bits in chunks of %d", chunked[i].what, chunk);
        }
        for (uint64_t seed = 0; seed < 30; seed++) {
            with_guesses(&chunked[i], seed, seed % 2, got);
            if (memcmp(want, got, sizeof want)) fail_msg("%s: other bits with guesses", chunked[i].what);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_the_reference),
                                       cmocka_unit_test(chunks_and_guesses_change_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
