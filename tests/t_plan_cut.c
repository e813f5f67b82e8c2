/* t_plan_cut.c - programs of ranks (plan/cut.h): every op has a rule, ranks together hold each weight once, a row of
 * experts or heads is cut where it may be, and what two ranks share is what the rules say. The bits are the matter of
 * t_plan_devices. */
#include "plan/cut.h"
#include "random_model.h"
#include "test.h"

static const model_shape shapes[] = {
    {.layers = 2,
     .dim = 128,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 16,
     .ffn = 192,
     .vocab = 96,
     .ctx = 64,
     .rope_dims = 16,
     .gated = true,
     .type = DTYPE_F32},
    {.layers = 2,
     .dim = 96,
     .heads = 6,
     .kv_heads = 2,
     .head_dim = 16,
     .ffn = 100,
     .vocab = 77,
     .ctx = 64,
     .rope_dims = 16,
     .gated = true,
     .type = DTYPE_F32},
    {.layers = 3,
     .dim = 64,
     .heads = 4,
     .kv_heads = 1,
     .head_dim = 16,
     .ffn = 64,
     .vocab = 64,
     .ctx = 64,
     .rope_dims = 16,
     .taps = 3,
     .type = DTYPE_F32},
#define RECURS(kind)                                                                                                   \
    {                                                                                                                  \
        .layers = 2, .dim = 64, .heads = 8, .kv_heads = 4, .head_dim = 12, .ffn = 64, .vocab = 64, .ctx = 64,          \
        .recur = kind, .type = DTYPE_F32                                                                               \
    }
    RECURS(RECURS_GROUPED),
    RECURS(RECURS_TILED),
    RECURS(RECURS_ONE_KEY),
    RECURS(RECURS_BY_ROWS),
    RECURS(RECURS_BY_COLUMNS),
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static cut *cut_of(const cut_shape *s)
{
    err e = {0};
    cut *c;
    assert_ok(cut_open(&c, s, NULL, &e), &e);
    return c;
}

/* Whether an op reads this weight tensor. */
static bool is_read(const program *p, ref t)
{
    for (uint32_t i = 0; i < p->n_op; i++)
        for (int k = 0; k < 4; k++)
            if (p->ops[i].in[k] == t) return true;
    return false;
}

/* How often ranks hold element `row` of matrix w of the whole. */
static int holders(const cut *c, int ranks, const weight *w, int64_t row)
{
    int sum = 0;
    for (int r = 0; r < ranks; r++) {
        const program *p = cut_program(c, r);
        bool held = false;
        for (ref t = 1; t < p->n_tensor; t++) {
            const tensor *k = &p->tensors[t];
            const weight *own = k->kind == TENSOR_WEIGHT ? &p->weights[k->weight] : NULL;
            if (!own || own->pieces != w->pieces || !is_read(p, t)) continue;
            for (int64_t n = 0; n < own->rows; n++) held = held || weight_whole_row(own, n) == row;
        }
        sum += held;
    }
    return sum;
}

static void every_row_is_held(void **unused)
{
    (void)unused;
    static const double shares[][4] = {{1, 1}, {3, 1}, {1, 1, 1}, {1, 2, 3, 1}};
    static const int ranks[] = {2, 2, 3, 4};
    for (int i = 0; i < SHAPES; i++)
        for (int k = 0; k < 4; k++) {
            program *p = random_model(&shapes[i], 1);
            const cut_shape s = {.p = p, .op1 = p->n_op, .ranks = ranks[k], .share = shares[k]};
            cut *c = cut_of(&s);
            for (uint32_t w = 0; w < p->n_weight; w++) {
                const weight *of = &p->weights[w];
                const bool keys = of->rows == shapes[i].kv_heads * shapes[i].head_dim;
                for (int64_t row = 0; row < of->rows && !of->vector; row++) {
                    const int n = holders(c, s.ranks, of, row);
                    if (of->rows == shapes[i].taps) assert_int_equal(n, s.ranks); /* cut by columns */
                    else if (n < 1 || (n > 1 && !keys))
                        fail_msg("shape %d, %d ranks: row %d of %s is held %d times", i, s.ranks, (int)row, of->name,
                                 n);
                }
            }
            cut_close(c);
            program_free(p);
        }
}

/* All ranks have the same collectives in the same order. */
static void ranks_agree(void **unused)
{
    (void)unused;
    static const double even[] = {1, 1, 1, 1, 1, 1, 1};
    for (int i = 0; i < 2 * SHAPES; i++) {
        program *p = random_model(&shapes[i / 2], 2);
        const cut_shape s = {.p = p, .op1 = p->n_op, .ranks = 7, .share = even, .reduces = i % 2};
        cut *c = cut_of(&s);
        const cut_coll *list;
        const uint32_t n = cut_colls(c, &list);
        assert_true(n > 0);
        for (int r = 0; r < s.ranks; r++) {
            const program *own = cut_program(c, r);
            uint32_t k = 0;
            for (uint32_t j = 0; j < own->n_op; j++) {
                if (own->ops[j].kind != OP_COLL) continue;
                assert_int_equal(own->ops[j].u.coll.how, list[k].how);
                if (!list[k].goes_on) assert_int_equal(own->ops[j].out, list[k].t);
                k++;
            }
            assert_int_equal(k, n);
        }
        cut_close(c);
        program_free(p);
    }
}

/* Of a recurrence each rank has some value heads and their part of the slot, and no rank has one of another's. */
static void recurrences_are_divided(void **unused)
{
    (void)unused;
    static const double shares[] = {1, 3};
    for (int i = 3; i < SHAPES; i++) {
        program *p = random_model(&shapes[i], 4);
        const cut_shape s = {.p = p, .op1 = p->n_op, .ranks = 2, .share = shares};
        cut *c = cut_of(&s);
        int heads[2] = {0}, all = 0;
        int64_t floats[3] = {0};
        for (uint32_t k = 0; k < p->n_op; k++)
            if (p->ops[k].kind == OP_RECUR) {
                all = p->ops[k].u.recur.heads;
                floats[2] = p->states[p->ops[k].state].slot_floats;
            }
        for (int r = 0; r < 2; r++) {
            const program *own = cut_program(c, r);
            for (uint32_t k = 0; k < own->n_op; k++) {
                if (own->ops[k].kind != OP_RECUR) continue;
                heads[r] = own->ops[k].u.recur.heads;
                floats[r] = own->states[own->ops[k].state].slot_floats;
                assert_int_equal(own->ops[k].u.recur.head0, i == 4 ? r * heads[0] : 0);
            }
        }
        assert_true(heads[0] > 0 && heads[1] > heads[0] && heads[0] + heads[1] == all);
        assert_true(floats[0] * all == floats[2] * heads[0] && floats[0] + floats[1] == floats[2]);
        cut_close(c);
        program_free(p);
    }
}

/* In a group that reduces there are two sums a layer, one where branches are parallel; biases change nothing. */
static void branches_are_reduced_once(void **unused)
{
    (void)unused;
    static const double even[] = {1, 1, 1};
    for (int i = 0; i < 4; i++) {
        model_shape of = shapes[0];
        of.parallel = i % 2;
        of.biases = i / 2;
        program *p = random_model(&of, 3);
        const cut_shape s = {.p = p, .op1 = p->n_op, .ranks = 3, .share = even, .reduces = true};
        cut *c = cut_of(&s);
        const cut_coll *list;
        int sums = 0;
        for (uint32_t k = 0, n = cut_colls(c, &list); k < n; k++) sums += list[k].how == COLL_REDUCE;
        assert_int_equal(sums, i % 2 ? 2 : 4);
        cut_close(c);
        program_free(p);
    }
}

static void short_of_memory(void **unused)
{
    (void)unused;
    static const double even[] = {1, 1, 1};
    program *p = random_model(&shapes[2], 1);
    const cut_shape s = {.p = p, .op1 = p->n_op, .ranks = 3, .share = even, .reduces = true};
    int n = 1;
    for (bool fired = true; fired; n++) {
        err e = {0};
        cut *c;
        mem_fail_at(n);
        int rc = cut_open(&c, &s, NULL, &e);
        fired = mem_fail_at(0);
        assert_int_equal(rc, fired ? ERR_MEMORY : OK);
        cut_close(c);
    }
    assert_true(n > 10);
    program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row_is_held), cmocka_unit_test(ranks_agree),
                                       cmocka_unit_test(branches_are_reduced_once),
                                       cmocka_unit_test(recurrences_are_divided), cmocka_unit_test(short_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
