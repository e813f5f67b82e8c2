/* quant_iq_fit.c - encoders of the IQ formats whose groups of 4 or 8 weights are entries of a code book: iq2_xxs iq2_xs
 * iq2_s iq3_xxs iq3_s iq1_s iq1_m.
 *
 * A group is rounded level by level first, as if there were no book. A list made once holds the NEAR nearest entries of
 * every such pattern, with their levels side by side; the one with the smallest weighted error is taken. Real scales
 * are searched for each sub-block by itself, then rounded to small integers under one f16: trying neighbouring integers
 * and solving for the f16 alternate. Where only an even number of minus signs can be written, the least important
 * weight gets the wrong one. */
#include "base/half.h"
#include "tensor/block.h"
#include "tensor/quant_fit_row.h"
#include "tensor/quant_grids.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { K = 256, NEAR = 32, PATTERNS = 6561, GROUPS = 4, TURNS = 3, LEVELS = 8 };

#define INLINE static inline __attribute__((always_inline))

/* The nearest entries of each pattern. */
typedef struct book {
    int8_t level[PATTERNS][8][NEAR]; /* of weight i of an entry */
    uint16_t entry[PATTERNS][NEAR];
} book;

/* A format: weights of an entry, of a scale; the largest scale; even: seven of eight signs are written. weight = sign
 * * t * level, or of iq1 t * (level + shift), with t = d * unit * (0.5 + scale). spread: root mean square of weights in
 * units of t, about. */
typedef struct grid_format {
    dtype type;
    int group, sub, top, entries;
    bool even;
    int shifted; /* weights that share a shift of 1/8 up or down; 0: none */
    float unit, spread;
    int levels, bits; /* of an entry's fields */
    float level[LEVELS];
    const uint16_t *words;
} grid_format;

#define IQ2                                                                                                            \
    3, 2, { 8, 25, 43 }
#define IQ1                                                                                                            \
    3, 2, { -1, 0, 1 }
static const grid_format formats[] = {
    {DTYPE_IQ2_XXS, 8, 32, 15, 256, true, 0, 0.25f, 22, IQ2, quant_grid_iq2_xxs},
    {DTYPE_IQ2_XS, 8, 16, 15, 512, true, 0, 0.25f, 22, IQ2, quant_grid_iq2_xs},
    {DTYPE_IQ2_S, 8, 16, 15, 1024, false, 0, 0.25f, 22, IQ2, quant_grid_iq2_s},
    {DTYPE_IQ3_XXS, 4, 32, 15, 256, true, 0, 0.5f, 24, 8, 4, {4, 12, 20, 28, 36, 44, 52, 62}, quant_grid_iq3_xxs},
    {DTYPE_IQ3_S, 4, 32, 15, 512, false, 0, 2, 6, 8, 4, {1, 3, 5, 7, 9, 11, 13, 15}, quant_grid_iq3_s},
    {DTYPE_IQ1_S, 8, 32, 7, 2048, false, 32, 2, 0.8f, IQ1, quant_grid_iq1},
    {DTYPE_IQ1_M, 8, 16, 7, 2048, false, 8, 2, 0.8f, IQ1, quant_grid_iq1},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static book books[FORMATS];
static bool made[FORMATS];
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

/* ---- the lists */

static int level_at(const grid_format *f, int entry, int i)
{
    return (int)f->level[f->words[entry] >> f->bits * i & ((1 << f->bits) - 1)];
}

/* Puts an entry at its place among the NEAR nearest so far. */
static void insert_neighbour(int distance, int entry, int *distances, uint16_t *entries)
{
    int at = NEAR - 1;
    if (distance >= distances[at]) return;
    for (; at > 0 && distances[at - 1] > distance; at--) {
        distances[at] = distances[at - 1];
        entries[at] = entries[at - 1];
    }
    distances[at] = distance;
    entries[at] = (uint16_t)entry;
}

static void make_book(int which)
{
    const grid_format *f = &formats[which];
    book *b = &books[which];
    int8_t level[2048][8];
    int patterns = 1;
    for (int e = 0; e < f->entries; e++)
        for (int i = 0; i < f->group; i++) level[e][i] = (int8_t)level_at(f, e, i);
    for (int i = 0; i < f->group; i++) patterns *= f->levels;
    for (int p = 0; p < patterns; p++) {
        int digits[8], distances[NEAR];
        for (int i = 0, rest = p; i < f->group; i++, rest /= f->levels) digits[i] = (int)f->level[rest % f->levels];
        for (int n = 0; n < NEAR; n++) distances[n] = INT32_MAX;
        for (int e = 0; e < f->entries; e++) {
            int distance = 0;
            for (int i = 0; i < f->group; i++) distance += (digits[i] - level[e][i]) * (digits[i] - level[e][i]);
            insert_neighbour(distance, e, distances, b->entry[p]);
        }
        for (int n = 0; n < NEAR; n++)
            for (int i = 0; i < f->group; i++) b->level[p][i][n] = level[b->entry[p][n]][i];
    }
}

static const book *book_of(int which)
{
    pthread_mutex_lock(&making);
    if (!made[which]) make_book(which);
    made[which] = true;
    pthread_mutex_unlock(&making);
    return &books[which];
}

/* ---- one sub-block under one scale */

/* The choice, and sums for least squares: of importance times level^2 (vv), and level times weight (xv). */
typedef struct sub_fit {
    float t, error, vv, xv;
    uint16_t entry[8];
    bool minus[8]; /* of each group: shifted down */
} sub_fit;

/* A run of groups that share a shift: entries, the error minus the sum of importance * weight^2, sums as above. */
typedef struct run_fit {
    float t, shift, cost, vv, xv;
    uint16_t entry[8];
} run_fit;

/* The best entry for group g of a run: n = 4 or 8 weights from x on. */
INLINE void choose_entry(const grid_format *f, const book *b, int n, int levels, const float *x, const float *w,
                         run_fit *r, int g)
{
    float cost[NEAR] = {0}, t = r->t, inverse = 1 / t;
    int pattern = 0;
    for (int i = n - 1; i >= 0; i--) {
        float u = x[i] * inverse - r->shift;
        int digit = 0;
        for (int c = 1; c < levels; c++) digit += u > 0.5f * (f->level[c - 1] + f->level[c]);
        pattern = pattern * levels + digit;
    }
    for (int i = 0; i < n; i++) {
        const int8_t *level = b->level[pattern][i];
        float p = t * t * w[i], q = -2 * t * w[i] * x[i];
        for (int c = 0; c < NEAR; c++) {
            float v = (float)level[c] + r->shift;
            cost[c] += v * (v * p + q);
        }
    }
    int best = 0;
    for (int c = 1; c < NEAR; c++) best = cost[c] < cost[best] ? c : best;
    r->entry[g] = b->entry[pattern][best];
    for (int i = 0; i < n; i++) {
        float v = (float)b->level[pattern][i][best] + r->shift;
        r->vv += w[i] * v * v;
        r->xv += w[i] * v * x[i];
    }
    r->cost += cost[best];
}

INLINE void choose_run(const grid_format *f, const book *b, const float *x, const float *w, int run, run_fit *r)
{
    for (int g = 0; g < run / f->group; g++)
        if (f->group == 4) choose_entry(f, b, 4, 8, x + 4 * g, w + 4 * g, r, g);
        else choose_entry(f, b, 8, 3, x + 8 * g, w + 8 * g, r, g);
}

FIT_LOOPS
static void try_sub(const grid_format *f, const book *b, const float *x, const float *w, float t, sub_fit *out)
{
    int run = f->shifted ? f->shifted : f->sub;
    sub_fit s = {.t = t};
    for (int i = 0; i < f->sub; i++) s.error += w[i] * x[i] * x[i];
    for (int i = 0; i < f->sub && t > 0; i += run) {
        run_fit r[2] = {{.t = t, .shift = f->shifted ? 0.125f : 0}, {.t = t, .shift = -0.125f, .cost = INFINITY}};
        choose_run(f, b, x + i, w + i, run, &r[0]);
        if (f->shifted) r[1].cost = 0, choose_run(f, b, x + i, w + i, run, &r[1]);
        int k = r[1].cost < r[0].cost;
        s.error += r[k].cost;
        s.vv += r[k].vv;
        s.xv += r[k].xv;
        for (int g = 0; g < run / f->group; g++) {
            s.entry[i / f->group + g] = r[k].entry[g];
            s.minus[i / f->group + g] = k;
        }
    }
    *out = s;
}

/* The best real scale. */
static sub_fit search_sub(const grid_format *f, const book *b, const float *x, const float *w)
{
    float square = 0, weight = 0;
    sub_fit best = {.error = INFINITY}, s;
    for (int i = 0; i < f->sub; i++) {
        square += w[i] * x[i] * x[i];
        weight += w[i];
    }
    float unit = weight > 0 ? sqrtf(square / weight) / f->spread : 0;
    try_sub(f, b, x, w, 0, &best);
    for (float by = 0.6f; by < 1.65f && unit > 0; by += 0.1f) {
        try_sub(f, b, x, w, unit * by, &s);
        if (s.error < best.error) best = s;
    }
    for (int turn = 0; turn < 2 && best.vv > 0; turn++) {
        try_sub(f, b, x, w, best.xv / best.vv, &s);
        if (!(s.error < best.error)) break;
        best = s;
    }
    return best;
}

/* ---- a block */

typedef struct grid_block {
    float d, error;
    int scale[16];
    sub_fit sub[16];
    uint8_t signs[32];
} grid_block;

/* Magnitudes and signs. Of eight weights with an odd number of minus signs, one keeps its own with the other sign. */
static void split_signs(const grid_format *f, const float *x, const float *w, float *to, uint8_t *signs)
{
    for (int g = 0; g < K / 8; g++) {
        int bits = 0, least = 0;
        for (int i = 0; i < 8; i++) {
            const float *at = x + 8 * g, *by = w + 8 * g;
            bits |= (at[i] < 0) << i;
            to[8 * g + i] = fabsf(at[i]);
            least = by[i] * at[i] * at[i] < by[least] * at[least] * at[least] ? i : least;
        }
        if (f->even && __builtin_parity((unsigned)bits)) {
            bits ^= 1 << least;
            to[8 * g + least] = -to[8 * g + least];
        }
        signs[g] = (uint8_t)bits;
    }
}

/* Tries integer scales next to the present ones, under b->d. */
static void settle_block(const grid_format *f, const book *list, const float *x, const float *w, grid_block *b)
{
    b->error = 0;
    for (int j = 0; j < K / f->sub; j++) {
        int middle = b->scale[j];
        sub_fit best = {.error = INFINITY}, s;
        for (int k = middle - 1; k <= middle + 1; k++) {
            if (k < 0 || k > f->top) continue;
            try_sub(f, list, x + j * f->sub, w + j * f->sub, b->d * f->unit * (0.5f + (float)k), &s);
            if (!(s.error < best.error)) continue;
            best = s;
            b->scale[j] = k;
        }
        b->sub[j] = best;
        b->error += best.error;
    }
}

static void fit_grid(const grid_format *f, const book *list, const float *x, const float *w, grid_block *best)
{
    float parts[K], most = 0, t[16];
    grid_block b = {.d = 0};
    if (f->shifted) memcpy(parts, x, sizeof parts);
    else split_signs(f, x, w, parts, b.signs);
    for (int j = 0; j < K / f->sub; j++) {
        t[j] = search_sub(f, list, parts + j * f->sub, w + j * f->sub).t;
        most = t[j] > most ? t[j] : most;
    }
    b.d = f32_round_f16(most / (f->unit * (0.5f + (float)f->top)));
    for (int j = 0; j < K / f->sub; j++) {
        float s = b.d > 0 ? rintf(t[j] / (b.d * f->unit) - 0.5f) : 0;
        b.scale[j] = s > 0 ? s < (float)f->top ? (int)s : f->top : 0;
    }
    for (int turn = 0; turn < TURNS; turn++) {
        double vv = 0, xv = 0;
        settle_block(f, list, parts, w, &b);
        if (turn > 0 && !(b.error < best->error)) break; /* the first is taken even where squares overflow */
        *best = b;
        for (int j = 0; j < K / f->sub; j++) {
            double unit = (double)f->unit * (0.5 + b.scale[j]);
            vv += unit * unit * b.sub[j].vv;
            xv += unit * b.sub[j].xv;
        }
        if (!(vv > 0) || !(xv > 0)) break;
        b.d = f32_round_f16((float)(xv / vv));
    }
}

/* ---- bytes */

/* Group g of the block. */
static int entry_of(const grid_format *f, const grid_block *b, int g)
{
    int each = f->sub / f->group;
    return b->sub[g / each].entry[g % each];
}
static int minus_of(const grid_format *f, const grid_block *b, int g)
{
    int each = f->sub / f->group;
    return b->sub[g / each].minus[g % each];
}

static void put_iq2_xxs(const grid_format *f, const grid_block *b, uint8_t *to)
{
    block_iq2_xxs out = {.d = f32_to_f16(b->d)};
    for (int g = 0; g < 8; g++) {
        uint32_t word[2] = {0, (uint32_t)b->scale[g] << 28};
        for (int k = 0; k < 4; k++) {
            word[0] |= (uint32_t)entry_of(f, b, 4 * g + k) << 8 * k;
            word[1] |= (uint32_t)(b->signs[4 * g + k] & 127) << 7 * k;
        }
        for (int k = 0; k < 4; k++) out.qs[4 * g + k] = (uint16_t)(word[k / 2] >> k % 2 * 16);
    }
    memcpy(to, &out, sizeof out);
}

static void put_scales(const grid_block *b, int n, uint8_t *to)
{
    for (int j = 0; j < n; j++) to[j / 2] = (uint8_t)(to[j / 2] | b->scale[j] << j % 2 * 4);
}

static void put_iq2_xs(const grid_format *f, const grid_block *b, uint8_t *to)
{
    block_iq2_xs out = {.d = f32_to_f16(b->d)};
    for (int k = 0; k < 32; k++) out.qs[k] = (uint16_t)(entry_of(f, b, k) | (b->signs[k] & 127) << 9);
    put_scales(b, 16, out.scales);
    memcpy(to, &out, sizeof out);
}

static void put_iq2_s(const grid_format *f, const grid_block *b, uint8_t *to)
{
    block_iq2_s out = {.d = f32_to_f16(b->d)};
    for (int k = 0; k < 32; k++) {
        int entry = entry_of(f, b, k);
        out.qs[k] = (uint8_t)entry;
        out.qh[k / 4] = (uint8_t)(out.qh[k / 4] | entry >> 8 << k % 4 * 2);
        out.signs[k] = b->signs[k];
    }
    put_scales(b, 16, out.scales);
    memcpy(to, &out, sizeof out);
}

static void put_iq3_xxs(const grid_format *f, const grid_block *b, uint8_t *to)
{
    block_iq3_xxs out = {.d = f32_to_f16(b->d)};
    for (int k = 0; k < 64; k++) out.qs[k] = (uint8_t)entry_of(f, b, k);
    for (int g = 0; g < 8; g++) {
        uint32_t word = (uint32_t)b->scale[g] << 28;
        for (int k = 0; k < 4; k++) word |= (uint32_t)(b->signs[4 * g + k] & 127) << 7 * k;
        for (int k = 0; k < 4; k++) out.signs[4 * g + k] = (uint8_t)(word >> 8 * k);
    }
    memcpy(to, &out, sizeof out);
}

static void put_iq3_s(const grid_format *f, const grid_block *b, uint8_t *to)
{
    block_iq3_s out = {.d = f32_to_f16(b->d)};
    for (int k = 0; k < 64; k++) {
        int entry = entry_of(f, b, k);
        out.qs[k] = (uint8_t)entry;
        out.qh[k / 8] = (uint8_t)(out.qh[k / 8] | entry >> 8 << k % 8);
    }
    memcpy(out.signs, b->signs, sizeof out.signs);
    put_scales(b, 8, out.scales);
    memcpy(to, &out, sizeof out);
}

static void put_iq1_s(const grid_format *f, const grid_block *b, uint8_t *to)
{
    block_iq1_s out = {.d = f32_to_f16(b->d)};
    for (int k = 0; k < 32; k++) {
        int entry = entry_of(f, b, k), of_run = k % 4 ? 0 : b->scale[k / 4] << 12 | minus_of(f, b, k) << 15;
        out.qs[k] = (uint8_t)entry;
        out.qh[k / 4] = (uint16_t)(out.qh[k / 4] | entry >> 8 << 3 * (k % 4) | of_run);
    }
    memcpy(to, &out, sizeof out);
}

static void put_iq1_m(const grid_format *f, const grid_block *b, uint8_t *to)
{
    block_iq1_m out = {{0}};
    uint16_t d = f32_to_f16(b->d);
    for (int k = 0; k < 32; k++) {
        int entry = entry_of(f, b, k);
        out.qs[k] = (uint8_t)entry;
        out.qh[k / 2] = (uint8_t)(out.qh[k / 2] | (entry >> 8 | minus_of(f, b, k) << 3) << k % 2 * 4);
    }
    for (int j = 0; j < 16; j++) out.scales[j / 4] = (uint16_t)(out.scales[j / 4] | b->scale[j] << 3 * (j % 4));
    for (int i = 0; i < 4; i++) out.scales[i] = (uint16_t)(out.scales[i] | (d >> 4 * i & 15) << 12);
    memcpy(to, &out, sizeof out);
}

typedef void grid_writer(const grid_format *f, const grid_block *b, uint8_t *to);
static grid_writer *const writers[FORMATS] = {put_iq2_xxs, put_iq2_xs, put_iq2_s, put_iq3_xxs,
                                              put_iq3_s,   put_iq1_s,  put_iq1_m};

void fit_iq_grid(dtype t, const float *x, const float *w, int blocks, uint8_t *out)
{
    int which = 0;
    grid_block b;
    while (formats[which].type != t) which++;
    const book *list = book_of(which);
    for (int i = 0; i < blocks; i++, out += dtype_info[t].bytes) {
        fit_grid(&formats[which], list, x + i * K, w + i * K, &b);
        writers[which](&formats[which], &b, out);
    }
}
