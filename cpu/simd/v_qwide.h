/* v_qwide.h - the body of MATMUL for packed weights whose unpacking is expensive, with many rows, on AVX-512: two
 * panels are unpacked once for all tiles of rows.
 *
 * 512 k of both panels at a time become "wide": codes as bytes, scales as floats, sub-scales as words, in the order of
 * use, 17 to 21 lines for 64 k of a panel. They stay in the first-level cache while all tiles of rows pass; float sums
 * are kept in memory between two such parts. Formats then differ only in how many weights share a sub-scale, so a few
 * classes of bodies are enough. Two panels share each loaded activation. */
#pragma once
#include "cpu/simd/v_qtile.h"

typedef struct qclass {
    bool two;  /* two levels, no minima; else one scale for 64 or more */
    int block; /* weights of one sub-scale: 16 or 32; else 64 */
} qclass;
INLINE qclass q_class(qkind k) { return (qclass){q_two(k), q_block(k)}; }

/* The kinds that gain by it: picks, and 3 bits that are looked up. They have one zero. */
enum { WIDE_ZERO = -64 };
INLINE bool q_widens(qkind k) { return (q_picks(k) || (k.code == PANEL_LOOK && k.bits == 3)) && k.zero == WIDE_ZERO; }

/* Sub-scales of block b, each in its word. */
INLINE __m512i q_sub(qkind k, const uint8_t *subs, int b)
{
    __m512i pair = q_subs(k, subs + b / 2 * 2 * PANEL_ROWS);
    return _mm512_srai_epi32(b % 2 ? pair : _mm512_slli_epi32(pair, 16), 16);
}

/* Lines of 64 k of one panel: 16 of codes; then the scale; or of two levels, the sub-scales, and d. Lines of both
 * panels alternate. */
INLINE int q_wide_lines(qclass c) { return 16 + (c.two ? PANEL_K / c.block + 1 : 1); }

/* Widens tiles of 64 k of a panel, from the beginning of a span on, into panel i of two. */
INLINE void q_widen(qkind k, const panel_format *f, const int8_t *level, const uint8_t *p, int k_tiles, int i,
                    uint8_t *to)
{
    const qclass c = q_class(k);
    const int blocks = PANEL_K / c.block, width = q_width(k.bits), code_lines = q_code_lines(k);
    const __m512 factor = _mm512_set1_ps(f->factor);
    const qjob job = {.f = f, .level = level};
    const qtable table = q_table(k, &job);
    to += i * PANEL_LINE;
    for (int s = 0; s < k_tiles;) {
        const int tiles = k_tiles - s < k.span / PANEL_K ? k_tiles - s : k.span / PANEL_K;
        const uint8_t *tail = p + tiles * code_lines * PANEL_LINE;
        for (int t = 0; t < tiles; t++, s++, p += code_lines * PANEL_LINE, to += q_wide_lines(c) * 2 * PANEL_LINE) {
            qline kept = Q_ZERO(), words = q_words(k, tail, t);
            const uint8_t *subs = tail + 32 + t * blocks * PANEL_ROWS;
            uint8_t *rest = to + 16 * 2 * PANEL_LINE;
            UNROLLED (j, 16 / width) {
                qline w[4];
                if (q_picks(k)) q_unpack_loose(k.bits, p, j, &kept, w);
                else q_unpack(k.bits, p, j, &kept, w);
                UNROLLED (v, width)
                    _mm512_store_si512(to + (j * width + v) * 2 * PANEL_LINE,
                                       q_look(k, &table, words, j * width + v, w[v]));
            }
            if (!c.two) {
                _mm512_store_ps(rest, _mm512_mul_ps(q_scale(k, tail, tiles, t * PANEL_K / k.block), factor));
                continue;
            }
            UNROLL for (int b = 0; b < blocks; b++, rest += 2 * PANEL_LINE) _mm512_store_si512(rest, q_sub(k, subs, b));
            _mm512_store_ps(rest, _mm512_mul_ps(q_base(tail), factor));
        }
        p += f->tail_lines * PANEL_LINE;
    }
}

INLINE __m512i q_wide_line(const uint8_t *at, int line, int i)
{
    return _mm512_load_si512(at + (2 * line + i) * PANEL_LINE);
}
INLINE __m512 q_wide_floats(const uint8_t *at, int line, int i)
{
    return _mm512_castsi512_ps(q_wide_line(at, line, i));
}

INLINE void q_wide_tile(qclass c, int mr, const qwide_job *q)
{
    const int blocks = PANEL_K / c.block, lines = q_wide_lines(c);
    const qkind k = {.block = c.block, .scale = c.two ? PANEL_SUB8 : PANEL_F32, .zero = WIDE_ZERO};
    const __mmask16 lanes[2] = {q->n_out < 16 ? (__mmask16)((1u << q->n_out) - 1) : 0xffff,
                                q->n_out < 16 ? 0 : (__mmask16)((1u << (q->n_out - 16)) - 1)};
    const uint8_t *p = q->lines, *ahead = q->ahead;
    const int8_t *code = q->x.code;
    const float *scale = q->x.scale;
    const int32_t *neg_sum = q->x.neg_sum;
    const int16_t *neg_subsums = q->x.neg_subsums;
    __m512 f[2][ACT_ROWS];
    UNROLLED (m, mr) {
        UNROLLED (i, 2) f[i][m] = q->first ? _mm512_setzero_ps() : _mm512_load_ps(q->sums + (2 * m + i) * PANEL_ROWS);
    }
    for (int s = 0; s < q->k_tiles;
         s++, p += lines * 2 * PANEL_LINE, scale += mr, neg_sum += mr, neg_subsums += mr * ACT_SUBSUMS) {
        const uint8_t *tail = p + 16 * 2 * PANEL_LINE;
        __m512i whole[2][ACT_ROWS];
        for (int l = 0; l < q->n_ahead; l++, ahead += PANEL_LINE) prefetch_near(ahead);
        UNROLLED (m, mr) whole[0][m] = whole[1][m] = Q_ZERO();
        UNROLLED (b, blocks) {
            __m512i a[2][ACT_ROWS];
            UNROLLED (m, mr) a[0][m] = a[1][m] = q_start(k, neg_sum + m, neg_subsums + m * ACT_SUBSUMS, b);
            UNROLLED (four, c.block / 16) {
                UNROLLED (v, 4) {
                    const int g = 4 * four + v;
                    __m512i w0 = q_wide_line(p, b * c.block / 4 + g, 0), w1 = q_wide_line(p, b * c.block / 4 + g, 1);
                    UNROLLED (m, mr) {
                        __m512i x = _mm512_set1_epi32(q_four(code + (g * mr + m) * 4));
                        a[0][m] = _mm512_dpbusd_epi32(a[0][m], w0, x);
                        a[1][m] = _mm512_dpbusd_epi32(a[1][m], w1, x);
                    }
                }
            }
            code += c.block * mr;
            UNROLLED (i, 2) {
                UNROLLED (m, mr) {
                    if (!c.two) whole[i][m] = a[i][m];
                    else
                        whole[i][m] = _mm512_add_epi32(whole[i][m],
                                                       _mm512_mullo_epi32(a[i][m], q_wide_line(tail, b, i)));
                }
            }
        }
        UNROLLED (i, 2) {
            __m512 d = q_wide_floats(tail, c.two ? blocks : 0, i);
            UNROLLED (m, mr)
                f[i][m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole[i][m]), _mm512_mul_ps(d, _mm512_set1_ps(scale[m])),
                                          f[i][m]);
        }
    }
    UNROLLED (i, 2) {
        UNROLLED (m, mr) {
            if (!q->last) {
                _mm512_store_ps(q->sums + (2 * m + i) * PANEL_ROWS, f[i][m]);
                continue;
            }
            if (q->bias) f[i][m] = _mm512_add_ps(f[i][m], _mm512_maskz_loadu_ps(lanes[i], q->bias + i * PANEL_ROWS));
            _mm512_mask_storeu_ps(q->y + m * q->ldy + i * PANEL_ROWS, lanes[i], f[i][m]);
        }
    }
}

/* X(name, two levels, block) */
#define QCLASS_LIST(X)                                                                                                 \
    X(PICK, false, 64)                                                                                                 \
    X(S32, true, 32)                                                                                                   \
    X(S16, true, 16)

#define QWIDE(name, mr, ...)                                                                                           \
    static void qwide_##name##_##mr(const qwide_job *q) { q_wide_tile((qclass){__VA_ARGS__}, mr, q); }
#define QWIDES(name, ...)                                                                                              \
    QWIDE(name, 3, __VA_ARGS__) QWIDE(name, 4, __VA_ARGS__) QWIDE(name, 5, __VA_ARGS__) QWIDE(name, 6, __VA_ARGS__)
QCLASS_LIST(QWIDES)

const qwide_fn *qwide_bodies(const panel_format *f)
{
    static const struct {
        qclass class;
        qwide_fn body[ACT_ROWS - QWIDE_MIN + 1];
    } all[] = {
#define QWIDE_ROW(name, ...) {{__VA_ARGS__}, {qwide_##name##_3, qwide_##name##_4, qwide_##name##_5, qwide_##name##_6}},
        QCLASS_LIST(QWIDE_ROW)};
    const qkind k = {f->bits, f->block, f->span, f->scale, f->base, f->code, f->zero};
    const qclass c = q_class(k);
    for (size_t i = 0; i < sizeof all / sizeof *all && q_widens(k); i++)
        if (all[i].class.two == c.two && all[i].class.block == c.block) return all[i].body;
    return NULL;
}

#define QWIDEN(name, ...)                                                                                              \
    static void qwiden_##name(const panel_format *f, const int8_t *level, const uint8_t *panel, int k_tiles, int i,    \
                              uint8_t *lines)                                                                          \
    {                                                                                                                  \
        const qkind k = Q_KIND(name, __VA_ARGS__);                                                                     \
        if (q_widens(k)) q_widen(k, f, level, panel, k_tiles, i, lines);                                               \
    }
#define QWIDEN_NAME(name, ...) [PANEL_KIND_##name] = qwiden_##name,
PANEL_KIND_LIST(QWIDEN)
const qwiden_fn qwiden_avx512[PANEL_KINDS] = {PANEL_KIND_LIST(QWIDEN_NAME)};
