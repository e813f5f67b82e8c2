/* block.h - the byte layout of every block type; sizes are checked against dtype.h.
 *
 * Layouts are those of GGUF files (ggml's block types) and of the Inferflow paper. d is the scale, an f16 unless said
 * otherwise; 256-weight blocks hold sub-blocks of 16 or 32 weights with small integer scales of their own.
 * Little-endian. The decoders in quant_*.c are the definition of what the fields mean. */
#pragma once
#include <stdint.h>

/* clang-format off */
/* 32 weights, one scale (and minimum m) */
typedef struct { uint16_t d; uint8_t qs[16]; } block_q4_0;  /* weight j: low nibble of qs[j], j + 16: high */
typedef struct { uint16_t d, m; uint8_t qs[16]; } block_q4_1;
typedef struct { uint16_t d; uint8_t qh[4], qs[16]; } block_q5_0;  /* qh: bit j is the fifth bit of weight j */
typedef struct { uint16_t d, m; uint8_t qh[4], qs[16]; } block_q5_1;
typedef struct { uint16_t d; int8_t qs[32]; } block_q8_0;
typedef struct { uint16_t d, s; int8_t qs[32]; } block_q8_1;  /* s = d * sum of qs */
typedef struct { float d; int8_t qs[32]; } block_q8_f32;
typedef struct { uint16_t d; uint8_t qs[16]; } block_iq4_nl;  /* nibbles index a table of 16 levels */
typedef struct { uint8_t e, qs[16]; } block_mxfp4;  /* e: exponent byte (E8M0) */

/* 64 and 128 weights */
typedef struct { uint8_t d[4], qs[32]; } block_nvfp4;  /* d: unsigned E4M3, one per 16 weights */
typedef struct { uint16_t d; uint8_t qs[16]; } block_q2_0;  /* 2 bits, lowest first */
typedef struct { uint16_t d; uint8_t qs[16]; } block_q1_0;  /* 1 bit, lowest first */

/* 256 weights */
typedef struct { uint8_t scales[16], qs[64]; uint16_t d, dmin; } block_q2_k;
typedef struct { uint8_t hmask[32], qs[64], scales[12]; uint16_t d; } block_q3_k;
typedef struct { uint16_t d, dmin; uint8_t scales[12], qs[128]; } block_q4_k;
typedef struct { uint16_t d, dmin; uint8_t scales[12], qh[32], qs[128]; } block_q5_k;
typedef struct { uint8_t ql[128], qh[64]; int8_t scales[16]; uint16_t d; } block_q6_k;
typedef struct { float d; int8_t qs[256]; int16_t sums[16]; } block_q8_k;
typedef struct { uint16_t d, qs[32]; } block_iq2_xxs;
typedef struct { uint16_t d, qs[32]; uint8_t scales[8]; } block_iq2_xs;
typedef struct { uint16_t d; uint8_t qs[32], signs[32], qh[8], scales[8]; } block_iq2_s;
typedef struct { uint16_t d; uint8_t qs[64], signs[32]; } block_iq3_xxs;  /* signs: 8 x (4 * 7 signs, 4 scale bits) */
typedef struct { uint16_t d; uint8_t qs[64], qh[8], signs[32], scales[4]; } block_iq3_s;
typedef struct { uint16_t d; uint8_t qs[32]; uint16_t qh[8]; } block_iq1_s;
typedef struct { uint8_t qs[32], qh[16]; uint16_t scales[4]; } block_iq1_m;  /* d: the high nibbles of scales */
typedef struct { uint16_t d, scales_h; uint8_t scales_l[4], qs[128]; } block_iq4_xs;
typedef struct { uint8_t qs[48], qh[4]; uint16_t d; } block_tq1_0;  /* five base-3 digits per byte, four in qh */
typedef struct { uint8_t qs[64]; uint16_t d; } block_tq2_0;

/* code * scale + base: upper bits of the codes, then lower ones; q3h: of pairs (quant_linear.c) */
typedef struct { uint16_t base, scale; uint8_t low[32]; } block_q8_b32;
typedef struct { uint16_t base, scale; uint8_t low[64]; } block_q8_b64;
typedef struct { uint16_t base, scale; uint8_t high[16], low[32]; } block_q6_b64;
typedef struct { uint16_t base, scale; uint8_t high[8], low[32]; } block_q5_b64;
typedef struct { uint16_t base, scale; uint8_t low[16]; } block_q4_b32;
typedef struct { uint16_t base, scale; uint8_t low[32]; } block_q4_b64;
typedef struct { uint16_t base, scale; uint8_t high[4], middle[8], low[16]; } block_q3h_b64;
typedef struct { uint16_t base, scale; uint8_t high[4], low[8]; } block_q3_b32;
typedef struct { uint16_t base, scale; uint8_t low[8]; } block_q2_b32;

/* 128 weights, tables chosen by sub-block: scale, choices, codes (quant_tables.c) */
typedef struct { uint8_t scale, choice[3], low[64]; } block_q4_tables;
typedef struct { uint8_t scale, choice[8], high[16], low[32]; } block_q3h_tables;
typedef struct { uint8_t scale, choice[4], high[16], low[32]; } block_q3_tables;
typedef struct { uint8_t scale, choice[8], low[32]; } block_q2_tables;

/* what quantizers of the hub store (stored.h); (code - zero) * scale, zero is 0 to 511; nf4: one of 16 levels */
typedef struct { float d; uint8_t qs[128]; } block_f8_b128;  /* FP8 E4M3 */
typedef struct { float d; int8_t qs[128]; } block_i8_b128;
typedef struct { uint16_t d; int16_t zero; uint8_t low[128]; } block_q8_z128;
typedef struct { uint16_t d; int16_t zero; uint8_t low[16]; } block_q4_z32;
typedef struct { uint16_t d; int16_t zero; uint8_t low[32]; } block_q4_z64;
typedef struct { uint16_t d; int16_t zero; uint8_t low[64]; } block_q4_z128;
typedef struct { uint16_t d; int16_t zero; uint8_t high[16], low[32]; } block_q3_z128;
typedef struct { uint16_t d; int16_t zero; uint8_t low[32]; } block_q2_z128;
typedef struct { float d[4]; uint8_t qs[32]; } block_nvfp4_f32;  /* nvfp4 with its factor in the scales */
typedef struct { float d; uint8_t qs[32]; } block_nf4;  /* weight j: low nibble of qs[j / 2] if j is even, else high */

/* X(dtype, name of struct block_<name> and of its decoder): every block type */
#define BLOCK_LIST(X)                                                                                                 \
    X(Q4_0, q4_0) X(Q4_1, q4_1) X(Q5_0, q5_0) X(Q5_1, q5_1) X(Q8_0, q8_0) X(Q8_1, q8_1) X(Q8_F32, q8_f32)             \
    X(IQ4_NL, iq4_nl) X(MXFP4, mxfp4) X(NVFP4, nvfp4) X(Q2_0, q2_0) X(Q1_0, q1_0) X(Q2_K, q2_k) X(Q3_K, q3_k)         \
    X(Q4_K, q4_k) X(Q5_K, q5_k) X(Q6_K, q6_k) X(Q8_K, q8_k) X(IQ2_XXS, iq2_xxs) X(IQ2_XS, iq2_xs) X(IQ2_S, iq2_s)     \
    X(IQ3_XXS, iq3_xxs) X(IQ3_S, iq3_s) X(IQ1_S, iq1_s) X(IQ1_M, iq1_m) X(IQ4_XS, iq4_xs) X(TQ1_0, tq1_0)             \
    X(TQ2_0, tq2_0) X(Q8_B32, q8_b32) X(Q8_B64, q8_b64) X(Q6_B64, q6_b64) X(Q5_B64, q5_b64) X(Q4_B32, q4_b32)         \
    X(Q4_B64, q4_b64) X(Q3H_B64, q3h_b64) X(Q3_B32, q3_b32) X(Q2_B32, q2_b32) X(Q4_T, q4_tables)                      \
    X(Q3H_T, q3h_tables) X(Q3_T, q3_tables) X(Q2_T, q2_tables) X(F8_B128, f8_b128) X(I8_B128, i8_b128)                \
    X(Q8_Z128, q8_z128) X(Q4_Z32, q4_z32) X(Q4_Z64, q4_z64) X(Q4_Z128, q4_z128) X(Q3_Z128, q3_z128)                   \
    X(Q2_Z128, q2_z128) X(NVFP4_F32, nvfp4_f32) X(NF4, nf4)

/* clang-format on */
