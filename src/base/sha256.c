/* sha256.c - see sha256.h. Processors that have instructions for it (x86 SHA, Arm SHA2) are found when it runs; they do
 * four rounds at a time on half of the state each (Intel's "SHA Extensions" 2013; Arm ARM C7.2, SHA256H). */
#include "base/sha256.h"

#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

/* FIPS 180-4, 4.2.2: fractions of the cube roots of the first 64 primes. */
static const uint32_t round_words[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, int n) { return x >> n | x << (32 - n); }

static uint32_t word_at(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

void sha256_blocks_c(uint32_t h[8], const uint8_t *p, size_t n)
{
    for (; n > 0; n--, p += SHA256_BLOCK) {
        uint32_t w[64], a[8];
        for (int i = 0; i < 16; i++) w[i] = word_at(p + 4 * i);
        for (int i = 16; i < 64; i++)
            w[i] = w[i - 16] + w[i - 7] + (rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3) +
                   (rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10);
        memcpy(a, h, sizeof a);
        for (int i = 0; i < 64; i += 8)
#pragma GCC unroll 8
            for (int k = 0; k < 8; k++) { /* a to h of the standard are a[-k] to a[7 - k], modulo 8 */
                uint32_t a0 = a[-k & 7], b0 = a[(1 - k) & 7], c0 = a[(2 - k) & 7], e0 = a[(4 - k) & 7];
                uint32_t t1 = a[(7 - k) & 7] + (rotate_right(e0, 6) ^ rotate_right(e0, 11) ^ rotate_right(e0, 25)) +
                              ((e0 & a[(5 - k) & 7]) ^ (~e0 & a[(6 - k) & 7])) + round_words[i + k] + w[i + k];
                a[(3 - k) & 7] += t1;
                a[(7 - k) & 7] = t1 + (rotate_right(a0, 2) ^ rotate_right(a0, 13) ^ rotate_right(a0, 22)) +
                                 ((a0 & b0) ^ (a0 & c0) ^ (b0 & c0));
            }
        for (int i = 0; i < 8; i++) h[i] += a[i];
    }
}

#if defined(__x86_64__)

/* State as the instructions have it: words a, b, e, f in one register, c, d, g, h in the other, the first one on top.
 * w[i & 3] are words 4 i to 4 i + 3. */
__attribute__((target("sha,sse4.1"))) static void blocks_sha(uint32_t h[8], const uint8_t *p, size_t n)
{
    const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __m128i abef = _mm_set_epi32((int)h[0], (int)h[1], (int)h[4], (int)h[5]);
    __m128i cdgh = _mm_set_epi32((int)h[2], (int)h[3], (int)h[6], (int)h[7]);
    for (; n > 0; n--, p += SHA256_BLOCK) {
        __m128i w[4], abef0 = abef, cdgh0 = cdgh;
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i *now = &w[i & 3], last = w[(i + 3) & 3];
            if (i < 4) {
                *now = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p + i), swap);
            } else {
                __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(*now, w[(i + 1) & 3]),
                                            _mm_alignr_epi8(last, w[(i + 2) & 3], 4));
                *now = _mm_sha256msg2_epu32(sum, last);
            }
            __m128i k = _mm_add_epi32(*now, _mm_loadu_si128((const __m128i *)(round_words + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef0);
        cdgh = _mm_add_epi32(cdgh, cdgh0);
    }
    h[0] = (uint32_t)_mm_extract_epi32(abef, 3), h[1] = (uint32_t)_mm_extract_epi32(abef, 2);
    h[4] = (uint32_t)_mm_extract_epi32(abef, 1), h[5] = (uint32_t)_mm_extract_epi32(abef, 0);
    h[2] = (uint32_t)_mm_extract_epi32(cdgh, 3), h[3] = (uint32_t)_mm_extract_epi32(cdgh, 2);
    h[6] = (uint32_t)_mm_extract_epi32(cdgh, 1), h[7] = (uint32_t)_mm_extract_epi32(cdgh, 0);
}

static sha256_blocks *choose_blocks(void)
{
    unsigned a, b, c, d, leaf7 = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) leaf7 = b;
    bool can = leaf7 >> 29 & 1 && __get_cpuid(1, &a, &b, &c, &d) && c >> 19 & 1; /* SHA, SSE4.1 */
    return can ? blocks_sha : sha256_blocks_c;
}

#elif defined(__aarch64__)

__attribute__((target("+crypto"))) static void blocks_sha(uint32_t h[8], const uint8_t *p, size_t n)
{
    uint32x4_t abcd = vld1q_u32(h), efgh = vld1q_u32(h + 4);
    for (; n > 0; n--, p += SHA256_BLOCK) {
        uint32x4_t w[4], abcd0 = abcd, efgh0 = efgh;
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            uint32x4_t *now = &w[i & 3];
            if (i < 4) *now = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p + 16 * i)));
            else *now = vsha256su1q_u32(vsha256su0q_u32(*now, w[(i + 1) & 3]), w[(i + 2) & 3], w[(i + 3) & 3]);
            uint32x4_t k = vaddq_u32(*now, vld1q_u32(round_words + 4 * i)), before = abcd;
            abcd = vsha256hq_u32(abcd, efgh, k);
            efgh = vsha256h2q_u32(efgh, before, k);
        }
        abcd = vaddq_u32(abcd, abcd0);
        efgh = vaddq_u32(efgh, efgh0);
    }
    vst1q_u32(h, abcd);
    vst1q_u32(h + 4, efgh);
}

static sha256_blocks *choose_blocks(void) { return getauxval(AT_HWCAP) & HWCAP_SHA2 ? blocks_sha : sha256_blocks_c; }

#else

static sha256_blocks *choose_blocks(void) { return sha256_blocks_c; }

#endif

sha256_blocks *sha256_best(void)
{
    static _Atomic(sha256_blocks *) best;
    sha256_blocks *b = best;
    if (!b) best = b = choose_blocks();
    return b;
}

void sha256_init(sha256 *s)
{
    /* FIPS 180-4, 5.3.3: fractions of the square roots of the first 8 primes */
    *s = (sha256){
        .h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(sha256 *s, const void *data, size_t n)
{
    const uint8_t *p = data;
    sha256_blocks *enter = sha256_best();
    size_t held = s->n % SHA256_BLOCK;
    if (n == 0) return;
    s->n += n;
    if (held) {
        size_t more = n < SHA256_BLOCK - held ? n : SHA256_BLOCK - held;
        memcpy(s->block + held, p, more);
        p += more, n -= more;
        if (held + more < SHA256_BLOCK) return;
        enter(s->h, s->block, 1);
    }
    enter(s->h, p, n / SHA256_BLOCK);
    if (n % SHA256_BLOCK) memcpy(s->block, p + n / SHA256_BLOCK * SHA256_BLOCK, n % SHA256_BLOCK);
}

void sha256_end(sha256 *s, uint8_t digest[SHA256_BYTES])
{
    uint8_t pad[SHA256_BLOCK + 8] = {0x80};
    uint64_t bits = s->n * 8;
    size_t zeros = (SHA256_BLOCK + 55 - s->n % SHA256_BLOCK) % SHA256_BLOCK; /* up to 8 bytes before a block's end */
    for (int i = 0; i < 8; i++) pad[1 + zeros + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(s, pad, 1 + zeros + 8);
    for (int i = 0; i < SHA256_BYTES; i++) digest[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_of(const void *p, size_t n, uint8_t digest[SHA256_BYTES])
{
    sha256 s;
    sha256_init(&s);
    sha256_add(&s, p, n);
    sha256_end(&s, digest);
}

void sha256_hex(const uint8_t *digest, size_t n, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) text[2 * i] = digits[digest[i] >> 4], text[2 * i + 1] = digits[digest[i] & 15];
    text[2 * n] = 0;
}
