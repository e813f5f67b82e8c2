/* v_qline.h - unpacks codes of weights (tensor/panel.h) in registers, to group vectors: 16 rows (AVX2: 8 rows, NEON: 4
 * rows) x 4 k of bytes. */
#pragma once
#include "cpu/simd/v16.h"
#include "tensor/panel.h"

#include <string.h>

#if defined(__AVX512F__)

typedef __m512i qline;
#define Q_LOAD(i)          _mm512_loadu_si512((const void *)(p + PANEL_LINE * (i)))
#define Q_AND(a, mask)     _mm512_and_si512(a, _mm512_set1_epi8(mask))
/* a | (b & mask) */
#define Q_OR(a, b, mask)   _mm512_ternarylogic_epi64(a, b, _mm512_set1_epi8((char)(mask)), 0xf8)
/* bits of a where the mask has them, else of b */
#define Q_PART(a, b, mask) _mm512_ternarylogic_epi64(a, b, _mm512_set1_epi8((char)(mask)), 0xe4)
#define Q_RIGHT(a, n)      _mm512_srli_epi16(a, n)
#define Q_LEFT(a, n)       _mm512_slli_epi16(a, n)
#define Q_ZERO()           _mm512_setzero_si512()

/* Levels of FP8 (e4m3.h) have 19 bits and a sign: three digits of seven bits, each plus 128. [digit][size] */
enum { E4M3_DIGITS = 3, E4M3_DIGIT_BITS = 7 };
#define E4M3_SIZE(n)    ((n) >> 3 ? (8 + (n) % 8) << ((n) >> 3) : (n) % 8 << 1)
#define E4M3_DIGIT_0(n) ((E4M3_SIZE(n) & 127) + 128)
#define E4M3_DIGIT_1(n) ((E4M3_SIZE(n) >> 7 & 127) + 128)
#define E4M3_DIGIT_2(n) ((E4M3_SIZE(n) >> 14) + 128)

#define M11(n)      (n) % 11
#define D11(n)      (n) / 11
#define EIGHT(f, b) f(b), f(b + 1), f(b + 2), f(b + 3), f(b + 4), f(b + 5), f(b + 6), f(b + 7)
#define CODES128(f)                                                                                                    \
    {                                                                                                                  \
        EIGHT(f, 0), EIGHT(f, 8), EIGHT(f, 16), EIGHT(f, 24), EIGHT(f, 32), EIGHT(f, 40), EIGHT(f, 48), EIGHT(f, 56),  \
            EIGHT(f, 64), EIGHT(f, 72), EIGHT(f, 80), EIGHT(f, 88), EIGHT(f, 96), EIGHT(f, 104), EIGHT(f, 112),        \
            EIGHT(f, 120)                                                                                              \
    }
static const uint8_t mod11[128] = CODES128(M11), div11[128] = CODES128(D11);
static const uint8_t e4m3_digits[E4M3_DIGITS][128] = {CODES128(E4M3_DIGIT_0), CODES128(E4M3_DIGIT_1),
                                                      CODES128(E4M3_DIGIT_2)};
/* Both codes of each pair: a look-up in 128 bytes, which ignores bit 7. */
INLINE void q_pair(qline pairs, qline *w0, qline *w1)
{
    *w0 = _mm512_permutex2var_epi8(_mm512_loadu_si512(mod11), pairs, _mm512_loadu_si512(mod11 + 64));
    *w1 = _mm512_permutex2var_epi8(_mm512_loadu_si512(div11), pairs, _mm512_loadu_si512(div11 + 64));
}

#elif defined(__aarch64__)

typedef uint8x16_t qline; /* a quarter of a line: p is moved by 16 bytes for each four rows */
#define Q_LOAD(i)        vld1q_u8(p + PANEL_LINE * (i))
#define Q_AND(a, mask)   ((a) & (uint8_t)(mask))
#define Q_OR(a, b, mask) ((a) | Q_AND(b, mask))
#define Q_RIGHT(a, n)    ((a) >> (uint8_t)(n))
#define Q_LEFT(a, n)     ((a) << (uint8_t)(n))
#define Q_ZERO()         vdupq_n_u8(0)
/* p / 11 = p * 187 >> 11 for p < 128: the upper byte of a product of 16 bits, less three bits. */
INLINE void q_pair(qline pairs, qline *w0, qline *w1)
{
    const uint8x16_t by = vdupq_n_u8(187);
    pairs = Q_AND(pairs, 0x7f);
    uint16x8_t low = vmull_u8(vget_low_u8(pairs), vget_low_u8(by)), high = vmull_high_u8(pairs, by);
    *w1 = vshrq_n_u8(vuzp2q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)), 3);
    *w0 = vmlsq_u8(pairs, *w1, vdupq_n_u8(11));
}

#else

typedef __m256i qline; /* half a line: p is moved by 32 bytes for rows 8 … 15 */
#define Q_LOAD(i)        _mm256_loadu_si256((const __m256i *)(const void *)(p + PANEL_LINE * (i)))
#define Q_AND(a, mask)   _mm256_and_si256(a, _mm256_set1_epi8(mask))
#define Q_OR(a, b, mask) _mm256_or_si256(a, Q_AND(b, (char)(mask)))
#define Q_RIGHT(a, n)    _mm256_srli_epi16(a, n)
#define Q_LEFT(a, n)     _mm256_slli_epi16(a, n)
#define Q_ZERO()         _mm256_setzero_si256()
/* p / 11 = p * 187 >> 11 for p < 128, as products of bytes: those of even bytes, and of odd ones, whose upper byte is
 * that of the quotient. Eleven times a quotient (below 12) is looked up. */
INLINE void q_pair(qline pairs, qline *w0, qline *w1)
{
    const __m256i p = Q_AND(pairs, 0x7f);
    const __m256i even = _mm256_maddubs_epi16(_mm256_set1_epi16(187), p),
                  odd = _mm256_maddubs_epi16(_mm256_set1_epi16((short)(187 << 8)), p);
    const __m256i elevens = _mm256_setr_epi8(0, 11, 22, 33, 44, 55, 66, 77, 88, 99, 110, 121, 0, 0, 0, 0, 0, 11, 22, 33,
                                             44, 55, 66, 77, 88, 99, 110, 121, 0, 0, 0, 0);
    *w1 = _mm256_blendv_epi8(Q_RIGHT(even, 11), Q_RIGHT(odd, 3), _mm256_set1_epi16((short)0xff00));
    *w0 = _mm256_sub_epi8(p, _mm256_shuffle_epi8(elevens, *w1));
}

#endif

/* Bits of the mask, from bit n on. */
#if defined(__aarch64__)
#define Q_FIELD(a, n, mask) ((mask) == 0xff >> (n) ? Q_RIGHT(a, n) : Q_AND(Q_RIGHT(a, n), mask))
#else
#define Q_FIELD(a, n, mask) Q_AND(Q_RIGHT(a, n), mask)
#endif

/* q_width: number of group vectors that a step gives. q_unpack: those of step j of a tile of 64 k, in order; `kept`
 * lives from step to step. */
INLINE int q_width(int bits) { return bits == 8 ? 1 : bits == 4 || bits == 5 || bits == 0 ? 2 : 4; }
INLINE void q_unpack(int bits, const uint8_t *p, int j, qline *kept, qline w[4])
{
    if (bits == 8) {
        w[0] = Q_LOAD(j);
    } else if (bits == 4 || bits == 5) {
        qline v = Q_LOAD(j);
        w[0] = Q_AND(v, 15);
        w[1] = Q_FIELD(v, 4, 15);
        if (bits == 4) return;
        int i = 2 * (j % 4); /* bit of the line of fifth bits */
        if (i == 0) *kept = Q_LOAD(8 + j / 4);
        w[0] = Q_OR(w[0], i < 4 ? Q_LEFT(*kept, 4 - i) : Q_RIGHT(*kept, i - 4), 16);
        w[1] = Q_OR(w[1], i < 3 ? Q_LEFT(*kept, 3 - i) : Q_RIGHT(*kept, i - 3), 16);
    } else if (bits == 6) {
        qline a = Q_LOAD(3 * j), b = Q_LOAD(3 * j + 1), c = Q_LOAD(3 * j + 2);
        w[0] = Q_AND(a, 63);
        w[1] = Q_AND(b, 63);
        w[2] = Q_AND(c, 63);
        w[3] = Q_FIELD(a, 6, 3);
        w[3] = Q_OR(w[3], Q_RIGHT(b, 4), 12);
        w[3] = Q_OR(w[3], Q_RIGHT(c, 2), 48);
    } else if (bits == 2 || bits == 3) {
        qline v = Q_LOAD(j);
        w[0] = Q_AND(v, 3);
        w[1] = Q_FIELD(v, 2, 3);
        w[2] = Q_FIELD(v, 4, 3);
        w[3] = Q_FIELD(v, 6, 3);
        if (bits == 2) return;
        if (j % 2 == 0) *kept = Q_LOAD(4 + j / 2);
        UNROLLED (i, 4) {
            int bit = 4 * (j % 2) + i;
            w[i] = Q_OR(w[i], bit < 2 ? Q_LEFT(*kept, 2 - bit) : Q_RIGHT(*kept, bit - 2), 4);
        }
    } else if (bits == 1) {
        if (j % 2 == 0) *kept = Q_LOAD(j / 2);
        UNROLLED (i, 4) {
            int bit = 4 * (j % 2) + i;
            w[i] = Q_AND(bit < 1 ? Q_LEFT(*kept, 1) : Q_RIGHT(*kept, bit - 1), 2);
        }
    } else {
        qline v;
        if (j == 0) *kept = Q_ZERO();
        if (j < 7) {
            v = Q_LOAD(j);
            *kept = Q_OR(*kept, Q_RIGHT(v, 7 - j), 1 << j);
        } else {
            v = *kept;
        }
        q_pair(v, &w[0], &w[1]);
    }
}

#if defined(__AVX512F__)

/* q_unpack for codes of 2, 3 or 4 bits, without clearing the bits above them. */
INLINE void q_unpack_loose(int bits, const uint8_t *p, int j, qline *kept, qline w[4])
{
    qline v = Q_LOAD(j);
    const int width = q_width(bits);
    UNROLLED (i, width) w[i] = i ? Q_RIGHT(v, 8 / width * i) : v;
    if (bits != 3) return;
    if (j % 2 == 0) *kept = Q_LOAD(4 + j / 2);
    UNROLLED (i, 4) {
        int bit = 4 * (j % 2) + i;
        w[i] = Q_PART(w[i], bit < 2 ? Q_LEFT(*kept, 2 - bit) : Q_RIGHT(*kept, bit - 2), 3);
    }
}

#endif

INLINE int32_t q_four(const int8_t *code) /* four codes as one word */
{
    int32_t v;
    memcpy(&v, code, 4);
    return v;
}
