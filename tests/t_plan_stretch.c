/* t_plan_stretch.c - a segment run stretch by stretch, with collectives carried out here: devices of 2 and 3 ranks, the
 * CPU with 1 and 3 threads and one that is nobody's, give the bits of the same ops uncut; and the wire order of codes.
 * */
#include "core/act_move.h"
#include "core/place.h"
#include "fake/fake_backend.h"
#include "random_model.h"

enum { DIM = 192, VOCAB = 31, OUT = 48, RANKS = 3, ROWS = 24, PAGES = 4, HEADS = 3, EXPERTS = 5, USED = 2 };

/* ---- codes in wire order */

static void code_rows(const act_rows *x, const float *from, int64_t stride)
{
    for (int64_t m = 0; m < x->rows; m++) {
        const row_tile t = row_tile_at(x->rows, row_tile_of(x->rows, m));
        const act_part p = act_parts(x->at, t, x->cols, x->block);
        for (int64_t b = 0; b < act_padded(x->cols) / x->block; b++) {
            const int64_t left = x->cols - b * x->block, n = left < 0 ? 0 : left < x->block ? left : x->block;
            act_block one;
            act_encode(from + m * stride + b * x->block, n, x->block, &one);
            act_block_put(p, t.rows, m - t.row0, b, x->block, &one);
        }
    }
}

static void parts_of_codes_make_a_whole(void **unused)
{
    (void)unused;
    static const int64_t widths[][4] = {{64}, {32, 32}, {64, 64, 64}, {128, 40}, {64, 320, 7}, {96, 64, 1}};
    static float x[20][512];
    static uint8_t want[20 * 1024], got[20 * 1024], part[20 * 1024], wire[20 * 1024];
    test_random_state = 5;
    for (int i = 0; i < 20 * 512; i++) x[i / 512][i % 512] = i % 97 == 5 ? 0 : i == 7000 ? INFINITY : test_random();
    memset(x[3], 0, sizeof x[3]);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int rows = 1; rows <= 20; rows++)
            for (int block = 32; block <= 64; block += 32) {
                act_rows all = {want, block, rows, 0, 0};
                for (int k = 0; k < 4; k++) all.cols += widths[w][k];
                if (block == 64 && widths[w][0] % 64) continue;
                const size_t bytes = (size_t)rows * act_row_bytes(all.cols, block);
                code_rows(&all, x[0], 512);
                memset(got, 0x5a, sizeof got);
                for (int64_t k = 0, at = 0; k < 4 && widths[w][k]; at += widths[w][k++]) {
                    const act_rows one = {part, block, rows, widths[w][k], 0}, into = {got, block, rows, all.cols, 0};
                    code_rows(&one, x[0] + at, 512);
                    memset(wire, 0x77, sizeof wire);
                    act_wire_get(&one, wire);
                    assert_int_equal(wire[(uint64_t)rows * act_wire_bytes(one.cols, block)], 0x77);
                    act_wire_put(&into, at, one.cols, wire);
                }
                assert_memory_equal(want, got, bytes);
                assert_int_equal(got[bytes], 0x5a);
            }
    assert_int_equal(act_wire_bytes(1024, 64), 1088); /* 1.0625 bytes an element */
    assert_int_equal(act_wire_bytes(65, 64), 2 * 68);
}

/* ---- stretches */

typedef struct rank {
    program *p;
    weight_set *weights;
    segment seg;
    ref looked_up, whole, result; /* of the table, of the first gather, of the end */
} rank;

/* First column, or row of the table, of a rank; the last rank of three has only table rows. */
static int64_t border(int64_t n, int ranks, int r) { return r >= (ranks == 3 ? 2 : ranks) ? n : n / 64 * r / 2 * 64; }
static int64_t first_id(int ranks, int r) { return (int64_t)VOCAB * r / ranks; }

/* An op whose result is [rows of axis, n], codes in blocks of `block` (0: floats). */
static ref add_op(model_builder *b, op o, int axis, int64_t n, int block)
{
    err e = {0};
    o.layer = o.state = -1;
    o.out = test_act(b, axis, n);
    b->p->tensors[o.out].block = (uint8_t)block;
    assert_ok(program_op(b->p, &o, &e), &e);
    return o.out;
}

/* x, cut by columns and put together again; `block`: as codes, tiled by dispatch `table`. Without ranks: x itself, or
 * its codes. */
static ref gathered(model_builder *b, ref x, ref table, int block, int ranks, int r)
{
    const int64_t lo = ranks ? border(DIM, ranks, r) : 0, n = ranks ? border(DIM, ranks, r + 1) - lo : DIM;
    const int axis = b->p->tensors[x].axis;
    ref part = x;
    if (ranks) part = n ? add_op(b, (op){.kind = OP_COLUMNS, .in = {x}, .u.columns = {(int32_t)lo}}, axis, n, 0) : 0;
    if (part && block) part = add_op(b, (op){.kind = OP_QUANT, .in = {part, table}}, axis, n, block);
    if (!ranks) return part;
    return add_op(b, (op){.kind = OP_COLL, .in = {part, table}, .u.coll = {COLL_GATHER}}, axis, DIM, block);
}

/* Keys and values are written in one stretch and read in another; `type`: of the matrix. ranks 0: uncut. */
static void build(rank *to, dtype type, int ranks, int r)
{
    static const model_shape floats = {.type = DTYPE_F32};
    const model_shape packed = {.type = type};
    err e = {0};
    test_random_state = rig_seed = 9;
    model_builder b = {.p = program_new(&e), .m = &floats, .layer = -1};
    program *p = to->p = b.p;
    p->dim = DIM;
    const ref table = test_weight(&b, "table", VOCAB, DIM, false, 0, 1);
    const int64_t id0 = ranks ? first_id(ranks, r) : 0, ids = ranks ? first_id(ranks, r + 1) - id0 : VOCAB;
    p->weights[0].rows = p->weights[0].pieces[0].rows = p->tensors[table].dim[0] = ids;
    p->weights[0].pieces[0].row0 = id0;
    const op look = {.kind = OP_EMBED, .in = {table}, .u.embed = {EMBED_BY_TOKEN, (int32_t)-id0}};
    to->looked_up = test_op(&b, look, AXIS_TOK, DIM);
    const op owner = {.kind = OP_COLL, .in = {to->looked_up}, .u.coll = {COLL_OWNER}};
    if (ranks) to->looked_up = add_op(&b, owner, AXIS_TOK, DIM, 0);
    const state s = {.axis = AXIS_TOK, .heads = HEADS, .k_dim = DIM / HEADS, .v_dim = DIM / HEADS};
    assert_int_equal(program_state(p, &s, &e), 0);
    test_op(&b, (op){.kind = OP_KV_PUT, .in = {to->looked_up, to->looked_up}}, 0, 0);
    to->whole = gathered(&b, gathered(&b, to->looked_up, 0, 0, ranks, r), 0, 0, ranks, r);
    const op attn = {.kind = OP_ATTN, .in = {to->whole}, .u.attn = {.scale = 0.1f, .heads = HEADS}};
    const ref y = test_op(&b, attn, AXIS_TOK, DIM), scores = test_linear(&b, y, DIM, EXPERTS, AXIS_TOK);
    const op route = {.kind = OP_ROUTE, .in = {scores}, .u.route = {.used = USED, .factor = 1}};
    const ref picked = add_op(&b, route, AXIS_TOK, 2 * USED, 0);
    const op dispatch = {.kind = OP_DISPATCH, .in = {picked}, .u.dispatch = {EXPERTS, USED}};
    const ref sent = add_op(&b, dispatch, AXIS_EXP, DISPATCH_COLS, 0),
              rows = add_op(&b, (op){.kind = OP_GATHER, .in = {y, sent}}, AXIS_EXP, DIM, 0);
    b.m = &packed;
    const int block = panel_format_of(type)->act;
    const ref w = test_weight(&b, "w", EXPERTS * OUT, DIM, false, 0, 1),
              one = test_weight(&b, "w", OUT, DIM, false, 0, 1);
    p->weights[p->tensors[w].weight].parts = EXPERTS;
    p->weights[p->tensors[w].weight].packed = p->weights[p->tensors[one].weight].packed = true;
    const op product = {.kind = OP_MATMUL, .in = {gathered(&b, y, 0, block, ranks, r), one}},
             products = {.kind = OP_MATMUL_EXP, .in = {gathered(&b, rows, sent, block, ranks, r), w, 0, sent}};
    const ref left = add_op(&b, product, AXIS_TOK, OUT, 0), right = add_op(&b, products, AXIS_EXP, OUT, 0),
              back = add_op(&b, (op){.kind = OP_SCATTER, .in = {right, sent, picked}}, AXIS_TOK, OUT, 0);
    to->result = add_op(&b, (op){.kind = OP_ADD, .in = {left, back}}, AXIS_TOK, OUT, 0);
}

static void open_rank(rank *k, dtype type, int ranks, int r, const backend_use *use, int threads)
{
    err e = {0};
    const cache_options cache = {.n_page = {PAGES}, .k_type = DTYPE_F32, .v_type = DTYPE_F32};
    const weight_options o = {.number = threads, .own = use->own};
    int max_rows[AXIS_COUNT];
    *k = (rank){0};
    build(k, type, ranks, r);
    for (int i = 0; i < AXIS_COUNT; i++) max_rows[i] = ROWS;
    k->seg = (segment){.p = k->p, .be = use->be, .out = &k->result, .n_out = 1};
    assert_int_equal(k->p->n_weight, 4);
    assert_ok(use->be->weights_open(&k->weights, k->p, (bool[]){true, true, true, true}, &o, &e), &e);
    assert_ok(arena_layout(&k->seg, max_rows, &e), &e);
    assert_int_equal(k->seg.n_stretch, ranks ? 6 : 1);
    assert_ok(use->be->weights_read(k->weights, &e), &e);
    assert_ok(use->be->open(&k->seg.on, k->weights, k->p, max_rows, &cache, &e), &e);
    assert_ok(use->be->compile(k->seg.on, &k->seg, &e), &e);
}

static void close_rank(rank *k)
{
    k->seg.be->discard(k->seg.on, &k->seg);
    k->seg.be->close(k->seg.on);
    k->seg.be->weights_close(k->weights);
    program_free(k->p);
}

/* Carries out the COLL that ends a stretch. */
static void collective(rank *k, int ranks, uint32_t stretch, const step *st)
{
    static uint8_t part[RANKS][ROWS * DIM * 4], rows[ROWS * DIM * 4];
    err e = {0};
    const op *o[RANKS];
    int n = 0;
    for (int r = 0; r < ranks; r++) {
        o[r] = &k[r].p->ops[k[r].seg.ends[stretch]];
        n = st->n[k[r].p->tensors[o[r]->out].axis];
        assert_int_equal(o[r]->kind, OP_COLL);
        if (o[r]->in[0]) assert_ok(k[r].seg.be->act_get(k[r].seg.on, &k[r].seg, o[r]->in[0], 0, n, part[r], &e), &e);
    }
    for (int i = 0; i < n && o[0]->u.coll.how == COLL_OWNER; i++)
        for (int r = 0; r < ranks; r++)
            if (st->tok.token[i] >= first_id(ranks, r) && st->tok.token[i] < first_id(ranks, r + 1))
                memcpy(rows + i * DIM * 4, part[r] + i * DIM * 4, DIM * 4);
    for (int to = 0; to < ranks; to++) {
        const segment *s = &k[to].seg;
        if (o[0]->u.coll.how == COLL_OWNER) assert_ok(s->be->act_put(s->on, s, o[to]->out, 0, DIM, n, rows, &e), &e);
        for (int r = 0; r < ranks && o[0]->u.coll.how == COLL_GATHER; r++) {
            const int64_t lo = border(DIM, ranks, r), cols = border(DIM, ranks, r + 1) - lo;
            if (cols) assert_ok(s->be->act_put(s->on, s, o[to]->out, lo, cols, n, part[r], &e), &e);
        }
    }
}

static void run_step(rank *k, int ranks, const step *st, float (*result)[ROWS * OUT])
{
    err e = {0};
    for (uint32_t i = 0; i < k[0].seg.n_stretch; i++) {
        if (i) collective(k, ranks, i - 1, st);
        for (int r = 0; r < ranks; r++) assert_ok(k[r].seg.be->start(k[r].seg.on, &k[r].seg, i, st, &e), &e);
        for (int r = 0; r < ranks; r++) assert_ok(k[r].seg.be->wait(k[r].seg.on, &e), &e);
    }
    for (int r = 0; r < ranks; r++)
        assert_ok(k[r].seg.be->act_get(k[r].seg.on, &k[r].seg, k[r].result, 0, st->n[AXIS_TOK], result[r], &e), &e);
}

/* Two steps: rows of one sequence; then the next position of it and of another one, whose page is a copy of the first's
 * before that row was written. */
static void run_steps(rank *k, int ranks, float (*result)[2][ROWS * OUT], float (*seen)[ROWS * DIM])
{
    static const int32_t token[ROWS] = {3, 30, 0, 17, 11, 10, 20, 21, 5}, pos[ROWS] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    static const int32_t seq[ROWS] = {0}, len = 9, row[2] = {0, 9}, page = 2;
    static const int32_t seq2[2] = {0, 1}, pos2[2] = {9, 9}, token2[2] = {8, 29}, len2[2] = {10, 10},
                         row2[3] = {0, 1, 2}, page2[2] = {2, 1};
    const tap t = {.what = k[0].whole, .to = seen[0]};
    float got[RANKS][ROWS * OUT];
    step st = {
        .tok = {token, NULL, pos, seq, &len, row}, .n_seq = 1, .page = &page, .page_cap = 1, .taps = &t, .n_tap = 1};
    st.n[AXIS_TOK] = 9;
    st.n[AXIS_EXP] = 9 * USED;
    run_step(k, ranks, &st, got);
    for (int r = 0; r < ranks; r++) memcpy(result[r][0], got[r], sizeof got[r]);
    const page_copy copy = {0, 2, 1};
    st = (step){
        .tok = {token2, NULL, pos2, seq2, len2, row2}, .n_seq = 2, .page = page2, .page_cap = 1, .copies = &copy};
    st.n_copy = 1;
    st.n[AXIS_TOK] = 2;
    st.n[AXIS_EXP] = 2 * USED;
    run_step(k, ranks, &st, got);
    for (int r = 0; r < ranks; r++) memcpy(result[r][1], got[r], sizeof got[r]);
}

static void compare_ranks(dtype type)
{
    static float want[1][2][ROWS * OUT], got[RANKS][2][ROWS * OUT], seen[2][ROWS * DIM];
    const cpu_options all = {.share_all = true};
    const backend_use uses[] = {{&cpu_backend, NULL}, {&fake_backend, NULL}, {&cpu_backend, &all}};
    rank k[RANKS];
    open_rank(k, type, 0, 0, &uses[0], 1);
    run_steps(k, 1, want, seen);
    close_rank(k);
    for (int ranks = 2; ranks <= RANKS; ranks++)
        for (int way = 0; way < 6; way++) {
            for (int r = 0; r < ranks; r++) open_rank(&k[r], type, ranks, r, &uses[way < 3 ? way : (way + r) % 3], 3);
            memset(got, 0, sizeof got);
            run_steps(k, ranks, got, seen + 1);
            for (int r = 0; r < ranks; r++) {
                if (memcmp(got[r][0], want[0][0], 9 * OUT * 4) || memcmp(got[r][1], want[0][1], 2 * OUT * 4))
                    fail_msg("%s, %d ranks, way %d: rank %d differs", dtype_info[type].name, ranks, way, r);
                close_rank(&k[r]);
            }
            assert_memory_equal(seen[0], seen[1], 9 * DIM * 4);
        }
}

static void ranks_give_the_bits_of_the_whole(void **unused)
{
    (void)unused;
    compare_ranks(DTYPE_Q8_0);   /* codes in blocks of 32 */
    compare_ranks(DTYPE_Q4_B64); /* of 64 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_of_codes_make_a_whole),
                                       cmocka_unit_test(ranks_give_the_bits_of_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
