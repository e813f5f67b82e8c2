/* panel_codebooks.c - blocks of one and two bits, of picked tables, of pairs and of code books straight into the lines
 * of a panel (tensor/panel.h).
 *
 * A row has one word of 32 bits in each line: 32, 16 or 8 codes of 1, 2 or 4 bits, of weight 4 i + t at field i of byte
 * t. Blocks have them in order, so a word is a word of the block with its fields transposed: the bits of a field's
 * index are rotated, by exchanges of two of them at a time. Codes are never spread to bytes: that is three times as
 * fast, which types with so many weights in a byte need to be packed at the speed of memory.
 *
 * Pairs of 11 levels hold weights 2 i and 2 i + 1 in a block, 8 i + t and 8 i + 4 + t in a panel: they are split and
 * paired anew, eight at a time in 16 bits each.
 *
 * A magnitude l of a code book with its sign is code half + l, or half - 1 - l: all bits the other way. */
#include "tensor/block.h"
#include "tensor/quant_grids.h"
#include "tensor/quant_tables.h"
#include "tensor/panel_place.h"

/* Four words at once, on any machine. */
typedef uint32_t quad __attribute__((vector_size(16)));
typedef uint16_t quad_halves __attribute__((vector_size(8)));
typedef uint8_t quad_bytes __attribute__((vector_size(4)));

/* Words, 16-bit halves, bytes 4 i … 4 i + 3 of `from`. */
static inline quad quad_at(const void *from, int i)
{
    quad x;
    memcpy(&x, (const uint8_t *)from + 16 * i, 16);
    return x;
}
static inline quad quad_of_halves(const void *from, int i)
{
    quad_halves x;
    memcpy(&x, (const uint8_t *)from + 8 * i, 8);
    return __builtin_convertvector(x, quad);
}
static inline quad quad_of_bytes(const void *from, int i)
{
    quad_bytes x;
    memcpy(&x, (const uint8_t *)from + 4 * i, 4);
    return __builtin_convertvector(x, quad);
}

/* Exchanges fields `d` bits apart; `mask`: the lower ones. */
static inline quad exchange(quad x, int d, uint32_t mask)
{
    quad t = (x ^ x >> d) & mask;
    return x ^ t ^ t << d;
}
/* Field 4 i + t to field i of byte t. */
static inline quad turn_bits(quad x)
{
    x = exchange(exchange(x, 14, 0x0000cccc), 7, 0x00aa00aa);
    return exchange(exchange(x, 2, 0x0c0c0c0c), 1, 0x22222222);
}
static inline quad turn_pairs(quad x) { return exchange(exchange(x, 6, 0x00cc00cc), 12, 0x0000f0f0); }
static inline quad turn_nibbles(quad x) { return exchange(exchange(x, 8, 0x0000ff00), 4, 0x00f000f0); }

/* Bit i to both bits of pair i, to all of nibble i. */
static inline quad bits_to_pairs(quad x)
{
    x = (x | x << 8) & 0x00ff00ff;
    x = (x | x << 4) & 0x0f0f0f0f;
    x = (x | x << 2) & 0x33333333;
    x = (x | x << 1) & 0x55555555;
    return x | x << 1;
}
static inline quad bits_to_nibbles(quad x)
{
    x = (x | x << 12) & 0x000f000f;
    x = (x | x << 6) & 0x03030303;
    x = (x | x << 3) & 0x11111111;
    return (x << 4) - x;
}

/* Words 4 i … 4 i + 3 of a block: `per` words of a tile, which has `lines` lines, are in its lines from `first` on. */
static inline void put_quad(quad x, int i, int per, int first, int lines, uint8_t *to)
{
    for (int j = 0; j < 4; j++) {
        const int w = 4 * i + j;
        uint32_t word = x[j];
        memcpy(to + (w / per * lines + first + w % per) * PANEL_LINE, &word, 4);
    }
}
#define UNROLL _Pragma("GCC unroll 8")

/* ---- plain bits */

static void read_q2_0(const block_q2_0 *b, const panel_place *to)
{
    put_scale(to, 0, &b->d, 2);
    put_quad(turn_pairs(quad_at(b->qs, 0)), 0, 4, 0, 4, to->line);
}

static void read_q1_0(const block_q1_0 *b, const panel_place *to)
{
    put_scale(to, 0, &b->d, 2);
    put_scale(to, 1, &b->d, 2);
    put_quad(turn_bits(quad_at(b->qs, 0)), 0, 2, 0, 2, to->line);
}

/* ---- tables to pick from: 128 weights. Picks lie as in the tail */

static inline void put_two_bits(const uint8_t *low, const uint8_t *high, const panel_place *to)
{
    const int lines = high ? 6 : 4;
    UNROLL for (int i = 0; i < 2; i++) put_quad(turn_pairs(quad_at(low, i)), i, 4, 0, lines, to->line);
    if (high) put_quad(turn_bits(quad_at(high, 0)), 0, 2, 4, lines, to->line);
}

/* Words of picks of 4 bits for 8 or 16 weights. */
static inline void put_choices(const uint8_t *choice, int each, const panel_place *to)
{
    for (int w = 0; w < TABLES_WEIGHTS / 8 / each; w++) {
        uint32_t word;
        memcpy(&word, choice + 4 * w, 4);
        put_picks(to, each, w, word);
    }
}

static void read_q2_tables(const block_q2_tables *b, const panel_place *to)
{
    put_scale(to, 0, &b->scale, 1);
    put_choices(b->choice, 8, to);
    put_two_bits(b->low, NULL, to);
}

static void read_q3h_tables(const block_q3h_tables *b, const panel_place *to)
{
    put_scale(to, 0, &b->scale, 1);
    put_choices(b->choice, 8, to);
    put_two_bits(b->low, b->high, to);
}

static void read_q3_tables(const block_q3_tables *b, const panel_place *to)
{
    put_scale(to, 0, &b->scale, 1);
    put_choices(b->choice, 16, to);
    put_two_bits(b->low, b->high, to);
}

/* Picks of 3 bits, the scale above them. */
static void read_q4_tables(const block_q4_tables *b, const panel_place *to)
{
    put_scale(to, 0, &b->scale, 1);
    put_picks(to, 16, 0, b->choice[0] | b->choice[1] << 8 | b->choice[2] << 16 | (uint32_t)b->scale << 24);
    UNROLL for (int i = 0; i < 4; i++) put_quad(turn_nibbles(quad_at(b->low, i)), i, 8, 0, 8, to->line);
}

/* ---- pairs of 11 levels */

/* Two times four pairs, each in 16 bits. */
typedef uint64_t fours __attribute__((vector_size(16)));
typedef uint16_t parts __attribute__((vector_size(16)));

/* From fours of 4, 2 and 1 bits side by side. */
static inline fours pairs_of(fours low, fours middle, fours high)
{
    low = (low | low << 24) & 0x000000ff000000ff;
    low = (low | low << 12) & 0x000f000f000f000f;
    middle = (middle | middle << 28) & 0x0000000f0000000f;
    middle = (middle | middle << 14) & 0x0003000300030003;
    high = (high | high << 30) & 0x0000000300000003;
    high = (high | high << 15) & 0x0001000100010001;
    return low | middle << 4 | high << 6;
}

/* Each four as a word of the panel's pairs. 187 / 2048 is near enough to 1 / 11 below 128; from 121 on the second code
 * is 10. */
static inline fours turn_fours(fours pairs)
{
    const parts pair = (parts)pairs;
    parts second = pair * 187 >> 11, first = pair - 11 * second;
    second += (parts)(second > 10);
    const fours code = (fours)(first | second << 8); /* of eight weights in order */
    return (fours)((parts)code + (parts)(code >> 32) * 11);
}

static void read_q3h_b64(const block_q3h_b64 *b, const panel_place *to)
{
    uint64_t low[2], middle;
    uint32_t high;
    fours word[4];
    put_scale(to, 0, &b->scale, 2);
    put_base(to, b->base);
    memcpy(low, b->low, sizeof low);
    memcpy(&middle, b->middle, sizeof middle);
    memcpy(&high, b->high, sizeof high);
    UNROLL for (int i = 0; i < 4; i++)
    {
        const uint64_t l = low[i / 2] >> i % 2 * 32, m = middle >> 16 * i, h = high >> 8 * i;
        word[i] = turn_fours(pairs_of((fours){l & 0xffff, l >> 16 & 0xffff}, (fours){m & 0xff, m >> 8 & 0xff},
                                      (fours){h & 15, h >> 4 & 15}));
    }
    UNROLL for (int i = 0; i < 7; i++)
    {
        uint32_t line = (uint32_t)word[i / 2][i % 2] | ((uint32_t)word[3][1] >> i & 0x01010101) << 7;
        memcpy(to->line + i * PANEL_LINE, &line, 4);
    }
}

/* ---- code books: entries of a book, a word for 16 (three bits a code) or eight weights (four), and a bit each */

/* Codes: the entry, and `third` above it. */
static inline void put_three(const uint32_t entry[16], const uint32_t third[8], const panel_place *to)
{
    UNROLL for (int i = 0; i < 4; i++) put_quad(turn_pairs(quad_at(entry, i)), i, 4, 0, 6, to->line);
    UNROLL for (int i = 0; i < 2; i++) put_quad(turn_bits(quad_at(third, i)), i, 2, 4, 6, to->line);
}

/* The same with signs: a positive magnitude is above the half. */
static inline void put_signed_three(const uint32_t entry[16], const uint32_t sign[8], const panel_place *to)
{
    UNROLL for (int i = 0; i < 4; i++)
        put_quad(turn_pairs(quad_at(entry, i) ^ bits_to_pairs(quad_of_halves(sign, i))), i, 4, 0, 6, to->line);
    UNROLL for (int i = 0; i < 2; i++) put_quad(turn_bits(~quad_at(sign, i)), i, 2, 4, 6, to->line);
}

static inline void put_signed_four(const uint32_t entry[32], const uint32_t sign[8], const panel_place *to)
{
    UNROLL for (int i = 0; i < 8; i++) put_quad(
        turn_nibbles((quad_at(entry, i) | 0x88888888) ^ bits_to_nibbles(quad_of_bytes(sign, i))), i, 8, 0, 8, to->line);
}

/* Gives bytes of seven bits an eighth one, so that the number of ones is even. */
static inline quad even_bytes(quad x)
{
    quad p = x ^ x >> 4;
    p ^= p >> 2;
    p ^= p >> 1;
    return x | (p & 0x01010101) << 7;
}

/* Four sevens of bits as such bytes, in eight words. */
static inline void sevens(uint32_t word[8])
{
    UNROLL for (int i = 0; i < 2; i++)
    {
        quad x = quad_at(word, i);
        x = even_bytes((x & 127) | (x & 127 << 7) << 1 | (x & 127 << 14) << 2 | (x & 127 << 21) << 3);
        memcpy(word + 4 * i, &x, 16);
    }
}

static void read_iq2_xxs(const block_iq2_xxs *b, const panel_place *to)
{
    uint32_t entry[16], sign[8], word[16];
    memcpy(word, b->qs, sizeof word);
    put_d(to, b->d, 0);
    for (int g = 0; g < 8; g++) {
        const uint32_t q = word[2 * g], rest = word[2 * g + 1];
        const uint16_t *grid = quant_grid_iq2_xxs;
        put_sub(to, g, 2 * (int)(rest >> 28) + 1);
        entry[2 * g] = grid[q & 255] | (uint32_t)grid[q >> 8 & 255] << 16;
        entry[2 * g + 1] = grid[q >> 16 & 255] | (uint32_t)grid[q >> 24] << 16;
        sign[g] = rest;
    }
    sevens(sign);
    put_signed_three(entry, sign, to);
}

static void put_nibble_subs(const panel_place *to, const uint8_t *scales, int n)
{
    for (int j = 0; j < n / 2; j++) {
        put_sub(to, 2 * j, 2 * (scales[j] & 15) + 1);
        put_sub(to, 2 * j + 1, 2 * (scales[j] >> 4) + 1);
    }
}

static void read_iq2_xs(const block_iq2_xs *b, const panel_place *to)
{
    uint32_t entry[16], sign[8];
    put_d(to, b->d, 0);
    put_nibble_subs(to, b->scales, 16);
    for (int i = 0; i < 16; i++)
        entry[i] = quant_grid_iq2_xs[b->qs[2 * i] & 511] | (uint32_t)quant_grid_iq2_xs[b->qs[2 * i + 1] & 511] << 16;
    for (int i = 0; i < 8; i++) {
        const uint16_t *q = b->qs + 4 * i;
        sign[i] = q[0] >> 9 | (uint32_t)(q[1] >> 9) << 8 | (uint32_t)(q[2] >> 9) << 16 | (uint32_t)(q[3] >> 9) << 24;
    }
    for (int i = 0; i < 2; i++) {
        quad x = even_bytes(quad_at(sign, i));
        memcpy(sign + 4 * i, &x, 16);
    }
    put_signed_three(entry, sign, to);
}

static void read_iq2_s(const block_iq2_s *b, const panel_place *to)
{
    uint32_t entry[16], sign[8];
    put_d(to, b->d, 0);
    put_nibble_subs(to, b->scales, 16);
    memcpy(sign, b->signs, sizeof sign);
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b->qs + 4 * g;
        const int h = b->qh[g];
        const uint16_t *grid = quant_grid_iq2_s;
        entry[2 * g] = grid[q[0] | (h << 8 & 0x300)] | (uint32_t)grid[q[1] | (h << 6 & 0x300)] << 16;
        entry[2 * g + 1] = grid[q[2] | (h << 4 & 0x300)] | (uint32_t)grid[q[3] | (h << 2 & 0x300)] << 16;
    }
    put_signed_three(entry, sign, to);
}

static void read_iq3_xxs(const block_iq3_xxs *b, const panel_place *to)
{
    uint32_t entry[32], sign[8];
    memcpy(sign, b->signs, sizeof sign);
    put_d(to, b->d, 0);
    for (int g = 0; g < 8; g++) put_sub(to, g, 2 * (int)(sign[g] >> 28) + 1);
    sevens(sign);
    for (int i = 0; i < 32; i++)
        entry[i] = quant_grid_iq3_xxs[b->qs[2 * i]] | (uint32_t)quant_grid_iq3_xxs[b->qs[2 * i + 1]] << 16;
    put_signed_four(entry, sign, to);
}

static void read_iq3_s(const block_iq3_s *b, const panel_place *to)
{
    uint32_t entry[32], sign[8];
    put_d(to, b->d, 0);
    put_nibble_subs(to, b->scales, 8);
    memcpy(sign, b->signs, sizeof sign);
    for (int i = 0; i < 32; i++) {
        const int h = b->qh[i / 4] >> i % 4 * 2;
        entry[i] = quant_grid_iq3_s[b->qs[2 * i] | (h << 8 & 0x100)] |
                   (uint32_t)quant_grid_iq3_s[b->qs[2 * i + 1] | (h << 7 & 0x100)] << 16;
    }
    put_signed_four(entry, sign, to);
}

/* IQ1: the third bit says which way the levels are shifted. */
static void read_iq1_s(const block_iq1_s *b, const panel_place *to)
{
    uint32_t entry[16], third[8];
    put_d(to, b->d, 0);
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b->qs + 4 * g;
        const int h = b->qh[g];
        const uint16_t *grid = quant_grid_iq1;
        put_sub(to, g, 2 * (h >> 12 & 7) + 1);
        entry[2 * g] = grid[q[0] | (h << 8 & 0x700)] | (uint32_t)grid[q[1] | (h << 5 & 0x700)] << 16;
        entry[2 * g + 1] = grid[q[2] | (h << 2 & 0x700)] | (uint32_t)grid[q[3] | (h >> 1 & 0x700)] << 16;
        third[g] = -(uint32_t)(h >> 15);
    }
    put_three(entry, third, to);
}

static void read_iq1_m(const block_iq1_m *b, const panel_place *to)
{
    uint32_t entry[16], third[8];
    const uint16_t *s = b->scales, *grid = quant_grid_iq1;
    put_d(to, (uint16_t)(s[0] >> 12 | (s[1] >> 8 & 0xf0) | (s[2] >> 4 & 0xf00) | (s[3] & 0xf000)), 0);
    for (int j = 0; j < 16; j += 4)
        UNROLL for (int i = 0; i < 4; i++) put_sub(to, j + i, 2 * (s[j / 4] >> 3 * i & 7) + 1);
    for (int i = 0; i < 16; i++) {
        const int h = b->qh[i];
        entry[i] = grid[b->qs[2 * i] | (h << 8 & 0x700)] | (uint32_t)grid[b->qs[2 * i + 1] | (h << 4 & 0x700)] << 16;
    }
    for (int g = 0; g < 8; g++) {
        const uint32_t h = b->qh[2 * g] | (uint32_t)b->qh[2 * g + 1] << 8;
        third[g] = ((h >> 3 & 1) | (h << 1 & 0x100) | (h << 5 & 0x10000) | (h << 9 & 0x1000000)) * 255;
    }
    put_three(entry, third, to);
}

PANEL_READER(q2_0)
PANEL_READER(q1_0)
PANEL_READER(q2_tables)
PANEL_READER(q3h_tables)
PANEL_READER(q3_tables)
PANEL_READER(q4_tables)
PANEL_READER(q3h_b64)
PANEL_READER(iq2_xxs)
PANEL_READER(iq2_xs)
PANEL_READER(iq2_s)
PANEL_READER(iq3_xxs)
PANEL_READER(iq3_s)
PANEL_READER(iq1_s)
PANEL_READER(iq1_m)

panel_reader *panel_words_reader(dtype t)
{
    static panel_reader *const readers[DTYPE_COUNT] = {
        [DTYPE_Q2_0] = copy_q2_0,      [DTYPE_Q1_0] = copy_q1_0,        [DTYPE_IQ2_XXS] = copy_iq2_xxs,
        [DTYPE_IQ2_XS] = copy_iq2_xs,  [DTYPE_IQ2_S] = copy_iq2_s,      [DTYPE_IQ3_XXS] = copy_iq3_xxs,
        [DTYPE_Q2_T] = copy_q2_tables, [DTYPE_Q3H_T] = copy_q3h_tables, [DTYPE_Q3_T] = copy_q3_tables,
        [DTYPE_Q4_T] = copy_q4_tables, [DTYPE_Q3H_B64] = copy_q3h_b64,  [DTYPE_IQ3_S] = copy_iq3_s,
        [DTYPE_IQ1_S] = copy_iq1_s,    [DTYPE_IQ1_M] = copy_iq1_m,
    };
    return readers[t];
}
