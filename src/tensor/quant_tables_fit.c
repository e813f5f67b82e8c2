/* quant_tables_fit.c - the encoder of quant_tables.c: a search over scales, and under each the best table for every sub-block.
 *
 * The trick is the price list: for weights rounded to whole units of a table, the squared error under each of the tables, side by side. A
 * scale then costs one multiply-add of a row of the list per weight, for all tables at once. Under the best scale the two tables that are
 * cheapest by the list are compared exactly. Scales are tried around the weighted root mean square, because what a table's unit should be
 * follows it, and up to where the greatest weight fits. */
#include "base/half.h"
#include "tensor/quant_fit_row.h"
#include "tensor/quant_tables.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { TABLES = 16, UNITS = 128, PRICES = 4 * UNITS + 1, STEPS = 15, WIDE = 8 };

typedef float floats __attribute__((vector_size(WIDE * sizeof(float))));
typedef int32_t masks __attribute__((vector_size(WIDE * sizeof(float))));

/* What encoding needs of a format. Code of a weight: how many of the boundaries between levels it is above. */
typedef struct two_lists {
    floats price[PRICES]
                [TABLES / WIDE]; /* [2 (u + UNITS)], one number a table: squared distance of u to the nearest level */
    float level[TABLES][STEPS + 1], above[TABLES][STEPS];
} two_lists;
static two_lists lists[4];
static const dtype listed[4] = {DTYPE_Q2_T, DTYPE_Q3_T, DTYPE_Q3H_T, DTYPE_Q4_T};
static pthread_once_t lists_made = PTHREAD_ONCE_INIT;

static void make_list(two_lists *l, const two_format *f)
{
    int tables = 1 << f->choice, levels = 1 << f->bits;
    for (int u = -2 * UNITS; u <= 2 * UNITS; u++)
        for (int k = 0; k < tables; k++) {
            float least = 0x1p30f;
            for (int c = 0; c < levels; c++) {
                float d = 0.5f * (float)u - (float)f->level[k << f->bits | c];
                least = d * d < least ? d * d : least;
            }
            l->price[u + 2 * UNITS][k / WIDE][k % WIDE] = least;
        }
    for (int k = 0; k < tables; k++)
        for (int c = 0; c < levels; c++) {
            l->level[k][c] = f->level[k << f->bits | c];
            if (c) l->above[k][c - 1] = (l->level[k][c - 1] + l->level[k][c]) * 0.5f;
        }
}

static void make_lists(void)
{
    for (int t = 0; t < 4; t++) make_list(&lists[t], two_of(listed[t]));
}

static const two_lists *lists_of(dtype t)
{
    pthread_once(&lists_made, make_lists);
    for (int i = 0; i < 4; i++)
        if (listed[i] == t) return &lists[i];
    return NULL;
}

#define INLINE static inline __attribute__((always_inline))

INLINE void keep_less(floats *a, const floats *b)
{
    masks less = *b < *a;
    *a = (floats)((less & (masks)*b) | (~less & (masks)*a));
}

/* The least of eight, in all of them. */
INLINE void spread_least(floats *v)
{
    floats w = __builtin_shufflevector(*v, *v, 4, 5, 6, 7, 0, 1, 2, 3);
    keep_less(v, &w);
    w = __builtin_shufflevector(*v, *v, 2, 3, 0, 1, 6, 7, 4, 5);
    keep_less(v, &w);
    w = __builtin_shufflevector(*v, *v, 1, 0, 3, 2, 5, 4, 7, 6);
    keep_less(v, &w);
}

/* Weights in half units as rows of the list, and what those beyond it cost besides. */
FIT_LOOPS
static float list_rows(const float *x, const float *w, float inverse, int *row)
{
    float beyond[LANES] = {0};
    for (int i = 0; i < TWO_WEIGHTS; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float u = x[i + j] * inverse, far = fabsf(u), edge = far < UNITS ? far : UNITS;
            beyond[j] += w[i + j] * ((far - TWO_TOP) * (far - TWO_TOP) - (edge - TWO_TOP) * (edge - TWO_TOP));
            row[i + j] = (int)(2 * copysignf(edge, u) + (2 * UNITS + 0.5f));
        }
    return lanes_sum(beyond);
}

/* Errors of a sub-block under all tables, eight of them in each of `n` vectors. */
INLINE void sum_prices(const two_lists *l, const float *w, const int *row, int sub, int n, floats *sum)
{
    sum[0] = sum[1] = (floats){0};
    for (int i = 0; i < sub; i++)
        for (int h = 0; h < n; h++) sum[h] += w[i] * l->price[row[i]][h];
}

INLINE float price_of(const two_lists *l, const float *w, const int *row, int sub, int n)
{
    floats total = {0};
    for (int s = 0; s < TWO_WEIGHTS; s += sub) {
        floats sum[2];
        sum_prices(l, w + s, row + s, sub, n, sum);
        if (n == 2) keep_less(&sum[0], &sum[1]);
        spread_least(&sum[0]);
        total += sum[0];
    }
    return total[0];
}

/* The error under a scale, about: every sub-block at the table that is cheapest for it. */
FIT_CLONES
static float scale_price(const two_format *f, const two_lists *l, const float *x, const float *w, float scale)
{
    int row[TWO_WEIGHTS];
    float beyond = list_rows(x, w, 1 / scale, row);
    float total = f->choice == 3 ? price_of(l, w, row, 16, 1)
                  : f->sub == 16 ? price_of(l, w, row, 16, 2)
                                 : price_of(l, w, row, 8, 2);
    return (total + beyond) * scale * scale;
}

/* The two cheapest tables: prices carry the number of their table in the last four bits. */
INLINE void two_least(const floats *sum, int n, int *tables)
{
    static const masks number = {0, 1, 2, 3, 4, 5, 6, 7};
    const floats never = (floats){0} + 0x1p100f;
    floats v[2];
    for (int h = 0; h < n; h++) v[h] = (floats)(((masks)sum[h] & ~15) | number | h << 3);
    for (int k = 0; k < 2; k++) {
        floats least = v[0];
        if (n == 2) keep_less(&least, &v[1]);
        spread_least(&least);
        tables[k] = ((masks)least)[0] & 15;
        for (int h = 0; h < n; h++) {
            masks taken = v[h] == least;
            v[h] = (floats)((taken & (masks)never) | (~taken & (masks)v[h]));
        }
    }
}

/* Codes of a sub-block of weights in units under one table, and their error. */
INLINE float table_codes(const two_lists *l, int levels, int table, const floats *u, const floats *w, int vectors,
                         masks *code)
{
    floats e = {0};
    for (int h = 0; h < vectors; h++) {
        floats v = (floats){0} + l->level[table][0];
        code[h] = (masks){0};
        for (int c = 0; c < levels - 1; c++) {
            masks over = u[h] > l->above[table][c];
            v = (floats)((over & (masks)((floats){0} + l->level[table][c + 1])) | (~over & (masks)v));
            code[h] -= over;
        }
        e += w[h] * (u[h] - v) * (u[h] - v);
    }
    return e[0] + e[1] + (e[2] + e[3]) + (e[4] + e[5] + (e[6] + e[7]));
}

/* The better of the two cheapest tables of a sub-block, and the codes. */
INLINE void choose_table(const two_lists *l, int levels, const float *x, const float *w, const int *row, float inverse,
                         int sub, int n, uint8_t *code, uint8_t *choice)
{
    int tables[2], vectors = sub / WIDE;
    floats sum[2], u[2], v[2];
    masks q[2][2];
    sum_prices(l, w, row, sub, n, sum);
    two_least(sum, n, tables);
    memcpy(u, x, (size_t)sub * sizeof *x);
    memcpy(v, w, (size_t)sub * sizeof *w);
    for (int h = 0; h < vectors; h++) u[h] *= inverse;
    float first = table_codes(l, levels, tables[0], u, v, vectors, q[0]);
    float second = table_codes(l, levels, tables[1], u, v, vectors, q[1]);
    int best = second < first;
    *choice = (uint8_t)tables[best];
    for (int i = 0; i < sub; i++) code[i] = (uint8_t)q[best][i / WIDE][i % WIDE];
}

FIT_CLONES
static void choose_tables(const two_format *f, const two_lists *l, const float *x, const float *w, float inverse,
                          uint8_t *code, uint8_t *choice)
{
    int row[TWO_WEIGHTS];
    list_rows(x, w, inverse, row);
    for (int i = 0; i < TWO_WEIGHTS; i += f->sub, choice++)
        if (f->choice == 3) choose_table(l, 16, x + i, w + i, row + i, inverse, 16, 1, code + i, choice);
        else if (f->sub == 16) choose_table(l, 8, x + i, w + i, row + i, inverse, 16, 2, code + i, choice);
        else choose_table(l, 1 << f->bits, x + i, w + i, row + i, inverse, 8, 2, code + i, choice);
}

/* The scale byte nearest to a positive scale. */
static int scale_byte(float scale)
{
    float v = scale / TWO_UNIT;
    int b = v < two_scale(TWO_SCALE_MOST) / TWO_UNIT ? (f32_to_f16(v) + 64) >> 7 : TWO_SCALE_MOST;
    return b < 1 ? 1 : b > TWO_SCALE_MOST ? TWO_SCALE_MOST : b;
}

static void fit_block(dtype t, const float *x, const float *w, uint8_t *block)
{
    const two_format *f = two_of(t);
    const two_lists *l = lists_of(t);
    uint8_t code[TWO_WEIGHTS] = {0}, choice[TWO_SUBS] = {0};
    float square = 0, weight = 0, most = 0;
    for (int i = 0; i < TWO_WEIGHTS; i++) {
        square += w[i] * x[i] * x[i];
        weight += w[i];
        most = w[i] > 0 && fabsf(x[i]) > most ? fabsf(x[i]) : most;
    }
    if (most == 0) {
        two_put(t, block, code, choice, 0);
        return;
    }
    float mean = sqrtf(square / weight), unit = mean / f->spread;
    int first = scale_byte(0.66f * unit), last = scale_byte(1.6f * unit), fits = scale_byte(most / TWO_TOP) + 1;
    last = fits > last ? fits < TWO_SCALE_MOST ? fits : TWO_SCALE_MOST : last;
    int best = first;
    float least = INFINITY;
    for (int step = 2, b = first; b <= last; b += step) {
        float e = scale_price(f, l, x, w, two_scale((uint8_t)b));
        if (!(e < least)) continue;
        least = e;
        best = b;
    }
    for (int b = best - 1, middle = best; b <= middle + 1; b += 2) {
        if (b < 1 || b > TWO_SCALE_MOST) continue;
        float e = scale_price(f, l, x, w, two_scale((uint8_t)b));
        if (!(e < least)) continue;
        least = e;
        best = b;
    }
    choose_tables(f, l, x, w, 1 / two_scale((uint8_t)best), code, choice);
    uint8_t scale = (uint8_t)best;
    two_put(t, block, code, choice, scale);
}

void fit_two(dtype t, const float *x, const float *w, int blocks, uint8_t *out)
{
    for (int b = 0; b < blocks; b++)
        fit_block(t, x + b * TWO_WEIGHTS, w + b * TWO_WEIGHTS, out + b * dtype_info[t].bytes);
}
