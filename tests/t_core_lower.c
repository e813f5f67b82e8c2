/* t_core_lower.c - lowering to int8 (core/lower_int8.h) on programs made by hand: what is coded once, what twice, what
 * stays as it is. */
#include "core/lower_int8.h"
#include "random_model.h"
#include "tensor/act_q8.h"

static bool takes_packed(dtype type) { return panel_format_of(type) != NULL; }

static bool takes_none(dtype type) { return (void)type, false; }

typedef struct made {
    program *p;
    model_shape m;
    model_builder b;
} made;

/* An empty program whose matrices have this type. */
static void begin(made *x, dtype type)
{
    err e = {0};
    test_random_state = 1;
    x->m = (model_shape){.type = type};
    x->p = program_new(&e);
    x->b = (model_builder){.p = x->p, .m = &x->m, .layer = 0};
    assert_non_null(x->p);
}

/* A row of `dim` floats that an op before the slice has made. */
static ref input(made *x, int64_t dim) { return test_act(&x->b, AXIS_TOK, dim); }

static ref product(made *x, ref in, int64_t cols, int64_t rows)
{
    return test_op(&x->b, (op){.kind = OP_MATMUL, .in = {in, test_weight(&x->b, "w", rows, cols, false, 0, 1)}},
                   AXIS_TOK, rows);
}

static program *lower(made *x, bool (*takes)(dtype type))
{
    err e = {0};
    program *to = lower_int8(x->p, 0, x->p->n_op, takes, &e);
    assert_ok(e.code, &e);
    assert_non_null(to);
    return to;
}

static int count(const program *p, int kind)
{
    int n = 0;
    for (uint32_t i = 0; i < p->n_op; i++) n += p->ops[i].kind == kind;
    return n;
}

static void end(made *x, program *lowered)
{
    for (uint32_t i = 0; i < x->p->n_weight; i++) assert_false(x->p->weights[i].packed); /* only the slice changes */
    program_free(lowered);
    program_free(x->p);
}

/* Matrices that read the same rows share their codes; results keep the tensors of the whole program. */
static void inputs_are_shared(void **unused)
{
    (void)unused;
    made x;
    begin(&x, DTYPE_Q8_B64);
    ref in = input(&x, 320), out[3];
    for (int i = 0; i < 3; i++) out[i] = product(&x, in, 320, 32);
    program *p = lower(&x, takes_packed);
    assert_int_equal(p->n_op, 4);
    assert_int_equal(count(p, OP_QUANT), 1);
    for (int i = 0; i < 3; i++) {
        const op *o = &p->ops[1 + i];
        assert_true(o->kind == OP_MATMUL && o->in[0] == p->ops[0].out && o->out == out[i]);
        assert_true(p->weights[p->tensors[o->in[1]].weight].packed);
    }
    assert_int_equal(p->tensors[p->ops[0].out].block, panel_format_of(DTYPE_Q8_B64)->act);
    end(&x, p);
}

/* A format's codes have blocks of 32 or of 64: one QUANT for each. */
static void blocks_of_two_sizes(void **unused)
{
    (void)unused;
    made x;
    begin(&x, DTYPE_Q8_B64);
    ref in = input(&x, 320);
    product(&x, in, 320, 32);
    x.m.type = DTYPE_Q4_B64;
    product(&x, in, 320, 32);
    product(&x, in, 320, 32);
    assert_true(panel_format_of(DTYPE_Q8_B64)->act != panel_format_of(DTYPE_Q4_B64)->act);
    program *p = lower(&x, takes_packed);
    assert_int_equal(count(p, OP_QUANT), 2);
    assert_int_equal(count(p, OP_MATMUL), 3);
    end(&x, p);
}

/* Rows of at most ACT_NARROW columns: codes and their residual, once each for all readers; products are added, the bias
 * once. */
static void narrow_rows_are_coded_twice(void **unused)
{
    (void)unused;
    made x;
    begin(&x, DTYPE_Q4_B64);
    ref in = input(&x, ACT_NARROW), bias = test_weight(&x.b, "b", 32, 1, true, 0, 1);
    ref out = test_op(&x.b,
                      (op){.kind = OP_MATMUL, .in = {in, test_weight(&x.b, "w", 32, ACT_NARROW, false, 0, 1), bias}},
                      AXIS_TOK, 32);
    product(&x, in, ACT_NARROW, 64);
    program *p = lower(&x, takes_packed);
    assert_int_equal(count(p, OP_QUANT), 2);
    assert_int_equal(count(p, OP_MATMUL), 4);
    assert_int_equal(count(p, OP_ADD), 2);
    int residuals = 0, biases = 0;
    for (uint32_t i = 0; i < p->n_op; i++) {
        const op *o = &p->ops[i];
        residuals += o->kind == OP_QUANT && o->u.quant.residual;
        biases += o->kind == OP_MATMUL && o->in[2] == bias;
        if (o->out == out) assert_int_equal(o->kind, OP_ADD);
    }
    assert_int_equal(residuals, 1);
    assert_int_equal(biases, 1);
    end(&x, p);
}

/* Some columns of a row are as narrow as the row is; and no wider. */
static void parts_of_rows_are_as_narrow_as_rows(void **unused)
{
    (void)unused;
    for (int wide = 0; wide < 2; wide++) {
        made x;
        err e = {0};
        begin(&x, DTYPE_Q4_B64);
        tensor part = {.name = "t", .kind = TENSOR_ACT, .rank = 1, .axis = AXIS_TOK, .dim = {64}, .whole = 63};
        assert_int_equal(program_tensor(x.p, &part, &e), 0);
        assert_non_null(strstr(e.msg, "64 columns of 63"));
        part.whole = ACT_NARROW + wide * 64;
        ref in = program_tensor(x.p, &part, &e);
        product(&x, in, 64, 32);
        program *p = lower(&x, takes_packed);
        assert_int_equal(count(p, OP_QUANT), wide ? 1 : 2);
        end(&x, p);
    }
}

/* Float matrices, and a device that takes none: the ops of the whole program. */
static void nothing_to_lower(void **unused)
{
    (void)unused;
    static const dtype types[] = {DTYPE_Q8_B64, DTYPE_Q8_B64, DTYPE_F16};
    for (int i = 0; i < 3; i++) {
        made x;
        begin(&x, types[i]);
        product(&x, product(&x, input(&x, 320), 320, 64), 64, 32);
        program *p = lower(&x, i == 0 ? NULL : i == 1 ? takes_none : takes_packed);
        assert_int_equal(p->n_op, x.p->n_op);
        for (uint32_t k = 0; k < p->n_op; k++) assert_memory_equal(&p->ops[k], &x.p->ops[k], sizeof(op));
        for (uint32_t k = 0; k < p->n_weight; k++) assert_false(p->weights[k].packed);
        end(&x, p);
    }
}

/* Rows of experts are coded in the order of their dispatch. A stack whose parts are not whole panels stays floats, and
 * so does a window of it. */
static void experts(void **unused)
{
    (void)unused;
    for (int i = 0; i < 4; i++) {
        enum { EXPERTS = 4, DIM = 320 };
        const int whole = i % 2, cut = i / 2, all = whole ? 32 : 24, n = cut ? 16 : all;
        made x;
        begin(&x, DTYPE_Q4_B64);
        ref in = input(&x, DIM), scores = input(&x, EXPERTS);
        ref route = test_op(&x.b, (op){.kind = OP_ROUTE, .in = {scores}, .u.route = {.used = 2}}, AXIS_TOK, 4);
        ref sorted = test_op(&x.b, (op){.kind = OP_DISPATCH, .in = {route}, .u.dispatch = {EXPERTS, 2}}, AXIS_EXP,
                             DISPATCH_COLS);
        ref sent = test_op(&x.b, (op){.kind = OP_GATHER, .in = {in, sorted}}, AXIS_EXP, DIM);
        ref stack = test_weight(&x.b, "stack", EXPERTS * all, DIM, false, 0, 1);
        weight *w = &x.p->weights[x.p->tensors[stack].weight], uncut = *w;
        w->parts = uncut.parts = EXPERTS;
        if (cut) {
            err e = {0};
            *w = (weight){.rows = EXPERTS * n, .row0 = all - n, .run = n, .stride = all, .parts = EXPERTS};
            assert_ok(weight_window(w, &uncut, &e), &e);
            x.p->tensors[stack].dim[0] = w->rows;
        }
        test_op(&x.b, (op){.kind = OP_MATMUL_EXP, .in = {sent, stack, 0, sorted}}, AXIS_EXP, n);
        program *p = lower(&x, takes_packed);
        assert_int_equal(count(p, OP_QUANT), whole);
        const op *last = &p->ops[p->n_op - 1], *coded = &p->ops[p->n_op - 2];
        assert_int_equal(last->kind, OP_MATMUL_EXP);
        assert_int_equal(p->weights[p->tensors[stack].weight].packed, whole);
        if (whole) assert_true(coded->kind == OP_QUANT && coded->in[0] == sent && coded->in[1] == sorted);
        end(&x, p);
    }
}

/* Heads of 64 columns are tiles of the row's codes; heads of 32 are not. */
static void heads(void **unused)
{
    (void)unused;
    for (int whole = 0; whole < 2; whole++) {
        enum { HEADS = 8 };
        const int width = whole ? 64 : 32;
        made x;
        begin(&x, DTYPE_Q8_B64);
        if (!whole) x.m.type = DTYPE_Q8_0;
        ref in = input(&x, HEADS * width), stack = test_weight(&x.b, "stack", HEADS * 16, width, false, 0, 1);
        x.p->weights[x.p->tensors[stack].weight].parts = HEADS;
        test_op(&x.b, (op){.kind = OP_MATMUL_HEADS, .in = {in, stack}}, AXIS_TOK, HEADS * 16);
        program *p = lower(&x, takes_packed);
        assert_int_equal(count(p, OP_QUANT) > 0, whole);
        assert_int_equal(p->weights[p->tensors[stack].weight].packed, whole);
        end(&x, p);
    }
}

/* A slice codes what it reads itself: the other slice's codes are not there. */
static void slices(void **unused)
{
    (void)unused;
    made x;
    err e = {0};
    begin(&x, DTYPE_Q8_B64);
    ref in = input(&x, 320);
    for (int i = 0; i < 2; i++) product(&x, in, 320, 32);
    for (uint32_t i = 0; i < 2; i++) {
        program *p = lower_int8(x.p, i, i + 1, takes_packed, &e);
        assert_ok(e.code, &e);
        assert_true(p->n_op == 2 && p->ops[0].kind == OP_QUANT && p->ops[1].out == x.p->ops[i].out);
        program_free(p);
    }
    end(&x, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(inputs_are_shared),
                                       cmocka_unit_test(blocks_of_two_sizes),
                                       cmocka_unit_test(narrow_rows_are_coded_twice),
                                       cmocka_unit_test(parts_of_rows_are_as_narrow_as_rows),
                                       cmocka_unit_test(nothing_to_lower),
                                       cmocka_unit_test(experts),
                                       cmocka_unit_test(heads),
                                       cmocka_unit_test(slices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
