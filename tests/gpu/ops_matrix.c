/* ops_matrix.c - mma.sync, ldmatrix and stmatrix: products of small matrices whose elements lie in all lanes'
 * registers.
 *
 * Lane 4 g + q has of A rows g and g + 8, of B column g, of the sums columns 2 q and 2 q + 1; a register holds
 * neighbours of k, from q on by its length. Sums of integers are exact. Sums of floats are where no rounding can
 * happen; where one would, the card's bits are its own, and the launch ends. */
#include "tests/gpu/access.h"
#include "tests/gpu/decode.h"
#include "tests/gpu/fragment.h"
#include "tests/gpu/warp.h"

#include <stdio.h>
#include <string.h>

enum { M_MOST = 16, N_ALL = 8, K_MOST = 32 };

/* What an mma works on: x has its rows, of d, a, b, c by turns. */
typedef struct shape {
    int m, k, n_a, n_b, n_d, element; /* registers; bytes of an element */
} shape;

static shape shape_of(const inst *in)
{
    const int m = in->n & 31, k = (int)in->imm & 255, element = (in->mode & 3) < FRAGMENT_F16 ? 1 : 2;
    return (shape){m, k, m * k * element / 128, 8 * k * element / 128, m / 4, element};
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
                to[(l / 4 + down) * K_MOST + l % 4 * each + along + i] = fragment_element(words[l], i, type);
    }
}

static void put(warp *w, const inst *in, int at, int l, const double *a, const double *b)
{
    const shape s = shape_of(in);
    const int32_t c = in->x[s.n_d + s.n_a + s.n_b + at];
    if (s.element == 1) row_set(w, in->x[at])[l] = fragment_sum(a, b, s.k, (int32_t)row(w, c)[l], in->kind);
    else ((float *)row_set(w, in->x[at]))[l] = fragment_float_sum(w, l, a, b, s.k, ((const float *)row(w, c))[l]);
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
            put(w, in, at, l, line, column);
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

/* The other way: lane l's registers to rows of 16 bytes. */
static void store_matrix(warp *w, const inst *in, uint32_t mask)
{
    uint16_t element[8][8];
    if (!warp_together(w, mask, ALL_LANES)) return;
    w->g[w->at].pc++;
    for (int i = 0; i < in->n; i++) {
        const uint32_t *from = row(w, in->x[i]);
        for (int l = 0; l < LANES; l++) {
            const int g = l / 4, q = l % 4 * 2;
            const uint16_t low = (uint16_t)from[l], high = (uint16_t)(from[l] >> 16);
            if (in->mode) element[q][g] = low, element[q + 1][g] = high;
            else element[g][q] = low, element[g][q + 1] = high;
        }
        for (int r = 0; r < 8; r++) {
            const int l = 8 * i + r;
            const uint64_t at = in->target ? ((const uint64_t *)row(w, in->o[1]))[l] : row(w, in->o[1])[l];
            uint8_t *p = access_at(w, l, (ptx_space)in->space, at + (uint64_t)in->imm, 16, 16, TOUCH_WRITE);
            if (!p) return;
            memcpy(p, element[r], 16);
        }
    }
}

/* ---- decoding ---- */

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
    const bool whole = type[0] < FRAGMENT_F16;
    const char *sum = whole ? "s32" : "f32";
    const bool known = whole ? (m == 16 && (k == 32 || k == 16)) || (m == 8 && k == 16)
                             : m == 16 && (k == 16 || k == 8);
    if (type[0] < 0 || type[1] < 0 || n != 8 || !known || (!whole && (type[0] != type[1] || clamps)) ||
        (whole && type[1] >= FRAGMENT_F16) || strcmp(d->word[last], sum) || strcmp(d->word[last + 3], sum))
        decode_stop(d, "not known");
    memset(d->taken, true, sizeof d->taken);
    decode_end(d, 4, 4);
    inst probe = {.n = (uint8_t)m, .imm = k, .mode = (uint8_t)(type[0] | type[1] << 2), .kind = clamps};
    const shape s = shape_of(&probe);
    int32_t *x = decode_rows(d->p, 2 * s.n_d + s.n_a + s.n_b);
    const char letter = whole ? 'r' : 'f';
    fragment_rows(d, &d->l->o[0], s.n_d, letter, true, x);
    fragment_rows(d, &d->l->o[1], s.n_a, 'r', false, x + s.n_d);
    fragment_rows(d, &d->l->o[2], s.n_b, 'r', false, x + s.n_d + s.n_a);
    fragment_rows(d, &d->l->o[3], s.n_d, letter, false, x + s.n_d + s.n_a + s.n_b);
    inst *in = decode_emit(d, multiply);
    in->n = probe.n, in->imm = probe.imm, in->mode = probe.mode, in->kind = probe.kind;
    in->x = x;
    in->flow = FLOW_SETS;
    in->kind = probe.kind;
    return true;
}

static bool decode_move_matrix(decoder *d, bool is_load)
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
    fragment_rows(d, &d->l->o[!is_load], 1 << count, 'r', is_load, x);
    decode_address(d, &d->l->o[is_load], &base, &wide, &offset);
    inst *in = decode_emit(d, is_load ? load_matrix : store_matrix);
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
    if (!strcmp(d->word[0], "ldmatrix")) return decode_move_matrix(d, true);
    if (!strcmp(d->word[0], "stmatrix")) return decode_move_matrix(d, false);
    return false;
}
