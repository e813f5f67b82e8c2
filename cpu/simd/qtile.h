/* qtile.h - one step of a MATMUL of packed weights: rows of a tile of activations against one panel or two. The
 * bodies (v_qtile.h) are compiled by themselves (qtile_<instruction set>.c), because there are many of them. */
#pragma once
#include "cpu/simd/v16.h"
#include "tensor/act_q8.h"

/* QPANELS: maximum number of panels of a body; QGROUP: maximum number of rows that sixteen registers take at once. */
enum { QPANELS = V16S == 32 ? 2 : 1, QGROUP = 4 };

/* Rows of a tile against one panel or two. */
typedef struct qjob {
    const panel_format *f;
    const int8_t *level; /* panel_format.level */
    const uint8_t *panel;
    uint64_t apart;     /* bytes from the panel to the second one */
    act_part x, second; /* of the tile; and of the next one where two are joined */
    int64_t k_tiles;    /* tiles of 64 k */
    float *y;           /* [rows][ldy], 16 outputs of each panel, n_out of the last */
    int64_t ldy;
    int n_out;
    const float *bias;
    const uint8_t *ahead; /* to prefetch: n_ahead lines for each tile of 64 k (one panel on 32 registers: all lines) */
    int n_ahead;
} qjob;

/* [kind of formats][panels - 1][rows - 1] */
typedef void (*qtile_fn)(const qjob *q);
#if defined(__AVX512F__)
#define QTILE_TABLE   qtile_avx512
#define QSTREAM_TABLE qstream_avx512
#elif defined(__AVXVNNI__)
#define QTILE_TABLE   qtile_avxvnni
#define QSTREAM_TABLE qstream_avxvnni
#elif defined(__AVX2__)
#define QTILE_TABLE   qtile_avx2
#define QSTREAM_TABLE qstream_avx2
#elif defined(__ARM_FEATURE_DOTPROD)
#define QTILE_TABLE   qtile_dotprod
#define QSTREAM_TABLE qstream_dotprod
#else
#define QTILE_TABLE   qtile_neon
#define QSTREAM_TABLE qstream_neon
#endif
extern const qtile_fn QTILE_TABLE[PANEL_KINDS][QPANELS][ACT_ROWS];

/* The bodies for one panel that are bound by memory: [kind of formats][rows - 1][way - 1], for the ways other than
 * FETCH_NEAR, which the table above has. Without a multiplier of bytes two rows take one half of a panel after the
 * other, from the cache. */
#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__AVXVNNI__)
#define QSTREAM_ROWS 1
#else
#define QSTREAM_ROWS 2
#endif
extern const qtile_fn QSTREAM_TABLE[PANEL_KINDS][QSTREAM_ROWS][FETCH_WAYS - 1];

#if defined(__AVX512F__)
/* The body for two tiles of `rows` rows together against one panel, unpacked once for both, with the prefetches of a
 * tile alone. NULL: each tile by itself is as fast. */
enum { QJOINED = 8 };
qtile_fn qtile_joined(const panel_format *f, int64_t rows);

/* Rows of a tile against two wide panels (v_qwide.h): k_tiles tiles of 64 k, at most WIDE_K of them, of WIDE_LINES
 * lines at most for each panel. */
enum { WIDE_K = PANEL_SPAN / PANEL_K, WIDE_LINES = 21 };
typedef struct qwide_job {
    const uint8_t *lines; /* aligned to 64 */
    act_part x;
    int k_tiles;
    bool first, last; /* not first: continues sums; not last: leaves sums */
    float *sums;      /* [rows][32]; aligned to 64 */
    int n_out;        /* of 32 outputs */
    float *y;         /* [rows][ldy] */
    int64_t ldy;
    const float *bias;
    const uint8_t *ahead; /* to prefetch: n_ahead lines for each tile of 64 k */
    int n_ahead;
} qwide_job;
typedef void (*qwide_fn)(const qwide_job *q);
/* [kind of formats]: widens panel i of two: k_tiles tiles, from the beginning of a span on. */
typedef void (*qwiden_fn)(const panel_format *f, const int8_t *level, const uint8_t *panel, int k_tiles, int i,
                          uint8_t *lines);
extern const qwiden_fn qwiden_avx512[PANEL_KINDS];
/* The bodies for a format: [rows - QWIDE_MIN], the minimum number of rows of one of several tiles. NULL: unpacking
 * for each tile is as fast. */
enum { QWIDE_MIN = 3 };
const qwide_fn *qwide_bodies(const panel_format *f);
#endif
