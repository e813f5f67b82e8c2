/* quant_fp4.c - four-bit floats and ternary weights: mxfp4, nvfp4 (OCP Microscaling Formats v1.0, E2M1) and tq1_0,
 * tq2_0.
 *
 * E2M1 magnitudes are 0 .5 1 1.5 2 3 4 6; as in GGUF they are held doubled, and scales halved. tq1_0 packs five base-3
 * digits into a byte as ceil(n * 256 / 243), so that multiplying by 3 moves the next digit above the byte.
 *
 * Scales have few bits, so the fitted encoder tries all that can be best: from one that clips the largest weight to a
 * third (far less where the others are small) to one that makes it the smallest level. UE4M3 scales of small weights
 * are coarse (deviation 0.02: 0.7 dB lost); GGUF's remedy, a factor beside the matrix, is read (models/compile/bind.c)
 * but not written, as most of llama.cpp's graphs load and ignore it. Ternary weights are encoded by quant_few_fit.c. */
#include "base/half.h"
#include "tensor/quant_fit_row.h"
#include "tensor/quant_row.h"

#include <math.h>

static const float level_fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* 2^(e - 128), exactly, subnormals included. */
static float half_power(int e) { return ldexpf(1.f, e - 128); }

static void decode_block_mxfp4(const block_mxfp4 *b, float *y)
{
    float d = half_power(b->e);
    for (int j = 0; j < 16; j++) {
        y[j] = d * level_fp4[b->qs[j] & 15];
        y[j + 16] = d * level_fp4[b->qs[j] >> 4];
    }
}

/* Half of an unsigned E4M3 (bias 7); 0x7f, its NaN, counts as 0. */
static float half_ue4m3(int b)
{
    int exponent = b >> 3 & 15, mantissa = b & 7;
    if (b == 0x7f) return 0;
    return exponent == 0 ? ldexpf((float)mantissa, -10) : ldexpf((float)(8 + mantissa), exponent - 11);
}

static void decode_block_nvfp4(const block_nvfp4 *b, float *y)
{
    for (int k = 0; k < 64; k++) { /* sub-blocks of 16 in 8 bytes: low nibbles first */
        int q = b->qs[k / 16 * 8 + k % 8] >> k % 16 / 8 * 4 & 15;
        y[k] = half_ue4m3(b->d[k / 16]) * level_fp4[q];
    }
}

static void decode_block_nvfp4_f32(const block_nvfp4_f32 *b, float *y)
{
    for (int k = 0; k < 64; k++) y[k] = b->d[k / 16] * level_fp4[b->qs[k / 16 * 8 + k % 8] >> k % 16 / 8 * 4 & 15];
}

static int ternary_digit(uint8_t packed, int digit)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    uint8_t q = (uint8_t)(packed * power[digit]);
    return (q * 3 >> 8) - 1;
}

static void decode_block_tq1_0(const block_tq1_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int k = 0; k < 160; k++) y[k] = d * (float)ternary_digit(b->qs[k % 32], k / 32);
    for (int k = 0; k < 80; k++) y[160 + k] = d * (float)ternary_digit(b->qs[32 + k % 16], k / 16);
    for (int k = 0; k < 16; k++) y[240 + k] = d * (float)ternary_digit(b->qh[k % 4], k / 4);
}

static void decode_block_tq2_0(const block_tq2_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int k = 0; k < 256; k++) y[k] = d * (float)((b->qs[k / 128 * 32 + k % 32] >> k / 32 % 4 * 2 & 3) - 1);
}

BLOCK_DECODER(mxfp4, 32)
BLOCK_DECODER(nvfp4, 64)
BLOCK_DECODER(nvfp4_f32, 64)
BLOCK_DECODER(tq1_0, 256)
BLOCK_DECODER(tq2_0, 256)

/* The exponent puts the maximum into the top octave (4 and 6); then the nearest level, the first of equals. */
static void encode_block_mxfp4(const float *x, block_mxfp4 *b)
{
    float most = 0;
    for (int j = 0; j < 32; j++) most = fabsf(x[j]) > most ? fabsf(x[j]) : most;
    int e = 0, exponent;
    if (most > 0 && isfinite(most)) {
        frexpf(most, &exponent); /* most = m * 2^exponent, m in [.5, 1) */
        e = exponent - 1 - 2 + 127;
        if (e < 0) e = 0;
    }
    b->e = (uint8_t)e;
    float d = half_power(e);
    for (int j = 0; j < 32; j++) {
        int best = 0;
        float least = INFINITY;
        for (int q = 0; q < 16; q++) {
            float off = fabsf(d * level_fp4[q] - x[j]);
            if (off < least) {
                least = off;
                best = q;
            }
        }
        b->qs[j % 16] |= (uint8_t)(best << j / 16 * 4);
    }
}
BLOCK_ENCODER(mxfp4, 32)

/* ---- fitted */

/* The scale of a byte; finite up to the maximum, and rising. */
enum { MOST_E8M0 = 254, MOST_UE4M3 = 126 };
static inline float scale_of(dtype t, int b)
{
    if (t == DTYPE_NVFP4) return b < 8 ? (float)b * 0x1p-10f : bits_float((uint32_t)(b + (119 << 3)) << 20);
    return bits_float(b < 2 ? 0x200000u << b : (uint32_t)(b - 1) << 23);
}

/* The largest byte whose scale is not above v, or 0. */
static int byte_below(dtype t, float v)
{
    int low = 0, high = t == DTYPE_NVFP4 ? MOST_UE4M3 : MOST_E8M0;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (scale_of(t, middle) <= v) low = middle;
        else high = middle - 1;
    }
    return low;
}

/* The nearest magnitude to a size in units of the scale. */
static inline __attribute__((always_inline)) float nearest_fp4(float u)
{
    float v = u > 0.5f ? 1 : 0;
    v += u > 1.5f ? 1 : 0;
    v += u > 2.5f ? 1 : 0;
    v += u > 3.5f ? 1 : 0;
    v += u > 5 ? 2 : 0;
    v += u > 7 ? 2 : 0;
    return v + (u > 10 ? 4 : 0);
}

/* Index of the scale from[0 … count - 1] with the smallest error for n sizes (16 or 32); the first of equals. */
FIT_LOOPS
static int best_of(const float *size, const float *w, int n, const float *from, int count)
{
    float least = INFINITY;
    int best = 0;
    for (int c = 0; c < count; c++) {
        float e[LANES] = {0}, scale = from[c], inverse = scale != 0 ? 1 / scale : 0;
        for (int i = 0; i < n; i += LANES)
            for (int j = 0; j < LANES; j++) {
                float off = size[i + j] - nearest_fp4(size[i + j] * inverse) * scale;
                e[j] += w[i + j] * off * off;
            }
        float all = lanes_sum(e);
        best = all < least ? c : best;
        least = all < least ? all : least;
    }
    return best;
}

/* The best byte for n weights, and their codes. */
static uint8_t fit_scale(dtype t, const float *x, const float *w, int n, uint8_t *q)
{
    static const uint8_t number[13] = {0, 1, 2, 3, 4, [6] = 5, [8] = 6, [12] = 7};
    float square = 0, weight = 0, most = 0, size[32], scale[MOST_E8M0 + 1];
    for (int i = 0; i < n; i++) {
        size[i] = fabsf(x[i]);
        square += w[i] * x[i] * x[i];
        weight += w[i];
        most = w[i] > 0 && size[i] > most ? size[i] : most;
    }
    float mean = weight > 0 ? sqrtf(square / weight) / 8 : 0;
    int from = byte_below(t, mean < most / 36 ? mean : most / 36), to = byte_below(t, most) + 1, count = 0;
    int last = t == DTYPE_NVFP4 ? MOST_UE4M3 : MOST_E8M0;
    for (int b = from; b <= to && b <= last; b++) scale[count++] = scale_of(t, b);
    int best = best_of(size, w, n, scale, count);
    float inverse = scale[best] != 0 ? 1 / scale[best] : 0;
    for (int i = 0; i < n; i++) q[i] = (uint8_t)(number[(int)nearest_fp4(size[i] * inverse)] | (x[i] < 0) << 3);
    return (uint8_t)(from + best);
}

void fit_fp4(dtype t, const float *x, const float *w, int blocks, uint8_t *out)
{
    uint8_t q[64];
    for (int i = 0; i < blocks; i++, x += dtype_info[t].weights, w += dtype_info[t].weights, out += dtype_info[t].bytes)
        if (t == DTYPE_MXFP4) {
            block_mxfp4 b = {.e = fit_scale(t, x, w, 32, q)};
            for (int j = 0; j < 16; j++) b.qs[j] = (uint8_t)(q[j] | q[j + 16] << 4);
            memcpy(out, &b, sizeof b);
        } else {
            block_nvfp4 b = {0};
            for (int s = 0; s < 4; s++) {
                b.d[s] = fit_scale(t, x + 16 * s, w + 16 * s, 16, q);
                for (int j = 0; j < 8; j++) b.qs[8 * s + j] = (uint8_t)(q[j] | q[j + 8] << 4);
            }
            memcpy(out, &b, sizeof b);
        }
}
