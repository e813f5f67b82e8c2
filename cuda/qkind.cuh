/* qkind.cuh - kinds of panels (tensor/panel.h) as types, so that kernels know them at compile time. */
#pragma once
#include "cuda/cuda_args.h"
#include "cuda/qe4m3.cuh"

#include "src/tensor/act_q8.h"
#include "src/tensor/panel_tail.h"

/* What is known of a kind at compile time: a row of PANEL_KIND_LIST. */
template <int BITS, int BLOCK, int SPAN, int SCALE, int BASE, int CODE, int ZERO> struct qkind {
    static constexpr int bits = BITS, block = BLOCK, span = SPAN, scale = SCALE, base = BASE, code = CODE, zero = ZERO;
    static constexpr int act = PANEL_ACT(BITS, BLOCK, SCALE);
    static constexpr bool two = SCALE == PANEL_SUB8 || SCALE == PANEL_SUB4, 
                          looks = CODE != PANEL_CODE && CODE != PANEL_E4M3,
                          picks = CODE == PANEL_PICK8 || CODE == PANEL_PICK16;
    static constexpr int planes = CODE == PANEL_E4M3 ? QE4M3_PLANES : 1; /* bytes that a code becomes */
    /* What codes have too much, for each unit of the activations' sum. */
    static constexpr uint32_t excess = CODE == PANEL_E4M3 ? QE4M3_EXCESS : CODE == PANEL_CODE ? (uint32_t)-ZERO : 0;
    static constexpr bool scales_up = SCALE == PANEL_E5M3 || CODE == PANEL_E4M3; /* a factor that is not 1 */
    static constexpr int lines = BITS ? 2 * BITS : 7, tiles = SPAN / PANEL_K; /* of a tile; of a span */
    static constexpr int pick_weights = CODE == PANEL_PICK8 ? 8 : 16, pick_bits = BITS == 4 ? 3 : 4;
    static constexpr int words = picks ? SPAN / (8 * pick_weights) : 0; /* lines of picks of a whole span */
    static constexpr bool scale_in_word = picks && BITS == 4;
    static constexpr int scale_bytes = SCALE == PANEL_F32 ? 4 : SCALE == PANEL_F16 ? 2 : 1;
    static constexpr int row_bytes = SCALE == PANEL_SUB8   ? (BASE != PANEL_NONE ? 4 + 2 * (SPAN / BLOCK) : 2 + SPAN / BLOCK)
                                     : SCALE == PANEL_SUB4 ? 4 + SPAN / BLOCK
                                                           : SPAN / BLOCK * (scale_bytes + (BASE != PANEL_NONE ? 2 : 0));
    static constexpr int tail = words + (scale_in_word ? 0 : (row_bytes * PANEL_ROWS + PANEL_LINE - 1) / PANEL_LINE);
    static constexpr int apart = BLOCK < act ? BLOCK : act;             /* columns of one sum */
    static constexpr int sums = PANEL_K / apart;
};
