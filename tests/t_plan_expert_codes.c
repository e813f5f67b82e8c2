/* t_plan_expert_codes.c - experts cut over the ranks of a group: rows between their two matrices are gathered as codes,
 * tiled as the dispatch sorted them, and the logits are those of one device, in bits. */
#include "fake/fake_backend.h"
#include "random_model.h"

enum { ROWS = 24, DIM = 64, FFN = 768, VOCAB = 50, EXPERTS = 5, USED = 2 };

/* One layer: x + experts(x); rows of FFN columns lie between the matrices of an expert. */
static program *experts_model(dtype type)
{
    const model_shape floats = {.type = DTYPE_F32}, packed = {.type = type};
    err e = {0};
    test_random_state = rig_seed = 4;
    model_builder b = {.p = program_new(&e), .m = &floats, .layer = -1};
    program *p = b.p;
    p->hidden = arena_array(&p->mem, 2, sizeof *p->hidden);
    p->dim = DIM;
    p->vocab = VOCAB;
    p->n_layer = 1;
    const ref table = test_weight(&b, "embed", VOCAB, DIM, false, 0, 1);
    const ref x = p->hidden[0] = test_op(&b, (op){.kind = OP_EMBED, .in = {table}}, AXIS_TOK, DIM);
    b.layer = 0;
    const ref scores = test_linear(&b, x, DIM, EXPERTS, AXIS_TOK);
    const op route = {.kind = OP_ROUTE, .in = {scores}, .u.route = {.used = USED, .factor = 1}};
    const ref picked = test_op(&b, route, AXIS_TOK, 2 * USED);
    const op dispatch = {.kind = OP_DISPATCH, .in = {picked}, .u.dispatch = {EXPERTS, USED}};
    const ref sent = test_op(&b, dispatch, AXIS_EXP, DISPATCH_COLS);
    ref y = test_op(&b, (op){.kind = OP_GATHER, .in = {x, sent}}, AXIS_EXP, DIM);
    b.m = &packed;
    const ref up = test_weight(&b, "up", EXPERTS * FFN, DIM, false, 0, 1),
              down = test_weight(&b, "down", EXPERTS * DIM, FFN, false, 0, 1);
    p->weights[p->tensors[up].weight].parts = p->weights[p->tensors[down].weight].parts = EXPERTS;
    y = test_op(&b, (op){.kind = OP_MATMUL_EXP, .in = {y, up, 0, sent}}, AXIS_EXP, FFN);
    y = test_op(&b, (op){.kind = OP_ACT, .in = {y}, .u.act = {ACT_SILU}}, AXIS_EXP, FFN);
    y = test_op(&b, (op){.kind = OP_MATMUL_EXP, .in = {y, down, 0, sent}}, AXIS_EXP, DIM);
    y = test_op(&b, (op){.kind = OP_SCATTER, .in = {y, sent, picked}}, AXIS_TOK, DIM);
    p->hidden[1] = y = test_op(&b, (op){.kind = OP_ADD, .in = {x, y}}, AXIS_TOK, DIM);
    b.layer = -1;
    b.m = &floats;
    p->entries[ENTRY_DEC].op1 = p->entries[ENTRY_HEAD].op0 = p->n_op;
    y = test_op(&b, (op){.kind = OP_TAKE_OUT, .in = {y}}, AXIS_OUT, DIM);
    p->entries[ENTRY_HEAD].out = test_linear(&b, y, DIM, VOCAB, AXIS_OUT);
    p->entries[ENTRY_HEAD].op1 = p->n_op;
    assert_ok(program_finish(p, &e), &e);
    return p;
}

static void run_rows(const program *p, plan *l, int n, float *logits)
{
    int32_t token[ROWS], pos[ROWS], seq[ROWS] = {0}, out[ROWS], len = n, row[2] = {0, n}, page = 0;
    for (int i = 0; i < n; i++) {
        token[i] = (7 * i + 3) % VOCAB;
        pos[i] = out[i] = i;
    }
    step st = {.tok = {token, seq, pos, seq, &len, row}, .out = out, .n_seq = 1, .page = &page, .page_cap = 1};
    st.n[AXIS_TOK] = st.n[AXIS_OUT] = n;
    st.n[AXIS_EXP] = n * USED;
    rig_plan_step(l, &st);
    memcpy(logits, plan_result(l, ENTRY_HEAD), (size_t)(n * p->vocab) * sizeof *logits);
}

static bool gathers_codes(const plan *l)
{
    const program *p = plan_segment(l, 0)->p;
    for (uint32_t i = 0; i < p->n_op; i++)
        if (p->ops[i].kind == OP_COLL && p->tensors[p->ops[i].out].axis == AXIS_EXP)
            return p->tensors[p->ops[i].out].block;
    return false;
}

static void experts_over_ranks(void **unused)
{
    (void)unused;
    static const char *const devices[] = {"cpu:1", "cpu:1&cpu:1", "cpu:2*3&cpu:1", "fake&cpu:1&fake"};
    static const dtype types[] = {DTYPE_Q8_0, DTYPE_Q4_B64, DTYPE_F32}; /* codes in blocks of 32, of 64, floats */
    static float want[ROWS * VOCAB], got[ROWS * VOCAB];
    const backend_use list[] = {{&cpu_backend, NULL}, {&fake_backend, NULL}, {0}};
    for (int t = 0; t < 3; t++) {
        program *p = experts_model(types[t]);
        for (int n = 1; n <= ROWS; n += n < 8 ? 1 : 8)
            for (int d = 0; d < 4; d++) {
                plan *l = rig_plan(p, (plan_case){.devices = devices[d], .backends = list, .rows = ROWS, .pages = 1});
                assert_int_equal(gathers_codes(l), d > 0 && t < 2);
                run_rows(p, l, n, d ? got : want);
                if (d && memcmp(want, got, (size_t)(n * VOCAB) * sizeof *got))
                    fail_msg("%s, %d rows on %s", dtype_info[types[t]].name, n, devices[d]);
                plan_close(l);
            }
        program_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(experts_over_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
