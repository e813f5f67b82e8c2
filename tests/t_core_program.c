/* t_core_program.c - building a program: shape rules, recipes of weights, cut points, single assignment, identity,
 * text. */
#include "base/mem.h"
#include "core/program.h"

#include "test.h"

#include <math.h>

/* ---- recipes: each row of a weight against a row computed by hand */

static float file[64 * 4]; /* [64, 4], element (r, c) = 100 r + c */

static piece source(int64_t rows, int64_t row0)
{
    return (piece){.data = (const uint8_t *)file,
                   .type = DTYPE_F32,
                   .src_rows = 64,
                   .src_cols = 4,
                   .rows = rows,
                   .row0 = row0,
                   .block = rows,
                   .stride = rows,
                   .mul = 1};
}

static void expect_rows(const piece *pieces, uint32_t n_piece, int64_t rows, const int *want)
{
    err e = {0};
    program *p = program_new(&e);
    assert_non_null(p);
    weight w = {.name = "w", .pieces = (piece *)pieces, .n_piece = n_piece, .rows = rows, .cols = 4};
    uint32_t i = program_weight(p, &w, &e);
    assert_ok(e.code, &e);
    for (int64_t r = 0; r < rows; r++) {
        float got[4];
        weight_decode_row(&p->weights[i], r, got);
        for (int c = 0; c < 4; c++) assert_true(got[c] == (float)(100 * want[r] + c));
    }
    program_free(p);
}

static void recipes(void **unused)
{
    (void)unused;
    for (int i = 0; i < 64 * 4; i++) file[i] = (float)(100 * (i / 4) + i % 4);
    piece plain = source(5, 7);
    expect_rows(&plain, 1, 5, (int[]){7, 8, 9, 10, 11});
    /* per head (q, k, v) of 2 rows each, 3 heads: the k of every head */
    piece per_head = source(6, 2);
    per_head.block = 2;
    per_head.stride = 6;
    expect_rows(&per_head, 1, 6, (int[]){2, 3, 8, 9, 14, 15});
    /* per group (2 q heads, k, v) of 2 rows: the queries */
    piece per_group = source(8, 0);
    per_group.block = 4;
    per_group.stride = 8;
    expect_rows(&per_group, 1, 8, (int[]){0, 1, 2, 3, 8, 9, 10, 11});
    /* neighbour order in the file, half order here: heads of 6 */
    piece pairs = source(12, 1);
    pairs.pairs = pairs.rotated = 6;
    expect_rows(&pairs, 1, 12, (int[]){1, 3, 5, 2, 4, 6, 7, 9, 11, 8, 10, 12});
    pairs.rotated = 4; /* of which four rotate */
    expect_rows(&pairs, 1, 12, (int[]){1, 3, 2, 4, 5, 6, 7, 9, 8, 10, 11, 12});
    piece stacked[2] = {source(2, 40), source(3, 0)};
    expect_rows(stacked, 2, 5, (int[]){40, 41, 0, 1, 2});
}

static void transposed_and_scaled(void **unused)
{
    (void)unused;
    err e = {0};
    for (int i = 0; i < 64 * 4; i++) file[i] = (float)i;
    program *p = program_new(&e);
    piece c = {.data = (const uint8_t *)file,
               .type = DTYPE_F32,
               .src_rows = 4,
               .src_cols = 6,
               .rows = 6,
               .block = 6,
               .stride = 6,
               .transpose = true,
               .mul = 2,
               .add = 1};
    weight w = {.name = "w", .pieces = &c, .n_piece = 1, .rows = 6, .cols = 4};
    uint32_t i = program_weight(p, &w, &e);
    assert_ok(e.code, &e);
    float row[4];
    weight_decode_row(&p->weights[i], 5, row);
    for (int k = 0; k < 4; k++) assert_true(row[k] == (float)(k * 6 + 5) * 2 + 1);
    assert_null(weight_in_file(&p->weights[i], 0, 6));
    assert_int_equal(weight_file_bytes(&p->weights[i]), 96);
    program_free(p);
}

static void plain_weights(void **unused)
{
    (void)unused;
    const uint8_t *at = (const uint8_t *)&file[4 * 4];
    piece c = source(8, 4);
    weight w = {.name = "w", .pieces = &c, .n_piece = 1, .rows = 8, .cols = 4};
    assert_ptr_equal(weight_in_file(&w, 0, 8), at);
    w.want = DTYPE_F16;
    assert_null(weight_in_file(&w, 0, 8));
    w.want = DTYPE_F32;
    assert_ptr_equal(weight_in_file(&w, 0, 8), at);
    c.add = 1;
    assert_null(weight_in_file(&w, 0, 8));
    c.add = 0;
    c.block = 4, c.stride = 8;
    assert_null(weight_in_file(&w, 0, 8));
    assert_ptr_equal(weight_in_file(&w, 4, 4), at + 8 * 4 * sizeof(float)); /* the second block, after a gap */
    assert_null(weight_in_file(&w, 3, 2));
    c.stride = 4;
    assert_ptr_equal(weight_in_file(&w, 0, 8), at);
    c.pairs = c.rotated = 4;
    assert_null(weight_in_file(&w, 0, 8));
}

static void bad_recipes(void **unused)
{
    (void)unused;
    piece good = source(8, 56), bad[] = {good, good, good, good, good, good, good, good};
    bad[0].row0 = 57; /* one row past the end */
    bad[1].src_cols = 5;
    bad[2].mul = 0;
    bad[3].pairs = bad[3].rotated = 3;
    bad[4].block = 4, bad[4].stride = INT64_MAX / 2;
    bad[5].row0 = -1;
    bad[6].rows = 7; /* a row short */
    bad[7].pairs = 4, bad[7].rotated = 6;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err e = {0};
        program *p = program_new(&e);
        weight w = {.name = "dec.0.q", .pieces = &bad[i], .n_piece = 1, .rows = 8, .cols = 4};
        assert_int_equal(program_weight(p, &w, &e), UINT32_MAX);
        assert_int_equal(e.code, ERR_SPEC);
        assert_non_null(strstr(e.msg, "dec.0.q"));
        program_free(p);
    }
    /* strides: blocks of 2 rows every 6, 10 blocks: the last needs row 55; 11 blocks would need row 61; 12 row 67 */
    for (int blocks = 10; blocks <= 12; blocks++) {
        err e = {0};
        program *p = program_new(&e);
        piece c = source(2 * blocks, 0);
        c.block = 2;
        c.stride = 6;
        weight w = {.name = "w", .pieces = &c, .n_piece = 1, .rows = c.rows, .cols = 4};
        assert_int_equal(program_weight(p, &w, &e) == 0, blocks < 12);
        program_free(p);
    }
}

/* ---- a small program: embed, then two layers  x = x + act(norm(x) W), then take_out and a head */

static float table[16 * 4];

static ref act(program *p, const char *name, int rows, int64_t dim, int layer)
{
    err e = {0};
    ref r = program_tensor(
        p,
        &(tensor){
            .name = name, .kind = TENSOR_ACT, .rank = 1, .axis = (uint8_t)rows, .layer = (int16_t)layer, .dim = {dim}},
        &e);
    assert_ok(e.code, &e);
    return r;
}

static ref matrix(program *p, const char *name, int64_t rows, int64_t cols)
{
    err e = {0};
    piece c = {.data = (const uint8_t *)table,
               .type = DTYPE_F32,
               .src_rows = rows,
               .src_cols = cols,
               .rows = rows,
               .block = rows,
               .stride = rows,
               .mul = 1};
    uint32_t w = program_weight(p, &(weight){.name = name, .pieces = &c, .n_piece = 1, .rows = rows, .cols = cols}, &e);
    assert_ok(e.code, &e);
    ref r = program_tensor(
        p, &(tensor){.name = name, .kind = TENSOR_WEIGHT, .rank = 2, .layer = -1, .dim = {rows, cols}, .weight = w},
        &e);
    assert_ok(e.code, &e);
    return r;
}

static void add(program *p, op o)
{
    err e = {0};
    o.state = o.kind == OP_ATTN || o.kind == OP_KV_PUT ? 0 : -1;
    assert_ok(program_op(p, &o, &e), &e);
}

static program *small(int layers)
{
    err e = {0};
    program *p = program_new(&e);
    ref x = act(p, "x0", AXIS_TOK, 4, -1);
    p->hidden = arena_array(&p->mem, (size_t)layers + 1, sizeof *p->hidden);
    p->dim = 4;
    p->vocab = 16;
    p->n_layer = layers;
    p->hidden[0] = x;
    assert_int_equal(program_state(p, &(state){.axis = AXIS_TOK, .heads = 1, .k_dim = 4, .v_dim = 4}, &e), 0);
    add(p, (op){.kind = OP_EMBED, .layer = -1, .out = x, .in = {matrix(p, "embed", 16, 4)}});
    for (int l = 0; l < layers; l++) {
        char name[32];
        snprintf(name, sizeof name, "dec.%d.y", l);
        ref n = act(p, "n", AXIS_TOK, 4, l), y = act(p, "y", AXIS_TOK, 4, l), z = act(p, name, AXIS_TOK, 4, l);
        ref out = act(p, "x", AXIS_TOK, 4, l);
        add(p, (op){.kind = OP_NORM, .layer = (int16_t)l, .out = n, .in = {x}, .u.norm = {.eps = 1e-5f, .width = 4}});
        if (l == 0) {
            ref a = act(p, "a", AXIS_TOK, 4, l);
            add(p, (op){.kind = OP_KV_PUT, .layer = 0, .in = {n, n}});
            add(p, (op){.kind = OP_ATTN, .layer = 0, .out = a, .in = {n}, .u.attn = {.scale = 1, .heads = 1}});
            n = a;
        }
        add(p, (op){.kind = OP_MATMUL, .layer = (int16_t)l, .out = y, .in = {n, matrix(p, "w", 4, 4)}});
        add(p, (op){.kind = OP_ACT, .layer = (int16_t)l, .out = z, .in = {y}, .u.act.fn = ACT_SILU});
        add(p, (op){.kind = OP_ADD, .layer = (int16_t)l, .out = out, .in = {x, z}});
        x = out;
        p->hidden[l + 1] = x;
    }
    uint32_t head = p->n_op;
    ref t = act(p, "t", AXIS_OUT, 4, -1), logits = act(p, "logits", AXIS_OUT, 16, -1);
    add(p, (op){.kind = OP_TAKE_OUT, .layer = -1, .out = t, .in = {x}});
    add(p, (op){.kind = OP_MATMUL, .layer = -1, .out = logits, .in = {t, matrix(p, "head", 16, 4)}});
    p->entries[ENTRY_DEC].op1 = head;
    p->entries[ENTRY_HEAD].op0 = head;
    p->entries[ENTRY_HEAD].op1 = p->n_op;
    p->entries[ENTRY_HEAD].out = logits;
    return p;
}

static void cut_points(void **unused)
{
    (void)unused;
    err e = {0};
    program *p = small(2);
    assert_ok(program_finish(p, &e), &e);
    /* ops: 0 embed, 1 norm, 2 kv_put, 3 attn, 4 matmul, 5 act, 6 add, 7 norm, 8 matmul, 9 act, 10 add, 11 take_out, 12
     * head */
    assert_int_equal(p->n_cut, 4);
    const uint32_t want[] = {1, 7, 11, 12};
    for (int i = 0; i < 4; i++) assert_int_equal(p->cuts[i], want[i]);
    program_free(p);
}

/* x = attn(x) without residual: between kv_put and attn only x is alive, but the state is open. */
static void no_cut_inside_a_state(void **unused)
{
    (void)unused;
    err e = {0};
    program *p = program_new(&e);
    ref x = act(p, "x", AXIS_TOK, 4, -1), y = act(p, "y", AXIS_TOK, 4, 0);
    p->hidden = (ref[]){x};
    p->dim = 4;
    assert_int_equal(program_state(p, &(state){.axis = AXIS_TOK, .heads = 1, .k_dim = 4, .v_dim = 4}, &e), 0);
    add(p, (op){.kind = OP_EMBED, .layer = -1, .out = x, .in = {matrix(p, "embed", 16, 4)}});
    add(p, (op){.kind = OP_KV_PUT, .layer = 0, .in = {x, x}});
    add(p, (op){.kind = OP_ATTN, .layer = 0, .out = y, .in = {x}, .u.attn = {.scale = 1, .heads = 1}});
    assert_ok(program_finish(p, &e), &e);
    assert_int_equal(p->n_cut, 1);
    assert_int_equal(p->cuts[0], 1);
    program_free(p);
}

static void single_assignment(void **unused)
{
    (void)unused;
    err e = {0};
    program *p = small(1);
    op again = p->ops[4];
    add(p, again);
    assert_int_equal(program_finish(p, &e), ERR_SPEC);
    assert_non_null(strstr(e.msg, "second time"));
    program_free(p);

    p = small(1);
    e = (err){0};
    ref lost = act(p, "lost", AXIS_TOK, 4, 0), out = act(p, "o", AXIS_TOK, 4, 0);
    add(p, (op){.kind = OP_ACT, .layer = 0, .out = out, .in = {lost}});
    assert_int_equal(program_finish(p, &e), ERR_SPEC);
    assert_non_null(strstr(e.msg, "before it is written"));
    program_free(p);
}

/* A constant of four. */
static ref numbers(program *p, const char *name, const float *from)
{
    err e = {0};
    float *own = arena_array(&p->mem, 4, sizeof *own);
    assert_non_null(own);
    memcpy(own, from, 4 * sizeof *own);
    tensor t = {.name = name, .kind = TENSOR_CONST, .rank = 1, .layer = -1, .dim = {4}, .data = own};
    ref made = program_tensor(p, &t, &e);
    assert_ok(e.code, &e);
    return made;
}

static void shape_rules(void **unused)
{
    (void)unused;
    err none = {0};
    program *p = small(1);
    ref x = p->hidden[0], wide = act(p, "wide", AXIS_TOK, 8, 0), same = act(p, "same", AXIS_TOK, 4, 0),
        o = act(p, "o", AXIS_OUT, 4, 0), seq = act(p, "seq", AXIS_SEQ, 4, 0);
    ref codes = act(p, "codes", AXIS_TOK, 4, 0), more = act(p, "more", AXIS_TOK, 4, 0),
        experts = act(p, "experts", AXIS_EXP, 4, 0);
    p->tensors[codes].block = p->tensors[more].block = p->tensors[experts].block = 32;
    ref order = numbers(p, "order", (float[]){7, 0, 3, 3}), beyond = numbers(p, "beyond", (float[]){0, 1, 2, 8}),
        between = numbers(p, "between", (float[]){0, 1, 2.5f, 3});
    ref w = matrix(p, "w2", 4, 4);
    rope_params rp = {.scaling = ROPE_NONE, .dims = 2, .theta = 100};
    assert_int_equal(program_rope(p, &rp, 16, &none), 0);
    assert_int_equal(program_rope(p, &rp, 16, &none), 0); /* one table per set of parameters */
    const op wrong[] = {
        {.kind = OP_NORM, .state = -1, .out = wide, .in = {x}, .u.norm = {.width = 4}},
        {.kind = OP_NORM, .state = -1, .out = same, .in = {x}, .u.norm = {.width = 3}},
        {.kind = OP_NORM, .state = -1, .out = same, .in = {x, w}, .u.norm = {.width = 4}},
        {.kind = OP_NORM, .state = -1, .out = same, .in = {x}, .u.norm = {.width = 4, .eps = NAN}},
        {.kind = OP_MATMUL, .state = -1, .out = wide, .in = {x, w}},
        {.kind = OP_MATMUL, .state = -1, .out = o, .in = {x, w}},
        {.kind = OP_MATMUL, .state = -1, .out = same, .in = {x, x}},
        {.kind = OP_MATMUL, .state = -1, .out = same, .in = {x, w, w}},
        {.kind = OP_MATMUL, .state = 0, .out = same, .in = {x, w}},
        {.kind = OP_ADD, .state = -1, .out = same, .in = {x, wide}},
        {.kind = OP_ADD, .state = -1, .out = same, .in = {x, w}},
        {.kind = OP_ADD, .state = -1, .out = same, .in = {x, o}},
        {.kind = OP_ROPE, .state = -1, .out = same, .in = {x}, .u.rope = {.dims = 4, .width = 4}},
        {.kind = OP_ROPE, .state = -1, .out = same, .in = {x}, .u.rope = {.dims = 2, .width = 4, .table = 1}},
        {.kind = OP_KV_PUT, .state = 1, .in = {x, x}},
        {.kind = OP_KV_PUT, .state = 0, .in = {x, wide}},
        {.kind = OP_ATTN, .state = 0, .out = same, .in = {x}, .u.attn = {.heads = 3}},
        {.kind = OP_ATTN, .state = 0, .out = same, .in = {x}, .u.attn = {.heads = 1, .bias = BIAS_ALIBI}},
        {.kind = OP_TAKE_OUT, .state = -1, .out = same, .in = {x}},
        {.kind = OP_ACT, .state = -1, .out = same, .in = {x}, .u.act.fn = ACT_COUNT},
        {.kind = OP_CLAMP, .state = -1, .out = same, .in = {x}, .u.clamp.limit = 0},
        {.kind = OP_POOL, .state = -1, .out = same, .in = {x}},
        {.kind = OP_POOL, .state = -1, .out = seq, .in = {x}, .u.pool.how = POOL_LAST + 1},
        {.kind = OP_POOL, .state = -1, .out = seq, .in = {wide}},
        {.kind = OP_NORM, .state = -1, .out = same, .in = {x}, .u.norm = {.kind = NORM_COUNT, .width = 4}},
        {.kind = OP_COLUMNS, .state = -1, .out = same, .in = {wide}, .u.columns.from = -1},
        {.kind = OP_COLUMNS, .state = -1, .out = same, .in = {wide}, .u.columns.from = 5},
        {.kind = OP_COLUMNS, .state = -1, .out = same, .in = {wide}, .u.columns.from = INT32_MAX},
        {.kind = OP_COLUMNS, .state = -1, .out = o, .in = {wide}},
        {.kind = OP_COLUMNS, .state = -1, .out = same, .in = {w}},
        {.kind = OP_COLUMNS, .state = -1, .out = same, .in = {wide, x}},
        {.kind = OP_COLUMNS, .state = -1, .out = wide, .in = {wide, order}},
        {.kind = OP_COLUMNS, .state = -1, .out = same, .in = {wide, order}, .u.columns.from = 1},
        {.kind = OP_COLUMNS, .state = -1, .out = same, .in = {wide, beyond}},
        {.kind = OP_COLUMNS, .state = -1, .out = same, .in = {wide, between}},
        {.kind = OP_COLL, .state = -1, .out = same, .in = {x}, .u.coll.how = COLL_COUNT},
        {.kind = OP_COLL, .state = -1, .out = same, .in = {wide}},
        {.kind = OP_COLL, .state = -1, .out = wide, .in = {x}, .u.coll.how = COLL_OWNER},
        {.kind = OP_COLL, .state = -1, .out = o, .in = {x}},
        {.kind = OP_COLL, .state = -1, .out = same, .in = {codes}},
        {.kind = OP_COLL, .state = -1, .out = codes, .in = {x}},
        {.kind = OP_COLL, .state = -1, .out = more, .in = {codes}}, /* codes that no op writes */
        {.kind = OP_COLL, .state = -1, .out = experts},
        {.kind = OP_COLL, .state = -1, .out = same, .in = {x, x}},
        {.kind = OP_COLL, .state = -1, .in = {x}},
        {.kind = OP_ACT, .state = -1, .out = 9999, .in = {x}},
        {.kind = OP_ACT, .state = -1, .out = same, .in = {9999}},
        {.kind = OP_COUNT, .state = -1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        err e = {0};
        if (program_op(p, &wrong[i], &e) != ERR_SPEC)
            fail_msg("op %zu (%s) was accepted", i, op_info[wrong[i].kind % OP_COUNT].name);
    }
    const op right[] = {
        {.kind = OP_COLUMNS, .state = -1, .out = same, .in = {wide}, .u.columns.from = 4},
        {.kind = OP_COLUMNS, .state = -1, .out = same, .in = {wide, order}},
        {.kind = OP_COLL, .state = -1, .out = wide, .in = {x}},
        {.kind = OP_QUANT, .state = -1, .out = codes, .in = {x}},
        {.kind = OP_COLL, .state = -1, .out = more, .in = {codes}},
        {.kind = OP_COLL, .state = -1, .out = same, .in = {x}, .u.coll.how = COLL_OWNER},
        {.kind = OP_COLL, .state = -1, .out = more},
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) assert_ok(program_op(p, &right[i], &none), &none);
    program_free(p);
}

/* Ops of experts; each row of `wrong` differs in one thing from one that is accepted. */
static void expert_rules(void **unused)
{
    (void)unused;
    err e = {0};
    program *p = small(1);
    ref x = p->hidden[0], logits = act(p, "s", AXIS_TOK, 6, 0), route = act(p, "r", AXIS_TOK, 4, 0),
        sorted = act(p, "d", AXIS_EXP, 3, 0), sent = act(p, "g", AXIS_EXP, 4, 0), mid = act(p, "m", AXIS_EXP, 2, 0),
        back = act(p, "b", AXIS_TOK, 4, 0), wide = act(p, "w8", AXIS_TOK, 6, 0), one = act(p, "one", AXIS_TOK, 1, 0);
    ref deep = act(p, "deep", AXIS_TOK, 24, 0), heads = act(p, "heads", AXIS_TOK, 12, 0),
        pair = act(p, "pair", AXIS_TOK, 2, 0);
    ref codes = act(p, "codes", AXIS_EXP, 4, 0), plain = act(p, "plain", AXIS_TOK, 4, 0),
        mid16 = act(p, "m16", AXIS_EXP, 16, 0), other = act(p, "d2", AXIS_EXP, 3, 0);
    ref panels = matrix(p, "panels", 96, 4);
    p->tensors[codes].block = p->tensors[plain].block = 64;
    p->weights[p->tensors[panels].weight].packed = true;
    p->weights[p->tensors[panels].weight].parts = 6;
    p->weights[p->tensors[panels].weight].want = DTYPE_Q4_B64;
    ref stack = matrix(p, "stack", 12, 4), small_stack = matrix(p, "small", 10, 4);
    p->weights[p->tensors[stack].weight].parts = 6;
    p->weights[p->tensors[small_stack].weight].parts = 5;
    const op right[] = {
        {.kind = OP_ROUTE, .out = route, .in = {logits}, .u.route = {.used = 2}},
        {.kind = OP_DISPATCH, .out = sorted, .in = {route}, .u.dispatch = {6, 2}},
        {.kind = OP_GATHER, .out = sent, .in = {x, sorted}},
        {.kind = OP_MATMUL_EXP, .out = mid, .in = {sent, stack, 0, sorted}},
        {.kind = OP_DISPATCH, .out = other, .in = {route}, .u.dispatch = {6, 2}},
        {.kind = OP_QUANT, .out = codes, .in = {sent, sorted}},
        {.kind = OP_QUANT, .out = plain, .in = {x}},
        {.kind = OP_MATMUL_EXP, .out = mid16, .in = {codes, panels, 0, sorted}},
        {.kind = OP_MATMUL_EXP, .out = mid16, .in = {sent, panels, 0, sorted}}, /* panels as floats */
        {.kind = OP_SCATTER, .out = back, .in = {sent, sorted, route}},
        {.kind = OP_MUL, .out = back, .in = {x, one}},
        {.kind = OP_MATMUL_HEADS, .out = heads, .in = {deep, stack}},
        {.kind = OP_JOIN, .out = wide, .in = {x, pair}, .u.join = {2}},
        {.kind = OP_EMBED, .out = mid, .in = {matrix(p, "f6", 6, 2), sorted}, .u.embed.by = EMBED_BY_EXPERT},
    };
    const op wrong[] = {
        {.kind = OP_EMBED, .out = mid, .in = {matrix(p, "f6", 6, 2)}, .u.embed.by = EMBED_BY_EXPERT},
        {.kind = OP_EMBED, .out = mid, .in = {matrix(p, "f5", 5, 2), sorted}, .u.embed.by = EMBED_BY_EXPERT},
        {.kind = OP_EMBED, .out = pair, .in = {matrix(p, "f6", 6, 2), sorted}, .u.embed.by = EMBED_BY_EXPERT},
        {.kind = OP_EMBED, .out = mid, .in = {matrix(p, "f6", 6, 2), sent}, .u.embed.by = EMBED_BY_EXPERT},
        {.kind = OP_ROUTE, .out = route, .in = {logits}, .u.route = {.used = 3}}, /* another number than before */
        {.kind = OP_ROUTE, .out = wide, .in = {logits}, .u.route = {.used = 2}},
        {.kind = OP_ROUTE, .out = route, .in = {sent}, .u.route = {.used = 2}},
        {.kind = OP_ROUTE, .out = route, .in = {logits, matrix(p, "v", 6, 1)}, .u.route = {.used = 2}},
        {.kind = OP_ROUTE, .out = route, .in = {logits, 0, matrix(p, "v", 6, 1)}, .u.route = {.used = 2}},
        {.kind = OP_ROUTE, .out = route, .in = {logits}, .u.route = {.used = 2, .score = SCORE_COUNT}},
        {.kind = OP_ROUTE, .out = route, .in = {logits}, .u.route = {.used = 2, .groups = 4, .groups_used = 2}},
        {.kind = OP_ROUTE,
         .out = route,
         .in = {logits},
         .u.route = {.used = 2, .groups = 6, .groups_used = 1, .group_best = 1}},
        {.kind = OP_ROUTE, .out = route, .in = {logits}, .u.route = {.used = 2, .groups = 2, .groups_used = 1}},
        {.kind = OP_ROUTE, .out = route, .in = {logits}, .u.route = {.used = 2, .near = NAN}},
        {.kind = OP_DISPATCH, .out = sorted, .in = {route}, .u.dispatch = {EXPERTS_MAX + 1, 2}},
        {.kind = OP_DISPATCH, .out = sorted, .in = {route}, .u.dispatch = {6, 3}},
        {.kind = OP_DISPATCH, .out = sent, .in = {route}, .u.dispatch = {6, 2}},
        {.kind = OP_DISPATCH, .out = sorted, .in = {logits}, .u.dispatch = {6, 2}},
        {.kind = OP_GATHER, .out = sent, .in = {x, route}},
        {.kind = OP_GATHER, .out = back, .in = {x, sorted}},
        {.kind = OP_GATHER, .out = mid, .in = {x, sorted}},
        {.kind = OP_GATHER, .out = sent, .in = {x, sorted, logits}},
        {.kind = OP_MATMUL_EXP, .out = mid, .in = {sent, stack, 0, sent}},
        {.kind = OP_MATMUL_EXP, .out = mid, .in = {sent, small_stack, 0, sorted}},
        {.kind = OP_MATMUL_EXP, .out = sent, .in = {sent, stack, 0, sorted}},
        {.kind = OP_MATMUL_EXP, .out = mid, .in = {mid, stack, 0, sorted}},
        {.kind = OP_MATMUL_EXP, .out = mid, .in = {sent, stack, stack, sorted}},
        {.kind = OP_QUANT, .out = codes, .in = {sent}},
        {.kind = OP_QUANT, .out = plain, .in = {x, sorted}},
        {.kind = OP_MATMUL_EXP, .out = mid16, .in = {codes, panels, 0, other}}, /* sorted by another */
        {.kind = OP_MATMUL_EXP, .out = mid, .in = {codes, stack, 0, sorted}},   /* floats meet codes */
        {.kind = OP_SCATTER, .out = sent, .in = {sent, sorted, route}},
        {.kind = OP_SCATTER, .out = back, .in = {mid, sorted, route}},
        {.kind = OP_MUL, .out = one, .in = {one, x}},
        {.kind = OP_MATMUL_HEADS, .out = x, .in = {deep, stack}},
        {.kind = OP_MATMUL_HEADS, .out = heads, .in = {x, stack}},
        {.kind = OP_MATMUL_HEADS, .out = back, .in = {x, matrix(p, "whole", 4, 4)}},
        {.kind = OP_MATMUL_HEADS, .out = heads, .in = {deep, stack, stack}},
        {.kind = OP_JOIN, .out = wide, .in = {x, pair}, .u.join = {0}},
        {.kind = OP_JOIN, .out = wide, .in = {x, pair}, .u.join = {4}},
        {.kind = OP_JOIN, .out = x, .in = {x, pair}, .u.join = {2}},
        {.kind = OP_JOIN, .out = wide, .in = {x, stack}, .u.join = {2}},
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) add(p, right[i]);
    assert_int_equal(p->n_used, 2);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        op o = wrong[i];
        o.state = -1;
        e = (err){0};
        if (program_op(p, &o, &e) != ERR_SPEC) fail_msg("op %zu (%s) was accepted", i, op_info[o.kind].name);
    }
    program_free(p);
}

/* CONV and its slot: each row of `wrong` differs in one thing from what is accepted. */
static void slot_rules(void **unused)
{
    (void)unused;
    static const state odd[] = {{.kind = STATE_SLOT, .axis = AXIS_TOK},
                                {.kind = STATE_SLOT, .axis = AXIS_TOK, .slot_floats = INT64_MAX},
                                {.kind = STATE_SLOT, .axis = AXIS_ENC, .slot_floats = 8}};
    err e = {0};
    program *p = small(1);
    ref x = p->hidden[0], out = act(p, "c", AXIS_TOK, 4, 0), wide = act(p, "w8", AXIS_TOK, 8, 0),
        w = matrix(p, "taps", 3, 4), one = matrix(p, "one", 1, 4), half = matrix(p, "half", 3, 4);
    p->weights[p->tensors[half].weight].want = DTYPE_F16;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++, e = (err){0})
        assert_int_equal(program_state(p, &odd[i], &e), ERR_SPEC);
    assert_int_equal(program_slot_bytes(p, 5), 0);
    for (int i = 1; i <= 2; i++)
        assert_int_equal(program_state(p, &(state){.kind = STATE_SLOT, .axis = AXIS_TOK, .slot_floats = 8}, &e), i);
    assert_int_equal(program_slot_bytes(p, 5), 0); /* no op has one yet */
    assert_int_equal(p->n_group, 1);               /* slots have no pages */
    const op right = {.kind = OP_CONV, .state = 1, .out = out, .in = {x, w}};
    const op wrong[] = {
        {.kind = OP_CONV, .state = 1, .out = act(p, "c2", AXIS_TOK, 4, 0), .in = {x, w}}, /* the slot of the first */
        {.kind = OP_CONV, .state = 0, .out = out, .in = {x, w}},
        {.kind = OP_CONV, .state = -1, .out = out, .in = {x, w}},
        {.kind = OP_KV_PUT, .state = 2, .in = {x, x}},
        {.kind = OP_CONV, .state = 2, .out = wide, .in = {x, w}},
        {.kind = OP_CONV, .state = 2, .out = out, .in = {x, x}},
        {.kind = OP_CONV, .state = 2, .out = out, .in = {x, one}},
        {.kind = OP_CONV, .state = 2, .out = out, .in = {x, half}},
        {.kind = OP_CONV, .state = 2, .out = out, .in = {x, matrix(p, "four", 4, 4)}},
        {.kind = OP_CONV, .state = 2, .out = out, .in = {x, w, x}},
        {.kind = OP_CONV, .state = 2, .out = act(p, "co", AXIS_OUT, 4, 0), .in = {x, w}},
    };
    assert_ok(program_op(p, &right, &e), &e);
    assert_int_equal(program_slot_bytes(p, 0), 8 * 4);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++, e = (err){0})
        if (program_op(p, &wrong[i], &e) != ERR_SPEC) fail_msg("op %zu was accepted", i);
    program_free(p);
}

static ref constant(program *p, const char *name, int64_t n)
{
    static const float values[32];
    err e = {0};
    tensor t = {.name = name, .kind = TENSOR_CONST, .rank = 1, .layer = -1, .dim = {n}, .data = values};
    ref r = program_tensor(p, &t, &e);
    assert_ok(e.code, &e);
    return r;
}

/* RECUR: each row of `wrong` differs in one thing from what is accepted. */
static void recurrence_rules(void **unused)
{
    (void)unused;
    err e = {0};
    program *p = small(1);
    enum { HEADS = 4, KEYS = 2, WIDTH = 3, ROWS = 5, DIM = HEADS * WIDTH };
    ref v = act(p, "v", AXIS_TOK, DIM, 0), out = act(p, "o", AXIS_TOK, DIM, 0),
        keys = act(p, "k", AXIS_TOK, 2 * KEYS * ROWS, 0), steps = act(p, "s", AXIS_TOK, 2 * HEADS, 0),
        rate = constant(p, "rate", HEADS), rows = constant(p, "rows", HEADS * ROWS);
    for (int i = 1; i <= 2; i++)
        assert_int_equal(
            program_state(p, &(state){.kind = STATE_SLOT, .axis = AXIS_TOK, .slot_floats = ROWS * DIM}, &e), i);
    assert_int_equal(
        program_state(p, &(state){.kind = STATE_SLOT, .axis = AXIS_TOK, .slot_floats = ROWS * DIM + 1}, &e), 3);
    op right = {.kind = OP_RECUR,
                .state = 1,
                .out = out,
                .in = {v, keys, steps, rate},
                .u.recur = {.heads = HEADS, .key_heads = KEYS, .delta = 1, .strength = RECUR_OWN}};
    assert_ok(program_op(p, &right, &e), &e);
    right.state = 2;
    right.out = act(p, "p", AXIS_TOK, DIM, 0);
    op wrong[15];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) wrong[i] = right;
    wrong[0].state = 3;
    wrong[1].u.recur.heads = 5;
    wrong[2].u.recur.key_heads = 3;
    wrong[3].u.recur.key_heads = 0;
    wrong[4].u.recur.head0 = 1;
    wrong[5].u.recur.tiled = 2;
    wrong[6].u.recur.delta = 2;
    wrong[7].u.recur.strength = RECUR_STEP;
    wrong[8].u.recur.strength = RECUR_STRENGTHS;
    wrong[9].in[RECUR_STEPS] = 0;
    wrong[10].in[RECUR_RATE] = v;
    wrong[11].in[RECUR_RATE] = constant(p, "three", 3);
    wrong[12].in[RECUR_KEYS] = v;
    wrong[13].in[RECUR_V] = keys;
    wrong[14].in[RECUR_STEPS] = act(p, "t", AXIS_TOK, 3 * HEADS, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++, e = (err){0})
        if (program_op(p, &wrong[i], &e) != ERR_SPEC) fail_msg("op %zu was accepted", i);
    right.in[RECUR_RATE] = rows;
    assert_ok(program_op(p, &right, &e), &e);
    program_free(p);
}

/* ---- the op list: what follows from rows */

static void set_param(op *o, const op_param *row, int v)
{
    float real = (float)v;
    bool whole = row->type == OPP_INT || row->type == OPP_WORD;
    memcpy((char *)o + row->offset, whole ? (void *)&v : (void *)&real, 4);
}

/* Each op has a shape rule, which refuses an op without operands (a rank may have no part in a COLL), and rows for all
 * its parameters. */
static void every_op_has_rows(void **unused)
{
    (void)unused;
    err e = {0};
    program *p = small(1);
    int slot = program_state(p, &(state){.kind = STATE_SLOT, .axis = AXIS_TOK, .slot_floats = 8}, &e);
    for (int kind = 0; kind < OP_COUNT; kind++) {
        op o = {.kind = (uint8_t)kind, .layer = -1, .state = -1};
        if (op_is(&o, OPF_STATE)) o.state = op_is(&o, OPF_SLOT) ? (int16_t)slot : 0;
        if (!op_is(&o, OPF_NO_OUTPUT)) o.out = p->hidden[0];
        const char *wrong = op_check(p, &o);
        const bool late = wrong && (strstr(wrong, "wrong state") || strstr(wrong, "the output must be"));
        if (op_is(&o, OPF_COLL) ? wrong != NULL : !wrong || late)
            fail_msg("%s: %s", op_info[kind].name, wrong ? wrong : "accepted");
        uint32_t words = 0, n = 0;
        for (const op_param *row = op_params; row->label; row++)
            if (row->kind == kind) words |= 1u << (row->offset - offsetof(op, u)) / 4, n++;
        if (words != (1u << n) - 1) fail_msg("%s: a parameter has no row, or two", op_info[kind].name);
    }
    program_free(p);
}

/* Each parameter is in the hash of its op and in the dump. */
static void every_parameter_counts(void **unused)
{
    (void)unused;
    program *p = small(1);
    for (const op_param *row = op_params; row->label; row++) {
        op o = {.kind = row->kind, .layer = -1, .state = -1, .out = p->ops[1].out};
        for (const op_param *each = op_params; each->label; each++)
            if (each->kind == row->kind) set_param(&o, each, each->type == OPP_WORD ? each->n_word - 1 : 2);
        buf text[2] = {0};
        uint64_t hash[2];
        for (int k = 0; k < 2; k++) {
            p->ops[1] = o;
            hash[k] = program_op_hash(p, 1);
            assert_true(program_dump_op(p, 1, &text[k]));
            set_param(&o, row, row->type == OPP_WORD ? 0 : 3);
        }
        if (hash[0] == hash[1]) fail_msg("%s: \"%s\" is not hashed", op_info[row->kind].name, row->label);
        if (!strcmp(buf_cstr(&text[0]), buf_cstr(&text[1])))
            fail_msg("%s: \"%s\" is not shown", op_info[row->kind].name, row->label);
        buf_free(&text[0]);
        buf_free(&text[1]);
    }
    program_free(p);
}

static void windows_make_groups(void **unused)
{
    (void)unused;
    err e = {0};
    program *p = program_new(&e);
    const int32_t window[] = {0, 8, 0, 8, 16, 0};
    const uint8_t rows[] = {AXIS_TOK, AXIS_TOK, AXIS_TOK, AXIS_TOK, AXIS_TOK, AXIS_ENC};
    const int group[] = {0, 1, 0, 1, 2, 3};
    state s = {.heads = 1, .k_dim = 4, .v_dim = 4};
    assert_int_equal(program_state(p, &s, &e), ERR_SPEC); /* of no rows */
    e = (err){0};
    for (int i = 0; i < 6; i++) {
        s.window = window[i];
        s.axis = rows[i];
        assert_int_equal(program_state(p, &s, &e), i);
        assert_int_equal(p->states[i].group, group[i]);
        assert_int_equal(p->group_axis[group[i]], rows[i]);
    }
    assert_int_equal(p->n_group, 4);
    s.window = 2;
    assert_int_equal(program_state(p, &s, &e), ERR_LIMIT);
    program_free(p);
}

/* The identity of small(2), and of it with the number of `bytes` at `field` changed. */
static void expect_identity(program *p, void *field, size_t bytes, bool changes, const char *what)
{
    uint8_t before[SHA256_BYTES], kept[8];
    program_identify(p, (span){0});
    memcpy(before, p->hash, sizeof before);
    memcpy(kept, field, bytes);
    *(uint8_t *)field ^= 1;
    program_identify(p, (span){0});
    if ((memcmp(before, p->hash, sizeof before) != 0) != changes)
        fail_msg("%s is%s part of the identity", what, changes ? " no" : "");
    memcpy(field, kept, bytes);
    program_identify(p, (span){0});
    assert_memory_equal(before, p->hash, sizeof before);
}

static void identity_is_of_what_results_depend_on(void **unused)
{
    (void)unused;
    err e = {0};
    program *p = small(2), *twin = small(2), *other = small(3);
    program_identify(p, (span){0});
    program_identify(twin, (span){0});
    program_identify(other, (span){0});
    assert_memory_equal(p->hash, twin->hash, SHA256_BYTES);
    assert_memory_not_equal(p->hash, other->hash, SHA256_BYTES);
    program_identify(twin, span_str("layers = 2"));
    assert_memory_not_equal(p->hash, twin->hash, SHA256_BYTES);
    assert_int_equal(program_rope(p, &(rope_params){.dims = 4, .theta = 10000}, 8, &e), 0);
    const float numbers[4] = {1, 2, 3, 4};
    float *held = arena_array(&p->mem, 4, sizeof *held);
    memcpy(held, numbers, sizeof numbers);
    ref c = program_tensor(p, &(tensor){.name = "c", .kind = TENSOR_CONST, .rank = 1, .dim = {4}, .data = held}, &e);
    assert_true(c > 0);
    weight *w = &p->weights[1];
    piece *s = &w->pieces[0];
    char *name = arena_str(&p->mem, "layers.0.w");
    s->name = name;
    tensor *x = &p->tensors[p->hidden[0]];
    state *st = &p->states[0];
#define COUNTS(field)      expect_identity(p, &(field), sizeof(field), true, #field)
#define IS_LEFT_OUT(field) expect_identity(p, &(field), sizeof(field), false, #field)
    COUNTS(name[3]), COUNTS(s->type), COUNTS(s->src_rows), COUNTS(s->src_cols), COUNTS(s->rows), COUNTS(s->row0);
    COUNTS(s->block), COUNTS(s->stride), COUNTS(s->col0), COUNTS(s->pairs), COUNTS(s->rotated), COUNTS(s->transpose);
    COUNTS(s->normalize_rows), COUNTS(s->exponential), COUNTS(s->mul), COUNTS(s->add);
    COUNTS(w->want), COUNTS(w->rows), COUNTS(w->cols), COUNTS(w->vector), COUNTS(w->parts);
    COUNTS(x->axis), COUNTS(x->dim[0]), COUNTS(x->block), COUNTS(x->layer), COUNTS(held[2]);
    COUNTS(st->axis), COUNTS(st->layer), COUNTS(st->heads), COUNTS(st->k_dim), COUNTS(st->v_dim), COUNTS(st->window);
    COUNTS(st->scratch), COUNTS(st->kind), COUNTS(st->slot_floats), COUNTS(p->ropes[0].params.theta),
        COUNTS(p->ropes[0].params.dims);
    COUNTS(p->ops[1].u.norm.eps), COUNTS(p->ops[1].in[0]), COUNTS(p->entries[ENTRY_HEAD].op0), COUNTS(p->n_enc);
    IS_LEFT_OUT(s->entry), IS_LEFT_OUT(s->data), IS_LEFT_OUT(s->packed), IS_LEFT_OUT(w->packed), IS_LEFT_OUT(x->off);
    program_free(p);
    program_free(twin);
    program_free(other);
}

static void ops_as_text(void **unused)
{
    (void)unused;
    program *a = small(2);
    err e = {0};
    assert_ok(program_finish(a, &e), &e);
    buf text = {0};
    for (uint32_t i = 0; i < a->n_op; i++) assert_true(program_dump_op(a, i, &text));
    const char *s = buf_cstr(&text);
    assert_non_null(strstr(s, "x0 [tok, 4] = embed f32 [16, 4] 256 B by=token"));
    assert_non_null(strstr(s, "    1 | norm"));
    assert_non_null(strstr(s, "logits [out, 16] = t head f32 [16, 4]"));
    buf_free(&text);
    program_free(a);
}

static void short_of_memory(void **unused)
{
    (void)unused;
    for (int n = 1; n < 40; n++) {
        err e = {0};
        mem_fail_at(n);
        program *p = program_new(&e);
        int rc = 0;
        for (int i = 0; p && !rc && i < 300; i++)
            if (!program_tensor(p, &(tensor){.name = "t", .kind = TENSOR_ACT, .rank = 1, .axis = AXIS_TOK, .dim = {4}},
                                &e))
                rc = e.code;
        bool fired = mem_fail_at(0);
        assert_true(!fired || (e.code == ERR_MEMORY && (rc == ERR_MEMORY || !p)));
        program_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recipes),
        cmocka_unit_test(transposed_and_scaled),
        cmocka_unit_test(plain_weights),
        cmocka_unit_test(bad_recipes),
        cmocka_unit_test(cut_points),
        cmocka_unit_test(no_cut_inside_a_state),
        cmocka_unit_test(single_assignment),
        cmocka_unit_test(shape_rules),
        cmocka_unit_test(expert_rules),
        cmocka_unit_test(slot_rules),
        cmocka_unit_test(recurrence_rules),
        cmocka_unit_test(windows_make_groups),
        cmocka_unit_test(every_op_has_rows),
        cmocka_unit_test(every_parameter_counts),
        cmocka_unit_test(identity_is_of_what_results_depend_on),
        cmocka_unit_test(ops_as_text),
        cmocka_unit_test(short_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
