/* v_qpick.h - levels of weights that pick tables of eight or sixteen (tensor/panel.h), on registers of 32 bytes.
 *
 * A byte look-up has one table for each half of a register, but a half of a group vector holds four rows, each with a
 * table of its own. So codes are transposed first: a vector has 16 k of row r and, in the other half, of row r + 4,
 * and one look-up is enough. Codes are transposed as nibbles, two in a byte; codes of 3 bits become nibbles before.
 * With products this takes 7 operations a vector (3 bits: 9 to 10); a look-up for each four levels of a group vector
 * takes 15. A table is ready for every two picks: those of both rows where 16 weights have one pick, else the two of
 * one row. For one row of activations these vectors are multiplied directly, 16 k at a time, and the parts of a sum
 * are added at the end of a tile; for more rows vectors are transposed back. */
#pragma once
#include "cpu/simd/qtile.h"
#include "cpu/simd/v_qline.h"

#include <pthread.h>

/* Index: two picks, the first one lowest. Entry: the levels of both, less the zero, in 16 bytes for each, or where 8
 * weights have a pick, in 8; levels of 3 bits are repeated to fill them. */
enum { PICK_PAIRS = 256, PICK_KINDS = 3 };
static _Alignas(64) uint8_t pick_tables[PICK_KINDS][PICK_PAIRS * 32];
static const dtype pick_types[PICK_KINDS] = {DTYPE_Q4_T, DTYPE_Q3H_T, DTYPE_Q3_T};
static pthread_once_t pick_tables_made = PTHREAD_ONCE_INIT;
static void make_pick_tables(void)
{
    for (int i = 0; i < PICK_KINDS; i++) {
        const panel_format *f = panel_format_of(pick_types[i]);
        const int bits = f->bits == 4 ? 3 : 4, bytes = f->code == PANEL_PICK8 ? 8 : 16;
        const int8_t *level = f->level;
        for (int both = 0; both < 1 << 2 * bits; both++)
            for (int b = 0; b < 2 * bytes; b++) {
                int pick = b < bytes ? both & ((1 << bits) - 1) : both >> bits;
                pick_tables[i][both * 2 * bytes + b] = (uint8_t)(level[pick << f->bits | b % (1 << f->bits)] - f->zero);
            }
    }
}
/* Of four levels, a look-up for the four rows of a group vector is shorter. */
INLINE bool q_turns(qkind k) { return q_picks(k) && k.bits > 2; }
INLINE const uint8_t *q_pick_tables(const panel_format *f)
{
    int i = 0;
    pthread_once(&pick_tables_made, make_pick_tables);
    while (pick_types[i] != f->type) i++;
    return pick_tables[i];
}

/* Picks of tile t for eight rows: words, and where 16 weights have one, those of rows r and r + 4 side by side: of
 * even 16 k, then of odd ones, for two tiles, lowest first. */
typedef struct qpicks {
    const uint8_t *words;
    uint32_t both[2][4];
} qpicks;
INLINE int q_pick_bits(qkind k) { return k.bits == 4 ? 3 : 4; }
INLINE void q_next_picks(qkind k, const uint8_t *tail, int t, int h, qpicks *to)
{
    const int bits = q_pick_bits(k);
    const uint32_t even = bits == 3 ? 07070707 : 0x0f0f0f0f;
    to->words = tail + (k.code == PANEL_PICK8 ? t : t / 2) * PANEL_LINE + 32 * h;
    if (k.code == PANEL_PICK8) return;
    UNROLLED (r, 4) {
        uint32_t a, b;
        memcpy(&a, to->words + 4 * r, 4);
        memcpy(&b, to->words + 4 * (r + 4), 4);
        if (t % 2) {
            to->both[0][r] >>= 4 * bits;
            to->both[1][r] >>= 4 * bits;
        } else {
            to->both[0][r] = (a & even) | (b & even) << bits;
            to->both[1][r] = (a >> bits & even) | (b & even << bits);
        }
    }
}

/* The table for rows r and r + 4, k 16 j … 16 j + 15 of the tile. */
INLINE qline q_pick_table(qkind k, const uint8_t *tables, const qpicks *picks, int r, int j)
{
    if (k.code == PANEL_PICK8) {
        const __m128i *a = (const void *)(tables + 16 * (size_t)picks->words[4 * r + j]),
                      *b = (const void *)(tables + 16 * (size_t)picks->words[4 * (r + 4) + j]);
        return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_load_si128(a)), _mm_load_si128(b), 1);
    }
    const int bits = 2 * q_pick_bits(k);
    size_t at = picks->both[j % 2][r], bytes = ((1u << bits) - 1) << 5;
    at = (j < 2 ? at << 5 : at >> (bits - 5)) & bytes;
    return _mm256_load_si256((const __m256i *)(const void *)(tables + at));
}

/* Codes of 16 k, from line j on, as nibbles, two groups of four k in each vector, the earlier one low: groups 0 and 2,
 * then 1 and 3; of 4 bits groups 0 and 1, then 2 and 3. Bit 3 of the high nibble marks the second pick. */
INLINE void q_nibbles(qkind k, const uint8_t *p, int j, qline v[2])
{
#define THIRD(n, b)  (char)(((n) >> (b)&1) << 2 | ((n) >> ((b) + 2) & 1) << 6)
#define THIRD4(n, b) THIRD(n, b), THIRD(n + 1, b), THIRD(n + 2, b), THIRD(n + 3, b)
#define THIRD16(b)   THIRD4(0, b), THIRD4(4, b), THIRD4(8, b), THIRD4(12, b)
    const qline second = _mm256_set1_epi8(k.code == PANEL_PICK8 ? (char)0x80 : 0);
    if (k.bits == 4) {
        v[0] = Q_LOAD(2 * j);
        v[1] = Q_LOAD(2 * j + 1);
        return;
    }
    qline low = Q_LOAD(j);
    const qline even = _mm256_setr_epi8(THIRD16(0), THIRD16(0)), odd = _mm256_setr_epi8(THIRD16(1), THIRD16(1));
    qline third = Q_LOAD(4 + j / 2);
    third = Q_AND(j % 2 ? Q_RIGHT(third, 4) : third, 15);
    v[0] = _mm256_or_si256(Q_AND(low, 0x33), _mm256_shuffle_epi8(_mm256_or_si256(even, second), third));
    v[1] = _mm256_or_si256(Q_AND(Q_RIGHT(low, 2), 0x33), _mm256_shuffle_epi8(_mm256_or_si256(odd, second), third));
}

/* Levels of 16 k of eight rows: w[r] rows r and r + 4; k in the order of q_pick_x. Bits 4 … 6 of an index are
 * ignored. */
INLINE void q_pick_levels(qkind k, const uint8_t *tables, const qpicks *picks, const uint8_t *half, int j, qline w[4])
{
    qline v[2];
    q_nibbles(k, half, j, v);
    UNROLLED (p, 2) {
        qline low = p ? _mm256_unpackhi_epi32(v[0], v[1]) : _mm256_unpacklo_epi32(v[0], v[1]);
        qline high = Q_RIGHT(low, 4);
        if (k.code == PANEL_PICK8 || k.bits == 4) low = Q_AND(low, 15);
        if (k.bits == 4) high = Q_AND(high, 15);
        w[2 * p] = _mm256_shuffle_epi8(q_pick_table(k, tables, picks, 2 * p, j), _mm256_unpacklo_epi64(low, high));
        w[2 * p + 1] = _mm256_shuffle_epi8(q_pick_table(k, tables, picks, 2 * p + 1, j),
                                           _mm256_unpackhi_epi64(low, high));
    }
}

/* The same 16 k of a row of activations, twice. */
INLINE qline q_pick_x(qkind k, const int8_t *code)
{
    qline x = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)code));
    return k.bits == 4 ? _mm256_shuffle_epi32(x, 0xd8) : x;
}

/* All group vectors of half a tile. */
INLINE void q_pick_groups(qkind k, const uint8_t *tables, const qpicks *picks, const uint8_t *half, qline g[16])
{
    UNROLLED (j, 4) {
        qline w[4];
        const int second = k.bits == 4 ? 2 : 1;
        q_pick_levels(k, tables, picks, half, j, w);
        qline a = _mm256_unpacklo_epi32(w[0], w[1]), b = _mm256_unpacklo_epi32(w[2], w[3]);
        g[4 * j] = _mm256_unpacklo_epi64(a, b);
        g[4 * j + second] = _mm256_unpackhi_epi64(a, b);
        a = _mm256_unpackhi_epi32(w[0], w[1]);
        b = _mm256_unpackhi_epi32(w[2], w[3]);
        g[4 * j + 3 - second] = _mm256_unpacklo_epi64(a, b);
        g[4 * j + 3] = _mm256_unpackhi_epi64(a, b);
    }
}

/* Products of two rows of weights (low and high half) with 16 k of activations, in four parts each: set, or added in
 * assembly, because the compiler would delay plain additions and spill the products. */
INLINE void q_pick_add(__m256i *sum, qline w, qline x, bool first)
{
#if defined(__AVXVNNI__)
    if (first) *sum = Q_ZERO();
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(*sum) : "x"(w), "x"(x));
#else
    w = _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1));
    if (first) *sum = w;
    else __asm__("vpaddd %1, %0, %0" : "+x"(*sum) : "x"(w));
#endif
}

/* The sum of the four parts of eight rows: rows r and r + 4 in a[r]. */
INLINE __m256i q_pick_sum(const __m256i a[4])
{
    __m256i b = _mm256_add_epi32(_mm256_unpacklo_epi32(a[0], a[1]), _mm256_unpackhi_epi32(a[0], a[1]));
    __m256i c = _mm256_add_epi32(_mm256_unpacklo_epi32(a[2], a[3]), _mm256_unpackhi_epi32(a[2], a[3]));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(b, c), _mm256_unpackhi_epi64(b, c));
}
