/* vocab_scan.c - see vocab_scan.h: the definitions in plain C. */
#include "core/vocab_scan.h"

#include "base/fmath.h"

static float fold(const float a[SCAN_LANES])
{
    float s[SCAN_LANES];
    for (int i = 0; i < SCAN_LANES; i++) s[i] = a[i];
    for (int n = SCAN_LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) s[i] = s[i] + s[i + n];
    return s[0];
}

static int64_t block_end(int64_t begin, int64_t n) { return n - begin < SCAN_BLOCK ? n : begin + SCAN_BLOCK; }

static best_logit best(const float *x, int64_t n) { return logits_best(x, n); }

static void pad(const scan_columns *c, int64_t n)
{
    for (; n % SCAN_LANES; n++) {
        c->key[n] = -INFINITY;
        c->weight[n] = 0;
        c->id[n] = 0;
    }
}

static float copy_and_max(const float *from, int64_t n, float *to)
{
    float most = -INFINITY;
    for (int64_t i = 0; i < n; i++) most = fm_max(to[i] = fm_max(from[i], -INFINITY), most);
    for (; n % SCAN_LANES; n++) to[n] = -INFINITY;
    return most;
}

static void mask(const uint64_t *allowed, int64_t n, float *key)
{
    for (int64_t i = 0; i < n; i++)
        if (!(allowed[i / 64] >> i % 64 & 1)) key[i] = -INFINITY;
}

static double sum(const float *weight, const float *by, int64_t n, float *sums)
{
    double total = 0;
    for (int64_t b = 0; b < n; b += SCAN_BLOCK) {
        float lane[SCAN_LANES] = {0};
        for (int64_t i = b; i < block_end(b, n); i++)
            lane[i % SCAN_LANES] = by ? fmaf(weight[i], fm_max(by[i], FM_EXP_MIN), lane[i % SCAN_LANES])
                                      : lane[i % SCAN_LANES] + weight[i];
        total += (double)(sums[b / SCAN_BLOCK] = fold(lane));
    }
    return total;
}

static double weigh(float *key, int64_t n, float top, float scale, float *weight, float *sums)
{
    for (int64_t i = 0; i < n; i++) {
        key[i] = (key[i] - top) * scale;
        weight[i] = fm_exp(key[i]);
    }
    for (int64_t i = n; i % SCAN_LANES; i++) weight[i] = 0;
    return sum(weight, NULL, n, sums);
}

static void above(const float *key, const float *weight, int64_t n, const float level[SCAN_LEVELS],
                  double mass[SCAN_LEVELS], int64_t count[SCAN_LEVELS])
{
    for (int k = 0; k < SCAN_LEVELS; k++) {
        mass[k] = 0;
        count[k] = 0;
        for (int64_t b = 0; b < n; b += SCAN_BLOCK) {
            float lane[SCAN_LANES] = {0};
            for (int64_t i = b; i < block_end(b, n); i++)
                if (!(key[i] < level[k])) {
                    lane[i % SCAN_LANES] += weight[i];
                    count[k]++;
                }
            mass[k] += (double)fold(lane);
        }
    }
}

static double erase(const float *by, int64_t n, float low, float *key, float *weight, float *sums)
{
    for (int64_t i = 0; i < n; i++)
        if (by[i] < low) {
            key[i] = -INFINITY;
            weight[i] = 0;
        }
    return sum(weight, NULL, n, sums);
}

static int64_t keep_between(const float *by, int64_t n, float low, float high, const scan_columns *from,
                            const scan_columns *to)
{
    int64_t held = 0;
    for (int64_t i = 0; i < n; i++) {
        if (by[i] < low || !(by[i] < high)) continue;
        to->key[held] = from->key[i];
        to->weight[held] = from->weight[i];
        to->id[held++] = from->id[i];
    }
    pad(to, held);
    return held;
}

static void bends(const float *x, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++) to[i] = fabsf((x[i] - x[i + 1]) - (x[i + 1] - x[i + 2]));
    for (; n % SCAN_LANES; n++) to[n] = 0;
}

static void distance(const float *key, int64_t n, float from, float *to)
{
    for (int64_t i = 0; i < n; i++) to[i] = -fabsf(key[i] - from);
    for (; n % SCAN_LANES; n++) to[n] = -INFINITY;
}

const scan_ops scan_reference = {best, copy_and_max, mask, weigh, sum, above, erase, keep_between, bends, distance};
