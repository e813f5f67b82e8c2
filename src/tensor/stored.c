/* stored.c - see stored.h. Layouts are those of the programs that write them: GPTQ and AWQ (AutoGPTQ's and AutoAWQ's
 * WQLinear), compressed-tensors, modelopt, bitsandbytes, BitNet, gpt-oss. */
#include "tensor/stored.h"

#include "base/half.h"
#include "tensor/block.h"
#include "tensor/e4m3.h"
#include "tensor/quant.h"
#include "tensor/quant_stored.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 128 }; /* columns that are read at once: a multiple of every block's, a divisor of none */

static uint32_t word_at(const uint8_t *data, int64_t i)
{
    uint32_t v;
    memcpy(&v, data + 4 * i, 4);
    return v;
}

/* Code `i` of a stream of bits that runs through words which lie `apart` words from each other. */
static int stream_code(const uint8_t *words, int64_t first, int64_t apart, int64_t i, int bits)
{
    const int64_t word = i * bits / 32;
    const int at = (int)(i * bits % 32);
    uint32_t v = word_at(words, first + word * apart) >> at;
    if (at + bits > 32) v |= word_at(words, first + (word + 1) * apart) << (32 - at);
    return (int)(v & ((1u << bits) - 1));
}

static int awq_code(const uint8_t *words, int64_t row, int64_t n, int64_t cols)
{
    static const uint8_t place[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return (int)(word_at(words, row * (cols / 8) + n / 8) >> 4 * place[n % 8] & 15);
}

/* Codes of columns k0 … k0 + n - 1 of row r. */
static void codes_get(const stored_matrix *s, int64_t r, int64_t k0, int n, uint8_t *q)
{
    const int64_t each = s->bits ? 32 / s->bits : 1, quarter = s->rows / 4;
    for (int i = 0; i < n; i++) {
        const int64_t k = s->from ? s->from[k0 + i] : k0 + i;
        switch (s->form) {
        case STORED_BYTES: q[i] = s->codes[r * s->cols + k]; break;
        case STORED_NIBBLES: q[i] = s->codes[r * (s->cols / 2) + k / 2] >> k % 2 * 4 & 15; break;
        case STORED_NIBBLES_2: q[i] = s->codes[(r * s->cols + k) / 2] >> (1 - (r * s->cols + k) % 2) * 4 & 15; break;
        case STORED_WORDS:
            q[i] = (uint8_t)(word_at(s->codes, r * ((s->cols + each - 1) / each) + k / each) >> k % each * s->bits &
                             ((1u << s->bits) - 1));
            break;
        case STORED_COLUMNS: q[i] = (uint8_t)stream_code(s->codes, r, s->rows, k, s->bits); break;
        case STORED_AWQ: q[i] = (uint8_t)awq_code(s->codes, k, r, s->rows); break;
        default: q[i] = s->codes[r % quarter * s->cols + k] >> r / quarter * 2 & 3;
        }
    }
}

static int64_t group_of(const stored_matrix *s, int64_t k)
{
    return s->order ? (int32_t)word_at(s->order, k) : k / s->scale.cols;
}

/* Element of the scales. */
static int64_t scale_index(const stored_grid *g, int64_t r, int64_t group)
{
    return r / g->part * g->part_apart + r % g->part / g->rows * g->row_apart + group * g->group_apart;
}

static float scale_of(const stored_matrix *s, int64_t r, int64_t group)
{
    const int64_t i = scale_index(&s->scale, r, group);
    const uint64_t bytes = dtype_info[s->scale.type].bytes;
    float v, by;
    if (!s->nested) {
        quant_decode(s->scale.type, s->scale.data + (uint64_t)i * bytes, &v, 1);
        return v * s->factor;
    }
    memcpy(&v, s->nested + 4 * s->scale.data[i], 4);
    memcpy(&by, s->nested_by + i / 256 * 4, 4);
    return v * by + s->nested_offset;
}

static int zero_of(const stored_matrix *s, int64_t r, int64_t group)
{
    if (!s->zeros) return s->zero;
    if (s->form == STORED_AWQ) return awq_code(s->zeros, group, r, s->rows);
    if (s->form == STORED_COLUMNS)
        return stream_code(s->zeros, group * (s->rows * s->bits / 32), 1, r, s->bits) + s->zero_more;
    const int each = 32 / s->bits;
    return (int)(word_at(s->zeros, r / each * s->groups + group) >> r % each * s->bits & ((1u << s->bits) - 1));
}

/* ---- blocks */

static void put_nvfp4(const stored_matrix *s, int64_t r, int64_t k, uint8_t *q, int n, uint8_t *to)
{
    block_nvfp4 b = {.d = {0}};
    for (int i = 0; i < n / 16; i++) {
        const uint8_t d = s->scale.data[scale_index(&s->scale, r, (k + 16 * i) / 16)];
        const uint8_t flip = d & 0x80 ? 8 : 0; /* the sign of the scale goes to the codes */
        b.d[i] = d & 0x7f;
        for (int j = 0; j < 8; j++)
            b.qs[8 * i + j] = (uint8_t)((q[16 * i + j] ^ flip) | (q[16 * i + j + 8] ^ flip) << 4);
    }
    memcpy(to, &b, sizeof b);
}

static void put_nvfp4_f32(const stored_matrix *s, int64_t r, int64_t k, const uint8_t *q, int n, uint8_t *to)
{
    block_nvfp4_f32 b = {.d = {0}};
    for (int i = 0; i < n / 16; i++) {
        b.d[i] = 0.5f * scale_of(s, r, (k + 16 * i) / 16);
        for (int j = 0; j < 8; j++) b.qs[8 * i + j] = (uint8_t)(q[16 * i + j] | q[16 * i + j + 8] << 4);
    }
    memcpy(to, &b, sizeof b);
}

static void put_mxfp4(const stored_matrix *s, int64_t r, int64_t k, const uint8_t *q, uint8_t *to)
{
    block_mxfp4 b = {.e = s->scale.data[scale_index(&s->scale, r, k / 32)]};
    for (int j = 0; j < 16; j++) b.qs[j] = (uint8_t)(q[j] | q[j + 16] << 4);
    memcpy(to, &b, sizeof b);
}

static void put_q2_0(const uint8_t *q, uint8_t *to)
{
    block_q2_0 b = {.d = f32_to_f16(1)};
    for (int j = 0; j < 64; j++) b.qs[j / 4] |= (uint8_t)(q[j] << j % 4 * 2);
    memcpy(to, &b, sizeof b);
}

static void put_nf4(const stored_matrix *s, int64_t r, int64_t k, const uint8_t *q, uint8_t *to)
{
    block_nf4 b = {.d = scale_of(s, r, group_of(s, k))};
    for (int j = 0; j < 64; j++) b.qs[j / 2] |= (uint8_t)(q[j] << j % 2 * 4);
    memcpy(to, &b, sizeof b);
}

/* Codes less half of their range, as ggml has them. */
static void put_q4_0(uint16_t d, const uint8_t *q, uint8_t *to)
{
    block_q4_0 b = {.d = d};
    for (int j = 0; j < 16; j++) b.qs[j] = (uint8_t)(q[j] | q[j + 16] << 4);
    memcpy(to, &b, sizeof b);
}

static void put_q8_0(uint16_t d, const uint8_t *q, uint8_t *to)
{
    block_q8_0 b = {.d = d};
    for (int j = 0; j < 32; j++) b.qs[j] = (int8_t)(q[j] - 128);
    memcpy(to, &b, sizeof b);
}

/* One block of the type, of n codes at column k; q is zero after these. */
static void put_block(const stored_matrix *s, int64_t r, int64_t k, uint8_t *q, int n, uint8_t *to)
{
    const int64_t group = group_of(s, k);
    float d;
    switch ((int)s->type) {
    case DTYPE_F8_B128:
    case DTYPE_I8_B128:
        d = scale_of(s, r, group);
        memcpy(to, &d, sizeof d);
        memcpy(to + sizeof d, q, 128);
        break;
    case DTYPE_NVFP4: put_nvfp4(s, r, k, q, n, to); break;
    case DTYPE_NVFP4_F32: put_nvfp4_f32(s, r, k, q, n, to); break;
    case DTYPE_MXFP4: put_mxfp4(s, r, k, q, to); break;
    case DTYPE_Q2_0: put_q2_0(q, to); break;
    case DTYPE_NF4: put_nf4(s, r, k, q, to); break;
    case DTYPE_Q4_0: put_q4_0(f32_to_f16(scale_of(s, r, group)), q, to); break;
    case DTYPE_Q8_0: put_q8_0(f32_to_f16(scale_of(s, r, group)), q, to); break;
    default: zero_put(s->type, to, q, f32_to_f16(scale_of(s, r, group)), (int16_t)zero_of(s, r, group));
    }
}

/* ---- floats */

static float level_of(const stored_matrix *s, uint8_t q, int zero)
{
    switch (s->level) {
    case STORED_INT8: return (float)(int8_t)q;
    case STORED_E4M3: return (float)e4m3_level(q) * E4M3_UNIT;
    default: return (float)(q - zero);
    }
}

static void put_floats(const stored_matrix *s, int64_t r, int64_t k, const uint8_t *q, int n, uint8_t *to)
{
    int64_t last = -1;
    float d = 0;
    int zero = 0;
    for (int i = 0; i < n; i++) {
        const int64_t group = group_of(s, k + i);
        if (group != last) {
            d = scale_of(s, r, group);
            zero = zero_of(s, r, group);
            last = group;
        }
        const float v = level_of(s, q[i], zero) * d;
        memcpy(to + 4 * i, &v, 4);
    }
}

/* ---- products */

/* Elements first … first + n - 1, which are whole blocks. */
static void part_get(const stored_part *p, int64_t first, int64_t n, float *to)
{
    const dtype_row *t = &dtype_info[p->type];
    quant_decode(p->type, p->data + (uint64_t)(first / t->weights) * t->bytes, to, (uint64_t)n);
}

/* In place: mean 0 and variance 1, times gain plus shift. */
static void normalise(const stored_product *m, float *x)
{
    double mean = 0, square = 0;
    for (int64_t k = 0; k < m->width; k++) mean += x[k];
    mean /= (double)m->width;
    for (int64_t k = 0; k < m->width; k++) square += (x[k] - mean) * (x[k] - mean);
    const double by = 1 / sqrt(square / (double)m->width + m->eps);
    for (int64_t k = 0; k < m->width; k++) {
        float gain, shift;
        part_get(&m->gain, k, 1, &gain);
        part_get(&m->shift, k, 1, &shift);
        x[k] = (float)((x[k] - mean) * by * gain + shift);
    }
}

/* The sum of products, in sixteen chains of every sixteenth element. */
static float product_of(const float *x, const float *y, int64_t n)
{
    float lane[16] = {0};
    int64_t k = 0;
    for (; k + 16 <= n; k += 16)
        for (int i = 0; i < 16; i++) lane[i] += x[k + i] * y[k + i];
    for (; k < n; k++) lane[k % 16] += x[k] * y[k];
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    return lane[0];
}

static void product_row(const stored_matrix *s, int64_t r, uint8_t *to)
{
    const stored_product *m = s->product;
    float x[PRODUCT_WIDTH_MAX], w[PRODUCT_WIDTH_MAX], bias = 0;
    part_get(&m->table, r % m->rows * m->width, m->width, x);
    if (m->gain.data) normalise(m, x);
    for (int64_t k = 0; k < s->cols; k++) {
        const int64_t out = r / m->rows * s->cols + k;
        part_get(&m->by, out * m->width, m->width, w);
        if (m->bias.data) part_get(&m->bias, out, 1, &bias);
        const float v = product_of(w, x, m->width) + bias;
        memcpy(to + 4 * k, &v, 4);
    }
}

/* ---- rows */

void stored_row(const stored_matrix *s, int64_t r, uint8_t *to)
{
    const int weights = dtype_info[s->type].weights, bytes = dtype_info[s->type].bytes;
    const int step = weights > 1 ? weights : CHUNK;
    if (s->form == STORED_PRODUCT) {
        product_row(s, r, to);
        return;
    }
    for (int64_t k = 0; k < s->cols; k += step) {
        uint8_t q[CHUNK] = {0};
        const int n = s->cols - k < step ? (int)(s->cols - k) : step;
        codes_get(s, r, k, n, q);
        if (weights > 1) put_block(s, r, k, q, n, to);
        else put_floats(s, r, k, q, n, to);
        to += weights > 1 ? bytes : bytes * n;
    }
}

void stored_floats(const stored_matrix *s, int64_t r, float *to)
{
    const int weights = dtype_info[s->type].weights;
    if (weights == 1) {
        stored_row(s, r, (uint8_t *)to);
        return;
    }
    for (int64_t k = 0; k < s->cols; k += weights) {
        uint8_t q[CHUNK] = {0}, block[sizeof(block_f8_b128)];
        const int n = s->cols - k < weights ? (int)(s->cols - k) : weights;
        codes_get(s, r, k, n, q);
        put_block(s, r, k, q, n, block);
        quant_decode_row(s->type, block, to + k, (uint64_t)n);
    }
}
