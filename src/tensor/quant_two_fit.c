/* quant_two_fit.c - the encoder of quant_two.c: a search over scales, and under each the best table for every sub-block.
 *
 * The trick is the price list: for weights rounded to whole units of a table, the squared error under each of the tables, side by side. A
 * scale then costs one multiply-add of a row of the list per weight, for all tables at once; only under the best scale are tables and codes
 * chosen exactly. Scales are tried around the weighted root mean square, because what a table's unit should be follows it, and up to where the
 * greatest weight fits. */
#include "base/half.h"
#include "tensor/quant_fit_row.h"
#include "tensor/quant_two.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { TABLES = 16, UNITS = 128, PRICES = 2 * UNITS + 1 };

/* price[u + UNITS], one number a table: squared distance of u to the nearest level; absent tables cost much. */
typedef float prices __attribute__((vector_size(TABLES * sizeof(float))));
typedef prices price_list[PRICES];
static price_list price[4];
static const dtype priced[4] = {DTYPE_Q2_T, DTYPE_Q3_T, DTYPE_Q3H_T, DTYPE_Q4_T};
static pthread_once_t prices_made = PTHREAD_ONCE_INIT;

static void make_prices(void)
{
    for (int t = 0; t < 4; t++) {
        const two_format *f = two_of(priced[t]);
        for (int u = -UNITS; u <= UNITS; u++)
            for (int k = 0; k < TABLES; k++) {
                float least = 0x1p30f;
                for (int c = 0; k < 1 << f->choice && c < 1 << f->bits; c++) {
                    float d = (float)(u - f->level[k << f->bits | c]);
                    least = d * d < least ? d * d : least;
                }
                price[t][u + UNITS][k] = least;
            }
    }
}

static const price_list *prices_of(dtype t)
{
    pthread_once(&prices_made, make_prices);
    for (int i = 0; i < 4; i++)
        if (priced[i] == t) return &price[i];
    return NULL;
}

/* The error under a scale, about: every sub-block at the table that is cheapest for it. */
FIT_CLONES
static float scale_price(const two_format *f, const price_list *list, const float *x, const float *w, float scale)
{
    float inverse = 1 / scale, total = 0, beyond = 0;
    for (int s = 0; s < TWO_WEIGHTS; s += f->sub) {
        prices sum = {0};
        for (int i = s; i < s + f->sub; i++) {
            float u = x[i] * inverse, far = fabsf(u);
            if (far > UNITS) {
                beyond += w[i] * ((far - TWO_TOP) * (far - TWO_TOP) - (UNITS - TWO_TOP) * (UNITS - TWO_TOP));
                u = copysignf(UNITS, u);
            }
            sum += w[i] * (*list)[(int)(u + (UNITS + 0.5f))];
        }
        float least = sum[0];
        for (int k = 1; k < TABLES; k++) least = sum[k] < least ? sum[k] : least;
        total += least;
    }
    return (total + beyond) * scale * scale;
}

/* Squared errors of sixteen weights, in units, under one table. */
static inline __attribute__((always_inline)) void table_errors(const int8_t *level, int levels, const float *u,
                                                               const float *w, float *error)
{
    for (int i = 0; i < LANES; i++) error[i] = 0x1p60f;
    for (int c = 0; c < levels; c++) {
        float v = (float)level[c];
        for (int i = 0; i < LANES; i++) {
            float d = (u[i] - v) * (u[i] - v);
            error[i] = d < error[i] ? d : error[i];
        }
    }
    for (int i = 0; i < LANES; i++) error[i] *= w[i];
}

/* The best table of each sub-block in a run of sixteen weights, and the codes. Returns the error in units. */
FIT_CLONES
static float choose_tables(const two_format *f, const float *u, const float *w, uint8_t *code, uint8_t *choice)
{
    int subs = LANES / f->sub, levels = 1 << f->bits;
    float best[2] = {INFINITY, INFINITY};
    choice[0] = choice[subs - 1] = 0;
    for (int k = 0; k < 1 << f->choice; k++) {
        float e[LANES], low = 0, high = 0;
        table_errors(f->level + (k << f->bits), levels, u, w, e);
        for (int i = 0; i < LANES / 2; i++) {
            low += e[i];
            high += e[i + LANES / 2];
        }
        float sum[2] = {subs == 1 ? low + high : low, high};
        for (int s = 0; s < subs; s++) {
            if (!(sum[s] < best[s])) continue;
            best[s] = sum[s];
            choice[s] = (uint8_t)k;
        }
    }
    for (int i = 0; i < LANES; i++) {
        const int8_t *level = f->level + (choice[i / f->sub] << f->bits);
        int c = 0;
        while (c + 1 < levels && fabsf(u[i] - (float)level[c + 1]) < fabsf(u[i] - (float)level[c])) c++;
        code[i] = (uint8_t)c;
    }
    return subs == 1 ? best[0] : best[0] + best[1];
}

/* The scale byte nearest to a positive scale. */
static int scale_byte(float scale)
{
    float v = scale / TWO_UNIT;
    int b = v < two_scale(TWO_SCALE_MOST) / TWO_UNIT ? (f32_to_f16(v) + 64) >> 7 : TWO_SCALE_MOST;
    return b < 1 ? 1 : b > TWO_SCALE_MOST ? TWO_SCALE_MOST : b;
}

void fit_two(dtype t, const float *x, const float *w, uint8_t *block)
{
    const two_format *f = two_of(t);
    const price_list *list = prices_of(t);
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
        float e = scale_price(f, list, x, w, two_scale((uint8_t)b));
        if (!(e < least)) continue;
        least = e;
        best = b;
    }
    for (int b = best - 1, middle = best; b <= middle + 1; b += 2) {
        if (b < 1 || b > TWO_SCALE_MOST) continue;
        float e = scale_price(f, list, x, w, two_scale((uint8_t)b));
        if (!(e < least)) continue;
        least = e;
        best = b;
    }
    float inverse = 1 / two_scale((uint8_t)best), u[LANES];
    for (int i = 0; i < TWO_WEIGHTS; i += LANES) {
        for (int j = 0; j < LANES; j++) u[j] = x[i + j] * inverse;
        choose_tables(f, u, w + i, code + i, choice + i / f->sub);
    }
    uint8_t scale = (uint8_t)best;
    two_put(t, block, code, choice, scale);
}
