/* ops_matrix.c - mma.sync and ldmatrix: products of small matrices whose elements lie in all lanes' registers.
 *
 * Lane 4 g + q has of A rows g and g + 8, of B column g, of the sums columns 2 q and 2 q + 1; a register holds
 * neighbours of k, from q on by its length. Sums of integers are exact. Sums of floats are where no rounding can
 * happen; where one would, the card's bits are its own, and the launch ends. */
#include "tests/gpu/access.h"
#include "tests/gpu/decode.h"
#include "tests/gpu/soft_float.h"
#include "tests/gpu/warp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { M_MOST = 16, N_ALL = 8, K_MOST = 32 };
enum { TYPE_S8, TYPE_U8, TYPE_F16, TYPE_BF16 };

/* What an mma works on: x has its rows, of d, a, b, c by turns. */
typedef struct shape {
    int m, k, n_a, n_b, n_d, element; /* registers; bytes of an element */
} shape;

static shape shape_of(const inst *in)
{
    const int m = in->n & 31, k = (int)in->imm & 255, element = (in->mode & 3) < TYPE_F16 ? 1 : 2;
    return (shape){m, k, m * k * element / 128, 8 * k * element / 128, m / 4, element};
}

static double element_at(uint32_t word, int i, int type)
{
    switch (type) {
    case TYPE_S8: return (int8_t)(word >> 8 * i);
    case TYPE_U8: return (uint8_t)(word >> 8 * i);
    case TYPE_F16: return f16_value(word >> 16 * i & 0xffff);
    default: return bf16_value(word >> 16 * i & 0xffff);
    }
}

/* Rows of registers as a matrix: line by line of k. */
static void gather(const warp *w, const int32_t *x, int n, const shape *s, int type, bool b, double *to)
{
    const int each = 4 / s->element;
    for (int r = 0; r < n; r++) {
        const uint32_t *words = row(w, x[r]);
        const int down = b ? 0 : 8 * (s->m == 16 ? r & 1 : 0), along = 4 * each * (b || s->m == 8 ? r : r >> 1);
        for (int l = 0; l < LANES; l++)
            for (int i = 0; i < each; i++)
                to[(l / 4 + down) * K_MOST + l % 4 * each + along + i] = element_at(words[l], i, type);
    }
}

/* The sum of products and c, where no adder of 24 bits or more could lose anything; false where it could. */
static bool exact_sum(const double *a, const double *b, int k, double c, float *sum)
{
    double all = c, most = fabs(c), unit = INFINITY;
    for (int i = -1; i < k; i++) {
        const double t = i < 0 ? c : a[i] * b[i];
        int e;
        if (i >= 0) all += t;
        if (!isfinite(t) || t == 0) continue;
        if (fabs(t) > most) most = fabs(t);
        const uint64_t mantissa = (uint64_t)ldexp(frexp(fabs(t), &e), 53);
        const double low = ldexp(1, e - 53 + __builtin_ctzll(mantissa));
        if (low < unit) unit = low;
    }
    *sum = (float)all;
    return !isfinite(all) || ((double)*sum == all && most < ldexp(unit, 24));
}

static void put_float(warp *w, const inst *in, int at, int l, const double *a, const double *b, int k)
{
    const shape s = shape_of(in);
    const float c = ((const float *)row(w, in->x[s.n_d + s.n_a + s.n_b + at]))[l];
    float sum;
    if (!exact_sum(a, b, k, c, &sum)) machine_fault(w, l, FAULT_LAUNCH, "a sum of floats that has to be rounded");
    ((float *)row_set(w, in->x[at]))[l] = sum;
}

static void put_int(warp *w, const inst *in, int at, int l, const double *a, const double *b, int k)
{
    const shape s = shape_of(in);
    int64_t sum = (int32_t)row(w, in->x[s.n_d + s.n_a + s.n_b + at])[l];
    for (int i = 0; i < k; i++) sum += (int64_t)a[i] * (int64_t)b[i];
    if (in->kind) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    row_set(w, in->x[at])[l] = (uint32_t)sum;
}

/* n: m; imm: k; mode: types of A and of B; kind: clamps. */
static void multiply(warp *w, const inst *in, uint32_t mask)
{
    double a[M_MOST * K_MOST], b[N_ALL * K_MOST];
    const shape s = shape_of(in);
    if (!warp_together(w, mask, ALL_LANES)) return;
    w->g[w->at].pc++;
    gather(w, in->x + s.n_d, s.n_a, &s, in->mode & 3, false, a);
    gather(w, in->x + s.n_d + s.n_a, s.n_b, &s, in->mode >> 2, true, b);
    for (int at = 0; at < s.n_d; at++)
        for (int l = 0; l < LANES; l++) {
            const double *line = a + (l / 4 + 8 * (at >> 1)) * K_MOST, *column = b + (l % 4 * 2 + (at & 1)) * K_MOST;
            if (s.element == 1) put_int(w, in, at, l, line, column, s.k);
            else put_float(w, in, at, l, line, column, s.k);
        }
}

/* n matrices of 8 rows of 16 bytes, at the addresses of lanes 8 i to 8 i + 7; mode: transposed. */
static void load_matrix(warp *w, const inst *in, uint32_t mask)
{
    uint16_t element[8][8];
    if (!warp_together(w, mask, ALL_LANES)) return;
    w->g[w->at].pc++;
    for (int i = 0; i < in->n; i++) {
        for (int r = 0; r < 8; r++) {
            const int l = 8 * i + r;
            const uint64_t at = in->target ? ((const uint64_t *)row(w, in->o[1]))[l] : row(w, in->o[1])[l];
            const uint8_t *p = access_at(w, l, (ptx_space)in->space, at + (uint64_t)in->imm, 16, 16, TOUCH_READ);
            if (!p) return;
            memcpy(element[r], p, 16);
        }
        uint32_t *d = row_set(w, in->x[i]);
        for (int l = 0; l < LANES; l++) {
            const int g = l / 4, q = l % 4 * 2;
            d[l] = in->mode ? element[q][g] | (uint32_t)element[q + 1][g] << 16
                            : element[g][q] | (uint32_t)element[g][q + 1] << 16;
        }
    }
}

/* ---- decoding ---- */

static void take_rows(decoder *d, const ptx_operand *o, int n, char letter, bool result, int32_t *x)
{
    const ptx_operand *part = o->kind == OPERAND_VECTOR ? o->part : o;
    if ((o->kind == OPERAND_VECTOR ? o->n : 1) != n) decode_stop(d, "not so many registers");
    for (int i = 0; i < n; i++) x[i] = result ? decode_result(d, &part[i], letter) : decode_source(d, &part[i], letter);
}

/* The modifiers have a fixed order: mma.sync.aligned.SHAPE.row.col[.satfinite].D.A.B.C */
static bool decode_multiply(decoder *d)
{
    static const char *const types[] = {"s8", "u8", "f16", "bf16"};
    const bool clamps = decode_word(d, "satfinite");
    const int last = d->n_word - 4;
    int m, n, k, type[2] = {-1, -1};
    if (last != 6 + clamps || strcmp(d->word[1], "sync") || strcmp(d->word[2], "aligned") ||
        strcmp(d->word[4], "row") || strcmp(d->word[5], "col") || sscanf(d->word[3], "m%dn%dk%d", &m, &n, &k) != 3)
        decode_stop(d, "not known");
    for (int i = 0; i < 2; i++)
        for (int t = 0; t < 4; t++)
            if (!strcmp(d->word[last + 1 + i], types[t])) type[i] = t;
    const bool whole = type[0] < TYPE_F16;
    const char *sum = whole ? "s32" : "f32";
    const bool known = whole ? (m == 16 && (k == 32 || k == 16)) || (m == 8 && k == 16)
                             : m == 16 && (k == 16 || k == 8);
    if (type[0] < 0 || type[1] < 0 || n != 8 || !known || (!whole && (type[0] != type[1] || clamps)) ||
        (whole && type[1] >= TYPE_F16) || strcmp(d->word[last], sum) || strcmp(d->word[last + 3], sum))
        decode_stop(d, "not known");
    memset(d->taken, true, sizeof d->taken);
    decode_end(d, 4, 4);
    inst probe = {.n = (uint8_t)m, .imm = k, .mode = (uint8_t)(type[0] | type[1] << 2), .kind = clamps};
    const shape s = shape_of(&probe);
    int32_t *x = decode_rows(d->p, 2 * s.n_d + s.n_a + s.n_b);
    const char letter = whole ? 'r' : 'f';
    take_rows(d, &d->l->o[0], s.n_d, letter, true, x);
    take_rows(d, &d->l->o[1], s.n_a, 'r', false, x + s.n_d);
    take_rows(d, &d->l->o[2], s.n_b, 'r', false, x + s.n_d + s.n_a);
    take_rows(d, &d->l->o[3], s.n_d, letter, false, x + s.n_d + s.n_a + s.n_b);
    inst *in = decode_emit(d, multiply);
    in->n = probe.n, in->imm = probe.imm, in->mode = probe.mode, in->kind = probe.kind;
    in->x = x;
    in->flow = FLOW_SETS;
    in->kind = probe.kind;
    return true;
}

static bool decode_load_matrix(decoder *d)
{
    static const char *const counts[] = {"x1", "x2", "x4", NULL};
    const int count = decode_one_of(d, counts);
    const ptx_space space = decode_space(d);
    const bool transposed = decode_word(d, "trans");
    if (count < 0 || !decode_word(d, "sync") || !decode_word(d, "aligned") || !decode_word(d, "m8n8") ||
        !decode_word(d, "b16"))
        decode_stop(d, "not known");
    decode_end(d, 2, 2);
    int32_t *x = decode_rows(d->p, 1 << count), base;
    bool wide;
    int64_t offset;
    take_rows(d, &d->l->o[0], 1 << count, 'r', true, x);
    decode_address(d, &d->l->o[1], &base, &wide, &offset);
    inst *in = decode_emit(d, load_matrix);
    in->o[1] = base;
    in->target = wide;
    in->imm = offset;
    in->space = (uint8_t)space;
    in->mode = transposed;
    in->n = (uint8_t)(1 << count);
    in->x = x;
    in->flow = FLOW_SETS;
    return true;
}

bool decode_matrix(decoder *d)
{
    if (!strcmp(d->word[0], "mma")) return decode_multiply(d);
    if (!strcmp(d->word[0], "ldmatrix")) return decode_load_matrix(d);
    return false;
}
