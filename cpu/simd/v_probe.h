/* v_probe.h - loops that only read, or only multiply and add: the bounds of cpu_probe.h for one instruction set. */
#pragma once
#include "cpu/cpu.h"
#include "cpu/simd/v_step.h"

enum { CHAINS = 12 }; /* independent sums: more than latency times instructions per cycle */

#if defined(__AVX512F__)
typedef __m512i probe_int;
#define PROBE_XOR     _mm512_xor_si512
#define PROBE_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define PROBE_INT(b)  _mm512_set1_epi8(b)
INLINE probe_int probe_dot(probe_int sum, probe_int a, probe_int b) { return _mm512_dpbusd_epi32(sum, a, b); }
#elif defined(__aarch64__)
typedef s4 probe_int;
#define PROBE_XOR     veorq_s32
#define PROBE_LOAD(p) vld1q_s32((const void *)(p))
#define PROBE_INT(b)  vreinterpretq_s32_s8(vdupq_n_s8(b))
INLINE probe_int probe_dot(probe_int sum, probe_int a, probe_int b)
{
    return s4_dot(sum, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b), 0);
}
#else
typedef __m256i probe_int;
#define PROBE_XOR     _mm256_xor_si256
#define PROBE_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define PROBE_INT(b)  _mm256_set1_epi8(b)
INLINE probe_int probe_dot(probe_int sum, probe_int a, probe_int b)
{
#if defined(__AVXVNNI__)
    (void)a; /* another copy of each sum would not fit into sixteen registers */
    return _mm256_dpbusd_avx_epi32(sum, b, b);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
#endif
}
#endif

static _Thread_local volatile uint8_t probe_sink;

INLINE void probe_end(const probe_int *s, int n) /* n is known where it is used */
{
    probe_int all = s[0];
    _Pragma("GCC unroll 12") for (int i = 1; i < n; i++) all = PROBE_XOR(all, s[i]);
    uint8_t bytes[sizeof all];
    memcpy(bytes, &all, sizeof all);
    for (size_t i = 0; i < sizeof all; i++) probe_sink = bytes[i];
}

INLINE void probe_streams(const uint8_t *from, uint64_t bytes, int streams, int ahead)
{
    uint64_t each = bytes / (uint64_t)streams / 256 * 256;
    probe_int s[4] = {PROBE_INT(0), PROBE_INT(0), PROBE_INT(0), PROBE_INT(0)};
    for (uint64_t i = 0; i < each; i += 256) {
        UNROLLED (k, streams) {
            const uint8_t *p = from + (uint64_t)k * each + i;
            UNROLL for (int j = 0; ahead && j < 256; j += 64)
                prefetch_near((const void *)((uintptr_t)p + (uintptr_t)(ahead + j)));
            UNROLL for (int j = 0; j < 256; j += (int)sizeof(probe_int))
            {
                int chain = j / (int)sizeof(probe_int) % 4;
                s[chain] = PROBE_XOR(s[chain], PROBE_LOAD(p + j));
            }
        }
    }
    probe_end(s, 4);
}

static void probe_read(const uint8_t *from, uint64_t bytes, int streams, int ahead)
{
    if (streams == 1 && !ahead) probe_streams(from, bytes, 1, 0);
    else if (streams == 1) probe_streams(from, bytes, 1, 4096);
    else if (streams == 2 && !ahead) probe_streams(from, bytes, 2, 0);
    else if (streams == 2) probe_streams(from, bytes, 2, 4096);
    else probe_streams(from, bytes, 4, 0);
}

static uint64_t probe_multiply(uint64_t rounds)
{
    vreg a[CHAINS], u, v;
    float start[LANES + CHAINS], ones[STEP], small[STEP];
    for (int i = 0; i < LANES + CHAINS; i++) start[i] = (float)i;
    for (int i = 0; i < STEP; i++) {
        ones[i] = 1;
        small[i] = 1e-4f;
    }
    u = vreg_load_step(DTYPE_F32, (const uint8_t *)ones, 0);
    v = vreg_load_step(DTYPE_F32, (const uint8_t *)small, 0);
    _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)
        a[i] = vreg_load(start + i); /* all different: equal sums would be one */
    for (uint64_t r = 0; r < rounds; r++) {
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) a[i] = vreg_dot(u, v, a[i]);
    }
    _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)
    {
        vreg_store(start, a[i]);
        probe_sink = (uint8_t)start[0];
    }
    return rounds * CHAINS * VREG_LANES * (STEP / LANES) * 2;
}

static uint64_t probe_multiply_int8(uint64_t rounds)
{
    probe_int a[CHAINS], v = PROBE_INT(1); /* each sum is an operand of its own next step: nothing can be hoisted */
    _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) a[i] = PROBE_INT((char)i);
    for (uint64_t r = 0; r < rounds; r++) {
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) a[i] = probe_dot(a[i], a[i], v);
    }
    probe_end(a, CHAINS);
    return rounds * CHAINS * sizeof(probe_int) * 2;
}
