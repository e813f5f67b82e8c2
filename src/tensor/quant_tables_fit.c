/* quant_tables_fit.c - the encoder of quant_tables.c: a search over scales, and under each the best table for every
 * sub-block.
 *
 * The trick is a price list: the squared errors of a weight, rounded to half units, under all tables side by side. A
 * scale then costs one multiply-add of a row of the list per weight, for all tables at once. Under the best scale the
 * two tables that are cheapest by the list are compared exactly. Scales are tried around the weighted root mean square,
 * which predicts the best one, and up to that under which the largest weight fits. */
#include "base/half.h"
#include "tensor/quant_fit_row.h"
#include "tensor/quant_tables.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { TABLES = 16, UNITS = 128, PRICES = 4 * UNITS + 1, STEPS = 15, WIDE = 8 };

typedef float floats __attribute__((vector_size(WIDE * sizeof(float))));
typedef int32_t masks __attribute__((vector_size(WIDE * sizeof(float))));

/* Tables of a format for encoding. Code of a weight: the number of boundaries between levels below it. */
typedef struct tables_lists {
    /* [2 (u + UNITS)], one number a table: squared distance of u to the nearest level */
    floats price[PRICES][TABLES / WIDE];
    float level[TABLES][STEPS + 1], above[TABLES][STEPS];
} tables_lists;
static tables_lists lists[4];
static const dtype listed[4] = {DTYPE_Q2_T, DTYPE_Q3_T, DTYPE_Q3H_T, DTYPE_Q4_T};
static pthread_once_t lists_made = PTHREAD_ONCE_INIT;

static void make_list(tables_lists *l, const tables_format *f)
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
    for (int t = 0; t < 4; t++) make_list(&lists[t], tables_format_of(listed[t]));
}

static const tables_lists *lists_of(dtype t)
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

/* Sets all eight to their minimum. */
INLINE void spread_least(floats *v)
{
    floats w = __builtin_shufflevector(*v, *v, 4, 5, 6, 7, 0, 1, 2, 3);
    keep_less(v, &w);
    w = __builtin_shufflevector(*v, *v, 2, 3, 0, 1, 6, 7, 4, 5);
    keep_less(v, &w);
    w = __builtin_shufflevector(*v, *v, 1, 0, 3, 2, 5, 4, 7, 6);
    keep_less(v, &w);
}

/* Weights in half units as rows of the list; returns the additional cost of those beyond it. */
FIT_LOOPS
static float list_rows(const float *x, const float *w, float inverse, int *row)
{
    float beyond[LANES] = {0};
    for (int i = 0; i < TABLES_WEIGHTS; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float u = x[i + j] * inverse, far = fabsf(u), edge = far < UNITS ? far : UNITS;
            beyond[j] += w[i + j] *
                         ((far - TABLES_TOP) * (far - TABLES_TOP) - (edge - TABLES_TOP) * (edge - TABLES_TOP));
            row[i + j] = (int)(2 * copysignf(edge, u) + (2 * UNITS + 0.5f));
        }
    return lanes_sum(beyond);
}

/* Errors of a sub-block under all tables, eight of them in each of `n` vectors. */
INLINE void sum_prices(const tables_lists *l, const float *w, const int *row, int sub, int n, floats *sum)
{
    sum[0] = sum[1] = (floats){0};
    for (int i = 0; i < sub; i++)
        for (int h = 0; h < n; h++) sum[h] += w[i] * l->price[row[i]][h];
}

INLINE float price_of(const tables_lists *l, const float *w, const int *row, int sub, int n)
{
    floats total = {0};
    for (int s = 0; s < TABLES_WEIGHTS; s += sub) {
        floats sum[2];
        sum_prices(l, w + s, row + s, sub, n, sum);
        if (n == 2) keep_less(&sum[0], &sum[1]);
        spread_least(&sum[0]);
        total += sum[0];
    }
    return total[0];
}

/* The approximate error under a scale, each sub-block at its cheapest table. */
FIT_CLONES
static float scale_price(const tables_format *f, const tables_lists *l, const float *x, const float *w, float scale)
{
    int row[TABLES_WEIGHTS];
    float beyond = list_rows(x, w, 1 / scale, row);
    float total = f->choice == 3 ? price_of(l, w, row, 16, 1)
                  : f->sub == 16 ? price_of(l, w, row, 16, 2)
                                 : price_of(l, w, row, 8, 2);
    return (total + beyond) * scale * scale;
}

/* The two cheapest tables: prices carry the number of their table in the last four bits. */
INLINE void cheapest_two(const floats *sum, int n, int *tables)
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
INLINE float table_codes(const tables_lists *l, int levels, int table, const floats *u, const floats *w, int vectors,
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

/* Weights of a sub-block, their importance and rows of the list, and the inverse of the scale. */
typedef struct sub_block {
    const float *x, *w;
    const int *row;
    float inverse;
} sub_block;

/* The better of the two cheapest tables of a sub-block of `sub` weights, and the codes. */
INLINE void choose_table(const tables_lists *l, const sub_block *b, int levels, int sub, int n, uint8_t *code,
                         uint8_t *choice)
{
    int tables[2], vectors = sub / WIDE;
    floats sum[2], u[2], v[2];
    masks q[2][2];
    sum_prices(l, b->w, b->row, sub, n, sum);
    cheapest_two(sum, n, tables);
    memcpy(u, b->x, (size_t)sub * sizeof *b->x);
    memcpy(v, b->w, (size_t)sub * sizeof *b->w);
    for (int h = 0; h < vectors; h++) u[h] *= b->inverse;
    float first = table_codes(l, levels, tables[0], u, v, vectors, q[0]);
    float second = table_codes(l, levels, tables[1], u, v, vectors, q[1]);
    int best = second < first;
    *choice = (uint8_t)tables[best];
    for (int i = 0; i < sub; i++) code[i] = (uint8_t)q[best][i / WIDE][i % WIDE];
}

FIT_CLONES
static void choose_tables(const tables_format *f, const tables_lists *l, const float *x, const float *w, float inverse,
                          uint8_t *code, uint8_t *choice)
{
    int row[TABLES_WEIGHTS];
    list_rows(x, w, inverse, row);
    for (int i = 0; i < TABLES_WEIGHTS; i += f->sub, choice++) {
        const sub_block b = {x + i, w + i, row + i, inverse};
        if (f->choice == 3) choose_table(l, &b, 16, 16, 1, code + i, choice);
        else if (f->sub == 16) choose_table(l, &b, 8, 16, 2, code + i, choice);
        else choose_table(l, &b, 1 << f->bits, 8, 2, code + i, choice);
    }
}

/* The scale byte nearest to a positive scale. */
static int scale_byte(float scale)
{
    float v = scale / TABLES_UNIT;
    int b = v < tables_scale(TABLES_SCALE_MAX) / TABLES_UNIT ? (f32_to_f16(v) + 64) >> 7 : TABLES_SCALE_MAX;
    return b < 1 ? 1 : b > TABLES_SCALE_MAX ? TABLES_SCALE_MAX : b;
}

static void fit_block(dtype t, const float *x, const float *w, uint8_t *block)
{
    const tables_format *f = tables_format_of(t);
    const tables_lists *l = lists_of(t);
    uint8_t code[TABLES_WEIGHTS] = {0}, choice[TABLES_SUBS] = {0};
    float square = 0, weight = 0, most = 0;
    for (int i = 0; i < TABLES_WEIGHTS; i++) {
        square += w[i] * x[i] * x[i];
        weight += w[i];
        most = w[i] > 0 && fabsf(x[i]) > most ? fabsf(x[i]) : most;
    }
    if (most == 0) {
        tables_put(t, block, code, choice, 0);
        return;
    }
    float mean = sqrtf(square / weight), unit = mean / f->spread;
    int first = scale_byte(0.66f * unit), last = scale_byte(1.6f * unit), fits = scale_byte(most / TABLES_TOP) + 1;
    last = fits > last ? fits < TABLES_SCALE_MAX ? fits : TABLES_SCALE_MAX : last;
    int best = first;
    float least = INFINITY;
    for (int step = 2, b = first; b <= last; b += step) {
        float e = scale_price(f, l, x, w, tables_scale((uint8_t)b));
        if (!(e < least)) continue;
        least = e;
        best = b;
    }
    for (int b = best - 1, middle = best; b <= middle + 1; b += 2) {
        if (b < 1 || b > TABLES_SCALE_MAX) continue;
        float e = scale_price(f, l, x, w, tables_scale((uint8_t)b));
        if (!(e < least)) continue;
        least = e;
        best = b;
    }
    choose_tables(f, l, x, w, 1 / tables_scale((uint8_t)best), code, choice);
    uint8_t scale = (uint8_t)best;
    tables_put(t, block, code, choice, scale);
}

void fit_tables(dtype t, const float *x, const float *w, int blocks, uint8_t *out)
{
    for (int b = 0; b < blocks; b++)
        fit_block(t, x + b * TABLES_WEIGHTS, w + b * TABLES_WEIGHTS, out + b * dtype_info[t].bytes);
}
