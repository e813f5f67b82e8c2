/* t_cpu_kernels.c - every op on every instruction set against the C reference, bit for bit, and the reference against
 * double precision. */
#include "rig.h"

#include "base/file.h"
#include "base/fmath.h"
#include "cpu/chunk_steal.h"

#include <ctype.h>
#include <unistd.h>
#include <sched.h>

static char what[200];

/* ---- MATMUL */

static void matmul_case(dtype type, int rows, int n, int k, int shift, bool bias)
{
    rig g;
    rig_open(&g, (uint64_t)rows * (uint64_t)(n + k) * 4);
    g.st.n[AXIS_TOK] = rows;
    op o = {.kind = OP_MATMUL, .in = {rig_act(&g, k), rig_weight(&g, type, n, k, shift)}, .out = rig_act(&g, n)};
    if (bias) o.in[2] = rig_const(&g, n);
    for (int way = 0; way < (rows == 1 ? FETCH_WAYS : 1); way++) {
        memset(g.held[0].way, way, sizeof g.held[0].way);
        snprintf(what, sizeof what, "matmul %s, %d rows, %d x %d, shift %d, bias %d, fetched by way %d",
                 dtype_info[type].name, rows, n, k, shift, bias, way);
        rig_same(&g, &o, what);
    }
    float *row = mem_array((size_t)k, 4);
    assert_non_null(row);
    for (int j = 0; j < n; j += 1 + n / 7) {
        held_row(&g.held[0], j, row);
        for (int m = 0; m < rows; m += 1 + rows / 5) {
            double s = bias ? g.t[o.in[2]].data[j] : 0, size = 1;
            for (int i = 0; i < k; i++) {
                double term = (double)row[i] * rig_at(&g, o.in[0])[m * k + i];
                s += term;
                size += fabs(term);
            }
            if (fabs(s - rig_at(&g, o.out)[m * n + j]) > 2e-7 * size) fail_msg("%s: wrong value", what);
        }
    }
    mem_free(row);
    rig_close(&g);
}

static void matmul_equals_the_reference(void **unused)
{
    (void)unused;
    static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (int t = 0; t < 3; t++) {
        for (int rows = 1; rows <= 16; rows++)
            matmul_case(types[t], rows, 13 + rows, 40 + 3 * rows, t ? 2 * rows % 4 : 0, rows % 2);
        matmul_case(types[t], 1, 1, 1, 0, true);
        matmul_case(types[t], 7, 1, 5, 0, false);
        matmul_case(types[t], 70, 33, 1100, t ? 2 : 4, true);
        matmul_case(types[t], 200, 26, 530, t ? 6 : 4, false);
    }
    static const dtype others[] = {DTYPE_F64, DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_I8};
    for (int t = 0; t < 4; t++) {
        matmul_case(others[t], 1, 17, 96, 1, true);
        matmul_case(others[t], 5, 9, 64, 3, false);
        matmul_case(others[t], 19, 30, 608, 0, true);
    }
}

/* ---- rows and elements */

static void norms_equal_the_reference(void **unused)
{
    (void)unused;
    static const int widths[] = {1, 5, 16, 31, 64, 100, 257};
    for (int w = 0; w < 7; w++)
        for (int form = 0; form < 20; form++) {
            rig g;
            int groups = 1 + form % 3, width = widths[w], rows[] = {5}, last[] = {4};
            const bool l2 = form == 16, size = form == 18, above = form > 18;
            rig_open(&g, 200000);
            rig_sequences(&g, 1, rows, last);
            op o = {.kind = OP_NORM,
                    .u.norm = {.eps = 1e-5f,
                               .kind = l2         ? NORM_L2
                                       : size     ? NORM_SIZE
                                       : above    ? NORM_ABOVE
                                       : form & 1 ? NORM_LAYER
                                                  : NORM_RMS,
                               .width = width}};
            if (above) o.u.norm.eps = -0.7f;
            o.in[0] = rig_act(&g, width * groups);
            if (form & 2) o.in[1] = rig_const(&g, form & 8 ? width * groups : width);
            if (form & 4) o.in[2] = rig_const(&g, width);
            o.out = form == 9 ? o.in[0] : rig_act(&g, width * groups);
            snprintf(what, sizeof what, "norm width %d form %d", width, form);
            const float *x = rig_at(&g, o.in[0]) + width * groups; /* second row, first group */
            double mean = 0, var = 0;
            for (int i = 0; i < width; i++) mean += x[i] / (double)width;
            if (!(form & 1)) mean = 0;
            for (int i = 0; i < width; i++) var += (x[i] - mean) * (x[i] - mean) / width;
            double want = (x[width - 1] - mean) / (l2 ? sqrt(var * width) : sqrt(var + 1e-5f));
            if (size) want = sqrt(var);
            if (above) want = x[width - 1] - mean + 0.7f * sqrt(var);
            if (form & 2) want *= g.t[o.in[1]].data[width - 1];
            if (form & 4) want += g.t[o.in[2]].data[width - 1];
            rig_same(&g, &o, what);
            float got = rig_at(&g, o.out)[width * groups + width - 1];
            if (fabs(got - want) > 3e-6 * (1 + fabs(want))) fail_msg("%s: %g, not %g", what, (double)got, want);
            rig_close(&g);
        }
}

static double act_double(act_kind fn, double x)
{
    switch (fn) {
    case ACT_SILU: return x / (1 + exp(-x));
    case ACT_GELU: return 0.5 * x * (1 + erf(x / sqrt(2)));
    case ACT_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case ACT_GELU_QUICK: return x / (1 + exp(-1.702 * x));
    case ACT_RELU: return x > 0 ? x : 0;
    case ACT_RELU2: return x > 0 ? x * x : 0;
    case ACT_EXP_REST: return x < 0 ? expm1(x) - x : 0;
    case ACT_SIGMOID: return 1 / (1 + exp(-x));
    case ACT_TANH: return tanh(x);
    case ACT_SOFTPLUS: return x > 30 ? x : log1p(exp(x));
    case ACT_NONE:
    case ACT_COUNT: break;
    }
    return x;
}

/* Every function over floats of all sizes, signs, infinities and zeros. */
static void activations_equal_the_reference(void **unused)
{
    (void)unused;
    for (int fn = 0; fn < ACT_COUNT; fn++) {
        rig g;
        int rows[] = {40}, last[] = {39}, n = 1111;
        rig_open(&g, 600000);
        rig_sequences(&g, 1, rows, last);
        op o = {.kind = OP_ACT, .u.act = {fn}, .in = {rig_act(&g, n)}, .out = rig_act(&g, n)};
        float *x = rig_at(&g, o.in[0]);
        for (int i = 0; i < 40 * n; i++) {
            x[i] = i % 3 ? x[i] * (float)(i % 31) : bits_float(rig_random() << 16 ^ rig_random());
            if (isnan(x[i])) x[i] = i % 2 ? 0.0f : -0.0f;
        }
        snprintf(what, sizeof what, "act %s", act_name[fn]);
        rig_same(&g, &o, what);
        for (int i = 0; i < 40 * n; i++) {
            double want = act_double(fn, x[i]), got = rig_at(&g, o.out)[i];
            if (fabsf(x[i]) < 1e6f && fabs(got - want) > 1e-44 + 4e-7 * (fabs(want) + fmin(1, fabs((double)x[i]))))
                fail_msg("%s(%g) = %g, not %g", what, (double)x[i], got, want);
        }
        rig_close(&g);
    }
}

static void elementwise_equals_the_reference(void **unused)
{
    (void)unused;
    static const uint8_t kinds[] = {OP_MUL, OP_ADD, OP_SCALE, OP_SOFTCAP, OP_CLAMP};
    for (int k = 0; k < 5; k++)
        for (int form = 0; form < 12; form++) {
            rig g;
            int rows[] = {1 + form}, last[] = {20}, n = (int[]){1, 16, 37, 256}[form % 4];
            rig_open(&g, 200000);
            rig_sequences(&g, 1, rows, last);
            op o = {.kind = kinds[k], .in = {rig_act(&g, n)}};
            if (k < 2) o.in[1] = form % 3 ? rig_act(&g, n) : rig_const(&g, n);
            if (k == 2) o.u.scale.factor = 1.7f;
            if (k == 3) o.u.softcap.cap = 0.9f;
            if (k == 4) o.u.clamp.limit = 0.6f;
            o.out = form % 2 ? o.in[0] : rig_act(&g, n);
            snprintf(what, sizeof what, "%s form %d", op_info[kinds[k]].name, form);
            rig_same(&g, &o, what);
            rig_close(&g);
        }
}

static void rope_equals_the_reference(void **unused)
{
    (void)unused;
    static const int shapes[][3] = {{64, 64, 4}, {80, 32, 3}, {20, 20, 2}, {96, 40, 1}, {128, 128, 2}, {6, 2, 5}};
    for (int i = 0; i < 12; i++) {
        rig g;
        err e = {0};
        const int *s = shapes[i / 2];
        int rows[] = {3, 1, 9}, last[] = {50, 0, 8};
        rig_open(&g, 200000);
        rig_sequences(&g, 3, rows, last);
        rope_params p = {.scaling = ROPE_NONE, .dims = s[1], .theta = 10000};
        assert_ok(rope_init(&g.ropes[0], &p, 64, &e), &e);
        assert_ok(rope_fill(&g.ropes[0], &e), &e);
        op o = {.kind = OP_ROPE,
                .u.rope = {.dims = s[1], .style = i % 2 ? ROPE_NEIGHBOURS : ROPE_HALVES, .width = s[0]}};
        o.in[0] = rig_act(&g, s[0] * s[2]);
        o.out = i % 3 ? rig_act(&g, s[0] * s[2]) : o.in[0];
        float x[2] = {rig_at(&g, o.in[0])[0], rig_at(&g, o.in[0])[i % 2 ? 1 : s[1] / 2]};
        snprintf(what, sizeof what, "rope %d of %d, style %d", s[1], s[0], i % 2);
        rig_same(&g, &o, what);
        double want = x[0] * cos(48) - x[1] * sin(48); /* the first row is at position 48 */
        assert_true(fabs(rig_at(&g, o.out)[0] - want) < 1e-5);
        rope_close(&g.ropes[0]);
        rig_close(&g);
    }
}

/* ---- tables and copies */

static void embed_and_take_out(void **unused)
{
    (void)unused;
    static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    for (int t = 0; t < 3; t++) {
        rig g;
        float vec[2 * 64];
        int rows[] = {7}, last[] = {9};
        for (int i = 0; i < 2 * 64; i++) vec[i] = (float)i;
        rig_open(&g, 20000);
        rig_sequences(&g, 1, rows, last);
        g.st.vec = vec;
        memcpy(g.token, (int[]){3, 0, ~1, 10, 99, INT32_MIN, 11}, 7 * sizeof *g.token);
        g.token[5] = ~0;
        op o = {.kind = OP_EMBED, .in = {rig_weight(&g, types[t], 11, 64, 2)}, .out = rig_act(&g, 64)};
        rig_same(&g, &o, "embed by token");
        float row[64];
        held_row(&g.held[0], 10, row);
        assert_memory_equal(rig_at(&g, o.out) + 3 * 64, row, sizeof row);
        assert_memory_equal(rig_at(&g, o.out) + 2 * 64, vec + 64, sizeof row);
        assert_true(rig_at(&g, o.out)[4 * 64 + 5] == 0 && rig_at(&g, o.out)[6 * 64] == 0);
        o.u.embed.by = EMBED_BY_POSITION;
        o.u.embed.offset = 1;
        rig_same(&g, &o, "embed by position");
        assert_memory_equal(rig_at(&g, o.out) + 6 * 64, row, sizeof row);
        ref fixed = rig_const(&g, 11 * 64); /* a table that is no weight */
        g.t[fixed].rank = 2;
        g.t[fixed].dim[0] = 11;
        g.t[fixed].dim[1] = 64;
        op p = {.kind = OP_EMBED, .in = {fixed}, .out = o.out, .u.embed = {EMBED_BY_POSITION, 1}};
        rig_same(&g, &p, "embed a constant");
        assert_memory_equal(rig_at(&g, o.out) + 6 * 64, g.t[fixed].data + 10 * 64, sizeof row);
        rig_same(&g, &o, "embed by position");
        g.st.n[AXIS_OUT] = 2;
        memcpy(g.wanted, (int[]){1, 6}, 2 * sizeof *g.wanted);
        op k = {.kind = OP_TAKE_OUT, .in = {o.out}, .out = rig_act(&g, 64)};
        g.t[k.out].axis = AXIS_OUT;
        rig_same(&g, &k, "take_out");
        assert_memory_equal(rig_at(&g, k.out) + 64, row, sizeof row);
        rig_close(&g);
    }
}

static void columns_are_copied(void **unused)
{
    (void)unused;
    static const int from[] = {0, 1, 16, 37}, width[] = {64, 63, 20, 1};
    for (int i = 0; i < 4; i++) {
        rig g;
        int rows[] = {5}, last[] = {4};
        rig_open(&g, 20000);
        rig_sequences(&g, 1, rows, last);
        op o = {.kind = OP_COLUMNS, .in = {rig_act(&g, 64)}, .u.columns = {from[i]}};
        o.out = rig_act(&g, width[i]);
        rig_same(&g, &o, "columns");
        for (int r = 0; r < 5; r++)
            assert_memory_equal(rig_at(&g, o.out) + r * width[i], rig_at(&g, o.in[0]) + r * 64 + from[i],
                                (size_t)width[i] * sizeof(float));
        rig_close(&g);
    }
}

static void columns_come_in_any_order(void **unused)
{
    (void)unused;
    static const float order[] = {3, 0, 63, 3, 17};
    rig g;
    int rows[] = {5}, last[] = {4};
    rig_open(&g, 20000);
    rig_sequences(&g, 1, rows, last);
    op o = {.kind = OP_COLUMNS, .in = {rig_act(&g, 64), rig_const(&g, 5)}};
    o.out = rig_act(&g, 5);
    memcpy((float *)g.t[o.in[1]].data, order, sizeof order);
    rig_same(&g, &o, "columns in order");
    for (int r = 0; r < 5; r++)
        for (int k = 0; k < 5; k++)
            assert_true(rig_at(&g, o.out)[r * 5 + k] == rig_at(&g, o.in[0])[r * 64 + (int)order[k]]);
    rig_close(&g);
}

static void pooled_rows(void **unused)
{
    (void)unused;
    static const int widths[] = {1, 16, 37, 130}, rows[] = {4, 1, 9}, last[] = {3, 0, 8};
    for (int w = 0; w < 4; w++)
        for (int how = POOL_FIRST; how <= POOL_LAST; how++) {
            rig g;
            int dim = widths[w];
            rig_open(&g, 60000);
            rig_sequences(&g, 3, rows, last);
            g.st.pool = (int32_t[]){0, 2};
            g.st.n[AXIS_SEQ] = 2;
            op o = {.kind = OP_POOL, .in = {rig_act(&g, dim)}, .out = rig_act(&g, dim), .u.pool.how = how};
            g.t[o.out].axis = AXIS_SEQ;
            snprintf(what, sizeof what, "pool %d of width %d", how, dim);
            rig_same(&g, &o, what);
            const float *x = rig_at(&g, o.in[0]) + 5 * dim, *y = rig_at(&g, o.out) + dim; /* third sequence */
            for (int k = 0; k < dim; k++) {
                double mean = 0;
                for (int i = 0; i < 9; i++) mean += x[i * dim + k] / 9.0;
                double want = how == POOL_FIRST ? x[k] : how == POOL_LAST ? x[8 * dim + k] : mean;
                if (fabs(y[k] - want) > 1e-6) fail_msg("%s: %g, not %g", what, (double)y[k], want);
            }
            rig_close(&g);
        }
}

/* The last row that is no padding; the first where all are. */
static void padded_rows(void **unused)
{
    (void)unused;
    enum { PAD = 7, DIM = 37 };
    static const int rows[] = {4, 3, 2}, last[] = {3, 2, 1}, want[] = {1, 4, 8};
    rig g;
    rig_open(&g, 60000);
    rig_sequences(&g, 3, rows, last);
    g.st.tok.token = (int32_t[]){PAD, 3, PAD, PAD, PAD, PAD, PAD, PAD, 5};
    g.st.pool = (int32_t[]){0, 1, 2};
    g.st.n[AXIS_SEQ] = 3;
    op o = {.kind = OP_POOL, .in = {rig_act(&g, DIM)}, .out = rig_act(&g, DIM), .u.pool = {POOL_LAST, PAD + 1}};
    g.t[o.out].axis = AXIS_SEQ;
    rig_same(&g, &o, "pool without padding");
    for (int i = 0; i < 3; i++)
        assert_memory_equal(rig_at(&g, o.out) + i * DIM, rig_at(&g, o.in[0]) + want[i] * DIM, DIM * sizeof(float));
    rig_close(&g);
}

/* ---- keys, values, attention */

typedef struct attn_case {
    int heads, kv, k_dim, v_dim, window, bias;
    float softcap;
    dtype k_type, v_type;
    int n_seq, rows[4], last[4];
    int ahead, chunk, cross[4]; /* cross: keys of another axis for each sequence */
    bool sinks;
    int sides; /* BIAS_PLACES: 1: rows have places, 2: keys have, 3: both */
} attn_case;

static const attn_case attn_cases[] = {
    {1, 1, 16, 16, 0, BIAS_NONE, 0, DTYPE_F32, DTYPE_F32, 1, {1}, {0}},
    {8, 1, 64, 64, 0, BIAS_NONE, 0, DTYPE_F16, DTYPE_F16, 1, {1}, {700}},
    {8, 2, 64, 64, 0, BIAS_NONE, 0, DTYPE_F32, DTYPE_F32, 3, {1, 1, 1}, {1300, 3, 511}},
    {6, 6, 20, 20, 0, BIAS_NONE, 0, DTYPE_F16, DTYPE_F32, 2, {5, 1}, {64, 63}},
    {14, 2, 33, 17, 0, BIAS_ALIBI, 0, DTYPE_F32, DTYPE_F16, 2, {9, 70}, {135, 69}},
    {4, 2, 32, 48, 0, BIAS_ALIBI_BF16, 0, DTYPE_F32, DTYPE_F32, 1, {30}, {600}},
    {6, 3, 64, 128, 13, BIAS_NONE, 0, DTYPE_F16, DTYPE_F16, 2, {70, 1}, {200, 30}},
    {4, 4, 24, 24, 100, BIAS_NONE, 5, DTYPE_F32, DTYPE_F32, 2, {40, 3}, {139, 1100}},
    {60, 1, 16, 16, 0, BIAS_NONE, 0.5f, DTYPE_F32, DTYPE_F32, 1, {3}, {530}},
    {2, 1, 8, 8, 1, BIAS_NONE, 0, DTYPE_F32, DTYPE_F32, 1, {80}, {79}},
    {9, 3, 128, 128, 600, BIAS_ALIBI, 0, DTYPE_F16, DTYPE_F16, 4, {1, 2, 1, 33}, {1500, 700, 5, 1060}},
    {6, 3, 32, 32, 0, BIAS_NONE, 0, DTYPE_F32, DTYPE_F32, 3, {70, 1, 100}, {69, 0, 699}, .ahead = AHEAD_ALL},
    {4, 4, 24, 24, 33, BIAS_NONE, 0, DTYPE_F32, DTYPE_F32, 2, {200, 40}, {199, 39}, .ahead = 32},
    {4, 4, 16, 16, 0, BIAS_ALIBI, 0, DTYPE_F32, DTYPE_F16, 1, {130}, {129}, .ahead = AHEAD_ALL},
    {4, 2, 16, 32, 0, BIAS_NONE, 0, DTYPE_F16, DTYPE_F32, 2, {150, 7}, {299, 130}, .chunk = 48},
    {4, 4, 16, 16, 0, BIAS_NONE, 0, DTYPE_F32, DTYPE_F32, 3, {5, 1, 90}, {4, 9, 89}, AHEAD_ALL, .cross = {1, 700, 64}},
    {6, 6, 16, 16, 0, BIAS_BUCKETS, 0, DTYPE_F32, DTYPE_F32, 2, {150, 1}, {149, 0}, .ahead = AHEAD_ALL},
    {3, 3, 20, 20, 0, BIAS_BUCKETS, 0, DTYPE_F32, DTYPE_F16, 2, {9, 1}, {80, 600}},
    {10, 2, 32, 32, 70, BIAS_NONE, 0, DTYPE_F16, DTYPE_F16, 2, {80, 1}, {180, 900}, .sinks = true},
    {8, 1, 64, 64, 0, BIAS_NONE, 0, DTYPE_Q8_B64, DTYPE_Q8_B64, 1, {1}, {700}},
    {8, 2, 64, 64, 0, BIAS_NONE, 0, DTYPE_Q4_B32, DTYPE_Q4_B32, 3, {1, 1, 1}, {1300, 3, 511}},
    {6, 6, 20, 20, 0, BIAS_NONE, 0, DTYPE_Q8_B64, DTYPE_Q4_B32, 2, {5, 1}, {64, 63}},
    {14, 2, 33, 17, 0, BIAS_ALIBI, 0, DTYPE_Q4_B32, DTYPE_Q8_B64, 2, {9, 70}, {135, 69}},
    {6, 3, 72, 136, 13, BIAS_NONE, 0, DTYPE_Q8_B64, DTYPE_Q8_B64, 2, {70, 1}, {200, 30}},
    {4, 1, 200, 176, 0, BIAS_NONE, 0, DTYPE_Q4_B32, DTYPE_Q4_B32, 1, {3}, {77}},
    {9, 3, 128, 128, 600, BIAS_ALIBI, 0, DTYPE_Q8_B64, DTYPE_Q8_B64, 4, {1, 2, 1, 33}, {1500, 700, 5, 1060}},
    {60, 1, 8, 8, 0, BIAS_NONE, 0.5f, DTYPE_Q4_B32, DTYPE_Q4_B32, 1, {3}, {530}},
    {4, 4, 1, 3, 33, BIAS_NONE, 0, DTYPE_Q8_B64, DTYPE_Q8_B64, 2, {200, 40}, {199, 39}, .ahead = 32},
    {4, 4, 16, 16, 0, BIAS_NONE, 0, DTYPE_Q8_B64, DTYPE_Q4_B32, 2, {5, 90}, {4, 89}, AHEAD_ALL, .cross = {9, 700}},
    {6, 6, 16, 16, 0, BIAS_BUCKETS, 0, DTYPE_Q4_B32, DTYPE_Q8_B64, 2, {150, 1}, {149, 0}, .ahead = AHEAD_ALL},
    {10, 2, 32, 32, 70, BIAS_NONE, 0, DTYPE_Q8_B64, DTYPE_Q8_B64, 2, {80, 1}, {180, 900}, .sinks = true},
    {10, 2, 96, 32, 0, BIAS_NONE, 0, DTYPE_F16, DTYPE_Q8_B64, 1, {80}, {180}},
    {8, 1, 64, 64, 0, BIAS_NONE, 0, DTYPE_I16, DTYPE_I16, 1, {1}, {700}},
    {8, 2, 64, 64, 0, BIAS_NONE, 0, DTYPE_I16, DTYPE_I16, 3, {1, 1, 1}, {1300, 3, 511}},
    {6, 6, 20, 20, 0, BIAS_NONE, 0, DTYPE_I16, DTYPE_F32, 2, {5, 1}, {64, 63}},
    {14, 2, 33, 17, 0, BIAS_ALIBI, 0, DTYPE_I16, DTYPE_I16, 2, {9, 70}, {135, 69}},
    {6, 3, 72, 136, 13, BIAS_NONE, 0, DTYPE_I16, DTYPE_I16, 2, {70, 1}, {200, 30}},
    {4, 2, 48, 48, 0, BIAS_ALIBI_BF16, 0, DTYPE_I16, DTYPE_I16, 1, {30}, {600}},
    {9, 3, 128, 128, 600, BIAS_ALIBI, 0, DTYPE_I16, DTYPE_I16, 4, {1, 2, 1, 33}, {1500, 700, 5, 1060}},
    {16, 1, 576, 512, 0, BIAS_NONE, 0, DTYPE_I16, DTYPE_I16, 2, {5, 1}, {70, 130}},
    {60, 1, 8, 8, 0, BIAS_NONE, 0.5f, DTYPE_I16, DTYPE_I16, 1, {3}, {530}},
    {4, 4, 1, 3, 33, BIAS_NONE, 0, DTYPE_I16, DTYPE_I16, 2, {200, 40}, {199, 39}, .ahead = 32},
    {4, 4, 16, 16, 0, BIAS_NONE, 0, DTYPE_I16, DTYPE_I16, 2, {5, 90}, {4, 89}, .ahead = AHEAD_ALL, .cross = {9, 700}},
    {6, 6, 16, 16, 0, BIAS_BUCKETS, 0, DTYPE_I16, DTYPE_I16, 2, {150, 1}, {149, 0}, .ahead = AHEAD_ALL},
    {10, 2, 32, 32, 70, BIAS_NONE, 0, DTYPE_I16, DTYPE_I16, 2, {80, 1}, {180, 900}, .sinks = true},
    {10, 2, 96, 32, 0, BIAS_NONE, 0, DTYPE_I16, DTYPE_Q8_B64, 1, {80}, {180}},
    {10, 2, 96, 32, 0, BIAS_NONE, 0, DTYPE_Q4_B32, DTYPE_I16, 1, {80}, {180}},
    {10, 2, 96, 32, 0, BIAS_NONE, 0, DTYPE_F32, DTYPE_I16, 1, {80}, {180}},
    {6,
     6,
     16,
     16,
     0,
     BIAS_PLACES,
     0,
     DTYPE_F32,
     DTYPE_F32,
     3,
     {150, 1, 3},
     {149, 0, 2},
     .ahead = AHEAD_ALL,
     .sides = 3},
    {3, 3, 20, 28, 0, BIAS_PLACES, 0, DTYPE_F16, DTYPE_F32, 2, {3, 70}, {2, 69}, .ahead = AHEAD_ALL, .sides = 1},
    {5, 5, 33, 17, 0, BIAS_PLACES, 0, DTYPE_F32, DTYPE_F16, 2, {70, 9}, {69, 8}, .ahead = AHEAD_ALL, .sides = 2},
    {6, 6, 64, 64, 0, BIAS_PLACES, 0, DTYPE_Q8_B64, DTYPE_Q8_B64, 2, {100, 1}, {99, 0}, .ahead = AHEAD_ALL, .sides = 3},
    {4, 4, 32, 32, 0, BIAS_PLACES, 0, DTYPE_I16, DTYPE_I16, 2, {1, 90}, {0, 89}, .ahead = AHEAD_ALL, .sides = 3},
    {4, 2, 16, 16, 0, BIAS_PLACES, 0, DTYPE_Q4_B32, DTYPE_F32, 1, {90}, {89}, .ahead = AHEAD_ALL, .sides = 3},
};

enum { REACH = 20, BUCKETS = 7 };

/* Any table will do: buckets of both signs, more of near distances. */
static int bucket_of(int d) { return (d < 0 ? 0 : 3) + (abs(d) > 2) + (abs(d) > 9) + (d > 15); }

/* What rows and keys have for the place of key j, BUCKETS places a head. */
static double places_of(const rig *g, const attn_case *c, const op *o, int row, int h, int d)
{
    const int place = bucket_of(d < -REACH ? -REACH : d > REACH ? REACH : d), width = c->heads * BUCKETS;
    double sum = 0;
    for (int side = 0; side < 2; side++) {
        const ref t = o->in[side ? ATTN_KEY_PLACES : ATTN_OWN_PLACES];
        const float *x = (float *)(g->act + g->t[t].off);
        if (t) sum += (double)x[(row + (side ? d : 0)) * width + h * BUCKETS + place];
    }
    return sum;
}

/* The head `h` of row `row` in double precision, straight from the formula. */
static void attn_double(const rig *g, const attn_case *c, const op *o, const float *slopes, int row, int h, double *out)
{
    const kv_store *s = &g->kv[0];
    static double score[RIG_PAGES * PAGE_TOKENS];
    int own = g->pos[row], kv = h / (c->heads / c->kv), least = c->window && own >= c->window ? own - c->window + 1 : 0;
    int length = c->cross[0] ? c->cross[g->seq[row]] : g->seq_len[g->seq[row]], last = own;
    if (c->ahead) last = c->ahead == AHEAD_ALL || own + c->ahead >= length ? length - 1 : own + c->ahead;
    while (c->chunk && least < own - own % c->chunk) least++;
    double max = c->sinks ? (double)g->t[o->in[ATTN_SINKS]].data[h] : -1e300, sum = c->sinks ? exp(0) : 0;
    for (int i = 0; i < c->v_dim; i++) out[i] = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int j = least; j <= last; j++) {
            int page = g->page[g->seq[row] * RIG_PAGES + j / PAGE_TOKENS], at = j % PAGE_TOKENS;
            uint8_t *keys = kv_tile(s, false, page, kv), *values = kv_tile(s, true, page, kv);
            if (pass == 0) {
                double dot = 0;
                for (int i = 0; i < c->k_dim; i++) {
                    dot += (double)rig_cached(s, false, keys, at, i) *
                           (double)((float *)(g->act + g->t[o->in[0]].off))[(row * c->heads + h) * c->k_dim + i];
                }
                if (c->bias == BIAS_ALIBI_BF16)
                    dot += bf16_to_f32(
                        f32_to_bf16(bf16_to_f32(f32_to_bf16(slopes[h])) * bf16_to_f32(f32_to_bf16((float)j))));
                if (c->sides) dot += places_of(g, c, o, row, h, j - own);
                dot *= (double)o->u.attn.scale;
                if (c->softcap != 0) dot = (double)c->softcap * tanh(dot / (double)c->softcap);
                if (c->bias == BIAS_ALIBI) dot -= (double)slopes[h] * abs(j - own);
                if (c->bias == BIAS_BUCKETS) {
                    int d = j - own < -REACH ? -REACH : j - own > REACH ? REACH : j - own;
                    dot += (double)slopes[bucket_of(d) * c->heads + h];
                }
                score[j] = dot;
                if (dot > max) {
                    sum *= exp(max - dot);
                    max = dot;
                }
            } else {
                double e = exp(score[j] - max);
                sum += e;
                for (int i = 0; i < c->v_dim; i++) out[i] += e * (double)rig_cached(s, true, values, at, i);
            }
        }
    for (int i = 0; i < c->v_dim; i++) out[i] /= sum;
}

/* The tolerance of a result. Queries and weights are quantized too where the cache is: half a step of 127, and of 255
 * for each of up to 64 keys; of i16 weights are as near as a parabola, and queries of long heads have few steps. */
static double attn_near(const attn_case *c)
{
    if (c->k_type == DTYPE_Q8_B64 || c->k_type == DTYPE_Q4_B32) return 0.04;
    if (c->v_type == DTYPE_Q8_B64 || c->v_type == DTYPE_Q4_B32) return 0.02;
    return c->k_type == DTYPE_I16 || c->v_type == DTYPE_I16 ? 0.004 : 1e-5;
}

static void attention_equals_the_reference(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof attn_cases / sizeof *attn_cases; i++) {
        const attn_case *c = &attn_cases[i];
        rig g;
        int pages = 0, rows = 0;
        for (int s = 0; s < c->n_seq; s++) {
            rows += c->rows[s];
            int end = c->last[s] > c->cross[s] ? c->last[s] : c->cross[s];
            if (end / PAGE_TOKENS + 1 > pages) pages = end / PAGE_TOKENS + 1;
        }
        const int places = c->sides ? 2 * c->heads * BUCKETS : 0;
        rig_open(&g, (uint64_t)rows * (uint64_t)((c->heads + c->kv) * (c->k_dim + c->v_dim) + places) * 4);
        rig_sequences(&g, c->n_seq, c->rows, c->last);
        rig_cache(&g, c->kv, c->k_dim, c->v_dim, c->k_type, c->v_type, pages * c->n_seq);
        op put = {.kind = OP_KV_PUT, .in = {rig_act(&g, c->kv * c->k_dim), rig_act(&g, c->kv * c->v_dim)}};
        snprintf(what, sizeof what, "kv_put case %d", (int)i);
        rig_same(&g, &put, what);
        if (c->cross[0]) {
            g.states[0].axis = AXIS_ENC;
            g.st.enc.seq_len = c->cross;
        }
        op o = {.kind = OP_ATTN,
                .u.attn = {.scale = 1 / sqrtf((float)c->k_dim),
                           .softcap = c->softcap,
                           .heads = c->heads,
                           .window = c->window,
                           .ahead = c->ahead,
                           .chunk = c->chunk,
                           .bias = c->bias}};
        o.in[0] = rig_act(&g, c->heads * c->k_dim);
        bool buckets = c->bias == BIAS_BUCKETS, slopes = c->bias && !buckets && !c->sides;
        if (c->sides & 1) o.in[ATTN_OWN_PLACES] = rig_act(&g, c->heads * BUCKETS);
        else if (c->bias && !c->sides) o.in[ATTN_BIAS] = rig_const(&g, buckets ? BUCKETS * c->heads : c->heads);
        if (c->sides & 2) o.in[ATTN_KEY_PLACES] = rig_act(&g, c->heads * BUCKETS);
        for (int h = 0; slopes && h < c->heads; h++)
            ((float *)g.t[o.in[ATTN_BIAS]].data)[h] = powf(2, -8.0f * (float)(h + 1) / (float)c->heads);
        if (buckets || c->sides) o.in[ATTN_TABLE] = rig_const(&g, 2 * REACH + 1);
        for (int d = -REACH; o.in[ATTN_TABLE] && d <= REACH; d++)
            ((float *)g.t[o.in[ATTN_TABLE]].data)[d + REACH] = (float)bucket_of(d);
        if (c->sinks) o.in[ATTN_SINKS] = rig_sinks(&g, c->heads);
        o.out = rig_act(&g, c->heads * c->v_dim);
        snprintf(what, sizeof what, "attn case %d", (int)i);
        rig_same(&g, &o, what);
        double near = attn_near(c);
        for (int row = 0; row < rows; row += 1 + rows / 9)
            for (int h = 0; h < c->heads; h += 1 + c->heads / 3) {
                double want[512];
                attn_double(&g, c, &o, o.in[ATTN_BIAS] ? g.t[o.in[ATTN_BIAS]].data : NULL, row, h, want);
                for (int d = 0; d < c->v_dim; d++)
                    if (fabs(want[d] - rig_at(&g, o.out)[(row * c->heads + h) * c->v_dim + d]) > near)
                        fail_msg("%s: row %d head %d wrong", what, row, h);
            }
        rig_close(&g);
    }
}

/* An unseen key changes nothing, whatever its memory holds: infinities and NaN after the last row and outside the
 * window change nothing. */
static void ignores(dtype type)
{
    rig g;
    int rows[] = {9}, last[] = {150}, window = 70, dim = 32;
    rig_open(&g, 100000);
    rig_sequences(&g, 1, rows, last);
    rig_cache(&g, 2, dim, dim, type, type, 3);
    op o = {.kind = OP_ATTN,
            .u.attn = {.scale = 0.2f, .heads = 10, .window = window},
            .in = {rig_act(&g, 10 * dim)},
            .out = rig_act(&g, 10 * dim)};
    rig_same(&g, &o, "attn, clean cache");
    float *clean = mem_array(9 * 10 * 32, 4), bad[32];
    for (int d = 0; d < dim; d++) bad[d] = d % 2 ? NAN : INFINITY;
    memcpy(clean, rig_at(&g, o.out), 9 * 10 * 32 * 4);
    const kv_store *s = &g.kv[0];
    for (int i = 0; i < 3 * PAGE_TOKENS; i++) {
        int at = i % PAGE_TOKENS;
        if (i <= 150 && i > 150 - 8 - window) continue;
        for (int h = 0; h < 2; h++) {
            uint8_t *keys = kv_tile(s, false, i / PAGE_TOKENS, h), *values = kv_tile(s, true, i / PAGE_TOKENS, h);
            kv_codes kf = kv_codes_of(type, dim, false), vf = kv_codes_of(type, dim, true);
            if (kv_is_codes(type)) {
                kv_token_put(&kf, keys, false, bad, dim, at);
                kv_token_put(&vf, values, true, bad, dim, at);
                continue;
            }
            for (int d = 0; d < dim; d++)
                ((float *)keys)[d * PAGE_TOKENS + at] = ((float *)values)[at * dim + d] = bad[d];
        }
    }
    rig_same(&g, &o, "attn, dirty cache");
    assert_memory_equal(clean, rig_at(&g, o.out), 9 * 10 * 32 * 4);
    mem_free(clean);
    rig_close(&g);
}

static void attention_ignores_what_it_does_not_see(void **unused)
{
    (void)unused;
    ignores(DTYPE_F32);
    ignores(DTYPE_Q8_B64);
    ignores(DTYPE_Q4_B32);
    ignores(DTYPE_I16);
}

/* The maximum sums of i16: all elements equal to their scale, all scores the same. An overflow of 32 bits would
 * show. */
static void greatest_sums(void **unused)
{
    (void)unused;
    static const int dims[] = {1, 16, 64, 80, 576, 1024};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        rig g;
        int rows[] = {7}, last[] = {130}, dim = dims[i];
        rig_open(&g, 1000000);
        rig_sequences(&g, 1, rows, last);
        rig_cache(&g, 1, dim, dim, DTYPE_I16, DTYPE_I16, 3);
        op o = {.kind = OP_ATTN, .u.attn = {.scale = 0.001f, .heads = 9}, .in = {rig_act(&g, 9 * dim)}};
        o.out = rig_act(&g, 9 * dim);
        const kv_store *s = &g.kv[0];
        const kv_codes kf = kv_codes_of(DTYPE_I16, dim, false), vf = kv_codes_of(DTYPE_I16, dim, true);
        float *key = mem_array((size_t)dim, sizeof *key), *value = mem_array((size_t)dim, sizeof *value);
        for (int d = 0; d < dim; d++) key[d] = -3, value[d] = 5;
        for (int k = 0; k < 3 * PAGE_TOKENS; k++) {
            kv_token_put(&kf, kv_tile(s, false, k / PAGE_TOKENS, 0), false, key, dim, k % PAGE_TOKENS);
            kv_token_put(&vf, kv_tile(s, true, k / PAGE_TOKENS, 0), true, value, dim, k % PAGE_TOKENS);
        }
        for (int d = 0; d < 7 * 9 * dim; d++) rig_at(&g, o.in[0])[d] = d / dim % 2 ? 1.5f : -1.5f;
        rig_same(&g, &o, "greatest sums");
        for (int d = 0; d < 7 * 9 * dim; d++)
            if (fabsf(rig_at(&g, o.out)[d] - 5) > 1e-3f) fail_msg("heads of %d: %g", dim, (double)rig_at(&g, o.out)[d]);
        mem_free(key);
        mem_free(value);
        rig_close(&g);
    }
}

/* ---- dealing chunks */

enum { DEALS = 3000, CHUNKS_MAX = 40 };
static _Atomic uint8_t taken[DEALS][CHUNKS_MAX];

/* Ops of different sizes without a barrier between them, workers that dawdle: each chunk goes to exactly one worker. */
static void deal_worker(void *arg, int worker, int workers)
{
    for (int i = 0; i < DEALS; i++) {
        chunk_steal d = steal_start(arg, worker, workers, i * 7 % CHUNKS_MAX, i % 5 == 0);
        for (int64_t c; (c = steal_next(&d)) >= 0;) {
            taken[i][c]++;
            if ((i + (int)c) % 97 == worker) sched_yield();
        }
    }
}

/* Many ops of one chunk, then a wide one: runs that were empty all the time are not taken for later ones. */
static void narrow_then_wide(void *arg, int worker, int workers)
{
    const run *r = arg;
    for (int i = 0; i <= 40000; i++) {
        chunk_steal d = steal_start(r, worker, workers, i < 40000 ? 1 : CHUNKS_MAX, false);
        if (workers > 1) pool_barrier(r->on->w->team, worker);
        for (int64_t c; (c = steal_next(&d)) >= 0;)
            if (i == 40000) taken[0][c]++;
    }
}

static void empty_runs_stay_fresh(void **unused)
{
    (void)unused;
    rig g;
    err e = {0};
    rig_open(&g, 100);
    g.p.n_weight = g.p.n_state = 0;
    memset((void *)taken, 0, sizeof taken);
    assert_ok(pool_open(&g.set.team, 3, &e), &e);
    assert_ok(cpu_work_open(&g.d.work, &g.p, g.d.max_rows, &g.d.cache, 3, &e), &e);
    pool_run(g.set.team, narrow_then_wide, &g.r);
    for (int i = 0; i < 3; i++)
        narrow_then_wide(&g.r, 0, 1); /* alone, between shared ones: the workers' counts stay together */
    pool_run(g.set.team, narrow_then_wide, &g.r);
    cpu_work_close(&g.d.work);
    pool_close(g.set.team);
    for (int c = 0; c < CHUNKS_MAX; c++) assert_int_equal(taken[0][c], 5);
    rig_close(&g);
}

static void every_chunk_is_dealt_once(void **unused)
{
    (void)unused;
    rig g;
    err e = {0};
    rig_open(&g, 100);
    g.p.n_weight = g.p.n_state = 0;
    for (int workers = 1; workers <= 5; workers++) {
        memset((void *)taken, 0, sizeof taken);
        assert_ok(pool_open(&g.set.team, workers, &e), &e);
        assert_ok(cpu_work_open(&g.d.work, &g.p, g.d.max_rows, &g.d.cache, workers, &e), &e);
        for (int w = 0; w < workers; w++) g.d.work.runs[w].turn = 64000; /* so that turns wrap */
        for (int w = 0; w < workers; w++) g.d.work.runs[w].word = steal_word(64000, 0, 0);
        pool_run(g.set.team, deal_worker, &g.r);
        cpu_work_close(&g.d.work);
        pool_close(g.set.team);
        for (int i = 0; i < DEALS; i++)
            for (int c = 0; c < CHUNKS_MAX; c++) assert_int_equal(taken[i][c], c < i * 7 % CHUNKS_MAX);
    }
    rig_close(&g);
}

/* Where the kernels of each op are compared with its definition. */
static const char *const judged_in[OP_COUNT] = {
    [OP_EMBED] = "t_cpu_kernels",    [OP_NORM] = "t_cpu_kernels",     [OP_MATMUL] = "t_cpu_kernels",
    [OP_QUANT] = "t_cpu_packed",     [OP_ROPE] = "t_cpu_kernels",     [OP_KV_PUT] = "t_cpu_kernels",
    [OP_ATTN] = "t_cpu_kernels",     [OP_ACT] = "t_cpu_kernels",      [OP_MUL] = "t_cpu_kernels",
    [OP_ADD] = "t_cpu_kernels",      [OP_SCALE] = "t_cpu_kernels",    [OP_SOFTCAP] = "t_cpu_kernels",
    [OP_CLAMP] = "t_cpu_kernels",    [OP_TAKE_OUT] = "t_cpu_kernels", [OP_ROUTE] = "t_cpu_experts",
    [OP_DISPATCH] = "t_cpu_experts", [OP_GATHER] = "t_cpu_experts",   [OP_MATMUL_EXP] = "t_cpu_experts",
    [OP_SCATTER] = "t_cpu_experts",  [OP_POOL] = "t_cpu_kernels",     [OP_MATMUL_HEADS] = "t_cpu_experts",
    [OP_JOIN] = "t_cpu_experts",     [OP_CONV] = "t_cpu_conv",        [OP_COLUMNS] = "t_cpu_kernels",
    [OP_RECUR] = "t_cpu_recur",      [OP_COLL] = "t_plan_reduce",
};

/* The text of a test, and of a rig of its name. */
static void read_test(const char *name, buf *text)
{
    char path[80];
    err e = {0};
    snprintf(path, sizeof path, "tests/%s.c", name);
    assert_ok(file_read(text, path, 1 << 20, &e), &e);
    snprintf(path, sizeof path, "tests/%s_rig.h", name + strlen("t_cpu_"));
    if (!strncmp(name, "t_cpu_", strlen("t_cpu_")) && !access(path, R_OK))
        assert_ok(file_read(text, path, 1 << 20, &e), &e);
}

/* An op that is new needs a test: its row here names one, which makes such ops. */
static void every_op_is_judged(void **unused)
{
    (void)unused;
    for (int k = 0; k < OP_COUNT; k++) {
        char id[40] = "OP_";
        buf text = {0};
        if (!judged_in[k]) fail_msg("no test compares kernels of %s with its definition", op_info[k].name);
        for (size_t i = 0; op_info[k].name[i]; i++)
            snprintf(id + 3 + i, sizeof id - 3 - i, "%c", toupper((unsigned char)op_info[k].name[i]));
        read_test(judged_in[k], &text);
        const char *at = buf_cstr(&text), *end = NULL;
        while ((at = strstr(at, id))) { /* not in the table above, nor as the beginning of another name */
            end = at + strlen(id);
            if (!isalnum((unsigned char)*end) && *end != '_' && *end != ']') break;
            at = end;
        }
        if (!at && !(op_info[k].facts & OPF_COLL)) fail_msg("%s makes no %s", judged_in[k], id);
        buf_free(&text);
    }
}

static void every_op_has_a_kernel(void **unused)
{
    (void)unused;
    for (int i = 0; cpu_tables[i]; i++) {
        const cpu_table *t = cpu_tables[i];
        printf("%s: %s\n", t->isa, cpu_kernels_named(t->isa) ? "tested" : "not on this machine");
        for (int k = 0; k < OP_COUNT; k++)
            if (!cpu_kernel(t, k) != ((op_info[k].facts & OPF_COLL) != 0))
                fail_msg("%s: kernel for %s", t->isa, op_info[k].name);
    }
    assert_string_equal(cpu_kernels(0, true)->isa, "c");
#if defined(__x86_64__)
    assert_string_equal(cpu_kernels(CPU_AVX2, true)->isa, "avx2");
    assert_string_equal(cpu_kernels(CPU_AVX2 | CPU_AVXVNNI, true)->isa, "avxvnni");
    assert_string_equal(cpu_kernels(CPU_AVX2 | CPU_AVX512, true)->isa, "avx512");
#elif defined(__aarch64__)
    assert_string_equal(cpu_kernels(CPU_NEON, true)->isa, "neon");
    assert_string_equal(cpu_kernels(CPU_NEON | CPU_DOTPROD, true)->isa, "dotprod");
#endif
    assert_null(cpu_kernels_named("mmx"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_kernel),
        cmocka_unit_test(every_op_is_judged),
        cmocka_unit_test(every_chunk_is_dealt_once),
        cmocka_unit_test(empty_runs_stay_fresh),
        cmocka_unit_test(matmul_equals_the_reference),
        cmocka_unit_test(norms_equal_the_reference),
        cmocka_unit_test(activations_equal_the_reference),
        cmocka_unit_test(elementwise_equals_the_reference),
        cmocka_unit_test(rope_equals_the_reference),
        cmocka_unit_test(embed_and_take_out),
        cmocka_unit_test(columns_are_copied),
        cmocka_unit_test(columns_come_in_any_order),
        cmocka_unit_test(pooled_rows),
        cmocka_unit_test(padded_rows),
        cmocka_unit_test(attention_equals_the_reference),
        cmocka_unit_test(attention_ignores_what_it_does_not_see),
        cmocka_unit_test(greatest_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
