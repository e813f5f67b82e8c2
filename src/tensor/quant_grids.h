/* quant_grids.h - code books of the IQ formats: each 16-bit word is one entry, first weight in the lowest bits.
 *
 * iq2_*: eight fields of 2 bits, level l stands for {8, 25, 43}[l]. iq1: the same with {-1, 0, 1}. iq3_*: four fields
 * of 4 bits; iq3_xxs {4, 12, 20, 28, 36, 44, 52, 62}[l], iq3_s 2 l + 1. */
#pragma once
#include <stdint.h>

extern const uint16_t quant_grid_iq2_xxs[256], quant_grid_iq2_xs[512], quant_grid_iq2_s[1024];
extern const uint16_t quant_grid_iq3_xxs[256], quant_grid_iq3_s[512];
extern const uint16_t quant_grid_iq1[2048];
extern const float quant_level_iq4[16]; /* the levels of iq4_nl and iq4_xs */
